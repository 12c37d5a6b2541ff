//! Asynchronous input and output: the contexts of `io_setup`, what they have under way, and what they
//! have to tell.
//!
//! Always true: a context belongs to one address space and goes with it; its ring is a file without a
//! name that is there as long as the context is, and where that is mapped is the context's name; what
//! is under way and what waits to be told are together fewer than the ring has places. Reads, writes
//! and `fsync` are done when they are handed in, as Linux does them for files that it keeps in memory;
//! only polls are ever under way, and they hold the open files that they are about.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::address_space::Backing;
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{PAGE_BYTES, SpaceId, ThreadId};
use crate::page_table::READ;
use crate::syscalls::polling::{POLLIN, POLLOUT, POLLRDNORM, POLLWRNORM};
use crate::vfs::InodeId;
use crate::vfs::descriptor::Object;

/// Requests that all contexts may have been made for, as `/proc/sys/fs/aio-max-nr` says.
pub(crate) const REQUESTS_MAX: u64 = 65_536;

/// Bytes of an event, and of the ring's header.
pub(crate) const EVENT_BYTES: u64 = 32;

/// What a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// The program's own word.
    pub data: u64,
    /// Where the request stands.
    pub request: u64,
    /// As a call would have returned it.
    pub result: i64,
}

/// A poll under way; it holds two open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Poll {
    pub event: Event,
    /// What it waits for.
    pub mask: u32,
    pub file: u32,
    /// The event counter that is told.
    pub counter: Option<u32>,
}

/// A context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestContext {
    pub space: SpaceId,
    /// What it was made for.
    pub requests: u32,
    /// What its ring has room for.
    pub places: u32,
    pub events: VecDeque<Event>,
    pub polls: Vec<Poll>,
}

impl RequestContext {
    /// True if no more can be handed in before events are fetched.
    pub fn is_full(&self) -> bool {
        self.events.len() + self.polls.len() + 1 >= self.places as usize
    }
}

/// A request that is being carried out, of a call that goes on later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unfinished {
    pub context: InodeId,
    pub event: Event,
    pub counter: Option<u32>,
    /// Bytes that it has moved.
    pub moved: u64,
}

/// A call of `io_submit` that goes on later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Submission {
    /// Something that was handed in shall be durable.
    pub commits: bool,
    pub unfinished: Option<Unfinished>,
}

/// Everything asynchronous.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Asynchronous {
    /// By the ring's inode.
    pub contexts: BTreeMap<InodeId, RequestContext>,
    pub submissions: BTreeMap<ThreadId, Submission>,
}

impl Asynchronous {
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty() && self.submissions.is_empty()
    }

    /// What all contexts were made for.
    pub fn requests(&self) -> u64 {
        let contexts = self.contexts.values();
        contexts.map(|context| u64::from(context.requests)).sum()
    }

    /// The open files that polls hold, once for each time.
    pub fn held_files(&self) -> impl Iterator<Item = u32> {
        let polls = self.contexts.values().flat_map(|context| &context.polls);
        polls.flat_map(|poll| [Some(poll.file), poll.counter].into_iter().flatten())
    }
}

/// Places in the ring of a context for so many requests on so many harts, and the ring's bytes, as
/// Linux reckons them.
pub(crate) fn ring_of(requests: u32, harts: usize) -> Result<(u32, u64), Errno> {
    const BYTES_MAX: u32 = 0x1000_0000;
    let least = u32::try_from(4 * harts).unwrap_or(u32::MAX);
    let doubled = requests.max(least).wrapping_mul(2);
    if doubled > BYTES_MAX / EVENT_BYTES as u32 {
        return Err(Errno::EINVAL);
    }
    if doubled == 0 || u64::from(requests) > REQUESTS_MAX {
        return Err(Errno::EAGAIN);
    }
    let wanted = (u64::from(doubled) + 3) * EVENT_BYTES;
    let bytes = wanted.next_multiple_of(PAGE_BYTES);
    Ok(((bytes / EVENT_BYTES) as u32 - 1, bytes))
}

/// What is told of a poll that had to wait: with data, that they are normal data.
fn with_normal(mask: u32) -> u32 {
    let input = if mask & POLLIN == 0 { 0 } else { POLLRDNORM };
    let output = if mask & POLLOUT == 0 { 0 } else { POLLWRNORM };
    mask | input | output
}

