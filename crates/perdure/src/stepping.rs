//! The engine of a debugger: the fast one, which comes back where somebody wants to look.
//!
//! It stops before a block that may hold a breakpoint, and behind one that has touched a watched address, and
//! says where that was; and it runs a part of a block, for a machine that is only looked at. Memory hears
//! from it which instruction stores, where somebody listens.
//!
//! Always true here: it comes back at beginnings of blocks, as sources may, except from a part of a block. So
//! a machine that it runs is the one that nobody debugs, cycle by cycle.

use std::cell::Cell;
use std::sync::Arc;

use perdure_riscv::fast::{self, BlockCache};
use perdure_riscv::{
    Access, Amo, CacheBlock, Exit, Fault, FetchedLine, Hart, Memory, Scalar, hand_on, plain,
};

use crate::port::{Attributed, Door, FetchHint};

/// What blocks never cross.
const LINE_BYTES: u64 = 64;

/// Which accesses a watch point is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Stores.
    Write,
    /// Loads.
    Read,
    /// Both.
    Either,
}

/// A range of a program's addresses that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchPoint {
    /// Where it begins.
    pub start: u64,
    /// How long it is.
    pub bytes: u64,
    /// What for.
    pub touch: Touch,
}

impl WatchPoint {
    fn meets(&self, address: u64, bytes: u64, write: bool) -> bool {
        let wanted = match self.touch {
            Touch::Write => write,
            Touch::Read => !write,
            Touch::Either => true,
        };
        wanted && address < self.start + self.bytes && self.start < address + bytes
    }
}

/// Where a debugger wants to look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stops {
    /// Addresses of instructions.
    pub breakpoints: Vec<u64>,
    /// Watched addresses.
    pub watches: Vec<WatchPoint>,
}

impl Stops {
    /// Whether a breakpoint may be met in the block that begins there.
    fn may_stop(&self, pc: u64) -> bool {
        let end = (pc | (LINE_BYTES - 1)) + 1;
        (self.breakpoints.iter()).any(|breakpoint| (pc..end).contains(breakpoint))
    }

    fn watched(&self, address: u64, bytes: u64, write: bool) -> Option<usize> {
        let meets = |watch: &WatchPoint| watch.meets(address, bytes, write);
        self.watches.iter().position(meets)
    }
}

/// A watched address was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Instructions that the hart had retired before the one that did it.
    pub retired: u64,
    /// Which of the watch points.
    pub watch: usize,
    /// The kernel did it, and no instruction.
    pub kernel: bool,
}

/// How the engine is to run next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// To the first beginning of a block at which so many are retired.
    Free {
        /// So many.
        retired: u64,
        /// The first block runs whatever breakpoint it holds.
        passes: bool,
    },
    /// So many instructions of the block at hand, or all of it.
    Part {
        /// So many.
        instructions: u64,
    },
}

/// The engine. A copy has decoded nothing yet.
pub struct Stepping {
    blocks: Option<Box<BlockCache<FetchHint>>>,
    /// Where to look.
    pub(crate) stops: Arc<Stops>,
    /// How to run next.
    pub(crate) way: Way,
    /// It came back before a block that may hold a breakpoint.
    pub(crate) refused: bool,
    /// What was touched since somebody looked.
    pub(crate) hits: Vec<Hit>,
}

impl Clone for Stepping {
    fn clone(&self) -> Self {
        Self {
            blocks: None,
            stops: Arc::clone(&self.stops),
            way: self.way,
            refused: self.refused,
            hits: self.hits.clone(),
        }
    }
}

impl Default for Stepping {
    fn default() -> Self {
        Self {
            blocks: None,
            stops: Arc::default(),
            way: Way::Free {
                retired: u64::MAX,
                passes: true,
            },
            refused: false,
            hits: Vec::new(),
        }
    }
}

impl Stepping {
    /// Runs a hart as it was told to.
    pub(crate) fn run(&mut self, registers: &mut Hart, mut door: Door) -> Exit {
        self.refused = false;
        if let Way::Part { .. } = self.way {
            if door.observes() {
                let mut port = door.open_window::<false, true>();
                return self.run_as::<_, true>(registers, &mut port);
            }
            return self.run_as::<_, true>(registers, &mut door.open::<false>());
        }
        match (door.observes(), self.stops.watches.is_empty()) {
            (false, true) => self.run_as::<_, false>(registers, &mut door.open::<true>()),
            (false, false) => self.run_as::<_, true>(registers, &mut door.open::<true>()),
            (true, none) => {
                let mut port = door.open_window::<true, true>();
                let exit = if none {
                    self.run_as::<_, false>(registers, &mut port)
                } else {
                    self.run_as::<_, true>(registers, &mut port)
                };
                port.leave(&exit, registers);
                exit
            }
        }
    }

    fn run_as<M: Attributed<FetchHint = FetchHint>, const WATCHES: bool>(
        &mut self,
        registers: &mut Hart,
        memory: &mut M,
    ) -> Exit {
        let (limit, passes) = match self.way {
            Way::Free { retired, passes } => (retired, passes),
            Way::Part { .. } => (u64::MAX, true),
        };
        let mut guard = Guard::<M, WATCHES> {
            memory,
            stops: &self.stops,
            hits: &mut self.hits,
            limit,
            begins: Cell::new(false),
            block: (registers.pc, registers.retired),
            passes,
            refused: false,
        };
        let exit = match self.way {
            Way::Part { instructions } => plain::run_part(registers, &mut guard, instructions),
            Way::Free { .. } => {
                let blocks = self.blocks.get_or_insert_default();
                fast::run(registers, &mut guard, blocks)
            }
        };
        self.refused = guard.refused;
        if self.refused { Exit::Limit } else { exit }
    }

