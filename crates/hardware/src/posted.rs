//! Posted writes: the NVM as NVOverlay's own simulator times it (`[posted]`), which no machine has.
//!
//! Every write is taken at once, queues on its bank without bound, and takes as long as its bytes: a
//! row's write for a row's bytes, and at least one. Nobody waits for room, for the link, or for the
//! order of a log; reads pass. What is left is how long the banks are busy, and when the last one is
//! done.
//!
//! Always true: a bank's writes do not overlap, and start in the order in which they came.

use crate::controller::Served;
use crate::line::LineNumber;
use crate::memory::Memory;
use crate::placement::bank_of_row;
use crate::specification::Specification;
use crate::statistics::Statistics;
use crate::time::Cycles;

/// The queues of all banks: no more than when each is done.
#[derive(Clone, Debug)]
pub struct PostedWrites {
    done: Vec<Cycles>,
    by_home_line: bool,
    row_shift: u32,
    row_write: Cycles,
    /// True if the design counts the time until its writes are durable.
    durability_counts: bool,
}

impl PostedWrites {
    /// Idle banks, if the specification says that writes are posted.
    pub fn new(specification: &Specification) -> Option<Self> {
        let nvm = &specification.nvm;
        specification.posted.writes.then(|| Self {
            done: vec![0; nvm.banks],
            by_home_line: specification.posted.banks_by_home_line,
            row_shift: nvm.row_bytes.trailing_zeros(),
            row_write: specification.clock().cycles(nvm.row_write_ns),
            durability_counts: false,
        })
    }

    /// From now on a write is durable when its bank has written it, for a design that waits for that;
    /// otherwise when it had written it if nothing else waited there.
    pub fn count_durability(&mut self) {
        self.durability_counts = true;
    }

    /// True if the line that a write belongs to chooses its bank.
    pub fn by_home_line(&self) -> bool {
        self.by_home_line
    }

    /// Posts a write of so many bytes at an address, which belong to a line of the program.
    pub fn write(&mut self, address: u64, length: usize, home: LineNumber, now: Cycles) -> Served {
        let banks = self.done.len();
        let bank = if self.by_home_line {
            (home % banks as u64) as usize
        } else {
            bank_of_row(address >> self.row_shift, banks)
        };
        let bytes = (length as u64).max(1 << self.row_shift);
        let cycles = (self.row_write * bytes) >> self.row_shift;
        let start = now.max(self.done[bank]);
        let done = start + cycles;
        self.done[bank] = done;
        Served {
            accepted: now,
            crossed: now,
            start,
            done: if self.durability_counts {
                done
            } else {
                now + cycles
            },
        }
    }

    /// When the last bank is done with all that was posted.
    pub fn drained_at(&self) -> Cycles {
        self.done.iter().copied().max().unwrap_or(0)
    }

    /// The same for whoever counts durability; nothing waits for anybody else.
    pub fn quiet_at(&self) -> Cycles {
        if self.durability_counts {
            self.drained_at()
        } else {
            0
        }
    }
}
impl Memory {
    /// Where writes are posted: this design's cost is that it waits until they are durable. Others do
    /// not wait for anything there.
    pub fn count_durability(&mut self) {
        for posted in self.modules.iter_mut().flat_map(|one| &mut one.posted) {
            posted.count_durability();
        }
    }

    /// Where writes are posted to the banks of the lines that they belong to: writes a block of several
    /// lines' entries, each as a write by itself, of so many bytes, to its line's bank. What else is in
    /// the block takes no time. Returns when the last of them is durable; nothing is done elsewhere.
    pub fn post_entries(
        &mut self,
        address: u64,
        bytes: &[u8],
        entries: (usize, &mut dyn Iterator<Item = LineNumber>),
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Option<Cycles> {
        let place = self.map.locate(address);
        let posted = self.modules[place.module].posted.as_mut();
        let posted = posted.filter(|posted| posted.by_home_line())?;
        self.arena.write(address, bytes);
        let (length, lines) = entries;
        let (mut durable, mut writes) = (now, 0);
        for line in lines {
            durable = durable.max(posted.write(place.offset, length, line, now).done);
            writes += 1;
        }
        let written = bytes.len() as u64;
        self.modules[place.module].count_posted(writes, written);
        statistics.nvm_writes += writes;
        statistics.nvm_operations_random += writes;
        statistics.nvm_written_bytes_total += written;
        statistics.nvm_written_bytes_log += written;
        Some(durable)
    }
}
