//! Sockets: all of them, whoever has them open, and what lies between them.
//!
//! Always true: there is no network beyond the machine, so what is sent stands at once in the
//! receiver's queue, or the sender waits: nothing is under way. A socket belongs to one open file,
//! or waits in one listener's queue to be accepted. The two ends of a connection name each other.
//! What a guest can make grow is bounded: the sockets, what each holds, and what all hold together.

pub(crate) mod address;
pub(crate) mod arrivals;
pub(crate) mod binding;
pub(crate) mod connection;
pub(crate) mod flight;
pub(crate) mod interfaces;
pub(crate) mod netlink;
pub(crate) mod options;
pub(crate) mod report;
pub(crate) mod validate;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::errno::Errno;
use crate::vfs::InodeId;
use crate::vfs::descriptor::Table;
use address::{Address, Ip, UnixName};
use options::{Options, SO_RCVBUF, SO_SNDBUF, SOL_SOCKET};

/// Sockets that may exist at once.
pub(crate) const SOCKETS_MAX: usize = 4096;
/// Bytes that all sockets may hold together.
pub(crate) const HELD_BYTES_MAX: usize = 16 << 20;
/// Open files that may be under way in messages at once.
pub(crate) const FILES_IN_FLIGHT_MAX: usize = 1024;
/// What a message counts beside its bytes.
pub(crate) const MESSAGE_COST: usize = 256;
/// Messages that wait at a datagram socket of the file tree before a sender waits.
pub(crate) const UNIX_DATAGRAMS_MAX: usize = 11;
/// The longest queue that `listen` may ask for.
pub(crate) const BACKLOG_MAX: u32 = 4096;
/// The largest datagram of the internet.
pub(crate) const UDP_BYTES_MAX: usize = 65_507;
/// Bytes of a stream's message, at which the next one begins.
const PIECE_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Family {
    Unix,
    Inet,
    Inet6,
    Netlink,
}

impl Family {
    /// What the address of another family is refused with.
    pub fn refusal(self) -> Errno {
        match self {
            Family::Unix => Errno::EINVAL,
            _ => Errno::EAFNOSUPPORT,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Stream,
    Datagram,
    SequencedPacket,
}

/// Where a socket that makes connections stands. One for datagrams stays `Unconnected`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    Unconnected,
    Listening {
        backlog: u32,
        /// Sockets that are connected and wait for `accept`.
        pending: VecDeque<u32>,
    },
    /// Waits for room at a listener.
    Connecting {
        listener: u32,
    },
    Connected {
        /// `None` once the other end is closed.
        peer: Option<u32>,
        /// `connect` has said so.
        told: bool,
    },
}

/// What was sent and not yet received: a datagram, or a piece of a stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Message {
    pub bytes: VecDeque<u8>,
    pub from: Option<Address>,
    /// Open files that come along; each is one reference.
    pub files: Vec<u32>,
    /// The process that sent it.
    pub process: u32,
}

impl Message {
    pub fn cost(&self) -> usize {
        self.bytes.len() + MESSAGE_COST
    }
}

/// A socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Socket {
    pub family: Family,
    pub kind: Kind,
    pub protocol: u32,
    /// Unique for ever: its inode number.
    pub serial: u64,
    /// The process that made it, or made it listen.
    pub process: u32,
    pub local: Option<Address>,
    /// The inode that stands for it in the file tree.
    pub inode: Option<InodeId>,
    /// The other end's address; of a datagram socket, where what names no address goes.
    pub remote: Option<Address>,
    /// Of a UNIX datagram socket with a remote: that socket, unless it is closed.
    pub target: Option<u32>,
    /// The process at the other end, for `SO_PEERCRED`.
    pub peer_process: Option<u32>,
    pub state: State,
    pub queue: VecDeque<Message>,
    /// What `SO_ERROR` will say.
    pub error: u16,
    pub input_ended: bool,
    pub output_ended: bool,
    /// Counts what happened to it from outside, so that an edge-triggered interest sees it.
    pub activity: u64,
    pub options: Options,
    /// What `bind` was told; connecting may choose more, and disconnecting takes that back.
    pub bound_to: Option<Ip>,
    /// The sum of its messages' costs; follows from them.
    #[serde(skip)]
    pub held: usize,
}

impl Socket {
    pub fn new(family: Family, kind: Kind, protocol: u32, process: u32) -> Self {
        let local = (family == Family::Unix).then_some(Address::Unix(UnixName::None));
        Self {
            family,
            kind,
            protocol,
            serial: 0,
            process,
            local,
            inode: None,
            remote: None,
            target: None,
            peer_process: None,
            state: State::Unconnected,
            queue: VecDeque::new(),
            error: 0,
            input_ended: false,
            output_ended: false,
            activity: 0,
            options: Options::default(),
            bound_to: None,
            held: 0,
        }
    }

    pub fn is_internet(&self) -> bool {
        matches!(self.family, Family::Inet | Family::Inet6)
    }

    /// It makes connections.
    pub fn connects(&self) -> bool {
        self.kind != Kind::Datagram
    }

    /// A stream of bytes rather than messages.
    pub fn is_stream(&self) -> bool {
        self.kind == Kind::Stream
    }

    /// What asking for urgent bytes is refused with, of which there are none.
    pub fn refusal_of_urgent(&self) -> Errno {
        if self.is_stream() || self.is_internet() {
            Errno::EINVAL
        } else {
            Errno::EOPNOTSUPP
        }
    }

    pub fn is_tcp(&self) -> bool {
        self.is_internet() && self.is_stream()
    }

    pub fn is_udp(&self) -> bool {
        self.is_internet() && self.kind == Kind::Datagram
    }

