//! A damaged image: random bytes changed in boot records, commit records and table blocks after a
//! power cut. Recovery reports corruption, or brings back exactly an epoch that the promise allows.
//! It never panics, and memory is never wrong.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::damage::{self, Effort, Group};
use crate::common::geometry::{self, Geometry};
use perdure_designs::Design;
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::layout::{BootRecord, Layout};
use perdure_designs::surviving::Surviving;
use perdure_designs::thynvm::format::{Record, Regions};
use perdure_designs::thynvm::{Parameters, Thynvm};
use perdure_hardware::arena::Arena;
use perdure_hardware::hierarchy::Hardware;

const EFFORT: Effort = Effort {
    cuts: 60,
    apart: 4_000,
};

/// Tables of many blocks.
const SHORT_ROWS: Geometry = Geometry {
    name: "short rows",
    row_bytes: 256,
    lines: 600,
    hot_lines: 300,
    epoch_stores: 200,
    ..geometry::TINY
};

const fn tables(block_entries: usize, page_entries: usize) -> Parameters {
    Parameters {
        block_entries,
        page_entries,
        table_ways: 4,
        promote_writes: 6,
        demote_writes: 2,
    }
}

/// The tables of the last two checkpoints.
fn checkpoint_tables(arena: &mut Arena) -> Group {
    let image = Surviving::new(arena);
    let boot = BootRecord::read(&image).expect("it is whole");
    let regions = Regions::of(&boot).expect("it is this design's");
    let mut places = Vec::new();
    for copy in COPIES {
        let bytes = image.read(copy, Record::BYTES).expect("it is there");
        let Some(record) = Record::decode(&bytes, false) else {
            continue;
        };
        let listed = record.listed.iter().sum::<u64>() as usize;
        for index in 0..listed.div_ceil(regions.shape.listed_per_block()) {
            let at = regions.table_block(record.number, index);
            places.push(at..at + regions.shape.table_block_bytes);
        }
    }
    Group::of("tables", places)
}

#[test]
fn damage_is_reported_or_harmless() {
    // Epochs that list many and few units.
    let machines = [
        (geometry::TINY, tables(16, 4)),
        (geometry::MANY_HARTS, tables(64, 4)),
        (geometry::RESIDENT, tables(32, 4)),
        (geometry::HOT, tables(4, 4)),
        (geometry::PARALLEL_MEDIA, tables(256, 16)),
        (SHORT_ROWS, tables(64, 16)),
    ];
    let found = damage::is_reported_or_harmless::<Thynvm>(&machines, EFFORT, |arena, _, _| {
        let records = Group::records(COPIES, Record::BYTES);
        vec![records, checkpoint_tables(arena)]
    });
    assert!(
        damage::total(&found, |one| one.recovered_otherwise) > 0,
        "losing an unfinished commit record brings the epoch before it back"
    );
}

type Change = fn(&mut Parameters);

#[test]
fn impossible_parameters_are_named() {
    let start = |change: &dyn Fn(&mut Parameters), row_bytes: usize| {
        let geometry = Geometry {
            row_bytes,
            ..geometry::TINY
        };
        let mut parameters = Parameters {
            block_entries: 16,
            page_entries: 16,
            table_ways: 4,
            ..Parameters::default()
        };
        change(&mut parameters);
        let specification = geometry.specification();
        let layout = Layout::new(1, specification.nvm.bytes);
        let arena = Arena::new(specification.nvm.bytes).expect("memory for the arena");
        let mut hardware = Hardware::new(specification, arena, layout.contexts.clone());
        <Thynvm as Design>::start(&parameters, &layout, &mut hardware, 0, None)
            .map(|_| ())
            .map_err(|impossible| impossible.to_string())
    };
    assert_eq!(start(&|_| {}, 2048), Ok(()));
    let wrong: [(Change, usize, [&str; 2]); 6] = [
        (
            |p| p.table_ways = 0,
            2048,
            ["thynvm.table_ways = 0", "1 to 64"],
        ),
        (
            |p| p.block_entries = 18,
            2048,
            ["thynvm.block_entries = 18", "table_ways = 4"],
        ),
        (
            |p| p.page_entries = 0,
            2048,
            ["thynvm.page_entries = 0", "at most 1048576"],
        ),
        (
            |p| p.promote_writes = 16,
            2048,
            ["thynvm.promote_writes = 16", "demote_writes = 16"],
        ),
        (
            |p| p.page_entries = 4096,
            2048,
            ["thynvm.page_entries = 4096", "a quarter of nvm.bytes"],
        ),
        (|_| {}, 128, ["nvm.row_bytes = 128", "at least 256"]),
    ];
    for (change, row_bytes, parts) in wrong {
        let message = start(&change, row_bytes).expect_err("it is impossible");
        for part in parts {
            assert!(message.contains(part), "'{part}' is missing: {message}");
        }
    }
}
