//! Two core files of a failed cut, for gdb: the process as it should have come back, and as it did.
//!
//! Where a machine goes on after a cut, both are of the end of the epoch that was promised: the one with the
//! kernel, the harts and the memory that the machine had then, the other with what recovery brought back. If
//! the kernel's state itself is among what is damaged, and where processes are lost anyway, mappings and
//! registers are the expected ones in both, and memory alone differs.

use std::path::{Path, PathBuf};

use perdure_hardware::arena::Arena;
use perdure_linux::inspect::{PageView, ProcessView};
use perdure_linux::{Kernel, PAGE_BYTES};
use serde::Serialize;

use super::grouped::Order;
use crate::context::{self, HartContext};
use crate::core_file::{self, CoreError};
use crate::error::Error;
use crate::lives;
use crate::machine::Machine;
use crate::verify::Images;

/// What was written.
#[derive(Clone, Debug, Serialize)]
pub struct Cores {
    /// As it should have come back.
    pub expected: PathBuf,
    /// As it came back.
    pub found: PathBuf,
    /// Whose.
    pub process: u32,
    /// What it runs, as the guest names it.
    pub executable: String,
    /// Where that lies on the host, if it does.
    pub program: Option<PathBuf>,
    /// Registers and mappings of `found` are its own, and not the expected ones.
    pub restored: bool,
}

impl Cores {
    /// Writes both into a folder.
    pub fn put(
        folder: &Path,
        machine: &mut Machine,
        images: &Images,
        order: &Order,
    ) -> Result<Self, Error> {
        let (kernel, harts) = machine.kept_epoch_end().unwrap_or_else(|| {
            let harts = machine.contexts().cloned().collect();
            (machine.kernel().clone(), harts)
        });
        let first = kernel.live_processes().into_iter().next().map(|one| one.id);
        let Some(wanted) = order.process().or(first) else {
            return Err(Error::Request(
                "--cores: no process lived at the cut, so there is none to write of".into(),
            ));
        };
        let restored = restored(machine, &images.found);
        let restored = restored.filter(|(kernel, _)| process(kernel, &[], wanted).is_some());
        let found = restored
            .as_ref()
            .map_or((&kernel, &harts), |one| (&one.0, &one.1));
        std::fs::create_dir_all(folder).map_err(|source| refused(folder, source))?;
        let files = ["expected.core", "found.core"].map(|name| folder.join(name));
        let view = write(&files[0], (&kernel, &harts), wanted, &images.expected)?;
        write(&files[1], found, wanted, &images.found)?;
        let [expected, found] = files;
        Ok(Self {
            expected,
            found,
            process: wanted,
            program: program(&kernel, &view),
            executable: view.executable,
            restored: restored.is_some(),
        })
    }
}

/// Where the program of a process lies on the host, if it was given by name.
fn program(kernel: &Kernel, process: &ProcessView) -> Option<PathBuf> {
    let (mount, path) = kernel.loaded_files(process.space).into_iter().next()?.key;
    let mut seen = kernel.host_view().programs_seen().into_iter();
    let own = seen.find(|one| path.is_empty() && one.mount == mount && one.path == path)?;
    Some(PathBuf::from(own.name))
}

fn refused(file: &Path, source: std::io::Error) -> Error {
    Error::Host {
        what: format!("--cores: writing {}", file.display()),
        source,
    }
}

/// What recovery brought back beside memory, if that is whole.
fn restored(machine: &Machine, found: &Arena) -> Option<(Kernel, Vec<HartContext>)> {
    if !machine.facts().recovery.resumes() {
        return None;
    }
    let (host, _) = lives::world_of(machine);
    let read = |address, length| found.slice(address, length).into_owned();
    let harts = machine.contexts().count();
    let saved = context::restore(read, &machine.layout, harts, host, |_| Ok(())).ok()?;
    Some((saved.kernel, saved.harts))
}

/// A process with its registers.
fn process(kernel: &Kernel, harts: &[HartContext], wanted: u32) -> Option<ProcessView> {
    let mut living = kernel.live_processes().into_iter();
    let mut process = living.find(|one| one.id == wanted)?;
    core_file::put_in_harts(&mut process, harts);
    Some(process)
}

fn write(
    file: &Path,
    (kernel, harts): (&Kernel, &Vec<HartContext>),
    wanted: u32,
    memory: &Arena,
) -> Result<ProcessView, Error> {
    let gone = || {
        let message = format!("--cores: process {wanted} did not live at the end of that epoch");
        Error::Request(message)
    };
    let process = process(kernel, harts, wanted).ok_or_else(gone)?;
    let content = |page| -> Result<Vec<u8>, std::convert::Infallible> {
        let mut bytes = match kernel.page(process.space, page) {
            Some(PageView::Frame { frame, bytes }) => memory
                .slice(frame * PAGE_BYTES, bytes as usize)
                .into_owned(),
            Some(PageView::Untouched(bytes)) => bytes,
            Some(PageView::Elsewhere) | None => Vec::new(),
        };
        bytes.resize(PAGE_BYTES as usize, 0);
        Ok(bytes)
    };
    match core_file::write(file, kernel, &process, content) {
        Ok(_) => Ok(process),
        Err(CoreError::Host(source)) => Err(refused(file, source)),
        Err(CoreError::Pieces(pieces)) => {
            let why = core_file::too_many_pieces(wanted, pieces);
            Err(Error::Request(format!("--cores: {why}")))
        }
        Err(CoreError::Content(never)) => match never {},
    }
}
