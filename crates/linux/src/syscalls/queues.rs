//! The calls of POSIX message queues. The C library takes the slash off their names.

use super::{Answer, Call};
use crate::errno::Errno;
use crate::limits::{Resource, UNLIMITED};
use crate::queues::{MESSAGE_BYTES_MAX, MESSAGES_MAX, PRIORITIES, QUEUES_MAX, Queue, Request};
use crate::signal::SIGNAL_MAX;
use crate::thread::Wait;
use crate::vfs::descriptor::{O_ACCMODE, O_CREAT, O_EXCL, O_NONBLOCK, Object, OpenFile};

/// Bytes of the words of `struct mq_attr` that mean something: flags, most messages, most bytes of
/// one, messages there are.
const ATTRIBUTE_WORDS: usize = 4;

impl Call<'_> {
    fn queue_name(&mut self, address: u64) -> Result<String, Errno> {
        let name = self.string(address)?;
        match name.as_str() {
            "" => Err(Errno::ENOENT),
            "." | ".." => Err(Errno::EACCES),
            _ if name.contains('/') => Err(Errno::EACCES),
            _ if name.len() > 255 => Err(Errno::ENAMETOOLONG),
            _ => Ok(name),
        }
    }

    /// The number of the queue behind a descriptor.
    fn queue_behind(&self, number: u64) -> Result<u32, Errno> {
        match self.file(number)?.object {
            Object::Queue(id) => Ok(id),
            _ => Err(Errno::EBADF),
        }
    }

    fn queue_at(&mut self, id: u32) -> Result<&mut Queue, Errno> {
        self.kernel.rare.queues.all.get_mut(&id).ok_or(Errno::EBADF)
    }

    /// How long it is until a time since 1970 that stands at an address.
    fn time_left(&mut self, address: u64) -> Result<Option<u64>, Errno> {
        if address == 0 {
            return Ok(None);
        }
        let at = self.duration_at(address)?;
        Ok(Some(at.saturating_sub(self.now_ns())))
    }
}

/// `mq_open`.
pub(crate) fn mq_open(call: &mut Call) -> Answer {
    let [name, flags, mode, attributes, ..] = call.arguments;
    let flags = flags as u32;
    let asked = if flags & O_CREAT == 0 || attributes == 0 {
        None
    } else {
        let most = call.read_u64(attributes.wrapping_add(8))?;
        Some((most, call.read_u64(attributes.wrapping_add(16))?))
    };
    let name = call.queue_name(name)?;
    if flags & O_ACCMODE == O_ACCMODE {
        return Err(Errno::EINVAL.into());
    }
    let found = call.kernel.rare.queues.by_name(&name);
    let id = match found {
        Some(_) if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL => {
            return Err(Errno::EEXIST.into());
        }
        Some(id) => {
            let [reads, writes] = [flags & O_ACCMODE != 1, flags & O_ACCMODE != 0];
            let needed = if reads { 0o400 } else { 0 } | if writes { 0o200 } else { 0 };
            if call.queue_at(id)?.mode & needed != needed {
                return Err(Errno::EACCES.into());
            }
            id
        }
        None if flags & O_CREAT == 0 => return Err(Errno::ENOENT.into()),
        None => make_queue(call, name.clone(), mode as u32, asked)?,
    };
    let kept = flags & (O_ACCMODE | O_NONBLOCK);
    let file = OpenFile::new(Object::Queue(id), kept, format!("/{name}"));
    // As on Linux, it is closed on exec whether or not that was asked for.
    match call.open(file, true) {
        Ok(number) => Ok(u64::from(number)),
        Err(error) => {
            if found.is_none() {
                call.kernel.rare.queues.all.remove(&id);
            }
            Err(error.into())
        }
    }
}

fn make_queue(
    call: &mut Call,
    name: String,
    mode: u32,
    asked: Option<(u64, u64)>,
) -> Result<u32, Errno> {
    let (messages_max, message_bytes_max) = asked.unwrap_or((MESSAGES_MAX, MESSAGE_BYTES_MAX));
    let limit = call.process().limit(Resource::QueueBytes);
    let umask = call.process().umask;
    let queues = &mut call.kernel.rare.queues;
    if queues.all.len() >= QUEUES_MAX {
        return Err(Errno::ENOSPC);
    }
    if !(1..=MESSAGES_MAX).contains(&messages_max)
        || !(1..=MESSAGE_BYTES_MAX).contains(&message_bytes_max)
    {
        return Err(Errno::EINVAL);
    }
    let queue = Queue {
        name: Some(name),
        mode: mode & 0o777 & !umask,
        messages_max,
        message_bytes_max,
        ..Queue::default()
    };
    let taken: u64 = queues.all.values().map(Queue::charge).sum();
    if limit != UNLIMITED && taken + queue.charge() > limit {
        return Err(Errno::EMFILE);
    }
    Ok(queues.add(queue))
}

/// `mq_unlink`.
pub(crate) fn mq_unlink(call: &mut Call) -> Answer {
    let name = call.queue_name(call.arguments[0])?;
    let id = call.kernel.rare.queues.by_name(&name);
    let id = id.ok_or(Errno::ENOENT)?;
    call.queue_at(id)?.name = None;
    call.kernel.free_queue_if_unused(id);
    Ok(0)
}

