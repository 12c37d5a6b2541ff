//! The network interfaces: `lo` alone, as `ioctl` tells of it.

use crate::errno::Errno;

/// The interface's number.
pub(crate) const INDEX: u32 = 1;
pub(crate) const NAME: &[u8; 3] = b"lo\0";
/// `IFF_UP`, `IFF_LOOPBACK`, `IFF_RUNNING`.
pub(crate) const FLAGS: u32 = 0x49;
/// `IFF_LOWER_UP` beside them, which only netlink has room for.
pub(crate) const FLAGS_LONG: u32 = FLAGS | 0x1_0000;
pub(crate) const MTU: u32 = 65_536;
/// `ARPHRD_LOOPBACK`.
pub(crate) const HARDWARE_TYPE: u16 = 772;

/// Bytes of `struct ifreq`.
pub(crate) const REQUEST_BYTES: usize = 40;
const NAME_BYTES: usize = 16;

/// `struct sockaddr_in` of an address.
fn internet(v4: [u8; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[0] = 2;
    bytes[4..8].copy_from_slice(&v4);
    bytes
}

/// What `SIOCGIFCONF` lists.
pub(crate) fn listing() -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    bytes[..NAME.len()].copy_from_slice(NAME);
    bytes[NAME_BYTES..NAME_BYTES + 16].copy_from_slice(&internet([127, 0, 0, 1]));
    bytes
}

/// The answer to a request about an interface, a whole `struct ifreq`.
pub(crate) fn answer(
    request: u32,
    given: &[u8; REQUEST_BYTES],
) -> Result<[u8; REQUEST_BYTES], Errno> {
    let mut bytes = *given;
    let (name, value) = bytes.split_at_mut(NAME_BYTES);
    // SIOCGIFNAME goes from the number to the name.
    if request == 0x8910 {
        if value[..4] != INDEX.to_le_bytes() {
            return Err(Errno::ENODEV);
        }
        name.fill(0);
        name[..NAME.len()].copy_from_slice(NAME);
        return Ok(bytes);
    }
    if !name.starts_with(NAME) {
        return Err(Errno::ENODEV);
    }
    let mut put = |field: &[u8]| value[..field.len()].copy_from_slice(field);
    match request {
        // SIOCGIFFLAGS.
        0x8913 => put(&(FLAGS as u16).to_le_bytes()),
        // SIOCGIFADDR, SIOCGIFDSTADDR.
        0x8915 | 0x8917 => put(&internet([127, 0, 0, 1])),
        // SIOCGIFBRDADDR.
        0x8919 => put(&internet([0; 4])),
        // SIOCGIFNETMASK.
        0x891b => put(&internet([255, 0, 0, 0])),
        // SIOCGIFMETRIC.
        0x891d => put(&[0; 4]),
        // SIOCGIFMTU.
        0x8921 => put(&MTU.to_le_bytes()),
        // SIOCGIFHWADDR.
        0x8927 => {
            put(&[0; 16]);
            put(&HARDWARE_TYPE.to_le_bytes());
        }
        // SIOCGIFINDEX.
        0x8933 => put(&INDEX.to_le_bytes()),
        // SIOCGIFTXQLEN.
        0x8942 => put(&1000_u32.to_le_bytes()),
        _ => return Err(Errno::ENOTTY),
    }
    Ok(bytes)
}
