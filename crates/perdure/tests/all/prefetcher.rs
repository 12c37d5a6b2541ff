//! Prefetchers before cores in order: both engines agree to the cycle, and power cuts are verified.

use perdure::request::Request;
use perdure::source::{Engine, Engines};
use serde_json::{Value, json};

use crate::common::{self, SMALL, cut, protected_designs, request, with};
use crate::engines::{Either, WHOLE, end_of};

fn prefetching(design: &str, program: &str) -> Value {
    let mut set: Vec<&str> = SMALL.to_vec();
    set.extend(["prefetcher.degree=4", "prefetcher.streams=8"]);
    let machine = common::machine_of(design);
    with(
        request(design, program),
        json!({"set": set, "machine": machine}),
    )
}

/// Lines that were asked for ahead, and of these, those that were used.
fn compare(design: &str, program: &str, harts: usize) -> [u64; 2] {
    let asked = with(prefetching(design, program), json!({"harts": harts}));
    let request = Request::parse(&asked.to_string()).expect("a request");
    let prepared = request.prepare().expect("it can run");
    let expected = end_of::<Engines>(&prepared, Engine::Plain, WHOLE);
    let fast = end_of::<Engines>(&prepared, Engine::Fast, WHOLE);
    assert_eq!(fast, expected, "{design}: the fast engine");
    for seed in crate::rigs::seeds(1) {
        let paused = end_of::<Either>(&prepared, seed, 777);
        assert_eq!(paused, expected, "{design}: paused, seed {seed}");
    }
    ["prefetcher.asked", "prefetcher.used"].map(|name| {
        let counter = expected.2.iter().find(|one| one.0 == name);
        counter.expect("there is such a counter").1
    })
}

/// A design that keeps versions apart has no prefetcher.
#[test]
fn both_engines_and_every_pause_give_the_same_machine() {
    let program = "@exerciser:2000:64:300:2";
    for [asked, used] in [compare("ideal", program, 2), compare("picl", program, 2)] {
        assert!(0 < used && used <= asked, "{used} of {asked} were used");
    }
    assert_eq!(compare("nvoverlay", program, 2), [0, 0]);
}

#[test]
fn every_design_is_verified_and_its_resumed_runs_end_alike() {
    for design in protected_designs() {
        let asked = prefetching(&design, "@exerciser:3000:64:500");
        let result = cut(&with(asked, json!({"cuts": 8, "resume": "all"})));
        assert_eq!(result["verified"], 8, "{design}: {result}");
    }
}
