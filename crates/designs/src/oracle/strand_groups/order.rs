//! What strands came behind: those from whose lines they had loaded, and their thread's before.

use perdure_hardware::line::LineNumber;
use perdure_hardware::time::Cycles;

use super::{Number, Strand, StrandGroups};

/// A strand that is committed at a time, and one from whose line it had loaded, which is not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Early {
    pub from: Cycles,
    pub strand: Number,
    pub missing: Number,
    pub line: LineNumber,
}

impl StrandGroups {
    pub(super) fn load(&mut self, hart: usize, line: LineNumber) {
        if self.system[hart] {
            return;
        }
        let strand = match self.current.get(&self.threads[hart]) {
            Some(&strand) => strand,
            None if self.behind.loads => self.strand_on(hart),
            // A strand begins with what concerns it: elsewhere, a store.
            None => return,
        };
        let last = (self.lines.get(&line)).and_then(|history| history.written.last());
        let Some(writer) = last.and_then(|last| last.by).filter(|&by| by != strand) else {
            return;
        };
        let loaded = &mut self.strands[strand].loaded;
        if !loaded.contains(&(writer, line)) {
            loaded.push((writer, line));
        }
        if self.behind.loads {
            self.conflict = Some((writer, strand));
        }
    }

    /// Which of these strands are committed before others from which they had loaded.
    pub(super) fn note_loads(&mut self, announced: &[Number]) {
        for &strand in announced {
            let loaded = std::mem::take(&mut self.strands[strand].loaded);
            let Strand {
                committed, lines, ..
            } = &self.strands[strand];
            let Some(from) = committed.filter(|_| !lines.is_empty()) else {
                continue;
            };
            let missing = loaded
                .into_iter()
                .filter(|&(one, _)| !self.is_there(one, from));
            let early = missing.map(|(missing, line)| Early {
                from,
                strand,
                missing,
                line,
            });
            let early: Vec<Early> = early.collect();
            self.early.extend(early);
        }
    }

    pub(super) fn is_there(&self, strand: Number, at: Cycles) -> bool {
        let committed = self.strands[strand].committed;
        committed.is_some_and(|committed| committed <= at)
    }

    /// What is there at a time without what it had loaded.
    pub(super) fn without_loaded(&self, at: Cycles) -> Option<String> {
        let is_early = |early: &&Early| early.from <= at && !self.is_there(early.missing, at);
        let Early {
            strand,
            missing,
            line,
            ..
        } = self.early.iter().find(is_early)?;
        let (strand, missing) = (&self.strands[*strand], &self.strands[*missing]);
        Some(format!(
            "strand {} of thread {} loaded from line {line:#x} what strand {} of thread {} had stored, which is missing",
            strand.ordinal, strand.thread, missing.ordinal, missing.thread
        ))
    }

    /// What is there at a time without what its thread had done before.
    pub(super) fn without_before(&self, at: Cycles) -> Option<String> {
        let mut there = self.last_settled.clone();
        let mut missing = Vec::new();
        for (&(thread, ordinal), &strand) in &self.by_name {
            if self.strands[strand].lines.is_empty() {
                continue;
            }
            if self.is_there(strand, at) {
                let last = there.entry(thread).or_default();
                *last = ordinal.max(*last);
            } else {
                missing.push((thread, ordinal));
            }
        }
        let behind = |&(thread, ordinal): &(u32, u64)| {
            let last = *there.get(&thread)?;
            (last > ordinal).then(|| {
                format!(
                    "strand {last} of thread {thread} is there, and strand {ordinal} is missing"
                )
            })
        };
        missing.iter().find_map(behind)
    }
}
