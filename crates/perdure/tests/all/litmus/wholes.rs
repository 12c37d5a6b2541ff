//! Strands that persist as wholes: the models are their definition, and differ from strand persistency and
//! from each other where they should.

use std::collections::BTreeSet;

use perdure::litmus::Test;
use perdure::litmus::model::{Kind, Model};
use perdure::litmus::models::MODELS;
use perdure::litmus::program::Contents;

use super::by_definition::{Event, by_definition, left, share};
use super::generate::Shape;
use super::{difference, generate, instruction, named, random, set};

/// The models, each with whether loads join groups and whether a thread's strands are in order.
const ORDERS: [(&str, bool, bool); 3] = [
    ("spms", false, false),
    ("spms-reads", true, false),
    ("spms-thread", true, true),
];

/// A moment: behind so many events. What has not become durable does so at none of them.
type Moment = usize;
const NEVER: Moment = Moment::MAX;

/// What must be true of the moments at which strands become durable.
enum Rule {
    /// One not later than an event, which is another strand's, or both at once.
    Before(usize, Moment, usize),
    /// Not later than this.
    Until(usize, Moment),
    /// One not later than another.
    InOrder(usize, usize),
}

/// Every way in which strands may become durable, each at one moment behind its end: no groups, no merging.
/// Moments are ends of strands: whatever obeys the rules still does if each moment becomes the last end that
/// is not behind it, for rules compare moments and set latest ones.
struct Moments {
    /// Where each strand ends, if it does.
    ends: Vec<Moment>,
    rules: Vec<Rule>,
}

impl Moments {
    fn may_be(&self, chosen: &[Moment]) -> bool {
        self.rules.iter().all(|rule| match *rule {
            Rule::Before(one, moment, other) => {
                let known = one.max(other) < chosen.len();
                !known || chosen[one] <= moment || chosen[one] == chosen[other]
            }
            Rule::Until(one, moment) => chosen.get(one).is_none_or(|&chosen| chosen <= moment),
            Rule::InOrder(one, other) => {
                one.max(other) >= chosen.len() || chosen[one] <= chosen[other]
            }
        })
    }

    fn each(&self, chosen: &mut Vec<Moment>, found: &mut dyn FnMut(&[Moment])) {
        if !self.may_be(chosen) {
            return;
        }
        let Some(&end) = self.ends.get(chosen.len()) else {
            return found(chosen);
        };
        let ends = self.ends.iter().copied();
        let moments = ends.filter(|&moment| end <= moment && moment < NEVER);
        for moment in moments.chain([NEVER]) {
            chosen.push(moment);
            self.each(chosen, found);
            chosen.pop();
        }
    }
}

/// What a cut finds behind these events: strands become durable at moments of their own.
fn definition(test: &Test, events: &[Event], loads: bool, chained: bool) -> BTreeSet<Contents> {
    let now = events.len();
    let mut strands = Vec::new();
    let mut of_event = Vec::new();
    let is = |at: usize, kind: Kind| events[at].instruction.kind == kind;
    for (at, event) in events.iter().enumerate() {
        let own = |&earlier: &usize| events[earlier].thread == event.thread;
        let before = (0..at).filter(own).filter(|&it| is(it, Kind::NewStrand));
        let strand = (event.thread, before.count());
        let known = strands.iter().position(|known| *known == strand);
        of_event.push(known.unwrap_or(strands.len()));
        if known.is_none() {
            strands.push(strand);
        }
    }
    let mut ends = vec![NEVER; strands.len()];
    let mut rules = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let strand = of_event[at];
        if is(at, Kind::NewStrand) {
            ends[strand] = at + 1;
        }
        let waits = is(at, Kind::StrandSync);
        for (other, (thread, _)) in strands.iter().enumerate() {
            if waits && *thread == event.thread && ends[other] <= at {
                rules.push(Rule::Until(other, at));
            }
        }
        for earlier in 0..at {
            let conflict = events[earlier].stores() && (event.stores() || loads && event.loads());
            if conflict && of_event[earlier] != strand && share(test, &events[earlier], event, true)
            {
                rules.push(Rule::Before(of_event[earlier], at, strand));
            }
        }
    }
    for (one, before) in strands.iter().enumerate() {
        for (other, behind) in strands.iter().enumerate() {
            if chained && before.0 == behind.0 && before.1 < behind.1 {
                rules.push(Rule::InOrder(one, other));
            }
        }
    }
    let moments = Moments { ends, rules };
    let mut found = BTreeSet::new();
    moments.each(&mut Vec::new(), &mut |chosen| {
        let stores = (0..now).filter(|at| events[*at].stores());
        let kept = stores.filter(|at| chosen[of_event[*at]] <= now);
        found.insert(left(events, kept));
    });
    found
}

