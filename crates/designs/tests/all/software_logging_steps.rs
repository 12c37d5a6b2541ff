//! Undo logging by a library, step by step: lines A and B over two epochs on a direct-mapped machine,
//! every statement checked in the NVM's bytes.
//!
//! ```text
//! hart    w:A1 | log A0, fence   w:A2   evict A   w:B1 | log B0, fence   end of epoch 1: flush A and
//! home    A0 B0                         A2 B0                            B, fence, record, fence …
//! ```

use crate::common::geometry::{DIRECT_MAPPED, Geometry};
use crate::common::rig::Rig;
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::frm::log::{Log, Record, SLOT_BYTES};
use perdure_designs::frm::registers::Commit;
use perdure_designs::software_logging::{Parameters, SoftwareLogging};
use perdure_designs::{Design, EpochNumbers, Urgency};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, LineNumber};
use perdure_hardware::time::Cycles;

const MACHINE: Geometry = DIRECT_MAPPED;
const LOG_BYTES: u64 = 1 << 20;
/// 368 ns at 2 GHz.
const ROW_WRITE: Cycles = 736;

const A: u64 = 0;
const B: u64 = 1;

struct Example {
    rig: Rig<SoftwareLogging>,
    log: Log,
}

impl Example {
    fn new(geometry: Geometry) -> Self {
        let parameters = Parameters {
            log_limit_bytes: LOG_BYTES,
            ..Parameters::default()
        };
        let mut rig = Rig::new(geometry.specification(), &parameters, None);
        rig.keeps_all_epochs = true;
        let row_bytes = geometry.row_bytes.max(SLOT_BYTES) as u64;
        let area = &rig.layout.log_area;
        let log = Log::within(area, LOG_BYTES, row_bytes, geometry.banks as u64).unwrap();
        Self { rig, log }
    }

    fn line(&self, name: u64) -> LineNumber {
        self.rig.frame_line(name)
    }

    /// One store.
    fn w(&mut self, name: u64, byte: u8) {
        let line = self.line(name);
        self.rig.store(0, line, 0, u64::from(byte));
    }

    /// Makes the cache replace a line; a load of the line one cache size further on does it.
    fn evict(&mut self, name: u64) {
        let conflicting = self.line(name) + MACHINE.llc.0 as u64;
        assert!(self.rig.hardware.llc.find(self.line(name)).is_some());
        self.rig.load(0, conflicting);
        assert!(self.rig.hardware.llc.find(self.line(name)).is_none());
    }

    fn home(&self) -> [u8; 2] {
        let arena = &self.rig.hardware.memory.arena;
        [A, B].map(|name| arena.line(self.line(name) * LINE_BYTES as u64).0[0])
    }

    /// Generation, index, line and first old byte of a live entry.
    fn entry(&self, index: u64) -> Option<(u64, u64, LineNumber, u8)> {
        let arena = &self.rig.hardware.memory.arena;
        let record = Record::decode(&arena.slice(self.log.address(index), SLOT_BYTES), false)?;
        let first = self.line(A);
        Some((
            record.generation,
            record.index,
            record.line - first,
            record.old[0],
        ))
    }

    fn commits(&self) -> [(u64, u64); 2] {
        COPIES.map(|copy| {
            let bytes = self.rig.hardware.memory.arena.slice(copy, Commit::BYTES);
            let commit = Commit::decode(&bytes, false).expect("it is whole");
            (commit.generation, commit.epoch)
        })
    }

    /// What a cut at that time brings back: the epoch, and the first bytes of A and B.
    fn recovered(&mut self, at: Cycles) -> (u64, [u8; 2]) {
        let homes = [A, B].map(|name| self.line(name) * LINE_BYTES as u64);
        let look = |arena: &Arena| homes.map(|home| arena.line(home).0[0]);
        self.rig.recovered(at, at, look)
    }
}

#[test]
fn an_entry_a_line_a_fence_an_entry() {
    let mut x = Example::new(MACHINE);
    assert_eq!(x.commits(), [(0, 0), (0, 0)]);

    // "Software generates and flushes an undo log entry before the first write."
    let before = x.rig.now();
    x.w(A, 0xa1);
    assert_eq!(x.entry(0), Some((0, 0, A, 0)));
    let durable = x.rig.hardware.memory.quiet_at();
    let library = Parameters::default().log_instructions;
    assert!(durable >= before + library + ROW_WRITE);
    // The hart has waited for it, but for the miss that its store buffer hides.
    let miss = 4 + 30 + 256 + 20;
    assert!(x.rig.now() + miss >= durable && x.rig.now() >= before + library + ROW_WRITE);
    assert!(x.rig.hardware.statistics.fence_stall_cycles >= ROW_WRITE);

    // The second store finds the line logged, and takes a cycle.
    let before = x.rig.now();
    x.w(A, 0xa2);
    assert_eq!((x.rig.now(), x.entry(1)), (before + 1, None));

    // An evicted line goes home, which the entry undoes.
    x.evict(A);
    assert_eq!(x.home(), [0xa2, 0]);
    let now = x.rig.settle();
    assert_eq!(x.recovered(now), (0, [0, 0]));

    // It comes back and is stored to again: its entry has the epoch's old bytes, and stays.
    x.w(A, 0xa3);
    assert_eq!((x.entry(0), x.entry(1)), (Some((0, 0, A, 0)), None));

    // Two entries never overlap: the second starts when the first is durable, and both were.
    x.w(B, 0xb1);
    assert_eq!(x.entry(1), Some((0, 1, B, 0)));

    // "The software library tracks the write set, and flushes them at the end of an epoch."
    let before = x.rig.now();
    let go_on = x.rig.end_epoch_without_contexts(Urgency::Routine);
    assert_eq!(x.rig.hardware.statistics.flush_lines, 2);
    assert_eq!(x.home(), [0xa3, 0xb1]);
    assert_eq!(x.commits(), [(1, 1), (1, 1)]);
    assert!(go_on >= before + 3 * ROW_WRITE, "three fences");
    for (phase, epoch) in [
        ("flushing the write set", 0),
        ("commit record copy 0 in flight", 1),
    ] {
        assert_eq!(x.rig.design.phase(), phase);
        let done = x.rig.hardware.events.next_time();
        assert_eq!(x.recovered(done).0, epoch);
        x.rig.fire_next(true);
        assert_eq!(x.rig.design.announced_epoch(), 0);
    }
    x.rig.fire_next(true);
    assert_eq!((x.rig.now(), x.rig.design.announced_epoch()), (go_on, 1));
    assert_eq!(x.recovered(go_on), (1, [0xa3, 0xb1]));

    // The log starts over: the record's generation has made the old entries worthless.
    x.w(B, 0xb2);
    assert_eq!(x.entry(0), Some((1, 0, B, 0xb1)));
    assert_eq!(x.entry(1), Some((0, 1, B, 0)));
    x.evict(B);
    let now = x.rig.settle();
    assert_eq!(x.home(), [0xa3, 0xb2]);
    assert_eq!(x.recovered(now), (1, [0xa3, 0xb1]));
}

