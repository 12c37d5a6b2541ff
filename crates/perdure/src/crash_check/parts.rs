//! What words of persistent memory are, by the types of the program's own pointers that lead there (DWARF).
//!
//! A pool has no types; but a program's variables have, and they point to structures, which point to others.
//! What such a pointer leads to is what the program takes it for. Global variables go first: each has a
//! value from the beginning. Then those of functions that have not returned: the parameters first, which
//! have values, too. A local variable may have none yet: what an earlier call left in its place is taken for
//! it, unless its declaration is still to come. So it names only what no other variable leads to.
//!
//! Always true here: nothing is guessed, but that a local variable behind its declaration has a value. A pool
//! that only numbers and pointers without a type lead to has no names. Where all that leads to a word
//! is a pointer to a pointer, the word is called by its type.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use perdure_linux::inspect::FileKey;
use perdure_linux::{PAGE_BYTES, Running};

use crate::call_stack::word;
use crate::frames::{self, Frame, Unwinding};
use crate::functional::{Functional, Unwatched};
use crate::locals::Functions;
use crate::members::{Members, Type};

/// Structures that are looked at, so that long lists end.
const STRUCTURES: usize = 20_000;

/// By which variables words are named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Variables {
    /// Of the program.
    Global,
    /// Of functions that have not returned.
    Local,
}

/// Names of words, by their addresses.
pub type Named = BTreeMap<u64, (Variables, String)>;
/// The same, by how much was retired and by their addresses.
pub type Parts = BTreeMap<(u64, u64), (Variables, String)>;

/// The debug information of programs, as it is asked for.
#[derive(Default)]
pub struct Types(BTreeMap<FileKey, Known>);

/// That of a file.
struct Known {
    members: Option<(Members, Functions)>,
    unwinding: Option<Unwinding>,
}

/// Something with a type: the number of the file that has the type, where it is, and what.
type Typed = (usize, u64, Type);

/// How many bytes something has, and where in it which pointers are.
type Shape = (u64, Vec<(u64, Type)>);

/// What words are, in a machine that stands.
struct Naming<'m> {
    machine: &'m Functional,
    /// What is loaded, and what was added to its addresses.
    files: Vec<(&'m Known, u64)>,
    /// The words, by their addresses in the program.
    words: BTreeMap<u64, u64>,
    named: Named,
    /// Pointers that others point to, for where no structure is known to have them.
    bare: Named,
}

impl Types {
    /// What these words of memory are to the program that a machine runs, and by which variables.
    pub fn of(&mut self, machine: &Functional, words: &BTreeSet<u64>) -> Named {
        let Some(running) = machine.running() else {
            return Named::new();
        };
        let kernel = machine.kernel();
        let files = kernel.loaded_files(running.space);
        for file in &files {
            let known = self.0.entry(file.key.clone());
            known.or_insert_with(|| Known::of(&file.contents));
        }
        let files = files.iter().map(|file| (&self.0[&file.key], file.bias));
        let mut naming = Naming {
            machine,
            files: files.collect(),
            words: addresses(words, &kernel.frames(running.space)),
            named: Named::new(),
            bare: Named::new(),
        };
        naming.follow_globals();
        let reached = naming.words.values().copied().collect();
        if reached != *words {
            // The store that comes next may be the first that touches its page.
            let mut next = machine.clone();
            next.step_to(&mut Unwatched, machine.retired() + 1);
            let others = words.difference(&reached).copied().collect();
            let touched = addresses(&others, &next.kernel().frames(running.space));
            naming.words.extend(touched);
        }
        naming.follow_locals(running);
        let Naming {
            mut named, bare, ..
        } = naming;
        for (word, part) in bare {
            named.entry(word).or_insert(part);
        }
        named
    }
}

/// The words that the program has an address for, by their addresses, on pages that have these frames.
fn addresses(words: &BTreeSet<u64>, frames: &BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
    let pages = frames.iter().map(|(&page, &frame)| (frame, page));
    let pages: BTreeMap<u64, u64> = pages.collect();
    let addressed = words.iter().filter_map(|&word| {
        let page = pages.get(&(word / PAGE_BYTES))?;
        Some((page * PAGE_BYTES + word % PAGE_BYTES, word))
    });
    addressed.collect()
}

