//! How the hart reaches memory: [`perdure_riscv::Memory`] over two arenas.
//!
//! Always true here: what is looked up quickly was translated by the kernel and has not changed since; the
//! watcher sees every access to persistent memory.

use std::ops::Range;

use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, Line, cut_at, pieces};
use perdure_linux::{Kernel, MemoryType, PAGE_BYTES, SpaceId};
use perdure_riscv::{
    Access, Amo, Barrier, CacheBlock, Fault, FetchedLine, Mark, Memory, Scalar, offset_behind,
};

use super::calls::{Arrival, Calls};
use super::{At, Flush, Wait, Watcher};
use crate::error::Error;
use crate::pools::Survived;
use crate::wholes::pieces_of;

const LINE: u64 = LINE_BYTES as u64;
/// Translations that are remembered.
const ENTRIES: usize = 512;
/// What persistent memory keeps as a whole.
pub const ATOM_BYTES: u64 = 8;

/// Persistent memory. A copy shares all bytes until one of the two writes.
#[derive(Clone)]
pub struct Pool {
    start: u64,
    bytes: Arena,
}

impl Pool {
    /// These bytes, from that physical address on.
    pub(crate) fn new(start: u64, bytes: Arena) -> Self {
        Self { start, bytes }
    }

    /// Physical addresses.
    pub fn addresses(&self) -> Range<u64> {
        self.start..self.start + self.bytes.len()
    }

    /// How far a physical address lies behind the start, if it is one of these.
    #[inline(always)]
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let offset = address.wrapping_sub(self.start);
        (offset < self.bytes.len()).then_some(offset)
    }

    /// The line at a physical address.
    pub fn line(&self, address: u64) -> &Line {
        self.bytes.line((address & !(LINE - 1)) - self.start)
    }

    /// Writes bytes at a physical address.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        self.bytes.write(address - self.start, bytes);
    }

    /// Reads bytes at a physical address.
    pub fn read(&self, address: u64, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.bytes.slice(address - self.start, buffer.len()));
    }

    /// The pools that it has, with its bytes.
    pub fn survived(&self) -> Result<Survived, Error> {
        let addresses = self.addresses();
        Survived::of(self.memory(addresses.end)?, &addresses)
    }

    /// So many bytes of memory with these in it.
    pub fn memory(&self, bytes: u64) -> Result<Arena, Error> {
        let mut memory = super::reserve(bytes)?;
        for page in self.bytes.written_pages() {
            let bytes = self.bytes.slice(page, PAGE_BYTES as usize);
            memory.write(self.start + page, &bytes);
        }
        Ok(memory)
    }

    /// A digest of bytes.
    pub fn digest(&self, addresses: Range<u64>) -> u128 {
        let start = (addresses.start & !(LINE - 1)) - self.start;
        let end = addresses.end.next_multiple_of(LINE) - self.start;
        self.bytes.compute_digest(start..end).0
    }
}

/// When instructions were fetched: what was decoded then is good as long as this is the same.
pub type Hint = (u64, u32);

#[derive(Clone, Copy, Default)]
struct Entry {
    /// Page and space, and a bit so that 0 is none.
    tag: u64,
    physical: u64,
    writable: bool,
    is_pool: bool,
    /// Its memory type sends every store to memory.
    sends: bool,
}

/// What is remembered of translations, and of code.
#[derive(Clone)]
pub struct Lookaside {
    entries: Vec<Entry>,
    /// Counts changes of code, over all machines that came from one: what one machine has decoded is never
    /// taken for another one's.
    pub(super) code: u64,
    pub(super) reservation: Option<u64>,
}

impl Default for Lookaside {
    fn default() -> Self {
        Self {
            entries: vec![Entry::default(); ENTRIES],
            code: next_code(),
            reservation: None,
        }
    }
}

/// A number that nobody else has. It is compared and never shown.
pub(super) fn next_code() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Lookaside {
    /// Nothing of translations is known any more.
    pub(super) fn forget(&mut self) {
        self.entries.fill(Entry::default());
    }

    #[inline(always)]
    fn find(&self, space: SpaceId, address: u64) -> Option<Entry> {
        let entry = self.entries[(address / PAGE_BYTES) as usize % ENTRIES];
        (entry.tag == tag_of(space, address)).then_some(entry)
    }
}

