//! Sending and receiving on sockets, with all that can come along.
//!
//! Always true: what is received is taken out of the queue only after the guest's memory has it. A
//! blocked call that has moved a part remembers how much, and goes on there.

use perdure_riscv::Access;

use super::ancillary::{
    Ancillary, Control, MSG_CMSG_CLOEXEC, SCM_CREDENTIALS, ancillary, length_of_name, note_arrival,
    take_files, told,
};
use super::transfer::{Pieces, gather, part_of, scatter, total, vector};
use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::net::address::{ANY_V6, Address, Given, UnixName};
use crate::net::options::{SO_PASSCRED, SO_RCVLOWAT, SOL_SOCKET};
use crate::net::{
    FILES_IN_FLIGHT_MAX, Family, HELD_BYTES_MAX, Kind, MESSAGE_COST, Message, State, UDP_BYTES_MAX,
    UNIX_DATAGRAMS_MAX, netlink,
};
use crate::process::USER_ID;
use crate::signal::{self, SI_USER, SIGPIPE, SignalInfo};
use crate::vfs::descriptor::Object;

const MSG_OOB: u32 = 1;
const MSG_PEEK: u32 = 2;
const MSG_TRUNC: u32 = 0x20;
const MSG_DONTWAIT: u32 = 0x40;
const MSG_WAITALL: u32 = 0x100;
const MSG_ERRQUEUE: u32 = 0x2000;
const MSG_NOSIGNAL: u32 = 0x4000;
const MSG_WAITFORONE: u32 = 0x1_0000;

/// The most that `sendmmsg` and `recvmmsg` do in one call.
const MESSAGES_MAX: u64 = 1024;
/// Bytes of `struct mmsghdr`, and where its count stands.
const MANY_BYTES: u64 = 64;
const MANY_COUNT: u64 = 56;

/// A `struct msghdr`.
struct Header {
    name: u64,
    name_bytes: u64,
    pieces: Pieces,
    control: u64,
    control_bytes: u64,
}

fn header(call: &mut Call, at: u64) -> Result<Header, Errno> {
    let field = |call: &mut Call, offset: u64| call.read_u64(at.wrapping_add(offset));
    let (pieces, count) = (field(call, 16)?, field(call, 24)?);
    if count > 1024 {
        return Err(Errno::EMSGSIZE);
    }
    let name = field(call, 0)?;
    Ok(Header {
        name,
        name_bytes: length_of_name(name, call.read_u32(at.wrapping_add(8))?)?,
        pieces: vector(call, pieces, count)?,
        control: field(call, 32)?,
        control_bytes: field(call, 40)?,
    })
}

/// Nobody will read it: EPIPE, and SIGPIPE for a stream unless it is not wanted.
fn broken(call: &mut Call, stream: bool, flags: u32) -> Errno {
    if stream && flags & MSG_NOSIGNAL == 0 {
        let info = SignalInfo::sent(SIGPIPE, SI_USER, call.process);
        call.kernel
            .send_signal(signal::Target::Thread(call.thread), info);
    }
    Errno::EPIPE
}

/// Bytes that this call moved before it had to wait.
fn moved(call: &Call) -> u64 {
    let thread = call.kernel.threads.get(&call.thread);
    thread.map_or(0, |thread| thread.transferred)
}

fn remember_moved(call: &mut Call, count: u64) {
    if let Some(thread) = call.kernel.threads.get_mut(&call.thread) {
        thread.transferred = count;
    }
}

