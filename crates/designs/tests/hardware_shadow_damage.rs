//! A damaged image: random bytes changed in boot records, commit records and the mapping table after
//! a power cut. Recovery reports corruption, or brings back exactly an epoch that the promise
//! allows. It never panics, and memory is never wrong.
//!
//! Shadow slots are memory, as home addresses are: nothing vouches for either.
//!
//! A failure prints machine and seed; `PERDURE_SEED=n` runs that seed alone.

mod common;

use common::damage::{self, Effort, Group};
use common::geometry::{self, Geometry};
use perdure_designs::hardware_shadow::format::{COPIES, Map, NODE_BYTES, RECORD_BYTES};
use perdure_designs::hardware_shadow::{HardwareShadow, Parameters};
use perdure_designs::layout::Layout;

const EFFORT: Effort = Effort {
    seeds: 3,
    cuts: 80,
    apart: 4_000,
};

/// The root, and the nodes of a small program.
fn table(layout: &Layout, geometry: &Geometry) -> Group {
    let (row_bytes, banks) = (geometry.row_bytes as u64, geometry.banks as u64);
    let map = Map::new(layout, [2, row_bytes, banks]).expect("the design has one, too");
    let root = map.root_word(0)..map.root_word(4);
    let nodes = (0..12).map(|node| map.node_word(node, 0));
    let nodes = nodes.map(|at| at..at + NODE_BYTES);
    Group::of("table", std::iter::once(root).chain(nodes))
}

#[test]
fn damage_is_reported_or_harmless() {
    let one_line = Geometry {
        name: "rows of one line",
        row_bytes: 64,
        ..geometry::MANY_HARTS
    };
    let mut machines = geometry::all_with(|_| Parameters::default());
    machines.push((one_line, Parameters::default()));
    let found = damage::is_reported_or_harmless::<HardwareShadow>(
        &machines,
        EFFORT,
        |_, layout, geometry| {
            vec![
                Group::records(COPIES, RECORD_BYTES),
                table(layout, geometry),
            ]
        },
    );
    assert!(found["table"].reported > 0);
    assert!(
        damage::total(&found, |one| one.recovered_otherwise) > 0,
        "losing an unfinished commit record brings the epoch before it back"
    );
}
