//! NVOverlay step by step, where harts share an L2 (§IV-B1, figures 7 and 8): what happens to a
//! version that one hart's L1 has when another hart of the sharing group reads or writes the line. Read
//! in the counters, in the caches, and in the end in the snapshots that the NVM holds.

use crate::common::geometry::{BEHIND_DRAM, Geometry};
use crate::common::rig::Rig;
use perdure_designs::nvoverlay::mnm::{MnmParameters, SNAPSHOTS};
use perdure_designs::nvoverlay::{Nvoverlay, Parameters};
use perdure_designs::snapshots::SnapshotStore;
use perdure_designs::{Design, EpochNumbers, GroupEpochs};
use perdure_hardware::cache::State;
use perdure_hardware::line::{LINE_BYTES, LineNumber};

/// Two sharing groups of two harts, with room for everything.
const MACHINE: Geometry = Geometry {
    harts: 4,
    l2_harts: 2,
    l1d: (8, 2),
    l2: (32, 4),
    llc: (64, 4),
    ..BEHIND_DRAM
};

/// Harts of the first sharing group, and one of the other.
const A: usize = 0;
const B: usize = 1;
const ELSEWHERE: usize = 2;

/// A small pool, and nobody walks the tags unless told to.
fn parameters() -> Parameters {
    Parameters {
        walker: false,
        mnm: MnmParameters {
            pool_limit_bytes: 4 << 20,
            pool_extent_bytes: 1 << 20,
            ..MnmParameters::default()
        },
        ..Parameters::default()
    }
}

struct Example {
    rig: Rig<Nvoverlay>,
    line: LineNumber,
}

impl Example {
    fn new() -> Self {
        let specification = MACHINE.not_inclusive().specification();
        let rig = Rig::new(specification, &parameters(), None);
        let line = rig.frame_line(0);
        Self { rig, line }
    }

    fn w(&mut self, hart: usize, byte: u8) {
        self.rig.store_line(hart, self.line, byte);
        assert_eq!(self.rig.hardware.cores[hart].ahead, None);
        self.rig
            .hardware
            .audit(&self.rig.design)
            .expect("the audit");
    }

    fn r(&mut self, hart: usize) {
        self.rig.load(hart, self.line);
        self.rig
            .hardware
            .audit(&self.rig.design)
            .expect("the audit");
    }

    fn epoch(&mut self, group: usize) -> u64 {
        let groups = &mut self.rig.design;
        groups.epoch(group)
    }

    fn advance(&mut self, group: usize, epoch: u64) {
        let now = self.rig.now();
        let Rig {
            design, hardware, ..
        } = &mut self.rig;
        design.advance(hardware, group, epoch, now);
    }

    /// The state and the epoch of a hart's copy, or of its L2's.
    fn held(&self, cache: &perdure_hardware::cache::Cache) -> Option<(State, u16)> {
        let word = cache.word(cache.find(self.line)?);
        Some((word.state(), word.version().0))
    }

    fn l1(&self, hart: usize) -> Option<(State, u16)> {
        self.held(&self.rig.hardware.cores[hart].l1d)
    }

    fn l2(&self, group: usize) -> Option<(State, u16)> {
        self.held(&self.rig.hardware.groups[group].l2)
    }

    /// Versions that have departed: as store-evictions, and otherwise.
    fn departed(&self) -> (u64, u64) {
        let counted = &self.rig.hardware.statistics;
        let others = counted.version_capacity
            + counted.version_invalidations
            + counted.version_downgrades
            + counted.version_walks;
        (counted.version_store_evictions, others)
    }

    /// Everybody goes on in a new epoch and all tags are walked; the line's versions as the NVM then
    /// holds them, epoch and byte.
    fn history(mut self) -> Vec<(u64, u8)> {
        let next = self.epoch(0).max(self.epoch(1)) + 1;
        for group in [0, 1] {
            self.advance(group, next);
        }
        let now = self.rig.now();
        let groups = &mut self.rig.design;
        groups.kernel_advanced(&mut self.rig.hardware, next, now);
        let groups = &mut self.rig.design;
        groups.persist(&mut self.rig.hardware, now);
        let at = self.rig.settle();
        assert_eq!(self.rig.design.announced_epoch(), next - 1);
        let mut nvm = std::collections::BTreeMap::new();
        self.rig.design.drain(at, &mut |address, bytes| {
            nvm.insert(address, bytes.to_vec());
        });
        let arena = &mut self.rig.hardware.memory.arena;
        for (address, bytes) in nvm {
            arena.write(address, &bytes);
        }
        let store = SnapshotStore::open(&SNAPSHOTS, |at, length| {
            Ok(arena.slice(at, length).to_vec())
        })
        .expect("a store that is whole");
        let history = store.history(self.line).expect("versions that can be read");
        (history.iter())
            .map(|entry| {
                assert_eq!(entry.bytes.0, [entry.bytes.0[0]; LINE_BYTES]);
                (entry.epoch, entry.bytes.0[0])
            })
            .collect()
    }
}

#[test]
fn a_sibling_that_writes_an_older_version_leaves_it_in_the_l2() {
    let mut example = Example::new();
    example.w(A, 1);
    example.advance(0, 2);
    example.w(B, 2);
    assert_eq!(example.l1(A), None, "its copy was invalidated");
    assert_eq!(example.l2(0), Some((State::Modified, 1)));
    assert_eq!(example.l1(B), Some((State::Modified, 2)));
    assert_eq!(example.departed(), (0, 0), "both are in the sharing group");
    assert_eq!(example.history(), [(1, 1), (2, 2)]);
}

