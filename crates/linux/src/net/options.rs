//! Socket options: those that are kept as numbers, and what a number becomes when it is set.
//!
//! Always true: an option is in [`TABLE`] or it does not exist; one that was never set is not
//! stored, so sockets on which nothing was set take no room for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Family, Kind};
use crate::errno::Errno;

pub(crate) const SOL_SOCKET: u32 = 1;
pub(crate) const SOL_IP: u32 = 0;
pub(crate) const SOL_TCP: u32 = 6;
pub(crate) const SOL_UDP: u32 = 17;
pub(crate) const SOL_IPV6: u32 = 41;

const SO_DEBUG: u32 = 1;
pub(crate) const SO_REUSEADDR: u32 = 2;
pub(crate) const SO_SNDBUF: u32 = 7;
pub(crate) const SO_RCVBUF: u32 = 8;
const SO_PRIORITY: u32 = 12;
pub(crate) const SO_REUSEPORT: u32 = 15;
pub(crate) const SO_PASSCRED: u32 = 16;
pub(crate) const SO_RCVLOWAT: u32 = 18;
pub(crate) const SO_TIMESTAMP: u32 = 29;
pub(crate) const SO_TIMESTAMPNS: u32 = 35;
/// Forms of times, of which a socket tells the one that was asked for last.
const TIMES: [u32; 2] = [SO_TIMESTAMP, SO_TIMESTAMPNS];
pub(crate) const IPV6_V6ONLY: u32 = 26;

/// The largest buffer that may be asked for, before it is doubled.
const BUFFER_BYTES_MAX: u32 = 212_992;
const SEND_BYTES_MIN: u32 = 4608;
const RECEIVE_BYTES_MIN: u32 = 2304;

/// What becomes of a number that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// 0 or 1.
    Flag,
    /// As it is, if it lies in the range.
    Number(i32, i32),
    /// Doubled, within bounds.
    SendBuffer,
    ReceiveBuffer,
    /// It can be read only.
    Fixed,
    /// A superuser may set it: not here. Nobody can read it.
    Privileged,
    /// As a number, and then it makes no difference: what is read stays as it was.
    Ignored(i32, i32),
}
use Rule::{Fixed, Flag, Ignored, Number, Privileged, ReceiveBuffer, SendBuffer};

const ANY: Rule = Number(i32::MIN, i32::MAX);
const NOT_NEGATIVE: Rule = Number(0, i32::MAX);

