//! What becomes of some lines, for whoever explains a power cut: every store to them, every time that they
//! leave the caches, and every write that memory accepts of them, of a log or of a table.
//!
//! Always true here: nothing is kept unless somebody asked before the first instruction, and nothing of it
//! changes a run, except how long its simulation takes: stores to these lines do not hit the lookaside.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use crate::cache::Slot;
use crate::controller::Served;
use crate::hierarchy::Hardware;
use crate::line::{LINE_BYTES, Line, LineNumber, Version};
use crate::memory::{Memory, Traffic};
use crate::module::Operation;
use crate::policy::{Cause, Eviction};
use crate::time::Cycles;

/// On whose behalf bytes are stored, in the words of whoever runs the harts; see [`Memory::stores_for`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    /// The instruction that stores, or that the system was entered at: its address space, and where in it.
    pub instruction: Option<(u32, u64)>,
    /// What the system does, if it is the system that stores.
    pub system: Option<&'static str>,
    /// When it stores: the bytes are there later, after a miss much later.
    pub began: Option<Cycles>,
}

/// What was heard, in the order of the simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A hart has stored to a line.
    Stored {
        /// Who.
        hart: usize,
        /// Where.
        line: LineNumber,
        /// When its bytes are there.
        at: Cycles,
        /// The version that the line carries now.
        version: Version,
        /// The line's bytes now.
        bytes: Box<Line>,
        /// On whose behalf.
        writer: Writer,
    },
    /// A dirty line has left the caches.
    Left {
        /// Which.
        line: LineNumber,
        /// When.
        at: Cycles,
        /// Why.
        cause: Cause,
    },
    /// A module has accepted a write.
    Written {
        /// The module.
        module: usize,
        /// The first byte's physical address.
        address: u64,
        /// How many.
        length: usize,
        /// The program's line that the bytes belong to.
        home: LineNumber,
        /// What they are for.
        traffic: Traffic,
        /// When it was accepted, when it begins at the media, and when it survives.
        when: [Cycles; 3],
    },
    /// Of interest where all lines of a range are watched.
    Ordered(Ordered),
}

/// What says in which order bytes become durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// A hart's persist operation sends a line's bytes to where they survive, or a store around the caches.
    Persisted {
        /// Who.
        hart: usize,
        /// Which line.
        line: LineNumber,
    },
    /// A hart's fence waited for its persist operations.
    Fenced {
        /// Who.
        hart: usize,
        /// When the hart went on.
        done: Cycles,
    },
    /// What a hart stores from now on is the system's own, or its thread's again.
    System {
        /// Who.
        hart: usize,
        /// Which of the two.
        begins: bool,
    },
    /// The program on a hart says something of itself, in the words of whoever runs the harts.
    Said {
        /// Who.
        hart: usize,
        /// When.
        at: Cycles,
        /// Which of the things that can be said, and two numbers of it.
        what: (u8, [u64; 2]),
    },
}

/// The lines, and what was heard of them.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Looked up, never iterated over.
    lines: HashSet<LineNumber>,
    /// All lines of this range, too; then persist operations, fences and what programs say are heard.
    range: Range<LineNumber>,
    heard: Vec<Heard>,
    /// Who stores now.
    writer: Writer,
    /// Who stored last into what waits in a combining buffer: a hart's, of a line.
    combined: BTreeMap<(usize, LineNumber), Writer>,
}

impl Watched {
    /// These lines.
    pub fn new(lines: impl IntoIterator<Item = LineNumber>) -> Self {
        Self {
            lines: lines.into_iter().collect(),
            ..Self::default()
        }
    }

    /// All lines of a range, and in which order harts make them durable.
    pub fn all_of(range: Range<LineNumber>) -> Self {
        Self {
            range,
            ..Self::default()
        }
    }

    /// True for one of the lines.
    pub fn has(&self, line: LineNumber) -> bool {
        self.range.contains(&line) || self.lines.contains(&line)
    }

    /// True where it is heard in which order bytes become durable.
    fn hears_order(&self) -> bool {
        !self.range.is_empty()
    }

