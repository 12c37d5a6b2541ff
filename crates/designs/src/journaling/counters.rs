//! What journaling counts.

perdure_hardware::counters! {
    /// The counters.
    pub struct Counters {
        redo_fills, "journaling.redo_fills", "reads", "misses answered by the redo buffer in place of the home address";
        superseded, "journaling.superseded", "lines", "evicted lines whose redo slot became worthless because a flush wrote newer bytes";
    }
}
