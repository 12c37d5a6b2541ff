//! Headers of the ELF files that are written here: core files, and the exerciser's program. Layout and
//! constants are the library's.

use object::LittleEndian as LE;
use object::elf::{
    ELFCLASS64, ELFDATA2LSB, ELFMAG, EM_RISCV, EV_CURRENT, FileHeader64, Ident, ProgramHeader64,
};
use object::endian::{U16, U32, U64};
use object::pod::bytes_of;

/// Bytes of the file's header.
pub(crate) const HEADER_BYTES: u64 = size_of::<FileHeader64<LE>>() as u64;
/// Bytes of a segment's header.
pub(crate) const SEGMENT_BYTES: u64 = size_of::<ProgramHeader64<LE>>() as u64;

/// A file for riscv64.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    /// `ET_…`.
    pub kind: u16,
    /// `EF_RISCV_…`.
    pub flags: u32,
    /// Where the program begins.
    pub entry: u64,
    /// Segments, whose headers follow at once.
    pub segments: u16,
    /// What the file says of a section's header, though it has no sections.
    pub section_header_bytes: u16,
}

impl Header {
    /// Appends it.
    pub fn append(self, out: &mut Vec<u8>) {
        let header = FileHeader64 {
            e_ident: Ident {
                magic: ELFMAG,
                class: ELFCLASS64,
                data: ELFDATA2LSB,
                version: EV_CURRENT,
                os_abi: 0,
                abi_version: 0,
                padding: [0; 7],
            },
            e_type: U16::new(LE, self.kind),
            e_machine: U16::new(LE, EM_RISCV),
            e_version: U32::new(LE, u32::from(EV_CURRENT)),
            e_entry: U64::new(LE, self.entry),
            e_phoff: U64::new(LE, HEADER_BYTES),
            e_shoff: U64::new(LE, 0),
            e_flags: U32::new(LE, self.flags),
            e_ehsize: U16::new(LE, HEADER_BYTES as u16),
            e_phentsize: U16::new(LE, SEGMENT_BYTES as u16),
            e_phnum: U16::new(LE, self.segments),
            e_shentsize: U16::new(LE, self.section_header_bytes),
            e_shnum: U16::new(LE, 0),
            e_shstrndx: U16::new(LE, 0),
        };
        out.extend_from_slice(bytes_of(&header));
    }
}

/// A segment.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    /// `PT_…`.
    pub kind: u32,
    /// `PF_…`.
    pub flags: u32,
    /// Where its bytes stand in the file.
    pub offset: u64,
    /// Where they belong in memory.
    pub address: u64,
    /// The same in physical memory, where that means something.
    pub physical_address: u64,
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// What its addresses are multiples of.
    pub alignment: u64,
}

impl Segment {
    /// Appends its header.
    pub fn append(self, out: &mut Vec<u8>) {
        let header = ProgramHeader64 {
            p_type: U32::new(LE, self.kind),
            p_flags: U32::new(LE, self.flags),
            p_offset: U64::new(LE, self.offset),
            p_vaddr: U64::new(LE, self.address),
            p_paddr: U64::new(LE, self.physical_address),
            p_filesz: U64::new(LE, self.file_bytes),
            p_memsz: U64::new(LE, self.memory_bytes),
            p_align: U64::new(LE, self.alignment),
        };
        out.extend_from_slice(bytes_of(&header));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field stands at its place.
    #[test]
    fn headers_are_as_they_always_were() {
        let mut out = Vec::new();
        let header = Header {
            kind: 2,
            flags: 5,
            entry: 0x1_00b0,
            segments: 2,
            section_header_bytes: 64,
        };
        header.append(&mut out);
        let words = [
            [0x7f, b'E', b'L', b'F', 2, 1, 1, 0],
            [0; 8],
            [2, 0, 243, 0, 1, 0, 0, 0],
            [0xb0, 0, 1, 0, 0, 0, 0, 0],
            [64, 0, 0, 0, 0, 0, 0, 0],
            [0; 8],
            [5, 0, 0, 0, 64, 0, 56, 0],
            [2, 0, 64, 0, 0, 0, 0, 0],
        ];
        assert_eq!(out, words.as_flattened());
        out.clear();
        let segment = Segment {
            kind: 1,
            flags: 6,
            offset: 2,
            address: 3,
            physical_address: 4,
            file_bytes: 5,
            memory_bytes: 7,
            alignment: 8,
        };
        segment.append(&mut out);
        let numbers = [1 | 6 << 32, 2, 3, 4, 5, 7, 8].map(u64::to_le_bytes);
        assert_eq!(out, numbers.as_flattened());
    }
}
