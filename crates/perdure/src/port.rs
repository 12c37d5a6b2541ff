//! How harts reach the hardware: [`perdure_riscv::Memory`] over the hierarchy (the kernel: `kernel_ports`).
//!
//! The hit path of loads and stores is one compare against the lookaside (see `perdure_hardware::lookaside`).
//! Everything else goes through the slow path, which is also all that the plain engine ever uses (`SHORTCUTS`
//! false): the two must agree on every statistic and every cycle, so a shortcut may only skip work, never do
//! different work.
//!
//! The design is reached through `dyn Policy`: hits never ask it, a miss costs hundreds of times what a call
//! through a table does, and the engines are compiled once and not once for each design.

use perdure_hardware::cache::{Slot, Word};
use perdure_hardware::core_timing::AccessKind;
use perdure_hardware::hierarchy::{Core, Hardware};
use perdure_hardware::line::{LINE_BYTES, line_of};
use perdure_hardware::lookaside::{Entry, entry_offset, tag_mask};
use perdure_hardware::policy::Policy;
use perdure_hardware::time::Cycles;
use perdure_linux::{Kernel, MemoryType, SpaceId, Translation};
use perdure_riscv::{
    Access, Amo, Barrier, CacheBlock, Class, Direct, Fault, FetchedLine, Layout, Mark, Memory,
    Observed, Scalar,
};

use crate::retired::Listener;
use crate::watch::Watch;
use crate::{observed, primitives};

mod core;
mod devices;
mod direct;
mod instructions;
mod otherwise;
mod walked;
mod writer;

pub use self::core::Limits;
pub(crate) use self::walked::Walked;
use self::walked::Walks;
pub(crate) use self::writer::{Attributed, said};

pub(crate) const OFFSET_MASK: u64 = LINE_BYTES as u64 - 1;

/// Where a fetched line sits: L1I slot, and the word that it must still have.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct FetchHint {
    slot: u32,
    word: Word,
}

/// One hart's door to the machine while it runs. With `WINDOW` its core is out of order, and is told of every
/// instruction and access.
pub struct Port<'m, const SHORTCUTS: bool, const WINDOW: bool = false> {
    hardware: &'m mut Hardware,
    design: &'m mut dyn Policy,
    kernel: &'m Kernel,
    watch: &'m mut Watch,
    hart: usize,
    space: SpaceId,
    /// The engine stops at the first block boundary at which it has retired so many.
    limit_retired: u64,
    /// The same as a time and as a count: whichever comes first.
    limits: Limits,
    /// With `WINDOW`: until when it may run, as far as is known by now.
    limit_now: Cycles,
    clock: GuestClock<'m>,
    walked: Walks<'m>,
    /// The hart's lookaside and core, for the hit path.
    entries: *mut Entry,
    core: *mut Core,
}

/// The nanoseconds that the `time` CSR shows when the hart has retired so many instructions: few programs
/// ask, so nobody reckons ahead.
pub(crate) type GuestClock<'m> = &'m dyn Fn(u64) -> u64;

/// Where a source of instructions comes in: what a port is opened over, for one turn of one hart.
pub struct Door<'m> {
    pub(crate) hardware: &'m mut Hardware,
    pub(crate) design: &'m mut dyn Policy,
    pub(crate) kernel: &'m Kernel,
    pub(crate) walked: &'m mut Walked,
    pub(crate) watch: &'m mut Watch,
    pub(crate) hart: usize,
    pub(crate) space: SpaceId,
    pub(crate) limits: Limits,
    pub(crate) clock: GuestClock<'m>,
    pub(crate) listener: Option<&'m mut (dyn Listener + 'static)>,
}

impl<'m> Door<'m> {
    /// True if the hart's core is out of order: whoever runs it opens a port that observes it.
    pub fn observes(&mut self) -> bool {
        self.hardware.cores[self.hart].timing.window().is_some()
    }

    /// Opens the port. Without shortcuts, every access goes through the caches.
    pub fn open<const SHORTCUTS: bool>(self) -> Port<'m, SHORTCUTS> {
        self.open_window()
    }

    /// The same for a core that is out of order, or not.
    pub fn open_window<const SHORTCUTS: bool, const WINDOW: bool>(
        self,
    ) -> Port<'m, SHORTCUTS, WINDOW> {
        let core = &mut self.hardware.cores[self.hart];
        let entries = core.lookaside.entries_mut();
        let core = &raw mut *core;
        let mut port = Port {
            hardware: self.hardware,
            design: self.design,
            kernel: self.kernel,
            watch: self.watch,
            hart: self.hart,
            space: self.space,
            limit_retired: 0,
            limits: self.limits,
            limit_now: 0,
            clock: self.clock,
            walked: Walks::new(self.walked),
            entries,
            core,
        };
        port.refresh_limit();
        port
    }
}

