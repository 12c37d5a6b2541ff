//! What `ThyNVM` counts.

perdure_hardware::counters! {
    /// The counters.
    pub struct Counters {
        pages_promoted, "thynvm.pages_promoted", "pages", "pages tracked as such from then on, because their blocks were written often in an epoch";
        pages_demoted, "thynvm.pages_demoted", "pages", "pages tracked as such no longer, because they were written seldom in an epoch";
        pages_spilled, "thynvm.pages_spilled", "pages", "pages tracked as such because the block table had no room for one of their lines";
        page_copies, "thynvm.page_copies", "pages", "pages copied to where their working version goes, at the first write in an epoch";
        units_brought_home, "thynvm.units_brought_home", "units", "versions of blocks and pages copied home in the background";
        blocks_merged, "thynvm.blocks_merged", "blocks", "idle blocks written to the page that they lie in, which is tracked as such";
        clean_ups, "thynvm.clean_ups", "records", "checkpoints recorded again without what had come home";
    }
}
