//! PTSO, as Khyzha and Lahav have it (*Taming x86-TSO Persistency*, POPL 2021, `PTSOsyn`), by a machine of
//! its own: threads with store buffers, and for each line a queue of what is to persist. It shares no rule
//! with the table-driven explorer, so that each of the two checks the other: they prove the two models to
//! leave the same contents.
//!
//! Threads put stores, flushes and `sfence`s into their store buffers. From there they are *propagated*:
//! - a store goes to memory, and to the end of its line's queue;
//! - `clflush` is propagated when its line's queue is empty;
//! - `clflushopt` and `clwb` put the thread's mark at the end of the queue;
//! - `sfence` is propagated when no queue has a mark of the thread.
//!
//! Queues give their heads to persistent memory at any time. Here they do so only when somebody waits for
//! it: a cut then finds any beginning of each queue.
//!
//! Always true here: a queue holds what its line can be found as, so that nothing is persisted twice or
//! out of order. Nothing is random.

use std::collections::{BTreeSet, HashSet};

use twox_hash::XxHash3_128;

use super::explore::{Explored, STATES, TooLarge};
use super::model::Kind;
use super::program::{Action, Contents, Operand, REGISTERS, Test};

/// What stands in a store buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Store { location: usize, value: u8 },
    FlushOpt { line: usize },
    Flush { line: usize },
    Sfence,
}

/// Whether an entry of a store buffer may be propagated before an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// It may.
    Yes,
    /// It may not.
    No,
    /// If it is about another line.
    OtherLine,
}

/// What somebody waits for before he goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drains {
    /// Nothing.
    Nothing,
    /// The queue of the line is empty.
    Line,
    /// No queue has a mark of the thread.
    OwnMarks,
}

/// The rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// A row for each earlier entry, a column for each later one: store, `clflushopt`, `clflush`, `sfence`.
    pub passes: [[Passes; 4]; 4],
    /// What is waited for by `clflush`, `sfence`, `mfence` and `xchg`; the last two also for an empty
    /// store buffer.
    pub drains: [Drains; 4],
}

use Passes::{No as N, OtherLine as O, Yes as Y};

/// The paper's rules.
#[rustfmt::skip]
pub const BUFFERS: Buffers = Buffers {
    passes: [
        // Store FlushOpt Flush Sfence   passes this:
        [N,      O,       N,    N], // Store
        [Y,      Y,       O,    N], // FlushOpt
        [N,      O,       N,    N], // Flush
        [N,      N,       N,    N], // Sfence
    ],
    drains: [Drains::Line, Drains::OwnMarks, Drains::OwnMarks, Drains::OwnMarks],
};

/// What a line may be found as, between two marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Segment {
    /// Everything that it held.
    found: BTreeSet<Contents>,
    /// Of these, the last.
    last: Contents,
    /// Threads whose marks stand behind it, a bit each.
    marks: u8,
}

impl Segment {
    fn new(contents: Contents) -> Self {
        Self {
            found: BTreeSet::from([contents]),
            last: contents,
            marks: 0,
        }
    }
}

/// What is still to persist of a line.
type Queue = Vec<Segment>;

#[derive(Clone, Debug, Default)]
struct Thread {
    at: usize,
    registers: [u8; REGISTERS],
    buffer: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct State {
    threads: Vec<Thread>,
    memory: Contents,
    queues: Vec<Queue>,
}

struct Machine<'a> {
    test: &'a Test,
    rules: &'a Buffers,
    /// The contents that cuts find.
    found: BTreeSet<Contents>,
    /// Queues that cuts have found already.
    looked_at: HashSet<u128>,
    /// They leave something in more ways than anybody can list.
    is_too_large: bool,
}

/// Finds everything that a cut may leave.
pub fn explore(test: &Test, rules: &Buffers) -> Result<Explored, TooLarge> {
    let lines = test.lines.iter().max().map_or(0, |line| line + 1);
    let start = State {
        threads: vec![Thread::default(); test.threads.len()],
        memory: Contents::default(),
        queues: vec![vec![Segment::new(Contents::default())]; lines],
    };
    let mut machine = Machine {
        test,
        rules,
        found: BTreeSet::new(),
        looked_at: HashSet::new(),
        is_too_large: false,
    };
    let mut seen = HashSet::new();
    let mut stack = vec![start];
    while let Some(mut state) = stack.pop() {
        for thread in 0..state.threads.len() {
            machine.issue(&mut state, thread);
        }
        machine.forget(&mut state);
        if !seen.insert(XxHash3_128::oneshot(&state.bytes())) {
            continue;
        }
        if seen.len() > STATES || machine.is_too_large {
            return Err(TooLarge);
        }
        let before = stack.len();
        for thread in 0..state.threads.len() {
            machine.propagate(&state, thread, &mut stack);
            machine.access(&state, thread, &mut stack);
        }
        if stack.len() == before {
            machine.cut(&state);
        }
    }
    if machine.is_too_large {
        return Err(TooLarge);
    }
    Ok(Explored {
        contents: machine.found,
        states: seen.len(),
    })
}

