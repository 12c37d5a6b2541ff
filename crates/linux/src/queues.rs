//! Message queues of POSIX.
//!
//! Always true: a queue is named, open, or both; names are unique; messages stand in the order in
//! which they are received, the greatest priority first; none is longer, and there are not more, than
//! the queue was made for. Who asked to be told of a message is alive and has the queue open.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::machine::ThreadId;
use crate::process::ProcessId;
use crate::signal::{SIGNAL_MAX, SignalInfo, Target};
use crate::vfs::descriptor::Object;

/// What an unprivileged process may ask for, as `/proc/sys/fs/mqueue` says.
pub(crate) const QUEUES_MAX: usize = 256;
pub(crate) const MESSAGES_MAX: u64 = 10;
pub(crate) const MESSAGE_BYTES_MAX: u64 = 8192;
pub(crate) const PRIORITIES: u32 = 32768;

/// `si_code` of the signal that tells of a message.
const SI_MESGQ: i32 = -3;

/// Who is told of the next message in an empty queue, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub process: ProcessId,
    /// Signal and value; nothing is sent for 0 (`SIGEV_NONE`).
    pub signal: u8,
    pub value: u64,
}

/// A queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Queue {
    /// `None` once it is unlinked.
    pub name: Option<String>,
    pub mode: u32,
    pub messages_max: u64,
    pub message_bytes_max: u64,
    /// Priority and text.
    pub messages: Vec<(u32, Vec<u8>)>,
    pub request: Option<Request>,
    /// Counts changes.
    pub activity: u64,
}

impl Queue {
    pub fn is_full(&self) -> bool {
        self.messages.len() as u64 >= self.messages_max
    }

    /// What the queue counts against `RLIMIT_MSGQUEUE`, as Linux reckons it.
    pub fn charge(&self) -> u64 {
        const BYTES_PER_MESSAGE: u64 = 48 + 48;
        self.messages_max * (self.message_bytes_max + BYTES_PER_MESSAGE)
    }

    /// Behind all messages of at least its priority.
    pub fn insert(&mut self, priority: u32, text: Vec<u8>) {
        let at = self
            .messages
            .partition_point(|(other, _)| *other >= priority);
        self.messages.insert(at, (priority, text));
        self.activity += 1;
    }

    fn is_right(&self) -> bool {
        let mut texts = self.messages.iter().map(|(_, text)| text.len() as u64);
        let request_is_right = self
            .request
            .is_none_or(|request| request.signal <= SIGNAL_MAX);
        (1..=MESSAGES_MAX).contains(&self.messages_max)
            && (1..=MESSAGE_BYTES_MAX).contains(&self.message_bytes_max)
            && self.messages.len() as u64 <= self.messages_max
            && texts.all(|bytes| bytes <= self.message_bytes_max)
            && self.messages.is_sorted_by(|(a, _), (b, _)| a >= b)
            && self
                .messages
                .iter()
                .all(|(priority, _)| *priority < PRIORITIES)
            && request_is_right
    }
}

/// All queues by number, and the threads that wait for a message.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Queues {
    pub all: BTreeMap<u32, Queue>,
    pub receivers: BTreeMap<ThreadId, u32>,
}

impl Queues {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.receivers.is_empty()
    }

    pub fn by_name(&self, name: &str) -> Option<u32> {
        let mut all = self.all.iter();
        let named = all.find(|(_, queue)| queue.name.as_deref() == Some(name));
        named.map(|(&number, _)| number)
    }

    /// Puts a queue at the lowest free number.
    pub fn add(&mut self, queue: Queue) -> u32 {
        // Of one place more than there are queues, one is free.
        let mut places = 0..=self.all.len() as u32;
        let free = places.find(|place| !self.all.contains_key(place));
        let number = free.unwrap_or_default();
        self.all.insert(number, queue);
        number
    }
}

impl Kernel {
    /// A message comes into a queue; whoever asked to be told is, once, if nobody waits for it.
    pub(crate) fn queue_message(
        &mut self,
        number: u32,
        sender: ProcessId,
        priority: u32,
        text: Vec<u8>,
    ) {
        let queues = &mut self.rare.queues;
        let waiting = queues.receivers.values();
        let waiting = waiting.filter(|waited| **waited == number).count();
        let Some(queue) = queues.all.get_mut(&number) else {
            return;
        };
        // Messages that came while their receivers had no turn yet are as good as received.
        let tells = queue.messages.len() == waiting;
        queue.insert(priority, text);
        if tells
            && let Some(request) = queue.request.take()
            && request.signal != 0
        {
            let mut info = SignalInfo::sent(request.signal, SI_MESGQ, sender);
            info.words[1] = request.value;
            self.send_signal(Target::Process(request.process), info);
        }
        self.wake_all_file_waiters();
    }

    /// A process closes a descriptor: it is no longer told of messages of the queue behind it.
    pub(crate) fn forget_request(&mut self, process: ProcessId, file: u32) {
        let Some(file) = self.open.files.get(file) else {
            return;
        };
        if let Object::Queue(number) = file.object
            && let Some(queue) = self.rare.queues.all.get_mut(&number)
            && queue
                .request
                .is_some_and(|request| request.process == process)
        {
            queue.request = None;
        }
    }

    /// A queue without a name goes when nobody has it open.
    pub(crate) fn free_queue_if_unused(&mut self, number: u32) {
        let mut files = self.open.files.iter();
        let is_open =
            files.any(|(_, file)| matches!(file.object, Object::Queue(id) if id == number));
        let all = &mut self.rare.queues.all;
        if !is_open && all.get(&number).is_some_and(|queue| queue.name.is_none()) {
            all.remove(&number);
        }
    }

    /// Queues are as they may be, and what refers to them does so rightly.
    pub(crate) fn validate_queues(&self) -> Result<(), &'static str> {
        let queues = &self.rare.queues;
        let opened: Vec<u32> = (self.open.files.iter())
            .filter_map(|(_, file)| match file.object {
                Object::Queue(number) => Some(number),
                _ => None,
            })
            .collect();
        let mut names: Vec<&String> = queues.all.values().flat_map(|queue| &queue.name).collect();
        names.sort();
        let unique = names.windows(2).all(|pair| pair[0] != pair[1]);
        let right = queues.all.len() <= QUEUES_MAX
            && queues.all.iter().all(|(number, queue)| {
                let request = queue.request;
                queue.is_right()
                    && (queue.name.is_some() || opened.contains(number))
                    && request.is_none_or(|one| self.processes.get(one.process).is_some())
            })
            && opened.iter().all(|number| queues.all.contains_key(number))
            && queues
                .receivers
                .keys()
                .all(|id| self.threads.contains_key(id));
        (right && unique)
            .then_some(())
            .ok_or("a message queue is impossible")
    }
}
