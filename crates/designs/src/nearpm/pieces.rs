//! What a command comes to on one device: the same for a device that works and for recovery.

use std::ops::Range;

use perdure_hardware::line::LINE_BYTES;

use super::area::{self, Area};
use super::command::Fault;
use super::geometry::Geometry;

/// A device's part of a copy. A piece whose bytes would go to another device is none.
pub(super) fn copy_pieces(
    geometry: &Geometry,
    device: usize,
    from: &Range<u64>,
    to: u64,
) -> Result<Vec<(Range<u64>, u64)>, Fault> {
    let mut pieces = Vec::new();
    for own in geometry.own(device, from) {
        let target = to + (own.start - from.start);
        let target = target..target + (own.end - own.start);
        let mut at = own.start;
        for piece in geometry.granules(&target) {
            if geometry.device(piece.start) != device {
                return Err(Fault::Crosses);
            }
            let length = piece.end - piece.start;
            pieces.push((at..at + length, piece.start));
            at += length;
        }
    }
    Ok(pieces)
}

/// The bytes of a redo log's records that a device has, and where they go. A record has an entry's format.
pub(super) fn redo_records(
    geometry: &Geometry,
    device: usize,
    log: &Range<u64>,
    pool: &Range<u64>,
    read: &mut dyn FnMut(u64, usize) -> Vec<u8>,
) -> Result<Vec<(Range<u64>, u64)>, Fault> {
    let mut records = Vec::new();
    for own in geometry.own(device, log) {
        let mut at = own.start.next_multiple_of(area::LINE);
        while let Some(entry) = area::entry_at(at, own.end, read) {
            let size = entry.bytes.len() as u64;
            let to = pool.start.checked_add(entry.target).ok_or(Fault::Damaged)?;
            let end = to.checked_add(size).filter(|end| *end <= pool.end);
            end.ok_or(Fault::Damaged)?;
            let from = at + area::LINE;
            records.extend(copy_pieces(geometry, device, &(from..from + size), to)?);
            at = from + size.next_multiple_of(area::LINE);
        }
        // Where the operand begins, there is a record.
        if own.start == log.start && records.is_empty() {
            return Err(Fault::Damaged);
        }
    }
    Ok(records)
}

/// What lays an empty log down.
pub(super) fn reset_writes(area: &Area, committed: u64) -> Vec<(u64, Vec<u8>)> {
    let mut header = vec![0; LINE_BYTES];
    header[..8].copy_from_slice(&area::HEADER_MAGIC.to_le_bytes());
    header[8..16].copy_from_slice(&committed.to_le_bytes());
    let firsts = [0, 1].map(|half| (area.half(half)[0].start, vec![0; LINE_BYTES]));
    firsts.into_iter().chain([(area.header, header)]).collect()
}
