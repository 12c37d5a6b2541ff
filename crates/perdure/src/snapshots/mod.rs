//! Snapshot stores: what a finished run leaves of its snapshots, and how they are looked at.
//!
//! Where to find what: `keep.rs` writes a store at the end of a run; `archive.rs` is the file with the
//! NVM's bytes, `manifest.rs` is `store.json`; `place.rs` finds what a user names; `values.rs` shows
//! bytes as values; `compare.rs` says what differs between two epochs; `dump.rs` writes what gdb
//! opens; `ask.rs` is all of it as JSON.
//!
//! Addresses are a program's. Which frame is behind one follows from the kernel's state at the end of
//! the epoch that is looked at, which is in the store as any other memory is (`Kernel::save`).
//!
//! Always true:
//! - A byte that is given out is what it was at the end of that epoch; damage is an error.
//! - Looking at a store does not change it.

pub mod archive;
pub mod ask;
mod compare;
mod dump;
pub mod keep;
pub mod manifest;
mod place;
mod values;

use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use perdure_designs::bytes::checksum;
use perdure_designs::layout::Layout;
use perdure_designs::snapshots::{SnapshotStore, StoreError};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};
use perdure_linux::inspect::{PageView, ProgramFile, SavedMappings};
use perdure_linux::{HostView, Kernel, PAGE_BYTES, RestoreError, SpaceId};

use crate::context::{self, CLOCK_AT, HartContext};
use crate::replication::log;
use crate::replication::restore::Replica;
use archive::Archive;
use manifest::Manifest;
use place::SymbolTables;

/// What helps against damage.
const WHAT_TO_DO: &str = "copy it again, or make it anew (run --snapshots, replicate --to)";

/// Kernel states that are kept at hand.
const KERNELS_AT_HAND: usize = 8;
const MAPPINGS_AT_HAND: usize = 256;

/// What a store cannot do.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotsError {
    /// Something else lies there.
    #[error("{file} is no snapshot store; 'perdure run --design {} --snapshots DIR' makes one", keep::designs(), file = .file.display())]
    NotAStore {
        /// What was looked at.
        file: PathBuf,
    },
    /// Written by a newer or older build.
    #[error(
        "{file} has version {found} of the format, and this build reads version {known}; use the build that wrote it",
        file = .file.display()
    )]
    OtherVersion {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u64,
        /// Ours.
        known: u64,
    },
    /// The end is missing.
    #[error("{file} is cut short: it has {length} bytes of {expected}; {WHAT_TO_DO}", file = .file.display())]
    CutShort {
        /// The file.
        file: PathBuf,
        /// Its length.
        length: u64,
        /// What it should be.
        expected: u64,
    },
    /// Bytes changed.
    #[error("{file} is damaged at byte {place}: {what}; {WHAT_TO_DO}", file = .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where.
        place: u64,
        /// What does not hold.
        what: String,
    },
    /// The host refused.
    #[error("{what}: {source}")]
    Host {
        /// What was tried.
        what: String,
        /// Its words.
        source: io::Error,
    },
    /// From the mapping of the NVM.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The kernel's state in the store makes no sense.
    #[error("the snapshot store is damaged: {0}; {WHAT_TO_DO}")]
    Kernel(#[from] RestoreError),
    /// What was asked for is not there.
    #[error("{0}")]
    Asked(String),
}

impl From<SnapshotsError> for crate::error::Error {
    fn from(error: SnapshotsError) -> Self {
        Self::Snapshots(Box::new(error))
    }
}

/// An answer, or why there is none.
pub type Answer<T> = Result<T, SnapshotsError>;

pub(crate) fn asked<T>(message: impl Into<String>) -> Answer<T> {
    Err(SnapshotsError::Asked(message.into()))
}

/// Reads bytes of the NVM.
pub(crate) type ReadNvm = Box<dyn Fn(u64, usize) -> io::Result<Vec<u8>> + Send>;

/// A live process of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// Where it lives.
    pub space: SpaceId,
}

/// The last few of something, by the epoch that it is of.
#[derive(Debug)]
struct AtHand<T>(RefCell<VecDeque<(u64, Arc<T>)>>, usize);

impl<T> AtHand<T> {
    fn new(most: usize) -> Self {
        Self(RefCell::default(), most)
    }

