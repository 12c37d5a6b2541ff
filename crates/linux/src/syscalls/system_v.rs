//! The calls of System V's shared memory, semaphores and message queues. Everything belongs to the
//! one user, so that rights are kept and told, and refuse nothing.

use super::{Answer, Call};
use crate::address_space::{Backing, LOWEST, Mapping, Purpose, SPACE_END};
use crate::errno::Errno;
use crate::machine::PAGE_BYTES;
use crate::page_table::{EXECUTE, READ, WRITE};
use crate::process::USER_ID;
use crate::system_v::{
    Head, MESSAGE_BYTES_MAX, OBJECTS_MAX, Objects, QUEUE_BYTES_MAX, Queue, SEGMENT_BYTES_MAX,
    SEGMENT_PAGES_MAX, SEMAPHORES_MAX, SET_MAX, Segment, Set, VALUE_MAX, Waiting,
};
use crate::thread::Wait;
use crate::vfs::{FileNode, Node};

const E2BIG: Errno = Errno(7);
const ENOMSG: Errno = Errno(42);
const EIDRM: Errno = Errno(43);

const IPC_CREAT: u64 = 0o1000;
const IPC_EXCL: u64 = 0o2000;
const IPC_NOWAIT: u64 = 0o4000;
const IPC_RMID: u64 = 0;
const IPC_SET: u64 = 1;
const IPC_STAT: u64 = 2;
const IPC_INFO: u64 = 3;

/// The greatest number of an object, which those who list them count up to.
fn last<T>(objects: &Objects<T>) -> u64 {
    u64::from(objects.all.keys().next_back().copied().unwrap_or(0))
}

fn half_bytes(halves: &[u32]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

/// Of a control call, less the bit that asks for today's structures.
fn command(value: u64) -> u64 {
    value & 0xffff_ffff & !0x100
}

/// The object with a key: found, or to be made.
fn by_key<T>(
    objects: &Objects<T>,
    head: impl Fn(&T) -> Head,
    key: u64,
    flags: u64,
) -> Result<Option<u32>, Errno> {
    let key = key as u32;
    let mut all = objects.all.iter();
    let found = all.find(|(_, object)| key != 0 && head(object).key == key);
    match found {
        Some(_) if flags & (IPC_CREAT | IPC_EXCL) == IPC_CREAT | IPC_EXCL => Err(Errno::EEXIST),
        Some((&number, _)) => Ok(Some(number)),
        None if key != 0 && flags & IPC_CREAT == 0 => Err(Errno::ENOENT),
        None if objects.all.len() >= OBJECTS_MAX => Err(Errno::ENOSPC),
        None => Ok(None),
    }
}

impl Call<'_> {
    fn seconds(&self) -> u64 {
        self.now_ns() / 1_000_000_000
    }

    fn head(&self, key: u64, flags: u64) -> Head {
        Head {
            key: key as u32,
            mode: flags as u32 & 0o777,
            changed: self.seconds(),
        }
    }

    /// `IPC_SET`: rights, from a structure at an address.
    fn changed_head(&mut self, old: Head, address: u64) -> Result<Head, Errno> {
        let mode = self.read_u32(address.wrapping_add(20))?;
        Ok(Head {
            mode: mode & 0o777,
            changed: self.seconds(),
            ..old
        })
    }
}

/// `struct ipc64_perm`.
fn head_bytes(head: Head, more_mode: u32) -> Vec<u8> {
    let halves = [
        head.key,
        USER_ID,
        USER_ID,
        USER_ID,
        USER_ID,
        head.mode | more_mode,
    ];
    let mut bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    bytes.resize(48, 0);
    bytes
}

