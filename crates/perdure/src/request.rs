//! What a user asks for, as JSON: the one form behind the command line and the Python interface.

use std::path::PathBuf;
use std::sync::Arc;

use perdure_linux::{Repeat, WORK_DIRECTORY};
use serde::{Deserialize, Serialize};

use crate::check::{self, Check};
use crate::configuration::{Configuration, LEAST_EPOCH_STORES, check, nearest};
use crate::error::Error;
use crate::exerciser;
use crate::losses::Lost;
use crate::machine::{Engine, Workload};
use crate::mistakes::{self, Blind, Mistake};
use crate::mounts::{mount, write_through};
use crate::pools;
use crate::reads::Reads;
use crate::region::Region;
use crate::watch::{Burst, Watched};

/// Which cuts to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Uniformly over the run.
    Random,
    /// At every start and end of a write at the NVM.
    EveryEvent,
    /// At moments like these, and a cycle before or after, chosen at random.
    NearEvents,
    /// Over (design state × code location).
    Stratified,
}

/// Which verified cuts go on to the end of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resume {
    /// Every one.
    All,
    /// One in twenty, five at least.
    Sample,
    /// None.
    None,
}

/// A request. Unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// Machine preset or TOML file.
    pub machine: String,
    /// Design.
    pub design: String,
    /// Overrides, `key=value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// Number of harts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harts: Option<usize>,
    /// The guest's root directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sysroot: Option<PathBuf>,
    /// Further directories, `HOST:GUEST`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// Directories that the guest may change on the host, `HOST:GUEST`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write_through: Vec<String>,
    /// Environment, `KEY=VALUE`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// The folder whose files are the guest's pools, and which gets those that survive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pmem: Option<PathBuf>,
    /// A file that becomes the guest's standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<PathBuf>,
    /// Stop after so many instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_after: Option<u64>,
    /// Programs that have finished are started again, until every one has finished once, or the
    /// measured region is over.
    // Tokens of earlier builds say `restart`.
    #[serde(alias = "restart", skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
    /// Instructions of every program before the measured region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up_instructions: Option<u64>,
    /// Instructions of every program in the measured region, after which the run stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure_instructions: Option<u64>,
    /// Measure the program's first parallel phase: from its second thread's start until it has one
    /// thread again, or has retired `measure_instructions` in it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub measure_threads: bool,
    /// Addresses (`0x…`) or symbols, each perhaps with `:BYTES`: a store there starts a burst of short
    /// epochs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
    /// Stores in an epoch of a burst; without `watch`, for bursts that the program asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_stores: Option<u64>,
    /// How long a burst lasts after the last event, in instructions of all harts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_instructions: Option<u64>,
    /// Note the bytes written so far every so many cycles (`series` in the result).
    #[serde(skip_serializing)]
    pub sample_cycles: Option<u64>,
    /// Measure what power cuts would cost, at random moments of the run (`cut_cost` in the result).
    #[serde(skip_serializing)]
    pub probe_cuts: bool,
    /// `fast` or `plain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The program and its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
    /// Several programs, each with its arguments, in place of one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Vec<String>>,
    /// Where the guest's files are kept; else below `out`, in `files`.
    #[serde(skip_serializing)]
    pub files: Option<PathBuf>,
    /// Where files and results go.
    #[serde(skip_serializing)]
    pub out: Option<PathBuf>,
    /// Where the run's snapshots are kept.
    #[serde(skip_serializing)]
    pub snapshots: Option<PathBuf>,
    /// Where the run's epochs are copied to as it goes: a directory, or `HOST:PORT` of a replica.
    #[serde(skip_serializing)]
    pub replicate_to: Option<String>,
    /// The secret that is shared with the replica.
    #[serde(skip_serializing)]
    pub secret_file: Option<PathBuf>,
    /// How long the end of the run waits for a replica that is away.
    #[serde(skip_serializing)]
    pub patience_seconds: Option<u64>,
    /// The guest's output goes to this process's.
    #[serde(skip_serializing)]
    pub passthrough: bool,
    /// One cut, at this cycle.
    #[serde(skip_serializing)]
    pub at: Option<u64>,
    /// So many cuts.
    #[serde(skip_serializing)]
    pub cuts: Option<u64>,
    /// Which cuts.
    #[serde(skip_serializing)]
    pub schedule: Option<Schedule>,
    /// Seed of the schedule and of torn writes.
    #[serde(skip_serializing)]
    pub seed: Option<u64>,
    /// Cut again during each recovery.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub during_recovery: bool,
    /// Follow with a replica, and judge what it would hold if each cut lost the primary.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replica: bool,
    /// Which cuts go on to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// How often in a row the power is cut, each time in the machine that has come back, where a cut
    /// goes on. By default three times for half of these cuts, and once for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generations: Option<u32>,
    /// When the machines that have come back are cut, each in its own time, where that is not to
    /// follow from seed and cycle.
    #[serde(skip)]
    pub later_cuts: Vec<u64>,
    /// A program of the host's and its arguments, which decides whether a resumed run has ended well.
    #[serde(skip_serializing)]
    pub check: Vec<String>,
    /// How long it may take.
    #[serde(skip_serializing)]
    pub check_seconds: Option<u64>,
    /// What the run must read, where it is to be a run that was made before, and whether by this build.
    #[serde(skip)]
    pub reads: Option<(Reads, bool)>,
    /// Host threads.
    #[serde(skip_serializing)]
    pub jobs: Option<usize>,
    /// What torn writes leave, where it is not to follow from seed and cycle.
    #[serde(skip)]
    pub tear_seed: Option<u64>,
    /// A mistake to plant in the design.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planted_bug: Option<String>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            machine: "picl".into(),
            design: "picl".into(),
            set: Vec::new(),
            harts: None,
            sysroot: None,
            mounts: Vec::new(),
            write_through: Vec::new(),
            environment: Vec::new(),
            pmem: None,
            stdin: None,
            stop_after: None,
            repeat: false,
            warm_up_instructions: None,
            measure_instructions: None,
            measure_threads: false,
            watch: Vec::new(),
            burst_stores: None,
            burst_instructions: None,
            sample_cycles: None,
            probe_cuts: false,
            engine: None,
            program: Vec::new(),
            programs: Vec::new(),
            files: None,
            out: None,
            snapshots: None,
            replicate_to: None,
            secret_file: None,
            patience_seconds: None,
            passthrough: false,
            at: None,
            cuts: None,
            schedule: None,
            seed: None,
            during_recovery: false,
            replica: false,
            resume: None,
            generations: None,
            later_cuts: Vec::new(),
            check: Vec::new(),
            check_seconds: None,
            reads: None,
            jobs: None,
            tear_seed: None,
            planted_bug: None,
        }
    }
}

