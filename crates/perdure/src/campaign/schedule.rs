//! The schedule: at which cycles the power is cut, and which of these cuts are resumed.
//!
//! Always true here: the same survey, request and seed give the same schedule, in order of cycles.

use std::collections::BTreeMap;
use std::iter::StepBy;
use std::ops::Range;

use perdure_hardware::random::Random;
use perdure_hardware::time::Cycles;

use super::survey::Survey;
use crate::error::Error;
use crate::request::{Prepared, Request, Resume, Schedule};

/// Cuts that schedules of every moment of a kind make at most, unless told otherwise.
const MOST_EVENTS: usize = 200_000;

/// Cuts that are drawn at once: their moments are a list.
const CUTS_MAX: u64 = 100_000_000;

/// The cycles at which a request cuts.
pub(super) fn choose(
    request: &Request,
    schedule: Schedule,
    survey: &Survey,
    seed: u64,
) -> Result<Vec<Cycles>, Error> {
    if let Some(at) = request.at {
        if at > survey.uncut.end {
            return Err(Error::Request(format!(
                "--at {at}: beyond the end of the run, which is at cycle {}",
                survey.uncut.end
            )));
        }
        return Ok(vec![at]);
    }
    let cuts = request.cuts.unwrap_or(100);
    let draws = matches!(
        schedule,
        Schedule::Random | Schedule::NearEvents | Schedule::Stratified
    );
    if cuts == 0 && draws {
        return Err(Error::Request("--cuts 0: must be at least 1".into()));
    }
    if cuts > CUTS_MAX && draws {
        return Err(Error::Request(format!(
            "--cuts {cuts}: must be at most {CUTS_MAX}"
        )));
    }
    let mut random = Random::new(seed);
    let mut cycles = match schedule {
        Schedule::Random => (0..cuts)
            .map(|_| 1 + random.below(survey.uncut.end))
            .collect(),
        Schedule::NearEvents if !survey.events.is_empty() => {
            let events = &survey.events;
            let near = |random: &mut Random| {
                let event = events[random.below(events.len() as u64) as usize];
                (event + random.below(3)).saturating_sub(1)
            };
            let moments = (0..cuts).map(|_| near(&mut random).clamp(1, survey.uncut.end));
            moments.collect()
        }
        Schedule::NearEvents => (0..cuts)
            .map(|_| 1 + random.below(survey.uncut.end))
            .collect(),
        Schedule::EveryEvent => every(request, survey, ("every-event", "persistence events"))?,
        Schedule::EveryFence => every(request, survey, ("every-fence", "moments around fences"))?,
        Schedule::EveryStack => every(
            request,
            survey,
            ("every-stack", "moments of flushes and fences"),
        )?,
        Schedule::Stratified => stratified(survey, cuts, &mut random),
    };
    cycles.sort_unstable();
    Ok(cycles)
}

/// Which of so many cuts this request makes: all of them, or the part that it names.
pub(super) fn part_of(request: &Request, cuts: usize) -> Result<StepBy<Range<usize>>, Error> {
    match request.part.unwrap_or([0, 1]) {
        [number, parts] if number < parts => Ok((number.min(cuts)..cuts).step_by(parts)),
        [number, parts] => Err(Error::Request(format!(
            "part [{number}, {parts}]: there is no such part"
        ))),
    }
}

/// All moments that the survey was to find, which are to be of this kind.
fn every(
    request: &Request,
    survey: &Survey,
    (schedule, moments): (&str, &str),
) -> Result<Vec<Cycles>, Error> {
    if survey.events.is_empty() {
        return Err(Error::Request(format!(
            "--schedule {schedule}: this run has no {moments}; take stratified or random"
        )));
    }
    let most = request.cuts.map_or(MOST_EVENTS, |cuts| cuts as usize);
    if survey.events.len() > most {
        return Err(Error::Request(format!(
            "--schedule {schedule}: this run has {} distinct {moments}, more than {most}; shorten the run, raise --cuts, or take stratified or random",
            survey.events.len()
        )));
    }
    Ok(survey.events.clone())
}

/// Round-robin over the strata (design state × 4 KiB code page), a random moment in each.
fn stratified(survey: &Survey, cuts: u64, random: &mut Random) -> Vec<Cycles> {
    let mut strata: BTreeMap<(&str, u64), Vec<(Cycles, Cycles)>> = BTreeMap::new();
    for (index, sample) in survey.samples.iter().enumerate() {
        let end = survey
            .samples
            .get(index + 1)
            .map_or(survey.uncut.end, |next| next.time);
        let length = end.saturating_sub(sample.time).max(1);
        strata
            .entry((sample.phase, sample.pc >> 12))
            .or_default()
            .push((sample.time, length));
    }
    let strata: Vec<_> = strata.into_values().collect();
    if strata.is_empty() {
        return (0..cuts)
            .map(|_| 1 + random.below(survey.uncut.end))
            .collect();
    }
    (0..cuts as usize)
        .map(|index| {
            let stratum = &strata[index % strata.len()];
            let (start, length) = stratum[random.below(stratum.len() as u64) as usize];
            (start + random.below(length)).clamp(1, survey.uncut.end)
        })
        .collect()
}

/// Which cuts are resumed, and which of these are cut again in their later lives by default: every
/// second one.
pub(super) fn resumed_indices(
    request: &Request,
    prepared: &Prepared,
    cuts: usize,
    seed: u64,
) -> BTreeMap<usize, bool> {
    if request.stop_after.is_some() || request.is_measured() || prepared.until_cut {
        return BTreeMap::new();
    }
    let resumed: Vec<usize> = match request.resume.unwrap_or(Resume::Sample) {
        Resume::None => Vec::new(),
        Resume::All => (0..cuts).collect(),
        Resume::Sample => {
            let wanted = (cuts / 20).max(5).min(cuts);
            let mut random = Random::new(seed ^ 0x7265_7375_6d65);
            // One from each of `wanted` equal parts of the schedule.
            (0..wanted)
                .map(|part| {
                    let (start, end) = (part * cuts / wanted, (part + 1) * cuts / wanted);
                    start + random.below((end - start) as u64) as usize
                })
                .collect()
        }
    };
    (resumed.into_iter().enumerate())
        .map(|(place, index)| (index, place % 2 == 1))
        .collect()
}
