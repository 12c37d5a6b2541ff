//! Host memory that copies share until one of them writes: what makes a fork of the machine cheap.
//!
//! Bytes lie in chunks, which are shared and copied; what was written is known by the page. Chunks are
//! large, so that the list of them stays in the host's caches: at 4 KiB, random accesses to 160 MB were
//! 6 % slower.
//!
//! Always true here:
//! - A page that was never written is zero. A chunk of such pages takes no memory of the host's.
//! - A bit in [`Directory::owned`] says that the directory belongs to one [`Pages`] only, and the page's
//!   chunk to that directory only. Bytes change under such a bit and no other way. [`Pages::clone`] takes
//!   all bits away, and the first write to a chunk afterwards copies it, or finds that the others are gone.
//! - A read asks nobody; a write to a page that is owned tests one bit.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::line::Line;
use crate::slab::Slab;

/// Granularity at which it is known what was written.
pub const PAGE_BYTES: usize = 4096;
/// What a first write copies.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks of one directory, and pages of one.
const CHUNKS: usize = 512;
const PAGES: usize = CHUNKS * CHUNK_BYTES / PAGE_BYTES;
/// Most bytes that are asked of the host at once.
const SLAB_BYTES: usize = 64 << 20;
/// Who has taken so many needs more, and memory is made ready ahead.
const MUCH_BYTES: usize = 16 << 20;

/// What a chunk that was never written shows.
#[repr(align(4096))]
struct Zero([u8; CHUNK_BYTES]);
static ZERO: Zero = Zero([0; CHUNK_BYTES]);

/// Bytes of all chunks of all arrays.
static IN_USE: AtomicU64 = AtomicU64::new(0);

/// What all arrays of this process take of the host's memory; what copies share counts once.
pub fn bytes_in_use() -> u64 {
    IN_USE.load(Relaxed)
}

/// A sparse array of bytes.
#[derive(Debug)]
pub(crate) struct Pages {
    length: usize,
    directories: Vec<Option<Arc<Directory>>>,
    pool: Arc<Pool>,
}

#[derive(Debug)]
struct Directory {
    /// Where each chunk's bytes are, for whoever reads.
    bytes: [*mut u8; CHUNKS],
    /// What keeps them there.
    chunks: [Option<Arc<Chunk>>; CHUNKS],
    /// A bit for each page: it may be written to without asking.
    owned: [AtomicU64; PAGES / 64],
    /// A bit for each page: it was ever written.
    written: [u64; PAGES / 64],
}

/// A chunk's place, which goes back to the pool with its last owner.
#[derive(Debug)]
struct Chunk {
    bytes: NonNull<u8>,
    pool: Arc<Pool>,
}

/// Where the chunks of an array and of all its copies come from.
#[derive(Debug)]
struct Pool {
    slab_bytes: usize,
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    /// Where chunks are; only the last one has some that nobody had yet.
    slabs: Vec<Slab>,
    /// Chunks that were given back, with anything in them.
    returned: Vec<NonNull<u8>>,
}

// SAFETY: a directory's pointers are to chunks that it keeps alive, or to the zero one. They are written
// through only under `&mut Pages` by a sole owner, so what several threads share is only read.
unsafe impl Send for Directory {}
// SAFETY: as above.
unsafe impl Sync for Directory {}
// SAFETY: a chunk is a place that nobody else has; who may write there is said in `Directory`.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}
// SAFETY: chunks that were given back belong to nobody.
unsafe impl Send for Free {}

impl Directory {
    fn new() -> Self {
        Self {
            bytes: [ZERO.0.as_ptr().cast_mut(); CHUNKS],
            chunks: [const { None }; CHUNKS],
            owned: [const { AtomicU64::new(0) }; PAGES / 64],
            written: [0; PAGES / 64],
        }
    }

    #[inline(always)]
    fn owns(&self, page: usize) -> bool {
        self.owned[page / 64].load(Relaxed) >> (page % 64) & 1 != 0
    }
}

