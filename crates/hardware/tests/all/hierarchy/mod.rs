//! The cache hierarchy against a flat array of bytes.
//!
//! A random walk of loads, stores, fetches, cache-block instructions, scans, flushes and version
//! changes by one to five harts, whose caches hold a few lines each, so that every conflict happens;
//! each hart has an L2 to itself, or two or four share one.
//! After every step the whole hierarchy must tell the same story as a reference that knows nothing
//! of caches (`model.rs`): every byte, every version, every dirty bit, every hook called when it
//! must be and never otherwise, every counter. A failure prints the seed that repeats it.

mod compare;
mod model;
mod streams;
mod walk;

use crate::support::seeds;
use model::Versions;
use perdure_hardware::counters::Counters;
use perdure_hardware::mistaken::PersistMistake;
use walk::{Options, Sabotage, walk};

const STEPS: usize = 3000;

/// Harts, and how many of them share an L2; in the last two, the last L2 has fewer.
const SHAPES: [(usize, usize); 9] = [
    (1, 1),
    (2, 1),
    (3, 1),
    (4, 1),
    (2, 2),
    (4, 2),
    (4, 4),
    (3, 2),
    (5, 4),
];

fn options(seed: u64, (harts, sharing): (usize, usize), versions: Versions) -> Options {
    Options {
        seed,
        harts,
        sharing,
        versions,
        steps: STEPS,
        lookaside: true,
        kept_digest: seed.is_multiple_of(2),
        every_store: false,
        degree: 0,
        sabotage: Sabotage::None,
    }
}

fn walks(versions: Versions) {
    for shape in SHAPES {
        for seed in seeds(2) {
            let with = walk(&options(seed, shape, versions));
            let without = walk(&Options {
                lookaside: false,
                ..options(seed, shape, versions)
            });
            assert_eq!(
                with, without,
                "seed {seed}, {shape:?}, {versions:?}: the lookaside changes results"
            );
        }
    }
}

#[test]
fn without_versions_the_caches_are_one_flat_memory() {
    walks(Versions::None);
}

#[test]
fn with_one_version_for_the_machine_every_cross_version_store_is_told() {
    walks(Versions::Machine);
}

#[test]
fn with_versions_noted_at_the_shared_cache_too() {
    walks(Versions::MachineNoted);
}

#[test]
fn with_a_version_for_each_group() {
    walks(Versions::SharingGroup);
}

#[test]
fn with_a_version_for_each_hart() {
    walks(Versions::Hart);
}

#[test]
fn a_policy_that_sees_every_store_is_shown_its_new_bytes() {
    for shape in SHAPES {
        for versions in [Versions::None, Versions::Machine] {
            let every_store = Options {
                every_store: true,
                ..options(7, shape, versions)
            };
            let with = walk(&every_store);
            let without = walk(&Options {
                lookaside: false,
                ..every_store
            });
            assert_eq!(with, without, "{shape:?}, {versions:?}");
        }
    }
}

#[test]
fn prefetchers_bring_no_old_byte_and_change_no_version() {
    let mut used = 0;
    for versions in [Versions::None, Versions::Machine, Versions::MachineNoted] {
        for shape in SHAPES {
            for seed in seeds(1) {
                let degree = 1 + seed as usize % 4;
                let options = Options {
                    degree,
                    ..options(seed, shape, versions)
                };
                let with = walk(&options);
                let without = walk(&Options {
                    lookaside: false,
                    ..options.clone()
                });
                assert_eq!(with, without, "{options:?}: the lookaside changes results");
                used += with.statistics.prefetches_used;
            }
        }
    }
    assert!(used > 1000, "{used} lines that were prefetched were used");
}

#[test]
fn a_walk_is_repeated_to_the_bit() {
    let options = options(77, (3, 1), Versions::Machine);
    let (first, second) = (walk(&options), walk(&options));
    assert_eq!(first, second);
}

#[test]
fn a_walk_reaches_what_it_is_meant_to_reach() {
    let reached = |shape| {
        let mut walks = (1..=3).map(|seed| walk(&options(seed, shape, Versions::Machine)));
        let mut sum = walks.next().expect("a walk").statistics.describe();
        for other in walks {
            for (counter, more) in sum.iter_mut().zip(other.statistics.describe()) {
                counter.value += more.value;
            }
        }
        sum
    };
    for (mut counter, shared) in reached((4, 1)).into_iter().zip(reached((4, 2))) {
        if counter.name == "l2.snoops" {
            assert_eq!(counter.value, 0, "nobody shares an L2");
            counter = shared;
        }
        let reached = [
            "l1i.",
            "l1d.",
            "l2.",
            "llc.",
            "coherence.",
            "cache_block.",
            "flush.lines",
            "nvm.",
        ]
        .iter()
        .any(|prefix| counter.name.starts_with(prefix));
        let other_traffic = [
            "log",
            "metadata",
            "context",
            "design_reads",
            "sequential",
            "random",
        ]
        .iter()
        .any(|kind| counter.name.ends_with(kind));
        assert!(
            !reached || other_traffic || counter.value >= 5,
            "{} is only {}",
            counter.name,
            counter.value
        );
    }
}

// ---- The reference must notice ------------------------------------------------------------------

fn sabotaged(sabotage: Sabotage) {
    walk(&Options {
        sabotage,
        ..options(1, (4, 1), Versions::Machine)
    });
}

#[test]
#[should_panic(expected = "isn't the newest")]
fn a_lost_write_back_is_noticed() {
    sabotaged(Sabotage::LoseReplacements);
}

#[test]
#[should_panic(expected = "isn't the newest")]
fn a_wrong_fill_is_noticed() {
    sabotaged(Sabotage::FillZeros);
}

#[test]
#[should_panic(expected = "line 0x")]
fn a_scan_that_skips_private_copies_is_noticed() {
    sabotaged(Sabotage::ScanSkipsPrivate);
}

#[test]
#[should_panic(expected = "cause: Flush")]
fn a_flush_that_skips_private_copies_is_noticed() {
    sabotaged(Sabotage::FlushSkipsPrivate);
}

#[test]
#[should_panic(expected = "stayed dirty")]
fn a_persist_operation_that_misses_other_harts_is_noticed() {
    sabotaged(Sabotage::Persists(PersistMistake::MissesOtherHarts));
}

#[test]
#[should_panic(expected = "stayed dirty")]
fn a_persist_operation_that_passes_its_stores_is_noticed() {
    sabotaged(Sabotage::Persists(PersistMistake::PassesItsStores));
}

#[test]
#[should_panic(expected = "lets the hart go on early")]
fn an_operation_that_lets_its_hart_go_on_early_is_noticed() {
    sabotaged(Sabotage::Persists(PersistMistake::GoesOnEarly));
}

#[test]
#[should_panic(expected = "fence")]
fn a_fence_that_waits_for_stores_alone_is_noticed() {
    sabotaged(Sabotage::Persists(PersistMistake::FencesForStoresAlone));
}

#[test]
#[should_panic(expected = "lookaside")]
fn write_tags_left_over_from_an_older_version_are_noticed() {
    sabotaged(Sabotage::KeepWriteTags);
}
