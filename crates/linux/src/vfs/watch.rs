//! Watching files: who is told of what happens in the tree (`inotify`).
//!
//! Always true: a watch names an inode that exists; it goes when the inode does, and says so. Events
//! wait in the order in which things happened, each told once if the same happens again at once.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::InodeId;
use super::descriptor::Table;
use super::spelling::bytes_of;
use crate::kernel::Kernel;

pub(crate) const IN_ACCESS: u32 = 1;
pub(crate) const IN_MODIFY: u32 = 2;
pub(crate) const IN_ATTRIB: u32 = 4;
pub(crate) const IN_CLOSE_WRITE: u32 = 8;
pub(crate) const IN_CLOSE_NOWRITE: u32 = 0x10;
pub(crate) const IN_OPEN: u32 = 0x20;
pub(crate) const IN_MOVED_FROM: u32 = 0x40;
pub(crate) const IN_MOVED_TO: u32 = 0x80;
pub(crate) const IN_CREATE: u32 = 0x100;
pub(crate) const IN_DELETE: u32 = 0x200;
const IN_DELETE_SELF: u32 = 0x400;
pub(crate) const IN_MOVE_SELF: u32 = 0x800;
/// Every event that can be asked for.
pub(crate) const IN_ALL_EVENTS: u32 = 0xfff;
const IN_Q_OVERFLOW: u32 = 0x4000;
const IN_IGNORED: u32 = 0x8000;
const IN_EXCL_UNLINK: u32 = 0x0400_0000;
const IN_ISDIR: u32 = 0x4000_0000;
const IN_ONESHOT: u32 = 0x8000_0000;

/// Events that wait at one open file.
const EVENTS_MAX: usize = 16_384;
/// Open files that watch, and what they watch together.
pub(crate) const WATCHERS_MAX: usize = 128;
pub(crate) const WATCHES_MAX: usize = 65_536;

/// What is watched, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Watch {
    pub inode: InodeId,
    pub mask: u32,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub watch: i32,
    pub mask: u32,
    /// Joins the two halves of a move.
    pub cookie: u32,
    pub name: String,
}

impl Event {
    /// `struct inotify_event`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let name = bytes_of(&self.name);
        let padded = match name.len() {
            0 => 0,
            length => (length + 1).next_multiple_of(16),
        };
        let mut bytes = Vec::with_capacity(16 + padded);
        bytes.extend(self.watch.to_le_bytes());
        bytes.extend(self.mask.to_le_bytes());
        bytes.extend(self.cookie.to_le_bytes());
        bytes.extend((padded as u32).to_le_bytes());
        bytes.extend(name.iter());
        bytes.resize(16 + padded, 0);
        bytes
    }
}

/// An open file that watches.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Watcher {
    pub watches: BTreeMap<u32, Watch>,
    /// The last number that a watch was given.
    pub last: u32,
    pub events: VecDeque<Event>,
    /// Counts changes.
    pub activity: u64,
}

impl Watcher {
    fn queue(&mut self, event: Event) {
        if self.events.back() == Some(&event) && event.mask & IN_IGNORED == 0 {
            return;
        }
        self.activity += 1;
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else if self.events.len() == EVENTS_MAX {
            self.events.push_back(Event {
                watch: -1,
                mask: IN_Q_OVERFLOW,
                cookie: 0,
                name: String::new(),
            });
        }
    }

    /// Ends a watch.
    pub fn forget(&mut self, number: u32) -> bool {
        let known = self.watches.remove(&number).is_some();
        if known {
            self.queue(Event {
                watch: number as i32,
                mask: IN_IGNORED,
                cookie: 0,
                name: String::new(),
            });
        }
        known
    }

    /// Something happened to an inode; `unlinked` if by a name that it no longer has.
    fn tell(&mut self, inode: InodeId, mask: u32, cookie: u32, name: &str, unlinked: bool) -> bool {
        let meets = |watch: &Watch| {
            let counts = !unlinked || watch.mask & IN_EXCL_UNLINK == 0;
            watch.inode == inode && watch.mask & mask & IN_ALL_EVENTS != 0 && counts
        };
        let watches = self.watches.iter();
        let found: Vec<(u32, Watch)> = watches
            .filter(|(_, watch)| meets(watch))
            .map(|(&number, &watch)| (number, watch))
            .collect();
        for &(number, watch) in &found {
            self.queue(Event {
                watch: number as i32,
                mask,
                cookie,
                name: name.to_owned(),
            });
            if watch.mask & IN_ONESHOT != 0 {
                self.forget(number);
            }
        }
        !found.is_empty()
    }
}

/// All that watch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Watching {
    pub watchers: Table<Watcher>,
    /// The last cookie that was given.
    pub cookie: u32,
}

impl Watching {
    pub fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }
}

impl Kernel {
    fn is_directory(&self, inode: InodeId) -> bool {
        let found = self.files.inode(inode);
        found.is_ok_and(super::Inode::is_directory)
    }

