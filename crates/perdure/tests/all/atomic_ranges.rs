//! Bytes of which a program says to `perdure check` that they change as a whole.

use std::collections::BTreeSet;
use std::path::Path;

use perdure::Error;
use perdure::api::Unobserved;
use perdure::crash_check;
use serde_json::{Value, json};

use crate::common::{Directory, compile};

const POOL: &str = "/pmem/x";

fn check(program: &Path, how: &str, model: &str) -> Result<Value, Error> {
    let line = |how: &str| json!([program, POOL, how]);
    let asked = json!({
        "request": {
            "machine": "x86-pm", "design": "ideal", "program": line(how), "then": line("recover"),
        },
        "model": model,
        "cuts": (model == "machine").then_some(1000),
    });
    let report = crash_check::check(&asked.to_string(), &Unobserved)?;
    Ok(serde_json::from_str(&report).expect("JSON"))
}

/// What a check finds, by symptoms.
fn symptoms(report: &Value) -> BTreeSet<&str> {
    let bugs = report["bugs"].as_array().expect("a list").iter();
    bugs.map(|bug| bug["symptom"].as_str().expect("a text"))
        .collect()
}

#[test]
fn what_does_not_change_as_a_whole_is_found_wherever_it_lies() {
    let folder = Directory::new("atomic-ranges");
    let program = compile(&folder, "atomic_ranges.c");
    for model in ["px86", "machine"] {
        for (how, found) in [
            ("word", None),
            ("two", Some("bytes that change as a whole have not")),
            ("pages", Some("bytes that change as a whole have not")),
        ] {
            let report = check(&program, how, model).expect("it can be checked");
            let found = found.into_iter().collect();
            assert_eq!(symptoms(&report), found, "{model}, {how}: {report}");
        }
    }
}

#[test]
fn bytes_that_are_not_in_one_mapping_of_a_pool_are_refused() {
    let folder = Directory::new("atomic-refused");
    let program = compile(&folder, "atomic_ranges.c");
    for how in ["elsewhere", "8193", "0x100000000", "0xffffffffffffffff"] {
        let refused = check(&program, how, "px86").expect_err(how).to_string();
        let said = ["perdure_atomic in main", "do not lie in one mapping"];
        assert!(said.iter().all(|part| refused.contains(part)), "{refused}");
    }
    assert!(check(&program, "8192", "px86").is_ok());
}
