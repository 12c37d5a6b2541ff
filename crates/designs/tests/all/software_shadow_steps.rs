//! Shadowing by a library, step by step: lines A and B over three epochs on a direct-mapped machine,
//! read in the NVM's bytes.
//!
//! ```text
//!          epoch 1     commit 1      epoch 2     commit 2      epoch 3
//! cache    w:A1 w:B1                 w:A2                      w:A3
//! home     A0 B0       A0 B0         A0 B0       A2 B0         A2 B0
//! slot     –           A1 B1         A1 B1       A1 B1         A3 B1, when A is evicted
//! ```

use crate::common::geometry::{DIRECT_MAPPED, Geometry};
use crate::common::rig::Rig;
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::hardware_shadow::format::{Map, Record};
use perdure_designs::software_shadow::{Parameters, SoftwareShadow};
use perdure_designs::{Design, EpochNumbers, Urgency};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::time::Cycles;

const MACHINE: Geometry = DIRECT_MAPPED;
/// 368 ns at 2 GHz.
const ROW_WRITE: Cycles = 736;

const A: u64 = 0;
const B: u64 = 1;

struct Example {
    rig: Rig<SoftwareShadow>,
    map: Map,
}

impl Example {
    fn new(geometry: Geometry) -> Self {
        let mut rig = Rig::new(geometry.specification(), &Parameters::default(), None);
        rig.keeps_all_epochs = true;
        let numbers = [1, geometry.row_bytes as u64, geometry.banks as u64];
        let map = Map::new(&rig.layout, numbers).unwrap();
        Self { rig, map }
    }

    fn w(&mut self, name: u64, byte: u8) {
        let line = self.rig.frame_line(name);
        self.rig.store(0, line, 0, u64::from(byte));
    }

    fn evict(&mut self, name: u64) {
        let line = self.rig.frame_line(name);
        self.rig.load(0, line + MACHINE.llc.0 as u64);
        assert!(self.rig.hardware.llc.find(line).is_none());
    }

    /// The first bytes of a line's home and of its slot.
    fn places(&self, name: u64) -> [u8; 2] {
        let line = self.rig.frame_line(name);
        let arena = &self.rig.hardware.memory.arena;
        [0, 1].map(|place| {
            let at = self.map.place(line, name as u32, place);
            arena.line(at * LINE_BYTES as u64).0[0]
        })
    }

    fn records(&self) -> [(u64, u64); 2] {
        COPIES.map(|copy| {
            let bytes = self.rig.hardware.memory.arena.slice(copy, Record::BYTES);
            let record = Record::decode(&bytes, false).expect("it is whole");
            (record.epoch, record.lines)
        })
    }

    /// Ends the executing epoch; contexts are left out. Returns when harts may go on.
    fn end_epoch(&mut self) -> Cycles {
        self.rig.end_epoch_without_contexts(Urgency::Routine)
    }

    /// What a cut at that time brings back: the epoch, and the first bytes of A and B.
    fn recovered(&mut self, at: Cycles) -> (u64, [u8; 2]) {
        let homes = [A, B].map(|name| self.rig.frame_line(name) * LINE_BYTES as u64);
        let look = |arena: &Arena| homes.map(|home| arena.line(home).0[0]);
        self.rig.recovered(at, at, look)
    }
}

#[test]
fn two_places_take_turns() {
    let mut x = Example::new(MACHINE);
    // A first store costs the library's instructions, and no write.
    x.w(A, 0xa1);
    x.w(B, 0xb1);
    assert_eq!(x.rig.hardware.statistics.nvm_writes, 0);
    let before = x.rig.now();
    x.w(A, 0xa1);
    assert_eq!(x.rig.now(), before + 1);

    // Lines, table, record, record: four fences, harts standing still.
    let go_on = x.end_epoch();
    assert!(go_on >= before + 4 * ROW_WRITE);
    assert_eq!((x.places(A), x.places(B)), ([0, 0xa1], [0, 0xb1]));
    assert_eq!(x.records(), [(1, 2); 2]);
    for (phase, epoch) in [
        ("flushing the write set", 0),
        ("updating the table", 0),
        ("commit record copy 0 in flight", 1),
    ] {
        assert_eq!(x.rig.design.phase(), phase);
        let done = x.rig.hardware.events.next_time();
        let memory = if epoch == 0 { [0, 0] } else { [0xa1, 0xb1] };
        assert_eq!(x.recovered(done), (epoch, memory));
        x.rig.fire_next(true);
        assert_eq!(x.rig.design.announced_epoch(), 0);
    }
    assert_eq!(x.rig.settle(), go_on);
    assert_eq!(x.rig.design.announced_epoch(), 1);

    // The next version of A goes home, where no committed version is.
    x.w(A, 0xa2);
    x.evict(A);
    assert_eq!(x.places(A), [0xa2, 0xa1]);
    x.rig.check_newest().expect("the newest bytes are found");
    let now = x.rig.settle();
    assert_eq!(x.recovered(now), (1, [0xa1, 0xb1]));
    x.end_epoch();
    assert_eq!(x.records(), [(2, 1); 2], "B alone is not at home");
    let now = x.rig.settle();
    assert_eq!(x.recovered(now), (2, [0xa2, 0xb1]));

    // And back.
    x.w(A, 0xa3);
    x.evict(A);
    assert_eq!(x.places(A), [0xa2, 0xa3]);
    let now = x.rig.settle();
    assert_eq!(x.recovered(now), (2, [0xa2, 0xb1]));
}

/// Evicted lines stay in the DRAM until the library flushes them, under the address where they will
/// be in the NVM.
#[test]
fn behind_dram_the_nvm_is_written_by_the_library_alone() {
    let mut x = Example::new(Geometry {
        dram: true,
        ..MACHINE
    });
    x.w(A, 0xa1);
    x.evict(A);
    assert_eq!(x.rig.hardware.statistics.nvm_writes, 0);
    let reads = x.rig.hardware.statistics.nvm_reads;
    let line = x.rig.frame_line(A);
    x.rig.load(0, line);
    assert_eq!(
        x.rig.hardware.statistics.nvm_reads, reads,
        "the DRAM has it"
    );
    let now = x.rig.settle();
    assert_eq!(x.recovered(now), (0, [0, 0]));
    x.end_epoch();
    assert_eq!(x.rig.hardware.statistics.dram_written_through, 1);
    let now = x.rig.settle();
    assert_eq!(x.recovered(now), (1, [0xa1, 0]));
}

/// A library writes the table by flushing the lines in which its words are.
#[test]
fn the_table_is_written_by_lines() {
    let mut x = Example::new(MACHINE);
    x.w(A, 1);
    x.end_epoch();
    // A leaf's line, those of two inner nodes and the root's, and the record twice.
    let expected = 4 * LINE_BYTES + 2 * Record::BYTES;
    let written = x.rig.hardware.statistics.nvm_written_bytes_metadata;
    assert_eq!(written, expected as u64);
    x.rig.settle();
    x.w(A, 2);
    x.w(B, 2);
    x.end_epoch();
    let more = x.rig.hardware.statistics.nvm_written_bytes_metadata - written;
    assert_eq!(
        more,
        (LINE_BYTES + 2 * Record::BYTES) as u64,
        "A and B share one"
    );
}
