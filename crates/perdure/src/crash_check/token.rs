//! Tokens of bugs: one word that says which program is checked, how, and which state of it recovery fails on.
//!
//! Always true here: a token whose programs, pools or machine are other ones today is refused.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::PathBuf;

use super::{Asked, Prepared, USUAL_SEED};
use crate::error::{Error, parsed};
use crate::request::Request;
use crate::token::{difference, sealed, unsealed};
use crate::version::{BUILD, TIMING};

const PREFIX: &str = "c1-";

/// What a token says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    asked: Asked,
    /// Of the order in which threads have their turns, which a state names by numbers; nothing, where it is
    /// the usual one. A request says its seed to nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    config_hash: String,
    given: Vec<Option<u32>>,
    build: String,
    timing: u32,
}

/// A token once more, and the folder that gets the pools of its state.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Again {
    token: String,
    #[serde(default)]
    pools: Option<PathBuf>,
}

/// The token of a state, of a machine with these overrides beside its own.
pub fn of(asked: &Asked, prepared: &Prepared, state: &str, set: &[String]) -> String {
    let request = Request {
        set: [set, &asked.request.set].concat(),
        jobs: None,
        ..asked.request.clone()
    };
    // An override of a round is part of that machine.
    let config_hash = match set {
        [] => Ok(prepared.config_hash.clone()),
        _ => request.configuration().map(|one| one.hash()),
    };
    let token = Token {
        seed: asked.request.seed.filter(|&seed| seed != USUAL_SEED),
        asked: Asked {
            request,
            states: None,
            states_of_a_point: None,
            minutes: None,
            schedules: None,
            cuts: None,
            nested: false,
            memory: None,
            keep: None,
            pools: None,
            state: Some(state.to_owned()),
            ..asked.clone()
        },
        config_hash: config_hash.unwrap_or_default(),
        given: prepared.given.iter().map(|(_, digest)| *digest).collect(),
        build: BUILD.into(),
        timing: TIMING,
    };
    sealed(PREFIX, &token)
}

/// Gives each bug of a report its token.
pub fn add(asked: &Asked, prepared: &Prepared, report: &mut Value) {
    let Some(bugs) = report.get_mut("bugs").and_then(Value::as_array_mut) else {
        return;
    };
    for bug in bugs {
        let set = bug["cut"]["set"].as_array().cloned().unwrap_or_default();
        let set: Vec<String> = (set.iter().filter_map(Value::as_str))
            .map(str::to_owned)
            .collect();
        let state = bug["state"].as_str().unwrap_or_default();
        bug["token"] = json!(of(asked, prepared, state, &set));
    }
}

/// What a token asks for, made ready.
pub fn opened(asked: &str) -> Result<(Asked, Prepared), Error> {
    let again: Again = parsed(asked)?;
    let token: Token = unsealed(PREFIX, &again.token)?;
    if token.timing != TIMING {
        return Err(Error::Request(format!(
            "the token is of timing version {}, made by build {}, and this build's is {TIMING}: check again with this one",
            token.timing, token.build
        )));
    }
    let mut asked = Asked {
        pools: again.pools,
        ..token.asked
    };
    asked.request.seed = token.seed;
    let prepared = asked.prepare()?;
    if prepared.config_hash != token.config_hash {
        return Err(Error::Request(format!(
            "the token was made under configuration {} by build {}, and today's is {}, of build {BUILD}: the machine file or the build's presets have changed",
            token.config_hash, token.build, prepared.config_hash
        )));
    }
    match difference(&token.given, &prepared.given) {
        Some(difference) => Err(Error::Request(difference)),
        None => Ok((asked, prepared)),
    }
}
