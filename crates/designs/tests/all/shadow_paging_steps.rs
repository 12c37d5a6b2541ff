//! Shadow paging step by step: what is where in the NVM's bytes, and what recovery makes of it.
//!
//! ```text
//! epoch 1   w:A1 evict A      copy-on-write of page P, then A1 into its shadow page
//!           w:B1              (same page) stays in the caches
//! commit 1  B1 flushed to the shadow page; table, record, P home, retired; P's entry retained
//! epoch 2   w:A2 evict A      the retained entry is hit: no copy
//!           w:C2 evict C      page Q has the other way of the set
//!           w:D2 evict D      page R finds the set full: kept aside, the epoch must end
//! commit 2  overflow: P, Q and the line D go home
//! epoch 3   w:D3 evict D      R takes the entry of the page written longest ago
//! ```

use std::collections::BTreeMap;

use crate::common::geometry::{DIRECT_MAPPED, Geometry};
use crate::common::rig::Rig;
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::copies::CommitRecord;
use perdure_designs::layout::BootRecord;
use perdure_designs::shadow_paging::places::{LINES_PER_PAGE, PAGE_BYTES, Places};
use perdure_designs::shadow_paging::records::{Record, page_of_word, read_table};
use perdure_designs::shadow_paging::{Parameters, ShadowPaging};
use perdure_designs::surviving::Surviving;
use perdure_designs::{Design, EpochNumbers, MachineEpochs, Urgency};
use perdure_hardware::line::{LINE_BYTES, LineNumber};
use perdure_hardware::time::Cycles;

/// Direct-mapped caches: a load of the line one cache size further on evicts.
const MACHINE: Geometry = DIRECT_MAPPED;

/// One set of two ways.
const TABLE: Parameters = Parameters {
    table_entries: 2,
    table_ways: 2,
};

/// Lines by name: A and B in one page, C and D in a page of their own each.
const NAMES: [(char, u64); 4] = [
    ('A', 0),
    ('B', 1),
    ('C', LINES_PER_PAGE + 2),
    ('D', 2 * LINES_PER_PAGE + 3),
];

/// The machine with names for lines and bytes: `A2` is line A full of the byte that stands for its
/// data of epoch 2. Data of epoch 0 is zeros.
struct Example {
    rig: Rig<ShadowPaging>,
}

impl Example {
    fn new() -> Self {
        let mut rig = Rig::new(MACHINE.specification(), &TABLE, None);
        rig.keeps_all_epochs = true;
        Self { rig }
    }

    fn line(&self, name: char) -> LineNumber {
        let (_, index) = NAMES.into_iter().find(|(known, _)| *known == name).unwrap();
        self.rig.frame_line(index)
    }

    fn byte(name: char, epoch: u8) -> u8 {
        if epoch == 0 { 0 } else { name as u8 ^ epoch }
    }

    /// A store to a line, `w("A1")`.
    fn w(&mut self, data: &str) {
        let (name, epoch) = data.split_at(1);
        let name = name.chars().next().unwrap();
        let byte = Self::byte(name, epoch.parse().unwrap());
        self.rig.store_line(0, self.line(name), byte);
    }

    /// Makes the cache replace a line, by one of a page that is never written.
    fn evict(&mut self, name: char) {
        let line = self.line(name);
        let conflicting = line + 16 * LINES_PER_PAGE * MACHINE.llc.0 as u64;
        assert!(self.rig.hardware.llc.find(line).is_some());
        self.rig.load(0, conflicting);
        assert!(self.rig.hardware.llc.find(line).is_none());
    }

    /// Ends the epoch without contexts, which are no part of the example; returns when it began.
    fn commit(&mut self, urgency: Urgency) -> Cycles {
        let epoch = self.rig.design.executing_epoch();
        let now = self.rig.now();
        let go_on = self.rig.end_epoch_without_contexts(urgency);
        assert_eq!(self.rig.design.announced_epoch(), epoch - 1, "not yet");
        self.rig.hold_until(go_on);
        now
    }

