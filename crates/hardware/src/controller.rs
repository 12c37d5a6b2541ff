//! The memory controller's timing: bounded queues, the banks, the link. It knows no bytes.
//!
//! Always true here:
//! - A request starts when its bank is free and it is the oldest there that can start ([`crate::bank`]).
//!   Between banks, and within one for other bytes, the order of writes is what designs ask for
//!   (`not_before`).
//! - In start order, no request starts before one that was accepted earlier, and writes become durable
//!   in the order of acceptance, because each takes equally long.
//! - A queue's entry is taken from acceptance to completion.

use std::ops::Range;

use crate::bank::{Bank, Use};
use crate::link::Link;
use crate::placement::Placement;
use crate::queue::Queue;
use crate::specification::{Link as LinkSpecification, Nvm, Scheduling, Specification};
use crate::time::{Clock, Cycles};

/// Which way the bytes of a request take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Over the link: the processor asks.
    Link,
    /// From and to the banks alone: something in the module asks, and the link has no part in it.
    Inside,
}

/// What the controller is asked to read or to write, within one row.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Where.
    pub address: u64,
    /// How many bytes.
    pub length: usize,
    /// Which way.
    pub path: Path,
    /// The bank starts no earlier.
    pub not_before: Cycles,
}

/// When a request passed its stations.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// The queue had room and took it.
    pub accepted: Cycles,
    /// Its bytes were over the link, if that was their way.
    pub crossed: Cycles,
    /// The bank began.
    pub start: Cycles,
    /// What was written is durable; what was read is where it was asked for.
    pub done: Cycles,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Controller {
    banks: Vec<Bank>,
    scheduling: Scheduling,
    /// When the latest of all requests starts.
    last_start: Cycles,
    /// When all writes that were accepted will be durable.
    last_done: Cycles,
    read_queue: Queue,
    write_queue: Queue,
    link: Link,
    /// Of the link, in either direction.
    latency: Cycles,
    placement: Placement,
    row_read: Cycles,
    row_write: Cycles,
}

impl Controller {
    /// An idle controller for each module of a machine.
    pub fn all(specification: &Specification) -> Vec<Self> {
        let clock = specification.clock();
        let first = Self::new(&specification.nvm, &specification.link, clock);
        let others = (specification.modules.iter())
            .map(|module| Self::new(&module.media, &module.link, clock));
        std::iter::once(first).chain(others).collect()
    }

    /// An idle controller of such media behind such a link.
    pub fn new(media: &Nvm, link: &LinkSpecification, clock: Clock) -> Self {
        Self {
            banks: vec![Bank::default(); media.banks],
            scheduling: media.scheduling,
            last_start: 0,
            last_done: 0,
            read_queue: Queue::new(media.read_queue_entries, media.scheduling),
            write_queue: Queue::new(media.write_queue_entries, media.scheduling),
            link: Link::new(
                link.width_bits / 8 * link.frequency_mhz * 1_000_000,
                clock.frequency_mhz,
            ),
            latency: clock.cycles(link.latency_ns),
            placement: Placement::new(media),
            row_read: clock.cycles(media.row_read_ns),
            row_write: clock.cycles(media.row_write_ns),
        }
    }

    /// Says where programs and the kernel have their addresses, which may be dealt out to the banks line
    /// by line.
    pub fn interleave_home(&mut self, home: Range<u64>) {
        self.placement.set_home(home);
    }

    /// Which bank has which address.
    #[inline]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// When a write to this address would start if it came at `now`.
    pub fn could_start_at(&self, address: u64, now: Cycles) -> Cycles {
        let bank = &self.banks[self.placement.bank(address)];
        match self.scheduling {
            Scheduling::Fcfs => bank.could_start_at(now, self.row_write),
            Scheduling::StartOrder => now.max(self.last_start).max(bank.free_at()),
        }
    }

    /// When the last accepted write will be durable.
    pub fn quiet_at(&self) -> Cycles {
        self.last_done
    }

    /// Reads a row into its bank's buffer, and sends what was asked for over the link if that is its
    /// path; otherwise it is in the buffer when the read is done.
    #[inline(always)]
    pub fn read(&mut self, request: &Request, now: Cycles) -> Served {
        let accepted = self.read_queue.admit(now);
        let what = match request.path {
            Path::Link => Use::Read,
            Path::Inside => Use::ReadWithin,
        };
        let start = self.take(what, request, accepted, self.row_read);
        let in_buffer = start + self.row_read;
        let done = match request.path {
            Path::Link => self.link.reserve(in_buffer, request.length),
            Path::Inside => in_buffer,
        };
        self.read_queue.hold(accepted, done);
        Served {
            accepted,
            crossed: done,
            start,
            done,
        }
    }

    /// Accepts a write.
    #[inline(always)]
    pub fn write(&mut self, request: &Request, now: Cycles) -> Served {
        let accepted = self.write_queue.admit(now);
        let arrived = match request.path {
            Path::Link => self.link.reserve(accepted, request.length),
            Path::Inside => accepted,
        };
        let start = self.take(Use::Write, request, arrived, self.row_write);
        let done = start + self.row_write;
        self.last_done = self.last_done.max(done);
        self.write_queue.hold(accepted, done);
        Served {
            accepted,
            crossed: arrived,
            start,
            done,
        }
    }

    /// Sends bytes over the link that no bank has a part in. Returns when they have arrived.
    pub fn cross(&mut self, now: Cycles, bytes: usize) -> Cycles {
        self.link.reserve(now, bytes) + self.latency
    }

    /// What so many bytes take on the link.
    pub fn transfer_cycles(&self, bytes: usize) -> Cycles {
        self.link.transfer_cycles(bytes)
    }

    /// For how long a row is read, and written.
    pub fn row_cycles(&self) -> (Cycles, Cycles) {
        (self.row_read, self.row_write)
    }

    /// What a message takes on its way over the link, over and above its transfer. Whoever asks over the
    /// link dates the request so much later than it was sent.
    #[inline]
    pub fn latency(&self) -> Cycles {
        self.latency
    }

    /// Takes a place in a bank.
    #[inline(always)]
    fn take(&mut self, what: Use, request: &Request, earliest: Cycles, cycles: Cycles) -> Cycles {
        let (address, end) = (request.address, request.address + request.length as u64);
        let bank = &mut self.banks[self.placement.bank(address)];
        let earliest = earliest.max(request.not_before);
        let earliest = match self.scheduling {
            Scheduling::Fcfs => earliest,
            Scheduling::StartOrder => earliest.max(self.last_start).max(bank.free_at()),
        };
        let start = bank.take(what, address..end, earliest, cycles);
        self.last_start = self.last_start.max(start);
        start
    }
}
