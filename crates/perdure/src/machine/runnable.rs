//! Which harts have something to run, and how far each is: once a turn all are looked at, and their own
//! records lie lines of the host's apart.

use super::HartState;

/// What each hart has retired, side by side.
#[derive(Clone, Debug, Default)]
pub(super) struct Runnable {
    /// [`CANNOT_RUN`] of one that has nothing to run.
    retired: Vec<u64>,
    /// They say what the harts' own records do. Only the run loop may say so.
    pub known: bool,
}

const CANNOT_RUN: u64 = u64::MAX;

impl Runnable {
    /// Looks at all harts.
    pub fn look<S>(&mut self, harts: &[HartState<S>]) {
        self.retired.clear();
        self.retired.extend(harts.iter().map(retired));
    }

    /// A hart has retired so much by now, and can go on.
    #[inline(always)]
    pub fn went_on(&mut self, hart: usize, retired: u64) {
        if let Some(place) = self.retired.get_mut(hart) {
            *place = retired;
        }
    }

    /// What each of these harts has retired, if it has something to run.
    #[inline(always)]
    pub fn retired<S>(&self, harts: &[HartState<S>]) -> impl Iterator<Item = Option<u64>> {
        debug_assert!(self.retired.iter().copied().eq(harts.iter().map(retired)));
        let retired = self.retired.iter();
        retired.map(|&retired| (retired != CANNOT_RUN).then_some(retired))
    }
}

fn retired<S>(hart: &HartState<S>) -> u64 {
    if hart.can_run() {
        hart.context.hart.retired
    } else {
        CANNOT_RUN
    }
}