/// "A write-back DRAM buffer whose size can accommodate the entire working set": evicted lines do
/// not reach the NVM before the library flushes them.
#[test]
fn behind_dram_the_nvm_is_written_by_the_library_alone() {
    let mut x = Example::new(Geometry {
        dram: true,
        ..MACHINE
    });
    x.w(A, 0xa1);
    x.rig.settle();
    let writes = x.rig.hardware.statistics.nvm_writes;
    x.evict(A);
    assert_eq!(x.rig.hardware.statistics.nvm_writes, writes);
    let reads = x.rig.hardware.statistics.nvm_reads;
    let line = x.line(A);
    x.rig.load(0, line);
    assert_eq!(
        x.rig.hardware.statistics.nvm_reads, reads,
        "the DRAM has it"
    );
    x.evict(A);
    x.rig.end_epoch(Urgency::Routine);
    assert!(x.rig.hardware.statistics.dram_written_through > 0);
    let now = x.rig.settle();
    assert_eq!(x.recovered(now), (1, [0xa1, 0]));
}

#[test]
fn an_entry_takes_two_rows_where_a_row_is_a_line() {
    let writes = |row_bytes| {
        let mut x = Example::new(Geometry {
            row_bytes,
            ..MACHINE
        });
        x.w(A, 1);
        assert_eq!(x.entry(0), Some((0, 0, A, 0)));
        let statistics = &x.rig.hardware.statistics;
        assert_eq!(statistics.nvm_written_bytes_log, SLOT_BYTES as u64);
        (statistics.nvm_writes, x.rig.hardware.memory.quiet_at())
    };
    let ((one, at), (two, later)) = (writes(2048), writes(64));
    assert_eq!((one, two), (1, 2));
    assert!(later < at + ROW_WRITE, "in two banks at a time");
}

#[test]
fn impossible_parameters_are_named() {
    let refusal = |parameters: &Parameters, banks| {
        let geometry = Geometry { banks, ..MACHINE };
        let specification = geometry.specification();
        let layout = perdure_designs::layout::Layout::new(1, specification.nvm.bytes);
        let arena = perdure_hardware::arena::Arena::new(specification.nvm.bytes).unwrap();
        let contexts = layout.contexts.clone();
        let mut hardware =
            perdure_hardware::hierarchy::Hardware::new(specification, arena, contexts);
        SoftwareLogging::start(parameters, &layout, &mut hardware, 0, None)
            .err()
            .map(|error| error.to_string())
    };
    let usual = Parameters::default();
    assert_eq!(refusal(&usual, 16), None);
    let short = Parameters {
        log_limit_bytes: 4096,
        ..usual.clone()
    };
    let slow = Parameters {
        flush_instructions: 1 << 20,
        ..usual.clone()
    };
    for (refusal, part) in [
        (
            refusal(&short, 16),
            "software-logging.log_limit_bytes = 4096",
        ),
        (
            refusal(&slow, 16),
            "software-logging.flush_instructions = 1048576",
        ),
        (refusal(&usual, 2048), "nvm.banks = 2048"),
    ] {
        let message = refusal.expect(part);
        assert!(message.contains(part), "'{part}' is missing: {message}");
    }
}

/// An epoch that cannot end, because nobody ends it, runs out of log: the run ends with a message,
/// and what was committed is still there.
#[test]
fn a_full_log_is_named() {
    let mut x = Example::new(MACHINE);
    let capacity = x.log.capacity;
    for index in 0..=capacity {
        let line = x.rig.frame_line(index);
        x.rig.store(0, line, 0, index + 1);
    }
    let message = x.rig.hardware.failure.take().expect("it is full").0;
    for part in [&capacity.to_string(), "software-logging.log_limit_bytes"] {
        assert!(message.contains(part), "'{part}' is missing: {message}");
    }
    x.rig.settle();
    assert!(x.rig.overflowed, "the machine was asked to end the epoch");
    let now = x.rig.now();
    assert_eq!(x.recovered(now).0, 0);
}