impl Machine<'_> {
    /// Lets a thread go on for as long as nobody else can notice.
    fn issue(&self, state: &mut State, thread: usize) {
        let it = &mut state.threads[thread];
        while let Some(instruction) = self.test.threads[thread].get(it.at) {
            let line = instruction
                .location()
                .map_or(0, |location| self.test.lines[location]);
            match (instruction.kind, instruction.action) {
                (
                    _,
                    Action::Branch {
                        register,
                        if_zero,
                        skips,
                    },
                ) => {
                    if (it.registers[register] == 0) == if_zero {
                        it.at += skips;
                    }
                }
                (_, Action::Store { location, operand }) => {
                    let value = value_of(it, operand);
                    it.buffer.push(Entry::Store { location, value });
                }
                (Kind::Flush, _) => it.buffer.push(Entry::Flush { line }),
                (Kind::FlushOpt, _) => it.buffer.push(Entry::FlushOpt { line }),
                (Kind::Sfence, _) => it.buffer.push(Entry::Sfence),
                _ => return,
            }
            it.at += 1;
        }
    }

    /// Drops what nobody will ask about: what a location holds that is not loaded from any more, and which
    /// of a line's stores was the last where nothing will flush it.
    fn forget(&self, state: &mut State) {
        let (mut loads, mut flushes) = (0u32, 0u32);
        for (instructions, it) in self.test.threads.iter().zip(&state.threads) {
            for instruction in &instructions[it.at..] {
                let Some(location) = instruction.location() else {
                    continue;
                };
                let is_load = instruction.written().is_some();
                let is_flush = matches!(instruction.action, Action::WriteBack { .. });
                loads |= u32::from(is_load) << location;
                flushes |= u32::from(is_flush) << self.test.lines[location];
            }
            for entry in &it.buffer {
                if let Entry::Flush { line } | Entry::FlushOpt { line } = entry {
                    flushes |= 1 << line;
                }
            }
        }
        for (location, line) in self.test.lines.iter().enumerate() {
            if loads & 1 << location == 0 {
                state.memory.set(location, 0);
            }
            let is_lone = self
                .test
                .lines
                .iter()
                .filter(|other| *other == line)
                .count()
                == 1;
            if let ([open], true) = (&mut state.queues[*line][..], is_lone)
                && flushes & 1 << line == 0
            {
                open.last = Contents::default();
            }
        }
    }

    /// A thread loads, exchanges or fences.
    fn access(&mut self, state: &State, thread: usize, next: &mut Vec<State>) {
        let it = &state.threads[thread];
        let Some(instruction) = self.test.threads[thread].get(it.at) else {
            return;
        };
        let mut after = state.clone();
        after.threads[thread].at += 1;
        match instruction.action {
            Action::Load { register, location } => {
                let own = it.buffer.iter().rev().find_map(|entry| match *entry {
                    Entry::Store {
                        location: there,
                        value,
                    } if there == location => Some(value),
                    _ => None,
                });
                let value = own.unwrap_or(state.memory.of(location));
                after.threads[thread].registers[register] = value;
            }
            Action::Exchange {
                register,
                location,
                operand,
            } if it.buffer.is_empty() => {
                self.drain(
                    &mut after,
                    self.rules.drains[3],
                    thread,
                    self.test.lines[location],
                );
                let value = value_of(it, operand);
                after.threads[thread].registers[register] = state.memory.of(location);
                self.store(&mut after, location, value);
            }
            Action::Barrier if it.buffer.is_empty() => {
                self.drain(&mut after, self.rules.drains[2], thread, 0);
            }
            _ => return,
        }
        next.push(after);
    }

    /// Something leaves a thread's store buffer.
    fn propagate(&mut self, state: &State, thread: usize, next: &mut Vec<State>) {
        let buffer = &state.threads[thread].buffer;
        for (at, entry) in buffer.iter().enumerate() {
            if !buffer[..at]
                .iter()
                .all(|earlier| self.passes(earlier, entry))
            {
                continue;
            }
            let mut after = state.clone();
            after.threads[thread].buffer.remove(at);
            match *entry {
                Entry::Store { location, value } => self.store(&mut after, location, value),
                Entry::FlushOpt { line } => after.mark(line, thread),
                Entry::Flush { line } => self.drain(&mut after, self.rules.drains[0], thread, line),
                Entry::Sfence => self.drain(&mut after, self.rules.drains[1], thread, 0),
            }
            next.push(after);
        }
    }

    fn passes(&self, earlier: &Entry, later: &Entry) -> bool {
        let column = |entry: &Entry| match entry {
            Entry::Store { .. } => 0,
            Entry::FlushOpt { .. } => 1,
            Entry::Flush { .. } => 2,
            Entry::Sfence => 3,
        };
        let line = |entry: &Entry| match *entry {
            Entry::Store { location, .. } => Some(self.test.lines[location]),
            Entry::FlushOpt { line } | Entry::Flush { line } => Some(line),
            Entry::Sfence => None,
        };
        match self.rules.passes[column(earlier)][column(later)] {
            Passes::Yes => true,
            Passes::No => false,
            Passes::OtherLine => line(earlier) != line(later),
        }
    }

    /// A store reaches memory, and the queue of its line.
    fn store(&self, state: &mut State, location: usize, value: u8) {
        state.memory.set(location, value);
        let queue = &mut state.queues[self.test.lines[location]];
        let Some(segment) = queue.last_mut() else {
            return;
        };
        segment.last.set(location, value);
        segment.found.insert(segment.last);
    }

    /// Waits until queues are empty, or empty up to marks. A cut comes before that is over, too.
    fn drain(&mut self, state: &mut State, drains: Drains, thread: usize, line: usize) {
        let before = state.clone();
        match drains {
            Drains::Nothing => return,
            Drains::Line => {
                let queue = &mut state.queues[line];
                let last = queue.last().map(|segment| segment.last);
                *queue = last.map(Segment::new).into_iter().collect();
            }
            Drains::OwnMarks => {
                let marked = |segment: &Segment| segment.marks & 1 << thread != 0;
                for queue in &mut state.queues {
                    let Some(marked) = queue.iter().rposition(marked) else {
                        continue;
                    };
                    let gone: Vec<Segment> = queue.drain(..=marked).collect();
                    if let (Some(gone), Some(first)) = (gone.last(), queue.first_mut()) {
                        first.found.insert(gone.last);
                    }
                }
            }
        }
        self.cut(&before);
    }

    /// A cut finds every beginning of each line's queue.
    fn cut(&mut self, state: &State) {
        let mut bytes = Vec::new();
        state.write_queues(&mut bytes);
        if !self.looked_at.insert(XxHash3_128::oneshot(&bytes)) {
            return;
        }
        let mut found = vec![Contents::default()];
        for (line, queue) in state.queues.iter().enumerate() {
            let ways: BTreeSet<Contents> = (queue.iter())
                .flat_map(|segment| segment.found.iter().copied())
                .collect();
            if found.len() * ways.len() > STATES {
                self.is_too_large = true;
                return;
            }
            let locations = (0..self.test.lines.len()).filter(|at| self.test.lines[*at] == line);
            let locations: Vec<usize> = locations.collect();
            let with = |contents: &Contents, way: &Contents| {
                let mut with = *contents;
                for at in &locations {
                    with.set(*at, way.of(*at));
                }
                with
            };
            found = found
                .iter()
                .flat_map(|contents| ways.iter().map(move |way| with(contents, way)))
                .collect();
        }
        self.found.extend(found);
        self.is_too_large |= self.found.len() > STATES;
    }
}

