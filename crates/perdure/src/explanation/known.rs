//! What is known of a wrong line: every version that it has had, compared with the bytes that were found.
//!
//! A version has a *mark*: the epoch at whose end the line was so, or, where there are no epochs, the cycle
//! from which on it was. Only what equals the bytes that were found is kept, so that a line that is stored
//! to a million times takes no more room than another one.
//!
//! Always true here: what is said follows from bytes alone; nobody is asked which version something is.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use perdure_hardware::line::{LINE_BYTES, Line};
use perdure_hardware::time::Cycles;
use perdure_hardware::watched::Writer;
use serde::Serialize;

/// Words of a line.
pub const WORDS: usize = LINE_BYTES / 8;

/// Most runs of versions that are kept of one line or word: the last ones.
const RUNS: usize = 64;

/// What marks versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marks {
    /// Ends of epochs.
    Epoch,
    /// Cycles.
    Cycle,
}

/// How the bytes that were found are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// They are those of an older version.
    Older,
    /// They are those of a version that had to be gone.
    Newer,
    /// Words of several versions.
    Mixed,
    /// At least one word that no version had.
    Neither,
}

/// Versions that equal what was found: closed ones by their marks, and one in the middle of an epoch.
#[derive(Clone, Debug, Default)]
struct Same {
    runs: Vec<RangeInclusive<u64>>,
    /// The newest epoch in the middle of which it was so.
    within: Option<u64>,
    /// It is so now, with nothing to close it.
    now: bool,
}

impl Same {
    /// A version that equals it stood from one mark to another.
    fn add(&mut self, from: u64, to: u64) {
        match self.runs.last_mut() {
            Some(last) if *last.end() + 1 >= from => *last = *last.start()..=to.max(*last.end()),
            _ => {
                if self.runs.len() == RUNS {
                    self.runs.remove(1);
                }
                self.runs.push(from..=to);
            }
        }
    }

    /// Some version was so.
    fn is_known(&self) -> bool {
        !self.runs.is_empty() || self.now || self.within.is_some()
    }

    fn has(&self, mark: u64) -> bool {
        self.runs.iter().any(|run| run.contains(&mark))
    }

    /// The run that is nearest to a mark, an older one if two are.
    fn nearest(&self, mark: u64) -> Option<&RangeInclusive<u64>> {
        let away = |run: &&RangeInclusive<u64>| {
            let (older, newer) = (
                mark.saturating_sub(*run.end()),
                run.start().saturating_sub(mark),
            );
            (older.max(newer), newer > 0)
        };
        self.runs.iter().min_by_key(away)
    }
}

/// Who stored to a line last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// The hart.
    pub hart: usize,
    /// When.
    pub at: Cycles,
    /// In which epoch; 0 where there are none.
    pub epoch: u64,
    /// On whose behalf.
    pub writer: Writer,
}

/// A wrong line and its versions.
#[derive(Clone, Debug)]
pub struct Known {
    /// As it should be.
    pub expected: Line,
    /// As it came back.
    pub found: Line,
    /// As programs see it, by now.
    pub newest: Line,
    /// Who made it so; nobody since the start.
    pub store: Option<Store>,
    /// How often it was stored to.
    pub stores: u64,
    /// The first mark whose version is not closed yet.
    open: u64,
    whole: Same,
    words: [Same; WORDS],
    /// Versions that are as expected.
    right: Same,
}

/// One word of eight bytes.
pub fn word(line: &Line, at: usize) -> &[u8] {
    &line.0[at * 8..at * 8 + 8]
}

impl Known {
    /// A line that is `first` at the start, whose mark that is.
    pub fn new([expected, found, first]: [Line; 3], start: u64) -> Self {
        Self {
            expected,
            found,
            newest: first,
            store: None,
            stores: 0,
            open: start,
            whole: Same::default(),
            words: std::array::from_fn(|_| Same::default()),
            right: Same::default(),
        }
    }

    /// Every version up to a mark is as the newest bytes are.
    pub fn close(&mut self, mark: u64) {
        if mark < self.open {
            return;
        }
        let from = std::mem::replace(&mut self.open, mark + 1);
        if self.newest == self.expected {
            self.right.add(from, mark);
        }
        if self.newest == self.found {
            self.whole.add(from, mark);
        }
        for (at, same) in self.words.iter_mut().enumerate() {
            if word(&self.newest, at) == word(&self.found, at) {
                same.add(from, mark);
            }
        }
    }

    /// Something newer than every mark before this one is about to be stored.
    pub fn close_before(&mut self, mark: u64) {
        if mark > self.open {
            self.close(mark - 1);
        }
    }

