//! The guest's clock: instructions at one a cycle, and time in which every hart was idle.
//!
//! Always true here: what a guest reads of time is the same under every design.

/// The guest's clock as one hart sees it during its turn. A hart's *progress* is the instructions that
/// it has retired and those that others retired while it was idle; the clock shows the progress of the
/// hart that has got furthest, at one instruction a cycle, and the time in which every hart was idle.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtualClock {
    /// The most progress of any other hart.
    pub others: u64,
    /// What this hart's progress has over its retired instructions.
    pub idle: u64,
    /// Time skipped while every hart was idle.
    pub skipped_ns: u64,
    /// Instructions of one hart in a microsecond, at one a cycle.
    pub instructions_per_us: u64,
}

impl VirtualClock {
    /// Nanoseconds when this hart has retired so many.
    pub fn nanoseconds(self, retired: u64) -> u64 {
        self.duration_ns(self.others.max(retired.saturating_add(self.idle))) + self.skipped_ns
    }

    /// What so many instructions take at one a cycle.
    pub fn duration_ns(self, instructions: u64) -> u64 {
        (u128::from(instructions) * 1000 / u128::from(self.instructions_per_us)) as u64
    }
}
