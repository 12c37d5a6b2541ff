//! Programs: what the configuration asks to run, each a tree of processes of its own.
//!
//! Always true: what a program sees of numbers that the kernel hands out (process numbers, random
//! bytes) follows from its own behaviour, not from when the others run; so a program does the same
//! beside any neighbours and under any design, as far as it does not look at the clock or at
//! files that others write.

use serde::{Deserialize, Serialize};

use crate::configuration::{Program, WORK_DIRECTORY};
use crate::random::Random;

/// What starting a program needs, the first time and again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Recipe {
    /// The program's guest path.
    pub path: String,
    pub arguments: Vec<String>,
    /// `NAME=value`.
    pub environment: Vec<String>,
    /// All of standard input; `/dev/null` without.
    #[serde(with = "serde_bytes")]
    pub stdin: Option<Vec<u8>>,
    pub random_seed: u64,
}

impl Recipe {
    /// All that its standard input ever holds.
    pub fn input(&self) -> &[u8] {
        self.stdin.as_deref().unwrap_or_default()
    }
}

/// How far a program has come.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Its present run, from 0.
    pub run: u64,
    pub random: Random,
    pub stdin_offset: u64,
    /// The next number for a process or thread of it.
    pub next_number: u32,
}

impl Progress {
    /// Where run 0 of the program at `place` begins.
    pub fn new(place: u32, recipe: &Recipe) -> Self {
        Self {
            run: 0,
            random: Random::new(recipe.random_seed),
            stdin_offset: 0,
            next_number: place + 1,
        }
    }

    /// Where its next run begins.
    pub fn begin_again(&mut self, recipe: &Recipe) {
        self.run += 1;
        self.random = Random::new(recipe.random_seed);
        self.stdin_offset = 0;
    }

    /// A number for a process or thread: with so many programs, each has a residue of its own.
    pub fn take_number(&mut self, programs: usize) -> u32 {
        let number = self.next_number;
        self.next_number += programs as u32;
        number
    }
}

/// The seed of the random numbers of the program at `place`.
pub(crate) fn random_seed(machine_seed: u64, place: usize) -> u64 {
    machine_seed.wrapping_add((place as u64).wrapping_mul(0xd134_2543_de82_ef95))
}

/// A login shell's `PATH`.
pub(crate) const GUEST_PATH: [&str; 5] = [
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/usr/local/games",
    "/usr/games",
];

/// The fixed variables and the configured ones, as `NAME=value`.
pub(crate) fn environment(program: &Program) -> Vec<String> {
    let path = GUEST_PATH.join(":");
    let mut variables: Vec<(&str, &str)> = vec![
        ("HOME", "/home/user"),
        ("LANG", "C.UTF-8"),
        ("PATH", &path),
        ("PWD", WORK_DIRECTORY),
        ("TERM", "dumb"),
        ("TZ", "UTC"),
        ("USER", "user"),
    ];
    for (name, value) in &program.environment {
        variables.retain(|(old, _)| old != name);
        variables.push((name, value));
    }
    variables
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}
