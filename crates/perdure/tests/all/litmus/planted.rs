//! Each rule of each model is changed in turn, and the litmus files must notice. A few changes change
//! nothing, because another rule says the same; they are listed with the reason, and random tests must not
//! tell them apart either.

use perdure::litmus::Test;
use perdure::litmus::groups::{self, Groups};
use perdure::litmus::model::{Between, Causes, Cell, Explored, Kind, Left, Model, Rules};
use perdure::litmus::models::MODELS;
use perdure::litmus::ptso::{self, BUFFERS, Buffers, Drains, Passes};

use super::generate::Shape;
use super::{files, random, set, set_by};

/// Changes that no test can notice: of which model, their names, and why.
const SAME: &[(&str, &[&str], &str)] = &[
    (
        "px86",
        &[
            "Load Mfence Free",
            "Load Sfence Free",
            "Exchange Mfence Free",
            "Exchange Sfence Free",
            "Mfence Exchange Free",
            "Mfence Mfence Free",
            "Mfence Sfence Free",
            "Sfence Exchange Free",
            "Sfence Mfence Free",
            "Sfence Sfence Free",
        ],
        "what a fence would keep apart here is ordered without it",
    ),
    (
        "px86",
        &[
            "Mfence Flush Free",
            "Sfence Flush Free",
            "FlushOpt Flush Free",
            "Flush Mfence Free",
            "Flush Sfence Free",
            "Flush FlushOpt Free",
            "Flush Flush Free",
        ],
        "a clflush is seen by what it holds back, and every store waits for both of these",
    ),
    (
        "ptso",
        &[
            "clflushopt store No",
            "clflushopt clflush Yes",
            "clflushopt clflush No",
        ],
        "a clflushopt that may be propagated late may be propagated at once",
    ),
    (
        "ptso",
        &[
            "clflush clflushopt Yes",
            "clflush clflush Yes",
            "clflush sfence Yes",
            "sfence clflush Yes",
            "sfence sfence Yes",
        ],
        "no store passes either of the two",
    ),
    (
        "arm",
        &[
            "Dmb Exchange Free",
            "Dmb Dmb Free",
            "Dmb Dsb Free",
            "Dsb Dmb Free",
            "Dsb Dsb Free",
        ],
        "what the first would keep apart is ordered without it",
    ),
    (
        "perdure",
        &["Load Fence Free", "Store Fence Free", "Exchange Fence Free"],
        "accesses are in order without a fence",
    ),
    (
        "perdure",
        &[
            "Fence Load Waits",
            "Fence Clean Free",
            "Fence Clean Waits",
            "Clean Clean Waits",
        ],
        "a clean is seen by what a later fence holds back, and that fence waits for all cleans",
    ),
    (
        "causal-cut",
        &["stores"],
        "who can tell that a store came later has seen the earlier one",
    ),
    (
        "spms-thread",
        &["by line"],
        "that one store came before another is known to who has loaded, or is behind in a thread: it is ordered anyway",
    ),
    (
        "spms-thread",
        &["sync waits"],
        "what comes behind is not durable before, and who loads it joins it",
    ),
];

/// The rules of a model, one of them changed.
#[derive(Clone, Debug)]
enum Changed {
    Table(Box<Rules>),
    Buffers(Buffers),
    Groups(Groups),
}

/// A change, and its name.
struct Change {
    model: &'static str,
    name: String,
    rules: Changed,
}

/// What an entry can be mistaken for.
fn mistakes(cell: Cell) -> &'static [Cell] {
    match cell {
        Cell::Free => &[Cell::Waits],
        Cell::Waits => &[Cell::Free],
        Cell::Location | Cell::Line | Cell::Named => &[Cell::Free, Cell::Waits],
    }
}

fn of_table(
    model: &'static str,
    table: &[(Kind, &[Cell])],
    later: &[Kind],
    rules: &Rules,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add = |name: String, change: &dyn Fn(&mut Rules)| {
        let mut rules = rules.clone();
        change(&mut rules);
        let rules = Changed::Table(Box::new(rules));
        changes.push(Change { model, name, rules });
    };
    for (earlier, row) in table {
        for (later, cell) in later.iter().zip(*row) {
            for mistake in mistakes(*cell) {
                let name = format!("{earlier:?} {later:?} {mistake:?}");
                add(name, &|rules| rules.order.set(*earlier, *later, *mistake));
            }
        }
    }
    for kind in &rules.past_branches {
        let name = format!("{kind:?} does not pass branches");
        add(name, &|rules| {
            rules.past_branches.retain(|known| known != kind);
        });
    }
    match &rules.left {
        Left::Lines => {}
        Left::Prefix => add("by lines".to_owned(), &|rules| {
            rules.left = Left::Lines;
        }),
        Left::Causal(_) => {
            add("loads".to_owned(), &|rules| {
                causes(rules).loads = false;
            });
            add("stores".to_owned(), &|rules| {
                causes(rules).stores = false;
            });
        }
        Left::Strands(_) => {
            add("barrier".to_owned(), &|rules| {
                between(rules).barrier_orders_strand = false;
            });
            add("new strand".to_owned(), &|rules| {
                between(rules).new_strand_forgets = false;
            });
            add("join".to_owned(), &|rules| {
                between(rules).join_orders_thread = false;
            });
            add("location".to_owned(), &|rules| {
                between(rules).location_orders = false;
            });
            add("load".to_owned(), &|rules| {
                between(rules).load_orders = false;
            });
            add("overwriting".to_owned(), &|rules| {
                between(rules).overwriting_orders = false;
            });
        }
    }
    changes
}

