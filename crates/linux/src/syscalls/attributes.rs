//! Extended attributes of files and directories: names that begin with `user.`.
//!
//! Always true: what an inode has fits into a block, as ext4 keeps it; nothing of it leaves the
//! machine. Other kinds are as an unprivileged process finds them where nobody has set any.

use std::collections::BTreeMap;

use super::names::notify_changed;
use super::{Answer, Call};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::vfs::watch::IN_ATTRIB;
use crate::vfs::{InodeId, Node};

const E2BIG: Errno = Errno(7);

const NAME_BYTES_MAX: usize = 255;
const VALUE_BYTES_MAX: u64 = 65_536;
/// What ext4 has for the attributes of an inode, and what each takes beside its bytes.
const BLOCK_BYTES: usize = 4096;
const HEAD_BYTES: usize = 32;
const ENTRY_BYTES: usize = 16;

/// The attributes of an inode, by name.
pub(crate) type Attributes = BTreeMap<String, Vec<u8>>;

/// What attributes take of a block.
fn block_bytes(attributes: &Attributes) -> usize {
    let each = attributes.iter().map(|(name, value)| {
        let name = (name.len() - PREFIX.len()).next_multiple_of(4);
        ENTRY_BYTES + name + value.len().next_multiple_of(4)
    });
    HEAD_BYTES + each.sum::<usize>()
}

const PREFIX: &str = "user.";

/// What a call is about.
enum Kind {
    User,
    /// `trusted.` and `security.`: there are none, and only a superuser may set some.
    Privileged,
    Unsupported,
}

fn kind_of(name: &str) -> Result<Kind, Errno> {
    match name.strip_prefix(PREFIX) {
        Some("") => Err(Errno::EINVAL),
        Some(_) => Ok(Kind::User),
        None if name.starts_with("trusted.") || name.starts_with("security.") => {
            Ok(Kind::Privileged)
        }
        None => Ok(Kind::Unsupported),
    }
}

/// How a call names its file.
#[derive(Clone, Copy)]
enum By {
    Path,
    PathOfLink,
    Descriptor,
}

