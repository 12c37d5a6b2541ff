//! What a command's entries hold, where they lie, and which devices must make them.

use std::collections::BTreeMap;
use std::ops::Range;

use perdure_hardware::physical_map::PhysicalMap;
use perdure_hardware::time::Cycles;

use super::PartitionedPersistOrdering;
use crate::bytes::overlap;
use crate::nearpm::entry_at;

impl PartitionedPersistOrdering {
    /// The entries of a command hold what was there before it, of all that the device has of its operand.
    pub(super) fn check_entries(
        &mut self,
        map: &PhysicalMap,
        module: usize,
        number: u64,
        at: Cycles,
    ) {
        let command = self.commands.entry(number).or_default();
        let (writes, operand) = (std::mem::take(&mut command.writes), command.operand.clone());
        let own = map
            .pieces(operand)
            .filter(|piece| piece.place.module == module);
        let own = own.map(|piece| piece.address..piece.address + piece.length);
        let before: Vec<u8> = own.flat_map(|own| self.image.newest(own)).collect();
        let mut written: BTreeMap<u64, u8> = BTreeMap::new();
        for (address, bytes) in &writes {
            written.extend((*address..).zip(bytes.iter().copied()));
        }
        let mut read = |at: u64, length: usize| {
            let bytes = at..at + length as u64;
            bytes
                .map(|at| written.get(&at).copied().unwrap_or(0))
                .collect()
        };
        let headers = writes.iter().filter(|(_, bytes)| bytes.len() == 64);
        let mut places: Vec<u64> = headers.map(|(address, _)| *address).collect();
        places.sort_unstable();
        let entries = places.iter().filter_map(|place| {
            let entry = entry_at(*place, u64::MAX, &mut read)?;
            Some((entry.target, entry.bytes))
        });
        let by_target: BTreeMap<u64, Vec<u8>> = entries.collect();
        let logged: Vec<u8> = by_target.into_values().flatten().collect();
        if logged != before {
            self.breaks(
                at,
                format!(
                    "invariant 4: the entries of command {number} do not hold what was there before it"
                ),
            );
        }
    }

    /// Invariant 4: what recovery may need is not written over.
    pub(super) fn check_overwriting(
        &mut self,
        device: usize,
        number: u64,
        bytes: &Range<u64>,
        begins: Cycles,
    ) {
        let mut ended = self.ended.iter();
        let needed = ended.find(|((of, _), (dead, places))| {
            *of == device && *dead > begins && places.iter().any(|place| overlap(place, bytes))
        });
        if let Some(((_, end), _)) = needed {
            let message = format!(
                "invariant 4: command {number} writes over an entry at {:#x} at {begins}, before command {end} has ended its transaction",
                bytes.start
            );
            self.breaks(begins, message);
        }
    }

    /// Of a command whose operand several devices have, each hears.
    pub(super) fn check_devices(&mut self, map: &PhysicalMap, number: u64, at: Cycles) {
        let command = &self.commands[&number];
        if command.opcode == 0 || command.operand.is_empty() {
            return;
        }
        let mut pieces = map.pieces(command.operand.clone()).take(u8::BITS as usize);
        let missing = pieces.find(|piece| !command.has(self.device(piece.place.module)));
        if let Some(missing) = missing {
            let device = self.device(missing.place.module);
            self.breaks(
                at,
                format!(
                    "command {number} works on {:#x}, and device {device}, which has that, was not told",
                    missing.address
                ),
            );
        }
    }
}
