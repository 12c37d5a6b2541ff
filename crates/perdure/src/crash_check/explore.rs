//! All that a recovery may find at a failure point, one by one, as far as it looks.
//!
//! Always true here: what is explored follows from the point, the budget and the seed. Recoveries that read
//! the same are one; the weights of all that a point may leave add up to one.

use std::collections::BTreeMap;
use std::sync::Arc;

use perdure_hardware::random::Random;
use serde::{Deserialize, Serialize};

use super::cause;
use super::done::Outline;
use super::oracle::{Expected, Wrong};
use super::pending::Version;
use super::record::Point;
use super::recovery::{Apart, Came, Life, Recoveries, UnderWay, Which};
use super::rules::Model;
use crate::error::Error;
use crate::functional::{Engine, Pool};
use crate::observer::Observer;

/// Kinds of failures that are kept of a point.
const FAILURES_MAX: usize = 24;
/// Recoveries at a point that go wrong as others did there, after which no more are run.
const ALIKE_MAX: u64 = 32;
/// Recoveries that went well that are kept.
const WELL_MAX: usize = 3;
/// Recoveries that wait to be gone on with, for each that may still be finished.
const WAITING: usize = 4;

/// A point with the versions of its lines.
pub struct Choices<'p> {
    /// The point.
    pub point: &'p Point,
    /// Of each line that is not durable.
    pub lines: BTreeMap<u64, Arc<Vec<Version>>>,
    /// Nothing was left out.
    pub all: bool,
}

impl<'p> Choices<'p> {
    /// Those of a point under a model.
    pub fn new(point: &'p Point, model: Model) -> Self {
        let mut all = true;
        let lines = point.lines.iter().map(|(&line, history)| {
            let (versions, complete) = history.versions(model);
            all &= complete;
            (line, Arc::new(versions))
        });
        let lines = lines.collect();
        Self { point, lines, all }
    }

    /// Persistent memory with every line decided.
    pub fn pool(&self, versions: &BTreeMap<u64, usize>) -> Pool {
        let mut pool = self.point.durable.clone();
        for (line, decided) in self.decided(versions) {
            pool.write(line, &decided[0].bytes);
        }
        pool
    }

    /// The same with every line decided: it is of that version, or else the newest.
    pub fn decided(&self, versions: &BTreeMap<u64, usize>) -> BTreeMap<u64, Arc<Vec<Version>>> {
        let lines = self.lines.iter().map(|(&line, all)| {
            let version = versions.get(&line).copied().unwrap_or(0);
            (line, Arc::new(vec![all[version].clone()]))
        });
        lines.collect()
    }
}

/// A recovery that went wrong.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failed {
    /// How.
    pub wrong: Wrong,
    /// What was started.
    pub which: Which,
    /// Lines about which something was decided, with the version that they were.
    pub decided: BTreeMap<u64, usize>,
}

/// What came of a point.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Explored {
    /// Recoveries that were run to their end.
    pub states: u64,
    /// Those that went wrong.
    pub failing: u64,
    /// Those since the last that was of a new kind.
    alike: u64,
    /// The first of each kind.
    pub failures: BTreeMap<Outline, Failed>,
    /// What some of those have found that went well, and what was started.
    pub well: Vec<(Which, BTreeMap<u64, usize>)>,
    /// How much was looked at of all that recoveries may find.
    pub coverage: f64,
    /// That is everything.
    pub exhaustive: bool,
    /// Instructions.
    pub instructions: u64,
}

/// A program of a chain, and how far it is.
#[derive(Clone)]
struct Path {
    which: Which,
    life: UnderWay,
    /// What was decided on the way there, of all programs of the chain.
    ways: Vec<u16>,
}

/// A path that waits.
enum Waiting {
    /// As it is.
    Here(Box<Path>),
    /// By what was decided on the way there: it is run once more.
    Known { first: Which, ways: Vec<u16> },
}

/// How far a path came.
enum Step {
    /// To what has to be decided.
    Apart(Apart),
    /// To the start of the next program.
    Follows(Box<UnderWay>),
    /// To its end, where something is wrong or nothing.
    Ended(Box<Life>, Option<Wrong>),
}

