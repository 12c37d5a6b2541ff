//! What files and the file system tell of themselves.
//!
//! Always true: there is one device, namespaces apart, and one user, and nothing of the host shows but
//! names, sizes and bytes.

use super::names::{AT_FDCWD, AT_HOW, AT_SYMLINK_NOFOLLOW, DESCRIPTOR_LINKS, Named, check_flags};
use super::{Answer, Call, put, put_half};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::PAGE_BYTES;
use crate::process::{ProcessId, USER_ID};
use crate::vfs::descriptor::Object;
use crate::vfs::inode::{Device, InodeId, Node, S_IFIFO, S_IFLNK, S_IFREG, S_IFSOCK};

/// The device number of every file that is in a directory, and that of namespaces, which stand in none.
const DEVICE_NUMBER: u64 = 0x801;
const NAMESPACES_NUMBER: u64 = 4;

/// The group of what stands in `/dev/pts`: as a rule it is mounted with that of `tty`.
const TERMINALS_GROUP: u32 = 5;

/// What `stat` tells.
pub(crate) struct Metadata {
    device: u64,
    inode: u64,
    pub mode: u32,
    links: u32,
    group: u32,
    device_type: u64,
    size: u64,
    blocks: u64,
    /// Access, modification, change.
    times_ns: [u64; 3],
}

impl Kernel {
    /// What `stat` tells of an inode.
    pub(crate) fn metadata(&self, id: InodeId) -> Result<Metadata, Errno> {
        let inode = self.files.inode(id)?;
        let blocks = match &inode.node {
            Node::File(file) => {
                let below = file.host_bytes.div_ceil(PAGE_BYTES);
                below.max(file.pages_held) * (PAGE_BYTES / 512)
            }
            Node::Directory(_) => PAGE_BYTES / 512,
            _ => 0,
        };
        let device_type = match &inode.node {
            Node::Device(Device::Null) => 0x103,
            Node::Device(Device::Zero) => 0x105,
            Node::Device(Device::Full) => 0x107,
            Node::Device(Device::Random) => 0x109,
            Node::Device(Device::Terminal) => 0x500,
            Node::Device(Device::Master) => 0x502,
            Node::Device(Device::Region { first_frame, .. }) => 0xfc00 + (first_frame & 0xff),
            Node::Device(Device::Slave(number)) => 0x8800 + u64::from(*number),
            _ => 0,
        };
        let (device, number) = match &inode.node {
            Node::Namespace(namespace) => (NAMESPACES_NUMBER, namespace.number()),
            _ => (DEVICE_NUMBER, u64::from(id.0) + 1),
        };
        Ok(Metadata {
            device,
            inode: number,
            mode: inode.type_bits() | inode.mode,
            links: inode.links.max(u32::from(inode.type_bits() != S_IFREG)),
            group: match inode.node {
                Node::Device(Device::Slave(_)) => TERMINALS_GROUP,
                _ => USER_ID,
            },
            device_type,
            size: inode.size(),
            blocks,
            times_ns: [inode.accessed_ns, inode.modified_ns, inode.changed_ns],
        })
    }

    /// A link below `/proc/PID/fd`.
    pub(crate) fn metadata_of_link(&self, number: u32) -> Metadata {
        const LINK_BYTES: u64 = 64;
        Metadata {
            device: DEVICE_NUMBER,
            inode: DESCRIPTOR_LINKS + u64::from(number),
            mode: S_IFLNK | 0o700,
            links: 1,
            group: USER_ID,
            device_type: 0,
            size: LINK_BYTES,
            blocks: 0,
            times_ns: [self.files.start_ns; 3],
        }
    }

    pub(crate) fn metadata_of_descriptor(
        &self,
        process: ProcessId,
        number: u64,
    ) -> Result<Metadata, Errno> {
        let descriptor = self.processes[process].descriptors.descriptor(number)?;
        let file = self.open_file(process, number)?;
        if let Some(inode) = file.inode() {
            return self.metadata(inode);
        }
        let mode = match file.object {
            Object::PipeReader(_) | Object::PipeWriter(_) => S_IFIFO | 0o600,
            Object::Socket(_) => S_IFSOCK | 0o777,
            _ => 0o600,
        };
        // Beyond every inode number of the tree.
        let inode = (1 << 32) + u64::from(descriptor.file);
        Ok(Metadata {
            device: DEVICE_NUMBER,
            inode,
            mode,
            links: 1,
            group: USER_ID,
            device_type: 0,
            size: 0,
            blocks: 0,
            times_ns: [self.files.start_ns; 3],
        })
    }
}

impl Metadata {
    /// `struct stat`.
    fn stat_bytes(&self) -> [u8; 128] {
        let mut bytes = [0; 128];
        put(&mut bytes, 0, self.device);
        put(&mut bytes, 8, self.inode);
        put_half(&mut bytes, 16, self.mode);
        put_half(&mut bytes, 20, self.links);
        put_half(&mut bytes, 24, USER_ID);
        put_half(&mut bytes, 28, self.group);
        put(&mut bytes, 32, self.device_type);
        put(&mut bytes, 48, self.size);
        put_half(&mut bytes, 56, PAGE_BYTES as u32);
        put(&mut bytes, 64, self.blocks);
        for (index, &time) in self.times_ns.iter().enumerate() {
            bytes[72 + 16 * index..88 + 16 * index].copy_from_slice(&super::time_bytes(time));
        }
        bytes
    }

