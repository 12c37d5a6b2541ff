//! A machine that a debugger drives, and where it stands.
//!
//! Always true here:
//! - A moment is a count of what has happened: instructions of all harts, and everything else that the
//!   machine's loop does one at a time (kernel entries, events, turns, ends of epochs). Their order is the
//!   machine's own and always the same, so a moment names one state of it.
//! - A head stands at the beginning of a block, from where a machine may go on.

use std::sync::Arc;

use perdure_hardware::time::Cycles;

use super::view;
use crate::error::Error;
use crate::machine::{Machine, Next, Pause};
use crate::stepping::{Hit, Stepping, Stops, Touch, Way};

/// The latest time that a run can be told.
pub(super) const NEVER: Cycles = Cycles::MAX - 1;

/// A machine, and where it stands.
pub(super) struct Head {
    pub machine: Machine,
    /// What happened since the life began and was no instruction.
    others: u64,
    /// The moment before the kernel was last entered.
    pub last_entry: u64,
}

impl Clone for Head {
    fn clone(&self) -> Self {
        Self {
            machine: self.machine.clone(),
            others: self.others,
            last_entry: self.last_entry,
        }
    }
}

/// What one round came to.
pub(super) struct Round {
    /// What the machine did.
    pub did: Next,
    /// The thread on whose behalf, 0 for none.
    pub thread: u32,
    /// The moment before it.
    pub before: u64,
    /// The machine paused, and did nothing else.
    pub pause: Option<Pause>,
    /// The engine came back before a block that may hold a breakpoint.
    pub refused: bool,
    /// Watch points that were met.
    pub hits: Vec<Met>,
}

/// A watch point was met.
#[derive(Clone, Copy)]
pub(super) struct Met {
    /// At the instruction, or the kernel entry, of this moment.
    pub moment: u64,
    /// The thread that did it, or a thread for whose process the kernel did it.
    pub thread: u32,
    /// How.
    pub hit: Hit,
}

/// What a thread's process has at the addresses of a watch point.
struct Held {
    thread: u32,
    watch: usize,
    bytes: Vec<u8>,
}

/// How far a round goes at most.
#[derive(Clone, Copy)]
pub(super) struct Reach {
    /// The time.
    pub until: Cycles,
    /// The first beginning of a block at this moment, or after it.
    pub moment: u64,
    /// The first block runs whatever breakpoint it holds.
    pub passes: bool,
}

impl Head {
    /// A life that begins.
    pub fn new(machine: Machine) -> Self {
        Self {
            last_entry: machine.retired(),
            machine,
            others: 0,
        }
    }

    /// Where it stands.
    pub fn moment(&self) -> u64 {
        self.machine.retired() + self.others
    }

    fn stepping(&mut self, hart: usize) -> &mut Stepping {
        let source = self.machine.source_mut(hart).stepping();
        source.expect("a debugger's machine has its engine")
    }

    /// From now on it comes back there.
    pub fn look_for(&mut self, stops: &Arc<Stops>) {
        for hart in 0..self.machine.contexts().count() {
            let stepping = self.stepping(hart);
            stepping.stops = Arc::clone(stops);
            stepping.hits.clear();
        }
    }

