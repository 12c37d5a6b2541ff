//! What a replica holds, and how a machine of one of its epochs is made.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use perdure_designs::layout::Layout;
use perdure_designs::snapshots::{SnapshotStore, Version};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, LineNumber};
use perdure_linux::{HostFact, HostView, Mount, Program};

use super::Identity;
use super::log;
use super::record::{self, Kind, Seal};
use crate::configuration::Configuration;
use crate::error::Error;
use crate::machine::{Engine, Image, Machine, Resumption};
use crate::outside::Outside;
use crate::snapshots::{Answer, ReadNvm, SnapshotsError};

/// What a replica has beside its snapshots.
pub struct Replica {
    /// Which run it is of.
    pub identity: Identity,
    /// Epochs that can be read and restored.
    pub held: RangeInclusive<u64>,
    /// What the guest found on its host.
    pub facts: Vec<HostFact>,
    /// Lines of initial memory that are not zero, and where in the file.
    memory: Arc<BTreeMap<LineNumber, u64>>,
    /// Bytes of it.
    pub bytes: u64,
}

impl Replica {
    /// Opens the replica in a directory, and its snapshots: everything in it is read and checked, and
    /// the lines' bytes stay in the file.
    pub fn open(directory: &Path) -> Answer<(Self, SnapshotStore<ReadNvm>)> {
        let mut facts = Vec::new();
        let mut memory = BTreeMap::new();
        let mut versions: Vec<Version> = Vec::new();
        // Of these the epoch is not known before the seal.
        let mut unsealed = 0;
        let mut bytes = 0;
        let ledger = log::read(directory, |kind, payload, place| {
            bytes = place + payload.len() as u64;
            match kind {
                Kind::Identity => {}
                Kind::Fact => facts.push(
                    postcard::from_bytes(payload)
                        .map_err(|error| format!("a fact cannot be read: {error}"))?,
                ),
                Kind::Memory => {
                    let lines = record::memory(payload);
                    memory.extend(lines.map(|(line, at)| (line, place + at as u64)));
                }
                Kind::Versions => {
                    let heads = record::versions(payload);
                    versions.extend(heads.map(|(head, at)| Version {
                        line: head.line,
                        epoch: u64::from(head.age),
                        address: place + at as u64,
                        writer: head.writer,
                    }));
                }
                Kind::Seal => {
                    let epoch = Seal::decode(payload).epoch;
                    for version in &mut versions[unsealed..] {
                        version.epoch = epoch.saturating_sub(version.epoch);
                    }
                    unsealed = versions.len();
                }
            }
            Ok(())
        })?;
        versions.truncate(unsealed);
        let path = directory.join(log::NAME);
        let (Some(identity), Some(position)) = (ledger.identity, ledger.position) else {
            return Err(SnapshotsError::Asked(format!(
                "the replica {} holds no epoch yet; 'perdure replicate' sends some",
                directory.display()
            )));
        };
        let file = File::open(&path).map_err(|source| SnapshotsError::Host {
            what: format!("the replica {}", path.display()),
            source,
        })?;
        let replica = Self {
            identity,
            held: ledger.oldest..=position.epoch,
            facts,
            memory: Arc::new(memory),
            bytes,
        };
        let store = replica.store(file, versions);
        Ok((replica, store))
    }

    /// The map of the machine's NVM.
    pub fn layout(&self) -> Layout {
        Layout::new(self.identity.harts, self.identity.nvm_bytes)
    }

    /// The store of versions that lie at those places in the file.
    fn store(&self, file: File, mut versions: Vec<Version>) -> SnapshotStore<ReadNvm> {
        let end = self.layout().frames.end;
        let memory = Arc::clone(&self.memory);
        // For the store, the file begins where memory ends.
        for version in &mut versions {
            version.address += end;
        }
        let read = move |address: u64, length: usize| {
            let mut bytes = vec![0; length];
            let line = address / LINE_BYTES as u64;
            let place = match address.checked_sub(end) {
                Some(place) => Some(place),
                None => memory.get(&line).map(|at| at + address % LINE_BYTES as u64),
            };
            if let Some(place) = place {
                file.read_exact_at(&mut bytes, place)?;
            }
            Ok(bytes)
        };
        let read: ReadNvm = Box::new(read);
        SnapshotStore::of_versions(read, end, self.held.clone(), versions)
    }

    /// Lines of initial memory that are not zero.
    pub fn initial_lines(&self) -> impl Iterator<Item = LineNumber> {
        self.memory.keys().copied()
    }

    /// The host as the program had found it, for that kernel.
    pub fn host_view(&self, kernel: &perdure_linux::Configuration) -> HostView {
        HostView::new(kernel).with_facts(self.facts.iter().cloned())
    }

    /// The kernel's configuration for going on: with the primary's directories, or others in their
    /// place.
    pub fn kernel_configuration(
        &self,
        sysroot: Option<PathBuf>,
        mounts: &[Mount],
    ) -> Result<perdure_linux::Configuration, Error> {
        let recorded = &self.identity.mounts;
        let unknown = |mount: &&Mount| recorded.iter().all(|one| one.guest != mount.guest);
        if let Some(mount) = mounts.iter().find(unknown) {
            let known: Vec<&str> = recorded.iter().map(|one| one.guest.as_str()).collect();
            return Err(Error::Request(format!(
                "--mount {}:{}: the program has no mount there; it has {known:?}",
                mount.host.display(),
                mount.guest
            )));
        }
        if sysroot.is_some() && self.identity.sysroot.is_none() {
            return Err(Error::Request(
                "--sysroot: the program ran without one".into(),
            ));
        }
        let host_of = |entry: &super::MountEntry| {
            let other = mounts.iter().find(|mount| mount.guest == entry.guest);
            other.map_or_else(|| entry.host.clone(), |mount| mount.host.clone())
        };
        Ok(perdure_linux::Configuration {
            programs: (self.identity.programs.iter())
                .map(|program| Program {
                    path: program.path.clone(),
                    arguments: program.arguments.clone(),
                    environment: Vec::new(),
                    stdin: None,
                })
                .collect(),
            sysroot: sysroot.or_else(|| self.identity.sysroot.clone()),
            work_directory: std::env::current_dir().ok(),
            mounts: (recorded.iter())
                .map(|entry| Mount {
                    host: host_of(entry),
                    guest: entry.guest.clone(),
                })
                .collect(),
            ..perdure_linux::Configuration::default()
        })
    }
}

/// Memory as of the end of an epoch in an NVM that holds nothing else, as a design wants it to go on.
pub fn formatted(
    configuration: &Configuration,
    mut memory: Arena,
    epoch: u64,
) -> Result<Image, Error> {
    let harts = configuration.specification.harts;
    let layout = Layout::new(harts, memory.len());
    if epoch > 0 {
        let parameters = configuration.parameters()?;
        (configuration.design.format)(&parameters, &layout, harts, &mut memory, epoch)
            .map_err(|problem| Error::Configuration(problem.to_string()))?;
    }
    let behind = BTreeMap::new();
    Ok(Image { memory, behind })
}

/// A machine that goes on from memory as of the end of an epoch, in an NVM that holds nothing else.
pub fn machine_of(
    configuration: &Arc<Configuration>,
    memory: Arena,
    host: HostView,
    epoch: u64,
    outside: Outside,
    engine: Engine,
) -> Result<Machine, Error> {
    let image = formatted(configuration, memory, epoch)?;
    let resumption = Resumption {
        epoch,
        outside,
        engine,
        bug: None,
        mistake: None,
    };
    Machine::resume(configuration, image, host, resumption)
}
