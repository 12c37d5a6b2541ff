//! Socket addresses: what a guest writes, and what it is shown.
//!
//! Always true: an internet address is kept in the form of IPv6, an IPv4 one as a mapped address;
//! only how it is written depends on the socket's family.

use serde::{Deserialize, Serialize};

use super::Family;
use crate::errno::Errno;
use crate::vfs::spelling::{bytes_of, length_of, text_of};

pub(crate) const AF_UNSPEC: u16 = 0;
pub(crate) const AF_UNIX: u16 = 1;
pub(crate) const AF_INET: u16 = 2;
pub(crate) const AF_INET6: u16 = 10;
pub(crate) const AF_NETLINK: u16 = 16;

/// Bytes of the largest address, `struct sockaddr_storage`.
pub(crate) const ADDRESS_BYTES_MAX: u64 = 128;
/// Bytes of a name in `struct sockaddr_un`.
const UNIX_NAME_BYTES: usize = 108;

/// What comes before the four bytes of an IPv4 address.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
/// `::`.
pub(crate) const ANY_V6: [u8; 16] = [0; 16];
/// `::1`.
pub(crate) const LOOPBACK_V6: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// An internet address without its port.
pub(crate) type Ip = [u8; 16];

/// The mapped form of an IPv4 address.
pub(crate) fn mapped(v4: [u8; 4]) -> Ip {
    let mut ip = [0; 16];
    ip[..12].copy_from_slice(&MAPPED);
    ip[12..].copy_from_slice(&v4);
    ip
}

/// The IPv4 address that a mapped one stands for.
pub(crate) fn unmapped(ip: Ip) -> Option<[u8; 4]> {
    let tail = ip.strip_prefix(&MAPPED)?;
    tail.try_into().ok()
}

/// `0.0.0.0` or `::`.
pub(crate) fn is_any(ip: Ip) -> bool {
    ip == ANY_V6 || ip == mapped([0; 4])
}

/// An address of this machine: there is no network beyond it.
pub(crate) fn is_loopback(ip: Ip) -> bool {
    ip == LOOPBACK_V6 || unmapped(ip).is_some_and(|v4| v4[0] == 127)
}

/// The name of a UNIX socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum UnixName {
    None,
    /// As it was given to `bind`; the inode says which socket it is.
    Path(String),
    Abstract(Vec<u8>),
}

/// An address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Address {
    Internet { ip: Ip, port: u16 },
    Unix(UnixName),
    Netlink { port: u32 },
}

/// What a guest's address says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// `AF_UNSPEC`: no address any more; or, to `bind`, one of IPv4.
    Unspecified(Option<(Ip, u16)>),
    Address(Address),
}

impl Address {
    /// The IP address and port.
    pub fn internet(&self) -> Option<(Ip, u16)> {
        match self {
            Address::Internet { ip, port } => Some((*ip, *port)),
            _ => None,
        }
    }

    /// Reads the bytes of a `struct sockaddr` for a socket of a family. One of IPv6 can talk to an address of
    /// IPv4, unless it must be its `own` family's.
    pub fn parse(bytes: &[u8], family: Family, own: bool) -> Result<Given, Errno> {
        let named = bytes.first_chunk().map(|raw| u16::from_le_bytes(*raw));
        let named = named.ok_or(Errno::EINVAL)?;
        let port = bytes.get(2..4).and_then(<[u8]>::first_chunk);
        let port = port.map_or(0, |raw| u16::from_be_bytes(*raw));
        let ip = bytes.get(4..8).and_then(<[u8]>::first_chunk);
        let v4 = ip
            .map(|ip| (mapped(*ip), port))
            .filter(|_| bytes.len() >= 16);
        if named == AF_UNSPEC {
            return Ok(Given::Unspecified(v4));
        }
        let wrong = family.refusal();
        let address = match (family, named) {
            (Family::Inet6, AF_INET) if own && bytes.len() < 24 => return Err(Errno::EINVAL),
            (Family::Inet6, AF_INET) if own => return Err(wrong),
            (Family::Inet | Family::Inet6, AF_INET) => {
                let (ip, port) = v4.ok_or(Errno::EINVAL)?;
                Address::Internet { ip, port }
            }
            (Family::Inet6, AF_INET6) => {
                let ip = bytes.get(8..24).and_then(<[u8]>::first_chunk);
                let ip = *ip.ok_or(Errno::EINVAL)?;
                Address::Internet { ip, port }
            }
            (Family::Unix, AF_UNIX) => Address::Unix(unix_name(&bytes[2..])?),
            (Family::Netlink, AF_NETLINK) => {
                let port = bytes.get(4..8).and_then(<[u8]>::first_chunk);
                let port = u32::from_le_bytes(*port.ok_or(Errno::EINVAL)?);
                Address::Netlink { port }
            }
            _ => return Err(wrong),
        };
        Ok(Given::Address(address))
    }

