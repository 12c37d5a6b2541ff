//! A port's hits as data, for who makes code: what `load_hit`, `store_hit` and `fetch_again` do.

use std::mem::offset_of;

use perdure_hardware::cache::Cache;
use perdure_hardware::hierarchy::Core;
use perdure_hardware::lookaside::{ENTRIES, Entry, INDEX_SHIFTS};
use perdure_riscv::{Direct, Layout};

use super::FetchHint;

/// Those of every port that has them.
pub(super) const HITS: Layout = Layout {
    index_shifts: INDEX_SHIFTS,
    entries: ENTRIES as u64,
    entry_bytes: size_of::<Entry>() as u64,
    read_tag: Entry::READ_TAG,
    write_tag: Entry::WRITE_TAG,
    bytes: Entry::BYTES,
    stamp: Entry::STAMP,
    hint_slot: offset_of!(FetchHint, slot),
    hint_word: offset_of!(FetchHint, word),
    record_bytes: Cache::RECORD_BYTES as u64,
    record_stamp: Cache::STAMP,
};

/// Where those of a hart are made: its lookaside, its core, and the port's limit.
#[inline(always)]
pub(super) fn of(core: &mut Core, entries: *mut Entry, limit: *const u64) -> Direct {
    let (records, uses) = core.l1i.places();
    Direct {
        entries: entries.cast(),
        accesses: &raw mut core.accesses,
        stores: &raw mut core.stores,
        records,
        uses,
        fetches: &raw mut core.fetches,
        limit,
    }
}
