//! A check's result as JSON.
//!
//! Always true here: what has no place in the program's sources has its address.

mod timeline;
mod wasted;

use std::collections::{BTreeMap, BTreeSet};

use perdure_linux::pools::{Pool, surviving};
use serde_json::{Value, json};
use twox_hash::XxHash3_64;

use super::campaign::words;
use super::cause::{Cause, Defect, Involved, WORD};
use super::costs::Costs;
use super::done::{Done, Outline};
use super::oracle::Wrong;
use super::places::{Place, innermost};
use super::record::Reason;
use super::recovery::End;
use super::uncut::Surveyed;
use super::{Asked, replay};
use crate::error::Error;
use crate::hexadecimal;
use crate::observer::Observer;

/// The whole result, with what was seen of the first run.
pub fn of(
    asked: &Asked,
    surveyed: &Surveyed,
    schedules: u64,
    done: &Done,
    observer: &dyn Observer,
) -> Result<Value, Error> {
    let recorder = &surveyed.recorder;
    let pools = surviving(&recorder.durable.addresses(), &mut |address, buffer| {
        recorder.durable.read(address, buffer);
    });
    let pools = pools.unwrap_or_default();
    let mut bugs = bugs(done, &pools);
    number_ids(&mut bugs);
    let wasted = wasted::of(asked, surveyed, done, observer)?;
    let notices = notices(surveyed, done, &wasted);
    Ok(json!({
        "program": asked.request.program,
        "model": asked.model,
        "machine": asked.request.machine,
        "seed": asked.seed(),
        "uncut": {
            "instructions": surveyed.life.instructions,
            "stores": recorder.stores,
            "flushes": recorder.flushes,
            "fences": recorder.fences,
            "operations": recorder.operations.len(),
            "schedules": schedules,
            "costs": wasted.costs.as_ref().map(Costs::to_json),
        },
        "points": {
            "found": done.planned,
            "call_stacks": done.stacks.len(),
            "explored": done.points,
            "exhaustively": done.exhaustive,
            "in_recoveries": done.inner_points,
            "by_orders": done.ordered,
            "not_compared": done.unjudged + done.not_compared.values().sum::<u64>(),
        },
        "states": {
            "run": done.states,
            "wrong": done.failing,
            "instructions": done.instructions,
            "coverage": done.mean_coverage(),
        },
        "bugs": bugs,
        "unexplained": done.unexplained,
        "waste": wasted.to_json(),
        "machines": done.rounds,
        "on_machine": done.on_machine,
        "notices": notices,
        "limited": done.limited,
        "interrupted": done.interrupted,
    }))
}

/// What else there is to say.
fn notices(surveyed: &Surveyed, done: &Done, wasted: &wasted::Report) -> Vec<String> {
    let mut notices = done.notices.clone();
    let stores = (done.causes.values()).flat_map(|(cause, _)| cause.involved());
    let places = stores.map(|one| &one.stack).chain(wasted.stacks.values());
    notices.extend(nameless(places.flatten()));
    notices.extend(unsynchronised(surveyed));
    if done.unjudged > 0 {
        notices.push(format!(
            "at {} failure points several operations were under way: the dump was not compared there",
            done.unjudged
        ));
    }
    notices.extend(done.not_compared.iter().map(|(missing, count)| {
        format!(
            "at {count} failure points {}: what is shown there was not held against the program",
            missing.words()
        )
    }));
    notices
}

/// All bugs.
fn bugs(done: &Done, pools: &[Pool]) -> Vec<Value> {
    // Instructions that one line of the source was compiled to are one cause.
    let mut causes: BTreeMap<String, (&Cause, BTreeSet<&Outline>)> = BTreeMap::new();
    for (cause, outlines) in done.causes.values() {
        let places: BTreeSet<String> = (cause.blamed().iter())
            .map(|one| match innermost(&one.stack) {
                Some(place) => json!([place.function, place.file, place.line]).to_string(),
                None => format!("{:#x}", one.store.at.pc),
            })
            .collect();
        let key = json!([cause.in_recovery.is_some(), cause.lost.is_empty(), places]);
        let one = causes.entry(key.to_string());
        one.or_insert((cause, BTreeSet::new())).1.extend(outlines);
    }
    (causes.values())
        .map(|(cause, outlines)| {
            let points = outlines.iter().flat_map(|outline| &done.outlines[*outline]);
            let points = points.collect::<BTreeSet<_>>().len() as u64;
            let symptoms: BTreeSet<&String> = outlines.iter().map(|(symptom, _)| symptom).collect();
            bug(cause, (points, &symptoms), pools)
        })
        .collect()
}

/// Says so if nothing that the program does makes its pools' names and lengths durable.
fn unsynchronised(surveyed: &Surveyed) -> Option<String> {
    let pools = surveyed.machine.kernel().unsynchronised_pools();
    (!pools.is_empty()).then(|| {
        format!(
            "{}: mapped without MAP_SYNC, and not synchronised (fsync, msync) since it was made or grew: after a power failure there may be no such file; cuts of the machine find none, models take it to be there",
            pools.join(", ")
        )
    })
}

/// Says so if the program has no names, or no lines.
fn nameless<'p>(places: impl Iterator<Item = &'p Place>) -> Option<String> {
    let (mut any, mut names, mut lines) = (false, false, false);
    for place in places {
        any = true;
        names |= place.function.is_some();
        lines |= place.line.is_some();
    }
    let (what, by) = match (any, names, lines) {
        (false, ..) | (_, _, true) => return None,
        (_, true, false) => ("debug information", "function"),
        (_, false, false) => ("symbols", "address"),
    };
    Some(format!(
        "the program has no {what}: places are shown by {by}; compile it with -g, and do not strip it"
    ))
}