/// A request, checked and made ready to run.
#[derive(Clone)]
pub struct Prepared {
    /// The configuration.
    pub configuration: Arc<Configuration>,
    /// The program and its world.
    pub workload: Workload,
    /// Of the mounts and the work directory, the ones that the guest may change on the host.
    pub write_through: Vec<perdure_linux::Mount>,
    /// The engine.
    pub engine: Engine,
    /// Who decides whether a resumed run has ended well, in place of equality.
    pub check: Option<Check>,
    /// A hash of the programs' files, and of standard input if it is given.
    pub program_hash: String,
    /// Each of these by name, with a hash; none for a program that is not found on the host.
    pub given: Vec<(String, Option<u32>)>,
    /// Cuts after the first failure are of no interest.
    pub until_failure: bool,
    /// A check that the judge leaves out.
    pub blind: Option<Blind>,
}

fn digest_of(bytes: &[u8]) -> u32 {
    xxhash_rust::xxh3::xxh3_64(bytes) as u32
}

impl Prepared {
    /// The digests of what was given, for a token.
    pub fn digests(&self) -> Vec<Option<u32>> {
        self.given.iter().map(|(_, digest)| *digest).collect()
    }
}

fn request_error<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Request(message.into()))
}

impl Request {
    /// From JSON.
    pub fn parse(text: &str) -> Result<Self, Error> {
        serde_json::from_str(text).map_err(|error| Error::Request(format!("request: {error}")))
    }

    /// The effective configuration, checked.
    pub fn configuration(&self) -> Result<Configuration, Error> {
        let harts = match (self.harts, self.programs.len()) {
            (None, programs) if programs > 1 && !self.sets_harts() => Some(programs),
            (harts, _) => harts,
        };
        let configuration = Configuration::new(&self.machine, &self.design, &self.set, harts)?;
        check(&configuration)?;
        Ok(configuration)
    }

