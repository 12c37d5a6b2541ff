//! Making, naming and connecting sockets, and their options.

use super::names::AT_FDCWD;
use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::net::address::{
    ADDRESS_BYTES_MAX, AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, Address, Given, UnixName,
};
use crate::net::options::{SOL_SOCKET, SOL_TCP};
use crate::net::report::tcp_state;
use crate::net::{BACKLOG_MAX, Family, Kind, Socket, State, interfaces};
use crate::process::USER_ID;
use crate::thread::Wait;
use crate::vfs::Node;
use crate::vfs::descriptor::{O_CLOEXEC, O_NONBLOCK, Object, OpenFile};

/// Bits of a socket's type that say which it is.
const KIND_MASK: u32 = 0xf;

impl Call<'_> {
    /// The socket behind a descriptor.
    pub fn socket(&self, number: u64) -> Result<u32, Errno> {
        match self.file(number)?.object {
            Object::Socket(id) => Ok(id),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    pub fn socket_state(&self, id: u32) -> Result<&Socket, Errno> {
        self.kernel.rare.sockets.get(id)
    }

    /// An address that the guest gives.
    pub fn address_at(&mut self, at: u64, length: u64, family: Family) -> Result<Given, Errno> {
        let length = u64::from(length as u32);
        if !(2..=ADDRESS_BYTES_MAX).contains(&length) {
            return Err(Errno::EINVAL);
        }
        let bytes = self.kernel.bytes_in(self.machine, self.space, at, length)?;
        Address::parse(&bytes, family)
    }

    /// Shows an address: as much as there is room for, and its true length.
    pub fn show_address(
        &mut self,
        address: Option<&Address>,
        family: Family,
        at: u64,
        length_at: u64,
    ) -> Result<(), Errno> {
        if at == 0 {
            return Ok(());
        }
        let room = self.read_u32(length_at)?;
        if (room as i32) < 0 {
            return Err(Errno::EINVAL);
        }
        let bytes = address.map_or_else(Vec::new, |address| address.bytes(family));
        self.write(at, &bytes[..bytes.len().min(room as usize)])?;
        self.write(length_at, &(bytes.len() as u32).to_le_bytes())
    }

    /// A descriptor for a socket that has none yet; without it the socket is gone.
    fn open_socket(&mut self, id: u32, flags: u32) -> Result<u32, Errno> {
        let serial = self.socket_state(id)?.serial;
        let kept = flags & O_NONBLOCK | 2;
        let file = OpenFile::new(Object::Socket(id), kept, format!("socket:[{serial}]"));
        let opened = self.open(file, flags & O_CLOEXEC != 0);
        if opened.is_err() {
            let mut dropped = Vec::new();
            self.kernel.close_socket(id, &mut dropped);
            self.kernel.close_files(dropped);
        }
        opened
    }

    /// Waits for a socket; EAGAIN if its time is over.
    pub fn wait_for_socket(&self, timeout_ns: Option<u64>, error: Errno) -> Stop {
        if self.timed_out(timeout_ns) {
            return error.into();
        }
        self.wait_until_retry(Wait::Files, timeout_ns)
    }

    /// The socket that a UNIX name leads to; ECONNREFUSED if nobody is there.
    pub fn unix_socket_named(&mut self, name: &UnixName) -> Result<u32, Errno> {
        let found = match name {
            UnixName::None => return Err(Errno::EINVAL),
            UnixName::Abstract(name) => self.kernel.rare.sockets.at_abstract(name),
            UnixName::Path(path) => {
                let inode = self.find(AT_FDCWD as u64, path, true)?;
                let node = self.kernel.files.inode(inode)?;
                if node.mode & 0o200 == 0 {
                    return Err(Errno::EACCES);
                }
                self.kernel.rare.sockets.at_inode(inode)
            }
        };
        found.ok_or(Errno::ECONNREFUSED)
    }
}

/// What `socket` and `socketpair` ask for.
fn asked_socket(call: &Call) -> Result<(Socket, u32), Errno> {
    let [family, kind, protocol, ..] = call.arguments;
    let (flags, protocol) = (kind as u32 & !KIND_MASK, protocol as u32);
    if flags & !(O_NONBLOCK | O_CLOEXEC) != 0 {
        return Err(Errno::EINVAL);
    }
    let kind_number = kind as u32 & KIND_MASK;
    let family = match u16::try_from(family) {
        Ok(AF_UNIX) => Family::Unix,
        Ok(AF_INET) => Family::Inet,
        Ok(AF_INET6) => Family::Inet6,
        Ok(AF_NETLINK) => Family::Netlink,
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    let internet = matches!(family, Family::Inet | Family::Inet6);
    let (kind, natural) = match (family, kind_number) {
        (Family::Netlink, 2 | 3) if protocol == 0 => (Kind::Datagram, 0),
        (Family::Netlink, 2 | 3) => return Err(Errno::EPROTONOSUPPORT),
        (Family::Unix, 1) => (Kind::Stream, 0),
        (Family::Unix, 2 | 3) => (Kind::Datagram, 0),
        (Family::Unix, 5) => (Kind::SequencedPacket, 0),
        (_, 1) if internet => (Kind::Stream, 6),
        (_, 2) if internet => (Kind::Datagram, 17),
        (_, 3) if internet => return Err(Errno::EPERM),
        _ => return Err(Errno::ESOCKTNOSUPPORT),
    };
    let known = protocol == 0 || protocol == natural || (family, protocol) == (Family::Unix, 1);
    if !known {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let socket = Socket::new(family, kind, natural, call.process.0);
    Ok((socket, flags))
}

/// `socket`.
pub(crate) fn socket(call: &mut Call) -> Answer {
    let (socket, flags) = asked_socket(call)?;
    let id = call.kernel.rare.sockets.add(socket)?;
    Ok(u64::from(call.open_socket(id, flags)?))
}

/// `socketpair`.
pub(crate) fn socketpair(call: &mut Call) -> Answer {
    let address = call.arguments[3];
    let (socket, flags) = asked_socket(call)?;
    if socket.family != Family::Unix {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let access = perdure_riscv::Access::Store;
    call.kernel
        .touch(call.machine, call.space, address, 8, access)?;
    let (one, other) = call.kernel.pair(socket)?;
    let first = match call.open_socket(one, flags) {
        Ok(first) => first,
        Err(error) => {
            call.kernel.close_socket(other, &mut Vec::new());
            return Err(error.into());
        }
    };
    let second = match call.open_socket(other, flags) {
        Ok(second) => second,
        Err(error) => {
            call.kernel.close(call.process, first)?;
            return Err(error.into());
        }
    };
    call.write_pair(address, first, second)
}

/// `bind`.
pub(crate) fn bind(call: &mut Call) -> Answer {
    let [number, at, length, ..] = call.arguments;
    let id = call.socket(number)?;
    let family = call.socket_state(id)?.family;
    match call.address_at(at, length, family)? {
        // Old programs leave out the family of a wildcard.
        Given::Unspecified if family == Family::Inet => {
            let ip = crate::net::address::mapped([0; 4]);
            call.kernel.rare.sockets.bind_internet(id, ip, 0)?;
        }
        Given::Unspecified => return Err(family.refusal().into()),
        Given::Address(Address::Internet { ip, port }) => {
            call.kernel.rare.sockets.bind_internet(id, ip, port)?;
        }
        Given::Address(Address::Netlink { port }) => {
            let port = if port == 0 { call.process.0 } else { port };
            call.kernel.rare.sockets.get_mut(id)?.local = Some(Address::Netlink { port });
        }
        Given::Address(Address::Unix(name)) => bind_unix(call, id, name)?,
    }
    Ok(0)
}

fn bind_unix(call: &mut Call, id: u32, name: UnixName) -> Result<(), Errno> {
    if call.socket_state(id)?.local != Some(Address::Unix(UnixName::None)) {
        return Err(Errno::EINVAL);
    }
    let mut inode = None;
    let name = match name {
        UnixName::None => call.kernel.rare.sockets.free_name()?,
        UnixName::Abstract(name) => {
            if call.kernel.rare.sockets.has_abstract(&name) {
                return Err(Errno::EADDRINUSE);
            }
            UnixName::Abstract(name)
        }
        UnixName::Path(path) => {
            let place = call.walk(AT_FDCWD as u64, &path, false)?;
            if place.inode.is_some() {
                return Err(Errno::EADDRINUSE);
            }
            call.check_new_other(&place)?;
            let now = call.now_ns();
            let mode = 0o777 & !call.process().umask;
            let node = call.kernel.files.create(Node::Socket, mode, now);
            call.kernel
                .files
                .enter(place.directory, &place.name, node)?;
            call.directory_changed(place.directory);
            inode = Some(node);
            UnixName::Path(path)
        }
    };
    let socket = call.kernel.rare.sockets.get_mut(id)?;
    socket.local = Some(Address::Unix(name));
    socket.inode = inode;
    Ok(())
}

/// `listen`.
pub(crate) fn listen(call: &mut Call) -> Answer {
    let [number, backlog, ..] = call.arguments;
    let id = call.socket(number)?;
    let socket = call.socket_state(id)?;
    if !socket.connects() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let unnamed = socket.local == Some(Address::Unix(UnixName::None));
    let started = !matches!(socket.state, State::Unconnected | State::Listening { .. });
    if started || unnamed {
        return Err(Errno::EINVAL.into());
    }
    if socket.is_internet() && socket.local.is_none() {
        let any = if socket.family == Family::Inet {
            crate::net::address::mapped([0; 4])
        } else {
            crate::net::address::ANY_V6
        };
        call.kernel.rare.sockets.bind_internet(id, any, 0)?;
    }
    if !call.kernel.rare.sockets.may_listen(id)? {
        return Err(Errno::EADDRINUSE.into());
    }
    let backlog = (backlog as u32).min(BACKLOG_MAX);
    call.kernel.listen_at(id, backlog, call.process.0)?;
    Ok(0)
}

/// `accept`.
pub(crate) fn accept(call: &mut Call) -> Answer {
    call.arguments[3] = 0;
    accept4(call)
}

/// `accept4`.
pub(crate) fn accept4(call: &mut Call) -> Answer {
    let [number, address, length, flags, ..] = call.arguments;
    let flags = flags as u32;
    if flags & !(O_NONBLOCK | O_CLOEXEC) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let id = call.socket(number)?;
    let nonblocking = call.file(number)?.nonblocking();
    let socket = call.socket_state(id)?;
    if !socket.connects() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let State::Listening { pending, .. } = &socket.state else {
        return Err(Errno::EINVAL.into());
    };
    let timeout = socket.options.receive_timeout_ns;
    let family = socket.family;
    let Some(&end) = pending.front() else {
        return Err(if nonblocking {
            Errno::EAGAIN.into()
        } else {
            call.wait_for_socket(timeout, Errno::EAGAIN)
        });
    };
    let remote = call.socket_state(end)?.remote.clone();
    if address != 0 {
        call.read_u32(length)?;
    }
    if let State::Listening { pending, .. } = &mut call.kernel.rare.sockets.get_mut(id)?.state {
        pending.pop_front();
    }
    let opened = call.open_socket(end, flags);
    call.kernel.admit_next(id);
    let opened = opened?;
    call.show_address(remote.as_ref(), family, address, length)?;
    Ok(u64::from(opened))
}

/// `connect`.
pub(crate) fn connect(call: &mut Call) -> Answer {
    let [number, at, length, ..] = call.arguments;
    let id = call.socket(number)?;
    let nonblocking = call.file(number)?.nonblocking();
    let socket = call.socket_state(id)?;
    let (family, connects) = (socket.family, socket.connects());
    let given = call.address_at(at, length, family)?;
    let address = match given {
        Given::Unspecified => {
            let mut dropped = Vec::new();
            call.kernel.disconnect(id, &mut dropped)?;
            call.kernel.close_files(dropped);
            return Ok(0);
        }
        Given::Address(address) => address,
    };
    match address {
        Address::Internet { ip, port } if connects => connect_tcp(call, id, ip, port, nonblocking),
        Address::Internet { ip, port } => {
            let sockets = &mut call.kernel.rare.sockets;
            let ip = sockets.destination(id, ip)?;
            sockets.bind_towards(id, ip)?;
            sockets.get_mut(id)?.remote = Some(Address::Internet { ip, port });
            Ok(0)
        }
        Address::Netlink { port } => {
            call.kernel.rare.sockets.get_mut(id)?.remote = Some(Address::Netlink { port });
            Ok(0)
        }
        Address::Unix(name) => connect_unix(call, id, &name, nonblocking),
    }
}

fn connect_unix(call: &mut Call, id: u32, name: &UnixName, nonblocking: bool) -> Answer {
    let target = call.unix_socket_named(name)?;
    let (own, other) = (call.socket_state(id)?, call.socket_state(target)?);
    if own.kind != other.kind {
        return Err(Errno::EPROTOTYPE.into());
    }
    if !own.connects() {
        let remote = other.local.clone();
        // One that has chosen its partner takes nothing from others.
        if other.target.is_some_and(|partner| partner != id) {
            return Err(Errno::EPERM.into());
        }
        let socket = call.kernel.rare.sockets.get_mut(id)?;
        socket.remote = remote;
        socket.target = Some(target);
        return Ok(0);
    }
    match own.state {
        State::Unconnected => {}
        State::Listening { .. } => return Err(Errno::EINVAL.into()),
        _ => return Err(Errno::EISCONN.into()),
    }
    let timeout = own.options.send_timeout_ns;
    if !other.is_listening() {
        return Err(Errno::ECONNREFUSED.into());
    }
    if call.kernel.has_room(target) {
        call.kernel.rare.sockets.get_mut(id)?.process = call.process.0;
        call.kernel.join(id, target, true)?;
        return Ok(0);
    }
    Err(if nonblocking {
        Errno::EAGAIN.into()
    } else {
        call.wait_for_socket(timeout, Errno::EAGAIN)
    })
}

fn connect_tcp(call: &mut Call, id: u32, ip: [u8; 16], port: u16, nonblocking: bool) -> Answer {
    let socket = call.kernel.rare.sockets.get_mut(id)?;
    let timeout = socket.options.send_timeout_ns;
    match &mut socket.state {
        State::Connected { told, .. } if !*told => {
            *told = true;
            return Ok(0);
        }
        State::Connected { .. } | State::Listening { .. } => return Err(Errno::EISCONN.into()),
        State::Connecting { .. } if nonblocking => return Err(Errno::EALREADY.into()),
        State::Connecting { .. } => return Err(call.wait_for_socket(timeout, Errno::EINPROGRESS)),
        State::Unconnected => {}
    }
    socket.input_ended = false;
    socket.output_ended = false;
    if let Some(error) = socket.take_error() {
        return Err(error.into());
    }
    let sockets = &mut call.kernel.rare.sockets;
    let ip = sockets.destination(id, ip)?;
    sockets.bind_towards(id, ip)?;
    let own = sockets.get(id)?.local.as_ref().and_then(Address::internet);
    let own_port = own.map_or(0, |own| own.1);
    let Some(listener) = sockets.listener_at(ip, port, own_port) else {
        if !nonblocking {
            return Err(Errno::ECONNREFUSED.into());
        }
        call.kernel.refuse(id);
        return Err(Errno::EINPROGRESS.into());
    };
    sockets.get_mut(id)?.remote = Some(Address::Internet { ip, port });
    if call.kernel.has_room(listener) {
        call.kernel.join(id, listener, !nonblocking)?;
        return if nonblocking {
            Err(Errno::EINPROGRESS.into())
        } else {
            Ok(0)
        };
    }
    call.kernel.rare.sockets.get_mut(id)?.state = State::Connecting { listener };
    Err(if nonblocking {
        Errno::EINPROGRESS.into()
    } else {
        call.wait_for_socket(timeout, Errno::EINPROGRESS)
    })
}

/// `getsockname`.
pub(crate) fn getsockname(call: &mut Call) -> Answer {
    let [number, address, length, ..] = call.arguments;
    let id = call.socket(number)?;
    let socket = call.socket_state(id)?;
    let (family, local) = (socket.family, socket.local.clone());
    let unbound = match family {
        Family::Netlink => Address::Netlink { port: 0 },
        Family::Inet => Address::Internet {
            ip: crate::net::address::mapped([0; 4]),
            port: 0,
        },
        _ => Address::Internet {
            ip: crate::net::address::ANY_V6,
            port: 0,
        },
    };
    call.show_address(Some(&local.unwrap_or(unbound)), family, address, length)?;
    Ok(0)
}

/// `getpeername`.
pub(crate) fn getpeername(call: &mut Call) -> Answer {
    let [number, address, length, ..] = call.arguments;
    let id = call.socket(number)?;
    let socket = call.socket_state(id)?;
    let cut_off = socket.is_tcp() && socket.input_ended && socket.output_ended;
    let under_way = matches!(
        socket.state,
        State::Connecting { .. } | State::Unconnected if socket.connects()
    );
    let remote = socket.remote.clone().filter(|_| !cut_off && !under_way);
    let remote = remote.ok_or(Errno::ENOTCONN)?;
    let family = socket.family;
    call.show_address(Some(&remote), family, address, length)?;
    Ok(0)
}

/// `shutdown`.
pub(crate) fn shutdown(call: &mut Call) -> Answer {
    let [number, how, ..] = call.arguments;
    let id = call.socket(number)?;
    let how = how as u32;
    if how > 2 {
        return Err(Errno::EINVAL.into());
    }
    let mut dropped = Vec::new();
    let shut = call.kernel.shut_down(id, how != 1, how != 0, &mut dropped);
    call.kernel.close_files(dropped);
    shut?;
    Ok(0)
}

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
            let seconds = call.read_u64(at)?;
            let microseconds = call.read_u64(at.wrapping_add(8))?;
            if microseconds >= 1_000_000 {
                return Err(Errno(33).into());
            }
            let total = (seconds as i64).max(0) as u64;
            let total = total.saturating_mul(1_000_000).saturating_add(microseconds);
            let timeout = (1..TIMEOUT_US_MAX)
                .contains(&total)
                .then(|| total.saturating_mul(1000));
            let options = &mut call.kernel.rare.sockets.get_mut(id)?.options;
            if matches!(name, 20 | 66) {
                options.receive_timeout_ns = timeout;
            } else {
                options.send_timeout_ns = timeout;
            }
            return Ok(0);
        }
        // SO_BINDTODEVICE and filters have no effect on a machine with one interface; TCP_CONGESTION
        // chooses among nothing; groups need a network.
        (SOL_SOCKET, 25..=27) | (SOL_TCP, 13) => return Ok(0),
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
    let (family, kind) = (socket.family, socket.kind);
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

/// `getsockopt`.
pub(crate) fn getsockopt(call: &mut Call) -> Answer {
    let [number, level, name, at, length_at, _] = call.arguments;
    let id = call.socket(number)?;
    let room = call.read_u32(length_at)?;
    if (room as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let bytes = option_bytes(call, id, level as u32, name as u32)?;
    let shown = &bytes[..bytes.len().min(room as usize)];
    call.write(at, shown)?;
    call.write(length_at, &(shown.len() as u32).to_le_bytes())?;
    Ok(0)
}

fn option_bytes(call: &mut Call, id: u32, level: u32, name: u32) -> Result<Vec<u8>, Errno> {
    let word = |value: u32| Ok(value.to_le_bytes().to_vec());
    let socket = call.kernel.rare.sockets.get_mut(id)?;
    let time = |timeout: Option<u64>| {
        let us = timeout.unwrap_or(0) / 1000;
        let mut bytes = (us / 1_000_000).to_le_bytes().to_vec();
        bytes.extend((us % 1_000_000).to_le_bytes());
        Ok(bytes)
    };
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
        (SOL_SOCKET, 20 | 66) => time(socket.options.receive_timeout_ns),
        (SOL_SOCKET, 21 | 67) => time(socket.options.send_timeout_ns),
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