fn causes(rules: &mut Rules) -> &mut Causes {
    match &mut rules.left {
        Left::Causal(causes) => causes,
        other => panic!("{other:?}"),
    }
}

fn between(rules: &mut Rules) -> &mut Between {
    match &mut rules.left {
        Left::Strands(between) => between,
        other => panic!("{other:?}"),
    }
}

fn of_buffers(model: &'static str) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add = |name: String, rules: Buffers| {
        let rules = Changed::Buffers(rules);
        changes.push(Change { model, name, rules });
    };
    let entries = ["store", "clflushopt", "clflush", "sfence"];
    for (earlier, before) in entries.iter().enumerate() {
        for (later, after) in entries.iter().enumerate() {
            let mistakes: &[Passes] = match BUFFERS.passes[earlier][later] {
                Passes::Yes => &[Passes::No],
                Passes::No => &[Passes::Yes],
                Passes::OtherLine => &[Passes::Yes, Passes::No],
            };
            for mistake in mistakes {
                let mut rules = BUFFERS;
                rules.passes[earlier][later] = *mistake;
                add(format!("{before} {after} {mistake:?}"), rules);
            }
        }
    }
    for (at, name) in ["clflush", "sfence", "mfence", "xchg"].iter().enumerate() {
        let mut rules = BUFFERS;
        rules.drains[at] = Drains::Nothing;
        add(format!("{name} drains nothing"), rules);
    }
    changes
}

/// A rule of groups.
type Rule = fn(&mut Groups) -> &mut bool;

fn of_groups(model: &'static str, papers: Groups) -> Vec<Change> {
    let changes: [(&str, Rule); 8] = [
        ("new strand", |rules| &mut rules.new_strand_ends),
        ("waits for ends", |rules| &mut rules.waits_for_ends),
        ("by line", |rules| &mut rules.by_line),
        ("stores", |rules| &mut rules.stores_merge),
        ("loads", |rules| &mut rules.loads_merge),
        ("threads", |rules| &mut rules.chains_threads),
        ("sync ends", |rules| &mut rules.sync_ends),
        ("sync waits", |rules| &mut rules.sync_waits),
    ];
    let change = |(name, rule): (&str, Rule)| {
        let mut rules = papers;
        let rule = rule(&mut rules);
        *rule = !*rule;
        Change {
            model,
            name: name.to_owned(),
            rules: Changed::Groups(rules),
        }
    };
    changes.into_iter().map(change).collect()
}

fn changes() -> Vec<Change> {
    let of = |model: &'static Model| match &model.explored {
        Explored::ByTable { order, .. } => {
            let rules = model.rules().expect("a table");
            of_table(model.name, order.rows, order.later, &rules)
        }
        Explored::ByBuffers => of_buffers(model.name),
        Explored::ByGroups(rules) => of_groups(model.name, *rules),
    };
    MODELS.iter().flat_map(of).collect()
}

impl Change {
    fn notices(&self, test: &Test) -> bool {
        let changed = match &self.rules {
            Changed::Table(rules) => set_by(test, rules),
            Changed::Buffers(rules) => ptso::explore(test, rules).expect("a small test").contents,
            Changed::Groups(rules) => groups::explore(test, rules).expect("a small test").contents,
        };
        changed != test.allowed.clone().unwrap_or_else(|| set(test))
    }
}

#[test]
fn files_notice_every_rule() {
    let files = files();
    let is_noticed = |change: &Change| {
        let mut own = files
            .iter()
            .filter(|(_, test)| test.model.name == change.model);
        own.any(|(_, test)| change.notices(test))
    };
    let mut wrong = Vec::new();
    for change in changes() {
        let is_same = SAME.iter().any(|(model, names, _)| {
            *model == change.model && names.contains(&change.name.as_str())
        });
        if is_noticed(&change) == is_same {
            wrong.push(format!(
                "{}: {}: listed {is_same}",
                change.model, change.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_changes_nothing_is_known() {
    let changes = changes();
    for (model, names, reason) in SAME {
        for name in *names {
            let change = changes
                .iter()
                .find(|it| it.model == *model && it.name == *name);
            let change = change.unwrap_or_else(|| panic!("{model}: no change is called {name}"));
            for test in random(model, Shape::PAIR, 150) {
                assert!(
                    !change.notices(&test),
                    "{model}: {name} ({reason}): {test:#?}"
                );
            }
        }
    }
}
