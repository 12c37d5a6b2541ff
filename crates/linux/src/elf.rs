//! ELF files: what is loaded where, and which symbol holds an address.
//!
//! Always true: nothing in a file is trusted. Every offset, size and address is checked before
//! use, and a file that cannot be loaded says why in one sentence.

use object::LittleEndian as Little;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};

use crate::address_space::SPACE_END;
use crate::machine::PAGE_BYTES;
use crate::page_table::{EXECUTE, READ, WRITE};

type Header = elf::FileHeader64<Little>;

/// More program headers than any real file has.
const PROGRAM_HEADERS_MAX: usize = 1024;
const INTERPRETER_BYTES_MAX: u64 = 4096;

/// Why an ELF file cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// Wrong magic.
    #[error("it is not an ELF file; give a program built for riscv64 Linux")]
    NotElf,
    /// 32 bits, or big-endian.
    #[error("it is not a 64-bit little-endian ELF file; build it for riscv64")]
    Format,
    /// Another architecture.
    #[error("it is built for {0}, not for RISC-V; build it for riscv64 Linux")]
    Machine(String),
    /// An object file, a core dump.
    #[error("it is {0}, not a program; link it first")]
    Kind(&'static str),
    /// RV64E or quad precision.
    #[error("it needs the {0} calling convention, which this machine has not")]
    Convention(&'static str),
    /// Cut off.
    #[error("it is truncated: {0} lies beyond its {1} bytes")]
    Truncated(&'static str, u64),
    /// Contradicts itself.
    #[error("its headers are damaged: {0}")]
    Damaged(&'static str),
}

/// A loadable segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub address: u64,
    pub memory_bytes: u64,
    pub file_offset: u64,
    pub file_bytes: u64,
    pub permissions: u64,
}

/// What a loader needs of an ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub entry: u64,
    pub segments: Vec<Segment>,
    pub interpreter: Option<String>,
    /// Virtual address of the program headers, 0 if they are not loaded.
    pub headers_address: u64,
    pub header_bytes: u64,
    pub header_count: u64,
    /// Loadable anywhere.
    pub relocatable: bool,
    /// Of the stack: code may lie there, too, where nested functions are called.
    pub stack_permissions: u64,
    /// Alignment of the load address.
    pub alignment: u64,
}

impl Image {
    /// Lowest and highest address, in whole pages.
    pub fn extent(&self) -> (u64, u64) {
        let low = self.segments.iter().map(|s| s.address).min().unwrap_or(0);
        let high = self
            .segments
            .iter()
            .map(|s| s.address + s.memory_bytes)
            .max()
            .unwrap_or(0);
        (low & !(PAGE_BYTES - 1), high.next_multiple_of(PAGE_BYTES))
    }
}

fn machine_name(machine: u16) -> String {
    match machine {
        elf::EM_386 => "x86".to_owned(),
        elf::EM_X86_64 => "x86-64".to_owned(),
        elf::EM_ARM => "Arm".to_owned(),
        elf::EM_AARCH64 => "AArch64".to_owned(),
        elf::EM_PPC64 => "PowerPC".to_owned(),
        elf::EM_S390 => "S/390".to_owned(),
        elf::EM_MIPS => "MIPS".to_owned(),
        elf::EM_LOONGARCH => "LoongArch".to_owned(),
        other => format!("architecture number {other}"),
    }
}

/// Reads and checks the headers of an ELF file of `length` bytes, of which `bytes` is the
/// beginning.
pub(crate) fn parse(bytes: &[u8], length: u64) -> Result<Image, ElfError> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err(ElfError::NotElf);
    }
    match (bytes.get(4), bytes.get(5)) {
        (Some(&elf::ELFCLASS64), Some(&elf::ELFDATA2LSB)) => {}
        (Some(_), Some(_)) => return Err(ElfError::Format),
        _ => return Err(ElfError::Truncated("the file header", length)),
    }
    if length < size_of::<Header>() as u64 {
        return Err(ElfError::Truncated("the file header", length));
    }
    let header = Header::parse(bytes).map_err(|_| ElfError::Damaged("the file header"))?;
    let machine = header.e_machine.get(Little);
    if machine != elf::EM_RISCV {
        return Err(ElfError::Machine(machine_name(machine)));
    }
    let relocatable = match header.e_type.get(Little) {
        elf::ET_EXEC => false,
        elf::ET_DYN => true,
        elf::ET_REL => return Err(ElfError::Kind("an object file")),
        elf::ET_CORE => return Err(ElfError::Kind("a core dump")),
        _ => return Err(ElfError::Kind("of an unknown type")),
    };
    let flags = header.e_flags.get(Little);
    if flags & elf::EF_RISCV_RVE != 0 {
        return Err(ElfError::Convention("RVE"));
    }
    if flags & elf::EF_RISCV_FLOAT_ABI_QUAD == elf::EF_RISCV_FLOAT_ABI_QUAD {
        return Err(ElfError::Convention("quad-precision"));
    }
    let headers = header
        .program_headers(Little, bytes)
        .map_err(|_| ElfError::Truncated("the program header table", length))?;
    if headers.len() > PROGRAM_HEADERS_MAX {
        return Err(ElfError::Damaged("it has more than 1024 program headers"));
    }
    let mut image = Image {
        entry: header.e_entry.get(Little),
        segments: Vec::new(),
        interpreter: None,
        headers_address: 0,
        header_bytes: u64::from(header.e_phentsize.get(Little)),
        header_count: headers.len() as u64,
        relocatable,
        stack_permissions: READ | WRITE,
        alignment: PAGE_BYTES,
    };
    let table = header.e_phoff.get(Little);
    for program in headers {
        match program.p_type(Little) {
            elf::PT_LOAD => load_segment(program, length, table, &mut image)?,
            elf::PT_GNU_STACK => {
                image.stack_permissions |= permissions(program.p_flags(Little)) & EXECUTE;
            }
            elf::PT_INTERP => image.interpreter = Some(interpreter(program, bytes)?),
            _ => {}
        }
    }
    check_layout(&image)?;
    Ok(image)
}

