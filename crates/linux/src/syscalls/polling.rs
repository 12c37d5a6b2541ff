//! Waiting for open files: poll, select, and epoll over pipes and event counters.

use super::signals::replace_mask;
use super::{Answer, Call};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::ThreadId;
use crate::net::State;
use crate::thread::Wait;
use crate::vfs::descriptor::{DESCRIPTORS_MAX, Interest, Object, OpenFile};
use crate::vfs::pipe::PIPE_ATOMIC_BYTES;
use crate::vfs::terminal::Terminal;

pub(crate) const POLLIN: u32 = 1;
pub(crate) const POLLOUT: u32 = 4;
pub(crate) const POLLERR: u32 = 8;
pub(crate) const POLLHUP: u32 = 16;
const POLLNVAL: u32 = 32;
const POLLRDHUP: u32 = 0x2000;
pub(crate) const POLLRDNORM: u32 = 0x40;
pub(crate) const POLLWRNORM: u32 = 0x100;

const BOTH: u32 = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;

const EPOLLET: u32 = 1 << 31;

impl Kernel {
    /// What an open file is ready for, and its count of changes.
    pub(crate) fn readiness(&self, file: &OpenFile, asks: ThreadId) -> (u32, u64) {
        self.readiness_of(&file.object, file.readable(), file.writable(), asks)
    }

    fn readiness_of(
        &self,
        object: &Object,
        readable: bool,
        writable: bool,
        asks: ThreadId,
    ) -> (u32, u64) {
        match object {
            // Files, reports and devices never block.
            Object::Inode(_) | Object::Text { .. } => (BOTH, 0),
            Object::PipeReader(id) => self.open.pipes.get(*id).map_or((POLLERR, 0), |pipe| {
                let data = if pipe.bytes.is_empty() {
                    0
                } else {
                    POLLIN | POLLRDNORM
                };
                (
                    data | if pipe.writers == 0 { POLLHUP } else { 0 },
                    pipe.activity,
                )
            }),
            Object::PipeWriter(id) => self.open.pipes.get(*id).map_or((POLLERR, 0), |pipe| {
                let enough = self.open.pipe_room(*id) >= PIPE_ATOMIC_BYTES;
                let room = if enough { POLLOUT | POLLWRNORM } else { 0 };
                (
                    room | if pipe.readers == 0 { POLLERR } else { 0 },
                    pipe.activity,
                )
            }),
            Object::Fifo { pipe, before, .. } => {
                let (read, activity) =
                    self.readiness_of(&Object::PipeReader(*pipe), true, false, asks);
                let (write, _) = self.readiness_of(&Object::PipeWriter(*pipe), false, true, asks);
                let opens = self.open.traits.get(pipe).map(|traits| traits.writer_opens);
                let never_written = *before == opens && before.is_some();
                let read = if never_written { read & !POLLHUP } else { read };
                let reads = if readable { read } else { 0 };
                (reads | if writable { write } else { 0 }, activity)
            }
            Object::Terminal {
                terminal, master, ..
            } => {
                let terminal = self.open.terminals.get(*terminal);
                terminal.map_or((POLLERR, 0), |terminal| {
                    (terminal_readiness(terminal, *master), terminal.activity)
                })
            }
            Object::Watcher(id) => {
                let watcher = self.open.watching.watchers.get(*id);
                watcher.map_or((POLLERR, 0), |watcher| {
                    let waits = !watcher.events.is_empty();
                    let ready = if waits { POLLIN | POLLRDNORM } else { 0 };
                    (ready, watcher.activity)
                })
            }
            Object::Timer(id) => self
                .open
                .timer_files
                .get(*id)
                .map_or((POLLERR, 0), |timer| {
                    (if timer.expired { POLLIN } else { 0 }, timer.activity)
                }),
            Object::Signals(id) => self
                .open
                .signal_files
                .get(*id)
                .map_or((POLLERR, 0), |file| {
                    let waits = self.pending_set(asks) & file.mask != 0;
                    (if waits { POLLIN } else { 0 }, file.activity)
                }),
            Object::Event(id) => self.open.events.get(*id).map_or((POLLERR, 0), |event| {
                let data = if event.value > 0 { POLLIN } else { 0 };
                let has_room = event.value < u64::MAX - 1;
                let room = if has_room { POLLOUT } else { 0 };
                let full = if event.value == u64::MAX { POLLERR } else { 0 };
                (data | room | full, event.activity)
            }),
            Object::Process(id) => {
                let ended = (self.processes.get(*id)).is_none_or(|process| {
                    process.ending.is_some() && self.threads_of(*id).is_empty()
                });
                (
                    if ended { POLLIN | POLLRDNORM } else { 0 },
                    u64::from(ended),
                )
            }
            Object::Poller(id) => self.poller_readiness(*id, asks),
            Object::Socket(id) => self.socket_readiness(*id),
            Object::Queue(id) => self.rare.queues.all.get(id).map_or((POLLERR, 0), |queue| {
                let has_any = !queue.messages.is_empty();
                let data = if has_any { POLLIN | POLLRDNORM } else { 0 };
                let is_full = queue.is_full();
                let room = if is_full { 0 } else { POLLOUT | POLLWRNORM };
                (data | room, queue.activity)
            }),
        }
    }

