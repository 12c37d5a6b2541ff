//! What the mapping offers for time-travel reads (§V-E): every retained epoch, from NVM bytes alone. It
//! reads all indexes, whose checksums must be right.

use perdure_hardware::line::LINE_BYTES;

use super::delta::deltas;
use super::format::{ChainReader, Register, Segment, Slot, UNIT_BYTES, Visit, line_number};
use crate::snapshots::{Contents, Nvm, SnapshotSource, StoreError, Version};
use crate::surviving::Corruption;

/// Of the mapping.
pub const SNAPSHOTS: SnapshotSource = SnapshotSource {
    contents,
    deltas: |nvm, after, through| deltas(nvm, &Register::read(nvm)?, after, through),
    needed,
};

fn contents(nvm: &Nvm) -> Result<Contents, StoreError> {
    let register = Register::read(nvm)?;
    let held = register.horizon..=register.recoverable;
    let lines = register.pool.end.checked_sub(register.pool.start);
    let lines = lines.map(|bytes| bytes / LINE_BYTES as u64);
    if held.is_empty() || lines.is_none_or(|lines| lines > 1 << 32) {
        let what = "registers that make no sense";
        let address = register.address();
        return Err(Corruption { what, address }.into());
    }
    let mut versions = Vec::new();
    for (omc, chains) in register.chains.iter().enumerate() {
        ChainReader::new(nvm, &register, omc).walk(chains, |visit| {
            if let Visit::Segment(segment) = visit {
                versions.extend(versions_in(&segment, register.pool.start));
            }
            Ok(())
        })?;
    }
    Ok(Contents {
        held,
        memory_end: register.pool.start,
        versions,
    })
}

/// Index blocks, and the lines of segments.
fn needed(nvm: &Nvm, show: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError> {
    let register = Register::read(nvm)?;
    for (omc, chains) in register.chains.iter().enumerate() {
        ChainReader::new(nvm, &register, omc).walk(chains, |visit| {
            match visit {
                Visit::Block(block) => show(block.address, u64::from(block.units) * UNIT_BYTES),
                Visit::Segment(segment) => {
                    for version in versions_in(&segment, register.pool.start) {
                        show(version.address, LINE_BYTES as u64);
                    }
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The versions that a segment of a pool holds.
pub fn versions_in(segment: &Segment, pool_start: u64) -> impl Iterator<Item = Version> {
    let page = segment.page;
    let start = pool_start + u64::from(segment.unit) * UNIT_BYTES;
    let slots = segment.slots().enumerate();
    slots.filter_map(move |(at, slot)| {
        let Slot {
            line,
            writer,
            epoch,
        } = slot?;
        Some(Version {
            line: line_number(page, line),
            epoch,
            address: start + (at * LINE_BYTES) as u64,
            writer,
        })
    })
}
