//! Several programs in one machine: each runs as if it were alone, a region is measured for each,
//! and one power cut brings all of them back, under every design.

use crate::common::{self, cut, request, run, with};
use perdure::api::{self, Unobserved};
use serde_json::{Value, json};

const SHORT: &str = "@exerciser:3000:64:500";
const LONG: &str = "@exerciser:9000:128:1000";

fn several(design: &str, programs: &[&str]) -> Value {
    let lines: Vec<Vec<&str>> = programs.iter().map(|&program| vec![program]).collect();
    let mut asked = request(design, "");
    let asked_map = asked.as_object_mut().expect("a request is an object");
    asked_map.remove("program");
    with(
        asked,
        json!({"programs": lines, "machine": common::machine_of(design)}),
    )
}

#[test]
fn programs_side_by_side_end_as_they_do_alone() {
    let alone = [SHORT, LONG].map(|program| run(&request("picl", program))["exit_code"].clone());
    for design in common::designs() {
        let result = run(&several(&design, &[SHORT, LONG, SHORT]));
        assert_eq!(result["sim"]["harts"], 3, "{design}: a hart each");
        let programs = result["programs"].as_array().unwrap();
        let codes: Vec<&Value> = programs.iter().map(|one| &one["exit_code"]).collect();
        assert_eq!(codes, [&alone[0], &alone[1], &alone[0]], "{design}");
        assert!(programs.iter().all(|one| one["runs"] == 1), "{design}");
        let sum: u64 = programs
            .iter()
            .map(|one| one["instructions"].as_u64().unwrap())
            .sum();
        assert_eq!(sum, result["sim"]["instructions"], "{design}");
    }
}

#[test]
fn programs_may_share_a_hart() {
    let apart = run(&several("picl", &[SHORT, LONG]));
    let together = run(&with(several("picl", &[SHORT, LONG]), json!({"harts": 1})));
    for index in 0..2 {
        let code = |result: &Value| result["programs"][index]["exit_code"].clone();
        assert_eq!(code(&apart), code(&together));
    }
}

#[test]
fn repeated_programs_keep_the_load_on_until_the_region_ends() {
    let asked = with(
        several("picl", &[SHORT, LONG]),
        json!({"repeat": true, "warm_up_instructions": 20_000, "measure_instructions": 300_000}),
    );
    let result = run(&asked);
    let region = &result["region"];
    assert_eq!(region["complete"], true);
    let shares = region["programs"].as_array().unwrap();
    let instructions = |index: usize| shares[index]["instructions"].as_u64().unwrap();
    assert!(instructions(0) >= 300_000 && instructions(1) >= 300_000);
    assert_eq!(region["instructions"], instructions(0) + instructions(1));
    assert!(result["programs"][0]["runs"].as_u64().unwrap() > 1);
    let longest = shares.iter().map(|share| share["cycles"].as_u64()).max();
    assert_eq!(longest.flatten(), region["cycles"].as_u64());
    let all = |result: &Value, name: &str| result["statistics"][name]["value"].as_u64().unwrap();
    assert!(all(region, "l1d.accesses") < all(&result, "l1d.accesses"));
    let plain = run(&with(asked.clone(), json!({"engine": "plain"})));
    assert_eq!(plain["region"], *region, "both engines");
    assert_eq!(run(&asked)["state_hash"], result["state_hash"], "again");
}

#[test]
fn a_region_may_follow_the_threads() {
    let asked = json!({
        "machine": "picl", "design": "picl", "harts": 4,
        "program": ["@exerciser:400:64:100:4"], "measure_threads": true,
    });
    let result = run(&asked);
    let region = &result["region"];
    assert_eq!(
        (&region["whole_phase"], &region["complete"]),
        (&json!(true), &json!(true))
    );
    assert!(region["instructions"].as_u64() < result["sim"]["instructions"].as_u64());
    let plain = run(&with(asked.clone(), json!({"engine": "plain"})));
    assert_eq!(plain["region"], *region, "both engines");
    let limited = run(&with(asked, json!({"measure_instructions": 500})));
    assert_eq!(limited["region"]["whole_phase"], false);
    assert!(limited["region"]["instructions"].as_u64() < region["instructions"].as_u64());
}

#[test]
fn one_power_cut_brings_all_programs_back() {
    for design in common::protected_designs() {
        let result = cut(&with(
            several(&design, &[SHORT, LONG, SHORT]),
            json!({"cuts": 40, "resume": "all", "during_recovery": true}),
        ));
        assert_eq!(result["verified"], 40, "{design}: {result}");
        assert_eq!(result["resumed"], 40, "{design}");
    }
}

#[test]
fn what_cannot_be_asked_for_is_explained() {
    let refused = |more: Value| {
        let asked = with(several("picl", &[SHORT, LONG]), more).to_string();
        api::run(&asked, &Unobserved).unwrap_err().to_string()
    };
    assert!(refused(json!({"program": [SHORT]})).contains("not both"));
    assert!(refused(json!({"warm_up_instructions": 5})).contains("--measure"));
    assert!(refused(json!({"measure_instructions": 0})).contains("at least 1"));
    assert!(refused(json!({"programs": [[SHORT], []]})).contains("no program"));
    let late = json!({"warm_up_instructions": 1_000_000_000, "measure_instructions": 1});
    assert!(refused(late).contains("was not reached"));
    let threads = |more: Value| refused(with(json!({"measure_threads": true}), more));
    assert!(threads(json!({})).contains("no program had several threads"));
    assert!(threads(json!({"warm_up_instructions": 5})).contains("--measure-threads"));
    assert!(threads(json!({"measure_instructions": 0})).contains("at least 1"));
}
