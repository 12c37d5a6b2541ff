//! The memory controller's timing: bounded queues, the banks, the link. It knows no bytes.
//!
//! Always true here:
//! - Under FCFS, requests start in the order of acceptance, and writes become durable in it, because
//!   each takes equally long. Under FR-FCFS, two writes do if they share a bank, or if one of them is
//!   ordered.
//! - A queue's entry is taken from acceptance to completion.

use std::collections::VecDeque;

use crate::link::Link;
use crate::specification::{Scheduling, Specification};
use crate::time::Cycles;

/// The bank of a row. Where the number of banks is a power of two, it is the exclusive or of all
/// digits of the row's number to that base (permutation-based interleaving): any aligned run of as
/// many rows as there are banks is spread over all of them, and lines that compete for a set of the
/// last-level cache, whose rows differ in high bits only, seldom share a bank. Otherwise, rows take
/// the banks in turn.
#[inline]
pub fn bank_of_row(row: u64, banks: usize) -> usize {
    if !banks.is_power_of_two() {
        return (row % banks as u64) as usize;
    }
    let digit = banks.trailing_zeros();
    // Halves onto halves: after the last step the lowest digit is the sum of sixteen.
    let folded = [8, 4, 2, 1].into_iter().fold(row, |folded, digits| {
        folded ^ folded.checked_shr(digits * digit).unwrap_or(0)
    });
    folded as usize & (banks - 1)
}

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

/// What the controller is asked to write.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest {
    /// Where, within one row.
    pub address: u64,
    /// How many bytes.
    pub length: usize,
    /// It comes over the link, and not from within the module.
    pub crosses_link: bool,
    /// It is of a design's log or metadata: starts after all that was accepted before it.
    pub ordered: bool,
    /// It starts no earlier.
    pub not_before: Cycles,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Controller {
    bank_free: Vec<Cycles>,
    first_ready: bool,
    /// When the latest of all requests starts, and the latest ordered write.
    last_start: Cycles,
    last_ordered_start: Cycles,
    /// When all writes that were accepted will be durable.
    last_done: Cycles,
    read_queue: VecDeque<Cycles>,
    write_queue: VecDeque<Cycles>,
    link: Link,
    /// Logarithm of the row size.
    row_shift: u32,
    row_read: Cycles,
    row_write: Cycles,
    read_queue_entries: usize,
    write_queue_entries: usize,
}

impl Controller {
    /// An idle controller after the specification.
    pub fn new(specification: &Specification) -> Self {
        let clock = specification.clock();
        let nvm = &specification.nvm;
        let link = &specification.link;
        Self {
            bank_free: vec![0; nvm.banks],
            first_ready: nvm.scheduling == Scheduling::FrFcfs,
            last_start: 0,
            last_ordered_start: 0,
            last_done: 0,
            read_queue: VecDeque::with_capacity(nvm.read_queue_entries + 1),
            write_queue: VecDeque::with_capacity(nvm.write_queue_entries + 1),
            link: Link::new(
                link.width_bits / 8 * link.frequency_mhz * 1_000_000,
                clock.frequency_mhz,
            ),
            row_shift: nvm.row_bytes.trailing_zeros(),
            row_read: clock.cycles(nvm.row_read_ns),
            row_write: clock.cycles(nvm.row_write_ns),
            read_queue_entries: nvm.read_queue_entries,
            write_queue_entries: nvm.write_queue_entries,
        }
    }

    /// The logarithm of the row size.
    #[inline]
    pub fn row_shift(&self) -> u32 {
        self.row_shift
    }

    /// The bank of an address.
    #[inline]
    pub fn bank(&self, address: u64) -> usize {
        bank_of_row(address >> self.row_shift, self.bank_free.len())
    }

    /// When the banks of a range will have done all that they were given.
    pub fn banks_free_at(&self, address: u64, length: u64) -> Cycles {
        let rows = address >> self.row_shift..=(address + length - 1) >> self.row_shift;
        rows.map(|row| self.bank_free[bank_of_row(row, self.bank_free.len())])
            .max()
            .expect("a range has a row")
    }

    /// When a write to this address would start if it came now: everything that was accepted and
    /// goes before it has started, and its bank is free.
    pub fn could_start_at(&self, address: u64) -> Cycles {
        let before = if self.first_ready {
            self.last_ordered_start
        } else {
            self.last_start
        };
        before.max(self.bank_free[self.bank(address)])
    }

    /// When the last accepted write will be durable.
    pub fn quiet_at(&self) -> Cycles {
        self.last_done
    }

    /// Waits for a free entry of a bounded queue, then returns when that is.
    fn admit(queue: &mut VecDeque<Cycles>, entries: usize, now: Cycles) -> Cycles {
        if queue.len() < entries {
            return now;
        }
        // Entries leave in order of completion (see `queue`).
        now.max(
            queue
                .pop_front()
                .expect("a full queue of at least one entry is not empty"),
        )
    }

    /// Puts an admitted request into a bounded queue, behind those that complete before it. FCFS makes
    /// that the order of arrival.
    fn queue(queue: &mut VecDeque<Cycles>, first_ready: bool, done: Cycles) {
        let at = if first_ready {
            queue.partition_point(|&other| other <= done)
        } else {
            queue.len()
        };
        queue.insert(at, done);
    }

    /// Admits a read of bytes within one row, and reads the row into its bank's buffer. Returns when
    /// that began; the bytes can leave after [`Self::row_read`].
    pub fn open_row(&mut self, address: u64, now: Cycles) -> Cycles {
        let admitted = Self::admit(&mut self.read_queue, self.read_queue_entries, now);
        let bank = self.bank(address);
        let mut start = admitted.max(self.bank_free[bank]);
        if !self.first_ready {
            start = start.max(self.last_start);
        }
        self.last_start = self.last_start.max(start);
        self.bank_free[bank] = start + self.row_read;
        start
    }

    /// How long a row takes to be read.
    #[inline]
    pub fn row_read(&self) -> Cycles {
        self.row_read
    }

    /// Sends what an open row has over the link, which ends the read. Returns when it has arrived.
    pub fn send(&mut self, opened: Cycles, length: usize) -> Cycles {
        let done = self.link.reserve(opened, length);
        self.end_read(done);
        done
    }

    /// Ends a read whose bytes stay within the module.
    pub fn end_read(&mut self, done: Cycles) {
        Self::queue(&mut self.read_queue, self.first_ready, done);
    }

    /// Accepts a write.
    pub fn write(&mut self, request: &WriteRequest, now: Cycles) -> Written {
        let accepted = Self::admit(&mut self.write_queue, self.write_queue_entries, now);
        let arrived = if request.crosses_link {
            self.link.reserve(accepted, request.length)
        } else {
            accepted
        };
        let bank = self.bank(request.address);
        let before = if self.first_ready && !request.ordered {
            self.last_ordered_start
        } else {
            self.last_start
        };
        let start = arrived
            .max(before)
            .max(self.bank_free[bank])
            .max(request.not_before);
        let done = start + self.row_write;
        self.last_start = self.last_start.max(start);
        if request.ordered {
            self.last_ordered_start = self.last_ordered_start.max(start);
        }
        self.last_done = self.last_done.max(done);
        self.bank_free[bank] = done;
        Self::queue(&mut self.write_queue, self.first_ready, done);
        Written {
            accepted,
            start,
            done,
        }
    }
}