    /// A hart has stored.
    pub fn stored(&mut self, bytes: Line, store: Store) {
        self.newest = bytes;
        self.stores += 1;
        self.store = Some(store);
        if bytes == self.found {
            self.whole.within = Some(store.epoch);
        }
        for (at, same) in self.words.iter_mut().enumerate() {
            if word(&bytes, at) == word(&self.found, at) {
                same.within = Some(store.epoch);
            }
        }
    }

    /// It has changed, and no hart has stored.
    pub fn changed(&mut self, bytes: Line, mark: u64) {
        self.close_before(mark);
        self.newest = bytes;
    }

    /// Nothing more will be heard of it.
    pub fn end(&mut self) {
        self.whole.now = self.newest == self.found;
        for (at, same) in self.words.iter_mut().enumerate() {
            same.now = word(&self.newest, at) == word(&self.found, at);
        }
    }

    /// Words that are not as expected.
    pub fn wrong_words(&self) -> Vec<usize> {
        let differs = |&at: &usize| word(&self.expected, at) != word(&self.found, at);
        (0..WORDS).filter(differs).collect()
    }

    /// The first byte of a word that is not as expected, in its line.
    pub fn first_wrong_byte(&self, at: usize) -> usize {
        let differs = |&byte: &usize| self.expected.0[byte] != self.found.0[byte];
        (at * 8..at * 8 + 8).find(differs).unwrap_or(at * 8)
    }

    /// What is wrong, in a word and in words. `promised` is the mark of what should have come back, and
    /// `executing` what ran at the cut.
    pub fn judge(&self, marks: Marks, promised: u64, executing: u64) -> (Kind, String) {
        let at = Judge {
            marks,
            promised: match marks {
                Marks::Epoch => promised,
                Marks::Cycle if self.newest == self.expected => self.open,
                Marks::Cycle => self.right.runs.last().map_or(0, |run| *run.end()),
            },
            executing,
        };
        if let Some(said) = at.version(&self.whole) {
            return said;
        }
        let wrong = self.wrong_words();
        let strange = wrong.iter().filter(|&&word| !self.words[word].is_known());
        let strange = strange.count();
        if strange > 0 {
            let words = if strange == 1 { "word" } else { "words" };
            let text = format!("neither: {strange} {words} with bytes that no version had");
            return (Kind::Neither, text);
        }
        (Kind::Mixed, at.mixture(self, &wrong))
    }
}

struct Judge {
    marks: Marks,
    promised: u64,
    executing: u64,
}

impl Judge {
    /// Which version a line is, if it is one.
    fn version(&self, same: &Same) -> Option<(Kind, String)> {
        let nearest = same.nearest(self.promised);
        let closed = nearest.map(|run| (*run.end() < self.promised, self.ends(run)));
        let newer = |text: String| (Kind::Newer, format!("newer than promised: {text}"));
        match (closed, same.within) {
            (Some((true, text)), _) => Some((Kind::Older, format!("older: as it was {text}"))),
            (Some((false, text)), _) => Some(newer(format!("as it was {text}"))),
            (None, _) if same.now => Some(newer(self.now())),
            (None, Some(within)) if self.marks == Marks::Epoch => {
                let text = format!("as it was in the middle of epoch {within}");
                Some(if within <= self.promised {
                    (Kind::Older, format!("older: {text}"))
                } else {
                    newer(text)
                })
            }
            _ => None,
        }
    }

    fn now(&self) -> String {
        match self.marks {
            Marks::Epoch => format!("as it was at the cut, in epoch {}", self.executing),
            Marks::Cycle => "as it was at the cut".into(),
        }
    }

    fn ends(&self, run: &RangeInclusive<u64>) -> String {
        let (from, to) = (run.start(), run.end());
        match self.marks {
            Marks::Epoch if *to == 0 => "at the start".into(),
            Marks::Epoch if from == to => format!("at the end of epoch {to}"),
            Marks::Epoch if *from == 0 => format!("from the start to the end of epoch {to}"),
            Marks::Epoch => format!("at the ends of epochs {from} to {to}"),
            Marks::Cycle if *from == 0 => format!("from the start to cycle {to}"),
            Marks::Cycle => format!("from cycle {from} to {to}"),
        }
    }