/// Sends pieces of guest memory.
fn send(
    call: &mut Call,
    number: u64,
    pieces: &Pieces,
    flags: u32,
    to: Option<Address>,
    extra: &Ancillary,
) -> Answer {
    let id = call.socket(number)?;
    if flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let nonblocking = call.file(number)?.nonblocking() || flags & MSG_DONTWAIT != 0;
    let socket = call.socket_state(id)?;
    if socket.connects() {
        if to.is_some() && socket.family == Family::Unix && socket.kind == Kind::Stream {
            return Err(match socket.state {
                State::Connected { .. } => Errno::EISCONN.into(),
                _ => Errno::EOPNOTSUPP.into(),
            });
        }
        return send_connected(call, id, pieces, flags, nonblocking, extra);
    }
    let size_max = if socket.is_internet() {
        UDP_BYTES_MAX
    } else {
        socket.send_buffer()
    };
    if total(pieces) > size_max as u64 {
        return Err(Errno::EMSGSIZE.into());
    }
    if let Some(error) = call.kernel.rare.sockets.get_mut(id)?.take_error() {
        return Err(error.into());
    }
    if call.socket_state(id)?.output_ended {
        return Err(broken(call, false, flags).into());
    }
    let bytes = gather(call, pieces)?;
    match call.socket_state(id)?.family {
        Family::Netlink => send_netlink(call, id, &bytes),
        Family::Unix => send_unix_datagram(call, id, bytes, nonblocking, to, extra),
        Family::Inet | Family::Inet6 => send_udp(call, id, bytes, to),
    }
}

/// Makes the message; what comes along has one holder more.
fn message(call: &mut Call, from: Option<Address>, bytes: Vec<u8>, extra: &Ancillary) -> Message {
    for &file in &extra.files {
        if let Some(file) = call.kernel.open.files.get_mut(file) {
            file.references += 1;
        }
    }
    Message {
        bytes: bytes.into(),
        from,
        files: extra.files.clone(),
        process: call.process.0,
    }
}

/// ETOOMANYREFS if more open files would be on their way than there may be.
fn check_flights(call: &Call, extra: &Ancillary) -> Result<(), Errno> {
    if extra.files.is_empty() {
        return Ok(());
    }
    let under_way = call.kernel.rare.sockets.files_in_flight().count();
    if under_way + extra.files.len() > FILES_IN_FLIGHT_MAX {
        return Err(Errno::ETOOMANYREFS);
    }
    Ok(())
}

fn send_netlink(call: &mut Call, id: u32, bytes: &[u8]) -> Answer {
    let local = call.socket_state(id)?.local.clone();
    let port = match local {
        Some(Address::Netlink { port }) => port,
        _ => call.process.0,
    };
    call.kernel.rare.sockets.get_mut(id)?.local = Some(Address::Netlink { port });
    for answer in netlink::answers(bytes, port) {
        let socket = call.socket_state(id)?;
        if socket.held + answer.len() + MESSAGE_COST > socket.receive_buffer() {
            return Err(Errno::ENOBUFS.into());
        }
        let message = Message {
            bytes: answer.into(),
            from: Some(Address::Netlink { port: 0 }),
            ..Message::default()
        };
        call.kernel.deliver(id, message);
    }
    Ok(bytes.len() as u64)
}

fn send_udp(call: &mut Call, id: u32, bytes: Vec<u8>, to: Option<Address>) -> Answer {
    let remote = call.socket_state(id)?.remote.clone();
    let to = to.or(remote.clone()).ok_or(Errno::EDESTADDRREQ)?;
    let (ip, port) = to.internet().ok_or(Errno::EAFNOSUPPORT)?;
    if port == 0 {
        return Err(Errno::EINVAL.into());
    }
    let sockets = &mut call.kernel.rare.sockets;
    let ip = sockets.destination(id, ip)?;
    let wildcard = sockets.get(id)?.local.clone();
    sockets.bind_towards(id, ip)?;
    let from = sockets.get(id)?.local.clone();
    if remote.is_none() && wildcard.is_some() {
        // It keeps the wildcard for what others send to it.
        sockets.get_mut(id)?.local = wildcard;
    }
    let from = from.ok_or(Errno::EDESTADDRREQ)?;
    let count = bytes.len() as u64;
    match sockets.receiver_at(ip, port, &from) {
        Some(receiver) => {
            let room = sockets.get(receiver)?;
            let cost = bytes.len() + MESSAGE_COST;
            let fits = room.held + cost <= room.receive_buffer()
                && sockets.held + cost <= HELD_BYTES_MAX
                && !room.input_ended;
            // As on a real network, what finds no room is lost.
            if fits {
                let message = message(call, Some(from), bytes, &Ancillary::default());
                note_arrival(call, (id, receiver), ip)?;
                call.kernel.deliver(receiver, message);
            }
        }
        None if remote.is_some() => {
            sockets.get_mut(id)?.error = Errno::ECONNREFUSED.0;
            call.kernel.socket_changed(id);
        }
        None => {}
    }
    Ok(count)
}

