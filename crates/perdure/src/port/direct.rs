//! A port's hits as data, for who makes code: what `load_hit`, `store_hit` and `fetch_again` do.

use std::mem::offset_of;

use perdure_hardware::cache::Cache;
use perdure_hardware::hierarchy::Core;
use perdure_hardware::lookaside::{ENTRIES, Entry, HitPath, INDEX_SHIFTS};
use perdure_riscv::{Direct, Layout};

use super::{FetchHint, Port};

/// Those of every port that has them.
pub(super) const HITS: Layout = Layout {
    index_shifts: INDEX_SHIFTS,
    entries: ENTRIES as u64,
    entry_bytes: HitPath::ENTRY_BYTES as u64,
    read_tag: HitPath::READ_TAG,
    write_tag: HitPath::WRITE_TAG,
    bytes: HitPath::BYTES,
    stamp: HitPath::STAMP,
    hint_slot: offset_of!(FetchHint, slot),
    hint_line: offset_of!(FetchHint, line),
    record_bytes: Cache::RECORD_BYTES as u64,
    record_line_shift: Cache::LINE_SHIFT,
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

impl<const SHORTCUTS: bool, const WINDOW: bool> Port<'_, SHORTCUTS, WINDOW> {
    /// The hit path of this hart as data, for a source that makes code of its own. It is good as long as the
    /// port is not moved; while the port is asked for something, nothing else may use it.
    pub fn hit_path(&mut self) -> HitPath {
        // SAFETY: `core` is this hart's core, borrowed with the hardware.
        let (accesses, stores) =
            unsafe { (&raw mut (*self.core).accesses, &raw mut (*self.core).stores) };
        HitPath {
            entries: self.entries,
            accesses,
            stores,
            limit: &raw const self.limit_retired,
        }
    }
}
