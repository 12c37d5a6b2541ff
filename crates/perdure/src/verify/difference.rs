//! Where a recovered image is wrong: byte by byte, with the name of what lies there.
//!
//! Always true here: looking changes nothing; the machine is afterwards as before.

use std::ops::Range;

use perdure_designs::Design;
use perdure_designs::surviving::{Journal, Surviving};
use perdure_hardware::arena::Arena;
use perdure_hardware::time::Cycles;
use serde::Serialize;

use super::{scope, witness};
use crate::machine::Machine;

/// The first place where a recovered image is wrong.
#[derive(Clone, Debug, Serialize)]
pub struct FirstDifference {
    /// `lost`: the line is older than it should be. `mixed`: it holds a later epoch's bytes.
    pub kind: &'static str,
    /// Physical address of the line.
    pub physical_address: String,
    /// Virtual address of its first wrong byte, if a program maps it.
    pub address: Option<String>,
    /// What lies there.
    pub symbol: Option<String>,
    /// The epoch whose memory was expected.
    pub epoch: u64,
    /// The line as it should be.
    pub expected: String,
    /// The line as it came back.
    pub found: String,
    /// How many lines differ in all.
    pub lines: u64,
}

/// How many wrong lines are searched for one with a symbol.
const NAMED_LINES: usize = 256;

/// Makes a range what it is elsewhere.
pub fn overwrite(memory: &mut Arena, with: &Arena, range: &Range<u64>) {
    let differing = memory.differing_lines(with);
    for address in differing.into_iter().filter(|line| range.contains(line)) {
        memory.write_line(address, with.line(address));
    }
}

/// Cuts and recovers as [`cut`] does, and compares byte by byte with the image of an epoch.
pub fn first_difference<D: Design>(
    machine: &mut Machine<D>,
    expected: &Arena,
    epoch: u64,
    at: Cycles,
    tear_seed: u64,
) -> Option<FirstDifference> {
    let recovery = machine.recovery();
    let range = scope(machine);
    let newest = witness(machine).image().ok()?;
    let lost = machine.power_off(at, tear_seed);
    let memory = &mut machine.hardware.memory;
    let mut surviving = Surviving::of(memory, Journal::default());
    let _ = recovery.run::<D>(&mut surviving);
    let journal = surviving.into_journal();
    let mut wrong = memory.arena.differing_lines(expected);
    wrong.retain(|line| range.contains(line));
    let machine_after = &*machine;
    let place_of = |address: u64| {
        let found = machine_after.hardware.memory.arena.line(address).0;
        let wanted = expected.line(address).0;
        let same = found.iter().zip(wanted).take_while(|(a, b)| *a == b);
        machine_after
            .kernel()
            .reverse_translate(address + same.count() as u64)
    };
    let symbol_at = |address: u64| {
        let (space, virtual_address) = place_of(address)?;
        let (name, offset) = machine_after.kernel().symbol(space, virtual_address)?;
        Some(format!("{name}+{offset:#x}"))
    };
    // Of the program's own lines, one with a name says most to its author.
    let frames = machine_after.layout.frames.clone();
    let mine = || {
        wrong
            .iter()
            .copied()
            .filter(|address| frames.contains(address))
    };
    let named = mine()
        .take(NAMED_LINES)
        .find(|&address| symbol_at(address).is_some());
    let first = named.or_else(|| mine().next()).or(wrong.first().copied());
    let difference = first.map(|address| {
        let found = machine_after.hardware.memory.arena.line(address).0;
        let wanted = expected.line(address).0;
        let place = place_of(address);
        let symbol = match place {
            Some(_) => symbol_at(address),
            None => Some(machine_after.layout_name(address)),
        };
        FirstDifference {
            kind: if found == newest.line(address).0 {
                "mixed"
            } else {
                "lost"
            },
            physical_address: format!("{address:#x}"),
            address: place.map(|(_, virtual_address)| format!("{virtual_address:#x}")),
            symbol,
            epoch,
            expected: hexadecimal(&wanted),
            found: hexadecimal(&found),
            lines: wrong.len() as u64,
        }
    });
    journal.undo(&mut machine.hardware.memory.arena);
    machine.hardware.memory.power_back(&lost);
    difference
}

fn hexadecimal(bytes: &[u8]) -> String {
    let words: Vec<String> = bytes
        .chunks_exact(8)
        .map(|word| {
            format!(
                "{:016x}",
                u64::from_le_bytes(word.try_into().expect("eight bytes"))
            )
        })
        .collect();
    words.join(" ")
}
