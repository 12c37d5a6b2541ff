//! Where an instruction comes from: its function, file and line, by symbols and debug information (DWARF).
//!
//! Always true here: nothing is guessed. A program without either has addresses.

use std::collections::BTreeMap;

use perdure_linux::Kernel;
use perdure_linux::SpaceId;
use perdure_linux::inspect::LoadedFile;
use serde::{Deserialize, Serialize};

use crate::code_place::{Frame, Sources};
use crate::demangle;
use crate::functional::Functional;

/// The header whose functions stand for instructions: who calls them is more interesting.
const HEADER: &str = "perdure.h";

/// A place in a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The address.
    pub pc: String,
    /// The function, if it is known.
    pub function: Option<String>,
    /// The source file as the compiler was given it.
    pub file: Option<String>,
    /// The line there.
    pub line: Option<u32>,
}

/// A function's name, if it is one of Rust without the hash, which is another one each time.
fn in_words(name: String) -> String {
    demangle::rust(&name).unwrap_or(name)
}

/// Functions from which nobody wants to see who called them.
const OUTERMOST: [&str; 4] = ["main", "main.main", "__libc_start_main", "start_thread"];
/// Places of a call stack that are told.
const DEPTH: usize = 12;

/// The innermost place of which the source is known, or else the innermost.
pub fn innermost(stack: &[Place]) -> Option<&Place> {
    let known = stack.iter().find(|place| place.line.is_some());
    known.or(stack.first())
}

/// Names of a program's places while a machine runs it.
pub struct Names<'m> {
    kernel: &'m Kernel,
    space: Option<SpaceId>,
    files: Vec<LoadedFile>,
    known: &'m mut Known,
}

/// What is known of addresses: the function that one is in by the symbols, and the places that it is part of.
#[derive(Default)]
pub struct Known {
    places: BTreeMap<u64, (Option<String>, Vec<Place>)>,
    sources: Sources,
}

impl<'m> Names<'m> {
    /// Those of what a machine runs now.
    pub fn of(machine: &'m Functional, known: &'m mut Known) -> Self {
        let space = machine.running().map(|running| running.space);
        let kernel = machine.kernel();
        let files = space.map_or_else(Vec::new, |space| kernel.loaded_files(space));
        Self {
            kernel,
            space,
            files,
            known,
        }
    }

    /// The places of an instruction, the innermost first: a function, and those that it was inlined into.
    fn places(&mut self, pc: u64) -> &(Option<String>, Vec<Place>) {
        let (kernel, files, space) = (self.kernel, &self.files, self.space);
        let Known { places, sources } = &mut *self.known;
        places.entry(pc).or_insert_with(|| {
            let symbol = space.and_then(|space| kernel.symbol(space, pc));
            // Of a stripped program a section is known, which is no function.
            let symbol = symbol.map(|(name, _)| name);
            let symbol = symbol.filter(|name| !name.starts_with('.'));
            let symbol = symbol.map(in_words);
            let frames = (files.iter())
                .map(|file| sources.frames(file, pc.wrapping_sub(file.bias)))
                .find(|frames| !frames.is_empty())
                .unwrap_or_default();
            let of_header =
                |frame: &Frame| (frame.file.as_deref()).is_some_and(|file| file.ends_with(HEADER));
            let inlined = frames.len();
            let place = |(depth, frame): (usize, Frame)| Place {
                pc: format!("{pc:#x}"),
                function: frame.function.map(in_words).or_else(|| {
                    let outermost = depth + 1 == inlined;
                    symbol.clone().filter(|_| outermost)
                }),
                file: frame.file,
                line: frame.line,
            };
            let frames = frames.into_iter().enumerate();
            let frames = frames.filter(|(depth, one)| depth + 1 == inlined || !of_header(one));
            let mut places: Vec<Place> = frames.map(place).collect();
            if places.is_empty() {
                places.push(Place {
                    pc: format!("{pc:#x}"),
                    function: symbol.clone(),
                    ..Place::default()
                });
            }
            (symbol, places)
        })
    }

    /// A call stack, the innermost place first: where a hart stands, and the calls that it will return to.
    /// Words that earlier calls have left there are among them, as far as nothing tells them apart.
    pub fn stack(&mut self, stack: &[u64]) -> Vec<Place> {
        let (mut told, mut last): (Vec<Place>, Option<String>) = (Vec::new(), None);
        for (depth, &address) in stack.iter().enumerate() {
            let (symbol, places) = self.places(address.wrapping_sub(u64::from(depth > 0)));
            // The return address of a call that is over leads back to where the hart is.
            if depth > 0 && (symbol.is_none() || *symbol == last) {
                continue;
            }
            last.clone_from(symbol);
            let of_header =
                |place: &&Place| (place.file.as_deref()).is_some_and(|file| file.ends_with(HEADER));
            told.extend(places.iter().filter(|place| !of_header(place)).cloned());
            let outermost = |name: &String| OUTERMOST.contains(&name.as_str());
            if last.as_ref().is_some_and(outermost) {
                break;
            }
        }
        told.truncate(DEPTH);
        if let (true, Some(&pc)) = (told.is_empty(), stack.first()) {
            told.extend(self.places(pc).1.iter().cloned());
        }
        told
    }
}
