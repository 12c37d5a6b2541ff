//! When the undo log is full (ours; the paper lets it grow).
//!
//! Always true here: what is left of a full log is enough for all that is written to it before the machine
//! has stopped, unless its limit is only a few blocks.

use super::Parameters;
use super::log::SUPER_BLOCK_BYTES;

/// How much of the log is live when it counts as full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// From here on epochs end early, so that it expires.
    pub nearly_bytes: u64,
    /// Here the machine waits for that: what is left is for harts that have not stopped yet.
    pub bytes: u64,
}

impl Full {
    /// The log of a machine with so many harts.
    pub fn of(parameters: &Parameters, harts: usize) -> Self {
        let limit_bytes = parameters.log_limit_bytes;
        // An access that a hart is within evicts at two levels, the scan adds two blocks, and the log
        // knows its next two places. The machine is asked to wait when a super-block begins.
        let blocks = 2 * harts as u64 + 4;
        let needed = SUPER_BLOCK_BYTES + blocks * parameters.undo_buffer_bytes as u64;
        let needed = needed.next_multiple_of(SUPER_BLOCK_BYTES);
        let reserve = (limit_bytes / 16).max(needed).min(limit_bytes / 8 * 3);
        Self {
            nearly_bytes: limit_bytes - 2 * reserve,
            bytes: limit_bytes - reserve,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(log_limit_bytes: u64, undo_buffer_bytes: usize, harts: usize) -> [u64; 2] {
        let parameters = Parameters {
            undo_buffer_bytes,
            log_limit_bytes,
            ..Parameters::default()
        };
        let full = Full::of(&parameters, harts);
        [full.nearly_bytes, full.bytes]
    }

    #[test]
    fn a_large_log_keeps_a_sixteenth_and_a_small_one_what_harts_within_an_access_need() {
        assert_eq!(full(1 << 30, 2048, 16), [896 << 20, 960 << 20]);
        // Eight blocks of 2 KiB, and a super-block.
        assert_eq!(full(64 << 10, 2048, 2), [24 << 10, 44 << 10]);
        assert_eq!(full(16 << 10, 4096, 16), [4 << 10, 10 << 10]);
    }
}
