//! A run in which the design breaks its contract with the hardware: no cut of it can be judged, and any
//! shows it.
//!
//! Always true here: nothing is said of what the run would have come to.

use serde_json::{Map, Value, json};

use crate::reads::Reads;
use crate::request::{Prepared, Request};
use crate::token::Token;
use crate::verify::Verdict;
use crate::version::{BUILD, TIMING};

/// Names a cut of such a run: the one that was asked for, or one at its start.
pub(crate) fn token(request: &Request, prepared: &Prepared) -> Token {
    Token {
        request: request.clone(),
        at: request.at.unwrap_or(1),
        tear_seed: request.tear_seed.unwrap_or(0),
        later_cuts: Vec::new(),
        checked: prepared.check.is_some(),
        config_hash: prepared.configuration.hash(),
        given: prepared.digests(),
        reads: Reads::default(),
        build: BUILD.into(),
        timing: TIMING,
    }
}

/// What a campaign of such a run reports: that one cut.
pub(crate) fn report(request: &Request, prepared: &Prepared, message: &str) -> Map<String, Value> {
    let token = token(request, prepared);
    let value = json!({
        "build": BUILD,
        "design": prepared.configuration.design,
        "machine": prepared.configuration.machine,
        "config_hash": token.config_hash,
        "cuts": 1,
        "verified": 0,
        "failed": 1,
        "checked": token.checked,
        "coverage": {
            "design_states": {},
            "locations": {},
            "paths": {},
            "cuts_with_torn_writes": 0,
            "cuts_with_lost_writes": 0,
            "cuts_during_recovery": 0,
            "cuts_of_later_lives": 0,
        },
        "results": [{
            "cycle": token.at,
            "recovered_epoch": null,
            "resumed": false,
            "verdict": Verdict::ContractBroken,
            "message": message,
            "token": token.encode(),
        }],
    });
    let Value::Object(map) = value else {
        unreachable!("built as an object")
    };
    map
}
