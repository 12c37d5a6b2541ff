//! The calls of asynchronous input and output.

use super::polling::{POLLERR, POLLHUP};
use super::preferences::check_io_priority;
use super::transfer::{
    Pieces, STEP_BYTES, Target, check_transfer_flags, one_piece, target, total, transfer_with,
    vector,
};
use super::{Answer, Call, Stop, signals};
use crate::address_space::{Backing, Mapping, Purpose, SPACE_END};
use crate::asynchronous::{
    EVENT_BYTES, Event, Poll, REQUESTS_MAX, RequestContext, Submission, Unfinished, ring_of,
};
use crate::errno::Errno;
use crate::page_table::{READ, WRITE};
use crate::thread::Wait;
use crate::vfs::descriptor::Object;
use crate::vfs::inode::Device;
use crate::vfs::{InodeId, Node};

/// Cycles of taking up a request.
const REQUEST_CYCLES: u64 = 150;
/// Requests taken up, and events told, before others can have a turn.
const STEP_REQUESTS: u64 = 256;

const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
const POLL: u16 = 5;
const PREADV: u16 = 7;
const PWRITEV: u16 = 8;

const FLAG_COUNTER: u32 = 1;
const FLAG_PRIORITY: u32 = 2;

/// `struct iocb`.
struct Request {
    data: u64,
    rw_flags: u32,
    operation: u16,
    priority: u16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: u64,
    reserved: u64,
    flags: u32,
    counter: u32,
}

impl Request {
    const BYTES: usize = 64;
    /// Where the kernel writes a zero, to see that it is writable.
    const KEY: u64 = 8;

    fn of(raw: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| raw[at + index]));
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| raw[at + index]));
        Self {
            data: word(0),
            rw_flags: half(12),
            operation: half(16) as u16,
            priority: (half(16) >> 16) as u16,
            file: half(20),
            buffer: word(24),
            bytes: word(32),
            offset: word(40),
            reserved: word(48),
            flags: half(56),
            counter: half(60),
        }
    }

    /// What only transfers have.
    fn has_place(&self) -> bool {
        self.bytes != 0 || self.offset != 0 || self.rw_flags != 0
    }
}

/// What became of a request that was taken up.
enum Taken {
    /// It is done, with this result; true if that shall be durable.
    Done(i64, bool),
    /// It waits for its file to be ready.
    Waits(u32),
}

