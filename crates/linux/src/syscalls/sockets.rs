//! Making, naming and connecting sockets.

use super::names::AT_FDCWD;
use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::net::address::{
    ADDRESS_BYTES_MAX, AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, Address, Given, UnixName, mapped,
};
use crate::net::{BACKLOG_MAX, Family, Kind, Socket, State};
use crate::thread::Wait;
use crate::vfs::Node;
use crate::vfs::descriptor::{O_CLOEXEC, O_NONBLOCK, Object, OpenFile};

/// Bits of a socket's type that say which it is.
const KIND_MASK: u32 = 0xf;

impl Call<'_> {
    /// The socket behind a descriptor.
    pub fn socket(&self, number: u64) -> Result<u32, Errno> {
        match self.usable(number)?.object {
            Object::Socket(id) => Ok(id),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    pub fn socket_state(&self, id: u32) -> Result<&Socket, Errno> {
        self.kernel.rare.sockets.get(id)
    }

    /// An address that the guest gives; `own` if it can be no other family's.
    pub fn address_at(
        &mut self,
        at: u64,
        length: u64,
        family: Family,
        own: bool,
    ) -> Result<Given, Errno> {
        let length = u64::from(length as u32);
        if !(2..=ADDRESS_BYTES_MAX).contains(&length) {
            return Err(Errno::EINVAL);
        }
        let bytes = self.kernel.bytes_in(self.machine, self.space, at, length)?;
        Address::parse(&bytes, family, own)
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

    /// Shows the address that was asked for.
    fn show_name(&mut self, name: &Address, family: Family, at: u64, length_at: u64) -> Answer {
        if at == 0 && self.read_u32(length_at)? != 0 {
            return Err(Errno::EFAULT.into());
        }
        self.show_address(Some(name), family, at, length_at)?;
        Ok(0)
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
    match call.address_at(at, length, family, true)? {
        // Old programs leave out the family of a wildcard.
        Given::Unspecified(Some((ip, port))) if family == Family::Inet && ip == mapped([0; 4]) => {
            call.kernel.rare.sockets.bind_internet(id, ip, port)?;
        }
        Given::Unspecified(None) if family == Family::Inet => return Err(Errno::EINVAL.into()),
        Given::Unspecified(_) => return Err(family.refusal().into()),
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
    let has_name = call.socket_state(id)?.local != Some(Address::Unix(UnixName::None));
    let mut inode = None;
    let name = match name {
        // It has what it is to choose.
        UnixName::None if has_name => return Ok(()),
        UnixName::Abstract(_) if has_name => return Err(Errno::EINVAL),
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
            if has_name {
                return Err(Errno::EINVAL);
            }
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
            mapped([0; 4])
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
    let given = call.address_at(at, length, family, connects)?;
    let address = match given {
        Given::Unspecified(_) => {
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
            ip: mapped([0; 4]),
            port: 0,
        },
        _ => Address::Internet {
            ip: crate::net::address::ANY_V6,
            port: 0,
        },
    };
    call.show_name(&local.unwrap_or(unbound), family, address, length)
}

/// `getpeername`.
pub(crate) fn getpeername(call: &mut Call) -> Answer {
    let [number, address, length, ..] = call.arguments;
    let id = call.socket(number)?;
    let socket = call.socket_state(id)?;
    let (family, remote) = (socket.family, peer_name(socket)?.clone());
    call.show_name(&remote, family, address, length)
}

/// The name of a socket's other end.
pub(super) fn peer_name(socket: &Socket) -> Result<&Address, Errno> {
    let cut_off = socket.is_tcp() && socket.input_ended && socket.output_ended;
    let under_way = matches!(
        socket.state,
        State::Connecting { .. } | State::Unconnected if socket.connects()
    );
    let remote = socket.remote.as_ref().filter(|_| !cut_off && !under_way);
    remote.ok_or(Errno::ENOTCONN)
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
