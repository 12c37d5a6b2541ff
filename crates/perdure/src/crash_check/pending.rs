//! What persistent memory may hold if the power fails now: of each line, what is durable, and the stores
//! since.
//!
//! Always true here:
//! - A line's bytes after a failure are what is durable and some of the stores since: a beginning of them,
//!   or, where stores can pass each other, any that leaves no store behind without those that it stays
//!   behind.
//! - Lines do not depend on each other: what a flush and a fence order is what they make durable.
//!
//! Why a failure point just before something becomes durable stands for every earlier moment since the last
//! such point: until then stores are only added, so that each line could be found as anything that it could
//! be found as before. The test below holds what this allows against the explorer of litmus tests.

mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use perdure_hardware::line::LINE_BYTES;
use perdure_linux::ThreadId;
use serde::{Deserialize, Serialize};

use super::rules::Model;
use crate::functional::{At, Flush, Wait};

/// The bytes of a line.
pub type Bytes = [u8; LINE_BYTES];
/// Versions of a line that are told apart; what goes beyond is said.
pub const VERSIONS_MAX: usize = 256;
/// Stores of a line that are told apart. Beyond, two neighbours count as one.
const STORES_MAX: usize = 1024;

/// A store, or several that are taken for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Store {
    /// Which bytes it writes.
    pub mask: u64,
    /// The line's bytes, of which these count.
    #[serde(with = "serde_bytes")]
    pub bytes: Bytes,
    /// Who made it, and where.
    pub at: At,
    /// Fences of its thread that came before it.
    fences: u64,
    /// The last moment before it at which its thread put stores behind what was before.
    behind: u64,
    /// The first moment since at which its thread put it before what is behind.
    before: Option<u64>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct History {
    /// What is durable.
    pub durable: Bytes,
    /// Since then, oldest first.
    pub stores: Vec<Store>,
    /// How many stores to the line came before those.
    first: u64,
    /// Some stores are taken for one.
    pub thinned: bool,
}

/// What a line may be found as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its bytes.
    pub bytes: Bytes,
    /// Which of the stores are in them.
    pub kept: Kept,
}

/// Stores that a version has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// So many, from the oldest on.
    First(usize),
    /// A bit for each.
    These(u64),
}

impl Kept {
    /// True if it has the store of that number.
    pub fn has(&self, store: usize) -> bool {
        match *self {
            Self::First(count) => store < count,
            Self::These(bits) => bits >> store & 1 != 0,
        }
    }
}

/// A flush that nothing has waited for yet.
#[derive(Clone, Debug)]
struct UnderWay {
    thread: ThreadId,
    /// It makes stores up to this one durable.
    until: u64,
    /// How much was retired before it.
    retired: u64,
}

/// A flush of a line that came too early for its stores: nothing is under way of it.
#[derive(Clone, Debug)]
struct Early {
    thread: ThreadId,
    /// How much was retired before it.
    retired: u64,
    /// The number behind the stores that were made before its thread waited, if it has.
    until: Option<u64>,
}

/// A flush of a line that is not durable, as a failure point knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// So many of the line's stores it covers.
    pub stores: usize,
    /// Those from there up to this one came before its thread waited.
    pub missed: usize,
    /// How much was retired before it.
    pub retired: u64,
}

/// Moments at which threads put stores behind others: what a thread has put before such a moment stays before
/// what another one puts behind a later one.
#[derive(Clone, Debug, Default)]
struct Barriers {
    count: u64,
    /// The last of each thread.
    last: BTreeMap<ThreadId, u64>,
    /// Lines of stores that their thread has put before nothing yet.
    loose: BTreeMap<ThreadId, BTreeSet<u64>>,
    /// How much was retired before the last atomic instruction of each thread, whose store is a barrier, too.
    atomics: BTreeMap<ThreadId, u64>,
}

