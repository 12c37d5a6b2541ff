//! The run that nobody cuts: once to see which failure points it has, and again for those that are explored.
//!
//! Always true here: it is the same run each time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use perdure_linux::Program;
use perdure_linux::pools::PoolSource;
use twox_hash::XxHash3_64;

use super::orders::Episode;
use super::parts::{Parts, Types};
use super::places::{Known, Names, Place};
use super::record::{Keeps, Recorder, Seen};
use super::recovery::Life;
use super::rules::Model;
use super::windows::{Event, Window};
use crate::call_stack;
use crate::error::Error;
use crate::functional::{At, Engine, Functional, Stop, Unwatched, World};
use crate::observer::Observer;

/// Instructions between two looks at the observer.
const STRIDE: u64 = 5_000_000;
/// A block has fewer instructions.
const BLOCK: u64 = 64;

/// What is run.
#[derive(Clone)]
pub struct Uncut {
    /// Where.
    pub world: World,
    /// What.
    pub program: Program,
    /// The pools that it begins with.
    pub source: PoolSource,
    /// By whose rules.
    pub model: Model,
    /// The seed of the turns that threads have, and which order it is of those that are tried.
    pub schedule: u64,
    /// The first is 0.
    pub number: u64,
    /// There is a moment now and then at which no operation is under way.
    pub gathers: bool,
}

/// What was seen of it.
pub struct Surveyed {
    /// Of what.
    pub uncut: Uncut,
    /// The watcher at the end.
    pub recorder: Recorder,
    /// The machine at the end.
    pub machine: Functional,
    /// Its failure points, each with a digest of its call stack.
    pub points: Vec<(Seen, u64)>,
    /// How it ended.
    pub life: Life,
    /// Where it had mapped its pools.
    pub mapped: Mapped,
}

/// Where pools are mapped, by their paths.
pub type Mapped = BTreeMap<String, Extent>;

/// How much of a pool is mapped in one piece, and where.
pub struct Extent {
    /// First address.
    pub start: u64,
    /// Address behind the last one.
    pub end: u64,
    /// Where in the pool it begins.
    pub offset: u64,
}

/// A run that is followed.
pub struct Following {
    machine: Functional,
    recorder: Recorder,
    engine: Engine,
    over: bool,
    /// The machine at the beginnings of episodes that are kept.
    pub episodes: BTreeMap<u64, Episode>,
}

impl Uncut {
    /// The same with another order of its threads.
    pub fn with_schedule(&self, number: u64) -> Self {
        Self {
            schedule: self.schedule ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            number,
            ..self.clone()
        }
    }

    /// Before its first instruction.
    pub fn boot(&self) -> Result<Functional, Error> {
        let pool = self.world.empty_pool()?;
        let program = std::slice::from_ref(&self.program);
        let mut machine = self.world.boot(program, self.source.clone(), pool, 0)?;
        machine.draw_turns(self.schedule);
        if self.gathers {
            machine.gather_operations();
        }
        Ok(machine)
    }

    /// Begins it, to keep some of it.
    pub fn follow(&self, keeps: Arc<Keeps>) -> Result<Following, Error> {
        let machine = self.boot()?;
        let recorder = Recorder::new(self.model, machine.pool.clone(), keeps);
        Ok(Following {
            machine,
            recorder,
            engine: Engine::default(),
            over: false,
            episodes: BTreeMap::new(),
        })
    }

    /// Runs it to its end. `None` if the observer does not want to wait for that.
    pub fn survey(&self, observer: &dyn Observer) -> Result<Option<Surveyed>, Error> {
        let mut following = self.follow(Arc::default())?;
        let mut points = Vec::new();
        let (mut stacks, mut mapped) = (BTreeSet::new(), Mapped::new());
        while !following.over {
            following.go_on(|machine, recorder| {
                for seen in std::mem::take(&mut recorder.seen) {
                    let stack = stack_digest(machine);
                    points.push((seen, stack));
                    if stacks.insert(stack) {
                        look_at_mappings(machine, &mut mapped);
                    }
                }
                true
            })?;
            if observer.interrupted() {
                return Ok(None);
            }
            let done = following.machine.retired();
            observer.progress(done, 0, "instructions", "the run that nobody cuts");
        }
        let Following {
            mut machine,
            recorder,
            ..
        } = following;
        let life = Life::uncut(&mut machine);
        Ok(Some(Surveyed {
            uncut: self.clone(),
            recorder,
            machine,
            points,
            life,
            mapped,
        }))
    }

