//! The journal's life, step by step, read in the NVM's bytes: lines A, B and C over three epochs.
//!
//! ```text
//!         Epoch1                          commit1         Epoch2       commit2   Epoch3
//! cache   w:A1 evict  w:B1 evict  w:C1    flush C1        w:A2 evict   flush A2  four evictions,
//!         w:A1' evict                                     w:A2'                  two table entries
//! redo    slot 0: A1  slot 1: B1          block 0: C1     slot 0: A2   block 0:  slots 0 to 3
//!         slot 0: A1'                     block 1: A→0 B→1             A2'
//! home    A0 B0 C0                        A1' B1 C1       A1' B1 C1    A2' B1 C1
//! ```

use crate::common::geometry::{DIRECT_MAPPED, Geometry};
use crate::common::rig::Rig;
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::journaling::journal::{Block, Kind, Map};
use perdure_designs::journaling::registers::Record;
use perdure_designs::journaling::{Journaling, Parameters};
use perdure_designs::{Design, EpochNumbers, MachineEpochs, Urgency};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, LineNumber};
use perdure_hardware::specification::Interleaving;
use perdure_hardware::time::Cycles;

/// Direct-mapped caches: a load of the line one cache size further on evicts.
const MACHINE: Geometry = DIRECT_MAPPED;

/// The table has one set of two entries.
const PARAMETERS: Parameters = Parameters {
    table_entries: 2,
    table_ways: 2,
};

const A: u64 = 0;
const B: u64 = 1;
const C: u64 = 2;

/// A block's lines with their first bytes, and its addresses: line and slot.
type Entries = (Vec<(u64, u8)>, Vec<(u64, u32)>);

struct Example {
    rig: Rig<Journaling>,
    map: Map,
}

impl Example {
    fn new() -> Self {
        let mut rig = Rig::new(MACHINE.specification(), &PARAMETERS, None);
        rig.keeps_all_epochs = true;
        let spread = MACHINE.specification().nvm.line_spread() as u64;
        let map = Map::new(&rig.layout.log_area, MACHINE.row_bytes as u64, spread);
        Self { rig, map }
    }

    fn line(&self, name: u64) -> LineNumber {
        self.rig.frame_line(name)
    }

    /// A store of the whole line.
    fn w(&mut self, name: u64, byte: u8) {
        let line = self.line(name);
        self.rig.store_line(0, line, byte);
    }

    /// Makes the cache replace a line.
    fn evict(&mut self, name: u64) {
        let line = self.line(name);
        let conflicting = line + MACHINE.llc.0 as u64;
        assert!(self.rig.hardware.llc.find(line).is_some());
        self.rig.load(0, conflicting);
        assert!(self.rig.hardware.llc.find(line).is_none());
    }

    /// Ends the executing epoch; contexts are left out. Returns when harts may go on.
    fn commit(&mut self, urgency: Urgency) -> Cycles {
        let epoch = self.rig.design.executing_epoch();
        let go_on = self.rig.end_epoch_without_contexts(urgency);
        assert_eq!(self.rig.design.executing_epoch(), epoch + 1);
        assert!(!self.rig.design.can_end_epoch(), "one commit at a time");
        go_on
    }

    /// The first byte of some lines of NVM.
    fn bytes(&self, lines: &[LineNumber]) -> Vec<u8> {
        let arena = &self.rig.hardware.memory.arena;
        let byte = |line: &LineNumber| arena.line(line * LINE_BYTES as u64).0[0];
        lines.iter().map(byte).collect()
    }

    fn home(&self) -> Vec<u8> {
        self.bytes(&[A, B, C].map(|name| self.line(name)))
    }

    fn slots(&self, count: u32) -> Vec<u8> {
        let lines: Vec<_> = (0..count).map(|slot| self.map.slot_line(slot)).collect();
        self.bytes(&lines)
    }

