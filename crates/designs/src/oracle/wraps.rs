//! *Wraps*: a closed wrap is there whole, any other one not at all; each word is as the last closed wrap that
//! recorded it left it, unless something outside of wraps has stored there since; and no wrap is missing
//! whose thread was told that it is closed.
//!
//! It follows the run by its trace: which thread runs where, which instructions open and close its wrap, and
//! which records it sends. What it takes the design's word for is *when* a wrap is durable: that it had been
//! closed, that its thread was told no earlier, and that its words are there after a cut, is checked.
//!
//! What is stored outside of wraps it knows by its effect: each time that a line of the scope is stored to
//! when it was clean, and before each cut, a word that is not as its newest record says is nobody's. Then
//! nothing is demanded of it until a wrap that recorded it later is closed. Nothing else can have gone home.
//!
//! Wraps that store to the same word must not overlap: a wrap may store to it when the other one's close has
//! been answered. For others nothing is promised, and they are not judged rightly.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Range;

use perdure_hardware::arena::Digest;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};
use perdure_hardware::physical_map::PhysicalMap;
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;

use super::{
    Beginning, Breach, Evidence, Fault, Judgement, Oracle, Promise, Remember, Witness, Wrong,
    breaches_until,
};
use crate::Design;
use crate::hlog::{Hlog, WRAP_CLOSE, WRAP_OPEN, WRAP_RECORD};
use crate::layout::Layout;

const WORDS: usize = LINE_BYTES / 8;

/// A wrap by its number here.
type Number = usize;

#[derive(Debug)]
struct Wrap {
    thread: u32,
    ordinal: u64,
    /// When the design says that it is durable.
    durable: Option<Cycles>,
    /// Wraps within it that are open.
    inner: u64,
    /// Words that it has recorded.
    words: u64,
}

/// What happened to a word.
#[derive(Clone, Copy, Debug)]
enum Written {
    By { wrap: Number, value: u64 },
    ByNobody,
}

/// A line that was stored to.
#[derive(Debug)]
struct History {
    /// As it was before.
    first: Line,
    /// By word, what every cut finds unless something below counts; `None` if anything will do.
    settled: [Option<u64>; WORDS],
    written: [Vec<Written>; WORDS],
}

fn word(line: &Line, at: usize) -> u64 {
    crate::bytes::word(&line.0, at)
}

/// The oracle.
#[derive(Debug)]
pub struct Wraps {
    scope: Range<u64>,
    threads: Vec<u32>,
    /// By thread, its open wrap.
    open: HashMap<u32, Number>,
    /// By thread, wraps that it has opened.
    opened: HashMap<u32, u64>,
    all: Vec<Wrap>,
    lines: BTreeMap<LineNumber, History>,
    /// Of memory at the start.
    first: Digest,
    /// A wrap that the design says is durable, and that is not open: it has to be a record by itself.
    announced: Option<(u32, u64, Cycles)>,
    /// When wraps are durable.
    durable: BTreeSet<(Cycles, Number)>,
    /// What is wrong from a moment on, whatever is found after a cut.
    wrong: Vec<Wrong>,
}

impl Promise for Wraps {
    const NAME: &'static str = "wraps";

    fn scope(map: &PhysicalMap, _: &Layout) -> Range<u64> {
        (map.pools().next()).map_or(0..0, |region| Hlog::pool_data(&region))
    }

    fn begin(run: &Witness, _: Beginning, _: Remember) -> io::Result<Self> {
        let harts = run.hardware.cores.len();
        Ok(Self {
            scope: run.range.clone(),
            threads: (0..harts as u32).collect(),
            open: HashMap::new(),
            opened: HashMap::new(),
            all: Vec::new(),
            lines: BTreeMap::new(),
            first: run.digest(),
            announced: None,
            durable: BTreeSet::new(),
            wrong: Vec::new(),
        })
    }
}

impl Wraps {
    fn take(&mut self, event: Traced) {
        if !matches!(event, Traced::Instructed { .. }) {
            self.complain();
        }
        match event {
            Traced::Ran { hart, thread } => self.threads[hart] = thread,
            Traced::Stored { line, old, .. } => self.see(line, &old),
            Traced::Instructed {
                hart,
                function,
                operands,
                done,
                ..
            } => {
                let thread = self.threads[hart];
                match function {
                    WRAP_OPEN => self.opens(thread),
                    WRAP_RECORD => self.records(thread, operands, done),
                    WRAP_CLOSE => self.closes(thread, done),
                    _ => {}
                }
            }
            Traced::Committed { thread, strand, at } => self.is_durable(thread, strand, at),
            _ => {}
        }
    }

