//! Names of sockets: who may have which, and whose an address is.
//!
//! Always true: two sockets share an internet port only where Linux lets them. Every address but
//! the loopback ones is unreachable.

use super::address::{
    ANY_V6, Address, Ip, LOOPBACK_V6, UnixName, is_any, is_loopback, mapped, unmapped,
};
use super::options::{IPV6_V6ONLY, SO_REUSEADDR, SO_REUSEPORT, SOL_IPV6, SOL_SOCKET};
use super::{Family, Kind, Socket, Sockets, State};
use crate::errno::Errno;
use crate::vfs::InodeId;

/// The ports that are given out unasked.
const FIRST_PORT: u32 = 32_768;
const PORTS: u32 = 28_232;

/// Whether a socket bound to `ip` gets what is sent to `to`; an exact match is better (2) than a
/// wildcard (1).
fn match_quality(socket: &Socket, ip: Ip, to: Ip) -> u32 {
    let only_v6 = socket.options.is_on(SOL_IPV6, IPV6_V6ONLY);
    if ip == to {
        2
    } else if ip == ANY_V6 && socket.family == Family::Inet6 {
        u32::from(unmapped(to).is_none() || !only_v6)
    } else {
        u32::from(is_any(ip) && unmapped(ip).is_some() && unmapped(to).is_some())
    }
}

/// Whether two bound addresses have something in common.
fn overlaps(one: &Socket, ip: Ip, other: &Socket, other_ip: Ip) -> bool {
    let same_kind = unmapped(ip).is_some() == unmapped(other_ip).is_some();
    ip == other_ip
        || is_any(ip) && same_kind
        || is_any(other_ip) && same_kind
        || match_quality(one, ip, other_ip) > 0
        || match_quality(other, other_ip, ip) > 0
        || ip == ANY_V6 && is_any(other_ip) && !one.options.is_on(SOL_IPV6, IPV6_V6ONLY)
        || other_ip == ANY_V6 && is_any(ip) && !other.options.is_on(SOL_IPV6, IPV6_V6ONLY)
}

impl Sockets {
    /// Whether a socket must not have an address because of another one.
    fn conflicts(&self, id: u32, socket: &Socket, ip: Ip, port: u16) -> bool {
        let reuses = |socket: &Socket, option| socket.options.is_on(SOL_SOCKET, option);
        self.table.iter().any(|(other_id, other)| {
            let Some((other_ip, other_port)) = other.local.as_ref().and_then(Address::internet)
            else {
                return false;
            };
            if other_id == id || other_port != port || other.kind != socket.kind {
                return false;
            }
            let both = |option| reuses(socket, option) && reuses(other, option);
            let shared = both(SO_REUSEPORT)
                || both(SO_REUSEADDR) && !(other.is_listening() || socket.is_listening());
            !shared && overlaps(socket, ip, other, other_ip)
        })
    }

    /// A port that nobody has; EADDRINUSE if all are taken.
    fn free_port(&mut self, id: u32, ip: Ip) -> Result<u16, Errno> {
        for _ in 0..PORTS {
            let port = (FIRST_PORT + self.ports_given % PORTS) as u16;
            self.ports_given = self.ports_given.wrapping_add(1);
            let socket = self.get(id)?;
            let taken = self.table.iter().any(|(_, other)| {
                let local = other.local.as_ref().and_then(Address::internet);
                other.kind == socket.kind && local.is_some_and(|local| local.1 == port)
            });
            if !taken && !self.conflicts(id, socket, ip, port) {
                return Ok(port);
            }
        }
        Err(Errno::EADDRINUSE)
    }

    /// `bind` to an internet address; port 0 stands for any.
    pub fn bind_internet(&mut self, id: u32, ip: Ip, port: u16) -> Result<(), Errno> {
        let socket = self.get(id)?;
        let only_v6 = socket.options.is_on(SOL_IPV6, IPV6_V6ONLY);
        if socket.local.is_some() || only_v6 && unmapped(ip).is_some() {
            return Err(Errno::EINVAL);
        }
        if !is_any(ip) && !is_loopback(ip) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if (1..1024).contains(&port) {
            return Err(Errno::EACCES);
        }
        let port = match port {
            0 => self.free_port(id, ip)?,
            port if self.conflicts(id, socket, ip, port) => return Err(Errno::EADDRINUSE),
            port => port,
        };
        let socket = self.get_mut(id)?;
        socket.local = Some(Address::Internet { ip, port });
        socket.bound_to = Some(ip);
        Ok(())
    }

    /// `listen` where others have the address already fails, though `bind` did not.
    pub fn may_listen(&self, id: u32) -> Result<bool, Errno> {
        let socket = self.get(id)?;
        let Some((ip, port)) = socket.local.as_ref().and_then(Address::internet) else {
            return Ok(true);
        };
        let alike = |other: &Socket| {
            let both = |option| {
                socket.options.is_on(SOL_SOCKET, option) && other.options.is_on(SOL_SOCKET, option)
            };
            let local = other.local.as_ref().and_then(Address::internet);
            other.is_listening()
                && !both(SO_REUSEPORT)
                && local.is_some_and(|(other_ip, other_port)| {
                    other_port == port && overlaps(socket, ip, other, other_ip)
                })
        };
        let mut others = self.table.iter();
        Ok(!others.any(|(other, socket)| other != id && alike(socket)))
    }