fn append_words(bytes: &mut Vec<u8>, words: &[u64]) {
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// `shmget`.
pub(crate) fn shmget(call: &mut Call) -> Answer {
    let [key, bytes, flags, ..] = call.arguments;
    let segments = &call.kernel.rare.system_v.segments;
    if let Some(number) = by_key(segments, |segment| segment.head, key, flags)? {
        let known = segments.get(u64::from(number)).map_or(0, |one| one.bytes);
        if bytes > known {
            return Err(Errno::EINVAL.into());
        }
        return Ok(u64::from(number));
    }
    if bytes == 0 || bytes > SEGMENT_BYTES_MAX {
        return Err(Errno::EINVAL.into());
    }
    // SHM_HUGETLB: there are no huge pages.
    if flags & 0o4000 != 0 {
        return Err(Errno::ENOMEM.into());
    }
    let file = FileNode {
        size: bytes.next_multiple_of(PAGE_BYTES),
        ..FileNode::default()
    };
    let now = call.now_ns();
    let inode = call.kernel.files.create(Node::File(file), 0o777, now);
    let segment = Segment {
        head: call.head(key, flags),
        inode,
        bytes,
        maker: call.process.0,
        last: 0,
        attached: 0,
        detached: 0,
        removed: false,
    };
    Ok(u64::from(call.kernel.rare.system_v.segments.add(segment)))
}

/// `shmat`.
pub(crate) fn shmat(call: &mut Call) -> Answer {
    const SHM_RDONLY: u64 = 0o10000;
    const SHM_RND: u64 = 0o20000;
    const SHM_REMAP: u64 = 0o40000;
    const SHM_EXEC: u64 = 0o100_000;
    let [number, wished, flags, ..] = call.arguments;
    let segments = &call.kernel.rare.system_v.segments;
    let segment = segments.get(number).ok_or(Errno::EINVAL)?;
    let (inode, length) = (segment.inode, segment.bytes.next_multiple_of(PAGE_BYTES));
    let space = &mut call.kernel.spaces[call.space];
    let start = if wished == 0 {
        space.find_gap(length).ok_or(Errno::ENOMEM)?
    } else {
        let aligned = wished & !(PAGE_BYTES - 1);
        let start = if flags & SHM_RND != 0 {
            aligned
        } else {
            wished
        };
        let end = start.checked_add(length).filter(|&end| end <= SPACE_END);
        let end = end.ok_or(Errno::EINVAL)?;
        let is_free = space.is_free(&(start..end));
        if start != aligned || start < LOWEST || flags & SHM_REMAP == 0 && !is_free {
            return Err(Errno::EINVAL.into());
        }
        start
    };
    call.kernel
        .check_mapped(call.process, length, false, &(start..start + length))?;
    let locked = call.kernel.future_lock(call.space);
    call.check_locked(locked, length)?;
    let write = if flags & SHM_RDONLY == 0 { WRITE } else { 0 };
    let execute = if flags & SHM_EXEC == 0 { 0 } else { EXECUTE };
    let mapping = Mapping {
        end: start + length,
        permissions: READ | write | execute | locked,
        shared: true,
        backing: Backing::File {
            inode,
            offset: 0,
            limit: u64::MAX,
        },
        purpose: Purpose::Plain,
    };
    call.kernel.map(call.machine, call.space, start, mapping);
    call.kernel
        .note_attached(call.machine, call.process, inode, true);
    Ok(start)
}

/// `shmdt`.
pub(crate) fn shmdt(call: &mut Call) -> Answer {
    let address = call.arguments[0];
    let space = &call.kernel.spaces[call.space];
    let begins = |start: u64, mapping: &Mapping| match mapping.backing {
        Backing::File { inode, offset, .. } if start.checked_sub(offset) == Some(address) => {
            Some(inode)
        }
        _ => None,
    };
    let all = &call.kernel.rare.system_v.segments.all;
    let is_segment = |inode| all.values().any(|segment| segment.inode == inode);
    let ranges: Vec<_> = (space.mappings.iter())
        .filter_map(|(&start, mapping)| {
            let inode = begins(start, mapping).filter(|&inode| is_segment(inode))?;
            Some((inode, start..mapping.end))
        })
        .collect();
    let Some(&(inode, _)) = ranges.first() else {
        return Err(Errno::EINVAL.into());
    };
    call.kernel
        .note_attached(call.machine, call.process, inode, false);
    for (_, range) in ranges.iter().filter(|(other, _)| *other == inode) {
        call.kernel.unmap(call.machine, call.space, range);
    }
    Ok(0)
}

/// `shmctl`.
pub(crate) fn shmctl(call: &mut Call) -> Answer {
    const SHM_DEST: u32 = 0o1000;
    const SHM_LOCK: u64 = 11;
    const SHM_UNLOCK: u64 = 12;
    const SHM_STAT: u64 = 13;
    const SHM_INFO: u64 = 14;
    const SHM_STAT_ANY: u64 = 15;
    let [number, wished, address, ..] = call.arguments;
    let wished = command(wished);
    let segments = &call.kernel.rare.system_v.segments;
    if wished == IPC_INFO {
        let mut bytes = Vec::new();
        let limits = [
            SEGMENT_BYTES_MAX,
            1,
            OBJECTS_MAX as u64,
            OBJECTS_MAX as u64,
            SEGMENT_PAGES_MAX,
        ];
        append_words(&mut bytes, &limits);
        append_words(&mut bytes, &[0; 4]);
        let last = last(segments);
        call.write(address, &bytes)?;
        return Ok(last);
    }
    if wished == SHM_INFO {
        let all = segments.all.values();
        let pages = all.clone().map(|one| one.bytes.div_ceil(PAGE_BYTES)).sum();
        let held = all.map(|one| {
            call.kernel
                .files
                .file(one.inode)
                .map_or(0, |file| file.pages_held)
        });
        let words = [segments.all.len() as u64, pages, held.sum(), 0, 0, 0];
        let (mut bytes, last) = (Vec::new(), last(segments));
        append_words(&mut bytes, &words);
        call.write(address, &bytes)?;
        return Ok(last);
    }
    let segment = segments.get(number).ok_or(Errno::EINVAL)?.clone();
    match wished {
        IPC_STAT | SHM_STAT | SHM_STAT_ANY => {
            let spaces = call.kernel.spaces.iter();
            let mappings = spaces.flat_map(|(_, space)| space.mappings.values());
            let users = mappings.filter(|mapping| mapping.inode() == Some(segment.inode));
            let count = users.count() as u64;
            let mut bytes = head_bytes(segment.head, if segment.removed { SHM_DEST } else { 0 });
            let processes = u64::from(segment.maker) | u64::from(segment.last) << 32;
            append_words(
                &mut bytes,
                &[
                    segment.bytes,
                    segment.attached,
                    segment.detached,
                    segment.head.changed,
                    processes,
                    count,
                    0,
                    0,
                ],
            );
            call.write(address, &bytes)?;
            // Where an object stands in the list is its number.
            return Ok(if wished == IPC_STAT { 0 } else { number });
        }
        IPC_SET => {
            let head = call.changed_head(segment.head, address)?;
            if let Some(segment) = call.kernel.rare.system_v.segments.get_mut(number) {
                segment.head = head;
            }
        }
        IPC_RMID => {
            if let Some(segment) = call.kernel.rare.system_v.segments.get_mut(number) {
                segment.removed = true;
                segment.head.key = 0;
            }
            call.kernel.free_inode_if_unused(segment.inode);
        }
        SHM_LOCK | SHM_UNLOCK => {}
        _ => return Err(Errno::EINVAL.into()),
    }
    Ok(0)
}

/// `semget`.
pub(crate) fn semget(call: &mut Call) -> Answer {
    let [key, count, flags, ..] = call.arguments;
    let count = count as u32 as usize;
    let sets = &call.kernel.rare.system_v.sets;
    if let Some(number) = by_key(sets, |set| set.head, key, flags)? {
        let known = sets.get(u64::from(number));
        if known.is_some_and(|set| count > set.semaphores.len()) {
            return Err(Errno::EINVAL.into());
        }
        return Ok(u64::from(number));
    }
    let taken: usize = sets.all.values().map(|set| set.semaphores.len()).sum();
    if count == 0 || count > SET_MAX {
        return Err(Errno::EINVAL.into());
    }
    if taken + count > SEMAPHORES_MAX {
        return Err(Errno::ENOSPC.into());
    }
    let set = Set {
        head: call.head(key, flags),
        semaphores: vec![(0, 0); count],
        operated: 0,
    };
    Ok(u64::from(call.kernel.rare.system_v.sets.add(set)))
}

/// One operation of `semop`.
#[derive(Clone, Copy)]
struct Operation {
    semaphore: u16,
    change: i16,
    flags: u64,
}

/// `semop`.
pub(crate) fn semop(call: &mut Call) -> Answer {
    call.arguments[3] = 0;
    semtimedop(call)
}

/// `semtimedop`: all operations, or none yet.
pub(crate) fn semtimedop(call: &mut Call) -> Answer {
    const OPERATIONS_MAX: u64 = 500;
    const SEM_UNDO: u64 = 0x1000;
    let [number, address, count, timeout, ..] = call.arguments;
    if count == 0 {
        return Err(Errno::EINVAL.into());
    }
    if count > OPERATIONS_MAX {
        return Err(E2BIG.into());
    }
    let raw = call
        .kernel
        .bytes_in(call.machine, call.space, address, 6 * count)?;
    let timeout = match timeout {
        0 => None,
        at => Some(call.duration_at(at)?),
    };
    let half = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let operations: Vec<Operation> = raw
        .chunks_exact(6)
        .map(|bytes| Operation {
            semaphore: half(bytes, 0),
            change: half(bytes, 2) as i16,
            flags: u64::from(half(bytes, 4)),
        })
        .collect();
    let waited = call.kernel.rare.system_v.waiting.remove(&call.thread);
    let Some(set) = call.kernel.rare.system_v.sets.get(number) else {
        return Err(if waited.is_some() {
            EIDRM
        } else {
            Errno::EINVAL
        }
        .into());
    };
    let mut values: Vec<i32> = set.semaphores.iter().map(|one| i32::from(one.0)).collect();
    let (count, operated) = (values.len(), &operations);
    if operated
        .iter()
        .any(|one| usize::from(one.semaphore) >= count)
    {
        return Err(Errno::EFBIG.into());
    }
    let mut obstacle = None;
    for one in operated {
        let value = &mut values[usize::from(one.semaphore)];
        let new = *value + i32::from(one.change);
        if new > VALUE_MAX {
            return Err(Errno::ERANGE.into());
        }
        if one.change == 0 && *value != 0 || new < 0 {
            obstacle = Some(*one);
            break;
        }
        *value = new;
    }
    if let Some(one) = obstacle {
        if one.flags & IPC_NOWAIT != 0 || call.timed_out(timeout) {
            return Err(Errno::EAGAIN.into());
        }
        let waiting = Waiting {
            object: number as u32,
            semaphore: one.semaphore,
            for_zero: one.change == 0,
        };
        let all = &mut call.kernel.rare.system_v.waiting;
        all.insert(call.thread, waiting);
        return Err(call.wait_until_retry(Wait::Readiness, timeout));
    }
    let (now, process) = (call.seconds(), call.process);
    let system_v = &mut call.kernel.rare.system_v;
    if operations
        .iter()
        .any(|one| one.flags & SEM_UNDO != 0 && one.change != 0)
    {
        let list = system_v.undo.entry((process, number as u32));
        let list = list.or_insert_with(|| vec![0; count]);
        for one in operations.iter().filter(|one| one.flags & SEM_UNDO != 0) {
            let undo = &mut list[usize::from(one.semaphore)];
            *undo = undo.saturating_sub(one.change);
        }
    }
    if let Some(set) = system_v.sets.get_mut(number) {
        set.operated = now;
        for one in &operations {
            let place = usize::from(one.semaphore);
            set.semaphores[place] = (values[place] as u16, process.0);
        }
    }
    call.kernel.wake_all_file_waiters();
    Ok(0)
}

/// `semctl`.
pub(crate) fn semctl(call: &mut Call) -> Answer {
    const SEM_STAT: u64 = 18;
    const SEM_INFO: u64 = 19;
    const SEM_STAT_ANY: u64 = 20;
    let [number, semaphore, wished, argument, ..] = call.arguments;
    let wished = command(wished);
    let system_v = &call.kernel.rare.system_v;
    if matches!(wished, IPC_INFO | SEM_INFO) {
        let sets = &system_v.sets;
        let all = sets.all.values();
        let taken: usize = all.map(|set| set.semaphores.len()).sum();
        let counts = if wished == IPC_INFO {
            [20, VALUE_MAX as u32]
        } else {
            [sets.all.len() as u32, taken as u32]
        };
        let (most, each) = (SEMAPHORES_MAX as u32, SET_MAX as u32);
        let limits = [most, OBJECTS_MAX as u32, most, most, each, 500, 500];
        let rest = [counts[0], VALUE_MAX as u32, counts[1]];
        let (bytes, last) = (half_bytes(&[&limits[..], &rest].concat()), last(sets));
        call.write(argument, &bytes)?;
        return Ok(last);
    }
    let set = system_v.sets.get(number).ok_or(Errno::EINVAL)?.clone();
    let count = set.semaphores.len();
    let one = set.semaphores.get(semaphore as u32 as usize).copied();
    let waiters = |for_zero: bool| {
        let all = system_v.waiting.values();
        let meets = |waiting: &&Waiting| {
            (waiting.object, u64::from(waiting.semaphore)) == (number as u32, semaphore)
                && waiting.for_zero == for_zero
        };
        all.filter(meets).count() as u64
    };
    let (zero, more) = (waiters(true), waiters(false));
    let now = call.seconds();
    let mut new = Vec::new();
    match wished {
        IPC_STAT | SEM_STAT | SEM_STAT_ANY => {
            let mut bytes = head_bytes(set.head, 0);
            let words = [set.operated, set.head.changed, count as u64, 0, 0];
            append_words(&mut bytes, &words);
            call.write(argument, &bytes)?;
            return Ok(if wished == IPC_STAT { 0 } else { number });
        }
        IPC_SET => {
            let head = call.changed_head(set.head, argument)?;
            if let Some(set) = call.kernel.rare.system_v.sets.get_mut(number) {
                set.head = head;
            }
            return Ok(0);
        }
        IPC_RMID => {
            let system_v = &mut call.kernel.rare.system_v;
            system_v.sets.all.remove(&(number as u32));
            system_v.undo.retain(|(_, of), _| *of != number as u32);
            call.kernel.wake_all_file_waiters();
            return Ok(0);
        }
        // GETPID, GETVAL, GETNCNT, GETZCNT.
        11 => return Ok(u64::from(one.ok_or(Errno::EINVAL)?.1)),
        12 => return Ok(u64::from(one.ok_or(Errno::EINVAL)?.0)),
        14 | 15 => {
            one.ok_or(Errno::EINVAL)?;
            return Ok(if wished == 14 { more } else { zero });
        }
        // GETALL.
        13 => {
            let values = set.semaphores.iter();
            let bytes: Vec<u8> = values.flat_map(|one| one.0.to_le_bytes()).collect();
            call.write(argument, &bytes)?;
            return Ok(0);
        }
        // SETVAL, SETALL.
        16 => {
            one.ok_or(Errno::EINVAL)?;
            new.push((semaphore as u32 as usize, argument as i32));
        }
        17 => {
            let bytes = 2 * count as u64;
            let raw = call
                .kernel
                .bytes_in(call.machine, call.space, argument, bytes)?;
            let values = raw.chunks_exact(2).enumerate();
            new.extend(
                values.map(|(place, raw)| (place, i32::from(u16::from_le_bytes([raw[0], raw[1]])))),
            );
        }
        _ => return Err(Errno::EINVAL.into()),
    }
    if new
        .iter()
        .any(|&(_, value)| !(0..=VALUE_MAX).contains(&value))
    {
        return Err(Errno::ERANGE.into());
    }
    let process = call.process.0;
    let system_v = &mut call.kernel.rare.system_v;
    if let Some(set) = system_v.sets.get_mut(number) {
        set.head.changed = now;
        for &(place, value) in &new {
            set.semaphores[place] = (value as u16, process);
        }
    }
    // What is set is not given back.
    for ((_, of), list) in &mut system_v.undo {
        for &(place, _) in new.iter().filter(|_| *of == number as u32) {
            list[place] = 0;
        }
    }
    call.kernel.wake_all_file_waiters();
    Ok(0)
}

/// `msgget`.
pub(crate) fn msgget(call: &mut Call) -> Answer {
    let [key, flags, ..] = call.arguments;
    let queues = &call.kernel.rare.system_v.queues;
    if let Some(number) = by_key(queues, |queue| queue.head, key, flags)? {
        return Ok(u64::from(number));
    }
    let queue = Queue {
        head: call.head(key, flags),
        messages: std::collections::VecDeque::new(),
        bytes_max: QUEUE_BYTES_MAX as u64,
        sent: 0,
        received: 0,
        last_sender: 0,
        last_receiver: 0,
    };
    Ok(u64::from(call.kernel.rare.system_v.queues.add(queue)))
}

impl Call<'_> {
    /// The queue with a number; EIDRM if it went while the caller waited for it.
    fn queue(&mut self, number: u64) -> Result<&mut Queue, Errno> {
        let waited = self.kernel.rare.system_v.waiting.remove(&self.thread);
        let queue = self.kernel.rare.system_v.queues.get_mut(number);
        queue.ok_or(if waited.is_some() {
            EIDRM
        } else {
            Errno::EINVAL
        })
    }

    fn wait_for_queue(&mut self, number: u64) -> Answer {
        let waiting = Waiting {
            object: number as u32,
            semaphore: u16::MAX,
            for_zero: false,
        };
        let all = &mut self.kernel.rare.system_v.waiting;
        all.insert(self.thread, waiting);
        Err(self.wait_until_retry(Wait::Readiness, None))
    }
}

