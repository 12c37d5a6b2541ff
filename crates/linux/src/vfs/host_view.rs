//! The host directories that the guest reads through.
//!
//! Always true: a path is looked at once; what was found (also "nothing") is what the guest sees
//! from then on, whatever happens on the host, and so is replayable input. The kernel resolves
//! symbolic links itself, component by component, and every step of a path is opened by name in the
//! directory before it, following nothing: so no path leaves its mount, whatever takes the place of a
//! folder meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{self as unix, CWD, Dir, FileType, Mode, OFlags};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::spelling::{bytes_of, text_of};
use crate::configuration::{Configuration, CpuCache, WORK_DIRECTORY};
use crate::inspect::ProgramFile;

/// What a host path is. Nothing else about it reaches the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostNode {
    /// A plain file.
    File {
        /// Its bytes.
        size: u64,
        /// Its owner may execute it.
        executable: bool,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Link {
        /// Where it leads.
        target: String,
    },
}

/// A host directory and where the guest sees it.
#[derive(Clone, Debug)]
pub(crate) struct HostMount {
    pub guest: String,
    pub host: PathBuf,
    /// The directory as it was found at the start; of a program, the file is opened by its path.
    root: Option<Arc<OwnedFd>>,
}

const LOOKS: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
pub(super) const READS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

impl HostMount {
    /// Opens what stands under a path that is the mount's own, or plain.
    fn open(&self, path: &str, flags: OFlags) -> Option<OwnedFd> {
        let Some(root) = &self.root else {
            let own = path.is_empty().then_some(self.host.as_path())?;
            return unix::open(own, flags - OFlags::NOFOLLOW, Mode::empty()).ok();
        };
        if path.is_empty() {
            return unix::openat(root, ".", flags, Mode::empty()).ok();
        }
        let mut directory: Option<OwnedFd> = None;
        let mut parts = path.split('/').peekable();
        loop {
            let part = parts
                .next()
                .filter(|part| !matches!(*part, "" | "." | ".."))?;
            let from = directory.as_ref().map_or(root.as_fd(), AsFd::as_fd);
            let is_last = parts.peek().is_none();
            let flags = if is_last {
                flags
            } else {
                LOOKS | OFlags::DIRECTORY
            };
            let next = unix::openat(from, &*bytes_of(part), flags, Mode::empty()).ok()?;
            if is_last {
                return Some(next);
            }
            directory = Some(next);
        }
    }
}

/// Something that the guest has found on its host, or not found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFact {
    /// The mount.
    pub mount: u32,
    /// The path in it.
    pub path: String,
    /// What is there.
    pub found: HostFinding,
}

/// What was found under a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostFinding {
    /// What the path is, if anything.
    Node(Option<HostNode>),
    /// The names in a directory.
    Listing(Vec<String>),
    /// A file's bytes, if it could be read.
    Contents(#[serde(with = "serde_bytes")] Option<Vec<u8>>),
}

/// What the guest was shown under one path, in few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The path as the guest has it; for a program, its own name.
    pub name: String,
    /// 0 if its bytes were read, 1 if its names were, 2 if it was looked at, 3 if nothing is there.
    pub weight: u8,
    /// Something is there.
    pub is_there: bool,
    /// Of everything that was found there.
    pub digest: u64,
}

/// Facts that somebody knows already.
#[derive(Clone, Debug, Default)]
pub struct KnownFacts {
    nodes: BTreeSet<Key>,
    listings: BTreeSet<Key>,
    contents: BTreeSet<Key>,
}

type Key = (u32, String);

#[derive(Debug, Default)]
pub(super) struct Seen {
    nodes: BTreeMap<Key, Option<HostNode>>,
    listings: BTreeMap<Key, Arc<Vec<String>>>,
    pub(super) contents: BTreeMap<Key, Option<Arc<[u8]>>>,
    /// Bytes of these that were read from the host.
    read_bytes: u64,
}

#[derive(Debug, Default)]
struct Inner {
    /// The most that is read from the host.
    limit_bytes: u64,
    mounts: Vec<HostMount>,
    /// The machine's caches. They stand here because they are outside of the saved state, too: a
    /// machine that goes on tells its own.
    caches: Vec<CpuCache>,
    /// Mounts before the programs' own.
    directories: usize,
    /// The one-file mount of each program.
    programs: Vec<u32>,
    /// There is no host any more: what was seen is all there is.
    closed: bool,
    seen: Mutex<Seen>,
}

