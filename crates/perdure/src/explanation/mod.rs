//! Why a cut failed, line by line: which version each wrong line is of, what lies there, where the bytes were
//! that are missing, what was on its way, and what happened before.
//!
//! It lives through the same lives again, twice: once to see which lines are wrong, and once to hear of
//! everything that becomes of these lines ([`perdure_hardware::watched`]). So a cut that is verified pays
//! nothing for it.
//!
//! Always true here: an explanation is of one cut, and takes part in no verdict.

mod copies;
mod cores;
mod grouped;
mod history;
mod known;
mod names;
mod places;
mod timeline;

use std::path::Path;

use perdure_designs::Epochs;
use perdure_hardware::line::Line;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Error;
use crate::lives::{Life, Lives};
use crate::machine::Machine;
use crate::verify::{self, Against, Verdict};

use grouped::Grouped;
use history::Histories;
use known::{Kind, Marks};
use names::Names;

pub use cores::Cores;

/// The first line that is wrong.
#[derive(Clone, Debug, Serialize)]
pub struct FirstDifference {
    /// How it is wrong.
    pub kind: Kind,
    /// The same in words, with the versions.
    pub says: String,
    /// Physical address of the line.
    pub physical_address: String,
    /// Virtual address of its first wrong byte, if a program maps it.
    pub address: Option<String>,
    /// What lies there.
    pub symbol: Option<String>,
    /// The epoch whose memory was expected.
    pub epoch: u64,
    /// The line as it should be.
    pub expected: String,
    /// The line as it came back.
    pub found: String,
    /// How many lines differ in all.
    pub lines: u64,
}

/// An explanation.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Where to look first, if memory is wrong at all.
    pub first: Option<FirstDifference>,
    /// All of it, as JSON.
    pub whole: Value,
}

/// A failed cut: the life that it ended, and those before.
pub struct Failed<'a> {
    /// All of them, the one that is to be explained last.
    pub lives: &'a [Life],
    /// What was found out.
    pub verdict: Verdict,
    /// Where to put core files, if somebody wants them.
    pub cores: Option<&'a Path>,
}

/// The machine that the life after these cuts began as.
fn begin(lives: &Lives, before: &[Life]) -> Result<Machine, Error> {
    match &lives.prepared.restart {
        Some(restart) => lives.started_again(restart, before),
        None => lives.restored(before),
    }
}

/// Explains the last cut of some lives; nothing where there is none.
pub fn explain(lives: &Lives, failed: &Failed) -> Result<Option<Explanation>, Error> {
    let Some((cut, before)) = failed.lives.split_last() else {
        return Ok(None);
    };
    let again = lives.prepared.restart.is_some();
    let mut machine = begin(lives, before)?;
    let against = against(&machine, again, failed.verdict, cut.judged_by_epoch);
    let epoch = cut.judged_by_epoch;
    if failed.cores.is_some() && machine.facts().recovery.resumes() && !again {
        machine.keep_epoch_end(epoch);
    }
    let oracle = verify::watched_until(&mut machine, epoch, cut.cycle)?;
    let when = (cut.cycle, cut.tear_seed);
    let images = verify::images(&mut machine, oracle, against, when).map_err(|source| {
        let what = "copying an image".into();
        Error::Host { what, source }
    })?;
    let marks = match against {
        Against::Promise(_) if machine.facts().epochs != Epochs::None => Marks::Epoch,
        _ => Marks::Cycle,
    };
    let mut names = Names::of(&machine);
    let order = grouped::order(&mut names, &machine, &images);
    let heard = Histories::hear(lives, before, cut, (&images, &order, marks))?;
    let mut grouped = Grouped::new(&order);
    let promised = (marks, epoch, machine.executing_epoch());
    grouped.take(&machine, &mut names, &heard, promised);
    let shown = places::shown(&machine, &grouped, &images, cut.cycle);
    let cores = (failed
        .cores
        .map(|folder| Cores::put(folder, &mut machine, &images, &order)))
    .transpose()?;
    let in_flight = places::in_flight(&names, &machine, cut.cycle);
    let whole = json!({
        "cycle": cut.cycle,
        "life": failed.lives.len(),
        "against": match against {
            Against::Newest => "newest",
            Against::Promise(_) => "promise",
        },
        "marks": marks,
        "epoch": (marks == Marks::Epoch).then_some(epoch),
        "executing_epoch": (marks == Marks::Epoch).then(|| machine.executing_epoch()),
        "refused": images.refused,
        "lines": images.wrong.len(),
        "kinds": grouped.kinds(),
        "lines_not_followed": images.wrong.len() - heard.lines.len(),
        "things": grouped.to_json(&names, &heard, &shown, promised),
        "in_flight": in_flight,
        "timeline": heard.timeline.to_json(&names, &machine, cut.cycle),
        "cores": cores,
    });
    let first = grouped.first(&mut names, &heard, promised, images.wrong.len());
    Ok(Some(Explanation { first, whole }))
}

/// What memory is compared with: a program that does not find in its pools what it needs may have no promise
/// to refer to, or one that was kept.
fn against(machine: &Machine, again: bool, verdict: Verdict, epoch: u64) -> Against {
    let by_its_end = matches!(verdict, Verdict::RestartFailed | Verdict::OutputUnexpected);
    if again && (by_its_end || !machine.facts().promise.binds) {
        Against::Newest
    } else {
        Against::Promise(epoch)
    }
}

/// A line as eight numbers.
fn hexadecimal(line: &Line) -> String {
    let words: Vec<String> = (0..known::WORDS)
        .map(|at| hexadecimal_word(line, at))
        .collect();
    words.join(" ")
}

fn hexadecimal_word(line: &Line, at: usize) -> String {
    let bytes = known::word(line, at).try_into().expect("eight bytes");
    format!("{:016x}", u64::from_le_bytes(bytes))
}
