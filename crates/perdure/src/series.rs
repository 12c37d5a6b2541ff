//! A run over time: what had been written, retired and persisted at every so many cycles.

use perdure_hardware::time::Cycles;
use serde::Serialize;

use crate::machine::Machine;

/// The run so far, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Sample {
    cycle: Cycles,
    instructions: u64,
    nvm_written_bytes: u64,
    nvm_written_bytes_data: u64,
    nvm_written_bytes_log: u64,
    nvm_written_bytes_metadata: u64,
    nvm_written_bytes_context: u64,
    epochs_ended: u64,
    persisted_epoch: u64,
}

/// The samples, each of them cumulative.
#[derive(Debug, Default)]
pub struct Series {
    every: Option<Cycles>,
    samples: Vec<Sample>,
}

impl Series {
    /// One sample every so many cycles, or none at all.
    pub fn new(every: Option<Cycles>) -> Self {
        Self {
            every,
            samples: Vec::new(),
        }
    }

    /// Up to when the run goes before the next sample.
    pub fn until(&self) -> Cycles {
        match self.every {
            Some(every) => every.saturating_mul(self.samples.len() as u64 + 1),
            None => Cycles::MAX - 1,
        }
    }

    /// Takes a sample.
    pub fn take(&mut self, machine: &Machine) {
        let statistics = machine.hardware.statistics();
        self.samples.push(Sample {
            cycle: self.until(),
            instructions: machine.retired(),
            nvm_written_bytes: statistics.nvm_written_bytes_total,
            nvm_written_bytes_data: statistics.nvm_written_bytes_data,
            nvm_written_bytes_log: statistics.nvm_written_bytes_log,
            nvm_written_bytes_metadata: statistics.nvm_written_bytes_metadata,
            nvm_written_bytes_context: statistics.nvm_written_bytes_context,
            epochs_ended: statistics.epochs_committed,
            persisted_epoch: machine.announced_epoch(),
        });
    }

    /// For the result; nothing if none was asked for.
    pub fn to_json(&self) -> serde_json::Value {
        match self.every {
            Some(_) => serde_json::json!(self.samples),
            None => serde_json::Value::Null,
        }
    }
}
