//! A replica in memory, for judging power cuts: what a replica would hold if the primary were lost after
//! any byte that it sent.
//!
//! Always true: `memory` is that of the newest epoch whose seal has come whole.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use perdure_hardware::arena::{Arena, Digest};
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};

use super::ledger::Ledger;
use super::primary::Primary;
use super::record::{self, Kind, u32_at};
use super::{Destination, Failure, Holding, Identity};
use crate::error::Error;
use crate::machine::Machine;
use crate::mistakes::Mistake;
use crate::request::Prepared;

const HEAD_BYTES: usize = 8;

/// What was sent and has not come yet.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<VecDeque<u8>>>);

impl Wire {
    fn with<T>(&self, act: impl FnOnce(&mut VecDeque<u8>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Destination for Wire {
    fn begin(&mut self, identity: &Identity) -> Result<Holding, Failure> {
        let identity = serde_json::to_vec(identity).expect("plain data is JSON");
        self.append(Kind::Identity, &identity)?;
        Ok(Holding::default())
    }

    fn append(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Failure> {
        self.with(|wire| {
            wire.extend((kind as u32).to_le_bytes());
            wire.extend((payload.len() as u32).to_le_bytes());
            wire.extend(payload);
        });
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The replica.
pub struct Follower {
    primary: Primary,
    wire: Wire,
    /// What has come and is no whole record yet.
    came: Vec<u8>,
    ledger: Ledger,
    unsealed: Vec<(LineNumber, Line)>,
    memory: Arena,
    mistake: Option<Mistake>,
}

impl Follower {
    /// Follows a machine that has just booted. Digests are over `range`.
    pub fn start(prepared: &Prepared, machine: &Machine, range: Range<u64>) -> Result<Self, Error> {
        let host = |source| Error::Host {
            what: "memory for a replica (--replica)".into(),
            source,
        };
        let wire = Wire::default();
        let mut memory = Arena::new(machine.hardware.memory.arena.len()).map_err(host)?;
        memory.keep_digest(range);
        Ok(Self {
            primary: Primary::over(Box::new(wire.clone()), prepared, machine)?,
            wire,
            came: Vec::new(),
            ledger: Ledger::default(),
            unsealed: Vec::new(),
            memory,
            mistake: prepared.workload.mistake,
        })
    }

    /// The machine sends what has become recoverable.
    pub fn follow(&mut self, machine: &Machine) -> Result<(), Error> {
        self.primary.follow(machine);
        match self.primary.trouble() {
            Some(trouble) => Err(Error::Defect(format!("replication: {trouble}"))),
            None => Ok(()),
        }
    }

    /// Bytes that were sent and have not come.
    pub fn on_the_way(&self) -> usize {
        self.wire.with(|wire| wire.len())
    }

    /// How many of them come when so far whole records have come: what a connection that breaks between
    /// two records leaves.
    pub fn record_ends(&self) -> Vec<usize> {
        self.wire.with(|wire| {
            let before = self.came.len();
            let byte = |at: usize| match at.checked_sub(before) {
                Some(at) => wire.get(at).copied(),
                None => self.came.get(at).copied(),
            };
            let length_at = |at: usize| {
                let bytes: Option<Vec<u8>> = (at + 4..at + HEAD_BYTES).map(byte).collect();
                bytes.map(|bytes| u32_at(&bytes, 0) as usize)
            };
            let mut ends = Vec::new();
            let mut at = 0;
            while let Some(length) = length_at(at) {
                at += HEAD_BYTES + length;
                ends.extend(at.checked_sub(before));
            }
            ends
        })
    }

    /// So many more of them come.
    pub fn receive(&mut self, bytes: usize) -> Result<(), Error> {
        let came = &mut self.came;
        self.wire.with(|wire| came.extend(wire.drain(..bytes)));
        loop {
            let length = u32_at(&self.came, 4) as usize;
            if self.came.len() < HEAD_BYTES + length.max(1) {
                return Ok(());
            }
            let record: Vec<u8> = self.came.drain(..HEAD_BYTES + length).collect();
            self.take(u32_at(&record, 0), &record[HEAD_BYTES..])?;
        }
    }

    fn take(&mut self, kind: u32, payload: &[u8]) -> Result<(), Error> {
        let defect = |why: String| Error::Defect(format!("replication: {why}"));
        let kind = Kind::of(kind).ok_or_else(|| defect(format!("a record of kind {kind}")))?;
        self.ledger.accept(kind, payload).map_err(defect)?;
        let line_at = |at: usize| {
            let mut line = Line::ZERO;
            line.0.copy_from_slice(&payload[at..at + LINE_BYTES]);
            line
        };
        let before = self.unsealed.len();
        let early = self.mistake == Some(Mistake::ReplicaAppliesUnsealed);
        match kind {
            Kind::Identity | Kind::Fact => {}
            Kind::Memory => {
                let lines = record::memory(payload).map(|(line, at)| (line, line_at(at)));
                self.unsealed.extend(lines);
            }
            Kind::Versions => {
                let lines = record::versions(payload).map(|(head, at)| (head.line, line_at(at)));
                self.unsealed.extend(lines);
            }
            Kind::Seal => {
                if self.mistake == Some(Mistake::ReplicaForgetsSealed) {
                    self.unsealed.clear();
                }
                for (line, bytes) in self.unsealed.drain(..) {
                    self.memory.write_line(line * LINE_BYTES as u64, &bytes);
                }
            }
        }
        if early {
            for (line, bytes) in self.unsealed.drain(..) {
                self.memory.write_line(line * LINE_BYTES as u64, &bytes);
            }
        }
        if self.mistake == Some(Mistake::ReplicaSkipsLine) && self.unsealed.len() > before {
            self.unsealed.remove(before);
        }
        Ok(())
    }

    /// The newest epoch that is held, with its digest.
    pub fn holds(&self) -> Option<(u64, Digest)> {
        let position = self.ledger.position?;
        let further = u64::from(self.mistake == Some(Mistake::ReplicaNamesNextEpoch));
        Some((
            position.epoch + further,
            self.memory.digest().unwrap_or_default(),
        ))
    }

    /// A copy of the memory that is held.
    pub fn memory(&self) -> Arena {
        self.memory.clone()
    }
}