    fn poller_readiness(&self, id: u32, asks: ThreadId) -> (u32, u64) {
        let Some(poller) = self.open.pollers.get(id) else {
            return (POLLERR, 0);
        };
        let (mut events, mut changes) = (0, 0_u64);
        for (&(_, file), interest) in &poller.interests {
            let (reported, activity) = self.reported_events(file, interest, asks);
            events |= reported;
            changes = changes.wrapping_add(activity);
        }
        let ready = if events == 0 { 0 } else { POLLIN | POLLRDNORM };
        (ready, changes)
    }

    fn socket_readiness(&self, id: u32) -> (u32, u64) {
        const INPUT: u32 = POLLIN | POLLRDNORM;
        const OUTPUT: u32 = POLLOUT | POLLWRNORM;
        let sockets = &self.rare.sockets;
        let Ok(socket) = sockets.get(id) else {
            return (POLLERR, 0);
        };
        if let State::Listening { pending, .. } = &socket.state {
            return (if pending.is_empty() { 0 } else { INPUT }, socket.activity);
        }
        if matches!(socket.state, State::Connecting { .. }) {
            return (0, socket.activity);
        }
        let both_ended = socket.input_ended && socket.output_ended;
        let closed = socket.connects() && socket.state == State::Unconnected;
        let mut ready = 0;
        if socket.error != 0 {
            ready |= POLLERR;
        }
        if both_ended || closed {
            ready |= POLLHUP;
        }
        if socket.input_ended {
            ready |= INPUT | POLLRDHUP;
        }
        let refused = socket.error != 0 && closed;
        if !socket.queue.is_empty() || refused {
            ready |= INPUT;
        }
        if socket.is_tcp() && socket.output_ended || sockets.is_writable(id) {
            ready |= OUTPUT;
        }
        (ready, socket.activity)
    }

    /// What an epoll interest has to report, and the count of changes it belongs to.
    pub(super) fn reported_events(
        &self,
        file: u32,
        interest: &Interest,
        asks: ThreadId,
    ) -> (u32, u64) {
        let Some(file) = self.open.files.get(file) else {
            return (0, 0);
        };
        if interest.disabled {
            return (0, 0);
        }
        let (ready, activity) = self.readiness(file, asks);
        let events = ready & (interest.events | POLLERR | POLLHUP);
        if interest.events & EPOLLET != 0 && interest.reported == Some(activity) {
            return (0, activity);
        }
        (events, activity)
    }

    fn poll_one(&self, asks: ThreadId, number: u64, events: u32) -> u32 {
        match self.open_file(self.process_of(asks), number) {
            Ok(file) => self.readiness(file, asks).0 & (events | POLLERR | POLLHUP),
            Err(_) => POLLNVAL,
        }
    }
}

