//! Litmus tests on the machine: what it leaves is what their models allow. That a mistake makes it leave
//! something else is for `perdure mutants --only persistence`.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use perdure::api::{Observer, Unobserved};
use perdure::litmus::machine::{Asked, Left, run};
use perdure::litmus::{self, Test, allowed, allowed_if_kept, read};
use serde_json::{Value, json};

use super::{files, named};

/// Of so many files, one is run.
const ONE_OF: usize = 4;

/// Runs a test on the machine, with so many cuts.
fn on_machine(test: &Test, seed: u64, cuts: u64) -> Option<Left> {
    let asked = Asked {
        seed,
        cuts,
        mistake: None,
    };
    let [lost, kept] =
        [allowed(test), allowed_if_kept(test)].map(|set| set.expect("small").contents);
    run(test, [&lost, &kept], &asked, &Unobserved).expect("the machine runs it")
}

/// What of a test the machine left that its model forbids.
#[track_caller]
fn is_sound(test: &Test, left: &Left, seed: u64) {
    if let Some(one) = left.unsound.first() {
        let contents = test.show(&one.contents);
        panic!("seed {seed}, {}: {contents}: {one:?}", test.name);
    }
}

#[test]
fn machines_leave_what_models_allow() {
    for seed in crate::rigs::seeds(1) {
        let first = (seed % ONE_OF as u64) as usize;
        let mut ran = 0;
        for (_, test) in files().into_iter().skip(first).step_by(ONE_OF) {
            if let Some(left) = on_machine(&test, seed, 120) {
                ran += 1;
                is_sound(&test, &left, seed);
            }
        }
        assert!(ran > 30, "{ran} tests ran");
    }
}

#[test]
fn two_threads_reach_everything_that_a_machine_in_order_can() {
    let test = named("perdure/other-hart-cleans");
    let left = on_machine(&test, 1, 4000).expect("machines run it");
    is_sound(&test, &left, 1);
    assert_eq!(left.contents(), allowed(&test).expect("small").contents);
    let presets = left.presets.iter().map(|tried| tried.machine);
    assert_eq!(
        presets.collect::<Vec<_>>(),
        ["x86-pm", "arm-pm", "xeon-pm", "picl"]
    );
}

#[test]
fn strands_come_back_as_wholes() {
    for seed in crate::rigs::seeds(1) {
        for (_, test) in files() {
            if test.model.name.starts_with("spms") {
                let left = on_machine(&test, seed, 400).expect("machines run it");
                is_sound(&test, &left, seed);
            }
        }
    }
}

/// A strand that has read what another one stored is found without it: strand persistency forbids it.
#[test]
fn whole_strands_are_found_without_what_they_read() {
    let test = named("spms/read-elsewhere");
    let left = on_machine(&test, 1, 1000).expect("machines run it");
    assert_eq!(left.contents(), allowed(&test).expect("small").contents);
}

#[test]
fn designs_with_epochs_bring_back_what_they_promise() {
    for (file, designs) in [("epoch-prefix/message", 5), ("causal-cut/two-stores", 1)] {
        let test = named(file);
        let left = on_machine(&test, 1, 200).expect("machines run it");
        is_sound(&test, &left, 1);
        assert_eq!(left.presets.len(), designs, "{file}");
        assert!(
            left.contents().len() > 1,
            "{file}: no epoch of the test is durable"
        );
    }
}

#[test]
fn a_seed_leaves_the_same_again() {
    let test = named("perdure/message");
    let left = |seed| {
        let left = on_machine(&test, seed, 300).expect("machines run it");
        let presets = left.presets.iter();
        let cuts: Vec<u64> = presets.map(|tried| tried.cuts).collect();
        (left.contents(), cuts)
    };
    assert_eq!(left(3), left(3));
    assert_ne!(left(3).1, left(4).1, "other seeds take other turns");
}

/// There is no line to be in the way of, and nothing to be found.
#[test]
fn a_test_without_locations_runs_on_machines() {
    for (model, threads) in [
        ("px86", "[[]]"),
        ("px86", r#"[["mfence"]]"#),
        ("epoch-prefix", "[[]]"),
        ("spms", r#"[["new-strand"]]"#),
    ] {
        let text = format!("name = \"none\"\nmodel = \"{model}\"\nthreads = {threads}\n");
        let test = read::read(&text).expect("a test");
        let left = on_machine(&test, 1, 60).expect("machines run it");
        is_sound(&test, &left, 1);
        assert_eq!(left.contents(), allowed(&test).expect("small").contents);
    }
}

/// Who wants no more after having been asked so often.
struct Impatient(AtomicUsize);

impl Observer for Impatient {
    fn progress(&self, _: u64, _: u64, _: &str, _: &str) {}

    fn interrupted(&self) -> bool {
        let left = (self.0).fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        left.is_err()
    }
}

#[test]
fn who_wants_no_more_gets_what_there_is() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/litmus/perdure");
    let files = ["message", "clean-fence"].map(|name| format!("{root}/{name}.toml"));
    let asked = json!({"files": files, "cuts": 1_000_000_000_u64}).to_string();
    let decided = litmus::decide(&asked, &Impatient(AtomicUsize::new(10))).expect("decided");
    let decided: Value = serde_json::from_str(&decided).expect("JSON");
    assert_eq!(decided["interrupted"], true);
    let [test] = decided["tests"].as_array().expect("a list").as_slice() else {
        panic!("the second was not wanted any more: {decided}");
    };
    assert_eq!(test["machine"]["unsound"], json!([]));
    assert!(test["machine"]["cuts"].as_u64() > Some(0), "{test}");
}