impl Clone for Directory {
    /// Shares every chunk.
    fn clone(&self) -> Self {
        Self {
            bytes: self.bytes,
            chunks: self.chunks.clone(),
            owned: [const { AtomicU64::new(0) }; PAGES / 64],
            written: self.written,
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        IN_USE.fetch_sub(CHUNK_BYTES as u64, Relaxed);
        self.pool.free().returned.push(self.bytes);
    }
}

impl Pool {
    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chunk that is zero, or like another one.
    fn chunk(self: &Arc<Self>, like: Option<&Chunk>) -> Chunk {
        let (bytes, fresh) = self.free().take(self.slab_bytes);
        match like {
            // SAFETY: both are whole chunks, and the new one is nobody else's.
            Some(like) => unsafe { bytes.copy_from_nonoverlapping(like.bytes, CHUNK_BYTES) },
            None if fresh => {}
            // SAFETY: a whole chunk that is nobody else's.
            None => unsafe { bytes.write_bytes(0, CHUNK_BYTES) },
        }
        IN_USE.fetch_add(CHUNK_BYTES as u64, Relaxed);
        Chunk {
            bytes,
            pool: Arc::clone(self),
        }
    }
}

impl Free {
    /// Takes a chunk, and says whether it is fresh, and so zero.
    fn take(&mut self, slab_bytes: usize) -> (NonNull<u8>, bool) {
        if let Some(chunk) = self.returned.pop() {
            return (chunk, false);
        }
        let earlier = self.slabs.len().saturating_sub(1) * slab_bytes;
        if let Some(slab) = self.slabs.last_mut()
            && let Some(dealt) = slab.deal(CHUNK_BYTES)
        {
            if earlier + slab.dealt() > MUCH_BYTES {
                slab.make_ready();
            }
            return dealt;
        }
        let mut slab = Slab::new(slab_bytes);
        let dealt = slab.deal(CHUNK_BYTES).expect("a slab has a chunk");
        self.slabs.push(slab);
        dealt
    }
}

impl Drop for Free {
    /// Who has a chunk has the pool, so nobody has any.
    fn drop(&mut self) {
        for slab in self.slabs.drain(..) {
            slab.keep();
        }
    }
}

impl Clone for Pages {
    /// Shares everything. What it takes goes by the directories that were ever written to.
    fn clone(&self) -> Self {
        for directory in self.directories.iter().flatten() {
            for word in &directory.owned {
                word.store(0, Relaxed);
            }
        }
        Self {
            length: self.length,
            directories: self.directories.clone(),
            pool: Arc::clone(&self.pool),
        }
    }
}

impl Pages {
    /// So many bytes, all zero. An error where not even the list of directories has room.
    pub fn new(length: usize) -> std::io::Result<Self> {
        let chunks = length.div_ceil(CHUNK_BYTES);
        let wanted = chunks.div_ceil(CHUNKS);
        let mut directories = Vec::new();
        let room = directories.try_reserve_exact(wanted);
        room.map_err(std::io::Error::other)?;
        directories.resize(wanted, None);
        let free = Mutex::default();
        let slab_bytes = SLAB_BYTES.min(chunks.max(1) * CHUNK_BYTES);
        Ok(Self {
            length,
            directories,
            pool: Arc::new(Pool { slab_bytes, free }),
        })
    }

    /// How many bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Where a byte is, to read it and what follows in its chunk.
    #[inline(always)]
    pub fn at(&self, address: usize) -> *const u8 {
        let chunk = address / CHUNK_BYTES;
        let bytes = match &self.directories[chunk / CHUNKS] {
            Some(directory) => directory.bytes[chunk % CHUNKS].cast_const(),
            None => ZERO.0.as_ptr(),
        };
        bytes.wrapping_add(address % CHUNK_BYTES)
    }

    /// Where a byte is, to write it and what follows in its page.
    #[inline(always)]
    pub fn at_mut(&mut self, address: usize) -> *mut u8 {
        let (page, chunk) = (address / PAGE_BYTES, address / CHUNK_BYTES);
        let bytes = match &self.directories[chunk / CHUNKS] {
            Some(directory) if directory.owns(page % PAGES) => directory.bytes[chunk % CHUNKS],
            _ => self.own(page),
        };
        bytes.wrapping_add(address % CHUNK_BYTES)
    }

