//! Whether a kernel that was restored can be one: every reference names something that exists, and every
//! count is right.
//!
//! Always true: bytes that pass here make no part of the kernel fail later, whoever wrote them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::kernel::Kernel;
use crate::limits::LIMITS;
use crate::machine::ThreadId;
use crate::page_table::frame_of;
use crate::process::ProcessId;
use crate::signal::{SIGNAL_MAX, SignalInfo};
use crate::syscalls::control::LIFETIME_MAX;
use crate::thread::{FutexKey, ThreadState, Wait};
use crate::vfs::content::FILE_BYTES_MAX;
use crate::vfs::inode::{CHUNK_PAGES, Device, Node, PAGE_FRAME_SHIFT, PAGE_PRESENT, ProcessLink};

impl Kernel {
    /// Everything that is named exists, and every count is right.
    pub(crate) fn validate(&self) -> Result<(), &'static str> {
        if !(1..=1024).contains(&self.settings.harts) || self.scheduler.running.len() > 1024 {
            return Err("the number of harts is impossible");
        }
        self.validate_programs()?;
        self.validate_spaces()?;
        self.validate_files()?;
        let processes = self.processes.live.values();
        let descriptors = processes.flat_map(|process| process.descriptors.iter());
        let descriptors = descriptors.map(|(_, descriptor)| descriptor.file);
        let held = self.rare.asynchronous.held_files();
        let holders = (descriptors.chain(self.rare.sockets.files_in_flight())).chain(held);
        self.open
            .validate(&self.files, &self.rare.sockets, holders)?;
        self.rare.sockets.validate(&self.files, &self.open)?;
        self.validate_frames()?;
        self.validate_processes()?;
        self.validate_jobs()?;
        self.validate_timers()?;
        self.validate_terminals()?;
        self.validate_watches()?;
        self.validate_rare()?;
        self.validate_threads()
    }

    /// What few programs have is about threads and files that exist.
    fn validate_rare(&self) -> Result<(), &'static str> {
        let rare = &self.rare;
        let waiting = |id| rare.sockets.get(id).map_or(0, |socket| socket.queue.len());
        if !rare.arrivals.is_valid(waiting) {
            return Err("more is known of datagrams than there are");
        }
        let bound = rare.affinities.keys().chain(rare.restraints.keys());
        let mut threads = (rare.wishes.keys().chain(rare.lock_waits.keys())).chain(bound);
        if !threads.all(|id| self.threads.contains_key(id)) {
            return Err("a thread that is gone wishes, waits for or is bound to something");
        }
        let mut bound = rare.affinities.values();
        if !bound.all(|harts| harts.is_some_of(self.settings.harts)) {
            return Err("a thread is bound to a hart that is not there");
        }
        let mut reapers = rare.reapers.iter();
        if !reapers.all(|&id| self.processes.get(id).is_some()) {
            return Err("a process that is gone has orphans");
        }
        let mut wishes = rare.wishes.values();
        if !wishes.all(|wishes| wishes.death_signal <= SIGNAL_MAX) {
            return Err("a signal has an impossible number");
        }
        let mut pollers = rare.epoll_turns.keys();
        if !pollers.all(|&id| self.open.pollers.get(id).is_some()) {
            return Err("an epoll instance that is gone has reported something");
        }
        let spaces = rare.future_locks.iter().chain(&rare.small_pages);
        let mut spaces = spaces.chain(&rare.barriers);
        if !spaces.all(|&id| self.spaces.get(id).is_some()) {
            return Err("memory is locked, has small pages or barriers in a space that is gone");
        }
        let mut clones = rare.clones.iter();
        if !clones.all(|id| self.processes.zombies.contains_key(id)) {
            return Err("a process ended otherwise than others and is no zombie");
        }
        if !rare.seals.keys().all(|&id| self.files.file(id).is_ok()) {
            return Err("a seal is on no file");
        }
        let mut lifetimes = rare.lifetimes.iter();
        if !lifetimes.all(|(&id, &hint)| self.files.inode(id).is_ok() && hint <= LIFETIME_MAX) {
            return Err("what is written to a file that is not there lives, or impossibly long");
        }
        rare.system_v.validate(
            |id| self.files.file(id).is_ok(),
            |id| self.threads.contains_key(id),
        )?;
        self.validate_owners()?;
        self.validate_asynchronous()?;
        self.validate_attributes()?;
        self.validate_queues()
    }

    fn validate_programs(&self) -> Result<(), &'static str> {
        let programs = &self.settings.programs;
        let count = programs.len();
        let counts = [self.progress.len(), self.reports.len()];
        if !(1..=1024).contains(&count) || counts != [count; 2] || !self.output.is_valid(count) {
            return Err("there are records of too many or too few programs");
        }
        for (place, (progress, program)) in self.progress.iter().zip(programs).enumerate() {
            if progress.stdin_offset > program.input().len() as u64 {
                return Err("the position of standard input is wrong");
            }
            let next = progress.next_number;
            if next as usize % count != (place + 1) % count || next > 1 << 30 {
                return Err("the numbers of processes are wrong");
            }
        }
        Ok(())
    }

    /// True if a program may have given this number to a process or thread.
    fn number_is_of(&self, number: u32, program: u32) -> bool {
        let count = self.progress.len();
        let progress = self.progress.get(program as usize);
        progress.is_some_and(|progress| number > 0 && number < progress.next_number)
            && number as usize % count == (program as usize + 1) % count
    }

    fn validate_spaces(&self) -> Result<(), &'static str> {
        for (id, space) in self.spaces.iter() {
            space.validate()?;
            let users = self.processes.live.values();
            let users = users.filter(|process| process.space == id).count();
            if users == 0 || space.users as usize != users {
                return Err("an address space has the wrong number of processes");
            }
        }
        Ok(())
    }

    fn validate_processes(&self) -> Result<(), &'static str> {
        let signal_exists = |signal: u8| (1..=SIGNAL_MAX).contains(&signal);
        for process in self.processes.live.values() {
            if !self.number_is_of(process.id.0, process.program)
                || self.spaces.get(process.space).is_none()
                || self.files.directory(process.directory).is_err()
                || process.limits.len() != LIMITS
                || process.exit_signal > SIGNAL_MAX
            {
                return Err("a process is impossible");
            }
            let threads = self.threads_of(process.id);
            let threads = threads.iter().filter_map(|id| self.threads.get(id));
            let pending = threads.flat_map(|thread| &thread.pending);
            let mut infos: Vec<&SignalInfo> = pending.chain(&process.pending).collect();
            infos.retain(|info| !signal_exists(info.signal));
            if !infos.is_empty() || !process.actions.keys().copied().all(signal_exists) {
                return Err("a signal has an impossible number");
            }
            let buried_soon = self.dead.contains(&process.id) || self.exit.is_some();
            if self.threads_of(process.id).is_empty() && !buried_soon {
                return Err("a process has no threads");
            }
        }
        let ended = |id: &ProcessId| {
            let process = self.processes.get(*id);
            process.is_some_and(|process| process.ending.is_some())
                && self.threads_of(*id).is_empty()
        };
        let mut zombies = self.processes.zombies.iter();
        if !self.dead.iter().all(ended)
            || !zombies.all(|(id, zombie)| {
                self.number_is_of(id.0, zombie.program) && self.processes.get(*id).is_none()
            })
        {
            return Err("a process that ended is impossible");
        }
        Ok(())
    }

    fn validate_files(&self) -> Result<(), &'static str> {
        let files = &self.files;
        let mut free: Vec<_> = files.free.clone();
        free.sort_unstable();
        free.dedup();
        let is_free =
            |id: &crate::vfs::InodeId| files.inodes.get(id.0 as usize).is_some_and(Option::is_none);
        let empty = files.inodes.iter().filter(|inode| inode.is_none()).count();
        if free.len() != files.free.len() || free.len() != empty || !free.iter().all(is_free) {
            return Err("the list of free inodes is wrong");
        }
        let mut slots = BTreeSet::new();
        let count = files.page_lists.slots().len();
        let mut claims = |slot: u32| (slot as usize) < count && slots.insert(slot);
        for &slot in files.page_lists.free_slots() {
            if !claims(slot) || files.page_lists.get(slot).iter().any(|&word| word != 0) {
                return Err("the list of free page lists is wrong");
            }
        }
        for inode in files.inodes.iter().flatten() {
            match &inode.node {
                Node::File(file) => {
                    let sizes = file.size <= FILE_BYTES_MAX && file.host_bytes <= file.size;
                    let last = FILE_BYTES_MAX / (CHUNK_PAGES as u64 * 4096);
                    let held = file.chunks.iter().try_fold(0, |held, (&chunk, &slot)| {
                        let words = || files.page_lists.get(slot).iter();
                        let known = chunk <= last && claims(slot);
                        known.then(|| held + words().filter(|&&word| word != 0).count() as u64)
                    });
                    if !sizes || held != Some(file.pages_held) {
                        return Err("a file's size or pages are wrong");
                    }
                }
                Node::Directory(directory) => {
                    let exists = |id: &Option<crate::vfs::InodeId>| {
                        id.is_none_or(|id| files.inode(id).is_ok())
                    };
                    let parent = files.directory(directory.parent).is_ok();
                    if !directory.entries.values().all(exists) || !parent && inode.links > 0 {
                        return Err("a directory names something that does not exist");
                    }
                }
                Node::ProcessLink(ProcessLink::Namespace(target))
                    if !files.is_namespace(*target) =>
                {
                    return Err("a link leads to no namespace");
                }
                _ => {}
            }
        }
        self.validate_tree()
    }

    /// From the root, every directory is reached at most once.
    fn validate_tree(&self) -> Result<(), &'static str> {
        let files = &self.files;
        let mut reached = BTreeSet::from([files.root]);
        let mut waiting = vec![files.root];
        while let Some(id) = waiting.pop() {
            let directory = files
                .directory(id)
                .map_err(|_| "the root is not a directory")?;
            for &child in directory.entries.values().flatten() {
                if files.directory(child).is_ok() {
                    if !reached.insert(child) {
                        return Err("a directory stands at two places");
                    }
                    waiting.push(child);
                }
            }
        }
        let mounted = files
            .mounts
            .iter()
            .all(|mount| reached.contains(&mount.inode));
        let first = files.directory(self.settings.first_directory).is_ok();
        if mounted && first {
            Ok(())
        } else {
            Err("a mount or the first directory is missing")
        }
    }

    /// The holders of every frame are as many as its count says.
    fn validate_frames(&self) -> Result<(), &'static str> {
        let mut holders: BTreeMap<u64, u32> = BTreeMap::new();
        let regions = self.files.regions();
        for (id, _) in self.spaces.iter() {
            self.spaces.for_each_page(id, |_, leaf| {
                let beside = regions.iter().any(|one| one.contains(&frame_of(leaf)));
                if !beside {
                    *holders.entry(frame_of(leaf)).or_default() += 1;
                }
            });
        }
        for &word in self.files.page_lists.slots().as_flattened() {
            if word == 0 {
                continue;
            }
            let frame = word >> PAGE_FRAME_SHIFT;
            if word & PAGE_PRESENT == 0 || !self.frames.is_held(frame) {
                return Err("a page list names no frame in use");
            }
            *holders.entry(frame).or_default() += 1;
        }
        let right = holders
            .iter()
            .all(|(&frame, &count)| self.frames.holders(frame) == count);
        let used = self.frames.total() - self.frames.free();
        if !right || used != holders.len() as u64 {
            return Err("a frame has the wrong number of holders");
        }
        let spaces = self.spaces.slots().iter().flatten();
        let mapped = spaces
            .clone()
            .flat_map(|space| space.mappings.values())
            .filter_map(crate::address_space::Mapping::inode);
        let mut images = spaces.flat_map(|space| &space.images);
        for inode in mapped {
            let region = matches!(self.files.device(inode), Some(Device::Region { .. }));
            if self.files.file(inode).is_err() && !region {
                return Err("a mapping names no file");
            }
        }
        // Images only serve reports; their inodes may be gone, but must be sane numbers.
        if images.any(|image| image.inode.0 as usize > self.files.inodes.len()) {
            return Err("a loaded image names no inode");
        }
        Ok(())
    }

    fn validate_threads(&self) -> Result<(), &'static str> {
        let wrong = Err("a thread is in two places or in none");
        let mut ready = BTreeSet::new();
        for id in &self.scheduler.ready {
            let state = self.threads.get(id).map(|thread| thread.state);
            if state != Some(ThreadState::Ready) || !ready.insert(*id) {
                return wrong;
            }
        }
        let queues: usize = self.futexes.values().map(VecDeque::len).sum();
        let mut waiting = 0;
        let waits_for_several = |id: &ThreadId| {
            let state = self.threads.get(id).map(|thread| thread.state);
            matches!(
                state,
                Some(ThreadState::Blocked {
                    wait: Wait::Futexes,
                    ..
                })
            )
        };
        if !self.rare.futex_lists.keys().all(waits_for_several) {
            return wrong;
        }
        for (id, thread) in &self.threads {
            let placed = match thread.state {
                ThreadState::Ready => ready.contains(id),
                ThreadState::Running { hart } => {
                    self.scheduler.running.get(hart as usize) == Some(&Some(*id))
                }
                ThreadState::Blocked {
                    wait: wait @ (Wait::Futex { .. } | Wait::Futexes | Wait::FutexMove { .. }),
                    ..
                } => {
                    let keys = self.futex_keys(*id, wait);
                    waiting += keys.len();
                    let stands = |key: &FutexKey| {
                        let queue = self.futexes.get(key);
                        queue.is_some_and(|queue| queue.iter().filter(|w| *w == id).count() == 1)
                    };
                    !keys.is_empty() && keys.iter().all(stands)
                }
                ThreadState::Blocked {
                    wait: Wait::Fifo { inode, .. },
                    ..
                } => (self.files.inode(inode)).is_ok_and(|inode| matches!(inode.node, Node::Fifo)),
                ThreadState::Blocked { .. } => true,
                ThreadState::Stopped => self.is_stopped(thread.process),
            };
            let Some(process) = self.processes.get(thread.process) else {
                return Err("a thread belongs to no process");
            };
            if !placed || thread.id != *id || !self.number_is_of(id.0, process.program) {
                return wrong;
            }
            if process.ending.is_some() && !thread.doomed && self.exit.is_none() {
                return Err("a thread outlives its process");
            }
        }
        let running = self.scheduler.running.iter().flatten().count();
        let on_harts = self.threads.values();
        let on_harts = on_harts
            .filter(|t| matches!(t.state, ThreadState::Running { .. }))
            .count();
        if queues != waiting || running != on_harts || self.futexes.values().any(VecDeque::is_empty)
        {
            return wrong;
        }
        Ok(())
    }
}
