//! What a machine fills and somebody else reads when it has run.
//!
//! Always true here: nobody holds the lock longer than for one call.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perdure_hardware::time::Cycles;

use crate::retired::{Listener, Step};

/// Of both.
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<T> Shared<T> {
    /// Of nobody else yet.
    pub fn new(of: T) -> Self {
        Self(Arc::new(Mutex::new(of)))
    }

    /// What it is.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Listener> Listener for Shared<T> {
    fn retires(&mut self, hart: usize, step: &Step, taken: bool, now: Cycles) {
        self.lock().retires(hart, step, taken, now);
    }

    fn begins_at(&mut self, from: Cycles) {
        self.lock().begins_at(from);
    }
}
