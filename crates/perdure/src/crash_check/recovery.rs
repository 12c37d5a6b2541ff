//! What is run on what a failure left, and how it ends.
//!
//! Always true here: a machine that recovers knows what is durable and nothing else. It starts as every other
//! one with the same table of pools, so that the part of its life before it first reads a pool is made once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use perdure_hardware::line::pieces;
use perdure_linux::pools::PoolSource;
use perdure_linux::{ExitReport, Program};
use serde::{Deserialize, Serialize};

use super::memory::{Fork, Memory};
use super::pending::Version;
use super::record::Whole;
use super::uncertain::{Asked, Uncertain, Untouched};
use crate::error::Error;
use crate::functional::{Engine, Functional, Pool, Stop, World};

/// Machines that have not touched a pool, which are kept.
const TEMPLATES_MAX: usize = 64;

/// What is started after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Which {
    /// What recovers.
    Recovery,
    /// What looks at the recovered pool.
    Check,
    /// What shows what is in a pool.
    Dump,
}

impl Which {
    /// In states.
    pub fn word(self) -> &'static str {
        match self {
            Self::Recovery => "recovery",
            Self::Check => "check",
            Self::Dump => "dump",
        }
    }

    /// Which one has that word.
    pub fn of_word(word: &str) -> Option<Self> {
        let all = [Self::Recovery, Self::Check, Self::Dump];
        all.into_iter().find(|one| one.word() == word)
    }

    /// In messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recovery => "recovery",
            Self::Check => "the checker",
            Self::Dump => "the dump",
        }
    }
}

/// How a life ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum End {
    /// With a status.
    Status(i32),
    /// A signal ended it: its name, what led to it, and where.
    Signal {
        /// Its name.
        name: String,
        /// What led to it.
        cause: String,
        /// The program counter.
        pc: u64,
    },
    /// It had not ended after so many instructions.
    Hangs(u64),
    /// Every thread waits.
    Deadlock,
    /// It could not be started.
    NotStarted(String),
}

/// A life that has ended.
pub struct Life {
    /// How.
    pub end: End,
    /// Its standard output.
    pub output: Vec<u8>,
    /// The last of its standard error.
    pub error: Vec<u8>,
    /// What it left.
    pub pool: Pool,
    /// It has not only recovered, but begun operations of its own.
    pub has_gone_on: bool,
    /// Instructions that it took.
    pub instructions: u64,
}

impl End {
    /// Of a program that has ended.
    fn of(report: ExitReport) -> Self {
        match report.fatal {
            None => Self::Status(report.status),
            Some(fatal) => Self::Signal {
                name: fatal.name,
                cause: fatal.cause,
                pc: fatal.pc,
            },
        }
    }
}

impl Life {
    /// What a machine has come to.
    fn of(machine: &mut Functional, end: End, has_gone_on: bool) -> Self {
        let [output, error] = machine.output().clone();
        Self {
            end,
            output,
            error,
            pool: machine.pool.clone(),
            has_gone_on,
            instructions: machine.retired(),
        }
    }

    /// Of one that nobody has cut, and that is over.
    pub fn uncut(machine: &mut Functional) -> Self {
        let end = machine.ended().cloned().map_or(End::Deadlock, End::of);
        Self::of(machine, end, true)
    }
}

/// Programs to start after a failure.
pub struct Recoveries {
    /// Where they run.
    pub world: World,
    /// By what they are.
    pub programs: BTreeMap<Which, Program>,
    /// Instructions after which one is taken to hang.
    pub patience: u64,
    /// Those of the lives of that table that have not read a pool.
    untouched: Mutex<BTreeMap<(Which, u64), Arc<Template>>>,
    /// What was decoded, for whoever runs one next; and for whoever watches one, which takes other ways.
    engines: [Mutex<Vec<Engine>>; 2],
    /// How much may wait.
    pub memory: Memory,
    /// Numbers of tables that no run of the program has; they are never shown.
    tables: AtomicU64,
}

/// A machine that has not read a pool, and what it has written to one.
struct Template {
    machine: Functional,
    written: Untouched,
}

