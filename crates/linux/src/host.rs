//! Where released files go on the host.
//!
//! Always true: the host is read-only to the guest. What it writes is kept below one folder, under
//! its guest path, if somebody asked for that; only folders that the user named for it are changed
//! in place. No link is ever followed below any of them: every step of a path is opened by name in
//! the directory before it, so neither a link that the guest made, nor one that stood there, nor one
//! that somebody puts there meanwhile leads out. Below the folder of kept files nothing is removed
//! that this run has not put there. Applying a record twice changes nothing.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self as unix, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::configuration::{Mount, WORK_DIRECTORY};
use crate::host_file::Content;
use crate::release::Release;
use crate::spool::Bytes;
use crate::vfs::spelling::{bytes_of, text_of};

/// Why a release could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file operation failed.
    #[error("{place}: {error}")]
    Io {
        /// The guest's path, or the host folder.
        place: String,
        /// What the host said.
        error: io::Error,
    },
    /// The path leads through a link.
    #[error(
        "{path}: refused, because {part} on the host is a symbolic link; remove it and run again"
    )]
    Link {
        /// The guest's path.
        path: String,
        /// Its part that is a link.
        part: String,
    },
    /// The path is not plain.
    #[error("{0}: refused, because it is not an absolute path to something below a folder")]
    Path(String),
}

/// What becomes of a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It is changed, and stays the same file: other names of it get the content as well.
    Changes,
    /// Another file takes its name.
    Replaces,
}

/// A host folder that receives files.
#[derive(Debug)]
struct Folder {
    /// The guest directory that it stands for; empty for the guest's root.
    guest: String,
    root: OwnedFd,
    /// The directory that was used last, by its path below `root`: its neighbours and children come
    /// next.
    last: Option<(String, OwnedFd)>,
    /// Directories that had to be made on the way to something, by their paths below `root`.
    made: Vec<String>,
}

/// The host folders that receive what the guest writes.
#[derive(Debug, Default)]
pub struct HostDirectories {
    /// Mounted guest directories, innermost first, with the folder of each that is changed in place.
    through: Vec<(String, Option<Folder>)>,
    /// The folder of kept files.
    kept: Option<Folder>,
    /// What this run has put there, by guest path.
    made: BTreeSet<String>,
    /// Files that lack something that the host has refused, by guest path: what comes after it makes
    /// sense of none of them.
    lacking: BTreeSet<String>,
}

impl HostDirectories {
    /// Keeps files below the folder `kept`, which is made if need be, under their guest paths; those
    /// below a guest directory of `through`, and not of another mount inside it, are changed in place
    /// on the host. Others go nowhere.
    pub fn new(kept: Option<&Path>, through: &[Mount], mounts: &[&str]) -> Result<Self, HostError> {
        let plain = |guest: &str| guest.trim_end_matches('/').to_owned();
        let mut folders = Vec::new();
        for mount in through {
            let folder = Folder::open(plain(&mount.guest), &mount.host)?;
            folders.push((plain(&mount.guest), Some(folder)));
        }
        for guest in mounts.iter().copied().chain([WORK_DIRECTORY]) {
            let guest = plain(guest);
            if folders.iter().all(|(known, _)| *known != guest) {
                folders.push((guest, None));
            }
        }
        folders.sort_by_key(|(guest, _)| std::cmp::Reverse(guest.len()));
        let kept = match kept {
            Some(kept) => {
                at(&kept.display().to_string(), fs::create_dir_all(kept))?;
                Some(Folder::open(String::new(), kept)?)
            }
            None => None,
        };
        Ok(Self {
            through: folders,
            kept,
            made: BTreeSet::new(),
            lacking: BTreeSet::new(),
        })
    }

    /// Applies one record; false if it is of something that goes nowhere, or of a file that lacks
    /// what was refused before. Stream records are not for folders and change nothing.
    pub fn apply(&mut self, release: &Release) -> Result<bool, HostError> {
        let (path, goes_on) = match release {
            Release::File { path, whole, .. } => (path, !whole),
            Release::Link { path, .. }
            | Release::Removed { path }
            | Release::Directory { path } => (path, false),
            Release::Stream { .. } => return Ok(false),
        };
        if goes_on && self.lacking.contains(path) {
            return Ok(false);
        }
        let applied = self.apply_to(path, release);
        if applied.is_ok() {
            self.lacking.remove(path);
        } else if matches!(release, Release::File { .. } | Release::Link { .. }) {
            self.lacking.insert(path.clone());
        }
        applied
    }