impl Known {
    fn of(contents: &[u8]) -> Self {
        let members = Members::of(contents);
        Self {
            members: members.map(|members| {
                let functions = Functions::of(&members);
                (members, functions)
            }),
            unwinding: Unwinding::of(contents),
        }
    }
}

impl<'m> Naming<'m> {
    /// Names words by the variables of each file.
    fn follow_globals(&mut self) {
        for number in 0..self.files.len() {
            let (known, bias) = self.files[number];
            let variables = known
                .members
                .iter()
                .flat_map(|(members, _)| members.variables());
            let typed = variables.map(|(address, of)| (number, address.wrapping_add(bias), of));
            self.walk(Variables::Global, typed.collect());
        }
    }

    /// Names words by the parameters and local variables of each thread, the one that runs first.
    fn follow_locals(&mut self, running: Running) {
        let registers = self.machine.registers();
        let own = (registers.pc, registers.x);
        let processes = self.machine.kernel().live_processes().into_iter();
        let processes = processes.filter(|process| process.space == running.space);
        let others = processes.flat_map(|process| process.threads);
        let others = others.filter(|thread| thread.id != running.thread.0);
        for (pc, x) in [own].into_iter().chain(others.map(|one| (one.pc, one.x))) {
            if self.is_complete() {
                return;
            }
            let frames = frames::of(pc, x, |pc| self.unwinding(pc), self.machine);
            for pointers in self.pointers(&frames) {
                self.walk(Variables::Local, pointers);
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.named.len() == self.words.len()
    }

    /// What has the function at an address.
    fn unwinding(&self, pc: u64) -> Option<(&'m Unwinding, u64)> {
        let files = self.files.iter();
        let mut with = files.filter_map(|&(known, bias)| Some((known.unwinding.as_ref()?, bias)));
        with.find(|(unwinding, bias)| unwinding.has(pc.wrapping_sub(*bias)))
    }

    /// What the parameters of functions point to, and their other variables, the innermost first.
    fn pointers(&self, frames: &[Frame]) -> [VecDeque<Typed>; 2] {
        let mut all = <[VecDeque<Typed>; 2]>::default();
        for frame in frames {
            for (number, &(known, bias)) in self.files.iter().enumerate() {
                let Some((members, functions)) = &known.members else {
                    continue;
                };
                let found = functions.pointers(members, frame, bias, self.machine);
                for (all, found) in all.iter_mut().zip(found) {
                    all.extend(found.into_iter().map(|(target, to)| (number, target, to)));
                }
            }
        }
        all
    }

    /// Follows pointers from there, the nearest first, and names the words that are reached.
    fn walk(&mut self, by: Variables, mut next: VecDeque<Typed>) {
        let mut seen = BTreeSet::new();
        let mut shapes: BTreeMap<(usize, Type), Shape> = BTreeMap::new();
        while let Some((file, start, of)) = next.pop_front().filter(|_| !self.is_complete()) {
            let Some((members, _)) = &self.files[file].0.members else {
                continue;
            };
            let shape = shapes.entry((file, of));
            let shape = shape.or_insert_with(|| (members.bytes(of), members.pointers(of)));
            let (bytes, pointers) = shape;
            for (&address, &word) in self.words.range(start..start.saturating_add(*bytes)) {
                if let Some(part) = members.part(of, address - start) {
                    self.named.entry(word).or_insert((by, part));
                } else if let Some(pointer) = members.pointer(of) {
                    self.bare.entry(word).or_insert((by, pointer));
                }
            }
            for &(offset, to) in pointers.iter() {
                let Some(target) = word(self.machine, start.wrapping_add(offset)) else {
                    continue;
                };
                let typed = (file, target, to);
                if target != 0 && seen.len() < STRUCTURES && seen.insert(typed) {
                    next.push_back(typed);
                }
            }
        }
    }
}