/// The host files that the guest may read, as they were when first looked at. Cheap to clone;
/// clones share what was read. Not part of the saved state.
#[derive(Clone, Debug, Default)]
pub struct HostView {
    inner: Arc<Inner>,
}

/// The mount that holds a program given as a host path alone.
pub(crate) const PROGRAM_DIRECTORY: &str = "/program";

impl HostView {
    /// The host directories that `configuration` names. Nothing is read yet.
    pub fn new(configuration: &Configuration) -> Self {
        let mut mounts = Vec::new();
        let mut add = |guest: &str, host: &Path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            mounts.push(HostMount {
                guest: guest.to_owned(),
                host: host.to_owned(),
                root: unix::openat(CWD, host, flags, Mode::empty())
                    .ok()
                    .map(Arc::new),
            });
        };
        if let Some(sysroot) = &configuration.sysroot {
            add("/", sysroot);
        }
        if let Some(work) = &configuration.work_directory {
            add(WORK_DIRECTORY, work);
        }
        for mount in &configuration.mounts {
            add(mount.guest.trim_end_matches('/'), &mount.host);
        }
        // Last, so that the numbers of the others do not depend on the programs. Each is a mount
        // of one file: the host path is the program itself and the relative path is empty.
        let directories = mounts.len();
        let mut programs = Vec::new();
        for program in &configuration.programs {
            let same = |mount: &HostMount| mount.host == program.path;
            let known = mounts[directories..].iter().position(same);
            let place = directories + known.unwrap_or(mounts.len() - directories);
            if known.is_none() {
                mounts.push(HostMount {
                    guest: PROGRAM_DIRECTORY.to_owned(),
                    host: program.path.clone(),
                    root: None,
                });
            }
            programs.push(place as u32);
        }
        Self {
            inner: Arc::new(Inner {
                mounts,
                caches: configuration.caches.clone(),
                limit_bytes: configuration.host_limit_bytes,
                directories,
                programs,
                closed: false,
                seen: Mutex::default(),
            }),
        }
    }

    /// The caches of the machine.
    pub(crate) fn caches(&self) -> &[CpuCache] {
        &self.inner.caches
    }

    /// The same view, with facts that a guest found elsewhere in place of what the host has now.
    #[must_use]
    pub fn with_facts(self, facts: impl IntoIterator<Item = HostFact>) -> Self {
        self.with_seen(|seen| {
            for HostFact { mount, path, found } in facts {
                let key = (mount, path);
                match found {
                    HostFinding::Node(node) => {
                        seen.nodes.insert(key, node);
                    }
                    HostFinding::Listing(names) => {
                        seen.listings.insert(key, Arc::new(names));
                    }
                    HostFinding::Contents(bytes) => {
                        seen.contents.insert(key, bytes.map(Arc::from));
                    }
                }
            }
        });
        self
    }

    /// The facts that a guest found elsewhere, and no host behind them.
    pub fn of_facts(facts: impl IntoIterator<Item = HostFact>) -> Self {
        let inner = Inner {
            closed: true,
            ..Inner::default()
        };
        let nobody = Self {
            inner: Arc::new(inner),
        };
        nobody.with_facts(facts)
    }

    /// The facts that the guest has found and `known` does not have yet; from now on it has.
    pub fn new_facts(&self, known: &mut KnownFacts) -> Vec<HostFact> {
        fn add<T>(
            facts: &mut Vec<HostFact>,
            known: &mut BTreeSet<Key>,
            found: &BTreeMap<Key, T>,
            finding: impl Fn(&T) -> HostFinding,
        ) {
            // Facts are only ever added.
            if found.len() == known.len() {
                return;
            }
            for (key, value) in found.iter().filter(|(key, _)| !known.contains(*key)) {
                let (mount, path) = key.clone();
                let found = finding(value);
                facts.push(HostFact { mount, path, found });
            }
            known.extend(found.keys().cloned());
        }
        self.with_seen(|seen| {
            let mut facts = Vec::new();
            add(&mut facts, &mut known.nodes, &seen.nodes, |node| {
                HostFinding::Node(node.clone())
            });
            add(&mut facts, &mut known.listings, &seen.listings, |names| {
                HostFinding::Listing(names.to_vec())
            });
            add(&mut facts, &mut known.contents, &seen.contents, |bytes| {
                HostFinding::Contents(bytes.as_deref().map(<[u8]>::to_vec))
            });
            facts
        })
    }

    /// The files that were kept of an earlier run, and no host behind them.
    pub fn of_files(files: impl IntoIterator<Item = ProgramFile>) -> Self {
        let mut seen = Seen::default();
        for file in files {
            let key = (file.mount, file.path);
            let node = HostNode::File {
                size: file.contents.len() as u64,
                executable: true,
            };
            seen.nodes.insert(key.clone(), Some(node));
            seen.contents.insert(key, Some(file.contents));
        }
        Self {
            inner: Arc::new(Inner {
                closed: true,
                seen: Mutex::new(seen),
                ..Inner::default()
            }),
        }
    }

    /// Everything that the guest was shown so far, by name.
    pub fn shown(&self) -> Vec<Shown> {
        let mut facts = self.new_facts(&mut KnownFacts::default());
        facts.sort_by(|a, b| (a.mount, &a.path).cmp(&(b.mount, &b.path)));
        let same = |a: &HostFact, b: &HostFact| (a.mount, &a.path) == (b.mount, &b.path);
        facts
            .chunk_by(same)
            .map(|facts| {
                let HostFact { mount, path, .. } = &facts[0];
                let mut shown = Shown {
                    name: self.guest_name(*mount, path),
                    weight: 3,
                    is_there: false,
                    digest: 0,
                };
                let hash = XxHash3_64::oneshot;
                for fact in facts {
                    let (weight, bytes) = match &fact.found {
                        HostFinding::Contents(Some(bytes)) => (0, hash(bytes)),
                        HostFinding::Contents(None) | HostFinding::Node(None) => (3, 0),
                        HostFinding::Listing(names) => (1, hash(names.join("/").as_bytes())),
                        HostFinding::Node(Some(node)) => (2, hash(format!("{node:?}").as_bytes())),
                    };
                    shown.weight = shown.weight.min(weight);
                    shown.is_there |= weight < 3;
                    let parts = [shown.digest, u64::from(weight), bytes];
                    shown.digest = hash(&parts.map(u64::to_le_bytes).concat());
                }
                shown
            })
            .collect()
    }

    fn guest_name(&self, mount: u32, path: &str) -> String {
        match (self.inner.mounts.get(mount as usize), path) {
            (Some(mount), "") if mount.guest == PROGRAM_DIRECTORY => {
                let name = mount.host.file_name().unwrap_or_default();
                format!("the program {}", name.display())
            }
            (Some(mount), path) => format!("{}/{path}", mount.guest.trim_end_matches('/')),
            (None, path) => path.to_owned(),
        }
    }

    /// The programs and libraries whose bytes were asked for so far.
    pub fn programs_seen(&self) -> Vec<ProgramFile> {
        let name = |mount: u32, path: &str| {
            let mount = self.inner.mounts.get(mount as usize);
            match (mount, path) {
                (Some(mount), "") => mount.host.display().to_string(),
                (Some(mount), path) => format!("{}/{path}", mount.guest.trim_end_matches('/')),
                (None, path) => path.to_owned(),
            }
        };
        self.with_seen(|seen| {
            let found = seen.contents.iter();
            found
                .filter_map(|((mount, path), contents)| Some((*mount, path, contents.as_ref()?)))
                .filter(|(.., contents)| crate::elf::is_loadable(contents))
                .map(|(mount, path, contents)| ProgramFile {
                    mount,
                    path: path.clone(),
                    name: name(mount, path),
                    contents: Arc::clone(contents),
                })
                .collect()
        })
    }

    pub(crate) fn mounts(&self) -> &[HostMount] {
        &self.inner.mounts
    }

    /// How many mounts are directories; they come first.
    pub(crate) fn directory_mounts(&self) -> usize {
        self.inner.directories
    }

    /// The number of the one-file mount that holds a program.
    pub(crate) fn program_mount(&self, place: usize) -> u32 {
        self.inner.programs.get(place).copied().unwrap_or(u32::MAX)
    }

    pub(super) fn open(&self, mount: u32, path: &str, flags: OFlags) -> Option<OwnedFd> {
        self.inner.mounts.get(mount as usize)?.open(path, flags)
    }

    pub(super) fn with_seen<T>(&self, act: impl FnOnce(&mut Seen) -> T) -> T {
        // The maps are only ever extended, so a panic elsewhere cannot leave them half changed.
        act(&mut self
            .inner
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner))
    }

    /// What a path inside a mount is.
    pub(crate) fn node(&self, mount: u32, path: &str) -> Option<HostNode> {
        if self.inner.closed {
            let key = (mount, path.to_owned());
            return self.with_seen(|seen| seen.nodes.get(&key).cloned().flatten());
        }
        self.with_seen(|seen| {
            seen.nodes
                .entry((mount, path.to_owned()))
                .or_insert_with(|| look_at(&self.open(mount, path, LOOKS)?))
                .clone()
        })
    }

    /// The names in a directory, sorted. Names that are not UTF-8 are left out.
    pub(crate) fn listing(&self, mount: u32, path: &str) -> Arc<Vec<String>> {
        self.with_seen(|seen| {
            Arc::clone(
                seen.listings
                    .entry((mount, path.to_owned()))
                    .or_insert_with(|| {
                        let directory = self.open(mount, path, READS | OFlags::DIRECTORY);
                        Arc::new(directory.map(names_in).unwrap_or_default())
                    }),
            )
        })
    }

    /// A file's bytes, if it can be read, is still as long as when it was first looked at, and not more
    /// than may be read.
    pub(crate) fn contents(&self, mount: u32, path: &str) -> Option<Arc<[u8]>> {
        let Some(HostNode::File { size, .. }) = self.node(mount, path) else {
            return None;
        };
        if self.inner.closed {
            let key = (mount, path.to_owned());
            return self.with_seen(|seen| seen.contents.get(&key).cloned().flatten());
        }
        self.with_seen(|seen| {
            let Seen {
                contents,
                read_bytes,
                ..
            } = seen;
            let room = self.inner.limit_bytes - *read_bytes;
            let read = || {
                let file = self.open(mount, path, READS)?;
                let bytes: Arc<[u8]> = read_whole(file, size, room)?.into();
                *read_bytes += size;
                Some(bytes)
            };
            let entry = contents.entry((mount, path.to_owned()));
            entry.or_insert_with(read).clone()
        })
    }
}