/// `mq_timedsend`.
pub(crate) fn mq_timedsend(call: &mut Call) -> Answer {
    let [number, address, bytes, priority, deadline, _] = call.arguments;
    let left = call.time_left(deadline)?;
    let priority = priority as u32;
    if priority >= PRIORITIES {
        return Err(Errno::EINVAL.into());
    }
    let id = call.queue_behind(number)?;
    if !call.file(number)?.writable() {
        return Err(Errno::EBADF.into());
    }
    let nonblocking = call.file(number)?.nonblocking();
    let queue = call.queue_at(id)?;
    if bytes > queue.message_bytes_max {
        return Err(Errno::EMSGSIZE.into());
    }
    let is_full = queue.is_full();
    let text = call
        .kernel
        .bytes_in(call.machine, call.space, address, bytes)?;
    if is_full {
        return call.wait_for_message(nonblocking, left);
    }
    let sender = call.process;
    call.kernel.queue_message(id, sender, priority, text);
    Ok(0)
}

impl Call<'_> {
    fn wait_for_message(&self, nonblocking: bool, left: Option<u64>) -> Answer {
        if nonblocking {
            return Err(Errno::EAGAIN.into());
        }
        if self.timed_out(left) {
            return Err(Errno::ETIMEDOUT.into());
        }
        Err(self.wait_until_retry(Wait::Files, left))
    }
}

/// `mq_timedreceive`.
pub(crate) fn mq_timedreceive(call: &mut Call) -> Answer {
    let [number, address, room, priority_at, deadline, _] = call.arguments;
    let left = call.time_left(deadline)?;
    let id = call.queue_behind(number)?;
    if !call.file(number)?.readable() {
        return Err(Errno::EBADF.into());
    }
    let nonblocking = call.file(number)?.nonblocking();
    call.kernel.rare.queues.receivers.remove(&call.thread);
    let queue = call.queue_at(id)?;
    if room < queue.message_bytes_max {
        return Err(Errno::EMSGSIZE.into());
    }
    if queue.messages.is_empty() {
        let answer = call.wait_for_message(nonblocking, left);
        if matches!(answer, Err(super::Stop::Wait(..))) {
            let receivers = &mut call.kernel.rare.queues.receivers;
            receivers.insert(call.thread, id);
        }
        return answer;
    }
    let (priority, text) = queue.messages.remove(0);
    queue.activity += 1;
    call.kernel.wake_all_file_waiters();
    if priority_at != 0 {
        call.write(priority_at, &priority.to_le_bytes())?;
    }
    call.write(address, &text)?;
    Ok(text.len() as u64)
}

/// `mq_notify`. Threads that the C library starts for a message (`SIGEV_THREAD`) are not there: they
/// need a socket of the kernel's own.
pub(crate) fn mq_notify(call: &mut Call) -> Answer {
    const SIGEV_SIGNAL: u32 = 0;
    const SIGEV_NONE: u32 = 1;
    const SIGEV_THREAD: u32 = 2;
    let [number, event, ..] = call.arguments;
    let process = call.process;
    let mut request = None;
    if event != 0 {
        let value = call.read_u64(event)?;
        let signal = call.read_u32(event.wrapping_add(8))?;
        let signal = match call.read_u32(event.wrapping_add(12))? {
            SIGEV_SIGNAL => u8::try_from(signal).ok().filter(|&one| one <= SIGNAL_MAX),
            SIGEV_NONE => Some(0),
            SIGEV_THREAD => return Err(Errno::ENOSYS.into()),
            _ => None,
        };
        request = Some(Request {
            process,
            signal: signal.ok_or(Errno::EINVAL)?,
            value,
        });
    }
    let id = call.queue_behind(number)?;
    let queue = call.queue_at(id)?;
    match (queue.request, request) {
        (Some(_), Some(_)) => return Err(Errno::EBUSY.into()),
        (Some(other), None) if other.process != process => {}
        _ => queue.request = request,
    }
    Ok(0)
}

/// `mq_getsetattr`: only whether it waits can be changed.
pub(crate) fn mq_getsetattr(call: &mut Call) -> Answer {
    let [number, new, old, ..] = call.arguments;
    let flags = if new == 0 {
        None
    } else {
        let flags = call.read_u64(new)?;
        if flags & !u64::from(O_NONBLOCK) != 0 {
            return Err(Errno::EINVAL.into());
        }
        Some(flags as u32)
    };
    let id = call.queue_behind(number)?;
    let file = call.file_mut(number)?;
    let before = file.flags;
    if let Some(flags) = flags {
        file.flags = before & !O_NONBLOCK | flags;
    }
    if old != 0 {
        let queue = call.queue_at(id)?;
        let words: [u64; ATTRIBUTE_WORDS] = [
            u64::from(before & O_NONBLOCK),
            queue.messages_max,
            queue.message_bytes_max,
            queue.messages.len() as u64,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(64, 0);
        call.write(old, &bytes)?;
    }
    Ok(0)
}