/// A recovery under way.
#[derive(Clone)]
pub struct UnderWay {
    machine: Functional,
    watcher: Uncertain,
    /// It is one of the forks that there are.
    counts: Fork,
    /// Its part of all that may happen.
    pub weight: f64,
}

/// How far it came.
pub enum Came {
    /// To its end.
    Ended(Box<Life>),
    /// To a read that differs.
    Apart(Apart),
}

/// What has to be decided: one of some ways, each with its versions of a line.
pub struct Apart {
    asked: Asked,
    classes: Vec<Vec<u16>>,
}

impl Apart {
    /// How many ways there are.
    pub fn ways(&self) -> usize {
        self.classes.len()
    }
}

impl Recoveries {
    /// None of them has been started yet.
    pub fn new(
        world: World,
        programs: BTreeMap<Which, Program>,
        patience: u64,
        memory: Memory,
    ) -> Self {
        Self {
            world,
            programs,
            patience,
            untouched: Mutex::default(),
            engines: Default::default(),
            memory,
            tables: AtomicU64::new(1 << 32),
        }
    }

    /// What is started first after a failure.
    pub fn firsts(&self) -> impl Iterator<Item = Which> {
        let all = self.programs.keys().copied();
        all.filter(|which| *which != Which::Check)
    }

    /// Does something with an engine, which knows what others of its kind have run.
    pub fn with_engine<T>(&self, work: impl FnOnce(&mut Engine) -> T) -> T {
        with_one(&self.engines[0], work)
    }

    /// The same, to watch for failure points.
    pub fn with_watching_engine<T>(&self, work: impl FnOnce(&mut Engine) -> T) -> T {
        with_one(&self.engines[1], work)
    }

    /// A number for a table of pools that has none.
    pub fn new_table(&self) -> u64 {
        self.tables.fetch_add(1, Ordering::Relaxed)
    }

    /// A machine that starts on this memory, whose table of pools is the one of that number.
    pub fn start(
        &self,
        which: Which,
        (pool, table): (&Pool, u64),
        lines: &BTreeMap<u64, Arc<Vec<Version>>>,
    ) -> Result<UnderWay, Error> {
        let template = self.untouched(which, pool, table)?;
        Ok(self.go_on_from(&template, pool, lines))
    }

    /// The same where everything is decided, before it does anything to a pool by itself.
    pub fn begin(
        &self,
        which: Which,
        (pool, table): (&Pool, u64),
        lines: &BTreeMap<u64, Arc<Vec<Version>>>,
    ) -> Result<Functional, Error> {
        let template = self.untouched(which, pool, table)?;
        if !template.written.is_empty() {
            return self.boot(which, newest(pool, lines));
        }
        Ok(self.go_on_from(&template, pool, lines).machine)
    }

    fn go_on_from(
        &self,
        template: &Template,
        pool: &Pool,
        lines: &BTreeMap<u64, Arc<Vec<Version>>>,
    ) -> UnderWay {
        let mut machine = template.machine.clone();
        let mut watcher = Uncertain::new(lines);
        machine.pool = newest(pool, lines);
        for (address, bytes) in template.written.all() {
            machine.pool.write(address, bytes);
            watcher.overwrite(address, bytes.len());
        }
        UnderWay {
            machine,
            watcher,
            counts: self.memory.fork(),
            weight: 1.0,
        }
    }

