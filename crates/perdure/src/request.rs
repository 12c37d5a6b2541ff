//! What a user asks for, as JSON: the one form behind the command line and the Python interface.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::configuration::{Configuration, parse_override};
use crate::error::{Error, parsed};
use crate::reads::Reads;
use crate::timeline;

mod prepare;

pub use prepare::Prepared;

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
    /// Just before and just after the end of every fence that waits for persist operations.
    EveryFence,
    /// At the first flush and around the first fence from each call stack.
    EveryStack,
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
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
    /// Draw the run's timeline (`trace` in the result).
    #[serde(skip_serializing)]
    pub trace: Option<timeline::Asked>,
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
    /// After each cut a program is started again on the pools that survived, and judged by its end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub restart: bool,
    /// Which one, with its arguments, if it is not the one that was cut.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<String>,
    /// What its standard output has to be: a file that has it, or the text itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
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
    /// The run ends with its one exact cut: how it would have gone on is not found out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub until_cut: bool,
    /// What the run must read, where it is to be a run that was made before, and whether by this build.
    #[serde(skip)]
    pub reads: Option<(Reads, bool)>,
    /// The folder that gets core files of the first failure: as it should have come back, and as it did.
    #[serde(skip_serializing)]
    pub cores: Option<PathBuf>,
    /// Host threads.
    #[serde(skip_serializing)]
    pub jobs: Option<usize>,
    /// `[number, parts]`: make only every `parts`-th cut of the schedule, from the `number`-th on. What is
    /// wrong is then explained as if there were no other part.
    #[serde(skip_serializing)]
    pub part: Option<[usize; 2]>,
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
            trace: None,
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
            restart: false,
            then: Vec::new(),
            expect: None,
            resume: None,
            generations: None,
            later_cuts: Vec::new(),
            check: Vec::new(),
            check_seconds: None,
            until_cut: false,
            reads: None,
            cores: None,
            jobs: None,
            part: None,
            tear_seed: None,
            planted_bug: None,
        }
    }
}

impl Request {
    /// Whether a cut leaves its pools in their folder: who names one cut wants to see that; one that is
    /// repeated finds the folder as it was, and so does the next life's program.
    pub fn leaves_pools(&self) -> bool {
        self.at.is_some() && self.reads.is_none() && !self.restart
    }

    /// From JSON.
    pub fn parse(text: &str) -> Result<Self, Error> {
        parsed(text)
    }

    /// The effective configuration, checked.
    pub fn configuration(&self) -> Result<Configuration, Error> {
        let set = self.set_harts();
        if let (Some(harts), Some((text, value))) = (self.harts, set)
            && parse_override(value).as_integer() != i64::try_from(harts).ok()
        {
            return Err(Error::Configuration(format!(
                "--harts {harts} and --set {text} both say how many hardware threads there are, and not the same: give one of them"
            )));
        }
        let harts = match (self.harts, self.programs.len()) {
            (None, programs) if programs > 1 && set.is_none() => Some(programs),
            (harts, _) => harts,
        };
        Configuration::new(&self.machine, &self.design, &self.set, harts)
    }

    /// The setting that says how many harts there are, with its value, where one does: the last of them.
    fn set_harts(&self) -> Option<(&str, &str)> {
        let mut settings = self.set.iter().filter_map(|text| {
            let (key, value) = text.split_once('=')?;
            (key.trim() == "harts").then_some((text.as_str(), value.trim()))
        });
        settings.next_back()
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

    /// Whether the run stops at the end of a measured region.
    pub fn is_measured(&self) -> bool {
        self.measure_threads || self.measure_instructions.is_some()
    }

    /// Why there is no measured region.
    pub fn not_reached(&self, retired: &[u64]) -> Error {
        let begin = if self.measure_threads {
            "no program had several threads".to_owned()
        } else {
            let warm_up = self.warm_up_instructions.unwrap_or(0);
            format!("--warm-up is {warm_up}")
        };
        Error::Request(format!(
            "the measured region was not reached: the programs retired {retired:?} instructions, and {begin}"
        ))
    }
}
