//! Whether to compile another trace: what those that there are have saved, against what it took to make them.
//!
//! Always true here: what it decides changes when a program runs in the host's code, and never what it does.

/// When traces are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// So many chains have begun with a block before it is the head of a trace.
    pub hot: u16,
    /// A trace has paid for its making when so many instructions were retired in it, beside those that pay
    /// for the ways in and out. More are made as long as all together have paid.
    pub instructions_to_pay: u64,
    /// Where they have not, one is tried when the hart has retired so many instructions; each further one
    /// waits twice as long as the one before, up to [`LONGEST_WAIT`] times.
    pub instructions_to_wait: u64,
}

impl Pace {
    /// What costs a program without favourites a hundredth of its time.
    pub const USUAL: Self = Self {
        hot: 128,
        instructions_to_pay: 1_000_000,
        instructions_to_wait: 8_000_000,
    };

    /// What has short programs go through traces, too: for tests.
    pub const EAGER: Self = Self {
        hot: 8,
        instructions_to_pay: 50_000,
        instructions_to_wait: 50_000,
    };
}

/// How much longer than the first wait the longest is.
const LONGEST_WAIT: u64 = 32;
/// Who may make none is not asked again until the hart has retired so many instructions.
const REST: u64 = 1 << 17;

/// What traces have cost and saved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ledger {
    pub(super) pace: Pace,
    made: u64,
    /// What traces have paid that are gone.
    paid: u64,
    /// When one was allowed last; and when one may be tried, whatever was paid.
    allowed: u64,
    trial: u64,
    wait: u64,
    rests_until: u64,
}

impl Ledger {
    pub(super) fn new(pace: Pace) -> Self {
        let wait = pace.instructions_to_wait;
        Self {
            pace,
            made: 0,
            paid: 0,
            allowed: 0,
            trial: wait,
            wait,
            rests_until: wait,
        }
    }

    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// A trace is gone that has paid so many instructions.
    pub(super) fn gone(&mut self, paid: u64) {
        self.paid += paid;
    }

    /// True if it need not be asked yet.
    #[inline(always)]
    pub(super) fn rests(&self, retired: u64) -> bool {
        retired < self.rests_until
    }

    /// Whether one more may be made, when the hart has retired so many instructions, and the traces that are
    /// still there have paid so many.
    pub(super) fn allows(&mut self, retired: u64, paid: impl FnOnce() -> u64) -> bool {
        let owed = self.made * self.pace.instructions_to_pay;
        let has_paid = || self.made > 0 && self.paid + paid() >= owed;
        if retired < self.trial && !has_paid() {
            self.rests_until = self.trial.min(retired + REST);
            return false;
        }
        self.allowed = retired;
        true
    }

    /// The one was made that was allowed last.
    pub(super) fn made_one(&mut self) {
        self.made += 1;
        if self.allowed >= self.trial {
            let longest = self.pace.instructions_to_wait * LONGEST_WAIT;
            self.wait = (self.wait * 2).min(longest);
            self.trial = self.allowed + self.wait;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        hot: 1,
        instructions_to_pay: 100,
        instructions_to_wait: 1_000_000,
    };

    fn make(ledger: &mut Ledger, retired: u64, paid: u64) -> bool {
        let allowed = ledger.allows(retired, || paid);
        if allowed {
            ledger.made_one();
        }
        allowed
    }

    #[test]
    fn traces_that_pay_let_others_be_made() {
        let mut ledger = Ledger::new(PACE);
        assert!(ledger.rests(999_999) && make(&mut ledger, 1_000_000, 0));
        assert!(!make(&mut ledger, 1_000_500, 99) && ledger.rests(1_000_501));
        assert!(make(&mut ledger, 1_000_600, 100));
        assert!(!make(&mut ledger, 1_000_700, 199));
        ledger.gone(60);
        assert!(make(&mut ledger, 1_000_700, 140));
        assert_eq!(ledger.made(), 3);
    }

    #[test]
    fn who_saves_nothing_tries_ever_more_seldom() {
        let mut ledger = Ledger::new(PACE);
        let made: Vec<u64> = (0..200_000_000)
            .step_by(1_000_000)
            .filter(|&retired| make(&mut ledger, retired, 0))
            .map(|retired| retired / 1_000_000)
            .collect();
        assert_eq!(made, [1, 3, 7, 15, 31, 63, 95, 127, 159, 191]);
    }
}