impl<const SHORTCUTS: bool, const WINDOW: bool> Port<'_, SHORTCUTS, WINDOW> {
    /// Stalls and newly scheduled events bring the limit nearer.
    #[inline]
    fn refresh_limit(&mut self) {
        let time = self.limits.time.min(self.hardware.next_event_time());
        if WINDOW {
            self.limit_now = time;
            return;
        }
        let retired = self.core().timing.retired_at(time);
        self.limit_retired = self.limits.instructions.min(retired);
    }

    #[inline]
    fn now(&mut self, retired: u64) -> Cycles {
        self.core().timing.now(retired)
    }

    /// Makes an access that lies within one line, through the caches, and lets the next ones hit if its
    /// mapping is write-back. A store has the number of its bytes and what it makes of them. Returns where
    /// the line is and when the access is done.
    #[inline(always)]
    fn reach(
        &mut self,
        address: u64,
        (physical, page): Place,
        retired: u64,
        stored: Option<Stored>,
    ) -> Result<(Slot, Cycles), Fault> {
        let write = stored.is_some();
        let access = if write { Access::Store } else { Access::Load };
        let mut page_writable = page.writable;
        if self.hardware.memory.map().is_device(physical) {
            return Err(self.refuse(address, access));
        }
        let line = line_of(physical);
        if self.watch.covers(address) {
            // Every store must come by here.
            page_writable = false;
            self.watch.hit |= write;
        }
        let mut now = self.made_at(retired);
        let (hardware, design, hart) = (&mut *self.hardware, &mut *self.design, self.hart);
        if WINDOW {
            now = hardware.may_miss(hart, line, now);
        }
        let (slot, ready) = match stored {
            Some((length, change)) => {
                let offset = (address & OFFSET_MASK) as usize;
                let change = (offset..offset + length, change);
                hardware.update(design, hart, line, change, now)
            }
            None => hardware.load(design, hart, line, now),
        };
        if self.core().ahead.is_some() {
            return self.stay_behind(address, access, now, ready);
        }
        let (hardware, design) = (&mut *self.hardware, &mut *self.design);
        if SHORTCUTS && page.memory_type == MemoryType::WriteBack {
            hardware.let_hit(design, hart, address, slot, page_writable);
        }
        Ok((slot, ready))
    }

    /// Where the line that came is of a newer epoch than the sharing group's (`Core::ahead`), the access is
    /// not made yet: it faults, the machine lets the sharing group advance, and the instruction runs again.
    #[cold]
    fn stay_behind<T>(
        &mut self,
        address: u64,
        access: Access,
        now: Cycles,
        ready: Cycles,
    ) -> Result<T, Fault> {
        let kind = match access {
            Access::Fetch => AccessKind::Fetch,
            // What the access waits for is the line's coming alone: nothing is stored.
            Access::Load | Access::Store => AccessKind::Load,
        };
        self.hardware.accessed(self.hart, kind, now, ready);
        Err(Fault { access, address })
    }

    #[cold]
    #[inline(never)]
    fn load_slow<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        if let Some(physical) = self.of_device::<T>(address, Access::Load)? {
            return Ok(self.load_device(physical, retired));
        }
        let offset = (address & OFFSET_MASK) as usize;
        let bytes = if offset + T::BYTES > LINE_BYTES {
            self.load_across(address, T::BYTES, retired)?
        } else {
            self.load_bytes(address, T::BYTES, retired)?
        };
        Ok(T::from_le(&bytes[..T::BYTES]))
    }

    #[cold]
    #[inline(never)]
    fn store_slow<T: Scalar>(&mut self, address: u64, value: T, retired: u64) -> Result<(), Fault> {
        if let Some(physical) = self.of_device::<T>(address, Access::Store)? {
            self.store_device(physical, value, retired);
            return Ok(());
        }
        let bytes = value.to_u64().to_le_bytes();
        self.store_pieces(address, &bytes[..T::BYTES], |port, address, bytes| {
            port.store_bytes(address, bytes, retired)
        })
    }
}

/// Where an access goes: the physical address, and its page.
type Place = (u64, Translation);

