//! Three versions of a line, step by step: line A over four epochs, and B, on a direct-mapped machine,
//! read in the NVM's bytes.
//!
//! ```text
//!          epoch 1   table  epoch 2                  table  epoch 3     table  epoch 4
//! cache    w:A1 w:B1        walk: A1 B1  w:A2  evict        w:A3 walk          evict
//! home     –                                                                   A3
//! slot 1   –                A1                                                 A1
//! slot 2   –                             A2                                    A2
//! ```

use crate::common::geometry::{DIRECT_MAPPED, Geometry};
use crate::common::rig::Rig;
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::hardware_shadow::format::{Map, Mapping, Place, Record};
use perdure_designs::hardware_shadow::{HardwareShadow, Parameters};
use perdure_designs::surviving::Surviving;
use perdure_designs::{Design, EpochNumbers, MachineEpochs, Urgency};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, LineNumber};
use perdure_hardware::time::Cycles;

const MACHINE: Geometry = DIRECT_MAPPED;

const A: u64 = 0;
const B: u64 = 1;

struct Example {
    rig: Rig<HardwareShadow>,
    map: Map,
}

impl Example {
    fn new(geometry: Geometry) -> Self {
        let mut rig = Rig::new(geometry.specification(), &Parameters::default(), None);
        rig.keeps_all_epochs = true;
        let numbers = [2, geometry.row_bytes as u64, geometry.banks as u64];
        let map = Map::new(&rig.layout, numbers).unwrap();
        Self { rig, map }
    }

    fn w(&mut self, name: u64, byte: u8) {
        let line = self.rig.frame_line(name);
        self.rig.store(0, line, 0, u64::from(byte));
    }

    /// Makes the cache replace a line; a load of the line one cache size further on does it.
    fn evict(&mut self, name: u64) {
        let line = self.rig.frame_line(name);
        self.rig.load(0, line + MACHINE.llc.0 as u64);
        assert!(self.rig.hardware.llc.find(line).is_none());
    }

    fn byte(&self, line: LineNumber) -> u8 {
        self.rig
            .hardware
            .memory
            .arena
            .line(line * LINE_BYTES as u64)
            .0[0]
    }

    /// The first bytes of a line's three places. Groups are handed out in the order of first stores.
    fn places(&self, name: u64) -> [u8; 3] {
        let line = self.rig.frame_line(name);
        [0, 1, 2].map(|place: Place| self.byte(self.map.place(line, name as u32, place)))
    }

    /// What the table in NVM says of a line: newest place, the one before, epoch.
    fn word(&mut self, name: u64) -> Option<(Place, Place, u32)> {
        let wanted = self.rig.frame_line(name);
        let map = self.map.clone();
        let mut found = None;
        let surviving = Surviving::new(&mut self.rig.hardware.memory.arena);
        map.walk(&surviving, |line, word| {
            if line == wanted {
                let mapping = Mapping::decode(word);
                assert_eq!(u64::from(mapping.group), name);
                found = Some((mapping.newest, mapping.before, mapping.epoch));
            }
            Ok(())
        })
        .unwrap();
        found
    }

    /// Epoch and number of lines in both copies of the record.
    fn records(&self) -> [(u64, u64); 2] {
        COPIES.map(|copy| {
            let bytes = self.rig.hardware.memory.arena.slice(copy, Record::BYTES);
            let record = Record::decode(&bytes, false).expect("it is whole");
            (record.epoch, record.lines)
        })
    }

    /// Ends the executing epoch; contexts are left out. Returns when harts may go on.
    fn end_epoch(&mut self) -> Cycles {
        let go_on = self.rig.end_epoch_without_contexts(Urgency::Routine);
        assert!(
            !self.rig.design.can_end_epoch(),
            "one checkpoint is under way"
        );
        self.rig.hold_until(go_on);
        go_on
    }

    /// What a cut now brings back: the epoch, and the first bytes of A and B.
    fn recovered(&mut self) -> (u64, [u8; 2]) {
        let at = self.rig.now();
        let homes = [A, B].map(|name| self.rig.frame_line(name) * LINE_BYTES as u64);
        let look = |arena: &Arena| homes.map(|home| arena.line(home).0[0]);
        self.rig.recovered(at, at, look)
    }
}

