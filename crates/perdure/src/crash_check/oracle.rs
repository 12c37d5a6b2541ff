//! What is asked of a recovery.
//!
//! Always true here: a recovery is judged by how it ends, by what is shown of the recovered pool, and by
//! bytes that have to be whole; what it should show is what the uncut run made, at the ends of operations.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bytes;
use super::orders::{self, Orders};
use super::record::{Operation, Phase, Point, Whole};
use super::recovery::{End, Life, Which};
use crate::functional::Pool;
use crate::restart::last_lines_of;

/// The status of an invariant that does not hold (`guest/perdure_invariant.c`).
const VIOLATED: i32 = 1;
/// How the invariant's program begins to say that it cannot map all of a pool.
pub const PARTLY: &str = "invariant: only the bytes ";
/// Of what might be shown, so much is told.
const TOLD: usize = 4;

/// What is wrong with a recovery.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Wrong {
    /// It did not end well.
    End(Which, End),
    /// What it shows is neither of the states that it may be in.
    Shows {
        /// What it shows.
        found: Vec<u8>,
        /// What it might.
        #[serde(with = "bytes::shared")]
        allowed: Vec<Arc<Vec<u8>>>,
        /// An operation was under way.
        under_way: bool,
        /// Operations had overlapped.
        overlap: bool,
    },
    /// An invariant does not hold.
    Violated {
        /// What it has printed.
        said: String,
    },
    /// Bytes are neither as before nor as after the operation.
    Torn {
        /// Which.
        start: u64,
        /// How many.
        bytes: u64,
    },
}

impl Wrong {
    /// What tells one kind of failure from others, in few words.
    pub fn symptom(&self) -> String {
        match self {
            Self::End(which, End::Status(status)) => {
                format!("{} ends with status {status}", which.name())
            }
            Self::End(which, End::Signal { name, pc, .. }) => {
                format!("{} is ended by {name} at {pc:#x}", which.name())
            }
            Self::End(which, End::Hangs(_)) => format!("{} does not end", which.name()),
            Self::End(which, End::Deadlock) => format!("{} waits for ever", which.name()),
            Self::End(which, End::NotStarted(_)) => {
                format!("{} cannot be started", which.name())
            }
            Self::Shows { overlap: true, .. } => {
                "the recovered pool is not what any order of the operations leads to".into()
            }
            Self::Shows {
                under_way: true, ..
            } => "the recovered pool is neither as before the operation nor as after it".into(),
            Self::Shows { .. } => "the recovered pool lacks what was complete".into(),
            Self::Violated { .. } => "the invariant does not hold of the recovered pool".into(),
            Self::Torn { .. } => "bytes that change as a whole have not".into(),
        }
    }

    /// The first lines in which what is shown differs from what it should be: found, then each allowed.
    pub fn difference(&self) -> Vec<String> {
        let Self::Shows { found, allowed, .. } = self else {
            return Vec::new();
        };
        let lines = |bytes: &[u8]| -> Vec<String> {
            let text = String::from_utf8_lossy(bytes);
            text.lines().map(str::to_owned).collect()
        };
        let found = lines(found);
        let line = |lines: &[String], number: usize| {
            lines.get(number).map_or("(nothing)".into(), Clone::clone)
        };
        let mut told = Vec::new();
        for allowed in allowed.iter().take(TOLD) {
            let allowed = lines(allowed);
            let differs = |&number: &usize| found.get(number) != allowed.get(number);
            let first = (0..found.len().max(allowed.len())).find(differs);
            if let Some(first) = first {
                told.push(format!(
                    "line {}: shown {:?}, allowed {:?}",
                    first + 1,
                    line(&found, first),
                    line(&allowed, first)
                ));
            }
        }
        told
    }
}

/// What is known of the uncut run.
#[derive(Clone, Default)]
pub struct Expected {
    /// What is shown of the pool between operations, where it is needed.
    pub dumps: BTreeMap<usize, Arc<Vec<u8>>>,
    /// The images there, for bytes that are whole.
    pub images: BTreeMap<usize, Pool>,
    /// All operations.
    pub operations: Arc<Vec<Operation>>,
    /// Bytes that are whole, and since when.
    pub wholes: BTreeMap<Whole, u64>,
    /// What checks is an invariant.
    pub invariant: bool,
    /// What may be shown where operations overlap, where it is needed.
    pub orders: BTreeMap<(u64, u64), Orders>,
}

