//! Where the bytes of a line are, everywhere, and what is on its way to memory: for reports of a power cut.
//!
//! Always true here: looking costs nothing and changes nothing.

use crate::cache::{Cache, State};
use crate::hierarchy::Hardware;
use crate::line::{LINE_BYTES, Line, LineNumber, Version};
use crate::policy::Policy;
use crate::time::Cycles;

/// What one place has of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Where, for people.
    pub place: String,
    /// What the place says of it, for people; empty if nothing.
    pub state: String,
    /// The version that it carries; [`Version::NONE`] if none.
    pub version: Version,
    /// A power cut leaves it, as the machine is built.
    pub survives: bool,
    /// The bytes.
    pub bytes: Line,
}

/// A write that memory has accepted, and that a power cut takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The module.
    pub module: usize,
    /// The first byte's physical address.
    pub address: u64,
    /// How many.
    pub length: usize,
    /// When it begins at the media, and when it survives.
    pub when: [Cycles; 2],
}

impl Hardware {
    /// Every place that has bytes of a line at `at`: nearest to the harts first, memory last.
    pub fn whereabouts<P: Policy + ?Sized>(
        &self,
        policy: &P,
        line: LineNumber,
        at: Cycles,
    ) -> Vec<Held> {
        let mut held = Vec::new();
        let kept = self.memory.keeps_caches();
        let mut cached = |place: String, cache: &Cache| {
            if let Some(slot) = cache.find(line) {
                let word = cache.word(slot);
                let modified = word.state() == State::Modified || word.dirty();
                held.push(Held {
                    place,
                    state: if modified { "modified" } else { "clean" }.into(),
                    version: word.version(),
                    survives: kept && self.memory.keeps(line * LINE_BYTES as u64),
                    bytes: *cache.data(slot),
                });
            }
        };
        for core in &self.cores {
            cached(format!("L1D of hart {}", core.hart), &core.l1d);
        }
        for group in &self.groups {
            let harts = &group.harts;
            let whose = match harts.len() {
                1 => format!("L2 of hart {}", harts.start),
                _ => format!("L2 of harts {}–{}", harts.start, harts.end - 1),
            };
            cached(whose, &group.l2);
        }
        cached("last-level cache".into(), &self.llc);
        for core in &self.cores {
            for combined in core.combining.iter().filter(|one| one.line == line) {
                let mut bytes = policy.peek(self, line);
                combined.lay_over(&mut bytes.0);
                held.push(Held {
                    place: format!("write-combining buffer of hart {}", core.hart),
                    state: String::new(),
                    version: Version::NONE,
                    survives: false,
                    bytes,
                });
            }
        }
        policy.holds(self, line, &mut |place, bytes| {
            held.push(Held {
                place,
                state: String::new(),
                version: Version::NONE,
                survives: false,
                bytes: *bytes,
            });
        });
        held.push(self.in_memory(line, at));
        held
    }

    /// What memory has of a line at its home address.
    fn in_memory(&self, line: LineNumber, at: Cycles) -> Held {
        let address = line * LINE_BYTES as u64;
        let module = self.memory.map().locate(address).module;
        let module = &self.memory.modules()[module];
        let bytes = *self.memory.arena.line(address);
        let waits = module.waiting.until(at);
        let mine = waits.filter(|(start, length, _)| {
            *start < address + LINE_BYTES as u64 && address < start + *length as u64
        });
        let behind = (self.memory.dram.as_ref()).and_then(|dram| dram.behind_of(line));
        let (place, state) = match (behind, mine.last()) {
            (Some(_), _) => ("DRAM".to_owned(), String::new()),
            (None, Some((_, _, [start, done]))) if start > at => (
                format!("write queue of module {}", module.name),
                format!("to be written from cycle {start} to {done}"),
            ),
            (None, Some((_, _, [start, done]))) => (
                format!("module {}", module.name),
                format!("being written from cycle {start} to {done}"),
            ),
            (None, None) => (format!("module {}", module.name), String::new()),
        };
        let survives = state.is_empty() && behind.is_none() && self.memory.keeps(address);
        Held {
            place,
            state,
            version: Version::NONE,
            survives,
            bytes,
        }
    }

    /// What memory has accepted and a power cut at `at` takes, in the order of acceptance; of modules that
    /// keep anything at all.
    pub fn in_flight(&self, at: Cycles) -> impl Iterator<Item = InFlight> {
        let modules = self.memory.modules().iter().enumerate();
        modules.flat_map(move |(module, one)| {
            one.waiting
                .until(at)
                .map(move |(address, length, when)| InFlight {
                    module,
                    address,
                    length,
                    when,
                })
        })
    }
}