impl Call<'_> {
    fn context_at(&mut self, id: InodeId) -> Result<&mut RequestContext, Errno> {
        let contexts = &mut self.kernel.rare.asynchronous.contexts;
        contexts.get_mut(&id).ok_or(Errno::EINVAL)
    }

    /// The open file of an event counter.
    fn counter_of(&self, request: &Request) -> Result<Option<u32>, Errno> {
        if request.flags & FLAG_COUNTER == 0 {
            return Ok(None);
        }
        let number = u64::from(request.counter);
        match self.file(number)?.object {
            Object::Event(_) => Ok(Some(self.descriptor(number)?.file)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// True if Linux has an asynchronous read or write for what a descriptor stands for.
    fn transfers(&self, number: u64, writes: bool) -> bool {
        target(self, number).is_ok_and(|target| match target {
            Target::Timer(_) | Target::Signals(_) | Target::Watcher(_) => false,
            Target::Event(_) | Target::Device(Device::Full) => !writes,
            _ => true,
        })
    }

    /// Where in guest memory the bytes of a transfer are.
    fn pieces_of(&mut self, request: &Request) -> Result<Pieces, Errno> {
        let pieces = if matches!(request.operation, PREADV | PWRITEV) {
            vector(self, request.buffer, request.bytes)?
        } else {
            one_piece(request.buffer, request.bytes)
        };
        let inside = |&(start, bytes): &(u64, u64)| {
            let end = start.checked_add(bytes);
            end.is_some_and(|end| end <= SPACE_END)
        };
        if pieces.iter().all(inside) {
            Ok(pieces)
        } else {
            Err(Errno::EFAULT)
        }
    }
}

/// `io_setup`.
pub(crate) fn io_setup(call: &mut Call) -> Answer {
    let [requests, name, ..] = call.arguments;
    let requests = requests as u32;
    if call.read_u64(name)? != 0 || requests == 0 {
        return Err(Errno::EINVAL.into());
    }
    let (places, bytes) = ring_of(requests, call.kernel.settings.harts)?;
    if call.kernel.rare.asynchronous.requests() + u64::from(requests) > REQUESTS_MAX {
        return Err(Errno::EAGAIN.into());
    }
    let start = call.kernel.spaces[call.space].find_gap(bytes);
    let start = start.ok_or(Errno::ENOMEM)?;
    call.write(name, &start.to_le_bytes())?;
    let backing = super::memory::shared_memory(call, bytes);
    let Backing::File { inode, .. } = backing else {
        return Err(Errno::ENOMEM.into());
    };
    let mapping = Mapping {
        end: start + bytes,
        permissions: READ | WRITE,
        shared: true,
        backing,
        purpose: Purpose::Plain,
    };
    call.kernel.map(call.machine, call.space, start, mapping);
    let context = RequestContext {
        space: call.space,
        requests,
        places,
        events: std::collections::VecDeque::new(),
        polls: Vec::new(),
    };
    let contexts = &mut call.kernel.rare.asynchronous.contexts;
    contexts.insert(inode, context);
    Ok(0)
}

/// `io_destroy`.
pub(crate) fn io_destroy(call: &mut Call) -> Answer {
    let start = call.arguments[0];
    let id = call.kernel.request_context(call.space, start)?;
    let bytes = call.kernel.files.file(id)?.size;
    call.kernel.end_request_context(id);
    call.kernel
        .unmap(call.machine, call.space, &(start..start + bytes));
    call.wake_file_waiters();
    Ok(0)
}

/// `io_submit`. What was taken up before a request that cannot be counts.
pub(crate) fn io_submit(call: &mut Call) -> Answer {
    let [name, count, list, ..] = call.arguments;
    let id = call.kernel.request_context(call.space, name)?;
    if (count as i64) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let count = count.min(u64::from(call.context_at(id)?.places));
    let thread = call.thread;
    let earlier = call.kernel.rare.asynchronous.submissions.remove(&thread);
    let mut submission = earlier.unwrap_or_default();
    let first = call.transferred();
    let (mut done, mut moved) = (first, 0);
    let mut stop = None;
    while done < count {
        if done - first >= STEP_REQUESTS || moved >= STEP_BYTES {
            stop = Some(Stop::Again);
            break;
        }
        match hand_in(call, id, list.wrapping_add(8 * done), &mut submission) {
            Ok(bytes) => {
                moved += bytes;
                done += 1;
            }
            Err(Stop::Error(error)) if done == 0 => return Err(error.into()),
            Err(Stop::Error(_)) => break,
            Err(later) => {
                stop = Some(later);
                break;
            }
        }
    }
    if done > first {
        call.wake_file_waiters();
    }
    if let Some(stop) = stop {
        call.set_transferred(done);
        let submissions = &mut call.kernel.rare.asynchronous.submissions;
        submissions.insert(thread, submission);
        return Err(stop);
    }
    if submission.commits {
        return Err(Stop::Commit(done));
    }
    Ok(done)
}

/// Takes up the request that a list names at an address; the bytes that it moved.
fn hand_in(call: &mut Call, id: InodeId, at: u64, submission: &mut Submission) -> Answer {
    call.machine.charge(REQUEST_CYCLES);
    let address = call.read_u64(at)?;
    let mut raw = [0; Request::BYTES];
    call.kernel
        .copy_in(call.machine, call.space, address, &mut raw)?;
    let request = Request::of(&raw);
    if request.reserved != 0 || (request.bytes as i64) < 0 {
        return Err(Errno::EINVAL.into());
    }
    if call.context_at(id)?.is_full() {
        return Err(Errno::EAGAIN.into());
    }
    let file = call.descriptor(u64::from(request.file))?.file;
    let counter = call.counter_of(&request)?;
    call.write(address.wrapping_add(Request::KEY), &0_u32.to_le_bytes())?;
    let event = Event {
        data: request.data,
        request: address,
        result: 0,
    };
    let continued = submission.unfinished.take();
    let before = continued.map_or(0, |unfinished| unfinished.moved);
    let taken = match request.operation {
        PREAD | PREADV | PWRITE | PWRITEV => transfer(call, &request, before),
        FSYNC | FDSYNC => synchronise(call, &request),
        POLL => poll(call, &request),
        _ => Err(Errno::EINVAL.into()),
    };
    match taken {
        Ok(Taken::Done(result, commits)) => {
            submission.commits |= commits;
            let event = Event { result, ..event };
            call.kernel.complete_request(id, event, counter);
            Ok(result.max(0) as u64)
        }
        Ok(Taken::Waits(mask)) => {
            for held in [Some(file), counter].into_iter().flatten() {
                if let Some(held) = call.kernel.open.files.get_mut(held) {
                    held.references += 1;
                }
            }
            call.context_at(id)?.polls.push(Poll {
                event,
                mask,
                file,
                counter,
            });
            Ok(0)
        }
        Err(Stop::Error(error)) => Err(error.into()),
        Err(stop) => {
            submission.unfinished = Some(Unfinished {
                context: id,
                event,
                counter,
                moved: call.transferred(),
            });
            Err(stop)
        }
    }
}

/// Reads or writes, of which `before` bytes have been moved.
fn transfer(call: &mut Call, request: &Request, before: u64) -> Result<Taken, Stop> {
    let number = u64::from(request.file);
    let writes = matches!(request.operation, PWRITE | PWRITEV);
    if request.flags & FLAG_PRIORITY != 0 {
        check_io_priority(u32::from(request.priority))?;
    }
    check_transfer_flags(request.rw_flags)?;
    let file = call.file(number)?;
    let allowed = if writes {
        file.writable()
    } else {
        file.readable()
    };
    if !allowed {
        return Err(Errno::EBADF.into());
    }
    if !call.transfers(number, writes) {
        return Err(Errno::EINVAL.into());
    }
    let pieces = call.pieces_of(request)?;
    if (request.offset as i64) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let position = match target(call, number)? {
        Target::File(_) | Target::Text(_) | Target::Device(_) => Some(request.offset),
        Target::Socket if request.offset != 0 => return Ok(failed(Errno::ESPIPE)),
        _ => None,
    };
    if writes && before == 0 {
        const PWRITE64: u64 = 68;
        let bytes = total(&pieces);
        let arguments = [number, request.buffer, bytes, request.offset, 0, 0];
        let process = call.process;
        if (call.kernel)
            .make_room_for_call(PWRITE64, &arguments, process)
            .is_err()
        {
            return Err(Errno::EAGAIN.into());
        }
    }
    call.set_transferred(before);
    match transfer_with(call, request.rw_flags, writes, number, &pieces, position) {
        Ok(count) => Ok(Taken::Done(count as i64, false)),
        Err(Stop::Commit(count)) => Ok(Taken::Done(count as i64, true)),
        Err(Stop::Error(error)) => Ok(failed(error)),
        Err(stop) => Err(stop),
    }
}

fn failed(error: Errno) -> Taken {
    Taken::Done(-i64::from(error.0), false)
}

/// `fsync` and `fdatasync`.
fn synchronise(call: &mut Call, request: &Request) -> Result<Taken, Stop> {
    let file = call.file(u64::from(request.file))?;
    let Object::Inode(inode) = file.object else {
        return Err(Errno::EINVAL.into());
    };
    let node = &call.kernel.files.inode(inode)?.node;
    let is_file = matches!(node, Node::File(_) | Node::Directory(_));
    if request.buffer != 0 || request.has_place() || !is_file {
        return Err(Errno::EINVAL.into());
    }
    let of_pool = (call.kernel).synchronise_pool(call.machine, inode, 0..u64::MAX)?;
    Ok(Taken::Done(0, !of_pool))
}

/// Waits for a file to be ready; what never blocks is ready at once, or cannot be asked.
fn poll(call: &Call, request: &Request) -> Result<Taken, Stop> {
    let Ok(asked) = u16::try_from(request.buffer) else {
        return Err(Errno::EINVAL.into());
    };
    if request.has_place() {
        return Err(Errno::EINVAL.into());
    }
    let file = call.file(u64::from(request.file))?;
    let mask = u32::from(asked) | POLLERR | POLLHUP;
    let ready = call.kernel.readiness(file, call.thread).0 & mask;
    match (ready, &file.object) {
        (0, Object::Inode(_) | Object::Text { .. }) => Err(Errno::EINVAL.into()),
        (0, _) => Ok(Taken::Waits(mask)),
        _ => Ok(Taken::Done(i64::from(ready), false)),
    }
}

/// `io_cancel`: the event still comes, with nothing as its result.
pub(crate) fn io_cancel(call: &mut Call) -> Answer {
    let [name, request, ..] = call.arguments;
    let key = call.read_u32(request.wrapping_add(Request::KEY))?;
    if key != 0 {
        return Err(Errno::EINVAL.into());
    }
    let id = call.kernel.request_context(call.space, name)?;
    let mut polls = call.context_at(id)?.polls.iter();
    let index = polls.position(|poll| poll.event.request == request);
    let index = index.ok_or(Errno::EINVAL)?;
    call.kernel.end_poll(id, index, 0);
    call.wake_file_waiters();
    Err(Errno::EINPROGRESS.into())
}

/// A `struct timespec` as a duration; Linux does not look whether it makes sense.
fn lenient_duration(call: &mut Call, address: u64) -> Result<Option<u64>, Errno> {
    if address == 0 {
        return Ok(None);
    }
    let seconds = call.read_u64(address)? as i64;
    let nanoseconds = call.read_u64(address.wrapping_add(8))? as i64;
    let sum = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    Ok(Some(u64::try_from(sum.max(0)).unwrap_or(u64::MAX)))
}

/// `io_getevents`.
pub(crate) fn io_getevents(call: &mut Call) -> Answer {
    let timeout = lenient_duration(call, call.arguments[4])?;
    fetch_events(call, timeout)
}

/// `io_pgetevents`.
pub(crate) fn io_pgetevents(call: &mut Call) -> Answer {
    let [.., timeout, signal_set] = call.arguments;
    let timeout = lenient_duration(call, timeout)?;
    if signal_set != 0 {
        let mask = call.read_u64(signal_set)?;
        let mask_bytes = call.read_u64(signal_set.wrapping_add(8))?;
        signals::replace_mask(call, mask, mask_bytes)?;
    }
    fetch_events(call, timeout)
}

/// Tells of at least `least` and at most `most` events, unless the time is over before.
fn fetch_events(call: &mut Call, timeout: Option<u64>) -> Answer {
    let [name, least, most, at, ..] = call.arguments;
    let first = call.transferred();
    let id = match call.kernel.request_context(call.space, name) {
        Err(_) if first > 0 => return Ok(first),
        found => found?,
    };
    if (least as i64) < 0 || (least as i64) > (most as i64) {
        return Err(Errno::EINVAL.into());
    }
    let mut done = first;
    while done < most
        && let Some(&event) = call.context_at(id)?.events.front()
    {
        if done - first >= STEP_REQUESTS {
            call.set_transferred(done);
            return Err(Stop::Again);
        }
        let words = [event.data, event.request, event.result as u64, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        match call.write(at.wrapping_add(EVENT_BYTES * done), &bytes) {
            Err(error) if done == 0 => return Err(error.into()),
            Err(_) => return Ok(done),
            Ok(()) => {}
        }
        call.context_at(id)?.events.pop_front();
        done += 1;
    }
    if done >= least || call.timed_out(timeout) {
        return Ok(done);
    }
    call.set_transferred(done);
    Err(call.wait_until_retry(Wait::Readiness, timeout))
}
