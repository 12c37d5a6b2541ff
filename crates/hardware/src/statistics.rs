//! Every counter of the hardware, and of epochs.

crate::counters! {
    /// The hardware's counters. A design's own are its own.
    pub struct Statistics {
        l1i_accesses, "l1i.accesses", "accesses", "instruction-cache accesses: one for each basic block or line entered";
        l1i_misses, "l1i.misses", "accesses", "instruction-cache accesses that missed";
        l1d_accesses, "l1d.accesses", "accesses", "data-cache accesses by loads, stores and atomics, those of the kernel included";
        l1d_stores, "l1d.stores", "accesses", "data-cache accesses that wrote";
        l1d_misses, "l1d.misses", "accesses", "data-cache accesses whose line was not in the L1";
        l1d_upgrades, "l1d.upgrades", "accesses", "writes to a line held shared, which asked the directory for ownership";
        prefetches, "prefetcher.asked", "lines", "lines that L1D prefetchers asked for";
        prefetches_used, "prefetcher.used", "lines", "of these, the ones that were used";
        prefetches_regretted, "prefetcher.regretted", "accesses", "accesses whose own line was pushed out by what was asked for ahead, and that asked again";
        l2_accesses, "l2.accesses", "accesses", "L1 misses, instruction and data, that looked into the L2, and the prefetcher's";
        l2_misses, "l2.misses", "accesses", "of these, the ones that missed";
        l2_snoops, "l2.snoops", "snoops", "L1 copies that an L2 asked to give up or share a line, for another hart that uses it";
        llc_accesses, "llc.accesses", "accesses", "requests that reached the last-level cache";
        llc_misses, "llc.misses", "accesses", "of these, the ones that missed";
        llc_port_wait_cycles, "llc.port_wait", "cycles", "time that requests waited for a last-level cache port";
        snoops, "coherence.snoops", "snoops", "private copies asked to give up, share or clean a line";
        l2_write_backs, "l2.write_backs", "lines", "dirty lines that left a private cache for the last-level cache";
        llc_write_backs, "llc.write_backs", "lines", "dirty lines evicted from the last-level cache to memory";
        dirty_transfers, "versions.passed_dirty", "lines", "dirty lines that went from one private cache straight to another, to be written there";
        version_capacity, "versions.departed.capacity", "versions", "dirty versions that left a sharing group because its L2 needed the room";
        version_store_evictions, "versions.departed.store_eviction", "versions", "dirty versions that left because a newer one took their place in the L2";
        version_invalidations, "versions.departed.invalidation", "versions", "dirty versions that left because another sharing group wrote the line";
        version_downgrades, "versions.departed.downgrade", "versions", "dirty versions that left because another sharing group read the line";
        version_walks, "versions.departed.walk", "versions", "dirty versions that a tag walker found to be old";
        version_cache_blocks, "versions.departed.cache_block", "versions", "dirty versions that a cache-block instruction sent out";
        cross_version_stores, "versions.cross_stores", "stores", "stores that found their line with an older version, or none";
        pages_written, "versions.pages_written", "pages", "4 KiB pages in which such a store was the first since the version changed";
        cleaned_lines, "cache_block.cleaned", "lines", "dirty lines written to memory by cache-block instructions";
        store_buffer_stall_cycles, "core.store_buffer_stall", "cycles", "time that cores waited for a free store-buffer entry";
        memory_stall_cycles, "core.memory_stall", "cycles", "time that cores waited for loads, fetches and atomics";
        fence_stall_cycles, "core.fence_stall", "cycles", "time that cores waited at fences";
        window_cycles, "window.cycles", "cycles", "time of out-of-order cores, all together, up to where they dispatched last";
        window_dispatch_cycles, "window.dispatch", "cycles", "of this, cycles in which at least one instruction was dispatched";
        window_front_end_cycles, "window.stall.front_end", "cycles", "cycles without: instructions had not been fetched";
        window_mispredict_cycles, "window.stall.mispredict", "cycles", "cycles without: a mispredicted branch had to be resolved, and what follows it fetched";
        window_reorder_buffer_cycles, "window.stall.reorder_buffer", "cycles", "cycles without: the reorder buffer was full";
        window_issue_queue_cycles, "window.stall.issue_queue", "cycles", "cycles without: the issue queue was full";
        window_load_queue_cycles, "window.stall.load_queue", "cycles", "cycles without: the load queue was full";
        window_store_queue_cycles, "window.stall.store_queue", "cycles", "cycles without: the store queue was full";
        window_fence_cycles, "window.stall.fence", "cycles", "cycles without: a fence waited at the head of the reorder buffer";
        window_flush_cycles, "window.stall.flush", "cycles", "cycles without: a cache-block or persist operation waited there";
        window_atomic_cycles, "window.stall.atomic", "cycles", "cycles without: an atomic, LR or SC waited there";
        window_other_cycles, "window.stall.other", "cycles", "cycles without: something else waited there: an access to a control register or a device, a design's instruction";
        window_trap_cycles, "window.stall.trap", "cycles", "cycles without: a system call or fault waited for all before it, or what follows it was fetched";
        window_outside_cycles, "window.stall.outside", "cycles", "cycles without: the kernel ran, the design held the hart up, or it was idle";
        window_head_stalls, "window.head_stalls", "instructions", "fences, flushes, atomics and others that waited at the head of the reorder buffer";
        window_transfers, "window.transfers", "instructions", "branches and jumps of out-of-order cores";
        window_mispredicts, "window.mispredicts", "instructions", "of these, the ones that were mispredicted";
        window_forwarded, "window.forwarded", "loads", "loads that took their bytes from the store queue";
        window_l1d_miss_wait_cycles, "window.miss_wait.l1d", "cycles", "time that misses waited for a free entry (MSHR) of the L1D";
        window_l2_miss_wait_cycles, "window.miss_wait.l2", "cycles", "time that they waited for one of the L2";
        window_llc_miss_wait_cycles, "window.miss_wait.llc", "cycles", "time that they waited for one of the last-level cache";
        kernel_cycles, "kernel.work", "cycles", "the kernel's own work, its memory accesses apart";
        persist_stall_cycles, "core.persist_stall", "cycles", "time that harts waited for an epoch to be persisted (output commit)";
        epochs_committed, "epoch.committed", "epochs", "epochs that ended";
        epochs_forced, "epoch.forced", "epochs", "of these, the ones ended early for output commit";
        epochs_overflowed, "epoch.overflowed", "epochs", "of these, the ones ended early because the design ran out of room";
        epochs_persisted, "epoch.persisted", "epochs", "epochs announced as persisted (0 where sharing groups have epochs of their own: NVOverlay)";
        epoch_to_persisted_cycles, "epoch.to_persisted", "cycles", "time from an epoch's end to when it was announced as persisted, of all epochs together";
        epoch_to_persisted_longest_cycles, "epoch.to_persisted_longest", "cycles", gauge "the longest of these times";
        epoch_wait_cycles, "epoch.wait", "cycles", "time that the machine stood still because too many epochs were outstanding";
        flush_lines, "flush.lines", "lines", "dirty lines written out by synchronous cache flushes";
        flush_stall_cycles, "flush.stall", "cycles", "time that the machine stood still for synchronous flushes and commits";
        translation_lookups, "translation.lookups", "look-ups", "look-ups of a design's translation table, by evictions";
        translation_misses, "translation.misses", "look-ups", "of these, the ones that found no entry";
        translation_overflows, "translation.overflows", "entries", "entries for which a design's table or buffer had no room";
        context_lines, "epoch.context_lines", "lines", "lines stored to save processor and kernel contexts at epoch ends";
        dram_reads, "dram.reads", "lines", "misses answered by the DRAM in front of the NVM";
        dram_writes, "dram.writes", "lines", "lines written to it: evicted ones, and those that came from the NVM";
        dram_written_through, "dram.written_through", "lines", "lines that it alone held and that a cache-block instruction sent to the NVM";
        nvm_reads, "nvm.reads", "operations", "row reads at the NVM";
        nvm_design_reads, "nvm.design_reads", "operations", "of these, the ones made by the design, not for a miss";
        nvm_read_bytes, "nvm.read_bytes", "bytes", "bytes read from the NVM";
        nvm_read_wait_cycles, "nvm.read_wait", "cycles", "time that reads waited in the controller";
        nvm_writes, "nvm.writes", "operations", "row writes at the NVM";
        nvm_write_queue_wait_cycles, "nvm.write_queue_wait", "cycles", "time that senders waited for a write-queue entry";
        nvm_drained_at_cycle, "nvm.drained_at", "cycles", gauge "when the NVM is done with every write that it was given so far";
        reserve_peak_bytes, "persistence.reserve_peak", "bytes", gauge "most bytes that the reserve of energy would have had to drain at once: write queues and caches in the persistence domain";
        nvm_operations_sequential, "nvm.operations.sequential", "operations", "operations that read or wrote a whole row, all by the design";
        nvm_operations_random, "nvm.operations.random", "operations", "smaller reads and writes by the design: flushed and scanned lines, log, tables, registers";
        nvm_operations_write_back, "nvm.operations.write_back", "operations", "evicted lines written";
        nvm_written_bytes_data, "nvm.written_bytes.data", "bytes", "bytes written for program and kernel data, at home or where the design keeps them";
        nvm_written_bytes_log, "nvm.written_bytes.log", "bytes", "bytes written to a log";
        nvm_written_bytes_metadata, "nvm.written_bytes.metadata", "bytes", "bytes written to registers and tables of a design";
        nvm_written_bytes_context, "nvm.written_bytes.context", "bytes", "bytes written at home for saved contexts";
        nvm_written_bytes_total, "nvm.written_bytes.total", "bytes", "all bytes written to the NVM";
    }
    equal(
        nvm_written_bytes_total,
        nvm_written_bytes_data
            + nvm_written_bytes_log
            + nvm_written_bytes_metadata
            + nvm_written_bytes_context
    );
    equal(
        nvm_operations_sequential + nvm_operations_random + nvm_operations_write_back,
        nvm_writes + nvm_design_reads
    );
    equal(
        window_cycles,
        window_dispatch_cycles
            + window_front_end_cycles
            + window_mispredict_cycles
            + window_reorder_buffer_cycles
            + window_issue_queue_cycles
            + window_load_queue_cycles
            + window_store_queue_cycles
            + window_fence_cycles
            + window_flush_cycles
            + window_atomic_cycles
            + window_other_cycles
            + window_trap_cycles
            + window_outside_cycles
    );
    at_most(window_mispredicts, window_transfers);
    equal(l2_accesses, l1i_misses + l1d_misses + prefetches + prefetches_regretted);
    at_most(prefetches_used, prefetches);
    at_most(l1d_misses, l1d_accesses);
    at_most(l1d_stores, l1d_accesses);
    at_most(l1i_misses, l1i_accesses);
    at_most(l2_misses, l2_accesses);
    // A design's own, a device's included, may be of fewer bytes than a line.
    at_most(64 * nvm_reads, nvm_read_bytes + 63 * nvm_design_reads);
    at_most(llc_misses, llc_accesses);
}
