//! Power cuts end to end, on the exerciser: schedules, verdicts, resuming, replay.

use crate::common::{cut, machine_of, protected_designs, request, with};
use perdure::api::{self, Unobserved};
use serde_json::{Value, json};

#[test]
fn every_schedule_verifies_picl_and_every_resume_ends_alike() {
    for schedule in ["random", "stratified"] {
        let result = cut(&with(
            request("picl", "@exerciser:6000:128:500"),
            json!({"cuts": 40, "schedule": schedule, "resume": "all", "during_recovery": true}),
        ));
        assert_eq!(result["verified"], 40, "{schedule}: {result}");
        assert_eq!(result["resumed"], 40, "{schedule}");
        assert!(result["coverage"]["cuts_during_recovery"].as_u64().unwrap() > 40);
    }
}

#[test]
fn every_persistence_event_of_a_short_run_can_be_cut() {
    let result = cut(&with(
        request("picl", "@exerciser:1500:64:500"),
        json!({"schedule": "every-event", "resume": "none"}),
    ));
    let cuts = result["cuts"].as_u64().unwrap();
    assert!(cuts > 500, "{cuts}");
    assert_eq!(result["verified"], cuts);
}

#[test]
fn epochs_may_end_by_time_and_output_commits_force_them() {
    for set in [
        json!([
            "epoch.instructions=0",
            "epoch.cycles=100000",
            "llc.bytes_per_hart=256KiB"
        ]),
        json!([
            "epoch.instructions=50000",
            "kernel.output_limit_bytes=64",
            "picl.acs_gap=0"
        ]),
    ] {
        let result = cut(&with(
            request("picl", "@exerciser:6000:128:100"),
            json!({"cuts": 40, "set": set, "resume": "all"}),
        ));
        assert_eq!(result["verified"], 40, "{set}: {result}");
    }
}

/// Where the end of an epoch takes longer than epochs may, nothing is executed, and the run says so and ends.
#[test]
fn epochs_that_are_shorter_than_their_ends_are_refused() {
    let mut refused = 0;
    for design in protected_designs() {
        let set = ["epoch.instructions=0", "epoch.cycles=5000"];
        let asked = with(
            request(&design, "@exerciser:300:64:100"),
            json!({"machine": machine_of(&design), "cuts": 4, "set": set, "resume": "all"}),
        );
        match api::cut(&asked.to_string(), &Unobserved) {
            Ok(result) => {
                let result: Value = serde_json::from_str(&result).expect("results are JSON");
                assert_eq!(result["verified"], 4, "{design}: {result}");
            }
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("longer than epoch.cycles = 5000"), "{said}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "no design flushes the caches");
}

#[test]
fn an_unprotected_machine_breaks_no_promise_and_the_first_lost_line_is_shown() {
    let result = cut(&with(
        request("ideal", "@exerciser:20000:256:100000"),
        json!({"cuts": 30}),
    ));
    assert!(result["lost"].as_u64().unwrap() > 20, "{result}");
    assert_eq!(result["failed"], 0);
    let sum = ["verified", "lost"].map(|key| result[key].as_u64().unwrap());
    assert_eq!(sum.iter().sum::<u64>(), 30);
    let shown = result["results"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["first_difference"].is_object())
        .expect("one loss is explained");
    assert_eq!(shown["verdict"], "lost");
    let difference = &shown["first_difference"];
    let kind = difference["kind"].as_str().unwrap();
    assert!(["older", "newer", "mixed"].contains(&kind), "{difference}");
    assert!(difference["says"].as_str().unwrap().starts_with(kind));
    let explanation = &shown["explanation"];
    assert_eq!(explanation["lines"], difference["lines"]);
    let kinds = explanation["kinds"].as_object().unwrap();
    let sum: u64 = kinds.values().filter_map(Value::as_u64).sum();
    assert_eq!(sum, difference["lines"].as_u64().unwrap());
    assert!(difference["address"].is_string() && difference["expected"] != difference["found"]);
}

#[test]
fn a_token_repeats_its_cut() {
    let base = with(
        request("picl", "@exerciser:6000:128:500"),
        json!({"cuts": 3, "planted_bug": "forward-scan"}),
    );
    for one in cut(&base)["results"].as_array().unwrap() {
        let token = one["token"].as_str().unwrap();
        let replayed: Value =
            serde_json::from_str(&api::replay(token, &Unobserved).unwrap()).unwrap();
        let again = &replayed["results"][0];
        for key in [
            "cycle",
            "recovered_epoch",
            "verdict",
            "writes_in_flight",
            "design_state",
        ] {
            assert_eq!(one[key], again[key], "{key}");
        }
    }
}

#[test]
fn a_cut_beyond_the_end_is_refused_with_the_end() {
    let request = with(
        request("picl", "@exerciser:1000:64:500"),
        json!({"at": 1u64 << 60}),
    );
    let message = api::cut(&request.to_string(), &Unobserved)
        .unwrap_err()
        .to_string();
    assert!(message.contains("beyond the end of the run"), "{message}");
}

/// Requests whose cuts find output waiting: under a design with one epoch for all, and one with many.
fn talkative() -> [Value; 2] {
    let groups = json!({"machine": "nvoverlay", "harts": 2,
        "set": ["epoch.stores=300", "nvm.bytes=256MiB", "nvoverlay.pool_extent_bytes=1MiB"]});
    [
        request("picl", "@exerciser:6000:128:100"),
        with(request("nvoverlay", "@exerciser:6000:32:100:2"), groups),
    ]
}

#[test]
fn what_has_left_is_known_by_its_stamp_and_not_by_what_the_design_announced() {
    for base in talkative() {
        for (mistake, verdict) in [
            ("machine:releases-early", "older-than-announced"),
            ("machine:seals-early", "released-early"),
        ] {
            let result = cut(&with(
                base.clone(),
                json!({"cuts": 60, "resume": "none", "planted_bug": mistake}),
            ));
            let verdicts = result["results"].as_array().unwrap().iter();
            let caught = verdicts.filter(|one| one["verdict"] == verdict).count();
            assert!(caught > 0, "{} {mistake}: {result}", base["design"]);
        }
        let clean = cut(&with(base, json!({"cuts": 60, "resume": "none"})));
        assert_eq!(clean["verified"], 60);
    }
}

#[test]
fn a_mistake_of_the_machine_that_does_not_exist_is_refused_with_the_nearest() {
    let request = with(
        request("picl", "@exerciser:1000:64:500"),
        json!({"planted_bug": "machine:release-early"}),
    );
    let refused = api::cut(&request.to_string(), &Unobserved).unwrap_err();
    assert!(
        refused.to_string().contains("'releases-early'"),
        "{refused}"
    );
}
