//! FIFOs, the sizes of pipes, and moving bytes between pipes and files inside the kernel.
//!
//! Always true: whoever waits for the other end of a FIFO has not opened it yet; the one who comes
//! opens it for both, so that neither can miss the other.

use super::copying::{offset_at, take_bytes, take_stream};
use super::lengths::made_durable;
use super::messages;
use super::transfer::{
    self, TRANSFER_BYTES_MAX, consume_pipe, fill_pipe, gather, nobody_reads, peek_pipe, vector,
    write_bytes,
};
use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::ThreadId;
use crate::process::ProcessId;
use crate::thread::{ThreadState, Wait};
use crate::vfs::InodeId;
use crate::vfs::descriptor::{
    O_ACCMODE, O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECT, O_EXCL, O_NONBLOCK, O_TRUNC, O_WRONLY,
    Object, OpenFile,
};
use crate::vfs::pipe::{Pipe, PipeTraits, capacity_for};
use crate::vfs::watch::IN_ACCESS;

const SPLICE_F_NONBLOCK: u64 = 2;
const SPLICE_FLAGS: u64 = 15;

/// Why what is not open for it is not read or written: a pipe is asked for at no position first.
pub(crate) fn not_that_way(call: &Call, number: u64, at_position: bool) -> Errno {
    use transfer::Target::{Fifo, PipeReader, PipeWriter};
    match transfer::target(call, number) {
        Ok(PipeReader(_) | PipeWriter(_) | Fifo(_)) if at_position => Errno::ESPIPE,
        _ => Errno::EBADF,
    }
}

fn reads(flags: u32) -> bool {
    flags & O_ACCMODE != O_WRONLY
}

fn writes(flags: u32) -> bool {
    flags & O_ACCMODE != 0
}

impl Kernel {
    /// The threads that wait for the other end of a FIFO, with the flags that they gave.
    fn fifo_waiters(&self, inode: InodeId) -> Vec<(ThreadId, u32)> {
        let all = self.threads.values();
        let waiting = all.filter_map(|thread| match thread.state {
            ThreadState::Blocked {
                wait: Wait::Fifo { inode: at, flags },
                ..
            } if at == inode => Some((thread.id, flags)),
            _ => None,
        });
        waiting.collect()
    }

    /// True if a thread waits for the other end of a FIFO.
    pub(crate) fn waits_for_fifo(&self, inode: InodeId) -> bool {
        !self.fifo_waiters(inode).is_empty()
    }

    /// Opens a FIFO for a process.
    fn enter_fifo(&mut self, process: ProcessId, inode: InodeId, flags: u32) -> Result<u32, Errno> {
        let path = self.files.path_of(inode);
        let path = path.unwrap_or_else(|| "(deleted)".to_owned());
        let open = &mut self.open;
        let pipe = open.pipe_of_fifo(inode).unwrap_or_else(|| {
            let id = open.pipes.insert(Pipe::default());
            let traits = PipeTraits {
                fifo: Some(inode),
                ..PipeTraits::default()
            };
            open.traits.insert(id, traits);
            id
        });
        let never_written = flags & O_NONBLOCK != 0
            && !writes(flags)
            && open.pipes.get(pipe).is_some_and(|ends| ends.writers == 0);
        let opens = open.traits.get(&pipe).map(|traits| traits.writer_opens);
        let object = Object::Fifo {
            pipe,
            inode,
            before: opens.filter(|_| never_written),
        };
        let kept = flags & !(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC);
        let opener = &mut self.processes[process];
        let most = opener.descriptors_max();
        let descriptors = &mut opener.descriptors;
        let file = OpenFile::new(object, kept, path);
        let number = open.open(descriptors, file, flags & O_CLOEXEC != 0, most);
        if number.is_ok() {
            if let Some(ends) = open.pipes.get_mut(pipe) {
                ends.readers += u32::from(reads(flags));
                ends.writers += u32::from(writes(flags));
                ends.activity += 1;
            }
            if let Some(traits) = open.traits.get_mut(&pipe)
                && writes(flags)
            {
                traits.writer_opens = traits.writer_opens.wrapping_add(1);
            }
        } else if let Some(ends) = open.pipes.get(pipe)
            && ends.readers + ends.writers == 0
        {
            open.pipes.remove(pipe);
            open.traits.remove(&pipe);
        }
        number
    }
}

