//! Epochs that can be read back out of a design's NVM: what a design offers for it, and the store over
//! any NVM's bytes that answers from there.
//!
//! A line at an epoch E is its newest version of an epoch up to E ("fall-through"); a line without
//! one is at its home address, which holds what memory was when snapshotting began. Opening reads
//! all that the design knows of versions; then a read is a binary search and 64 bytes.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::ops::RangeInclusive;

use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};

use crate::surviving::{Corruption, Surviving};

/// Something that NVM bytes can be read from.
pub trait Source {
    /// What can go wrong.
    type Error: From<Corruption>;
    /// Some bytes.
    fn bytes(&self, address: u64, length: usize) -> Result<Cow<'_, [u8]>, Self::Error>;
}

impl Source for Surviving<'_> {
    type Error = Corruption;
    fn bytes(&self, address: u64, length: usize) -> Result<Cow<'_, [u8]>, Corruption> {
        self.read(address, length)
    }
}

impl Source for Arena {
    type Error = Corruption;
    fn bytes(&self, address: u64, length: usize) -> Result<Cow<'_, [u8]>, Corruption> {
        if address
            .checked_add(length as u64)
            .is_none_or(|end| end > self.len())
        {
            let what = "an address beyond the end of memory";
            return Err(Corruption { what, address });
        }
        Ok(self.slice(address, length))
    }
}

/// The bytes of any NVM.
pub type Nvm<'a> = dyn Source<Error = StoreError> + 'a;

/// Lists differences: see [`SnapshotSource::deltas`].
pub type Deltas = fn(nvm: &Nvm, after: Option<u64>, through: u64) -> Result<Vec<Delta>, StoreError>;

/// Shows places, as address and length: see [`SnapshotSource::needed`].
pub type Needed = fn(nvm: &Nvm, show: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError>;

/// What a design offers whose NVM holds epochs that can be read back: functions over the NVM's bytes,
/// as [`crate::Design::SNAPSHOTS`]. How a copy of an epoch becomes an NVM of the design's is
/// [`crate::Design::format`].
#[derive(Clone, Copy)]
pub struct SnapshotSource {
    /// Which epochs are held, and all versions of lines.
    pub contents: fn(&Nvm) -> Result<Contents, StoreError>,
    /// What leads from the memory of an epoch, or from what memory was when snapshotting began, to that
    /// of a later one: one for each epoch; but epochs up to the oldest held, which are told apart no
    /// longer, come in one. None if the later one is not newer than the other, or not held.
    pub deltas: Deltas,
    /// Shows what reading needs beside home addresses: address and length of each piece.
    pub needed: Needed,
}

/// What an NVM holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Epochs that can be read.
    pub held: RangeInclusive<u64>,
    /// Where memory ends; below are home addresses.
    pub memory_end: u64,
    /// All versions, in any order.
    pub versions: Vec<Version>,
}

/// What leads from the memory of one epoch to that of a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The epoch that it leads to.
    pub epoch: u64,
    /// The versions that are new, by line.
    pub versions: Vec<Version>,
}

/// What a store cannot do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The bytes cannot be had.
    #[error("the snapshot store cannot be read at {address:#x}: {source}")]
    Unreadable {
        /// Where.
        address: u64,
        /// Why.
        source: io::Error,
    },
    /// The bytes are not what was written.
    #[error("the snapshot store is damaged: {what} (at {address:#x})")]
    Damaged {
        /// What does not hold.
        what: &'static str,
        /// Where.
        address: u64,
    },
    /// The epoch cannot be read.
    #[error("epoch {epoch} is not in the snapshot store, which holds epochs {oldest} to {newest}")]
    NotHeld {
        /// The epoch that was asked for.
        epoch: u64,
        /// The oldest that is held.
        oldest: u64,
        /// The newest that is held.
        newest: u64,
    },
    /// The line is none of the program's memory.
    #[error("address {address:#x} is not in memory, which ends at {end:#x}")]
    NotMemory {
        /// The address.
        address: u64,
        /// Where memory ends.
        end: u64,
    },
}

impl From<Corruption> for StoreError {
    fn from(Corruption { what, address }: Corruption) -> Self {
        Self::Damaged { what, address }
    }
}

