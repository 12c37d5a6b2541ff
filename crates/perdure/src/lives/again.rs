//! The lives of a machine whose processes are lost at a power cut: in each, a program is started again on the
//! pools that survived.
//!
//! Always true here:
//! - A life has of the one before it what recovery left of persistent memory, and that time has passed;
//!   nothing else.
//! - A life is run to its end before it is cut, so that each is judged, and none is cut behind its end.

use perdure_hardware::arena::Arena;
use perdure_hardware::random::Random;
use perdure_hardware::time::Cycles;
use perdure_linux::HostView;
use serde_json::{Value, json};

use super::drawn::{RESTARTED, drawn};
use super::{End, Life, Lives, Plan, Sequel, failure_of, resumable, status_of};
use crate::error::Error;
use crate::machine::{Machine, Past, Pause, Workload};
use crate::observer::run_on;
use crate::restart::{Restart, last_lines};
use crate::verify::{self, Golden, Verdict};

/// What a power cut leaves for the next life.
#[derive(Clone)]
pub struct Left {
    memory: Arena,
    past: Past,
}

/// How a life ended that began by starting a program again.
#[derive(Clone, Debug, Default)]
pub struct Restarted {
    /// The exit status, if it ended.
    pub status: Option<i32>,
    /// How long it took.
    pub cycles: Cycles,
    /// The last lines that it wrote, where somebody wants to know.
    pub last_lines: Option<String>,
}

/// The same, with what is wrong with it.
struct Ended {
    restarted: Restarted,
    wrong: Option<(Verdict, String)>,
}

impl Restarted {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        let mut value = json!({"exit_code": self.status, "cycles": self.cycles});
        if let Some(lines) = &self.last_lines {
            value["output"] = json!(lines);
        }
        value
    }
}

impl Left {
    /// What recovery left of a machine whose power was cut.
    pub fn of(machine: &Machine, memory: Arena) -> Self {
        let past = machine.behind_it();
        Self { memory, past }
    }

    /// What a machine leaves that has come to its end, if it can recover.
    pub fn at_end(machine: &mut Machine, at: Cycles) -> Option<Self> {
        let image = verify::recovered_image(machine, at, 0).ok()?;
        Some(Self::of(machine, image.memory))
    }
}

