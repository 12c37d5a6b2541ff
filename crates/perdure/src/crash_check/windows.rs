//! What is flushed and waited for around the stores of bugs, while a run is watched.
//!
//! Always true here: between two stores of a bug the first and the last flushes and fences are told, and
//! those that lie between these are counted. The same run tells the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use perdure_linux::ThreadId;
use perdure_riscv::{Barrier, CacheBlock};
use serde::{Deserialize, Serialize};

use super::places::Place;
use super::rules::Model;
use crate::functional::{At, Flush, Wait};

/// Flushes and fences of a bug that are told, as far as it has so few stores.
const TOLD: usize = 40;
/// Between two stores, there are as many of each kind behind the one as before the other.
const KINDS_AND_ENDS: usize = 4;

/// What is of interest of a run.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// When the stores are made, by how much was retired before each.
    pub stores: BTreeSet<u64>,
    /// Their lines.
    pub lines: BTreeSet<u64>,
    /// Who makes them.
    pub threads: BTreeSet<ThreadId>,
    /// Power fails at the failure point of that number.
    pub point: u64,
    /// Lines of which the last flush before these stores is of interest, too.
    pub flushed_before: BTreeSet<u64>,
}

/// A flush of a line, or a fence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Who, and when.
    pub at: At,
    /// Which line; of a fence, none.
    pub line: Option<u64>,
    /// The instruction, as far as it is known.
    pub by: Option<String>,
    /// What comes behind it waits until flushes are done.
    pub waits: bool,
    /// It stands for so many that are not told.
    pub times: Option<u64>,
    /// Where it is and who calls that, once somebody has looked.
    pub places: Vec<Place>,
}

/// The same while it is watched.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Its place among all of a window.
    number: u64,
    at: At,
    what: What,
    waits: bool,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Flush(u64, Option<Flush>),
    Fence(Option<Wait>),
}

/// What comes between two stores, of one kind.
#[derive(Clone, Debug, Default)]
struct Between {
    first: Vec<Seen>,
    last: VecDeque<Seen>,
    /// The first that lies between these, and how many do.
    left_out: Option<(Seen, u64)>,
}

/// What is seen through a window.
#[derive(Clone, Debug)]
struct Watched {
    window: Window,
    count: u64,
    flushes: Vec<Between>,
    fences: Vec<Between>,
    before: BTreeMap<u64, Seen>,
}

/// What is seen through all windows of a run.
#[derive(Clone, Debug)]
pub struct Windows {
    model: Model,
    all: Vec<Watched>,
}

impl Between {
    fn add(&mut self, seen: Seen, room: usize) {
        if self.first.len() < room {
            self.first.push(seen);
            return;
        }
        self.last.push_back(seen);
        if self.last.len() > room
            && let Some(one) = self.last.pop_front()
        {
            self.left_out.get_or_insert((one, 0)).1 += 1;
        }
    }

    fn events(&self) -> impl Iterator<Item = (u64, Event)> {
        let told = self.first.iter().chain(&self.last);
        let told = told.map(|seen| (seen.number, seen.event(None)));
        let left_out = self.left_out.iter();
        told.chain(left_out.map(|(seen, times)| (seen.number, seen.event(Some(*times)))))
    }
}

impl Seen {
    fn event(&self, times: Option<u64>) -> Event {
        let (line, by) = match self.what {
            What::Flush(line, how) => (Some(line), how.map(|how| flush_name(how).to_owned())),
            What::Fence(wait) => (None, wait.map(wait_name)),
        };
        Event {
            at: self.at,
            line,
            by: by.filter(|_| times.is_none()),
            waits: self.waits,
            times,
            places: Vec::new(),
        }
    }
}

impl Watched {
    fn new(window: &Window) -> Self {
        let gaps = vec![Between::default(); window.stores.len()];
        Self {
            window: window.clone(),
            count: 0,
            flushes: gaps.clone(),
            fences: gaps,
            before: BTreeMap::new(),
        }
    }

