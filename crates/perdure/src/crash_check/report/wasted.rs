//! What was done for nothing, line by line of the source, with what it cost.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Asked, Done, Error, Observer, Surveyed, innermost};
use crate::crash_check::Model;
use crate::crash_check::costs::Costs;
use crate::crash_check::uncut::Stacks;
use crate::crash_check::unread::Read;
use crate::crash_check::waste::Wasted;

/// At an instruction.
struct Row {
    what: Wasted,
    /// Times, or bytes that are never read.
    count: u64,
    /// What was retired before the first time.
    first: u64,
    cycles: Option<u64>,
}

/// Everything that was done for nothing.
pub struct Report {
    rows: Vec<Row>,
    /// Where, by what was retired before it.
    pub stacks: Stacks,
    /// What the program cost, if it was measured.
    pub costs: Option<Costs>,
}

/// That of a run.
pub fn of(
    asked: &Asked,
    surveyed: &Surveyed,
    done: &Done,
    observer: &dyn Observer,
) -> Result<Report, Error> {
    let times = &surveyed.recorder.waste.times;
    let take_time = times.iter().filter(|((what, _), _)| what.takes_time());
    let moments: BTreeSet<(u64, u64)> = take_time
        .flat_map(|((_, pc), times)| times.iter().map(|&retired| (retired, *pc)))
        .collect();
    let costs = if done.interrupted {
        None
    } else {
        Costs::measure(asked, surveyed.life.instructions, moments, observer)?
    };
    let mut rows: Vec<Row> = Vec::new();
    for (&(what, pc), times) in times {
        let costs = costs.as_ref().filter(|_| what.takes_time());
        rows.push(Row {
            what,
            count: times.len() as u64,
            first: times[0],
            cycles: costs.and_then(|costs| costs.of(pc, times)),
        });
    }
    let mut read: Read = surveyed.recorder.read.clone();
    read.merge(&done.read);
    // Who cuts the machine has not looked at what recoveries read.
    let looked = asked.model != Model::Machine;
    let unread = surveyed.recorder.stored.unread(&read).into_iter();
    let unread = unread.filter(|_| looked);
    rows.extend(unread.map(|(storing, bytes)| Row {
        what: Wasted::NeverRead,
        count: bytes,
        first: storing.retired,
        cycles: None,
    }));
    let stacks = surveyed.uncut.stacks(rows.iter().map(|row| row.first))?;
    Ok(Report {
        rows,
        stacks,
        costs,
    })
}

impl Report {
    /// The rows.
    pub fn to_json(&self) -> Vec<Value> {
        let mut lines: BTreeMap<(Wasted, String), Row> = BTreeMap::new();
        for row in &self.rows {
            // The places of an instruction that was compiled several times are one line.
            let place = self
                .stacks
                .get(&row.first)
                .and_then(|stack| innermost(stack));
            let line = place.map(|place| match place.line {
                Some(_) => json!([place.function, place.file, place.line]),
                None => json!(place),
            });
            let one = lines.entry((row.what, json!(line).to_string()));
            let one = one.or_insert(Row {
                count: 0,
                cycles: None,
                ..*row
            });
            one.count += row.count;
            one.cycles = match (one.cycles, row.cycles) {
                (Some(some), Some(more)) => Some(some + more),
                (one, other) => one.or(other),
            };
        }
        let rows = lines.into_values().map(|row| {
            let stack = self.stacks.get(&row.first);
            json!({
                "what": row.what.word(),
                "count": row.count,
                "cycles": row.cycles,
                "place": stack.and_then(|stack| innermost(stack)),
                "stack": stack,
            })
        });
        rows.collect()
    }
}