impl Call<'_> {
    fn attributes_inode(&mut self, by: By) -> Result<InodeId, Errno> {
        const AT_FDCWD: u64 = -100_i64 as u64;
        let first = self.arguments[0];
        match by {
            By::Descriptor => {
                let file = self.usable(first)?;
                file.inode().ok_or(Errno::EOPNOTSUPP)
            }
            By::Path | By::PathOfLink => {
                let path = self.string(first)?;
                self.find(AT_FDCWD, &path, matches!(by, By::Path))
            }
        }
    }

    /// A name as the kernel takes it.
    fn attribute_name(&mut self, address: u64) -> Result<String, Errno> {
        let text = self
            .kernel
            .text_in(self.machine, self.space, address, NAME_BYTES_MAX + 1);
        let text = text.map_err(|error| match error {
            Errno::ENAMETOOLONG => Errno::ERANGE,
            other => other,
        })?;
        if text.is_empty() {
            return Err(Errno::ERANGE);
        }
        String::from_utf8(text).map_err(|_| Errno::EOPNOTSUPP)
    }

    /// True if an inode can have attributes of users.
    fn can_have_attributes(&self, inode: InodeId, writes: bool) -> Result<bool, Errno> {
        let inode = self.kernel.files.inode(inode)?;
        if !matches!(inode.node, Node::File(_) | Node::Directory(_)) {
            return Ok(false);
        }
        let needed = if writes { 0o200 } else { 0o400 };
        if inode.mode & needed == 0 {
            return Err(Errno::EACCES);
        }
        Ok(true)
    }

    /// Fails if an inode cannot have an attribute of that name, with `refused` where the name is a
    /// good one.
    fn check_attribute(
        &self,
        inode: InodeId,
        name: &str,
        writes: bool,
        refused: Errno,
    ) -> Result<(), Errno> {
        match kind_of(name)? {
            Kind::User if self.can_have_attributes(inode, writes)? => Ok(()),
            Kind::User | Kind::Privileged => Err(refused),
            Kind::Unsupported => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Writes out bytes if there is room for them; how many they are.
    fn tell(&mut self, address: u64, room: u64, bytes: &[u8]) -> Answer {
        if room == 0 {
            return Ok(bytes.len() as u64);
        }
        if room < bytes.len() as u64 {
            return Err(Errno::ERANGE.into());
        }
        self.write(address, bytes)?;
        Ok(bytes.len() as u64)
    }

    fn attributes_changed(&mut self, inode: InodeId) -> Result<(), Errno> {
        let now = self.now_ns();
        self.kernel.files.inode_mut(inode)?.changed_ns = now;
        notify_changed(self, inode, IN_ATTRIB);
        Ok(())
    }
}

fn set(call: &mut Call, by: By) -> Answer {
    const CREATE: u64 = 1;
    const REPLACE: u64 = 2;
    let [_, name, value, bytes, flags, _] = call.arguments;
    if flags & !(CREATE | REPLACE) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let inode = call.attributes_inode(by)?;
    let name = call.attribute_name(name)?;
    if bytes > VALUE_BYTES_MAX {
        return Err(E2BIG.into());
    }
    let value = (call.kernel).bytes_in(call.machine, call.space, value, bytes)?;
    call.check_attribute(inode, &name, true, Errno::EPERM)?;
    let all = &mut call.kernel.rare.attributes;
    let mut own = all.get(&inode).cloned().unwrap_or_default();
    let exists = own.contains_key(&name);
    if exists && flags & CREATE != 0 {
        return Err(Errno::EEXIST.into());
    }
    if !exists && flags & REPLACE != 0 {
        return Err(Errno::ENODATA.into());
    }
    own.insert(name, value);
    if block_bytes(&own) > BLOCK_BYTES {
        return Err(Errno::ENOSPC.into());
    }
    all.insert(inode, own);
    call.attributes_changed(inode)?;
    Ok(0)
}

fn get(call: &mut Call, by: By) -> Answer {
    let [_, name, at, room, ..] = call.arguments;
    let inode = call.attributes_inode(by)?;
    let name = call.attribute_name(name)?;
    call.check_attribute(inode, &name, false, Errno::ENODATA)?;
    let own = call.kernel.rare.attributes.get(&inode);
    let value = own.and_then(|own| own.get(&name)).cloned();
    call.tell(at, room, &value.ok_or(Errno::ENODATA)?)
}

fn list(call: &mut Call, by: By) -> Answer {
    let [_, at, room, ..] = call.arguments;
    let inode = call.attributes_inode(by)?;
    let own = call.kernel.rare.attributes.get(&inode);
    let names = own.into_iter().flat_map(Attributes::keys);
    let text: String = names.flat_map(|name| [name, "\0"]).collect();
    call.tell(at, room, text.as_bytes())
}

fn remove(call: &mut Call, by: By) -> Answer {
    let name = call.arguments[1];
    let inode = call.attributes_inode(by)?;
    let name = call.attribute_name(name)?;
    call.check_attribute(inode, &name, true, Errno::EPERM)?;
    let all = &mut call.kernel.rare.attributes;
    let own = all.get_mut(&inode).ok_or(Errno::ENODATA)?;
    own.remove(&name).ok_or(Errno::ENODATA)?;
    if own.is_empty() {
        all.remove(&inode);
    }
    call.attributes_changed(inode)?;
    Ok(0)
}

macro_rules! calls {
    ($($name:ident = $action:ident $by:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        pub(crate) fn $name(call: &mut Call) -> Answer {
            $action(call, By::$by)
        }
    )*};
}

calls! {
    setxattr = set Path;
    lsetxattr = set PathOfLink;
    fsetxattr = set Descriptor;
    getxattr = get Path;
    lgetxattr = get PathOfLink;
    fgetxattr = get Descriptor;
    listxattr = list Path;
    llistxattr = list PathOfLink;
    flistxattr = list Descriptor;
    removexattr = remove Path;
    lremovexattr = remove PathOfLink;
    fremovexattr = remove Descriptor;
}

impl Kernel {
    /// Attributes are of inodes that there are, and as they may be.
    pub(crate) fn validate_attributes(&self) -> Result<(), &'static str> {
        let right = self.rare.attributes.iter().all(|(&inode, own)| {
            let mut names = own.keys();
            self.files.inode(inode).is_ok()
                && names.all(|name| {
                    name.len() <= NAME_BYTES_MAX && matches!(kind_of(name), Ok(Kind::User))
                })
                && block_bytes(own) <= BLOCK_BYTES
        });
        right.then_some(()).ok_or("an attribute is impossible")
    }
}
