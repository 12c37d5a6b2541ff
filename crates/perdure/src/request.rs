//! What a user asks for, as JSON: the one form behind the command line and the Python interface.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::configuration::{Configuration, check};
use crate::error::Error;
use crate::exerciser;
use crate::machine::{Engine, Workload};

/// Which cuts to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Uniformly over the run.
    Random,
    /// At every start and end of a write at the NVM.
    EveryEvent,
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
    /// Environment, `KEY=VALUE`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// A file that becomes the guest's standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<PathBuf>,
    /// Stop after so many instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_after: Option<u64>,
    /// `fast` or `plain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// Where files and results go.
    #[serde(skip_serializing)]
    pub out: Option<PathBuf>,
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
    /// Which cuts go on to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
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
            environment: Vec::new(),
            stdin: None,
            stop_after: None,
            engine: None,
            program: Vec::new(),
            out: None,
            passthrough: false,
            at: None,
            cuts: None,
            schedule: None,
            seed: None,
            during_recovery: false,
            resume: None,
            jobs: None,
            tear_seed: None,
            planted_bug: None,
        }
    }
}

/// A request, checked and made ready to run.
pub struct Prepared {
    /// The configuration.
    pub configuration: Arc<Configuration>,
    /// The program and its world.
    pub workload: Workload,
    /// The engine.
    pub engine: Engine,
    /// A hash of the program's file.
    pub program_hash: String,
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
        let configuration = Configuration::new(&self.machine, &self.design, &self.set, self.harts)?;
        check(&configuration)?;
        Ok(configuration)
    }

    /// Checks everything that can be checked before running.
    pub fn prepare(&self) -> Result<Prepared, Error> {
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
        let Some((program, arguments)) = self.program.split_first() else {
            return request_error(
                "no program: write it after --, as in perdure run -- ./program argument",
            );
        };
        let program = match exerciser::path_of(program) {
            Some(path) => path?,
            None => PathBuf::from(program),
        };
        let mounts = self
            .mounts
            .iter()
            .map(|text| mount(text))
            .collect::<Result<_, _>>()?;
        let environment = self
            .environment
            .iter()
            .map(|text| match text.split_once('=') {
                Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
                _ => request_error(format!("--env {text}: write KEY=VALUE")),
            })
            .collect::<Result<_, _>>()?;
        let read = |path: &Path, what: &str| {
            std::fs::read(path).map_err(|source| Error::Host {
                what: format!("{what} {}", path.display()),
                source,
            })
        };
        let stdin = match &self.stdin {
            Some(path) => read(path, "standard input")?,
            None => Vec::new(),
        };
        if let Some(sysroot) = &self.sysroot
            && !sysroot.is_dir()
        {
            return request_error(format!(
                "--sysroot {}: not a directory; 'perdure sysroot {}' makes one",
                sysroot.display(),
                sysroot.display()
            ));
        }
        let program_hash = std::fs::read(&program)
            .map(|bytes| format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes)))
            .unwrap_or_default();
        let kernel = perdure_linux::Configuration {
            programs: vec![perdure_linux::Program {
                path: program,
                arguments: arguments.to_vec(),
                environment,
                stdin,
            }],
            sysroot: self.sysroot.clone(),
            work_directory: std::env::current_dir().ok(),
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
            },
            engine,
            program_hash,
        })
    }
}

fn mount(text: &str) -> Result<perdure_linux::Mount, Error> {
    match text.rsplit_once(':') {
        Some((host, guest)) if guest.starts_with('/') && Path::new(host).is_dir() => {
            Ok(perdure_linux::Mount {
                host: host.into(),
                guest: guest.into(),
            })
        }
        _ => request_error(format!(
            "--mount {text}: write HOST:GUEST with an existing directory and an absolute guest path"
        )),
    }
}
