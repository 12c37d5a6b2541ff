//! Moving bytes: read, write, and everything built on them.

use perdure_riscv::Access;

use super::lengths::made_durable;
use super::seals::{SEAL_GROW, SEAL_WRITE};
use super::{Answer, Call, Stop, messages, pipes, terminals, threads, timers, watches};
use crate::errno::Errno;
use crate::owners;
use crate::signal::{self, SI_USER, SIGPIPE, SignalInfo};
use crate::vfs::descriptor::{
    O_APPEND, O_CLOEXEC, O_DIRECT, O_NONBLOCK, O_WRONLY, Object, OpenFile,
};
use crate::vfs::inode::{Device, InodeId, Node};
use crate::vfs::pipe::{EventCounter, PIPE_ATOMIC_BYTES, Pipe};
use crate::vfs::watch::{IN_ACCESS, IN_MODIFY};

/// The most bytes that one call moves.
pub(crate) const TRANSFER_BYTES_MAX: u64 = 0x7fff_f000;
/// The most bytes of them that are moved before others can have a turn.
pub(crate) const STEP_BYTES: u64 = 1 << 20;
/// The most pieces of one vector.
const PIECES_MAX: u64 = 1024;

/// Address and length of each piece of guest memory.
pub(crate) type Pieces = Vec<(u64, u64)>;

pub(crate) fn total(pieces: &Pieces) -> u64 {
    pieces.iter().map(|(_, length)| length).sum()
}

pub(crate) fn vector(call: &mut Call, address: u64, count: u64) -> Result<Pieces, Errno> {
    if count > PIECES_MAX {
        return Err(Errno::EINVAL);
    }
    let mut pieces = Vec::new();
    let mut room = TRANSFER_BYTES_MAX;
    for index in 0..count {
        let at = address.wrapping_add(16 * index);
        let start = call.read_u64(at)?;
        let length = call.read_u64(at.wrapping_add(8))?;
        if (length as i64) < 0 {
            return Err(Errno::EINVAL);
        }
        let length = length.min(room);
        room -= length;
        pieces.push((start, length));
    }
    Ok(pieces)
}

pub(crate) fn one_piece(address: u64, length: u64) -> Pieces {
    vec![(address, length.min(TRANSFER_BYTES_MAX))]
}

