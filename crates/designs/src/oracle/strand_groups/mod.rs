//! *Strand groups*: strands that stored to one line while neither was committed are a group, which is there
//! whole or not at all; each line is as the last committed strand left it; and no strand is missing of which
//! somebody was told that it is committed.
//!
//! It follows the run by its trace: which thread runs where, which instructions end its strand, who stores
//! to which line, and what the design says of commits. Groups are its own reckoning. What it takes the
//! design's word for is *when* a strand is committed, which the design may choose: that all of the group are,
//! that they had ended, that whoever waited for them was answered no earlier, and that the bytes are there
//! when the power fails, is checked.
//!
//! A strand that is there may have loaded from a line of one that is not, or follow it in its thread: the
//! paper orders neither. The judgement says so ([`Without`]), and it is a breach where the design promises
//! that order (`spms.order`).
//!
//! What the system stores for itself (the table of pools, zeros in new pages) is nobody's strand's: of such a
//! line nothing is demanded until a strand that stored to it is committed.

mod image;
mod order;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Range;

use perdure_hardware::arena::Digest;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::physical_map::PhysicalMap;
use perdure_hardware::policy::Behind;
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;

use super::{
    Beginning, Breach, Evidence, Fault, Judgement, Oracle, Promise, Remember, Without, Witness,
    Wrong, breaches_until,
};
use crate::Design;
use crate::layout::Layout;
use crate::spms::{NEW_STRAND, STRAND_SYNC, Spms};
use order::Early;

/// A strand by its number here.
type Number = usize;

#[derive(Debug)]
struct Strand {
    thread: u32,
    ordinal: u64,
    ended: bool,
    /// When the design says that it is committed.
    committed: Option<Cycles>,
    /// It has met on a line what a strand left that is committed then.
    not_before: Cycles,
    /// Towards the strand that stands for its group.
    group: Number,
    lines: Vec<LineNumber>,
    /// From which strands' lines it has loaded, when these were not committed, as far as was known.
    loaded: Vec<(Number, LineNumber)>,
}

/// What a line was, from one writer's first store on.
#[derive(Debug)]
struct Written {
    /// `None`: the system.
    by: Option<Number>,
    /// Its last bytes, once they are known.
    bytes: Option<Box<Line>>,
}

/// A line.
#[derive(Debug)]
struct History {
    /// Before all that is written below: what every cut finds unless something there is committed.
    settled: Box<Line>,
    written: Vec<Written>,
}

/// The oracle.
#[derive(Debug)]
pub struct StrandGroups {
    scope: Range<u64>,
    threads: Vec<u32>,
    system: Vec<bool>,
    /// By thread, its strand.
    current: HashMap<u32, Number>,
    /// By thread and ordinal, all that are not settled.
    by_name: BTreeMap<(u32, u64), Number>,
    strands: Vec<Strand>,
    lines: HashMap<LineNumber, History>,
    /// A strand that has met another one on a line. If they are in one group is known when the design has
    /// dealt with the store, as it may commit the other one before.
    conflict: Option<(Number, Number)>,
    /// Of every line the settled bytes.
    settled: Digest,
    /// Lines whose settled bytes are not known.
    unknown: BTreeSet<LineNumber>,
    /// Strands that are committed and not settled, by when.
    pending: BTreeSet<(Cycles, Number)>,
    /// Strands that are committed before others from which they had loaded.
    early: Vec<Early>,
    /// By thread, the last strand of those that are settled and have stored anything.
    last_settled: BTreeMap<u32, u64>,
    behind: Behind,
    /// What is wrong from a moment on, whatever is found after a cut.
    wrong: Vec<Wrong>,
    committed: u64,
}

impl Promise for StrandGroups {
    const NAME: &'static str = "strand-groups";
    const HEARS_LOADS: bool = true;

    fn scope(map: &PhysicalMap, _: &Layout) -> Range<u64> {
        (map.pools().next()).map_or(0..0, |region| Spms::pool_data(&region))
    }

