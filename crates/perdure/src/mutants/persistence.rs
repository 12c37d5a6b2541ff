//! Mistakes with what becomes durable when: each is noticed by a litmus test, whose model forbids what the
//! machine then leaves.
//!
//! Always true here: every such mistake has its test, and without the mistake the machine leaves nothing
//! that the test's model forbids.

use serde_json::{Value, json};

use super::{Tally, clean};
use crate::error::Error;
use crate::litmus::machine::{Asked, Left, run};
use crate::litmus::read::read;
use crate::litmus::{TooLarge, allowed, allowed_if_kept};
use crate::mistakes::{MISTAKES, Mistake};
use crate::mutants::Shown;
use crate::observer::{Observer, Unobserved};
use crate::parallel;

/// The group's name.
pub(super) const PERSISTENCE: &str = "persistence";

/// Cuts of a test on each machine, at least.
const CUTS: u64 = 2000;
const SEED: u64 = 1;

/// A mistake's name, the litmus test that notices it, and its text.
type Noticed = (&'static str, &'static str, &'static str);

macro_rules! noticed {
    ($($mistake:literal by $file:literal,)*) => {
        &[$((
            $mistake,
            $file,
            include_str!(concat!("../../../../tests/litmus/", $file, ".toml")),
        )),*]
    };
}

const NOTICED: &[Noticed] = noticed![
    "fence-waits-for-stores-alone" by "px86/clwb-sfence",
    "flush-misses-other-harts" by "perdure/other-hart-cleans",
    "flush-passes-its-stores" by "px86/same-line-clflushopt",
    "clflush-goes-on-early" by "px86/reader-clflushes",
    "fence-forgets-cleans" by "perdure/clean-fence",
    "fence-waits-for-last" by "perdure/clean-of-nothing",
    "atomic-waits-for-nothing" by "px86/clflushopt-exchange",
    "seen-early" by "px86/clflushopt-exchange",
    "durable-at-coherence" by "perdure/two-cleans-one-fence",
    "clean-is-durable" by "perdure/clean-fence",
    "queue-loses-entries" by "px86/log-then-data",
    "queue-takes-words" by "perdure/same-line",
    "keeps-shared-cache-only" by "perdure/two-stores",
];

/// What the machine leaves of a test; and in words the first of it that the model forbids.
fn leaves(text: &str, mistake: Option<Mistake>) -> Result<(Left, Option<String>), Error> {
    let test = read(text).map_err(|message| Error::Defect(format!("a litmus test: {message}")))?;
    let too_large = |TooLarge| Error::Defect("a litmus test is too large".into());
    let asked = Asked {
        seed: SEED,
        cuts: CUTS,
        mistake,
    };
    let lost = allowed(&test).map_err(too_large)?.contents;
    let kept = allowed_if_kept(&test).map_err(too_large)?.contents;
    // What half of the runs did not leave says nothing.
    let left = run(&test, [&lost, &kept], &asked, &Unobserved)?;
    let left = left.ok_or_else(|| Error::Defect("no machine runs a litmus test".into()))?;
    let unsound = left.unsound.first();
    let words =
        unsound.map(|one| format!("{} on {}", test.show(&one.contents).trim_end(), one.machine));
    Ok((left, words))
}

fn cuts(left: &Left) -> usize {
    left.presets.iter().map(|tried| tried.cuts as usize).sum()
}

/// Plants every mistake under its test, and none.
pub(super) fn run_all(jobs: Option<usize>, observer: &dyn Observer) -> Result<Value, Error> {
    let planted: Vec<_> = (MISTAKES.iter())
        .filter(|(_, mistake)| mistake.of_persists().is_some())
        .collect();
    let tally = Tally::of(planted.len(), "bugs", observer);
    let tried = parallel::map(jobs.unwrap_or(1), &planted, |(bug, mistake)| {
        tally.one_more(bug.name);
        let noticed = NOTICED.iter().find(|(name, ..)| *name == bug.name);
        let (_, file, text) = noticed.ok_or_else(|| {
            Error::Defect(format!("no litmus test is known to notice {}", bug.name))
        })?;
        if observer.interrupted() {
            return Err(Error::Request("interrupted".into()));
        }
        let (with, unsound) = leaves(text, Some(*mistake))?;
        let (without, accused) = leaves(text, None)?;
        let report = json!({
            "name": bug.name, "summary": bug.summary, "caught": unsound.is_some(),
            "by": unsound.map(|left| format!("litmus {file} left {left}")),
            "cuts": cuts(&with), "token": null,
        });
        let unharmed = Shown {
            cuts: cuts(&without),
            failed: usize::from(accused.is_some()),
            first: None,
        };
        Ok((report, unharmed))
    })?;
    let (mutants, unharmed): (Vec<Value>, Vec<Shown>) = tried.into_iter().unzip();
    Ok(json!({"design": PERSISTENCE, "mutants": mutants, "clean": clean(unharmed)}))
}