    fn untouched(&self, which: Which, pool: &Pool, table: u64) -> Result<Arc<Template>, Error> {
        let known = || {
            self.untouched
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(template) = known().get(&(which, table)) {
            return Ok(Arc::clone(template));
        }
        let mut machine = self.boot(which, pool.clone())?;
        let mut written = Untouched::default();
        machine.run(&mut written, &mut Engine::default(), self.patience);
        let template = Arc::new(Template { machine, written });
        if known().len() >= TEMPLATES_MAX {
            known().clear();
        }
        known().insert((which, table), Arc::clone(&template));
        Ok(template)
    }

    /// A machine that starts on this memory.
    pub fn boot(&self, which: Which, pool: Pool) -> Result<Functional, Error> {
        let program = &self.programs[&which];
        let source = PoolSource::Surviving;
        self.world
            .boot(std::slice::from_ref(program), source, pool, 1)
    }

    /// Runs one on memory in which everything is decided.
    pub fn run_on(&self, which: Which, pool: Pool, engine: &mut Engine) -> Result<Life, Error> {
        let machine = match self.boot(which, pool.clone()) {
            Ok(machine) => machine,
            Err(error) => {
                return Ok(Life {
                    end: End::NotStarted(error.to_string()),
                    output: Vec::new(),
                    error: Vec::new(),
                    pool,
                    has_gone_on: false,
                    instructions: 0,
                });
            }
        };
        let mut life = UnderWay {
            machine,
            watcher: Uncertain::default(),
            counts: self.memory.fork(),
            weight: 1.0,
        };
        life.live_out(engine, self.patience)
    }
}

/// Does something with one of these engines, or with a new one that then is one of them.
fn with_one<T>(engines: &Mutex<Vec<Engine>>, work: impl FnOnce(&mut Engine) -> T) -> T {
    let engines = || engines.lock().unwrap_or_else(PoisonError::into_inner);
    let engine = engines().pop();
    let mut engine = engine.unwrap_or_default();
    let done = work(&mut engine);
    engines().push(engine);
    done
}

/// Memory with the newest version of each of these lines.
fn newest(pool: &Pool, lines: &BTreeMap<u64, Arc<Vec<Version>>>) -> Pool {
    let mut pool = pool.clone();
    for (&line, versions) in lines {
        pool.write(line, &versions[0].bytes);
    }
    pool
}

impl UnderWay {
    /// The machine alone.
    pub fn into_machine(self) -> Functional {
        self.machine
    }

    /// As which version it has found each line about which something was decided.
    pub fn decided(&self) -> BTreeMap<u64, usize> {
        self.watcher.decided()
    }

    /// The next program, on what this one left, of which still nothing more is decided.
    pub fn followed_by(&self, next: Functional) -> Self {
        Self {
            machine: next,
            watcher: self.watcher.clone(),
            counts: self.counts.clone(),
            weight: self.weight,
        }
    }

    /// Runs until it ends, or something has to be decided.
    pub fn go_on(&mut self, engine: &mut Engine, patience: u64) -> Came {
        let machine = &mut self.machine;
        let stop = machine.run(&mut self.watcher, engine, patience);
        let end = match stop {
            Stop::Watcher => return Came::Apart(self.apart()),
            Stop::Limit => End::Hangs(patience),
            Stop::Deadlock => End::Deadlock,
            Stop::Ended(report) => End::of(report),
        };
        let has_gone_on = self.watcher.has_gone_on;
        Came::Ended(Box::new(Life::of(machine, end, has_gone_on)))
    }

    /// The same where everything is decided.
    pub fn live_out(&mut self, engine: &mut Engine, patience: u64) -> Result<Life, Error> {
        match self.go_on(engine, patience) {
            Came::Ended(life) => Ok(*life),
            Came::Apart(_) => Err(Error::Defect("something decided was to be decided".into())),
        }
    }

    /// Reads bytes of its memory as a program would. What has to be decided first, if anything.
    pub fn ask(&mut self, whole: &Whole) -> Option<Apart> {
        let mut parts = (whole.iter()).flat_map(|&(start, bytes)| pieces(start, bytes as usize));
        let waits = parts.any(|(at, piece)| !self.watcher.ask(at, piece.len()));
        waits.then(|| self.apart())
    }

    fn apart(&mut self) -> Apart {
        let asked = self.watcher.take_asked();
        let classes = asked.map(|asked| self.watcher.ways(asked));
        Apart {
            asked: asked.unwrap_or_default(),
            classes: classes.unwrap_or_default(),
        }
    }

    /// It goes one of the ways that there are.
    pub fn takes(&mut self, apart: &Apart, way: usize) {
        self.weight /= f64::from(u32::try_from(apart.ways()).unwrap_or(u32::MAX));
        let class = apart.classes[way].clone();
        (self.watcher).decide(&mut self.machine.pool, apart.asked, class);
    }
}
