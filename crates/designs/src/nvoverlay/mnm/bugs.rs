//! Mistakes that one could really make in the mapping. Each is a switch; verification must catch
//! each.

crate::planted_bugs! {
    registers_before_index, "register-before-index", "rec-epoch is recorded when all versions have come, and the index that it names is written only then";
    registers_in_place, "register-in-place", "rec-epoch is updated in place, in a single copy that a power cut can tear";
    merges_before_register, "merge-before-register", "an epoch is merged into the master table before rec-epoch names it durably";
    merge_skips_last, "merge-skips-last", "each batch of the merge forgets its last version";
    leaves_victim_unguarded, "victim-unguarded", "the battery does not guard what the buffer has evicted and the media have not got yet";
    takes_slot_of_older_epoch, "slot-of-older-epoch", "a version overwrites the one of an older epoch that is not merged yet";
    frees_before_switch, "free-before-switch", "compaction frees the old units when it has read the indexes, before the registers name the new base";
    leaves_copies_unlinked, "copies-unlinked", "compaction does not enter the new places of moved versions in the master table";
    compacts_to_oldest, "compacts-to-oldest", "compaction keeps the oldest version of each line in place of the newest";
    redo_stops_early, "redo-stops-early", "recovery merges the first unmerged epoch and takes all for merged";
    reads_older_copy, "older-copy", "recovery takes the older copy of the registers";
    links_before_node, "link-before-node", "a node of the master table is linked before it is initialised";
}
