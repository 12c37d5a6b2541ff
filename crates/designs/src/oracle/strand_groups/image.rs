//! What a cut must find in memory, and what it found.

use std::collections::BTreeSet;

use perdure_hardware::arena::Digest;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::time::Cycles;

use super::StrandGroups;
use crate::oracle::Evidence;

impl StrandGroups {
    /// What a cut must find in a line; `None` if anything will do.
    pub(super) fn expected(&self, line: LineNumber, at: Cycles) -> Option<&Line> {
        let history = self.lines.get(&line)?;
        for one in history.written.iter().rev() {
            let strand = one.by.map(|strand| &self.strands[strand]);
            match strand {
                None => return None,
                Some(strand) if strand.committed.is_some_and(|committed| committed <= at) => {
                    return one.bytes.as_deref();
                }
                Some(_) => {}
            }
        }
        Some(&history.settled)
    }

    /// The digest that the scope must have, given what was found where anything will do.
    pub(super) fn digest(&self, evidence: &Evidence) -> Digest {
        let mut digest = self.settled;
        let pending = self.pending.iter().take_while(|(at, _)| *at <= evidence.at);
        let changed = pending.flat_map(|&(_, strand)| &self.strands[strand].lines);
        let lines: BTreeSet<LineNumber> = changed.chain(&self.unknown).copied().collect();
        for line in lines {
            let Some(history) = self.lines.get(&line) else {
                continue;
            };
            let address = line * LINE_BYTES as u64;
            let expected = self.expected(line, evidence.at);
            let found = expected.unwrap_or_else(|| evidence.image.line(address));
            digest.replace(address, &history.settled.0, &found.0);
        }
        digest
    }

    /// The lines that are wrong, in order, and what they should be.
    pub(super) fn wrong(&self, evidence: &Evidence) -> Vec<(LineNumber, Line)> {
        let lines: BTreeSet<LineNumber> = self.lines.keys().copied().collect();
        let wrong = lines.into_iter().filter_map(|line| {
            let found = evidence.image.line(line * LINE_BYTES as u64);
            let expected = self.expected(line, evidence.at)?;
            (expected != found).then_some((line, *expected))
        });
        wrong.collect()
    }

    /// Which line is wrong, and whose it should be.
    pub(super) fn difference(&self, evidence: &Evidence) -> String {
        let Some(&(line, _)) = self.wrong(evidence).first() else {
            return "memory that no strand stored to has changed".into();
        };
        let history = &self.lines[&line];
        let found = evidence.image.line(line * LINE_BYTES as u64);
        let left = |bytes: &Line| {
            let written = history.written.iter().rev();
            let mut by = written.filter(|one| one.bytes.as_deref() == Some(bytes));
            match by
                .next()
                .and_then(|one| one.by)
                .map(|one| &self.strands[one])
            {
                Some(strand) => format!(
                    "strand {} of thread {} left it",
                    strand.ordinal, strand.thread
                ),
                None if *bytes == *history.settled => "it was before".into(),
                None => "nobody left it".into(),
            }
        };
        let expected = self
            .expected(line, evidence.at)
            .map(left)
            .unwrap_or_default();
        format!(
            "line {line:#x} is as {}, and should be as {expected}",
            left(found)
        )
    }
}