/// An epoch that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochSummary {
    /// Its number.
    pub epoch: u64,
    /// Versions written in it; of the oldest epoch after a compaction, in it and all before.
    pub versions: u64,
    /// Who wrote them.
    pub writers: Vec<u16>,
}

/// A version of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The epoch in which it was written. After a compaction, an epoch that lay 65,535 or more
    /// before the horizon is given as exactly so many before it.
    pub epoch: u64,
    /// Who wrote it.
    pub writer: u16,
    /// Its bytes.
    pub bytes: Line,
}

/// A version, and where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The line.
    pub line: LineNumber,
    /// As in [`HistoryEntry`].
    pub epoch: u64,
    /// Where its bytes are.
    pub address: u64,
    /// Who wrote it.
    pub writer: u16,
}

/// The store. `read` gives bytes of the NVM: an address and how many.
#[derive(Debug)]
pub struct SnapshotStore<R> {
    read: R,
    /// Where memory ends; below are home addresses.
    memory_end: u64,
    held: RangeInclusive<u64>,
    /// By line, then epoch.
    versions: Vec<Version>,
    epochs: Vec<EpochSummary>,
}

struct Reader<'a, R>(&'a R);

impl<R: Fn(u64, usize) -> io::Result<Vec<u8>>> Source for Reader<'_, R> {
    type Error = StoreError;
    fn bytes(&self, address: u64, length: usize) -> Result<Cow<'_, [u8]>, StoreError> {
        let bytes = (self.0)(address, length);
        let source = match bytes {
            Ok(bytes) if bytes.len() == length => return Ok(Cow::Owned(bytes)),
            Ok(_) => io::ErrorKind::UnexpectedEof.into(),
            Err(source) => source,
        };
        Err(StoreError::Unreadable { address, source })
    }
}

impl<R: Fn(u64, usize) -> io::Result<Vec<u8>>> SnapshotStore<R> {
    /// Opens the store that those bytes of a design's NVM hold.
    pub fn open(source: &SnapshotSource, read: R) -> Result<Self, StoreError> {
        let Contents {
            held,
            memory_end,
            versions,
        } = (source.contents)(&Reader(&read))?;
        Ok(Self::of_versions(read, memory_end, held, versions))
    }

    /// The store of those versions, for reading from the oldest to the newest epoch held. Lines
    /// without one are read at their home addresses, which end at `memory_end`.
    pub fn of_versions(
        read: R,
        memory_end: u64,
        held: RangeInclusive<u64>,
        mut versions: Vec<Version>,
    ) -> Self {
        versions.sort_unstable_by_key(|version| (version.line, version.epoch));
        let epochs = summaries(&versions, held.clone());
        Self {
            read,
            memory_end,
            held,
            versions,
            epochs,
        }
    }

    /// The epochs that can be read, from the oldest to the newest.
    pub fn held(&self) -> RangeInclusive<u64> {
        self.held.clone()
    }

    /// The same, with what each holds.
    pub fn epochs(&self) -> &[EpochSummary] {
        &self.epochs
    }

    /// Versions of all epochs.
    pub fn len(&self) -> usize {
        self.versions.len()
    }

    /// True if nothing was ever written.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    /// Line, epoch and writer of every version, by line, then epoch.
    pub fn versions(&self) -> impl Iterator<Item = (LineNumber, u64, u16)> {
        let versions = self.versions.iter();
        versions.map(|version| (version.line, version.epoch, version.writer))
    }

    /// Epoch and writer of each version of a line, the oldest first.
    pub fn versions_of(&self, line: LineNumber) -> impl Iterator<Item = (u64, u16)> {
        let versions = self.all_of(line);
        versions.map(|version| (version.epoch, version.writer))
    }

    /// Epoch and writer of the newest version of a line up to an epoch.
    pub fn version_at(&self, line: LineNumber, epoch: u64) -> Option<(u64, u16)> {
        let version = self.newest_of(line, epoch)?;
        Some((version.epoch, version.writer))
    }

    fn all_of(&self, line: LineNumber) -> impl Iterator<Item = &Version> {
        let first = self.versions.partition_point(|version| version.line < line);
        let versions = self.versions[first..].iter();
        versions.take_while(move |version| version.line == line)
    }

