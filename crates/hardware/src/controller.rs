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
use crate::specification::{Scheduling, Specification};
use crate::time::Cycles;

/// When a write passed its stations.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// The queue had room and took it.
    pub accepted: Cycles,
    /// The media began to write it.
    pub start: Cycles,
    /// It is durable.
    pub done: Cycles,
}

/// A row that is being read.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// The queue had room and took the request.
    pub admitted: Cycles,
    /// The bank began.
    pub start: Cycles,
}

/// What the controller is asked to write.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest {
    /// Where, within one row.
    pub address: u64,
    /// How many bytes.
    pub length: usize,
    /// It comes over the link, and not from within the module.
    pub crosses_link: bool,
    /// It starts no earlier.
    pub not_before: Cycles,
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
    placement: Placement,
    row_read: Cycles,
    row_write: Cycles,
}

impl Controller {
    /// An idle controller after the specification.
    pub fn new(specification: &Specification) -> Self {
        let clock = specification.clock();
        let nvm = &specification.nvm;
        let link = &specification.link;
        Self {
            banks: vec![Bank::default(); nvm.banks],
            scheduling: nvm.scheduling,
            last_start: 0,
            last_done: 0,
            read_queue: Queue::new(nvm.read_queue_entries, nvm.scheduling),
            write_queue: Queue::new(nvm.write_queue_entries, nvm.scheduling),
            link: Link::new(
                link.width_bits / 8 * link.frequency_mhz * 1_000_000,
                clock.frequency_mhz,
            ),
            placement: Placement::new(nvm),
            row_read: clock.cycles(nvm.row_read_ns),
            row_write: clock.cycles(nvm.row_write_ns),
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

    /// Admits a read of bytes within one row, and reads the row into its bank's buffer. The bytes can
    /// leave it when that is done.
    pub fn open_row(&mut self, address: u64, length: usize, what: Use, now: Cycles) -> Opened {
        let admitted = self.read_queue.admit(now);
        let start = self.take(what, address, length, admitted, self.row_read);
        Opened { admitted, start }
    }

    /// Sends what an open row has over the link, which ends the read. Returns when it has arrived.
    pub fn send(&mut self, opened: Opened, length: usize) -> Cycles {
        let done = self.link.reserve(opened.start + self.row_read, length);
        self.read_queue.hold(opened.admitted, done);
        done
    }

    /// Ends a read whose bytes stay within the module. Returns when they are in the row buffer.
    pub fn end_read(&mut self, opened: Opened) -> Cycles {
        let done = opened.start + self.row_read;
        self.read_queue.hold(opened.admitted, done);
        done
    }

    /// Accepts a write.
    pub fn write(&mut self, request: &WriteRequest, now: Cycles) -> Written {
        let accepted = self.write_queue.admit(now);
        let arrived = if request.crosses_link {
            self.link.reserve(accepted, request.length)
        } else {
            accepted
        };
        let earliest = arrived.max(request.not_before);
        let (address, length) = (request.address, request.length);
        let start = self.take(Use::Write, address, length, earliest, self.row_write);
        let done = start + self.row_write;
        self.last_done = self.last_done.max(done);
        self.write_queue.hold(accepted, done);
        Written {
            accepted,
            start,
            done,
        }
    }

    /// Takes a place in a bank.
    #[inline]
    fn take(
        &mut self,
        what: Use,
        address: u64,
        length: usize,
        earliest: Cycles,
        cycles: Cycles,
    ) -> Cycles {
        let bank = &mut self.banks[self.placement.bank(address)];
        let earliest = match self.scheduling {
            Scheduling::Fcfs => earliest,
            Scheduling::StartOrder => earliest.max(self.last_start).max(bank.free_at()),
        };
        let start = bank.take(what, address..address + length as u64, earliest, cycles);
        self.last_start = self.last_start.max(start);
        start
    }
}