    /// The call stacks at these counts of retired instructions.
    pub fn stacks(&self, at: impl IntoIterator<Item = u64>) -> Result<Stacks, Error> {
        Ok(self.stacks_and_parts(at, &BTreeMap::new())?.0)
    }

    /// The same, and what words of memory are at some of them.
    pub fn stacks_and_parts(
        &self,
        at: impl IntoIterator<Item = u64>,
        words: &BTreeMap<u64, BTreeSet<u64>>,
    ) -> Result<(Stacks, Parts), Error> {
        Ok(stacks_and_parts((self.boot()?, self.model), at, words))
    }

    /// Runs it to its end, to keep some of it: who has watched it.
    pub fn recorded(&self, keeps: Keeps) -> Result<Recorder, Error> {
        let mut following = self.follow(Arc::new(keeps))?;
        while !following.over {
            following.go_on(|_, _| true)?;
        }
        Ok(following.recorder)
    }
}

impl Surveyed {
    /// A digest of what is seen of the run: another run has another one.
    pub fn digest(&self) -> u64 {
        let recorder = &self.recorder;
        let counts = [self.life.instructions, recorder.stores, recorder.flushes];
        let points = self.points.iter().map(|(_, stack)| *stack);
        let numbers = counts.into_iter().chain(points);
        XxHash3_64::oneshot(&numbers.flat_map(u64::to_le_bytes).collect::<Vec<_>>())
    }
}

/// Call stacks, by how many instructions were retired.
pub type Stacks = BTreeMap<u64, Vec<Place>>;

/// The call stacks of a machine that goes on from here, at these counts of retired instructions, and what
/// words of memory are at some of them.
pub fn stacks_and_parts(
    (machine, model): (Functional, Model),
    at: impl IntoIterator<Item = u64>,
    words: &BTreeMap<u64, BTreeSet<u64>>,
) -> (Stacks, Parts) {
    let (mut stacks, mut parts) = (BTreeMap::new(), BTreeMap::new());
    let (mut known, mut types) = (Known::default(), Types::default());
    visit((machine, model), at, |retired, looked| {
        let stack = call_stack::of(looked.registers(), looked);
        stacks.insert(retired, Names::of(looked, &mut known).stack(&stack));
        if let Some(words) = words.get(&retired) {
            let found = types.of(looked, words).into_iter();
            parts.extend(found.map(|(word, part)| ((retired, word), part)));
        }
    });
    (stacks, parts)
}

/// What is seen through a window of a machine that goes on from here, so far.
pub fn seen_through(
    mut machine: Functional,
    model: Model,
    (window, until): (Window, u64),
) -> Vec<Event> {
    let keeps = Keeps {
        windows: Arc::new(vec![window]),
        ..Keeps::default()
    };
    let mut recorder = Recorder::new(model, machine.pool.clone(), Arc::new(keeps));
    let mut engine = Engine::default();
    while machine.run(&mut recorder, &mut engine, until) == Stop::Watcher {}
    recorder.windows.events().pop().unwrap_or_default()
}

/// Lets a machine go on, and looks at it at these counts of retired instructions.
fn visit(
    (mut machine, model): (Functional, Model),
    at: impl IntoIterator<Item = u64>,
    mut look: impl FnMut(u64, &Functional),
) {
    let moments: BTreeSet<u64> = at.into_iter().collect();
    let began = machine.clone();
    let mut engine = Engine::default();
    for &retired in &moments {
        if retired > machine.retired() + BLOCK {
            machine.run(&mut Unwatched, &mut engine, retired - BLOCK);
        }
        let mut looked = machine.clone();
        looked.step_to(&mut Unwatched, retired);
        if looked.has_threads {
            return visit_by_turns((began, model), &moments, look);
        }
        look(retired, &looked);
    }
}