#[test]
fn three_places_take_turns() {
    let mut x = Example::new(MACHINE);
    x.w(A, 0xa1);
    x.w(B, 0xb1);
    assert_eq!((x.places(A), x.word(A)), ([0, 0, 0], None));

    // "The centralized mapping table is updated synchronously": harts stand still for it …
    let before = x.rig.now();
    let go_on = x.end_epoch();
    assert!(go_on >= before + 736, "a row write");
    assert_eq!((x.word(A), x.word(B)), (Some((1, 0, 1)), Some((1, 0, 1))));
    assert_eq!(x.rig.design.phase(), "updating the table");
    // … and not for the lines.
    assert_eq!((x.places(A), x.places(B)), ([0, 0, 0], [0, 0, 0]));
    assert_eq!(x.records(), [(0, 0); 2]);
    assert_eq!(
        x.recovered(),
        (0, [0, 0]),
        "the table's words are not committed"
    );

    // A store in epoch 2 comes before the walk: the line's bytes are written for it.
    x.w(A, 0xa2);
    assert_eq!(x.places(A), [0, 0xa1, 0]);
    // The executing epoch's own version has the third place.
    x.evict(A);
    assert_eq!(x.places(A), [0, 0xa1, 0xa2]);
    x.rig.check_newest().expect("the newest bytes are found");
    assert_eq!(x.recovered().0, 0);

    // "Hardware can overlap the persistence of the previous epoch with the execution of the current".
    x.rig.settle();
    assert_eq!(x.places(B), [0, 0xb1, 0]);
    assert_eq!(
        x.rig.hardware.statistics.flush_lines, 1,
        "the walk has found B"
    );
    assert_eq!(
        (x.records(), x.rig.design.announced_epoch()),
        ([(1, 2); 2], 1)
    );
    assert_eq!(x.recovered(), (1, [0xa1, 0xb1]));

    // Epoch 3's version goes home: the table names slot 2, and slot 1 is what is before it.
    x.end_epoch();
    assert_eq!((x.word(A), x.word(B)), (Some((2, 1, 2)), Some((1, 0, 1))));
    x.w(A, 0xa3);
    x.evict(A);
    assert_eq!(x.places(A), [0xa3, 0xa1, 0xa2]);
    assert_eq!(x.recovered(), (1, [0xa1, 0xb1]));
    x.rig.settle();
    assert_eq!(x.recovered(), (2, [0xa2, 0xb1]));

    // A line at home needs no copy. Epoch 4 takes slot 1 again.
    x.end_epoch();
    assert_eq!(x.word(A), Some((0, 2, 3)));
    x.rig.settle();
    assert_eq!(x.records(), [(3, 1); 2], "B alone is not at home");
    x.w(A, 0xa4);
    x.evict(A);
    assert_eq!(x.places(A), [0xa3, 0xa4, 0xa2]);
    x.rig.settle();
    assert_eq!(x.recovered(), (3, [0xa3, 0xb1]));
}

/// "The number of eight byte writes performed on the radix tree mapping table" (§VII-B): 8 bytes for
/// each line, and for each new node.
#[test]
fn the_table_costs_eight_bytes_a_line() {
    for row_bytes in [2048, 64] {
        let mut x = Example::new(Geometry {
            row_bytes,
            ..MACHINE
        });
        let written = |x: &Example| x.rig.hardware.statistics.nvm_written_bytes_metadata;
        for index in 0..40 {
            x.w(index, 1);
        }
        x.end_epoch();
        let nodes = 3;
        assert_eq!(written(&x), 8 * (40 + nodes));
        x.rig.settle();
        let records = 2 * Record::BYTES as u64;
        assert_eq!(written(&x), 8 * (40 + nodes) + records);
        // Forty words that are neighbours are few writes.
        let before = x.rig.hardware.statistics.nvm_writes;
        for index in 0..40 {
            x.w(index, 2);
        }
        let stores = x.rig.hardware.statistics.nvm_writes;
        x.end_epoch();
        let writes = x.rig.hardware.statistics.nvm_writes - stores;
        assert_eq!(writes, 40u64.div_ceil(row_bytes as u64 / 8));
        assert!(stores >= before);
        assert_eq!(written(&x), 8 * (80 + nodes) + records);
    }
}

/// Behind DRAM, a version is read where it was written, and the NVM is not.
#[test]
fn the_dram_holds_what_is_in_a_slot() {
    let mut x = Example::new(Geometry {
        dram: true,
        ..MACHINE
    });
    x.w(A, 0xa1);
    x.evict(A);
    assert_eq!(x.places(A), [0, 0xa1, 0]);
    let reads = x.rig.hardware.statistics.nvm_reads;
    let line = x.rig.frame_line(A);
    x.rig.load(0, line);
    assert_eq!(x.rig.hardware.statistics.nvm_reads, reads);
}

#[test]
fn a_full_log_area_is_named() {
    let mut x = Example::new(MACHINE);
    let groups = x.map.groups();
    for index in 0..=groups {
        let line = x.rig.frame_line(index);
        x.rig.store(0, line, 0, index + 1);
    }
    let message = x.rig.hardware.failure.take().expect("it is full").0;
    for part in [&groups.to_string(), "raise nvm.bytes"] {
        assert!(message.contains(part), "'{part}' is missing: {message}");
    }
    // Whoever ignores the message gets it again, and no panic.
    let line = x.rig.frame_line(groups);
    x.rig.store(0, line + 16, 0, 1);
    x.rig.settle();
    assert_eq!(x.recovered().0, 0);
}
