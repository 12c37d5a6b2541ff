//! How datagrams came, for sockets that want to be told (`IP_PKTINFO`, `IP_RECVTTL`, `SO_TIMESTAMP`, …),
//! and the control messages that tell it.
//!
//! Always true: what stands here is about the last messages of a socket's queue, in their order; those
//! before them came before anybody asked. Who has asked once is kept up with until its queue is empty.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::address::{Ip, unmapped};
use super::options::{Options, SO_TIMESTAMP, SO_TIMESTAMPNS, SOL_IP, SOL_IPV6, SOL_SOCKET};
use super::{Family, Kind, Socket, interfaces};
use crate::syscalls::time::timeval_bytes;
use crate::syscalls::time_bytes;

const IP_TOS: u32 = 1;
const IP_TTL: u32 = 2;
const IP_PKTINFO: u32 = 8;
const IP_RECVTTL: u32 = 12;
const IP_RECVTOS: u32 = 13;
const IPV6_UNICAST_HOPS: u32 = 16;
const IPV6_RECVPKTINFO: u32 = 49;
const IPV6_PKTINFO: u32 = 50;
const IPV6_RECVHOPLIMIT: u32 = 51;
const IPV6_HOPLIMIT: u32 = 52;
const IPV6_RECVTCLASS: u32 = 66;
const IPV6_TCLASS: u32 = 67;

/// What asks to be told.
const WISHES: [(u32, u32); 8] = [
    (SOL_SOCKET, SO_TIMESTAMP),
    (SOL_SOCKET, SO_TIMESTAMPNS),
    (SOL_IP, IP_PKTINFO),
    (SOL_IP, IP_RECVTTL),
    (SOL_IP, IP_RECVTOS),
    (SOL_IPV6, IPV6_RECVPKTINFO),
    (SOL_IPV6, IPV6_RECVHOPLIMIT),
    (SOL_IPV6, IPV6_RECVTCLASS),
];

/// Level, kind and body of a control message.
pub(crate) type Told = (u32, u32, Vec<u8>);

/// How a datagram came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Arrival {
    /// The address that it was sent to.
    pub to: Ip,
    /// The hops that it had left.
    pub hops: u8,
    /// The type of service, or the traffic class.
    pub class: u8,
    /// When it came, by the real-time clock.
    pub real_ns: u64,
    /// Its socket wanted to know then; else Linux forgets by which interface it came.
    pub awaited: bool,
}

impl Arrival {
    /// Of what a socket with such options sends to one that waits for it, or does not.
    pub fn sent(options: &Options, to: Ip, real_ns: u64, awaited: bool) -> Self {
        let (hops, class) = if unmapped(to).is_some() {
            ((SOL_IP, IP_TTL), (SOL_IP, IP_TOS))
        } else {
            ((SOL_IPV6, IPV6_UNICAST_HOPS), (SOL_IPV6, IPV6_TCLASS))
        };
        // -1 stands for what nobody has chosen.
        let number =
            |(level, name), usual| u8::try_from(options.value(level, name)).unwrap_or(usual);
        Self {
            to,
            hops: number(hops, 64),
            class: number(class, 0),
            real_ns,
            awaited,
        }
    }
}

/// All that is known of the datagrams that wait.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Arrivals(BTreeMap<u32, VecDeque<Arrival>>);

impl Arrivals {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A datagram comes into a socket's queue, in which so many wait.
    pub fn came(&mut self, id: u32, waiting: usize, arrival: Arrival) {
        self.left(id, waiting);
        self.0.entry(id).or_default().push_back(arrival);
    }

    /// Whether it is known of what came last to a socket.
    pub fn knows(&self, id: u32) -> bool {
        self.0.contains_key(&id)
    }

    /// How the first of so many came, if it is known.
    pub fn first(&self, id: u32, waiting: usize) -> Option<&Arrival> {
        let known = self.0.get(&id)?;
        known.front().filter(|_| known.len() == waiting)
    }

    /// So many are left in a socket's queue.
    pub fn left(&mut self, id: u32, waiting: usize) {
        let Some(known) = self.0.get_mut(&id) else {
            return;
        };
        known.drain(..known.len().saturating_sub(waiting));
        if known.is_empty() {
            self.0.remove(&id);
        }
    }

    /// False if there cannot be a socket with so many messages for what is known.
    pub fn is_valid(&self, waiting: impl Fn(u32) -> usize) -> bool {
        (self.0.iter()).all(|(&id, known)| (1..=waiting(id)).contains(&known.len()))
    }
}

