//! What the controller and the devices count.

perdure_hardware::counters! {
    /// The counters.
    pub struct Counters {
        commands, "nearpm.commands", "commands", "commands that programs sent";
        undo, "nearpm.commands.undolog_create", "commands", "of these, those that made undo entries";
        checkpoints, "nearpm.commands.ckpoint_create", "commands", "those that made checkpoints";
        commits, "nearpm.commands.commit_log", "commands", "those that ended a transaction";
        shadows, "nearpm.commands.shadowcpy", "commands", "those that copied a page to its shadow";
        copies, "nearpm.commands.copy", "commands", "those that copied bytes elsewhere";
        applied, "nearpm.commands.applylog", "commands", "those that applied a redo log";
        others, "nearpm.commands.others", "commands", "those that laid logs down, or recovered, or did something else, or were none";
        duplicated, "nearpm.commands.duplicated", "commands", "of all, those that went to several devices";
        stale, "nearpm.commands.stale", "commands", "of all, those whose operand the caches had newer bytes of: a program that forgot to write back";
        taken, "nearpm.taken", "commands", "commands that devices took, each device for itself";
        faults, "nearpm.faults", "commands", "of these, those that a device refused";
        entries, "nearpm.entries", "entries", "log entries and checkpoints that were written";
        copied_bytes, "nearpm.copied", "bytes", "bytes that units copied";
        fifo_wait_cycles, "nearpm.wait.fifo", "cycles", "for which commands waited for room in a FIFO";
        conflict_wait_cycles, "nearpm.wait.conflict", "cycles", "for which commands waited for others that worked on the same bytes, or for a log to be deleted";
        unit_wait_cycles, "nearpm.wait.unit", "cycles", "for which commands waited for a unit";
        busy_cycles, "nearpm.units.busy", "cycles", "for which units worked, of all devices together";
        active_cycles, "nearpm.active", "cycles", "for which at least one unit of a device copied or laid a log down, of all devices together";
        held_writes, "nearpm.host.held", "writes", "writes of the processor that waited in a host queue";
        held_cycles, "nearpm.host.held_wait", "cycles", "for which they waited";
        delayed_reads, "nearpm.host.delayed_reads", "reads", "reads of the processor that waited for a command";
        delayed_cycles, "nearpm.host.delayed_wait", "cycles", "for which they waited";
        answered_reads, "nearpm.host.answered_reads", "reads", "reads that a host queue answered";
        messages, "nearpm.messages", "messages", "completions that a device told another one";
        early_messages, "nearpm.messages.early", "messages", "of these, those that came before the command did";
        sync_wait_cycles, "nearpm.wait.sync", "cycles", "for which commits waited for other devices, off everybody's path";
        fifo_peak, "nearpm.fifo.peak", "commands", gauge "most commands in one FIFO";
        held_peak, "nearpm.host.peak", "writes", gauge "most writes in one host queue";
    }
    equal(commands, undo + checkpoints + commits + shadows + copies + applied + others);
    at_most(active_cycles, busy_cycles);
    at_most(faults, taken);
    at_most(early_messages, messages);
}
