//! Planted bugs, hunted anew and tried where they were caught before.

use perdure::api::{self, Unobserved};
use serde_json::{Value, json};

/// The bug that a design's first trial does not show.
const RARE: &str = "commit-before-table";

fn bugs(anew: bool) -> Vec<Value> {
    let asked = json!({"design": "shadow-paging", "anew": anew});
    let report = api::mutants(&asked.to_string(), &Unobserved).expect("a report");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["clean"]["false_alarms"], 0);
    report["mutants"].as_array().expect("a list").clone()
}

#[test]
fn a_bug_is_caught_again_where_it_was_caught_before() {
    for (then, now) in bugs(true).iter().zip(bugs(false)) {
        for key in ["name", "by", "place", "token"] {
            assert_eq!(then[key], now[key], "{key}");
        }
        assert_eq!(now["caught"], true, "{now}");
        let rare = now["name"] == RARE;
        assert_eq!(now["place"].is_string(), rare, "{now}");
        // Nothing is tried before.
        let fewer = now["cuts"].as_u64() < then["cuts"].as_u64();
        assert_eq!(fewer, rare, "{then} {now}");
    }
}

#[test]
fn what_promises_nothing_has_no_bugs_to_catch() {
    let asked = json!({"design": "ideal"}).to_string();
    let refusal = api::mutants(&asked, &Unobserved).unwrap_err().to_string();
    assert!(refusal.contains("ideal has no planted bugs"), "{refusal}");
}