    /// Something that a run does when it has come past so many failure points.
    fn see(&mut self, what: What, at: &At, (points, waits): (u64, bool)) {
        if points > self.window.point {
            return;
        }
        let concerns = match what {
            What::Flush(line, _) => self.window.lines.contains(&line),
            What::Fence(_) => self.window.threads.contains(&at.thread),
        };
        if !concerns {
            return;
        }
        let seen = Seen {
            number: self.count,
            at: *at,
            what,
            waits,
        };
        self.count += 1;
        let room = usize::max(1, TOLD / self.window.stores.len().max(1) / KINDS_AND_ENDS);
        let gap = self.window.stores.range(..=at.retired).count();
        match (what, gap.checked_sub(1)) {
            (What::Flush(line, _), None) => {
                if self.window.flushed_before.contains(&line) {
                    self.before.insert(line, seen);
                }
            }
            (What::Fence(_), None) => {}
            (What::Flush(..), Some(gap)) => {
                // Who has flushed a line has to wait for that.
                self.window.threads.insert(at.thread);
                self.flushes[gap].add(seen, room);
            }
            (What::Fence(_), Some(gap)) => self.fences[gap].add(seen, room),
        }
    }

    fn events(&self) -> Vec<Event> {
        let before = self.before.values();
        let before = before.map(|seen| (seen.number, seen.event(None)));
        let gaps = self.flushes.iter().chain(&self.fences);
        let mut all: Vec<(u64, Event)> = before.chain(gaps.flat_map(Between::events)).collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, event)| event).collect()
    }
}

impl Windows {
    /// Nothing was seen through them yet.
    pub fn new(model: Model, windows: &[Window]) -> Self {
        let all = windows.iter().map(Watched::new).collect();
        Self { model, all }
    }

    /// A line is flushed, by a run that has come past so many failure points.
    pub fn flushes(&mut self, line: u64, how: Option<Flush>, at: &At, points: u64) {
        let waits = how.is_some_and(|how| self.model.is_durable_at_once(how));
        for one in &mut self.all {
            one.see(What::Flush(line, how), at, (points, waits));
        }
    }

    /// Something waits, or is taken for what does.
    pub fn fences(&mut self, wait: Option<Wait>, at: &At, points: u64) {
        let waits = wait.is_none_or(|wait| self.model.waits_for_flushes(wait));
        // Atomic instructions are told where they wait, and fences of loads nowhere.
        let is_fence = |wait| wait != Wait::Atomic && self.model.orders_stores(wait);
        if waits || wait.is_some_and(is_fence) {
            for one in &mut self.all {
                one.see(What::Fence(wait), at, (points, waits));
            }
        }
    }

    /// What was seen through each, in the order of the run.
    pub fn events(&self) -> Vec<Vec<Event>> {
        self.all.iter().map(Watched::events).collect()
    }
}

fn flush_name(how: Flush) -> &'static str {
    match how {
        Flush::Instruction(CacheBlock::Invalidate) => "cbo.inval",
        Flush::Instruction(CacheBlock::Clean) => "cbo.clean",
        Flush::Instruction(CacheBlock::Flush) => "cbo.flush",
        Flush::Instruction(CacheBlock::Zero) => "cbo.zero",
        Flush::Instruction(CacheBlock::Clflush) => "clflush",
        Flush::Instruction(CacheBlock::Clflushopt) => "clflushopt",
        Flush::Instruction(CacheBlock::Clwb) => "clwb",
        Flush::Instruction(CacheBlock::DcCivac) => "dc civac",
        Flush::Instruction(CacheBlock::DcCvac) => "dc cvac",
        Flush::Instruction(CacheBlock::DcCvap) => "dc cvap",
        Flush::NonTemporal => "non-temporal store",
        Flush::MemoryType => "memory type",
        Flush::Kernel => "kernel",
    }
}