/// `open` of a FIFO: waits for the other end, if it is for one end alone.
pub(crate) fn open_fifo(call: &mut Call, inode: InodeId, flags: u32) -> Answer {
    // Neither for reading nor for writing, as devices may be.
    if flags & O_ACCMODE == O_ACCMODE {
        return Err(Errno::EINVAL.into());
    }
    let kernel = &mut *call.kernel;
    let pipe = kernel.open.pipe_of_fifo(inode);
    let ends = pipe.and_then(|pipe| kernel.open.pipes.get(pipe));
    let (readers, writers) = ends.map_or((0, 0), |ends| (ends.readers, ends.writers));
    let waiting = kernel.fifo_waiters(inode);
    let somebody =
        |count: u32, is: fn(u32) -> bool| count > 0 || waiting.iter().any(|&(_, flags)| is(flags));
    let alone = match flags & O_ACCMODE {
        0 => !somebody(writers, writes),
        O_WRONLY => !somebody(readers, reads),
        _ => false,
    };
    if alone && flags & O_NONBLOCK == 0 {
        return Err(Stop::Wait(Wait::Fifo { inode, flags }, None));
    }
    if alone && writes(flags) {
        return Err(Errno::ENXIO.into());
    }
    let number = kernel.enter_fifo(call.process, inode, flags)?;
    for (thread, theirs) in waiting {
        let meets = reads(flags) && writes(theirs) || writes(flags) && reads(theirs);
        if meets {
            let process = kernel.process_of(thread);
            let answer = match kernel.enter_fifo(process, inode, theirs) {
                Ok(number) => i64::from(number),
                Err(error) => -i64::from(error.0),
            };
            kernel.unblock(thread, Some(answer));
        }
    }
    kernel.wake_all_file_waiters();
    Ok(u64::from(number))
}

/// The pipe behind a descriptor, and whether it is for reading and for writing.
fn pipe_of(call: &Call, number: u64) -> Result<Option<(u32, bool, bool)>, Errno> {
    let file = call.file(number)?;
    Ok(match file.object {
        Object::PipeReader(id) => Some((id, true, false)),
        Object::PipeWriter(id) => Some((id, false, true)),
        Object::Fifo { pipe, .. } => Some((pipe, file.readable(), file.writable())),
        _ => None,
    })
}

/// `F_GETPIPE_SZ`.
pub(crate) fn size(call: &mut Call, number: u64) -> Answer {
    let (id, ..) = pipe_of(call, number)?.ok_or(Errno::EBADF)?;
    let traits = call.kernel.open.traits.get(&id);
    let bytes = traits.map_or(crate::vfs::pipe::PIPE_BYTES, PipeTraits::capacity);
    Ok(bytes as u64)
}

/// `F_SETPIPE_SZ`.
pub(crate) fn set_size(call: &mut Call, number: u64, wish: u64) -> Answer {
    let (id, ..) = pipe_of(call, number)?.ok_or(Errno::EBADF)?;
    let open = &mut call.kernel.open;
    let others = open.traits.iter().filter(|&(&other, _)| other != id);
    let others = others.map(|(_, traits)| traits.capacity() as u64).sum();
    let bytes = capacity_for(wish, others)?;
    let pipe = open.pipes.get(id).ok_or(Errno::EBADF)?;
    let wider = PipeTraits {
        capacity: Some(1 << 20),
        ..open.traits.get(&id).cloned().unwrap_or_default()
    };
    let taken = (1 << 20) - pipe.room(Some(&wider));
    if taken > bytes as usize {
        return Err(Errno::EBUSY.into());
    }
    open.traits.entry(id).or_default().capacity = Some(bytes);
    call.wake_pipe_waiters(id);
    Ok(u64::from(bytes))
}

/// What is to be done about a pipe that gives: go on, or how the call ends.
fn must_give(call: &Call, id: u32, waits: bool) -> Result<bool, Stop> {
    let pipe = call.kernel.open.pipes.get(id).ok_or(Errno::EBADF)?;
    match (pipe.bytes.is_empty(), pipe.writers, waits) {
        (false, ..) => Ok(true),
        (true, 0, _) => Ok(false),
        (true, _, false) => Err(Errno::EAGAIN.into()),
        (true, _, true) => Err(Stop::for_files()),
    }
}

/// The room of a pipe that takes; there is some.
fn must_take(call: &mut Call, id: u32, waits: bool) -> Result<u64, Stop> {
    let readers = call
        .kernel
        .open
        .pipes
        .get(id)
        .map_or(0, |pipe| pipe.readers);
    if readers == 0 {
        return Err(nobody_reads(call));
    }
    match (call.kernel.open.pipe_room(id), waits) {
        (0, false) => Err(Errno::EAGAIN.into()),
        (0, true) => Err(Stop::for_files()),
        (room, _) => Ok(room as u64),
    }
}

/// Whether a call with these flags waits at an open file.
fn waits(call: &Call, number: u64, flags: u64) -> Result<bool, Errno> {
    let nonblocking = call.file(number)?.nonblocking();
    Ok(flags & SPLICE_F_NONBLOCK == 0 && !nonblocking)
}

