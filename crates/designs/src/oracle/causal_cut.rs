//! *Causal cut*: each sharing group stands at the end of one of its epochs, and nothing that is part of the
//! cut follows, in program order or in the order of coherence, from something that is not.
//!
//! It follows the run by its trace (`perdure_hardware::trace`) and by nothing that the design says:
//! which sharing group is in which epoch follows from the advances, and the *version* of a line is the
//! epoch of the sharing group that stored to it last. The causal cut at epoch E is then every line in
//! its newest version that is not newer than E. That this is closed downwards is checked as the run
//! goes:
//! - in the order of coherence: no sharing group stores to, or goes on after getting, a line whose
//!   version is newer than the sharing group's own epoch;
//! - in program order: the contexts of a sharing group's harts are saved between its epochs, and epochs
//!   only grow.
//!
//! What harts of one sharing group see of each other needs no check: they are always in the same epoch.
//!
//! Digests make it cheap: a version adds to the digest of every epoch from its own on what the line's
//! last bytes in that version differ from those before.

use std::collections::{BTreeMap, HashMap};
use std::io;

use perdure_hardware::arena::{Arena, Digest};
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::trace::Traced;

use super::{
    Beginning, Breach, Evidence, Fault, Judgement, Oracle, Promise, Remember, Witness, breaches_of,
    recovered_epoch, wrong_memory,
};

/// The newest version of a line.
#[derive(Debug)]
struct Newest {
    epoch: u64,
    /// The bytes before it; `None` once the version is closed.
    before: Option<Box<Line>>,
}

/// The oracle.
#[derive(Debug)]
pub struct CausalCut {
    groups: Vec<u64>,
    /// For each sharing group, the version that it got and has not caught up with.
    behind: Vec<Option<u64>>,
    /// Looked up, never iterated over.
    lines: HashMap<LineNumber, Newest>,
    /// By epoch, the lines whose newest version was of that epoch when it began.
    open: BTreeMap<u64, Vec<LineNumber>>,
    /// By epoch, what its versions add.
    changes: BTreeMap<u64, Digest>,
    start: Digest,
    /// The first thing that breaks the order.
    broken: Option<String>,
    /// Memory at the end of one epoch, if somebody wants to look at it.
    image: Option<(u64, Arena)>,
}

impl Promise for CausalCut {
    const NAME: &'static str = "causal-cut";

    fn begin(run: &Witness, beginning: Beginning, remember: Remember) -> io::Result<Self> {
        let image = match remember {
            Remember::Digests => None,
            Remember::Image(epoch) => Some((epoch, run.image()?)),
        };
        Ok(Self {
            groups: vec![beginning.executing; beginning.groups],
            behind: vec![None; beginning.groups],
            lines: HashMap::new(),
            open: BTreeMap::new(),
            changes: BTreeMap::new(),
            start: run.hardware.memory.arena.digest().unwrap_or_default(),
            broken: None,
            image,
        })
    }
}

impl CausalCut {
    fn take(&mut self, event: Traced) {
        let group = match event {
            Traced::Stored { group, .. } | Traced::Observed { group, .. } => group,
            Traced::Advanced { group, epoch } => {
                self.groups[group] = epoch;
                self.behind[group] = self.behind[group].filter(|&version| version > epoch);
                return;
            }
            // What sharing groups saw of each other says enough; what a device makes of a command, and what
            // becomes of a strand, are promises of their own.
            Traced::Wrote { .. }
            | Traced::Loaded { .. }
            | Traced::Ran { .. }
            | Traced::SystemStores { .. }
            | Traced::Committed { .. }
            | Traced::Instructed { .. }
            | Traced::Persisted { .. }
            | Traced::Fenced { .. }
            | Traced::Accessed { .. }
            | Traced::Reached { .. }
            | Traced::Commanded { .. } => return,
            Traced::Saved {
                epoch,
                line,
                old,
                new,
            } => return self.change(epoch, line, &old, &new),
        };
        let epoch = self.groups[group];
        if let Some(version) = self.behind[group] {
            self.breaks(format!(
                "sharing group {group} went on in epoch {epoch} after it got a line of epoch {version}"
            ));
        }
        match event {
            Traced::Observed { line, .. } => {
                let version = self.lines.get(&line).map_or(0, |newest| newest.epoch);
                self.behind[group] = (version > epoch).then_some(version);
            }
            Traced::Stored { line, old, .. } => self.store(group, epoch, line, old),
            _ => {}
        }
    }