    /// The other end of the connection, while it is open.
    pub fn peer(&self) -> Option<u32> {
        match self.state {
            State::Connected { peer, .. } => peer,
            _ => None,
        }
    }

    pub fn is_listening(&self) -> bool {
        matches!(self.state, State::Listening { .. })
    }

    pub fn send_buffer(&self) -> usize {
        let size = self.number(SO_SNDBUF);
        usize::try_from(size).unwrap_or(0)
    }

    pub fn receive_buffer(&self) -> usize {
        let size = self.number(SO_RCVBUF);
        usize::try_from(size).unwrap_or(0)
    }

    fn number(&self, name: u32) -> i32 {
        let found = self
            .options
            .number(SOL_SOCKET, name, self.family, self.kind);
        found.unwrap_or(0)
    }

    /// Takes the pending error.
    pub fn take_error(&mut self) -> Option<Errno> {
        let error = std::mem::take(&mut self.error);
        (error != 0).then_some(Errno(error))
    }
}

/// All sockets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sockets {
    pub table: Table<Socket>,
    /// How many there ever were.
    pub made: u64,
    /// Ports and names that were given out unasked.
    pub ports_given: u32,
    pub names_given: u32,
    /// The sum of what the sockets hold; follows from them.
    #[serde(skip)]
    pub held: usize,
}

impl Sockets {
    /// True if there never was a socket.
    pub fn is_empty(&self) -> bool {
        self.made == 0
    }

    pub fn get(&self, id: u32) -> Result<&Socket, Errno> {
        self.table.get(id).ok_or(Errno::EBADF)
    }

    pub fn get_mut(&mut self, id: u32) -> Result<&mut Socket, Errno> {
        self.table.get_mut(id).ok_or(Errno::EBADF)
    }

    /// Enters a new socket.
    pub fn add(&mut self, mut socket: Socket) -> Result<u32, Errno> {
        if self.table.iter().count() >= SOCKETS_MAX {
            return Err(Errno::ENFILE);
        }
        self.made += 1;
        socket.serial = self.made;
        Ok(self.table.insert(socket))
    }

    /// Puts a message into a socket's queue; pieces of a stream are joined.
    pub fn push(&mut self, id: u32, message: Message) {
        let Some(socket) = self.table.get_mut(id) else {
            return;
        };
        let before = socket.held;
        let joins = |last: &Message| {
            last.files.is_empty()
                && message.files.is_empty()
                && last.process == message.process
                && last.bytes.len() < PIECE_BYTES
        };
        let last = socket.queue.back_mut();
        let last = last.filter(|last| socket.kind == Kind::Stream && joins(last));
        if let Some(last) = last {
            socket.held += message.bytes.len();
            last.bytes.extend(message.bytes);
        } else {
            socket.held += message.cost();
            socket.queue.push_back(message);
        }
        self.held += socket.held - before;
    }

    /// Takes the first message away.
    pub fn pop(&mut self, id: u32) -> Option<Message> {
        let socket = self.table.get_mut(id)?;
        let message = socket.queue.pop_front()?;
        socket.held -= message.cost();
        self.held -= message.cost();
        Some(message)
    }

    /// Takes so many bytes off the first message, which keeps some.
    pub fn drain_first(&mut self, id: u32, count: usize) {
        let first = self.table.get_mut(id);
        if let Some(socket) = first
            && let Some(message) = socket.queue.front_mut()
        {
            message.bytes.drain(..count);
            socket.held -= count;
            self.held -= count;
        }
    }

    /// How many bytes more a connected end may send.
    pub fn stream_room(&self, id: u32) -> usize {
        let Ok(socket) = self.get(id) else { return 0 };
        let Some(peer) = socket.peer().and_then(|peer| self.table.get(peer)) else {
            // It goes nowhere.
            return socket.send_buffer();
        };
        let bound = if socket.is_internet() {
            socket.send_buffer() + peer.receive_buffer()
        } else {
            socket.send_buffer()
        };
        let all = HELD_BYTES_MAX.saturating_sub(self.held);
        bound.saturating_sub(peer.held).min(all)
    }

    /// Whether a connected end has enough room to be called writable.
    pub fn is_writable(&self, id: u32) -> bool {
        let Ok(socket) = self.get(id) else {
            return true;
        };
        if let Some(target) = socket.target.filter(|_| !socket.connects()) {
            // A quarter of the buffer, as on Linux: whoever is told so may send what is longer than one byte.
            let is_open = |target: &Socket| {
                let waits = target.target == Some(id) || target.queue.len() < UNIX_DATAGRAMS_MAX;
                waits && target.held * 4 <= socket.send_buffer()
            };
            return self.table.get(target).is_none_or(is_open);
        }
        match socket.peer() {
            Some(peer) => {
                let held = self.table.get(peer).map_or(0, |peer| peer.held);
                self.stream_room(id) > held / 3 + MESSAGE_COST
            }
            None => true,
        }
    }

    /// What follows from the rest.
    pub fn count_held(&mut self) {
        self.held = 0;
        for (_, socket) in self.table.iter_mut() {
            socket.held = socket.queue.iter().map(Message::cost).sum();
            self.held = self.held.saturating_add(socket.held);
        }
    }

    /// Every open file that is under way in a message.
    pub fn files_in_flight(&self) -> impl Iterator<Item = u32> {
        let messages = self.table.iter().flat_map(|(_, socket)| &socket.queue);
        messages.flat_map(|message| message.files.iter().copied())
    }

    /// True if a socket stands at an inode.
    pub fn holds_inode(&self, inode: InodeId) -> bool {
        self.table
            .iter()
            .any(|(_, socket)| socket.inode == Some(inode))
    }
}