    fn begin(run: &Witness, _: Beginning, _: Remember) -> io::Result<Self> {
        let harts = run.hardware.cores.len();
        Ok(Self {
            scope: run.range.clone(),
            threads: (0..harts as u32).collect(),
            system: vec![false; harts],
            current: HashMap::new(),
            by_name: BTreeMap::new(),
            strands: Vec::new(),
            lines: HashMap::new(),
            conflict: None,
            settled: run.digest(),
            unknown: BTreeSet::new(),
            pending: BTreeSet::new(),
            early: Vec::new(),
            last_settled: BTreeMap::new(),
            behind: run.design.commits_behind(),
            wrong: Vec::new(),
            committed: 0,
        })
    }
}

impl StrandGroups {
    fn take(&mut self, event: Traced, announced: &mut Vec<Number>) {
        if !matches!(event, Traced::Committed { .. }) {
            self.join();
        }
        match event {
            Traced::Ran { hart, thread } => self.threads[hart] = thread,
            Traced::SystemStores { hart, begins } => self.system[hart] = begins,
            Traced::Stored {
                hart, line, old, ..
            } if self.scope.contains(&(line * LINE_BYTES as u64)) => self.store(hart, line, old),
            Traced::Loaded { hart, line } if self.scope.contains(&(line * LINE_BYTES as u64)) => {
                self.load(hart, line);
            }
            Traced::Instructed { hart, function, .. } if function == NEW_STRAND => self.end(hart),
            Traced::Instructed {
                hart,
                function,
                value,
                done,
                ..
            } if function == STRAND_SYNC => self.answered(hart, value, done),
            Traced::Committed { thread, strand, at } => {
                self.commit(thread, strand, at, announced);
            }
            _ => {}
        }
    }

    /// The strand of a hart's thread; a new one if it has none.
    fn strand_on(&mut self, hart: usize) -> Number {
        let thread = self.threads[hart];
        if let Some(&strand) = self.current.get(&thread) {
            return strand;
        }
        let ordinal = (self
            .by_name
            .range((thread, 0)..=(thread, u64::MAX))
            .next_back())
        .map_or(0, |(&(_, ordinal), _)| ordinal + 1);
        self.begin_strand(thread, ordinal)
    }

    fn begin_strand(&mut self, thread: u32, ordinal: u64) -> Number {
        let strand = self.strands.len();
        self.strands.push(Strand {
            thread,
            ordinal,
            ended: false,
            committed: None,
            not_before: 0,
            group: strand,
            lines: Vec::new(),
            loaded: Vec::new(),
        });
        self.current.insert(thread, strand);
        self.by_name.insert((thread, ordinal), strand);
        strand
    }

    /// `NewStrand`.
    fn end(&mut self, hart: usize) {
        let thread = self.threads[hart];
        let ended = self.current.remove(&thread);
        let ordinal = ended.map_or(0, |strand| {
            self.strands[strand].ended = true;
            self.strands[strand].ordinal + 1
        });
        self.begin_strand(thread, ordinal);
    }

    fn group(&self, strand: Number) -> Number {
        let mut at = strand;
        while self.strands[at].group != at {
            at = self.strands[at].group;
        }
        at
    }

    fn store(&mut self, hart: usize, line: LineNumber, old: Box<Line>) {
        let by = (!self.system[hart]).then(|| self.strand_on(hart));
        let history = self.lines.entry(line).or_insert_with(|| History {
            settled: old.clone(),
            written: Vec::new(),
        });
        let last = history.written.last_mut();
        let writer = last.as_ref().and_then(|last| last.by);
        let again = last.as_ref().is_some_and(|last| last.by == by);
        if let Some(last) = last {
            last.bytes = (!again).then_some(old);
        }
        if !again {
            history.written.push(Written { by, bytes: None });
        }
        let Some(strand) = by else {
            self.unknown.insert(line);
            return;
        };
        if !again {
            self.strands[strand].lines.push(line);
        }
        self.check_not_committed(strand);
        self.conflict = writer.map(|writer| (writer, strand));
    }