/// All lines that are not durable.
#[derive(Clone, Debug)]
pub struct Pending {
    model: Model,
    lines: BTreeMap<u64, Arc<History>>,
    /// Flushes of lines, in their order, of which each line has one at least.
    under_way: BTreeMap<u64, Vec<UnderWay>>,
    /// Flushes that came too early for all that is stored in their lines since.
    early: BTreeMap<u64, Vec<Early>>,
    fences: BTreeMap<ThreadId, u64>,
    /// In which order the barriers of all threads were, where stores can pass each other.
    barriers: Barriers,
    /// Stores of which it is of interest when they become durable, by how much was retired before them.
    watched: Arc<BTreeSet<u64>>,
    /// What made them so.
    pub fates: BTreeMap<u64, At>,
}

/// The bits of bytes within a line.
pub fn mask_of(offset: usize, length: usize) -> u64 {
    let ones = if length >= LINE_BYTES {
        u64::MAX
    } else {
        (1 << length) - 1
    };
    ones << offset
}

/// Puts some bytes of a line over those of another.
pub fn overlay(over: &mut Bytes, bytes: &Bytes, mask: u64) {
    for (place, byte) in bytes.iter().enumerate() {
        if mask >> place & 1 != 0 {
            over[place] = *byte;
        }
    }
}

impl History {
    /// The number behind the last store.
    fn end(&self) -> u64 {
        self.first + self.stores.len() as u64
    }

    /// Its bytes with some of the stores.
    fn with(&self, kept: &Kept) -> Bytes {
        let mut bytes = self.durable;
        for (_, store) in (self.stores.iter().enumerate()).filter(|(number, _)| kept.has(*number)) {
            overlay(&mut bytes, &store.bytes, store.mask);
        }
        bytes
    }

    /// The same where the line is found like that, and how many stores are in it: as a beginning of its
    /// stores, the longest, or else as nothing that it was.
    pub fn since(&self, found: &Bytes) -> (Self, usize) {
        let (mut bytes, mut count) = (self.durable, 0);
        for (number, store) in self.stores.iter().enumerate() {
            if bytes == *found {
                count = number;
            }
            overlay(&mut bytes, &store.bytes, store.mask);
        }
        let since = Self {
            durable: *found,
            stores: self.stores[count..].to_vec(),
            first: self.first + count as u64,
            thinned: self.thinned,
        };
        (since, count)
    }

    /// The last store that the thread of a store made before its next fence.
    pub fn last_with(&self, store: usize) -> At {
        let first = &self.stores[store];
        let with = |one: &&Store| one.at.thread == first.at.thread && one.fences == first.fences;
        let last = self.stores[store..].iter().rev().find(with);
        last.unwrap_or(first).at
    }

    /// Takes each second store of the older half together with the one before it.
    fn thin(&mut self) {
        let half = self.stores.len() / 2;
        let younger = self.stores.split_off(half);
        let mut thinned: Vec<Store> = Vec::new();
        for (number, store) in std::mem::take(&mut self.stores).into_iter().enumerate() {
            match thinned.last_mut() {
                Some(last) if number % 2 == 1 => {
                    overlay(&mut last.bytes, &store.bytes, store.mask);
                    last.mask |= store.mask;
                    last.at = store.at;
                }
                _ => thinned.push(store),
            }
        }
        self.first += (half - thinned.len()) as u64;
        thinned.extend(younger);
        self.stores = thinned;
        self.thinned = true;
    }
}

impl Pending {
    /// Everything is durable.
    pub fn new(model: Model, watched: Arc<BTreeSet<u64>>) -> Self {
        Self {
            model,
            lines: BTreeMap::new(),
            under_way: BTreeMap::new(),
            early: BTreeMap::new(),
            fences: BTreeMap::new(),
            barriers: Barriers::default(),
            watched,
            fates: BTreeMap::new(),
        }
    }

    /// Lines that are not durable.
    pub fn lines(&self) -> &BTreeMap<u64, Arc<History>> {
        &self.lines
    }

