//! Descriptors: closing them, and a second one for an open file.

use super::{Answer, Call};
use crate::errno::Errno;
use crate::vfs::descriptor::{Descriptor, O_CLOEXEC};

/// `close`.
pub(crate) fn close(call: &mut Call) -> Answer {
    let number = u32::try_from(call.arguments[0] as i32).map_err(|_| Errno::EBADF)?;
    call.kernel.close(call.process, number)?;
    Ok(0)
}

/// `close_range`.
pub(crate) fn close_range(call: &mut Call) -> Answer {
    const CLOSE_RANGE_CLOEXEC: u64 = 4;
    let [first, last, flags, ..] = call.arguments.map(|argument| argument & 0xffff_ffff);
    if first > last || flags & !6 != 0 {
        return Err(Errno::EINVAL.into());
    }
    let numbers: Vec<u32> = call
        .process()
        .descriptors
        .iter()
        .map(|(number, _)| number)
        .collect();
    for number in numbers
        .into_iter()
        .filter(|&n| (first..=last).contains(&u64::from(n)))
    {
        if flags & CLOSE_RANGE_CLOEXEC != 0 {
            if let Some(descriptor) = call.process_mut().descriptors.get_mut(number) {
                descriptor.close_on_exec = true;
            }
        } else {
            call.kernel.close(call.process, number)?;
        }
    }
    Ok(0)
}

pub(crate) fn duplicate(
    call: &mut Call,
    number: u64,
    lowest: usize,
    close_on_exec: bool,
) -> Answer {
    let file = call.descriptor(number)?.file;
    let new = call.install(
        lowest,
        Descriptor {
            file,
            close_on_exec,
        },
    )?;
    if let Some(file) = call.kernel.open.files.get_mut(file) {
        file.references += 1;
    }
    Ok(u64::from(new))
}

/// `dup`.
pub(crate) fn dup(call: &mut Call) -> Answer {
    duplicate(call, call.arguments[0], 0, false)
}

/// `dup3`.
pub(crate) fn dup3(call: &mut Call) -> Answer {
    let [old, new, flags, ..] = call.arguments;
    if flags as u32 & !O_CLOEXEC != 0 || old as i32 == new as i32 {
        return Err(Errno::EINVAL.into());
    }
    call.descriptor(old)?;
    let new = u32::try_from(new as i32).map_err(|_| Errno::EBADF)?;
    if new as usize >= call.process().descriptors_max() {
        return Err(Errno::EBADF.into());
    }
    if call.process().descriptors.get(new).is_some() {
        call.kernel.close(call.process, new)?;
    }
    duplicate(call, old, new as usize, flags as u32 & O_CLOEXEC != 0)
}