    /// The design has spoken of a wrap that is none.
    fn complain(&mut self) {
        if let Some((thread, ordinal, at)) = self.announced.take() {
            let message = format!("wrap {ordinal} of thread {thread} is closed, and was not open");
            self.wrong.push((at, Fault::Causality, message));
        }
    }

    fn opens(&mut self, thread: u32) {
        if let Some(&open) = self.open.get(&thread) {
            self.all[open].inner += 1;
            return;
        }
        let ordinal = self.opened.entry(thread).or_default();
        self.all.push(Wrap {
            thread,
            ordinal: *ordinal,
            durable: None,
            inner: 0,
            words: 0,
        });
        *ordinal += 1;
        self.open.insert(thread, self.all.len() - 1);
    }

    /// A record outside of all wraps is a wrap by itself, of which the design has spoken already.
    fn records(&mut self, thread: u32, [address, value]: [u64; 2], done: Cycles) {
        if !self.scope.contains(&address) {
            return;
        }
        let alone = !self.open.contains_key(&thread);
        if alone {
            self.opens(thread);
        }
        let wrap = self.open[&thread];
        self.all[wrap].words += 1;
        let at = (address % LINE_BYTES as u64) as usize / 8;
        if let Some(history) = self.lines.get_mut(&line_of(address)) {
            history.written[at].push(Written::By { wrap, value });
        }
        if alone {
            if let Some((thread, ordinal, at)) = self.announced.take() {
                self.is_durable(thread, ordinal, at);
            }
            self.closes(thread, done);
        }
    }

    /// The design says that a wrap is durable, when it has been told to close it.
    fn is_durable(&mut self, thread: u32, ordinal: u64, at: Cycles) {
        let open = self.open.get(&thread).copied();
        let open = open.filter(|&open| self.all[open].ordinal == ordinal);
        let Some(wrap) = open else {
            self.announced = Some((thread, ordinal, at));
            return;
        };
        self.all[wrap].durable = Some(at);
        self.durable.insert((at, wrap));
    }

    fn closes(&mut self, thread: u32, done: Cycles) {
        let Some(&open) = self.open.get(&thread) else {
            return;
        };
        let wrap = &mut self.all[open];
        if wrap.inner > 0 {
            wrap.inner -= 1;
            return;
        }
        self.open.remove(&thread);
        let late = wrap.durable.is_none_or(|durable| durable > done);
        if wrap.words > 0 && late {
            let message = format!(
                "thread {thread} was told that its wrap {} is closed, and it was not durable",
                wrap.ordinal
            );
            self.wrong.push((done, Fault::Age, message));
        }
    }

    /// A line is like this, and may have left the caches so.
    fn see(&mut self, line: LineNumber, bytes: &Line) {
        if !self.scope.contains(&(line * LINE_BYTES as u64)) {
            return;
        }
        let history = self.lines.entry(line).or_insert_with(|| History {
            first: *bytes,
            settled: std::array::from_fn(|at| Some(word(bytes, at))),
            written: std::array::from_fn(|_| Vec::new()),
        });
        for (at, written) in history.written.iter_mut().enumerate() {
            let newest = match written.last() {
                Some(Written::By { value, .. }) => Some(*value),
                Some(Written::ByNobody) => None,
                None => history.settled[at],
            };
            if newest.is_some_and(|newest| newest != word(bytes, at)) {
                written.push(Written::ByNobody);
            }
        }
    }

    /// What no cut can come before any more is part of what every cut finds.
    fn settle(&mut self, horizon: Cycles) {
        for history in self.lines.values_mut() {
            for (settled, written) in history.settled.iter_mut().zip(&mut history.written) {
                let counts = written.iter().rposition(|one| match *one {
                    Written::By { wrap, .. } => {
                        (self.all[wrap].durable).is_some_and(|durable| durable <= horizon)
                    }
                    Written::ByNobody => true,
                });
                let Some(counts) = counts else {
                    continue;
                };
                *settled = match written[counts] {
                    Written::By { value, .. } => Some(value),
                    Written::ByNobody => None,
                };
                written.drain(..=counts);
            }
        }
    }

    /// Wraps that count after a cut: those that were durable, and of those whose close record was on its way
    /// the ones of which every word is there.
    fn counting(&self, evidence: &Evidence) -> BTreeSet<Number> {
        let of_later = |later: bool| {
            let wraps = self.durable.iter();
            wraps.filter(move |(at, _)| (*at > evidence.at) == later)
        };
        let mut counting: BTreeSet<Number> = of_later(true).map(|&(_, wrap)| wrap).collect();
        if !counting.is_empty() {
            for (&line, history) in &self.lines {
                let found = evidence.image.line(line * LINE_BYTES as u64);
                for (at, written) in history.written.iter().enumerate() {
                    let newest = written.iter().rev().find(|one| match one {
                        Written::By { wrap, .. } => counting.contains(wrap),
                        Written::ByNobody => true,
                    });
                    if let Some(&Written::By { wrap, value }) = newest
                        && value != word(found, at)
                    {
                        counting.remove(&wrap);
                    }
                }
            }
        }
        counting.extend(of_later(false).map(|&(_, wrap)| wrap));
        counting
    }

