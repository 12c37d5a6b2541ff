//! A line, a page and a line without room over a few epochs, step by step: where their versions
//! are, and what a power cut brings back, read from the NVM's bytes.

use crate::common::geometry::{DIRECT_MAPPED, Geometry};
use crate::common::rig::Rig;
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::copies::CommitRecord;
use perdure_designs::layout::BootRecord;
use perdure_designs::surviving::Surviving;
use perdure_designs::thynvm::format::{Kind, Listed, PAGE_LINES, Record, Regions};
use perdure_designs::thynvm::version::Place;
use perdure_designs::thynvm::{Parameters, Thynvm};
use perdure_designs::{Design, EpochNumbers, MachineEpochs, Urgency};
use perdure_hardware::line::{LINE_BYTES, LineNumber};

/// Direct-mapped caches of 16 lines: a load of the line one cache size further on evicts.
const MACHINE: Geometry = Geometry {
    name: "steps",
    ..DIRECT_MAPPED
};

struct Example {
    rig: Rig<Thynvm>,
}

impl Example {
    fn new(block_entries: usize, page_entries: usize, promote_writes: u32) -> Self {
        let parameters = Parameters {
            block_entries,
            page_entries,
            table_ways: 1,
            promote_writes,
            demote_writes: promote_writes - 1,
        };
        let mut rig = Rig::new(MACHINE.specification(), &parameters, None);
        rig.keeps_all_epochs = true;
        Self { rig }
    }

    /// The line `index` of the program's memory, in page `index / 64` of it.
    fn line(&self, index: u64) -> LineNumber {
        self.rig.frame_line(index)
    }

    fn page(&self, index: u64) -> u64 {
        self.line(index) / PAGE_LINES
    }

    fn store(&mut self, index: u64, byte: u8) {
        self.rig.store_line(0, self.line(index), byte);
    }

    /// Makes the cache replace a line.
    fn evict(&mut self, index: u64) {
        let conflicting = self.line(index) + MACHINE.llc.0 as u64;
        assert!(self.rig.hardware.llc.find(self.line(index)).is_some());
        self.rig.load(0, conflicting);
    }

    /// Ends the epoch without contexts; its checkpoint is in flight.
    fn end_epoch(&mut self) {
        let go_on = self.rig.end_epoch_without_contexts(Urgency::Routine);
        self.rig.hold_until(go_on);
    }

    /// Ends it and lets everything that follows from it happen.
    fn checkpoint(&mut self) {
        self.end_epoch();
        self.rig.settle();
    }

    fn image<R>(&mut self, look: impl FnOnce(&Surviving, &Regions, &Record) -> R) -> R {
        let image = Surviving::new(&mut self.rig.hardware.memory.arena);
        let boot = BootRecord::read(&image).unwrap();
        let regions = Regions::of(&boot).unwrap();
        let record = Record::read(&image, false).unwrap();
        look(&image, &regions, &record)
    }

    /// What the newest commit record lists.
    fn listed(&mut self) -> Vec<(Kind, u64, Place)> {
        let protected = self.rig.layout.protected();
        self.image(|image, regions, record| {
            let all = regions.read_tables(image, record, &protected).unwrap();
            all.into_iter()
                .map(|(kind, Listed { key, place, .. })| (kind, key, place))
                .collect()
        })
    }

    /// The first byte of a line's version.
    fn version(&mut self, kind: Kind, index: u64, slot: usize, place: Place) -> u8 {
        let line = self.line(index);
        let (key, offset) = match kind {
            Kind::Page => (line / PAGE_LINES, line % PAGE_LINES * LINE_BYTES as u64),
            Kind::Block | Kind::Overflow => (line, 0),
        };
        self.image(|image, regions, _| {
            let address = regions.address(kind, key, slot, place) + offset;
            image.read(address, LINE_BYTES).unwrap()[0]
        })
    }

    fn home(&mut self, index: u64) -> u8 {
        self.version(Kind::Block, index, 0, Place::Home)
    }

    /// Cuts the power once everything is durable; the epoch that comes back.
    fn recovered(&mut self) -> u64 {
        let at = self.rig.hardware.memory.quiet_at();
        self.rig.cut(at, 1).unwrap().epoch
    }

    fn slot_of(&self, index: u64, entries: u64) -> usize {
        (self.line(index) % entries) as usize
    }
}

/// A block that is written in every epoch goes to and fro between its slot in region A and home,
/// and to region B when it is written while a checkpoint is in flight.
#[test]
fn a_block_has_three_places() {
    let mut x = Example::new(16, 1, 60);
    let line = x.line(0);
    let slot = x.slot_of(0, 16);
    let at = |x: &mut Example, place| x.version(Kind::Block, 0, slot, place);

    x.store(0, 1);
    x.evict(0);
    assert_eq!(
        (at(&mut x, Place::A), x.home(0)),
        (1, 0),
        "the working version is in A"
    );
    assert_eq!(x.recovered(), 0);

    x.end_epoch();
    assert_eq!(
        x.rig.design.announced_epoch(),
        0,
        "the checkpoint is in flight"
    );
    assert!(!x.rig.design.can_end_epoch(), "only one overlaps");
    x.store(0, 2);
    x.evict(0);
    assert_eq!(
        (x.home(0), at(&mut x, Place::A), at(&mut x, Place::B)),
        (0, 1, 2),
        "penultimate, last and working version"
    );
    x.rig.settle();
    assert_eq!(x.rig.design.announced_epoch(), 1);
    assert_eq!(x.listed(), [(Kind::Block, line, Place::A)]);
    assert_eq!(x.recovered(), 1);

    x.checkpoint();
    assert_eq!(x.listed(), [(Kind::Block, line, Place::B)]);
    assert_eq!(x.recovered(), 2);

    x.store(0, 3);
    x.evict(0);
    assert_eq!(
        (x.home(0), at(&mut x, Place::B)),
        (3, 2),
        "home is free: no copy is needed"
    );
    assert_eq!(x.recovered(), 2);
    x.checkpoint();
    assert_eq!(x.listed(), [], "everything is at home");
    assert_eq!((x.recovered(), x.home(0)), (3, 3));
}

