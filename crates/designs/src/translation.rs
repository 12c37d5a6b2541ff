//! A set-associative table of fixed size, as memory controllers keep them: block or page number →
//! whatever a design says about it.
//!
//! Always true here: a key stands in at most one slot, in its set (key modulo sets); sets need not
//! be a power of two. Everything is deterministic; replacement is least recently touched.

/// The key of a free slot.
const FREE: u64 = u64::MAX;

/// The table.
#[derive(Clone, Debug)]
pub struct Table<V> {
    ways: usize,
    sets: u64,
    keys: Vec<u64>,
    touched: Vec<u64>,
    values: Vec<V>,
    clock: u64,
}

impl<V: Clone + Default> Table<V> {
    /// An empty table; `entries` is a multiple of `ways`.
    pub fn new(entries: usize, ways: usize) -> Self {
        assert!(ways > 0 && entries > 0 && entries.is_multiple_of(ways));
        Self {
            ways,
            sets: (entries / ways) as u64,
            keys: vec![FREE; entries],
            touched: vec![0; entries],
            values: vec![V::default(); entries],
            clock: 0,
        }
    }

    /// Entries that it has room for.
    pub fn capacity(&self) -> usize {
        self.keys.len()
    }

    fn set(&self, key: u64) -> std::ops::Range<usize> {
        let start = (key % self.sets) as usize * self.ways;
        start..start + self.ways
    }

    /// The slot of a key.
    #[inline]
    pub fn find(&self, key: u64) -> Option<usize> {
        let set = self.set(key);
        let way = self.keys[set.clone()]
            .iter()
            .position(|&held| held == key)?;
        Some(set.start + way)
    }

    /// A free slot of the key's set, or the least recently touched one whose entry may be given
    /// up; `None` if the set has no room.
    pub fn room(&self, key: u64, may_go: impl Fn(u64, &V) -> bool) -> Option<usize> {
        let candidates = self
            .set(key)
            .filter(|&slot| self.keys[slot] == FREE || may_go(self.keys[slot], &self.values[slot]));
        candidates.min_by_key(|&slot| match self.keys[slot] {
            FREE => 0,
            _ => self.touched[slot],
        })
    }

    /// Puts an entry in a slot that [`Self::room`] found for its key; returns what stood there.
    pub fn put(&mut self, slot: usize, key: u64, value: V) -> Option<(u64, V)> {
        debug_assert!(self.set(key).contains(&slot) && key != FREE);
        let key_before = std::mem::replace(&mut self.keys[slot], key);
        let value_before = std::mem::replace(&mut self.values[slot], value);
        self.touch(slot);
        (key_before != FREE).then_some((key_before, value_before))
    }

    /// Marks a slot as just used.
    pub fn touch(&mut self, slot: usize) {
        self.clock += 1;
        self.touched[slot] = self.clock;
    }

    /// The key in a slot.
    pub fn key(&self, slot: usize) -> Option<u64> {
        (self.keys[slot] != FREE).then_some(self.keys[slot])
    }

    /// The value in a slot.
    pub fn value(&self, slot: usize) -> &V {
        &self.values[slot]
    }

    /// The value in a slot.
    pub fn value_mut(&mut self, slot: usize) -> &mut V {
        &mut self.values[slot]
    }

    /// Frees a slot.
    pub fn remove(&mut self, slot: usize) -> Option<(u64, V)> {
        let key = std::mem::replace(&mut self.keys[slot], FREE);
        let value = std::mem::take(&mut self.values[slot]);
        (key != FREE).then_some((key, value))
    }

    /// Frees every slot.
    pub fn clear(&mut self) {
        self.keys.fill(FREE);
        self.values.fill(V::default());
    }

    /// All entries with their slots, in the order of the slots.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64, &V)> {
        let entries = self.keys.iter().zip(&self.values).enumerate();
        entries.filter_map(|(slot, (&key, value))| (key != FREE).then_some((slot, key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_set_gives_up_its_least_recently_touched_entry_that_may_go() {
        let mut table = Table::<u32>::new(6, 2);
        for (key, value) in [(1, 10), (4, 40)] {
            let slot = table.room(key, |_, _| false).unwrap();
            assert_eq!(table.put(slot, key, value), None);
        }
        assert_eq!(
            table.room(7, |_, _| false),
            None,
            "the set of 1 and 4 is full"
        );
        assert!(table.room(8, |_, _| false).is_some(), "another set is not");
        table.touch(table.find(1).unwrap());
        let slot = table.room(7, |_, _| true).unwrap();
        assert_eq!(table.put(slot, 7, 70), Some((4, 40)));
        let slot = table.room(10, |key, _| key == 1).unwrap();
        assert_eq!(table.put(slot, 10, 100), Some((1, 10)));
        assert_eq!(table.find(1), None);
        let held: Vec<_> = table.iter().map(|(_, key, &value)| (key, value)).collect();
        assert_eq!(held, [(10, 100), (7, 70)]);
        assert_eq!(table.remove(table.find(7).unwrap()), Some((7, 70)));
        table.clear();
        assert_eq!(table.iter().count(), 0);
    }
}