    /// Of the versions of a line, the newest of an epoch up to this one.
    fn newest_of(&self, line: LineNumber, epoch: u64) -> Option<&Version> {
        let up_to = |version: &Version| (version.line, version.epoch) <= (line, epoch);
        let version = self.versions[..self.versions.partition_point(up_to)].last();
        version.filter(|version| version.line == line)
    }

    fn check_epoch(&self, epoch: u64) -> Result<(), StoreError> {
        if self.held.contains(&epoch) {
            return Ok(());
        }
        Err(StoreError::NotHeld {
            epoch,
            oldest: *self.held.start(),
            newest: *self.held.end(),
        })
    }

    fn line_at(&self, address: u64) -> Result<Line, StoreError> {
        let mut line = Line::ZERO;
        let bytes = Reader(&self.read);
        line.0.copy_from_slice(&bytes.bytes(address, LINE_BYTES)?);
        Ok(line)
    }

    fn bytes_of(&self, version: &Version) -> Result<Line, StoreError> {
        self.line_at(version.address)
    }

    fn entry(&self, version: &Version) -> Result<HistoryEntry, StoreError> {
        Ok(HistoryEntry {
            epoch: version.epoch,
            writer: version.writer,
            bytes: self.bytes_of(version)?,
        })
    }

    fn home(&self, line: LineNumber) -> Result<Line, StoreError> {
        let end = self.memory_end;
        let address = line.saturating_mul(LINE_BYTES as u64);
        if address >= end {
            return Err(StoreError::NotMemory { address, end });
        }
        self.line_at(address)
    }

    /// A line at the end of an epoch.
    pub fn read(&self, line: LineNumber, epoch: u64) -> Result<Line, StoreError> {
        self.check_epoch(epoch)?;
        match self.newest_of(line, epoch) {
            Some(version) => self.bytes_of(version),
            None => self.home(line),
        }
    }

    /// All versions of a line, the oldest first.
    pub fn history(&self, line: LineNumber) -> Result<Vec<HistoryEntry>, StoreError> {
        let versions = self.all_of(line);
        versions.map(|version| self.entry(version)).collect()
    }

    /// Lines that have any version of an epoch up to this one, each with its newest bytes.
    pub fn image(&self, epoch: u64) -> Result<Vec<(LineNumber, Line)>, StoreError> {
        self.check_epoch(epoch)?;
        self.lines()
            .filter_map(|versions| newest(versions, epoch))
            .map(|version| Ok((version.line, self.bytes_of(version)?)))
            .collect()
    }

    /// Lines that differ between the ends of two epochs.
    pub fn changed(&self, one: u64, other: u64) -> Result<Vec<LineNumber>, StoreError> {
        self.check_epoch(one)?;
        self.check_epoch(other)?;
        let mut changed = Vec::new();
        let (before, after) = (one.min(other), one.max(other));
        for versions in self.lines() {
            let Some(new) = newest(versions, after).filter(|new| new.epoch > before) else {
                continue;
            };
            let old = match newest(versions, before) {
                Some(old) => self.bytes_of(old)?,
                None => self.home(new.line)?,
            };
            if old != self.bytes_of(new)? {
                changed.push(new.line);
            }
        }
        Ok(changed)
    }

    /// The versions of each line.
    fn lines(&self) -> impl Iterator<Item = &[Version]> {
        self.versions.chunk_by(|one, next| one.line == next.line)
    }
}

/// Of the versions of a line, the newest of an epoch up to this one.
fn newest(versions: &[Version], epoch: u64) -> Option<&Version> {
    let behind = versions.partition_point(|version| version.epoch <= epoch);
    versions[..behind].last()
}

fn summaries(versions: &[Version], held: RangeInclusive<u64>) -> Vec<EpochSummary> {
    let oldest = *held.start();
    let mut writers: Vec<(u64, BTreeSet<u16>)> = held.map(|_| (0, BTreeSet::new())).collect();
    for version in versions {
        let at = version.epoch.saturating_sub(oldest) as usize;
        if let Some((count, writers)) = writers.get_mut(at) {
            *count += 1;
            writers.insert(version.writer);
        }
    }
    writers
        .into_iter()
        .zip(oldest..)
        .map(|((versions, writers), epoch)| EpochSummary {
            epoch,
            versions,
            writers: writers.into_iter().collect(),
        })
        .collect()
}