    /// What a cut must find in a word; `None` if anything will do.
    fn expected(history: &History, at: usize, counting: &BTreeSet<Number>) -> Option<u64> {
        for one in history.written[at].iter().rev() {
            match *one {
                Written::ByNobody => return None,
                Written::By { wrap, value } if counting.contains(&wrap) => return Some(value),
                Written::By { .. } => {}
            }
        }
        history.settled[at]
    }

    /// What a cut must find in a line, given what was found where anything will do.
    fn line(history: &History, found: &Line, counting: &BTreeSet<Number>) -> Line {
        let mut line = *found;
        for (at, bytes) in line.0.chunks_exact_mut(8).enumerate() {
            if let Some(expected) = Self::expected(history, at, counting) {
                bytes.copy_from_slice(&expected.to_le_bytes());
            }
        }
        line
    }

    /// The digest that the scope must have.
    fn digest(&self, evidence: &Evidence, counting: &BTreeSet<Number>) -> Digest {
        let mut digest = self.first;
        for (&line, history) in &self.lines {
            let address = line * LINE_BYTES as u64;
            let found = evidence.image.line(address);
            let expected = Self::line(history, found, counting);
            digest.replace(address, &history.first.0, &expected.0);
        }
        digest
    }

    /// Which word is wrong, and whose it should be.
    fn difference(&self, evidence: &Evidence, counting: &BTreeSet<Number>) -> String {
        let wrong = self.lines.iter().find_map(|(&line, history)| {
            let found = evidence.image.line(line * LINE_BYTES as u64);
            let expected = Self::line(history, found, counting);
            let at = (0..WORDS).find(|&at| word(found, at) != word(&expected, at))?;
            Some((line, history, at, word(found, at), word(&expected, at)))
        });
        let Some((line, history, at, found, expected)) = wrong else {
            return "memory that nobody stored to has changed".into();
        };
        let left = |value: u64| {
            let mut written = history.written[at].iter().rev();
            let by = written.find_map(|one| match one {
                Written::By { wrap, value: left } if *left == value => Some(*wrap),
                _ => None,
            });
            match by.map(|wrap| &self.all[wrap]) {
                Some(wrap) => format!("wrap {} of thread {} left it", wrap.ordinal, wrap.thread),
                None if history.settled[at] == Some(value) => "it was before".into(),
                None => "nobody left it".into(),
            }
        };
        format!(
            "the word at {:#x} is as {}, and should be as {}",
            line * LINE_BYTES as u64 + at as u64 * 8,
            left(found),
            left(expected)
        )
    }
}

impl Oracle for Wraps {
    fn wants_trace(&self) -> bool {
        true
    }

    fn follow(&mut self, run: &Witness, events: Vec<Traced>) {
        for event in events {
            self.take(event);
        }
        self.complain();
        let lines: Vec<LineNumber> = self.lines.keys().copied().collect();
        for line in lines {
            self.see(line, &run.line(line));
        }
        self.settle(run.hardware.memory.horizon());
    }

    fn wrong_lines(&self, evidence: &Evidence) -> Option<Vec<(LineNumber, Line)>> {
        let counting = self.counting(evidence);
        let should = self.lines.iter().map(|(&line, history)| {
            let found = evidence.image.line(line * LINE_BYTES as u64);
            (line, Self::line(history, found, &counting), found)
        });
        let wrong = should.filter(|(_, expected, found)| expected != *found);
        Some(wrong.map(|(line, expected, _)| (line, expected)).collect())
    }

    fn judge(&self, evidence: &Evidence) -> Judgement {
        if let Err(why) = evidence.recovered {
            return Judgement::refused(why.to_string(), 0);
        }
        let mut breaches = breaches_until(evidence.at, &self.wrong);
        let counting = self.counting(evidence);
        if self.digest(evidence, &counting) != evidence.memory {
            breaches.push(Breach {
                fault: Fault::Memory,
                judged_by_epoch: 0,
                message: self.difference(evidence, &counting),
            });
        }
        Judgement {
            found: Some(format!("the pool is as {} wraps left it", counting.len())),
            breaches,
            ..Judgement::default()
        }
    }
}