fn load_segment(
    program: &elf::ProgramHeader64<Little>,
    length: u64,
    table: u64,
    image: &mut Image,
) -> Result<(), ElfError> {
    let segment = Segment {
        address: program.p_vaddr(Little),
        memory_bytes: program.p_memsz(Little),
        file_offset: program.p_offset(Little),
        file_bytes: program.p_filesz(Little),
        permissions: permissions(program.p_flags(Little)),
    };
    if segment.memory_bytes == 0 {
        return Ok(());
    }
    if segment.file_bytes > segment.memory_bytes {
        return Err(ElfError::Damaged(
            "a segment is larger in the file than in memory",
        ));
    }
    let file_end = segment.file_offset.checked_add(segment.file_bytes);
    if file_end.is_none_or(|end| end > length) {
        return Err(ElfError::Truncated("a segment", length));
    }
    let end = segment.address.checked_add(segment.memory_bytes);
    if end.is_none_or(|end| end > SPACE_END / 2) {
        return Err(ElfError::Damaged(
            "a segment lies outside the address space",
        ));
    }
    if segment.address % PAGE_BYTES != segment.file_offset % PAGE_BYTES {
        return Err(ElfError::Damaged(
            "a segment's address and file offset differ within a page",
        ));
    }
    let alignment = program.p_align(Little);
    if alignment > 1 && (!alignment.is_power_of_two() || alignment > 1 << 30) {
        return Err(ElfError::Damaged(
            "a segment's alignment is not a sensible power of two",
        ));
    }
    image.alignment = image.alignment.max(alignment);
    if table >= segment.file_offset && table < segment.file_offset + segment.file_bytes {
        image.headers_address = segment.address + (table - segment.file_offset);
    }
    image.segments.push(segment);
    Ok(())
}

fn permissions(flags: u32) -> u64 {
    let mut permissions = 0;
    if flags & elf::PF_R != 0 {
        permissions |= READ;
    }
    if flags & elf::PF_W != 0 {
        permissions |= READ | WRITE;
    }
    if flags & elf::PF_X != 0 {
        permissions |= EXECUTE;
    }
    permissions
}

fn interpreter(program: &elf::ProgramHeader64<Little>, bytes: &[u8]) -> Result<String, ElfError> {
    let size = program.p_filesz(Little);
    if size > INTERPRETER_BYTES_MAX {
        return Err(ElfError::Damaged(
            "the interpreter's name is longer than 4096 bytes",
        ));
    }
    let raw = program
        .data(Little, bytes)
        .map_err(|()| ElfError::Truncated("the interpreter's name", bytes.len() as u64))?;
    let name = raw.split(|&byte| byte == 0).next().unwrap_or_default();
    match std::str::from_utf8(name) {
        Ok(name) if name.starts_with('/') => Ok(name.to_owned()),
        _ => Err(ElfError::Damaged(
            "the interpreter's name is not an absolute path",
        )),
    }
}