/// How many bytes a store writes, and what it makes of those that are there.
type Stored<'s> = (usize, &'s mut dyn FnMut(&mut [u8]));

impl<const SHORTCUTS: bool, const WINDOW: bool> Memory for Port<'_, SHORTCUTS, WINDOW> {
    type FetchHint = FetchHint;

    const OBSERVES: bool = WINDOW;
    const PAIRS: bool = SHORTCUTS && !WINDOW;
    const LAYOUT: Option<&'static Layout> = if SHORTCUTS && !WINDOW {
        Some(&direct::HITS)
    } else {
        None
    };

    #[inline(always)]
    fn direct(&mut self) -> Direct {
        let (entries, limit) = (self.entries, &raw const self.limit_retired);
        direct::of(self.core(), entries, limit)
    }

    #[inline(always)]
    fn begins(&mut self, observed: Observed, retired: u64) {
        let instruction = observed::instruction(observed);
        self.core().timing.begin(instruction, retired);
    }

    #[inline(always)]
    fn ends(&mut self, class: Class, behind: u64, target: Option<u64>) {
        if WINDOW {
            let work = observed::work(class);
            self.core().timing.end(work, behind, target);
        }
    }

    #[inline(always)]
    fn limit(&self) -> u64 {
        if WINDOW {
            let timing = &self.hardware.cores[self.hart].timing;
            return (timing.retired_before(self.limit_now)).min(self.limits.instructions);
        }
        self.limit_retired
    }

    #[inline(always)]
    fn load_hit<T: Scalar>(&mut self, address: u64, _retired: u64) -> Option<T> {
        if !SHORTCUTS {
            return None;
        }
        let tag = address & tag_mask(T::BYTES);
        // SAFETY: `entries` points to the `lookaside::ENTRIES` entries of this hart, which live as
        // long as the hardware that this port borrows; `entry_offset` stays within them. An entry whose
        // tag matches points to a line of 64 bytes and a stamp in this hart's L1D, and is killed
        // before either moves; the tag also says that the access is aligned and within the line.
        unsafe {
            let entry = &*self.entries.byte_add(entry_offset(address));
            if entry.read_tag != tag {
                return None;
            }
            let core = &mut *self.core;
            core.accesses += 1;
            *entry.stamp = core.accesses;
            let bytes = entry.bytes.add((address & OFFSET_MASK) as usize);
            if WINDOW {
                core.hit(address, T::BYTES, false);
            }
            Some(T::from_le(std::slice::from_raw_parts(bytes, T::BYTES)))
        }
    }

    #[inline(always)]
    fn store_hit<T: Scalar>(&mut self, address: u64, value: T, _retired: u64) -> bool {
        if !SHORTCUTS {
            return false;
        }
        let tag = address & tag_mask(T::BYTES);
        // SAFETY: as in `load_hit`; a matching write tag also means that the line is Modified and
        // carries the current version.
        unsafe {
            let entry = &*self.entries.byte_add(entry_offset(address));
            if entry.write_tag != tag {
                return false;
            }
            let core = &mut *self.core;
            core.accesses += 1;
            core.stores += 1;
            *entry.stamp = core.accesses;
            let bytes = entry.bytes.add((address & OFFSET_MASK) as usize);
            value.put_le(std::slice::from_raw_parts_mut(bytes, T::BYTES));
            if WINDOW {
                core.hit(address, T::BYTES, true);
            }
        }
        true
    }

    #[inline(always)]
    fn load<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        match self.load_hit(address, retired) {
            Some(value) => Ok(value),
            None => self.load_slow(address, retired),
        }
    }

    #[inline(always)]
    fn store<T: Scalar>(&mut self, address: u64, value: T, retired: u64) -> Result<(), Fault> {
        if self.store_hit(address, value, retired) {
            return Ok(());
        }
        self.store_slow(address, value, retired)
    }

    fn fetch(&mut self, pc: u64, retired: u64) -> Result<FetchedLine<'_, FetchHint>, Fault> {
        let (physical, _) = self.translate(pc, Access::Fetch)?;
        if self.hardware.memory.map().is_device(physical) {
            return Err(self.refuse(pc, Access::Fetch));
        }
        let line = line_of(physical);
        let now = self.now(retired);
        let (slot, ready) = self.hardware.fetch(self.design, self.hart, line, now);
        if self.hardware.cores[self.hart].ahead.is_some() {
            return self.stay_behind(pc, Access::Fetch, now, ready);
        }
        (self.hardware).accessed(self.hart, AccessKind::Fetch, now, ready);
        self.refresh_limit();
        Ok(FetchedLine {
            bytes: &self.hardware.cores[self.hart].l1i.data(slot).0,
            hint: FetchHint {
                slot: slot.0,
                word: self.hardware.code_word(self.hart, slot),
            },
        })
    }

    #[inline(always)]
    fn fetch_again(&mut self, _pc: u64, hint: FetchHint, _retired: u64) -> bool {
        let core = self.core();
        let hits = core.l1i.touch_if(Slot(hint.slot), hint.word);
        core.fetches += u64::from(hits);
        hits
    }

    fn load_reserved<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        let line = self.blocking(address, retired, None)?;
        let core = &mut self.hardware.cores[self.hart];
        core.reservation = Some(line);
        let slot = core.l1d.find(line).expect("it was loaded");
        let offset = (address & OFFSET_MASK) as usize;
        Ok(T::from_le(
            &core.l1d.data(slot).0[offset..offset + T::BYTES],
        ))
    }

    fn store_conditional<T: Scalar>(
        &mut self,
        address: u64,
        value: T,
        retired: u64,
    ) -> Result<bool, Fault> {
        let (physical, _) = self.translate(address, Access::Store)?;
        if self.hardware.cores[self.hart].reservation.take() != Some(line_of(physical)) {
            return Ok(false);
        }
        let mut change = |bytes: &mut [u8]| value.put_le(bytes);
        self.blocking(address, retired, Some((T::BYTES, &mut change)))?;
        Ok(true)
    }

    fn atomic<T: Scalar>(
        &mut self,
        operation: Amo,
        address: u64,
        operand: T,
        retired: u64,
    ) -> Result<T, Fault> {
        let mut old = T::from_u64(0);
        let mut change = |bytes: &mut [u8]| {
            old = T::from_le(bytes);
            operation.apply(old, operand).put_le(bytes);
        };
        self.blocking(address, retired, Some((T::BYTES, &mut change)))?;
        Ok(old)
    }

    fn cache_block(
        &mut self,
        operation: CacheBlock,
        address: u64,
        retired: u64,
    ) -> Result<(), Fault> {
        let address = address & !OFFSET_MASK;
        if operation == CacheBlock::Zero {
            self.store_bytes(address, &[0; LINE_BYTES], retired)?;
            self.refresh_limit();
            return Ok(());
        }
        // A program may always clean or flush what it may read.
        let (physical, _) = self.translate(address, Access::Load)?;
        let now = self.made_at(retired);
        if let Some(persist) = primitives::persist(operation, self.hart, line_of(physical)) {
            let ready = self.hardware.persist(self.design, &persist, now);
            (self.hardware).accessed(self.hart, AccessKind::Persist(persist.order), now, ready);
        }
        self.lets_others_catch_up();
        Ok(())
    }

    fn store_non_temporal(&mut self, address: u64, value: u64, retired: u64) -> Result<(), Fault> {
        if let Some(physical) = self.of_device::<u64>(address, Access::Store)? {
            self.store_device(physical, value, retired);
            return Ok(());
        }
        self.store_pieces(address, &value.to_le_bytes(), |port, address, bytes| {
            port.store_around(address, bytes, retired)
        })
    }

    fn barrier(&mut self, barrier: Barrier, retired: u64) {
        self.wait_for(primitives::barrier(barrier), retired);
    }

    fn fence(&mut self, predecessor: u8, _successor: u8, retired: u64) {
        self.wait_for(primitives::fence(predecessor), retired);
    }

    fn fence_instruction(&mut self, retired: u64) {
        self.wait_for(primitives::FENCE_INSTRUCTION, retired);
        self.hardware.flush_l1i(self.hart);
    }

    fn mark(&mut self, mark: Mark, retired: u64) -> Result<(), Fault> {
        self.says(mark, retired)
    }

    fn persistence(
        &mut self,
        function: u16,
        operands: [u64; 2],
        retired: u64,
    ) -> Result<Option<u64>, Fault> {
        self.instruct(function, operands, retired)
    }

    fn cycle(&self, retired: u64) -> u64 {
        if WINDOW {
            return self.hardware.cores[self.hart].timing.issued();
        }
        self.committed(retired)
    }

    fn committed(&self, retired: u64) -> u64 {
        self.hardware.cores[self.hart].timing.now(retired)
    }

    fn time(&self, retired: u64) -> u64 {
        (self.clock)(retired)
    }
}
