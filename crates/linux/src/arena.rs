//! Fixed-width arrays with stable places: what page tables and page lists are made of.
//!
//! Always true: an array keeps its slot as long as it is in use, so a saved arena is a run of
//! equally wide blocks of which only those that changed differ from the last time. Free slots are
//! all zero.

/// Arrays of `WIDTH` words, named by slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arena<const WIDTH: usize> {
    slots: Vec<[u64; WIDTH]>,
    /// Slots that may be handed out again; the last one goes first.
    free: Vec<u32>,
}

impl<const WIDTH: usize> Arena<WIDTH> {
    /// An arena from its saved parts; the caller has checked that `free` names existing slots.
    pub fn from_parts(slots: Vec<[u64; WIDTH]>, free: Vec<u32>) -> Self {
        Self { slots, free }
    }

    pub fn slots(&self) -> &[[u64; WIDTH]] {
        &self.slots
    }

    pub fn free_slots(&self) -> &[u32] {
        &self.free
    }

    /// A slot whose words are all zero.
    pub fn allocate(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push([0; WIDTH]);
            (self.slots.len() - 1) as u32
        })
    }

    /// Gives a slot back.
    pub fn release(&mut self, slot: u32) {
        self.slots[slot as usize] = [0; WIDTH];
        self.free.push(slot);
    }

    #[inline]
    pub fn get(&self, slot: u32) -> &[u64; WIDTH] {
        &self.slots[slot as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut [u64; WIDTH] {
        &mut self.slots[slot as usize]
    }
}
