//! Machines whose cores are out of order: both engines agree to the cycle, a pause changes nothing, power
//! cuts are verified and reproduced, and statistics add up.

use perdure::request::Request;
use perdure::source::{Engine, Engines};
use serde_json::{Value, json};

use crate::common::{self, SMALL, cut, protected_designs, request, run, statistic, with};
use crate::engines::{Either, WHOLE, end_of};

/// On the small machine, with a window in which everything is full now and then.
fn windowed(design: &str, program: &str, more: &[&str]) -> Value {
    let mut set: Vec<&str> = SMALL.to_vec();
    set.extend([
        "core.model=out-of-order",
        "core.window.reorder_buffer_entries=24",
        "core.window.issue_queue_entries=4",
        "core.window.load_queue_entries=2",
        "core.window.store_queue_entries=1",
        "core.window.l1d_miss_entries=2",
        "l1d.latency_cycles=3",
    ]);
    set.extend(more);
    let machine = common::machine_of(design);
    let more = json!({"set": set, "machine": machine});
    with(request(design, program), more)
}

fn compare(design: &str, program: &str, harts: usize) {
    for (order, degree) in [("tso", 0), ("weak", 4)] {
        let order = format!("core.window.store_order={order}");
        let degree = format!("prefetcher.degree={degree}");
        let asked = with(
            windowed(design, program, &[&order, &degree]),
            json!({"harts": harts}),
        );
        let request = Request::parse(&asked.to_string()).expect("a request");
        let prepared = request.prepare().expect("it can run");
        let expected = end_of::<Engines>(&prepared, Engine::Plain, WHOLE);
        let fast = end_of::<Engines>(&prepared, Engine::Fast, WHOLE);
        assert_eq!(fast, expected, "{design}, {order}: the fast engine");
        for seed in crate::rigs::seeds(1) {
            let paused = end_of::<Either>(&prepared, seed, 777);
            assert_eq!(paused, expected, "{design}, {order}: paused, seed {seed}");
        }
        let value = |name: &str| {
            let named = (expected.2.iter()).find(|one| one.0.strip_prefix("window.") == Some(name));
            named.expect("there is such a counter").1
        };
        for name in ["dispatch", "stall.mispredict", "stall.trap", "mispredicts"] {
            assert!(value(name) > 0, "{design}: {name} is 0");
        }
        let full = ["reorder_buffer", "issue_queue", "load_queue", "store_queue"];
        let waited = full.map(|name| value(&format!("stall.{name}")));
        assert!(waited.iter().sum::<u64>() > 0, "{design}: nothing is full");
    }
}

/// One design that is asked of nothing, one that logs, one whose sharing groups go on by themselves, and one
/// whose library runs on the core.
#[test]
fn both_engines_and_every_pause_give_the_same_machine() {
    let program = "@exerciser:2000:64:300:2";
    compare("ideal", program, 2);
    compare("picl", program, 2);
    compare("nvoverlay", program, 2);
    compare("software-logging", "@exerciser:2000:64:300", 1);
}

#[test]
fn every_design_is_verified_and_its_resumed_runs_end_alike() {
    for design in protected_designs() {
        let asked = windowed(&design, "@exerciser:3000:64:500", &[]);
        let result = cut(&with(asked, json!({"cuts": 8, "resume": "all"})));
        assert_eq!(result["verified"], 8, "{design}: {result}");
    }
}

/// Contexts are saved with more instructions than cycles: recovery takes them for what they are.
#[test]
fn cuts_are_verified_where_more_is_retired_than_there_are_cycles() {
    let asked = with(
        request("picl", "@exerciser:60000:4:30000"),
        json!({"set": ["core.model=out-of-order", "epoch.instructions=100000"]}),
    );
    let sim = run(&asked)["sim"].clone();
    let count = |name: &str| sim[name].as_u64().expect("a count");
    assert!(count("instructions") > 2 * count("cycles"), "{sim}");
    let result = cut(&with(asked, json!({"cuts": 8, "resume": "all"})));
    assert_eq!(result["verified"], 8, "{result}");
}

#[test]
fn a_run_is_the_same_run_again_and_faster_than_in_order() {
    let program = "@exerciser:20000:64:5000";
    let asked = with(
        request("ideal", program),
        json!({"set": ["core.model=out-of-order"]}),
    );
    let (one, two) = (run(&asked), run(&asked));
    assert_eq!(one["sim"], two["sim"]);
    assert_eq!(one["statistics"], two["statistics"]);
    assert_eq!(one["state_hash"], two["state_hash"]);
    let in_order = run(&with(request("ideal", program), json!({"set": []})));
    let cycles = |result: &Value| result["sim"]["cycles"].as_u64().unwrap();
    assert!(cycles(&one) < cycles(&in_order));
    assert_eq!(statistic(&in_order, "window.cycles"), 0);
}