    /// The versions of whose words a line is made.
    fn mixture(&self, known: &Known, wrong: &[usize]) -> String {
        let right = wrong.len() < WORDS;
        if self.marks == Marks::Cycle {
            let of = wrong
                .iter()
                .map(|&at| match known.words[at].nearest(self.promised) {
                    Some(run) if *run.start() <= self.promised => "older versions",
                    _ => "newer versions",
                });
            let mut of: BTreeSet<&str> = of.collect();
            of.extend(right.then_some("the promised one"));
            return format!("mixed: words of {}", listed(of));
        }
        let (mut ends, mut middles) = (BTreeSet::new(), BTreeSet::new());
        ends.extend(right.then_some(self.promised));
        for &at in wrong {
            let same = &known.words[at];
            // One that is there already explains a word as well as any other.
            if ends.iter().any(|&end| same.has(end)) {
                continue;
            }
            match (same.nearest(self.promised), same.now, same.within) {
                (Some(run), ..) if *run.end() < self.promised => drop(ends.insert(*run.end())),
                (Some(run), ..) => drop(ends.insert(*run.start())),
                (None, true, _) => drop(middles.insert(self.executing)),
                (None, _, Some(within)) => drop(middles.insert(within)),
                (None, ..) => {}
            }
        }
        let middles = middles
            .into_iter()
            .map(|epoch| format!("{epoch} (before its end)"));
        let all: Vec<String> = (ends.iter().map(u64::to_string)).chain(middles).collect();
        let epochs = if all.len() == 1 { "epoch" } else { "epochs" };
        format!("mixed: words of {epochs} {}", listed(all))
    }
}

/// Words, one after the other.
fn listed<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    let mut all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    let last = all.pop().unwrap_or_default();
    if all.is_empty() {
        return last;
    }
    format!("{} and {last}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line with this in each of its words.
    fn filled(words: [u8; WORDS]) -> Line {
        let mut line = Line::ZERO;
        for (at, byte) in words.into_iter().enumerate() {
            line.0[at * 8..at * 8 + 8].fill(byte);
        }
        line
    }

    fn all(byte: u8) -> Line {
        filled([byte; WORDS])
    }

    /// A line that held 1, 2, … at the ends of epochs 1, 2, …, to 4, held 45 in the middle of epoch 5,
    /// then 5, which is there at the cut. Epoch 3 was promised.
    fn judged(found: Line) -> (Kind, String) {
        let mut known = Known::new([all(3), found, all(0)], 0);
        known.close(0);
        let store = |epoch| Store {
            hart: 0,
            at: epoch * 100,
            epoch,
            writer: Writer::default(),
        };
        for epoch in 1..=4 {
            known.stored(all(epoch as u8), store(epoch));
            known.close(epoch);
        }
        known.stored(all(45), store(5));
        known.stored(all(5), store(5));
        known.end();
        known.judge(Marks::Epoch, 3, 5)
    }

    #[test]
    fn a_line_is_told_by_its_version() {
        for (found, kind, said) in [
            (
                all(2),
                Kind::Older,
                "older: as it was at the end of epoch 2",
            ),
            (all(0), Kind::Older, "older: as it was at the start"),
            (
                all(4),
                Kind::Newer,
                "newer than promised: as it was at the end of epoch 4",
            ),
            (
                all(5),
                Kind::Newer,
                "newer than promised: as it was at the cut, in epoch 5",
            ),
            (
                all(45),
                Kind::Newer,
                "newer than promised: as it was in the middle of epoch 5",
            ),
        ] {
            assert_eq!(judged(found), (kind, said.to_owned()));
        }
    }

    #[test]
    fn words_of_several_versions_are_mixed_and_others_are_nobodys() {
        let two = filled([3, 3, 4, 4, 3, 3, 3, 3]);
        let said = "mixed: words of epochs 3 and 4";
        assert_eq!(judged(two), (Kind::Mixed, said.to_owned()));
        let three = filled([1, 3, 4, 5, 3, 3, 3, 3]);
        let said = "mixed: words of epochs 1, 3, 4 and 5 (before its end)";
        assert_eq!(judged(three), (Kind::Mixed, said.to_owned()));
        let strange = filled([9, 3, 4, 5, 3, 3, 3, 3]);
        let said = "neither: 1 word with bytes that no version had";
        assert_eq!(judged(strange), (Kind::Neither, said.to_owned()));
    }

    #[test]
    fn without_epochs_cycles_tell_versions() {
        let mut known = Known::new([all(2), all(1), all(0)], 0);
        for (value, at) in [(1, 10), (2, 20), (3, 30)] {
            known.close(at - 1);
            let store = Store {
                hart: 1,
                at,
                epoch: 0,
                writer: Writer::default(),
            };
            known.stored(all(value), store);
        }
        known.end();
        let said = "older: as it was from cycle 10 to 19";
        let judged = known.judge(Marks::Cycle, 0, 0);
        assert_eq!(judged, (Kind::Older, said.to_owned()));
        assert_eq!(known.wrong_words().len(), WORDS);
    }

    #[test]
    fn a_version_that_stays_is_a_run_of_epochs() {
        let mut known = Known::new([all(2), all(1), all(1)], 0);
        known.close(0);
        known.close(3);
        let store = Store {
            hart: 0,
            at: 5,
            epoch: 4,
            writer: Writer::default(),
        };
        known.stored(all(2), store);
        known.close(4);
        known.end();
        let said = "older: as it was from the start to the end of epoch 3";
        assert_eq!(known.judge(Marks::Epoch, 4, 5).1, said);
    }
}
