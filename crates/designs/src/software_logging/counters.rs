//! What logging in software counts.

perdure_hardware::counters! {
    /// The counters.
    pub struct Counters {
        log_bytes_live_peak, "picl.log_live_peak", "bytes", gauge "most bytes of log that were live at once";
    }
}
