//! Descriptors and the open files behind them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::pipe::{EventCounter, Pipe, Traits};
use super::terminal::Terminal;
use super::watch::Watching;
use super::{FileSystem, InodeId, Node};
use crate::errno::Errno;
use crate::net::Sockets;
use crate::process::ProcessId;
use crate::signal::SignalFile;
use crate::timers::TimerFile;

pub(crate) const O_ACCMODE: u32 = 0o3;
pub(crate) const O_RDONLY: u32 = 0;
pub(crate) const O_WRONLY: u32 = 0o1;
pub(crate) const O_RDWR: u32 = 0o2;
pub(crate) const O_CREAT: u32 = 0o100;
pub(crate) const O_EXCL: u32 = 0o200;
pub(crate) const O_TRUNC: u32 = 0o1000;
pub(crate) const O_APPEND: u32 = 0o2000;
pub(crate) const O_NONBLOCK: u32 = 0o4000;
/// Each write is durable before it is answered; a part of `O_SYNC`.
pub(crate) const O_DSYNC: u32 = 0o10000;
/// The file's owner is told when something came.
pub(crate) const O_ASYNC: u32 = 0o20000;
pub(crate) const O_DIRECT: u32 = 0o40_000;
pub(crate) const O_DIRECTORY: u32 = 0o200_000;
pub(crate) const O_NOCTTY: u32 = 0o400;
pub(crate) const O_NOFOLLOW: u32 = 0o400_000;
pub(crate) const O_CLOEXEC: u32 = 0o2_000_000;
pub(crate) const O_PATH: u32 = 0o10_000_000;
/// Always with [`O_DIRECTORY`].
pub(crate) const O_TMPFILE: u32 = 0o20_000_000;

/// What an open file is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Object {
    Inode(InodeId),
    /// A report's text, written when it was opened.
    Text {
        inode: InodeId,
        text: Vec<u8>,
    },
    PipeReader(u32),
    PipeWriter(u32),
    Event(u32),
    Poller(u32),
    /// A FIFO, for as much as the open file may do.
    Fifo {
        pipe: u32,
        inode: InodeId,
        /// Opened for reading, without waiting, when it had been opened so often for writing:
        /// the end of writers that never were is no event.
        before: Option<u32>,
    },
    Timer(u32),
    Signals(u32),
    /// `inotify`.
    Watcher(u32),
    /// An end of a pseudo-terminal.
    Terminal {
        terminal: u32,
        inode: InodeId,
        master: bool,
    },
    Socket(u32),
    /// A process, by `pidfd_open`.
    Process(ProcessId),
    /// A message queue of POSIX.
    Queue(u32),
}

impl Object {
    /// True if nobody opens it by a path, and what is in it has no order: every place in it is the first.
    pub fn has_no_place(&self) -> bool {
        matches!(
            self,
            Object::Event(_)
                | Object::Poller(_)
                | Object::Timer(_)
                | Object::Signals(_)
                | Object::Watcher(_)
        )
    }
}

/// `flock` on an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Lock {
    None,
    Shared,
    Exclusive,
}

/// One entry of a directory listing under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ListedName {
    pub name: String,
    pub inode: u64,
    pub kind: u8,
}

/// An open file; descriptors made by `dup` share it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenFile {
    pub object: Object,
    pub offset: u64,
    /// Access mode and status flags.
    pub flags: u32,
    pub references: u32,
    pub path: String,
    pub lock: Lock,
    /// The listing that `getdents64` walks; taken anew at offset 0.
    pub listing: Vec<ListedName>,
}

impl OpenFile {
    pub fn new(object: Object, flags: u32, path: String) -> Self {
        Self {
            object,
            offset: 0,
            flags,
            references: 1,
            path,
            lock: Lock::None,
            listing: Vec::new(),
        }
    }

    pub fn inode(&self) -> Option<InodeId> {
        match self.object {
            Object::Inode(inode)
            | Object::Text { inode, .. }
            | Object::Fifo { inode, .. }
            | Object::Terminal { inode, .. } => Some(inode),
            _ => None,
        }
    }

    /// Under what its record locks stand, given its index: both ends of a pipe have one name, and what else
    /// has no inode is named by itself. No inode has such a number.
    pub fn lock_name(&self, index: u32) -> InodeId {
        self.inode().unwrap_or(InodeId(match self.object {
            Object::PipeReader(pipe) | Object::PipeWriter(pipe) => u32::MAX - 2 * pipe,
            _ => u32::MAX - 2 * index - 1,
        }))
    }

    pub fn readable(&self) -> bool {
        matches!(self.flags & O_ACCMODE, O_RDONLY | O_RDWR) && self.flags & O_PATH == 0
    }

    pub fn writable(&self) -> bool {
        matches!(self.flags & O_ACCMODE, O_WRONLY | O_RDWR) && self.flags & O_PATH == 0
    }