    fn apply_to(&mut self, path: &str, release: &Release) -> Result<bool, HostError> {
        let innermost = self
            .through
            .iter_mut()
            .find(|(guest, _)| holds(guest, path));
        if let Some((_, Some(folder))) = innermost {
            folder.made.clear();
            let (inner, name) = folder.split(path)?;
            if matches!(release, Release::Removed { .. }) {
                return folder.remove(path, inner, name, true).map(|()| true);
            }
            let put = folder.put(release, path, inner, name, Way::Changes);
            return put.map(|()| true);
        }
        let Some(folder) = &mut self.kept else {
            return Ok(false);
        };
        let (inner, name) = folder.split(path)?;
        if matches!(release, Release::Removed { .. }) {
            if self.made.remove(path) {
                folder.remove(path, inner, name, false)?;
            }
            return Ok(true);
        }
        // What stood there before this run is replaced, not changed: other names of it stay as they
        // are.
        let grows =
            matches!(release, Release::File { whole: false, .. }) && self.made.contains(path);
        let way = if grows { Way::Changes } else { Way::Replaces };
        let result = folder.put(release, path, inner, name, way);
        let made = folder.made.drain(..).map(|inner| format!("/{inner}"));
        self.made.extend(made);
        if let Err(refusal) = result {
            // A part of a file is none.
            if grows && self.made.remove(path) {
                let _ = folder.remove(path, inner, name, false);
            }
            return Err(refusal);
        }
        self.made.insert(path.to_owned());
        Ok(true)
    }

    /// True if the host has refused a file or link, or a part of it, and has not got the whole since.
    pub fn lacks(&self, path: &str) -> bool {
        self.lacking.contains(path)
    }

    /// Writes down beside the kept files what of the host's own files the guest has removed, by guest
    /// path: nothing is done to those.
    pub fn note_removed(&mut self, removed: &BTreeSet<String>) -> Result<(), HostError> {
        const NAME: &str = "removed.json";
        let Some(kept) = &self.kept else {
            return Ok(());
        };
        let root = kept.root.as_fd();
        let mut result = remove(root, NAME, false);
        if !removed.is_empty() {
            let paths: Vec<String> = removed.iter().map(|path| quoted(path)).collect();
            let text = format!("[\n  {}\n]\n", paths.join(",\n  "));
            let content = Content {
                size: text.len() as u64,
                mode: 0o644,
                whole: true,
                pieces: &[(0, Bytes::from(text.into_bytes()))],
            };
            result = result.and_then(|()| content.replace(root, NAME));
        }
        at(NAME, result)
    }
}

/// A text as JSON writes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// True if a path is that of something below a guest directory.
fn holds(guest: &str, path: &str) -> bool {
    let inner = path.strip_prefix(guest);
    inner.is_some_and(|inner| inner.starts_with('/'))
}