    /// Gives a socket the name that it needs to send to `to`, if it has none.
    pub fn bind_towards(&mut self, id: u32, to: Ip) -> Result<(), Errno> {
        let own = if unmapped(to).is_some() {
            mapped([127, 0, 0, 1])
        } else {
            LOOPBACK_V6
        };
        let socket = self.get(id)?;
        let (ip, port) = match socket.local.as_ref().and_then(Address::internet) {
            Some((ip, port)) if is_any(ip) => (own, port),
            Some(_) => return Ok(()),
            None => (own, self.free_port(id, own)?),
        };
        self.get_mut(id)?.local = Some(Address::Internet { ip, port });
        Ok(())
    }

    /// A socket is for everybody again, with the name that it had before it was connected.
    pub fn disconnect(&mut self, id: u32) -> Result<(), Errno> {
        let socket = self.get_mut(id)?;
        socket.remote = None;
        socket.target = None;
        if let Some(Address::Internet { port, .. }) = socket.local {
            let ip = socket.bound_to;
            socket.local = ip.map(|ip| Address::Internet { ip, port });
        }
        Ok(())
    }

    /// Where an address leads from a socket; ENETUNREACH beyond the machine.
    pub fn destination(&self, id: u32, ip: Ip) -> Result<Ip, Errno> {
        let socket = self.get(id)?;
        let v4 = unmapped(ip).is_some();
        if socket.family == Family::Inet6 && v4 && socket.options.is_on(SOL_IPV6, IPV6_V6ONLY) {
            return Err(Errno::ENETUNREACH);
        }
        match ip {
            ip if is_any(ip) && v4 => Ok(mapped([127, 0, 0, 1])),
            ip if is_any(ip) => Ok(LOOPBACK_V6),
            ip if is_loopback(ip) => Ok(ip),
            _ => Err(Errno::ENETUNREACH),
        }
    }

    /// The listener that a connection from `from` to an address reaches.
    pub fn listener_at(&self, ip: Ip, port: u16, from: u16) -> Option<u32> {
        self.best(port, from, |socket, local| {
            let listens = socket.is_tcp() && socket.is_listening();
            if listens {
                match_quality(socket, local, ip)
            } else {
                0
            }
        })
    }

    /// The socket that a datagram reaches: one that is connected to its sender before others.
    pub fn receiver_at(&self, ip: Ip, port: u16, from: &Address) -> Option<u32> {
        let from_port = from.internet().map_or(0, |from| from.1);
        self.best(port, from_port, |socket, local| {
            if !socket.is_internet() || socket.kind != Kind::Datagram {
                return 0;
            }
            match (match_quality(socket, local, ip), &socket.remote) {
                (0, _) => 0,
                (quality, None) => quality,
                (quality, Some(remote)) if remote == from => quality + 4,
                _ => 0,
            }
        })
    }

    /// The best of the sockets at a port; of several that are equally good (`SO_REUSEPORT`), the
    /// sender's port decides.
    fn best(&self, port: u16, from: u16, quality: impl Fn(&Socket, Ip) -> u32) -> Option<u32> {
        let rated = self.table.iter().filter_map(|(id, socket)| {
            let (ip, at) = socket.local.as_ref()?.internet()?;
            let quality = if at == port { quality(socket, ip) } else { 0 };
            (quality > 0).then_some((quality, id))
        });
        let rated: Vec<(u32, u32)> = rated.collect();
        let top = rated.iter().map(|(quality, _)| *quality).max()?;
        let equal: Vec<u32> = rated
            .into_iter()
            .filter(|(quality, _)| *quality == top)
            .map(|(_, id)| id)
            .collect();
        equal.get(usize::from(from) % equal.len()).copied()
    }

    /// The socket that stands at an inode.
    pub fn at_inode(&self, inode: InodeId) -> Option<u32> {
        let mut all = self.table.iter();
        all.find(|(_, socket)| socket.inode == Some(inode))
            .map(|(id, _)| id)
    }

    /// The socket that was bound to an abstract name; those that it accepted share the name.
    pub fn at_abstract(&self, name: &[u8]) -> Option<u32> {
        let is_named = |socket: &Socket| match &socket.local {
            Some(Address::Unix(UnixName::Abstract(own))) => {
                own == name && !matches!(socket.state, State::Connected { .. })
            }
            _ => false,
        };
        let mut all = self.table.iter();
        all.find(|(_, socket)| is_named(socket)).map(|(id, _)| id)
    }

    /// Whether an abstract name is in use, also by a connected socket.
    pub fn has_abstract(&self, name: &[u8]) -> bool {
        let mut all = self.table.iter();
        all.any(|(_, socket)| match &socket.local {
            Some(Address::Unix(UnixName::Abstract(own))) => own == name,
            _ => false,
        })
    }

    /// A free abstract name of five hexadecimal digits.
    pub fn free_name(&mut self) -> Result<UnixName, Errno> {
        for _ in 0..1 << 20 {
            self.names_given = (self.names_given + 1) & 0xf_ffff;
            let name = format!("{:05x}", self.names_given).into_bytes();
            if !self.has_abstract(&name) {
                return Ok(UnixName::Abstract(name));
            }
        }
        Err(Errno::ENOSPC)
    }
}
