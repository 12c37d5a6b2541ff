//! What `/proc` says of open files (`fdinfo`), their locks (`locks`) and System V's objects (`sysvipc`).

use std::fmt::Write;

use super::descriptor::{Lock, Object, OpenFile};
use super::locks::{LockOwner, RecordLock};
use crate::kernel::Kernel;
use crate::process::{Process, ProcessId, USER_ID};
use crate::vfs::descriptor::O_CLOEXEC;

const O_LARGEFILE: u32 = 0o100_000;

/// What every interest of epoll is told of: errors and hanging up.
const ALWAYS: u32 = 8 | 16;

impl Kernel {
    /// `/proc/PID/fdinfo/N`; nothing if there is no such descriptor any more.
    pub(crate) fn descriptor_info(&self, about: ProcessId, number: u32) -> String {
        let process = self.processes.get(about);
        let descriptor = process.and_then(|process| process.descriptors.get(number));
        let file = descriptor.and_then(|one| self.open.files.get(one.file));
        let (Some(descriptor), Some(file)) = (descriptor, file) else {
            return String::new();
        };
        let closes = if descriptor.close_on_exec {
            O_CLOEXEC
        } else {
            0
        };
        // As Linux opens what has a path, on a machine of 64 bits.
        let large = if file.inode().is_some() {
            O_LARGEFILE
        } else {
            0
        };
        let inode = file.inode().map_or(0, |inode| u64::from(inode.0) + 1);
        let mut text = format!(
            "pos:\t{}\nflags:\t0{:o}\nmnt_id:\t1\nino:\t{inode}\n",
            file.offset,
            file.flags | closes | large,
        );
        self.append_object_info(&mut text, &file.object);
        text
    }

    /// `/proc/locks`: of whole files, then of ranges, file by file.
    pub(crate) fn lock_table(&self) -> String {
        let mut rows = Vec::new();
        for (index, file) in self.open.files.iter() {
            let Some(inode) = file.inode().filter(|_| file.lock != Lock::None) else {
                continue;
            };
            // Whoever shares the open file has its lock: the first of them is named.
            let has = |process: &&Process| {
                let mut descriptors = process.descriptors.iter();
                descriptors.any(|(_, descriptor)| descriptor.file == index)
            };
            let holder = self.processes.live.values().find(has);
            let holder = holder.map_or(0, |process| process.id.0);
            let whole = RecordLock {
                owner: LockOwner::process(ProcessId(holder)),
                start: 0,
                end: u64::MAX,
                exclusive: file.lock == Lock::Exclusive,
            };
            rows.push(("FLOCK ", inode, whole));
        }
        for (&inode, held) in &self.locks {
            let kind = |lock: &RecordLock| lock.owner.is_open_file().then_some("OFDLCK");
            rows.extend((held.iter()).map(|lock| (kind(lock).unwrap_or("POSIX "), inode, *lock)));
        }
        let mut text = String::new();
        for (number, (kind, inode, lock)) in (1..).zip(rows) {
            let how = if lock.exclusive { "WRITE" } else { "READ" };
            let end = match lock.end {
                u64::MAX => "EOF".to_owned(),
                end => (end - 1).to_string(),
            };
            let _ = writeln!(
                text,
                "{number}: {kind} ADVISORY  {how} {holder} 08:01:{inode} {start} {end}",
                holder = lock.owner.number() as i32,
                inode = u64::from(inode.0) + 1,
                start = lock.start,
            );
        }
        text
    }

