//! A door for the plain engine, which says of every instruction where it leads to.
//!
//! Always true here: everything is handed on as it came, and answered as it was.

use perdure_riscv::{Class, Memory, Observed, hand_on};

use super::Watcher;
use super::door::{Door, Hint};

/// A door through which a hart is seen to come to functions whose calls are operations.
pub(super) struct Arriving<'d, 'm, W> {
    inner: &'d mut Door<'m, W>,
}

impl<'d, 'm, W> Arriving<'d, 'm, W> {
    /// In front of a door.
    pub fn new(inner: &'d mut Door<'m, W>) -> Self {
        Self { inner }
    }
}

impl<W: Watcher> Memory for Arriving<'_, '_, W> {
    type FetchHint = Hint;

    const OBSERVES: bool = true;

    fn begins(&mut self, _: Observed, _: u64) {}

    fn ends(&mut self, class: Class, _: u64, target: Option<u64>) {
        if let Some(target) = target {
            self.inner.arrival = self.inner.calls.arrives(class, target);
        }
    }

    hand_on!(inner: limit load store fetch fetch_again load_reserved store_conditional atomic cache_block store_non_temporal barrier fence fence_instruction mark persistence cycle time);
}