#[inline(always)]
fn tag_of(space: SpaceId, address: u64) -> u64 {
    (address & !(PAGE_BYTES - 1)) << 12 ^ u64::from(space.0) << 1 | 1
}

/// The hart's door while it runs.
pub struct Door<'m, W> {
    pub(super) kernel: &'m Kernel,
    pub(super) memory: &'m mut Arena,
    pub(super) pool: &'m mut Pool,
    pub(super) lookaside: &'m mut Lookaside,
    pub(super) space: SpaceId,
    pub(super) limit: u64,
    pub(super) skipped_ns: u64,
    pub(super) stores_left: &'m mut u64,
    pub(super) at: At,
    /// The watcher did not let an access happen.
    pub(super) refused: bool,
    /// It wants to look soon.
    pub(super) pauses: bool,
    /// Operations may have to wait before they begin.
    pub(super) gathers: bool,
    pub(super) calls: &'m Calls,
    /// The hart is where a call of these begins or is over.
    pub(super) arrival: Option<Arrival>,
    /// What the program has said of an operation, which is still to be told.
    pub(super) mark: Option<(Mark, At)>,
    pub(super) watcher: &'m mut W,
}

impl<W: Watcher> Door<'_, W> {
    fn translate(&mut self, address: u64, access: Access) -> Result<(u64, bool), Fault> {
        if let Some(entry) = self.lookaside.find(self.space, address)
            && (access == Access::Load || entry.writable && access == Access::Store)
        {
            return Ok((entry.physical + address % PAGE_BYTES, entry.is_pool));
        }
        let page = self.kernel.translate(self.space, address, access);
        let page = page.ok_or(Fault { access, address })?;
        let physical = page.physical_frame * PAGE_BYTES;
        let is_pool = self.pool.offset_of(physical).is_some();
        let readable = access == Access::Load
            || self
                .kernel
                .translate(self.space, address, Access::Load)
                .is_some();
        if readable && access != Access::Fetch {
            let place = (address / PAGE_BYTES) as usize % ENTRIES;
            self.lookaside.entries[place] = Entry {
                tag: tag_of(self.space, address),
                physical,
                writable: page.writable,
                is_pool,
                sends: page.memory_type != MemoryType::WriteBack,
            };
        }
        Ok((physical + address % PAGE_BYTES, is_pool))
    }

    /// Whether a store to an address that was translated goes on to memory, because of its memory type.
    fn sends(&self, address: u64) -> bool {
        self.lookaside.find(self.space, address).map_or_else(
            || {
                let page = self.kernel.translate(self.space, address, Access::Store);
                page.is_some_and(|page| page.memory_type != MemoryType::WriteBack)
            },
            |entry| entry.sends,
        )
    }

    /// What an access gets that the watcher does not let happen.
    fn refuse<T>(&mut self, address: u64, access: Access) -> Result<T, Fault> {
        self.refused = true;
        Err(Fault { access, address })
    }

    /// A block begins, or the second half of an instruction that begins one is fetched.
    #[inline(always)]
    fn begins_block(&mut self, pc: u64, retired: u64) {
        let is_second_half = pc == self.at.pc.wrapping_add(2) && retired == self.at.retired;
        if W::LOCATES && !is_second_half {
            (self.at.pc, self.at.retired) = (pc, retired);
        }
    }

    /// Who makes an access, and where: instructions of a block lie behind each other in one line.
    fn at(&self, retired: u64) -> At {
        let mut at = At { retired, ..self.at };
        if W::LOCATES && retired > self.at.retired {
            at.pc += self.length_of_code(at.pc, retired - self.at.retired);
        }
        at
    }

    /// How many bytes so many instructions take.
    fn length_of_code(&self, pc: u64, instructions: u64) -> u64 {
        let Some(page) = self.kernel.translate(self.space, pc, Access::Fetch) else {
            return 0;
        };
        let line = (page.physical_frame * PAGE_BYTES + pc % PAGE_BYTES) & !(LINE - 1);
        let line = match self.pool.offset_of(line) {
            Some(_) => self.pool.line(line),
            None => self.memory.line(line),
        };
        let start = (pc % LINE) as usize;
        let behind = offset_behind(&line.0, start, instructions);
        behind.map_or(0, |place| (place - start) as u64)
    }

    fn load_bytes(&mut self, address: u64, buffer: &mut [u8]) -> Result<(), Fault> {
        for (at, piece) in pieces(address, buffer.len()) {
            let (physical, is_pool) = self.translate(at, Access::Load)?;
            let buffer = &mut buffer[piece];
            if !is_pool {
                buffer.copy_from_slice(&self.memory.slice(physical, buffer.len()));
            } else if self.watcher.loads(self.pool, physical, buffer.len()) {
                self.pool.read(physical, buffer);
            } else {
                return self.refuse(at, Access::Load);
            }
        }
        Ok(())
    }

    fn store_bytes(&mut self, address: u64, bytes: &[u8], retired: u64) -> Result<(), Fault> {
        // An instruction that faults has changed nothing.
        for (at, _) in cut_at(PAGE_BYTES, address, bytes.len()) {
            self.translate(at, Access::Store)?;
        }
        for (place, piece) in cut_at(ATOM_BYTES, address, bytes.len()) {
            let (physical, is_pool) = self.translate(place, Access::Store)?;
            let bytes = &bytes[piece];
            if is_pool {
                let at = self.at(retired);
                self.watcher.stores(self.pool, physical, bytes, &at);
                self.pool.write(physical, bytes);
                *self.stores_left = self.stores_left.saturating_sub(1);
                if self.sends(place) {
                    let line = physical & !(LINE - 1);
                    self.pauses |= !self.watcher.flushes(line, Flush::MemoryType, &at);
                }
            } else {
                self.memory.write(physical, bytes);
            }
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn load_slow<T: Scalar>(&mut self, address: u64) -> Result<T, Fault> {
        let mut bytes = [0; 8];
        self.load_bytes(address, &mut bytes[..T::BYTES])?;
        Ok(T::from_le(&bytes[..T::BYTES]))
    }

    fn wait(&mut self, wait: Wait, retired: u64) {
        let at = self.at(retired);
        self.pauses |= !self.watcher.fences(wait, &at);
    }

    /// An atomic access waits for what is before it, if it does not fault.
    fn waits(&mut self, address: u64, access: Access, retired: u64) -> Result<(), Fault> {
        self.translate(address, access)?;
        self.wait(Wait::Atomic, retired);
        Ok(())
    }
}

impl<W: Watcher> Memory for Door<'_, W> {
    type FetchHint = Hint;

    #[inline(always)]
    fn limit(&self) -> u64 {
        let happens = self.arrival.is_some() || self.mark.is_some();
        let is_over = self.pauses || happens || *self.stores_left == 0;
        if is_over { 0 } else { self.limit }
    }

    #[inline(always)]
    fn load_hit<T: Scalar>(&mut self, address: u64, _: u64) -> Option<T> {
        let entry = self.lookaside.find(self.space, address)?;
        let offset = (address % LINE) as usize;
        if entry.is_pool || offset + T::BYTES > LINE_BYTES {
            return None;
        }
        let line = entry.physical + ((address % PAGE_BYTES) & !(LINE - 1));
        Some(T::from_le(
            &self.memory.line(line).0[offset..offset + T::BYTES],
        ))
    }

    #[inline(always)]
    fn store_hit<T: Scalar>(&mut self, address: u64, value: T, _: u64) -> bool {
        let Some(entry) = self.lookaside.find(self.space, address) else {
            return false;
        };
        let inside = address % PAGE_BYTES + T::BYTES as u64 <= PAGE_BYTES;
        if entry.is_pool || !entry.writable || !inside {
            return false;
        }
        let bytes = value.to_u64().to_le_bytes();
        (self.memory).write(entry.physical + address % PAGE_BYTES, &bytes[..T::BYTES]);
        true
    }

    #[inline(always)]
    fn load<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        match self.load_hit(address, retired) {
            Some(value) => Ok(value),
            None => self.load_slow(address),
        }
    }

    fn store<T: Scalar>(&mut self, address: u64, value: T, retired: u64) -> Result<(), Fault> {
        if self.store_hit(address, value, retired) {
            return Ok(());
        }
        let bytes = value.to_u64().to_le_bytes();
        self.store_bytes(address, &bytes[..T::BYTES], retired)
    }

    fn fetch(&mut self, pc: u64, retired: u64) -> Result<FetchedLine<'_, Hint>, Fault> {
        self.begins_block(pc, retired);
        let (physical, is_pool) = self.translate(pc, Access::Fetch)?;
        let bytes = if is_pool {
            &self.pool.line(physical).0
        } else {
            &self.memory.line(physical & !(LINE - 1)).0
        };
        let hint = (self.lookaside.code, self.space.0);
        Ok(FetchedLine { bytes, hint })
    }

    #[inline(always)]
    fn fetch_again(&mut self, pc: u64, hint: Hint, retired: u64) -> bool {
        self.begins_block(pc, retired);
        hint == (self.lookaside.code, self.space.0)
    }

    fn load_reserved<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        self.waits(address, Access::Load, retired)?;
        let value = self.load(address, retired)?;
        let (physical, _) = self.translate(address, Access::Load)?;
        self.lookaside.reservation = Some(physical / LINE);
        Ok(value)
    }

    fn store_conditional<T: Scalar>(
        &mut self,
        address: u64,
        value: T,
        retired: u64,
    ) -> Result<bool, Fault> {
        self.waits(address, Access::Store, retired)?;
        let (physical, _) = self.translate(address, Access::Store)?;
        let stands = self.lookaside.reservation.take() == Some(physical / LINE);
        if stands {
            self.store(address, value, retired)?;
        }
        Ok(stands)
    }

    fn atomic<T: Scalar>(
        &mut self,
        operation: Amo,
        address: u64,
        operand: T,
        retired: u64,
    ) -> Result<T, Fault> {
        self.waits(address, Access::Store, retired)?;
        let old: T = self.load(address, retired)?;
        self.store(address, operation.apply(old, operand), retired)?;
        Ok(old)
    }

    fn cache_block(
        &mut self,
        operation: CacheBlock,
        address: u64,
        retired: u64,
    ) -> Result<(), Fault> {
        let address = address & !(LINE - 1);
        if operation == CacheBlock::Zero {
            return self.store_bytes(address, &[0; LINE_BYTES], retired);
        }
        let (physical, is_pool) = self.translate(address, Access::Load)?;
        if is_pool {
            let at = self.at(retired);
            self.pauses |= !(self.watcher).flushes(physical, Flush::Instruction(operation), &at);
        }
        Ok(())
    }

    fn store_non_temporal(&mut self, address: u64, value: u64, retired: u64) -> Result<(), Fault> {
        self.store_bytes(address, &value.to_le_bytes(), retired)?;
        for (at, _) in pieces(address, 8) {
            let (physical, is_pool) = self.translate(at, Access::Store)?;
            if is_pool {
                let at = self.at(retired);
                let line = physical & !(LINE - 1);
                self.pauses |= !self.watcher.flushes(line, Flush::NonTemporal, &at);
            }
        }
        Ok(())
    }

    fn barrier(&mut self, barrier: Barrier, retired: u64) {
        self.wait(Wait::Barrier(barrier), retired);
    }

    fn fence(&mut self, predecessor: u8, successor: u8, retired: u64) {
        self.wait(Wait::Fence(predecessor, successor), retired);
    }

    fn fence_instruction(&mut self, _: u64) {
        self.lookaside.code = next_code();
    }

    fn mark(&mut self, mark: Mark, retired: u64) -> Result<(), Fault> {
        let at = self.at(retired);
        let is_operation = !matches!(mark, Mark::Atomic { .. });
        // Who names functions knows better.
        if is_operation && !self.calls.is_empty() {
            return Ok(());
        }
        if is_operation && self.gathers {
            self.mark = Some((mark, at));
            return Ok(());
        }
        let whole = pieces_of(mark, self.kernel, self.space, |address| {
            Ok(self.translate(address, Access::Load)?.0)
        })?;
        self.pauses |= !self.watcher.marks(self.pool, mark, &whole, &at);
        Ok(())
    }

    fn persistence(&mut self, _: u16, _: [u64; 2], _: u64) -> Result<Option<u64>, Fault> {
        Ok(None)
    }

    fn cycle(&self, retired: u64) -> u64 {
        retired + self.skipped_ns
    }

    fn time(&self, retired: u64) -> u64 {
        retired + self.skipped_ns
    }
}
