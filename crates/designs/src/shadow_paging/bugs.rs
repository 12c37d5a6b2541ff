//! Mistakes that one could really make in shadow paging. Each is a switch; verification must catch
//! each.

crate::planted_bugs! {
    goes_home_before_commit, "home-before-commit", "written pages are copied home before the commit record is durable";
    commits_before_table, "commit-before-table", "the commit record is written before the table that it speaks of";
    takes_table_before_flush, "table-before-flush", "the table is taken before the cache flush, so pages first written by the flush are not in it";
    retires_before_home, "retire-before-home", "the commit is recorded as retired before its pages are home";
    releases_before_commit, "release-before-commit", "output leaves the machine when its epoch ends, before the commit record is durable";
    fills_past_shadow, "shadow-not-snooped", "a fill reads the home address of a page that was written in this epoch";
    leaves_overflow_out_of_table, "overflow-not-in-table", "the commit's table lists pages only, so recovery forgets lines that were kept aside";
    keeps_overflow, "overflow-kept", "lines kept aside stay in the list after the commit that brought them home";
    leaves_hit_unmarked, "hit-not-marked", "the first write that hits a retained entry does not mark its page as written";
    replaces_without_copy, "replaced-without-copy", "a page that takes over a retained entry is not copied, so its shadow page still holds the other page's lines";
    writes_line_before_copy, "line-before-copy", "the evicted line is written first, and the page's copy then overwrites it";
    accepts_torn_record, "torn-record-accepted", "recovery takes a torn register record for a whole one";
    recovery_retires_first, "recovery-retires-first", "recovery records the commit as retired before it has copied the pages home";
}

impl Flaws {
    /// Of a commit's four steps (table, commit, home, retire) two neighbours change places.
    pub fn disturb<T>(self, order: &mut [T; 4]) {
        let flawed = [
            self.commits_before_table,
            self.goes_home_before_commit,
            self.retires_before_home,
        ];
        for (first, _) in flawed.iter().enumerate().filter(|(_, flawed)| **flawed) {
            order.swap(first, first + 1);
        }
    }
}
