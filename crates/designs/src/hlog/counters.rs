//! What Hlog counts.

perdure_hardware::counters! {
    /// The counters.
    pub struct Counters {
        opened, "hlog.wraps.opened", "wraps", "wraps that were opened";
        empty, "hlog.wraps.empty", "wraps", "wraps that were closed without a record";
        closed, "hlog.wraps.closed", "wraps", "wraps that were closed with records, and so are durable";
        retired, "hlog.wraps.retired", "wraps", "wraps whose words went home";
        open, "hlog.wraps.open", "wraps", gauge "wraps that nobody has closed yet; what they stored is lost with the power";
        close_cycles, "hlog.close_wait", "cycles", "time that closes took, from the instruction to its answer";
        records, "hlog.records", "records", "words whose records came to the controller";
        lines, "hlog.log.lines", "lines", "log lines with records that were written";
        lines_full, "hlog.log.full", "lines", "of these, those that were full";
        lines_at_close, "hlog.log.at_close", "lines", "those that a close sent";
        lines_early, "hlog.log.early", "lines", "those that were sent because their thread stopped running there, or a line of a record in them left the caches";
        log_waits, "hlog.log.waits", "lines", "log lines that waited for a place in the log";
        log_peak, "hlog.log.peak", "lines", gauge "most places of the log that were in use";
        headers, "hlog.log.headers", "headers", "headers that moved the head of the log";
        read_back, "hlog.buffer.read_back", "lines", "log lines that the controller's buffer had no room for, and were read back";
        buffer_peak, "hlog.buffer.peak", "lines", gauge "most log lines in the controller's buffer";
        homes, "hlog.homes", "lines", "lines at home that got words of a wrap";
        victims, "hlog.victims.arrivals", "lines", "lines that left the caches while wraps were open or not home";
        replaced, "hlog.victims.replaced", "lines", "of these, those of which an older one was held";
        drained, "hlog.victims.drained", "lines", "held lines that went home";
        merged, "hlog.victims.merged", "words", "words of wraps that went into a held line, too";
        reads, "hlog.victims.reads", "reads", "misses that the victim cache answered";
        victims_peak, "hlog.victims.peak", "lines", gauge "most lines in the victim cache";
        spilled, "hlog.spill.lines", "lines", "held lines that the victim cache had no room for, and went to memory";
        spill_reads, "hlog.spill.reads", "reads", "misses that were answered from there";
        spill_peak, "hlog.spill.peak", "lines", gauge "most held lines in memory";
    }
    equal(lines, lines_full + lines_at_close + lines_early);
    at_most(replaced, victims);
    at_most(spilled, victims);
}
