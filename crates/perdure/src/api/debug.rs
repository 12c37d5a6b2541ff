//! Debugging a program, or a power cut that a token names.

use serde::Deserialize;
use serde_json::json;

use super::replay::prepared_as_made;
use super::{parsed, planted_bug};
use crate::configuration::design_named;
use crate::debugger::{self, Cut};
use crate::delivery::write_and_flush;
use crate::error::Error;
use crate::lives::later_tear_seeds;
use crate::machine::Engine;
use crate::observer::Observer;
use crate::request::Request;
use crate::token::Token;
use crate::unused;

/// What `perdure debug` asks for, or `perdure replay` with `--debug`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DebugRequest {
    /// The run, where no token names one.
    #[serde(default)]
    request: Request,
    /// The cut to debug.
    #[serde(default)]
    token: Option<String>,
    /// Where clients come to: `HOST:PORT` or a path.
    listen: String,
    /// When the power fails in the first life, in the one after it, and so on.
    #[serde(default)]
    cuts: Vec<u64>,
    /// Nothing is said about where that is.
    #[serde(default)]
    quiet: bool,
    /// Copies of the machine that are kept at most of each life.
    #[serde(default)]
    copies: Option<usize>,
}

/// Copies that are kept where nobody says how many.
const COPIES: usize = 64;

/// The cuts of a token: the one that it names, and those of later lives.
fn cuts_of(token: &Token) -> Vec<Cut> {
    let first = Cut {
        cycle: token.at,
        tear_seed: token.tear_seed,
    };
    let seeds = later_tear_seeds(token.tear_seed, token.request.restart);
    let later = token.later_cuts.iter().zip(seeds);
    let later = later.map(|(&cycle, tear_seed)| Cut { cycle, tear_seed });
    std::iter::once(first).chain(later).collect()
}

/// Serves a debugger until it ends the session, the program has ended, or the observer asks to stop. Where
/// clients find it is told on standard error.
pub fn debug(request: &str, observer: &dyn Observer) -> Result<String, Error> {
    let asked: DebugRequest = parsed(request)?;
    let (request, mut prepared, cuts) = if let Some(token) = &asked.token {
        let token = Token::decode(token)?;
        let request = token.again();
        let prepared = prepared_as_made(&token, &request)?;
        (request, prepared, cuts_of(&token))
    } else {
        let mut request = asked.request.clone();
        unused::refuse_for_debugging(&request)?;
        // After a cut something has to go on, or to begin again.
        request.restart |= !design_named(&request.design)?.recovery.resumes();
        let prepared = request.prepare()?;
        let cuts = asked.cuts.iter().map(|&cycle| Cut::at(cycle));
        (request, prepared, cuts.collect())
    };
    prepared.configuration.refuse_timing_only("debugging")?;
    prepared.engine = Engine::Stepping;
    if let (None, Some(restart)) = (&request.pmem, &mut prepared.restart) {
        restart.workload.pools = None;
    }
    let bug = planted_bug(&request.design, request.planted_bug.as_deref())?;
    let ready = |place: &str| {
        if asked.quiet {
            return;
        }
        let line = format!("perdure: waiting for gdb at {place}; there: target remote {place}\n");
        let _ = write_and_flush(std::io::stderr().lock(), line.as_bytes());
    };
    let options = debugger::Options {
        listen: &asked.listen,
        // The user goes on from the token's first cut, and the others lie ahead.
        at_cut: asked.token.is_some(),
        cuts,
        copies: asked.copies.unwrap_or(COPIES),
        ready: &ready,
    };
    let result = debugger::run(&prepared, bug, options, observer)?;
    Ok(json!({"debug": result}).to_string())
}
