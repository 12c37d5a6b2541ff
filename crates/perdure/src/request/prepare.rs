//! From a request to what is run: everything that can be checked before is checked here.
//!
//! Always true here: what a run is given of the host (programs, standard input, pools, the output to expect)
//! is read once, and a digest of it is kept for tokens.

use std::fs::File;
use std::hash::Hasher as _;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use perdure_designs::Facts;
use perdure_linux::pools::PoolSource;
use perdure_linux::{Mount, Program, Repeat, WORK_DIRECTORY};
use perdure_riscv::fast::Pace;
use twox_hash::XxHash3_64;

use super::Request;
use crate::check::{self, Check};
use crate::configuration::{Configuration, LEAST_EPOCH_STORES};
use crate::error::Error;
use crate::machine::{Engine, Machine, Workload, pool_addresses};
use crate::mistakes::{self, Blind};
use crate::mounts::{mount, visible, write_through};
use crate::pools::{self, Folder};
use crate::region::Region;
use crate::restart::{Expected, Restart};
use crate::timeline;
use crate::watch::{Burst, Watched};
use crate::{device_exerciser, exerciser, given_files, pool_exerciser};

/// Of a standard input that is no regular file, and so may have no end (`/dev/zero`).
const MOST_OF_A_STREAM: u64 = 1 << 30;

/// All of a standard input; `None` if it is no regular file and longer than `most`.
fn input_of(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = File::open(path)?;
    let most = if file.metadata()?.is_file() {
        u64::MAX - 1
    } else {
        most
    };
    let mut input = Vec::new();
    let count = file.take(most + 1).read_to_end(&mut input)?;
    Ok((count as u64 <= most).then_some(input))
}

/// A request, checked and made ready to run.
#[derive(Clone)]
pub struct Prepared {
    /// The configuration.
    pub configuration: Arc<Configuration>,
    /// Its hash: reckoned once, and named by every cut's token.
    pub config_hash: String,
    /// The program and its world.
    pub workload: Workload,
    /// Of the mounts and the work directory, the ones that the guest may change on the host.
    pub write_through: Vec<Mount>,
    /// The engine.
    pub engine: Engine,
    /// Who decides whether a resumed run has ended well, in place of equality.
    pub check: Option<Check>,
    /// What is started again after a cut, where the program does not go on.
    pub restart: Option<Restart>,
    /// The folder of the pools, where it gets what survives of them.
    pub folder: Option<Arc<Folder>>,
    /// A hash of the programs' files, and of standard input if it is given.
    pub program_hash: String,
    /// Each of these by name, with a hash; none for a program that is not found on the host.
    pub given: Vec<(String, Option<u32>)>,
    /// Cuts after the first failure are of no interest.
    pub until_failure: bool,
    /// Nothing is found out about the run behind its one exact cut.
    pub until_cut: bool,
    /// The first failure is explained.
    pub explains: bool,
    /// A check that the judge leaves out.
    pub blind: Option<Blind>,
}

impl Prepared {
    /// The same; whether the run ends with its one exact cut.
    #[must_use]
    pub fn until_cut(self, until_cut: bool) -> Self {
        Self { until_cut, ..self }
    }

    /// The same under another design: one that is not registered, and has no name in requests.
    #[must_use]
    pub fn under(mut self, design: &'static Facts) -> Self {
        Arc::make_mut(&mut self.configuration).design = design;
        self
    }

    /// A machine before its first instruction that holds its design to the contract, for who cuts the power.
    pub fn boot(&self, bug: Option<&'static str>) -> Result<Machine, Error> {
        let mut machine = Machine::boot(&self.configuration, &self.workload, self.engine, bug)?;
        machine.hardware.enforce_contract();
        Ok(machine)
    }
}

fn digest_of(bytes: &[u8]) -> u32 {
    XxHash3_64::oneshot(bytes) as u32
}