#[test]
fn a_version_that_comes_down_for_a_sibling_sends_the_older_one_to_the_omc() {
    let mut example = Example::new();
    example.w(A, 1);
    example.advance(0, 2);
    example.w(A, 2);
    assert_eq!(example.l2(0), Some((State::Modified, 1)), "store-eviction");
    example.advance(0, 3);
    example.w(B, 3);
    assert_eq!(example.departed(), (1, 0), "epoch 1's");
    assert_eq!(example.l2(0), Some((State::Modified, 2)));
    assert_eq!(example.l1(B), Some((State::Modified, 3)));
    assert_eq!(example.history(), [(1, 1), (2, 2), (3, 3)]);
}

#[test]
fn a_sibling_that_reads_shares_what_comes_down() {
    let mut example = Example::new();
    example.w(A, 1);
    example.advance(0, 2);
    example.w(A, 2);
    example.r(B);
    assert_eq!(example.departed(), (1, 0), "epoch 1's was displaced");
    assert_eq!(example.l2(0), Some((State::Modified, 2)));
    assert_eq!(example.l1(A), Some((State::Shared, 2)));
    assert_eq!(example.l1(B), Some((State::Shared, 2)));
    // Either may write it without a word to the last-level cache.
    let asked = example.rig.hardware.statistics.llc_accesses;
    example.advance(0, 3);
    example.w(B, 3);
    assert_eq!(example.rig.hardware.statistics.llc_accesses, asked);
    assert_eq!((example.l1(A), example.departed()), (None, (1, 0)));
    assert_eq!(example.history(), [(1, 1), (2, 2), (3, 3)]);
}

#[test]
fn within_an_epoch_siblings_make_one_version() {
    let mut example = Example::new();
    for (hart, byte) in [(A, 1), (B, 2), (A, 3), (B, 4)] {
        example.w(hart, byte);
    }
    assert_eq!(example.departed(), (0, 0));
    assert_eq!(example.history(), [(1, 4)]);
}

#[test]
fn another_group_gets_what_the_second_hart_has() {
    let mut example = Example::new();
    example.w(A, 1);
    example.advance(0, 2);
    example.w(B, 2);
    example.advance(1, 2);
    example.w(ELSEWHERE, 3);
    // The older one goes to the OMC, the newer one straight to the other sharing group.
    assert_eq!(example.departed(), (0, 1));
    assert_eq!(example.rig.hardware.statistics.dirty_transfers, 1);
    assert_eq!((example.l1(B), example.l2(0)), (None, None));
    assert_eq!(example.history(), [(1, 1), (2, 3)]);
}

#[test]
fn what_one_hart_sees_moves_all_of_its_group() {
    let mut example = Example::new();
    example.advance(1, 7);
    example.w(ELSEWHERE, 1);
    example.r(B);
    let seen = example.rig.hardware.cores[B].ahead.take();
    let seen = seen.expect("it is of a newer epoch");
    let groups = &mut example.rig.design;
    assert_eq!(groups.epoch_of(seen), 7);
    example.advance(0, 7);
    // The other hart's store is of that epoch, and needs nobody's leave.
    example.w(A, 2);
    assert_eq!(example.l1(A), Some((State::Modified, 7)));
    assert_eq!(example.history(), [(7, 2)]);
}

#[test]
fn a_walk_finds_versions_in_every_l1_of_the_group() {
    let mut example = Example::new();
    example.w(B, 1);
    example.advance(0, 2);
    example.w(B, 2);
    example.advance(0, 3);
    let Rig {
        design, hardware, ..
    } = &mut example.rig;
    let set = hardware.groups[0].l2.set_of(example.line);
    let walked = hardware.walk_set(design, 0, set, true, 1_000_000);
    assert_eq!(walked.versions, 2);
    assert_eq!(hardware.dirty_versions(0).count(), 0);
    assert_eq!(example.l1(B), Some((State::Exclusive, 2)));
    assert_eq!(example.history(), [(1, 1), (2, 2)]);
}

/// §IV-D: before the numbers of a group are used again, every tag and every OID in DRAM is looked at.
/// That takes time, and no sharing group goes on before it is over.
#[test]
fn groups_wait_until_the_numbers_of_a_group_are_free() {
    let parameters = Parameters {
        oid_bits: 3,
        skew_epochs: 1,
        ..parameters()
    };
    let waits = |lines: u64| {
        let mut rig: Rig<Nvoverlay> =
            Rig::new(MACHINE.not_inclusive().specification(), &parameters, None);
        // So many lines lie in DRAM with an OID.
        for index in 0..lines {
            let line = rig.frame_line(index);
            rig.store_line(A, line, 1);
            rig.cache_block(A, line, true);
        }
        let now = rig.now() + 100_000;
        let next = 4;
        let hardware = &mut rig.hardware;
        let sets = hardware.most_sets() as u64;
        let groups = &mut rig.design;
        assert_eq!(
            groups.advance(hardware, 0, next - 1, now),
            now,
            "same group"
        );
        let ready = groups.advance(hardware, 0, next, now);
        assert_eq!(
            groups.advance(hardware, 1, next, now),
            ready,
            "the others too"
        );
        ready - now - sets
    };
    let none = waits(0);
    let few = waits(16);
    let many = waits(64);
    assert_eq!(none, 0, "the tags alone");
    assert!(
        few > 0 && many > 2 * few,
        "{few} and {many} cycles for OIDs in DRAM"
    );
}
