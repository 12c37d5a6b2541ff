//! DRAM in front of the NVM: a write-back buffer with room for everything that programs touch.
//!
//! It is timing, and one fact for each line that it alone holds: what the NVM has there. The bytes
//! that programs see are in the arena, as without it ([`crate::memory`]).
//!
//! Always true here:
//! - A line is in it once it has been read or written since power-on, if not from the start.
//! - `behind` has exactly the lines whose newest bytes the NVM has not been given. All of them are
//!   lost at power-off.

use std::collections::BTreeMap;

use crate::line::{LINE_BYTES, Line, LineNumber};
use crate::link::Link;
use crate::memory::Memory;
use crate::specification::Specification;
use crate::time::Cycles;

/// A channel's width.
const CHANNEL_BYTES: u64 = 8;

#[derive(Clone, Debug)]
struct Controller {
    channel: Link,
    bank_free: Vec<Cycles>,
}

/// The buffer.
#[derive(Clone, Debug)]
pub struct Dram {
    controllers: Vec<Controller>,
    access: Cycles,
    cycle: Cycles,
    /// It has every line from the start.
    preloaded: bool,
    /// One bit for each line.
    held: Vec<u64>,
    behind: BTreeMap<LineNumber, Line>,
}

impl Dram {
    /// The buffer of that specification, if it has one; empty.
    pub fn new(specification: &Specification) -> Option<Self> {
        let dram = &specification.dram;
        if !dram.present {
            return None;
        }
        let clock = specification.clock();
        let controller = Controller {
            channel: Link::new(
                CHANNEL_BYTES * dram.frequency_mhz * 1_000_000,
                clock.frequency_mhz,
            ),
            bank_free: vec![0; dram.banks],
        };
        let lines = specification.lines();
        Some(Self {
            controllers: vec![controller; dram.controllers],
            access: clock.cycles(dram.access_ns),
            cycle: clock.cycles(dram.cycle_ns),
            preloaded: dram.preloaded,
            held: vec![0; lines.div_ceil(64)],
            behind: BTreeMap::new(),
        })
    }

    /// True if a miss need not go to the NVM.
    #[inline]
    pub fn holds(&self, line: LineNumber) -> bool {
        self.preloaded || self.held[(line / 64) as usize] >> (line % 64) & 1 != 0
    }

    /// Reads or writes a line, which is in it from now on. Returns when the bytes have been
    /// transferred.
    pub fn access(&mut self, line: LineNumber, now: Cycles) -> Cycles {
        self.held[(line / 64) as usize] |= 1 << (line % 64);
        self.occupy(line, now)
    }

    /// Times an access to where a line lies, for what lies there beside its bytes. Returns when it has
    /// been transferred.
    pub fn occupy(&mut self, line: LineNumber, now: Cycles) -> Cycles {
        let count = self.controllers.len() as u64;
        let controller = &mut self.controllers[(line % count) as usize];
        let banks = controller.bank_free.len() as u64;
        let free = &mut controller.bank_free[(line / count % banks) as usize];
        let start = now.max(*free);
        *free = start + self.cycle;
        controller.channel.reserve(start + self.access, LINE_BYTES)
    }

    /// The line's newest bytes are here alone; `displaced` is what was newest before.
    pub fn falls_behind(&mut self, line: LineNumber, displaced: &Line) {
        self.behind.entry(line).or_insert(*displaced);
    }

    /// The line is given to the NVM: returns what that has there, if it is behind.
    pub fn catches_up(&mut self, line: LineNumber) -> Option<Line> {
        if self.behind.is_empty() {
            return None;
        }
        self.behind.remove(&line)
    }

    /// True if the NVM does not have the line's newest bytes.
    pub fn is_ahead(&self, line: LineNumber) -> bool {
        self.behind.contains_key(&line)
    }

    /// What the NVM has of a line, if it is behind.
    pub fn behind_of(&self, line: LineNumber) -> Option<&Line> {
        self.behind.get(&line)
    }

    /// What the NVM has of every line that is behind.
    pub fn behind(&self) -> impl Iterator<Item = (LineNumber, &Line)> {
        self.behind.iter().map(|(&line, bytes)| (line, bytes))
    }
}

impl Memory {
    /// Lines that recovery loaded into the DRAM, where the arena has them by now, with what the NVM
    /// has there.
    pub fn load_dram(&mut self, behind: BTreeMap<LineNumber, Line>) {
        if let Some(dram) = &mut self.dram {
            for (line, bytes) in behind {
                dram.falls_behind(line, &bytes);
            }
        }
    }
}