    /// Makes a page this array's own. Returns where its chunk is.
    #[cold]
    #[inline(never)]
    fn own(&mut self, page: usize) -> *mut u8 {
        let chunk = page / (CHUNK_BYTES / PAGE_BYTES);
        let directory = &mut self.directories[chunk / CHUNKS];
        let directory = directory.get_or_insert_with(|| Arc::new(Directory::new()));
        let directory = Arc::make_mut(directory);
        let (chunk, page) = (chunk % CHUNKS, page % PAGES);
        let held = &mut directory.chunks[chunk];
        if held.as_mut().and_then(Arc::get_mut).is_none() {
            let new = self.pool.chunk(held.as_deref());
            directory.bytes[chunk] = new.bytes.as_ptr();
            *held = Some(Arc::new(new));
        }
        *directory.owned[page / 64].get_mut() |= 1 << (page % 64);
        directory.written[page / 64] |= 1 << (page % 64);
        directory.bytes[chunk]
    }

    /// The bytes of the page at an address.
    pub fn page(&self, address: usize) -> &[u8; PAGE_BYTES] {
        // SAFETY: a whole page, and nobody writes to it while this array is borrowed.
        unsafe { &*self.at(address / PAGE_BYTES * PAGE_BYTES).cast() }
    }

    /// Some bytes: borrowed where they lie within one chunk.
    pub fn slice(&self, address: usize, length: usize) -> Cow<'_, [u8]> {
        let piece = |address: usize, length: usize| {
            // SAFETY: they lie within one chunk, and nobody writes to it while this array is borrowed.
            unsafe { std::slice::from_raw_parts(self.at(address), length) }
        };
        let room = CHUNK_BYTES - address % CHUNK_BYTES;
        if length <= room {
            return Cow::Borrowed(piece(address, length));
        }
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(piece(address, room));
        while bytes.len() < length {
            let more = CHUNK_BYTES.min(length - bytes.len());
            bytes.extend_from_slice(piece(address + bytes.len(), more));
        }
        Cow::Owned(bytes)
    }

    /// Addresses of the pages ever written, in order.
    pub fn written(&self) -> impl Iterator<Item = usize> + '_ {
        let directories = self.directories.iter().enumerate();
        directories.flat_map(|(number, directory)| {
            let words = directory.iter().flat_map(|directory| &directory.written);
            words.enumerate().flat_map(move |(word, &bits)| {
                let set = (0..64).filter(move |bit| bits >> bit & 1 != 0);
                set.map(move |bit| (number * PAGES + word * 64 + bit) * PAGE_BYTES)
            })
        })
    }
}

/// Values that any bytes make, and zeros make the first of.
///
/// # Safety
///
/// No bytes are invalid, none are padding, and a page is a whole number of them.
pub unsafe trait Plain: Copy {}
// SAFETY: as demanded.
unsafe impl Plain for u16 {}
// SAFETY: as demanded.
unsafe impl Plain for u32 {}
// SAFETY: as demanded.
unsafe impl Plain for u64 {}
// SAFETY: as demanded.
unsafe impl Plain for Line {}

/// A sparse array of values, zero where nobody wrote.
#[derive(Clone, Debug)]
pub struct Sparse<T>(Pages, PhantomData<T>);

impl<T: Plain> Sparse<T> {
    /// So many zeros.
    pub fn new(length: usize) -> std::io::Result<Self> {
        let bytes = length.saturating_mul(size_of::<T>());
        Ok(Self(Pages::new(bytes)?, PhantomData))
    }

    /// How many values.
    pub fn len(&self) -> usize {
        self.0.len() / size_of::<T>()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A value.
    #[inline(always)]
    pub fn get(&self, index: usize) -> &T {
        // SAFETY: values are aligned in a page and whole, and no bytes are invalid.
        unsafe { &*self.0.at(index * size_of::<T>()).cast() }
    }

    /// Starts loading the host's cache line: a look at the value follows soon.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        crate::prefetch(self.0.at(index * size_of::<T>()));
    }

    /// A value, to change.
    #[inline(always)]
    pub fn get_mut(&mut self, index: usize) -> &mut T {
        // SAFETY: as for `get`; the page is this array's own.
        unsafe { &mut *self.0.at_mut(index * size_of::<T>()).cast() }
    }