    /// One round of the machine's loop.
    pub fn round(&mut self, reach: Reach) -> Result<Round, Error> {
        let did = self.machine.next();
        let before = self.moment();
        let thread = match did {
            Next::Instructions { hart } | Next::Handling { hart, .. } => self.machine.running(hart),
            Next::Other => None,
        };
        let mut retired = 0;
        if let Next::Instructions { hart } = did {
            retired = self.machine.registers(hart).retired;
            let more = reach.moment.saturating_sub(before).max(1);
            self.stepping(hart).way = Way::Free {
                retired: retired.saturating_add(more),
                passes: reach.passes,
            };
        }
        let thread = thread.map_or(0, |running| running.thread.0);
        let held = match did {
            Next::Instructions { .. } => Vec::new(),
            Next::Handling { .. } | Next::Other => self.held(thread),
        };
        let pause = self.machine.round(reach.until)?;
        let mut round = Round {
            did,
            thread,
            before,
            pause,
            refused: false,
            hits: Vec::new(),
        };
        let happened = matches!(pause, None | Some(Pause::EpochEnded(_)));
        match did {
            Next::Instructions { hart } if happened => {
                let stepping = self.stepping(hart);
                round.refused = stepping.refused;
                let hits = std::mem::take(&mut stepping.hits).into_iter();
                let met = |hit: Hit| Met {
                    moment: before + (hit.retired - retired),
                    thread,
                    hit,
                };
                round.hits = hits.map(met).collect();
            }
            Next::Instructions { .. } => {}
            Next::Handling { .. } | Next::Other => {
                self.others += u64::from(happened);
                if !held.is_empty() {
                    round.hits = self.changed(&held, thread, before);
                }
            }
        }
        if let (Next::Handling { .. }, true) = (did, happened) {
            self.last_entry = before;
        }
        Ok(round)
    }

    /// What processes have at addresses whose stores are watched: `thread`'s, and each of the others.
    fn held(&mut self, thread: u32) -> Vec<Held> {
        let stops = Arc::clone(&self.stepping(0).stops);
        let watches = stops.watches.iter().enumerate();
        let stores = watches.filter(|(_, watch)| watch.touch != Touch::Read);
        let (machine, kernel) = (&self.machine, self.machine.kernel());
        let own = kernel.space_of_thread(thread);
        let held = stores.flat_map(|(watch, point)| {
            kernel.inhabitants().filter_map(move |(first, space)| {
                let mut bytes = vec![0; point.bytes as usize];
                let there = view::read(machine, space, point.start, &mut bytes);
                let thread = if own == Some(space) { thread } else { first };
                (there == bytes.len()).then_some(Held {
                    thread,
                    watch,
                    bytes,
                })
            })
        });
        held.collect()
    }

    /// Where the kernel has just written other bytes, at a moment, than there were before.
    fn changed(&mut self, before: &[Held], thread: u32, moment: u64) -> Vec<Met> {
        let now = self.held(thread);
        let pairs = before.iter().filter_map(|held| {
            let same = |one: &&Held| (one.thread, one.watch) == (held.thread, held.watch);
            Some((held, now.iter().find(same)?))
        });
        let changed = pairs.filter(|(before, now)| before.bytes != now.bytes);
        let met = changed.map(|(held, _)| Met {
            moment,
            thread: held.thread,
            hit: Hit {
                retired: 0,
                watch: held.watch,
                kernel: true,
            },
        });
        met.collect()
    }

    /// Runs to the first moment that is not before one, or until a time; true if it came to that time or to
    /// the end.
    pub fn run_to(&mut self, moment: u64, until: Cycles) -> Result<bool, Error> {
        while self.moment() < moment {
            let reach = Reach {
                until,
                moment,
                passes: true,
            };
            if let Some(Pause::Time | Pause::Finished) = self.round(reach)?.pause {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A copy, run so many instructions into the block that comes next: to be looked at. With it, how many it
    /// was, and what was touched, by instruction of the block.
    pub fn inside(&self, instructions: u64) -> (Machine, u64, Vec<(u64, Hit)>) {
        let mut copy = self.clone();
        let Next::Instructions { hart } = copy.machine.next() else {
            return (copy.machine, 0, Vec::new());
        };
        let before = copy.machine.registers(hart).retired;
        copy.stepping(hart).way = Way::Part { instructions };
        copy.machine.run_part();
        let ran = copy.machine.registers(hart).retired - before;
        let hits = std::mem::take(&mut copy.stepping(hart).hits).into_iter();
        let hits = hits.map(|hit| (hit.retired - before, hit)).collect();
        (copy.machine, ran, hits)
    }
}