fn terminal_readiness(terminal: &Terminal, master: bool) -> u32 {
    if !master && !terminal.has_master {
        return BOTH | POLLERR | POLLHUP;
    }
    let (data, room, ended) = if master {
        (
            !terminal.output.is_empty(),
            terminal.input_room() > 0,
            terminal.left,
        )
    } else {
        (terminal.has_input(), terminal.output_room() > 0, false)
    };
    let when = |condition: bool, events: u32| if condition { events } else { 0 };
    when(data || ended, POLLIN | POLLRDNORM)
        | when(room, POLLOUT | POLLWRNORM)
        | when(ended, POLLHUP)
}

/// `ppoll`.
pub(crate) fn ppoll(call: &mut Call) -> Answer {
    let [entries, count, timeout, mask, mask_bytes, _] = call.arguments;
    if count > call.process().descriptors_max() as u64 {
        return Err(Errno::EINVAL.into());
    }
    let timeout = if timeout == 0 {
        None
    } else {
        Some(call.duration_at(timeout)?)
    };
    replace_mask(call, mask, mask_bytes)?;
    let mut ready = 0;
    for index in 0..count {
        let at = entries.wrapping_add(8 * index);
        let number = call.read_u32(at)?;
        let events = call.read_u32(at.wrapping_add(4))? & 0xffff;
        let result = if (number as i32) < 0 {
            0
        } else {
            call.kernel.poll_one(call.thread, u64::from(number), events)
        };
        call.write(at.wrapping_add(6), &(result as u16).to_le_bytes())?;
        ready += u64::from(result != 0);
    }
    if ready > 0 || call.timed_out(timeout) {
        return Ok(ready);
    }
    Err(call.wait_until_retry(Wait::Readiness, timeout))
}

/// Tells a program how much of its timeout is left. Where that cannot be written, as on Linux, it is not.
fn write_time_left(call: &mut Call, address: u64, timeout_ns: Option<u64>) {
    let Some(timeout_ns) = timeout_ns.filter(|&timeout_ns| timeout_ns > 0) else {
        return;
    };
    let now = call.machine.clock_ns();
    let left = (call.deadline_ns()).map_or(timeout_ns, |deadline| deadline.saturating_sub(now));
    let words = [left / 1_000_000_000, left % 1_000_000_000].map(u64::to_le_bytes);
    let _ = call.write(address, words.as_flattened());
}

/// `pselect6`.
pub(crate) fn pselect6(call: &mut Call) -> Answer {
    // What each of the three sets asks for, as Linux maps them to poll events.
    const ASKED: [u32; 3] = [
        POLLIN | POLLRDNORM | POLLHUP | POLLERR,
        POLLOUT | POLLERR,
        2,
    ];
    let [count, read, write, except, timeout_at, mask] = call.arguments;
    if i32::try_from(count).is_err() {
        return Err(Errno::EINVAL.into());
    }
    let count = count.min(DESCRIPTORS_MAX as u64);
    let timeout = if timeout_at == 0 {
        None
    } else {
        Some(call.duration_at(timeout_at)?)
    };
    if mask != 0 {
        let set = call.read_u64(mask)?;
        let set_bytes = call.read_u64(mask.wrapping_add(8))?;
        replace_mask(call, set, set_bytes)?;
    }
    let words = count.div_ceil(64);
    let mut ready = 0;
    let mut results = Vec::new();
    for (address, asked) in [read, write, except].into_iter().zip(ASKED) {
        if address == 0 {
            continue;
        }
        for word in 0..words {
            let at = address.wrapping_add(8 * word);
            let wanted = call.read_u64(at)?;
            let mut result = 0;
            for bit in (0..64).filter(|bit| wanted >> bit & 1 != 0) {
                let number = 64 * word + bit;
                if number >= count {
                    continue;
                }
                call.descriptor(number)?;
                if call.kernel.poll_one(call.thread, number, asked) & asked != 0 {
                    result |= 1 << bit;
                    ready += 1;
                }
            }
            results.push((at, result));
        }
    }
    if ready == 0 && !call.timed_out(timeout) {
        return Err(call.wait_until_retry(Wait::Readiness, timeout));
    }
    for (at, result) in results {
        call.write(at, &u64::to_le_bytes(result))?;
    }
    write_time_left(call, timeout_at, timeout);
    Ok(ready)
}
