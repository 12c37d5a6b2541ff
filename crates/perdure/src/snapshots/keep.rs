//! Keeping the snapshots of a run: the NVM as a power-off now would leave it, and what symbols need.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use perdure_designs::Facts;
use perdure_designs::bytes::checksum;
use perdure_designs::layout::METADATA;
use perdure_designs::snapshots::{SnapshotSource, SnapshotStore, Source, StoreError};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::time::Cycles;
use perdure_linux::PAGE_BYTES;

use super::archive::{self, Lines, add_lines};
use super::manifest::{self, EpochRange, FileEntry, Manifest, ProgramEntry, Sizes};
use crate::error::Error;
use crate::machine::Machine;
use crate::request::Prepared;

/// The folder of copies of programs and libraries.
const FILES: &str = "files";

/// The folder in which a store is written; its parts move to their places when all are there, so
/// that an older store lasts until then.
const UNFINISHED: &str = ".unfinished";

/// What a design offers for reading epochs back; one that keeps none is refused, in the name of an
/// option.
pub fn source(option: &str, design: &Facts) -> Result<SnapshotSource, Error> {
    (design.snapshots).ok_or_else(|| none_kept(option, design.name))
}

/// Refuses a design that keeps no snapshots, in the name of an option.
pub fn check_design(option: &str, design: &str) -> Result<(), Error> {
    let kept = source_of(design).map(drop);
    kept.ok_or_else(|| none_kept(option, design))
}

fn none_kept(option: &str, design: &str) -> Error {
    Error::Request(format!(
        "{option}: design {design} keeps no snapshots; take --design {}",
        designs()
    ))
}

/// What the design of that name offers for reading epochs back, if it keeps any.
pub fn source_of(design: &str) -> Option<SnapshotSource> {
    perdure_designs::named(design)?.snapshots
}

/// The designs that keep snapshots.
pub fn designs() -> String {
    let keepers = (perdure_designs::ALL.iter()).filter(|design| design.snapshots.is_some());
    let keepers: Vec<&str> = keepers.map(|design| design.name).collect();
    keepers.join(" or ")
}

