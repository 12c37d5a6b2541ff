//! Open files that are closed, and spaces that are left.
//!
//! Always true: what an open file stands for goes with its last holder, be that a descriptor, a message
//! on its way or a request; and whoever waits for something of it learns that it is gone.

use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, SpaceId};
use crate::owners;
use crate::page_table::ALL_PAGES;
use crate::process::ProcessId;
use crate::vfs::descriptor::{Lock, O_PATH, Object, OpenFile};
use crate::vfs::locks::{self, LockOwner};
use crate::vfs::watch::{IN_CLOSE_NOWRITE, IN_CLOSE_WRITE};

impl Kernel {
    /// Lets go of a space on behalf of one of the processes that live in it.
    pub(crate) fn leave_space(&mut self, machine: &mut dyn Machine, space: SpaceId) {
        let users = &mut self.spaces[space].users;
        *users -= 1;
        if *users > 0 {
            return;
        }
        self.end_request_contexts_of(space);
        self.rare.future_locks.remove(&space);
        self.rare.small_pages.remove(&space);
        self.rare.barriers.remove(&space);
        let mappings = self.spaces.remove(space, &mut self.frames);
        for mapping in mappings.values() {
            if let Some(inode) = mapping.inode() {
                self.free_inode_if_unused(inode);
            }
        }
        // The number may soon name another space.
        machine.mappings_changed(space, ALL_PAGES, true);
    }

    /// The open file behind a descriptor of a process.
    pub(crate) fn open_file(&self, process: ProcessId, number: u64) -> Result<&OpenFile, Errno> {
        let descriptor = self.processes[process].descriptors.descriptor(number)?;
        self.open.files.get(descriptor.file).ok_or(Errno::EBADF)
    }

    /// Closes a descriptor of a process, and with it the process's record locks on the file.
    pub(crate) fn close(&mut self, process: ProcessId, number: u32) -> Result<(), Errno> {
        let descriptors = &mut self.processes[process].descriptors;
        let file = descriptors.remove(number).ok_or(Errno::EBADF)?.file;
        let name = self.open.files.get(file).map(|open| open.lock_name(file));
        if name.is_some() && locks::release(&mut self.locks, LockOwner::process(process), name) {
            self.wake_all_file_waiters();
        }
        self.forget_request(process, file);
        let program = self.processes[process].program;
        self.close_file(program, file);
        Ok(())
    }

    /// One descriptor less for an open file of a program.
    pub(crate) fn close_file(&mut self, program: u32, index: u32) {
        let mut dropped = Vec::new();
        self.close_one(program, index, &mut dropped);
        if !self.rare.sockets.is_empty() {
            dropped.extend(self.unreachable_flights());
            self.close_files(dropped);
        }
    }

    /// One holder less for each of some open files that messages held.
    pub(crate) fn close_files(&mut self, mut files: Vec<u32>) {
        while let Some(index) = files.pop() {
            self.close_one(0, index, &mut files);
        }
    }

    /// One holder less for an open file; `dropped` gets the files that were on their way to it.
    fn close_one(&mut self, program: u32, index: u32, dropped: &mut Vec<u32>) {
        let Some(file) = self.open.files.get_mut(index) else {
            return;
        };
        file.references -= 1;
        if file.references > 0 {
            return;
        }
        for (_, poller) in self.open.pollers.iter_mut() {
            poller.interests.retain(|(_, file), _| *file != index);
        }
        let Some(file) = self.open.files.remove(index) else {
            return;
        };
        self.rare.owners.remove(&index);
        if let Some(inode) = file.inode()
            && file.flags & O_PATH == 0
        {
            let mask = if file.writable() {
                IN_CLOSE_WRITE
            } else {
                IN_CLOSE_NOWRITE
            };
            self.notify_file(inode, &file.path, mask);
        }
        if !self.locks.is_empty()
            && locks::release(&mut self.locks, LockOwner::open_file(index), None)
        {
            self.wake_all_file_waiters();
        }
        match file.object {
            Object::Inode(inode) | Object::Text { inode, .. } => {
                self.free_inode_if_unused(inode);
                // Nobody waits for a file, but for its lock.
                if file.lock != Lock::None {
                    self.wake_all_file_waiters();
                }
                return;
            }
            Object::PipeReader(id) => self.close_pipe(id, true),
            Object::PipeWriter(id) => self.close_pipe(id, false),
            Object::Fifo { pipe, inode, .. } => {
                if file.readable() {
                    self.close_pipe(pipe, true);
                }
                if file.writable() {
                    self.close_pipe(pipe, false);
                }
                self.free_inode_if_unused(inode);
                self.wake_all_file_waiters();
                return;
            }
            Object::Event(id) => {
                self.open.events.remove(id);
            }
            Object::Poller(id) => {
                self.remove_poller(id);
            }
            Object::Terminal {
                terminal,
                inode,
                master,
            } => {
                self.close_terminal(terminal, inode, master);
                return;
            }
            Object::Watcher(id) => {
                self.open.watching.watchers.remove(id);
            }
            Object::Timer(id) => {
                self.open.timer_files.remove(id);
            }
            Object::Signals(id) => {
                self.open.signal_files.remove(id);
            }
            Object::Socket(id) => {
                self.close_socket(id, dropped);
                return;
            }
            Object::Process(_) => {}
            Object::Queue(id) => {
                self.free_queue_if_unused(id);
                return;
            }
        }
        self.wake_file_waiters(program);
    }

    fn close_pipe(&mut self, id: u32, reader: bool) {
        let Some(pipe) = self.open.pipes.get_mut(id) else {
            return;
        };
        let ends = if reader {
            &mut pipe.readers
        } else {
            &mut pipe.writers
        };
        *ends = ends.saturating_sub(1);
        let ended = *ends == 0;
        pipe.activity += 1;
        if pipe.readers == 0 && pipe.writers == 0 {
            self.open.pipes.remove(id);
            self.open.traits.remove(&id);
        }
        // The other ends learn that they are alone.
        if ended {
            self.tell_owners(|file| owners::is_end_of(file, id, !reader));
        }
    }
}
