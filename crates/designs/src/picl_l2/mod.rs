//! `picl-l2`: PiCL with its tags in the L2s, for machines whose last-level cache is not inclusive
//! ("a hypothetical design that functions the same as PiCL, except that tag walks are at the L2
//! level", NVOverlay §VI-B).
//!
//! PiCL itself (log, undo buffers, scan, registers, recovery) is [`crate::picl`]; here is what
//! changes with the level. The chip ends at the L2s. A dirty line that leaves a sharing group's L2, for
//! whatever reason, is an eviction in PiCL's sense: its undo entries first, then the line, in place.
//! The last-level cache gets a working copy, which needs no write when it goes. The scan walks all
//! L2s side by side.
//!
//! Always true here, beside what PiCL says:
//! - A line whose bytes differ from memory's is dirty in one sharing group's private caches, and nowhere
//!   else. Its tag in the L2 is that of the newest bytes, be they in the L2 or in the L1.
//! - A dirty line goes from one L2 to another only because of a store there, which tags it with the
//!   one epoch that all sharing groups execute. So no scan can miss it on its way.

pub mod bugs;

use std::collections::BTreeMap;

use perdure_hardware::cache::{Slot, State};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, LineNumber, Version};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{CrossVersionStore, Departure, Reason};
use perdure_hardware::specification::Specification;
use perdure_hardware::time::Cycles;

use self::bugs::Flaws;
use crate::design::{ImpossibleParameter, PlantedBug, refuse_inclusion};
use crate::picl::level::{Keys, Level, keys};
use crate::picl::scan::Pass;
use crate::picl::{InCacheLog, Parameters};

/// The design.
pub type PiclL2 = InCacheLog<SecondLevel>;

/// Tags in the L2s.
#[derive(Clone)]
pub struct SecondLevel {
    flaws: Flaws,
    /// With `coherence_evicts` off, the lines that other sharing groups have read since they were
    /// written, with the epoch that wrote them: no cache has them as dirty but the last level, and they
    /// are still to be written in place.
    dirty_apart: Option<BTreeMap<LineNumber, u64>>,
}

impl SecondLevel {
    /// Whoever asks for such a line sees to it. Returns its epoch.
    fn take(&mut self, line: LineNumber) -> Option<u64> {
        self.dirty_apart.as_mut()?.remove(&line)
    }
}

/// What the scan finds in a set of an L2.
struct Due {
    /// Lines of the pass's epochs.
    lines: usize,
    /// Of these, lines whose newest bytes are in the L1.
    in_l1: u64,
    /// When memory could start with each of them.
    free: Cycles,
}

impl Level for SecondLevel {
    const NAME: &'static str = "picl-l2";
    const SUMMARY: &'static str =
        "PiCL with its tags in the L2s, for last-level caches that are not inclusive";
    const PLANTED_BUGS: &'static [PlantedBug] = bugs::ALL;
    // The machines that they are tried on are PiCL's, with an inclusive last-level cache. As PiCL's
    // own settings: a log that must be reclaimed all the time, EIDs about to wrap, immediate scans.
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[
        &[
            "llc.inclusion=non-inclusive",
            "picl-l2.log_extent_bytes=256KiB",
            "picl-l2.log_limit_bytes=64MiB",
        ],
        &[
            "llc.inclusion=non-inclusive",
            "picl-l2.acs_gap=1",
            "picl-l2.log_extent_bytes=256KiB",
            "picl-l2.log_limit_bytes=64MiB",
        ],
        &[
            "llc.inclusion=non-inclusive",
            "picl-l2.eid_bits=3",
            "picl-l2.acs_gap=4",
            "picl-l2.log_extent_bytes=64KiB",
            "picl-l2.log_limit_bytes=64MiB",
        ],
        &[
            "llc.inclusion=non-inclusive",
            "picl-l2.acs_gap=1",
            "picl-l2.undo_buffer_bytes=4096",
        ],
        &[
            "llc.inclusion=non-inclusive",
            "picl-l2.eid_bits=2",
            "picl-l2.acs_gap=0",
        ],
    ];
    const KEYS: Keys = keys!("picl-l2");
    const KEEPS_LAST_LEVEL: bool = false;

    fn new(parameters: &Parameters, bug: Option<&'static str>) -> Self {
        Self {
            flaws: Flaws::of(bug),
            dirty_apart: (!parameters.coherence_evicts).then(BTreeMap::new),
        }
    }

    fn check(specification: &Specification) -> Result<(), ImpossibleParameter> {
        refuse_inclusion(specification, Self::NAME)
    }

