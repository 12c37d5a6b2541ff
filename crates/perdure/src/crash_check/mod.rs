//! `perdure check`: looks for the crash-consistency bugs of a program that keeps data in persistent memory.
//!
//! The program runs once, uncut, on a machine without time ([`crate::functional`]), and is watched
//! ([`record`]): its failure points are where a persistence model ([`rules`]) makes something durable. At
//! each point the model allows many contents of persistent memory ([`pending`]); recovery runs on them, and
//! what it reads decides which of them differ ([`uncertain`], [`explore`]). Recoveries are judged
//! ([`oracle`]), and of what goes wrong the cause is looked for ([`cause`]).
//!
//! Always true here: a request, a seed and a number of states give one report, for any number of host
//! threads.

mod bytes;
mod campaign;
mod cause;
mod checkable;
mod costs;
mod done;
mod explore;
mod functions;
mod kept;
mod machine;
mod memory;
mod nested;
mod oracle;
mod orders;
mod parts;
mod pending;
mod places;
mod record;
mod recovery;
mod replay;
mod report;
mod rules;
mod search;
mod shares;
mod token;
mod uncertain;
mod uncut;
mod unread;
mod waste;
mod windows;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use perdure_designs::layout::Layout;
use perdure_linux::Program;
use perdure_linux::pools::PoolSource;
use serde::{Deserialize, Serialize};

use crate::error::{Error, parsed};
use crate::functional::World;
use crate::given_files;
use crate::observer::Observer;
use crate::request::Request;
use memory::Memory;
use recovery::{Recoveries, Which};
pub use rules::Model;
use shares::{Part, Shares};
use uncut::{Mapped, Uncut};

/// Recoveries at one point, unless told otherwise.
const STATES_OF_A_POINT: u64 = 500;
/// Instructions after which a recovery is taken to hang: so many times what one takes on the whole pool, and
/// so many at least.
const PATIENCE: u64 = 50;
const LEAST_PATIENCE: u64 = 20_000_000;
/// Of the order in which threads have their turns, unless told otherwise.
const USUAL_SEED: u64 = 1;

/// What is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The machine, the program, its pools and what recovers (`then`).
    pub request: Request,
    /// The model.
    pub model: Model,
    /// Recoveries in all, after which no point is begun; none for no limit.
    #[serde(default)]
    pub states: Option<u64>,
    /// Recoveries at one point.
    #[serde(default)]
    pub states_of_a_point: Option<u64>,
    /// Minutes after which no point is begun.
    #[serde(default)]
    pub minutes: Option<f64>,
    /// Looks at the recovered pool.
    #[serde(default)]
    pub checker: Vec<String>,
    /// That is an invariant: it is told where the program has mapped its pools.
    #[serde(default)]
    pub invariant: bool,
    /// Recovers and shows what is in the pool.
    #[serde(default)]
    pub dump: Vec<String>,
    /// Functions whose calls are operations.
    #[serde(default)]
    pub operations: Vec<String>,
    /// Instructions after which a recovery is taken to hang.
    #[serde(default)]
    pub patience: Option<u64>,
    /// Power fails in recoveries, too.
    #[serde(default)]
    pub nested: bool,
    /// One state alone, which a report names.
    #[serde(default)]
    pub state: Option<String>,
    /// How many orders of a program's threads are tried.
    #[serde(default)]
    pub schedules: Option<u64>,
    /// MiB that simulated memory and what waits may take.
    #[serde(default)]
    pub memory: Option<u64>,
    /// The file in which is kept what was done, and from which a check goes on.
    #[serde(default)]
    pub keep: Option<PathBuf>,
    /// Cuts of the machine: all of them, or those beside a check by a model.
    #[serde(default)]
    pub cuts: Option<u64>,
    /// The folder that gets the pools of the one state.
    #[serde(default)]
    pub pools: Option<PathBuf>,
}

/// A request made ready.
struct Prepared {
    uncut: Uncut,
    programs: BTreeMap<Which, Program>,
    /// Where they run.
    world: World,
    /// What checks is told where pools are mapped.
    invariant: bool,
    /// What was given, by its names, with digests.
    given: Vec<(String, Option<u32>)>,
    /// The configuration's hash.
    config_hash: String,
}