    fn get(&self, epoch: u64, make: impl FnOnce() -> Answer<T>) -> Answer<Arc<T>> {
        let known = self.0.borrow().iter().find(|(of, _)| *of == epoch).cloned();
        if let Some((_, known)) = known {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        let mut all = self.0.borrow_mut();
        if all.len() == self.1 {
            all.pop_front();
        }
        all.push_back((epoch, Arc::clone(&made)));
        Ok(made)
    }
}

/// An open store.
pub struct Snapshots {
    directory: PathBuf,
    /// What it is of.
    pub manifest: Manifest,
    layout: Layout,
    store: SnapshotStore<ReadNvm>,
    /// Epochs at whose ends the kernel's state was another than before, in order.
    kernel_epochs: Vec<u64>,
    kernels: AtHand<Kernel>,
    mappings: AtHand<SavedMappings>,
    host: OnceCell<HostView>,
    symbols: SymbolTables,
    newest_living: OnceCell<Option<u64>>,
    /// What else there is if it is a replica.
    replica: Option<Replica>,
}

impl Snapshots {
    /// Opens a store, or a replica: all of its metadata is read and checked.
    pub fn open(directory: &Path) -> Answer<Self> {
        if log::is_replica(directory) {
            return Self::open_replica(directory);
        }
        let (manifest, seal) = Manifest::read(directory)?;
        let path = directory.join(archive::NAME);
        let archive = Archive::open(&path, seal)?;
        let layout = Layout::new(manifest.harts, archive.nvm_bytes());
        if manifest.layout != (&layout).into() {
            return Err(SnapshotsError::Damaged {
                file: directory.join(manifest::NAME),
                place: 0,
                what: "its layout is not that of such a machine in this build".into(),
            });
        }
        let read: ReadNvm = Box::new(move |address, length| archive.bytes(address, length));
        let store = SnapshotStore::open(&manifest.source(directory)?, read)?;
        Ok(Self::assemble(directory, manifest, layout, store))
    }

    fn open_replica(directory: &Path) -> Answer<Self> {
        let (replica, store) = Replica::open(directory)?;
        let layout = replica.layout();
        if replica.identity.layout != (&layout).into() {
            return Err(SnapshotsError::Damaged {
                file: directory.join(log::NAME),
                place: 0,
                what: "its layout is not that of such a machine in this build".into(),
            });
        }
        let manifest = Manifest::of_replica(&replica);
        let host = HostView::of_facts(replica.facts.iter().cloned());
        let mut opened = Self::assemble(directory, manifest, layout, store);
        let _ = opened.host.set(host);
        opened.replica = Some(replica);
        Ok(opened)
    }

    fn assemble(
        directory: &Path,
        manifest: Manifest,
        layout: Layout,
        store: SnapshotStore<ReadNvm>,
    ) -> Self {
        let record = line_of(layout.context(manifest.harts));
        let kernel_epochs = store.versions_of(record).map(|(epoch, _)| epoch).collect();
        Self {
            directory: directory.to_owned(),
            manifest,
            layout,
            store,
            kernel_epochs,
            kernels: AtHand::new(KERNELS_AT_HAND),
            mappings: AtHand::new(MAPPINGS_AT_HAND),
            host: OnceCell::new(),
            symbols: SymbolTables::default(),
            newest_living: OnceCell::new(),
            replica: None,
        }
    }

    /// What else there is in a replica.
    pub fn replica(&self) -> Answer<&Replica> {
        self.replica.as_ref().map_or_else(
            || {
                asked(format!(
                    "{} is a snapshot store and no replica, so nothing in it can be resumed; 'perdure replicate' makes one",
                    self.directory.display()
                ))
            },
            Ok,
        )
    }

    /// An NVM whose home addresses hold the memory of a replica's epoch, and nothing else.
    pub fn restored(&self, epoch: u64) -> Answer<Arena> {
        let arena = Arena::new(self.manifest.nvm_bytes);
        let mut arena = arena.map_err(|source| SnapshotsError::Host {
            what: "memory for a restored epoch".into(),
            source,
        })?;
        let mut put =
            |line: LineNumber, bytes: &Line| arena.write_line(line * LINE_BYTES as u64, bytes);
        for line in self.replica()?.initial_lines() {
            put(line, &self.store.read(line, epoch)?);
        }
        for (line, bytes) in self.store.image(epoch)? {
            put(line, &bytes);
        }
        Ok(arena)
    }

    // ---- Epochs ----------------------------------------------------------------------------

    /// The epoch that is meant: the given one, if it is held; else the newest in which a program
    /// lives, or the newest of all if there is none.
    pub fn epoch(&self, given: Option<u64>) -> Answer<u64> {
        let held = self.store.held();
        match given {
            Some(epoch) if held.contains(&epoch) => Ok(epoch),
            Some(epoch) => Err(StoreError::NotHeld {
                epoch,
                oldest: *held.start(),
                newest: *held.end(),
            }
            .into()),
            None => Ok(self.newest_living()?.unwrap_or(*held.end())),
        }
    }

