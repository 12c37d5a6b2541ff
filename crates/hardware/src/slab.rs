//! Large pieces of the host's memory, which the machines of a process hand down to each other.
//!
//! Fresh memory is dear where the host is a virtual machine that has given back what it did not use:
//! streaming updates under PiCL, whose log grows to 165 MB, spent a seventh of their time in the host's
//! kernel. Whoever runs one machine after another (a sweep, a campaign, a benchmark) pays that once; and what
//! who needs much will need next is made ready by another thread ([`crate::ahead`]).
//!
//! Always true here: what is kept for the next machine is at most [`KEPT_BYTES`], and where none of the size
//! is kept that somebody asks for, the new one takes the place of as much that is.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{MmapOptions, MmapRaw};

use crate::ahead;
use crate::array::HUGE_PAGE_BYTES;

/// Most bytes that slabs have which wait for the next machine. What nobody used, and was not made ready, the
/// host has not given yet.
const KEPT_BYTES: usize = 384 << 20;

/// The slabs that wait, the oldest first.
static KEPT: Mutex<Vec<Slab>> = Mutex::new(Vec::new());

/// A piece of memory that is dealt out from its beginning.
#[derive(Debug)]
pub(crate) struct Slab {
    map: Arc<MmapRaw>,
    /// How much of it is dealt out.
    dealt: usize,
    /// How much of it had a user before, and may have anything in it; the rest is zero.
    used: usize,
    /// How far it is the host's already, or will be as soon as another thread comes to it.
    ready: usize,
}

impl Slab {
    /// A slab of so many bytes, of which nothing is dealt out.
    pub fn new(bytes: usize) -> Self {
        take(&mut kept(), bytes).unwrap_or_else(|| Self::of_the_host(bytes))
    }

    fn of_the_host(bytes: usize) -> Self {
        let mut options = MmapOptions::new();
        let map = options.len(bytes).no_reserve_swap().map_anon();
        let map = map.expect("the host has memory for what programs write");
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage); // Faster where the host has them.
        Self {
            map: Arc::new(map.into()),
            dealt: 0,
            used: 0,
            ready: 0,
        }
    }

    /// The next `bytes` of it, and whether they are fresh, and so zero; nothing where too few are left.
    pub fn deal(&mut self, bytes: usize) -> Option<(NonNull<u8>, bool)> {
        let (begin, end) = (self.dealt, self.dealt + bytes);
        if end > self.map.len() {
            return None;
        }
        self.dealt = end;
        // SAFETY: it is within the map.
        let place = unsafe { self.map.as_mut_ptr().add(begin) };
        let place = NonNull::new(place).expect("no map is at zero");
        Some((place, begin >= self.used))
    }

    /// How much it has of the host's memory, or will have.
    fn bytes(&self) -> usize {
        self.used.max(self.ready)
    }

    /// How much of it is dealt out.
    pub fn dealt(&self) -> usize {
        self.dealt
    }

    /// Has the next huge page made ready, once half of one is dealt out: who needs less gets no more.
    pub fn make_ready(&mut self) {
        let start = self.map.as_ptr().addr();
        let Some(next) = page_ahead(start + self.dealt) else {
            return;
        };
        let from = next - start;
        let until = (from + HUGE_PAGE_BYTES).min(self.map.len());
        if from < until && until > self.bytes() {
            self.ready = until;
            ahead::make_ready(&self.map, from..until);
        }
    }

    /// Keeps it for the next who asks, and gives back what is too much, the oldest first. Nobody may have any
    /// of it any more.
    pub fn keep(mut self) {
        self.take_back();
        put(&mut kept(), self);
    }

    /// Nothing of it is dealt out any more.
    fn take_back(&mut self) {
        self.used = self.used.max(self.dealt);
        self.dealt = 0;
    }
}

/// The huge page behind that of an address, if half of that lies before the address.
fn page_ahead(address: usize) -> Option<usize> {
    let page = address / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    (address - page >= HUGE_PAGE_BYTES / 2).then_some(page + HUGE_PAGE_BYTES)
}

