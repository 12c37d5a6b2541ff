//! What is compared after each step of the walk, and at its end: everything that the hierarchy's own
//! audit leaves out.

use perdure_hardware::arena::Digest;
use perdure_hardware::cache::{Cache, State};
use perdure_hardware::counters::Counters;
use perdure_hardware::line::{LINE_BYTES, LineNumber};
use perdure_hardware::lookaside::{ENTRIES, index_of};

use super::model::LineModel;
use super::walk::{ALIAS_BYTES, Outcome, Walk};

impl Walk<'_> {
    /// What the hierarchy's own audit leaves out: bytes, versions, dirty bits and the lookaside.
    pub fn audit(&mut self) -> Result<(), String> {
        for (index, model) in self.model.lines.iter().enumerate() {
            let line = self.model.first + index as u64;
            if self.hardware.peek(&self.model, line) != model.newest {
                return Err(format!("peek at line {line:#x} isn't the newest"));
            }
            self.audit_line(line, model)?;
        }
        if self.options.lookaside {
            for hart in 0..self.options.harts {
                self.audit_lookaside(hart)?;
            }
        }
        Ok(())
    }

    fn audit_line(&self, line: LineNumber, model: &LineModel) -> Result<(), String> {
        let Some(shared_slot) = self.hardware.llc.find(line) else {
            let in_memory = self.hardware.memory.arena.line(line * LINE_BYTES as u64);
            return require(!model.dirty && *in_memory == model.newest, || {
                format!("line {line:#x} is in no cache and memory is old")
            });
        };
        let shared = self.hardware.llc.word(shared_slot);
        let mut modified = false;
        let mut owner_version = None;
        for (number, group) in self.hardware.groups.iter().enumerate() {
            let Some(l2_slot) = group.l2.find(line) else {
                continue;
            };
            let l2 = group.l2.word(l2_slot);
            let l2_bytes = *group.l2.data(l2_slot);
            let mut newest = (l2, l2_bytes);
            modified |= l2.state() == State::Modified;
            for hart in group.harts.clone() {
                let core = &self.hardware.cores[hart];
                let Some(slot) = core.l1d.find(line) else {
                    continue;
                };
                let l1d = core.l1d.word(slot);
                // Where the L2 is shared, its owned lines may be shared above it.
                let owned_alike = (l1d.state() > State::Shared) == (l2.state() > State::Shared);
                let shared_above = group.harts.len() > 1 && l1d.state() == State::Shared;
                require(owned_alike || shared_above, || {
                    format!("hart {hart}, line {line:#x}: {l1d:?} over {l2:?}")
                })?;
                require(
                    l1d.state() == State::Modified || core.l1d.data(slot) == &l2_bytes,
                    || format!("hart {hart}, line {line:#x}: unwritten L1D bytes differ from L2's"),
                )?;
                require(
                    l1d.state() == State::Modified || l1d.version() == l2.version(),
                    || format!("hart {hart}, line {line:#x}: {l1d:?} over {l2:?}"),
                )?;
                if l1d.state() == State::Modified {
                    modified = true;
                    newest = (l1d, *core.l1d.data(slot));
                }
            }
            require(newest.1 == model.newest, || {
                format!("sharing group {number} holds old bytes of line {line:#x}")
            })?;
            if newest.0.state() > State::Shared {
                owner_version = Some(newest.0.version());
            }
        }
        require(
            modified || *self.hardware.llc.data(shared_slot) == model.newest,
            || format!("line {line:#x}: no Modified copy and the shared cache is old"),
        )?;
        require((modified || shared.dirty()) == model.dirty, || {
            format!(
                "line {line:#x}: dirty is {}, not {}",
                !model.dirty, model.dirty
            )
        })?;
        let version = owner_version.unwrap_or(shared.version());
        require(version == model.version, || {
            format!(
                "line {line:#x} carries {version:?}, not {:?}",
                model.version
            )
        })
    }

    fn audit_lookaside(&mut self, hart: usize) -> Result<(), String> {
        for index in 0..ENTRIES {
            let entry = self.entry(hart, index);
            let core = &mut self.hardware.cores[hart];
            let tags = [entry.read_tag, entry.write_tag];
            for tag in tags.into_iter().filter(|&tag| tag != u64::MAX) {
                let line = tag % ALIAS_BYTES / LINE_BYTES as u64;
                let slot = core
                    .l1d
                    .find(line)
                    .ok_or_else(|| format!("lookaside: line {line:#x} isn't in the L1D"))?;
                require(
                    index_of(tag) == index
                        && entry.bytes == core.l1d.data_mut(slot).0.as_mut_ptr()
                        && entry.stamp == std::ptr::from_mut(core.l1d.stamp_mut(slot)),
                    || format!("lookaside: the entry for line {line:#x} points elsewhere"),
                )?;
            }
            if entry.write_tag != u64::MAX {
                let line = entry.write_tag % ALIAS_BYTES / LINE_BYTES as u64;
                let word = core.l1d.word(core.l1d.find(line).expect("checked"));
                require(
                    !self.options.every_store
                        && entry.write_tag == entry.read_tag
                        && word.state() == State::Modified
                        && word.version() == self.model.current[hart],
                    || format!("lookaside: stores may hit line {line:#x}, which is {word:?}"),
                )?;
            }
        }
        Ok(())
    }

    pub fn nothing_is_twice_in_one_cache(&self) {
        let once_each = |cache: &Cache| {
            let mut lines: Vec<_> = cache.iter().map(|(_, word)| word.line()).collect();
            let count = lines.len();
            lines.sort_unstable();
            lines.dedup();
            assert_eq!(lines.len(), count, "a line is twice in one cache");
        };
        self.private().for_each(once_each);
        once_each(&self.hardware.llc);
    }

    pub fn compare_digests(&self) {
        let mut digest = Digest::default();
        for (index, model) in self.model.lines.iter().enumerate() {
            let address = (self.model.first + index as u64) * LINE_BYTES as u64;
            digest.0 = digest
                .0
                .wrapping_add(Digest::of_line(address, &model.newest.0));
        }
        assert_eq!(
            self.hardware.coherent_digest(&self.model, &self.range()),
            digest
        );
    }

    pub fn compare_statistics(&self) {
        let statistics = self.hardware.statistics();
        statistics.check_conservation().expect("sums");
        let counts = &self.model.counts;
        let writes = counts.replacements + counts.cache_blocks + counts.flushed + self.scanned;
        for (name, counted, expected) in [
            (
                "l1d.accesses",
                statistics.l1d_accesses,
                self.loads + self.stores,
            ),
            ("l1d.stores", statistics.l1d_stores, self.stores),
            ("l1i.accesses", statistics.l1i_accesses, self.fetches),
            (
                "versions.cross_stores",
                statistics.cross_version_stores,
                counts.cross_version_stores,
            ),
            (
                "stores told",
                counts.stores,
                if self.options.every_store {
                    self.stores
                } else {
                    counts.cross_version_stores
                },
            ),
            (
                "llc.write_backs",
                statistics.llc_write_backs,
                counts.replacements,
            ),
            (
                "cache_block.cleaned",
                statistics.cleaned_lines,
                counts.cache_blocks,
            ),
            ("llc.misses", statistics.llc_misses, counts.fills),
            ("flush.lines", statistics.flush_lines, counts.flushed),
            (
                "nvm.operations.random",
                statistics.nvm_operations_random,
                counts.flushed,
            ),
            ("nvm.reads", statistics.nvm_reads, counts.fills),
            ("nvm.writes", statistics.nvm_writes, writes),
            (
                "nvm.written_bytes.data",
                statistics.nvm_written_bytes_data,
                64 * writes,
            ),
        ] {
            assert_eq!(counted, expected, "{name}");
        }
        let accesses = statistics.l2_misses + self.upgrades;
        if self.options.degree == 0 {
            assert_eq!(statistics.llc_accesses, accesses, "llc.accesses");
        } else {
            // What is prefetched may push a line out that a store was about to own.
            assert!(statistics.llc_accesses <= accesses, "llc.accesses");
        }
        assert!(statistics.snoops >= counts.transfers);
    }

    /// Cleans everything; memory alone must then be the reference.
    pub fn end(mut self) -> Outcome {
        let statistics = self.hardware.statistics();
        self.model.began = self.now(0);
        for set in 0..self.hardware.llc.sets() {
            self.scan_set(0, set);
        }
        self.hardware.newer_lines(&self.model, &mut |line, _| {
            panic!("line {line:#x} is still newer than memory");
        });
        for (index, model) in self.model.lines.iter().enumerate() {
            let address = (self.model.first + index as u64) * LINE_BYTES as u64;
            assert_eq!(*self.hardware.memory.arena.line(address), model.newest);
        }
        self.compare_digests();
        Outcome {
            statistics,
            clocks: (0..self.options.harts).map(|hart| self.now(hart)).collect(),
            digest: self.hardware.coherent_digest(&self.model, &self.range()),
            counts: self.model.counts,
        }
    }
}

fn require(good: bool, problem: impl FnOnce() -> String) -> Result<(), String> {
    if good { Ok(()) } else { Err(problem()) }
}