fn send_unix_datagram(
    call: &mut Call,
    id: u32,
    bytes: Vec<u8>,
    nonblocking: bool,
    to: Option<Address>,
    extra: &Ancillary,
) -> Answer {
    let target = if let Some(Address::Unix(name)) = to {
        call.unix_socket_named(&name)?
    } else {
        let socket = call.kernel.rare.sockets.get_mut(id)?;
        if socket.remote.is_none() {
            return Err(Errno::ENOTCONN.into());
        }
        let Some(target) = socket.target else {
            socket.remote = None;
            return Err(Errno::ECONNREFUSED.into());
        };
        target
    };
    let (own, other) = (call.socket_state(id)?, call.socket_state(target)?);
    if other.kind != own.kind {
        return Err(Errno::EPROTOTYPE.into());
    }
    if other.target.is_some_and(|partner| partner != id) {
        return Err(Errno::EPERM.into());
    }
    if other.input_ended {
        return Err(Errno::EPIPE.into());
    }
    let (timeout, from) = (own.options.send_timeout_ns, own.local.clone());
    let sockets = &call.kernel.rare.sockets;
    let full = other.target != Some(id) && other.queue.len() >= UNIX_DATAGRAMS_MAX
        || other.held + bytes.len() + MESSAGE_COST > own.send_buffer()
        || sockets.held + bytes.len() + MESSAGE_COST > HELD_BYTES_MAX;
    if full {
        return Err(if nonblocking {
            Errno::EAGAIN.into()
        } else {
            call.wait_for_socket(timeout, Errno::EAGAIN)
        });
    }
    check_flights(call, extra)?;
    let count = bytes.len() as u64;
    let from = from.filter(|from| *from != Address::Unix(UnixName::None));
    let message = message(call, from, bytes, extra);
    note_arrival(call, (id, target), ANY_V6)?;
    call.kernel.deliver(target, message);
    Ok(count)
}