impl Kernel {
    /// The context whose ring is mapped at an address.
    pub(crate) fn request_context(&self, space: SpaceId, address: u64) -> Result<InodeId, Errno> {
        let (start, mapping) = self.spaces[space].find(address).ok_or(Errno::EINVAL)?;
        match mapping.backing {
            Backing::File {
                inode, offset: 0, ..
            } if start == address && mapping.permissions & READ != 0 => {
                let context = self.rare.asynchronous.contexts.get(&inode);
                let own = context.is_some_and(|context| context.space == space);
                own.then_some(inode).ok_or(Errno::EINVAL)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// A request is done: its context can tell of it, and who asked for it is told by an event counter.
    pub(crate) fn complete_request(&mut self, id: InodeId, event: Event, counter: Option<u32>) {
        let Some(context) = self.rare.asynchronous.contexts.get_mut(&id) else {
            return;
        };
        context.events.push_back(event);
        let counter = counter.and_then(|file| self.open.files.get(file));
        if let Some(Object::Event(counter)) = counter.map(|file| &file.object)
            && let Some(counter) = self.open.events.get_mut(*counter)
        {
            counter.value = counter.value.saturating_add(1);
            counter.activity += 1;
        }
    }

    /// Ends every poll that has come true; false if there is none. Its event counter may be what
    /// another one waits for.
    pub(crate) fn complete_polls(&mut self) -> bool {
        let mut any = false;
        while let Some((id, index, result)) = self.poll_that_is_true() {
            any = true;
            self.end_poll(id, index, result);
        }
        any
    }

    fn poll_that_is_true(&self) -> Option<(InodeId, usize, u32)> {
        for (&id, context) in &self.rare.asynchronous.contexts {
            if context.polls.is_empty() {
                continue;
            }
            let mut threads = self.threads.values();
            let asks = threads.find(|thread| self.space_of(thread.id) == context.space);
            let asks = asks.map_or(ThreadId(0), |thread| thread.id);
            // The last one first, as Linux wakes them.
            for (index, poll) in context.polls.iter().enumerate().rev() {
                let file = self.open.files.get(poll.file);
                let ready = file.map_or(0, |file| self.readiness(file, asks).0);
                if ready & poll.mask != 0 {
                    return Some((id, index, ready & with_normal(poll.mask)));
                }
            }
        }
        None
    }

    /// Ends a poll, with what came true of it.
    pub(crate) fn end_poll(&mut self, id: InodeId, index: usize, result: u32) {
        let Some(context) = self.rare.asynchronous.contexts.get_mut(&id) else {
            return;
        };
        let poll = context.polls.remove(index);
        let event = Event {
            result: i64::from(result),
            ..poll.event
        };
        self.complete_request(id, event, poll.counter);
        self.let_go_of(&[poll]);
    }

    /// A context ends: what is under way is given up.
    pub(crate) fn end_request_context(&mut self, id: InodeId) {
        if let Some(context) = self.rare.asynchronous.contexts.remove(&id) {
            self.let_go_of(&context.polls);
            self.free_inode_if_unused(id);
        }
    }

    /// An address space ends, and its contexts with it.
    pub(crate) fn end_request_contexts_of(&mut self, space: SpaceId) {
        let contexts = self.rare.asynchronous.contexts.iter();
        let own = contexts.filter(|(_, context)| context.space == space);
        for id in own.map(|(&id, _)| id).collect::<Vec<InodeId>>() {
            self.end_request_context(id);
        }
    }

    /// The open files of polls have a holder less.
    fn let_go_of(&mut self, polls: &[Poll]) {
        let held = polls
            .iter()
            .flat_map(|poll| [Some(poll.file), poll.counter]);
        self.close_files(held.flatten().collect());
    }

    /// A handler runs while a thread hands requests in: the one that is being carried out ends with
    /// what it has done. True if there is one.
    pub(crate) fn cut_submission_short(&mut self, thread: ThreadId) -> bool {
        let submission = self.rare.asynchronous.submissions.remove(&thread);
        let Some(request) = submission.and_then(|submission| submission.unfinished) else {
            return false;
        };
        let result = match request.moved {
            0 => -i64::from(Errno::EINTR.0),
            moved => moved as i64,
        };
        let event = Event {
            result,
            ..request.event
        };
        self.complete_request(request.context, event, request.counter);
        self.wake_all_file_waiters();
        true
    }

    /// Contexts are as they may be, and name what there is. Who holds which open file is looked at
    /// elsewhere.
    pub(crate) fn validate_asynchronous(&self) -> Result<(), &'static str> {
        let all = &self.rare.asynchronous;
        let is_counter = |file: u32| {
            let file = self.open.files.get(file);
            file.is_some_and(|file| matches!(file.object, Object::Event(_)))
        };
        let right = all.requests() <= REQUESTS_MAX
            && all.contexts.iter().all(|(&id, context)| {
                let ring = ring_of(context.requests, self.settings.harts);
                let counters = context.polls.iter().filter_map(|poll| poll.counter);
                let held = context.events.len() + context.polls.len();
                self.files.file(id).is_ok()
                    && self.spaces.get(context.space).is_some()
                    && ring.is_ok_and(|(places, _)| places == context.places)
                    && held < context.places as usize
                    && counters.into_iter().all(is_counter)
            })
            && all
                .submissions
                .keys()
                .all(|id| self.threads.contains_key(id));
        right
            .then_some(())
            .ok_or("asynchronous requests are impossible")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_linux_s() {
        assert_eq!(ring_of(1, 1), Ok((127, 4096)));
        assert_eq!(ring_of(64, 1), Ok((255, 8192)));
        assert_eq!(ring_of(65_536, 1), Ok((131_199, 4_198_400)));
        assert_eq!(ring_of(65_537, 1), Err(Errno::EAGAIN));
        assert_eq!(ring_of(0x40_0000, 1), Err(Errno::EAGAIN));
        assert_eq!(ring_of(0x40_0001, 1), Err(Errno::EINVAL));
        assert_eq!(ring_of(0x8000_0000, 1), Err(Errno::EAGAIN));
    }
}
