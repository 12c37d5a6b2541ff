//! Whether saved sockets can be: every reference names something, connections have two ends that
//! name each other, nothing holds more than it may.

use std::collections::BTreeSet;

use super::address::{Address, UnixName};
use super::{
    BACKLOG_MAX, FILES_IN_FLIGHT_MAX, Family, HELD_BYTES_MAX, Kind, SOCKETS_MAX, Socket, Sockets,
    State,
};
use crate::vfs::descriptor::{Object, OpenFiles};
use crate::vfs::{FileSystem, Node};

impl Sockets {
    /// An error says what is wrong.
    pub fn validate(&self, files: &FileSystem, open: &OpenFiles) -> Result<(), &'static str> {
        if self.table.entries.len() > SOCKETS_MAX
            || self.held > HELD_BYTES_MAX
            || self.files_in_flight().count() > FILES_IN_FLIGHT_MAX
        {
            return Err("there are too many sockets, or they hold too much");
        }
        self.validate_owners(open)?;
        let mut inodes = BTreeSet::new();
        for (id, socket) in self.table.iter() {
            if !is_possible(socket) || socket.serial > self.made {
                return Err("a socket is impossible");
            }
            if !self.ends_agree(id, socket) {
                return Err("a socket's other end does not name it");
            }
            if let Some(inode) = socket.inode {
                let stands = files
                    .inode(inode)
                    .is_ok_and(|i| matches!(i.node, Node::Socket));
                if !stands || !inodes.insert(inode) {
                    return Err("a socket's inode is wrong");
                }
            }
        }
        Ok(())
    }

    /// Each socket belongs to one open file, or waits in one listener's queue.
    fn validate_owners(&self, open: &OpenFiles) -> Result<(), &'static str> {
        let owned = open.files.iter().filter_map(|(_, file)| match file.object {
            Object::Socket(id) => Some(id),
            _ => None,
        });
        let waiting = self
            .table
            .iter()
            .flat_map(|(_, socket)| match &socket.state {
                State::Listening { pending, .. } => pending.iter().copied().collect(),
                _ => Vec::new(),
            });
        let mut owners = BTreeSet::new();
        for id in owned.chain(waiting) {
            if self.table.get(id).is_none() || !owners.insert(id) {
                return Err("a socket is missing, or stands at two places");
            }
        }
        if owners.len() == self.table.iter().count() {
            Ok(())
        } else {
            Err("a socket belongs to nobody")
        }
    }

    fn ends_agree(&self, id: u32, socket: &Socket) -> bool {
        let alike = |other: &Socket| {
            other.kind == socket.kind && other.is_internet() == socket.is_internet()
        };
        let target = |target: u32| self.table.get(target).is_some_and(alike);
        let state = match &socket.state {
            State::Unconnected => true,
            State::Listening { backlog, pending } => {
                *backlog <= BACKLOG_MAX
                    && pending.iter().all(|&end| {
                        self.table.get(end).is_some_and(|end| {
                            alike(end) && matches!(end.state, State::Connected { .. })
                        })
                    })
            }
            State::Connecting { listener } => self
                .table
                .get(*listener)
                .is_some_and(|one| one.is_listening() && alike(one)),
            State::Connected { peer, .. } => peer.is_none_or(|peer| {
                self.table
                    .get(peer)
                    .is_some_and(|other| other.peer() == Some(id) && alike(other))
            }),
        };
        state && socket.target.is_none_or(target)
    }
}

fn is_possible(socket: &Socket) -> bool {
    let suits = |address: &Option<Address>| {
        address
            .as_ref()
            .is_none_or(|address| address.suits(socket.family))
    };
    let kind = match socket.family {
        Family::Unix => socket.local.is_some(),
        Family::Inet | Family::Inet6 => socket.kind != Kind::SequencedPacket,
        Family::Netlink => socket.kind == Kind::Datagram,
    };
    let at_path = matches!(socket.local, Some(Address::Unix(UnixName::Path(_))));
    let unconnected = socket.state == State::Unconnected;
    let targets = socket.target.is_none() || socket.family == Family::Unix && !socket.connects();
    kind && targets
        && (socket.connects() || unconnected)
        && (socket.inode.is_none() || at_path)
        && suits(&socket.local)
        && suits(&socket.remote)
        && socket.error < 4096
        && socket.options.is_valid()
        && (socket.family == Family::Unix || socket.queue.iter().all(|m| m.files.is_empty()))
}
