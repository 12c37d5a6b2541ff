//! A fixed number of plain values that are accessed at random: on huge pages of the host, if they fill one
//! and the host has any.
//!
//! Always true here: it is a slice, whose place never changes.

use std::ops::{Deref, DerefMut};

use memmap2::{MmapMut, MmapOptions};

use crate::line::Line;

/// A huge page of most hosts.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The values.
#[derive(Debug)]
pub(crate) struct Array<T: Copy> {
    start: *mut T,
    length: usize,
    /// Where they are, if that is not the heap.
    map: Option<MmapMut>,
}

// SAFETY: it owns its values, as a `Vec` does.
unsafe impl<T: Copy + Send> Send for Array<T> {}
// SAFETY: the same.
unsafe impl<T: Copy + Sync> Sync for Array<T> {}

/// A type whose value of zeros is bytes of zeros.
///
/// # Safety
/// They must be a value of the type.
pub(crate) unsafe trait Zero: Copy {
    const ZERO: Self;
}

// SAFETY: a number.
unsafe impl Zero for u64 {
    const ZERO: Self = 0;
}
// SAFETY: bytes.
unsafe impl Zero for Line {
    const ZERO: Self = Self::ZERO;
}

impl<T: Zero> Array<T> {
    /// So many zeros, which nobody writes where the host gives pages of them.
    pub fn zeros(length: usize) -> Self {
        let Some((start, map)) = huge::<T>(length) else {
            return Self::on_heap(vec![T::ZERO; length]);
        };
        let map = Some(map);
        Self { start, length, map }
    }
}

impl<T: Copy> Array<T> {
    /// So many values, all the same.
    pub fn new(value: T, length: usize) -> Self {
        let Some((start, map)) = huge::<T>(length) else {
            return Self::on_heap(vec![value; length]);
        };
        for at in 0..length {
            // SAFETY: the map has room for so many, and is aligned to a page.
            unsafe { start.add(at).write(value) };
        }
        let map = Some(map);
        Self { start, length, map }
    }

    fn on_heap(values: Vec<T>) -> Self {
        let length = values.len();
        let values = Box::into_raw(values.into_boxed_slice());
        Self {
            start: values.cast(),
            length,
            map: None,
        }
    }
}

/// Room for so many values on huge pages, if they fill one.
fn huge<T>(length: usize) -> Option<(*mut T, MmapMut)> {
    let bytes = length * size_of::<T>();
    if bytes < HUGE_PAGE_BYTES || !cfg!(target_os = "linux") {
        return None;
    }
    let mut map = MmapOptions::new().len(bytes).map_anon().ok()?;
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage); // Faster where the host has them.
    Some((map.as_mut_ptr().cast(), map))
}

impl<T: Copy> Clone for Array<T> {
    fn clone(&self) -> Self {
        let Some((start, map)) = huge::<T>(self.length) else {
            return Self::on_heap(self.to_vec());
        };
        // SAFETY: both have room for so many, and the new one is nobody else's.
        unsafe { self.start.copy_to_nonoverlapping(start, self.length) };
        Self {
            start,
            length: self.length,
            map: Some(map),
        }
    }
}

impl<T: Copy> Drop for Array<T> {
    fn drop(&mut self) {
        if self.map.is_none() {
            let values = std::ptr::slice_from_raw_parts_mut(self.start, self.length);
            // SAFETY: `on_heap` took the box apart.
            drop(unsafe { Box::from_raw(values) });
        }
    }
}

impl<T: Copy> Deref for Array<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: so many values are there, as long as this is.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl<T: Copy> DerefMut for Array<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the same, and nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_zeros_wherever_they_lie() {
        for length in [0, 3, HUGE_PAGE_BYTES / 8 + 5] {
            let zeros = Array::<u64>::zeros(length);
            assert!(zeros.iter().all(|&value| value == 0) && zeros.len() == length);
        }
    }

    #[test]
    fn copies_are_apart_wherever_they_lie() {
        for length in [0, 3, HUGE_PAGE_BYTES / 8 - 1, HUGE_PAGE_BYTES / 8 + 5] {
            let mut first = Array::new(7u64, length);
            let second = first.clone();
            first.fill(9);
            assert!(first.iter().all(|&value| value == 9) && first.len() == length);
            assert!(second.iter().all(|&value| value == 7) && second.len() == length);
        }
    }
}