    fn places(&mut self) -> Places {
        let image = Surviving::new(&mut self.rig.hardware.memory.arena);
        let boot = BootRecord::read(&image).unwrap();
        let [pages, row_bytes, banks, _] = boot.design;
        Places::new(&boot.layout.log_area, [pages, row_bytes, banks]).unwrap()
    }

    /// The name of a line's bytes, which all are the same: `A1`.
    fn data(&self, name: char, line: LineNumber) -> String {
        let bytes = self
            .rig
            .hardware
            .memory
            .arena
            .line(line * LINE_BYTES as u64);
        assert!(bytes.0.iter().all(|byte| *byte == bytes.0[0]));
        let epoch = (0..9).find(|&epoch| Self::byte(name, epoch) == bytes.0[0]);
        format!("{name}{}", epoch.expect("bytes of that line"))
    }

    /// What memory holds at home.
    fn home(&self, names: &str) -> String {
        let all: Vec<_> = names
            .chars()
            .map(|name| self.data(name, self.line(name)))
            .collect();
        all.join(" ")
    }

    /// What a shadow page holds at the place of that line.
    fn shadow(&mut self, frame: u64, name: char) -> String {
        let page = self.places().shadow_page(frame) / LINE_BYTES as u64;
        self.data(name, page + self.line(name) % LINES_PER_PAGE)
    }

    fn aside(&mut self, index: u64, name: char) -> String {
        let line = self.places().overflow_line(index);
        self.data(name, line)
    }

    fn registers(&self) -> Vec<(u64, u64, u64)> {
        let copies = COPIES.map(|copy| {
            let bytes = self.rig.hardware.memory.arena.slice(copy, Record::BYTES);
            Record::decode(&bytes, false).expect("a whole record")
        });
        copies
            .map(|record| (record.epoch, record.pages, record.lines))
            .to_vec()
    }

    /// Runs every event up to a time, and then looks at what a cut would leave.
    fn cut(&mut self, at: Cycles) -> u64 {
        while self.rig.hardware.events.next_time() <= at {
            self.rig.fire_next(false);
        }
        self.rig.cut(at, at).expect("the promise is kept").epoch
    }
}

