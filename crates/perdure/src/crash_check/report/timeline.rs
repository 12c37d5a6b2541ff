//! A bug in the order in which it happens: its stores, the flushes and fences around them, and power fails.
//!
//! Always true here: stores are named by their places among all that a bug has lost and kept, in this order.

use std::collections::BTreeSet;

use perdure_linux::pools::Pool;
use serde_json::{Value, json};

use super::super::cause::{Cause, Defect, Involved};
use super::super::places::{Place, innermost};
use super::super::windows::Event;
use super::within;
use crate::functional::At;

/// What comes first of what the same instruction does, or is to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// It belongs before that.
    Before,
    Store,
    /// It belongs behind the store.
    Behind,
    Event,
    /// It belongs behind the flush.
    Afterwards,
    Power,
}

/// Something that happens, when.
type Moment = (u64, Turn, Value);

/// All of it.
pub fn of(cause: &Cause, pools: &[Pool]) -> Vec<Value> {
    let stores: Vec<&Involved> = cause.involved().collect();
    let mut moments: Vec<Moment> = Vec::new();
    for (number, one) in stores.iter().enumerate() {
        let kind = if number < cause.lost.len() {
            "lost"
        } else {
            "kept"
        };
        let place = innermost(&one.stack);
        let mut value = moment(kind, &one.store.at, &[number], place);
        let offset = u64::from(one.store.mask.trailing_zeros());
        locate(&mut value, one.line + offset, pools);
        moments.push((one.store.at.retired, Turn::Store, value));
    }
    moments.extend(events(cause, &stores, pools));
    moments.extend(missing(cause));
    let place = innermost(cause.stack.as_deref().unwrap_or_default());
    let power = moment("power", &cause.at, &[], place);
    moments.push((cause.at.retired, Turn::Power, power));
    moments.sort_by_key(|(retired, turn, _)| (*turn == Turn::Power, *retired, *turn));
    moments.into_iter().map(|(.., value)| value).collect()
}

fn moment(kind: &str, at: &At, stores: &[usize], place: Option<&Place>) -> Value {
    json!({
        "kind": kind,
        "instruction": at.retired,
        "thread": at.thread.0,
        "place": place,
        "caller": null,
        "by": null,
        "waits": null,
        "times": null,
        "stores": stores,
        "pool": null,
        "offset": null,
    })
}

fn locate(value: &mut Value, address: u64, pools: &[Pool]) {
    if let Some((pool, offset)) = within(pools, address) {
        (value["pool"], value["offset"]) = (json!(pool), json!(offset));
    }
}

/// Flushes of the stores' lines and fences, from the first store on, or from the flush that came too early.
fn events(cause: &Cause, stores: &[&Involved], pools: &[Pool]) -> Vec<Moment> {
    let lines: BTreeSet<u64> = stores.iter().map(|one| one.line).collect();
    let first = stores.iter().map(|one| one.store.at.retired).min();
    // Those around other stores were looked for, too, in case they were told with these.
    let is_told = |event: &&Event| {
        let concerns = event.line.is_none_or(|line| lines.contains(&line));
        let is_early = cause.defect == Defect::FlushTooEarly;
        concerns && (is_early || first.is_some_and(|first| event.at.retired >= first))
    };
    let value = |event: &Event| {
        let kind = event.line.map_or("fence", |_| "flush");
        let of_line =
            |(number, one): (usize, &&Involved)| (Some(one.line) == event.line).then_some(number);
        let numbers: Vec<usize> = (stores.iter().enumerate()).filter_map(of_line).collect();
        let numbers = if event.times.is_some() {
            Vec::new()
        } else {
            numbers
        };
        let mut value = moment(kind, &event.at, &numbers, event.places.first());
        value["caller"] = json!(event.places.get(1));
        value["by"] = json!(event.by);
        value["waits"] = json!(event.waits);
        value["times"] = json!(event.times);
        if let (Some(line), None) = (event.line, event.times) {
            locate(&mut value, line, pools);
        }
        (event.at.retired, Turn::Event, value)
    };
    cause.events.iter().filter(is_told).map(value).collect()
}

/// What is not there, where it would go, as far as that is known.
fn missing(cause: &Cause) -> Vec<Moment> {
    let lost: Vec<usize> = (0..cause.lost.len()).collect();
    let made = |one: &&Involved| one.store.at.retired;
    let of_lost = || cause.lost.iter().map(|one| one.store.at.retired);
    // What is kept is stored before all that is lost, or behind it.
    let early = || (cause.kept.iter()).filter(|one| Some(made(one)) < of_lost().min());
    let later = || (cause.kept.iter()).filter(|one| Some(made(one)) > of_lost().max());
    match cause.defect {
        Defect::MissingFlush | Defect::FlushTooEarly => (cause.lost.iter().enumerate())
            .map(|(number, one)| {
                let value = moment("missing-flush", &one.last, &[number], one.behind.as_ref());
                (one.last.retired, Turn::Behind, value)
            })
            .collect(),
        Defect::MissingFence => {
            let next = later().min_by_key(made);
            match next.and_then(|next| flushed_by_another(cause, next)) {
                Some(flush) => {
                    let value = moment("missing-fence", &flush.at, &lost, nearest(cause, flush));
                    vec![(flush.at.retired, Turn::Afterwards, value)]
                }
                None => before("missing-fence", &lost, next),
            }
        }
        Defect::WrongOrder => {
            let mut missing = before("missing-order", &lost, early().min_by_key(made));
            let next = later().min_by_key(made);
            missing.extend(before("missing-flush-and-fence", &lost, next));
            missing
        }
        Defect::Torn | Defect::NotRecoverable => Vec::new(),
    }
}

/// The last flush of a lost store, where another thread made it than the store that is found without it: a
/// fence of that one would not wait.
fn flushed_by_another<'c>(cause: &'c Cause, next: &Involved) -> Option<&'c Event> {
    let covers = |event: &&Event| {
        let is_lost = |one: &Involved| {
            Some(one.line) == event.line && one.store.at.retired < event.at.retired
        };
        event.times.is_none() && cause.lost.iter().any(is_lost)
    };
    let last = cause.events.iter().rfind(covers);
    last.filter(|flush| flush.at.thread != next.store.at.thread)
}

/// Where a flush is in the function that made the store, or whoever called for it.
fn nearest<'c>(cause: &'c Cause, flush: &'c Event) -> Option<&'c Place> {
    let stored = cause.lost.first().and_then(|one| innermost(&one.stack));
    let is_there = |place: &&Place| stored.is_some_and(|one| one.function == place.function);
    (flush.places.iter().find(is_there)).or(flush.places.first())
}

/// What belongs before a store, if there is one.
fn before(kind: &str, lost: &[usize], next: Option<&Involved>) -> Vec<Moment> {
    let next = next.into_iter();
    next.map(|one| {
        let value = moment(kind, &one.store.at, lost, None);
        (one.store.at.retired, Turn::Before, value)
    })
    .collect()
}
