//! The memory controller's timing: bounded queues, the banks, the link. It knows no bytes.
//!
//! Always true here:
//! - A request starts when its bank is free and it is the oldest there that can start ([`crate::bank`]).
//!   Between banks, and within one for other bytes, the order of writes is what designs ask for
//!   (`not_before`).
//! - In start order, no request starts before one that was accepted earlier, and writes become durable
//!   in the order of acceptance, because each takes equally long. Under FR-FCFS, two writes do if they
//!   share a bank, or if one of them is ordered.
//! - A queue's entry is taken from acceptance to completion.

use std::ops::Range;

use crate::bank::{Bank, Use};
use crate::line::LINE_BYTES;
use crate::link::Link;
use crate::queue::Queue;
use crate::specification::{Interleaving, Scheduling, Specification};
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

#[inline]
fn unit_shift(lines: &Range<u64>, row_shift: u32, address: u64) -> u32 {
    if lines.contains(&address) {
        LINE_BYTES.trailing_zeros()
    } else {
        row_shift
    }
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
    /// It is of a design's log or metadata: starts after all that was accepted before it.
    pub ordered: bool,
    /// It starts no earlier.
    pub not_before: Cycles,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Controller {
    banks: Vec<Bank>,
    scheduling: Scheduling,
    /// When the latest of all requests starts, and the latest ordered write.
    last_start: Cycles,
    last_ordered_start: Cycles,
    /// When all writes that were accepted will be durable.
    last_done: Cycles,
    read_queue: Queue,
    write_queue: Queue,
    link: Link,
    /// Logarithm of the row size.
    row_shift: u32,
    home_interleaving: Interleaving,
    /// Addresses that are dealt out to the banks line by line; all others are by rows.
    lines: Range<u64>,
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
            last_ordered_start: 0,
            last_done: 0,
            read_queue: Queue::new(nvm.read_queue_entries, nvm.scheduling),
            write_queue: Queue::new(nvm.write_queue_entries, nvm.scheduling),
            link: Link::new(
                link.width_bits / 8 * link.frequency_mhz * 1_000_000,
                clock.frequency_mhz,
            ),
            row_shift: nvm.row_bytes.trailing_zeros(),
            home_interleaving: nvm.home_interleaving,
            lines: 0..0,
            row_read: clock.cycles(nvm.row_read_ns),
            row_write: clock.cycles(nvm.row_write_ns),
        }
    }

    /// Says where programs and the kernel have their addresses, which may be dealt out to the banks line
    /// by line.
    pub fn interleave_home(&mut self, home: Range<u64>) {
        if self.home_interleaving == Interleaving::Line {
            self.lines = home;
        }
    }

    /// Logarithm of the bytes around an address that lie in one bank together: of a row, or of a line.
    #[inline]
    pub fn unit_shift(&self, address: u64) -> u32 {
        unit_shift(&self.lines, self.row_shift, address)
    }

    /// Logarithm of the row size.
    #[inline]
    pub fn row_shift(&self) -> u32 {
        self.row_shift
    }

    /// A range in pieces that lie in one bank each: address and length.
    pub fn pieces(&self, address: u64, length: u64) -> impl Iterator<Item = (u64, usize)> + use<> {
        let (lines, row_shift) = (self.lines.clone(), self.row_shift);
        let (mut at, end) = (address, address + length);
        std::iter::from_fn(move || {
            let start = at;
            let shift = unit_shift(&lines, row_shift, start);
            at = end.min(((start >> shift) + 1) << shift);
            (start < end).then_some((start, (at - start) as usize))
        })
    }

    /// The bank of an address.
    #[inline]
    pub fn bank(&self, address: u64) -> usize {
        bank_of_row(address >> self.unit_shift(address), self.banks.len())
    }

    /// When the banks of a range will have done all that they were given.
    pub fn banks_free_at(&self, address: u64, length: u64) -> Cycles {
        self.pieces(address, length)
            .map(|(address, _)| self.banks[self.bank(address)].free_at())
            .max()
            .expect("a range has a row")
    }

    /// When a write to this address would start if it came at `now`.
    pub fn could_start_at(&self, address: u64, now: Cycles) -> Cycles {
        let bank = &self.banks[self.bank(address)];
        match self.scheduling {
            Scheduling::Fcfs => bank.could_start_at(now, self.row_write),
            Scheduling::StartOrder => now.max(self.last_start).max(bank.free_at()),
            Scheduling::FrFcfs => now.max(self.last_ordered_start).max(bank.free_at()),
        }
    }

    /// When the last accepted write will be durable.
    pub fn quiet_at(&self) -> Cycles {
        self.last_done
    }

    /// Admits a read of bytes within one row, and reads the row into its bank's buffer. The bytes can
    /// leave [`Self::row_read`] after that began.
    pub fn open_row(&mut self, address: u64, length: usize, what: Use, now: Cycles) -> Opened {
        let admitted = self.read_queue.admit(now);
        let before = match self.scheduling {
            Scheduling::StartOrder => self.last_start,
            Scheduling::Fcfs | Scheduling::FrFcfs => 0,
        };
        let start = self.take(what, address, length, admitted.max(before), self.row_read);
        Opened { admitted, start }
    }

    /// How long a row takes to be read.
    #[inline]
    pub fn row_read(&self) -> Cycles {
        self.row_read
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
        let before = match self.scheduling {
            Scheduling::Fcfs => 0,
            Scheduling::FrFcfs if !request.ordered => self.last_ordered_start,
            Scheduling::FrFcfs | Scheduling::StartOrder => self.last_start,
        };
        let earliest = arrived.max(before).max(request.not_before);
        let (address, length) = (request.address, request.length);
        let start = self.take(Use::Write, address, length, earliest, self.row_write);
        let done = start + self.row_write;
        if request.ordered {
            self.last_ordered_start = self.last_ordered_start.max(start);
        }
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
        let bank = self.bank(address);
        let bank = &mut self.banks[bank];
        let earliest = match self.scheduling {
            Scheduling::Fcfs => earliest,
            Scheduling::StartOrder | Scheduling::FrFcfs => earliest.max(bank.free_at()),
        };
        let start = bank.take(what, address..address + length as u64, earliest, cycles);
        self.last_start = self.last_start.max(start);
        start
    }
}
