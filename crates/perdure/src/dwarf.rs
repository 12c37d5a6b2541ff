//! Debug information (DWARF) of ELF files.
//!
//! Always true here: a section that is missing, or packed in a way that nobody knows, is an empty one.

use std::borrow::Cow;
use std::sync::Arc;

use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianArcSlice, LittleEndian};
use object::read::elf::ElfFile64;
use object::{CompressionFormat, Endianness, Object, ObjectSection};

pub(crate) type Reader = EndianArcSlice<LittleEndian>;
pub(crate) type Parsed<T> = Result<T, gimli::Error>;

/// A section's bytes; none if there is no such section.
fn section(file: &ElfFile64<Endianness>, name: &str) -> Vec<u8> {
    let data = file
        .section_by_name(name)
        .and_then(|one| one.compressed_data().ok());
    let Some(data) = data else {
        return Vec::new();
    };
    let bytes = match data.format {
        CompressionFormat::None => Some(Cow::Borrowed(data.data)),
        CompressionFormat::Zlib => {
            let unpacked = miniz_oxide::inflate::decompress_to_vec_zlib(data.data);
            unpacked.ok().map(Cow::Owned)
        }
        _ => None,
    };
    bytes.map(Cow::into_owned).unwrap_or_default()
}

/// The debug information of an ELF file.
pub(crate) fn dwarf_of(contents: &[u8]) -> Option<gimli::Dwarf<Reader>> {
    let file = ElfFile64::<Endianness>::parse(contents).ok()?;
    let load = |id: gimli::SectionId| -> Parsed<Reader> {
        let bytes: Arc<[u8]> = section(&file, id.name()).into();
        Ok(EndianArcSlice::new(bytes, LittleEndian))
    };
    gimli::Dwarf::load(load).ok()
}

/// What an ELF file says of its functions' frames, and the addresses that its sections have.
pub(crate) fn frames_of(
    contents: &[u8],
) -> Option<(BaseAddresses, EhFrame<Reader>, DebugFrame<Reader>)> {
    let file = ElfFile64::<Endianness>::parse(contents).ok()?;
    let load = |name| EndianArcSlice::new(section(&file, name).into(), LittleEndian);
    let address = |name| file.section_by_name(name).map_or(0, |one| one.address());
    let bases = BaseAddresses::default()
        .set_eh_frame(address(".eh_frame"))
        .set_text(address(".text"))
        .set_got(address(".got"));
    let (eh_frame, debug_frame) = (load(".eh_frame"), load(".debug_frame"));
    Some((bases, eh_frame.into(), debug_frame.into()))
}