    /// The newest epoch at whose end a program lived.
    fn newest_living(&self) -> Answer<Option<u64>> {
        if let Some(known) = self.newest_living.get() {
            return Ok(*known);
        }
        let mut found = None;
        for (first, last) in self.kernel_spans().into_iter().rev() {
            if !self.mappings(first)?.processes().is_empty() {
                found = Some(last);
                break;
            }
        }
        Ok(*self.newest_living.get_or_init(|| found))
    }

    /// Runs of epochs in which the kernel's state is the same, in order.
    fn kernel_spans(&self) -> Vec<(u64, u64)> {
        let held = self.store.held();
        let (oldest, newest) = (*held.start(), *held.end());
        let later = self.kernel_epochs.iter().copied();
        let later = later.filter(|&epoch| epoch > oldest && epoch <= newest);
        let starts: Vec<u64> = std::iter::once(oldest).chain(later).collect();
        let ends = starts.iter().skip(1).map(|start| start - 1);
        let ends: Vec<u64> = ends.chain([newest]).collect();
        starts.into_iter().zip(ends).collect()
    }

    /// The first held epoch with the kernel's state of this one.
    fn kernel_epoch(&self, epoch: u64) -> u64 {
        let behind = self.kernel_epochs.partition_point(|&known| known <= epoch);
        let changed = behind.checked_sub(1).map_or(0, |at| self.kernel_epochs[at]);
        changed.max(*self.store.held().start())
    }

    // ---- Memory ----------------------------------------------------------------------------

    /// Physical memory at the end of an epoch.
    pub fn physical(&self, address: u64, length: usize, epoch: u64) -> Answer<Vec<u8>> {
        let line_bytes = LINE_BYTES as u64;
        let mut bytes = Vec::with_capacity(length);
        let mut at = address;
        let end = address.saturating_add(length as u64);
        while bytes.len() < length {
            let line = self.store.read(line_of(at), epoch)?;
            let from = (at % line_bytes) as usize;
            let stop = end.min((at / line_bytes + 1) * line_bytes);
            bytes.extend_from_slice(&line.0[from..from + (stop - at) as usize]);
            at = stop;
        }
        Ok(bytes)
    }

    /// The kernel's mappings at the end of an epoch.
    fn mappings(&self, epoch: u64) -> Answer<Arc<SavedMappings>> {
        let epoch = self.kernel_epoch(epoch);
        self.mappings.get(epoch, || {
            SavedMappings::read(|offset, length| self.kernel_bytes(epoch, offset, length))
        })
    }

    /// Bytes of the saved kernel.
    fn kernel_bytes(&self, epoch: u64, offset: u64, length: usize) -> Answer<Vec<u8>> {
        let region = &self.layout.kernel;
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > region.end - region.start) {
            return Err(RestoreError::Section("table").into());
        }
        self.physical(region.start + offset, length, epoch)
    }

    /// The kernel, and the harts' contexts, at the end of an epoch.
    fn machine(&self, epoch: u64) -> Answer<(Arc<Kernel>, Vec<HartContext>)> {
        let host = self.host()?.clone();
        let failed = RefCell::new(None);
        let read = |address, length| {
            self.physical(address, length, epoch)
                .unwrap_or_else(|error| {
                    failed.borrow_mut().get_or_insert(error);
                    vec![0; length]
                })
        };
        let saved = context::restore(read, &self.layout, self.manifest.harts, host, |_| Ok(()));
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        let saved = saved.map_err(|what| SnapshotsError::Damaged {
            file: self.directory.join(archive::NAME),
            place: 0,
            what,
        })?;
        let kernel = self
            .kernels
            .get(self.kernel_epoch(epoch), || Ok(saved.kernel))?;
        Ok((kernel, saved.harts))
    }

    /// The kernel at the end of an epoch.
    fn kernel(&self, epoch: u64) -> Answer<Arc<Kernel>> {
        let of = self.kernel_epoch(epoch);
        self.kernels.get(of, || {
            let image = self.kernel_image(epoch)?;
            Ok(Kernel::restore(&image, self.host()?.clone())?)
        })
    }

    fn kernel_image(&self, epoch: u64) -> Answer<Vec<u8>> {
        let head = self.kernel_bytes(epoch, 0, 24)?;
        let length = head[16..]
            .first_chunk()
            .map_or(0, |raw| u64::from_le_bytes(*raw));
        let region = &self.layout.kernel;
        let length = length.min(region.end - region.start);
        self.kernel_bytes(epoch, 0, length as usize)
    }

    /// Virtual time when the newest of the contexts as of an epoch's end was saved.
    fn clock_ns(&self, epoch: u64) -> Answer<u64> {
        let mut newest = 0;
        for hart in 0..self.manifest.harts {
            let at = self.layout.context(hart) + CLOCK_AT as u64;
            let raw = self.physical(at, 8, epoch)?;
            newest = newest.max(raw.first_chunk().map_or(0, |raw| u64::from_le_bytes(*raw)));
        }
        Ok(newest)
    }