/// Level, number, value when nothing was set, rule.
#[rustfmt::skip]
const TABLE: &[(u32, u32, i32, Rule)] = &[
    // IP_TOS, IP_TTL, IP_RECVOPTS, IP_RETOPTS, IP_PKTINFO, IP_MTU_DISCOVER, IP_RECVERR, IP_RECVTTL,
    // IP_RECVTOS, IP_MTU, IP_FREEBIND, IP_MINTTL, IP_BIND_ADDRESS_NO_PORT, IP_MULTICAST_TTL,
    // IP_MULTICAST_LOOP.
    (SOL_IP, 1, 0, Number(0, 255)), (SOL_IP, 2, 64, Number(1, 255)), (SOL_IP, 6, 0, Flag),
    (SOL_IP, 7, 0, Flag), (SOL_IP, 8, 0, Flag), (SOL_IP, 10, 1, Number(0, 5)),
    (SOL_IP, 11, 0, Flag), (SOL_IP, 12, 0, Flag), (SOL_IP, 13, 0, Flag), (SOL_IP, 14, 65536, Fixed),
    (SOL_IP, 15, 0, Flag), (SOL_IP, 21, 0, Number(0, 255)), (SOL_IP, 24, 0, Flag),
    (SOL_IP, 33, 1, Number(-1, 255)), (SOL_IP, 34, 1, Flag),
    // SO_DEBUG, SO_REUSEADDR, SO_DONTROUTE, SO_BROADCAST, SO_SNDBUF, SO_RCVBUF, SO_KEEPALIVE,
    // SO_OOBINLINE, SO_NO_CHECK, SO_PRIORITY, SO_REUSEPORT, SO_PASSCRED, SO_RCVLOWAT, SO_SNDLOWAT,
    // SO_TIMESTAMP, SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_PASSSEC, SO_TIMESTAMPNS, SO_MARK, SO_RXQ_OVFL,
    // SO_BUSY_POLL.
    (SOL_SOCKET, SO_DEBUG, 0, Fixed), (SOL_SOCKET, SO_REUSEADDR, 0, Flag), (SOL_SOCKET, 5, 0, Flag),
    (SOL_SOCKET, 6, 0, Flag), (SOL_SOCKET, SO_SNDBUF, BUFFER_BYTES_MAX as i32, SendBuffer),
    (SOL_SOCKET, SO_RCVBUF, BUFFER_BYTES_MAX as i32, ReceiveBuffer), (SOL_SOCKET, 9, 0, Flag),
    (SOL_SOCKET, 10, 0, Flag), (SOL_SOCKET, 11, 0, Flag), (SOL_SOCKET, SO_PRIORITY, 0, Number(0, 6)),
    (SOL_SOCKET, SO_REUSEPORT, 0, Flag), (SOL_SOCKET, SO_PASSCRED, 0, Flag),
    (SOL_SOCKET, SO_RCVLOWAT, 1, ANY), (SOL_SOCKET, 19, 1, Fixed),
    (SOL_SOCKET, SO_TIMESTAMP, 0, Flag), (SOL_SOCKET, 32, 0, Privileged),
    (SOL_SOCKET, 33, 0, Privileged), (SOL_SOCKET, 34, 0, Flag),
    (SOL_SOCKET, SO_TIMESTAMPNS, 0, Flag), (SOL_SOCKET, 36, 0, Fixed), (SOL_SOCKET, 40, 0, Flag),
    (SOL_SOCKET, 46, 0, Fixed),
    // TCP_NODELAY, TCP_MAXSEG, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT,
    // TCP_LINGER2, TCP_DEFER_ACCEPT, TCP_WINDOW_CLAMP, TCP_QUICKACK, TCP_USER_TIMEOUT,
    // TCP_FASTOPEN, TCP_NOTSENT_LOWAT, TCP_FASTOPEN_CONNECT.
    (SOL_TCP, 1, 0, Flag), (SOL_TCP, 2, 32768, Number(88, 32767)), (SOL_TCP, 3, 0, Flag),
    (SOL_TCP, 4, 7200, Number(1, 32767)), (SOL_TCP, 5, 75, Number(1, 32767)),
    (SOL_TCP, 6, 9, Number(1, 127)), (SOL_TCP, 7, 6, Number(1, 127)), (SOL_TCP, 8, 60, ANY),
    (SOL_TCP, 9, 0, ANY), (SOL_TCP, 10, 0, NOT_NEGATIVE), (SOL_TCP, 12, 1, Flag),
    (SOL_TCP, 18, 0, NOT_NEGATIVE), (SOL_TCP, 23, 0, NOT_NEGATIVE), (SOL_TCP, 25, 0, ANY),
    (SOL_TCP, 30, 0, Flag),
    // UDP_CORK, UDP_GRO.
    (SOL_UDP, 1, 0, Flag), (SOL_UDP, 104, 0, Flag),
    // IPV6_UNICAST_HOPS, IPV6_MULTICAST_HOPS, IPV6_MULTICAST_LOOP, IPV6_MTU_DISCOVER, IPV6_MTU,
    // IPV6_RECVERR, IPV6_V6ONLY, IPV6_RECVPKTINFO, IPV6_RECVHOPLIMIT, IPV6_RECVTCLASS,
    // IPV6_TCLASS.
    (SOL_IPV6, 16, 64, Number(-1, 255)), (SOL_IPV6, 18, 1, Number(-1, 255)),
    (SOL_IPV6, 19, 1, Flag), (SOL_IPV6, 23, 1, Number(0, 5)), (SOL_IPV6, 24, 65536, Ignored(1280, 65536)),
    (SOL_IPV6, 25, 0, Flag), (SOL_IPV6, IPV6_V6ONLY, 0, Flag), (SOL_IPV6, 49, 0, Flag),
    (SOL_IPV6, 51, 0, Flag), (SOL_IPV6, 66, 0, Flag), (SOL_IPV6, 67, 0, Number(-1, 255)),
];

fn row(level: u32, name: u32) -> Option<(i32, Rule)> {
    let mut rows = TABLE.iter();
    rows.find(|row| (row.0, row.1) == (level, name))
        .map(|row| (row.2, row.3))
}

/// The options of one socket.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Options {
    /// Those that were set, by level and number.
    numbers: BTreeMap<(u32, u32), i32>,
    /// `SO_LINGER`, if it is on: seconds.
    pub linger: Option<u32>,
    /// `SO_RCVTIMEO`.
    pub receive_timeout_ns: Option<u64>,
    /// `SO_SNDTIMEO`.
    pub send_timeout_ns: Option<u64>,
}

impl Options {
    /// The value of an option, 0 for one that does not exist.
    pub fn value(&self, level: u32, name: u32) -> i32 {
        let set = self.numbers.get(&(level, name)).copied();
        set.or_else(|| row(level, name).map(|row| row.0))
            .unwrap_or(0)
    }

    /// An option that is on.
    pub fn is_on(&self, level: u32, name: u32) -> bool {
        self.value(level, name) != 0
    }

    /// Whether one of several options is on that nobody has unless it is set.
    pub fn has_set(&self, any: &[(u32, u32)]) -> bool {
        let mut set = self.numbers.iter();
        set.any(|(name, value)| *value != 0 && any.contains(name))
    }

    /// `getsockopt`.
    pub fn number(&self, level: u32, name: u32, family: Family, kind: Kind) -> Result<i32, Errno> {
        let row = row(level, name).filter(|_| applies(level, name, family, kind));
        let readable = row.filter(|(_, rule)| *rule != Privileged);
        let (default, _) = readable.ok_or(Errno::ENOPROTOOPT)?;
        let set = self.numbers.get(&(level, name)).copied();
        let stream = kind == Kind::Stream && family != Family::Unix;
        Ok(set.unwrap_or(match (level, name) {
            (SOL_SOCKET, SO_SNDBUF) if stream => 16_384,
            (SOL_SOCKET, SO_RCVBUF) if stream => 131_072,
            _ => default,
        }))
    }

