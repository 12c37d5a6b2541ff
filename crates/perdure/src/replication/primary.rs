//! The primary: reads epochs out of the NVM as they become recoverable, and sends them.
//!
//! What it reads is what a power failure at that moment would leave: the NVM's bytes, and what the
//! batteries would still write. So a replica never has anything that the primary could lose.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use perdure_designs::bytes::checksum;
use perdure_designs::snapshots::{Delta, SnapshotSource, Source, StoreError};
use perdure_designs::surviving::Corruption;
use perdure_hardware::line::{LINE_BYTES, Line, line_of};
use perdure_linux::{HostView, KnownFacts, PAGE_BYTES};
use serde_json::{Value, json};

use super::log::{self, Log};
use super::nvm::Nvm;
use super::record::{self, BATCH_BYTES, Kind, NO_EPOCH, Seal, Sum, VERSION_BYTES, VersionHead};
use super::wire::{Remote, Secret};
use super::{Destination, Failure, Holding, Identity};
use crate::error::Error;
use crate::machine::Machine;
use crate::observer::Observer;
use crate::request::Prepared;
use crate::snapshots::keep;

/// Between attempts to reach a replica that is away: at first, and at most.
const RETRY: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// Where to copy to.
#[derive(Clone)]
pub enum Target {
    /// A directory.
    Directory(PathBuf),
    /// A replica that listens.
    Remote {
        /// `HOST:PORT`.
        address: String,
        /// The shared secret.
        secret: Secret,
    },
}

impl Target {
    /// From what a user wrote: `HOST:PORT`, else a directory.
    pub fn parse(text: &str, secret_file: Option<&Path>) -> Result<Self, Error> {
        let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !text.contains('/') && matches!(port, Some(Ok(_))) {
            let Some(file) = secret_file else {
                return Err(Error::Request(format!(
                    "--to {text}: needs --secret-file FILE, with the secret that the replica has"
                )));
            };
            return Ok(Self::Remote {
                address: text.to_owned(),
                secret: Secret::read(file)?,
            });
        }
        Ok(Self::Directory(text.into()))
    }

    fn connect(&self) -> Result<Box<dyn Destination + Send>, Failure> {
        match self {
            Self::Remote { address, secret } => Ok(Box::new(Remote::connect(address, secret)?)),
            Self::Directory(directory) => {
                let foreign = std::fs::read_dir(directory)
                    .is_ok_and(|mut entries| entries.next().is_some())
                    && !log::is_replica(directory);
                if foreign {
                    return Err(Failure::Refused(format!(
                        "--to {}: the folder is not empty and no replica; name another one",
                        directory.display()
                    )));
                }
                Ok(Box::new(Log::open(directory)?))
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Directory(directory) => directory.display().to_string(),
            Self::Remote { address, .. } => address.clone(),
        }
    }
}

/// Sends lines in records of about [`BATCH_BYTES`], and adds them up.
struct Batch<'a> {
    destination: &'a mut dyn Destination,
    payload: Vec<u8>,
    sum: Sum,
}

impl<'a> Batch<'a> {
    fn to(destination: &'a mut dyn Destination) -> Self {
        Self {
            destination,
            payload: Vec::new(),
            sum: Sum::default(),
        }
    }

    /// Sends the lines that were put in so far if they are many.
    fn flush_if_full(&mut self, kind: Kind) -> Result<(), Failure> {
        if self.payload.len() >= BATCH_BYTES {
            self.flush(kind)?;
        }
        Ok(())
    }

    fn flush(&mut self, kind: Kind) -> Result<(), Failure> {
        if !self.payload.is_empty() {
            self.sum.add(&self.payload);
            self.destination.append(kind, &self.payload)?;
            self.payload.clear();
        }
        Ok(())
    }

    /// Initial memory: the lines that are not zero. They lie at their home addresses in the NVM, where
    /// nothing is ever written; the DRAM may have newer ones by now.
    fn send_memory(&mut self, nvm: &Nvm, memory: Range<u64>) -> Result<(), Failure> {
        for page in nvm.memory.arena.written_pages() {
            for address in (page..page + PAGE_BYTES).step_by(LINE_BYTES) {
                let line = line_of(address);
                let bytes = nvm.memory.nvm_line(line);
                if memory.contains(&address) && *bytes != Line::ZERO {
                    record::put_memory(&mut self.payload, line, &bytes.0);
                    self.flush_if_full(Kind::Memory)?;
                }
            }
        }
        self.flush(Kind::Memory)
    }