    /// Code or mappings have changed.
    pub(crate) fn forget(&mut self) {
        if let Some(blocks) = &mut self.blocks {
            blocks.flush();
        }
    }
}

/// Memory that stops the engine where somebody wants to look.
struct Guard<'m, M, const WATCHES: bool> {
    memory: &'m mut M,
    stops: &'m Stops,
    hits: &'m mut Vec<Hit>,
    limit: u64,
    /// The limit was just compared: a block begins.
    begins: Cell<bool>,
    /// Where the block at hand begins, and how much was retired before it.
    block: (u64, u64),
    /// The next block runs whatever it holds.
    passes: bool,
    /// The block that was about to begin does not run.
    refused: bool,
}

impl<M: Attributed, const WATCHES: bool> Guard<'_, M, WATCHES> {
    /// Whether a block that is about to be fetched must not run.
    #[inline(always)]
    fn refuses(&mut self, pc: u64, retired: u64) -> bool {
        if self.begins.replace(false) {
            self.block = (pc, retired);
            self.refused = !std::mem::take(&mut self.passes) && self.stops.may_stop(pc);
        }
        self.refused
    }

    /// The instruction at hand is about to store.
    #[inline(always)]
    fn stores(&mut self, retired: u64) {
        let (block, before) = self.block;
        self.memory.stores_for(block, before, retired);
    }

    #[inline(always)]
    fn touched(&mut self, address: u64, bytes: usize, write: bool, retired: u64) {
        if WATCHES && let Some(watch) = self.stops.watched(address, bytes as u64, write) {
            self.note(watch, retired);
        }
    }

    #[cold]
    fn note(&mut self, watch: usize, retired: u64) {
        self.hits.push(Hit {
            retired,
            watch,
            kernel: false,
        });
        self.limit = 0;
    }
}

impl<M: Attributed, const WATCHES: bool> Memory for Guard<'_, M, WATCHES> {
    type FetchHint = M::FetchHint;

    const OBSERVES: bool = M::OBSERVES;

    hand_on!(memory: begins ends barrier fence fence_instruction mark persistence cycle time);

    #[inline(always)]
    fn limit(&self) -> u64 {
        self.begins.set(true);
        self.limit.min(self.memory.limit())
    }
    #[inline(always)]
    fn load_hit<T: Scalar>(&mut self, address: u64, retired: u64) -> Option<T> {
        let value = self.memory.load_hit(address, retired);
        if value.is_some() {
            self.touched(address, T::BYTES, false, retired);
        }
        value
    }
    #[inline(always)]
    fn store_hit<T: Scalar>(&mut self, address: u64, value: T, retired: u64) -> bool {
        let stored = self.memory.store_hit(address, value, retired);
        if stored {
            self.touched(address, T::BYTES, true, retired);
        }
        stored
    }
    #[inline(always)]
    fn load<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        let value = self.memory.load(address, retired)?;
        self.touched(address, T::BYTES, false, retired);
        Ok(value)
    }
    #[inline(always)]
    fn store<T: Scalar>(&mut self, address: u64, value: T, retired: u64) -> Result<(), Fault> {
        self.stores(retired);
        self.memory.store(address, value, retired)?;
        self.touched(address, T::BYTES, true, retired);
        Ok(())
    }
    fn fetch(&mut self, pc: u64, retired: u64) -> Result<FetchedLine<'_, M::FetchHint>, Fault> {
        if self.refuses(pc, retired) {
            let access = Access::Fetch;
            return Err(Fault {
                access,
                address: pc,
            });
        }
        self.memory.fetch(pc, retired)
    }
    #[inline(always)]
    fn fetch_again(&mut self, pc: u64, hint: M::FetchHint, retired: u64) -> bool {
        !self.refuses(pc, retired) && self.memory.fetch_again(pc, hint, retired)
    }
    fn load_reserved<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        let value = self.memory.load_reserved(address, retired)?;
        self.touched(address, T::BYTES, false, retired);
        Ok(value)
    }
    fn store_conditional<T: Scalar>(
        &mut self,
        address: u64,
        value: T,
        retired: u64,
    ) -> Result<bool, Fault> {
        self.stores(retired);
        let stored = self.memory.store_conditional(address, value, retired)?;
        if stored {
            self.touched(address, T::BYTES, true, retired);
        }
        Ok(stored)
    }
    fn atomic<T: Scalar>(
        &mut self,
        operation: Amo,
        address: u64,
        operand: T,
        retired: u64,
    ) -> Result<T, Fault> {
        self.stores(retired);
        let old = self.memory.atomic(operation, address, operand, retired)?;
        self.touched(address, T::BYTES, false, retired);
        self.touched(address, T::BYTES, true, retired);
        Ok(old)
    }
    fn cache_block(
        &mut self,
        operation: CacheBlock,
        address: u64,
        retired: u64,
    ) -> Result<(), Fault> {
        self.stores(retired);
        self.memory.cache_block(operation, address, retired)?;
        if operation == CacheBlock::Zero {
            let line = address & !(LINE_BYTES - 1);
            self.touched(line, LINE_BYTES as usize, true, retired);
        }
        Ok(())
    }
    fn store_non_temporal(&mut self, address: u64, value: u64, retired: u64) -> Result<(), Fault> {
        self.stores(retired);
        self.memory.store_non_temporal(address, value, retired)?;
        self.touched(address, 8, true, retired);
        Ok(())
    }
}