    /// A store to some bytes of a line, which was found like that if all of it was durable.
    pub fn store(&mut self, line: u64, found: &Bytes, (offset, bytes): (usize, &[u8]), at: &At) {
        let history = self.lines.entry(line).or_insert_with(|| {
            Arc::new(History {
                durable: *found,
                stores: Vec::new(),
                first: 0,
                thinned: false,
            })
        });
        let history = Arc::make_mut(history);
        let mut store = Store {
            mask: mask_of(offset, bytes.len()),
            bytes: [0; LINE_BYTES],
            at: *at,
            fences: self.fences.get(&at.thread).copied().unwrap_or(0),
            behind: self.barriers.last.get(&at.thread).copied().unwrap_or(0),
            before: None,
        };
        store.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        history.stores.push(store);
        if history.stores.len() > STORES_MAX && !self.under_way.contains_key(&line) {
            history.thin();
        }
        if self.model.reorders_stores() {
            let loose = &mut self.barriers.loose;
            loose.entry(at.thread).or_default().insert(line);
            if self.barriers.atomics.get(&at.thread) == Some(&at.retired) {
                self.barrier(at.thread, true);
            }
        }
    }

    /// A thread puts its later stores behind what is before, and that before them if it has `both`.
    fn barrier(&mut self, thread: ThreadId, both: bool) {
        let barriers = &mut self.barriers;
        barriers.count += 1;
        barriers.last.insert(thread, barriers.count);
        let loose = both.then(|| barriers.loose.remove(&thread)).flatten();
        for line in loose.into_iter().flatten() {
            let Some(history) = self.lines.get_mut(&line) else {
                continue;
            };
            let stores = Arc::make_mut(history).stores.iter_mut();
            for store in stores.filter(|store| store.at.thread == thread) {
                store.before.get_or_insert(barriers.count);
            }
        }
    }

    /// Bytes become durable at once, whatever is pending of their line.
    pub fn settle(&mut self, line: u64, offset: usize, bytes: &[u8]) {
        if let Some(history) = self.lines.get_mut(&line) {
            let history = Arc::make_mut(history);
            history.durable[offset..offset + bytes.len()].copy_from_slice(bytes);
            let mask = mask_of(offset, bytes.len());
            for store in &mut history.stores {
                store.mask &= !mask;
            }
        }
    }

    /// Of each line, flushes that came too early for all of its stores, and those under way in their order.
    pub fn covered(&self) -> BTreeMap<u64, Vec<Flushed>> {
        let of_line = |(&line, history): (&u64, &Arc<History>)| {
            let number = |number: u64| number.saturating_sub(history.first) as usize;
            let early = self.early.get(&line).into_iter().flatten();
            let early = early.map(|flush| Flushed {
                stores: 0,
                missed: number(flush.until.unwrap_or(history.end())),
                retired: flush.retired,
            });
            let under_way = self.under_way.get(&line).into_iter().flatten();
            let under_way = under_way.map(|flush| Flushed {
                stores: number(flush.until),
                missed: history.stores.len(),
                retired: flush.retired,
            });
            (line, early.chain(under_way).collect::<Vec<_>>())
        };
        let flushed = self.lines.iter().map(of_line);
        flushed.filter(|(_, flushes)| !flushes.is_empty()).collect()
    }

    /// True if a flush of the line writes nothing back that an earlier one has not, and whether there was an
    /// earlier one.
    pub fn is_clean(&self, line: u64) -> Option<bool> {
        let Some(history) = self.lines.get(&line) else {
            return Some(false);
        };
        let done = |flush: &UnderWay| flush.until == history.end();
        let flushes = self.under_way.get(&line)?;
        flushes.iter().any(done).then_some(true)
    }

    /// True if a flush makes something durable at once.
    pub fn would_settle(&self, line: u64, flush: Flush) -> bool {
        self.model.is_durable_at_once(flush) && self.lines.contains_key(&line)
    }