/// A `new-strand` in front of each `strand-sync`, which then only waits.
fn with_ends(test: &Test) -> Test {
    let mut ended = test.clone();
    for thread in &mut ended.threads {
        for at in (0..thread.len()).rev() {
            if thread[at].kind == Kind::StrandSync {
                generate::insert(thread, at, instruction(test.model.name, "new-strand"));
            }
        }
    }
    ended
}

#[test]
fn groups_are_strands_with_moments() {
    for (model, loads, chained) in ORDERS {
        for test in random(model, Shape::TINY, 600).chain(random(model, Shape::PAIR, 300)) {
            let defined = by_definition(&with_ends(&test), &move |test, events| {
                definition(test, events, loads, chained)
            });
            let found = set(&test);
            assert!(found == defined, "{}", difference(&test, &found, &defined));
        }
    }
}

fn model(name: &str) -> &'static Model {
    let known = MODELS.iter().find(|model| model.name == name);
    known.expect("a model")
}

fn under(test: &Test, name: &str) -> BTreeSet<Contents> {
    let mut test = test.clone();
    test.model = model(name);
    set(&test)
}

/// The table of `docs/persistency.md`: whether a cut may find the second store without the first.
#[test]
fn files_tell_models_apart() {
    let models = ["strand", "spms", "spms-reads", "spms-thread"];
    for (file, expected) in [
        ("whole", [true, false, false, false]),
        ("not-ended", [true, false, false, false]),
        ("two-strands", [true, true, true, false]),
        ("read-own", [false, true, false, false]),
        ("read-elsewhere", [false, true, false, false]),
    ] {
        let test = named(&format!("spms/{file}"));
        let mut y_alone = Contents::default();
        y_alone.set(1, 1);
        let found = models.map(|model| under(&test, model).contains(&y_alone));
        assert_eq!(found, expected, "{file}: {models:?}");
    }
}

/// Where strands have no barriers, wholes are some of what strand persistency leaves.
#[test]
fn without_barriers_wholes_are_strands() {
    let mut count = 0;
    for test in random("spms", Shape::SMALL, 2000) {
        let is_mark = |kind| matches!(kind, Kind::PersistBarrier | Kind::StrandSync);
        if test.threads.iter().flatten().any(|it| is_mark(it.kind)) {
            continue;
        }
        count += 1;
        let (wholes, strands) = (set(&test), under(&test, "strand"));
        let difference = || difference(&test, &wholes, &strands);
        assert!(wholes.is_subset(&strands), "{}", difference());
    }
    assert!(count > 200, "{count} tests");
}

#[test]
fn more_order_allows_nothing_more() {
    for (less, ordered) in [("spms", "spms-reads"), ("spms-reads", "spms-thread")] {
        for test in random(ordered, Shape::SMALL, 600) {
            let (before, after) = (under(&test, less), set(&test));
            let difference = || difference(&test, &after, &before);
            assert!(after.is_subset(&before), "{}", difference());
        }
    }
}

/// Behind the end of a strand, `strand-sync` waits, and does nothing else.
#[test]
fn to_wait_allows_nothing_more() {
    for (model, ..) in ORDERS {
        for test in random(model, Shape::SMALL, 400) {
            let mut waits = test.clone();
            for thread in &mut waits.threads {
                let end = thread.iter().position(|it| it.kind == Kind::NewStrand);
                if let Some(end) = end {
                    generate::insert(thread, end + 1, instruction(model, "strand-sync"));
                }
            }
            let (before, after) = (set(&test), set(&waits));
            let difference = || difference(&waits, &after, &before);
            assert!(after.is_subset(&before), "{}", difference());
        }
    }
}