/// A block that an epoch did not write goes home when that epoch's checkpoint is durable, and the
/// tables are cleaned up.
#[test]
fn an_idle_block_goes_home() {
    let mut x = Example::new(16, 1, 60);
    x.store(0, 1);
    x.checkpoint();
    assert_eq!(
        (x.home(0), x.listed().len()),
        (0, 1),
        "kept for another epoch"
    );
    x.end_epoch();
    let number = x.image(|_, _, record| record.number);
    x.rig.settle();
    assert_eq!((x.home(0), x.listed()), (1, vec![]));
    let after = x.image(|_, _, record| (record.number, record.epoch));
    assert_eq!(
        after,
        (number + 2, 2),
        "the checkpoint, and the clean-up of the same epoch"
    );
    assert_eq!(x.rig.design.counters().units_brought_home, 1);
    assert_eq!(x.recovered(), 2);
}

/// Blocks of a page that are written often make it a page: its next version is a copy of the whole
/// page, and what one of its blocks holds alone comes home on top of it.
#[test]
fn a_page_is_promoted_and_demoted() {
    let mut x = Example::new(16, 1, 3);
    for index in 0..3 {
        x.store(index, 1);
    }
    x.checkpoint();
    assert_eq!(x.rig.design.counters().pages_promoted, 1);
    assert_eq!(x.listed().len(), 3, "three blocks");

    for index in 1..4 {
        x.store(index, 2);
    }
    x.checkpoint();
    let (page, line) = (x.page(0), x.line(0));
    let listed = [(Kind::Page, page, Place::A), (Kind::Block, line, Place::A)];
    assert_eq!(
        x.listed(),
        listed,
        "blocks 1 and 2 moved to the page, 0 did not"
    );
    assert_eq!(x.recovered(), 2);

    // Block 0 was idle for an epoch: it went to the page, whose next version is at home.
    assert_eq!(x.rig.design.counters().blocks_merged, 1);
    assert_eq!(x.rig.design.counters().page_copies, 2);
    x.checkpoint();
    assert_eq!(x.rig.design.counters().pages_demoted, 1);
    assert_eq!(x.listed(), []);
    assert_eq!([0, 1, 2, 3].map(|index| x.home(index)), [1, 2, 2, 2]);
    assert_eq!(x.recovered(), 3);
}

/// Lines for which there is no room end the epoch, are in the overflow list until then, and come
/// back from it.
#[test]
fn a_line_without_room_overflows() {
    let mut x = Example::new(1, 1, 60);
    // Three lines in three pages: one has the block entry, one the page entry.
    for index in [0, 65, 130] {
        x.store(index, 1);
        x.evict(index);
    }
    assert!(
        x.rig.hardware.events.next_time() <= x.rig.now(),
        "the epoch should end"
    );
    assert_eq!(x.rig.hardware.statistics.translation_overflows, 1);
    assert_eq!(x.rig.design.counters().pages_spilled, 1);
    assert_eq!(x.version(Kind::Overflow, 130, 0, Place::A), 1);
    x.rig.load(0, x.line(130));
    assert_eq!(x.recovered(), 0);

    x.end_epoch();
    while x.rig.design.announced_epoch() == 0 {
        x.rig.fire_next(true);
    }
    let listed = [
        (Kind::Page, x.page(65), Place::A),
        (Kind::Block, x.line(0), Place::A),
        (Kind::Overflow, x.line(130), Place::A),
    ];
    assert_eq!(x.listed(), listed);
    let at = x.rig.now();
    assert_eq!(x.rig.cut(at, 1).unwrap().epoch, 1);

    // After an overflow everything goes home at once.
    x.rig.settle();
    assert_eq!(x.listed(), []);
    assert_eq!([0, 65, 130].map(|index| x.home(index)), [1, 1, 1]);
    assert_eq!(x.recovered(), 1);
}

/// One copy of the commit record after the other: while copy 0 says the new epoch, copy 1 still
/// says the old one, and the tables of both are whole.
#[test]
fn copies_of_the_record_are_written_one_after_the_other() {
    let mut x = Example::new(16, 1, 60);
    x.store(0, 1);
    x.end_epoch();
    let epochs = |x: &mut Example| {
        COPIES.map(|copy| {
            let bytes = x.rig.hardware.memory.arena.slice(copy, Record::BYTES);
            Record::decode(&bytes, false).map(|record| record.epoch)
        })
    };
    let mut seen = Vec::new();
    while x.rig.hardware.events.next_time() < u64::MAX {
        let now = epochs(&mut x);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        assert_eq!(
            x.rig.design.announced_epoch() == 1,
            now == [Some(1); 2] && x.is_durable()
        );
        x.rig.fire_next(true);
    }
    assert_eq!(
        seen,
        [[Some(0), Some(0)], [Some(1), Some(0)], [Some(1), Some(1)]]
    );
}

impl Example {
    /// True if nothing waits in the controller.
    fn is_durable(&self) -> bool {
        self.rig.hardware.memory.quiet_at() <= self.rig.now()
    }
}