    /// A line is written back. What is durable now is told to `durable`.
    pub fn flush(
        &mut self,
        line: u64,
        flush: Flush,
        at: &At,
        durable: &mut dyn FnMut(u64, &Bytes),
    ) {
        let is_durable_at_once = self.model.is_durable_at_once(flush);
        let Some(history) = self.lines.get(&line) else {
            if !is_durable_at_once {
                self.came_early(line, at.thread, at.retired);
            }
            return;
        };
        let until = history.end();
        if is_durable_at_once {
            self.make_durable(line, until, at, durable);
        } else {
            let flushes = self.under_way.entry(line).or_default();
            flushes.push(UnderWay {
                thread: at.thread,
                until,
                retired: at.retired,
            });
        }
    }

    /// True if a thread has flushes that nothing has waited for.
    pub fn has_flushes(&self, thread: ThreadId) -> bool {
        let mut all = self.under_way.values().flatten();
        all.any(|flush| flush.thread == thread)
    }

    /// True if what waits makes something durable.
    pub fn would_wait(&self, wait: Wait, at: &At) -> bool {
        let matters = |(line, flushes): (&u64, &Vec<UnderWay>)| {
            let mut own = flushes.iter().filter(|flush| flush.thread == at.thread);
            let line = self.lines.get(line);
            line.is_some_and(|line| own.any(|flush| line.first < flush.until))
        };
        self.model.waits_for_flushes(wait) && self.under_way.iter().any(matters)
    }

    /// Something waits. What is durable now is told to `durable`.
    pub fn wait(&mut self, wait: Wait, at: &At, durable: &mut dyn FnMut(u64, &Bytes)) {
        if self.model.orders_stores(wait) {
            *self.fences.entry(at.thread).or_default() += 1;
        }
        if self.model.reorders_stores() && self.model.puts_stores_behind(wait) {
            self.barrier(at.thread, self.model.orders_stores(wait));
            if wait == Wait::Atomic {
                self.barriers.atomics.insert(at.thread, at.retired);
            }
        }
        if !self.model.waits_for_flushes(wait) {
            return;
        }
        let mut done: Vec<(u64, UnderWay)> = Vec::new();
        self.under_way.retain(|&line, flushes| {
            let own = flushes.extract_if(.., |flush| flush.thread == at.thread);
            done.extend(own.map(|flush| (line, flush)));
            !flushes.is_empty()
        });
        for (line, flush) in done {
            self.make_durable(line, flush.until, at, durable);
            if self.lines.contains_key(&line) {
                self.came_early(line, at.thread, flush.retired);
            }
        }
        self.early.retain(|line, flushes| {
            let (first, end) = match self.lines.get(line) {
                Some(history) => (history.first, history.end()),
                None => (0, 0),
            };
            for flush in (flushes.iter_mut()).filter(|flush| flush.thread == at.thread) {
                flush.until.get_or_insert(end);
            }
            flushes.retain(|flush| flush.until.is_none_or(|until| until > first));
            !flushes.is_empty()
        });
    }

    /// A thread has flushed a line, too early for what is stored there from now on.
    fn came_early(&mut self, line: u64, thread: ThreadId, retired: u64) {
        let early = self.early.entry(line).or_default();
        early.retain(|flush| flush.thread != thread || flush.until.is_some());
        early.push(Early {
            thread,
            retired,
            until: None,
        });
    }

    fn make_durable(
        &mut self,
        line: u64,
        until: u64,
        at: &At,
        durable: &mut dyn FnMut(u64, &Bytes),
    ) {
        let Some(history) = self.lines.get_mut(&line) else {
            return;
        };
        let count = until.saturating_sub(history.first);
        if count == 0 {
            return;
        }
        let history = Arc::make_mut(history);
        for store in history.stores.drain(..count as usize) {
            overlay(&mut history.durable, &store.bytes, store.mask);
            if self.watched.contains(&store.at.retired) {
                self.fates.insert(store.at.retired, *at);
            }
        }
        history.first = until;
        durable(line, &history.durable);
        if history.stores.is_empty() {
            self.lines.remove(&line);
            self.under_way.remove(&line);
            self.early.remove(&line);
        }
    }
}

#[cfg(test)]
mod tests;