impl Lives<'_> {
    /// How the program that is started again ends after the run that nobody cut, where it does, and what it
    /// has seen of the host. A program that cannot be started at all is an error.
    pub fn after_the_end(
        &self,
        restart: &Restart,
        left: &Left,
    ) -> Result<(Option<Restarted>, HostView), Error> {
        let mut machine = self.boot_again(restart, left)?;
        let patience = self.uncut.end.saturating_mul(16);
        let patience = patience.saturating_add(10_000_000_000);
        let ended = self.end_of(restart, &mut machine, patience)?;
        let ended = ended.map(|ended| ended.restarted);
        let ended = ended.filter(|ended| ended.status.is_some());
        Ok((ended, machine.kernel().host_view()))
    }

    /// The lives after a cut that was verified.
    pub fn start_again(
        &self,
        restart: &Restart,
        mut left: Left,
        cut: &Life,
        plan: &Plan,
    ) -> Result<Sequel, Error> {
        let mut sequel = Sequel::default();
        let mut random = Random::new(cut.tear_seed ^ RESTARTED);
        let longest = (self.uncut.again.as_ref()).map_or(0, |again| again.cycles);
        let patience = self.uncut.end.max(longest).saturating_mul(4);
        let patience = patience.saturating_add(1_000_000_000);
        let mut which = "started again".to_owned();
        for number in 0..plan.generations as usize {
            let mut began = match resumable(self.boot_again(restart, &left))? {
                Ok(began) => began,
                Err(why) => {
                    sequel.restarts.push(Restarted::default());
                    let message = format!("{which}: it cannot be: {why}");
                    return Ok(sequel.failing((Verdict::RestartFailed, message)));
                }
            };
            let Some(Ended { restarted, wrong }) = self.end_of(restart, &mut began, patience)?
            else {
                sequel.stopped = true;
                return Ok(sequel);
            };
            let cycles = restarted.cycles;
            sequel.restarts.push(restarted);
            if let Some((verdict, why)) = wrong {
                return Ok(sequel.failing((verdict, format!("{which}: {why}"))));
            }
            if number + 1 == plan.generations as usize {
                break;
            }
            let drawn = drawn(&mut random, cycles);
            let at = plan.later_cuts.get(number).copied().unwrap_or(drawn);
            sequel.later_cuts.push(at);
            let tear_seed = random.bits();
            match self.cut_again(restart, &left, (at, tear_seed), &mut sequel)? {
                Some(next) => left = next,
                None => return Ok(sequel),
            }
            which = format!(
                "started again after life {} was cut at cycle {at}",
                number + 2
            );
        }
        Ok(sequel)
    }

    /// The machine that the life after these cuts begins as, its program started again after each.
    pub fn started_again(&self, restart: &Restart, cuts: &[Life]) -> Result<Machine, Error> {
        let mut machine = self.first()?;
        for cut in cuts {
            while let Pause::EpochEnded(_) = machine.run(cut.cycle)? {}
            let image = verify::recovered_image(&mut machine, cut.cycle, cut.tear_seed)?;
            let left = Left::of(&machine, image.memory);
            machine = self.boot_again(restart, &left)?;
        }
        Ok(machine)
    }

    /// A machine that starts on what was left.
    pub(crate) fn boot_again(&self, restart: &Restart, left: &Left) -> Result<Machine, Error> {
        let workload = Workload {
            past: left.past,
            mistake: self.prepared.workload.mistake,
            ..restart.workload.clone()
        };
        let memory = left.memory.clone();
        let (configuration, engine) = (&self.prepared.configuration, self.prepared.engine);
        let mut machine = Machine::boot_again(configuration, &workload, memory, engine, self.bug)?;
        machine.hardware.enforce_contract();
        Ok(machine)
    }

    /// Lets a machine run to its end, unless the user stops it.
    fn end_of(
        &self,
        restart: &Restart,
        machine: &mut Machine,
        patience: Cycles,
    ) -> Result<Option<Ended>, Error> {
        let progress = |_: &Machine| (self.progress)();
        let ran = run_on(machine, patience, self.observer, |_, _| {}, progress);
        let status = status_of(machine);
        let broken = |why: String| Some((Verdict::RestartFailed, why));
        let wrong = match ran {
            Ok(None) => return Ok(None),
            Ok(Some(Pause::Finished)) => restart.wrong(status, &machine.outside),
            Ok(Some(_)) => broken(format!("it had not ended after {patience} cycles")),
            Err(error) => match failure_of(error)? {
                End::Hangs(why) | End::Broken(why) => broken(why),
                End::Finished | End::Stopped => None,
            },
        };
        let restarted = Restarted {
            status,
            cycles: machine.time(),
            last_lines: Some(last_lines(&machine.outside)),
        };
        Ok(Some(Ended { restarted, wrong }))
    }

    /// Cuts a life that began so; what is left for the next one, unless something is wrong or the user
    /// stopped it.
    fn cut_again(
        &self,
        restart: &Restart,
        left: &Left,
        (at, tear_seed): (Cycles, u64),
        sequel: &mut Sequel,
    ) -> Result<Option<Left>, Error> {
        let mut machine = self.boot_again(restart, left)?;
        let mut golden = Golden::watch(&mut machine, 0)?;
        let watch = |machine: &mut Machine, epoch| golden.record(machine, epoch);
        let progress = |_: &Machine| (self.progress)();
        if run_on(&mut machine, at, self.observer, watch, progress)?.is_none() {
            sequel.stopped = true;
            return Ok(None);
        }
        let judged = self.cut(&mut machine, &mut golden, (at, tear_seed), sequel);
        if judged.verdict.is_failure() {
            let number = sequel.lives.len() + 1;
            let why = judged.message.unwrap_or_default();
            let message = format!("life {number}, cut at cycle {at}: {why}");
            sequel.failure = Some((judged.verdict, message));
        }
        let memory = judged.image.map(|image| image.memory);
        Ok(memory.map(|memory| Left::of(&machine, memory)))
    }
}
