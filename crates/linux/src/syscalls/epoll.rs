//! Epoll: instances that watch files, and each other.
//!
//! Always true: where more files are ready than somebody has room for, those come first the next time that
//! had no room, so that none waits for ever behind another.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::signals::replace_mask;
use super::{Answer, Call};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::thread::Wait;
use crate::vfs::descriptor::{Interest, O_CLOEXEC, Object, OpenFile, Poller};

/// So many epoll instances may watch each other in a row.
const POLLERS_IN_A_ROW: usize = 5;

const EPOLLONESHOT: u32 = 1 << 30;
const EPOLLEXCLUSIVE: u32 = 1 << 28;
/// What may be asked for with it: IN, OUT, ERR, HUP, WAKEUP, ET.
const WITH_EXCLUSIVE: u32 = EPOLLEXCLUSIVE | 0x1d | 1 << 29 | 1 << 31;

/// What an instance watches: the number of a descriptor, and the open file.
type Watched = (u32, u32);

/// Of instances that had no room for all that were ready, what they reported last.
pub(crate) type Turns = BTreeMap<u32, Watched>;

impl Kernel {
    /// Nobody has an instance any more.
    pub(crate) fn remove_poller(&mut self, id: u32) {
        self.open.pollers.remove(id);
        self.rare.epoll_turns.remove(&id);
    }

    /// The epoll instances that one watches.
    fn watched_pollers(&self, id: u32) -> impl Iterator<Item = u32> {
        let poller = self.open.pollers.get(id);
        let interests = poller.into_iter().flat_map(|one| one.interests.keys());
        interests.filter_map(|&(_, file)| match self.open.files.get(file)?.object {
            Object::Poller(id) => Some(id),
            _ => None,
        })
    }

    /// True if an epoll instance is that one, or watches it through others.
    fn watches_poller(&self, id: u32, goal: u32) -> bool {
        id == goal || (self.watched_pollers(id)).any(|below| self.watches_poller(below, goal))
    }

    /// How many epoll instances watch each other in a row, downwards from one.
    fn pollers_below(&self, id: u32) -> usize {
        let below = self
            .watched_pollers(id)
            .map(|below| self.pollers_below(below));
        1 + below.max().unwrap_or(0)
    }

    /// The same, upwards.
    fn pollers_above(&self, id: u32) -> usize {
        let pollers = self.open.pollers.iter().map(|(above, _)| above);
        let above = pollers.filter(|&above| self.watched_pollers(above).any(|below| below == id));
        1 + above
            .map(|above| self.pollers_above(above))
            .max()
            .unwrap_or(0)
    }
}

/// `epoll_create1`.
pub(crate) fn epoll_create1(call: &mut Call) -> Answer {
    let flags = call.arguments[0] as u32;
    if flags & !O_CLOEXEC != 0 {
        return Err(Errno::EINVAL.into());
    }
    let id = call.kernel.open.pollers.insert(Poller::default());
    let file = OpenFile::new(Object::Poller(id), 2, "anon_inode:[eventpoll]".to_owned());
    call.open_made(file, flags & O_CLOEXEC != 0, |kernel| {
        kernel.remove_poller(id);
    })
}

fn poller_of(call: &Call, number: u64) -> Result<u32, Errno> {
    match call.file(number)?.object {
        Object::Poller(id) => Ok(id),
        _ => Err(Errno::EINVAL),
    }
}

