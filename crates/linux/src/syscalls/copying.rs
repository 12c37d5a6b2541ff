//! Copying between files: `sendfile`, `copy_file_range`, and what `splice` takes of files.

use super::lengths::made_durable;
use super::messages::{nothing_there, take_out};
use super::transfer::{STEP_BYTES, Target, notify, position, target, write_bytes};
use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::vfs::descriptor::O_APPEND;
use crate::vfs::inode::Device;
use crate::vfs::watch::IN_ACCESS;

/// An offset that the guest keeps in its own memory, or the file's own.
pub(crate) fn offset_at(call: &mut Call, address: u64) -> Result<Option<u64>, Errno> {
    if address == 0 {
        return Ok(None);
    }
    let offset = call.read_u64(address)?;
    position(offset).map(Some)
}

/// What a file gives that is no pipe.
pub(crate) fn take_bytes(
    call: &mut Call,
    from: u64,
    at: u64,
    length: u64,
) -> Result<Vec<u8>, Errno> {
    // Linux does not tell a directory from what cannot be read so.
    match target(call, from).map_err(|_| Errno::EINVAL)? {
        Target::File(inode) => call.kernel.read_file(call.machine, inode, at, length),
        Target::Text(text) => {
            let rest = text
                .get(at.min(text.len() as u64) as usize..)
                .unwrap_or_default();
            Ok(rest[..rest.len().min(length as usize)].to_vec())
        }
        Target::Device(device @ (Device::Zero | Device::Full | Device::Random)) => {
            let mut bytes = vec![0; length as usize];
            if device == Device::Random {
                let program = call.process().program as usize;
                call.kernel.progress[program].random.fill(&mut bytes);
            }
            Ok(bytes)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// What a stream has for a pipe; what is sent with it is dropped.
pub(crate) fn take_stream(
    call: &mut Call,
    from: u64,
    length: u64,
    waits: bool,
) -> Result<Vec<u8>, Stop> {
    let id = call.socket(from)?;
    if !call.socket_state(id)?.is_stream() {
        return Err(Errno::EINVAL.into());
    }
    if nothing_there(call, id, !waits, 0)?.is_some() {
        return Ok(Vec::new());
    }
    let (mut bytes, mut files) = (Vec::new(), Vec::new());
    let (mut whole, mut part) = (0, 0);
    for message in &call.socket_state(id)?.queue {
        let take = message.bytes.len().min(length as usize - bytes.len());
        bytes.extend(message.bytes.iter().take(take));
        files.extend(&message.files);
        if take < message.bytes.len() {
            part = take;
            break;
        }
        whole += 1;
    }
    take_out(call, id, whole, part)?;
    call.kernel.close_files(files);
    Ok(bytes)
}

/// Copies file to descriptor inside the kernel and moves the offsets: each its own, or one that the guest
/// keeps. Within one file, over what is still to be copied only if it `may_overlap`.
fn copy(
    call: &mut Call,
    (from, from_at): (u64, u64),
    (to, to_at): (u64, u64),
    length: u64,
    may_overlap: bool,
) -> Answer {
    let (source, sink) = (call.file(from)?, call.file(to)?);
    if !source.readable() || !sink.writable() {
        return Err(Errno::EBADF.into());
    }
    let inode = source.inode().filter(|_| source.inode() == sink.inode());
    let (own_offset, sink_offset) = (source.offset, sink.offset);
    let read_at = offset_at(call, from_at)?;
    let write_at = offset_at(call, to_at)?;
    let at = read_at.unwrap_or(own_offset);
    if let Some(inode) = inode.filter(|_| !may_overlap) {
        let length = length.min(call.kernel.files.file(inode)?.size.saturating_sub(at));
        let goal = write_at.unwrap_or(sink_offset);
        if goal.saturating_add(length) > at && goal < at.saturating_add(length) {
            return Err(Errno::EINVAL.into());
        }
    }
    // Like Linux's, this may move less than was asked for.
    let length = length.min(STEP_BYTES);
    let bytes = take_bytes(call, from, at, length)?;
    let count = write_bytes(call, to, &bytes, write_at)?;
    match read_at {
        Some(_) => call.write(from_at, &(at + count).to_le_bytes())?,
        None => call.file_mut(from)?.offset = at + count,
    }
    if let Some(write_at) = write_at {
        call.write(to_at, &(write_at + count).to_le_bytes())?;
    }
    if count > 0 {
        notify(call, from, IN_ACCESS)?;
    }
    made_durable(call, to, (write_at, false), count)
}

/// `sendfile`.
pub(crate) fn sendfile(call: &mut Call) -> Answer {
    let [to, from, offset, length, ..] = call.arguments;
    if matches!(target(call, to)?, Target::File(_)) && call.file(to)?.flags & O_APPEND != 0 {
        return Err(Errno::EINVAL.into());
    }
    copy(call, (from, offset), (to, 0), length, true)
}

/// `copy_file_range`.
pub(crate) fn copy_file_range(call: &mut Call) -> Answer {
    let [from, from_at, to, to_at, length, flags] = call.arguments;
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    for number in [from, to] {
        match target(call, number)? {
            Target::File(_) => {}
            _ => return Err(Errno::EINVAL.into()),
        }
    }
    if call.file(to)?.flags & O_APPEND != 0 {
        return Err(Errno::EBADF.into());
    }
    copy(call, (from, from_at), (to, to_at), length, false)
}
