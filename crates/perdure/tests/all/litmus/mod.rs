//! Litmus tests: the files, the models against each other and against their definitions, and rules that
//! are changed one by one.

mod by_definition;
mod generate;
mod machine;
mod planted;
mod reading;
mod wholes;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use perdure::litmus::model::Rules;
use perdure::litmus::models::MODELS;
use perdure::litmus::program::{Action, Instruction};
use perdure::litmus::{Contents, Test, allowed, explore, ptso, read};

use crate::rigs::Random;
use generate::Shape;

/// The repository's litmus files.
fn files() -> Vec<(PathBuf, Test)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/litmus");
    let listed = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries
            .map(|entry| entry.expect("an entry").path())
            .collect()
    };
    let mut paths: Vec<PathBuf> = listed(&root)
        .iter()
        .flat_map(|folder| listed(folder))
        .collect();
    paths.sort();
    let test = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a file");
        let test = read::read(&text).unwrap_or_else(|wrong| panic!("{}:{wrong}", path.display()));
        (path, test)
    };
    paths.into_iter().map(test).collect()
}

fn named(name: &str) -> Test {
    let mut all = files().into_iter();
    let is_it = |path: &Path| path.with_extension("").ends_with(name);
    let found = all.find(|(path, _)| is_it(path));
    found.unwrap_or_else(|| panic!("no file {name}")).1
}