/// The same where several threads take turns. These end where whoever records the run has stopped it, too,
/// so it is recorded once more.
fn visit_by_turns(
    (mut machine, model): (Functional, Model),
    moments: &BTreeSet<u64>,
    mut look: impl FnMut(u64, &Functional),
) {
    let mut recorder = Recorder::new(model, machine.pool.clone(), Arc::default());
    let mut engine = Engine::default();
    let mut moments = moments.iter().copied().peekable();
    while let Some(&next) = moments.peek() {
        if machine.retired() + BLOCK < next {
            let stop = machine.run(&mut recorder, &mut engine, next - BLOCK);
            if matches!(stop, Stop::Watcher | Stop::Limit) {
                continue;
            }
        }
        // From here on block by block, each with all moments that lie within it.
        let mut before = machine.clone();
        let limit = machine.retired() + 1;
        let stop = machine.run(&mut recorder, &mut engine, limit);
        let is_over = !matches!(stop, Stop::Watcher | Stop::Limit);
        before.begin_turn(&mut Unwatched);
        while let Some(retired) = moments.next_if(|&one| is_over || one < machine.retired()) {
            let mut looked = before.clone();
            looked.step_to(&mut Unwatched, retired);
            look(retired, &looked);
        }
    }
}

/// Notes where the pools that are mapped now lie. Of a pool with several mappings the first that was seen
/// counts, with what continues it.
fn look_at_mappings(machine: &Functional, mapped: &mut Mapped) {
    let space = machine.running().map(|running| running.space);
    let mappings = space.map_or_else(Vec::new, |space| machine.kernel().mappings(space));
    for mapping in mappings {
        let is_pool = mapping.name.starts_with("/pmem/");
        if let Some(offset) = mapping.file_offset.filter(|_| is_pool) {
            let (start, end) = (mapping.start, mapping.end);
            let new = Extent { start, end, offset };
            mapped
                .entry(mapping.name)
                .and_modify(|known| known.join(&new))
                .or_insert(new);
        }
    }
}

impl Extent {
    /// Takes in another one that continues it.
    fn join(&mut self, other: &Self) {
        let base = |one: &Self| one.start.wrapping_sub(one.offset);
        if base(self) == base(other) && other.start <= self.end && self.start <= other.end {
            self.start = self.start.min(other.start);
            self.end = self.end.max(other.end);
            self.offset = self.offset.min(other.offset);
        }
    }
}

/// A digest of where a machine stands and will come back to.
pub fn stack_digest(machine: &Functional) -> u64 {
    let stack = call_stack::of(machine.registers(), machine).into_iter();
    let bytes: Vec<u8> = stack.flat_map(u64::to_le_bytes).collect();
    XxHash3_64::oneshot(&bytes)
}

impl Following {
    /// What it has kept.
    pub fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    /// True if it has ended.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Runs on, at most for a while, as long as whoever looks at each failure point says so.
    pub fn go_on(
        &mut self,
        mut look: impl FnMut(&Functional, &mut Recorder) -> bool,
    ) -> Result<(), Error> {
        let limit = self.machine.retired() + STRIDE;
        loop {
            let stop = (self.machine).run(&mut self.recorder, &mut self.engine, limit);
            match stop {
                Stop::Limit => return Ok(()),
                Stop::Watcher => {
                    if let Some((number, episode)) =
                        Episode::begins(&self.machine, &mut self.recorder)
                    {
                        self.episodes.insert(number, episode);
                    }
                    if !look(&self.machine, &mut self.recorder) {
                        return Ok(());
                    }
                }
                Stop::Ended(_) | Stop::Deadlock => {
                    let registers = self.machine.registers();
                    let at = At {
                        thread: perdure_linux::ThreadId(0),
                        pc: registers.pc,
                        retired: registers.retired,
                        by_kernel: true,
                    };
                    self.recorder.end(&at);
                    look(&self.machine, &mut self.recorder);
                    self.over = true;
                    return Ok(());
                }
            }
        }
    }
}