/// Streams and sequenced packets.
fn send_connected(
    call: &mut Call,
    id: u32,
    pieces: &Pieces,
    flags: u32,
    nonblocking: bool,
    extra: &Ancillary,
) -> Answer {
    let (wanted, done) = (total(pieces), moved(call));
    let socket = call.kernel.rare.sockets.get_mut(id)?;
    let (stream, tcp) = (socket.is_stream(), socket.is_tcp());
    let timeout = socket.options.send_timeout_ns;
    let part_is_sent = |error: Stop| if done > 0 { Ok(done) } else { Err(error) };
    let peer = match socket.state {
        State::Connected { peer, .. } => peer,
        State::Connecting { .. } if nonblocking => return Err(Errno::EAGAIN.into()),
        State::Connecting { .. } => return Err(call.wait_for_socket(timeout, Errno::EAGAIN)),
        _ if tcp => {
            let error = socket.take_error();
            return Err(error.unwrap_or_else(|| broken(call, true, flags)).into());
        }
        _ => return Err(Errno::ENOTCONN.into()),
    };
    if (tcp || !stream)
        && let Some(error) = socket.take_error().filter(|error| *error != Errno::EPIPE)
    {
        return part_is_sent(error.into());
    }
    if socket.output_ended {
        return if done > 0 {
            Ok(done)
        } else {
            Err(broken(call, stream, flags).into())
        };
    }
    let Some(peer) = peer else {
        // The closed end answers with a reset, which the next call sees.
        socket.error = Errno::EPIPE.0;
        socket.input_ended = true;
        socket.output_ended = true;
        call.kernel.socket_changed(id);
        return Ok(wanted);
    };
    let send_buffer = socket.send_buffer();
    let room = call.kernel.rare.sockets.stream_room(id);
    let cost = if stream { 1 } else { wanted as usize };
    if !stream && wanted as usize + MESSAGE_COST > send_buffer {
        return Err(Errno::EMSGSIZE.into());
    }
    if stream && wanted == 0 && done == 0 {
        return Ok(0);
    }
    if room <= cost + MESSAGE_COST {
        return if nonblocking || call.timed_out(timeout) {
            part_is_sent(Errno::EAGAIN.into())
        } else {
            Err(call.wait_for_socket(timeout, Errno::EAGAIN))
        };
    }
    let take = (wanted - done).min((room - MESSAGE_COST) as u64);
    let bytes = gather(call, &part_of(pieces, done, take))?;
    let none = Ancillary::default();
    let extra = if done == 0 { extra } else { &none };
    check_flights(call, extra)?;
    let now = done + bytes.len() as u64;
    let from = call.socket_state(id)?.local.clone();
    let from = from.filter(|from| !tcp && *from != Address::Unix(UnixName::None));
    let nobody_reads = call.socket_state(peer)?.input_ended;
    let message = message(call, from, bytes, extra);
    if nobody_reads && tcp {
        // What comes after the reader said that it reads no more is thrown away.
        return Ok(wanted);
    }
    call.kernel.deliver(peer, message);
    if now >= wanted || nonblocking {
        return Ok(now);
    }
    remember_moved(call, now);
    Err(call.wait_for_socket(timeout, Errno::EAGAIN))
}

/// What was received beside the bytes.
struct Received {
    count: u64,
    flags: u32,
    from: Option<Address>,
    process: u32,
    files: Vec<u32>,
}

/// Whether there is nothing to take, and what that means.
pub(super) fn nothing_there(
    call: &mut Call,
    id: u32,
    nonblocking: bool,
    done: u64,
) -> Result<Option<u64>, Stop> {
    let socket = call.kernel.rare.sockets.get_mut(id)?;
    let timeout = socket.options.receive_timeout_ns;
    let (unix, kind) = (socket.family == Family::Unix, socket.kind);
    if socket.is_listening() || socket.connects() && socket.state == State::Unconnected {
        if let Some(error) = socket.take_error() {
            return Err(error.into());
        }
        let inval = unix && kind == Kind::Stream;
        return Err(if inval {
            Errno::EINVAL.into()
        } else {
            Errno::ENOTCONN.into()
        });
    }
    if !socket.queue.is_empty() && (socket.error == 0 || kind != Kind::SequencedPacket) {
        return Ok(None);
    }
    if done > 0 && (socket.error != 0 || socket.input_ended || nonblocking) {
        return Ok(Some(done));
    }
    if socket.error != 0 && !(socket.is_tcp() && socket.error == Errno::EPIPE.0) {
        let error = Errno(std::mem::take(&mut socket.error));
        return Err(error.into());
    }
    if socket.input_ended {
        return Ok(Some(0));
    }
    if nonblocking {
        return Err(Errno::EAGAIN.into());
    }
    if done > 0 && call.timed_out(timeout) {
        return Ok(Some(done));
    }
    Err(call.wait_for_socket(timeout, Errno::EAGAIN))
}

