//! `ideal`: NVM as main memory with no crash consistency at all, the baseline of every comparison.
//!
//! Nothing is logged, nothing is promised. Epochs are counted so that a cut can be judged by the
//! epoch-prefix promise, but they cost nothing and save nothing. Output leaves at once.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::Version;
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{Cause, CrossVersionStore, Evicted, Eviction, Policy};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

use crate::design::{Design, ImpossibleParameter, PlantedBug, Promise, Recovered, Urgency};
use crate::layout::{BootRecord, Layout};
use crate::surviving::{Interrupted, Surviving};

/// The state: the number of the executing epoch.
#[derive(Clone, Debug)]
pub struct Ideal {
    executing: u64,
}

/// No parameters.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {}

impl Policy for Ideal {
    #[inline(always)]
    fn current_version(&self, _domain: usize) -> Version {
        Version::NONE
    }

    fn store(&mut self, _: &mut Hardware, _: &CrossVersionStore, now: Cycles) -> Cycles {
        now
    }

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
        Evicted {
            accepted: done.accepted,
            durable: done.durable,
        }
    }

    fn fired(&mut self, _: &mut Hardware, _: u32, _: Cycles) {}
}

impl Design for Ideal {
    const NAME: &'static str = "ideal";
    const SUMMARY: &'static str = "NVM as main memory, no crash consistency: the cost baseline";
    const PROMISE: Promise = Promise::Nothing;
    const PLANTED_BUGS: &'static [PlantedBug] = &[];
    const SAVES_CONTEXTS: bool = false;
    const NEEDS_INCLUSION: bool = false;
    type Parameters = Parameters;

    fn start(
        _: &Parameters,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        _: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        let harts = hardware.cores.len() as u64;
        let record = BootRecord {
            layout: layout.clone(),
            harts,
            design: [0; 4],
        };
        for (address, bytes) in record.encode() {
            hardware.memory.arena.write(address, &bytes);
        }
        Ok(Self {
            executing: epoch + 1,
        })
    }

    fn executing_epoch(&self) -> u64 {
        self.executing
    }

    fn announced_epoch(&self) -> u64 {
        self.executing
    }

    fn end_epoch(&mut self, _: &mut Hardware, _: Urgency, now: Cycles) -> Cycles {
        self.executing += 1;
        now
    }

    /// There is nothing to recover with: memory is whatever the caches had let go.
    fn recover(_: &mut Surviving, _: Option<&'static str>) -> Result<Recovered, Interrupted> {
        Ok(Recovered { epoch: 0 })
    }

    fn phase(&self) -> &'static str {
        "running"
    }

    fn paths(_: &Statistics) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
