//! What `perdure check` says of programs whose bugs are known, and of one that has none.

use std::path::Path;

use perdure::api::Unobserved;
use perdure::crash_check;
use serde_json::{Value, json};

use crate::common::{Directory, compile};

/// The defects that a check finds.
fn defects(program: &Path, how: &str) -> Vec<String> {
    let line =
        |more: &[&str]| json!([&[&program.to_string_lossy(), "/pmem/x", how], more].concat());
    let asked = json!({
        "request": {
            "machine": "x86-pm", "design": "ideal",
            "program": line(&[]), "then": line(&["recover"]),
        },
        "model": "px86",
    });
    let report = crash_check::check(&asked.to_string(), &Unobserved).expect("it can be checked");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let bugs = report["bugs"].as_array().expect("a list").iter();
    bugs.map(|bug| bug["defect"].as_str().expect("a text").to_owned())
        .collect()
}

/// No order would help: whichever is durable first, it goes wrong.
#[test]
fn what_one_instruction_stores_into_two_lines_is_torn() {
    let folder = Directory::new("verdicts-torn");
    let program = compile(&folder, "verdicts.c");
    for (how, defect) in [
        ("halves", "torn"),
        ("loop", "torn"),
        ("one-way", "wrong-order"),
    ] {
        assert_eq!(defects(&program, how), [defect], "{how}");
    }
}

/// The table of pools that another pool's page takes with it names no page whose bytes are not there.
#[test]
fn pages_that_a_file_has_grown_by_are_there_if_its_length_is() {
    let folder = Directory::new("verdicts-appended");
    let program = compile(&folder, "verdicts.c");
    assert_eq!(defects(&program, "appended"), [""; 0]);
}
