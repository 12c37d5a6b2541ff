//! Repeating one cut.
//!
//! Always true here: what a token names is made again exactly, or refused.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{cut_request, parsed};
use crate::error::Error;
use crate::observer::Observer;
use crate::request::{Prepared, Request};
use crate::token::Token;
use crate::version::BUILD;

/// What `perdure replay` asks for, if it is more than a token.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplayRequest {
    token: String,
    #[serde(default)]
    check: Vec<String>,
    #[serde(default)]
    check_seconds: Option<u64>,
    #[serde(default)]
    cores: Option<PathBuf>,
    /// The run ends with the cut.
    #[serde(default)]
    until_cut: bool,
}

/// Repeats the one power cut that a token names: a token alone, or JSON with the checker that it was made
/// with, the folder that core files go to, and whether the run ends there.
pub fn replay(asked: &str, observer: &dyn Observer) -> Result<String, Error> {
    let asked = if asked.trim_start().starts_with('{') {
        parsed(asked)?
    } else {
        ReplayRequest {
            token: asked.to_owned(),
            check: Vec::new(),
            check_seconds: None,
            cores: None,
            until_cut: false,
        }
    };
    let token = Token::decode(&asked.token)?;
    if token.checked && asked.check.is_empty() {
        return Err(Error::Request(
            "a checker judged this cut, and a token runs no program of the host's by itself: give the checker again, with --check".into(),
        ));
    }
    let mut request = token.again();
    request.check = asked.check;
    request.check_seconds = asked.check_seconds;
    request.cores = asked.cores;
    prepared_as_made(&token, &request)?;
    let until_cut = asked.until_cut || request.until_cut;
    request.reads = Some((token.reads, token.build == BUILD));
    let mut result: Map<String, Value> = parsed(&cut_request(&request, until_cut, observer)?)?;
    result.insert("made_by_build".into(), json!(token.build));
    Ok(Value::Object(result).to_string())
}

/// The request of a token made ready to run, if everything that was given then is what it was.
pub(super) fn prepared_as_made(token: &Token, request: &Request) -> Result<Prepared, Error> {
    let prepared = request.prepare()?;
    let hash = &prepared.config_hash;
    if *hash != token.config_hash {
        return Err(Error::Request(format!(
            "the token was made under configuration {} by build {}, and today's is {hash}, of build {BUILD}: the machine file or the build's presets have changed",
            token.config_hash, token.build
        )));
    }
    match token.differs(&prepared.given) {
        Some(difference) => Err(Error::Request(difference)),
        None => Ok(prepared),
    }
}