/// Receives into pieces of guest memory.
fn receive(call: &mut Call, number: u64, pieces: &Pieces, flags: u32) -> Result<Received, Stop> {
    let id = call.socket(number)?;
    let nonblocking = call.file(number)?.nonblocking() || flags & MSG_DONTWAIT != 0;
    if flags & MSG_ERRQUEUE != 0 {
        return Err(Errno::EAGAIN.into());
    }
    let socket = call.socket_state(id)?;
    if flags & MSG_OOB != 0 {
        return Err(socket.refusal_of_urgent().into());
    }
    let (stream, tcp) = (socket.is_stream(), socket.is_tcp());
    let wanted = total(pieces);
    let done = if stream { moved(call) } else { 0 };
    let mut received = Received {
        count: 0,
        flags: 0,
        from: None,
        process: 0,
        files: Vec::new(),
    };
    if let Some(count) = nothing_there(call, id, nonblocking, done)? {
        received.count = count;
        return Ok(received);
    }
    if stream && wanted == 0 {
        return Ok(received);
    }
    let socket = call.socket_state(id)?;
    let low = socket.options.value(SOL_SOCKET, SO_RCVLOWAT).max(1) as u64;
    let (all, truncates) = (flags & MSG_WAITALL != 0, flags & MSG_TRUNC != 0);
    let enough = done + low.min(wanted);
    let passes = socket.options.is_on(SOL_SOCKET, SO_PASSCRED);
    // How many messages are taken, with the bytes of the last one.
    let mut bytes = Vec::new();
    let (mut whole, mut part) = (0, 0);
    let room = (wanted - done.min(wanted)) as usize;
    for message in &socket.queue {
        let first = whole == 0;
        let joins = stream && !(passes && message.process != received.process);
        // What comes before open files comes with them; what comes behind them, does not.
        if !first && (!joins || !received.files.is_empty()) {
            break;
        }
        if first {
            received.from = message.from.clone().filter(|_| !tcp);
            received.process = message.process;
        }
        received.files.clone_from(&message.files);
        let take = message.bytes.len().min(room - bytes.len());
        bytes.extend(message.bytes.iter().take(take));
        if stream && take < message.bytes.len() {
            part = take;
            break;
        }
        whole += 1;
        if !stream {
            if take < message.bytes.len() {
                received.flags |= MSG_TRUNC;
            }
            received.count = take as u64;
            if truncates {
                received.count = message.bytes.len() as u64;
            }
            break;
        }
        if bytes.len() == room {
            break;
        }
    }
    // TCP drops what is not to be shown.
    let shown = bytes.len() as u64 * u64::from(!(tcp && truncates));
    scatter(call, &part_of(pieces, done, shown), &bytes)?;
    let now = done + bytes.len() as u64;
    if stream {
        received.count = now;
    }
    if flags & MSG_PEEK != 0 {
        for &file in &received.files {
            if let Some(file) = call.kernel.open.files.get_mut(file) {
                file.references += 1;
            }
        }
        return Ok(received);
    }
    take_out(call, id, whole, part)?;
    let unfinished = all && now < wanted || now < enough;
    if stream && unfinished && received.files.is_empty() {
        remember_moved(call, now);
        if nonblocking {
            return Ok(received);
        }
        if let Some(count) = nothing_there(call, id, nonblocking, now)? {
            received.count = count;
        }
    }
    Ok(received)
}

/// Removes so many messages, and a part of the next; senders may have room again. Files of removed
/// messages are the caller's.
pub(super) fn take_out(call: &mut Call, id: u32, whole: usize, part: usize) -> Result<(), Errno> {
    let held_up = call.kernel.held_up_by(id);
    let sockets = &mut call.kernel.rare.sockets;
    for _ in 0..whole {
        sockets.pop(id);
    }
    let waiting = sockets.get(id)?.queue.len();
    call.kernel.rare.arrivals.left(id, waiting);
    let sockets = &mut call.kernel.rare.sockets;
    if part > 0 {
        sockets.drain_first(id, part);
        if let Some(first) = sockets.get_mut(id)?.queue.front_mut() {
            first.files.clear();
        }
    }
    call.kernel.room_was_made(id, &held_up);
    Ok(())
}

/// `read` and `readv` on a socket.
pub(crate) fn read_socket(call: &mut Call, number: u64, pieces: &Pieces) -> Answer {
    let received = receive(call, number, pieces, 0)?;
    call.kernel.close_files(received.files);
    Ok(received.count)
}