    fn sets_harts(&self) -> bool {
        (self.set.iter()).any(|text| text.split('=').next().map(str::trim) == Some("harts"))
    }

    /// The programs' names, for messages.
    pub fn program_names(&self) -> String {
        let several = self.programs.iter().filter_map(|line| line.first());
        let names: Vec<&str> = (self.program.first().into_iter().chain(several))
            .map(String::as_str)
            .collect();
        names.join(", ")
    }

    /// Instructions that the run will take, where that is known; else 0.
    pub fn instructions_expected(&self) -> u64 {
        let programs = self.programs.len().max(1) as u64;
        let region = self
            .measure_instructions
            .map(|measure| (measure + self.warm_up_instructions.unwrap_or(0)) * programs);
        self.stop_after.or(region).unwrap_or(0)
    }

    /// The programs to run, however they were given.
    fn command_lines(&self) -> Result<Vec<&[String]>, Error> {
        let lines: Vec<&[String]> = match (self.program.as_slice(), self.programs.as_slice()) {
            (one, []) => vec![one],
            ([], several) => several.iter().map(Vec::as_slice).collect(),
            _ => return request_error("give either 'program' or 'programs', not both"),
        };
        if lines.iter().any(|line| line.is_empty()) {
            return request_error(
                "no program: write it after --, as in perdure run -- ./program argument",
            );
        }
        Ok(lines)
    }

    fn check_samples(&self) -> Result<(), Error> {
        match self.sample_cycles {
            Some(cycles) if cycles < 1000 => Err(Error::Request(format!(
                "--sample-cycles {cycles}: must be at least 1000"
            ))),
            _ => Ok(()),
        }
    }

    fn watched(&self) -> Result<Option<Watched>, Error> {
        if self.watch.is_empty() && self.burst_stores.is_none() {
            return match self.burst_instructions {
                None => Ok(None),
                Some(_) => Err(Error::Request(
                    "--burst-instructions: needs --burst-stores".into(),
                )),
            };
        }
        let stores = self.burst_stores.unwrap_or(10_000);
        if stores < LEAST_EPOCH_STORES {
            return Err(Error::Request(format!(
                "--burst-stores {stores}: must be at least {LEAST_EPOCH_STORES}"
            )));
        }
        let burst = Burst {
            stores,
            instructions: self.burst_instructions.unwrap_or(10_000_000),
        };
        let places = self.watch.clone();
        Ok(Some(Watched { places, burst }))
    }

    /// The mistake to plant in the machine, if the planted bug is one of its own.
    fn mistake(&self) -> Result<Option<Mistake>, Error> {
        let planted = self.planted_bug.as_deref();
        let Some(name) = planted.and_then(|bug| bug.strip_prefix(mistakes::PREFIX)) else {
            return Ok(None);
        };
        let losses = Lost::all().map(|lost| format!("{}{}", mistakes::FORGETS, lost.name()));
        let mistakes = mistakes::MISTAKES
            .iter()
            .map(|(bug, _)| bug.name.to_owned());
        Mistake::named(name).map(Some).ok_or_else(|| {
            let names: Vec<String> = mistakes.chain(losses).collect();
            let names = names.iter().map(String::as_str);
            let hint = nearest(name, names).unwrap_or("releases-early");
            Error::Request(format!(
                "the machine has no planted bug '{name}'; the nearest is '{hint}'"
            ))
        })
    }

    /// Who decides whether a resumed run has ended well.
    fn check(&self) -> Result<Option<Check>, Error> {
        if self.generations == Some(0) {
            return request_error("--generations 0: must be at least 1");
        }
        match (self.check.as_slice(), self.check_seconds) {
            ([], Some(_)) => request_error("--check-seconds: needs --check"),
            ([], None) => Ok(None),
            (_, Some(0)) => request_error("--check-seconds 0: must be at least 1"),
            (command, seconds) => Ok(Some(Check {
                command: command.to_vec(),
                seconds: seconds.unwrap_or(check::SECONDS),
            })),
        }
    }

    /// Whether the run stops at the end of a measured region.
    pub fn is_measured(&self) -> bool {
        self.measure_threads || self.measure_instructions.is_some()
    }

