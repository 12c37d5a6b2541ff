//! What designs say of versions and mappings, and what the caches then forget.
//!
//! Always true here: after a change, no access hits that would not have been let hit since.

use std::ops::Range;

use crate::cache::{GENERATIONS, Slot, State, Word};
use crate::hierarchy::Hardware;
use crate::line::{LineNumber, Version, line_of};
use crate::policy::CrossVersionStore;

impl Hardware {
    /// Sets the version tag of a line in the shared cache, which holds it by inclusion whenever a
    /// sharing group does.
    pub fn set_llc_version(&mut self, line: LineNumber, version: Version) {
        if let Some(slot) = self.llc.find(line) {
            self.llc
                .set_word(slot, self.llc.word(slot).with_version(version));
        }
    }

    /// The same for the line of a store that the design is told of: most often it is where the slots of the
    /// caches above say.
    #[inline]
    pub fn set_llc_version_of(&mut self, store: &CrossVersionStore, version: Version) {
        let below = store.slot.and_then(|slot| {
            let below = self.cores[store.hart].below[slot.0 as usize];
            self.groups[store.group].below.get(below.0 as usize)
        });
        match below {
            Some(&slot) if self.llc.word(slot).line() == store.line => {
                (self.llc).set_word(slot, self.llc.word(slot).with_version(version));
            }
            _ => self.set_llc_version(store.line, version),
        }
    }

    /// Empties a hart's instruction cache: later fetches see what stores left in the L2.
    pub fn flush_l1i(&mut self, hart: usize) {
        let (core, group) = self.core_and_group(hart);
        for slot in 0..core.l1i.sets() * core.l1i.ways() {
            core.evict_l1i(group, Slot(slot as u32));
        }
        core.code_generation = u32::min(core.code_generation + 1, GENERATIONS - 1);
    }

    /// What a slot of a hart's L1I has as long as its bytes are those that it has now; what it never has,
    /// where that cannot be told any more.
    #[inline]
    pub fn code_word(&self, hart: usize, slot: Slot) -> Word {
        let core = &self.cores[hart];
        if core.code_generation < GENERATIONS - 1 {
            core.l1i.word(slot)
        } else {
            Word::default()
        }
    }

    /// Mappings changed: no access may hit without being translated again.
    pub fn kill_lookasides(&mut self) {
        for core in &mut self.cores {
            core.lookaside.kill_all();
        }
    }

    /// Somebody has to hear of loads in a range of addresses from now on, beside those that were heard
    /// before.
    pub fn hear_loads(&mut self, range: Range<u64>) {
        let lines = line_of(range.start)..line_of(range.end);
        let heard = &mut self.loads_heard;
        *heard = if heard.is_empty() {
            lines
        } else {
            heard.start.min(lines.start)..heard.end.max(lines.end)
        };
        self.kill_lookasides();
    }

    /// The version of the bytes that a hart loads from a line in its L1D. Where the tag has gone down to an
    /// inclusive shared cache, because somebody else has read the line, the copies that stayed have none.
    pub(super) fn version_loaded(&self, hart: usize, slot: Slot, line: LineNumber) -> Version {
        let version = self.cores[hart].l1d.word(slot).version();
        if version != Version::NONE || self.directories.apart().is_some() {
            return version;
        }
        let shared = self.llc.find(line).map(|slot| self.llc.word(slot));
        shared
            .filter(|word| word.dirty())
            .map_or(version, Word::version)
    }

    /// A hart's version has changed, or its thread: loads that were heard are so again.
    pub fn hear_loads_again(&mut self, hart: usize) {
        if !self.loads_heard.is_empty() {
            self.cores[hart].lookaside.kill_all();
        }
    }

    /// The current version of every hart changed: the next store to any line must ask.
    pub fn version_changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        for core in &mut self.cores {
            core.lookaside.revoke_all_writes();
        }
    }

    /// The current version of one hart changed.
    pub fn version_changed_of(&mut self, hart: usize) {
        self.generation = self.generation.wrapping_add(1);
        self.cores[hart].lookaside.revoke_all_writes();
        self.hear_loads_again(hart);
    }

    /// The current version changed of the harts of one sharing group.
    pub fn version_changed_in(&mut self, group: usize) {
        self.generation = self.generation.wrapping_add(1);
        for core in &mut self.cores[self.groups[group].harts.clone()] {
            core.lookaside.revoke_all_writes();
        }
    }

    /// Shows every cached copy's word and lets the caller change its version: for designs that
    /// recycle version numbers.
    pub fn retag(&mut self, mut retagged: impl FnMut(Version) -> Version) {
        let l1ds = self.cores.iter_mut().map(|core| &mut core.l1d);
        let l2s = self.groups.iter_mut().map(|group| &mut group.l2);
        for cache in l1ds.chain(l2s).chain([&mut self.llc]) {
            for slot in 0..cache.sets() * cache.ways() {
                let slot = Slot(slot as u32);
                if cache.occupied(slot) {
                    let word = cache.word(slot);
                    cache.set_word(slot, word.with_version(retagged(word.version())));
                }
            }
        }
    }

    /// The versions of all dirty lines in a sharing group's private caches, with their lines.
    pub fn dirty_versions(&self, group: usize) -> impl Iterator<Item = (LineNumber, Version)> + '_ {
        let group = &self.groups[group];
        let l1ds = self.cores[group.harts.clone()].iter();
        let caches = l1ds.map(|core| &core.l1d).chain([&group.l2]);
        caches.flat_map(|cache| {
            cache
                .iter()
                .filter(|(_, word)| word.state() == State::Modified)
                .map(|(_, word)| (word.line(), word.version()))
        })
    }
}