/// `splice`.
pub(crate) fn splice(call: &mut Call) -> Answer {
    let [from, from_at, to, to_at, length, flags] = call.arguments;
    if flags & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL.into());
    }
    if length == 0 {
        return Ok(0);
    }
    let length = length.min(TRANSFER_BYTES_MAX);
    let (source, sink) = (pipe_of(call, from)?, pipe_of(call, to)?);
    if !call.file(from)?.readable() || !call.file(to)?.writable() {
        return Err(Errno::EBADF.into());
    }
    if source.is_some() && from_at != 0 || sink.is_some() && to_at != 0 {
        return Err(Errno::ESPIPE.into());
    }
    match (source, sink) {
        (None, None) => Err(Errno::EINVAL.into()),
        (Some((source, ..)), Some((sink, ..))) => {
            if source == sink {
                return Err(Errno::EINVAL.into());
            }
            let waits = waits(call, from, flags)? && waits(call, to, flags)?;
            if !must_give(call, source, waits)? {
                return Ok(0);
            }
            let room = must_take(call, sink, waits)?;
            let wanted = length.min(room);
            let bytes = peek_pipe(call, source, wanted);
            consume_pipe(call, source, wanted);
            fill_pipe(call, sink, &bytes, false);
            Ok(bytes.len() as u64)
        }
        (Some((source, ..)), None) => {
            let gives = waits(call, from, flags)?;
            let at = offset_at(call, to_at)?;
            if call.file(to)?.flags & O_APPEND != 0 {
                return Err(Errno::EINVAL.into());
            }
            if !must_give(call, source, gives)? {
                return Ok(0);
            }
            let bytes = peek_pipe(call, source, length);
            let written = write_bytes(call, to, &bytes, at)?;
            consume_pipe(call, source, written);
            if let Some(at) = at {
                call.write(to_at, &(at + written).to_le_bytes())?;
            }
            made_durable(call, to, (at, false), written)
        }
        (None, Some((sink, ..))) => {
            let takes = waits(call, to, flags)?;
            let gives = waits(call, from, flags)?;
            let at = offset_at(call, from_at)?;
            let length = length.min(must_take(call, sink, takes)?);
            let bytes = if messages::is_socket(call, from) && at.is_none() {
                take_stream(call, from, length, gives)?
            } else {
                take_file(call, from, (from_at, at), length)?
            };
            fill_pipe(call, sink, &bytes, false);
            Ok(bytes.len() as u64)
        }
    }
}

/// What a file gives to a pipe, at an offset that the guest keeps or at its own, which then moves.
fn take_file(
    call: &mut Call,
    from: u64,
    (from_at, at): (u64, Option<u64>),
    length: u64,
) -> Result<Vec<u8>, Errno> {
    let position = at.unwrap_or(call.file(from)?.offset);
    let bytes = take_bytes(call, from, position, length)?;
    let moved = position + bytes.len() as u64;
    match at {
        Some(_) => call.write(from_at, &moved.to_le_bytes())?,
        None => call.file_mut(from)?.offset = moved,
    }
    if !bytes.is_empty() {
        transfer::notify(call, from, IN_ACCESS)?;
    }
    Ok(bytes)
}

/// `tee`.
pub(crate) fn tee(call: &mut Call) -> Answer {
    let [from, to, length, flags, ..] = call.arguments;
    if flags & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL.into());
    }
    if length == 0 {
        return Ok(0);
    }
    let (source, sink) = (pipe_of(call, from)?, pipe_of(call, to)?);
    if !call.file(from)?.readable() || !call.file(to)?.writable() {
        return Err(Errno::EBADF.into());
    }
    let (Some((source, ..)), Some((sink, ..))) = (source, sink) else {
        return Err(Errno::EINVAL.into());
    };
    if source == sink {
        return Err(Errno::EINVAL.into());
    }
    let waits = waits(call, from, flags)? && waits(call, to, flags)?;
    if !must_give(call, source, waits)? {
        return Ok(0);
    }
    let room = must_take(call, sink, waits)?;
    let bytes = peek_pipe(call, source, length.min(room));
    fill_pipe(call, sink, &bytes, false);
    Ok(bytes.len() as u64)
}

/// `vmsplice`: pages are copied, which no program can tell from giving them away.
pub(crate) fn vmsplice(call: &mut Call) -> Answer {
    let [number, address, count, flags, ..] = call.arguments;
    if flags & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL.into());
    }
    let (id, _, takes) = pipe_of(call, number)?.ok_or(Errno::EBADF)?;
    let pieces = vector(call, address, count)?;
    let waits = waits(call, number, flags)?;
    let wanted = transfer::total(&pieces);
    if wanted == 0 {
        return Ok(0);
    }
    if takes {
        let room = must_take(call, id, waits)?;
        let mut left = room;
        let fitting = pieces.iter().map(|&(start, length)| {
            let now = length.min(left);
            left -= now;
            (start, now)
        });
        let fitting = fitting.collect();
        let bytes = gather(call, &fitting)?;
        let packets = call.file(number)?.flags & O_DIRECT != 0;
        fill_pipe(call, id, &bytes, packets);
        return Ok(bytes.len() as u64);
    }
    if !must_give(call, id, waits)? {
        return Ok(0);
    }
    let bytes = peek_pipe(call, id, wanted);
    transfer::scatter(call, &pieces, &bytes)?;
    consume_pipe(call, id, wanted);
    Ok(bytes.len() as u64)
}
