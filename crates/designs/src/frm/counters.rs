//! What FRM counts.

perdure_hardware::counters! {
    /// The counters.
    pub struct Counters {
        merged, "frm.merged", "evictions", "evictions that replaced the bytes of one still pending in the controller's buffer";
        buffer_wait_cycles, "frm.buffer_wait", "cycles", "time that evictions waited for an entry of the buffer";
        buffer_fills, "frm.buffer_fills", "lines", "misses answered by the buffer, without a read of the NVM";
        log_bytes_live_peak, "picl.log_live_peak", "bytes", gauge "most bytes of log that were live at once";
    }
}
