//! Litmus tests on the machine: what it leaves is what their models allow, and each planted mistake with
//! what becomes durable when makes it leave something else.

use std::path::Path;

use perdure::litmus::machine::{Asked, Left, run};
use perdure::litmus::{Test, allowed, allowed_if_kept};
use perdure::mistakes::MISTAKES;

use super::files;

/// Of so many files, one is run.
const ONE_OF: usize = 4;

/// Each mistake of the machine's with what becomes durable when, and a file that notices it.
const NOTICED: &[(&str, &str)] = &[
    ("fence-waits-for-stores-alone", "px86/clwb-sfence"),
    ("flush-misses-other-harts", "perdure/other-hart-cleans"),
    ("flush-passes-its-stores", "px86/same-line-clflushopt"),
    ("clflush-goes-on-early", "px86/reader-clflushes"),
    ("fence-forgets-cleans", "perdure/clean-fence"),
    ("fence-waits-for-last", "perdure/clean-of-nothing"),
    ("atomic-waits-for-nothing", "px86/clflushopt-exchange"),
    ("durable-at-coherence", "perdure/two-cleans-one-fence"),
    ("clean-is-durable", "perdure/clean-fence"),
    ("queue-loses-entries", "px86/log-then-data"),
    ("queue-takes-words", "perdure/same-line"),
    ("keeps-shared-cache-only", "perdure/two-stores"),
];

/// Runs a test on the machine.
fn on_machine(test: &Test, asked: &Asked) -> Option<Left> {
    let [lost, kept] =
        [allowed(test), allowed_if_kept(test)].map(|set| set.expect("small").contents);
    run(test, [&lost, &kept], asked).expect("the machine runs it")
}

/// What of a test the machine left that its model forbids.
#[track_caller]
fn is_sound(test: &Test, left: &Left, seed: u64) {
    if let Some(one) = left.unsound.first() {
        let contents = test.show(&one.contents);
        panic!("seed {seed}, {}: {contents}: {one:?}", test.name);
    }
}

fn named(name: &str) -> Test {
    let mut all = files().into_iter();
    let is_it = |path: &Path| path.with_extension("").ends_with(name);
    let found = all.find(|(path, _)| is_it(path));
    found.unwrap_or_else(|| panic!("no file {name}")).1
}

#[test]
fn machines_leave_what_models_allow() {
    for seed in crate::rigs::seeds(1) {
        let asked = Asked {
            seed,
            cuts: 120,
            mistake: None,
        };
        let first = (seed % ONE_OF as u64) as usize;
        let mut ran = 0;
        for (_, test) in files().into_iter().skip(first).step_by(ONE_OF) {
            if let Some(left) = on_machine(&test, &asked) {
                ran += 1;
                is_sound(&test, &left, seed);
            }
        }
        assert!(ran > 30, "{ran} tests ran");
    }
}

#[test]
fn each_mistake_with_persistence_is_noticed() {
    let of_persists = (MISTAKES.iter()).filter(|(_, mistake)| mistake.of_persists().is_some());
    let mut mistakes = 0;
    for (bug, mistake) in of_persists {
        mistakes += 1;
        let row = NOTICED.iter().find(|row| row.0 == bug.name);
        let (_, file) = row.unwrap_or_else(|| panic!("{}: which file notices it?", bug.name));
        let test = named(file);
        let with = |mistake| {
            let asked = Asked {
                seed: 1,
                cuts: 1000,
                mistake,
            };
            on_machine(&test, &asked).expect("machines run it")
        };
        let unsound = with(Some(*mistake)).unsound;
        assert!(!unsound.is_empty(), "{file} does not notice {}", bug.name);
        is_sound(&test, &with(None), 1);
    }
    assert_eq!(mistakes, NOTICED.len());
}

#[test]
fn two_threads_reach_everything_that_a_machine_in_order_can() {
    let test = named("perdure/other-hart-cleans");
    let asked = Asked {
        seed: 1,
        cuts: 4000,
        mistake: None,
    };
    let left = on_machine(&test, &asked).expect("machines run it");
    is_sound(&test, &left, 1);
    assert_eq!(left.contents(), allowed(&test).expect("small").contents);
    let presets = left.presets.iter().map(|tried| tried.machine);
    assert_eq!(
        presets.collect::<Vec<_>>(),
        ["x86-pm", "arm-pm", "xeon-pm", "picl"]
    );
}

#[test]
fn designs_with_epochs_bring_back_what_they_promise() {
    for (file, designs) in [("epoch-prefix/message", 5), ("causal-cut/two-stores", 1)] {
        let test = named(file);
        let asked = Asked {
            seed: 1,
            cuts: 200,
            mistake: None,
        };
        let left = on_machine(&test, &asked).expect("machines run it");
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
        let asked = Asked {
            seed,
            cuts: 300,
            mistake: None,
        };
        let left = on_machine(&test, &asked).expect("machines run it");
        let presets = left.presets.iter();
        let cuts: Vec<u64> = presets.map(|tried| tried.cuts).collect();
        (left.contents(), cuts)
    };
    assert_eq!(left(3), left(3));
    assert_ne!(left(3).1, left(4).1, "other seeds take other turns");
}