/// Random tests of a model.
fn random(model: &'static str, shape: Shape, count: usize) -> impl Iterator<Item = Test> {
    crate::rigs::seeds(1).flat_map(move |seed| {
        let mut random = Random(seed);
        (0..count).map(move |_| {
            let text = generate::text(&mut random, model, shape);
            read::read(&text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
        })
    })
}

fn set(test: &Test) -> BTreeSet<Contents> {
    allowed(test).expect("a small test").contents
}

fn set_by(test: &Test, rules: &Rules) -> BTreeSet<Contents> {
    explore::explore(test, rules)
        .expect("a small test")
        .contents
}

/// What only one of two sets has, as people read it.
fn difference(test: &Test, one: &BTreeSet<Contents>, other: &BTreeSet<Contents>) -> String {
    let show = |set: Vec<&Contents>| -> Vec<String> {
        set.into_iter()
            .map(|contents| test.show(contents))
            .collect()
    };
    let (one_only, other_only) = (
        one.difference(other).collect(),
        other.difference(one).collect(),
    );
    format!(
        "{:#?}\nonly the first: {:?}\nonly the second: {:?}",
        test,
        show(one_only),
        show(other_only)
    )
}

#[test]
fn every_file_says_what_its_model_allows() {
    let files = files();
    assert!(files.len() >= 60, "{} files", files.len());
    for (path, test) in files {
        let stated = test.allowed.as_ref();
        let stated = stated.unwrap_or_else(|| panic!("{} states nothing", path.display()));
        let found = set(&test);
        assert!(
            *stated == found,
            "{}: stated against found: {}",
            path.display(),
            difference(&test, stated, &found)
        );
        let folder = path.parent().and_then(Path::file_name).expect("a folder");
        assert_eq!(folder, test.model.name, "{}", path.display());
    }
}

#[test]
fn px86_and_ptso_leave_the_same() {
    for test in random("px86", Shape::SMALL, 4000) {
        let rules = test.model.rules().expect("px86 has a table");
        let by_table = set_by(&test, &rules);
        let by_buffers = ptso::explore(&test, &ptso::BUFFERS)
            .expect("a small test")
            .contents;
        assert!(
            by_table == by_buffers,
            "{}",
            difference(&test, &by_table, &by_buffers)
        );
    }
}

/// An instruction of a model.
fn instruction(model: &str, word: &str) -> Instruction {
    let text = format!("name = ''\nmodel = '{model}'\nthreads = [['{word}']]");
    read::read(&text).expect("an instruction").threads[0][0]
}

/// Puts an instruction into a random place of a random thread; branches that pass over the place pass over
/// it, too.
fn with_more(random: &mut Random, test: &Test, word: &str) -> Test {
    let mut more = test.clone();
    let thread = random.index(test.threads.len());
    let at = random.index(test.threads[thread].len() + 1);
    let mut instruction = instruction(test.model.name, word);
    if let Action::WriteBack { location } = &mut instruction.action {
        if test.locations.is_empty() {
            return more;
        }
        *location = random.index(test.locations.len());
    }
    generate::insert(&mut more.threads[thread], at, instruction);
    more
}

#[test]
fn a_fence_or_a_flush_more_allows_nothing_more() {
    let words = [
        ("px86", &["mfence", "sfence", "clflush x", "clwb x"][..]),
        ("ptso", &["mfence", "sfence", "clflush x", "clwb x"]),
        ("arm", &["dmb", "dsb", "dc-cvap x"]),
        (
            "perdure",
            &["fence rw,rw", "fence r,w", "cbo.clean x", "cbo.flush x"],
        ),
        ("strand", &["persist-barrier", "join-strand"]),
    ];
    for (model, words) in words {
        let mut choice = Random(1);
        for test in random(model, Shape::SMALL, 400) {
            let word = words[choice.index(words.len())];
            let more = with_more(&mut choice, &test, word);
            let (before, after) = (set(&test), set(&more));
            assert!(
                after.is_subset(&before),
                "{word} more: {}",
                difference(&more, &after, &before)
            );
        }
    }
}

#[test]
fn a_new_strand_allows_nothing_less() {
    let mut choice = Random(1);
    for test in random("strand", Shape::SMALL, 400) {
        let more = with_more(&mut choice, &test, "new-strand");
        let (before, after) = (set(&test), set(&more));
        assert!(
            before.is_subset(&after),
            "{}",
            difference(&more, &after, &before)
        );
    }
}

#[test]
fn fewer_lines_allow_nothing_more() {
    for model in [
        "px86",
        "ptso",
        "arm",
        "perdure",
        "causal-cut",
        "spms",
        "spms-reads",
        "spms-thread",
    ] {
        for mut test in random(model, Shape::SMALL, 400) {
            let before = set(&test);
            test.lines.fill(0);
            let after = set(&test);
            assert!(
                after.is_subset(&before),
                "{}",
                difference(&test, &after, &before)
            );
        }
    }
}

/// These words behind each store: write-backs of where it stored, and fences.
fn flushed_at_once(test: &Test, words: &[&str]) -> Test {
    let mut eager = test.clone();
    for thread in &mut eager.threads {
        for at in (0..thread.len()).rev() {
            let (Action::Store { location, .. } | Action::Exchange { location, .. }) =
                thread[at].action
            else {
                continue;
            };
            for word in words.iter().rev() {
                let mut instruction = instruction(test.model.name, word);
                if let Action::WriteBack { location: there } = &mut instruction.action {
                    *there = location;
                }
                generate::insert(thread, at + 1, instruction);
            }
        }
    }
    eager
}

/// With everything flushed and fenced at once, a cut leaves a beginning of a thread's stores.
#[test]
fn what_is_flushed_at_once_is_an_epoch_prefix() {
    for (model, words) in [
        ("px86", &["clflush x", "mfence"][..]),
        ("ptso", &["clwb x", "mfence"]),
        ("arm", &["dsb", "dc-cvap x", "dsb"]),
        ("perdure", &["cbo.clean x", "fence rw,rw"]),
    ] {
        let known = MODELS.iter().find(|known| known.name == model);
        for test in random("epoch-prefix", Shape::LONE, 200) {
            let prefix = set(&test);
            let mut eager = test.clone();
            eager.model = known.expect("a model");
            for thread in &mut eager.threads {
                thread.retain(|it| it.location().is_some() || it.read().is_some());
            }
            let eager = flushed_at_once(&eager, words);
            let left = set(&eager);
            assert!(
                left.is_subset(&prefix),
                "{model}: {}",
                difference(&eager, &left, &prefix)
            );
        }
    }
}

/// As large as a test may well be, and every thread at the same three locations.
#[test]
fn four_threads_of_six_are_not_too_many() {
    let most = Shape {
        threads: 4,
        instructions: 6,
        is_exact: true,
    };
    for model in [
        "px86",
        "arm",
        "perdure",
        "epoch-prefix",
        "causal-cut",
        "strand",
        "spms",
        "spms-reads",
        "spms-thread",
    ] {
        let text = generate::text(&mut Random(1), model, most);
        let test = read::read(&text).expect("a test");
        let states = allowed(&test).expect("not too many").states;
        assert!(states < 1_000_000, "{model}: {states} states");
    }
}
