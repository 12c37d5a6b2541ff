//! What a power cut costs: the work that is lost, and the time that recovery takes.
//!
//! Always true here:
//! - Work is lost from the recovered point to the cut. Each hart has its own point, the end of the
//!   recovered epoch as that hart left it; instructions are summed over harts, and the cycles are
//!   those of the hart that goes back furthest.
//! - A machine that cannot go on has lost all that it did.
//! - Recovery's time is that of its own reads and writes
//!   ([`perdure_hardware::recovery_clock`]).

use perdure_designs::surviving::{Journal, Surviving};
use perdure_hardware::random::Random;
use perdure_hardware::recovery_clock::{RecoveryClock, RecoveryCost};
use perdure_hardware::time::Cycles;
use serde_json::{Map, Value, json};

use crate::machine::Machine;
use crate::progress::WorkLost;

/// What one cut costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutCost {
    /// Before it.
    pub lost: WorkLost,
    /// After it.
    pub recovery: RecoveryCost,
}

impl CutCost {
    /// The cost of cutting a machine now, at `at`, after which `epoch` comes back.
    pub fn of(machine: &Machine, at: Cycles, epoch: Option<u64>, recovery: RecoveryCost) -> Self {
        let epoch = epoch.filter(|_| machine.facts().recovery.resumes());
        let progress = machine.progress.as_ref();
        let lost = progress.map(|progress| progress.lost(epoch, at, machine.retired_by_hart()));
        Self {
            lost: lost.unwrap_or_default(),
            recovery,
        }
    }

    /// Its parts and their keys.
    fn parts(&self) -> [(&'static str, u64); 8] {
        let recovery = &self.recovery;
        [
            ("lost_instructions", self.lost.instructions),
            ("lost_cycles", self.lost.cycles),
            ("recovery_cycles", recovery.cycles),
            ("recovery_reads", recovery.reads),
            ("recovery_read_bytes", recovery.read_bytes),
            ("recovery_writes", recovery.writes),
            ("recovery_written_bytes", recovery.written_bytes),
            ("recovery_loaded_lines", recovery.loaded_lines),
        ]
    }

    /// As JSON.
    pub fn to_json(self) -> Map<String, Value> {
        let parts = self.parts().into_iter();
        parts
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect()
    }
}

/// What cuts cost: of each part the median, the 99th percentile (both by nearest rank) and the worst.
pub fn summary(costs: &[CutCost]) -> Value {
    if costs.is_empty() {
        return Value::Null;
    }
    let mut made = Map::from_iter([("cuts".to_owned(), json!(costs.len()))]);
    for (index, (key, _)) in costs[0].parts().into_iter().enumerate() {
        let mut values: Vec<u64> = costs.iter().map(|cost| cost.parts()[index].1).collect();
        values.sort_unstable();
        let rank = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
        made.insert(
            key.to_owned(),
            json!({"median": rank(50), "percentile_99": rank(99), "worst": rank(100)}),
        );
    }
    Value::Object(made)
}

/// So many probes of a run are kept at most; then three of four are dropped.
const MOST_PROBES: usize = 64;

/// How far apart they are at first, in cycles.
const FIRST_INTERVAL: Cycles = 100_000;

/// Cuts of a run that goes on as if nothing had been: one at a random moment of each interval, whose
/// length grows with the run's, so that there are always between sixteen and sixty-four. They
/// measure; `perdure cut` judges.
#[derive(Debug)]
pub struct Probes {
    interval: Cycles,
    /// The interval that the next one is in.
    index: u64,
    /// When it is due.
    next: Cycles,
    random: Random,
    costs: Vec<CutCost>,
    journal: Journal,
}

impl Probes {
    /// Probes of a machine before its first instruction.
    pub fn new(machine: &mut Machine) -> Self {
        machine.keep_progress(machine.executing_epoch().saturating_sub(1));
        let mut probes = Self {
            interval: FIRST_INTERVAL,
            index: 0,
            next: 0,
            random: Random::new(0x7072_6f62_6573),
            costs: Vec::new(),
            journal: Journal::default(),
        };
        probes.draw();
        probes
    }

    /// When the next one is due.
    pub fn until(&self) -> Cycles {
        self.next
    }

    fn draw(&mut self) {
        self.next = self.index * self.interval + 1 + self.random.below(self.interval);
    }

    /// Cuts the power, recovers, and puts everything back.
    pub fn take(&mut self, machine: &mut Machine) {
        let at = self.next;
        let how = machine.recovery();
        let clock = RecoveryClock::new(&machine.hardware.specification, machine.layout.protected());
        let lost = machine.power_off(at, self.random.bits());
        let memory = &mut machine.hardware.memory;
        let journal = std::mem::take(&mut self.journal);
        let mut surviving = Surviving::of(memory, journal).timed(clock);
        let recovered = how.run(&mut surviving);
        let recovery = surviving.cost();
        self.journal = surviving.into_journal().undo(&mut memory.arena);
        memory.power_back(&lost);
        if let Ok(recovered) = recovered {
            let cost = CutCost::of(machine, at, recovered.epoch, recovery);
            self.costs.push(cost);
        }
        self.index += 1;
        if self.costs.len() == MOST_PROBES {
            let mut index = 0;
            self.costs.retain(|_| {
                index += 1;
                index % 4 == 1
            });
            self.interval *= 4;
            self.index /= 4;
        }
        self.draw();
    }

    /// What was found.
    pub fn to_json(&self) -> Value {
        summary(&self.costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let cost = |cycles| CutCost {
            lost: WorkLost {
                cycles,
                ..WorkLost::default()
            },
            ..CutCost::default()
        };
        let costs: Vec<CutCost> = (1..=200).rev().map(cost).collect();
        let summary = summary(&costs);
        assert_eq!(
            summary["lost_cycles"],
            json!({"median": 100, "percentile_99": 198, "worst": 200})
        );
        assert_eq!(summary["cuts"], 200);
        assert_eq!(super::summary(&[]), Value::Null);
    }
}
