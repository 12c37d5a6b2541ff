//! Where the tags lie, and with them the end of the chip as PiCL sees it: what is behind has no tags,
//! and a dirty line that goes there is an eviction.
//!
//! Always true: whatever the level, a line's undo entries are durable, and all log blocks before them,
//! before the line is written in place, and the scan finds every dirty line of its target epochs. The
//! rest of PiCL does not ask where the tags are.

use perdure_hardware::cache::Slot;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, LineNumber, Version};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{CrossVersionStore, Departure};
use perdure_hardware::specification::Specification;
use perdure_hardware::time::Cycles;

use super::bugs;
use super::scan::Pass;
use super::{InCacheLog, Parameters, Picl};
use crate::design::{ImpossibleParameter, PlantedBug};

/// A level of the cache hierarchy, as the place of the EID array.
pub trait Level: Clone + Send + 'static {
    /// [`crate::Design::NAME`].
    const NAME: &'static str;
    /// [`crate::Design::SUMMARY`].
    const SUMMARY: &'static str;
    /// [`crate::Design::PLANTED_BUGS`].
    const PLANTED_BUGS: &'static [PlantedBug];
    /// [`crate::Design::UNLUCKY_SETTINGS`].
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]];
    /// Names of the design's parameters.
    const KEYS: Keys;
    /// True if the last-level cache is part of the chip, which then must be inclusive.
    const KEEPS_LAST_LEVEL: bool;

    /// For a machine that starts.
    fn new(parameters: &Parameters, bug: Option<&'static str>) -> Self;

    /// Refuses machines that lack what the level needs.
    fn check(specification: &Specification) -> Result<(), ImpossibleParameter>;

    /// A store's undo entry goes to the level of the tags. Returns when it is there.
    fn forward(hardware: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles;

    /// And the tag there becomes that of the store's epoch.
    fn set_tag(hardware: &mut Hardware, store: &CrossVersionStore, tag: Version);

    /// True if the store needs no undo entry, because its line has one of that epoch, although the
    /// caches' tags do not say so.
    fn is_logged(&mut self, _line: LineNumber, _epoch: u64) -> bool {
        false
    }

    /// True if a dirty line of that epoch, which leaves a sharing group's private caches, must be
    /// written in place.
    fn evicts(&mut self, hardware: &mut Hardware, departure: &Departure, epoch: u64) -> bool;

    /// True if one that leaves the last-level cache must.
    fn evicts_from_last_level(&mut self, line: LineNumber) -> bool;

    /// The tag that a line keeps behind the level, and in clean copies.
    fn departed_tag(&self, tag: Version) -> Version;

    /// Steps of a scan over all tags.
    fn scan_steps(hardware: &Hardware) -> usize;

    /// One of them: writes lines of the pass's epochs in place. False if it gave way to others'
    /// requests, and wants to be called again for the same step.
    fn scan(
        picl: &mut InCacheLog<Self>,
        hardware: &mut Hardware,
        step: usize,
        pass: &mut Pass,
    ) -> bool;
}

/// Names of the parameters, for messages.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each is the parameter of that name")]
pub struct Keys {
    pub eid_bits: &'static str,
    pub acs_gap: &'static str,
    pub acs_sets_per_step: &'static str,
    pub undo_buffer_bytes: &'static str,
    pub bloom_filter_bits: &'static str,
    pub log_extent_bytes: &'static str,
    pub log_limit_bytes: &'static str,
}

/// The [`Keys`] of a section.
macro_rules! keys {
    ($section:literal) => {
        $crate::picl::level::Keys {
            eid_bits: concat!($section, ".eid_bits"),
            acs_gap: concat!($section, ".acs_gap"),
            acs_sets_per_step: concat!($section, ".acs_sets_per_step"),
            undo_buffer_bytes: concat!($section, ".undo_buffer_bytes"),
            bloom_filter_bits: concat!($section, ".bloom_filter_bits"),
            log_extent_bytes: concat!($section, ".log_extent_bytes"),
            log_limit_bytes: concat!($section, ".log_limit_bytes"),
        }
    };
}
pub(crate) use keys;

/// The paper's PiCL: tags in the inclusive last-level cache.
#[derive(Clone)]
pub struct LastLevel;

impl Level for LastLevel {
    const NAME: &'static str = "picl";
    const SUMMARY: &'static str =
        "PiCL: multi-undo logging from the caches, asynchronous cache scan";
    const PLANTED_BUGS: &'static [PlantedBug] = bugs::ALL;
    // A log that must be reclaimed all the time, EIDs about to wrap, every scan immediate.
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[
        &["picl.log_extent_bytes=256KiB", "picl.log_limit_bytes=64MiB"],
        &[
            "picl.acs_gap=1",
            "picl.log_extent_bytes=256KiB",
            "picl.log_limit_bytes=64MiB",
        ],
        &[
            "picl.eid_bits=3",
            "picl.acs_gap=4",
            "picl.log_extent_bytes=64KiB",
            "picl.log_limit_bytes=64MiB",
        ],
        &["picl.acs_gap=1", "picl.undo_buffer_bytes=4096"],
        &["picl.acs_gap=0"],
        &["picl.eid_bits=2", "picl.acs_gap=1"],
        &["picl.undo_buffer_bytes=128"],
        &["picl.undo_buffer_bytes=512"],
        &["picl.bloom_filter_bits=64", "picl.acs_sets_per_step=1"],
    ];
    const KEYS: Keys = keys!("picl");
    const KEEPS_LAST_LEVEL: bool = true;

    fn new(_: &Parameters, _: Option<&'static str>) -> Self {
        Self
    }

    /// Inclusion is what [`crate::Design::NEEDS_INCLUSION`] asks for.
    fn check(_: &Specification) -> Result<(), ImpossibleParameter> {
        Ok(())
    }

    fn forward(hardware: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        let set = hardware.llc.set_of(store.line);
        let port_cycles = hardware.specification.llc.port_cycles;
        hardware.take_llc_port(set, now, port_cycles)
    }

    fn set_tag(hardware: &mut Hardware, store: &CrossVersionStore, tag: Version) {
        hardware.set_llc_version_of(store, tag);
    }

    /// Private caches are within the chip.
    fn evicts(&mut self, _: &mut Hardware, _: &Departure, _: u64) -> bool {
        false
    }

    fn evicts_from_last_level(&mut self, _: LineNumber) -> bool {
        true
    }

    /// The substrate takes tags from lines that it cleans.
    fn departed_tag(&self, tag: Version) -> Version {
        tag
    }

    fn scan_steps(hardware: &Hardware) -> usize {
        hardware.llc.sets()
    }

    fn scan(picl: &mut Picl, hardware: &mut Hardware, step: usize, pass: &mut Pass) -> bool {
        let set = hardware.set_in_walk(step);
        pass.time += 1;
        for way in 0..hardware.llc.ways() {
            let slot = Slot((set * hardware.llc.ways() + way) as u32);
            let version = hardware.llc.word(slot).version();
            if !hardware.llc.occupied(slot)
                || version == Version::NONE
                || picl.epoch_of(version) > pass.target
            {
                continue;
            }
            let line = hardware.llc.word(slot).line();
            let free = hardware
                .memory
                .could_start_at(line * LINE_BYTES as u64, pass.time);
            if pass.opportunistic && free > pass.time {
                // What it has written of this set is clean: it looks at the set again then.
                pass.time = free;
                return false;
            }
            let port_cycles = hardware.specification.llc.port_cycles;
            pass.time = hardware.take_llc_port(set, pass.time, port_cycles) + port_cycles;
            let snoop_private = !picl.flaws.scans_past_private;
            let (bytes, from_private, ready) = hardware.clean(picl, slot, snoop_private, pass.time);
            picl.counters.acs_snoops += u64::from(from_private);
            if let Some(bytes) = bytes {
                picl.counters.acs_lines += 1;
                let done = picl.write_in_place(hardware, line, &bytes, Traffic::Flush, ready);
                pass.time = pass.time.max(done.accepted);
                pass.durable = pass.durable.max(done.durable);
            }
        }
        true
    }
}