    /// What leads to an epoch from the one before it, or to the first of all. Returns the seal that
    /// belongs behind it.
    fn send_step(
        &mut self,
        nvm: &Nvm,
        memory: Range<u64>,
        after: Option<u64>,
        delta: &Delta,
    ) -> Result<Seal, Failure> {
        if after.is_none() {
            self.send_memory(nvm, memory)?;
        }
        for version in &delta.versions {
            let head = VersionHead {
                line: version.line,
                age: u32::try_from(delta.epoch - version.epoch).unwrap_or(u32::MAX),
                writer: version.writer,
            };
            let bytes = nvm.bytes(version.address, LINE_BYTES).map_err(unusable)?;
            record::put_version(&mut self.payload, head, &bytes);
            self.flush_if_full(Kind::Versions)?;
        }
        self.flush(Kind::Versions)?;
        Ok(Seal {
            epoch: delta.epoch,
            after: after.unwrap_or(NO_EPOCH),
            digest: std::mem::take(&mut self.sum).value(),
        })
    }
}

/// Adds up, and sends nothing.
struct Nowhere;

impl Destination for Nowhere {
    fn begin(&mut self, _: &Identity) -> Result<Holding, Failure> {
        Ok(Holding::default())
    }

    fn append(&mut self, _: Kind, _: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

// Callers map errors with it.
#[allow(clippy::needless_pass_by_value)]
fn unusable(error: StoreError) -> Failure {
    let said = match error {
        StoreError::Damaged { what, address } => Corruption { what, address }.to_string(),
        other => other.to_string(),
    };
    Failure::Refused(format!("the NVM's snapshots are unusable: {said}"))
}

/// A machine's stream of epochs.
pub struct Primary {
    /// None if there is only the connection that was given.
    target: Option<Target>,
    /// The design's.
    snapshots: SnapshotSource,
    identity: Identity,
    destination: Option<Box<dyn Destination + Send>>,
    /// What the replica holds, as far as it has said so.
    position: Option<Seal>,
    facts: BTreeSet<u64>,
    known: KnownFacts,
    /// The replica's position was compared with this run's epochs.
    checked: bool,
    retry: Duration,
    try_again: Instant,
    connections: u64,
    epochs_sent: u64,
    bytes_sent: u64,
    /// Why the replica is away, or will have nothing of this.
    trouble: Option<Failure>,
}

impl Primary {
    /// Reaches the replica, for a machine that has just booted. That fails if the replica is not there
    /// or holds another run.
    pub fn start(target: Target, prepared: &Prepared, machine: &Machine) -> Result<Self, Error> {
        let mut primary = Self::of(prepared, machine)?;
        primary.target = Some(target);
        primary.connect()?;
        Ok(primary)
    }

    /// Sends to a destination that holds nothing yet.
    pub fn over(
        mut destination: Box<dyn Destination + Send>,
        prepared: &Prepared,
        machine: &Machine,
    ) -> Result<Self, Error> {
        let mut primary = Self::of(prepared, machine)?;
        destination.begin(&primary.identity)?;
        primary.destination = Some(destination);
        Ok(primary)
    }

    fn of(prepared: &Prepared, machine: &Machine) -> Result<Self, Error> {
        let snapshots = keep::source("--to", machine.facts())?;
        let nvm = Nvm::of(machine);
        let mut identity = Identity::new(prepared, &machine.layout, nvm.memory.arena.len(), 0);
        let mut nowhere = Nowhere;
        let mut batch = Batch::to(&mut nowhere);
        batch.send_memory(&nvm, machine.layout.protected())?;
        identity.initial_memory = format!("{:016x}", batch.sum.value());
        Ok(Self {
            target: None,
            snapshots,
            identity,
            destination: None,
            position: None,
            facts: BTreeSet::new(),
            known: KnownFacts::default(),
            checked: false,
            retry: RETRY[0],
            try_again: Instant::now(),
            connections: 0,
            epochs_sent: 0,
            bytes_sent: 0,
            trouble: None,
        })
    }

    /// Why the replica is away, or will have nothing of this.
    pub fn trouble(&self) -> Option<&Failure> {
        self.trouble.as_ref()
    }

    fn name(&self) -> String {
        self.target.as_ref().map_or_else(String::new, Target::name)
    }

    fn connect(&mut self) -> Result<(), Failure> {
        let Some(target) = &self.target else {
            return Err(Failure::Refused("the connection is gone".into()));
        };
        let mut destination = target.connect()?;
        let holding = destination.begin(&self.identity)?;
        self.destination = Some(destination);
        self.position = holding.position;
        self.facts = holding.facts;
        self.known = KnownFacts::default();
        self.checked = false;
        self.connections += 1;
        self.retry = RETRY[0];
        self.trouble = None;
        Ok(())
    }

    /// True if the replica holds an epoch, or is ahead: then a run that started anew will come there.
    fn has_nothing_to_send(&self, through: u64) -> bool {
        self.position
            .is_some_and(|at| at.epoch > through || (at.epoch == through && self.checked))
    }

    fn is_hopeless(&self) -> bool {
        matches!(self.trouble, Some(Failure::Refused(_)))
    }

    /// Sends the epochs that have become recoverable since the last time, if the replica is there. A
    /// replica that is away is tried again now and then.
    pub fn follow(&mut self, machine: &Machine) {
        let through = machine.announced_epoch();
        let away = self.destination.is_none() && Instant::now() < self.try_again;
        if self.has_nothing_to_send(through) || away || self.is_hopeless() {
            return;
        }
        let sent = match self.destination {
            None => self.connect(),
            Some(_) => Ok(()),
        }
        .and_then(|()| self.send(&Nvm::of(machine), through, &machine.kernel().host_view()));
        if let Err(failure) = sent {
            self.destination = None;
            self.trouble = Some(failure);
            self.try_again = Instant::now() + self.retry;
            self.retry = (self.retry * 2).min(RETRY[1]);
        }
    }

    /// Sends everything that leads to an epoch.
    fn send(&mut self, nvm: &Nvm, through: u64, host: &HostView) -> Result<(), Failure> {
        if self.position.is_some_and(|at| at.epoch > through) {
            return Ok(());
        }
        if let Some(position) = self.position.filter(|_| !self.checked) {
            self.check(nvm, position)?;
        }
        self.checked = true;
        let after = self.position.map(|position| position.epoch);
        let deltas = (self.snapshots.deltas)(nvm, after, through).map_err(unusable)?;
        let Some(destination) = &mut self.destination else {
            return Ok(());
        };
        for fact in host.new_facts(&mut self.known) {
            let payload = postcard::to_stdvec(&fact)
                .map_err(|error| Failure::Refused(format!("a fact cannot be sent: {error}")))?;
            if self.facts.insert(checksum(&payload)) {
                self.bytes_sent += payload.len() as u64;
                destination.append(Kind::Fact, &payload)?;
            }
        }
        let mut position = self.position;
        let mut batch = Batch::to(destination.as_mut());
        for delta in &deltas {
            let after = position.map(|position| position.epoch);
            let seal = batch.send_step(nvm, self.identity.memory(), after, delta)?;
            batch.destination.append(Kind::Seal, &seal.encode())?;
            self.bytes_sent += (delta.versions.len() * VERSION_BYTES) as u64;
            position = Some(seal);
        }
        destination.commit()?;
        self.epochs_sent += deltas.len() as u64;
        self.position = position;
        Ok(())
    }

    /// Compares the newest epoch that the replica holds with this run's, as far as it is still there.
    fn check(&self, nvm: &Nvm, position: Seal) -> Result<(), Failure> {
        let before = (position.after != NO_EPOCH).then_some(position.after);
        let steps = (self.snapshots.deltas)(nvm, before, position.epoch).map_err(unusable)?;
        let held = (self.snapshots.contents)(nvm).map_err(unusable)?.held;
        let retained = before.is_none_or(|before| before >= *held.start());
        // More than one step, or another one, leads there if some of it was compacted.
        let ([step], true) = (steps.as_slice(), retained) else {
            return Ok(());
        };
        let mut nowhere = Nowhere;
        let mut batch = Batch::to(&mut nowhere);
        if batch.send_step(nvm, self.identity.memory(), before, step)? == position {
            return Ok(());
        }
        Err(Failure::Refused(format!(
            "the replica {} holds epoch {} of another run: it differs from this one's; name another replica, or run with the same inputs",
            self.name(),
            position.epoch
        )))
    }

    /// Sends what is left once the run is over, with patience for a replica that is away.
    pub fn finish(&mut self, machine: &Machine, patience: Duration, observer: &dyn Observer) {
        let through = machine.announced_epoch();
        let began = Instant::now();
        loop {
            self.follow(machine);
            let given_up = self.is_hopeless() || began.elapsed() > patience;
            if self.has_nothing_to_send(through) || given_up || observer.interrupted() {
                break;
            }
            std::thread::sleep(RETRY[0]);
        }
        if self.trouble.is_none()
            && let Some(position) = self.position
            && position.epoch > through
        {
            self.trouble = Some(Failure::Refused(format!(
                "the replica {} holds epochs up to {}, and this run has only come to {through}; nothing was sent",
                self.name(),
                position.epoch
            )));
        }
        self.destination = None;
    }

    /// How it went, for the result.
    pub fn report(&self, machine: &Machine) -> Value {
        let trouble = self.trouble.as_ref().map(|trouble| {
            let hint = match trouble {
                Failure::Lost(_) => "; run the same command again, and it goes on from there",
                Failure::Refused(_) => "",
            };
            format!("{trouble}{hint}")
        });
        json!({
            "to": self.name(),
            "epoch": self.position.map(|position| position.epoch),
            "recoverable_epoch": machine.announced_epoch(),
            "epochs_sent": self.epochs_sent,
            "bytes_sent": self.bytes_sent,
            "connections": self.connections,
            "trouble": trouble,
        })
    }
}

/// Sends what a replica in a directory holds on to another one. Returns the newest epoch there, and how
/// many were sent.
pub fn forward(from: &Path, target: &Target, observer: &dyn Observer) -> Result<(u64, u64), Error> {
    if !log::is_replica(from) {
        return Err(Error::Request(format!(
            "--from {}: there is no replica; 'perdure replicate --to DIR -- PROGRAM' makes one",
            from.display()
        )));
    }
    let ledger = log::read(from, |_, _, _| Ok(()))?;
    let (Some(identity), Some(newest)) = (&ledger.identity, ledger.position) else {
        return Err(Error::Request(format!(
            "--from {}: the replica holds nothing yet",
            from.display()
        )));
    };
    let mut destination = target.connect()?;
    let holding = destination.begin(identity)?;
    let held = holding.position.map(|position| position.epoch);
    if held.is_some_and(|held| held > newest.epoch) {
        return Err(Error::Request(format!(
            "the replica {} holds epochs up to {}, and {} only up to {}",
            target.name(),
            held.unwrap_or_default(),
            from.display(),
            newest.epoch
        )));
    }
    let mut passed = held.is_none();
    let mut sent = 0;
    let mut failure = None;
    let forwarded = log::read(from, |kind, payload, _| {
        let outcome = match kind {
            Kind::Identity => Ok(()),
            Kind::Fact if holding.facts.contains(&checksum(payload)) => Ok(()),
            Kind::Fact => destination.append(kind, payload),
            Kind::Seal if !passed => {
                let seal = Seal::decode(payload);
                passed = holding.position == Some(seal);
                match held {
                    Some(held) if seal.epoch >= held && !passed => Err(Failure::Refused(format!(
                        "the replica {} holds epoch {held} of another stream than {}",
                        target.name(),
                        from.display()
                    ))),
                    _ => Ok(()),
                }
            }
            _ if !passed => Ok(()),
            Kind::Seal => {
                sent += 1;
                let epoch = Seal::decode(payload).epoch;
                observer.progress(epoch, newest.epoch, "epochs", "copying");
                let appended = destination.append(kind, payload);
                appended.and_then(|()| destination.commit())
            }
            Kind::Memory | Kind::Versions => destination.append(kind, payload),
        };
        let stopped = observer
            .interrupted()
            .then(|| Failure::Lost("interrupted; the same command goes on from there".into()));
        outcome.and(stopped.map_or(Ok(()), Err)).map_err(|why| {
            failure = Some(why.clone());
            why.to_string()
        })
    });
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    forwarded?;
    destination.commit()?;
    Ok((newest.epoch, sent))
}