fn check_layout(image: &Image) -> Result<(), ElfError> {
    if image.segments.is_empty() {
        return Err(ElfError::Damaged("it has no loadable segment"));
    }
    for pair in image.segments.windows(2) {
        if pair[1].address < pair[0].address + pair[0].memory_bytes {
            return Err(ElfError::Damaged(
                "its segments overlap or are out of order",
            ));
        }
    }
    let executable = image.segments.iter().any(|s| {
        s.permissions & EXECUTE != 0
            && image.entry >= s.address
            && image.entry - s.address < s.memory_bytes
    });
    if !executable {
        return Err(ElfError::Damaged(
            "its entry point lies in no executable segment",
        ));
    }
    let (low, _) = image.extent();
    if !image.relocatable && low < crate::address_space::LOWEST {
        return Err(ElfError::Damaged("a segment lies below the lowest address"));
    }
    Ok(())
}

/// A named piece of a program's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, without a version.
    pub name: String,
    /// Its address in the file.
    pub address: u64,
    /// Its size; 0 where the file does not say.
    pub bytes: u64,
    /// It is data, not code.
    pub data: bool,
    /// It is known beyond its own source file.
    pub global: bool,
}

/// The data and functions that a file names: all of its symbol table, or of the dynamic one if it was
/// stripped. Thread-local ones have no address and are left out.
pub fn symbols(bytes: &[u8]) -> Vec<Symbol> {
    let mut found = Vec::new();
    let Ok(header) = Header::parse(bytes) else {
        return found;
    };
    let Ok(sections) = header.sections(Little, bytes) else {
        return found;
    };
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let Ok(table) = sections.symbols(Little, bytes, kind) else {
            continue;
        };
        for symbol in table.iter() {
            let kind = symbol.st_type();
            let named = matches!(kind, elf::STT_FUNC | elf::STT_OBJECT | elf::STT_NOTYPE);
            let name = symbol.name(Little, table.strings());
            let name = name.ok().and_then(|name| std::str::from_utf8(name).ok());
            let Some(name) = name.filter(|name| !name.is_empty() && !name.starts_with('$')) else {
                continue;
            };
            let section = symbol.st_shndx(Little);
            if !named || section == elf::SHN_UNDEF || section == elf::SHN_ABS {
                continue;
            }
            found.push(Symbol {
                name: name.to_owned(),
                address: symbol.st_value(Little),
                bytes: symbol.st_size(Little),
                data: kind == elf::STT_OBJECT,
                global: symbol.st_bind() != elf::STB_LOCAL,
            });
        }
        if !found.is_empty() {
            break;
        }
    }
    found
}

/// True for a program or library: what a kernel loads and a linker links against.
pub(crate) fn is_loadable(bytes: &[u8]) -> bool {
    Header::parse(bytes).is_ok_and(|header| {
        bytes.starts_with(b"\x7fELF")
            && matches!(header.e_type.get(Little), elf::ET_EXEC | elf::ET_DYN)
    })
}

/// The symbol that holds a virtual address of the file, and the offset in it.
pub(crate) fn symbol(bytes: &[u8], address: u64) -> Option<(String, u64)> {
    let header = Header::parse(bytes).ok()?;
    let sections = header.sections(Little, bytes).ok()?;
    let found = [elf::SHT_SYMTAB, elf::SHT_DYNSYM]
        .into_iter()
        .find_map(|kind| {
            let symbols = sections.symbols(Little, bytes, kind).ok()?;
            let strings = symbols.strings();
            let held = |symbol: &&elf::Sym64<Little>| {
                let named = matches!(
                    symbol.st_type(),
                    elf::STT_FUNC | elf::STT_OBJECT | elf::STT_NOTYPE
                );
                let start = symbol.st_value(Little);
                let size = symbol.st_size(Little).max(1);
                // `$x` and its like mark code and data for disassemblers; they name nothing.
                let marks = || {
                    let name = symbol.name(Little, strings);
                    name.is_ok_and(|name| name.starts_with(b"$"))
                };
                named
                    && symbol.st_shndx(Little) != 0
                    && address >= start
                    && address - start < size
                    && !marks()
            };
            // The innermost one; of equals the first.
            let symbol = symbols
                .iter()
                .filter(held)
                .max_by_key(|s| s.st_value(Little))?;
            let name = symbol.name(Little, strings).ok()?;
            let name = std::str::from_utf8(name)
                .ok()
                .filter(|name| !name.is_empty())?;
            Some((name.to_owned(), address - symbol.st_value(Little)))
        });
    // A section's name is better than nothing.
    found.or_else(|| {
        sections.iter().find_map(|section| {
            let start = section.sh_addr(Little);
            let inside =
                start != 0 && address >= start && address - start < section.sh_size(Little);
            let name = sections.section_name(Little, section).ok()?;
            inside.then(|| Some((std::str::from_utf8(name).ok()?.to_owned(), address - start)))?
        })
    })
}
