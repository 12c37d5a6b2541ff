//! `/proc/net`: the sockets as tables of text.

use std::fmt::Write;

use super::address::{Address, Ip, UnixName, unmapped};
use super::{Family, Kind, Socket, Sockets, State};
use crate::process::USER_ID;

/// The tables of `/proc/net`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum NetReport {
    Tcp,
    Tcp6,
    Udp,
    Udp6,
    Unix,
    Devices,
    Routes,
}

/// Their names.
pub(crate) const NET_REPORTS: [(&str, NetReport); 7] = [
    ("dev", NetReport::Devices),
    ("route", NetReport::Routes),
    ("tcp", NetReport::Tcp),
    ("tcp6", NetReport::Tcp6),
    ("udp", NetReport::Udp),
    ("udp6", NetReport::Udp6),
    ("unix", NetReport::Unix),
];

/// The state of TCP as Linux numbers it.
pub(crate) fn tcp_state(socket: &Socket) -> u8 {
    match &socket.state {
        State::Unconnected => 7,
        State::Listening { .. } => 10,
        State::Connecting { .. } => 2,
        State::Connected { .. } => match (socket.input_ended, socket.output_ended) {
            (false, false) => 1,
            (true, false) => 8,
            (false, true) => 5,
            (true, true) => 7,
        },
    }
}

fn hexadecimal(address: Option<&Address>, family: Family) -> String {
    let (ip, port): (Ip, u16) = address.and_then(Address::internet).unwrap_or(([0; 16], 0));
    let v4 = unmapped(ip).unwrap_or_default();
    let words = match family {
        Family::Inet => v4.to_vec(),
        _ => ip.to_vec(),
    };
    let mut text = String::new();
    for word in words.chunks_exact(4) {
        let word = word.first_chunk().map_or(0, |raw| u32::from_le_bytes(*raw));
        let _ = write!(text, "{word:08X}");
    }
    format!("{text}:{port:04X}")
}

impl Sockets {
    /// A table's text.
    pub fn report(&self, report: NetReport) -> String {
        match report {
            NetReport::Tcp => self.internet(Family::Inet, Kind::Stream),
            NetReport::Tcp6 => self.internet(Family::Inet6, Kind::Stream),
            NetReport::Udp => self.internet(Family::Inet, Kind::Datagram),
            NetReport::Udp6 => self.internet(Family::Inet6, Kind::Datagram),
            NetReport::Unix => self.unix(),
            NetReport::Devices => format!(
                "Inter-|   Receive                                                |  Transmit\n \
                 face |bytes    packets errs drop fifo frame compressed multicast|\
                 bytes    packets errs drop fifo colls carrier compressed\n    \
                 lo: {zeros}{zeros}\n",
                zeros = "      0       0    0    0    0     0          0         0"
            ),
            NetReport::Routes => {
                "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
                    .to_owned()
            }
        }
    }

    fn internet(&self, family: Family, kind: Kind) -> String {
        let mut text = String::from(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
             uid  timeout inode\n",
        );
        let rows = self.table.iter().filter(|(_, socket)| {
            (socket.family, socket.kind) == (family, kind) && socket.local.is_some()
        });
        for (place, (_, socket)) in rows.enumerate() {
            let state = match kind {
                Kind::Datagram if socket.remote.is_some() => 1,
                Kind::Datagram => 7,
                _ => tcp_state(socket),
            };
            let _ = writeln!(
                text,
                "{place:4}: {local} {remote} {state:02X} 00000000:{held:08X} 00:00000000 00000000 \
                 {USER_ID:5}        0 {inode} 1 0000000000000000 100 0 0 10 0",
                local = hexadecimal(socket.local.as_ref(), family),
                remote = hexadecimal(socket.remote.as_ref(), family),
                held = socket.held,
                inode = socket.serial,
            );
        }
        text
    }

    fn unix(&self) -> String {
        let mut text = String::from("Num       RefCount Protocol Flags    Type St Inode Path\n");
        for (_, socket) in self.table.iter() {
            let Some(Address::Unix(name)) = &socket.local else {
                continue;
            };
            let kind = match socket.kind {
                Kind::Stream => 1,
                Kind::Datagram => 2,
                Kind::SequencedPacket => 5,
            };
            let connected = matches!(socket.state, State::Connected { .. });
            let name = match name {
                UnixName::None => String::new(),
                UnixName::Path(path) => format!(" {path}"),
                UnixName::Abstract(name) => format!(" @{}", String::from_utf8_lossy(name)),
            };
            let _ = writeln!(
                text,
                "0000000000000000: 00000002 00000000 {flags:08X} {kind:04X} {state:02X} {inode:5}\
                 {name}",
                flags = u32::from(socket.is_listening()) << 16,
                state = if connected { 3 } else { 1 },
                inode = socket.serial,
            );
        }
        text
    }
}
