//! Where an instruction lies, for people: its address, its function, and its line of the source.
//!
//! Always true here: what nobody knows is left out; nothing is guessed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use perdure_linux::inspect::{FileKey, LoadedFile};
use perdure_linux::{Kernel, SpaceId};
use serde::Serialize;

use crate::dwarf::{Reader, dwarf_of};

/// An instruction's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CodePlace {
    /// Its address, as text.
    pub address: String,
    /// The function that has it.
    pub function: Option<String>,
    /// Bytes behind the beginning of the function.
    pub offset: Option<u64>,
    /// The source file, by its base name.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

impl fmt::Display for CodePlace {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        write!(to, "{}", self.address)?;
        if let (Some(function), Some(offset)) = (&self.function, self.offset) {
            write!(to, " <{function}+{offset}>")?;
        }
        if let (Some(file), Some(line)) = (&self.file, self.line) {
            write!(to, " {file}:{line}")?;
        }
        Ok(())
    }
}

/// A function that an instruction is part of, be it that it was inlined into the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its name.
    pub function: Option<String>,
    /// The file, as the compiler was given it.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

/// What debug information says of instructions, file by file as it is asked for.
#[derive(Default)]
pub(crate) struct Sources(BTreeMap<FileKey, Option<addr2line::Context<Reader>>>);

impl Sources {
    fn context(&mut self, file: &LoadedFile) -> Option<&addr2line::Context<Reader>> {
        let read = || addr2line::Context::from_dwarf(dwarf_of(&file.contents)?).ok();
        let context = self.0.entry(file.key.clone()).or_insert_with(read);
        context.as_ref()
    }

    /// The functions that the instruction at a file's own address is part of, the innermost first.
    pub fn frames(&mut self, file: &LoadedFile, address: u64) -> Vec<Frame> {
        let found = self
            .context(file)
            .map(|context| context.find_frames(address));
        let Some(Ok(mut found)) = found.map(addr2line::LookupResult::skip_all_loads) else {
            return Vec::new();
        };
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = found.next() {
            let name = (frame.function).and_then(|name| name.raw_name().ok().map(Into::into));
            let location = frame.location;
            let file = location.as_ref().and_then(|one| one.file);
            frames.push(Frame {
                function: name,
                file: file.map(str::to_owned),
                line: location.and_then(|one| one.line),
            });
        }
        frames
    }

    /// File and line of the instruction at a file's own address, if it says so.
    fn line(&mut self, file: &LoadedFile, address: u64) -> Option<(String, u32)> {
        let location = self.context(file)?.find_location(address).ok()??;
        let name = Path::new(location.file?).file_name()?;
        Some((name.to_str()?.to_owned(), location.line?))
    }

    /// The place of an instruction in an address space.
    pub fn place(&mut self, kernel: &Kernel, space: SpaceId, address: u64) -> CodePlace {
        let symbol = kernel.symbol(space, address);
        let mappings = kernel.mappings(space);
        let mut own = mappings.iter();
        let name = (own.find(|one| (one.start..one.end).contains(&address))).map(|one| &one.name);
        let files = kernel.loaded_files(space);
        // The program's own file is read into frames of the process, and its mappings have no name.
        let file = files.iter().find(|file| Some(&file.name) == name);
        let file = file.or_else(|| files.first());
        let source = file.and_then(|file| self.line(file, address.wrapping_sub(file.bias)));
        let (function, offset) = symbol.unzip();
        let (file, line) = source.unzip();
        CodePlace {
            address: format!("{address:#x}"),
            function,
            offset,
            file,
            line,
        }
    }
}