impl Prepared {
    /// What recovers, none of which has been started yet, after a program that has mapped pools so.
    fn recoveries(&self, patience: u64, mapped: &Mapped, memory: Memory) -> Recoveries {
        let mut programs = self.programs.clone();
        if let Some(check) = programs.get_mut(&Which::Check).filter(|_| self.invariant) {
            let told = mapped.iter().map(|(path, extent)| {
                let (start, end, offset) = (extent.start, extent.end, extent.offset);
                format!("{path}@{start:x}-{end:x}+{offset:x}")
            });
            check.arguments.extend(told);
        }
        Recoveries::new(self.world.clone(), programs, patience, memory)
    }
}

fn refused<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Request(message.into()))
}

/// Checks a program. JSON in, JSON out.
pub fn check(asked: &str, observer: &dyn Observer) -> Result<String, Error> {
    let asked: Asked = parsed(asked)?;
    let prepared = asked.prepare()?;
    answer(&asked, &prepared, observer, Shares::all())
}

/// One share of a check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Share {
    asked: Asked,
    part: Part,
    /// What all shares of points have told, for the shares of what is left.
    #[serde(default)]
    told: Vec<String>,
}

/// A check of which all shares were told.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Together {
    asked: Asked,
    told: Vec<String>,
    /// The user has stopped those who told.
    interrupted: bool,
}

/// Does one share of a check ([`shares`]). JSON in, JSON out.
pub fn check_share(share: &str, observer: &dyn Observer) -> Result<String, Error> {
    let Share { asked, part, told } = parsed(share)?;
    let prepared = asked.prepare()?;
    let shares = Shares::one(part, &told)?;
    let told = campaign::run(&asked, &prepared, (observer, Instant::now()), shares)?;
    Ok(told.to_string())
}

/// The report of a check whose shares were done elsewhere. JSON in, JSON out.
pub fn check_together(together: &str, observer: &dyn Observer) -> Result<String, Error> {
    let Together {
        asked,
        told,
        interrupted,
    } = parsed(together)?;
    let prepared = asked.prepare()?;
    let shares = Shares::together(&told, asked.minutes.is_some(), interrupted)?;
    answer(&asked, &prepared, observer, shares)
}

/// Lets recovery run again on the state that a token of a report names. JSON in, JSON out.
pub fn check_again(asked: &str, observer: &dyn Observer) -> Result<String, Error> {
    let (asked, prepared) = token::opened(asked)?;
    answer(&asked, &prepared, observer, Shares::all())
}

fn answer(
    asked: &Asked,
    prepared: &Prepared,
    observer: &dyn Observer,
    shares: Shares,
) -> Result<String, Error> {
    let started = Instant::now();
    let mut report = match &asked.state {
        Some(state) => replay::run(asked, prepared, state, observer)?,
        None => campaign::run(asked, prepared, (observer, started), shares)?,
    };
    token::add(asked, prepared, &mut report);
    report["host"] = serde_json::json!({"seconds": started.elapsed().as_secs_f64()});
    Ok(report.to_string())
}

/// What is given, with what looks at recovered pools.
fn given(
    request: &[(String, Option<u32>)],
    programs: &BTreeMap<Which, Program>,
) -> Vec<(String, Option<u32>)> {
    let lookers = programs
        .iter()
        .filter(|(which, _)| **which != Which::Recovery);
    let digests = lookers.map(|(_, program)| {
        let bytes = given_files::regular(&program.path).ok();
        let digest = bytes.map(|bytes| twox_hash::XxHash3_64::oneshot(&bytes) as u32);
        (format!("the program {}", program.path.display()), digest)
    });
    request.iter().cloned().chain(digests).collect()
}

impl Asked {
    fn check_given(&self) -> Result<(), Error> {
        for (name, value) in [
            ("--states", self.states),
            ("--states-of-a-point", self.states_of_a_point),
            ("--patience", self.patience),
            ("--memory", self.memory),
            ("--cuts", self.cuts),
        ] {
            if value == Some(0) {
                return refused(format!("{name} 0: must be at least 1"));
            }
        }
        if let Some(pools) = self
            .request
            .pmem
            .as_deref()
            .filter(|folder| !folder.is_dir())
        {
            return refused(format!(
                "check: --pmem {}: there is no such folder; it has the pools that the program begins with",
                pools.display()
            ));
        }
        if self.model == Model::Machine && (self.keep.is_some() || self.memory.is_some()) {
            return refused(
                "--continue and --memory are for models; by --model machine a cut is made again each time, and little waits",
            );
        }
        match self.minutes {
            Some(minutes) if minutes.is_nan() || minutes <= 0.0 => {
                refused(format!("--minutes {minutes}: must be above 0"))
            }
            _ => Ok(()),
        }
    }

