//! PiCL with its tags in the L2s, step by step: what happens to a dirty line when it leaves a sharing
//! group in each of the ways there are, read in the NVM's bytes and in the counters.

use crate::common::geometry::{Geometry, MANY_HARTS};
use crate::common::rig::Rig;
use perdure_designs::layout::Layout;
use perdure_designs::picl::Parameters;
use perdure_designs::picl_l2::PiclL2;
use perdure_designs::{Design, EpochNumbers, Urgency};
use perdure_hardware::arena::Arena;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, LineNumber};

/// Direct-mapped L2s of eight lines above a large shared cache.
fn machine() -> Geometry {
    Geometry {
        l1d: (4, 1),
        l2: (8, 1),
        llc: (64, 4),
        ..MANY_HARTS.not_inclusive()
    }
}

struct Example {
    rig: Rig<PiclL2>,
    /// The line of which the steps are about.
    line: LineNumber,
}

impl Example {
    fn new(parameters: impl FnOnce(&mut Parameters)) -> Self {
        let geometry = machine();
        let mut all = geometry.parameters();
        parameters(&mut all);
        let mut rig = Rig::new(geometry.specification(), &all, None);
        rig.keeps_all_epochs = true;
        let line = rig.frame_line(0);
        Self { rig, line }
    }

    fn w(&mut self, hart: usize, byte: u8) {
        self.rig.store_line(hart, self.line, byte);
    }

    fn r(&mut self, hart: usize) {
        self.rig.load(hart, self.line);
    }

    /// The sharing group's L2 replaces the line.
    fn replace(&mut self, hart: usize) {
        self.rig.load(hart, self.line + machine().l2.0 as u64);
        assert!(self.rig.hardware.groups[hart].l2.find(self.line).is_none());
    }

    /// The byte at the line's home address, accepted if not durable yet.
    fn home(&self) -> u8 {
        let at = self.line * LINE_BYTES as u64;
        self.rig.hardware.memory.arena.line(at).0[0]
    }

    fn undo_entries(&self) -> u64 {
        self.rig.design.counters().undo_entries
    }

    /// Ends the epoch, without contexts, and lets all that follows from it happen.
    fn commit(&mut self) {
        self.rig.end_epoch_without_contexts(Urgency::Routine);
        self.rig.settle();
    }

    /// The epoch that a cut right now brings back, all memory compared.
    fn recovered(&mut self) -> u64 {
        let at = self.rig.now();
        self.rig.cut(at, 1).expect("the promise is kept").epoch
    }
}

#[test]
fn a_replaced_line_goes_in_place_behind_its_undo_entry() {
    let mut example = Example::new(|_| ());
    example.w(0, 1);
    assert_eq!((example.undo_entries(), example.home()), (1, 0));
    let before = example.rig.now();
    example.replace(0);
    assert_eq!(example.home(), 1);
    // A block, then the line, which waits for it, and for nothing else.
    let durable = example.rig.hardware.memory.durable_at(example.line, 0);
    let took = durable - before;
    assert!((2 * 736..3 * 736).contains(&took), "{took}");
    assert_eq!(example.rig.design.counters().undo_flushes_forced, 1);
    for at in before..durable + 2 {
        assert_eq!(example.rig.cut(at, at).expect("undone").epoch, 0);
    }
}

#[test]
fn a_line_read_elsewhere_goes_in_place_and_the_shared_cache_drops_it_without_a_write() {
    let mut example = Example::new(|_| ());
    example.w(0, 1);
    example.r(1);
    assert_eq!(example.home(), 1);
    let statistics = &example.rig.hardware.statistics;
    assert_eq!(statistics.version_downgrades, 1);
    // Everything in its set of the shared cache is replaced.
    let written = statistics.nvm_writes;
    example.replace(0);
    example.replace(1);
    for other in 1..64 {
        let line = example.line + 64 * other;
        example.rig.load(2, line);
        example.rig.load(2, line + 8);
    }
    assert_eq!(example.rig.hardware.statistics.nvm_writes, written);
    example.r(3);
}

#[test]
fn a_dirty_line_that_another_group_writes_passes_without_a_write() {
    let mut example = Example::new(|parameters| parameters.acs_gap = 1);
    example.w(0, 1);
    example.w(1, 2);
    let statistics = &example.rig.hardware.statistics;
    assert_eq!(statistics.dirty_transfers, 1);
    assert_eq!(statistics.nvm_writes, 0);
    assert_eq!(example.undo_entries(), 1, "the epoch has one");
    example.commit();
    // The new owner's epoch is the next one: the old bytes are in its undo entry, and only there.
    example.w(2, 3);
    assert_eq!((example.undo_entries(), example.home()), (2, 0));
    example.commit();
    assert_eq!(example.recovered(), 1, "its bytes come out of the log");
    assert_eq!(example.home(), 0, "the scan for epoch 1 found none of it");
    example.commit();
    assert_eq!((example.recovered(), example.home()), (2, 3));
}

#[test]
fn the_scan_takes_the_newest_bytes_from_the_l1_and_leaves_them_clean() {
    let mut example = Example::new(|parameters| parameters.acs_gap = 0);
    example.w(0, 1);
    // Down to the L2, and dirty above it again.
    example.rig.load(0, example.line + machine().l1d.0 as u64);
    example.w(0, 2);
    example.commit();
    assert_eq!((example.recovered(), example.home()), (1, 2));
    let counters = example.rig.design.counters();
    assert_eq!((counters.acs_lines, counters.acs_snoops), (1, 1));
    example.commit();
    assert_eq!(example.rig.design.counters().acs_lines, 1);
}

/// Two-bit tags: the fifth epoch's is the first one's. A copy that was clean all the time still
/// says who wrote it, unless the tag is taken from it in time.
#[test]
fn a_tag_that_comes_round_again_is_no_excuse_for_logging_nothing() {
    let mut example = Example::new(|parameters| (parameters.eid_bits, parameters.acs_gap) = (2, 0));
    example.w(0, 1);
    for _ in 1..=4 {
        example.commit();
    }
    assert_eq!(example.rig.design.executing_epoch(), 5);
    assert_eq!(example.undo_entries(), 1);
    example.w(0, 5);
    assert_eq!(example.undo_entries(), 2);
    example.replace(0);
    example.rig.settle();
    assert_eq!((example.recovered(), example.home()), (4, 5));
}

#[test]
fn an_inclusive_last_level_cache_is_refused() {
    let specification = MANY_HARTS.specification();
    let layout = Layout::new(specification.harts, specification.nvm.bytes);
    let arena = Arena::new(specification.nvm.bytes).expect("memory for the arena");
    let mut hardware = Hardware::new(specification, arena, layout.contexts.clone());
    let started = PiclL2::start(&MANY_HARTS.parameters(), &layout, &mut hardware, 0, None);
    let refused = started.err().expect("its tags would be seen by nobody");
    assert_eq!(refused.key, "llc.inclusion");
}