#[test]
fn the_example() {
    let mut x = Example::new();
    assert_eq!(x.registers(), [(0, 0, 0); 2]);

    // Epoch 1: a write miss copies the page within the module, row by row, then writes the line.
    x.w("A1");
    x.w("B1");
    x.evict('A');
    let statistics = &x.rig.hardware.statistics;
    assert_eq!(statistics.translation_lookups, 1);
    assert_eq!(statistics.translation_misses, 1);
    assert_eq!(x.rig.design.counters().copies_on_write, 1);
    let rows = PAGE_BYTES / MACHINE.row_bytes as u64;
    assert_eq!(
        statistics.nvm_operations_sequential,
        2 * rows,
        "read, write"
    );
    assert_eq!(statistics.nvm_operations_write_back, 1);
    assert_eq!(statistics.nvm_operations_random, 0);
    assert_eq!(x.home("AB"), "A0 B0");
    assert_eq!(
        (x.shadow(0, 'A'), x.shadow(0, 'B')),
        ("A1".into(), "B0".into())
    );
    x.rig.load(0, x.line('A'));
    assert_eq!(x.rig.design.phase(), "executing, pages written");

    // Commit 1: the flush adds B1; the page goes home; harts wait until that is recorded.
    let began = x.commit(Urgency::Routine);
    let go_on = x.rig.now();
    assert_eq!(x.home("AB"), "A1 B1");
    let statistics = &x.rig.hardware.statistics;
    assert_eq!(statistics.flush_lines, 1);
    assert_eq!(x.rig.design.counters().copies_on_write, 1);
    assert_eq!(x.rig.design.counters().pages_written_back, 1);
    assert_eq!(statistics.nvm_operations_sequential, 4 * rows);
    // The flushed line; a block of the table; two records of two copies.
    assert_eq!(statistics.nvm_operations_random, 1 + 1 + 4);

    // A cut finds epoch 0 until the record is durable, epoch 1 from then on, whatever is home.
    let mut stages = Vec::new();
    for at in (began..go_on).step_by(20).chain([go_on]) {
        let epoch = x.cut(at);
        let stage = (x.rig.design.phase(), x.rig.design.announced_epoch(), epoch);
        if stages.last() != Some(&stage) {
            stages.push(stage);
        }
    }
    stages.dedup_by_key(|(phase, announced, _)| (*phase, *announced));
    let phases: Vec<_> = stages
        .iter()
        .map(|&(phase, announced, _)| (phase, announced))
        .collect();
    assert_eq!(
        phases,
        [
            ("flushing the caches, writing the table", 0),
            ("commit record in flight", 0),
            ("pages on their way home", 1),
            ("retiring record in flight", 1),
            ("executing, no page written", 1),
        ]
    );
    x.rig.settle();
    assert_eq!(x.registers(), [(1, 0, 0); 2]);

    // Epoch 2: the entry was retained, so A2 goes to the shadow page without a copy.
    x.w("A2");
    x.evict('A');
    let counters = x.rig.design.counters();
    assert_eq!(counters.copies_on_write, 1);
    assert_eq!(counters.retained_hits, 1);
    assert_eq!(x.home("AB"), "A1 B1");
    assert_eq!(
        (x.shadow(0, 'A'), x.shadow(0, 'B')),
        ("A2".into(), "B1".into())
    );
    x.w("C2");
    x.evict('C');
    assert_eq!(x.rig.design.counters().copies_on_write, 2);
    assert_eq!(x.shadow(1, 'C'), "C2");

    // The set is full of this epoch's pages.
    x.w("D2");
    x.evict('D');
    assert_eq!(x.rig.hardware.statistics.translation_overflows, 1);
    assert_eq!((x.aside(0, 'D'), x.home("D")), ("D2".into(), "D0".into()));
    assert_eq!(x.rig.design.phase(), "executing, lines kept aside");
    x.rig.load(0, x.line('D'));
    x.rig.check_newest().expect("the newest bytes are found");
    assert!(!x.rig.overflowed);
    x.rig.settle();
    assert!(x.rig.overflowed, "the design has asked for the epoch's end");
    let now = x.rig.now();
    assert_eq!(x.cut(now), 1);

    // Commit 2, cut when the record is durable: the table speaks of pages P and Q, and of line D.
    let began = x.commit(Urgency::Overflow);
    let go_on = x.rig.now();
    let at = (began..go_on)
        .find(|&at| {
            while x.rig.hardware.events.next_time() <= at {
                x.rig.fire_next(false);
            }
            x.rig.design.announced_epoch() == 2
        })
        .expect("it is announced before harts go on");
    let places = x.places();
    let (p, d) = (x.line('A') / LINES_PER_PAGE, x.line('D'));
    x.rig.after_cut(at, 1, |arena, judge| {
        let image = Surviving::new(arena);
        let record = Record::read(&image, false).unwrap();
        assert_eq!((record.epoch, record.pages, record.lines), (2, 2, 1));
        let table = read_table(&image, &places, &record).unwrap();
        assert_eq!(page_of_word(table[0]), (p, 0));
        assert_eq!(page_of_word(table[1]), (p + 1, 1));
        assert_eq!(table[2], d);
        let at_home = arena.line(d * LINE_BYTES as u64).0;
        assert!(at_home.contains(&0), "not home yet: torn at most");
        assert_eq!(judge.recover::<ShadowPaging>(arena).unwrap().epoch, 2);
    });
    x.rig.settle();
    assert_eq!(x.home("ABCD"), "A2 B1 C2 D2");
    assert_eq!(x.registers(), [(2, 0, 0); 2]);

    // Epoch 3: P's entry was touched before Q's, so R takes it, and P's shadow page.
    x.w("D3");
    x.evict('D');
    assert_eq!(x.rig.design.counters().retained_replaced, 1);
    assert_eq!((x.shadow(0, 'D'), x.home("D")), ("D3".into(), "D2".into()));
    assert_eq!(x.shadow(1, 'C'), "C2");
    let now = x.rig.settle();
    assert_eq!(x.cut(now), 2, "epoch 3 has not ended");
    x.rig.check_newest().expect("the newest bytes are found");
}