    /// The lines and addresses of a block of the commit with this record number.
    fn block(&self, commit: u64, index: u32) -> Option<Entries> {
        let address = self.map.block_address(u64::from(index));
        let row = self.rig.hardware.memory.arena.slice(address, 2048);
        let block = Block::decode(&row, commit, index)?;
        let name = |line: LineNumber| line - self.line(A);
        let lines: Vec<_> = block
            .lines()
            .map(|(line, bytes)| (name(line), bytes.0[0]))
            .collect();
        let addresses: Vec<_> = block
            .addresses()
            .map(|(line, slot)| (name(line), slot))
            .collect();
        assert_eq!(block.kind == Kind::Lines, addresses.is_empty());
        Some((lines, addresses))
    }

    /// What survives a cut at a time, and what recovery makes of it: the registers' (epoch, blocks)
    /// in both copies, the phase, the epoch that comes back and the home bytes then.
    fn cut(&mut self, at: Cycles) -> ([(u64, u64); 2], &'static str, u64, Vec<u8>) {
        while self.rig.hardware.events.next_time() <= at {
            self.rig.fire_next(true);
        }
        let lines = [A, B, C].map(|name| self.line(name));
        let phase = self.rig.design.phase();
        let records = self.rig.after_cut(at, 1, |arena, _| {
            COPIES.map(|copy| {
                let record = Record::decode(&arena.slice(copy, Record::BYTES), false);
                record.map_or((u64::MAX, 0), |record| (record.epoch, record.blocks))
            })
        });
        let look = |arena: &Arena| lines.map(|line| arena.line(line * LINE_BYTES as u64).0[0]);
        let (epoch, bytes) = self.rig.recovered(at, 1, look);
        (records, phase, epoch, bytes.to_vec())
    }

    /// When the pending events are due.
    fn stages(&mut self) -> Vec<Cycles> {
        let mut pending = Vec::new();
        let events = &mut self.rig.hardware.events;
        while let Some(event) = events.take_due(Cycles::MAX - 1) {
            pending.push(event);
        }
        for &(time, event) in &pending {
            events.schedule(time, event);
        }
        pending.into_iter().map(|(time, _)| time).collect()
    }
}

