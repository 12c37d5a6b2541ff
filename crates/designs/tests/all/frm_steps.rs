//! *Read-log-modify* (§II-B, Fig. 3b), step by step: lines A, B and C over two epochs on a
//! direct-mapped machine, every statement checked in the NVM's bytes.
//!
//! ```text
//! cache          w:A1  evict A                     w:B1  end of epoch 1: flush B, commit
//! controller           read A0 | log A0 | write A1       read B0 | log B0 | write B1 | record
//! ```

use crate::common::geometry::{DIRECT_MAPPED, Geometry};
use crate::common::rig::Rig;
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::frm::log::{Log, Record, SLOT_BYTES};
use perdure_designs::frm::registers::Commit;
use perdure_designs::frm::{Frm, Parameters};
use perdure_designs::{Design, EpochNumbers, Urgency};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, LineNumber};
use perdure_hardware::persist::Fence;
use perdure_hardware::time::Cycles;

const MACHINE: Geometry = DIRECT_MAPPED;
const LOG_BYTES: u64 = 1 << 20;

/// The lines of the example, in different sets of every cache.
const A: u64 = 0;
const B: u64 = 1;

struct Example {
    rig: Rig<Frm>,
    log: Log,
}

impl Example {
    fn new(buffer_entries: usize) -> Self {
        let parameters = Parameters {
            buffer_entries,
            log_limit_bytes: LOG_BYTES,
        };
        let mut rig = Rig::new(MACHINE.specification(), &parameters, None);
        rig.keeps_all_epochs = true;
        let (row_bytes, banks) = (MACHINE.row_bytes as u64, MACHINE.banks as u64);
        let log = Log::within(&rig.layout.log_area, LOG_BYTES, row_bytes, banks).unwrap();
        Self { rig, log }
    }

    fn line(&self, name: u64) -> LineNumber {
        self.rig.frame_line(name)
    }

    fn w(&mut self, name: u64, byte: u8) {
        self.rig.store_line(0, self.line(name), byte);
    }

    /// Makes the cache replace a line; a load of the line one cache size further on does it.
    fn evict(&mut self, name: u64) {
        let conflicting = self.line(name) + MACHINE.llc.0 as u64;
        assert!(self.rig.hardware.llc.find(self.line(name)).is_some());
        self.rig.load(0, conflicting);
        assert!(self.rig.hardware.llc.find(self.line(name)).is_none());
    }

    fn fire(&mut self) -> Cycles {
        let time = self.rig.hardware.events.next_time();
        self.rig.fire_next(false);
        time
    }

    /// The byte that fills a line at its home address.
    fn home(&self, name: u64) -> u8 {
        let arena = &self.rig.hardware.memory.arena;
        let bytes = arena.line(self.line(name) * LINE_BYTES as u64).0;
        assert!(bytes.iter().all(|byte| *byte == bytes[0]));
        bytes[0]
    }

    fn slot(&self, index: u64) -> Option<Record> {
        let arena = &self.rig.hardware.memory.arena;
        Record::decode(&arena.slice(self.log.address(index), SLOT_BYTES), false)
    }

    fn commits(&self) -> [(u64, u64); 2] {
        COPIES.map(|copy| {
            let bytes = self.rig.hardware.memory.arena.slice(copy, Commit::BYTES);
            let commit = Commit::decode(&bytes, false).expect("it is whole");
            (commit.generation, commit.epoch)
        })
    }

    /// What survives a cut at that time with the writes in flight torn in some way, recovered:
    /// epoch, and the bytes of two lines.
    fn recovered(&mut self, at: Cycles, tear: u64) -> (u64, u8, u8) {
        let homes = [self.line(A), self.line(B)].map(|line| line * LINE_BYTES as u64);
        let look = |arena: &Arena| homes.map(|home| arena.line(home).0[0]);
        let (epoch, [a, b]) = self.rig.recovered(at, tear, look);
        (epoch, a, b)
    }
}

#[test]
fn read_log_modify() {
    let mut x = Example::new(4);
    assert_eq!(x.commits(), [(0, 0), (0, 0)]);
    x.w(A, 0xa1);
    let reads = x.rig.hardware.statistics.nvm_design_reads;
    x.evict(A);

    // Read: "the undo data is first read from its canonical memory address".
    assert_eq!(x.rig.hardware.statistics.nvm_design_reads, reads + 1);
    assert_eq!(x.rig.design.phase(), "executing, old bytes being read");
    assert_eq!((x.home(A), x.slot(0)), (0, None));

    // Log: "Then, this data is persisted into an undo buffer in NVM".
    x.fire();
    assert_eq!(x.rig.design.phase(), "executing, undo records in flight");
    let record = x.slot(0).expect("the controller has it");
    assert_eq!((record.generation, record.index), (0, 0));
    assert_eq!((record.line, record.old), (x.line(A), [0; 64]));
    assert_eq!(x.home(A), 0, "not before the record is durable");
    let record_durable = x.rig.hardware.memory.quiet_at();

    // Modify: "Finally, the eviction is written in-place in memory".
    assert_eq!(x.fire(), record_durable);
    assert_eq!(x.home(A), 0xa1);
    assert_eq!(x.rig.design.phase(), "executing, no eviction pending");
    let home_durable = x.rig.hardware.memory.quiet_at();
    assert!(home_durable > record_durable);
    for at in record_durable..=home_durable + 1 {
        assert_eq!(x.recovered(at, at), (0, 0, 0), "cut at {at}");
    }

    // The end of the epoch: B is flushed, in the same three steps, then the record is written.
    x.w(B, 0xb1);
    let now = x.rig.now();
    let go_on = x.rig.end_epoch_without_contexts(Urgency::Routine);
    assert_eq!(x.rig.hardware.statistics.flush_lines, 1);
    let record = x.slot(1).expect("the controller has it");
    assert_eq!((record.line, record.old), (x.line(B), [0; 64]));
    assert_eq!((x.home(A), x.home(B)), (0xa1, 0xb1));
    assert_eq!(x.commits(), [(1, 1), (1, 1)]);
    let mut seen = [false; 2];
    for at in now..=go_on {
        while x.rig.hardware.events.next_time() <= at {
            x.rig.fire_next(true);
        }
        let (epoch, a, b) = x.recovered(at, at);
        assert_eq!((a, b), [(0, 0), (0xa1, 0xb1)][epoch as usize]);
        seen[epoch as usize] = true;
    }
    assert_eq!(seen, [true, true]);
    assert_eq!(x.rig.design.announced_epoch(), 1);
    assert_eq!(x.recovered(go_on, 0), (1, 0xa1, 0xb1));
}