    /// `setsockopt` of a number.
    pub fn set(
        &mut self,
        level: u32,
        name: u32,
        value: i32,
        family: Family,
        kind: Kind,
    ) -> Result<(), Errno> {
        let row = row(level, name).filter(|_| applies(level, name, family, kind));
        let (_, rule) = row.ok_or(Errno::ENOPROTOOPT)?;
        let asked = (value as u32).min(BUFFER_BYTES_MAX) as i32;
        let kept = match rule {
            Flag => i32::from(value != 0),
            Number(low, high) if (low..=high).contains(&value) => value,
            // A superuser's packets may come first.
            Number(..) if (level, name) == (SOL_SOCKET, SO_PRIORITY) => return Err(Errno::EPERM),
            Fixed if (level, name) == (SOL_SOCKET, SO_DEBUG) && value == 0 => return Ok(()),
            Fixed if (level, name) == (SOL_SOCKET, SO_DEBUG) => return Err(Errno::EACCES),
            Ignored(low, high) if value == 0 || (low..=high).contains(&value) => return Ok(()),
            Number(..) | Ignored(..) => return Err(Errno::EINVAL),
            SendBuffer => (2 * asked).max(SEND_BYTES_MIN as i32),
            ReceiveBuffer => (2 * asked).max(RECEIVE_BYTES_MIN as i32),
            // What a superuser may set: not here.
            Privileged => return Err(Errno::EPERM),
            Fixed if level == SOL_SOCKET => return Err(Errno::EPERM),
            Fixed => return Err(Errno::ENOPROTOOPT),
        };
        if level == SOL_SOCKET && TIMES.contains(&name) {
            for form in TIMES {
                self.numbers.remove(&(level, form));
            }
        }
        self.numbers.insert((level, name), kept);
        Ok(())
    }

    /// False if bytes that claim to be options are none.
    pub fn is_valid(&self) -> bool {
        let known = |(level, name): &(u32, u32)| row(*level, *name).is_some();
        let buffers = [SO_SNDBUF, SO_RCVBUF].map(|name| self.value(SOL_SOCKET, name));
        let bound = 2 * BUFFER_BYTES_MAX as i32;
        self.numbers.keys().all(known) && buffers.iter().all(|size| (1..=bound).contains(size))
    }
}

/// Whether a socket of the kind has the option at all.
fn applies(level: u32, name: u32, family: Family, kind: Kind) -> bool {
    let internet = matches!(family, Family::Inet | Family::Inet6);
    match level {
        SOL_SOCKET => (family, name) != (Family::Unix, SO_REUSEPORT),
        SOL_IP => internet,
        SOL_TCP => internet && kind == Kind::Stream,
        SOL_UDP => internet && kind == Kind::Datagram,
        _ => family == Family::Inet6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_doubled_bounded_and_known() {
        let mut options = Options::default();
        let mut set = |level, name, value| {
            options.set(level, name, value, Family::Inet, Kind::Stream)?;
            options.number(level, name, Family::Inet, Kind::Stream)
        };
        assert_eq!(set(SOL_SOCKET, SO_SNDBUF, 50_000), Ok(100_000));
        assert_eq!(set(SOL_SOCKET, SO_SNDBUF, i32::MAX), Ok(425_984));
        assert_eq!(set(SOL_SOCKET, SO_RCVBUF, 1), Ok(2304));
        assert_eq!(set(SOL_TCP, 1, 17), Ok(1));
        assert_eq!(set(SOL_TCP, 4, 0), Err(Errno::EINVAL));
        assert_eq!(set(SOL_SOCKET, 999, 0), Err(Errno::ENOPROTOOPT));
        assert_eq!(set(SOL_UDP, 1, 0), Err(Errno::ENOPROTOOPT));
        assert_eq!(set(SOL_SOCKET, 32, 65_536), Err(Errno::EPERM));
        assert!(options.is_valid());
    }

    #[test]
    fn an_option_without_effect_is_checked_and_not_kept() {
        let mut options = Options::default();
        let mut set = |value| options.set(SOL_IPV6, 24, value, Family::Inet6, Kind::Datagram);
        assert_eq!(
            [set(1280), set(0), set(1)],
            [Ok(()), Ok(()), Err(Errno::EINVAL)]
        );
        assert_eq!(options.value(SOL_IPV6, 24), 65_536);
    }

    #[test]
    fn times_have_one_form() {
        let mut options = Options::default();
        for name in TIMES {
            options
                .set(SOL_SOCKET, name, 1, Family::Inet, Kind::Datagram)
                .unwrap();
        }
        let on = TIMES.map(|name| options.is_on(SOL_SOCKET, name));
        assert_eq!(on, [false, true]);
    }
}
