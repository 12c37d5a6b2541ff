//! The line of a program's source that an instruction comes from, by its own debug information (DWARF).

use super::members::dwarf_of;

/// A function that an instruction is part of, be it that it was inlined into the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its name.
    pub function: Option<String>,
    /// The file, as the compiler was given it.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

/// The functions that the instruction at an address of an ELF file is part of, the innermost first.
pub fn frames_of(contents: &[u8], address: u64) -> Vec<Frame> {
    let context = dwarf_of(contents).and_then(|dwarf| addr2line::Context::from_dwarf(dwarf).ok());
    let Some(context) = context else {
        return Vec::new();
    };
    let mut frames = Vec::new();
    let Ok(mut found) = context.find_frames(address).skip_all_loads() else {
        return frames;
    };
    while let Ok(Some(frame)) = found.next() {
        let name = frame
            .function
            .and_then(|name| name.raw_name().ok().map(Into::into));
        let location = frame.location;
        frames.push(Frame {
            function: name,
            file: location
                .as_ref()
                .and_then(|one| one.file.map(str::to_owned)),
            line: location.and_then(|one| one.line),
        });
    }
    frames
}