/// `write` and `writev` on a socket.
pub(crate) fn write_socket(call: &mut Call, number: u64, pieces: &Pieces) -> Answer {
    send(call, number, pieces, 0, None, &Ancillary::default())
}

/// What comes from within the kernel, a file's bytes, to a socket.
pub(crate) fn send_bytes(call: &mut Call, number: u64, bytes: &[u8]) -> Answer {
    let id = call.socket(number)?;
    let nonblocking = call.file(number)?.nonblocking();
    let socket = call.socket_state(id)?;
    if !socket.is_stream() {
        return Err(Errno::EINVAL.into());
    }
    let timeout = socket.options.send_timeout_ns;
    let peer = socket.peer().filter(|_| !socket.output_ended);
    let Some(peer) = peer else {
        // There is nobody: what that means does not depend on the bytes.
        return send(call, number, &vec![(0, 0)], 0, None, &Ancillary::default()).and_then(|_| {
            let error = broken(call, true, 0);
            Err(error.into())
        });
    };
    let room = call.kernel.rare.sockets.stream_room(id);
    if room <= MESSAGE_COST + 1 {
        return Err(if nonblocking {
            Errno::EAGAIN.into()
        } else {
            call.wait_for_socket(timeout, Errno::EAGAIN)
        });
    }
    let count = bytes.len().min(room - MESSAGE_COST);
    let message = message(call, None, bytes[..count].to_vec(), &Ancillary::default());
    call.kernel.deliver(peer, message);
    Ok(count as u64)
}

fn given_address(
    call: &mut Call,
    number: u64,
    at: u64,
    length: u64,
) -> Result<Option<Address>, Errno> {
    let id = call.socket(number)?;
    let socket = call.socket_state(id)?;
    let (family, connects) = (socket.family, socket.connects());
    if at == 0 || length as u32 == 0 {
        return Ok(None);
    }
    match call.address_at(at, length, family, false)? {
        Given::Address(address) => Ok(Some(address)),
        // One that connects is not asked what the address is.
        Given::Unspecified(_) if family != Family::Unix => Ok(None),
        Given::Unspecified(_) if connects => Ok(Some(Address::Unix(UnixName::None))),
        Given::Unspecified(_) => Err(Errno::EINVAL),
    }
}

/// `sendto`.
pub(crate) fn sendto(call: &mut Call) -> Answer {
    let [number, buffer, length, flags, at, address_bytes] = call.arguments;
    let to = given_address(call, number, at, address_bytes)?;
    let pieces = super::transfer::one_piece(buffer, length);
    let nothing = Ancillary::default();
    send(call, number, &pieces, flags as u32, to, &nothing)
}

/// `sendmsg`.
pub(crate) fn sendmsg(call: &mut Call) -> Answer {
    let [number, at, flags, ..] = call.arguments;
    send_header(call, number, at, flags as u32)
}

fn send_header(call: &mut Call, number: u64, at: u64, flags: u32) -> Answer {
    let id = call.socket(number)?;
    let family = call.socket_state(id)?.family;
    let header = header(call, at)?;
    let to = given_address(call, number, header.name, header.name_bytes)?;
    let extra = ancillary(call, header.control, header.control_bytes, family)?;
    send(call, number, &header.pieces, flags, to, &extra)
}

/// `sendmmsg`: after the first message, it does not wait.
pub(crate) fn sendmmsg(call: &mut Call) -> Answer {
    let [number, at, count, flags, ..] = call.arguments;
    call.socket(number)?;
    let mut sent = 0;
    for index in 0..count.min(MESSAGES_MAX) {
        let header = at.wrapping_add(MANY_BYTES * index);
        let later = if index > 0 { MSG_DONTWAIT } else { 0 };
        match send_header(call, number, header, flags as u32 | later) {
            Ok(bytes) => {
                let place = header.wrapping_add(MANY_COUNT);
                call.write(place, &(bytes as u32).to_le_bytes())?;
                remember_moved(call, 0);
            }
            Err(stop) if sent == 0 => return Err(stop),
            Err(_) => break,
        }
        sent += 1;
    }
    Ok(sent)
}

