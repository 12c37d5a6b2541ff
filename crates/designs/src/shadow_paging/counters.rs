//! What shadow paging counts.

perdure_hardware::counters! {
    /// The counters.
    pub struct Counters {
        copies_on_write, "shadow-paging.copies_on_write", "pages", "pages copied to a shadow page because a write missed in the translation table";
        retained_hits, "shadow-paging.retained_hits", "pages", "retained entries whose page was written again, without a copy";
        retained_replaced, "shadow-paging.retained_replaced", "pages", "retained entries given up for another page";
        overflow_rewrites, "shadow-paging.overflow_rewrites", "lines", "evictions of a line that was kept aside already";
        pages_written_back, "shadow-paging.pages_written_back", "pages", "pages copied home by commits";
    }
}
