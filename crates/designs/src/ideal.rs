//! `ideal`: NVM as main memory with no crash consistency at all, the baseline of every comparison.
//!
//! Nothing is logged, nothing is promised. Epochs are counted so that a cut can be judged by the
//! epoch-prefix promise, but they cost nothing and save nothing. Output leaves at once.
//!
//! With `eager_write_back` it is the baseline of those who clean lines early anyhow: a walker over the
//! last-level cache writes dirty lines of the older half of each set whenever their bank has nothing to
//! do (Lee, Tyson and Farrens, *Eager Writeback*, MICRO 2000, without their queue).

use perdure_hardware::cache::Slot;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{Cause, Evicted, Eviction, Policy};
use perdure_hardware::specification::Inclusion;
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::Track;

use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered, RecoveryMode};
use crate::epochs::{EpochNumbers, MachineEpochs, OfMachine, Urgency};
use crate::layout::Layout;
use crate::oracle::Nothing;
use crate::surviving::{Interrupted, Surviving};

/// Sets that the eager walker looks at in one step, and how long after one the next begins: a cache of
/// 2 MB is walked in some 260,000 cycles, in which a link of 12.8 GB/s can bring that much.
const SETS_PER_STEP: usize = 4;
const STEP_CYCLES: Cycles = 256;

/// The walker's next step.
const EVENT_WALK: u32 = 0;

/// The state: the number of the executing epoch, and where the eager walker is.
#[derive(Clone, Debug)]
pub struct Ideal {
    executing: u64,
    sets_walked: usize,
}

/// The `ideal` section of the configuration.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Dirty lines that have not been used lately are written when their bank has nothing to do.
    pub eager_write_back: bool,
}

impl Ideal {
    /// Looks at a few sets. Returns when it has.
    fn walk(&mut self, hardware: &mut Hardware, now: Cycles) -> Cycles {
        let mut time = now;
        for _ in 0..SETS_PER_STEP {
            let set = hardware.set_in_walk(self.sets_walked);
            self.sets_walked = (self.sets_walked + 1) % hardware.llc.sets();
            time += 1;
            for way in 0..hardware.llc.ways() {
                let slot = Slot((set * hardware.llc.ways() + way) as u32);
                let word = hardware.llc.word(slot);
                let address = word.line().wrapping_mul(LINE_BYTES as u64);
                if !hardware.llc.occupied(slot)
                    || !word.dirty()
                    || !hardware.llc.in_older_half(slot)
                    || hardware.memory.could_start_at(address, time) > time
                {
                    continue;
                }
                let port_cycles = hardware.specification.llc.port_cycles;
                time = hardware.take_llc_port(set, time, port_cycles) + port_cycles;
                let (bytes, _, ready) = hardware.clean(self, slot, true, time);
                if let Some(bytes) = bytes {
                    let Hardware {
                        memory, statistics, ..
                    } = hardware;
                    let done = memory.write_back(word.line(), &bytes, ready, statistics);
                    time = time.max(done.accepted);
                }
            }
        }
        time
    }
}

impl Policy for Ideal {
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let (line, bytes) = (eviction.line, &eviction.bytes);
        let done = if eviction.cause == Cause::CacheBlock {
            memory.write_line(line, bytes, Traffic::WriteBack, now, 0, statistics)
        } else {
            memory.write_back(line, bytes, now, statistics)
        };
        done.into()
    }

    fn fired(&mut self, hardware: &mut Hardware, _: u32, now: Cycles) {
        let walked = self.walk(hardware, now);
        if let Some(timeline) = hardware.memory.timeline() {
            let walk = Track::of_design("eager write-back");
            timeline.step(walk, "walk", [now, walked.max(now + STEP_CYCLES)]);
        }
        let next = walked.max(now + STEP_CYCLES);
        hardware.events.schedule(next, EVENT_WALK);
    }
}

impl EpochNumbers for Ideal {
    fn executing_epoch(&self) -> u64 {
        self.executing
    }

    fn announced_epoch(&self) -> u64 {
        self.executing
    }
}

impl MachineEpochs for Ideal {
    fn end_epoch(&mut self, _: &mut Hardware, _: Urgency, now: Cycles) -> Cycles {
        self.executing += 1;
        now
    }
}

impl Design for Ideal {
    const NAME: &'static str = "ideal";
    const SUMMARY: &'static str = "NVM as main memory, no crash consistency: the cost baseline";
    const PLANTED_BUGS: &'static [PlantedBug] = &[];
    const RECOVERY: RecoveryMode = RecoveryMode::Restart;
    const NEEDS_INCLUSION: bool = false;
    type Epochs = OfMachine;
    type Promise = Nothing;
    type Parameters = Parameters;
    type Counters = ();

    fn start(
        parameters: &Parameters,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        _: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        if parameters.eager_write_back {
            let refuse = |good, why: &str| {
                ImpossibleParameter::unless(good, "ideal.eager_write_back", true, why)
            };
            let inclusive = hardware.specification.llc.inclusion == Inclusion::Inclusive;
            refuse(
                inclusive,
                "needs a last-level cache that is inclusive (llc.inclusion)",
            )?;
            let nvm_only = !hardware.specification.dram.present;
            refuse(
                nvm_only,
                "writes to the NVM, and with dram.present nothing goes there",
            )?;
            hardware.events.schedule(0, EVENT_WALK);
        }
        let harts = hardware.cores.len();
        layout.put_boot_record(harts, [0; 4], &mut hardware.memory.arena);
        Ok(Self {
            executing: epoch + 1,
            sets_walked: 0,
        })
    }

    /// There is nothing to recover with: memory is whatever the caches had let go.
    fn recover(_: &mut Surviving, _: Option<&'static str>) -> Result<Recovered, Interrupted> {
        Ok(Recovered::default())
    }

    fn counters(&self) {}

    fn phase(&self) -> &'static str {
        "running"
    }

    fn paths(_: &Statistics, (): &()) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
