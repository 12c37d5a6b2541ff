//! The rules of pending lines, held against the explorer of litmus tests.

use perdure_hardware::random::Random;
use perdure_riscv::{Barrier, CacheBlock};

use super::*;
use crate::litmus::{self, Contents, Test};

const STRIDE: u64 = LINE_BYTES as u64;

/// A random program of one thread without loads, as a litmus test has it.
fn drawn(random: &mut Random, model: Model) -> String {
    let words: &[&str] = match model {
        Model::Px86 => &[
            "store", "store", "store", "clflush", "clwb", "sfence", "xchg",
        ],
        Model::Arm => &[
            "store", "store", "store", "dc-cvap", "dc-cvap", "dmb", "dsb", "xchg",
        ],
        Model::Perdure | Model::Machine => &[
            "store",
            "store",
            "store",
            "cbo.clean",
            "cbo.clean",
            "fence w,w",
        ],
    };
    let names = ["x", "y", "z", "x2"];
    let mut lines = vec!["\"store x 1\"".to_owned(), "\"store x2 1\"".to_owned()];
    lines.extend(["y", "z"].map(|name| format!("\"store {name} 1\"")));
    for number in 2..9 {
        let word = words[random.below(words.len() as u64) as usize];
        let name = names[random.below(4) as usize];
        lines.push(match word {
            "store" => format!("\"store {name} {number}\""),
            "xchg" => format!("\"xchg a {name} {number}\""),
            _ if word.contains("fence") || word.starts_with('d') && word.len() == 3 => {
                format!("\"{word}\"")
            }
            _ => format!("\"{word} {name}\""),
        });
    }
    let model = match model {
        Model::Px86 => "px86",
        Model::Arm => "arm",
        Model::Perdure | Model::Machine => "perdure",
    };
    format!(
        "name = \"drawn\"\nmodel = \"{model}\"\nsame_line = [[\"x\", \"x2\"]]\nthreads = [[{}]]\n",
        lines.join(", ")
    )
}

/// What the failure points of a test's one thread allow.
struct Points<'t> {
    test: &'t Test,
    pending: Pending,
    durable: BTreeMap<u64, Bytes>,
    newest: BTreeMap<u64, Bytes>,
    found: BTreeSet<Contents>,
}

impl Points<'_> {
    fn place(&self, location: usize) -> (u64, usize) {
        let lines = &self.test.lines;
        let within = (0..location).filter(|&other| lines[other] == lines[location]);
        (lines[location] as u64 * STRIDE, within.count() * 8)
    }

    /// All contents that may be found now.
    fn point(&mut self, model: Model) {
        let mut contents = vec![Contents::default()];
        let lines: BTreeSet<usize> = self.test.lines.iter().copied().collect();
        for line in lines {
            let address = line as u64 * STRIDE;
            let durable = self.durable.get(&address).copied().unwrap_or([0; 64]);
            let versions = match self.pending.lines().get(&address) {
                Some(history) => history
                    .versions(model)
                    .0
                    .iter()
                    .map(|one| one.bytes)
                    .collect(),
                None => vec![durable],
            };
            let of_line = |location: &usize| self.test.lines[*location] == line;
            let locations: Vec<usize> = (0..self.test.lines.len()).filter(of_line).collect();
            contents = (contents.iter())
                .flat_map(|before| versions.iter().map(|bytes| (*before, *bytes)))
                .map(|(mut one, bytes)| {
                    for &location in &locations {
                        one.set(location, bytes[self.place(location).1]);
                    }
                    one
                })
                .collect();
        }
        self.found.extend(contents);
    }

    fn run(&mut self, model: Model) {
        for (number, instruction) in self.test.threads[0].clone().into_iter().enumerate() {
            use litmus::program::{Action, Operand};
            let at = At {
                thread: ThreadId(1),
                pc: 0,
                retired: number as u64,
                by_kernel: false,
            };
            let mut settled = Vec::new();
            let wait = match instruction.name {
                "sfence" => Some(Wait::Barrier(Barrier::Sfence)),
                "dmb" => Some(Wait::Barrier(Barrier::DmbIsh)),
                "dsb" => Some(Wait::Barrier(Barrier::DsbIsh)),
                "fence" => Some(Wait::Fence(1, 1)),
                "xchg" => Some(Wait::Atomic),
                _ => None,
            };
            if let Some(wait) = wait {
                if self.pending.would_wait(wait, &at) {
                    self.point(model);
                }
                let durable = &mut |line, bytes: &Bytes| settled.push((line, *bytes));
                self.pending.wait(wait, &at, durable);
            }
            match instruction.action {
                Action::Store {
                    location,
                    operand: Operand::Value(value),
                }
                | Action::Exchange {
                    location,
                    operand: Operand::Value(value),
                    ..
                } => {
                    let (line, offset) = self.place(location);
                    let found = self.newest.entry(line).or_insert([0; 64]);
                    self.pending.store(line, found, (offset, &[value]), &at);
                    found[offset] = value;
                }
                Action::WriteBack { location } => {
                    let (line, _) = self.place(location);
                    let kind = match instruction.name {
                        "clflush" => CacheBlock::Clflush,
                        "clwb" => CacheBlock::Clwb,
                        "dc-cvap" => CacheBlock::DcCvap,
                        _ => CacheBlock::Clean,
                    };
                    let flush = Flush::Instruction(kind);
                    if self.pending.would_settle(line, flush) {
                        self.point(model);
                    }
                    let durable = &mut |line, bytes: &Bytes| settled.push((line, *bytes));
                    self.pending.flush(line, flush, &at, durable);
                }
                _ => {}
            }
            self.durable.extend(settled);
        }
        self.point(model);
    }
}