    /// When a check ends that began then, if there is a bound in minutes.
    fn ends(&self, began: Instant) -> Option<Instant> {
        let minutes = Duration::try_from_secs_f64(self.minutes? * 60.0).ok()?;
        began.checked_add(minutes)
    }

    fn prepare(&self) -> Result<Prepared, Error> {
        self.check_given()?;
        let request = Request {
            restart: true,
            ..self.request.clone()
        };
        let prepared = request.prepare()?;
        let [program] = prepared.workload.kernel.programs.as_slice() else {
            return refused("check: one program at a time");
        };
        let configuration = &prepared.configuration;
        let map = configuration.specification.physical_map();
        let Some(pools) = map.pools().next() else {
            return refused(format!(
                "check: the machine '{}' has no persistent memory beside that in which programs live; take x86-pm, arm-pm or xeon-pm, or a machine file with two memories",
                configuration.machine
            ));
        };
        let layout = Layout::new(1, map.main().addresses.end);
        let kernel = prepared.workload.kernel.clone();
        let source = match &prepared.workload.pools {
            Some(source) => PoolSource::clone(source),
            None => PoolSource::Files(Vec::new()),
        };
        let mut programs = BTreeMap::new();
        let then = prepared.restart.as_ref();
        let then = then.and_then(|restart| restart.workload.kernel.programs.first());
        // A dump recovers, too: then nothing else has to, unless it is said what.
        if let Some(then) = then.filter(|_| self.dump.is_empty() || !self.request.then.is_empty()) {
            programs.insert(Which::Recovery, then.clone());
        }
        for (which, line) in [(Which::Check, &self.checker), (Which::Dump, &self.dump)] {
            if let [path, arguments @ ..] = line.as_slice() {
                let program = Program {
                    path: path.into(),
                    arguments: arguments.to_vec(),
                    ..program.clone()
                };
                programs.insert(which, program);
            }
        }
        self.check_recovers(&programs)?;
        let mut uncut = Uncut {
            world: World::new(&layout, pools, kernel, configuration),
            program: program.clone(),
            source,
            model: self.model,
            schedule: self.seed(),
            number: 0,
            gathers: !self.dump.is_empty(),
        };
        let mut world = uncut.world.clone();
        self.find_operations(&mut uncut)?;
        // What recovers may call these functions as part of recovering, if it is not the program itself.
        if self.dump.is_empty() && self.request.then.is_empty() {
            world = uncut.world.clone();
        }
        Ok(Prepared {
            given: given(&prepared.given, &programs),
            config_hash: configuration.hash(),
            uncut,
            programs,
            world,
            invariant: self.invariant,
        })
    }

    /// What looks at what a recovery has left needs one.
    fn check_recovers(&self, programs: &BTreeMap<Which, Program>) -> Result<(), Error> {
        if self.checker.is_empty() || programs.contains_key(&Which::Recovery) {
            return Ok(());
        }
        let option = if self.invariant {
            "--invariant"
        } else {
            "--check"
        };
        refused(format!(
            "{option}: it looks at what a recovery has left: say by --then what recovers"
        ))
    }

    /// Has calls of functions of the program be operations.
    fn find_operations(&self, uncut: &mut Uncut) -> Result<(), Error> {
        if self.operations.is_empty() {
            return Ok(());
        }
        let path = uncut.program.path.clone();
        let file = uncut.boot()?.program_file();
        let file = file.ok_or_else(|| Error::Defect("the program has no file".into()))?;
        let found = functions::named(&file, &path.display().to_string(), &self.operations)?;
        // Who runs a goroutine is for Go to say.
        uncut.gathers &= !found.of_go;
        uncut.world.operations = Arc::new(BTreeMap::from([(path, found)]));
        Ok(())
    }

    fn seed(&self) -> u64 {
        self.request.seed.unwrap_or(USUAL_SEED)
    }

    fn jobs(&self) -> usize {
        self.request.jobs.unwrap_or(1)
    }

    fn states_at_a_point(&self) -> u64 {
        self.states_of_a_point.unwrap_or(STATES_OF_A_POINT)
    }

    /// How long a recovery may take where one on the whole pool takes so many instructions.
    fn patience_for(&self, instructions: u64) -> u64 {
        let usual = instructions.saturating_mul(PATIENCE).max(LEAST_PATIENCE);
        self.patience.unwrap_or(usual)
    }
}