    fn store(&mut self, group: usize, epoch: u64, line: LineNumber, old: Box<Line>) {
        match self.lines.get(&line).map(|newest| newest.epoch) {
            Some(version) if version == epoch => return,
            Some(version) if version > epoch => {
                return self.breaks(format!(
                    "sharing group {group} stored in epoch {epoch} to line {line:#x}, which is of epoch {version}"
                ));
            }
            Some(_) => self.close(line, &old),
            None => {}
        }
        let before = Some(old);
        self.lines.insert(line, Newest { epoch, before });
        self.open.entry(epoch).or_default().push(line);
    }

    /// The line's newest version gets its last bytes.
    fn close(&mut self, line: LineNumber, last: &Line) {
        let Some(newest) = self.lines.get_mut(&line) else {
            return;
        };
        if let Some(before) = newest.before.take() {
            let epoch = newest.epoch;
            self.change(epoch, line, &before, last);
        }
    }

    fn change(&mut self, epoch: u64, line: LineNumber, old: &Line, new: &Line) {
        let address = line * LINE_BYTES as u64;
        let change = self.changes.entry(epoch).or_insert(Digest(0));
        change.replace(address, &old.0, &new.0);
        if let Some((wanted, image)) = &mut self.image
            && epoch <= *wanted
        {
            image.write_line(address, new);
        }
    }

    fn breaks(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }
}

impl Oracle for CausalCut {
    fn wants_trace(&self) -> bool {
        true
    }

    fn follow(&mut self, run: &Witness, events: Vec<Traced>) {
        for event in events {
            self.take(event);
        }
        // What all sharing groups have left cannot change any more.
        let oldest = self.groups.iter().copied().min().unwrap_or(0);
        let newer = self.open.split_off(&oldest);
        for (epoch, lines) in std::mem::replace(&mut self.open, newer) {
            for line in lines {
                if self.lines.get(&line).is_some_and(|one| one.epoch == epoch) {
                    self.close(line, &run.line(line));
                }
            }
        }
    }

    fn judge(&self, evidence: &Evidence) -> Judgement {
        let epoch = match recovered_epoch(evidence, self.newest()) {
            Ok(epoch) => epoch,
            Err(judgement) => return judgement,
        };
        let broken = self.broken.as_ref().map(|broken| Breach {
            fault: Fault::Causality,
            judged_by_epoch: epoch,
            message: broken.clone(),
        });
        let mut breaches = Vec::from_iter(broken);
        breaches.extend(breaches_of(epoch, evidence, evidence.announced));
        breaches.extend(wrong_memory(epoch, self.memory(epoch), evidence.memory));
        Judgement {
            epoch: Some(epoch),
            breaches,
            ..Judgement::default()
        }
    }

    /// Of memory at the end of an epoch that every sharing group has left.
    fn memory(&self, epoch: u64) -> Option<Digest> {
        let left = self.groups.iter().all(|&current| current > epoch);
        left.then(|| {
            let sum = self.changes.range(..=epoch).map(|(_, change)| change.0);
            Digest(sum.fold(self.start.0, u128::wrapping_add))
        })
    }

    fn newest(&self) -> u64 {
        let oldest = self.groups.iter().copied().min().unwrap_or(0);
        oldest.saturating_sub(1)
    }

    fn into_image(self: Box<Self>, run: &Witness) -> io::Result<Arena> {
        self.image
            .map_or_else(|| run.image(), |(_, image)| Ok(image))
    }
}
