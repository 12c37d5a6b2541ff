//! Which files leave the machine, and what of them.
//!
//! Always true: the kernel remembers what the outside was told last about each path, so that a
//! later release is the difference; the first release of a file is all of it, because the place
//! where it goes may be empty.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde::{Deserialize, Serialize};

use super::host_view::HostNode;
use super::inode::{Inode, InodeId, Node, PAGE_DIRTY};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE_BYTES};
use crate::release::Release;
use crate::spool::{Bytes, Spool};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    File,
    Directory,
    Link,
}

/// What the outside knows of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Known {
    /// This inode, by serial number.
    Present(Kind, u64),
    Removed,
}

/// What was released, by absolute guest path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Released {
    known: BTreeMap<String, Known>,
}

/// Names said to be gone that are remembered although nothing stands there any more. What was said
/// before the last commit has arrived, so that it may be forgotten.
const REMOVED_MAX: usize = 1024;

impl Released {
    /// Forgets what was said to be gone, but for what hides names of the host's.
    fn forget_removed(&mut self, hidden: &[String]) {
        let removed = |known: &Known| *known == Known::Removed;
        let count = self.known.values().filter(|known| removed(known)).count();
        if count <= hidden.len() + REMOVED_MAX {
            return;
        }
        let hidden: BTreeSet<&String> = hidden.iter().collect();
        self.known
            .retain(|path, known| !removed(known) || hidden.contains(path));
    }
}

/// Something below a released mount that is not simply the host's.
struct Found {
    id: InodeId,
    kind: Kind,
    serial: u64,
    /// It is what the host has at this place, as far as the name goes.
    natural: bool,
    /// Something of the host's stands there that has to go first.
    replaces_host: bool,
}

impl Kernel {
    /// Hands out what changed in files under the mounts since the last call. Call it only when
    /// the present state is durable. Pages of shared mappings become read-only again, so that the
    /// next store to one is seen: `mappings_changed` of `machine` must really drop translations.
    /// Content waits in `spool`; fails if that does.
    pub fn release_files(
        &mut self,
        machine: &mut dyn Machine,
        spool: &Spool,
    ) -> io::Result<Vec<Release>> {
        let (found, hidden) = self.overlay_entries();
        self.released.forget_removed(&hidden);
        let mut releases = self.release_removals(&found, &hidden);
        let mut settled = Vec::new();
        for (path, entry) in &found {
            if let Some(release) = self.release_entry(machine, spool, path, entry)? {
                releases.push(release);
                settled.push(entry.id);
            }
        }
        // Only now, because one file can stand under several paths.
        let mut settles = false;
        for id in settled {
            settles |= self.settle_file(id).is_ok();
        }
        if settles {
            // Files without a name never leave the machine and are left alone.
            let named = |inode: &Inode| inode.links > 0 && matches!(inode.node, Node::File(_));
            self.write_protect(machine, |kernel, id| {
                kernel.files.inode(id).is_ok_and(named)
            });
        }
        Ok(releases)
    }

    /// Everything that was handed out and still stands, as it is now, and what was said to be gone.
    pub fn released_files(
        &mut self,
        machine: &mut dyn Machine,
        spool: &Spool,
    ) -> io::Result<Vec<Release>> {
        let (found, _) = self.overlay_entries();
        let mut releases = Vec::new();
        for (path, known) in self.released.known.clone() {
            let record = match (known, found.get(&path)) {
                (Known::Removed, _) => Some(Release::Removed { path }),
                (Known::Present(kind, serial), Some(entry))
                    if (kind, serial) == (entry.kind, entry.serial) =>
                {
                    self.record(machine, spool, &path, entry, true)?
                }
                _ => None,
            };
            releases.extend(record);
        }
        Ok(releases)
    }

    /// Everything that was looked up or made below the released mounts, and the host's names
    /// that are hidden.
    fn overlay_entries(&self) -> (BTreeMap<String, Found>, Vec<String>) {
        let mut found = BTreeMap::new();
        let mut hidden = Vec::new();
        let released = self.files.mounts.iter().filter(|mount| mount.released);
        let mut waiting: Vec<(String, InodeId)> = released
            .map(|mount| (mount.path.clone(), mount.inode))
            .collect();
        while let Some((parent, directory)) = waiting.pop() {
            let Ok(node) = self.files.directory(directory) else {
                continue;
            };
            for (name, entry) in &node.entries {
                let path = format!("{parent}/{name}");
                let Some(id) = *entry else {
                    hidden.push(path);
                    continue;
                };
                let host = node.host.as_ref().map(|host| host.child(name));
                let Ok(inode) = self.files.inode(id) else {
                    continue;
                };
                let on_host = || {
                    let path = host.as_ref()?;
                    self.host.node(path.mount, &path.path)
                };
                let (kind, natural, replaces_host) = match &inode.node {
                    Node::File(file) => {
                        let natural = host.is_some() && file.host == host;
                        let replaces = !natural && on_host() == Some(HostNode::Directory);
                        (Kind::File, natural, replaces)
                    }
                    Node::Directory(child) => {
                        waiting.push((path.clone(), id));
                        (Kind::Directory, child.host.is_some(), child.replaces_host)
                    }
                    Node::Link(target) => {
                        let there = on_host();
                        let target = target.clone();
                        let natural = there == Some(HostNode::Link { target });
                        let replaces = there == Some(HostNode::Directory);
                        (Kind::Link, natural, replaces)
                    }
                    // It never leaves the machine, but what it took the place of does not stay.
                    _ => {
                        if on_host().is_some() {
                            hidden.push(path);
                        }
                        continue;
                    }
                };
                let serial = inode.serial;
                found.insert(
                    path,
                    Found {
                        id,
                        kind,
                        serial,
                        natural,
                        replaces_host,
                    },
                );
            }
        }
        (found, hidden)
    }

