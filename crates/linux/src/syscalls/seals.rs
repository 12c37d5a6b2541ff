//! Files of `memfd_create`, and what may not be done to them any more.
//!
//! Always true: a seal is never taken away.

use super::{Answer, Call};
use crate::address_space::Mapping;
use crate::errno::Errno;
use crate::page_table::WRITE;
use crate::vfs::descriptor::{Object, OpenFile};
use crate::vfs::inode::{FileNode, InodeId, Node};

const SEAL_SEAL: u32 = 1;
const SEAL_SHRINK: u32 = 2;
pub(crate) const SEAL_GROW: u32 = 4;
pub(crate) const SEAL_WRITE: u32 = 8;
/// Writing, but for mappings that are there already.
const SEAL_FUTURE_WRITE: u32 = 16;
/// The mode of a file may not gain or lose the right to be executed.
pub(crate) const SEAL_EXECUTE: u32 = 32;

impl Call<'_> {
    /// Fails if one of these is sealed off.
    pub fn check_seals(&self, inode: InodeId, wished: u32) -> Result<(), Errno> {
        let Some(&seals) = self.kernel.rare.seals.get(&inode) else {
            return Ok(());
        };
        let future = if wished & SEAL_WRITE != 0 {
            SEAL_FUTURE_WRITE
        } else {
            0
        };
        if seals & (wished | future) != 0 {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    pub fn check_size_seals(&self, inode: InodeId, size: u64) -> Result<(), Errno> {
        match size.cmp(&self.kernel.files.file(inode)?.size) {
            std::cmp::Ordering::Less => self.check_seals(inode, SEAL_SHRINK),
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => self.check_seals(inode, SEAL_GROW),
        }
    }
}

/// `F_ADD_SEALS`, of files that `memfd_create` made.
pub(crate) fn add_seals(call: &mut Call, number: u64, added: u32) -> Answer {
    const ALL: u32 =
        SEAL_SEAL | SEAL_SHRINK | SEAL_GROW | SEAL_WRITE | SEAL_FUTURE_WRITE | SEAL_EXECUTE;
    let file = call.file(number)?;
    if !file.writable() {
        return Err(Errno::EPERM.into());
    }
    let inode = file.inode().ok_or(Errno::EINVAL)?;
    let seals = *(call.kernel.rare.seals.get(&inode)).ok_or(Errno::EINVAL)?;
    if added & !ALL != 0 {
        return Err(Errno::EINVAL.into());
    }
    if seals & SEAL_SEAL != 0 {
        return Err(Errno::EPERM.into());
    }
    let mut spaces = call.kernel.spaces.iter();
    let written = |mapping: &Mapping| {
        mapping.shared && mapping.inode() == Some(inode) && mapping.permissions & WRITE != 0
    };
    if added & SEAL_WRITE != 0 && spaces.any(|(_, space)| space.mappings.values().any(written)) {
        return Err(Errno::EBUSY.into());
    }
    // What can be executed and stays so does not change any more.
    let executable = call.kernel.files.inode(inode)?.mode & 0o111 != 0;
    let more = if added & SEAL_EXECUTE != 0 && executable {
        SEAL_SHRINK | SEAL_GROW | SEAL_WRITE | SEAL_FUTURE_WRITE
    } else {
        0
    };
    call.kernel.rare.seals.insert(inode, seals | added | more);
    Ok(0)
}

/// `memfd_create`: a file without a name.
pub(crate) fn memfd_create(call: &mut Call) -> Answer {
    const MFD_ALLOW_SEALING: u64 = 2;
    const MFD_NOEXEC_SEAL: u64 = 8;
    const MFD_EXEC: u64 = 0x10;
    let [name, flags, ..] = call.arguments;
    let name = call.string(name)?;
    // MFD_HUGETLB needs huge pages, which are not there.
    let both = MFD_NOEXEC_SEAL | MFD_EXEC;
    if flags & !(7 | both) != 0 || flags & both == both || name.len() > 249 {
        return Err(Errno::EINVAL.into());
    }
    let now = call.now_ns();
    let (mode, seals) = match flags & (MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL) {
        0 => (0o777, SEAL_SEAL),
        MFD_ALLOW_SEALING => (0o777, 0),
        _ => (0o666, SEAL_EXECUTE),
    };
    let node = Node::File(FileNode::default());
    let inode = call.kernel.files.create(node, mode, now);
    call.kernel.rare.seals.insert(inode, seals);
    let file = OpenFile::new(Object::Inode(inode), 2, format!("/memfd:{name} (deleted)"));
    Ok(u64::from(call.open(file, flags & 1 != 0)?))
}
