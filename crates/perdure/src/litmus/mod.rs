//! Litmus tests: what persistent memory may hold after a power cut, decided model by model.
//!
//! Reading order: [`program`], [`model`], [`models`], [`explore`], [`cut`], [`ptso`], [`read`].
//! `docs/persistency.md` says the models in words.
//!
//! Always true here: a model's set is exact, or there is none ([`TooLarge`]); a model knows nothing of the
//! machine. What is decided is what the model allows: no test has been run on the machine.

pub mod cut;
pub mod explore;
pub mod model;
pub mod models;
pub mod program;
pub mod ptso;
pub mod read;
mod words;

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::Error;
pub use explore::{Explored, TooLarge};
pub use program::{Contents, Test};

/// Finds everything that a cut may leave under a test's model.
pub fn allowed(test: &Test) -> Result<Explored, TooLarge> {
    match test.model.rules() {
        Some(rules) => explore::explore(test, &rules),
        None => ptso::explore(test, &ptso::BUFFERS),
    }
}

/// What `perdure litmus` asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    files: Vec<String>,
}

/// Decides the tests of some files. All are read before the first is decided.
pub fn decide(request: &str) -> Result<String, Error> {
    let request: Request = serde_json::from_str(request)
        .map_err(|error| Error::Request(format!("request: {error}")))?;
    let tests: Vec<(String, Test)> = (request.files.into_iter())
        .map(|file| read_file(&file).map(|test| (file, test)))
        .collect::<Result<_, _>>()?;
    let decided: Vec<Value> = (tests.iter())
        .map(|(file, test)| decision(file, test))
        .collect::<Result<_, _>>()?;
    Ok(json!({"tests": decided}).to_string())
}

fn read_file(file: &str) -> Result<Test, Error> {
    let text = std::fs::read_to_string(file).map_err(|source| Error::Host {
        what: file.to_owned(),
        source,
    })?;
    read::read(&text).map_err(|message| Error::Request(format!("{file}:{message}")))
}

fn decision(file: &str, test: &Test) -> Result<Value, Error> {
    let explored = allowed(test).map_err(|TooLarge| {
        Error::Request(format!(
            "{file}: more than {} states: the test is too large; use fewer stores or locations",
            explore::STATES
        ))
    })?;
    let show = |set: &BTreeSet<Contents>| -> Vec<String> {
        set.iter().map(|contents| test.show(contents)).collect()
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
        "machine": null,
    }))
}
