//! Litmus tests: what persistent memory may hold after a power cut, decided model by model, and what the
//! machine leaves there.
//!
//! Reading order: [`program`], [`model`], [`models`], [`explore`], [`cut`], [`ptso`], [`groups`], [`read`],
//! [`machine`]. `docs/persistency.md` says the models in words.
//!
//! Always true here: a model's set is exact, or there is none ([`TooLarge`]); a model knows nothing of the
//! machine, and the machine nothing of models.

pub mod cut;
pub mod explore;
pub mod groups;
pub mod machine;
pub mod model;
pub mod models;
pub mod program;
pub mod ptso;
pub mod read;
mod words;

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Error, parsed};
use crate::given_files;
use crate::mistakes::{self, Mistake};
use crate::observer::Observer;
pub use explore::{Explored, TooLarge};
use model::Left;
use program::Action;
pub use program::{Contents, Test};

/// Finds everything that a cut may leave under a test's model.
pub fn allowed(test: &Test) -> Result<Explored, TooLarge> {
    if let model::Explored::ByGroups(rules) = &test.model.explored {
        return groups::explore(test, rules);
    }
    match test.model.rules() {
        Some(rules) => explore::explore(test, &rules),
        None => ptso::explore(test, &ptso::BUFFERS),
    }
}

/// The same where caches are in the persistence domain: every store is durable at once, in the order in
/// which stores take effect, and write-backs have nothing to do.
pub fn allowed_if_kept(test: &Test) -> Result<Explored, TooLarge> {
    match test.model.rules() {
        Some(mut rules) if rules.left == Left::Lines => {
            rules.left = Left::Prefix;
            let mut test = test.clone();
            for instruction in test.threads.iter_mut().flatten() {
                if matches!(instruction.action, Action::WriteBack { .. }) {
                    instruction.action = Action::Barrier;
                }
            }
            explore::explore(&test, &rules)
        }
        _ => allowed(test),
    }
}

/// The seed of whoever names none.
const SEED: u64 = 1;
/// Cuts of a test on each machine, for whoever names no number.
const CUTS: u64 = 500;

/// What `perdure litmus` asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    files: Vec<String>,
    seed: Option<u64>,
    cuts: Option<u64>,
    /// A mistake of the machine's to plant, by its name among planted bugs.
    planted_bug: Option<String>,
}

/// Decides the tests of some files. All are read before the first is decided. If the user wants no more,
/// what is decided so far is told, with what the cuts until then have left.
pub fn decide(request: &str, observer: &dyn Observer) -> Result<String, Error> {
    let request: Request = parsed(request)?;
    let tests: Vec<(String, Test)> = (request.files.iter())
        .map(|file| read_file(file).map(|test| (file.clone(), test)))
        .collect::<Result<_, _>>()?;
    let asked = machine::Asked {
        seed: request.seed.unwrap_or(SEED),
        cuts: request.cuts.unwrap_or(CUTS),
        mistake: planted(request.planted_bug.as_deref())?,
    };
    let wanted = tests.iter().take_while(|_| !observer.interrupted());
    let decided: Vec<Value> = wanted
        .map(|(file, test)| decision(file, test, &asked, observer))
        .collect::<Result<_, _>>()?;
    Ok(json!({"tests": decided, "interrupted": observer.interrupted()}).to_string())
}

/// The mistake to plant in the machine.
fn planted(bug: Option<&str>) -> Result<Option<Mistake>, Error> {
    let mistake = mistakes::planted(bug)?;
    match bug {
        Some(bug) if mistake.is_none() => Err(Error::Request(format!(
            "--planted-bug {bug}: litmus tests are for the machine's own, {}NAME",
            mistakes::PREFIX
        ))),
        _ => Ok(mistake),
    }
}

fn read_file(file: &str) -> Result<Test, Error> {
    let bytes = given_files::text(Path::new(file)).map_err(|source| Error::Host {
        what: file.to_owned(),
        source,
    })?;
    read::read_bytes(&bytes).map_err(|message| Error::Request(format!("{file}:{message}")))
}

fn decision(
    file: &str,
    test: &Test,
    asked: &machine::Asked,
    observer: &dyn Observer,
) -> Result<Value, Error> {
    let too_large = |TooLarge| {
        Error::Request(format!(
            "{file}: more than {} states: the test is too large; use fewer stores or locations",
            explore::STATES
        ))
    };
    let explored = allowed(test).map_err(too_large)?;
    let show = |set: &BTreeSet<Contents>| shown(test, set);
    let left = if asked.cuts == 0 {
        None
    } else {
        let kept = allowed_if_kept(test).map_err(too_large)?;
        machine::run(test, [&explored.contents, &kept.contents], asked, observer)?
    };
    let stated = test.allowed.as_ref().map(|stated| {
        let missing = stated.difference(&explored.contents).copied().collect();
        let unstated = explored.contents.difference(stated).copied().collect();
        json!({"agrees": *stated == explored.contents, "not_in_model": show(&missing), "not_stated": show(&unstated)})
    });
    Ok(json!({
        "file": file,
        "name": test.name,
        "model": test.model.name,
        "source": test.model.source,
        "contents": show(&explored.contents),
        "states": explored.states,
        "stated": stated,
        "machine": left.map(|left| on_machine(test, &explored.contents, &left)),
    }))
}

fn shown(test: &Test, set: &BTreeSet<Contents>) -> Vec<String> {
    set.iter().map(|contents| test.show(contents)).collect()
}

/// What the machine left, beside what the model allows.
fn on_machine(test: &Test, allowed: &BTreeSet<Contents>, left: &machine::Left) -> Value {
    let contents = left.contents();
    let presets = left.presets.iter().map(|tried| {
        json!({
            "machine": tried.machine, "design": tried.design, "runs": tried.runs, "cuts": tried.cuts,
            "contents": shown(test, &tried.contents),
        })
    });
    let unsound = left.unsound.iter().map(|one| {
        json!({
            "contents": test.show(&one.contents), "machine": one.machine, "design": one.design,
            "settings": one.settings, "run": one.run, "cycle": one.at,
        })
    });
    json!({
        "presets": presets.collect::<Vec<_>>(),
        "cuts": left.presets.iter().map(|tried| tried.cuts).sum::<u64>(),
        "contents": shown(test, &contents),
        "unsound": unsound.collect::<Vec<_>>(),
        "not_reached": shown(test, &allowed.difference(&contents).copied().collect()),
    })
}