/// The bytes of a file that is still as long as it was, if there is room for them.
fn read_whole(file: OwnedFd, size: u64, room: u64) -> Option<Vec<u8>> {
    let mode = unix::fstat(&file).ok()?.st_mode;
    if size > room || FileType::from_raw_mode(mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    let file = File::from(file);
    file.take(size + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == size).then_some(bytes)
}

/// The names in a directory, sorted.
fn names_in(directory: OwnedFd) -> Vec<String> {
    let entries = Dir::new(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| text_of(entry.file_name().to_bytes().to_vec()));
    let mut names: Vec<String> = names.filter(|name| name != "." && name != "..").collect();
    names.sort();
    names
}

fn look_at(found: &OwnedFd) -> Option<HostNode> {
    let status = unix::fstat(found).ok()?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => Some(HostNode::Directory),
        FileType::Symlink => {
            let target = text_of(unix::readlinkat(found, "", Vec::new()).ok()?.into_bytes());
            Some(HostNode::Link { target })
        }
        FileType::RegularFile => Some(HostNode::File {
            size: u64::try_from(status.st_size).ok()?,
            executable: status.st_mode & 0o100 != 0,
        }),
        // Host devices, pipes and sockets are not shown to the guest.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_that_becomes_a_link_leads_nowhere() {
        let home = std::env::temp_dir().join(format!("perdure-host-view-{}", std::process::id()));
        let (shown, outside) = (home.join("shown"), home.join("outside"));
        for folder in [shown.join("folder"), outside.clone()] {
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("secret"), "text").expect("a file");
        }
        let view = HostView::new(&Configuration {
            work_directory: Some(shown.clone()),
            ..Configuration::default()
        });
        assert_eq!(view.node(0, "folder"), Some(HostNode::Directory));
        assert_eq!(view.listing(0, "").as_slice(), ["folder"]);
        fs::rename(shown.join("folder"), home.join("before")).expect("moved");
        symlink(&outside, shown.join("folder")).expect("a link");
        assert_eq!(view.node(0, "folder/secret"), None);
        assert_eq!(view.contents(0, "folder/secret"), None);
        assert!(view.listing(0, "folder").is_empty());
        // Neither does one in the place of the whole mount: it is the folder that it was.
        fs::rename(&shown, home.join("moved")).expect("moved");
        fs::write(home.join("moved/new"), "new").expect("a file");
        symlink(&outside, &shown).expect("a link");
        assert_eq!(view.node(0, "secret"), None);
        let size = 3;
        let executable = false;
        assert_eq!(
            view.node(0, "new"),
            Some(HostNode::File { size, executable })
        );
        assert_eq!(view.contents(0, "new").as_deref(), Some(&b"new"[..]));
        fs::remove_dir_all(&home).expect("cleaned up");
    }
}
