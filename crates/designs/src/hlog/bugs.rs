//! Mistakes that verification must catch.

crate::planted_bugs! {
    closes_early, "close-early", "a close is answered while its record is on its way";
    closes_before_lines, "close-before-lines", "the close record may be durable before the wrap's last log line";
    writes_victims_home, "victim-home", "a line that leaves the caches goes home while wraps are open";
    depends_on_oldest, "oldest-wrap-only", "a victim waits for the oldest open wrap, and for no other one";
    forgets_closed, "closed-forgotten", "a victim waits until wraps are closed, and not until they are home";
    retires_open, "retire-early", "a wrap's words go home before its close record is durable";
    moves_head_early, "head-early", "the head moves past a wrap whose words are on their way home";
    reuses_places, "place-reused", "a place of the log is written again while the header that gives it up is on its way";
    does_not_merge, "no-merge", "what is held of a line does not get the words of wraps that began later";
    merges_by_wrap, "merge-by-wrap", "what is held of a line gets no words of a wrap that it waits for, not those either that came later";
    reads_past_victims, "read-home", "a miss is answered from home while a newer line is held";
    loses_thread, "wrap-left-behind", "a thread that moves to another hart leaves its wrap to whoever runs there next";
    forgets_gathered, "gathered-forgotten", "a wrap is closed without the records that are still being gathered";
    ignores_checksum, "checksum-ignored", "recovery takes a torn log line for a whole one";
    applies_open, "open-applied", "recovery stores the words of wraps that nobody has closed";
    drops_last_closed, "last-dropped", "recovery leaves the last closed wrap out";
    recovers_in_opening_order, "opening-order", "recovery stores wraps in the order in which they were opened";
    clears_log_first, "log-cleared-first", "recovery empties the log before the words are home";
}