/// `msgsnd`.
pub(crate) fn msgsnd(call: &mut Call) -> Answer {
    let [number, address, bytes, flags, ..] = call.arguments;
    let kind = call.read_u64(address)?;
    if bytes > MESSAGE_BYTES_MAX as u64 || (kind as i64) < 1 {
        return Err(Errno::EINVAL.into());
    }
    let from = address.wrapping_add(8);
    let text = call
        .kernel
        .bytes_in(call.machine, call.space, from, bytes)?;
    let (now, process) = (call.seconds(), call.process.0);
    let queue = call.queue(number)?;
    let fits = queue.bytes() + text.len() <= queue.bytes_max as usize
        && queue.messages.len() < queue.bytes_max as usize;
    if !fits {
        if flags & IPC_NOWAIT != 0 {
            return Err(Errno::EAGAIN.into());
        }
        return call.wait_for_queue(number);
    }
    queue.messages.push_back((kind, text));
    (queue.sent, queue.last_sender) = (now, process);
    call.kernel.wake_all_file_waiters();
    Ok(0)
}

/// `msgrcv`.
pub(crate) fn msgrcv(call: &mut Call) -> Answer {
    const MSG_NOERROR: u64 = 0o10000;
    const MSG_EXCEPT: u64 = 0o20000;
    const MSG_COPY: u64 = 0o40000;
    let [number, address, room, wished, flags, _] = call.arguments;
    if (room as i64) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let copies = flags & MSG_COPY != 0;
    if copies && (flags & IPC_NOWAIT == 0 || flags & MSG_EXCEPT != 0) {
        return Err(Errno::EINVAL.into());
    }
    let (now, process) = (call.seconds(), call.process.0);
    let queue = call.queue(number)?;
    let Some(at) = queue.chosen(wished, copies, flags & MSG_EXCEPT != 0) else {
        if flags & IPC_NOWAIT != 0 {
            return Err(ENOMSG.into());
        }
        return call.wait_for_queue(number);
    };
    let (kind, mut text) = queue.messages[at].clone();
    if text.len() as u64 > room {
        if flags & MSG_NOERROR == 0 {
            return Err(E2BIG.into());
        }
        if copies {
            return Err(Errno::EINVAL.into());
        }
        text.truncate(room as usize);
    }
    if !copies {
        queue.messages.remove(at);
        (queue.received, queue.last_receiver) = (now, process);
        call.kernel.wake_all_file_waiters();
    }
    call.write(address, &kind.to_le_bytes())?;
    call.write(address.wrapping_add(8), &text)?;
    Ok(text.len() as u64)
}

