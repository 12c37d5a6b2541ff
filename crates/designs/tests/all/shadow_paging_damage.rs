//! A damaged image: random bytes changed in boot records, registers and the commit's table after a
//! power cut. Recovery reports corruption, or brings back exactly an epoch that the promise allows.
//! It never panics, and memory is never wrong.
//!
//! Shadow pages and lines kept aside are data like those at home, and carry no checksum either.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

use crate::common::damage::{self, Effort, Group};
use crate::common::geometry::{self, Geometry};
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::copies::CommitRecord;
use perdure_designs::layout::BootRecord;
use perdure_designs::shadow_paging::places::Places;
use perdure_designs::shadow_paging::records::{Record, table_blocks};
use perdure_designs::shadow_paging::{Parameters, ShadowPaging};
use perdure_designs::surviving::Surviving;
use perdure_hardware::arena::Arena;

const EFFORT: Effort = Effort {
    cuts: 80,
    apart: 6_000,
};

const SCATTERED: Geometry = Geometry {
    name: "scattered",
    harts: 2,
    lines: 1500,
    hot_lines: 600,
    epoch_stores: 80,
    pause_cycles: 4,
    ..geometry::TINY
};

/// They make tables of many blocks.
const SMALL_ROWS: Geometry = Geometry {
    name: "small rows",
    row_bytes: 128,
    banks: 5,
    ..SCATTERED
};

const fn table(table_entries: u64, table_ways: u64) -> Parameters {
    Parameters {
        table_entries,
        table_ways,
    }
}

/// The table of the commit that is to be finished; none if there is no such commit.
fn table_of_commit(arena: &mut Arena) -> Group {
    let image = Surviving::new(arena);
    let boot = BootRecord::read(&image).expect("a mere power cut damages no boot record");
    let [pages, row_bytes, banks, _] = boot.design;
    let places =
        Places::new(&boot.layout.log_area, [pages, row_bytes, banks]).expect("the design wrote it");
    let record = Record::read(&image, false).expect("a mere power cut leaves a record");
    let blocks = 0..table_blocks(record.pages + record.lines, row_bytes);
    let starts = blocks.map(|index| places.table_block(index));
    Group::of("table", starts.map(|at| at..at + row_bytes))
}

#[test]
fn damage_is_reported_or_harmless() {
    let machines = [
        (SCATTERED, table(16, 4)),
        (geometry::TINY, table(1, 1)),
        (geometry::HOT, table(2, 2)),
        (SMALL_ROWS, table(24, 4)),
    ];
    let found =
        damage::is_reported_or_harmless::<ShadowPaging>(&machines, EFFORT, |arena, _, _| {
            let records = Group::records(COPIES, Record::BYTES);
            vec![records, table_of_commit(arena)]
        });
    assert!(
        found.contains_key("table"),
        "no cut left a commit to be finished"
    );
    assert!(
        damage::total(&found, |one| one.recovered_otherwise) > 0,
        "losing an unfinished register record brings the epoch before it back"
    );
}