pub(crate) fn gather(call: &mut Call, pieces: &Pieces) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    for &(address, length) in pieces {
        match call
            .kernel
            .bytes_in(call.machine, call.space, address, length)
        {
            Ok(piece) => bytes.extend(piece),
            Err(_) if !bytes.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

pub(crate) fn scatter(call: &mut Call, pieces: &Pieces, mut bytes: &[u8]) -> Result<(), Errno> {
    for &(address, length) in pieces {
        let (now, later) = bytes.split_at(bytes.len().min(length as usize));
        call.write(address, now)?;
        bytes = later;
    }
    Ok(())
}

/// What a read or write is about.
pub(crate) enum Target {
    File(InodeId),
    Text(Vec<u8>),
    Device(Device),
    PipeReader(u32),
    PipeWriter(u32),
    Fifo(u32),
    Timer(u32),
    Signals(u32),
    Watcher(u32),
    /// An end of a terminal; true for the master.
    Terminal((u32, bool)),
    Event(u32),
    Socket,
}

pub(crate) fn target(call: &Call, number: u64) -> Result<Target, Errno> {
    Ok(match &call.file(number)?.object {
        Object::Inode(inode) => match &call.kernel.files.inode(*inode)?.node {
            Node::File(_) => Target::File(*inode),
            Node::Device(device) => Target::Device(*device),
            Node::Directory(_) | Node::DescriptorDirectory => return Err(Errno::EISDIR),
            Node::Namespace(_) => return Err(Errno::EINVAL),
            _ => return Err(Errno::EBADF),
        },
        Object::Text { text, .. } => Target::Text(text.clone()),
        Object::PipeReader(id) => Target::PipeReader(*id),
        Object::PipeWriter(id) => Target::PipeWriter(*id),
        Object::Fifo { pipe, .. } => Target::Fifo(*pipe),
        Object::Event(id) => Target::Event(*id),
        Object::Timer(id) => Target::Timer(*id),
        Object::Signals(id) => Target::Signals(*id),
        Object::Watcher(id) => Target::Watcher(*id),
        Object::Terminal {
            terminal, master, ..
        } => Target::Terminal((*terminal, *master)),
        Object::Poller(_) | Object::Process(_) | Object::Queue(_) => return Err(Errno::EINVAL),
        Object::Socket(_) => Target::Socket,
    })
}

/// A part of pieces.
pub(crate) fn part_of(pieces: &Pieces, mut skip: u64, mut length: u64) -> Pieces {
    let mut part = Vec::new();
    for &(address, whole) in pieces {
        let skipped = skip.min(whole);
        skip -= skipped;
        let taken = (whole - skipped).min(length);
        length -= taken;
        if taken > 0 {
            part.push((address.wrapping_add(skipped), taken));
        }
    }
    part
}

/// Moves bytes in bounded steps, between which the machine can stop, the hart do something else, and
/// a signal end the call with what is done. Each step pays for itself.
fn in_steps(
    call: &mut Call,
    pieces: &Pieces,
    act: impl FnOnce(&mut Call, &Pieces, u64) -> Answer,
) -> Answer {
    let whole = total(pieces);
    if whole <= STEP_BYTES {
        return act(call, pieces, 0);
    }
    let done = call.transferred();
    let step = part_of(pieces, done, STEP_BYTES);
    let moved = match act(call, &step, done) {
        Err(Stop::Error(_)) if done > 0 => return Ok(done),
        answer => answer?,
    };
    let done = done + moved;
    if moved < total(&step) || done >= whole {
        return Ok(done);
    }
    call.set_transferred(done);
    Err(Stop::Again)
}

/// True if bytes are always there, or there is always room for them.
fn never_waits(target: &Target) -> bool {
    matches!(
        target,
        Target::File(_) | Target::Text(_) | Target::Device(_)
    )
}

/// Tells who watches a file that something happened to it by a descriptor.
pub(crate) fn notify(call: &mut Call, number: u64, mask: u32) -> Result<(), Errno> {
    if call.kernel.open.watching.is_empty() {
        return Ok(());
    }
    let file = call.file(number)?;
    if let Some(inode) = file.inode() {
        let path = file.path.clone();
        call.kernel.notify_file(inode, &path, mask);
    }
    Ok(())
}

/// Reads into pieces; at `position`, or at the open file's offset, which then moves.
fn read_into(call: &mut Call, number: u64, pieces: &Pieces, position: Option<u64>) -> Answer {
    if total(pieces) > STEP_BYTES && never_waits(&target(call, number)?) {
        return in_steps(call, pieces, |call, step, done| {
            read_step(
                call,
                number,
                step,
                position.map(|at| at.saturating_add(done)),
            )
        });
    }
    read_step(call, number, pieces, position)
}

fn read_step(call: &mut Call, number: u64, pieces: &Pieces, position: Option<u64>) -> Answer {
    let file = call.file(number)?;
    if !file.readable() {
        return Err(pipes::not_that_way(call, number, position.is_some()).into());
    }
    let nonblocking = file.nonblocking();
    let offset = position.unwrap_or(file.offset);
    let wanted = total(pieces);
    let seekable = match target(call, number)? {
        Target::File(inode) => {
            let bytes = call.kernel.read_file(call.machine, inode, offset, wanted)?;
            scatter(call, pieces, &bytes)?;
            Some(bytes.len() as u64)
        }
        Target::Text(text) => {
            let from = text
                .get(offset.min(text.len() as u64) as usize..)
                .unwrap_or_default();
            let bytes = &from[..from.len().min(wanted as usize)];
            scatter(call, pieces, bytes)?;
            Some(bytes.len() as u64)
        }
        _ => None,
    };
    if let Some(count) = seekable {
        if count > 0 {
            notify(call, number, IN_ACCESS)?;
        }
        if position.is_none() {
            call.file_mut(number)?.offset = offset + count;
        }
        return Ok(count);
    }
    match target(call, number)? {
        Target::Device(device) => read_device(call, device, pieces, wanted),
        _ if position.is_some() => Err(Errno::ESPIPE.into()),
        Target::PipeReader(id) | Target::Fifo(id) => {
            read_pipe(call, id, pieces, wanted, nonblocking)
        }
        Target::Event(id) => read_event(call, id, pieces, wanted, nonblocking),
        Target::Terminal(end) => terminals::read(call, end, pieces, wanted, nonblocking),
        Target::Watcher(id) => watches::read_events(call, id, pieces, wanted, nonblocking),
        Target::Timer(id) => timers::read_timer(call, id, pieces, wanted, nonblocking),
        Target::Signals(id) => timers::read_signals(call, id, pieces, wanted, nonblocking),
        Target::Socket if wanted == 0 => Ok(0),
        Target::Socket => messages::read_socket(call, number, pieces),
        _ => Err(Errno::EBADF.into()),
    }
}

fn read_device(call: &mut Call, device: Device, pieces: &Pieces, wanted: u64) -> Answer {
    match device {
        Device::Null => Ok(0),
        Device::StandardInput => {
            let program = call.process().program as usize;
            let input = call.kernel.settings.programs[program].input();
            let from = call.kernel.progress[program].stdin_offset as usize;
            let to = input.len().min(from.saturating_add(wanted as usize));
            let bytes = input.get(from..to).unwrap_or_default().to_vec();
            scatter(call, pieces, &bytes)?;
            call.kernel.progress[program].stdin_offset += bytes.len() as u64;
            Ok(bytes.len() as u64)
        }
        Device::Zero | Device::Full | Device::Random => {
            for &(address, length) in pieces {
                fill(call, address, length, device == Device::Random)?;
            }
            Ok(wanted)
        }
        Device::StandardOutput
        | Device::StandardError
        | Device::Terminal
        | Device::Master
        | Device::Slave(_) => Err(Errno::EBADF.into()),
        Device::Region { .. } => Err(Errno::EINVAL.into()),
    }
}

/// Fills guest memory with zeros or random bytes, page by page.
fn fill(call: &mut Call, address: u64, length: u64, random: bool) -> Result<(), Errno> {
    let mut page = [0; 4096];
    let mut done = 0;
    while done < length {
        let count = (length - done).min(4096) as usize;
        if random {
            let program = call.process().program as usize;
            call.kernel.progress[program]
                .random
                .fill(&mut page[..count]);
        }
        let at = address.checked_add(done).ok_or(Errno::EFAULT)?;
        call.write(at, &page[..count])?;
        done += count as u64;
    }
    Ok(())
}

fn read_pipe(call: &mut Call, id: u32, pieces: &Pieces, wanted: u64, nonblocking: bool) -> Answer {
    let pipe = call.kernel.open.pipes.get(id).ok_or(Errno::EBADF)?;
    if wanted == 0 {
        return Ok(0);
    }
    if pipe.bytes.is_empty() {
        return match (pipe.writers, nonblocking) {
            (0, _) => Ok(0),
            (_, true) => Err(Errno::EAGAIN.into()),
            (_, false) => Err(Stop::for_files()),
        };
    }
    let bytes = peek_pipe(call, id, wanted);
    scatter(call, pieces, &bytes)?;
    consume_pipe(call, id, wanted);
    Ok(bytes.len() as u64)
}

/// What a read of a pipe would get.
pub(crate) fn peek_pipe(call: &Call, id: u32, wanted: u64) -> Vec<u8> {
    let open = &call.kernel.open;
    let Some(pipe) = open.pipes.get(id) else {
        return Vec::new();
    };
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let count = match open.traits.get(&id) {
        Some(traits) => traits.clone().take(pipe.bytes.len(), wanted).0,
        None => pipe.bytes.len().min(wanted),
    };
    pipe.bytes.iter().take(count).copied().collect()
}

/// Takes from a pipe what a read gets.
pub(crate) fn consume_pipe(call: &mut Call, id: u32, wanted: u64) {
    let open = &mut call.kernel.open;
    let Some(pipe) = open.pipes.get_mut(id) else {
        return;
    };
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let (taken, lost) = match open.traits.get_mut(&id) {
        Some(traits) => traits.take(pipe.bytes.len(), wanted),
        None => (pipe.bytes.len().min(wanted), 0),
    };
    pipe.bytes.drain(..(taken + lost).min(pipe.bytes.len()));
    pipe.activity += 1;
    call.wake_pipe_waiters(id);
    (call.kernel).tell_owners(|file| owners::is_end_of(file, id, false));
}

/// Puts bytes for which there is room into a pipe.
pub(crate) fn fill_pipe(call: &mut Call, id: u32, bytes: &[u8], packets: bool) {
    let open = &mut call.kernel.open;
    let Some(pipe) = open.pipes.get_mut(id) else {
        return;
    };
    if bytes.is_empty() {
        return;
    }
    if packets || open.traits.contains_key(&id) {
        let traits = open.traits.entry(id).or_default();
        let most = if packets {
            PIPE_ATOMIC_BYTES
        } else {
            bytes.len()
        };
        let mut held = pipe.bytes.len();
        for piece in bytes.chunks(most) {
            traits.append(held, piece.len(), packets);
            held += piece.len();
        }
    }
    pipe.bytes.extend(bytes);
    pipe.activity += 1;
    call.wake_pipe_waiters(id);
    (call.kernel).tell_owners(|file| owners::is_end_of(file, id, true));
}

/// The signal and the error of a write that nobody will read.
pub(crate) fn nobody_reads(call: &mut Call) -> Stop {
    let info = SignalInfo::sent(SIGPIPE, SI_USER, call.process);
    let target = signal::Target::Thread(call.thread);
    call.kernel.send_signal(target, info);
    Errno::EPIPE.into()
}

fn read_event(call: &mut Call, id: u32, pieces: &Pieces, wanted: u64, nonblocking: bool) -> Answer {
    let event = call.kernel.open.events.get(id).ok_or(Errno::EBADF)?;
    if wanted < 8 {
        return Err(Errno::EINVAL.into());
    }
    if event.value == 0 {
        return Err(if nonblocking {
            Errno::EAGAIN.into()
        } else {
            Stop::for_files()
        });
    }
    let taken = if event.semaphore { 1 } else { event.value };
    scatter(call, pieces, &taken.to_le_bytes())?;
    if let Some(event) = call.kernel.open.events.get_mut(id) {
        event.value -= taken;
        event.activity += 1;
    }
    call.wake_file_waiters();
    Ok(8)
}

/// Writes pieces; at `position`, or at the open file's offset, which then moves. They are durable before that
/// is answered if the file was opened so.
fn write_from(call: &mut Call, number: u64, pieces: &Pieces, position: Option<u64>) -> Answer {
    let count = write_pieces(call, number, pieces, position)?;
    made_durable(call, number, (position, false), count)
}

fn write_pieces(call: &mut Call, number: u64, pieces: &Pieces, position: Option<u64>) -> Answer {
    if !call.file(number)?.writable() {
        return Err(pipes::not_that_way(call, number, position.is_some()).into());
    }
    if messages::is_socket(call, number) {
        if position.is_some() {
            return Err(Errno::ESPIPE.into());
        }
        return messages::write_socket(call, number, pieces);
    }
    let (whole, target) = (total(pieces), target(call, number)?);
    if whole <= STEP_BYTES {
        let bytes = gather(call, pieces)?;
        return write_bytes(call, number, &bytes, position);
    }
    match target {
        Target::PipeWriter(id) | Target::Fifo(id) if position.is_none() => {
            let rest = gather(call, &part_of(pieces, call.transferred(), STEP_BYTES))?;
            let flags = call.file(number)?.flags;
            write_pipe(call, id, &rest, whole as usize, flags)
        }
        target if never_waits(&target) => in_steps(call, pieces, |call, step, done| {
            let bytes = gather(call, step)?;
            let position = position.map(|at| at.saturating_add(done));
            write_bytes(call, number, &bytes, position)
        }),
        // Of others only the beginning counts.
        _ => {
            let bytes = gather(call, &part_of(pieces, 0, STEP_BYTES))?;
            write_bytes(call, number, &bytes, position)
        }
    }
}

pub(crate) fn write_bytes(
    call: &mut Call,
    number: u64,
    bytes: &[u8],
    position: Option<u64>,
) -> Answer {
    let file = call.file(number)?;
    let (nonblocking, flags) = (file.nonblocking(), file.flags);
    let append = flags & O_APPEND != 0;
    let offset = position.unwrap_or(file.offset);
    match target(call, number)? {
        Target::File(inode) => {
            let size = call.kernel.files.file(inode)?.size;
            let at = if append { size } else { offset };
            if bytes.is_empty() {
                return Ok(0);
            }
            let bytes = &bytes[..call.writable_bytes(at, bytes.len())?];
            let grows = at.saturating_add(bytes.len() as u64) > size;
            call.check_seals(inode, SEAL_WRITE | if grows { SEAL_GROW } else { 0 })?;
            let written = match call.kernel.write_file(call.machine, inode, at, bytes) {
                Ok(()) => bytes.len() as u64,
                Err(error) => {
                    // Disk full after a part: the part counts.
                    let reached = call.kernel.files.file(inode)?.size;
                    if error != Errno::ENOSPC || reached <= at.max(size) {
                        return Err(error.into());
                    }
                    reached - at
                }
            };
            if position.is_none() {
                call.file_mut(number)?.offset = at + written;
            }
            notify(call, number, IN_MODIFY)?;
            Ok(written)
        }
        Target::Text(_) => threads::write_name(call, number, bytes),
        Target::Device(device) => write_device(call, device, bytes),
        _ if position.is_some() => Err(Errno::ESPIPE.into()),
        Target::PipeWriter(_) | Target::Fifo(_) if bytes.is_empty() => Ok(0),
        Target::PipeWriter(id) | Target::Fifo(id) => {
            let rest = bytes.get(call.transferred() as usize..);
            write_pipe(call, id, rest.unwrap_or_default(), bytes.len(), flags)
        }
        Target::Event(id) => write_event(call, id, bytes, nonblocking),
        Target::Socket => messages::send_bytes(call, number, bytes),
        Target::PipeReader(_) | Target::Watcher(_) => Err(Errno::EBADF.into()),
        Target::Timer(_) | Target::Signals(_) => Err(Errno::EINVAL.into()),
        Target::Terminal(end) => terminals::write(call, end, bytes, nonblocking),
    }
}

fn write_device(call: &mut Call, device: Device, bytes: &[u8]) -> Answer {
    match device {
        Device::StandardOutput => return Ok(write_stream(call, 1, bytes)?),
        Device::StandardError => return Ok(write_stream(call, 2, bytes)?),
        Device::Full => return Err(Errno::ENOSPC.into()),
        Device::Null | Device::Zero | Device::Random => {}
        Device::StandardInput | Device::Terminal | Device::Master | Device::Slave(_) => {
            return Err(Errno::EBADF.into());
        }
        Device::Region { .. } => return Err(Errno::EINVAL.into()),
    }
    Ok(bytes.len() as u64)
}

/// Standard output or error of the caller's program, as on a disk that gets full. What a program
/// writes in a second or later run is load alone, and goes nowhere.
fn write_stream(call: &mut Call, descriptor: u8, bytes: &[u8]) -> Result<u64, Errno> {
    let (program, run) = (call.process().program, call.process().run);
    if run > 0 {
        return Ok(bytes.len() as u64);
    }
    let limit = call.kernel.settings.host_limit_bytes;
    let room = limit.saturating_sub(call.kernel.output.written_bytes());
    let count = room.min(bytes.len() as u64);
    if count == 0 && !bytes.is_empty() {
        return Err(Errno::ENOSPC);
    }
    let bytes = &bytes[..count as usize];
    call.kernel.output.write(program, descriptor, bytes);
    Ok(count)
}

/// Writes the bytes of a pipe's write that are next, of `whole` bytes in all.
fn write_pipe(call: &mut Call, id: u32, rest: &[u8], whole: usize, flags: u32) -> Answer {
    let packets = flags & O_DIRECT != 0;
    let done = call.transferred() as usize;
    let pipe = call.kernel.open.pipes.get(id).ok_or(Errno::EBADF)?;
    if pipe.readers == 0 {
        let stop = nobody_reads(call);
        // What has been taken before is said, and the signal comes nevertheless.
        return if done > 0 { Ok(done as u64) } else { Err(stop) };
    }
    let whole_or_nothing = whole <= PIPE_ATOMIC_BYTES && done == 0;
    let room = call.kernel.open.pipe_room(id);
    let short = whole_or_nothing && room < rest.len();
    // Of packets, as many as get a page each.
    let count = match (short, packets) {
        (true, _) => 0,
        (_, true) => rest.len().min(room / PIPE_ATOMIC_BYTES * PIPE_ATOMIC_BYTES),
        (_, false) => rest.len().min(room),
    };
    fill_pipe(call, id, &rest[..count], packets);
    let done = done + count;
    if done >= whole {
        return Ok(done as u64);
    }
    if flags & O_NONBLOCK != 0 {
        return if done > 0 {
            Ok(done as u64)
        } else {
            Err(Errno::EAGAIN.into())
        };
    }
    call.set_transferred(done as u64);
    Err(Stop::for_files())
}

fn write_event(call: &mut Call, id: u32, bytes: &[u8], nonblocking: bool) -> Answer {
    let Some(raw) = bytes.first_chunk::<8>() else {
        return Err(Errno::EINVAL.into());
    };
    let add = u64::from_le_bytes(*raw);
    if add == u64::MAX {
        return Err(Errno::EINVAL.into());
    }
    let event = call.kernel.open.events.get_mut(id).ok_or(Errno::EBADF)?;
    match event
        .value
        .checked_add(add)
        .filter(|&value| value < u64::MAX)
    {
        Some(value) => {
            event.value = value;
            event.activity += 1;
            call.wake_file_waiters();
            Ok(8)
        }
        None if nonblocking => Err(Errno::EAGAIN.into()),
        None => Err(Stop::for_files()),
    }
}

/// `read`.
pub(crate) fn read(call: &mut Call) -> Answer {
    let [number, address, length, ..] = call.arguments;
    read_into(call, number, &one_piece(address, length), None)
}

/// `write`.
pub(crate) fn write(call: &mut Call) -> Answer {
    let [number, address, length, ..] = call.arguments;
    write_from(call, number, &one_piece(address, length), None)
}

/// `readv`.
pub(crate) fn readv(call: &mut Call) -> Answer {
    let [number, address, count, ..] = call.arguments;
    let pieces = vector(call, address, count)?;
    read_into(call, number, &pieces, None)
}

/// `writev`.
pub(crate) fn writev(call: &mut Call) -> Answer {
    let [number, address, count, ..] = call.arguments;
    let pieces = vector(call, address, count)?;
    write_from(call, number, &pieces, None)
}

pub(crate) fn position(value: u64) -> Result<u64, Errno> {
    if (value as i64) < 0 {
        Err(Errno::EINVAL)
    } else {
        Ok(value)
    }
}

/// `pread64`.
pub(crate) fn pread64(call: &mut Call) -> Answer {
    let [number, address, length, offset, ..] = call.arguments;
    let at = position(offset)?;
    read_into(call, number, &one_piece(address, length), Some(at))
}

/// `pwrite64`.
pub(crate) fn pwrite64(call: &mut Call) -> Answer {
    let [number, address, length, offset, ..] = call.arguments;
    let at = position(offset)?;
    write_from(call, number, &one_piece(address, length), Some(at))
}

/// `preadv`.
pub(crate) fn preadv(call: &mut Call) -> Answer {
    let [number, address, count, offset, ..] = call.arguments;
    let pieces = vector(call, address, count)?;
    read_into(call, number, &pieces, Some(position(offset)?))
}

/// `pwritev`.
pub(crate) fn pwritev(call: &mut Call) -> Answer {
    let [number, address, count, offset, ..] = call.arguments;
    let pieces = vector(call, address, count)?;
    write_from(call, number, &pieces, Some(position(offset)?))
}

/// Flags of one transfer: ask again and again, be durable (data, everything), do not wait, append.
const RWF_HIPRI: u32 = 1;
const RWF_DSYNC: u32 = 2;
const RWF_SYNC: u32 = 4;
const RWF_NOWAIT: u32 = 8;
const RWF_APPEND: u32 = 16;

/// Refuses flags of a transfer that there are not.
pub(crate) fn check_transfer_flags(flags: u32) -> Result<(), Errno> {
    const KNOWN: u32 = RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND;
    if flags & !KNOWN == 0 {
        Ok(())
    } else {
        Err(Errno::EOPNOTSUPP)
    }
}

/// Reads or writes as flags of this one transfer say.
pub(crate) fn transfer_with(
    call: &mut Call,
    flags: u32,
    writes: bool,
    number: u64,
    pieces: &Pieces,
    mut position: Option<u64>,
) -> Answer {
    if !writes {
        let answer = read_into(call, number, pieces, position);
        return without_waiting(call, flags, answer);
    }
    if let Target::File(inode) = target(call, number)? {
        // As ext4, which cannot know that a write will not wait.
        if flags & RWF_NOWAIT != 0 {
            return Err(Errno::EOPNOTSUPP.into());
        }
        if flags & RWF_APPEND != 0 {
            let size = call.kernel.files.file(inode)?.size;
            let begun = size.saturating_sub(call.transferred());
            match &mut position {
                Some(at) => *at = begun,
                None => call.file_mut(number)?.offset = size,
            }
        }
    }
    let answer = write_pieces(call, number, pieces, position);
    let count = without_waiting(call, flags, answer)?;
    let wished = flags & (RWF_DSYNC | RWF_SYNC) != 0;
    made_durable(call, number, (position, wished), count)
}

/// What a transfer answers that would wait but shall not.
fn without_waiting(call: &Call, flags: u32, answer: Answer) -> Answer {
    match answer {
        Err(Stop::Wait(..)) if flags & RWF_NOWAIT != 0 => match call.transferred() {
            0 => Err(Errno::EAGAIN.into()),
            moved => Ok(moved),
        },
        answer => answer,
    }
}

/// `preadv2` and `pwritev2`; an offset of −1 means the file's own.
fn vector_with(call: &mut Call, writes: bool) -> Answer {
    let [number, address, count, offset, _, flags] = call.arguments;
    let pieces = vector(call, address, count)?;
    let at = if offset == u64::MAX {
        None
    } else {
        Some(position(offset)?)
    };
    check_transfer_flags(flags as u32)?;
    transfer_with(call, flags as u32, writes, number, &pieces, at)
}

/// `preadv2`.
pub(crate) fn preadv2(call: &mut Call) -> Answer {
    vector_with(call, false)
}

/// `pwritev2`.
pub(crate) fn pwritev2(call: &mut Call) -> Answer {
    vector_with(call, true)
}

/// `getrandom`.
pub(crate) fn getrandom(call: &mut Call) -> Answer {
    let [address, length, flags, ..] = call.arguments;
    if flags & !7 != 0 {
        return Err(Errno::EINVAL.into());
    }
    in_steps(call, &one_piece(address, length), |call, step, _| {
        for &(address, length) in step {
            fill(call, address, length, true)?;
        }
        Ok(total(step))
    })
}

/// `pipe2`.
pub(crate) fn pipe2(call: &mut Call) -> Answer {
    let [address, flags, ..] = call.arguments;
    let flags = flags as u32;
    if flags & !(O_CLOEXEC | O_NONBLOCK | O_DIRECT) != 0 {
        return Err(Errno::EINVAL.into());
    }
    call.kernel
        .touch(call.machine, call.space, address, 8, Access::Store)?;
    let open = &mut call.kernel.open;
    let id = open.pipes.insert(Pipe {
        readers: 1,
        writers: 1,
        ..Pipe::default()
    });
    let name = format!("pipe:[{id}]");
    let kept = flags & (O_NONBLOCK | O_DIRECT);
    let reader = OpenFile::new(Object::PipeReader(id), kept, name.clone());
    let writer = OpenFile::new(Object::PipeWriter(id), kept | O_WRONLY, name);
    let first = match call.open(reader, flags & O_CLOEXEC != 0) {
        Ok(first) => first,
        Err(error) => {
            call.kernel.open.pipes.remove(id);
            return Err(error.into());
        }
    };
    let second = match call.open(writer, flags & O_CLOEXEC != 0) {
        Ok(second) => second,
        Err(error) => {
            call.kernel.close(call.process, first)?;
            call.kernel.open.pipes.remove(id);
            return Err(error.into());
        }
    };
    call.write_pair(address, first, second)
}

/// `eventfd2`.
pub(crate) fn eventfd2(call: &mut Call) -> Answer {
    let [value, flags, ..] = call.arguments;
    let flags = flags as u32;
    if flags & !(O_CLOEXEC | O_NONBLOCK | 1) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let event = EventCounter {
        value: value & 0xffff_ffff,
        semaphore: flags & 1 != 0,
        activity: 0,
    };
    let id = call.kernel.open.events.insert(event);
    let file = OpenFile::new(
        Object::Event(id),
        flags & O_NONBLOCK | 2,
        "anon_inode:[eventfd]".to_owned(),
    );
    call.open_made(file, flags & O_CLOEXEC != 0, |kernel| {
        kernel.open.events.remove(id);
    })
}