/// Refuses, before a run, what could not be kept after it.
pub fn check(directory: &Path, design: &str) -> Result<(), Error> {
    check_design("--snapshots", design)?;
    let shown = directory.display();
    match fs::read_dir(directory) {
        Ok(mut entries) => {
            let store = directory.join(manifest::NAME).is_file();
            let foreign = |entry: io::Result<fs::DirEntry>| {
                entry.map_or(true, |entry| entry.file_name() != UNFINISHED)
            };
            if !store && entries.any(foreign) {
                return Err(Error::Request(format!(
                    "--snapshots {shown}: the folder is not empty and no snapshot store; name another one"
                )));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(directory).map_err(|source| refused(directory, source))?;
        }
        Err(source) => return Err(refused(directory, source)),
    }
    // Permission bits don't say who may: a folder is made, and goes again.
    let unfinished = directory.join(UNFINISHED);
    begin(&unfinished).map_err(|source| refused(directory, source))?;
    fs::remove_dir_all(&unfinished).map_err(|source| refused(directory, source))
}

/// An empty folder for a store that is being written.
fn begin(unfinished: &Path) -> io::Result<()> {
    match fs::remove_dir_all(unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(unfinished),
    }
}

fn refused(path: &Path, source: io::Error) -> Error {
    Error::Host {
        what: format!("--snapshots: writing {}", path.display()),
        source,
    }
}

/// Writes the store of a machine that stands still.
pub fn keep(
    machine: &mut Machine,
    prepared: &Prepared,
    directory: &Path,
) -> Result<Manifest, Error> {
    // The machine does no more, and what it has accepted becomes durable: nothing is torn.
    let lost = machine.power_off(Cycles::MAX, 0);
    let kept = write(machine, prepared, directory);
    machine.hardware.memory.power_back(&lost);
    kept
}

fn write(machine: &Machine, prepared: &Prepared, directory: &Path) -> Result<Manifest, Error> {
    let source = source("--snapshots", machine.facts())?;
    let nvm = &machine.hardware.memory.arena;
    let defect = |why: &dyn std::fmt::Display| {
        Error::Defect(format!(
            "the snapshots that the run left in NVM are unusable: {why}"
        ))
    };
    let (home, pool) = lines(machine, &source, nvm).map_err(|why| defect(&why))?;
    // What will be opened is opened once, here, where a mistake can still be seen.
    let store = SnapshotStore::open(&source, |at, length| Ok(nvm.slice(at, length).to_vec()));
    let epochs = store.map_err(|why| defect(&why))?.held();
    let (home, pool) = (archive::held(nvm, &home), archive::held(nvm, &pool));
    let count = |held: &[(u64, u64)]| {
        held.iter()
            .map(|(_, lines)| u64::from(lines.count_ones()))
            .sum::<u64>()
    };
    let image = home
        .iter()
        .filter(|(page, _)| page * PAGE_BYTES >= METADATA.end);
    let image: Vec<(u64, u64)> = image.copied().collect();
    let initial_image = count(&image) * LINE_BYTES as u64;
    let held: Vec<(u64, u64)> = home.into_iter().chain(pool).collect();
    let bytes = archive::length(held.len() as u64, count(&held));

    let unfinished = directory.join(UNFINISHED);
    begin(&unfinished).map_err(|source| refused(&unfinished, source))?;
    let files = copies(machine, &unfinished)?;
    let configuration = &prepared.configuration;
    let ended = machine.ended();
    let manifest = Manifest {
        schema: manifest::SCHEMA.into(),
        version: manifest::VERSION,
        written_by: concat!("perdure ", env!("CARGO_PKG_VERSION")).into(),
        design: configuration.design.name.to_owned(),
        machine: configuration.machine.clone(),
        config_hash: prepared.config_hash.clone(),
        harts: machine.hardware.cores.len(),
        frequency_mhz: configuration.specification.clock().frequency_mhz,
        nvm_bytes: nvm.len(),
        layout: (&machine.layout).into(),
        programs: ProgramEntry::of(&prepared.workload.kernel.programs),
        exit_code: ended.map(|ended| ended.report.status),
        instructions: machine.retired(),
        cycles: ended.map_or_else(|| machine.time(), |ended| ended.at),
        epochs: EpochRange {
            oldest: *epochs.start(),
            newest: *epochs.end(),
        },
        sizes: Sizes {
            nvm_written: machine.hardware.statistics().nvm_written_bytes_total,
            initial_image,
            snapshots: bytes - initial_image,
            files: files.iter().map(|file| file.bytes).sum(),
        },
        files,
    };
    let (text, seal) = manifest.encode();
    let path = unfinished.join(archive::NAME);
    archive::write(&path, nvm, &held, seal).map_err(|source| refused(&path, source))?;
    let path = unfinished.join(manifest::NAME);
    fs::write(&path, text).map_err(|source| refused(&path, source))?;
    replace(directory, &unfinished).map_err(|source| refused(directory, source))?;
    Ok(manifest)
}

/// Puts a store that is complete in the place of an older one. store.json goes first and comes last:
/// a folder without it is no store, so that parts of two are never read as one.
fn replace(directory: &Path, unfinished: &Path) -> io::Result<()> {
    let absent = |result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    absent(fs::remove_file(directory.join(manifest::NAME)))?;
    absent(fs::remove_dir_all(directory.join(FILES)))?;
    for part in [FILES, archive::NAME, manifest::NAME] {
        fs::rename(unfinished.join(part), directory.join(part))?;
    }
    fs::remove_dir(unfinished)
}

/// The lines that matter: below the design's own room, and in it.
fn lines(
    machine: &Machine,
    source: &SnapshotSource,
    nvm: &Arena,
) -> Result<(Lines, Lines), StoreError> {
    let own = machine.layout.log_area.start;
    let mut home = Lines::new();
    for page in nvm.written_pages().take_while(|&page| page < own) {
        add_lines(&mut home, page, PAGE_BYTES);
    }
    let mut used = Lines::new();
    (source.needed)(&Kept(nvm), &mut |address, length| {
        add_lines(&mut used, address, length);
    })?;
    Ok((home, used))
}

/// The NVM of a machine that stands still.
struct Kept<'a>(&'a Arena);

impl Source for Kept<'_> {
    type Error = StoreError;
    fn bytes(&self, address: u64, length: usize) -> Result<Cow<'_, [u8]>, StoreError> {
        Ok(self.0.bytes(address, length)?)
    }
}

/// Copies the programs and libraries that the guest looked into.
fn copies(machine: &Machine, directory: &Path) -> Result<Vec<FileEntry>, Error> {
    let folder = directory.join(FILES);
    fs::create_dir(&folder).map_err(|source| refused(&folder, source))?;
    let mut written: BTreeMap<u64, String> = BTreeMap::new();
    let mut entries = Vec::new();
    for file in machine.kernel().host_view().programs_seen() {
        let seal = checksum(&file.contents);
        let copy = if let Some(copy) = written.get(&seal) {
            copy.clone()
        } else {
            let base = file.name.rsplit('/').next().unwrap_or_default();
            let copy = format!("{FILES}/{:03}-{base}", written.len());
            let path: PathBuf = directory.join(&copy);
            fs::write(&path, &file.contents).map_err(|source| refused(&path, source))?;
            written.insert(seal, copy.clone());
            copy
        };
        entries.push(FileEntry {
            name: file.name,
            mount: file.mount,
            path: file.path,
            copy,
            bytes: file.contents.len() as u64,
            checksum: format!("{seal:016x}"),
        });
    }
    Ok(entries)
}