/// `epoll_ctl`. Files that never block are refused with EPERM, as on Linux.
pub(crate) fn epoll_ctl(call: &mut Call) -> Answer {
    let [poller, operation, number, event, ..] = call.arguments;
    call.descriptor(poller)?;
    let file = call.descriptor(number)?.file;
    if matches!(
        call.usable(number)?.object,
        Object::Inode(_) | Object::Text { .. }
    ) {
        return Err(Errno::EPERM.into());
    }
    let id = poller_of(call, poller)?;
    if call.descriptor(poller)?.file == file {
        return Err(Errno::EINVAL.into());
    }
    // So who follows what instances watch comes to an end.
    if operation == 1
        && let Object::Poller(inner) = call.file(number)?.object
    {
        let kernel = &*call.kernel;
        let in_a_row = kernel.pollers_above(id) + kernel.pollers_below(inner);
        if kernel.watches_poller(inner, id) || in_a_row > POLLERS_IN_A_ROW {
            return Err(Errno::ELOOP.into());
        }
    }
    let key = (number as u32, file);
    let interest = if operation == 2 {
        None
    } else {
        let events = call.read_u32(event)?;
        let data = call.read_u64(event.wrapping_add(8))?;
        Some(Interest {
            events,
            data,
            reported: None,
            disabled: false,
        })
    };
    let is_exclusive = |interest: &Interest| interest.events & EPOLLEXCLUSIVE != 0;
    if let Some(new) = interest.as_ref().filter(|new| is_exclusive(new)) {
        let is_poller = matches!(call.file(number)?.object, Object::Poller(_));
        if operation != 1 || is_poller || new.events & !WITH_EXCLUSIVE != 0 {
            return Err(Errno::EINVAL.into());
        }
    }
    let poller = call.kernel.open.pollers.get_mut(id).ok_or(Errno::EBADF)?;
    let old = poller.interests.get(&key);
    match (operation, interest) {
        (1, Some(_)) if old.is_some() => return Err(Errno::EEXIST.into()),
        (2 | 3, _) if old.is_none() => return Err(Errno::ENOENT.into()),
        (3, _) if old.is_some_and(is_exclusive) => return Err(Errno::EINVAL.into()),
        (1 | 3, Some(interest)) => {
            poller.interests.insert(key, interest);
        }
        (2, None) => {
            poller.interests.remove(&key);
        }
        _ => return Err(Errno::EINVAL.into()),
    }
    call.wake_file_waiters();
    Ok(0)
}

/// `epoll_pwait`, its timeout in milliseconds.
pub(crate) fn epoll_pwait(call: &mut Call) -> Answer {
    let milliseconds = call.arguments[3] as i32;
    let timeout = u64::try_from(milliseconds).ok().map(|ms| ms * 1_000_000);
    epoll_wait(call, timeout)
}

/// `epoll_pwait2`, its timeout a `timespec`.
pub(crate) fn epoll_pwait2(call: &mut Call) -> Answer {
    let address = call.arguments[3];
    let timeout = if address == 0 {
        None
    } else {
        Some(call.duration_at(address)?)
    };
    epoll_wait(call, timeout)
}

fn epoll_wait(call: &mut Call, timeout: Option<u64>) -> Answer {
    let [number, buffer, capacity, _, mask, mask_bytes] = call.arguments;
    if (capacity as i32) <= 0 {
        return Err(Errno::EINVAL.into());
    }
    let id = poller_of(call, number)?;
    replace_mask(call, mask, mask_bytes)?;
    let last = call.kernel.rare.epoll_turns.get(&id).copied();
    let poller = call.kernel.open.pollers.get(id).ok_or(Errno::EBADF)?;
    let mut ready: Vec<(Watched, u32, u64, u64)> = in_turn(poller, last)
        .filter_map(|(&key, interest)| {
            let (events, activity) = call.kernel.reported_events(key.1, interest, call.thread);
            (events != 0).then_some((key, events, interest.data, activity))
        })
        .take(capacity as usize + 1)
        .collect();
    let leaves_some = ready.len() > capacity as usize;
    ready.truncate(capacity as usize);
    if ready.is_empty() {
        if call.timed_out(timeout) {
            return Ok(0);
        }
        return Err(call.wait_until_retry(Wait::Readiness, timeout));
    }
    let mut bytes = Vec::new();
    for (_, events, data, _) in &ready {
        bytes.extend(u64::from(*events).to_le_bytes());
        bytes.extend(data.to_le_bytes());
    }
    call.write(buffer, &bytes)?;
    for (key, _, _, activity) in &ready {
        let poller = call.kernel.open.pollers.get_mut(id);
        if let Some(interest) = poller.and_then(|poller| poller.interests.get_mut(key)) {
            interest.reported = Some(*activity);
            interest.disabled = interest.events & EPOLLONESHOT != 0;
        }
    }
    let turns = &mut call.kernel.rare.epoll_turns;
    match ready.last().filter(|_| leaves_some) {
        Some((key, ..)) => turns.insert(id, *key),
        None => turns.remove(&id),
    };
    Ok(ready.len() as u64)
}

/// What an instance watches, first of all what comes behind what it reported last.
fn in_turn(poller: &Poller, last: Option<Watched>) -> impl Iterator<Item = (&Watched, &Interest)> {
    let behind = last.map_or(Bound::Unbounded, Bound::Excluded);
    let before = last.map(|last| poller.interests.range(..=last));
    (poller.interests.range((behind, Bound::Unbounded))).chain(before.into_iter().flatten())
}