    /// `struct statx`.
    fn statx_bytes(&self) -> [u8; 256] {
        let mut bytes = [0; 256];
        // Everything of STATX_BASIC_STATS.
        put_half(&mut bytes, 0, 0x7ff);
        put_half(&mut bytes, 4, PAGE_BYTES as u32);
        put_half(&mut bytes, 16, self.links);
        put_half(&mut bytes, 20, USER_ID);
        put_half(&mut bytes, 24, self.group);
        put_half(&mut bytes, 28, self.mode);
        put(&mut bytes, 32, self.inode);
        put(&mut bytes, 40, self.size);
        put(&mut bytes, 48, self.blocks);
        let [accessed, modified, changed] = self.times_ns.map(super::time_bytes);
        bytes[64..80].copy_from_slice(&accessed);
        bytes[96..112].copy_from_slice(&changed);
        bytes[112..128].copy_from_slice(&modified);
        put_half(&mut bytes, 128, (self.device_type >> 8) as u32);
        put_half(&mut bytes, 132, self.device_type as u32 & 0xff);
        put_half(&mut bytes, 136, (self.device >> 8) as u32);
        put_half(&mut bytes, 140, self.device as u32 & 0xff);
        bytes
    }
}

const AT_STATX_SYNC_TYPE: u64 = 0x6000;

fn metadata_at(call: &mut Call, directory: u64, path: u64, flags: u64) -> Result<Metadata, Errno> {
    const AT_NO_AUTOMOUNT: u64 = 0x800;
    check_flags(flags, AT_HOW | AT_NO_AUTOMOUNT | AT_STATX_SYNC_TYPE)?;
    match call.find_with_flags(directory, path, flags)? {
        Named::Inode(inode) => {
            let mut metadata = call.kernel.metadata(inode)?;
            // Whoever does not follow `/dev/stdin` sees that it is a link.
            if flags & AT_SYMLINK_NOFOLLOW != 0 && call.stream_at(inode).is_some() {
                metadata.mode = S_IFLNK | 0o777;
                metadata.size = "/proc/self/fd/0".len() as u64;
            }
            Ok(metadata)
        }
        Named::Descriptor(number) => call.kernel.metadata_of_descriptor(call.process, number),
        Named::Link(number) => Ok(call.kernel.metadata_of_link(number)),
    }
}

/// `newfstatat`.
pub(crate) fn newfstatat(call: &mut Call) -> Answer {
    let [directory, path, address, flags, ..] = call.arguments;
    let metadata = metadata_at(call, directory, path, flags)?;
    call.write(address, &metadata.stat_bytes())?;
    Ok(0)
}

/// `fstat`.
pub(crate) fn fstat(call: &mut Call) -> Answer {
    let [number, address, ..] = call.arguments;
    let metadata = call.kernel.metadata_of_descriptor(call.process, number)?;
    call.write(address, &metadata.stat_bytes())?;
    Ok(0)
}

/// `statx`.
pub(crate) fn statx(call: &mut Call) -> Answer {
    const RESERVED: u64 = 1 << 31;
    let [directory, path, flags, wanted, address, _] = call.arguments;
    // Either way of synchronising, but not both.
    if flags & AT_STATX_SYNC_TYPE == AT_STATX_SYNC_TYPE || wanted & RESERVED != 0 {
        return Err(Errno::EINVAL.into());
    }
    let metadata = metadata_at(call, directory, path, flags)?;
    call.write(address, &metadata.statx_bytes())?;
    Ok(0)
}

/// `struct statfs` of the one file system.
fn statfs_bytes(kernel: &Kernel) -> [u8; 120] {
    const EXT4_MAGIC: u64 = 0xef53;
    let total = kernel.frames.total();
    let free = kernel.frames.free();
    let mut bytes = [0; 120];
    let words = [
        EXT4_MAGIC,
        PAGE_BYTES,
        total,
        free,
        free,
        1 << 20,
        1 << 19,
        1,
        255,
        PAGE_BYTES,
    ];
    for (index, word) in words.into_iter().enumerate() {
        put(&mut bytes, 8 * index, word);
    }
    bytes
}

/// `statfs`.
pub(crate) fn statfs(call: &mut Call) -> Answer {
    let [path, address, ..] = call.arguments;
    let path = call.string(path)?;
    call.find(AT_FDCWD as u64, &path, true)?;
    let bytes = statfs_bytes(call.kernel);
    call.write(address, &bytes)?;
    Ok(0)
}

/// `fstatfs`.
pub(crate) fn fstatfs(call: &mut Call) -> Answer {
    let [number, address, ..] = call.arguments;
    call.file(number)?;
    let bytes = statfs_bytes(call.kernel);
    call.write(address, &bytes)?;
    Ok(0)
}
