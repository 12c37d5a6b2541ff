//! What is drawn for the lives after a cut: how long they are, and what torn writes leave at their ends.
//!
//! Always true here: it follows from the first cut's seed alone.

use perdure_hardware::random::Random;
use perdure_hardware::time::Cycles;

/// Told apart what follows from a seed in lives that go on, and in those that begin anew.
pub(super) const RESUMED: u64 = 0x6c69_7665_7300;
pub(super) const RESTARTED: u64 = 0x7265_7374_6172_7400;

/// What torn writes leave by the cuts of later lives, where that follows from the first one's seed.
pub(crate) fn later_tear_seeds(first: u64, restarts: bool) -> impl Iterator<Item = u64> {
    let mut random = Random::new(first ^ if restarts { RESTARTED } else { RESUMED });
    std::iter::repeat_with(move || {
        // A life's length is drawn whether it is given or not.
        drawn(&mut random, 1);
        random.bits()
    })
}

/// How long a life is to be that may last so long: half of them any part of that, the others rather short.
pub(super) fn drawn(random: &mut Random, most: Cycles) -> Cycles {
    let shorter = random.below(2) * (1 + random.below(12));
    1 + random.below((most >> shorter).max(1))
}
