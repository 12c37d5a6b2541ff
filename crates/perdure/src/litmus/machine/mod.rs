//! Litmus tests on the machine: what it leaves in persistent memory over many cuts, and whether the model
//! of the test allows it.
//!
//! A test's threads become RISC-V code ([`assembly`]) that real harts of small and unlucky machines
//! ([`machines`]) execute, each time in another order and with other bad luck, and the power is cut at every
//! event ([`trial`]).
//!
//! Always true here: what was left follows from the test, the seed and the number of cuts alone.

mod assembly;
mod machines;
mod trial;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use perdure_linux::pools::{PoolFile, PoolSource};
use perdure_linux::{PAGE_BYTES, Program};
use perdure_riscv::Access;

use super::program::{Contents, Test};
use crate::configuration::Configuration;
use crate::error::Error;
use crate::machine::{Engine, Machine, Workload};
use crate::mistakes::Mistake;
use crate::observer::Observer;
use assembly::Assembly;
use machines::Preset;
use trial::{Ready, Trial, stuck};

/// The program's file.
const PROGRAM: &str = "litmus";
/// How long the machine may take until every thread waits for its test.
const BEGINS_WITHIN_CYCLES: u64 = 50_000_000;
const BEGINS_STEP_CYCLES: u64 = 1_000;

/// How a test is run.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Whatever is chosen follows from it.
    pub seed: u64,
    /// Cuts on each machine, at least.
    pub cuts: u64,
    /// A mistake to plant in the machine.
    pub mistake: Option<Mistake>,
}

/// Something that the model forbids.
#[derive(Clone, Debug)]
pub struct Unsound {
    /// What was left.
    pub contents: Contents,
    /// By which preset.
    pub machine: &'static str,
    /// Under which design.
    pub design: &'static str,
    /// What was set.
    pub settings: Vec<String>,
    /// In which run.
    pub run: u64,
    /// Of a cut at which cycle.
    pub at: u64,
}

/// A preset that has run a test.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The preset.
    pub machine: &'static str,
    /// The design.
    pub design: &'static str,
    /// How many runs there were.
    pub runs: u64,
    /// How many cuts.
    pub cuts: u64,
    /// Everything that they left.
    pub contents: BTreeSet<Contents>,
}

/// What machines left of a test.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// The machines.
    pub presets: Vec<Tried>,
    /// What the model forbids of that.
    pub unsound: Vec<Unsound>,
}

impl Left {
    /// Everything that a cut left on any machine.
    pub fn contents(&self) -> BTreeSet<Contents> {
        let presets = self.presets.iter();
        presets
            .flat_map(|tried| tried.contents.iter().copied())
            .collect()
    }
}

/// Runs a test on every machine that is to keep its model; `None` if no machine can. What the model allows
/// comes twice: where caches lose what they have, and where they do not. There are fewer runs if the user
/// wants no more.
pub fn run(
    test: &Test,
    allowed: [&BTreeSet<Contents>; 2],
    asked: &Asked,
    observer: &dyn Observer,
) -> Result<Option<Left>, Error> {
    let presets = machines::of_model(test.model.name);
    if presets.is_empty() || !assembly::can_run(test) {
        return Ok(None);
    }
    let assembly = assembly::assemble(test);
    let folder = folder_of(&assembly)?;
    let program = folder.path().join(PROGRAM);
    let mut left = Left::default();
    for preset in presets {
        if observer.interrupted() {
            break;
        }
        let mut tried = Tried {
            machine: preset.machine,
            design: preset.design,
            runs: 0,
            cuts: 0,
            contents: BTreeSet::new(),
        };
        for build in 0..preset.builds.len() {
            if observer.interrupted() {
                break;
            }
            let runs = Runs {
                test,
                allowed,
                asked,
                observer,
                assembly: &assembly,
                program: &program,
                preset,
                build,
                left: &mut left,
                tried: &mut tried,
            };
            runs.make()?;
        }
        left.presets.push(tried);
    }
    Ok(Some(left))
}

/// A folder of the host with the program, for as long as this lives.
fn folder_of(assembly: &Assembly) -> Result<tempfile::TempDir, Error> {
    let folder = tempfile::tempdir().and_then(|folder| {
        std::fs::write(folder.path().join(PROGRAM), &assembly.file)?;
        Ok(folder)
    });
    folder.map_err(|source| Error::Host {
        what: "writing a litmus test's program".into(),
        source,
    })
}