/// `msgctl`.
pub(crate) fn msgctl(call: &mut Call) -> Answer {
    const MSG_STAT: u64 = 11;
    const MSG_INFO: u64 = 12;
    const MSG_STAT_ANY: u64 = 13;
    let [number, wished, address, ..] = call.arguments;
    let wished = command(wished);
    let queues = &call.kernel.rare.system_v.queues;
    if matches!(wished, IPC_INFO | MSG_INFO) {
        let (most, each) = (OBJECTS_MAX as u32, QUEUE_BYTES_MAX as u32);
        let all = queues.all.values();
        let counts = if wished == IPC_INFO {
            [most * (each / 1024), each, each]
        } else {
            let messages: usize = all.clone().map(|queue| queue.messages.len()).sum();
            let bytes: usize = all.map(Queue::bytes).sum();
            [queues.all.len() as u32, messages as u32, bytes as u32]
        };
        let [pool, map, texts] = counts;
        let limits = [
            pool,
            map,
            MESSAGE_BYTES_MAX as u32,
            each,
            most,
            16,
            texts,
            0xffff,
        ];
        let last = last(queues);
        call.write(address, &half_bytes(&limits))?;
        return Ok(last);
    }
    let queue = queues.get(number).ok_or(Errno::EINVAL)?;
    match wished {
        IPC_STAT | MSG_STAT | MSG_STAT_ANY => {
            let mut bytes = head_bytes(queue.head, 0);
            let processes = u64::from(queue.last_sender) | u64::from(queue.last_receiver) << 32;
            let words = [
                queue.sent,
                queue.received,
                queue.head.changed,
                queue.bytes() as u64,
                queue.messages.len() as u64,
                queue.bytes_max,
                processes,
                0,
                0,
            ];
            append_words(&mut bytes, &words);
            call.write(address, &bytes)?;
            return Ok(if wished == IPC_STAT { 0 } else { number });
        }
        IPC_SET => {
            let old = queue.head;
            let head = call.changed_head(old, address)?;
            let bytes_max = call.read_u64(address.wrapping_add(88))?;
            if bytes_max > QUEUE_BYTES_MAX as u64 {
                return Err(Errno::EPERM.into());
            }
            if let Some(queue) = call.kernel.rare.system_v.queues.get_mut(number) {
                (queue.head, queue.bytes_max) = (head, bytes_max);
            }
            call.kernel.wake_all_file_waiters();
        }
        IPC_RMID => {
            call.kernel
                .rare
                .system_v
                .queues
                .all
                .remove(&(number as u32));
            call.kernel.wake_all_file_waiters();
        }
        _ => return Err(Errno::EINVAL.into()),
    }
    Ok(0)
}
