//! Damage to images of the designs with a mapping table: random bytes changed in boot records, commit
//! records and the table.
//!
//! Shadow slots are memory, as home addresses are: nothing vouches for either.

use perdure_designs::Design;
use perdure_designs::bytes::Sealed;
use perdure_designs::copies::COPIES;
use perdure_designs::hardware_shadow::format::{Map, NODE_BYTES, Record};
use perdure_designs::layout::Layout;

use super::damage::{self, Effort, Group};
use super::geometry::{self, Geometry};

const EFFORT: Effort = Effort {
    cuts: 80,
    apart: 4_000,
};

/// The root, and the nodes of a small program, where each line has so many copies.
fn table(layout: &Layout, geometry: &Geometry, copies: u64) -> Group {
    let (row_bytes, banks) = (geometry.row_bytes as u64, geometry.banks as u64);
    let map = Map::new(layout, [copies, row_bytes, banks]).expect("the design has one, too");
    let root = map.root_word(0)..map.root_word(4);
    let nodes = (0..12).map(|node| map.node_word(node, 0));
    let nodes = nodes.map(|at| at..at + NODE_BYTES);
    Group::of("table", std::iter::once(root).chain(nodes))
}

/// The design's parameters are the usual ones.
pub fn damage_is_reported_or_harmless<D: Design>(copies: u64) {
    let mut machines = geometry::all_with(|_| D::Parameters::default());
    machines.push((geometry::ROWS_OF_LINES, D::Parameters::default()));
    let found = damage::is_reported_or_harmless::<D>(&machines, EFFORT, |_, layout, geometry| {
        vec![
            Group::records(COPIES, Record::BYTES),
            table(layout, geometry, copies),
        ]
    });
    assert!(found["table"].reported > 0);
    assert!(
        damage::total(&found, |one| one.recovered_otherwise) > 0,
        "losing an unfinished commit record brings the epoch before it back"
    );
}
