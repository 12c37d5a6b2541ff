//! States of the explorer: what two of them have to differ in, and what a cut finds in the last ones.
//!
//! Always true here: nothing is dropped that a later step or a cut would ask about.

use std::collections::BTreeSet;

use super::super::cut::Cut;
use super::super::model::Left;
use super::super::program::{Action, Contents};
use super::{Explorer, Rest, STATES, State, TooLarge, bit};

impl Explorer<'_> {
    /// What a cut may find in the end.
    pub(super) fn found(
        &self,
        state: &State,
        contents: &mut BTreeSet<Contents>,
    ) -> Result<(), TooLarge> {
        // Locations that nothing orders: each has any of its values beside any of the others'.
        let ways = (state.also.iter()).map(|also| also.count_ones() as usize + 1);
        let ways = ways.fold(1, usize::saturating_mul);
        if ways > STATES {
            return Err(TooLarge);
        }
        let mut found = vec![state.cut.kept];
        for location in 0..self.test.locations.len() {
            let also = self.values.iter().enumerate();
            let also = also.filter(|(at, _)| state.also[location] & 1 << at != 0);
            let with: Vec<Contents> = also
                .flat_map(|(_, value)| {
                    found.iter().map(|contents| {
                        let mut with = *contents;
                        with.set(location, *value);
                        with
                    })
                })
                .collect();
            found.extend(with);
        }
        contents.extend(found);
        if contents.len() > STATES {
            return Err(TooLarge);
        }
        Ok(())
    }

    /// Drops what nothing will ask about.
    pub(super) fn forget(&self, state: &mut State) {
        let (mut rest, mut watched) = (Rest::default(), 0u32);
        let is_by_strands = matches!(self.rules.left, Left::Strands(_));
        for (number, thread) in self.threads.iter().enumerate() {
            let it = &mut state.threads[number];
            let over = it.done | it.skipped;
            let open = |at: &usize| over & bit(*at) == 0;
            let is_mark = |at: usize| thread.instructions[at].action == Action::Barrier;
            let marks = (0..thread.instructions.len()).filter(open).any(is_mark);
            if !marks {
                state.cut.forget_marks(number);
            }
            let orders = is_by_strands && (marks || state.cut.is_lost(number));
            for (at, instruction) in thread.instructions.iter().enumerate() {
                if thread.readers[at] & !over == 0 {
                    it.values[at] = 0;
                }
                if let (true, Some(location)) = (open(&at), instruction.location()) {
                    let place = Cut::place(&self.rules.left, location, self.test.lines[location]);
                    rest.places |= 1 << place;
                    let loads = instruction.written().is_some();
                    rest.loads |= u32::from(loads) << location;
                    let is_store = matches!(instruction.action, Action::Store { .. });
                    watched |= u32::from(orders || !is_store) << location;
                }
            }
        }
        rest.any = self.lone & !watched;
        state.rest = rest;
        for location in 0..self.test.locations.len() {
            if rest.loads & 1 << location == 0 {
                state.memory.set(location, 0);
            }
            if rest.places & 1 << location == 0 {
                state.cut.forget(location);
            }
        }
    }

    /// A state as bytes that are equal for equal states.
    pub(super) fn write(&self, state: &State, bytes: &mut Vec<u8>) {
        for (thread, it) in self.threads.iter().zip(&state.threads) {
            for set in [it.done, it.skipped, it.known, it.jumps] {
                bytes.extend(set.to_le_bytes());
            }
            bytes.extend(&it.values[..thread.instructions.len()]);
        }
        bytes.extend(state.memory.bytes());
        state
            .also
            .iter()
            .for_each(|also| bytes.extend(also.to_le_bytes()));
        state.cut.write(self.threads.len(), bytes);
    }
}