    /// What is gone, inner paths first, and what must go because something else takes its place.
    fn release_removals(
        &mut self,
        found: &BTreeMap<String, Found>,
        hidden: &[String],
    ) -> Vec<Release> {
        let known = &mut self.released.known;
        let mut gone: BTreeSet<String> = hidden
            .iter()
            .filter(|path| known.get(*path) != Some(&Known::Removed))
            .cloned()
            .collect();
        for (path, &state) in known.iter() {
            let Known::Present(kind, _) = state else {
                continue;
            };
            let replaced = found.get(path).is_none_or(|entry| entry.kind != kind);
            if replaced {
                gone.insert(path.clone());
            }
        }
        for (path, entry) in found {
            // The host's directory goes once; of one of the guest's, each is another.
            let told = known.get(path).is_some_and(|&before| {
                entry.kind != Kind::Directory || before == Known::Present(entry.kind, entry.serial)
            });
            if entry.replaces_host && !told {
                gone.insert(path.clone());
            }
        }
        gone.into_iter()
            .rev()
            .map(|path| {
                known.insert(path.clone(), Known::Removed);
                Release::Removed { path }
            })
            .collect()
    }

    /// The most bytes that the next release adds to what is remembered of those before.
    pub(crate) fn unreleased_bytes(&self) -> u64 {
        const RECORD_BYTES: usize = 16;
        let known = &self.released.known;
        let (found, hidden) = self.overlay_entries();
        let changed = found.iter().filter(|(_, entry)| {
            let changed = self.files.file(entry.id).is_ok_and(|file| file.changed);
            changed || !entry.natural
        });
        let paths = changed.map(|(path, _)| path).chain(&hidden);
        let new = paths.filter(|path| !known.contains_key(*path));
        new.map(|path| (path.len() + RECORD_BYTES) as u64).sum()
    }

    fn release_entry(
        &mut self,
        machine: &mut dyn Machine,
        spool: &Spool,
        path: &str,
        entry: &Found,
    ) -> io::Result<Option<Release>> {
        let before = self.released.known.get(path).copied();
        let now = Known::Present(entry.kind, entry.serial);
        let told = before == Some(now);
        // The outside has it from the start.
        let original = before.is_none() && entry.natural;
        let (whole, changed) = match self.files.file(entry.id) {
            Ok(file) => (!told || file.shrunk, file.changed),
            Err(_) => (true, false),
        };
        if (told || original) && !changed {
            return Ok(None);
        }
        let release = self.record(machine, spool, path, entry, whole)?;
        if release.is_some() {
            self.released.known.insert(path.to_owned(), now);
        }
        Ok(release)
    }

    /// The record of what stands at a path. A file that does not read (its host file changed) has
    /// none: it is left as the outside has it.
    fn record(
        &mut self,
        machine: &mut dyn Machine,
        spool: &Spool,
        path: &str,
        entry: &Found,
        whole: bool,
    ) -> io::Result<Option<Release>> {
        let path = path.to_owned();
        let Ok(inode) = self.files.inode(entry.id) else {
            return Ok(None);
        };
        let mode = inode.mode;
        match (&inode.node, entry.kind) {
            (Node::Link(target), Kind::Link) => {
                let target = target.clone();
                Ok(Some(Release::Link { path, target }))
            }
            (Node::File(file), Kind::File) => {
                let size = file.size;
                let pieces = self.file_pieces(machine, spool, entry.id, whole)?;
                Ok(pieces.map(|pieces| Release::File {
                    path,
                    size,
                    mode,
                    whole,
                    pieces,
                }))
            }
            (_, Kind::Directory) => Ok(Some(Release::Directory { path })),
            _ => Ok(None),
        }
    }

    /// The pages of a file that a record needs, one at a time: all that are not zero if `whole`, else
    /// those that changed. `None` if it does not read.
    fn file_pieces(
        &mut self,
        machine: &mut dyn Machine,
        spool: &Spool,
        id: InodeId,
        whole: bool,
    ) -> io::Result<Option<Vec<(u64, Bytes)>>> {
        let (Ok(file), Ok(held)) = (self.files.file(id), self.files.held_pages(id)) else {
            return Ok(None);
        };
        let below = if whole {
            file.host_bytes.div_ceil(PAGE_BYTES)
        } else {
            0
        };
        let changed = held
            .iter()
            .filter(|(page, entry)| *page >= below && (whole || entry & PAGE_DIRTY != 0))
            .map(|(page, _)| *page);
        let mut pieces = Vec::new();
        for page in (0..below).chain(changed) {
            let offset = page * PAGE_BYTES;
            let Ok(bytes) = self.read_file(machine, id, offset, PAGE_BYTES) else {
                return Ok(None);
            };
            let says_nothing = bytes.is_empty() || whole && bytes.iter().all(|&byte| byte == 0);
            if !says_nothing {
                pieces.push((offset, spool.hold(bytes)?));
            }
        }
        Ok(Some(pieces))
    }

    /// From now on, nothing of a file counts as changed.
    fn settle_file(&mut self, id: InodeId) -> Result<(), Errno> {
        for (page, entry) in self.files.held_pages(id)? {
            if entry & PAGE_DIRTY != 0 {
                self.files.set_page_entry(id, page, entry & !PAGE_DIRTY)?;
            }
        }
        let file = self.files.file_mut(id)?;
        file.changed = false;
        file.shrunk = false;
        Ok(())
    }
}
