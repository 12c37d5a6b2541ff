//! The same request gives the same statistics and the same final state: on every run, on either
//! engine, with the power cut or not, for any number of jobs.

use perdure::api::{self, Unobserved};

use crate::common::{SMALL, cut, request, run, with};
use serde_json::{Value, json};

/// A result without what belongs to the host.
fn observable(mut result: Value) -> Value {
    result["host"] = Value::Null;
    result
}

#[test]
fn a_run_repeats_to_the_bit() {
    for design in ["ideal", "picl"] {
        let request = request(design, "@exerciser:20000:256:1000");
        assert_eq!(
            observable(run(&request)),
            observable(run(&request)),
            "{design}"
        );
    }
}

#[test]
fn the_engines_agree_on_every_statistic_and_cycle() {
    for design in ["ideal", "picl"] {
        for program in ["@exerciser:20000:256:1000", "@exerciser:30000:16:3000"] {
            for set in [SMALL, &["epoch.instructions=50000"]] {
                let request = with(request(design, program), json!({"set": set}));
                let fast = run(&with(request.clone(), json!({"engine": "fast"})));
                let plain = run(&with(request, json!({"engine": "plain"})));
                assert_eq!(
                    observable(fast),
                    observable(plain),
                    "{design} {program} {set:?}"
                );
            }
        }
    }
}

#[test]
fn cuts_do_not_disturb_the_run_they_cut() {
    let base = request("picl", "@exerciser:10000:256:1000");
    let uncut = run(&base);
    let campaign = cut(&with(
        base,
        json!({"cuts": 40, "during_recovery": true, "resume": "none"}),
    ));
    assert_eq!(campaign["state_hash"], uncut["state_hash"]);
    assert_eq!(campaign["verified"], 40, "{campaign}");
}

#[test]
fn jobs_do_not_change_results() {
    let base = with(
        request("picl", "@exerciser:10000:256:1000"),
        json!({"cuts": 30, "seed": 7, "schedule": "stratified"}),
    );
    let one = cut(&with(base.clone(), json!({"jobs": 1})));
    let three = cut(&with(base, json!({"jobs": 3})));
    assert_eq!(observable(one), observable(three));
}

#[test]
fn the_parts_of_a_campaign_are_the_whole() {
    let base = with(
        request("picl", "@exerciser:10000:256:1000"),
        json!({"cuts": 10, "seed": 7, "schedule": "stratified"}),
    );
    let whole = cut(&base);
    for parts in [3, 12] {
        let mut results = vec![Value::Null; 10];
        for number in 0..parts {
            let part = cut(&with(base.clone(), json!({"part": [number, parts]})));
            assert_eq!(part["state_hash"], whole["state_hash"]);
            for (place, result) in part["results"].as_array().unwrap().iter().enumerate() {
                results[number + place * parts] = result.clone();
            }
        }
        assert_eq!(json!(results), whole["results"]);
    }
}

#[test]
fn the_timing_simple_core_is_slower_and_the_design_costs_something() {
    let program = "@exerciser:20000:1024:5000";
    let cycles = |request: &Value| run(request)["sim"]["cycles"].as_u64().unwrap();
    let in_order = cycles(&with(request("ideal", program), json!({"set": []})));
    let simple = cycles(&with(
        request("ideal", program),
        json!({"set": ["core.model=timing-simple"]}),
    ));
    let picl = cycles(&with(request("picl", program), json!({"set": []})));
    assert!(in_order < simple, "{in_order} {simple}");
    assert!(in_order <= picl, "{in_order} {picl}");
}

/// A campaign runs the program twice, and one exact cut runs it once, to its end by a copy of the machine.
#[test]
fn one_exact_cut_is_as_in_a_campaign() {
    for design in ["picl", "thynvm", "ideal"] {
        let base = with(
            request(design, "@exerciser:4000:64:500"),
            json!({"resume": "all", "generations": 1}),
        );
        let campaign = cut(&with(base.clone(), json!({"cuts": 5})));
        let in_campaign = &campaign["results"][3];
        let one = cut(&with(base, json!({"at": in_campaign["cycle"]})));
        for key in ["state_hash", "exit_code", "run_cycles", "deterministic"] {
            assert_eq!(one[key], campaign[key], "{design}: {key}");
        }
        assert_eq!(one["coverage"]["paths"], campaign["coverage"]["paths"]);
        let mut alone = one["results"][0].clone();
        // Only one exact cut shows what the resumed run said.
        let results = alone.as_object_mut().expect("an object");
        let said = results.remove("resumed_output");
        assert_eq!(said.is_some(), design != "ideal", "{design}");
        // A campaign explains its first failure alone.
        results.remove("first_difference");
        results.remove("explanation");
        let mut same = in_campaign.clone();
        let results = same.as_object_mut().expect("an object");
        results.remove("first_difference");
        results.remove("explanation");
        assert_eq!(alone, same, "{design}");
    }
}

/// A run that ends with its cut is judged like one that goes on, and its token is made again the same way.
#[test]
fn a_run_that_ends_with_its_cut_has_the_same_verdict() {
    let replayed = |asked: Value| -> Value {
        let answer = api::replay(&asked.to_string(), &Unobserved).expect("it replays");
        serde_json::from_str(&answer).expect("JSON")
    };
    for (design, planted) in [
        ("picl", Value::Null),
        ("picl", json!("evict-before-flush")),
        ("ideal", Value::Null),
    ] {
        let base = with(
            request(design, "@exerciser:4000:64:500"),
            json!({"resume": "none", "cuts": 3, "planted_bug": planted}),
        );
        for known in cut(&base)["results"].as_array().expect("a list") {
            let only = json!({"at": known["cycle"], "until_cut": true});
            let mut alone = cut(&with(base.clone(), only));
            for key in ["state_hash", "exit_code", "run_cycles"] {
                assert_eq!(alone[key], Value::Null, "{design}: {key}");
            }
            let alone = alone["results"][0].take();
            assert_ne!(alone["token"], known["token"]);
            // The token names the way that it was made; one that names the whole run can be made so, too.
            let again = replayed(json!({"token": alone["token"]}));
            assert_eq!(again["results"][0], alone, "{design}");
            let shorter = replayed(json!({"token": known["token"], "until_cut": true}));
            assert_eq!(shorter["run_cycles"], Value::Null);
            assert_eq!(shorter["results"][0]["token"], known["token"]);
            for key in [
                "verdict",
                "recovered_epoch",
                "writes_in_flight",
                "recovery_cycles",
                "lost_cycles",
            ] {
                assert_eq!(alone[key], known[key], "{design}: {key}");
                assert_eq!(shorter["results"][0][key], known[key], "{design}: {key}");
            }
        }
    }
}
