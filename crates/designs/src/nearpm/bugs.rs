//! Mistakes that verification must catch. Those marked RTL are in the public hardware.

crate::planted_bugs! {
    narrow_threads, "one-bit-thread", "a command's thread is one bit wide (RTL): threads share a log";
    writes_pass, "host-writes-pass", "the check of the processor's writes tests no range (RTL): they pass commands in flight";
    reads_pass, "host-reads-pass", "the processor's reads never wait (RTL)";
    deletes_early, "delete-early", "a log is deleted without waiting for copies in flight (RTL)";
    no_metadata, "no-metadata", "entries are copied without their header (RTL)";
    hangs, "opcode-hangs", "a unit that meets an unknown opcode never comes back (RTL)";
    ignores_bounds, "bounds-unchecked", "operands beyond the end of their pool are taken";
    ignores_owner, "owner-unchecked", "a thread may use another one's pools";
    ignores_requests, "requests-pass", "the dispatcher lets commands pass others that work on the same bytes";
    does_not_wait, "no-handler", "a device deletes a log when it has done its part, whatever the others have";
    tells_early, "complete-early", "a device tells the others that it is done when it begins";
    reuses_halves, "half-reused", "all transactions begin in the same half of their log, whatever is still needed there";
    splits_wrong, "first-device-only", "a command goes to the device of its operand's first byte alone";
    saves_no_queue, "fifo-lost", "energy saves what units work on, and not the request FIFO";
    saves_no_units, "units-lost", "energy saves the request FIFO, and not what units work on";
    saves_no_writes, "host-queue-lost", "energy saves no writes that wait in the host queue";
    acknowledges_early, "early-acknowledgement", "a sender goes on before the FIFO has room for its command";
    replays_from_start, "replay-restarts", "a recovery that was cut begins with the first command again";
    replays_writes_first, "writes-first", "recovery does the processor's writes before the commands that they waited for";
    clears_first, "record-cleared-first", "recovery clears what was saved before it is done";
    commits_alone, "commit-alone", "recovery ends a transaction that one device alone was told to end";
    drops_commits, "commit-dropped", "recovery forgets that a transaction was to end";
}
