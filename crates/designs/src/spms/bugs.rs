//! Mistakes that verification must catch.

crate::planted_bugs! {
    does_not_merge, "no-merge", "two strands that store to a line stay apart, and each commits by itself";
    merges_in_caches_only, "merge-in-caches-only", "a conflict with a line that has left the caches for the strand buffer goes unnoticed";
    ignores_loads, "load-unheard", "under spms.order reads and thread, a strand does not join the one from whose line it loads";
    forgets_chain, "chain-forgotten", "under spms.order thread, a strand does not wait for its thread's earlier ones";
    commits_at_end, "commit-at-end", "a strand commits when it ends, whatever of it is still in the caches";
    counts_lines_once, "count-once", "a line that was evicted and is stored to again is not counted again";
    commits_alone, "commit-alone", "a strand commits when its own lines are out, and does not wait for its group";
    commits_ahead, "commit-ahead", "a strand counts as committed before the module has its last lines";
    writes_valid_at_power_off, "valid-at-power-off", "the capacitors also write lines of strands that are not committed";
    drains_valid, "drain-valid", "a full strand buffer drains its oldest line, committed or not";
    overwrites_committed, "committed-overwritten", "a line that arrives replaces a committed one that still waits for its home";
    forgets_in_flight, "in-flight-forgotten", "a line leaves the strand buffer when its write home is accepted, and not when it is durable";
    writes_newest_first, "newest-first", "at power-off an older committed version of a line is written over a newer one";
    forgets_log, "log-forgotten", "at power-off nothing says which lines of the overflow log are committed";
    folds_as_committed, "fold-as-committed", "when the table is full, strands of a group that still has an active one are committed without it";
    reuses_live_ids, "id-reused", "when strand identifiers wrap around, one is taken that is still in use";
    loses_thread, "strand-left-behind", "a thread that moves to another hart leaves its strand to whoever runs there next";
    answers_sync_early, "sync-early", "an instruction that waits for strands answers while their commit is on its way";
    clears_log_first, "log-cleared-first", "recovery declares the overflow log empty before it has brought its lines home";
}