/// What the failure points of a test allow by a model's rules.
fn found_by(test: &Test, model: Model) -> BTreeSet<Contents> {
    let mut points = Points {
        test,
        pending: Pending::new(model, Arc::default()),
        durable: BTreeMap::new(),
        newest: BTreeMap::new(),
        found: BTreeSet::new(),
    };
    points.run(model);
    points.found
}

fn read(text: &str) -> Test {
    litmus::read::read(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const MODELS: [Model; 3] = [Model::Px86, Model::Perdure, Model::Arm];

/// The claim of this module's head, and the rules, held against tables that were written for other reasons.
#[test]
fn failure_points_allow_what_the_explorer_of_litmus_tests_finds() {
    for model in MODELS {
        for seed in 0..150 {
            let text = drawn(&mut Random::new(seed), model);
            let test = read(&text);
            let explored = litmus::allowed(&test).expect("a small test");
            let show = |set: &BTreeSet<Contents>| -> Vec<String> {
                set.iter().map(|one| test.show(one)).collect()
            };
            let found = found_by(&test, model);
            assert_eq!(
                show(&found),
                show(&explored.contents),
                "{model:?}, seed {seed}: {text}"
            );
        }
    }
}

#[test]
fn another_models_rules_are_noticed() {
    for (own, other) in [
        (Model::Px86, Model::Arm),
        (Model::Px86, Model::Perdure),
        (Model::Arm, Model::Px86),
        (Model::Perdure, Model::Arm),
    ] {
        let differs = |seed: u64| {
            let test = read(&drawn(&mut Random::new(seed), own));
            found_by(&test, other) != found_by(&test, own)
        };
        assert!((0..150).any(differs), "{own:?} by the rules of {other:?}");
    }
}

#[test]
fn a_flush_misses_what_is_stored_before_its_thread_waits() {
    let (mut pending, clwb) = (
        Pending::new(Model::Px86, Arc::default()),
        Flush::Instruction(CacheBlock::Clwb),
    );
    let sfence = Wait::Barrier(Barrier::Sfence);
    let at = |thread, retired| At {
        thread: ThreadId(thread),
        pc: 0,
        retired,
        by_kernel: false,
    };
    let nothing = &mut |_: u64, _: &Bytes| {};
    pending.flush(0, clwb, &at(1, 10), nothing);
    assert!(pending.covered().is_empty() && !pending.has_flushes(ThreadId(1)));
    pending.store(0, &[0; 64], (0, &[1]), &at(1, 11));
    let flushed = |stores, missed, retired| Flushed {
        stores,
        missed,
        retired,
    };
    assert_eq!(pending.covered()[&0], [flushed(0, 1, 10)]);
    assert!(!pending.would_wait(sfence, &at(1, 12)));
    // What comes behind the fence was not missed by it.
    pending.wait(sfence, &at(1, 13), nothing);
    pending.store(0, &[0; 64], (1, &[1]), &at(1, 14));
    assert_eq!(pending.covered()[&0], [flushed(0, 1, 10)]);
    pending.flush(0, clwb, &at(2, 15), nothing);
    pending.store(0, &[0; 64], (2, &[1]), &at(1, 16));
    assert_eq!(
        pending.covered()[&0],
        [flushed(0, 1, 10), flushed(2, 3, 15)]
    );
    pending.wait(sfence, &at(2, 17), nothing);
    pending.store(0, &[0; 64], (3, &[1]), &at(1, 18));
    assert_eq!(pending.covered()[&0], [flushed(0, 1, 15)]);
    pending.flush(0, clwb, &at(1, 19), nothing);
    pending.wait(sfence, &at(1, 20), nothing);
    assert!(pending.covered().is_empty() && pending.lines().is_empty());
}

#[test]
fn what_a_thread_puts_before_its_stores_stays_before_those_that_another_puts_behind() {
    let at = |(thread, retired): (u32, u64)| At {
        thread: ThreadId(thread),
        pc: 0,
        retired,
        by_kernel: false,
    };
    let (release, acquire) = (Some(Wait::Fence(3, 1)), Some(Wait::Fence(2, 3)));
    // How many ways there are to find two stores, with a barrier behind the first and one before the second.
    let found = |own: Option<Wait>, others: Option<Wait>| {
        let mut pending = Pending::new(Model::Arm, Arc::default());
        pending.store(0, &[0; 64], (0, &[1]), &at((1, 10)));
        for (wait, who) in [(own, (1, 11)), (others, (2, 12))] {
            if let Some(wait) = wait {
                pending.wait(wait, &at(who), &mut |_, _| {});
            }
        }
        pending.store(0, &[0; 64], (8, &[1]), &at((2, 13)));
        pending.lines()[&0].versions(Model::Arm).0.len()
    };
    assert_eq!(found(release, acquire), 3);
    assert_eq!(found(Some(Wait::Atomic), Some(Wait::Atomic)), 3);
    assert_eq!(found(release, None), 4);
    assert_eq!(found(None, acquire), 4);
    assert_eq!(found(acquire, acquire), 4);
}

#[test]
fn a_line_of_many_stores_is_thinned_and_says_so() {
    let mut pending = Pending::new(Model::Px86, Arc::default());
    let at = At {
        thread: ThreadId(1),
        pc: 0,
        retired: 0,
        by_kernel: false,
    };
    for number in 0..3000_u64 {
        pending.store(0, &[0; 64], (0, &number.to_le_bytes()), &at);
    }
    let history = &pending.lines()[&0];
    assert!(history.thinned && history.stores.len() <= STORES_MAX);
    let (versions, all) = history.versions(Model::Px86);
    assert!(!all && versions.len() <= VERSIONS_MAX);
    assert_eq!(versions[0].bytes[..8], 2999_u64.to_le_bytes());
    let flush = Flush::Instruction(CacheBlock::Clwb);
    pending.flush(0, flush, &at, &mut |_, _| {});
    let mut durable = Vec::new();
    let sfence = Wait::Barrier(Barrier::Sfence);
    pending.wait(sfence, &at, &mut |line, bytes| {
        durable.push((line, bytes[..8].to_vec()));
    });
    assert_eq!(durable, [(0, 2999_u64.to_le_bytes().to_vec())]);
    assert!(pending.lines().is_empty());
}

#[test]
fn a_line_that_a_cut_has_left_is_the_longest_beginning_of_its_stores() {
    let mut pending = Pending::new(Model::Machine, Arc::default());
    for number in 1..=4 {
        let at = At {
            thread: ThreadId(1),
            pc: number,
            retired: number,
            by_kernel: false,
        };
        // The second and the third make the same bytes.
        let value = [number as u8, 7, 7, 9][number as usize - 1];
        pending.store(0, &[0; 64], (0, &[value]), &at);
    }
    let history = &pending.lines()[&0];
    let left = |value: u8| {
        let mut found = [0; 64];
        found[0] = value;
        let (since, count) = history.since(&found);
        assert_eq!(since.durable, found);
        let lost: Vec<u64> = since.stores.iter().map(|store| store.at.pc).collect();
        (count, lost)
    };
    assert_eq!(left(1), (1, vec![2, 3, 4]));
    assert_eq!(left(7), (3, vec![4]));
    assert_eq!(left(0), (0, vec![1, 2, 3, 4]));
    // Bytes that the line never had.
    assert_eq!(left(200), (0, vec![1, 2, 3, 4]));
}

/// A line with so many stores of a thread, each of which is made of its number: where, and what.
fn line_of_stores(model: Model, stores: u64, made: fn(u64) -> (usize, Vec<u8>)) -> Pending {
    let mut pending = Pending::new(model, Arc::default());
    let at = At {
        thread: ThreadId(1),
        pc: 0,
        retired: 0,
        by_kernel: false,
    };
    for (place, bytes) in (0..stores).map(made) {
        pending.store(0, &[0; 64], (place, &bytes), &at);
    }
    pending
}

#[test]
fn of_many_versions_the_newest_and_the_oldest_are_told() {
    for stores in [255, 256, 299, 511, 512, 1023] {
        let pending = line_of_stores(Model::Px86, stores, |number| {
            (0, (number + 1).to_le_bytes().to_vec())
        });
        let history = &pending.lines()[&0];
        let (versions, all) = history.versions(Model::Px86);
        assert_eq!(all, stores < 256);
        assert!(versions.len() <= VERSIONS_MAX, "{stores}");
        let ends = [&versions[0], &versions[versions.len() - 1]];
        let kept = ends.map(|version| version.kept.clone());
        let expected = [Kept::First(stores as usize), Kept::First(0)];
        assert_eq!(kept, expected, "{stores}");
    }
}

#[test]
fn where_stores_pass_each_other_every_beginning_of_them_is_told() {
    for stores in [8, 9, 20, 64] {
        let pending = line_of_stores(Model::Arm, stores, |number| (number as usize, vec![1]));
        let (versions, all) = pending.lines()[&0].versions(Model::Arm);
        assert_eq!(all, stores == 8);
        assert!(versions.len() <= VERSIONS_MAX, "{stores}");
        let found: BTreeSet<Bytes> = versions.iter().map(|version| version.bytes).collect();
        assert_eq!(found.len(), versions.len());
        for count in 0..=stores as usize {
            let beginning = std::array::from_fn(|place| u8::from(place < count));
            assert!(found.contains(&beginning), "{count} of {stores}");
        }
        // And one at a time is missing.
        for missing in 0..stores as usize {
            let without = std::array::from_fn(|at| u8::from(at < stores as usize && at != missing));
            assert!(found.contains(&without), "without {missing} of {stores}");
        }
    }
}