    /// Every value of the pages that were ever written, in order, with its place.
    pub fn written(&self) -> impl Iterator<Item = (usize, &T)> + '_ {
        let values = PAGE_BYTES / size_of::<T>();
        self.0.written().flat_map(move |address| {
            let first = address / size_of::<T>();
            (first..first + values).map(|index| (index, self.get(index)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const LENGTH: usize = 3 * CHUNKS * CHUNK_BYTES / 2;

    fn write(pages: &mut Pages, address: usize, byte: u8) {
        let place = pages.at_mut(address);
        // SAFETY: within the page that `at_mut` was asked for.
        unsafe { *place = byte };
    }

    fn read(pages: &Pages, address: usize) -> u8 {
        pages.slice(address, 1)[0]
    }

    /// Copies of copies, written in any order and dropped in any order, against plain vectors.
    #[test]
    fn copies_are_values() {
        for seed in 1..4 {
            let mut random = Random::new(seed);
            let mut forks = vec![(
                Pages::new(LENGTH).unwrap(),
                std::collections::BTreeMap::new(),
            )];
            for step in 0..20_000u32 {
                let at = random.below(forks.len() as u64) as usize;
                match random.below(100) {
                    0 if forks.len() < 8 => forks.push(forks[at].clone()),
                    1 if forks.len() > 1 => drop(forks.swap_remove(at)),
                    _ => {
                        // Few chunks, so that they are shared often.
                        let chunk = random.below(6) as usize * (LENGTH / 6 / CHUNK_BYTES);
                        let address = chunk * CHUNK_BYTES + random.below(1 << 16) as usize;
                        write(&mut forks[at].0, address, step as u8 | 1);
                        forks[at].1.insert(address, step as u8 | 1);
                    }
                }
            }
            for (pages, expected) in &forks {
                for (&address, &byte) in expected {
                    assert_eq!(read(pages, address), byte, "seed {seed}, {address:#x}");
                }
                let mut written: Vec<usize> =
                    expected.keys().map(|at| at & !(PAGE_BYTES - 1)).collect();
                written.dedup();
                assert_eq!(pages.written().collect::<Vec<_>>(), written, "seed {seed}");
                let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
                let found: u64 = pages.written().map(|page| sum(pages.page(page))).sum();
                let wanted: u64 = expected.values().map(|&byte| u64::from(byte)).sum();
                assert_eq!(found, wanted, "seed {seed}: bytes that nobody wrote");
            }
        }
    }

    #[test]
    fn a_chunk_is_copied_while_it_is_shared_and_its_place_used_again() {
        let mut pages = Pages::new(LENGTH).unwrap();
        write(&mut pages, 5, 1);
        let place = pages.at(0);
        let copy = pages.clone();
        assert_eq!(copy.at(0), place, "shared");
        write(&mut pages, 6, 2);
        let moved = pages.at(0);
        assert_ne!(moved, place, "copied");
        assert_eq!((read(&pages, 5), read(&copy, 6)), (1, 0));
        drop(copy.clone());
        drop(copy);
        write(&mut pages, 7, 3);
        assert_eq!(pages.at(0), moved, "nobody else has it");
        write(&mut pages, CHUNK_BYTES, 4);
        assert_eq!(
            pages.at(CHUNK_BYTES),
            place,
            "what was given back is used first"
        );
        assert_eq!(read(&pages, CHUNK_BYTES + 5), 0, "and cleared");
    }

    #[test]
    fn a_slice_may_cross_chunks() {
        let mut pages = Pages::new(LENGTH).unwrap();
        for at in [CHUNK_BYTES - 1, 2 * CHUNK_BYTES + 1] {
            write(&mut pages, at, 9);
        }
        let bytes = pages.slice(CHUNK_BYTES - 2, CHUNK_BYTES + 4);
        let mut expected = vec![0; CHUNK_BYTES + 4];
        (expected[1], expected[CHUNK_BYTES + 3]) = (9, 9);
        assert_eq!(bytes, expected);
        assert!(matches!(
            pages.slice(CHUNK_BYTES, CHUNK_BYTES),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn sparse_values_are_zero_until_written() {
        let mut sparse = Sparse::<u32>::new(1 << 20).unwrap();
        *sparse.get_mut(70_000) = 7;
        let copy = sparse.clone();
        *sparse.get_mut(70_001) = 8;
        assert_eq!((*copy.get(70_000), *copy.get(70_001)), (7, 0));
        let set: Vec<_> = sparse.written().filter(|(_, value)| **value != 0).collect();
        assert_eq!(set, [(70_000, &7), (70_001, &8)]);
    }
}