    fn append_object_info(&self, text: &mut String, object: &Object) {
        let _ = match object {
            Object::Event(id) => {
                let event = self.open.events.get(*id);
                let value = event.map_or(0, |event| event.value);
                writeln!(text, "eventfd-count: {value:16x}\neventfd-id: {id}")
            }
            Object::Signals(id) => {
                let file = self.open.signal_files.get(*id);
                writeln!(text, "sigmask:\t{:016x}", file.map_or(0, |file| file.mask))
            }
            Object::Process(id) => writeln!(text, "Pid:\t{0}\nNSpid:\t{0}", id.0),
            Object::Poller(id) => {
                let poller = self.open.pollers.get(*id).into_iter();
                for (&(number, file), interest) in poller.flat_map(|one| &one.interests) {
                    let file = self.open.files.get(file);
                    let inode = file.and_then(OpenFile::inode);
                    let _ = writeln!(
                        text,
                        "tfd: {number:8} events: {events:8x} data: {data:16x}  pos:{offset} ino:{inode:x} sdev:801",
                        events = interest.events | ALWAYS,
                        data = interest.data,
                        offset = file.map_or(0, |file| file.offset),
                        inode = inode.map_or(0, |inode| u64::from(inode.0) + 1),
                    );
                }
                Ok(())
            }
            Object::Watcher(id) => {
                let watcher = self.open.watching.watchers.get(*id).into_iter();
                for (number, watch) in watcher.flat_map(|one| &one.watches).rev() {
                    let _ = writeln!(
                        text,
                        "inotify wd:{number:x} ino:{:x} sdev:801 mask:{:x} ignored_mask:0",
                        u64::from(watch.inode.0) + 1,
                        watch.mask,
                    );
                }
                Ok(())
            }
            _ => Ok(()),
        };
    }

    /// `/proc/sysvipc/shm`.
    pub(crate) fn segment_table(&self) -> String {
        let mut text = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  \
             cuid  cgid      atime      dtime      ctime                   rss                  swap\n"
            .to_owned();
        for (number, segment) in &self.rare.system_v.segments.all {
            let spaces = self.spaces.iter();
            let mappings = spaces.flat_map(|(_, space)| space.mappings.values());
            let users = mappings.filter(|mapping| mapping.inode() == Some(segment.inode));
            let held = self.files.file(segment.inode);
            let _ = writeln!(
                text,
                "{key:10} {number:10}  {mode:4o} {size:21} {maker:5} {last:5}  {users:5} {user:5} {user:5} {user:5} {user:5} {attached:10} {detached:10} {changed:10} {resident:21} {swapped:21}",
                key = segment.head.key as i32,
                mode = segment.head.mode | if segment.removed { 0o1000 } else { 0 },
                size = segment.bytes,
                maker = segment.maker,
                last = segment.last,
                users = users.count(),
                user = USER_ID,
                attached = segment.attached,
                detached = segment.detached,
                changed = segment.head.changed,
                resident = held.map_or(0, |file| file.pages_held * 4096),
                swapped = 0,
            );
        }
        text
    }

    /// `/proc/sysvipc/sem`.
    pub(crate) fn semaphore_table(&self) -> String {
        let mut text =
            "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n"
                .to_owned();
        for (number, set) in &self.rare.system_v.sets.all {
            let _ = writeln!(
                text,
                "{key:10} {number:10}  {mode:4o} {count:10} {user:5} {user:5} {user:5} {user:5} {operated:10} {changed:10}",
                key = set.head.key as i32,
                mode = set.head.mode,
                count = set.semaphores.len(),
                user = USER_ID,
                operated = set.operated,
                changed = set.head.changed,
            );
        }
        text
    }

    /// `/proc/sysvipc/msg`.
    pub(crate) fn queue_table(&self) -> String {
        let mut text = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      \
             stime      rtime      ctime\n"
            .to_owned();
        for (number, queue) in &self.rare.system_v.queues.all {
            let _ = writeln!(
                text,
                "{key:10} {number:10}  {mode:4o}  {bytes:10} {count:10} {sender:5} {receiver:5} {user:5} {user:5} {user:5} {user:5} {sent:10} {received:10} {changed:10}",
                key = queue.head.key as i32,
                mode = queue.head.mode,
                bytes = queue.bytes(),
                count = queue.messages.len(),
                sender = queue.last_sender,
                receiver = queue.last_receiver,
                user = USER_ID,
                sent = queue.sent,
                received = queue.received,
                changed = queue.head.changed,
            );
        }
        text
    }
}
