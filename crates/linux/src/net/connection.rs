//! Connections: how they come about, and how they end.
//!
//! Always true: whoever changes a socket says so to those who wait for it, in every program.

use std::collections::VecDeque;

use super::address::{Address, UnixName};
use super::{Message, Socket, State};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::vfs::descriptor::Object;

impl Kernel {
    /// Something happened to a socket from outside: who waits for it tries again.
    pub(crate) fn socket_changed(&mut self, id: u32) {
        if let Ok(socket) = self.rare.sockets.get_mut(id) {
            socket.activity = socket.activity.wrapping_add(1);
        }
        self.wake_waiters_for(|object| matches!(object, Object::Socket(one) if *one == id));
        self.tell_owners(|file| matches!(file.object, Object::Socket(one) if one == id));
    }

    /// A message for a socket.
    pub(crate) fn deliver(&mut self, id: u32, message: Message) {
        self.rare.sockets.push(id, message);
        self.socket_changed(id);
    }

    /// Room was made in a socket's queue: whoever sends to it may go on, if it had been too full.
    pub(crate) fn room_was_made(&mut self, id: u32, senders: &[u32]) {
        let sockets = &self.rare.sockets;
        let free: Vec<u32> = senders
            .iter()
            .copied()
            .filter(|&sender| sender != id && sockets.is_writable(sender))
            .collect();
        for sender in free {
            self.socket_changed(sender);
        }
    }

    /// Those who cannot send because a socket's queue is too full.
    pub(crate) fn held_up_by(&self, id: u32) -> Vec<u32> {
        let sockets = &self.rare.sockets;
        let Ok(socket) = sockets.get(id) else {
            return Vec::new();
        };
        if socket.connects() {
            let peer = socket.peer().filter(|&peer| !sockets.is_writable(peer));
            return peer.into_iter().collect();
        }
        if socket.is_internet() || socket.queue.len() < super::UNIX_DATAGRAMS_MAX {
            return Vec::new();
        }
        // Also those that name it in every single call.
        let all = sockets.table.iter();
        all.filter(|(_, other)| other.family == socket.family && !other.connects())
            .map(|(other, _)| other)
            .collect()
    }

    /// Takes a socket into a listener's queue: makes the other end. The queue has room.
    pub(crate) fn join(&mut self, id: u32, listener: u32, told: bool) -> Result<(), Errno> {
        let (client, server) = (self.rare.sockets.get(id)?, self.rare.sockets.get(listener)?);
        let mut end = Socket::new(server.family, server.kind, server.protocol, server.process);
        end.options = server.options.clone();
        end.local = if server.is_internet() {
            client.remote.clone()
        } else {
            server.local.clone()
        };
        end.remote.clone_from(&client.local);
        end.peer_process = Some(client.process);
        end.state = State::Connected {
            peer: Some(id),
            told: true,
        };
        let (server_name, server_process) = (server.local.clone(), server.process);
        let end = self.rare.sockets.add(end)?;
        let client = self.rare.sockets.get_mut(id)?;
        if !client.is_internet() {
            client.remote = server_name;
        }
        client.peer_process = Some(server_process);
        client.state = State::Connected {
            peer: Some(end),
            told,
        };
        if let State::Listening { pending, .. } = &mut self.rare.sockets.get_mut(listener)?.state {
            pending.push_back(end);
        }
        self.socket_changed(listener);
        self.socket_changed(id);
        Ok(())
    }

    /// Whether a listener's queue has room.
    pub(crate) fn has_room(&self, listener: u32) -> bool {
        match self.rare.sockets.get(listener).map(|socket| &socket.state) {
            Ok(State::Listening { backlog, pending }) => pending.len() <= *backlog as usize,
            _ => false,
        }
    }