/// The commit chooses among pages such that most banks have work: a page takes less than two row
/// reads, as its rows are written while the next ones are read. One bank alone would take a row
/// read and a row write for each row.
#[test]
fn pages_side_by_side_go_home_in_parallel() {
    const PAGES: u64 = 48;
    const ROW_READ: Cycles = 256;
    const ROW_WRITE: Cycles = 736;
    let machine = Geometry {
        banks: 8,
        ..MACHINE
    };
    let table = Parameters {
        table_entries: 64,
        table_ways: 4,
    };
    let mut rig = Rig::<ShadowPaging>::new(machine.specification(), &table, None);
    for page in 0..PAGES {
        rig.store_line(0, rig.frame_line(page * LINES_PER_PAGE), 1);
    }
    rig.settle();
    let now = rig.now();
    rig.design
        .end_epoch(&mut rig.hardware, Urgency::Routine, now);
    assert_eq!(
        rig.design.counters().pages_written_back,
        PAGES,
        "contexts are no part of this"
    );
    let mut began = BTreeMap::new();
    while rig.design.phase() != "executing, no page written" {
        let time = rig.hardware.events.next_time();
        rig.fire_next(true);
        began.insert(rig.design.phase(), time);
    }
    let home = began["retiring record in flight"] - began["pages on their way home"];
    assert!(
        (ROW_WRITE..2 * PAGES * ROW_READ).contains(&home),
        "{PAGES} pages took {home} cycles"
    );
}

/// Parameters that cannot be are named, with what would be possible.
#[test]
fn impossible_parameters_are_explained() {
    let start = |parameters: Parameters, geometry: Geometry| {
        let specification = geometry.specification();
        let arena = perdure_hardware::arena::Arena::new(specification.nvm.bytes).unwrap();
        let layout = perdure_designs::layout::Layout::new(1, specification.nvm.bytes);
        let mut hardware = perdure_hardware::hierarchy::Hardware::new(specification, arena, 0..0);
        let started = ShadowPaging::start(&parameters, &layout, &mut hardware, 0, None);
        started.err().map(|error| error.to_string())
    };
    let of = |table_entries, table_ways| Parameters {
        table_entries,
        table_ways,
    };
    assert_eq!(start(TABLE, MACHINE), None);
    for (parameters, geometry, parts) in [
        (
            of(10, 4),
            MACHINE,
            ["table_entries = 10", "multiple", "table_ways = 4"],
        ),
        (
            of(0, 1),
            MACHINE,
            ["table_entries = 0", "multiple", "at most"],
        ),
        (of(4, 0), MACHINE, ["table_ways = 0", "1 to 1024", ""]),
        (
            of(6144, 16),
            MACHINE,
            [
                "table_entries = 6144",
                "quarter of nvm.bytes = 16777216",
                "must leave more room",
            ],
        ),
        (
            TABLE,
            Geometry {
                row_bytes: 8192,
                ..MACHINE
            },
            ["nvm.row_bytes = 8192", "128 to 4096", "whole rows"],
        ),
    ] {
        let message = start(parameters, geometry).expect("impossible");
        for part in parts {
            assert!(message.contains(part), "'{part}' is missing: {message}");
        }
    }
}
