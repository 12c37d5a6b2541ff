//! Whether the machine comes to the states in which models say that recovery fails.
//!
//! Always true here: a state is seen where a cut loses each store that the bug loses, keeps those that it
//! keeps, and recovery goes wrong on what that cut has left.

use std::collections::BTreeSet;

use perdure_hardware::random::Random;
use perdure_hardware::time::Cycles;
use perdure_hardware::watched::{Heard, Ordered};

use super::super::cause::{Cause, Involved};
use super::super::done::Done;
use super::session::{Judged, Session};
use super::swarm::{at, within};
use super::timed::When;
use crate::error::Error;

/// How often a state was sought near its point, and how often it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sought {
    /// Cuts.
    pub cuts: u64,
    /// Those that were in it.
    pub seen: u64,
}

/// Seeks the states of all causes by so many cuts each.
pub fn seek(session: &Session, (cuts, seed): (u64, u64), done: &mut Done) -> Result<(), Error> {
    // Two failures in a row are another question, which cuts of one life do not answer.
    let sought = |cause: &Cause| cause.in_recovery.is_none();
    let windows = Windows::of(session, (done.causes.values()).map(|(cause, _)| cause));
    let mut moments: Vec<(When, usize)> = Vec::new();
    for (number, (cause, _)) in done.causes.values().enumerate() {
        if !sought(cause) {
            continue;
        }
        let mut random =
            Random::new(seed ^ (number as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03));
        let windows = windows.of_cause(cause);
        for _ in 0..cuts {
            let window = windows[random.below(windows.len() as u64) as usize];
            let cycle = within(&mut random, window).clamp(1, session.run.end.max(1));
            moments.push((at(cycle, seed), number));
        }
    }
    moments.sort_unstable();
    let (judged, _) = session.judge(&moments.iter().map(|(when, _)| *when).collect::<Vec<_>>())?;
    let mut found: Vec<Sought> = vec![Sought { cuts: 0, seen: 0 }; done.causes.len()];
    let all: Vec<&Cause> = done.causes.values().map(|(cause, _)| cause).collect();
    for (one, (_, number)) in judged.iter().zip(&moments) {
        found[*number].cuts += 1;
        found[*number].seen += u64::from(is_state_of(one, all[*number]));
    }
    for (number, (cause, _)) in done.causes.values_mut().enumerate() {
        if sought(cause) {
            cause.seen = Some(found[number]);
        }
    }
    Ok(())
}

/// The instructions that made stores.
fn instructions(stores: &[Involved]) -> BTreeSet<u64> {
    stores.iter().map(|one| one.store.at.pc).collect()
}

/// Whether a cut has left the state of a cause, and recovery goes wrong there.
fn is_state_of(judged: &Judged, cause: &Cause) -> bool {
    let (mut lost, mut kept) = (BTreeSet::new(), BTreeSet::new());
    for (line, history) in &judged.point.lines {
        let stores = history.stores.iter().map(|store| store.at.pc);
        if judged.left.lost.contains_key(line) {
            lost.extend(stores);
        } else {
            kept.extend(stores);
        }
    }
    let is_kept = |pc: &u64| kept.contains(pc) || !lost.contains(pc);
    judged.failed.is_some()
        && instructions(&cause.lost).is_subset(&lost)
        && instructions(&cause.kept).iter().all(is_kept)
}

/// When stores of some instructions were made and not yet durable.
struct Windows {
    /// By line, instruction and operation: from when to when.
    flights: Vec<(u64, u64, Option<u64>, [Cycles; 2])>,
    /// Operations, by the program's numbers.
    operations: Vec<(u64, [Cycles; 2])>,
    end: Cycles,
}

impl Windows {
    /// Of the stores that these causes blame.
    fn of<'c>(session: &Session, causes: impl Iterator<Item = &'c Cause>) -> Self {
        let blamed: BTreeSet<u64> = causes
            .flat_map(|cause| instructions(cause.blamed()))
            .collect();
        let end = session.run.end;
        let (mut flights, mut moments) = (Vec::new(), Vec::new());
        let mut operations: Vec<(u64, [Cycles; 2])> = Vec::new();
        let mut open: Vec<(usize, usize)> = Vec::new();
        for (moment, heard) in session.run.log.iter().enumerate() {
            match *heard {
                Heard::Stored {
                    hart,
                    line,
                    at,
                    writer,
                    ..
                } => {
                    let pc = writer.instruction.map_or(0, |(_, address)| address);
                    if blamed.contains(&pc) {
                        let operation = open.iter().find(|(of, _)| *of == hart);
                        let operation = operation.map(|&(_, number)| operations[number].0);
                        let address = line * perdure_hardware::line::LINE_BYTES as u64;
                        flights.push((address, pc, operation, [at, end]));
                        moments.push(moment as u64);
                    }
                }
                Heard::Ordered(Ordered::Said {
                    hart,
                    at,
                    what: (0, [number, _]),
                }) => {
                    open.push((hart, operations.len()));
                    operations.push((number, [at, end]));
                }
                Heard::Ordered(Ordered::Said {
                    hart,
                    at,
                    what: (1, _),
                }) => {
                    open.retain(|&(of, number)| {
                        if of == hart {
                            operations[number].1[1] = at;
                        }
                        of != hart
                    });
                }
                _ => {}
            }
        }
        let fates = session.fates(moments.iter().copied().collect());
        for (flight, moment) in flights.iter_mut().zip(&moments) {
            if let Some((_, cycle)) = fates.get(moment) {
                flight.3[1] = *cycle;
            }
        }
        Self {
            flights,
            operations,
            end,
        }
    }

    /// Where the state of a cause may be: while its first blamed store was under way, in the same operation
    /// and line if there is such a one; else while its operation was; else at any time.
    fn of_cause(&self, cause: &Cause) -> Vec<[Cycles; 2]> {
        if let Some(first) = cause.blamed().first() {
            let of = |line: Option<u64>, operation: Option<Option<u64>>| -> Vec<[Cycles; 2]> {
                let flights = self.flights.iter().filter(|(of, pc, within, _)| {
                    *pc == first.store.at.pc
                        && line.is_none_or(|line| line == *of)
                        && operation.is_none_or(|operation| operation == *within)
                });
                flights.map(|(.., window)| *window).collect()
            };
            let operation = Some(cause.operation);
            let nearest = [
                of(Some(first.line), operation),
                of(None, operation),
                of(None, None),
            ];
            if let Some(windows) = nearest.into_iter().find(|windows| !windows.is_empty()) {
                return windows;
            }
        }
        let operations =
            (self.operations.iter()).filter(|(number, _)| Some(*number) == cause.operation);
        let windows: Vec<[Cycles; 2]> = operations.map(|(_, window)| *window).collect();
        if windows.is_empty() {
            vec![[1, self.end]]
        } else {
            windows
        }
    }
}
