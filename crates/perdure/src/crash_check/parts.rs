//! What words of persistent memory are, by the types of the program's own pointers that lead there (DWARF).
//!
//! A pool has no types; but a program's variables have, and they point to structures, which point to others.
//! What such a pointer leads to is what the program takes it for.
//!
//! Always true here: nothing is guessed. A pool that only local variables and numbers lead to has no names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use perdure_linux::PAGE_BYTES;
use perdure_linux::inspect::FileKey;
use perdure_riscv::Access;

use crate::call_stack::Memory;
use crate::functional::Functional;
use crate::members::{Members, Type};

/// Structures that are looked at, so that long lists end.
const STRUCTURES: usize = 20_000;

/// Names of words, by how much was retired and by their addresses.
pub type Parts = BTreeMap<(u64, u64), String>;

/// The debug information of programs, as it is asked for.
#[derive(Default)]
pub struct Types(BTreeMap<FileKey, Option<Members>>);

impl Types {
    /// What these words of memory are to the program that a machine runs.
    pub fn of(&mut self, machine: &Functional, words: &BTreeSet<u64>) -> BTreeMap<u64, String> {
        let mut named = BTreeMap::new();
        let Some(running) = machine.running() else {
            return named;
        };
        let kernel = machine.kernel();
        let pages: BTreeMap<u64, u64> = (kernel.frames(running.space).into_iter())
            .map(|(page, frame)| (frame, page))
            .collect();
        let reached = words.iter().filter_map(|&word| {
            let page = pages.get(&(word / PAGE_BYTES))?;
            Some((page * PAGE_BYTES + word % PAGE_BYTES, word))
        });
        let reached: BTreeMap<u64, u64> = reached.collect();
        for file in kernel.loaded_files(running.space) {
            let members = self.0.entry(file.key.clone());
            let members = members.or_insert_with(|| Members::of(&file.contents));
            if let Some(members) = members {
                walk(machine, members, file.bias, &reached, &mut named);
            }
        }
        named
    }
}

/// Follows the pointers of a file's variables, the nearest first, and names the words that are reached.
fn walk(
    machine: &Functional,
    members: &Members,
    bias: u64,
    words: &BTreeMap<u64, u64>,
    named: &mut BTreeMap<u64, String>,
) {
    let variables = members.variables();
    let mut next: VecDeque<(u64, Type)> = (variables)
        .map(|(address, of)| (address.wrapping_add(bias), of))
        .collect();
    let mut seen = BTreeSet::new();
    let mut shapes: BTreeMap<Type, (u64, Vec<(u64, Type)>)> = BTreeMap::new();
    while let Some((start, of)) = next.pop_front() {
        let shape = shapes.entry(of);
        let (bytes, pointers) = shape.or_insert_with(|| (members.bytes(of), members.pointers(of)));
        for (&address, &word) in words.range(start..start.saturating_add(*bytes)) {
            if let Some(part) = members.part(of, address - start) {
                named.entry(word).or_insert(part);
            }
        }
        for &(offset, to) in pointers.iter() {
            let mut word = [0; 8];
            let read = machine.read(start.wrapping_add(offset), &mut word, Access::Load);
            let target = u64::from_le_bytes(word);
            let is_new = |seen: &mut BTreeSet<(u64, Type)>| seen.insert((target, to));
            if read.is_some() && target != 0 && seen.len() < STRUCTURES && is_new(&mut seen) {
                next.push_back((target, to));
            }
        }
    }
}
