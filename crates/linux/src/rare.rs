//! State that few programs have.
//!
//! Always true: each part stands at the end of the core section behind its number, in the order of
//! the numbers, and takes no byte while it is empty: a program that never uses it pays for no line
//! of it.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::jobs::Jobs;

/// The parts of the state that are saved only if there is something in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rare {
    /// Part 1.
    pub jobs: Jobs,
}

/// Appends a part that holds something.
fn append_part(out: &mut Vec<u8>, number: u8, is_empty: bool, part: &impl Serialize) {
    if !is_empty {
        out.push(number);
        crate::save::append(out, part);
    }
}

/// Splits a part off.
fn take_part<T: DeserializeOwned>(bytes: &[u8]) -> Option<(T, &[u8])> {
    postcard::take_from_bytes(bytes).ok()
}

impl Rare {
    /// Appends every part that holds something.
    pub fn save(&self, out: &mut Vec<u8>) {
        append_part(out, 1, self.jobs.is_empty(), &self.jobs);
    }

    /// The parts that stand in bytes; `None` if the bytes are damaged.
    pub fn restore(mut bytes: &[u8]) -> Option<Self> {
        let mut rare = Self::default();
        let mut last = 0;
        while let Some((&number, rest)) = bytes.split_first() {
            if number <= last {
                return None;
            }
            last = number;
            bytes = match number {
                1 => {
                    let (part, rest) = take_part(rest)?;
                    rare.jobs = part;
                    rest
                }
                _ => return None,
            };
        }
        Some(rare)
    }
}
