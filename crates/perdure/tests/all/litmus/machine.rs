//! Litmus tests on the machine: what it leaves is what their models allow. That a mistake makes it leave
//! something else is for `perdure mutants --only persistence`.

use perdure::litmus::machine::{Asked, Left, run};
use perdure::litmus::{Test, allowed, allowed_if_kept};

use super::{files, named};

/// Of so many files, one is run.
const ONE_OF: usize = 4;

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
fn strands_come_back_as_wholes() {
    for seed in crate::rigs::seeds(1) {
        let asked = Asked {
            seed,
            cuts: 400,
            mistake: None,
        };
        for (_, test) in files() {
            if test.model.name.starts_with("spms") {
                let left = on_machine(&test, &asked).expect("machines run it");
                is_sound(&test, &left, seed);
            }
        }
    }
}

/// A strand that has read what another one stored is found without it: strand persistency forbids it.
#[test]
fn whole_strands_are_found_without_what_they_read() {
    let test = named("spms/read-elsewhere");
    let asked = Asked {
        seed: 1,
        cuts: 1000,
        mistake: None,
    };
    let left = on_machine(&test, &asked).expect("machines run it");
    assert_eq!(left.contents(), allowed(&test).expect("small").contents);
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