impl Socket {
    /// Whether it wants to know how datagrams come.
    pub fn wants_arrivals(&self) -> bool {
        self.kind == Kind::Datagram && self.options.has_set(&WISHES)
    }

    /// What it is told of how a datagram came, in Linux's order.
    pub fn told(&self, arrival: &Arrival) -> Vec<Told> {
        let on = |level, name| self.options.is_on(level, name);
        let mut told: Vec<Told> = Vec::new();
        let when = arrival.real_ns;
        let times = [
            (SO_TIMESTAMP, timeval_bytes(when)),
            (SO_TIMESTAMPNS, time_bytes(when)),
        ];
        for (name, body) in times {
            if on(SOL_SOCKET, name) {
                told.push((SOL_SOCKET, name, body.to_vec()));
            }
        }
        if self.family == Family::Unix {
            return told;
        }
        let interface = interfaces::INDEX.to_le_bytes();
        if self.family == Family::Inet6 && on(SOL_IPV6, IPV6_RECVPKTINFO) {
            told.push((
                SOL_IPV6,
                IPV6_PKTINFO,
                [&arrival.to[..], &interface].concat(),
            ));
        }
        let (hops, class) = (i32::from(arrival.hops), i32::from(arrival.class));
        if let Some(v4) = unmapped(arrival.to) {
            if on(SOL_IP, IP_PKTINFO) {
                let known = arrival.awaited.then_some((interface, v4));
                let (interface, own) = known.unwrap_or_default();
                told.push((SOL_IP, IP_PKTINFO, [interface, own, v4].concat()));
            }
            if on(SOL_IP, IP_RECVTTL) {
                told.push((SOL_IP, IP_TTL, hops.to_le_bytes().to_vec()));
            }
            if on(SOL_IP, IP_RECVTOS) {
                told.push((SOL_IP, IP_TOS, vec![arrival.class]));
            }
            return told;
        }
        if on(SOL_IPV6, IPV6_RECVHOPLIMIT) {
            told.push((SOL_IPV6, IPV6_HOPLIMIT, hops.to_le_bytes().to_vec()));
        }
        if on(SOL_IPV6, IPV6_RECVTCLASS) {
            told.push((SOL_IPV6, IPV6_TCLASS, class.to_le_bytes().to_vec()));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::address::{LOOPBACK_V6, mapped};

    fn arrival(hops: u8) -> Arrival {
        Arrival {
            hops,
            ..Arrival::sent(&Options::default(), LOOPBACK_V6, 3_000_000_009, true)
        }
    }

    #[test]
    fn what_is_known_is_of_the_last_messages() {
        let mut all = Arrivals::default();
        all.came(5, 2, arrival(1));
        assert_eq!(all.first(5, 3), None);
        all.left(5, 2);
        assert!(all.is_valid(|_| 2) && !all.is_valid(|_| 0));
        all.left(5, 1);
        assert!(all.knows(5) && !all.knows(4));
        assert_eq!(all.first(5, 1), Some(&arrival(1)));
        // Another socket with the same number, whose queue is empty.
        all.came(5, 0, arrival(2));
        assert_eq!(all.first(5, 1), Some(&arrival(2)));
        all.left(5, 0);
        assert!(all.is_empty());
    }

    #[test]
    fn each_family_is_told_in_its_words() {
        let mut socket = Socket::new(Family::Inet6, Kind::Datagram, 17, 1);
        let wished = [
            (SOL_SOCKET, SO_TIMESTAMPNS),
            (SOL_IPV6, IPV6_RECVPKTINFO),
            (SOL_IPV6, IPV6_RECVTCLASS),
            (SOL_IP, IP_RECVTTL),
        ];
        assert!(!socket.wants_arrivals());
        for (level, name) in wished {
            let (family, kind) = (socket.family, socket.kind);
            socket.options.set(level, name, 1, family, kind).unwrap();
        }
        assert!(socket.wants_arrivals());
        let kinds = |arrival: &Arrival| {
            let told = socket.told(arrival).into_iter();
            told.map(|(level, kind, body)| (level, kind, body.len()))
                .collect::<Vec<_>>()
        };
        let (time, place) = (
            (SOL_SOCKET, SO_TIMESTAMPNS, 16),
            (SOL_IPV6, IPV6_PKTINFO, 20),
        );
        assert_eq!(
            kinds(&arrival(64)),
            [time, place, (SOL_IPV6, IPV6_TCLASS, 4)]
        );
        let v4 = Arrival {
            to: mapped([127, 0, 0, 1]),
            ..arrival(64)
        };
        assert_eq!(kinds(&v4), [time, place, (SOL_IP, IP_TTL, 4)]);
    }
}
