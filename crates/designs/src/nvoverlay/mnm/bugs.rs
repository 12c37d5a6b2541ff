//! Mistakes that one could really make in the mapping. Each is a switch; verification must catch
//! each.

use crate::design::planted_bugs;

planted_bugs! {
    RegisterBeforeIndex, "register-before-index", "rec-epoch is recorded when all versions have come, and the index that it names is written only then";
    RegisterInPlace, "register-in-place", "rec-epoch is updated in place, in a single copy that a power cut can tear";
    MergeBeforeRegister, "merge-before-register", "an epoch is merged into the master table before rec-epoch names it durably";
    MergeSkipsLast, "merge-skips-last", "each batch of the merge forgets its last version";
    VictimUnguarded, "victim-unguarded", "the battery does not guard what the buffer has evicted and the media have not got yet";
    SlotOfOlderEpoch, "slot-of-older-epoch", "a version overwrites the one of an older epoch that is not merged yet";
    FreeBeforeSwitch, "free-before-switch", "compaction frees the old units when it has read the indexes, before the registers name the new base";
    CopiesUnlinked, "copies-unlinked", "compaction does not enter the new places of moved versions in the master table";
    CompactsToOldest, "compacts-to-oldest", "compaction keeps the oldest version of each line in place of the newest";
    RedoStopsEarly, "redo-stops-early", "recovery merges the first unmerged epoch and takes all for merged";
    OlderCopy, "older-copy", "recovery takes the older copy of the registers";
    LinkBeforeNode, "link-before-node", "a node of the master table is linked before it is initialised";
}
