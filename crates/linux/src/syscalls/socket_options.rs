//! What sockets are told and asked: their options, and `ioctl`.
//!
//! Always true: a level that a socket has not is refused as Linux's protocols refuse it, who asks otherwise
//! than who sets.

use super::sockets::peer_name;
use super::{Answer, Call};
use crate::errno::Errno;
use crate::net::address::{AF_INET, AF_INET6, AF_NETLINK, AF_UNIX};
use crate::net::options::{SOL_IP, SOL_SOCKET, SOL_TCP, SOL_UDP};
use crate::net::report::tcp_state;
use crate::net::{Family, Kind, interfaces};
use crate::process::USER_ID;

/// Microseconds of the largest time that an option keeps; more is for ever.
const TIMEOUT_US_MAX: u64 = 1 << 50;

/// `setsockopt`.
pub(crate) fn setsockopt(call: &mut Call) -> Answer {
    let [number, level, name, at, length, _] = call.arguments;
    let id = call.socket(number)?;
    let (level, name, length) = (level as u32, name as u32, length as u32);
    if (length as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let socket = call.socket_state(id)?;
    let (family, kind) = (socket.family, socket.kind);
    match (level, name) {
        // SO_LINGER.
        (SOL_SOCKET, 13) => {
            if length < 8 {
                return Err(Errno::EINVAL.into());
            }
            let (on, seconds) = (call.read_u32(at)?, call.read_u32(at.wrapping_add(4))?);
            let socket = call.kernel.rare.sockets.get_mut(id)?;
            socket.options.linger = (on != 0).then_some(seconds);
            return Ok(0);
        }
        // SO_RCVTIMEO, SO_SNDTIMEO, in their two forms, which are one here.
        (SOL_SOCKET, 20 | 21 | 66 | 67) => {
            if length < 16 {
                return Err(Errno::EINVAL.into());
            }
            set_timeout(call, id, at, matches!(name, 20 | 66))?;
            return Ok(0);
        }
        (level, _) if family == Family::Unix && level != SOL_SOCKET => {
            return Err(Errno::EOPNOTSUPP.into());
        }
        // SO_BINDTODEVICE.
        (SOL_SOCKET, 25) => return bind_to_device(call, at, length),
        // Filters have no effect; TCP_CONGESTION chooses among nothing; groups need a network.
        (SOL_SOCKET, 26..=27) | (SOL_TCP, 13) => return Ok(0),
        (0, 32 | 35 | 36) | (41, 17 | 20 | 21) => return Err(Errno::ENODEV.into()),
        _ => {}
    }
    if length < 4 {
        // Some options of IP may be given as a byte.
        if length == 0 || level != 0 {
            return Err(Errno::EINVAL.into());
        }
    }
    let value = if length < 4 {
        i32::from(call.kernel.bytes_in(call.machine, call.space, at, 1)?[0])
    } else {
        call.read_u32(at)? as i32
    };
    let socket = call.kernel.rare.sockets.get_mut(id)?;
    // A netlink socket's own options, SOL_NETLINK, change nothing.
    if family == Family::Netlink && level == 270 {
        return Ok(0);
    }
    if family == Family::Inet6 && level == 41 && name == 26 && socket.local.is_some() {
        return Err(Errno::EINVAL.into());
    }
    socket.options.set(level, name, value, family, kind)?;
    Ok(0)
}

/// `SO_RCVTIMEO`, or `SO_SNDTIMEO`.
fn set_timeout(call: &mut Call, id: u32, at: u64, of_receiving: bool) -> Result<(), Errno> {
    let seconds = call.read_u64(at)?;
    let microseconds = call.read_u64(at.wrapping_add(8))?;
    if microseconds >= 1_000_000 {
        return Err(Errno(33));
    }
    let total = (seconds as i64).max(0) as u64;
    let total = total.saturating_mul(1_000_000).saturating_add(microseconds);
    let timeout = (1..TIMEOUT_US_MAX)
        .contains(&total)
        .then(|| total.saturating_mul(1000));
    let options = &mut call.kernel.rare.sockets.get_mut(id)?.options;
    if of_receiving {
        options.receive_timeout_ns = timeout;
    } else {
        options.send_timeout_ns = timeout;
    }
    Ok(())
}

/// `SO_BINDTODEVICE`, which changes nothing: there is one interface.
fn bind_to_device(call: &mut Call, at: u64, length: u32) -> Answer {
    const NAME_BYTES_MAX: u64 = 15;
    let length = u64::from(length).min(NAME_BYTES_MAX);
    let name = call.kernel.bytes_in(call.machine, call.space, at, length)?;
    let end = name.iter().position(|&byte| byte == 0);
    match &name[..end.unwrap_or(name.len())] {
        b"" | b"lo" => Ok(0),
        _ => Err(Errno::ENODEV.into()),
    }
}

/// `getsockopt`.
pub(crate) fn getsockopt(call: &mut Call) -> Answer {
    let [number, level, name, at, length_at, _] = call.arguments;
    let id = call.socket(number)?;
    check_asked(call, id, level as u32)?;
    let room = call.read_u32(length_at)?;
    if (room as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let bytes = option_bytes(call, id, level as u32, name as u32)?;
    // A name of SO_PEERNAME that does not fill its place is none.
    if (level as u32, name as u32) == (SOL_SOCKET, 28) && bytes.len() < room as usize {
        return Err(Errno::EINVAL.into());
    }
    let shown = &bytes[..bytes.len().min(room as usize)];
    call.write(at, shown)?;
    call.write(length_at, &(shown.len() as u32).to_le_bytes())?;
    Ok(0)
}

/// Fails if a socket has no options of a level, before anything else is looked at.
fn check_asked(call: &Call, id: u32, level: u32) -> Result<(), Errno> {
    let socket = call.socket_state(id)?;
    let has = match socket.family {
        Family::Unix => level == SOL_SOCKET,
        Family::Inet if socket.kind == Kind::Stream => {
            matches!(level, SOL_SOCKET | SOL_IP | SOL_TCP)
        }
        Family::Inet => matches!(level, SOL_SOCKET | SOL_IP | SOL_UDP),
        _ => true,
    };
    if has { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

fn option_bytes(call: &mut Call, id: u32, level: u32, name: u32) -> Result<Vec<u8>, Errno> {
    let word = |value: u32| Ok(value.to_le_bytes().to_vec());
    let socket = call.kernel.rare.sockets.get_mut(id)?;
    match (level, name) {
        // SO_TYPE.
        (SOL_SOCKET, 3) => word(match (socket.family, socket.kind) {
            (Family::Netlink, _) => 3,
            (_, Kind::Stream) => 1,
            (_, Kind::Datagram) => 2,
            (_, Kind::SequencedPacket) => 5,
        }),
        // SO_ERROR.
        (SOL_SOCKET, 4) => word(socket.take_error().map_or(0, |error| u32::from(error.0))),
        // SO_LINGER.
        (SOL_SOCKET, 13) => {
            let mut bytes = u32::from(socket.options.linger.is_some())
                .to_le_bytes()
                .to_vec();
            bytes.extend(socket.options.linger.unwrap_or(0).to_le_bytes());
            Ok(bytes)
        }
        // SO_PEERCRED.
        (SOL_SOCKET, 17) => {
            let known = socket
                .peer_process
                .filter(|_| socket.family == Family::Unix);
            let user = known.map_or(u32::MAX, |_| USER_ID);
            let fields = [known.unwrap_or(0), user, user];
            Ok(fields.into_iter().flat_map(u32::to_le_bytes).collect())
        }
        // SO_PEERNAME.
        (SOL_SOCKET, 28) => Ok(peer_name(socket)?.bytes(socket.family)),
        // SO_PEERGROUPS: nobody is in any.
        (SOL_SOCKET, 59) => match socket.peer_process {
            Some(_) => Ok(Vec::new()),
            None => Err(Errno::ENODATA),
        },
        (SOL_SOCKET, 20 | 66) => Ok(timeout_bytes(socket.options.receive_timeout_ns)),
        (SOL_SOCKET, 21 | 67) => Ok(timeout_bytes(socket.options.send_timeout_ns)),
        // SO_ACCEPTCONN.
        (SOL_SOCKET, 30) => word(u32::from(socket.is_listening())),
        // SO_PROTOCOL.
        (SOL_SOCKET, 38) => word(socket.protocol),
        // SO_DOMAIN.
        (SOL_SOCKET, 39) => word(u32::from(match socket.family {
            Family::Unix => AF_UNIX,
            Family::Inet => AF_INET,
            Family::Inet6 => AF_INET6,
            Family::Netlink => AF_NETLINK,
        })),
        // SO_BINDTODEVICE.
        (SOL_SOCKET, 25) => Ok(Vec::new()),
        // SO_COOKIE.
        (SOL_SOCKET, 57) => Ok(socket.serial.to_le_bytes().to_vec()),
        // TCP_INFO: the state, and zeros.
        (SOL_TCP, 11) if socket.is_tcp() => {
            let mut bytes = vec![0; 232];
            bytes[0] = tcp_state(socket);
            Ok(bytes)
        }
        // TCP_CONGESTION.
        (SOL_TCP, 13) if socket.is_tcp() => Ok(b"cubic\0\0\0\0\0\0\0\0\0\0\0".to_vec()),
        _ => {
            let (family, kind) = (socket.family, socket.kind);
            let value = socket.options.number(level, name, family, kind)?;
            word(value as u32)
        }
    }
}

/// `struct timeval` of a time that is limited or not.
fn timeout_bytes(timeout_ns: Option<u64>) -> Vec<u8> {
    let us = timeout_ns.unwrap_or(0) / 1000;
    [us / 1_000_000, us % 1_000_000]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect()
}

/// `ioctl` requests that are about sockets; `None` for others.
pub(crate) fn socket_ioctl(
    call: &mut Call,
    id: u32,
    request: u32,
    address: u64,
) -> Result<Option<u64>, Errno> {
    match request {
        // FIONREAD.
        0x541b => {
            let socket = call.socket_state(id)?;
            if socket.is_listening() {
                return Err(Errno::EINVAL);
            }
            let messages = socket.queue.iter().map(|message| message.bytes.len());
            let count: usize = if socket.kind == Kind::Stream {
                messages.sum()
            } else {
                messages.take(1).sum()
            };
            call.write(address, &(count as u32).to_le_bytes())?;
        }
        // SIOCATMARK: datagrams have no marks.
        0x8905 if call.socket_state(id)?.is_udp() => return Ok(None),
        // TIOCOUTQ: what was sent is there. SIOCATMARK: there is no mark.
        0x5411 | 0x8905 => call.write(address, &[0; 4])?,
        // SIOCGIFCONF.
        0x8912 => {
            let room = call.read_u32(address)?;
            let buffer = call.read_u64(address.wrapping_add(8))?;
            let list = interfaces::listing();
            let fits = buffer == 0 || room as usize >= list.len();
            let length = if fits { list.len() as u32 } else { 0 };
            if buffer != 0 && fits {
                call.write(buffer, &list)?;
            }
            call.write(address, &length.to_le_bytes())?;
        }
        0x8900..=0x89ff => {
            let mut given = [0; interfaces::REQUEST_BYTES];
            call.kernel
                .copy_in(call.machine, call.space, address, &mut given)?;
            let answer = interfaces::answer(request, &given)?;
            call.write(address, &answer)?;
        }
        _ => return Ok(None),
    }
    Ok(Some(0))
}