fn value_of(thread: &Thread, operand: Operand) -> u8 {
    match operand {
        Operand::Value(value) => value,
        Operand::Register(register) => thread.registers[register],
    }
}

impl State {
    /// Puts a thread's mark at the end of a line's queue.
    fn mark(&mut self, line: usize, thread: usize) {
        let queue = &mut self.queues[line];
        let Some(open) = queue.last_mut() else { return };
        open.marks |= 1 << thread;
        let last = open.last;
        queue.push(Segment {
            found: BTreeSet::new(),
            last,
            marks: 0,
        });
    }

    fn write_queues(&self, bytes: &mut Vec<u8>) {
        for queue in &self.queues {
            bytes.push(queue.len() as u8);
            for segment in queue {
                bytes.push(segment.found.len() as u8);
                segment
                    .found
                    .iter()
                    .for_each(|found| bytes.extend(found.bytes()));
                bytes.extend(segment.last.bytes());
                bytes.push(segment.marks);
            }
        }
    }

    /// A state as bytes that are equal for equal states.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for thread in &self.threads {
            bytes.extend([thread.at as u8, thread.buffer.len() as u8]);
            bytes.extend(thread.registers);
            for entry in &thread.buffer {
                bytes.extend(match *entry {
                    Entry::Store { location, value } => [0, location as u8, value],
                    Entry::FlushOpt { line } => [1, line as u8, 0],
                    Entry::Flush { line } => [2, line as u8, 0],
                    Entry::Sfence => [3, 0, 0],
                });
            }
        }
        bytes.extend(self.memory.bytes());
        self.write_queues(&mut bytes);
        bytes
    }
}
