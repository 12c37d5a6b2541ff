//! What each epoch wrote, in order: what somebody who holds the memory of one epoch lacks of the next
//! ("incremental changes as redo logs", §V-E).
//!
//! It follows from NVM bytes alone, and costs what the wanted epochs are long: index chains run from
//! the newest epoch to the oldest, and the walk stops at the first that is held.

use super::format::{ChainReader, Register, Visit};
use super::store::versions_in;
use crate::snapshots::{Delta, Source};

/// The deltas that lead from the memory of epoch `after`, or from what memory was when snapshotting
/// began, to that of `through`: one for each epoch; but epochs up to the horizon, which were
/// compacted, come in one. None if `through` is not newer than what is held, or was compacted.
pub fn deltas<S: Source + ?Sized>(
    source: &S,
    register: &Register,
    after: Option<u64>,
    through: u64,
) -> Result<Vec<Delta>, S::Error> {
    let mut register = register.clone();
    let first = match after {
        Some(after) if after >= register.horizon => {
            // Neither the base nor what is held is walked.
            register.horizon = after;
            register
                .chains
                .iter_mut()
                .for_each(|chains| chains.base = 0);
            after + 1
        }
        _ => register.horizon,
    };
    let empty = |epoch| Delta {
        epoch,
        versions: Vec::new(),
    };
    let mut deltas: Vec<Delta> = (first..=through).map(empty).collect();
    if deltas.is_empty() {
        return Ok(deltas);
    }
    for (omc, chains) in register.chains.iter().enumerate() {
        ChainReader::new(source, &register, omc).walk(chains, |visit| {
            let Visit::Segment(segment) = visit else {
                return Ok(());
            };
            for version in versions_in(&segment, register.pool.start) {
                let epoch = version.epoch;
                if epoch <= through && after.is_none_or(|after| epoch > after) {
                    let delta = epoch.saturating_sub(first) as usize;
                    deltas[delta].versions.push(version);
                }
            }
            Ok(())
        })?;
    }
    for delta in &mut deltas {
        delta.versions.sort_unstable_by_key(|version| version.line);
    }
    Ok(deltas)
}