/// `recvfrom`.
pub(crate) fn recvfrom(call: &mut Call) -> Answer {
    let [number, buffer, length, flags, at, length_at] = call.arguments;
    let id = call.socket(number)?;
    let family = call.socket_state(id)?.family;
    let pieces = super::transfer::one_piece(buffer, length);
    let received = receive(call, number, &pieces, flags as u32)?;
    call.kernel.close_files(received.files);
    call.show_address(received.from.as_ref(), family, at, length_at)?;
    Ok(received.count)
}

/// `recvmsg`.
pub(crate) fn recvmsg(call: &mut Call) -> Answer {
    let [number, at, flags, ..] = call.arguments;
    receive_header(call, number, at, flags as u32)
}

fn receive_header(call: &mut Call, number: u64, at: u64, flags: u32) -> Answer {
    let id = call.socket(number)?;
    let header = header(call, at)?;
    call.kernel
        .touch(call.machine, call.space, at, 56, Access::Store)?;
    let told = told(call, id)?;
    let received = receive(call, number, &header.pieces, flags)?;
    let family = call.socket_state(id)?.family;
    if header.name != 0 {
        let bytes = (received.from).map_or_else(Vec::new, |from| from.bytes(family));
        let shown = bytes.len().min(header.name_bytes as usize);
        call.write(header.name, &bytes[..shown])?;
        call.write(at.wrapping_add(8), &(bytes.len() as u32).to_le_bytes())?;
    }
    let mut control = Control {
        at: header.control,
        room: if header.control == 0 {
            0
        } else {
            header.control_bytes as usize
        },
        used: 0,
        flags: received.flags,
    };
    for (level, kind, body) in told {
        control.add(call, (level, kind), &body)?;
    }
    let passes = (call.socket_state(id)?.options).is_on(SOL_SOCKET, SO_PASSCRED);
    if passes && family == Family::Unix && received.process != 0 {
        let fields = [received.process, USER_ID, USER_ID];
        let body: Vec<u8> = fields.into_iter().flat_map(u32::to_le_bytes).collect();
        control.add(call, (SOL_SOCKET, SCM_CREDENTIALS), &body)?;
    }
    if !received.files.is_empty() {
        take_files(call, &mut control, received.files, flags)?;
    }
    call.write(at.wrapping_add(40), &(control.used as u64).to_le_bytes())?;
    let shown = control.flags | flags & MSG_CMSG_CLOEXEC;
    call.write(at.wrapping_add(48), &shown.to_le_bytes())?;
    Ok(received.count)
}

/// `recvmmsg`: waits for the first message; for all of them unless `MSG_WAITFORONE` is given. What
/// it has when it would wait again is its answer.
pub(crate) fn recvmmsg(call: &mut Call) -> Answer {
    let [number, at, count, flags, timeout, _] = call.arguments;
    call.socket(number)?;
    if timeout != 0 {
        call.duration_at(timeout)?;
    }
    let flags = flags as u32;
    let mut received = 0;
    for index in 0..count.min(MESSAGES_MAX) {
        let header = at.wrapping_add(MANY_BYTES * index);
        let later = if index > 0 { MSG_DONTWAIT } else { 0 };
        match receive_header(call, number, header, flags & !MSG_WAITFORONE | later) {
            Ok(bytes) => {
                let place = header.wrapping_add(MANY_COUNT);
                call.write(place, &(bytes as u32).to_le_bytes())?;
                remember_moved(call, 0);
            }
            Err(stop) if received == 0 => return Err(stop),
            Err(_) => break,
        }
        received += 1;
    }
    Ok(received)
}

/// True for a descriptor that is a socket.
pub(crate) fn is_socket(call: &Call, number: u64) -> bool {
    let file = call.file(number);
    file.is_ok_and(|file| matches!(file.object, Object::Socket(_)))
}
