//! `NearPM_applylog`: the records of a redo log go home. A record has an entry's format ([`area`]), and a
//! device has it with its home.

use super::{Effect, Found, Operands, Operation, Plan, Site, copy};
use crate::bytes::overlap;
use crate::nearpm::area;
use crate::nearpm::command::Fault;

/// The records of the first operand go where they say.
pub const APPLY_LOG: Operation = Operation {
    opcode: 0x09,
    second_bytes: |_| 0,
    counter: |counters| &mut counters.applied,
    plan,
    effect,
};

fn plan(site: &mut Site, operands: &Operands) -> Result<Plan, Fault> {
    let (log, pool) = (&operands.first, &operands.pool);
    let mut plan = Plan::default();
    for own in site.geometry.own(site.device, log) {
        let mut at = own.start.next_multiple_of(area::LINE);
        while let Some(entry) = area::entry_at(at, own.end, site.read) {
            let size = entry.bytes.len() as u64;
            let to = pool.start.checked_add(entry.target).ok_or(Fault::Damaged)?;
            let end = to.checked_add(size).filter(|end| *end <= pool.end);
            let home = to..end.ok_or(Fault::Damaged)?;
            if overlap(&home, log) {
                return Err(Fault::Overlap);
            }
            let from = at + area::LINE;
            let steps = copy::steps(site.geometry, site.device, &(from..from + size), to)?;
            let homes = steps.iter();
            (plan.writes).extend(homes.map(|one| one.to..one.to + (one.from.end - one.from.start)));
            plan.steps.extend(steps);
            at = from + size.next_multiple_of(area::LINE);
        }
        // Where the operand begins, there is a record.
        if own.start == log.start && plan.steps.is_empty() {
            return Err(Fault::Damaged);
        }
    }
    Ok(plan)
}

fn effect(found: &mut Found, operands: &Operands) -> Effect {
    homes(found, operands).map_or(Effect::Unsaid, Effect::Leaves)
}

/// The bytes of all records, and where they belong; `None` if there is one that its device cannot apply,
/// which applies no other then.
fn homes(found: &mut Found, operands: &Operands) -> Option<Vec<(u64, Vec<u8>)>> {
    let (log, pool) = (&operands.first, &operands.pool);
    let mut homes = Vec::new();
    for piece in (found.pieces)(log) {
        let mut at = piece.start.next_multiple_of(area::LINE);
        while let Some(record) = area::entry_at(at, piece.end, found.read) {
            let start = pool.start.checked_add(record.target)?;
            let home = start..start.checked_add(record.bytes.len() as u64)?;
            let wrong = home.end > pool.end || overlap(&home, log);
            if wrong || !(found.together)(at, &home) {
                return None;
            }
            at += area::LINE + (record.bytes.len() as u64).next_multiple_of(area::LINE);
            homes.push((home.start, record.bytes));
        }
    }
    Some(homes)
}
