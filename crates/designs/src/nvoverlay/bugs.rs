//! Mistakes that one could really make in NVOverlay's frontend, some of which its published
//! simulator makes. Each is a switch; verification must catch each. The backend's are in `mnm`.

use perdure_hardware::policy::Reason;

crate::planted_bugs! {
    transfers_past_omc, "transfer-skips-omc", "a dirty line older than the receiver's last walked epoch is handed over without going to the OMC first";
    ignores_idle_group, "idle-domain-ignored", "the recoverable epoch is computed without the sharing groups whose tag walk is not finished, as if they were idle";
    store_keeps_oid, "store-keeps-oid", "a store to a line with a newer OID leaves the sharing group in its epoch, so the OID is not the larger of the two";
    load_ignores_response, "load-ignores-response", "a sharing group that reads a line of a newer epoch stays in its own";
    walks_past_l1, "walk-skips-l1", "the tag walker looks at the L2 only and leaves older dirty versions in the L1";
    sends_min_ver_at_start, "min-ver-at-start", "min-ver is sent to the OMC when the tag walk begins, not when it has finished";
    loses_store_eviction, "store-eviction-lost", "a newer version from the L1 overwrites an older dirty one in the L2, which never reaches the OMC";
    loses_downgrade, "downgrade-lost", "a version that leaves because another sharing group reads it goes to the last-level cache only";
    dumps_context_after_advance, "context-after-advance", "a sharing group's context is dumped with the number of the epoch that begins";
    sibling_keeps_epoch, "sibling-keeps-epoch", "an advance reaches only the first of the harts that share an L2; the others go on storing, in place, to lines of the epoch that ended";
    ignores_epoch_sense, "epoch-sense-ignored", "a version of the group of numbers that has just ended is taken for one of the group that began";
}

impl Flaws {
    /// A version that departs for that reason never reaches its OMC.
    pub fn loses(self, reason: Reason) -> bool {
        self.loses_store_eviction && reason == Reason::StoreEviction
            || self.loses_downgrade && reason == Reason::Downgrade
    }

    /// A sharing group that stores to a line of a newer epoch, or loads it, stays in its own.
    pub fn ignores_newer(self, write: bool) -> bool {
        self.load_ignores_response && !write || self.store_keeps_oid && write
    }
}
