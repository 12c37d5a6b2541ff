//! A memory with a small table of hits in front of a data cache's stamps, and a small instruction cache, both
//! laid open ([`Layout`]): whoever makes hits by code of its own must leave everything as who asks does.
//!
//! What only a miss does, it does by the address alone: it stalls (lowers the limit), takes lines out of the
//! instruction cache, and lets stores to some lines never hit. One miss in 61 is refused, and made again.

use perdure_riscv::{Access, Amo, CacheBlock, Direct, Fault, FetchedLine, Layout, Memory, Scalar};
use std::mem::offset_of;

pub const BASE: u64 = 0x10000;
const LINE: u64 = 64;
const ENTRIES: usize = 8;
const LINES_FETCHED: usize = 16;
const NEVER: u64 = u64::MAX;
const SHIFTS: [u32; 3] = [6, 14, 23];

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Entry {
    read_tag: u64,
    write_tag: u64,
    bytes: *mut u8,
    stamp: *mut u64,
}

const EMPTY: Entry = Entry {
    read_tag: NEVER,
    write_tag: NEVER,
    bytes: std::ptr::null_mut(),
    stamp: std::ptr::null_mut(),
};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Hint {
    word: u64,
    slot: u32,
}

const LAYOUT: Layout = Layout {
    index_shifts: SHIFTS,
    entries: ENTRIES as u64,
    entry_bytes: size_of::<Entry>() as u64,
    read_tag: offset_of!(Entry, read_tag),
    write_tag: offset_of!(Entry, write_tag),
    bytes: offset_of!(Entry, bytes),
    stamp: offset_of!(Entry, stamp),
    hint_slot: offset_of!(Hint, slot),
    hint_word: offset_of!(Hint, word),
    record_bytes: 16,
    record_stamp: 8,
};

/// What is left of a run, beside the hart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub bytes: Vec<u8>,
    /// By line: the time of last use.
    pub stamps: Vec<u64>,
    pub accesses: u64,
    pub stores: u64,
    pub records: Vec<[u64; 2]>,
    pub uses: u64,
    pub fetches: u64,
    pub misses: u64,
}

pub struct Hitting {
    entries: Box<[Entry; ENTRIES]>,
    left: Box<Left>,
    code: Vec<[u8; LINE as usize]>,
    /// How often the instruction cache was emptied.
    generation: u64,
    pub limit: Box<u64>,
    reservation: Option<u64>,
}

fn index_of(address: u64) -> usize {
    let [first, second, third] = SHIFTS.map(|shift| address >> shift);
    (first ^ second ^ third) as usize % ENTRIES
}

impl Hitting {
    pub fn new(bytes: Vec<u8>, limit: u64) -> Self {
        let lines = bytes.len() / LINE as usize;
        Self {
            entries: Box::new([EMPTY; ENTRIES]),
            left: Box::new(Left {
                bytes,
                stamps: vec![0; lines],
                accesses: 0,
                stores: 0,
                records: vec![[NEVER << 24, 0]; LINES_FETCHED],
                uses: 0,
                fetches: 0,
                misses: 0,
            }),
            code: vec![[0; LINE as usize]; LINES_FETCHED],
            generation: 0,
            limit: Box::new(limit),
            reservation: None,
        }
    }

    pub fn left(self) -> Left {
        *self.left
    }

    /// An access that an entry answers.
    fn hit(&mut self, address: u64, bytes: usize, store: bool) -> Option<*mut u8> {
        let entry = self.entries[index_of(address)];
        let tag = if store {
            entry.write_tag
        } else {
            entry.read_tag
        };
        if tag != address & Layout::tag_mask(bytes as u64) {
            return None;
        }
        self.left.accesses += 1;
        self.left.stores += u64::from(store);
        // SAFETY: an entry points to a line's bytes and stamp, which stay where they are.
        unsafe {
            *entry.stamp = self.left.accesses;
            Some(entry.bytes.add((address % LINE) as usize))
        }
    }

