//! What comes along with a message: open files, credentials, and how it came.
//!
//! Always true: open files that a message carries have one holder more; those that are received and find
//! no descriptor are closed.

use super::Call;
use crate::errno::Errno;
use crate::net::Family;
use crate::net::address::{ANY_V6, Address, Ip, is_any};
use crate::net::arrivals::{Arrival, Told};
use crate::net::options::{Options, SOL_SOCKET};
use crate::process::USER_ID;
use crate::vfs::descriptor::Descriptor;

const MSG_CTRUNC: u32 = 8;
pub(super) const MSG_CMSG_CLOEXEC: u32 = 0x4000_0000;

const SCM_RIGHTS: u32 = 1;
pub(super) const SCM_CREDENTIALS: u32 = 2;
/// Open files that one message may carry.
const FILES_MAX: usize = 253;
/// Bytes of `struct cmsghdr`.
const CONTROL_HEADER_BYTES: usize = 16;
const CONTROL_BYTES_MAX: u64 = 1 << 16;

/// How long a message says that its name is.
pub(super) fn length_of_name(name: u64, length: u32) -> Result<u64, Errno> {
    if name != 0 && (length as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    Ok(u64::from(length))
}

/// What is sent beside the bytes.
#[derive(Default)]
pub(super) struct Ancillary {
    pub files: Vec<u32>,
}

/// Reads the control messages of a `sendmsg`.
pub(super) fn ancillary(
    call: &mut Call,
    at: u64,
    length: u64,
    family: Family,
) -> Result<Ancillary, Errno> {
    let mut found = Ancillary::default();
    if at == 0 || length == 0 {
        return Ok(found);
    }
    if length > CONTROL_BYTES_MAX {
        return Err(Errno::ENOBUFS);
    }
    let bytes = call.kernel.bytes_in(call.machine, call.space, at, length)?;
    let mut rest = &bytes[..];
    while rest.len() >= CONTROL_HEADER_BYTES {
        let word = |at: usize| {
            let raw = rest[at..].first_chunk();
            raw.map_or(0, |raw| u32::from_le_bytes(*raw))
        };
        let raw = rest.first_chunk();
        let size = raw.map_or(0, |raw| u64::from_le_bytes(*raw));
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size < CONTROL_HEADER_BYTES || size > rest.len() {
            return Err(Errno::EINVAL);
        }
        let body = &rest[CONTROL_HEADER_BYTES..size];
        match (word(8), word(12)) {
            (SOL_SOCKET, SCM_RIGHTS) if family == Family::Unix => {
                for number in body.as_chunks::<4>().0 {
                    let number = u64::from(u32::from_le_bytes(*number));
                    found.files.push(call.descriptor(number)?.file);
                }
                if found.files.len() > FILES_MAX {
                    return Err(Errno::EINVAL);
                }
            }
            (SOL_SOCKET, SCM_CREDENTIALS) if family == Family::Unix => {
                let own = [call.process.0, USER_ID, USER_ID];
                let own: Vec<u8> = own.into_iter().flat_map(u32::to_le_bytes).collect();
                if body.len() < own.len() {
                    return Err(Errno::EINVAL);
                }
                if body[..own.len()] != own {
                    return Err(Errno::EPERM);
                }
            }
            (SOL_SOCKET, _) => return Err(Errno::EINVAL),
            // What other levels ask for, an interface or a type of service, makes no difference.
            _ => {}
        }
        rest = rest.get(size.next_multiple_of(8)..).unwrap_or_default();
    }
    Ok(found)
}

/// Keeps how a datagram comes from one socket to another, if that one wants to know, or has wanted to of one
/// that still waits.
pub(super) fn note_arrival(call: &mut Call, (from, to): (u32, u32), ip: Ip) -> Result<(), Errno> {
    let receiver = call.socket_state(to)?;
    let awaited = receiver.wants_arrivals();
    if awaited || call.kernel.rare.arrivals.knows(to) {
        let (waiting, now) = (receiver.queue.len(), call.now_ns());
        let arrival = Arrival::sent(&call.socket_state(from)?.options, ip, now, awaited);
        call.kernel.rare.arrivals.came(to, waiting, arrival);
    }
    Ok(())
}

/// What a socket is told of how its first datagram came. Of one that came before it wanted to know, what can
/// be told now.
pub(super) fn told(call: &Call, id: u32) -> Result<Vec<Told>, Errno> {
    let socket = call.socket_state(id)?;
    let Some(first) = socket.queue.front().filter(|_| socket.wants_arrivals()) else {
        return Ok(Vec::new());
    };
    if let Some(arrival) = call.kernel.rare.arrivals.first(id, socket.queue.len()) {
        return Ok(socket.told(arrival));
    }
    let own = [&socket.local, &first.from];
    let ips = own.map(|address| address.as_ref().and_then(Address::internet));
    let ip = (ips.into_iter().flatten()).find(|(ip, _)| !is_any(*ip));
    let ip = ip.map_or(ANY_V6, |(ip, _)| ip);
    let arrival = Arrival::sent(&Options::default(), ip, call.now_ns(), false);
    Ok(socket.told(&arrival))
}

/// Where control messages are written.
pub(super) struct Control {
    pub at: u64,
    pub room: usize,
    pub used: usize,
    /// What the guest is told about the message.
    pub flags: u32,
}

impl Control {
    /// Appends a control message; one that has no room is cut off.
    pub fn add(
        &mut self,
        call: &mut Call,
        (level, kind): (u32, u32),
        body: &[u8],
    ) -> Result<(), Errno> {
        let left = self.room.saturating_sub(self.used);
        if left < CONTROL_HEADER_BYTES {
            self.flags |= MSG_CTRUNC;
            return Ok(());
        }
        let whole = CONTROL_HEADER_BYTES + body.len();
        if left < whole {
            self.flags |= MSG_CTRUNC;
        }
        let mut bytes = (whole.min(left) as u64).to_le_bytes().to_vec();
        bytes.extend(level.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(body);
        bytes.truncate(left);
        call.write(self.at.wrapping_add(self.used as u64), &bytes)?;
        self.used += whole.next_multiple_of(8).min(left);
        Ok(())
    }
}

/// Gives received open files their descriptors; those without room for them are closed.
pub(super) fn take_files(
    call: &mut Call,
    control: &mut Control,
    files: Vec<u32>,
    flags: u32,
) -> Result<(), Errno> {
    let left = control.room.saturating_sub(control.used);
    let fit = left.saturating_sub(CONTROL_HEADER_BYTES) / 4;
    let mut numbers = Vec::new();
    let mut dropped = Vec::new();
    for file in files {
        if numbers.len() >= fit || !dropped.is_empty() {
            dropped.push(file);
            continue;
        }
        let descriptor = Descriptor {
            file,
            close_on_exec: flags & MSG_CMSG_CLOEXEC != 0,
        };
        match call.install(0, descriptor) {
            Ok(number) => numbers.push(number),
            Err(_) => dropped.push(file),
        }
    }
    if !dropped.is_empty() {
        control.flags |= MSG_CTRUNC;
        call.kernel.close_files(dropped);
    }
    if numbers.is_empty() {
        return Ok(());
    }
    let body: Vec<u8> = numbers.into_iter().flat_map(u32::to_le_bytes).collect();
    control.add(call, (SOL_SOCKET, SCM_RIGHTS), &body)
}