    /// The frame behind a page of a process, if it has one.
    fn frame(&self, process: Process, page: u64, epoch: u64) -> Answer<Option<u64>> {
        let mappings = self.mappings(epoch)?;
        mappings.frame(process.space, page, |offset, length| {
            self.kernel_bytes(epoch, offset, length)
        })
    }

    /// What a process has at an address at the end of an epoch.
    pub fn memory(
        &self,
        process: Process,
        address: u64,
        length: usize,
        epoch: u64,
    ) -> Answer<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length);
        let mut at = address;
        let end = address.checked_add(length as u64);
        let Some(end) = end else {
            return asked(format!(
                "address {address:#x}: {length} bytes from there on go beyond the end of memory"
            ));
        };
        while at < end {
            let (page, offset) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let stop = end.min((page + 1) * PAGE_BYTES);
            let length = (stop - at) as usize;
            if let Some(frame) = self.frame(process, page, epoch)? {
                bytes.extend(self.physical(frame * PAGE_BYTES + offset, length, epoch)?);
            } else {
                let content = self.page(process, page, epoch)?;
                bytes.extend_from_slice(&content[offset as usize..][..length]);
            }
            at = stop;
        }
        Ok(bytes)
    }

    /// A page that has no frame of its own, whole.
    fn page(&self, process: Process, page: u64, epoch: u64) -> Answer<Vec<u8>> {
        let kernel = self.kernel(epoch)?;
        let address = page * PAGE_BYTES;
        match self.page_of(&kernel, process.space, page, epoch)? {
            Page::Held(bytes) => Ok(bytes),
            Page::Elsewhere => asked(format!(
                "address {address:#x} of process {}: its page was never touched by epoch {epoch}, and the file that it would come from is not in the store",
                process.id
            )),
            Page::Unmapped => asked(format!(
                "address {address:#x} is not mapped in process {} at epoch {epoch}{}",
                process.id,
                place::neighbours(&kernel, process.space, address)
            )),
        }
    }

    fn page_of(&self, kernel: &Kernel, space: SpaceId, page: u64, epoch: u64) -> Answer<Page> {
        let mut bytes = match kernel.page(space, page) {
            Some(PageView::Frame { frame, bytes }) => {
                self.physical(frame * PAGE_BYTES, bytes as usize, epoch)?
            }
            Some(PageView::Untouched(bytes)) => bytes,
            Some(PageView::Elsewhere) => return Ok(Page::Elsewhere),
            None => return Ok(Page::Unmapped),
        };
        bytes.resize(PAGE_BYTES as usize, 0);
        Ok(Page::Held(bytes))
    }

    /// Epoch and writer of the newest version of any of the lines.
    fn written(&self, lines: impl Iterator<Item = LineNumber>, epoch: u64) -> Option<(u64, u16)> {
        lines
            .filter_map(|line| self.store.version_at(line, epoch))
            .max()
    }

    // ---- Copies of programs ----------------------------------------------------------------

    /// The copies of programs and libraries, as the host that the kernel reads from.
    fn host(&self) -> Answer<&HostView> {
        if let Some(host) = self.host.get() {
            return Ok(host);
        }
        let mut files = Vec::new();
        for entry in &self.manifest.files {
            let file = self.directory.join(&entry.copy);
            let inside = Path::new(&entry.copy).components();
            if !inside
                .into_iter()
                .all(|part| matches!(part, Component::Normal(_)))
            {
                return Err(SnapshotsError::Damaged {
                    file: self.directory.join(manifest::NAME),
                    place: 0,
                    what: format!("the copy '{}' lies outside the store", entry.copy),
                });
            }
            let bytes = fs::read(&file).map_err(|source| SnapshotsError::Host {
                what: format!("the snapshot store's copy {}", file.display()),
                source,
            })?;
            if (bytes.len() as u64) < entry.bytes {
                return Err(SnapshotsError::CutShort {
                    file,
                    length: bytes.len() as u64,
                    expected: entry.bytes,
                });
            }
            if format!("{:016x}", checksum(&bytes)) != entry.checksum {
                return Err(SnapshotsError::Damaged {
                    file,
                    place: 0,
                    what: "its checksum is wrong".into(),
                });
            }
            files.push(ProgramFile {
                mount: entry.mount,
                path: entry.path.clone(),
                name: entry.name.clone(),
                contents: bytes.into(),
            });
        }
        Ok(self.host.get_or_init(|| HostView::of_files(files)))
    }
}

/// A page as a process sees it.
enum Page {
    Held(Vec<u8>),
    Elsewhere,
    Unmapped,
}