    fn tell_watchers(&mut self, inode: InodeId, mask: u32, cookie: u32, name: &str, gone: bool) {
        let mut any = false;
        for (_, watcher) in self.open.watching.watchers.iter_mut() {
            any |= watcher.tell(inode, mask, cookie, name, gone);
        }
        if any {
            self.wake_all_file_waiters();
        }
    }

    /// Something happened to an inode itself. That it moved is all that Linux says of a directory that did.
    pub(crate) fn notify_inode(&mut self, inode: InodeId, mask: u32) {
        if self.open.watching.is_empty() {
            return;
        }
        let directory = if self.is_directory(inode) && mask != IN_MOVE_SELF {
            IN_ISDIR
        } else {
            0
        };
        self.tell_watchers(inode, mask | directory, 0, "", false);
    }

    /// Something happened to a name in a directory, which is that of `inode`.
    pub(crate) fn notify_name(
        &mut self,
        directory: InodeId,
        name: &str,
        inode: InodeId,
        mask: u32,
        cookie: u32,
    ) {
        if self.open.watching.is_empty() {
            return;
        }
        let kind = if self.is_directory(inode) {
            IN_ISDIR
        } else {
            0
        };
        self.tell_watchers(directory, mask | kind, cookie, name, false);
    }

    /// The mask for a name of an inode that may be gone when it is told.
    pub(crate) fn notice_of_name(&self, inode: InodeId, mask: u32) -> u32 {
        mask | if self.is_directory(inode) {
            IN_ISDIR
        } else {
            0
        }
    }

    /// Something with such a mask happened to a name in a directory.
    pub(crate) fn notify_of(&mut self, directory: InodeId, name: &str, mask: u32) {
        if !self.open.watching.is_empty() {
            self.tell_watchers(directory, mask, 0, name, false);
        }
    }

    /// Something happened to a file that was found by a path: the directory that holds it is told its
    /// name, and who watches the file itself.
    pub(crate) fn notify_file(&mut self, inode: InodeId, path: &str, mask: u32) {
        if self.open.watching.is_empty() {
            return;
        }
        let kind = if self.is_directory(inode) {
            IN_ISDIR
        } else {
            0
        };
        let watchers = self.open.watching.watchers.iter();
        let mut watched: Vec<InodeId> = watchers
            .flat_map(|(_, watcher)| watcher.watches.values().map(|watch| watch.inode))
            .collect();
        watched.sort_unstable();
        watched.dedup();
        for directory in watched {
            let Ok(node) = self.files.directory(directory) else {
                continue;
            };
            let (before, last) = path.rsplit_once('/').unwrap_or(("", path));
            let hinted = node.entries.get(last) == Some(&Some(inode));
            let mut entries = node.entries.iter();
            let name = if hinted {
                Some(last.to_owned())
            } else {
                let found = entries.find(|(_, id)| **id == Some(inode));
                found.map(|(name, _)| name.clone())
            };
            let unlinked = name.is_none();
            let stood = unlinked && {
                let place = self.files.directory_path(directory);
                place.trim_end_matches('/') == before
            };
            if let Some(name) = name.or_else(|| stood.then(|| last.to_owned())) {
                self.tell_watchers(directory, mask | kind, 0, &name, unlinked);
            }
        }
        self.tell_watchers(inode, mask | kind, 0, "", false);
    }

    /// An inode is gone: who watched it is told for the last time.
    pub(crate) fn forget_watches(&mut self, inode: InodeId) {
        if self.open.watching.is_empty() {
            return;
        }
        // Linux does not say here that it was a directory.
        self.tell_watchers(inode, IN_DELETE_SELF, 0, "", false);
        for (_, watcher) in self.open.watching.watchers.iter_mut() {
            let watches = watcher.watches.iter();
            let own = watches.filter(|(_, watch)| watch.inode == inode);
            let own: Vec<u32> = own.map(|(&number, _)| number).collect();
            for number in own {
                watcher.forget(number);
            }
        }
        self.wake_all_file_waiters();
    }

    /// A cookie for a move.
    pub(crate) fn next_cookie(&mut self) -> u32 {
        let watching = &mut self.open.watching;
        if !watching.is_empty() {
            watching.cookie = watching.cookie.wrapping_add(1);
        }
        watching.cookie
    }

    /// What is watched exists.
    pub(crate) fn validate_watches(&self) -> Result<(), &'static str> {
        for (_, watcher) in self.open.watching.watchers.iter() {
            let exists = |watch: &Watch| self.files.inode(watch.inode).is_ok();
            let numbered = watcher.watches.keys().all(|&n| n > 0 && n <= watcher.last);
            let fits = watcher.events.len() <= EVENTS_MAX + 1;
            let names = watcher.events.iter().all(|event| event.name.len() < 256);
            let known = watcher.watches.values().all(exists) && i32::try_from(watcher.last).is_ok();
            if !known || !numbered || !fits || !names {
                return Err("a watch is impossible");
            }
        }
        let known = |file: &super::descriptor::OpenFile| match file.object {
            super::descriptor::Object::Watcher(id) => self.open.watching.watchers.get(id).is_some(),
            _ => true,
        };
        if self.open.files.iter().all(|(_, file)| known(file)) {
            Ok(())
        } else {
            Err("an open file that watches does not exist")
        }
    }
}
