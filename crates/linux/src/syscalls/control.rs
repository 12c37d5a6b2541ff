//! `fcntl` and `ioctl`: what an open file is told to be, and what it is asked.
//!
//! Always true: a request that is not known is refused and noted.

use super::names::AT_FDCWD;
use super::{
    Answer, Call, descriptors, locks, owners, pipes, seals, socket_options, terminal_control,
};
use crate::errno::Errno;
use crate::owners::can_tell;
use crate::refusals::Refusal;
use crate::vfs::descriptor::{O_APPEND, O_ASYNC, O_NONBLOCK, O_PATH, Object, OpenFile};
use crate::vfs::inode::{Device, Node};
use crate::vfs::namespaces::Namespace;

const O_LARGEFILE: u32 = 0o100_000;

/// `RWH_WRITE_LIFE_EXTREME`.
pub(crate) const LIFETIME_MAX: u8 = 5;

/// `fcntl`.
pub(crate) fn fcntl(call: &mut Call) -> Answer {
    const F_SETTABLE: u32 = O_APPEND | O_NONBLOCK | 0o40000 | 0o1_000_000;
    let [number, command, argument, ..] = call.arguments;
    // What only names a file is asked nothing else.
    if !matches!(command, 0..=3 | 1027 | 1030) {
        call.usable(number)?;
    }
    call.descriptor(number)?;
    match command {
        0 | 1030 => {
            if argument >= call.process().descriptors_max() as u64 {
                return Err(Errno::EINVAL.into());
            }
            descriptors::duplicate(call, number, argument as usize, command == 1030)
        }
        1 => Ok(u64::from(call.descriptor(number)?.close_on_exec)),
        2 => {
            if let Some(descriptor) = call.process_mut().descriptors.get_mut(number as u32) {
                descriptor.close_on_exec = argument & 1 != 0;
            }
            Ok(0)
        }
        3 => {
            let file = call.file(number)?;
            let was_opened = file.flags & O_PATH == 0 && !file.object.has_no_place();
            let large = if was_opened { O_LARGEFILE } else { 0 };
            Ok(u64::from(file.flags | large))
        }
        4 => {
            let file = call.file_mut(number)?;
            let settable = if can_tell(&file.object) {
                F_SETTABLE | O_ASYNC
            } else {
                F_SETTABLE
            };
            file.flags = file.flags & !settable | argument as u32 & settable;
            owners::own_terminal(call, number)?;
            Ok(0)
        }
        5..=7 => locks::record_lock(call, number, command, argument, false),
        // F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW.
        36..=38 => locks::record_lock(call, number, command - 31, argument, true),
        // F_GETLEASE: F_UNLCK. Like file systems without leases, none is given.
        1025 => Ok(2),
        // F_DUPFD_QUERY: whether both are one open file.
        1027 => {
            let other = call.descriptor(argument)?.file;
            Ok(u64::from(call.descriptor(number)?.file == other))
        }
        1033 => seals::add_seals(call, number, argument as u32),
        1034 => {
            let inode = call.file(number)?.inode().ok_or(Errno::EINVAL)?;
            let seals = call.kernel.rare.seals.get(&inode);
            Ok(u64::from(*seals.ok_or(Errno::EINVAL)?))
        }
        8 => owners::set_owner(call, number, argument as i32),
        9 => Ok(owners::owner_number(call, number)? as u64),
        15 => owners::set_owner_exactly(call, number, argument),
        16 => owners::owner_exactly(call, number, argument),
        1031 => pipes::set_size(call, number, argument),
        1032 => pipes::size(call, number),
        1035 | 1036 => lifetime(call, number, command == 1036, argument),
        // F_GET_FILE_RW_HINT, F_SET_FILE_RW_HINT: Linux has them no more.
        1037 | 1038 => Err(Errno::EINVAL.into()),
        _ => {
            call.kernel.note_refusal(Refusal::Fcntl(command as u32));
            Err(Errno::EINVAL.into())
        }
    }
}

/// `F_GET_RW_HINT`, `F_SET_RW_HINT`: how long what is written to a file will live.
fn lifetime(call: &mut Call, number: u64, sets: bool, address: u64) -> Answer {
    let inode = call.file(number)?.inode();
    if !sets {
        let hint = inode.and_then(|inode| call.kernel.rare.lifetimes.get(&inode));
        let hint = hint.copied().unwrap_or_default();
        call.write(address, &u64::from(hint).to_le_bytes())?;
        return Ok(0);
    }
    let hint = call.read_u64(address)?;
    let hint = u8::try_from(hint).ok().filter(|&hint| hint <= LIFETIME_MAX);
    let hint = hint.ok_or(Errno::EINVAL)?;
    let lifetimes = &mut call.kernel.rare.lifetimes;
    // Of a pipe or a socket, which is never written to a device, it is not remembered.
    match inode {
        Some(inode) if hint > 0 => lifetimes.insert(inode, hint),
        Some(inode) => lifetimes.remove(&inode),
        None => None,
    };
    Ok(0)
}