    /// The bytes of its `struct sockaddr`, as a socket of a family shows it.
    pub fn bytes(&self, family: Family) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Address::Internet { ip, port } if family == Family::Inet => {
                bytes.extend(AF_INET.to_le_bytes());
                bytes.extend(port.to_be_bytes());
                bytes.extend(unmapped(*ip).unwrap_or_default());
                bytes.extend([0; 8]);
            }
            Address::Internet { ip, port } => {
                bytes.extend(AF_INET6.to_le_bytes());
                bytes.extend(port.to_be_bytes());
                bytes.extend([0; 4]);
                bytes.extend(ip);
                bytes.extend([0; 4]);
            }
            Address::Unix(name) => {
                bytes.extend(AF_UNIX.to_le_bytes());
                match name {
                    UnixName::None => {}
                    UnixName::Path(path) => {
                        bytes.extend(bytes_of(path).iter());
                        bytes.push(0);
                    }
                    UnixName::Abstract(name) => {
                        bytes.push(0);
                        bytes.extend(name);
                    }
                }
            }
            Address::Netlink { port } => {
                bytes.extend(AF_NETLINK.to_le_bytes());
                bytes.extend([0; 2]);
                bytes.extend(port.to_le_bytes());
                bytes.extend([0; 4]);
            }
        }
        bytes
    }

    /// True if a socket of a family could have it.
    pub fn suits(&self, family: Family) -> bool {
        match self {
            Address::Internet { ip, .. } => match family {
                Family::Inet => unmapped(*ip).is_some(),
                Family::Inet6 => true,
                _ => false,
            },
            Address::Unix(name) => {
                let short = match name {
                    UnixName::None => true,
                    UnixName::Path(path) => length_of(path) <= UNIX_NAME_BYTES,
                    UnixName::Abstract(name) => name.len() < UNIX_NAME_BYTES,
                };
                family == Family::Unix && short
            }
            Address::Netlink { .. } => family == Family::Netlink,
        }
    }
}

/// The name in a `struct sockaddr_un`, of which only so many bytes were given.
fn unix_name(bytes: &[u8]) -> Result<UnixName, Errno> {
    if bytes.len() > UNIX_NAME_BYTES {
        return Err(Errno::EINVAL);
    }
    match bytes.split_first() {
        None => Ok(UnixName::None),
        Some((0, name)) => Ok(UnixName::Abstract(name.to_vec())),
        Some(_) => {
            let end = bytes.iter().position(|&byte| byte == 0);
            let path = bytes[..end.unwrap_or(bytes.len())].to_vec();
            Ok(UnixName::Path(text_of(path)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back_as_written() {
        let cases = [
            (
                Address::Internet {
                    ip: mapped([127, 0, 0, 1]),
                    port: 6379,
                },
                Family::Inet,
            ),
            (
                Address::Internet {
                    ip: LOOPBACK_V6,
                    port: 80,
                },
                Family::Inet6,
            ),
            (
                Address::Unix(UnixName::Path("/tmp/socket".into())),
                Family::Unix,
            ),
            (
                Address::Unix(UnixName::Abstract(b"hidden".to_vec())),
                Family::Unix,
            ),
            (Address::Unix(UnixName::None), Family::Unix),
            (Address::Netlink { port: 7 }, Family::Netlink),
        ];
        for (address, family) in cases {
            let bytes = address.bytes(family);
            assert_eq!(
                Address::parse(&bytes, family, true),
                Ok(Given::Address(address.clone()))
            );
            assert!(address.suits(family));
        }
    }
}
