//! A run of which no cut can be judged, and any shows why: the design breaks its contract with the hardware,
//! nothing ever runs again, or the simulator contradicts itself.
//!
//! Always true here: nothing is said of what the run would have come to.

use serde_json::{Map, Value, json};

use super::tear_seed;
use crate::error::Error;
use crate::reads::Reads;
use crate::request::{Prepared, Request};
use crate::token::Token;
use crate::verify::Verdict;
use crate::version::BUILD;

/// What such a run is called, where an error says that it is one.
pub(crate) fn verdict(error: &Error) -> Option<Verdict> {
    match error {
        Error::Contract { .. } => Some(Verdict::ContractBroken),
        Error::Deadlock { .. } => Some(Verdict::Deadlock),
        Error::Defect(_) | Error::Panicked { .. } => Some(Verdict::Defect),
        _ => None,
    }
}

/// Names a cut of such a run: that at which it broke off, the one that was asked for, or one at its start.
pub(crate) fn token(request: &Request, prepared: &Prepared, error: &Error) -> Token {
    let broke_off = match error {
        Error::Panicked { at, .. } => *at,
        _ => None,
    };
    let drawn = broke_off.map(|at| tear_seed(request.seed.unwrap_or(1), at));
    let at = broke_off.or(request.at).unwrap_or(1);
    let tear_seed = request.tear_seed.or(drawn).unwrap_or(0);
    Token::of(request.clone(), prepared, (at, tear_seed), Reads::default())
}

/// What a campaign reports that came to this error: one cut, where that is a verdict. Who asks for cuts of a
/// program that comes to nothing by itself is told so, unless that may be the design's fault; but a token of
/// such a run names just that.
pub(crate) fn report(
    request: &Request,
    prepared: &Prepared,
    error: Error,
) -> Result<Map<String, Value>, Error> {
    let is_again = request.reads.is_some();
    let is_the_design_s = matches!(error, Error::Contract { .. } | Error::Panicked { .. });
    let verdict = match verdict(&error) {
        Some(verdict) if is_the_design_s || is_again => verdict,
        _ => return Err(error),
    };
    let token = token(request, prepared, &error);
    let value = json!({
        "build": BUILD,
        "design": prepared.configuration.design.name,
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
            "verdict": verdict,
            "message": error.to_string(),
            "token": token.encode(),
        }],
    });
    let Value::Object(map) = value else {
        unreachable!("built as an object")
    };
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_at_a_cut_has_the_token_of_that_cut() {
        let request = Request {
            design: "ideal".into(),
            program: vec!["@exerciser:100:16:100".into()],
            cuts: Some(4),
            seed: Some(7),
            ..Request::default()
        };
        let prepared = request.prepare().expect("a good request");
        for (at, cut, tears) in [(None, 1, 0), (Some(500), 500, tear_seed(7, 500))] {
            let said = "panicked at a.rs:1:1: half a battery".into();
            let error = Error::Panicked { said, at };
            let token = token(&request, &prepared, &error);
            assert_eq!((token.at, token.tear_seed), (cut, tears));
            let report = report(&request, &prepared, error).expect("a verdict");
            assert_eq!(report["results"][0]["verdict"], "defect");
        }
    }
}