impl Prepared {
    /// The digests of what was given, for a token.
    pub fn digests(&self) -> Vec<Option<u32>> {
        self.given.iter().map(|(_, digest)| *digest).collect()
    }
}

/// What a run is given, as it is found on the host.
#[derive(Default)]
struct Given {
    /// Of programs' files and standard input.
    hasher: XxHash3_64,
    names: Vec<(String, Option<u32>)>,
}

impl Given {
    fn take(&mut self, name: String, bytes: &[u8]) {
        self.hasher.write(bytes);
        self.names.push((name, Some(digest_of(bytes))));
    }

    /// Programs by their command lines.
    fn programs(
        &mut self,
        lines: &[&[String]],
        environment: &[(String, String)],
        stdin: Option<&[u8]>,
    ) -> Result<Vec<Program>, Error> {
        let mut programs = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let path = match exerciser::path_of(&line[0])
                .or_else(|| pool_exerciser::path_of(&line[0]))
                .or_else(|| device_exerciser::path_of(&line[0]))
            {
                Some(path) => path?,
                None => PathBuf::from(&line[0]),
            };
            let name = format!("the program {}", line[0]);
            match given_files::regular(&path) {
                Ok(bytes) => self.take(name, &bytes),
                Err(_) => self.names.push((name, None)),
            }
            programs.push(Program {
                path,
                arguments: line[1..].to_vec(),
                environment: environment.to_vec(),
                // There is one standard input, and the first program has it.
                stdin: stdin.filter(|_| index == 0).map(<[u8]>::to_vec),
            });
        }
        Ok(programs)
    }
}

fn request_error<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Request(message.into()))
}