    /// A place became free in a listener's queue: the next one that waits for it comes in.
    pub(crate) fn admit_next(&mut self, listener: u32) {
        let waits = |socket: &Socket| socket.state == State::Connecting { listener };
        let all = self.rare.sockets.table.iter();
        let waiting = all.filter(|(_, socket)| waits(socket));
        let next = waiting.min_by_key(|(_, socket)| socket.serial);
        let next = next.map(|(id, _)| id);
        if let Some(id) = next.filter(|_| self.has_room(listener))
            && self.join(id, listener, false).is_err()
        {
            self.refuse(id);
        }
        // A connection in the file tree is made by its caller.
        let is_unix = (self.rare.sockets.get(listener)).is_ok_and(|socket| !socket.is_internet());
        if is_unix {
            let waiting: Vec<u32> = (self.rare.sockets.table.iter())
                .filter(|(_, socket)| {
                    !socket.is_internet() && socket.connects() && socket.state == State::Unconnected
                })
                .map(|(id, _)| id)
                .collect();
            for id in waiting {
                self.wake_waiters_for(|object| matches!(object, Object::Socket(one) if *one == id));
            }
        }
    }

    /// A connection that was under way comes to nothing.
    pub(crate) fn refuse(&mut self, id: u32) {
        if let Ok(socket) = self.rare.sockets.get_mut(id) {
            socket.state = State::Unconnected;
            socket.error = Errno::ECONNREFUSED.0;
            socket.input_ended = true;
            socket.output_ended = true;
        }
        self.socket_changed(id);
    }

    /// Stops listening: who waits in the queue is turned away.
    pub(crate) fn stop_listening(&mut self, id: u32, dropped: &mut Vec<u32>) {
        let Ok(socket) = self.rare.sockets.get_mut(id) else {
            return;
        };
        if !socket.is_listening() {
            return;
        }
        let State::Listening { pending, .. } =
            std::mem::replace(&mut socket.state, State::Unconnected)
        else {
            return;
        };
        for end in pending {
            self.abort_peer(end);
            self.remove_socket(end, dropped);
        }
        let all = self.rare.sockets.table.iter();
        let waiting = all.filter(|(_, one)| one.state == State::Connecting { listener: id });
        let waiting: Vec<u32> = waiting.map(|(id, _)| id).collect();
        for id in waiting {
            self.refuse(id);
        }
        self.socket_changed(id);
    }

    /// The other end of a connection learns that it was cut off.
    fn abort_peer(&mut self, id: u32) {
        let peer = self.rare.sockets.get(id).ok().and_then(Socket::peer);
        if let Some(peer) = peer
            && let Ok(other) = self.rare.sockets.get_mut(peer)
        {
            other.error = Errno::ECONNRESET.0;
            other.input_ended = true;
            other.output_ended = true;
        }
    }

    /// The last descriptor of a socket is closed. `dropped` gets the open files that were on their
    /// way to it.
    pub(crate) fn close_socket(&mut self, id: u32, dropped: &mut Vec<u32>) {
        self.stop_listening(id, dropped);
        let Ok(socket) = self.rare.sockets.get(id) else {
            return;
        };
        let unread = !socket.queue.is_empty();
        let at_once = socket.is_tcp() && socket.options.linger == Some(0);
        if unread || at_once {
            self.abort_peer(id);
        }
        self.remove_socket(id, dropped);
    }

    /// A socket is as it was before it was connected or listened (`connect` to `AF_UNSPEC`); the peer of
    /// one of TCP is cut off, if it has not closed as well.
    pub(crate) fn disconnect(&mut self, id: u32, dropped: &mut Vec<u32>) -> Result<(), Errno> {
        let socket = self.rare.sockets.get(id)?;
        match (socket.connects(), socket.is_internet()) {
            (false, _) => return self.rare.sockets.disconnect(id),
            (true, false) => return Err(Errno::EINVAL),
            (true, true) => {}
        }
        self.stop_listening(id, dropped);
        let socket = self.rare.sockets.get(id)?;
        if !(socket.input_ended && socket.output_ended) {
            self.abort_peer(id);
        }
        self.drop_messages(id, dropped);
        let socket = self.rare.sockets.get_mut(id)?;
        (socket.input_ended, socket.output_ended) = (false, false);
        let peer = socket.peer();
        socket.state = State::Unconnected;
        self.rare.sockets.disconnect(id)?;
        self.leave_peer(peer);
        self.socket_changed(id);
        Ok(())
    }