#[test]
fn the_example() {
    let mut x = Example::new();

    // Epoch1: evictions go to the redo buffer, home memory stays as it was.
    x.w(A, 0xa1);
    x.evict(A);
    assert_eq!((x.home(), x.slots(2)), (vec![0, 0, 0], vec![0xa1, 0]));
    x.w(B, 0xb1);
    x.evict(B);
    assert_eq!(x.slots(2), [0xa1, 0xb1]);
    // "this redo buffer is snooped on every memory accesses to avoid returning outdated data": the
    // rig compares what a load brings.
    let line = x.line(A);
    x.rig.load(0, line);
    assert_eq!(x.rig.design.counters().redo_fills, 1);
    // A later eviction overwrites the slot.
    x.w(A, 0xaa);
    x.evict(A);
    assert_eq!(x.slots(3), [0xaa, 0xb1, 0]);
    x.w(C, 0xc1);
    assert_eq!(x.home(), [0, 0, 0]);
    x.rig.check_newest().expect("the newest bytes are found");
    let executing = "executing, redo buffer filling";
    let start = [(0, 0); 2];
    x.rig.settle();
    let now = x.rig.now();
    assert_eq!(x.cut(now), (start, executing, 0, vec![0, 0, 0]));

    // commit1. A and B had left the caches, C had not.
    let go_on = x.commit(Urgency::Routine);
    assert_eq!(x.block(1, 0), Some((vec![(C, 0xc1)], vec![])));
    assert_eq!(x.block(1, 1), Some((vec![], vec![(A, 0), (B, 1)])));
    assert_eq!(x.block(1, 2), None);
    assert_eq!(x.home(), [0xaa, 0xb1, 0xc1]);
    let statistics = &x.rig.hardware.statistics;
    assert_eq!(statistics.flush_lines, 1);
    assert_eq!(statistics.translation_lookups, 3);
    assert_eq!(statistics.translation_misses, 2);
    assert_eq!(statistics.nvm_operations_write_back, 3);

    // Its stages, each seen just before its end and at it. A record in flight counts as the one
    // before it until it is whole.
    let [journaled, committed, home, retired] = x.stages()[..] else {
        panic!("four stages");
    };
    assert_eq!(retired, go_on);
    let (old, new) = (vec![0, 0, 0], vec![0xaa, 0xb1, 0xc1]);
    let flushing = "flushing caches into the journal";
    let recording = "commit record in flight";
    let (copying, retiring) = ("copying home", "retiring the journal");
    assert_eq!(x.cut(journaled - 1), (start, flushing, 0, old.clone()));
    assert_eq!(x.cut(journaled), (start, recording, 0, old));
    let copy_0 = committed - (committed - journaled) / 2;
    let half = [(1, 2), (0, 0)];
    assert_eq!(x.cut(copy_0), (half, recording, 1, new.clone()));
    assert_eq!(x.rig.design.announced_epoch(), 0);
    let both = [(1, 2); 2];
    assert_eq!(x.cut(committed), (both, copying, 1, new.clone()));
    assert_eq!(x.rig.design.announced_epoch(), 1);
    assert_eq!(x.cut(home - 1), (both, copying, 1, new.clone()));
    assert_eq!(x.cut(home), (both, retiring, 1, new.clone()));
    let empty = "executing, redo buffer empty";
    let half = [(1, 0), (1, 2)];
    assert_eq!(x.cut(retired), (half, empty, 1, new.clone()));
    x.rig.hold_until(go_on);
    x.rig.settle();
    let now = x.rig.now();
    assert_eq!(x.cut(now), ([(1, 0); 2], empty, 1, new));

    // Epoch2: A is evicted, fetched back, written again and flushed. The flush supersedes slot 0,
    // so that no address is left for the journal.
    x.w(A, 0xa2);
    x.evict(A);
    x.w(A, 0x2a);
    x.commit(Urgency::Routine);
    assert_eq!(x.rig.design.counters().superseded, 1);
    assert_eq!(x.block(3, 0), Some((vec![(A, 0x2a)], vec![])));
    assert_eq!(x.block(3, 1), None, "what is there is of commit1");
    assert_eq!(x.block(1, 1), Some((vec![], vec![(A, 0), (B, 1)])));
    assert_eq!(x.slots(1), [0xa2]);
    let now = x.rig.settle();
    let home = vec![0x2a, 0xb1, 0xc1];
    assert_eq!(x.cut(now), ([(2, 0); 2], empty, 2, home.clone()));

    // Epoch3: "On each buffer overflow, the system is forced to abort the current epoch
    // prematurely". Until it is, the lines that found no room are kept like the others.
    for name in [A, B, C, 3] {
        x.w(name, 0x30 + name as u8);
        x.evict(name);
    }
    assert_eq!(x.rig.hardware.statistics.translation_overflows, 2);
    assert_eq!(x.slots(4), [0x30, 0x31, 0x32, 0x33]);
    assert_eq!(x.home(), home);
    x.rig.check_newest().expect("the newest bytes are found");
    let line = x.line(C);
    x.rig.load(0, line);
    assert!(!x.rig.overflowed);
    let now = x.rig.settle();
    assert!(x.rig.overflowed, "the machine is asked to end the epoch");
    assert_eq!(x.cut(now).1, "executing, table overflowed");
    x.commit(Urgency::Overflow);
    let all = vec![(A, 0), (B, 1), (C, 2), (3, 3)];
    assert_eq!(x.block(5, 0), Some((vec![], all)));
    let now = x.rig.settle();
    let home = vec![0x30, 0x31, 0x32];
    assert_eq!(x.cut(now), ([(3, 0); 2], empty, 3, home));
}

/// An epoch that ends by itself after its table overflowed is not followed by another one that
/// nobody needs.
#[test]
fn an_overflow_that_the_commit_has_settled_ends_no_further_epoch() {
    let mut x = Example::new();
    for name in [A, B, C] {
        x.w(name, 1);
        x.evict(name);
    }
    assert_eq!(x.rig.hardware.statistics.translation_overflows, 1);
    x.commit(Urgency::Routine);
    x.rig.settle();
    assert!(!x.rig.overflowed);
}

/// Rows that are full are read back and written whole; copies home are single lines.
#[test]
fn a_commit_moves_the_journal_by_rows() {
    // The last rows that are read: four slots, one in each bank, or in one row.
    for (home_interleaving, last_rows) in [(Interleaving::Line, 4), (Interleaving::Row, 1)] {
        moves_the_journal_by_rows(home_interleaving, last_rows);
    }
}