fn put(kept: &mut Vec<Slab>, slab: Slab) {
    kept.push(slab);
    while kept.iter().map(Slab::bytes).sum::<usize>() > KEPT_BYTES {
        kept.remove(0);
    }
}

/// One of so many bytes: that of which most is there. Where there is none, as much makes way for the one that
/// the host will be asked for, the oldest first.
fn take(kept: &mut Vec<Slab>, bytes: usize) -> Option<Slab> {
    let fits = |at: &usize| kept[*at].map.len() == bytes;
    let found = (0..kept.len())
        .filter(fits)
        .max_by_key(|&at| kept[at].bytes());
    if let Some(found) = found {
        return Some(kept.remove(found));
    }
    let mut room = 0;
    while room < bytes && !kept.is_empty() {
        room += kept.remove(0).bytes();
    }
    None
}

fn kept() -> MutexGuard<'static, Vec<Slab>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_had_a_user_is_not_called_fresh() {
        let mut slab = Slab::of_the_host(3 << 12);
        let (first, fresh) = slab.deal(1 << 12).unwrap();
        assert!(fresh);
        slab.take_back();
        assert_eq!(slab.deal(1 << 12), Some((first, false)));
        assert!(slab.deal(1 << 12).unwrap().1, "nobody had that");
        assert!(slab.deal(1 << 12).is_some() && slab.deal(1 << 12).is_none());
    }

    #[test]
    fn the_next_huge_page_is_made_ready_once_half_of_one_is_dealt_out() {
        let page = HUGE_PAGE_BYTES;
        assert_eq!(page_ahead(7 * page), None);
        assert_eq!(page_ahead(7 * page + page / 2 - 1), None);
        assert_eq!(page_ahead(7 * page + page / 2), Some(8 * page));
        assert_eq!(page_ahead(8 * page - 1), Some(8 * page));

        let mut slab = Slab::of_the_host(4 * page);
        let mut deal = |bytes| {
            slab.deal(bytes).unwrap();
            slab.make_ready();
            (slab.dealt(), slab.ready)
        };
        for _ in 0..6 {
            let (dealt, ready) = deal(page / 2);
            assert!(ready <= dealt + 3 * page / 2, "no more than the next one");
        }
        assert!(deal(page).1 <= 4 * page);

        slab.take_back();
        let ready = slab.ready;
        slab.deal(2 * page).unwrap();
        slab.make_ready();
        assert_eq!(slab.ready, ready, "that was used");
    }

    /// A slab of so many pages, all of which had a user.
    fn used(pages: usize) -> Slab {
        let mut slab = Slab::of_the_host(pages << 12);
        slab.used = pages << 12;
        slab
    }

    fn pages(kept: &[Slab]) -> Vec<usize> {
        kept.iter().map(|slab| slab.map.len() >> 12).collect()
    }

    #[test]
    fn one_of_the_same_size_is_taken_else_the_oldest_go() {
        let mut kept = vec![used(1), used(2), Slab::of_the_host(2 << 12), used(3)];
        assert_eq!(take(&mut kept, 2 << 12).unwrap().used, 2 << 12);
        assert_eq!(take(&mut kept, 2 << 12).unwrap().used, 0);
        kept.push(used(4));
        assert!(take(&mut kept, 2 << 12).is_none());
        assert_eq!(pages(&kept), [4], "one page would not have been enough");
        assert!(take(&mut Vec::new(), 1 << 12).is_none());
    }

    #[test]
    fn what_is_too_much_goes_back() {
        let half = (KEPT_BYTES >> 12) / 2;
        let mut kept = Vec::new();
        for size in [half, half - 1, 1, 2] {
            put(&mut kept, used(size));
        }
        assert_eq!(pages(&kept), [half - 1, 1, 2]);
        put(&mut kept, Slab::of_the_host(KEPT_BYTES));
        assert_eq!(
            pages(&kept).len(),
            4,
            "nobody used it, so it is not there yet"
        );
    }
}
