//! Words of instructions from their fields.

/// With an immediate of twelve bits: arithmetic, loads, `jalr`.
pub const fn i_type(opcode: u32, funct3: u32, rd: u32, rs1: u32, immediate: i32) -> u32 {
    (immediate as u32) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode
}

/// A store.
pub const fn s_type(opcode: u32, funct3: u32, rs1: u32, rs2: u32, immediate: i32) -> u32 {
    let immediate = immediate as u32;
    (immediate >> 5 & 0x7f) << 25
        | rs2 << 20
        | rs1 << 15
        | funct3 << 12
        | (immediate & 0x1f) << 7
        | opcode
}

/// A jump by so many bytes.
pub const fn jal(rd: u32, offset: i32) -> u32 {
    let o = offset as u32;
    (o >> 20 & 1) << 31
        | (o >> 1 & 0x3ff) << 21
        | (o >> 11 & 1) << 20
        | (o >> 12 & 0xff) << 12
        | rd << 7
        | 0x6f
}

/// A branch like `word`, by so many bytes.
pub const fn branch(word: u32, offset: i32) -> u32 {
    let offset = offset as u32;
    word & 0x01ff_f07f
        | (offset >> 12 & 1) << 31
        | (offset >> 5 & 0x3f) << 25
        | (offset >> 1 & 0xf) << 8
        | (offset >> 11 & 1) << 7
}