fn moves_the_journal_by_rows(home_interleaving: Interleaving, last_rows: u64) {
    let geometry = Geometry {
        banks: 4,
        home_interleaving,
        ..MACHINE
    };
    let parameters = Parameters::default();
    let mut rig = Rig::<Journaling>::new(geometry.specification(), &parameters, None);
    let lines = 4 * 32 + 16;
    for index in 0..lines {
        let line = rig.frame_line(index);
        rig.store_line(0, line, index as u8 | 1);
    }
    rig.settle();
    let before = rig.hardware.statistics();
    assert_eq!(before.nvm_operations_write_back, lines - 16);
    rig.end_epoch(Urgency::Routine);
    rig.settle();
    let after = rig.hardware.statistics();
    // 16 lines and the contexts' 4 are flushed; saving these evicts 4 of the 16.
    let evicted = after.nvm_operations_write_back;
    assert_eq!((evicted, after.flush_lines), (lines - 12, 16));
    // Four whole rows of slots are read; the rest of the slots, the blocks of lines and of
    // addresses, two records of two copies, and all copies home are smaller.
    assert_eq!(after.nvm_operations_sequential, 4);
    let reads = after.nvm_design_reads - 4;
    let writes = after.nvm_operations_random - reads;
    assert_eq!(writes, 1 + 1 + 4 + evicted + after.flush_lines);
    assert_eq!(reads, last_rows);
    assert_eq!(rig.cut(rig.now(), 1).unwrap().epoch, 1);
}

#[test]
fn impossible_tables_are_named() {
    let start = |table_entries, table_ways, row_bytes| {
        let geometry = Geometry {
            row_bytes,
            ..MACHINE
        };
        let specification = geometry.specification();
        let arena = perdure_hardware::arena::Arena::new(specification.nvm.bytes).unwrap();
        let layout = perdure_designs::layout::Layout::new(1, specification.nvm.bytes);
        let contexts = layout.contexts.clone();
        let mut hardware =
            perdure_hardware::hierarchy::Hardware::new(specification, arena, contexts);
        let parameters = Parameters {
            table_entries,
            table_ways,
        };
        Journaling::start(&parameters, &layout, &mut hardware, 0, None)
            .err()
            .map(|error| error.to_string())
    };
    assert_eq!(start(6144, 16, 2048), None);
    let refusals = [
        (start(6144, 0, 2048), "journaling.table_ways = 0"),
        (start(0, 16, 2048), "journaling.table_entries = 0"),
        (
            start(100, 16, 2048),
            "multiple of journaling.table_ways = 16",
        ),
        (start(1 << 20, 16, 2048), "a quarter of nvm.bytes"),
        (
            start(6144, 16, 128),
            "nvm.row_bytes = 128: must be at least 256",
        ),
    ];
    for (refusal, part) in refusals {
        let message = refusal.expect(part);
        assert!(message.contains(part), "'{part}' is missing: {message}");
    }
}

/// An epoch that cannot end, because nobody ends it, runs out of log area: the run ends with a
/// message, and what was committed is still there.
#[test]
fn a_full_redo_buffer_is_named() {
    let mut x = Example::new();
    let slots = x.map.slot_capacity();
    let mut stored = 0;
    while x.rig.hardware.failure.is_none() {
        let line = x.rig.frame_line(stored);
        x.rig.store(0, line, 0, stored);
        stored += 1;
        assert!(stored < slots + 64, "the log area holds {slots} lines");
    }
    let message = x.rig.hardware.failure.take().unwrap().0;
    for part in ["redo buffer is full", &slots.to_string(), "raise nvm.bytes"] {
        assert!(message.contains(part), "'{part}' is missing: {message}");
    }
    // Whoever ignores the message gets it again, and no panic.
    let line = x.rig.frame_line(stored + 16);
    x.rig.store(0, line, 0, 1);
    let line = x.rig.frame_line(stored + 32);
    x.rig.store(0, line, 0, 1);
    assert!(x.rig.hardware.failure.is_some());
    let now = x.rig.settle();
    assert_eq!(x.cut(now).2, 0);
}