fn at<T>(place: &str, result: io::Result<T>) -> Result<T, HostError> {
    result.map_err(|error| HostError::Io {
        place: place.to_owned(),
        error,
    })
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

impl Folder {
    fn open(guest: String, host: &Path) -> Result<Self, HostError> {
        let root = unix::open(host, DIRECTORY, Mode::empty()).map_err(io::Error::from);
        Ok(Self {
            guest,
            root: at(&host.display().to_string(), root)?,
            last: None,
            made: Vec::new(),
        })
    }

    /// A guest path's directory below this folder, and the name in it.
    fn split<'a>(&self, path: &'a str) -> Result<(&'a str, &'a str), HostError> {
        let refused = || HostError::Path(path.to_owned());
        let inner = path.strip_prefix(self.guest.as_str());
        let inner = inner.and_then(|inner| inner.strip_prefix('/'));
        let inner = inner.ok_or_else(refused)?;
        let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
        if !inner.split('/').all(plain) {
            return Err(refused());
        }
        Ok(inner.rsplit_once('/').unwrap_or(("", inner)))
    }

    /// The directory at a path below this folder, made on the way if `make`; `None` if it is not
    /// there.
    fn directory(
        &mut self,
        path: &str,
        inner: &str,
        make: bool,
    ) -> Result<Option<BorrowedFd<'_>>, HostError> {
        let below = |last: &(String, OwnedFd)| {
            let rest = inner.strip_prefix(last.0.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (mut known, mut rest) = (self.last.take().filter(below), inner);
        if let Some((place, _)) = &known {
            rest = inner[place.len()..].trim_start_matches('/');
        }
        for part in rest.split('/').filter(|part| !part.is_empty()) {
            let from = known
                .as_ref()
                .map_or(self.root.as_fd(), |(_, fd)| fd.as_fd());
            let Some((next, made)) = enter(from, part, path, make)? else {
                return Ok(None);
            };
            let mut place = known.take().map_or_else(String::new, |(place, _)| place);
            if !place.is_empty() {
                place.push('/');
            }
            let place = place + part;
            if made {
                self.made.push(place.clone());
            }
            known = Some((place, next));
        }
        self.last = known;
        let last = self.last.as_ref().map(|(_, fd)| fd.as_fd());
        Ok(Some(last.unwrap_or(self.root.as_fd())))
    }

    /// Removes a name; nothing there is fine. A directory that is not empty goes only if `whole`.
    fn remove(
        &mut self,
        path: &str,
        inner: &str,
        name: &str,
        whole: bool,
    ) -> Result<(), HostError> {
        let removed = match self.directory(path, inner, false)? {
            Some(directory) => at(path, remove(directory, name, whole)),
            None => Ok(()),
        };
        self.last = None;
        removed
    }

    /// Puts what a record says at its place.
    fn put(
        &mut self,
        release: &Release,
        path: &str,
        inner: &str,
        name: &str,
        way: Way,
    ) -> Result<(), HostError> {
        let Some(directory) = self.directory(path, inner, true)? else {
            return Ok(());
        };
        let result = match release {
            Release::File {
                size,
                mode,
                whole,
                pieces,
                ..
            } => {
                let content = Content {
                    size: *size,
                    mode: *mode,
                    whole: *whole,
                    pieces,
                };
                if way == Way::Replaces {
                    content.replace(directory, name)
                } else {
                    content.change(directory, name)
                }
            }
            Release::Link { target, .. } => remove(directory, name, false).and_then(|()| {
                unix::symlinkat(&*bytes_of(target), directory, &*bytes_of(name))
                    .map_err(io::Error::from)
            }),
            Release::Directory { .. } => make_directory(directory, name),
            Release::Stream { .. } | Release::Removed { .. } => Ok(()),
        };
        if matches!(release, Release::Link { .. }) {
            self.last = None;
        }
        at(path, result)
    }
}

/// The directory of a name in another one, and whether it had to be made.
fn enter(
    from: BorrowedFd,
    part: &str,
    path: &str,
    make: bool,
) -> Result<Option<(OwnedFd, bool)>, HostError> {
    let open = || {
        unix::openat(
            from,
            &*bytes_of(part),
            DIRECTORY | OFlags::NOFOLLOW,
            Mode::empty(),
        )
    };
    let mut made = false;
    let opened = match open() {
        Err(Errno::NOENT) if !make => return Ok(None),
        Err(Errno::NOENT) => {
            match unix::mkdirat(from, &*bytes_of(part), Mode::from_raw_mode(0o777)) {
                Err(error) if error != Errno::EXIST => Err(error),
                result => {
                    made = result.is_ok();
                    open()
                }
            }
        }
        other => other,
    };
    match opened {
        Ok(next) => Ok(Some((next, made))),
        Err(Errno::LOOP | Errno::NOTDIR) if kind(from, part) == Some(FileType::Symlink) => {
            Err(HostError::Link {
                path: path.to_owned(),
                part: part.to_owned(),
            })
        }
        Err(error) => at(path, Err(error.into())),
    }
}

/// What stands under a name, if anything.
pub(crate) fn kind(directory: BorrowedFd, name: &str) -> Option<FileType> {
    let found = unix::statat(directory, &*bytes_of(name), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(found.st_mode))
}

/// Removes whatever stands under a name; nothing there is fine. A directory with something in it
/// goes with all of it if `whole`, else it stays.
pub(crate) fn remove(directory: BorrowedFd, name: &str, whole: bool) -> io::Result<()> {
    let result = match kind(directory, name) {
        None => Ok(()),
        Some(FileType::Directory) if whole => return remove_all(directory, name),
        Some(FileType::Directory) => {
            unix::unlinkat(directory, &*bytes_of(name), AtFlags::REMOVEDIR)
        }
        Some(_) => unix::unlinkat(directory, &*bytes_of(name), AtFlags::empty()),
    };
    match result {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) if !whole => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes a directory and what a guest can have seen in it, one open directory at a time and by no
/// path. Devices, pipes and sockets stay, and so what they are in.
fn remove_all(directory: BorrowedFd, name: &str) -> io::Result<()> {
    let mut open = vec![Doomed::new(directory, name)?];
    while let Some(current) = open.last_mut() {
        let Some(name) = current.names.pop() else {
            let done = open.pop().map_or_else(String::new, |done| done.name);
            let above = open
                .last()
                .map_or(directory, |above| above.directory.as_fd());
            remove(above, &done, false)?;
            continue;
        };
        match kind(current.directory.as_fd(), &name) {
            Some(FileType::Directory) => {
                let inner = Doomed::new(current.directory.as_fd(), &name)?;
                open.push(inner);
            }
            Some(FileType::RegularFile | FileType::Symlink) => {
                remove(current.directory.as_fd(), &name, false)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// A directory that is to go.
struct Doomed {
    directory: OwnedFd,
    name: String,
    /// What in it has yet to be looked at.
    names: Vec<String>,
}

impl Doomed {
    fn new(from: BorrowedFd, name: &str) -> io::Result<Self> {
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let directory = unix::openat(from, &*bytes_of(name), flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in unix::Dir::read_from(&directory)? {
            let inner = text_of(entry?.file_name().to_bytes().to_vec());
            if !matches!(inner.as_str(), "." | "..") {
                names.push(inner);
            }
        }
        Ok(Self {
            directory,
            name: name.to_owned(),
            names,
        })
    }
}

fn make_directory(directory: BorrowedFd, name: &str) -> io::Result<()> {
    if kind(directory, name) != Some(FileType::Directory) {
        remove(directory, name, false)?;
    }
    match unix::mkdirat(directory, &*bytes_of(name), Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
