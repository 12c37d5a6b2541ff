//! What SPMS counts.

perdure_hardware::counters! {
    /// The counters.
    pub struct Counters {
        strands_begun, "spms.strands.begun", "strands", "strands that took an entry of the SGST";
        strands_empty, "spms.strands.empty", "strands", "strands that ended without a store to persistent memory";
        strands_committed, "spms.strands.committed", "strands", "strands that were committed";
        strands_open, "spms.strands.open", "strands", gauge "strands that nobody has ended yet; what they stored is lost with the power";
        strands_waiting, "spms.strands.waiting", "strands", gauge "strands that have ended and are not committed";
        lines, "spms.lines", "lines", "first stores of a strand to a line";
        groups, "spms.groups", "groups", "strand groups that were committed";
        groups_of_1, "spms.groups.of_1", "groups", "of these, those of one strand";
        groups_of_2, "spms.groups.of_2", "groups", "of two";
        groups_of_4, "spms.groups.of_4", "groups", "of 3 and 4";
        groups_of_16, "spms.groups.of_16", "groups", "of 5 to 16";
        groups_of_more, "spms.groups.of_more", "groups", "of more";
        group_largest, "spms.groups.largest", "strands", gauge "strands of the largest of them";
        merges, "spms.merges", "merges", "groups that became one";
        merges_in_buffer, "spms.merges.in_buffer", "merges", "of these, those where a strand stored to another's line that was in the strand buffer";
        merges_by_loads, "spms.merges.by_loads", "merges", "because a strand loaded from another's line (spms.order)";
        lag_median_cycles, "spms.lag.median", "cycles", gauge "time from a strand's end to its commit: half of them took less, within an eighth";
        lag_p99_cycles, "spms.lag.p99", "cycles", gauge "99 in 100 took less, within an eighth";
        lag_worst_cycles, "spms.lag.worst", "cycles", gauge "the longest";
        forced_walks, "spms.forced.walks", "walks", "walks over the tags of the caches because no entry, or no identifier, was free";
        forced_lines, "spms.forced.lines", "lines", "lines that they, and instructions that wait for strands, evicted";
        folded, "spms.folded", "strands", "strands whose entry was given up to an active one of their group, so that the table has room";
        arrivals, "spms.buffer.arrivals", "lines", "lines that the strand buffer got";
        coalesced, "spms.buffer.coalesced", "lines", "of these, those whose strand's group had the line there already";
        superseded, "spms.buffer.superseded", "lines", "committed lines that never went home because a newer version was committed";
        drained, "spms.buffer.drained", "lines", "committed lines that were written home";
        reads, "spms.buffer.reads", "reads", "misses that the strand buffer answered";
        occupied_peak, "spms.buffer.peak", "lines", gauge "most lines in the strand buffer";
        waits, "spms.buffer.waits", "lines", "lines that waited until a committed one had gone home";
        log_lines, "spms.log.lines", "lines", "lines that found the strand buffer full of uncommitted ones, and went to the overflow log";
        log_reads, "spms.log.reads", "reads", "misses that were answered from the overflow log";
        log_peak, "spms.log.peak", "lines", gauge "most lines in the overflow log";
        energy_peak_bytes, "spms.energy_peak", "bytes", gauge "most bytes that the capacitors would have had to write, had the power failed then";
        sync_waits, "spms.sync_waits", "instructions", "instructions that waited for strands";
    }
    equal(groups, groups_of_1 + groups_of_2 + groups_of_4 + groups_of_16 + groups_of_more);
    at_most(coalesced, arrivals);
    at_most(merges_in_buffer + merges_by_loads, merges);
    at_most(groups, strands_committed);
}
