//! What an operation leaves in memory: what it means, which is stated beside it and knows of no device,
//! against what the devices wrote.

use std::ops::Range;

use perdure_hardware::physical_map::PhysicalMap;
use perdure_hardware::time::Cycles;

use super::PartitionedPersistOrdering;
use crate::nearpm::operations::{self, Effect, Found, Operands};

/// What must be in memory, and where.
pub(super) type Left = Vec<(u64, Vec<u8>)>;

/// Of writes one behind the other, each with what all of them leave in its bytes.
fn last(effect: &mut Left) {
    for later in 1..effect.len() {
        let (earlier, rest) = effect.split_at_mut(later);
        let (at, bytes) = &rest[0];
        for (under_at, under) in earlier {
            let both =
                (*at).max(*under_at)..(at + bytes.len() as u64).min(*under_at + under.len() as u64);
            if !both.is_empty() {
                let piece = |start: u64| (both.start - start) as usize..(both.end - start) as usize;
                under[piece(*under_at)].copy_from_slice(&bytes[piece(*at)]);
            }
        }
    }
}

fn range((at, bytes): &(u64, Vec<u8>)) -> Range<u64> {
    *at..at + bytes.len() as u64
}

impl PartitionedPersistOrdering {
    /// A device takes an operation: what is to be in memory when it is done.
    pub(super) fn expect(
        &mut self,
        map: &PhysicalMap,
        number: u64,
        device: usize,
        operands: &Operands,
    ) {
        let command = self.commands.entry(number).or_default();
        let Some(operation) = operations::find(command.opcode) else {
            return;
        };
        let second = (operation.second_bytes)(operands.first.end - operands.first.start);
        command.second = operands.second..operands.second + second;
        let of_range = |range: &Range<u64>| {
            let pieces = map.pieces(range.clone());
            pieces.map(|one| one.address..one.address + one.length)
        };
        let image = &self.image;
        let module = |at: u64| map.pieces(at..at + 1).next().map(|one| one.place.module);
        let mut found = Found {
            pieces: &|range| of_range(range).collect(),
            together: &|at, range| of_range(range).all(|one| module(one.start) == module(at)),
            read: &mut |at, length| image.newest(at..at + length as u64),
        };
        let Effect::Leaves(mut effect) = (operation.effect)(&mut found, operands) else {
            return;
        };
        last(&mut effect);
        // Of that, what the device has.
        let mut own = Left::new();
        for (at, bytes) in &effect {
            for piece in map.pieces(*at..at + bytes.len() as u64) {
                if self.device(piece.place.module) == device {
                    let from = (piece.address - at) as usize;
                    let bytes = &bytes[from..from + piece.length as usize];
                    own.push((piece.address, bytes.to_vec()));
                }
            }
        }
        let command = self.commands.entry(number).or_default();
        command.effects.insert(device, own);
    }

    /// A device writes for an operation: what it means, and nothing else.
    pub(super) fn check_written(
        &mut self,
        number: u64,
        device: usize,
        bytes: &Range<u64>,
        begins: Cycles,
    ) {
        let command = self.commands.get(&number);
        let Some(effect) = command.and_then(|command| command.effects.get(&device)) else {
            return;
        };
        let meant = |one| {
            let one = range(one);
            one.start <= bytes.start && bytes.end <= one.end
        };
        if !effect.iter().any(meant) {
            let message = format!(
                "invariant 4: command {number} writes {:#x}, which is not what it means",
                bytes.start
            );
            self.breaks(begins, message);
        }
    }

    /// A device is done with its part of an operation.
    pub(super) fn check_effect(&mut self, number: u64, device: usize, at: Cycles) {
        let command = self.commands.entry(number).or_default();
        let effect = command.effects.remove(&device).unwrap_or_default();
        let differs = |one: &&(u64, Vec<u8>)| self.image.newest(range(one)) != one.1;
        if let Some(wrong) = effect.iter().find(differs) {
            let message = format!(
                "invariant 4: command {number} leaves at {:#x} something else than it means",
                wrong.0
            );
            self.breaks(at, message);
        }
    }

    /// Bytes that a command works on, and that are in none of these pages.
    pub(super) fn outside(&self, number: u64, has: impl Fn(u64) -> bool) -> Option<u64> {
        const PAGE: u64 = super::PAGE;
        let command = &self.commands[&number];
        let operands = [&command.operand, &command.second].into_iter();
        let mut touched = operands.filter(|one| !one.is_empty()).flat_map(|one| {
            let last = one.end - 1;
            one.clone().step_by(PAGE as usize).chain([last])
        });
        touched.find(|at| !has(at / PAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_writes_that_lie_over_each_other_the_last_one_counts() {
        let mut effect = vec![(10, vec![1; 6]), (12, vec![2; 8]), (8, vec![3; 3])];
        last(&mut effect);
        let expected = [
            (10, vec![3, 1, 2, 2, 2, 2]),
            (12, vec![2; 8]),
            (8, vec![3; 3]),
        ];
        assert_eq!(effect, expected);
    }
}
