//! Which files leave the machine, and what of them.
//!
//! Always true: the kernel remembers what the outside was told last about each path, so that a
//! later release is the difference; the first release of a file is all of it, because the place
//! where it goes may be empty.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::host_view::HostNode;
use super::inode::{InodeId, Node, PAGE_DIRTY};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE_BYTES};
use crate::release::Release;

/// The longest piece of one record.
const PIECE_PAGES_MAX: u64 = 256;

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

/// Something below a released mount that is not simply the host's.
struct Found {
    id: InodeId,
    kind: Kind,
    serial: u64,
    /// It is what the host has at this place, as far as the name goes.
    natural: bool,
    replaces_host: bool,
}

impl Kernel {
    /// Hands out what changed in files under the mounts since the last call. Call it only when
    /// the present state is durable. Pages of shared mappings become read-only again, so that the
    /// next store to one is seen: `mappings_changed` of `machine` must really drop translations.
    pub fn release_files(&mut self, machine: &mut dyn Machine) -> Vec<Release> {
        let (found, hidden) = self.overlay_entries();
        let mut releases = self.release_removals(&found, &hidden);
        let mut settled = Vec::new();
        for (path, entry) in &found {
            // A file that does not read (its host file changed) is left as the outside has it.
            if let Ok(Some(release)) = self.release_entry(machine, path, entry) {
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
            self.write_protect_shared(machine);
        }
        releases
    }

    /// Everything that was handed out and still stands, as it is now, and what was said to be gone.
    pub fn released_files(&mut self, machine: &mut dyn Machine) -> Vec<Release> {
        let (found, _) = self.overlay_entries();
        let mut releases = Vec::new();
        for (path, known) in self.released.known.clone() {
            let record = match (known, found.get(&path)) {
                (Known::Removed, _) => Some(Release::Removed { path }),
                (Known::Present(kind, serial), Some(entry))
                    if (kind, serial) == (entry.kind, entry.serial) =>
                {
                    self.record(machine, &path, entry, true).ok()
                }
                _ => None,
            };
            releases.extend(record);
        }
        releases
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
                let (kind, natural, replaces_host) = match &inode.node {
                    Node::File(file) => (Kind::File, host.is_some() && file.host == host, false),
                    Node::Directory(child) => {
                        waiting.push((path.clone(), id));
                        (Kind::Directory, child.host.is_some(), child.replaces_host)
                    }
                    Node::Link(target) => {
                        let same = host.and_then(|path| self.host.node(path.mount, &path.path))
                            == Some(HostNode::Link {
                                target: target.clone(),
                            });
                        (Kind::Link, same, false)
                    }
                    _ => continue,
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
        let mut gone: Vec<String> = hidden
            .iter()
            .filter(|path| known.get(*path) != Some(&Known::Removed))
            .cloned()
            .collect();
        for (path, &state) in known.iter() {
            let Known::Present(kind, _) = state else {
                continue;
            };
            let replaced = found.get(path).is_none_or(|entry| entry.kind != kind);
            if replaced && !gone.contains(path) {
                gone.push(path.clone());
            }
        }
        for (path, entry) in found {
            let told = known.get(path) == Some(&Known::Present(entry.kind, entry.serial));
            if entry.replaces_host && !told && !gone.contains(path) {
                gone.push(path.clone());
            }
        }
        gone.sort();
        gone.into_iter()
            .rev()
            .map(|path| {
                known.insert(path.clone(), Known::Removed);
                Release::Removed { path }
            })
            .collect()
    }

    fn release_entry(
        &mut self,
        machine: &mut dyn Machine,
        path: &str,
        entry: &Found,
    ) -> Result<Option<Release>, Errno> {
        let before = self.released.known.get(path).copied();
        let now = Known::Present(entry.kind, entry.serial);
        let told = before == Some(now);
        // The outside has it from the start.
        let original = before.is_none() && entry.natural;
        let (whole, untouched) = match entry.kind {
            Kind::File => {
                let file = self.files.file(entry.id)?;
                let untouched = (told || original) && !file.changed;
                (!told || file.shrunk, untouched)
            }
            Kind::Directory | Kind::Link => (true, told || original),
        };
        if untouched {
            return Ok(None);
        }
        let release = self.record(machine, path, entry, whole)?;
        self.released.known.insert(path.to_owned(), now);
        Ok(Some(release))
    }

    /// The record of what stands at a path.
    fn record(
        &mut self,
        machine: &mut dyn Machine,
        path: &str,
        entry: &Found,
        whole: bool,
    ) -> Result<Release, Errno> {
        match (entry.kind, &self.files.inode(entry.id)?.node) {
            (Kind::Directory, _) => Ok(Release::Directory {
                path: path.to_owned(),
            }),
            (Kind::Link, Node::Link(target)) => Ok(Release::Link {
                path: path.to_owned(),
                target: target.clone(),
            }),
            (Kind::Link, _) => Err(Errno::EIO),
            (Kind::File, _) => self.file_record(machine, path, entry.id, whole),
        }
    }

    /// A file's record.
    fn file_record(
        &mut self,
        machine: &mut dyn Machine,
        path: &str,
        id: InodeId,
        whole: bool,
    ) -> Result<Release, Errno> {
        let file = self.files.file(id)?;
        let size = file.size;
        let below = if whole {
            file.host_bytes.div_ceil(PAGE_BYTES)
        } else {
            0
        };
        let held = self.files.held_pages(id)?;
        let mut pages: Vec<u64> = (0..below).collect();
        pages.extend(
            held.iter()
                .filter(|(page, entry)| *page >= below && (whole || entry & PAGE_DIRTY != 0))
                .map(|(page, _)| *page),
        );
        let mut pieces = Vec::new();
        let mut rest = pages.as_slice();
        while let Some(&first) = rest.first() {
            let run = rest
                .iter()
                .zip(first..first + PIECE_PAGES_MAX)
                .take_while(|(page, expected)| **page == *expected)
                .count();
            rest = &rest[run..];
            let offset = first * PAGE_BYTES;
            let bytes = self.read_file(machine, id, offset, run as u64 * PAGE_BYTES)?;
            if !bytes.is_empty() {
                pieces.push((offset, bytes));
            }
        }
        let mode = self.files.inode(id)?.mode;
        Ok(Release::File {
            path: path.to_owned(),
            size,
            mode,
            whole,
            pieces,
        })
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
