//! The example of PiCL's Figure 6 (§III-E), step by step: lines A, B and C over three epochs.
//!
//! ```text
//!            Epoch1              Epoch2     Epoch3                    later
//! cache      w:A1 w:B1 w:C1      w:A2       evict A2  w:C3  evict B1
//! undo       A0   B0   C0        A1                   C1
//!            <0,1> each          <1,2>                <1,3>
//! in place                                  A2              B1        ACS3: C3
//! ```
//!
//! The scan trails by two epochs, so that ACS1 comes after Epoch3, as in the figure. Epoch 0 is
//! durable from the start, so that the figure's ACS0 has nothing to do here either.
//!
//! Every statement about memory and log is checked in the NVM's bytes.

use crate::common::geometry::{DIRECT_MAPPED, Geometry};
use crate::common::rig::Rig;
use perdure_designs::picl::Picl;
use perdure_designs::picl::epoch_id::EpochIds;
use perdure_designs::picl::log::{Block, slot_address};
use perdure_designs::{Design, EpochNumbers, Urgency};
use perdure_hardware::line::{LINE_BYTES, LineNumber};

/// Direct-mapped caches: a load of the line one cache size further on evicts. One undo buffer
/// takes all entries of the example.
const MACHINE: Geometry = Geometry {
    name: "figure 6",
    eid_bits: 4,
    acs_gap: 2,
    undo_buffer_bytes: 2048,
    acs_sets_per_step: 16,
    ..DIRECT_MAPPED
};