/// Causes that are in the same functions are told apart by a number.
fn number_ids(bugs: &mut [Value]) {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for bug in bugs {
        let id = bug["id"].as_str().unwrap_or_default().to_owned();
        let count = counts.entry(id.clone()).or_default();
        *count += 1;
        if *count > 1 {
            bug["id"] = json!(format!("{id}-{count}"));
        }
    }
}

fn defect_name(defect: Defect) -> &'static str {
    match defect {
        Defect::MissingFlush => "missing-flush",
        Defect::FlushTooEarly => "flush-too-early",
        Defect::MissingFence => "missing-fence",
        Defect::WrongOrder => "wrong-order",
        Defect::Torn => "torn",
        Defect::NotRecoverable => "not-recoverable",
    }
}

fn bug(cause: &Cause, (points, symptoms): (u64, &BTreeSet<&String>), pools: &[Pool]) -> Value {
    let stores =
        |all: &[Involved]| -> Vec<Value> { (all.iter()).map(|one| store(one, pools)).collect() };
    let (lost, kept) = (stores(&cause.lost), stores(&cause.kept));
    let at = cause.stack.as_deref().unwrap_or_default();
    let mut functions = functions(cause.blamed());
    if let (Some(place), true) = (innermost(at), functions.is_empty()) {
        functions.extend(place.function.clone());
    }
    let name = json!([defect_name(cause.defect), functions]).to_string();
    json!({
        "id": format!("{:016x}", XxHash3_64::oneshot(name.as_bytes())),
        "defect": defect_name(cause.defect),
        "symptom": cause.wrong.symptom(),
        "detail": detail(&cause.wrong, pools),
        "lost": lost,
        "kept": kept,
        "point": {
            "number": cause.point,
            "reason": reason(cause.reason),
            "operation": cause.operation,
            "instruction": cause.at.retired,
            "instructions": cause.cut.is_none().then_some(cause.until.instructions),
            "operations": cause.until.operations,
            "place": innermost(at),
            "stack": at,
            "in_recovery": cause.in_recovery.as_ref().map(|(which, ..)| which.name()),
        },
        "timeline": timeline::of(cause, pools),
        "symptoms": symptoms,
        "points": points,
        "state": replay::state_of(cause).to_string(),
        "cut": cause.cut.as_ref().map(|cut| cut.to_json()),
        "on_machine": cause.seen.map(|sought| json!({"cuts": sought.cuts, "seen": sought.seen})),
    })
}

/// The functions that stores are in.
fn functions(stores: &[Involved]) -> BTreeSet<String> {
    let name = |one: &Involved| {
        let place = innermost(&one.stack);
        let function = place.and_then(|place| place.function.as_ref().or(Some(&place.pc)));
        function.cloned().unwrap_or_default()
    };
    stores.iter().map(name).collect()
}

fn reason(reason: Reason) -> Value {
    match reason {
        Reason::Fence => json!("fence"),
        Reason::Flush => json!("flush"),
        Reason::Operation(number) => json!(format!("operation {number} begins")),
        Reason::End => json!("end"),
        Reason::Cut(cycle) => json!(format!("cut at cycle {cycle}")),
    }
}

fn detail(wrong: &Wrong, pools: &[Pool]) -> Vec<String> {
    match wrong {
        Wrong::End(_, end @ (End::Signal { .. } | End::NotStarted(_))) => vec![words(end)],
        Wrong::End(..) => Vec::new(),
        Wrong::Violated { said } => said.lines().map(str::to_owned).collect(),
        Wrong::Shows { .. } => wrong.difference(),
        Wrong::Torn { start, bytes } => {
            let place = within(pools, *start);
            let place = place.map_or_else(String::new, |(name, at)| format!(" at {name}+{at:#x}"));
            vec![format!("{bytes} bytes{place}")]
        }
    }
}

fn store(one: &Involved, pools: &[Pool]) -> Value {
    let offset = one.store.mask.trailing_zeros() as usize;
    let (durable, newest) = (&one.bytes[0], &one.bytes[1]);
    let word = |at: usize| {
        let of = |bytes: &[u8]| hexadecimal::of(&bytes[at..at + WORD]);
        json!({"offset": at, "part": one.parts.get(&at), "found": of(durable), "newest": of(newest)})
    };
    let differing: Vec<Value> = one.differing().map(word).collect();
    let place = within(pools, one.line + offset as u64);
    json!({
        "place": innermost(&one.stack),
        "stack": one.stack,
        "by_kernel": one.store.at.by_kernel,
        "instruction": one.store.at.retired,
        "pool": place.as_ref().map(|(name, _)| name),
        "offset": place.map(|(_, offset)| offset),
        "bytes": one.store.mask.count_ones(),
        "stores_lost": one.lost,
        "behind": one.behind,
        "durable_at": one.durable_at,
        "words": differing,
    })
}

/// The pool that has a physical address, and where.
fn within(pools: &[Pool], address: u64) -> Option<(String, u64)> {
    const PAGE: u64 = perdure_linux::PAGE_BYTES;
    pools.iter().find_map(|pool| {
        let extents = pool.extents.iter();
        let mut inside = extents.filter_map(|extent| {
            let start = extent.frame * PAGE;
            let offset = address.checked_sub(start)?;
            (offset < extent.pages * PAGE).then_some(extent.page * PAGE + offset)
        });
        Some((pool.name.clone(), inside.next()?))
    })
}
