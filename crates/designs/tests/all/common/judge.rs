//! What a recovered memory may be: the epoch-prefix promise, byte by byte.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use perdure_designs::Design;
use perdure_designs::surviving::{Interrupted, Surviving};
use perdure_hardware::arena::{Arena, PAGE_BYTES};
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::Tear;

use super::Random;

/// Memory as the program sees it; lines that are absent are zero.
pub type Image = BTreeMap<LineNumber, Line>;

/// Why a design is accused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accusation {
    /// It refused to recover from what a mere power cut had left.
    Refused(Interrupted),
    /// The outside has seen a newer epoch than the one that came back.
    OlderThanAnnounced { recovered: u64, announced: u64 },
    /// It claims an epoch that never ended.
    NeverCommitted { recovered: u64 },
    /// A line is not as it was at the end of the epoch.
    WrongMemory {
        epoch: u64,
        line: LineNumber,
        wrong_lines: usize,
    },
    /// A second power cut, at this step of recovery, changed what came back.
    NotConverged { step: u64, why: Box<Accusation> },
    /// A load did not find what was stored.
    WrongLoad { hart: usize, line: LineNumber },
    /// Asked for a line's newest bytes, it gave others, or gave them twice.
    NotNewest { line: LineNumber },
    /// It could not go on.
    Failed(String),
}

impl Accusation {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::OlderThanAnnounced { .. } => "older than announced",
            Self::NeverCommitted { .. } => "never committed",
            Self::WrongMemory { .. } => "wrong memory",
            Self::NotConverged { .. } => "not converged",
            Self::WrongLoad { .. } => "wrong load",
            Self::NotNewest { .. } => "not the newest",
            Self::Failed(_) => "failed",
        }
    }
}

impl fmt::Display for Accusation {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{}: {self:?}", self.kind())
    }
}

/// What came of a run with a planted bug. Only an accusation counts as having caught it: a panic says
/// that some code broke, ours perhaps, and not that a judge saw the mistake.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<T, A> {
    Clean(T),
    Accused(A),
    Panicked,
}

/// Runs it to its end, whatever that is.
pub fn verdict<T, A>(run: impl FnOnce() -> Result<T, A>) -> Verdict<T, A> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(clean)) => Verdict::Clean(clean),
        Ok(Err(accusation)) => Verdict::Accused(accusation),
        Err(_) => Verdict::Panicked,
    }
}

#[test]
fn a_panic_catches_no_bug() {
    assert_eq!(verdict::<(), ()>(|| panic!("planted")), Verdict::Panicked);
    assert_eq!(
        verdict::<(), _>(|| Err("accused")),
        Verdict::Accused("accused")
    );
}

/// Everything that the verifier knows at a cut.
pub struct Judge<'a> {
    pub golden: &'a BTreeMap<u64, Image>,
    pub announced: u64,
    pub protected: Range<u64>,
    pub bug: Option<&'static str>,
}

/// A recovery that kept the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub epoch: u64,
    pub steps: u64,
}

/// Recovers, and says which epoch came back; 0 where there are none.
pub fn recovered_epoch<D: Design>(
    image: &mut Surviving,
    bug: Option<&'static str>,
) -> Result<u64, Interrupted> {
    let recovered = D::recover(image, bug)?;
    Ok(recovered.epoch.unwrap_or_default())
}

impl Judge<'_> {
    /// Recovers, judges, and puts the image back as it was.
    pub fn recover<D: Design>(&self, arena: &mut Arena) -> Result<Kept, Accusation> {
        let mut surviving = Surviving::new(arena);
        let recovered = recovered_epoch::<D>(&mut surviving, self.bug);
        let steps = surviving.steps();
        let journal = surviving.into_journal();
        let judged = recovered
            .map_err(Accusation::Refused)
            .and_then(|epoch| self.memory(arena, epoch));
        journal.undo(arena);
        judged.map(|epoch| Kept { epoch, steps })
    }

    /// Lets the power fail again at a step of recovery, sometimes a third time too, and wants the
    /// same epoch in the end. Puts the image back as it was.
    pub fn converges<D: Design>(
        &self,
        arena: &mut Arena,
        expected: Kept,
        step: u64,
        random: &mut Random,
    ) -> Result<(), Accusation> {
        let not_converged = |why| Accusation::NotConverged {
            step,
            why: Box::new(why),
        };
        let mut journals = Vec::new();
        let mut fails_at = vec![step];
        if random.once_in(3) {
            fails_at.push(random.below(expected.steps));
        }
        for fails_at in fails_at {
            let tear = Tear::new(random.next());
            let mut surviving = Surviving::new(arena).failing_at(fails_at, tear);
            let cut_off = D::recover(&mut surviving, self.bug);
            journals.push(surviving.into_journal());
            match cut_off {
                // The second recovery may have nothing left to do, and take fewer steps.
                Err(Interrupted::PowerLost) | Ok(_) => {}
                Err(refused) => {
                    restore(journals, arena);
                    return Err(not_converged(Accusation::Refused(refused)));
                }
            }
        }
        let again = self.recover::<D>(arena);
        restore(journals, arena);
        match again {
            Ok(kept) if kept.epoch == expected.epoch => Ok(()),
            Ok(kept) => Err(not_converged(Accusation::OlderThanAnnounced {
                recovered: kept.epoch,
                announced: expected.epoch,
            })),
            Err(why) => Err(not_converged(why)),
        }
    }

    /// Is this the memory of that epoch, and may it be that epoch?
    pub fn memory(&self, arena: &Arena, epoch: u64) -> Result<u64, Accusation> {
        if epoch < self.announced {
            return Err(Accusation::OlderThanAnnounced {
                recovered: epoch,
                announced: self.announced,
            });
        }
        let golden = self
            .golden
            .get(&epoch)
            .ok_or(Accusation::NeverCommitted { recovered: epoch })?;
        let wrong = wrong_lines(arena, golden, &self.protected);
        match wrong.first() {
            None => Ok(epoch),
            Some(&line) => Err(Accusation::WrongMemory {
                epoch,
                line,
                wrong_lines: wrong.len(),
            }),
        }
    }
}

fn restore(journals: Vec<perdure_designs::surviving::Journal>, arena: &mut Arena) {
    for journal in journals.into_iter().rev() {
        journal.undo(arena);
    }
}

/// The lines of a range that differ from a golden image: those that it names, and all others that
/// were ever written and are not zero.
pub fn wrong_lines(arena: &Arena, golden: &Image, range: &Range<u64>) -> Vec<LineNumber> {
    let mut wrong: Vec<LineNumber> = golden
        .iter()
        .filter(|&(&line, bytes)| arena.line(line * LINE_BYTES as u64) != bytes)
        .map(|(&line, _)| line)
        .collect();
    for page in arena
        .written_pages()
        .skip_while(|page| *page < range.start)
        .take_while(|page| *page < range.end)
    {
        for address in (page..page + PAGE_BYTES as u64).step_by(LINE_BYTES) {
            let line = address / LINE_BYTES as u64;
            if arena.line(address) != &Line::ZERO && !golden.contains_key(&line) {
                wrong.push(line);
            }
        }
    }
    wrong
}
