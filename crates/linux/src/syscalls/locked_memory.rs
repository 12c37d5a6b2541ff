//! `mlock` and its kin. Nothing is ever paged out, so what is locked only counts against the limit.

use super::memory::range_of;
use super::{Answer, Call};
use crate::address_space::SPACE_END;
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::limits::{Resource, UNLIMITED};
use crate::machine::{PAGE_BYTES, SpaceId};
use crate::page_table::LOCKED;

impl Kernel {
    /// [`LOCKED`] if what will be mapped in a space is locked (`MCL_FUTURE`), else nothing.
    pub(crate) fn future_lock(&self, space: SpaceId) -> u64 {
        let locked = self.rare.future_locks.contains(&space);
        if locked { LOCKED } else { 0 }
    }
}

impl Call<'_> {
    /// Fails if the process may not have so many more bytes locked; `locked` says whether they will be.
    pub fn check_locked(&self, locked: u64, more: u64) -> Result<(), Errno> {
        let limit = self.process().limit(Resource::LockedBytes);
        if locked == 0 || limit == UNLIMITED {
            return Ok(());
        }
        let now = self.kernel.spaces[self.space].locked_bytes(&(0..SPACE_END));
        if now.saturating_add(more) > limit {
            return Err(Errno::EAGAIN);
        }
        Ok(())
    }
}

/// The pages that `mlock` and its kin are about.
fn locked_range(call: &Call) -> Result<std::ops::Range<u64>, Errno> {
    let [address, length, ..] = call.arguments;
    let start = address & !(PAGE_BYTES - 1);
    let range = range_of(start, length.saturating_add(address - start))?;
    if call.kernel.spaces[call.space].is_covered(&range) {
        Ok(range)
    } else {
        Err(Errno::ENOMEM)
    }
}

/// The limit of an unprivileged process, which may lock nothing if that is 0.
pub(super) fn locked_limit(call: &Call) -> Result<u64, Errno> {
    match call.process().limit(Resource::LockedBytes) {
        0 => Err(Errno::EPERM),
        limit => Ok(limit),
    }
}

/// `mlock`: nothing is ever paged out, so it only counts against the limit.
pub(crate) fn mlock(call: &mut Call) -> Answer {
    let limit = locked_limit(call)?;
    let range = locked_range(call)?;
    let space = &mut call.kernel.spaces[call.space];
    let new = (range.end - range.start) - space.locked_bytes(&range);
    if space.locked_bytes(&(0..SPACE_END)) + new > limit {
        return Err(Errno::ENOMEM.into());
    }
    space.mark(&range, LOCKED, true);
    Ok(0)
}

/// `mlock2`: pages count whether they are there or not, so that `MLOCK_ONFAULT` changes nothing.
pub(crate) fn mlock2(call: &mut Call) -> Answer {
    const MLOCK_ONFAULT: u64 = 1;
    if call.arguments[2] & !MLOCK_ONFAULT != 0 {
        return Err(Errno::EINVAL.into());
    }
    mlock(call)
}

/// `munlock`.
pub(crate) fn munlock(call: &mut Call) -> Answer {
    let range = locked_range(call)?;
    call.kernel.spaces[call.space].mark(&range, LOCKED, false);
    Ok(0)
}

/// `mlockall`: what is mapped now, and what will be.
pub(crate) fn mlockall(call: &mut Call) -> Answer {
    const MCL_CURRENT: u64 = 1;
    const MCL_FUTURE: u64 = 2;
    const MCL_ONFAULT: u64 = 4;
    let flags = call.arguments[0];
    if flags & !(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0 || flags & !MCL_ONFAULT == 0 {
        return Err(Errno::EINVAL.into());
    }
    let limit = locked_limit(call)?;
    let space = &mut call.kernel.spaces[call.space];
    if flags & MCL_CURRENT != 0 {
        if space.counted_bytes(&(0..SPACE_END)).0 > limit {
            return Err(Errno::ENOMEM.into());
        }
        space.mark(&(0..SPACE_END), LOCKED, true);
    }
    let future = &mut call.kernel.rare.future_locks;
    if flags & MCL_FUTURE != 0 {
        future.insert(call.space);
    } else {
        future.remove(&call.space);
    }
    Ok(0)
}

/// `munlockall`.
pub(crate) fn munlockall(call: &mut Call) -> Answer {
    call.kernel.spaces[call.space].mark(&(0..SPACE_END), LOCKED, false);
    call.kernel.rare.future_locks.remove(&call.space);
    Ok(0)
}
