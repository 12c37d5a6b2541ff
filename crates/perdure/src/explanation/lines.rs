//! The line of a program's source that an instruction comes from, by its own debug information (DWARF).

use super::members::dwarf_of;

/// File and line of the instruction at an address of an ELF file, if it says so.
pub fn line_of(contents: &[u8], address: u64) -> Option<String> {
    let context = addr2line::Context::from_dwarf(dwarf_of(contents)?).ok()?;
    let location = context.find_location(address).ok()??;
    let (file, line) = (location.file?, location.line?);
    let name = file.rsplit('/').next().unwrap_or(file);
    Some(format!("{name}:{line}"))
}
