//! `picl-l2`: PiCL with its tags in the L2s, for machines whose last-level cache is not inclusive
//! ("a hypothetical design that functions the same as PiCL, except that tag walks are at the L2
//! level", NVOverlay §VI-B).
//!
//! PiCL itself (log, undo buffers, scan, registers, recovery) is [`crate::picl`]; here is what
//! changes with the level. The chip ends at the L2s. A dirty line that leaves a domain's L2, for
//! whatever reason, is an eviction in PiCL's sense: its undo entries first, then the line, in place.
//! The last-level cache gets a working copy, which needs no write when it goes. The scan walks all
//! L2s side by side.
//!
//! Always true here, beside what PiCL says:
//! - A line whose bytes differ from memory's is dirty in one domain's private caches, and nowhere
//!   else. Its tag in the L2 is that of the newest bytes, be they in the L2 or in the L1.
//! - A dirty line goes from one L2 to another only because of a store there, which tags it with the
//!   one epoch that all domains execute. So no scan can miss it on its way.

pub mod bugs;

use perdure_hardware::cache::{Slot, State};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Version};
use perdure_hardware::policy::{CrossVersionStore, Departure, Reason};
use perdure_hardware::specification::Specification;
use perdure_hardware::time::Cycles;

use self::bugs::Bug;
use crate::design::{ImpossibleParameter, PlantedBug, refuse_inclusion};
use crate::picl::InCacheLog;
use crate::picl::level::{Keys, Level, keys};
use crate::picl::scan::Pass;

/// The design.
pub type PiclL2 = InCacheLog<SecondLevel>;

/// Tags in the L2s.
pub struct SecondLevel {
    bug: Option<Bug>,
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

    fn new(bug: Option<&'static str>) -> Self {
        let bug = bug.and_then(Bug::named);
        Self { bug }
    }

    fn check(specification: &Specification) -> Result<(), ImpossibleParameter> {
        refuse_inclusion(specification, Self::NAME)
    }

    /// From an L1 to its own L2, which no other domain needs.
    fn forward(_: &mut Hardware, _: &CrossVersionStore, now: Cycles) -> Cycles {
        now
    }

    fn set_tag(hardware: &mut Hardware, store: &CrossVersionStore, tag: Version) {
        let l2 = &mut hardware.domains[store.domain].l2;
        if let Some(slot) = l2.find(store.line) {
            l2.set_word(slot, l2.word(slot).with_version(tag));
        }
    }

    fn evicts(&self, departure: &Departure) -> bool {
        !(self.bug == Some(Bug::CapacityStaysOnChip) && departure.reason == Reason::Capacity)
    }

    /// What it has, even as dirty, was written in place when it left the L2.
    fn evicts_from_last_level(&self) -> bool {
        self.bug == Some(Bug::CapacityStaysOnChip)
    }

    /// None: there are no tags behind the L2s, and what comes back is logged again.
    fn departed_tag(&self, tag: Version) -> Version {
        if self.bug == Some(Bug::TagOutlivesEpoch) {
            tag
        } else {
            Version::NONE
        }
    }

    fn scan_steps(hardware: &Hardware) -> usize {
        hardware.domains[0].l2.sets()
    }

    /// Every domain's walker looks at its set. Where it finds a line of the pass's epochs, all lines
    /// of the set that are not of the executing epoch are written.
    fn scan(picl: &mut PiclL2, hardware: &mut Hardware, set: usize, pass: &mut Pass) -> bool {
        pass.time += 1;
        for domain in 0..hardware.domains.len() {
            let due = look(picl, hardware, domain, set, pass);
            if due.lines == 0 {
                continue;
            }
            if pass.opportunistic && due.free > pass.time {
                // What has been written is clean: they look at their sets again then.
                pass.time = due.free;
                return false;
            }
            let asks_l1 = picl.level.bug != Some(Bug::ScanSkipsPrivate);
            let walked = hardware.walk_set(picl, domain, set, asks_l1, pass.time);
            hardware.statistics.acs_snoops += due.in_l1;
            hardware.statistics.acs_lines += walked.versions;
            pass.time = pass.time.max(walked.ready);
        }
        true
    }
}

fn look(picl: &PiclL2, hardware: &Hardware, domain: usize, set: usize, pass: &Pass) -> Due {
    let mut due = Due {
        lines: 0,
        in_l1: 0,
        free: 0,
    };
    let l2 = &hardware.domains[domain].l2;
    for way in 0..l2.ways() {
        let slot = Slot((set * l2.ways() + way) as u32);
        let word = l2.word(slot);
        if !l2.occupied(slot)
            || word.version() == Version::NONE
            || picl.epoch_of(word.version()) > pass.target
        {
            continue;
        }
        let in_l1 = hardware.modified_above(domain, slot).is_some();
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
