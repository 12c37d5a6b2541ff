//! What lies at a physical address: a program's variable, its heap, its stack, its code; else something of
//! the kernel's.
//!
//! Always true here: of symbols for the same bytes, the one that begins last and is shortest names them.

use std::collections::HashMap;

use perdure_linux::inspect::{FileKey, LoadedFile, MappingView, ProcessView, symbols};
use perdure_linux::pools::POOLS_DIRECTORY;
use perdure_linux::{Kernel, PAGE_BYTES};
use serde::Serialize;

use crate::machine::Machine;
use crate::members::Members;

/// What kind of thing it is: what says most to a program's author comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A variable.
    Data,
    /// A pool.
    Pool,
    /// The heap.
    Heap,
    /// Memory that was mapped without a file.
    Anonymous,
    /// The first thread's stack.
    Stack,
    /// A mapped file, where no symbol says more.
    File,
    /// A function.
    Code,
    /// What the system keeps of a hart.
    Context,
    /// The kernel's state.
    Kernel,
    /// A frame that no program maps now, or what programs cannot reach.
    Other,
}

/// A thing in memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thing {
    /// What kind.
    pub class: Class,
    /// Its name.
    pub name: String,
    /// The guest's file that defines it, or whose it is.
    pub file: String,
    /// Where it begins, in the program's addresses.
    pub start: u64,
    /// How long it is; 0 where nobody says.
    pub bytes: u64,
    /// The process; 0 for the machine's own.
    pub process: u32,
}

/// A symbol at its place in memory.
struct Placed {
    start: u64,
    end: u64,
    name: String,
    data: bool,
    file: usize,
}

/// An address space.
struct Space {
    process: ProcessView,
    mappings: Vec<MappingView>,
    files: Vec<LoadedFile>,
    symbols: Vec<Placed>,
    longest: u64,
}

/// Names of everything in memory.
pub struct Names {
    spaces: Vec<Space>,
    /// By frame: the first space that has it, and its page there.
    frames: HashMap<u64, (usize, u64)>,
    members: HashMap<FileKey, Option<Members>>,
}

impl Space {
    fn new(kernel: &Kernel, process: ProcessView) -> Self {
        let files = kernel.loaded_files(process.space);
        let mut placed = Vec::new();
        for (file, loaded) in files.iter().enumerate() {
            for symbol in symbols(&loaded.contents) {
                if symbol.bytes > 0 {
                    let start = symbol.address.wrapping_add(loaded.bias);
                    placed.push(Placed {
                        start,
                        end: start.saturating_add(symbol.bytes),
                        name: symbol.name,
                        data: symbol.data,
                        file,
                    });
                }
            }
        }
        placed.sort_by(|a, b| (a.start, b.end, &a.name).cmp(&(b.start, a.end, &b.name)));
        let lengths = placed.iter().map(|one| one.end - one.start);
        Self {
            mappings: kernel.mappings(process.space),
            longest: lengths.max().unwrap_or(0),
            process,
            files,
            symbols: placed,
        }
    }

    fn symbol(&self, address: u64) -> Option<&Placed> {
        let behind = self.symbols.partition_point(|one| one.start <= address);
        let mut near = self.symbols[..behind].iter().rev();
        let reaches = |one: &&Placed| one.start.saturating_add(self.longest) > address;
        near.by_ref()
            .take_while(reaches)
            .find(|one| one.end > address)
    }

    fn thing(&self, address: u64) -> Thing {
        let process = self.process.id;
        if let Some(symbol) = self.symbol(address) {
            return Thing {
                class: if symbol.data {
                    Class::Data
                } else {
                    Class::Code
                },
                name: symbol.name.clone(),
                file: self.files[symbol.file].name.clone(),
                start: symbol.start,
                bytes: symbol.end - symbol.start,
                process,
            };
        }
        let inside = |one: &&MappingView| (one.start..one.end).contains(&address);
        let mapping = self.mappings.iter().find(inside);
        let name = mapping.map_or("", |one| one.name.as_str());
        let class = match name {
            "[heap]" => Class::Heap,
            "[stack]" => Class::Stack,
            "" => Class::Anonymous,
            _ if name.starts_with(POOLS_DIRECTORY) => Class::Pool,
            _ => Class::File,
        };
        let called = match class {
            Class::Heap => "the heap",
            Class::Stack => "the stack",
            Class::Anonymous => "mapped memory",
            _ => name,
        };
        Thing {
            class,
            name: called.into(),
            file: self.process.executable.clone(),
            start: mapping.map_or(0, |one| one.start),
            bytes: mapping.map_or(0, |one| one.end - one.start),
            process,
        }
    }
}

impl Names {
    /// As the machine has things now.
    pub fn of(machine: &Machine) -> Self {
        let kernel = machine.kernel();
        let processes = kernel.live_processes().into_iter();
        let spaces: Vec<Space> = processes.map(|one| Space::new(kernel, one)).collect();
        let mut frames = HashMap::new();
        for (number, space) in spaces.iter().enumerate() {
            for (page, frame) in kernel.frames(space.process.space) {
                frames.entry(frame).or_insert((number, page));
            }
        }
        Self {
            spaces,
            frames,
            members: HashMap::new(),
        }
    }

    /// Where a program has a physical address.
    pub fn address(&self, physical: u64) -> Option<u64> {
        let (_, page) = self.frames.get(&(physical / PAGE_BYTES))?;
        Some(page * PAGE_BYTES + physical % PAGE_BYTES)
    }

    /// What lies at a physical address.
    pub fn thing(&self, machine: &Machine, physical: u64) -> Thing {
        if let Some(&(space, page)) = self.frames.get(&(physical / PAGE_BYTES)) {
            return self.spaces[space].thing(page * PAGE_BYTES + physical % PAGE_BYTES);
        }
        let layout = &machine.layout;
        let class = if layout.contexts.contains(&physical) {
            Class::Context
        } else if layout.kernel.contains(&physical) {
            Class::Kernel
        } else {
            Class::Other
        };
        Thing {
            class,
            name: machine.layout_name(physical),
            file: String::new(),
            start: 0,
            bytes: 0,
            process: 0,
        }
    }

    /// The part of a thing at an address of its program: `.member`, `[3]`, `+0x18`, or the address.
    pub fn part(&mut self, thing: &Thing, address: u64) -> String {
        let offset = address.wrapping_sub(thing.start);
        let found = (self.members(thing)).map(|(members, start)| members.path(start, offset));
        match (found, thing.class) {
            (Some(path), _) if !path.is_empty() => path,
            (_, Class::Data | Class::Code | Class::Pool) if offset == 0 => String::new(),
            (_, Class::Data | Class::Code | Class::Pool) => format!("+{offset:#x}"),
            _ => format!("{address:#x}"),
        }
    }

    /// True for a variable whose type is known.
    pub fn is_typed(&mut self, thing: &Thing) -> bool {
        let members = self.members(thing);
        members.is_some_and(|(members, start)| members.has(start))
    }

    /// What is known of a variable's parts, and where it lies in its file.
    fn members(&mut self, thing: &Thing) -> Option<(&Members, u64)> {
        if thing.class != Class::Data {
            return None;
        }
        let spaces = &self.spaces;
        let mut of_process = spaces.iter().filter(|one| one.process.id == thing.process);
        let mut files = of_process.next()?.files.iter();
        let file = files.find(|file| file.name == thing.file)?;
        let members =
            (self.members.entry(file.key.clone())).or_insert_with(|| Members::of(&file.contents));
        Some((members.as_ref()?, thing.start.wrapping_sub(file.bias)))
    }
}