    /// An access within a line that no entry answers.
    fn miss(&mut self, address: u64, store: bool) -> Result<(), Fault> {
        let access = if store { Access::Store } else { Access::Load };
        let offset = address.wrapping_sub(BASE);
        let left = &mut *self.left;
        left.misses += 1;
        let refused = left.misses.is_multiple_of(61);
        if refused || offset >= left.bytes.len() as u64 {
            return Err(Fault { access, address });
        }
        left.accesses += 1;
        left.stores += u64::from(store);
        let line = (offset / LINE) as usize;
        left.stamps[line] = left.accesses;
        if address.is_multiple_of(13) {
            *self.limit = self.limit.saturating_sub(3);
        }
        if address.is_multiple_of(17) {
            left.records[address as usize % LINES_FETCHED][0] = NEVER << 24;
        }
        let tag = address & !(LINE - 1);
        self.entries[index_of(address)] = Entry {
            read_tag: tag,
            write_tag: if store && !line.is_multiple_of(5) {
                tag
            } else {
                NEVER
            },
            bytes: &raw mut left.bytes[line * LINE as usize],
            stamp: &raw mut left.stamps[line],
        };
        Ok(())
    }

    /// The bytes of an access, which may lie in two lines.
    fn place(&mut self, address: u64, bytes: usize, store: bool) -> Result<usize, Fault> {
        if self.hit(address, bytes, store).is_none() {
            self.miss(address, store)?;
            let last = address.wrapping_add(bytes as u64 - 1);
            if last / LINE != address / LINE {
                self.miss(last, store)?;
            }
        }
        Ok((address - BASE) as usize)
    }

    fn fetched(&mut self, slot: usize, word: u64) -> bool {
        let left = &mut *self.left;
        let hits = left.records[slot][0] == word;
        if hits {
            left.uses += 1;
            left.fetches += 1;
            left.records[slot][1] = left.uses;
        }
        hits
    }
}

impl Memory for Hitting {
    type FetchHint = Hint;
    const LAYOUT: Option<&'static Layout> = Some(&LAYOUT);

    fn direct(&mut self) -> Direct {
        Direct {
            entries: self.entries.as_mut_ptr().cast(),
            accesses: &raw mut self.left.accesses,
            stores: &raw mut self.left.stores,
            records: self.left.records.as_mut_ptr().cast(),
            uses: &raw mut self.left.uses,
            fetches: &raw mut self.left.fetches,
            limit: &raw const *self.limit,
        }
    }

    fn limit(&self) -> u64 {
        *self.limit
    }

    fn load<T: Scalar>(&mut self, address: u64, _: u64) -> Result<T, Fault> {
        let place = self.place(address, T::BYTES, false)?;
        Ok(T::from_le(&self.left.bytes[place..place + T::BYTES]))
    }

    fn store<T: Scalar>(&mut self, address: u64, value: T, _: u64) -> Result<(), Fault> {
        let place = self.place(address, T::BYTES, true)?;
        value.put_le(&mut self.left.bytes[place..place + T::BYTES]);
        Ok(())
    }

    fn fetch(&mut self, pc: u64, _: u64) -> Result<FetchedLine<'_, Hint>, Fault> {
        let offset = pc.wrapping_sub(BASE);
        if offset >= self.left.bytes.len() as u64 {
            let access = Access::Fetch;
            return Err(Fault {
                access,
                address: pc,
            });
        }
        let line = pc / LINE;
        let slot = line as usize % LINES_FETCHED;
        let word = line << 24 | self.generation;
        if !self.fetched(slot, word) {
            let place = (offset & !(LINE - 1)) as usize;
            let bytes = &self.left.bytes[place..place + LINE as usize];
            self.code[slot].copy_from_slice(bytes);
            self.left.records[slot][0] = word;
            assert!(self.fetched(slot, word));
        }
        let slot32 = slot as u32;
        Ok(FetchedLine {
            bytes: &self.code[slot],
            hint: Hint { word, slot: slot32 },
        })
    }

    fn fetch_again(&mut self, _: u64, hint: Hint, _: u64) -> bool {
        self.fetched(hint.slot as usize, hint.word)
    }

    fn load_reserved<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        let value = self.load(address, retired)?;
        self.reservation = Some(address / LINE);
        Ok(value)
    }

    fn store_conditional<T: Scalar>(
        &mut self,
        address: u64,
        value: T,
        retired: u64,
    ) -> Result<bool, Fault> {
        let stands = self.reservation.take() == Some(address / LINE);
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
        let old: T = self.load(address, retired)?;
        self.store(address, operation.apply(old, operand), retired)?;
        Ok(old)
    }

    fn cache_block(&mut self, _: CacheBlock, address: u64, _: u64) -> Result<(), Fault> {
        self.miss(address, true)
    }

    fn fence(&mut self, _: u8, _: u8, _: u64) {}

    fn fence_instruction(&mut self, _: u64) {
        for record in &mut self.left.records {
            record[0] = NEVER << 24;
        }
        self.generation += 1;
    }

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
