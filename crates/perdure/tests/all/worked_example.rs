//! The worked example of `docs/add-a-design.md` is a design like any other: power cuts at random
//! moments, and during recovery, never find it wrong, and find each of its planted bugs.

use perdure::api::Unobserved;
use perdure::campaign;
use perdure::request::{Request, Resume};
use perdure_designs::Design;
use perdure_designs::Facts;

use crate::flush_at_epoch_end::FlushAtEpochEnd;

/// Verified and failed cuts of the exerciser on a small machine. The design is not registered, so
/// the configuration names another one; it has no parameters, and so no section there.
fn cut(bug: Option<&'static str>, row_bytes: usize) -> (usize, usize) {
    let row_bytes = format!("nvm.row_bytes={row_bytes}");
    let settings = [
        &row_bytes,
        "l1i.bytes=4KiB",
        "l1d.bytes=4KiB",
        "l2.bytes=16KiB",
        "llc.bytes_per_hart=64KiB",
        "epoch.instructions=20000",
        "nvm.bytes=256MiB",
    ];
    let request = Request {
        design: "ideal".into(),
        set: settings.map(str::to_owned).to_vec(),
        program: vec!["@exerciser:6000:128:1000".into()],
        cuts: Some(100),
        seed: Some(1),
        during_recovery: true,
        resume: Some(Resume::Sample),
        ..Request::default()
    };
    let prepared = request.prepare().expect("a good request");
    let prepared = prepared.under(Facts::of::<FlushAtEpochEnd>());
    let campaign =
        campaign::run(&request, &prepared, bug, &Unobserved).expect("a campaign that ends");
    (campaign.verified(), campaign.failed())
}

#[test]
fn no_cut_finds_it_wrong() {
    assert_eq!(cut(None, 2048), (100, 0));
}

/// An entry of its log is longer than a row of one line.
#[test]
fn no_cut_finds_it_wrong_with_rows_of_a_line() {
    assert_eq!(cut(None, 64), (100, 0));
}

#[test]
fn every_planted_bug_is_found() {
    for bug in FlushAtEpochEnd::PLANTED_BUGS {
        let (_, failed) = cut(Some(bug.name), 2048);
        assert!(failed > 0, "{} went unnoticed", bug.name);
    }
}
