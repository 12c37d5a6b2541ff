//! A failure that was found, made as small as it still shows, and explained.

use serde_json::{Value, json};

use super::{Failure, Seen, attempt, attempt_explained};
use crate::observer::{Observer, Unobserved};
use crate::request::Request;
use crate::token::Token;

/// Runs that shrinking takes at most.
const RUNS: usize = 80;

/// Makes a failure small: a shorter program, fewer harts, the preset's settings one by one, one cut.
pub(super) fn shrunk(
    seed: u64,
    request: &Request,
    failure: Failure,
    shrinks: bool,
    observer: &dyn Observer,
) -> Value {
    let most_runs = if shrinks { RUNS } else { 0 };
    let mut smallest = (request.clone(), failure);
    let mut runs = 0;
    loop {
        let mut smaller = None;
        for candidate in candidates(&smallest.0) {
            if runs == most_runs || observer.interrupted() {
                break;
            }
            runs += 1;
            observer.progress(runs as u64, 0, "runs", "making the failure smaller");
            if let Ok(Seen {
                failure: Some(failure),
                ..
            }) = attempt(&candidate, &Unobserved)
            {
                smaller = Some((candidate, failure));
                break;
            }
        }
        match smaller {
            Some(smaller) => smallest = smaller,
            None => break,
        }
    }
    let (small, failure) = smallest;
    let mut command = vec!["perdure".into(), "cut".into(), "--during-recovery".into()];
    command.extend(["--design".into(), small.design.clone()]);
    command.extend(["--machine".into(), small.machine.clone()]);
    for text in &small.set {
        command.extend(["--set".into(), text.clone()]);
    }
    if let Some(harts) = small.harts {
        command.extend(["--harts".into(), harts.to_string()]);
    }
    if let Some(bug) = &small.planted_bug {
        command.extend(["--planted-bug".into(), bug.clone()]);
    }
    command.extend(["--at".to_owned(), failure.cycle.to_string(), "--".into()]);
    command.extend(small.program.iter().cloned());
    let explanation = explanation(&small, &failure, observer);
    json!({
        "seed": seed,
        "verdict": failure.verdict,
        "message": failure.message,
        "cycle": failure.cycle,
        "token": failure.token,
        "drawn": {"set": request.set, "program": request.program},
        "set": small.set,
        "program": small.program,
        "command": command,
        "shrinking_runs": runs,
        "explanation": explanation,
    })
}

/// Why it failed; nothing where no cut shows it.
fn explanation(small: &Request, failure: &Failure, observer: &dyn Observer) -> Option<Value> {
    observer.progress(0, 0, "runs", "explaining the failure");
    let again = Request {
        check: small.check.clone(),
        check_seconds: small.check_seconds,
        ..Token::decode(&failure.token).ok()?.again()
    };
    attempt_explained(&again, true, &Unobserved)
        .ok()?
        .failure?
        .explanation
}

/// Smaller requests than this one, those that save most first.
fn candidates(request: &Request) -> Vec<Request> {
    let mut smaller = Vec::new();
    let exerciser = request
        .program
        .first()
        .filter(|name| name.starts_with("@exerciser:"));
    let numbers = exerciser.and_then(|name| {
        let numbers = name.split(':').skip(1).map(|text| text.parse::<u64>().ok());
        numbers.collect::<Option<Vec<u64>>>()
    });
    if let Some(numbers) = numbers {
        for (index, least) in [(0, 60), (3, 1), (1, 4)] {
            let Some(&number) = numbers.get(index).filter(|&&number| number > least) else {
                continue;
            };
            let mut fewer = numbers.clone();
            fewer[index] = number / 2;
            let text: Vec<String> = fewer.iter().map(u64::to_string).collect();
            let mut candidate = request.clone();
            candidate.program = vec![format!("@exerciser:{}", text.join(":"))];
            smaller.push(candidate);
        }
    }
    for index in 0..request.set.len() {
        let mut candidate = request.clone();
        candidate.set.remove(index);
        smaller.push(candidate);
    }
    smaller
}
