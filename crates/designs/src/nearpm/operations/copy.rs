//! Copies: `NearPM_copy`, the micro-benchmark of figure 17, and `NearPM_shadowcpy`, of a page to its shadow.

use std::ops::Range;

use super::{Effect, Found, Makes, Operands, Operation, Plan, Site, Step};
use crate::bytes::overlap;
use crate::nearpm::command::Fault;
use crate::nearpm::geometry::Geometry;

/// Bytes go elsewhere.
pub const COPY: Operation = Operation {
    opcode: 0x06,
    second_bytes: |bytes| bytes,
    counter: |counters| &mut counters.copies,
    plan,
    effect,
};

/// A page goes to its shadow.
pub const SHADOW_COPY: Operation = Operation {
    opcode: 0x05,
    counter: |counters| &mut counters.shadows,
    ..COPY
};

fn plan(site: &mut Site, operands: &Operands) -> Result<Plan, Fault> {
    let from = &operands.first;
    let to = operands.second..operands.second + (from.end - from.start);
    if overlap(from, &to) {
        return Err(Fault::Overlap);
    }
    // Another device's part must be possible, too.
    let parts = (0..site.geometry.devices).map(|one| steps(site.geometry, one, from, to.start));
    let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
    Ok(Plan {
        steps: parts.swap_remove(site.device),
        writes: vec![to],
    })
}

fn effect(found: &mut Found, operands: &Operands) -> Effect {
    let bytes = operands.first.end - operands.first.start;
    let read = (found.read)(operands.first.start, bytes as usize);
    Effect::Leaves(vec![(operands.second, read)])
}

/// A device's part of a copy: pieces that lie together where they come from and where they go. One whose
/// bytes would go to another device is none.
pub(super) fn steps(
    geometry: &Geometry,
    device: usize,
    from: &Range<u64>,
    to: u64,
) -> Result<Vec<Step>, Fault> {
    let mut steps = Vec::new();
    for own in geometry.own(device, from) {
        let target = to + (own.start - from.start);
        let target = target..target + (own.end - own.start);
        let mut at = own.start;
        for piece in geometry.granules(&target) {
            if geometry.device(piece.start) != device {
                return Err(Fault::Crosses);
            }
            let length = piece.end - piece.start;
            steps.push(Step {
                from: at..at + length,
                to: piece.start,
                makes: Makes::Copy,
            });
            at += length;
        }
    }
    Ok(steps)
}
