//! Machines that are cut again and again: each life is judged, the last one by how it ends.

use crate::common::{cut, request, with};
use perdure::api::{self, Unobserved};
use serde_json::{Value, json};

/// Under a design with one epoch for all, and one with many.
fn requests() -> [Value; 2] {
    let groups = json!({"machine": "nvoverlay", "harts": 2,
        "set": ["epoch.stores=300", "nvm.bytes=256MiB", "nvoverlay.pool_extent_bytes=1MiB"]});
    [
        request("picl", "@exerciser:6000:128:500"),
        with(request("nvoverlay", "@exerciser:6000:32:500:2"), groups),
    ]
}

fn without_host_time(mut result: Value) -> Value {
    result["host"] = Value::Null;
    result
}

#[test]
fn every_life_is_judged_and_host_threads_change_nothing() {
    for base in requests() {
        let asked = |jobs: u64| {
            let more = json!({"cuts": 20, "resume": "all", "generations": 4, "jobs": jobs,
                "during_recovery": true, "seed": 5});
            without_host_time(cut(&with(base.clone(), more)))
        };
        let result = asked(1);
        assert_eq!(result["verified"], 20);
        assert_eq!(
            (&result["generations"], &result["resumed"]),
            (&json!(4), &json!(20))
        );
        let cut_again = result["coverage"]["cuts_of_later_lives"].as_u64().unwrap();
        assert!(cut_again > 30, "{cut_again}");
        for one in result["results"].as_array().unwrap() {
            let lives = one["lives"].as_array().unwrap();
            assert_eq!(lives[0]["cycle"], one["cycle"]);
            let epochs = lives
                .iter()
                .map(|life| life["recovered_epoch"].as_u64().unwrap());
            assert!(
                epochs.is_sorted(),
                "no life undoes what an earlier one has done: {one}"
            );
        }
        assert_eq!(asked(2), result);
    }
}

#[test]
fn half_of_the_resumed_cuts_have_three_generations_by_default() {
    let base = request("picl", "@exerciser:6000:128:500");
    let result = cut(&with(base, json!({"cuts": 20, "resume": "sample"})));
    let results = result["results"].as_array().unwrap();
    let several = results.iter().filter(|one| one["lives"].is_array());
    assert_eq!((&result["resumed"], several.count()), (&json!(5), 2));
    assert_eq!(
        (&result["generations"], &result["verified"]),
        (&json!(3), &json!(20))
    );
}

const SURVIVES_ONE_LIFE: &str = "registers-start-anew";

#[test]
fn what_a_resume_carries_over_is_judged_by_the_next_cut_alone() {
    let asked = |generations: u64| {
        let more = json!({"cuts": 40, "resume": "all", "generations": generations,
            "planted_bug": SURVIVES_ONE_LIFE});
        cut(&with(request("picl", "@exerciser:6000:128:500"), more))
    };
    assert_eq!(asked(1)["verified"], 40);
    let result = asked(3);
    let failed = result["failed"].as_u64().unwrap();
    assert!(failed > 5, "{failed} of 40");
}

#[test]
fn a_token_repeats_all_lives() {
    let more =
        json!({"cuts": 12, "resume": "all", "generations": 3, "planted_bug": SURVIVES_ONE_LIFE});
    let result = cut(&with(request("picl", "@exerciser:6000:128:500"), more));
    assert!(result["failed"].as_u64().unwrap() > 0);
    for one in result["results"].as_array().unwrap() {
        let token = one["token"].as_str().unwrap();
        let replayed = api::replay(token, &Unobserved).expect("a good token");
        let replayed: Value = serde_json::from_str(&replayed).expect("results are JSON");
        let again = &replayed["results"][0];
        for key in ["cycle", "lives", "verdict", "message", "token"] {
            assert_eq!(one[key], again[key], "{key}");
        }
    }
}
