//! A ring of the newest of many values, in an order: what comes last most often stands last.
//!
//! Always true here: there are no more values than room; where there is none left, the first makes room.

/// The ring.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    /// A power of two.
    places: Box<[T]>,
    /// How many it keeps.
    room: usize,
    /// Which place the first value has.
    first: usize,
    length: usize,
}

impl<T: Copy + Default> Ring<T> {
    /// An empty ring with room for so many values, one at least.
    pub fn new(room: usize) -> Self {
        Self {
            places: vec![T::default(); room.next_power_of_two()].into(),
            room,
            first: 0,
            length: 0,
        }
    }

    /// How many values there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length
    }

    #[inline(always)]
    fn place(&self, index: usize) -> usize {
        self.first.wrapping_add(index) & (self.places.len() - 1)
    }

    /// A value by its place in the order, which is below [`Self::len`].
    #[inline(always)]
    pub fn at(&self, index: usize) -> T {
        debug_assert!(index < self.length);
        self.places[self.place(index)]
    }

    /// Takes the first value away.
    #[inline(always)]
    pub fn take_first(&mut self) -> Option<T> {
        let first = (self.length > 0).then(|| self.at(0))?;
        self.first = self.place(1);
        self.length -= 1;
        Some(first)
    }

    /// Puts a value before the one at `index`, or last. Returns the value that made room, which may be
    /// itself.
    #[inline(always)]
    pub fn insert(&mut self, index: usize, value: T) -> Option<T> {
        if self.length < self.room {
            self.put(index, value);
            None
        } else if index == 0 {
            Some(value)
        } else {
            let first = self.take_first();
            self.put(index - 1, value);
            first
        }
    }

    #[inline(always)]
    fn put(&mut self, index: usize, value: T) {
        if index < self.length {
            self.make_way(index);
        }
        let place = self.place(index);
        self.places[place] = value;
        self.length += 1;
    }

    /// Moves what stands from `index` on by one place.
    fn make_way(&mut self, index: usize) {
        for later in (index..self.length).rev() {
            let (from, to) = (self.place(later), self.place(later + 1));
            self.places[to] = self.places[from];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Against a vector, from which the first is taken when there are too many.
    #[test]
    fn it_is_a_vector_that_keeps_the_newest() {
        let seed = 5;
        for room in [1, 2, 3, 8, 13] {
            let mut random = Random::new(seed);
            let mut ring = Ring::new(room);
            let mut expected = Vec::new();
            for value in 0..2000u64 {
                let told = format!("seed {seed}, {room} values, value {value}");
                if random.below(8) == 0 {
                    let first = (!expected.is_empty()).then(|| expected.remove(0));
                    assert_eq!(ring.take_first(), first, "{told}");
                }
                let back = random.below(3).min(expected.len() as u64) as usize;
                let index = expected.len() - back;
                expected.insert(index, value);
                let most = (expected.len() > room).then(|| expected.remove(0));
                assert_eq!(ring.insert(index, value), most, "{told}");
                let found: Vec<u64> = (0..ring.len()).map(|index| ring.at(index)).collect();
                assert_eq!(found, expected, "{told}");
            }
        }
    }
}
