//! Random numbers of the Rust tests, and the seeds that they begin with; each crate's tests include it.
//!
//! Always true here: a test that takes seeds takes some that never change and one that always does, and
//! says each before it takes it; `PERDURE_SEED` names one to be taken alone, and `PERDURE_SEEDS` how many
//! of those that never change are taken at least. What a campaign must have met (a path, so many cuts of
//! a kind) is met with the seeds that never change: a clock decides no test.

/// splitmix64: the seed is the whole story.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..bound`, near enough.
    pub fn below<N: TryInto<u64> + TryFrom<u64>>(&mut self, bound: N) -> N {
        let bound = bound.try_into().ok().expect("no bound is negative");
        let number = N::try_from(self.next() % bound);
        number.ok().expect("less than the bound")
    }

    /// An index into something of that length.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number")),
    )
}

/// The seed that is asked for, if one is.
pub fn seed_alone() -> Option<u64> {
    number("PERDURE_SEED")
}

/// The seeds of a test: so many fixed ones, 1 and on, and one from the clock.
pub fn seeds(fixed: u64) -> impl Iterator<Item = u64> {
    let clock = std::time::UNIX_EPOCH.elapsed();
    let fresh = clock.expect("a clock of our time").as_nanos() as u64 >> 10;
    let last = seed_alone().unwrap_or(fresh);
    let fixed = match seed_alone() {
        Some(_) => 0,
        None => fixed.max(number("PERDURE_SEEDS").unwrap_or(0)),
    };
    let seeds = (1..=fixed).chain([last]);
    seeds.inspect(|seed| println!("PERDURE_SEED={seed}"))
}