    /// The part of the run to measure.
    fn region(&self) -> Result<Option<Region>, Error> {
        match (self.warm_up_instructions, self.measure_instructions) {
            (Some(_), _) if self.measure_threads => request_error(
                "--warm-up with --measure-threads: the second thread begins the region",
            ),
            (None, None) if !self.measure_threads => Ok(None),
            (Some(_), None) => {
                request_error("--warm-up without --measure: say how many instructions to measure")
            }
            (_, Some(0)) => request_error("--measure 0: must be at least 1"),
            (warm_up, measure) => Ok(Some(Region {
                warm_up_instructions: warm_up.unwrap_or(0),
                measure_instructions: measure.unwrap_or(u64::MAX),
                follows_threads: self.measure_threads,
            })),
        }
    }

    /// All of standard input, if there is one.
    fn standard_input(&self) -> Result<Option<Vec<u8>>, Error> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|source| Error::Host {
                what: format!("standard input {}", path.display()),
                source,
            })
        };
        self.stdin.as_ref().map(read).transpose()
    }

    /// Checks everything that can be checked before running.
    pub fn prepare(&self) -> Result<Prepared, Error> {
        self.check_samples()?;
        let configuration = self.configuration()?;
        let engine = match self.engine.as_deref() {
            None | Some("fast") => Engine::Fast,
            Some("plain") => Engine::Plain,
            Some(other) => {
                return request_error(format!(
                    "there is no engine '{other}'; take 'fast' or 'plain'"
                ));
            }
        };
        let mut mounts: Vec<perdure_linux::Mount> = self
            .mounts
            .iter()
            .map(|text| mount(text))
            .collect::<Result<_, _>>()?;
        let write_through = write_through(&self.write_through)?;
        let mut work_directory = std::env::current_dir().ok();
        for folder in &write_through {
            if folder.guest == WORK_DIRECTORY {
                work_directory = Some(folder.host.clone());
            } else {
                mounts.push(folder.clone());
            }
        }
        let environment: Vec<(String, String)> = self
            .environment
            .iter()
            .map(|text| match text.split_once('=') {
                Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
                _ => request_error(format!("--env {text}: write KEY=VALUE")),
            })
            .collect::<Result<_, _>>()?;
        let stdin = self.standard_input()?;
        if let Some(sysroot) = &self.sysroot
            && !sysroot.is_dir()
        {
            return request_error(format!(
                "--sysroot {}: not a directory; 'perdure sysroot {}' makes one",
                sysroot.display(),
                sysroot.display()
            ));
        }
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        let (mut programs, mut given) = (Vec::new(), Vec::new());
        for (index, line) in self.command_lines()?.into_iter().enumerate() {
            let path = match exerciser::path_of(&line[0]) {
                Some(path) => path?,
                None => PathBuf::from(&line[0]),
            };
            let bytes = std::fs::read(&path);
            let digest = bytes.as_ref().ok().map(|bytes| digest_of(bytes));
            given.push((format!("the program {}", line[0]), digest));
            hasher.update(&bytes.unwrap_or_default());
            programs.push(perdure_linux::Program {
                path,
                arguments: line[1..].to_vec(),
                environment: Vec::clone(&environment),
                // There is one standard input, and the first program has it.
                stdin: if index == 0 { stdin.clone() } else { None },
            });
        }
        if let Some(stdin) = &stdin {
            hasher.update(stdin);
            given.push(("standard input".into(), Some(digest_of(stdin))));
        }
        let pools = pools::given(self.pmem.as_deref(), &mut given, digest_of)?;
        let program_hash = format!("{:016x}", hasher.digest());
        let kernel = perdure_linux::Configuration {
            programs,
            repeat: match (self.repeat, self.is_measured()) {
                (false, _) => Repeat::Never,
                (true, false) => Repeat::UntilAllFinished,
                (true, true) => Repeat::Always,
            },
            sysroot: self.sysroot.clone(),
            work_directory,
            mounts,
            ..perdure_linux::Configuration::default()
        };
        if self.stop_after == Some(0) {
            return request_error("--stop-after 0: must be at least 1");
        }
        Ok(Prepared {
            configuration: Arc::new(configuration),
            workload: Workload {
                kernel,
                stop_after: self.stop_after,
                region: self.region()?,
                pools,
                watch: self.watched()?,
                mistake: self.mistake()?,
            },
            write_through,
            engine,
            check: self.check()?,
            program_hash,
            given,
            until_failure: false,
            blind: None,
        })
    }
}