    /// Strands that have met on a line are of one group, unless the first was committed before.
    fn join(&mut self) {
        let Some((writer, strand)) = self.conflict.take() else {
            return;
        };
        if let Some(at) = self.strands[writer].committed {
            let not_before = &mut self.strands[strand].not_before;
            *not_before = at.max(*not_before);
            return;
        }
        let (one, other) = (self.group(writer), self.group(strand));
        self.strands[other].group = one;
    }

    /// A strand is not committed before its last store.
    fn check_not_committed(&mut self, strand: Number) {
        let Strand {
            thread,
            ordinal,
            committed,
            ..
        } = self.strands[strand];
        if let Some(at) = committed {
            let message =
                format!("strand {ordinal} of thread {thread} was committed before it ended");
            self.wrong.push((at, Fault::Causality, message));
        }
    }

    fn commit(&mut self, thread: u32, ordinal: u64, at: Cycles, announced: &mut Vec<Number>) {
        let name = (thread, ordinal);
        let Some(&number) = self.by_name.get(&name) else {
            self.wrong.push((
                at,
                Fault::Causality,
                format!(
                    "strand {ordinal} of thread {thread} was committed, which never stored anything"
                ),
            ));
            return;
        };
        self.committed += 1;
        if at < self.strands[number].not_before {
            let message = format!(
                "strand {ordinal} of thread {thread} was committed at cycle {at}, before one that it came behind"
            );
            self.wrong.push((at, Fault::Causality, message));
        }
        self.strands[number].committed = Some(at);
        self.pending.insert((at, number));
        announced.push(number);
    }

    /// `strand_sync` has said that all but so many of its thread's strands are committed.
    fn answered(&mut self, hart: usize, value: u64, done: Cycles) {
        let thread = self.threads[hart];
        let current = self.current.get(&thread);
        let has_done = |&strand: &Number| !self.strands[strand].lines.is_empty();
        if current.is_some_and(|strand| self.behind.loads || has_done(strand)) {
            self.end(hart);
        }
        let ended = (self.by_name.range((thread, 0)..=(thread, u64::MAX)))
            .filter(|&(_, &strand)| self.strands[strand].ended);
        let missing = ended.filter(|&(_, &strand)| {
            let committed = self.strands[strand].committed;
            committed.is_none_or(|committed| committed > done)
        });
        let missing = missing.count() as u64;
        if missing > value {
            self.wrong.push((
                done,
                Fault::Age,
                format!("thread {thread} was told that {value} of its strands are not committed, and {missing} were not"),
            ));
        }
    }

    /// All of a group are committed together.
    fn check_group(&mut self, announced: &[Number]) {
        let groups: BTreeSet<Number> = announced.iter().map(|&one| self.group(one)).collect();
        if groups.is_empty() {
            return;
        }
        let of_groups = (self.by_name.values()).filter(|&&one| groups.contains(&self.group(one)));
        let mut commits: BTreeMap<Number, BTreeSet<Option<Cycles>>> = BTreeMap::new();
        for &strand in of_groups {
            let group = self.group(strand);
            let committed = self.strands[strand].committed;
            commits.entry(group).or_default().insert(committed);
        }
        for (group, times) in commits {
            let first = times.iter().flatten().next().copied();
            if let (Some(first), true) = (first, times.len() > 1) {
                let named = |together: bool| {
                    let mut strands = self.by_name.iter();
                    let found = strands.find(|&(_, &one)| {
                        let committed = self.strands[one].committed;
                        self.group(one) == group && (committed == Some(first)) == together
                    });
                    let (thread, ordinal) = found.map_or((0, 0), |(&name, _)| name);
                    format!("strand {ordinal} of thread {thread}")
                };
                let (there, missing) = (named(true), named(false));
                let message = format!(
                    "a group was committed in part: {there} at cycle {first}, and {missing} was not"
                );
                self.wrong.push((first, Fault::Causality, message));
            }
        }
    }

