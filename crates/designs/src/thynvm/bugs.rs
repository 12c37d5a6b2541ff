//! Mistakes that one could really make in `ThyNVM`. Each is a switch; verification must catch each.

use super::version::{Places, Versions};
crate::planted_bugs! {
    records_before_data, "record-before-data", "the commit record is written first, and then the tables that it counts";
    writes_copies_together, "record-copies-together", "both copies of the commit record are written at the same time";
    announces_at_end, "announce-at-epoch-end", "output leaves the machine when its epoch ends, not when the checkpoint is durable";
    overwrites_penultimate, "over-penultimate", "a working version is written over the penultimate checkpoint's while the last one is still in flight";
    overwrites_last, "over-last", "a working version is written over the last checkpoint's";
    copies_home_early, "copy-home-early", "idle versions are copied home when the epoch ends, before its checkpoint is durable";
    forgets_overflow, "overflow-forgotten", "a checkpoint's tables leave out the overflow list";
    lists_stale_entry, "stale-entry-listed", "a block that moved to its page stays in the tables that checkpoints list";
    copies_half_page, "half-page-copied", "a new version of a page starts with its first half only";
    fills_past_pages, "fill-skips-pages", "a miss looks for blocks and overflowed lines, never for pages";
    clean_up_forgets_rewritten, "clean-up-forgets-rewritten", "tables that are cleaned up leave out units that were copied home and written again since";
    brings_blocks_before_pages, "blocks-before-pages", "recovery brings blocks home before pages, whose older bytes win";
    clears_too_soon, "cleared-too-soon", "recovery records empty tables before it brings versions home";
    ignores_checksum, "checksum-ignored", "recovery takes a torn commit record for a whole one";
}

impl Flaws {
    /// The places of a unit that a write leaves alone: all that are needed, but for the flaws.
    pub fn spared(self, versions: &Versions, checkpoint_in_flight: bool) -> Places {
        if self.overwrites_penultimate && checkpoint_in_flight {
            versions.in_flight
        } else if self.overwrites_last && checkpoint_in_flight {
            versions.durable
        } else if self.overwrites_last {
            Places::NONE
        } else {
            versions.needed()
        }
    }
}