impl Path {
    /// It goes one of the ways that there are.
    fn takes(&mut self, apart: &Apart, way: u16) {
        self.ways.push(way);
        self.life.takes(apart, usize::from(way));
    }

    /// What looks at the recovered pool is next.
    fn follow(&mut self, life: UnderWay) {
        (self.which, self.life) = (Which::Check, life);
    }
}

/// Where a chain begins: what is started on what a failure left.
fn first_of(which: Which) -> Which {
    match which {
        Which::Dump => Which::Dump,
        Which::Recovery | Which::Check => Which::Recovery,
    }
}

/// Who explores.
pub struct Explorer<'e> {
    /// What is started.
    pub recoveries: &'e Recoveries,
    /// What is asked.
    pub expected: &'e Expected,
    /// Recoveries to finish, at most, at each point.
    pub states: u64,
    /// For those that are sampled.
    pub seed: u64,
    /// Who may stop it.
    pub observer: &'e dyn Observer,
    /// The order of the threads, among those that are tried.
    pub schedule: u64,
}

impl Explorer<'_> {
    /// Explores a point, to its end unless the user stops that.
    pub fn explore(&self, choices: &Choices, engine: &mut Engine) -> Result<Explored, Error> {
        let mut explored = Explored {
            exhaustive: choices.all,
            ..Explored::default()
        };
        let mut starts = 0.0;
        for which in self.recoveries.firsts() {
            self.explore_one(which, choices, engine, &mut explored)?;
            starts += 1.0;
        }
        explored.coverage /= f64::max(starts, 1.0);
        Ok(explored)
    }

    fn explore_one(
        &self,
        which: Which,
        choices: &Choices,
        engine: &mut Engine,
        explored: &mut Explored,
    ) -> Result<(), Error> {
        let mut waiting = vec![Waiting::Here(Box::new(self.begin(which, choices)?))];
        let seed = self.seed ^ choices.point.number.wrapping_mul(0x9e37_79b9);
        let mut random = Random::new(seed);
        let mut left = self.states;
        explored.alike = 0;
        while left > 0 && explored.alike < ALIKE_MAX {
            if self.observer.interrupted() {
                return Err(Error::Interrupted);
            }
            // What is left can all be finished: depth first. Else whichever chance picks.
            let next = if waiting.len() as u64 <= left {
                waiting.pop()
            } else {
                let picked = random.below(waiting.len() as u64) as usize;
                Some(waiting.swap_remove(picked))
            };
            let path = match next {
                None => return Ok(()),
                Some(Waiting::Here(path)) => *path,
                Some(Waiting::Known { first, ways }) => {
                    self.again(first, &ways, choices, engine)?
                }
            };
            let ended = self.go_on(path, choices, engine, &mut waiting, explored)?;
            left -= u64::from(ended);
            let room = WAITING * self.states as usize + 16;
            while waiting.len() > room {
                explored.exhaustive = false;
                waiting.swap_remove(random.below(waiting.len() as u64) as usize);
            }
        }
        explored.exhaustive &= waiting.is_empty();
        Ok(())
    }

    /// A path on which nothing is decided.
    fn begin(&self, which: Which, choices: &Choices) -> Result<Path, Error> {
        let point = choices.point;
        let pool = (&point.durable, point.table);
        Ok(Path {
            which,
            life: self.recoveries.start(which, pool, &choices.lines)?,
            ways: Vec::new(),
        })
    }

    /// A path that was given up for want of memory, from its beginning to where it was.
    fn again(
        &self,
        first: Which,
        ways: &[u16],
        choices: &Choices,
        engine: &mut Engine,
    ) -> Result<Path, Error> {
        let mut path = self.begin(first, choices)?;
        while path.ways.len() < ways.len() {
            match self.step(&mut path, choices, engine)? {
                Step::Apart(apart) => path.takes(&apart, ways[path.ways.len()]),
                Step::Follows(life) => path.follow(*life),
                Step::Ended(..) => {
                    return Err(Error::Defect("a recovery went another way again".into()));
                }
            }
        }
        Ok(path)
    }

    /// Goes on to what comes next.
    fn step(&self, path: &mut Path, choices: &Choices, engine: &mut Engine) -> Result<Step, Error> {
        let which = path.which;
        let life = match path.life.go_on(engine, self.recoveries.patience) {
            Came::Apart(apart) => return Ok(Step::Apart(apart)),
            Came::Ended(life) => life,
        };
        if which == Which::Recovery && !life.has_gone_on {
            for whole in self.expected.wholes_at(choices.point) {
                if let Some(apart) = path.life.ask(whole) {
                    return Ok(Step::Apart(apart));
                }
            }
        }
        let wrong = self.expected.judge(which, &life, choices.point);
        let follows =
            which == Which::Recovery && self.recoveries.programs.contains_key(&Which::Check);
        if wrong.is_none() && follows {
            let machine = self.recoveries.boot(Which::Check, life.pool)?;
            return Ok(Step::Follows(Box::new(path.life.followed_by(machine))));
        }
        Ok(Step::Ended(life, wrong))
    }

    /// Goes on with one. True if it came to its end.
    fn go_on(
        &self,
        mut path: Path,
        choices: &Choices,
        engine: &mut Engine,
        waiting: &mut Vec<Waiting>,
        explored: &mut Explored,
    ) -> Result<bool, Error> {
        let (life, wrong) = match self.step(&mut path, choices, engine)? {
            Step::Apart(apart) => {
                self.part(path, &apart, waiting);
                return Ok(false);
            }
            Step::Follows(life) => {
                path.follow(*life);
                waiting.push(Waiting::Here(Box::new(path)));
                return Ok(false);
            }
            Step::Ended(life, wrong) => (life, wrong),
        };
        let which = path.which;
        explored.states += 1;
        explored.instructions += life.instructions;
        explored.coverage += path.life.weight;
        if wrong.is_none() && which != Which::Check && explored.well.len() < WELL_MAX {
            explored.well.push((which, path.life.decided()));
        }
        if let Some(wrong) = wrong {
            explored.failing += 1;
            explored.alike += 1;
            let decided = path.life.decided();
            let failed = Failed {
                wrong,
                which,
                decided,
            };
            let outline = cause::outline(choices, &failed);
            if explored.failures.len() < FAILURES_MAX {
                explored.failures.entry(outline).or_insert_with(|| {
                    explored.alike = 0;
                    failed
                });
            }
        }
        Ok(true)
    }

    /// All ways that a path can take wait; the first one last, which will be gone on with. As many as there
    /// is room for wait as they are.
    fn part(&self, path: Path, apart: &Apart, waiting: &mut Vec<Waiting>) {
        let ways = u16::try_from(apart.ways()).unwrap_or(u16::MAX);
        for way in (1..ways).rev() {
            waiting.push(if self.recoveries.memory.has_room() {
                let mut path = path.clone();
                path.takes(apart, way);
                Waiting::Here(Box::new(path))
            } else {
                let decided = path.ways.iter().copied();
                Waiting::Known {
                    first: first_of(path.which),
                    ways: decided.chain([way]).collect(),
                }
            });
        }
        if ways > 0 {
            let mut path = path;
            path.takes(apart, 0);
            waiting.push(Waiting::Here(Box::new(path)));
        }
    }

    /// Whether something goes wrong where everything is decided: what.
    pub fn fails(
        &self,
        which: Which,
        choices: &Choices,
        versions: &BTreeMap<u64, usize>,
        engine: &mut Engine,
    ) -> Result<Option<Wrong>, Error> {
        let point = choices.point;
        let lines = choices.decided(versions);
        let first = first_of(which);
        let pool = (&point.durable, point.table);
        let mut life = self.recoveries.start(first, pool, &lines)?;
        let ended = life.live_out(engine, self.recoveries.patience)?;
        let wrong = self.expected.judge(first, &ended, point);
        let follows =
            first == Which::Recovery && self.recoveries.programs.contains_key(&Which::Check);
        if wrong.is_some() || !follows {
            return Ok(wrong);
        }
        let life = self.recoveries.run_on(Which::Check, ended.pool, engine)?;
        Ok(self.expected.judge(Which::Check, &life, point))
    }
}

/// Lines that were not found as their newest version.
pub fn lost(decided: &BTreeMap<u64, usize>) -> impl Iterator<Item = u64> {
    let lost = decided.iter().filter(|(_, version)| **version > 0);
    lost.map(|(line, _)| *line)
}
