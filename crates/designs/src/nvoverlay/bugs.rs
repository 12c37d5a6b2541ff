//! Mistakes that one could really make in NVOverlay's frontend, some of which its published
//! simulator makes. Each is a switch; verification must catch each. The backend's are in `mnm`.

use crate::design::planted_bugs;

planted_bugs! {
    TransferSkipsOmc, "transfer-skips-omc", "a dirty line older than the receiver's last walked epoch is handed over without going to the OMC first";
    IdleGroupIgnored, "idle-domain-ignored", "the recoverable epoch is computed without the sharing groups whose tag walk is not finished, as if they were idle";
    StoreKeepsOid, "store-keeps-oid", "a store to a line with a newer OID leaves the sharing group in its epoch, so the OID is not the larger of the two";
    LoadIgnoresResponse, "load-ignores-response", "a sharing group that reads a line of a newer epoch stays in its own";
    WalkSkipsL1, "walk-skips-l1", "the tag walker looks at the L2 only and leaves older dirty versions in the L1";
    MinVerAtStart, "min-ver-at-start", "min-ver is sent to the OMC when the tag walk begins, not when it has finished";
    StoreEvictionLost, "store-eviction-lost", "a newer version from the L1 overwrites an older dirty one in the L2, which never reaches the OMC";
    DowngradeLost, "downgrade-lost", "a version that leaves because another sharing group reads it goes to the last-level cache only";
    ContextAfterAdvance, "context-after-advance", "a sharing group's context is dumped with the number of the epoch that begins";
    SiblingKeepsEpoch, "sibling-keeps-epoch", "an advance reaches only the first of the harts that share an L2; the others go on storing, in place, to lines of the epoch that ended";
    SenseIgnored, "epoch-sense-ignored", "a version of the group of numbers that has just ended is taken for one of the group that began";
}