    /// From an L1 to its own L2, which no other sharing group needs.
    fn forward(_: &mut Hardware, _: &CrossVersionStore, now: Cycles) -> Cycles {
        now
    }

    fn set_tag(hardware: &mut Hardware, store: &CrossVersionStore, tag: Version) {
        let l2 = &mut hardware.groups[store.group].l2;
        if let Some(slot) = l2.find(store.line) {
            l2.set_word(slot, l2.word(slot).with_version(tag));
        }
    }

    fn is_logged(&mut self, line: LineNumber, epoch: u64) -> bool {
        self.take(line) == Some(epoch)
    }

    fn evicts(&mut self, hardware: &mut Hardware, departure: &Departure, epoch: u64) -> bool {
        if let (Some(lines), Reason::Downgrade) = (&mut self.dirty_apart, departure.reason) {
            // Its write is yet to be timed. Its bytes go home now: clean copies of it may be dropped.
            let home = departure.line * LINE_BYTES as u64;
            hardware.memory.arena.write_line(home, &departure.bytes);
            lines.insert(departure.line, epoch);
            return false;
        }
        !(self.flaws.keeps_capacity_on_chip && departure.reason == Reason::Capacity)
    }

    /// What it has, even as dirty, was written in place when it left the L2.
    fn evicts_from_last_level(&mut self, line: LineNumber) -> bool {
        self.flaws.keeps_capacity_on_chip || self.take(line).is_some()
    }

    /// None: there are no tags behind the L2s, and what comes back is logged again.
    fn departed_tag(&self, tag: Version) -> Version {
        if self.flaws.tag_outlives_epoch {
            tag
        } else {
            Version::NONE
        }
    }

    fn scan_steps(hardware: &Hardware) -> usize {
        hardware.groups[0].l2.sets()
    }

    /// Every sharing group's walker looks at its set. Where it finds a line of the pass's epochs, all
    /// lines of the set that are not of the executing epoch are written.
    fn scan(picl: &mut PiclL2, hardware: &mut Hardware, set: usize, pass: &mut Pass) -> bool {
        pass.time += 1;
        for group in 0..hardware.groups.len() {
            let due = look(picl, hardware, group, set, pass);
            if due.lines == 0 {
                continue;
            }
            if pass.opportunistic && due.free > pass.time {
                // What has been written is clean: they look at their sets again then.
                pass.time = due.free;
                return false;
            }
            let asks_l1 = !picl.level.flaws.scans_past_private;
            let walked = hardware.walk_set(picl, group, set, asks_l1, pass.time);
            picl.counters.acs_snoops += due.in_l1;
            picl.counters.acs_lines += walked.versions;
            pass.time = pass.time.max(walked.ready);
        }
        if set + 1 == Self::scan_steps(hardware) {
            write_apart(picl, hardware, pass);
        }
        true
    }
}

/// At the end of a pass: what no set has shown to it, and its epochs have written.
fn write_apart(picl: &mut PiclL2, hardware: &mut Hardware, pass: &mut Pass) {
    let Some(lines) = &mut picl.level.dirty_apart else {
        return;
    };
    let mut due = Vec::new();
    lines.retain(|&line, &mut epoch| {
        let later = epoch > pass.target;
        due.extend((!later).then_some(line));
        later
    });
    for line in due {
        let bytes = match hardware.llc.find(line) {
            Some(slot) => *hardware.llc.data(slot),
            None => *hardware.memory.arena.line(line * LINE_BYTES as u64),
        };
        let traffic = Traffic::Flush;
        let done = picl.write_in_place(hardware, line, &bytes, traffic, pass.time);
        picl.counters.acs_lines += 1;
        pass.time = done.accepted + 1;
        pass.durable = pass.durable.max(done.durable);
    }
}

fn look(picl: &PiclL2, hardware: &Hardware, group: usize, set: usize, pass: &Pass) -> Due {
    let mut due = Due {
        lines: 0,
        in_l1: 0,
        free: 0,
    };
    let l2 = &hardware.groups[group].l2;
    for way in 0..l2.ways() {
        let slot = Slot((set * l2.ways() + way) as u32);
        let word = l2.word(slot);
        if !l2.occupied(slot)
            || word.version() == Version::NONE
            || picl.epoch_of(word.version()) > pass.target
        {
            continue;
        }
        let in_l1 = hardware.modified_above(group, slot).is_some();
        if in_l1 || word.state() == State::Modified {
            let home = word.line() * LINE_BYTES as u64;
            due.lines += 1;
            due.in_l1 += u64::from(in_l1);
            due.free = due
                .free
                .max(hardware.memory.could_start_at(home, pass.time));
        }
    }
    due
}