impl Request {
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
        let Some(path) = &self.stdin else {
            return Ok(None);
        };
        let what = format!("standard input {}", path.display());
        let input = input_of(path, MOST_OF_A_STREAM);
        let input = input.map_err(|source| Error::Host {
            what: what.clone(),
            source,
        })?;
        let gibibytes = MOST_OF_A_STREAM >> 30;
        let endless = || {
            Error::Request(format!(
                "{what}: it is no regular file, and goes on after {gibibytes} GiB: give a file"
            ))
        };
        input.map(Some).ok_or_else(endless)
    }

    fn engine(&self) -> Result<Engine, Error> {
        match self.engine.as_deref() {
            None | Some("compiled") => Ok(Engine::default()),
            // For tests.
            Some("eager") => Ok(Engine::Compiled(Pace::EAGER)),
            Some("fast") => Ok(Engine::Fast),
            Some("plain") => Ok(Engine::Plain),
            Some(other) => request_error(format!(
                "there is no engine '{other}'; take 'fast', 'compiled' or 'plain'"
            )),
        }
    }

    fn environment(&self) -> Result<Vec<(String, String)>, Error> {
        let pair = |text: &String| match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => request_error(format!("--env {text}: write KEY=VALUE")),
        };
        self.environment.iter().map(pair).collect()
    }

    /// What programs find of the host, before there are any.
    fn kernel(&self, write_through: &[Mount]) -> Result<perdure_linux::Configuration, Error> {
        let mounts = self.mounts.iter().map(|text| mount(text));
        let folders = mounts.chain(write_through.iter().cloned().map(Ok));
        let mut mounts = visible(folders.collect::<Result<_, _>>()?);
        let work = (mounts.iter()).position(|folder| folder.guest == WORK_DIRECTORY);
        let work_directory = match work {
            Some(place) => Some(mounts.remove(place).host),
            None => std::env::current_dir().ok(),
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
        Ok(perdure_linux::Configuration {
            repeat: match (self.repeat, self.is_measured()) {
                (false, _) => Repeat::Never,
                (true, false) => Repeat::UntilAllFinished,
                (true, true) => Repeat::Always,
            },
            sysroot: self.sysroot.clone(),
            work_directory,
            mounts,
            ..perdure_linux::Configuration::default()
        })
    }

    /// Checks everything that can be checked before running.
    pub fn prepare(&self) -> Result<Prepared, Error> {
        self.prepared(false)
    }

    /// The same for who gives the folder of the pools what survives of them, which is taken until then.
    pub fn prepare_giving_back(&self) -> Result<Prepared, Error> {
        self.prepared(true)
    }

    fn prepared(&self, gives_back: bool) -> Result<Prepared, Error> {
        self.check_samples()?;
        self.trace.iter().try_for_each(timeline::Asked::check)?;
        let configuration = Arc::new(self.configuration()?);
        let engine = self.engine()?;
        let write_through = write_through(&self.write_through)?;
        let world = self.kernel(&write_through)?;
        let mut given = Given::default();
        let kernel = |programs| perdure_linux::Configuration {
            programs,
            ..world.clone()
        };
        let (programs, then) = self.programs(&mut given)?;
        let (folder, specification) = (self.pmem.as_deref(), &configuration.specification);
        if folder.is_some() {
            // Before the folder is made where there is none.
            pool_addresses(&configuration, self.restart)?;
        }
        let taken = folder
            .filter(|_| gives_back)
            .map(Folder::take)
            .transpose()?;
        let pools = pools::given(folder, specification, &mut given.names)?;
        let lines = self.command_lines()?;
        let needs_pool = pool_exerciser::among(&lines).or_else(|| device_exerciser::among(&lines));
        if let (None, Some(name)) = (folder, needs_pool) {
            return request_error(format!("{name} stores to a pool: give --pmem DIR"));
        }
        let expected = self.expect.as_deref().map(Expected::named).transpose()?;
        if let Some(expected) = &expected {
            let digest = digest_of(expected.bytes());
            (given.names).push(("the output to expect".into(), Some(digest)));
        }
        if self.stop_after == Some(0) {
            return request_error("--stop-after 0: must be at least 1");
        }
        let restart = self.restart.then(|| Restart {
            workload: Workload {
                pools: Some(Arc::new(PoolSource::Surviving)),
                begins_anew: true,
                ..Workload::new(kernel(then))
            },
            expected,
        });
        Ok(Prepared {
            config_hash: configuration.hash(),
            configuration,
            workload: Workload {
                stop_after: self.stop_after,
                region: self.region()?,
                pools,
                begins_anew: self.restart,
                watch: self.watched()?,
                mistake: mistakes::planted(self.planted_bug.as_deref())?,
                ..Workload::new(kernel(programs))
            },
            write_through,
            engine,
            check: self.check()?,
            restart,
            folder: taken.map(Arc::new),
            program_hash: format!("{:016x}", given.hasher.finish()),
            given: given.names,
            until_failure: false,
            until_cut: self.until_cut,
            explains: true,
            blind: None,
        })
    }

    /// The programs that are run, and those that are started again after a cut.
    fn programs(&self, given: &mut Given) -> Result<(Vec<Program>, Vec<Program>), Error> {
        let environment = self.environment()?;
        let stdin = self.standard_input()?;
        let lines = self.command_lines()?;
        let programs = given.programs(&lines, &environment, stdin.as_deref())?;
        let then = match self.then.as_slice() {
            [] => programs.clone(),
            line => given.programs(&[line], &environment, stdin.as_deref())?,
        };
        if let Some(stdin) = &stdin {
            given.take("standard input".into(), stdin);
        }
        Ok((programs, then))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_without_an_end_is_not_read_for_ever() {
        let endless = input_of(Path::new("/dev/zero"), 1000).expect("it can be read");
        assert_eq!(endless, None);
        let empty = input_of(Path::new("/dev/null"), 1000).expect("it can be read");
        assert_eq!(empty, Some(Vec::new()));
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), [7; 2000]).expect("written");
        let whole = input_of(file.path(), 1000).expect("it can be read");
        assert_eq!(whole, Some(vec![7; 2000]), "a file has an end");
    }
}