fn wait_name(wait: Wait) -> String {
    // Of memory alone: devices are no matter here.
    let set = |bits: u8| ["", "w", "r", "rw"][usize::from(bits & 3)];
    match wait {
        Wait::Barrier(Barrier::Sfence) => "sfence".into(),
        Wait::Barrier(Barrier::Mfence) => "mfence".into(),
        Wait::Barrier(Barrier::DmbIsh) => "dmb ish".into(),
        Wait::Barrier(Barrier::DsbIsh) => "dsb ish".into(),
        Wait::Fence(before, after) => format!("fence {},{}", set(before), set(after)),
        Wait::Atomic => "atomic instruction".into(),
        Wait::Kernel => "kernel".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 64;

    fn at(thread: u32, retired: u64) -> At {
        At {
            thread: ThreadId(thread),
            pc: 0,
            retired,
            by_kernel: false,
        }
    }

    /// Two stores of thread 1 to a line, before the failure point 3.
    fn windows(flushed_before: &[u64]) -> Windows {
        let window = Window {
            stores: BTreeSet::from([100, 200]),
            lines: BTreeSet::from([LINE]),
            threads: BTreeSet::from([ThreadId(1)]),
            point: 3,
            flushed_before: flushed_before.iter().copied().collect(),
        };
        Windows::new(Model::Px86, &[window])
    }

    fn moments(windows: &Windows) -> Vec<(u64, Option<u64>)> {
        let events = windows.events().remove(0).into_iter();
        events.map(|one| (one.at.retired, one.times)).collect()
    }

    const CLWB: Option<Flush> = Some(Flush::Instruction(CacheBlock::Clwb));
    const SFENCE: Option<Wait> = Some(Wait::Barrier(Barrier::Sfence));

    #[test]
    fn what_concerns_nobody_is_not_told() {
        let mut seen = windows(&[]);
        seen.flushes(LINE, CLWB, &at(1, 99), 3);
        seen.flushes(LINE, CLWB, &at(1, 150), 3);
        seen.flushes(2 * LINE, CLWB, &at(1, 151), 3);
        seen.fences(SFENCE, &at(2, 152), 3);
        seen.fences(SFENCE, &at(1, 153), 3);
        // The failure point was in the instruction before that.
        seen.fences(SFENCE, &at(1, 250), 4);
        assert_eq!(moments(&seen), [(150, None), (153, None)]);
    }

    #[test]
    fn who_flushes_has_to_wait() {
        let mut seen = windows(&[]);
        seen.fences(SFENCE, &at(2, 120), 3);
        seen.flushes(LINE, CLWB, &at(2, 130), 3);
        seen.fences(SFENCE, &at(2, 140), 3);
        assert_eq!(moments(&seen), [(130, None), (140, None)]);
    }

    #[test]
    fn the_flush_that_came_too_early_is_the_last_one() {
        let mut seen = windows(&[LINE]);
        for retired in [10, 20, 101] {
            seen.flushes(LINE, CLWB, &at(1, retired), 3);
        }
        assert_eq!(moments(&seen), [(20, None), (101, None)]);
    }

    #[test]
    fn between_stores_the_nearest_are_told_and_the_others_counted() {
        let mut seen = windows(&[]);
        for retired in 101..200 {
            seen.fences(SFENCE, &at(1, retired), 3);
        }
        seen.flushes(LINE, CLWB, &at(1, 199), 3);
        let told = moments(&seen);
        let room = TOLD as u64 / 2 / KINDS_AND_ENDS as u64;
        let first = (101..101 + room).map(|retired| (retired, None));
        let left_out = [(101 + room, Some(99 - 2 * room))];
        let last = (200 - room..200).map(|retired| (retired, None));
        let expected: Vec<_> = first
            .chain(left_out)
            .chain(last)
            .chain([(199, None)])
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn a_fence_that_does_not_wait_says_so() {
        let mut seen = windows(&[]);
        seen.fences(Some(Wait::Fence(3, 1)), &at(1, 150), 3);
        seen.fences(Some(Wait::Fence(2, 3)), &at(1, 151), 3);
        seen.fences(SFENCE, &at(1, 152), 3);
        let told = seen.events().remove(0).into_iter();
        let told: Vec<_> = told.map(|one| (one.by, one.waits)).collect();
        let named = |name: &str, waits| (Some(name.to_owned()), waits);
        assert_eq!(told, [named("fence rw,w", false), named("sfence", true)]);
    }
}