    /// Takes a socket away; its peer has no other end any more.
    fn remove_socket(&mut self, id: u32, dropped: &mut Vec<u32>) {
        let held_up = self.held_up_by(id);
        self.drop_messages(id, dropped);
        let Some(socket) = self.rare.sockets.table.remove(id) else {
            return;
        };
        self.leave_peer(socket.peer());
        let targets: Vec<u32> = (self.rare.sockets.table.iter())
            .filter(|(_, other)| other.target == Some(id))
            .map(|(other, _)| other)
            .collect();
        for other in targets {
            if let Ok(socket) = self.rare.sockets.get_mut(other) {
                socket.target = None;
            }
            self.socket_changed(other);
        }
        for other in held_up {
            self.socket_changed(other);
        }
        if let Some(inode) = socket.inode {
            self.free_inode_if_unused(inode);
        }
    }

    /// Nobody will take what waits for a socket.
    fn drop_messages(&mut self, id: u32, dropped: &mut Vec<u32>) {
        while let Some(message) = self.rare.sockets.pop(id) {
            dropped.extend(message.files);
        }
        self.rare.arrivals.left(id, 0);
    }

    /// A socket has no other end any more.
    fn leave_peer(&mut self, peer: Option<u32>) {
        if let Some(peer) = peer
            && let Ok(other) = self.rare.sockets.get_mut(peer)
        {
            other.input_ended = true;
            // On TCP, what is sent to the closed end is answered with a reset.
            other.output_ended |= !other.is_internet();
            if let State::Connected { peer, .. } = &mut other.state {
                *peer = None;
            }
            self.socket_changed(peer);
        }
    }

    /// `shutdown`.
    pub(crate) fn shut_down(
        &mut self,
        id: u32,
        input: bool,
        output: bool,
        dropped: &mut Vec<u32>,
    ) -> Result<(), Errno> {
        let socket = self.rare.sockets.get(id)?;
        if socket.is_tcp() {
            match socket.state {
                State::Listening { .. } => {
                    if input {
                        self.stop_listening(id, dropped);
                    }
                    return Ok(());
                }
                State::Connected { .. } => {}
                _ => {
                    let socket = self.rare.sockets.get_mut(id)?;
                    socket.input_ended |= input;
                    socket.output_ended |= output;
                    return Err(Errno::ENOTCONN);
                }
            }
        }
        let connected = socket.remote.is_some();
        let internet = socket.is_internet();
        if internet && !connected {
            return Err(Errno::ENOTCONN);
        }
        let peer = socket.peer();
        let socket = self.rare.sockets.get_mut(id)?;
        socket.input_ended |= input;
        socket.output_ended |= output;
        self.socket_changed(id);
        if let Some(peer) = peer
            && let Ok(other) = self.rare.sockets.get_mut(peer)
        {
            other.input_ended |= output;
            // The other end of a UNIX socket learns that nobody reads; that of TCP does not.
            other.output_ended |= input && !internet;
            self.socket_changed(peer);
        }
        Ok(())
    }

    /// Connects two new sockets with each other: `socketpair`.
    pub(crate) fn pair(&mut self, first: Socket) -> Result<(u32, u32), Errno> {
        let second = first.clone();
        let one = self.rare.sockets.add(first)?;
        let other = match self.rare.sockets.add(second) {
            Ok(other) => other,
            Err(error) => {
                self.rare.sockets.table.remove(one);
                return Err(error);
            }
        };
        for (id, peer) in [(one, other), (other, one)] {
            let socket = self.rare.sockets.get_mut(id)?;
            socket.remote = Some(Address::Unix(UnixName::None));
            socket.peer_process = Some(socket.process);
            if socket.connects() {
                socket.state = State::Connected {
                    peer: Some(peer),
                    told: true,
                };
            } else {
                socket.target = Some(peer);
            }
        }
        Ok((one, other))
    }

    /// A listener's new state, or its new length of the queue.
    pub(crate) fn listen_at(&mut self, id: u32, backlog: u32, process: u32) -> Result<(), Errno> {
        let socket = self.rare.sockets.get_mut(id)?;
        socket.process = process;
        match &mut socket.state {
            State::Listening { backlog: old, .. } => *old = backlog,
            state => {
                *state = State::Listening {
                    backlog,
                    pending: VecDeque::new(),
                }
            }
        }
        self.socket_changed(id);
        Ok(())
    }
}