/// Every eviction is logged, also of a line that the epoch has logged before. Recovery takes the
/// oldest record.
#[test]
fn a_line_evicted_twice_has_two_records() {
    let mut x = Example::new(4);
    x.w(A, 0xa1);
    x.evict(A);
    x.rig.settle();
    x.w(A, 0xa2);
    x.evict(A);
    x.rig.settle();
    let [first, second] = [0, 1].map(|index| x.slot(index).expect("it is durable"));
    assert_eq!((first.line, first.old), (x.line(A), [0; 64]));
    assert_eq!((second.line, second.old), (x.line(A), [0xa1; 64]));
    assert_eq!(second.durable_below, 1);
    assert_eq!(x.home(A), 0xa2);
    let now = x.rig.now();
    assert_eq!(x.recovered(now, 0), (0, 0, 0));
}

/// A line that is fetched, written and evicted again while its eviction is still pending: the fill
/// gets the pending bytes, and the newer eviction takes the older one's place. One undo record, with
/// the bytes at home, serves both.
#[test]
fn an_eviction_merges_with_a_pending_one() {
    let mut x = Example::new(4);
    x.w(A, 0xa1);
    x.evict(A);
    x.w(A, 0xa2);
    assert_eq!(x.rig.design.counters().buffer_fills, 1);
    x.evict(A);
    assert_eq!(x.rig.design.counters().merged, 1);
    x.rig.check_newest().expect("the newest bytes are found");
    let start = x.rig.now();
    let end = x.rig.settle();
    assert_eq!(x.home(A), 0xa2);
    let record = x.slot(0).expect("it is durable");
    assert_eq!((record.line, record.old), (x.line(A), [0; 64]));
    assert_eq!(x.slot(1), None);
    assert!(end > start);
    assert_eq!(x.recovered(end, 0), (0, 0, 0));
}

/// A full buffer makes the cache wait until the oldest eviction has gone through all its steps.
#[test]
fn a_full_buffer_holds_evictions_up() {
    let waits = |buffer_entries| {
        let mut x = Example::new(buffer_entries);
        for name in 0..4 {
            x.w(name, 1);
        }
        for name in 0..4 {
            x.evict(name);
        }
        x.rig.settle();
        assert_eq!((0..4).map(|name| x.home(name)).sum::<u8>(), 4);
        x.rig.design.counters().buffer_wait_cycles
    };
    assert_eq!(waits(4), 0);
    assert!(waits(1) > waits(2) && waits(2) > 0);
}

/// A cache-block clean answers when its bytes are durable in place, so that a fence can wait.
#[test]
fn a_cleaned_line_is_durable_after_a_fence() {
    let mut x = Example::new(4);
    x.w(A, 0xa1);
    x.rig.cache_block(0, x.line(A), false);
    assert_eq!(x.home(A), 0xa1);
    let now = x.rig.clock(0);
    let rig = &mut x.rig;
    (rig.hardware).fence(&mut rig.design, 0, Fence::FULL, now);
    assert_eq!(x.rig.clock(0), x.rig.hardware.memory.quiet_at());
}

/// What cannot work is refused, with what would.
#[test]
fn impossible_parameters_are_refused() {
    let refused = |parameters: Parameters, geometry: Geometry| {
        let specification = geometry.specification();
        let bytes = specification.nvm.bytes;
        let arena = perdure_hardware::arena::Arena::new(bytes).unwrap();
        let layout = perdure_designs::layout::Layout::new(geometry.harts, bytes);
        let contexts = layout.contexts.clone();
        let mut hardware =
            perdure_hardware::hierarchy::Hardware::new(specification, arena, contexts);
        Frm::start(&parameters, &layout, &mut hardware, 0, None)
            .err()
            .expect("it is refused")
            .to_string()
    };
    let no_buffer = Parameters {
        buffer_entries: 0,
        ..Parameters::default()
    };
    assert!(refused(no_buffer, MACHINE).contains("must be 1 to 1024"));
    let no_log = Parameters {
        log_limit_bytes: 4096,
        ..Parameters::default()
    };
    let message = refused(no_log, MACHINE);
    for part in [
        "frm.log_limit_bytes = 4096",
        "112 undo records",
        "gives room for 32",
    ] {
        assert!(message.contains(part), "'{part}' is missing: {message}");
    }
    let short_rows = Geometry {
        row_bytes: 64,
        ..MACHINE
    };
    assert!(refused(Parameters::default(), short_rows).contains("nvm.row_bytes"));
}
