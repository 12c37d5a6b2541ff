//! Writes of more than a row: for designs whose records and blocks are to work with rows of any
//! size. Where lines are dealt out to banks, a row is a line.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::memory::{Accepted, Traffic};
use perdure_hardware::time::Cycles;

/// Writes bytes row by row, none of them before `not_before`. The whole is accepted with its last
/// piece, and durable when all pieces are. A power cut leaves any mixture of whole, torn and missing
/// pieces, so what reads the bytes back must have a checksum over all of them.
pub fn write(
    hardware: &mut Hardware,
    address: u64,
    bytes: &[u8],
    traffic: Traffic,
    now: Cycles,
    not_before: Cycles,
) -> Accepted {
    let row_bytes = hardware.specification.nvm.row_bytes;
    let Hardware {
        memory, statistics, ..
    } = hardware;
    let mut done = Accepted::at(now);
    let (mut at, mut rest) = (address, bytes);
    while !rest.is_empty() {
        let room = row_bytes - at as usize % row_bytes;
        let (piece, after) = rest.split_at(room.min(rest.len()));
        // The sender hands the next piece over when this one was accepted.
        let one = memory.write_block(at, piece, traffic, done.accepted, not_before, statistics);
        done.accepted = one.accepted;
        done.durable = one.durable.max(done.durable);
        at += piece.len() as u64;
        rest = after;
    }
    done
}
