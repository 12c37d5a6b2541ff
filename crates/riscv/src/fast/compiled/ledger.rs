//! Whether to compile another trace: what those that there are have saved, against what it took to make them.
//!
//! Always true here: what it decides changes when a program runs in the host's code, and never what it does.

/// When traces are made.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// So many chains have begun with a block before it is the head of a trace.
    pub hot: u16,
    /// So many may be made at once.
    pub at_first: u64,
    /// A trace has paid for its making when so many instructions were retired in it. More are made as long as
    /// all together have.
    pub instructions_to_pay: u64,
    /// Where they have not, one more is tried when the hart has retired so many instructions; each further one
    /// waits twice as long as the one before, up to [`LONGEST_WAIT`] times.
    pub instructions_to_wait: u64,
}

impl Pace {
    /// What costs a program without favourites less than a hundredth of its time.
    pub const USUAL: Self = Self {
        hot: 128,
        at_first: 2,
        instructions_to_pay: 1_500_000,
        instructions_to_wait: 8_000_000,
    };
}

/// How much longer than the first wait the longest is.
const LONGEST_WAIT: u64 = 8;
/// Who may make none is not asked again until the hart has retired so many instructions.
const REST: u64 = 1 << 17;

/// What traces have cost and saved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ledger {
    pub(super) pace: Pace,
    made: u64,
    /// Instructions retired in traces that are gone.
    gone: u64,
    /// When it was allowed last; and when one may be tried, whatever was saved.
    allowed: u64,
    trial: u64,
    wait: u64,
    rests_until: u64,
}

impl Ledger {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            made: 0,
            gone: 0,
            allowed: 0,
            trial: 0,
            wait: pace.instructions_to_wait,
            rests_until: 0,
        }
    }

    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// A trace is gone in which so many instructions were retired.
    pub(super) fn gone(&mut self, retired: u64) {
        self.gone += retired;
    }

    /// True if it need not be asked yet.
    #[inline(always)]
    pub(super) fn rests(&self, retired: u64) -> bool {
        retired < self.rests_until
    }

    /// Whether one more may be made, when the hart has retired so many instructions, of which `inside` were in
    /// traces that are still there.
    pub(super) fn allows(&mut self, retired: u64, inside: impl FnOnce() -> u64) -> bool {
        let at_first = self.made < self.pace.at_first;
        let has_paid = || self.gone + inside() >= self.made * self.pace.instructions_to_pay;
        if !at_first && retired < self.trial && !has_paid() {
            self.rests_until = self.trial.min(retired + REST);
            return false;
        }
        self.allowed = retired;
        true
    }

    /// The one was made that was allowed last.
    pub(super) fn made_one(&mut self) {
        self.made += 1;
        if self.made > self.pace.at_first && self.allowed >= self.trial {
            self.wait = (self.wait * 2).min(self.pace.instructions_to_wait * LONGEST_WAIT);
        }
        self.trial = self.allowed + self.wait;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        hot: 1,
        at_first: 1,
        instructions_to_pay: 100,
        instructions_to_wait: 1_000_000,
    };

    fn make(ledger: &mut Ledger, retired: u64, inside: u64) -> bool {
        let allowed = ledger.allows(retired, || inside);
        if allowed {
            ledger.made_one();
        }
        allowed
    }

    #[test]
    fn traces_that_pay_let_others_be_made() {
        let mut ledger = Ledger::new(PACE);
        assert!(make(&mut ledger, 0, 0));
        assert!(!make(&mut ledger, 500, 99) && ledger.rests(501));
        assert!(make(&mut ledger, 600, 100));
        assert!(!make(&mut ledger, 700, 199));
        ledger.gone(60);
        assert!(make(&mut ledger, 700, 140));
        assert_eq!(ledger.made(), 3);
    }

    #[test]
    fn who_saves_nothing_tries_ever_more_seldom() {
        let mut ledger = Ledger::new(PACE);
        let made: Vec<u64> = (0..100_000_000)
            .step_by(1_000_000)
            .filter(|&retired| make(&mut ledger, retired, 0))
            .map(|retired| retired / 1_000_000)
            .collect();
        assert_eq!(made[..8], [0, 1, 3, 7, 15, 23, 31, 39]);
    }
}