    #[cold]
    fn left(&mut self, eviction: &Eviction, at: Cycles) {
        if self.has(eviction.line) {
            let (line, cause) = (eviction.line, eviction.cause);
            self.heard.push(Heard::Left { line, at, cause });
        }
    }

    /// What was heard since the last time.
    pub fn take(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.heard)
    }
}

impl Memory {
    /// Whoever watches hears from now on that stores are made on this behalf.
    #[inline]
    pub fn stores_for(&mut self, writer: impl FnOnce() -> Writer) {
        if let Some(watched) = &mut self.watched {
            watched.writer = writer();
        }
    }

    /// A hart stores into its combining buffer of a line, and is heard when that is sent.
    pub(crate) fn hear_combined(&mut self, hart: usize, line: LineNumber) {
        if let Some(watched) = &mut self.watched
            && watched.has(line)
        {
            watched.combined.insert((hart, line), watched.writer);
        }
    }

    /// Whether anybody hears in which order bytes become durable.
    #[inline]
    pub(crate) fn hears_order(&self) -> bool {
        self.watched
            .as_ref()
            .is_some_and(|watched| watched.hears_order())
    }

    /// Something happens that is of interest to whoever hears in which order bytes become durable.
    #[inline]
    pub fn hear_order(&mut self, event: impl FnOnce() -> Ordered) {
        if let Some(watched) = &mut self.watched
            && watched.hears_order()
        {
            watched.heard.push(Heard::Ordered(event()));
        }
    }

    /// True for a line whose stores somebody has to hear.
    #[inline(always)]
    pub(crate) fn is_watched(&self, line: LineNumber) -> bool {
        (self.watched.as_ref()).is_some_and(|watched| watched.has(line))
    }

    /// A module has accepted a write.
    #[inline(always)]
    pub(crate) fn hear_write(&mut self, operation: &Operation, written: &Served) {
        if self.watched.is_some() {
            self.keep_write(operation, written);
        }
    }

    #[cold]
    fn keep_write(&mut self, operation: &Operation, written: &Served) {
        let &Operation {
            module,
            address,
            home,
            bytes: length,
            traffic,
            ..
        } = operation;
        let Some(watched) = &mut self.watched else {
            return;
        };
        let end = address + length as u64;
        let mut lines = address / LINE_BYTES as u64..end.div_ceil(LINE_BYTES as u64);
        let of_design = matches!(traffic, Traffic::Log | Traffic::Metadata);
        if of_design || watched.has(home) || lines.any(|line| watched.has(line)) {
            watched.heard.push(Heard::Written {
                module,
                address,
                length,
                home,
                traffic,
                when: [written.accepted, written.start, written.done],
            });
        }
    }
}

impl Hardware {
    /// A hart has stored to the line in an L1D slot.
    #[cold]
    pub(crate) fn hear_store(&mut self, hart: usize, slot: Slot, at: Cycles) {
        let word = self.cores[hart].l1d.word(slot);
        let bytes = *self.cores[hart].l1d.data(slot);
        self.hear_bytes(hart, word.line(), word.version(), &bytes, at);
    }

    /// A line has these bytes from now on.
    pub(crate) fn hear_bytes(
        &mut self,
        hart: usize,
        line: LineNumber,
        version: Version,
        bytes: &Line,
        at: Cycles,
    ) {
        if let Some(watched) = &mut self.memory.watched
            && watched.has(line)
        {
            let bytes = Box::new(*bytes);
            let combined = watched.combined.remove(&(hart, line));
            watched.heard.push(Heard::Stored {
                hart,
                line,
                at,
                version,
                bytes,
                writer: combined.unwrap_or(watched.writer),
            });
        }
    }

    /// A dirty line has left the caches.
    #[inline(always)]
    pub(crate) fn hear_eviction(&mut self, eviction: &Eviction, at: Cycles) {
        if let Some(watched) = &mut self.memory.watched {
            watched.left(eviction, at);
        }
    }
}