    pub fn nonblocking(&self) -> bool {
        self.flags & O_NONBLOCK != 0
    }
}

/// One interest of an epoll instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Interest {
    pub events: u32,
    pub data: u64,
    /// The activity count at the last report, for edge-triggered interests.
    pub reported: Option<u64>,
    /// Set by `EPOLLONESHOT` after a report.
    pub disabled: bool,
}

/// An epoll instance: interests by descriptor and open file, as the same number can stand for
/// different files in different processes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Poller {
    pub interests: BTreeMap<(u32, u32), Interest>,
}

/// A descriptor of the process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Descriptor {
    pub file: u32,
    pub close_on_exec: bool,
}

/// A table whose entries keep their numbers; the lowest free number is given out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Table<T> {
    pub entries: Vec<Option<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
        }
    }
}

impl<T> Table<T> {
    pub fn insert_from(&mut self, lowest: usize, value: T) -> u32 {
        while self.entries.len() < lowest {
            self.entries.push(None);
        }
        if let Some(index) =
            (lowest..self.entries.len()).find(|&index| self.entries[index].is_none())
        {
            self.entries[index] = Some(value);
            index as u32
        } else {
            self.entries.push(Some(value));
            (self.entries.len() - 1) as u32
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn insert(&mut self, value: T) -> u32 {
        self.insert_from(0, value)
    }

    pub fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    pub fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.entries.get_mut(index as usize)?.take();
        while self.entries.last().is_some_and(Option::is_none) {
            self.entries.pop();
        }
        value
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(index, entry)| Some((index as u32, entry.as_ref()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let entries = self.entries.iter_mut().enumerate();
        entries.filter_map(|(index, entry)| Some((index as u32, entry.as_mut()?)))
    }
}

/// Descriptors that a process may have if its limit allows it.
pub(crate) const DESCRIPTORS_MAX: usize = 4096;

/// Open files that there may be.
pub(crate) const FILES_MAX: usize = 16_384;

impl Table<Descriptor> {
    pub fn descriptor(&self, number: u64) -> Result<Descriptor, Errno> {
        let number = u32::try_from(number as i32).map_err(|_| Errno::EBADF)?;
        self.get(number).copied().ok_or(Errno::EBADF)
    }

    /// True if there is no number left below `most`.
    pub fn is_full(&self, most: usize) -> bool {
        (0..most).all(|index| self.get(index as u32).is_some())
    }

    /// Puts a descriptor at the lowest free number from `lowest`, below `most`.
    pub fn install(
        &mut self,
        lowest: usize,
        descriptor: Descriptor,
        most: usize,
    ) -> Result<u32, Errno> {
        let used = |index: usize| self.get(index as u32).is_some();
        if (lowest..most).all(used) {
            return Err(Errno::EMFILE);
        }
        Ok(self.insert_from(lowest, descriptor))
    }
}

/// Everything that the processes have open; descriptors of several may share an open file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OpenFiles {
    pub files: Table<OpenFile>,
    pub pipes: Table<Pipe>,
    pub events: Table<EventCounter>,
    pub pollers: Table<Poller>,
    /// Saved apart, as few programs have some.
    #[serde(skip)]
    pub traits: Traits,
    #[serde(skip)]
    pub timer_files: Table<TimerFile>,
    #[serde(skip)]
    pub signal_files: Table<SignalFile>,
    #[serde(skip)]
    pub terminals: Table<Terminal>,
    #[serde(skip)]
    pub watching: Watching,
}

impl OpenFiles {
    /// True if somebody has a file open for writing.
    pub fn is_written(&self, inode: InodeId) -> bool {
        let mut files = self.files.iter().map(|(_, file)| file);
        files.any(|file| file.inode() == Some(inode) && file.writable())
    }

    /// True if an open file is a changed object, or an epoll instance that watches one.
    pub fn shows(&self, file: u32, changed: &impl Fn(&Object) -> bool) -> bool {
        match self.files.get(file).map(|file| &file.object) {
            Some(Object::Poller(id)) => (self.pollers.get(*id)).is_some_and(|poller| {
                let mut watched = poller.interests.keys();
                watched.any(|&(_, file)| self.shows(file, changed))
            }),
            Some(object) => changed(object),
            None => false,
        }
    }

    /// A descriptor below `most` for a new open file.
    pub fn open(
        &mut self,
        descriptors: &mut Table<Descriptor>,
        file: OpenFile,
        close_on_exec: bool,
        most: usize,
    ) -> Result<u32, Errno> {
        if self.files.iter().count() >= FILES_MAX {
            let full = descriptors.is_full(most);
            return Err(if full { Errno::EMFILE } else { Errno::ENFILE });
        }
        let file = self.files.insert(file);
        let descriptor = Descriptor {
            file,
            close_on_exec,
        };
        let installed = descriptors.install(0, descriptor, most);
        if installed.is_err() {
            self.files.remove(file);
        }
        installed
    }

    /// True if some open file stands for this process.
    pub fn watches_process(&self, process: ProcessId) -> bool {
        let stands = |file: &OpenFile| matches!(file.object, Object::Process(id) if id == process);
        self.files.iter().any(|(_, file)| stands(file))
    }

    /// True if this inode is the slave end of a terminal whose master is open, whatever became of its
    /// name.
    pub fn is_slave_of_master(&self, inode: InodeId) -> bool {
        let mut terminals = self.terminals.iter();
        terminals.any(|(_, terminal)| terminal.has_master && terminal.inode == inode)
    }

    /// True if some open file is this inode.
    pub fn holds_inode(&self, inode: InodeId) -> bool {
        self.files
            .iter()
            .any(|(_, file)| file.inode() == Some(inode))
    }

    /// Every reference names something that exists; an error says what does not. `holders` are the
    /// files of all descriptors of all processes, and of messages under way.
    pub fn validate(
        &self,
        files: &FileSystem,
        sockets: &Sockets,
        held: impl Iterator<Item = u32>,
    ) -> Result<(), &'static str> {
        let mut holders = vec![0_u32; self.files.entries.len()];
        for file in held {
            if self.files.get(file).is_none() {
                return Err("a descriptor or message names no open file");
            }
            holders[file as usize] += 1;
        }
        for (index, file) in self.files.iter() {
            let holders = holders[index as usize];
            if file.references != holders || holders == 0 {
                return Err("an open file has the wrong number of descriptors");
            }
            let exists = match &file.object {
                Object::Inode(id) | Object::Text { inode: id, .. } => files.inode(*id).is_ok(),
                Object::PipeReader(id) => self.pipes.get(*id).is_some_and(|p| p.readers > 0),
                Object::PipeWriter(id) => self.pipes.get(*id).is_some_and(|p| p.writers > 0),
                Object::Event(id) => self.events.get(*id).is_some(),
                Object::Poller(id) => self.pollers.get(*id).is_some(),
                // Looked at elsewhere.
                Object::Timer(_)
                | Object::Signals(_)
                | Object::Watcher(_)
                | Object::Process(_)
                | Object::Queue(_) => true,
                Object::Terminal { inode, .. } => files.inode(*inode).is_ok(),
                Object::Fifo { pipe, inode, .. } => {
                    let traits = self.traits.get(pipe);
                    traits.is_some_and(|traits| traits.fifo == Some(*inode))
                }
                Object::Socket(id) => sockets.get(*id).is_ok(),
            };
            if !exists {
                return Err("an open file names nothing that exists");
            }
        }
        self.validate_pipes(files)
    }

    /// FIFOs have their ends, and pieces of pipes make up their bytes.
    fn validate_pipes(&self, files: &FileSystem) -> Result<(), &'static str> {
        let mut inodes = std::collections::BTreeSet::new();
        for (id, traits) in &self.traits {
            let Some(pipe) = self.pipes.get(*id) else {
                return Err("a pipe that does not exist has traits");
            };
            let pieces: u64 = traits.pieces.iter().map(|p| u64::from(p.length)).sum();
            let whole = traits.pieces.is_empty() || pieces == pipe.bytes.len() as u64;
            let fits = traits.capacity() >= 4096 && traits.capacity() <= 1 << 20;
            if !whole || !fits || traits.pieces.iter().any(|piece| piece.length == 0) {
                return Err("the pieces of a pipe are wrong");
            }
            let Some(inode) = traits.fifo else { continue };
            let is_fifo = (files.inode(inode)).is_ok_and(|inode| matches!(inode.node, Node::Fifo));
            let ends = |counts: fn(&OpenFile) -> bool| {
                let all = self.files.iter().map(|(_, file)| file);
                let own = all.filter(|file| {
                    matches!(&file.object, Object::Fifo { pipe, inode: i, .. } if pipe == id && *i == inode)
                });
                own.filter(|file| counts(file)).count() as u64
            };
            let readers = ends(OpenFile::readable);
            let writers = ends(OpenFile::writable);
            let counted = (u64::from(pipe.readers), u64::from(pipe.writers));
            if !is_fifo || (readers, writers) != counted || !inodes.insert(inode) {
                return Err("a FIFO has the wrong ends");
            }
        }
        Ok(())
    }

    /// How many bytes a pipe can still take.
    pub fn pipe_room(&self, id: u32) -> usize {
        let pipe = self.pipes.get(id);
        pipe.map_or(0, |pipe| pipe.room(self.traits.get(&id)))
    }

    /// The pipe of a FIFO that somebody has open.
    pub fn pipe_of_fifo(&self, inode: InodeId) -> Option<u32> {
        let mut traits = self.traits.iter();
        traits
            .find(|(_, traits)| traits.fifo == Some(inode))
            .map(|(&id, _)| id)
    }
}