impl Expected {
    /// The boundaries as one of which a pool may be found in a phase; none where nothing is known.
    pub fn boundaries(&self, phase: &Phase) -> Vec<usize> {
        let Some(before) = phase.before.filter(|_| !phase.several) else {
            return Vec::new();
        };
        let Some(operation) = phase.operation.map(|number| self.operations[number]) else {
            return vec![before];
        };
        match operation.after {
            Some(after) if !operation.overlaps => vec![before, after],
            _ => Vec::new(),
        }
    }

    /// Which orders of operations a failure in a phase is judged by; none where boundaries are known.
    pub fn orders_of(&self, phase: &Phase) -> Option<(u64, u64)> {
        orders::key(phase).filter(|_| self.boundaries(phase).is_empty())
    }

    /// What is wrong with what is shown where operations overlap.
    fn judge_orders(&self, shown: &[u8], phase: &Phase) -> Option<Wrong> {
        let orders = self.orders.get(&self.orders_of(phase)?)?;
        let fits = orders.dumps.iter().any(|dump| **dump == shown);
        if fits || orders.missing.is_some() {
            return None;
        }
        Some(Wrong::Shows {
            found: shown.to_vec(),
            allowed: orders.dumps.iter().map(Arc::clone).collect(),
            under_way: true,
            overlap: true,
        })
    }

    /// Bytes that have to be whole after a failure there.
    pub fn wholes_at(&self, point: &Point) -> impl Iterator<Item = &Whole> {
        let known = !self.boundaries(&point.phase).is_empty();
        let wholes = self.wholes.iter().filter(move |_| known);
        let retired = point.at.retired;
        wholes
            .filter(move |(_, since)| **since <= retired)
            .map(|(whole, _)| whole)
    }

    /// What is wrong with a life after a failure there, if anything is. Of one that has gone on with
    /// operations of its own, only the end is asked.
    pub fn judge(&self, which: Which, life: &Life, point: &Point) -> Option<Wrong> {
        let phase = &point.phase;
        if self.invariant && which == Which::Check && life.end == End::Status(VIOLATED) {
            let said = last_lines_of(&[life.output.as_slice(), &own_words(&life.error)].concat());
            return Some(Wrong::Violated { said });
        }
        if life.end != End::Status(0) {
            return Some(Wrong::End(which, life.end.clone()));
        }
        if life.has_gone_on {
            return None;
        }
        let boundaries = self.boundaries(phase);
        if which == Which::Dump {
            if boundaries.is_empty() {
                return self.judge_orders(&life.output, phase);
            }
            let dumps = boundaries.iter().map(|number| self.dumps.get(number));
            let allowed: Vec<_> = dumps.collect::<Option<Vec<_>>>()?;
            let fits = allowed.iter().any(|dump| ***dump == life.output);
            if !allowed.is_empty() && !fits {
                let mut allowed: Vec<_> = allowed.into_iter().map(Arc::clone).collect();
                allowed.dedup();
                return Some(Wrong::Shows {
                    found: life.output.clone(),
                    allowed,
                    under_way: phase.operation.is_some(),
                    overlap: false,
                });
            }
            return None;
        }
        let images = boundaries.iter().map(|number| self.images.get(number));
        let images: Vec<_> = images.collect::<Option<Vec<_>>>()?;
        let torn = self.wholes_at(point).find(|whole| {
            let of = |pool: &Pool| {
                let mut read = Vec::new();
                for &(start, bytes) in *whole {
                    let (from, bytes) = (read.len(), bytes as usize);
                    read.resize(from + bytes, 0);
                    pool.read(start, &mut read[from..]);
                }
                read
            };
            let found = of(&life.pool);
            !images.iter().any(|image| of(image) == found)
        })?;
        Some(Wrong::Torn {
            start: torn.first()?.0,
            bytes: torn.iter().map(|(_, bytes)| bytes).sum(),
        })
    }
}

/// What an invariant has printed itself: without what is said of pools of which it has a part.
fn own_words(error: &[u8]) -> Vec<u8> {
    let lines = error.split_inclusive(|&byte| byte == b'\n');
    let own = lines.filter(|line| !line.starts_with(PARTLY.as_bytes()));
    own.flatten().copied().collect()
}

impl Expected {
    /// What came before a boundary is not needed any more.
    pub fn forget_before(&mut self, boundary: usize) {
        self.images = self.images.split_off(&boundary);
        self.dumps = self.dumps.split_off(&boundary);
    }
}