/// An undo entry as the figure writes it: name of the data, ValidFrom, ValidTill.
type Undo = (&'static str, u64, u64);

const A0: Undo = ("A0", 0, 1);
const B0: Undo = ("B0", 0, 1);
const C0: Undo = ("C0", 0, 1);
const A1: Undo = ("A1", 1, 2);
const C1: Undo = ("C1", 1, 3);

/// The machine with the figure's names for its lines and bytes: `A2` is line A full of the byte
/// that stands for its data of Epoch2.
struct Example {
    rig: Rig<Picl>,
    machine: Geometry,
}

const NAMES: [(char, u64); 4] = [('A', 0), ('B', 1), ('C', 2), ('D', 3)];

impl Example {
    fn new(machine: Geometry) -> Self {
        let rig = Rig::new(machine.specification(), &machine.parameters(), None);
        let mut example = Self { rig, machine };
        example.rig.keeps_all_epochs = true;
        example
    }

    fn line(&self, name: char) -> LineNumber {
        let (_, index) = NAMES.into_iter().find(|(known, _)| *known == name).unwrap();
        self.rig.frame_line(index)
    }

    /// The byte that stands for a line's data of an epoch. Data of epoch 0 is zeros.
    fn byte(data: &str) -> (char, u8) {
        let (name, epoch) = data.split_at(1);
        let epoch: u8 = epoch.parse().unwrap();
        let name = name.chars().next().unwrap();
        (name, if epoch == 0 { 0 } else { name as u8 ^ epoch })
    }

    fn name(&self, line: LineNumber, byte: u8) -> String {
        let (name, _) = NAMES
            .into_iter()
            .find(|&(name, _)| self.line(name) == line)
            .unwrap();
        let epoch = if byte == 0 { 0 } else { name as u8 ^ byte };
        format!("{name}{epoch}")
    }

    /// `w:A1`: in the figure's shorthand, a store to line A in Epoch1.
    fn w(&mut self, data: &str) {
        let (name, byte) = Self::byte(data);
        self.rig.store_line(0, self.line(name), byte);
    }

    /// Makes the cache replace a line.
    fn evict(&mut self, name: char) {
        let conflicting = self.line(name) + self.machine.llc.0 as u64;
        assert!(self.rig.hardware.llc.find(self.line(name)).is_some());
        self.rig.load(0, conflicting);
        assert!(self.rig.hardware.llc.find(self.line(name)).is_none());
    }

    /// Ends the executing epoch and lets everything that follows from it happen. The example has
    /// no contexts.
    fn commit(&mut self, urgency: Urgency) {
        let epoch = self.commit_only(urgency);
        self.rig.settle();
        assert_eq!(self.rig.design.executing_epoch(), epoch + 1);
    }

    fn commit_only(&mut self, urgency: Urgency) -> u64 {
        let epoch = self.rig.design.executing_epoch();
        self.rig.end_epoch_without_contexts(urgency);
        epoch
    }

    fn undo_entries(&self) -> u64 {
        self.rig.design.counters().undo_entries
    }

    fn persisted(&self) -> u64 {
        self.rig.design.announced_epoch()
    }

    /// What memory holds at home addresses.
    fn in_place(&self, names: &str) -> String {
        let arena = &self.rig.hardware.memory.arena;
        let all: Vec<_> = names
            .chars()
            .map(|name| {
                let line = self.line(name);
                let bytes = arena.line(line * LINE_BYTES as u64).0;
                assert!(bytes.iter().all(|byte| *byte == bytes[0]));
                self.name(line, bytes[0])
            })
            .collect();
        all.join(" ")
    }

    /// The blocks of the log, decoded from the NVM's bytes.
    fn log(&self) -> Vec<Vec<(String, u64, u64)>> {
        let bytes = self.machine.undo_buffer_bytes;
        let ids = EpochIds::new(self.machine.eid_bits);
        let mut blocks = Vec::new();
        for slot in 0.. {
            let address = slot_address(&self.rig.layout.log_area, slot, bytes as u64);
            let arena = &self.rig.hardware.memory.arena;
            let Some(block) = Block::decode(arena.slice(address, bytes), false) else {
                break;
            };
            assert_eq!(block.header.sequence, u64::from(slot));
            let entries = block
                .entries(ids, self.rig.design.executing_epoch())
                .map(|entry| {
                    let data = self.name(entry.line, entry.bytes[0]);
                    (data, entry.valid_from, entry.valid_till)
                });
            blocks.push(entries.collect());
        }
        blocks
    }

    /// Cuts the power now and shows what recovery brings back, after comparing all of memory.
    fn recovered(&mut self, names: &str) -> (u64, String) {
        let at = self.rig.now();
        let lines: Vec<_> = names.chars().map(|name| self.line(name)).collect();
        let (epoch, bytes) = self.rig.recovered(at, 1, |arena| {
            let byte = |line: &LineNumber| arena.line(line * LINE_BYTES as u64).0[0];
            lines.iter().map(byte).collect::<Vec<_>>()
        });
        let all = lines.iter().zip(bytes);
        let all: Vec<_> = all.map(|(&line, byte)| self.name(line, byte)).collect();
        (epoch, all.join(" "))
    }
}

fn blocks(expected: &[&[Undo]]) -> Vec<Vec<(String, u64, u64)>> {
    expected
        .iter()
        .map(|block| {
            block
                .iter()
                .map(|&(data, from, till)| (data.to_owned(), from, till))
                .collect()
        })
        .collect()
}

#[test]
fn the_example() {
    let mut x = Example::new(MACHINE);

    // Epoch1: "all three are modified. Assuming they were clean previously, undo entries A0, B0,
    // and C0 are created".
    x.w("A1");
    x.w("B1");
    x.w("C1");
    assert_eq!(x.undo_entries(), 3);
    assert_eq!(x.rig.design.counters().undo_entries_from_clean, 3);
    x.commit(Urgency::Routine);

    // Difference 1: "dirty data are not forcibly written back at each checkpoint". Nothing at all
    // has been written, not even the undo buffer.
    assert_eq!(x.in_place("ABC"), "A0 B0 C0");
    assert_eq!(x.log(), blocks(&[]));
    assert_eq!(x.recovered("ABC"), (0, "A0 B0 C0".into()));

    // Epoch2: "A is again modified, leading to undo of A1".
    x.w("A2");
    assert_eq!(x.undo_entries(), 4);
    x.w("A2");
    assert_eq!(
        x.undo_entries(),
        4,
        "storing to transient lines has no effect"
    );
    x.commit(Urgency::Routine);
    assert_eq!(x.log(), blocks(&[]));

    // Epoch3, Difference 2: "A2 is evicted to memory first, logically out-of-order with regards to
    // the undo of C1 and cache eviction of B1". Its undo data is still in the buffer, which is
    // flushed first.
    x.evict('A');
    assert_eq!(x.log(), blocks(&[&[A0, B0, C0, A1]]));
    assert_eq!(x.in_place("ABC"), "A2 B0 C0");
    assert_eq!(x.rig.design.counters().undo_flushes_forced, 1);
    let eviction_may_be_durable = x.rig.settle();
    assert_eq!(
        x.recovered("ABC"),
        (0, "A0 B0 C0".into()),
        "A1 and A0 both cover: the older wins"
    );
    x.w("C3");
    assert_eq!(x.undo_entries(), 5);
    x.evict('B');
    assert_eq!(x.in_place("ABC"), "A2 B1 C0");
    let forced = x.rig.design.counters().undo_flushes_forced;
    assert_eq!(forced, 1, "B0 is in the log already");
    assert!(x.rig.now() > eviction_may_be_durable);
    x.rig.settle();
    assert_eq!(x.recovered("ABC"), (0, "A0 B0 C0".into()));
    assert_eq!(x.persisted(), 0);

    // commit3 makes Epoch1 due. ACS1 finds no line of Epoch1 and writes no data; it flushes the
    // undo buffer.
    x.commit(Urgency::Routine);
    assert_eq!(x.persisted(), 1);
    assert_eq!(x.rig.design.counters().acs_scans, 1);
    assert_eq!(x.rig.design.counters().acs_lines, 0);
    assert_eq!(x.in_place("ABC"), "A2 B1 C0");
    assert_eq!(x.log(), blocks(&[&[A0, B0, C0, A1], &[C1]]));
    assert_eq!(
        x.recovered("ABC"),
        (1, "A1 B1 C1".into()),
        "commit1: A1 and C1 are used"
    );

    // ACS2 has nothing to write either.
    x.commit(Urgency::Routine);
    assert_eq!(x.persisted(), 2);
    assert_eq!(x.rig.design.counters().acs_lines, 0);
    assert_eq!(
        x.recovered("ABC"),
        (2, "A2 B1 C1".into()),
        "commit2: C1 is used, A1 is not"
    );

    // "only ACS3 actually writes data to NVM".
    x.commit(Urgency::Routine);
    assert_eq!(x.persisted(), 3);
    assert_eq!(x.rig.design.counters().acs_lines, 1);
    assert_eq!(x.in_place("ABC"), "A2 B1 C3");
    assert_eq!(
        x.recovered("ABC"),
        (3, "A2 B1 C3".into()),
        "commit3: no entry is used"
    );
    assert_eq!(x.undo_entries(), 5);
}

/// §IV-A, *ACS*: "if ACS1 occurs prior to w:A2, then A1 would be written to memory, and then
/// another copy of A1 will be appended to the undo log (as a result of modifying a clean cache
/// line). The sole difference is an extra write to memory".
#[test]
fn acs1_before_w_a2() {
    let mut x = Example::new(Geometry {
        acs_gap: 0,
        ..MACHINE
    });
    x.w("A1");
    x.w("B1");
    x.w("C1");
    x.commit(Urgency::Routine);
    assert_eq!(x.persisted(), 1);
    assert_eq!(x.rig.design.counters().acs_lines, 3);
    assert_eq!(x.in_place("ABC"), "A1 B1 C1");
    assert_eq!(x.log(), blocks(&[&[A0, B0, C0]]));
    x.w("A2");
    assert_eq!(x.undo_entries(), 4);
    x.evict('A');
    assert_eq!(
        x.log(),
        blocks(&[&[A0, B0, C0], &[A1]]),
        "ValidFrom is PersistedEID"
    );
    x.rig.settle();
    assert_eq!(x.recovered("ABC"), (1, "A1 B1 C1".into()));
}

/// The same while PersistedEID is not recorded yet: the second copy of A1 says <0,2>, which covers
/// commit0 although A1 is not what A was then. The older entry A0 <0,1> comes later in the backward
/// scan and wins.
#[test]
fn w_a2_between_acs1_and_persisted_eid() {
    let mut x = Example::new(Geometry {
        acs_gap: 0,
        ..MACHINE
    });
    x.w("A1");
    x.w("B1");
    x.w("C1");
    x.commit_only(Urgency::Routine);
    while x.rig.design.counters().acs_scans == 0 {
        x.rig.fire_next(true);
    }
    x.w("A2");
    assert_eq!(x.persisted(), 0);
    x.evict('A');
    let block: &[Undo] = &[("A1", 0, 2)];
    assert_eq!(x.log(), blocks(&[&[A0, B0, C0], block]));
    let mut seen = [false; 2];
    for at in (x.rig.now()..x.rig.now() + 12_000).step_by(50) {
        while x.rig.hardware.events.next_time() <= at {
            x.rig.fire_next(false);
        }
        for tear in 0..8 {
            seen[x.rig.cut(at, tear).unwrap().epoch as usize] = true;
        }
    }
    assert_eq!(seen, [true, true], "commit0 first, commit1 then");
}

/// §IV-A: a clean line's undo entry is valid from PersistedEID, whatever epoch wrote it last.
#[test]
fn a_clean_line_is_valid_from_persisted_eid() {
    let mut x = Example::new(MACHINE);
    for _ in 1..=4 {
        x.commit(Urgency::Routine);
    }
    assert_eq!((x.persisted(), x.rig.design.executing_epoch()), (2, 5));
    x.w("D5");
    x.evict('D');
    let block: &[Undo] = &[("D0", 2, 5)];
    assert_eq!(x.log(), blocks(&[block]));
    x.rig.settle();
    assert_eq!(x.recovered("D"), (2, "D0".into()));
}

/// §IV-C: output commit ends the epoch and runs a bulk ACS, which checks a range of EIDs in one
/// pass.
#[test]
fn bulk_acs() {
    let mut x = Example::new(MACHINE);
    x.w("A1");
    x.commit(Urgency::Routine);
    x.w("B2");
    x.commit(Urgency::Routine);
    x.w("C3");
    assert_eq!(x.persisted(), 0);
    x.commit(Urgency::OutputCommit);
    assert_eq!(x.persisted(), 3);
    assert_eq!(x.rig.design.counters().acs_scans, 1);
    assert_eq!(x.rig.design.counters().acs_lines, 3);
    assert_eq!(x.in_place("ABC"), "A1 B2 C3");
}