    /// What strands that are committed have left is known: nobody stores for them any more.
    fn close(&mut self, run: &Witness, announced: &[Number]) {
        for &strand in announced {
            for &line in &self.strands[strand].lines {
                let Some(history) = self.lines.get_mut(&line) else {
                    continue;
                };
                if let Some(last) = history.written.last_mut()
                    && last.by == Some(strand)
                {
                    last.bytes = Some(Box::new(run.line(line)));
                }
            }
        }
    }

    /// What no cut can come before is part of what every cut finds.
    fn settle(&mut self, horizon: Cycles) {
        while let Some(&(at, number)) = self.pending.first()
            && at <= horizon
        {
            self.pending.pop_first();
            let lines = std::mem::take(&mut self.strands[number].lines);
            let strand = &self.strands[number];
            if !lines.is_empty() {
                let last = self.last_settled.entry(strand.thread).or_default();
                *last = strand.ordinal.max(*last);
            }
            for line in lines {
                self.settle_line(number, line);
            }
            let strand = &self.strands[number];
            self.by_name.remove(&(strand.thread, strand.ordinal));
        }
        let strands = &self.strands;
        let committed = |early: &Early| strands[early.missing].committed;
        (self.early).retain(|early| committed(early).is_none_or(|at| at > horizon));
    }

    fn settle_line(&mut self, strand: Number, line: LineNumber) {
        let Some(history) = self.lines.get_mut(&line) else {
            return;
        };
        let Some(place) = history
            .written
            .iter()
            .rposition(|one| one.by == Some(strand))
        else {
            return;
        };
        let Some(bytes) = history.written[place].bytes.take() else {
            return;
        };
        let address = line * LINE_BYTES as u64;
        self.settled.replace(address, &history.settled.0, &bytes.0);
        history.settled = bytes;
        history.written.drain(..=place);
        if history.written.iter().all(|one| one.by.is_some()) {
            self.unknown.remove(&line);
        }
    }
}

impl Oracle for StrandGroups {
    fn wants_trace(&self) -> bool {
        true
    }

    fn follow(&mut self, run: &Witness, events: Vec<Traced>) {
        let mut announced = Vec::new();
        for event in events {
            self.take(event, &mut announced);
        }
        self.join();
        self.close(run, &announced);
        self.check_group(&announced);
        self.note_loads(&announced);
        self.settle(run.hardware.memory.horizon());
    }

    fn wrong_lines(&self, evidence: &Evidence) -> Option<Vec<(LineNumber, Line)>> {
        Some(self.wrong(evidence))
    }

    fn judge(&self, evidence: &Evidence) -> Judgement {
        if let Err(why) = evidence.recovered {
            return Judgement::refused(why.to_string(), 0);
        }
        let mut breaches = breaches_until(evidence.at, &self.wrong);
        if self.digest(evidence) != evidence.memory {
            breaches.push(Breach {
                fault: Fault::Memory,
                judged_by_epoch: 0,
                message: self.difference(evidence),
            });
        }
        let without = Without {
            loaded: self.without_loaded(evidence.at),
            before: self.without_before(evidence.at),
        };
        let promised = [
            without.loaded.as_ref().filter(|_| self.behind.loads),
            without.before.as_ref().filter(|_| self.behind.threads),
        ];
        breaches.extend(promised.into_iter().flatten().map(|message| Breach {
            fault: Fault::Causality,
            judged_by_epoch: 0,
            message: message.clone(),
        }));
        let later = self.pending.iter().filter(|(at, _)| *at > evidence.at);
        let committed = self.committed - later.count() as u64;
        Judgement {
            epoch: None,
            found: Some(format!("the pool is as {committed} strands left it")),
            without,
            breaches,
        }
    }
}