/// The runs of a test on one machine.
struct Runs<'a> {
    test: &'a Test,
    allowed: [&'a BTreeSet<Contents>; 2],
    asked: &'a Asked,
    observer: &'a dyn Observer,
    assembly: &'a Assembly,
    program: &'a Path,
    preset: &'static Preset,
    /// The number of the way in which it is built.
    build: usize,
    left: &'a mut Left,
    tried: &'a mut Tried,
}

impl Runs<'_> {
    fn make(self) -> Result<(), Error> {
        let settings = self.settings();
        let ready = self.boot(&settings)?;
        let keeps_caches = ready.machine.hardware.memory.keeps_caches();
        let allowed = self.allowed[usize::from(keeps_caches)];
        let share = self.asked.cuts.div_ceil(self.preset.builds.len() as u64);
        let mut cuts = 0;
        let mut run = 0;
        while cuts < share && !self.observer.interrupted() {
            let seed = self.asked.seed.wrapping_add(run << 8 | self.build as u64);
            let epochs = self.preset.has_epochs.then_some(machines::EPOCH_CYCLES);
            let mut trial = Trial::new(&ready, self.test, &self.assembly.threads, epochs, seed);
            trial.run()?;
            cuts += trial.cuts;
            for seen in trial.seen {
                self.tried.contents.insert(seen.contents);
                let mut known = self.left.unsound.iter();
                if !allowed.contains(&seen.contents)
                    && known.all(|known| known.contents != seen.contents)
                {
                    self.left.unsound.push(Unsound {
                        contents: seen.contents,
                        machine: self.preset.machine,
                        design: self.preset.design,
                        settings: settings.clone(),
                        run,
                        at: seen.at,
                    });
                }
            }
            run += 1;
        }
        self.tried.runs += run;
        self.tried.cuts += cuts;
        Ok(())
    }

    fn settings(&self) -> Vec<String> {
        let parts = self.preset.builds[self.build].iter().copied();
        (parts.flatten().chain(machines::ALWAYS))
            .map(|&set| set.to_owned())
            .collect()
    }

    /// A machine whose threads wait.
    fn boot(&self, settings: &[String]) -> Result<Ready, Error> {
        let threads = self.test.threads.len();
        let Preset {
            machine, design, ..
        } = self.preset;
        let configuration = Configuration::new(machine, design, settings, Some(threads))?;
        let map = configuration.specification.physical_map();
        let has_pools = map.pools().next().is_some();
        let kernel = perdure_linux::Configuration {
            programs: vec![Program::new(self.program)],
            ..perdure_linux::Configuration::default()
        };
        let mut workload = Workload::new(kernel);
        workload.mistake = self.asked.mistake;
        workload.pools = has_pools.then(|| {
            let pool = PoolFile {
                name: assembly::POOL.into(),
                size: assembly::PAGES * PAGE_BYTES,
                ..PoolFile::default()
            };
            Arc::new(PoolSource::Files(vec![pool]))
        });
        let engine = match self.build % 2 {
            0 => Engine::Plain,
            _ => Engine::Fast,
        };
        let mut machine = Machine::boot(&Arc::new(configuration), &workload, engine, None)?;
        let first = &mut machine.harts[0].context.hart;
        first.x[assembly::MAKE] = threads as u64;
        first.x[assembly::IS_POOL] = u64::from(has_pools);
        self.begin(&mut machine)?;
        let base = machine.harts[0].context.hart.x[assembly::BASE];
        let pages = (0..assembly::PAGES).map(|page| base + page * PAGE_BYTES);
        let pages = pages.map(|page| physical(&machine, page).map(|frame| (page, frame)));
        Ok(Ready {
            pages: pages.collect::<Result<_, _>>()?,
            machine,
        })
    }

    /// Runs a machine until every thread waits.
    fn begin(&self, machine: &mut Machine) -> Result<(), Error> {
        let waits = |machine: &Machine| {
            let mut harts = machine.harts.iter();
            harts.all(|hart| {
                hart.context.running.is_some() && hart.context.hart.pc == self.assembly.waits
            })
        };
        let mut until = 0;
        while !waits(machine) {
            until += BEGINS_STEP_CYCLES;
            if until > BEGINS_WITHIN_CYCLES || machine.ended().is_some() {
                return Err(stuck("its threads do not begin"));
            }
            machine.run(until)?;
        }
        Ok(())
    }
}

/// Where a page of the program lies.
fn physical(machine: &Machine, page: u64) -> Result<u64, Error> {
    let running = machine.harts[0].context.running;
    let translated = running
        .and_then(|running| (machine.kernel()).translate(running.space, page, Access::Store));
    let translated = translated.ok_or_else(|| stuck("a page is missing"))?;
    Ok(translated.physical_frame * PAGE_BYTES)
}