/// `ioctl`.
pub(crate) fn ioctl(call: &mut Call) -> Answer {
    let [number, request, address, ..] = call.arguments;
    if let Object::Terminal {
        terminal, master, ..
    } = call.usable(number)?.object
        && !matches!(request & 0xffff_ffff, 0x5450 | 0x5451 | 0x5452 | 0x5421)
    {
        return terminal_control::control(call, (terminal, master), request & 0xffff_ffff, address);
    }
    if let Object::Socket(id) = call.file(number)?.object
        && let Some(answer) = socket_options::socket_ioctl(call, id, request as u32, address)?
    {
        return Ok(answer);
    }
    match request & 0xffff_ffff {
        // FIOCLEX, FIONCLEX.
        0x5451 | 0x5450 => {
            if let Some(descriptor) = call.process_mut().descriptors.get_mut(number as u32) {
                descriptor.close_on_exec = request & 0xffff == 0x5451;
            }
            Ok(0)
        }
        // FIONBIO.
        0x5421 => {
            let on = call.read_u32(address)? != 0;
            let file = call.file_mut(number)?;
            file.flags = file.flags & !O_NONBLOCK | if on { O_NONBLOCK } else { 0 };
            Ok(0)
        }
        // FIOASYNC.
        0x5452 if can_tell(&call.file(number)?.object) => {
            let on = call.read_u32(address)? != 0;
            let file = call.file_mut(number)?;
            file.flags = file.flags & !O_ASYNC | if on { O_ASYNC } else { 0 };
            owners::own_terminal(call, number)?;
            Ok(0)
        }
        // FIONREAD.
        0x541b => {
            let count = bytes_waiting(call, number)?.min(i32::MAX as u64);
            call.write(address, &(count as u32).to_le_bytes())?;
            Ok(0)
        }
        0xb701..=0xb704 => ask_namespace(call, number, request as u32 & 0xff, address),
        // FICLONE, FICLONERANGE: no two files share their blocks.
        0x4004_9409 | 0x4020_940d => Err(Errno::EOPNOTSUPP.into()),
        // Requests to a terminal: no descriptor is one.
        0x5400..=0x547f => Err(Errno::ENOTTY.into()),
        other => {
            call.kernel.note_refusal(Refusal::Ioctl(other as u32));
            Err(Errno::ENOTTY.into())
        }
    }
}

/// How many bytes can be read of an open file, for `FIONREAD`.
fn bytes_waiting(call: &Call, number: u64) -> Result<u64, Errno> {
    let file = call.file(number)?;
    Ok(match &file.object {
        Object::Watcher(id) => {
            let watcher = call.kernel.open.watching.watchers.get(*id);
            let events = watcher.into_iter().flat_map(|watcher| &watcher.events);
            events.map(|event| event.to_bytes().len() as u64).sum()
        }
        Object::PipeReader(id) | Object::PipeWriter(id) | Object::Fifo { pipe: id, .. } => {
            let pipe = call.kernel.open.pipes.get(*id);
            pipe.map_or(0, |pipe| pipe.bytes.len() as u64)
        }
        Object::Inode(inode) => match &call.kernel.files.inode(*inode)?.node {
            Node::File(node) => node.size.saturating_sub(file.offset),
            Node::Device(Device::StandardInput) => {
                let program = call.process().program as usize;
                let input = call.kernel.settings.programs[program].input();
                input.len() as u64 - call.kernel.progress[program].stdin_offset
            }
            _ => return Err(Errno::ENOTTY),
        },
        _ => return Err(Errno::ENOTTY),
    })
}

/// What a namespace is asked: `NS_GET_USERNS` (1), `NS_GET_PARENT`, `NS_GET_NSTYPE`, `NS_GET_OWNER_UID`.
fn ask_namespace(call: &mut Call, number: u64, question: u32, address: u64) -> Answer {
    let inode = call.file(number)?.inode().ok_or(Errno::ENOTTY)?;
    let Node::Namespace(namespace) = call.kernel.files.inode(inode)?.node else {
        return Err(Errno::ENOTTY.into());
    };
    let is_users = namespace == Namespace::Users;
    match question {
        // There is none above the first ones.
        1 if is_users => Err(Errno::EPERM.into()),
        2 if is_users || namespace == Namespace::Processes => Err(Errno::EPERM.into()),
        1 => {
            let users = call.find(AT_FDCWD as u64, "/proc/self/ns/user", true)?;
            let file = OpenFile::new(Object::Inode(users), 0, Namespace::Users.text());
            Ok(u64::from(call.open(file, true)?))
        }
        3 => Ok(u64::from(namespace.flag())),
        4 if is_users => {
            call.write(address, &0_u32.to_le_bytes())?;
            Ok(0)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}
