//! Which records may follow which, and what they amount to.
//!
//! Both ends and whoever reads a replica's file go by it, so that what one accepts, all do.
//!
//! Always true: a ledger that has accepted a record stands for a stream that makes sense: a refused one
//! leaves it as it was.

use std::collections::BTreeSet;
use std::ops::Range;

use perdure_designs::bytes::checksum;
use perdure_hardware::line::line_of;

use super::record::{self, Kind, MEMORY_BYTES, NO_EPOCH, SEAL_BYTES, Seal, Sum, VERSION_BYTES};
use super::{Identity, SCHEMA, VERSION};

/// What has been accepted.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Which run it is.
    pub identity: Option<Identity>,
    /// Up to where it is complete.
    pub position: Option<Seal>,
    /// The oldest epoch of those that follow each other without a gap up to the newest.
    pub oldest: u64,
    /// Checksums of the facts.
    pub facts: BTreeSet<u64>,
    sum: Sum,
}

impl Ledger {
    /// Takes a record, or says why it makes no sense here.
    pub fn accept(&mut self, kind: Kind, payload: &[u8]) -> Result<(), String> {
        let Some(identity) = &self.identity else {
            if kind != Kind::Identity {
                return Err("it does not begin with an identity".into());
            }
            let identity: Identity = serde_json::from_slice(payload)
                .map_err(|error| format!("its identity cannot be read: {error}"))?;
            if identity.schema != SCHEMA || identity.version != VERSION {
                return Err(format!(
                    "it is a stream of '{}', version {}, and this build knows '{SCHEMA}', version {VERSION}",
                    identity.schema, identity.version
                ));
            }
            self.identity = Some(identity);
            return Ok(());
        };
        let Range { start, end } = identity.memory();
        let memory = line_of(start)..line_of(end);
        match kind {
            Kind::Identity => return Err("it has a second identity".into()),
            Kind::Fact => {
                self.facts.insert(checksum(payload));
            }
            Kind::Memory => {
                let good = self.position.is_none()
                    && payload.len().is_multiple_of(MEMORY_BYTES)
                    && record::memory(payload).all(|(line, _)| memory.contains(&line));
                if !good {
                    return Err("it has lines of initial memory that make no sense".into());
                }
                self.sum.add(payload);
            }
            Kind::Versions => {
                let good = payload.len().is_multiple_of(VERSION_BYTES)
                    && record::versions(payload).all(|(head, _)| memory.contains(&head.line));
                if !good {
                    return Err("it has versions of lines that make no sense".into());
                }
                self.sum.add(payload);
            }
            Kind::Seal => self.seal(payload)?,
        }
        Ok(())
    }

    fn seal(&mut self, payload: &[u8]) -> Result<(), String> {
        if payload.len() != SEAL_BYTES {
            return Err("it has a seal of a wrong length".into());
        }
        let seal = Seal::decode(payload);
        let before = self.position.map_or(NO_EPOCH, |position| position.epoch);
        let later = self
            .position
            .is_none_or(|position| seal.epoch > position.epoch);
        if seal.after != before || !later || seal.epoch == NO_EPOCH {
            return Err(format!(
                "epoch {} does not follow: {}",
                seal.epoch,
                match self.position {
                    Some(position) => format!("it has epochs up to {}", position.epoch),
                    None => "it has none yet".into(),
                }
            ));
        }
        if seal.digest != self.sum.value() {
            return Err(format!("what leads to epoch {} is damaged", seal.epoch));
        }
        // Epochs between, which the primary had compacted away, cannot be read here either.
        if before == NO_EPOCH || seal.epoch != before + 1 {
            self.oldest = seal.epoch;
        }
        self.position = Some(seal);
        self.sum = Sum::default();
        Ok(())
    }
}
