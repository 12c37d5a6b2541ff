//! Physical frames: who may have one, and how many hold it. Those of pools are handed out by
//! [`Pools`] and held like any other. Other physical memory beside them (modules that programs map whole) is
//! nobody's to hand out, and has no holders.
//!
//! Always true: a frame that was never handed out is zero and lies at or above `never_used`;
//! every frame below it has a cell that is either its number of holders (page-table entries and
//! page-cache entries) or a link of the free list.

use serde::{Deserialize, Serialize};

use crate::errno::Errno;
use crate::machine::{Machine, PAGE_BYTES};
use crate::pools::Pools;
use crate::vfs::InodeId;

/// Marks a cell as free; the other bits are the next free cell.
const FREE: u32 = 1 << 31;
/// End of the free list.
const END: u32 = FREE - 1;

/// A frame just handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFrame {
    /// Frame number: physical address divided by the page size.
    pub number: u64,
    /// It was used before and holds old bytes.
    pub recycled: bool,
}

/// The frame allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Frames {
    first: u64,
    count: u32,
    free_head: u32,
    free_count: u32,
    #[serde(skip)]
    cells: Vec<u32>,
    /// Persistent memory beside them, if it has pools.
    #[serde(skip)]
    pub pools: Option<Box<Pools>>,
}

impl Frames {
    /// An allocator of `count` frames from frame number `first`.
    pub fn new(first: u64, count: u32) -> Self {
        Self {
            first,
            count: count.min(END),
            free_head: END,
            free_count: 0,
            cells: Vec::new(),
            pools: None,
        }
    }

    pub fn total(&self) -> u64 {
        u64::from(self.count)
    }

    pub fn free(&self) -> u64 {
        u64::from(self.count) - self.cells.len() as u64 + u64::from(self.free_count)
    }

    /// The lowest number of a frame that was never handed out.
    pub fn never_used(&self) -> u64 {
        self.first + self.cells.len() as u64
    }

    pub fn cells(&self) -> &[u32] {
        &self.cells
    }

    /// Puts the cells of a saved allocator back; an error says what is inconsistent.
    pub fn set_cells(&mut self, cells: Vec<u32>) -> Result<(), &'static str> {
        if cells.len() > self.count as usize || self.count > END {
            return Err("more frames in use than there are");
        }
        if self
            .first
            .checked_add(u64::from(self.count))
            .is_none_or(|end| end >= 1 << 52)
        {
            return Err("frames beyond the physical address space");
        }
        let mut next = self.free_head;
        for _ in 0..self.free_count {
            match cells.get(next as usize) {
                Some(cell) if cell & FREE != 0 => next = cell & !FREE,
                _ => return Err("the free-frame list is broken"),
            }
        }
        if next != END
            || cells.iter().filter(|&&c| c & FREE != 0).count() != self.free_count as usize
        {
            return Err("the free-frame list has the wrong length");
        }
        self.cells = cells;
        Ok(())
    }

    /// A frame with one holder; the last one freed goes first.
    pub fn allocate(&mut self) -> Option<NewFrame> {
        if self.free_head != END {
            let index = self.free_head;
            self.free_head = self.cells[index as usize] & !FREE;
            self.free_count -= 1;
            self.cells[index as usize] = 1;
            return Some(NewFrame {
                number: self.first + u64::from(index),
                recycled: true,
            });
        }
        if self.cells.len() >= self.count as usize {
            return None;
        }
        self.cells.push(1);
        Some(NewFrame {
            number: self.first + self.cells.len() as u64 - 1,
            recycled: false,
        })
    }

    /// The number of a frame with one holder. It is zero if `zero`, else whatever it was before.
    pub fn take(&mut self, machine: &mut dyn Machine, zero: bool) -> Result<u64, Errno> {
        let frame = self.allocate().ok_or(Errno::ENOMEM)?;
        if frame.recycled && zero {
            machine.zero_frame(frame.number * PAGE_BYTES);
        }
        Ok(frame.number)
    }

    /// The same for a page of a file, which lies where all of the file's do.
    pub fn take_for(
        &mut self,
        machine: &mut dyn Machine,
        id: InodeId,
        zero: bool,
    ) -> Result<u64, Errno> {
        match self.pools.as_deref_mut() {
            Some(pools) if pools.has_file(id) => pools.take(machine, id, zero),
            _ => self.take(machine, zero),
        }
    }

    /// The cell of a frame that was handed out once; none has memory beside the frames.
    fn cell(&mut self, frame: u64) -> Option<&mut u32> {
        let index = frame.checked_sub(self.first)?;
        self.cells.get_mut(index as usize)
    }

    /// True if the frame is handed out.
    pub fn is_held(&self, frame: u64) -> bool {
        frame
            .checked_sub(self.first)
            .and_then(|index| self.cells.get(index as usize))
            .is_some_and(|cell| cell & FREE == 0 && *cell > 0)
    }

    /// True if the frame is one of a pool's.
    pub fn is_of_pool(&self, frame: u64) -> bool {
        (self.pools.as_deref()).is_some_and(|pools| pools.has_frame(frame))
    }

    /// Number of holders.
    pub fn holders(&self, frame: u64) -> u32 {
        let index = frame.checked_sub(self.first);
        let cell = index.and_then(|index| self.cells.get(index as usize));
        let of_pool = || (self.pools.as_deref()).map_or(0, |pools| pools.holders(frame));
        cell.copied().unwrap_or_else(of_pool)
    }

    /// One more holder.
    pub fn retain(&mut self, frame: u64) {
        if let Some(cell) = self.cell(frame) {
            *cell += 1;
        } else if let Some(pools) = self.pools.as_deref_mut() {
            pools.retain(frame);
        }
    }

    /// One holder less; the last one frees the frame.
    pub fn release(&mut self, frame: u64) {
        let head = self.free_head;
        let index = frame.wrapping_sub(self.first) as u32;
        let Some(cell) = self.cell(frame) else {
            if let Some(pools) = self.pools.as_deref_mut() {
                pools.release(frame);
            }
            return;
        };
        *cell -= 1;
        if *cell == 0 {
            *cell = FREE | head;
            self.free_head = index;
            self.free_count += 1;
        }
    }
}
