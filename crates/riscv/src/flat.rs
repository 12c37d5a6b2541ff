//! Memory without caches, translation or time: one range of bytes. For tests, examples, and
//! whoever wants to run bare code.
//!
//! A store to code is seen by the next block. One hart only: a reservation is lost by SC alone.

use crate::memory::{Access, Amo, CacheBlock, Fault, FetchedLine, Memory, Scalar};
use std::ops::Range;

const LINE_BYTES: u64 = 64;

/// One range of bytes; an access outside it faults.
#[derive(Clone, Debug)]
pub struct FlatMemory {
    base: u64,
    bytes: Vec<u8>,
    /// See [`Memory::limit`].
    pub limit: u64,
    /// The smallest range that holds every line fetched so far.
    code: Range<u64>,
    /// Counts stores to `code`: what was fetched before the last one may have changed.
    generation: u64,
    reservation: Option<u64>,
}

impl FlatMemory {
    /// `length` zero bytes from `base` upwards, both multiples of 64, and no limit.
    ///
    /// # Panics
    /// If they are not, or if the range ends beyond the address space.
    pub fn new(base: u64, length: usize) -> Self {
        let aligned = base.is_multiple_of(LINE_BYTES) && (length as u64).is_multiple_of(LINE_BYTES);
        assert!(
            aligned,
            "flat memory: {base:#x} + {length:#x} is not made of 64-byte lines"
        );
        assert!(
            base.checked_add(length as u64).is_some(),
            "flat memory: ends beyond 2^64"
        );
        Self {
            base,
            bytes: vec![0; length],
            limit: u64::MAX,
            code: u64::MAX..u64::MAX,
            generation: 1,
            reservation: None,
        }
    }

    /// All bytes, from the base upwards.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All bytes, to be changed while no hart runs.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.generation += 1;
        &mut self.bytes
    }

    #[inline(always)]
    fn place(&self, address: u64, length: usize, access: Access) -> Result<usize, Fault> {
        let offset = address.wrapping_sub(self.base);
        if offset <= (self.bytes.len() as u64).saturating_sub(length as u64) {
            Ok(offset as usize)
        } else {
            Err(self.fault(address, access))
        }
    }

    /// The first byte from `address` upwards that is outside.
    #[cold]
    fn fault(&self, address: u64, access: Access) -> Fault {
        let end = self.base + self.bytes.len() as u64;
        let inside = (self.base..end).contains(&address);
        Fault {
            access,
            address: if inside { end } else { address },
        }
    }

    #[inline(always)]
    fn note_store(&mut self, address: u64) {
        // Eight bytes may reach into the code from below.
        let reach = address.wrapping_add(7);
        if reach >= self.code.start && address < self.code.end {
            self.generation += 1;
        }
    }
}

impl Memory for FlatMemory {
    type FetchHint = u64;

    const PAIRS: bool = true;

    #[inline(always)]
    fn limit(&self) -> u64 {
        self.limit
    }

    #[inline(always)]
    fn load<T: Scalar>(&mut self, address: u64, _retired: u64) -> Result<T, Fault> {
        let place = self.place(address, T::BYTES, Access::Load)?;
        Ok(T::from_le(&self.bytes[place..place + T::BYTES]))
    }

    #[inline(always)]
    fn store<T: Scalar>(&mut self, address: u64, value: T, _retired: u64) -> Result<(), Fault> {
        let place = self.place(address, T::BYTES, Access::Store)?;
        let bytes = value.to_u64().to_le_bytes();
        self.bytes[place..place + T::BYTES].copy_from_slice(&bytes[..T::BYTES]);
        self.note_store(address);
        Ok(())
    }

    #[inline(always)]
    fn load_hit<T: Scalar>(&mut self, address: u64, retired: u64) -> Option<T> {
        self.load(address, retired).ok()
    }

    #[inline(always)]
    fn store_hit<T: Scalar>(&mut self, address: u64, value: T, retired: u64) -> bool {
        self.store(address, value, retired).is_ok()
    }

    fn fetch(&mut self, pc: u64, _retired: u64) -> Result<FetchedLine<'_, u64>, Fault> {
        let line = pc & !(LINE_BYTES - 1);
        let place = self
            .place(line, LINE_BYTES as usize, Access::Fetch)
            .map_err(|fault| Fault {
                address: pc,
                ..fault
            })?;
        let fetched = line..line + LINE_BYTES;
        self.code = if self.code.is_empty() {
            fetched
        } else {
            self.code.start.min(fetched.start)..self.code.end.max(fetched.end)
        };
        let bytes = self.bytes[place..].first_chunk();
        Ok(FetchedLine {
            bytes: bytes.expect("a line has its place"),
            hint: self.generation,
        })
    }

    #[inline(always)]
    fn fetch_again(&mut self, _pc: u64, hint: u64, _retired: u64) -> bool {
        hint == self.generation
    }

    fn load_reserved<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        let value = self.load(address, retired)?;
        self.reservation = Some(address / LINE_BYTES);
        Ok(value)
    }

    fn store_conditional<T: Scalar>(
        &mut self,
        address: u64,
        value: T,
        retired: u64,
    ) -> Result<bool, Fault> {
        self.place(address, T::BYTES, Access::Store)?;
        let stands = self.reservation.take() == Some(address / LINE_BYTES);
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
        let place = self.place(address, T::BYTES, Access::Store)?;
        let old = T::from_le(&self.bytes[place..place + T::BYTES]);
        self.store(address, operation.apply(old, operand), retired)?;
        Ok(old)
    }

    fn cache_block(
        &mut self,
        operation: CacheBlock,
        address: u64,
        _retired: u64,
    ) -> Result<(), Fault> {
        let line = address & !(LINE_BYTES - 1);
        let place = self
            .place(line, LINE_BYTES as usize, Access::Store)
            .map_err(|fault| Fault { address, ..fault })?;
        if operation == CacheBlock::Zero {
            self.bytes[place..place + LINE_BYTES as usize].fill(0);
            self.note_store(line);
        }
        Ok(())
    }

    fn fence(&mut self, _predecessor: u8, _successor: u8, _retired: u64) {}

    fn fence_instruction(&mut self, _retired: u64) {}

    fn persistence(&mut self, _: u16, _: [u64; 2], _: u64) -> Result<Option<u64>, Fault> {
        Ok(None)
    }

    fn cycle(&self, retired: u64) -> u64 {
        retired
    }

    fn time(&self, retired: u64) -> u64 {
        retired
    }
}
