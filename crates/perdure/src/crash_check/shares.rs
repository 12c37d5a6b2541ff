//! Work of a check that is dealt out to several processes, on several hosts.
//!
//! A check is made of recoveries, of which each follows from where power failed and from nothing else; only
//! which of them are wanted follows from what came of others. So the same check is made by several
//! processes, of which each does its share of the work and tells what came of it: first of the failure
//! points, or of the machines that are cut; and then, where all points are known, of the causes of what
//! goes wrong there and of power failures within recoveries. Who has been told everything makes the check
//! once more, and finds it done.
//!
//! Always true here: what somebody else has done stands in place of the same work, and what nobody has told
//! is done by who puts everything together. So the report is that of a check on one host.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Asked;
use super::campaign::{Visited, Within};
use super::cause::Cause;
use super::done::{Done, Outline};
use super::machine::Came;
use super::recovery::Which;
use crate::error::Error;
use crate::parallel;

/// How hard what was told is packed: it goes over a network, once.
const PACKED: u8 = 3;
/// Between two looks.
const FEW_POINTS: usize = 8;

/// Whose share, of how many.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Part(u64, u64);

impl Part {
    /// True for one share of each item that is dealt out.
    pub fn has(self, item: u64) -> bool {
        item % self.1.max(1) == self.0
    }

    /// How much of so many it is, at most.
    pub fn of(self, all: u64) -> u64 {
        all.div_ceil(self.1.max(1))
    }
}

/// What work of one kind came to, by what it was done on.
pub struct Kind<K, V> {
    known: BTreeMap<K, V>,
    /// What is to be told, by who does a share.
    new: Option<BTreeMap<K, V>>,
    dealt: u64,
}

impl<K: Clone + Ord, V: Clone + Send> Kind<K, V> {
    fn new(known: BTreeMap<K, V>, tells: bool) -> Self {
        let new = tells.then(BTreeMap::new);
        let dealt = 0;
        Self { known, new, dealt }
    }

    /// Somebody has done it.
    pub fn knows(&self, key: &K) -> bool {
        self.known.contains_key(key)
    }

    /// Somebody has done some of these.
    pub fn knows_some(&self, keys: Range<&K>) -> bool {
        self.known.range(keys).next().is_some()
    }

    /// It was done here.
    fn learn(&mut self, key: K, answer: V) {
        if let Some(new) = &mut self.new {
            new.insert(key.clone(), answer.clone());
        }
        self.known.insert(key, answer);
    }

    /// What work on each item comes to, by so many host threads; none where somebody else does it, who has
    /// not told of it yet, or where the user has stopped it.
    pub fn map<I: Sync>(
        &mut self,
        (part, jobs): (Option<Part>, usize),
        items: &[I],
        key: impl Fn(&I) -> K,
        work: impl Fn(&I) -> Result<V, Error> + Sync,
    ) -> Result<Vec<Option<V>>, Error> {
        let mut open = Vec::new();
        for item in items {
            if !self.knows(&key(item)) {
                if part.is_none_or(|part| part.has(self.dealt)) {
                    open.push(item);
                }
                self.dealt += 1;
            }
        }
        let done = parallel::map(jobs, &open, |item| match work(item) {
            Err(Error::Interrupted) => Ok(None),
            other => other.map(Some),
        })?;
        for (item, answer) in open.into_iter().zip(done) {
            if let Some(answer) = answer {
                self.learn(key(item), answer);
            }
        }
        // Each is asked for once.
        let answers = items.iter().map(|item| self.known.remove(&key(item)));
        Ok(answers.collect())
    }
}

/// A point, by its run and its number.
pub type PointKey = (u64, u64);
/// A kind of failures, where it was seen.
pub type CauseKey = (PointKey, Outline);
/// A point of a recovery that began at a point: of which program, what that found, and its number.
pub type WithinKey = (PointKey, (Which, BTreeMap<u64, usize>, u64));

/// What was told, or is.
#[derive(Default, Serialize, Deserialize)]
struct Told {
    points: BTreeMap<PointKey, Visited>,
    causes: BTreeMap<CauseKey, Option<Cause>>,
    within: BTreeMap<WithinKey, Within>,
    rounds: BTreeMap<u64, Came>,
}

/// What of a check is done here, and what others have told.
pub struct Shares {
    /// Whose share is done here; none by who puts everything together.
    pub part: Option<Part>,
    /// Points are explored, and nothing else.
    pub only_points: bool,
    /// Nobody goes beyond the points that are known.
    pub only_known: bool,
    /// The user has stopped those who have told.
    pub interrupted: bool,
    /// Failure points.
    pub points: Kind<PointKey, Visited>,
    /// Causes of failures there.
    pub causes: Kind<CauseKey, Option<Cause>>,
    /// Points of recoveries.
    pub within: Kind<WithinKey, Within>,
    /// Machines that are cut.
    pub rounds: Kind<u64, Came>,
}

impl Shares {
    fn new(told: Told, part: Option<Part>) -> Self {
        let tells = part.is_some();
        Self {
            part,
            only_points: false,
            only_known: false,
            interrupted: false,
            points: Kind::new(told.points, tells),
            causes: Kind::new(told.causes, tells),
            within: Kind::new(told.within, tells),
            rounds: Kind::new(told.rounds, tells),
        }
    }

    /// Everything is done here.
    pub fn all() -> Self {
        Self::new(Told::default(), None)
    }

    /// One share: of failure points, or of what is left where those have been told.
    pub fn one(part: Part, told: &[String]) -> Result<Self, Error> {
        let has_points = !told.is_empty();
        Ok(Self {
            only_points: !has_points,
            only_known: has_points,
            ..Self::new(read_all(told)?, Some(part))
        })
    }

    /// All shares were told, unless something has ended them.
    pub fn together(told: &[String], only_known: bool, interrupted: bool) -> Result<Self, Error> {
        Ok(Self {
            only_known: only_known || interrupted,
            interrupted,
            ..Self::new(read_all(told)?, None)
        })
    }

    /// Whether anybody does more here: there is time, and room within the bounds, or all that comes is known.
    pub fn goes_on(
        &self,
        asked: &Asked,
        (started, all_known): (Instant, bool),
        done: &mut Done,
    ) -> bool {
        let most_states = asked.states.map(|states| self.of_limit(states));
        done.interrupted |= self.interrupted && !all_known;
        let has_time = if self.only_known {
            all_known
        } else {
            asked.ends(started).is_none_or(|end| Instant::now() < end)
        };
        has_time && !done.interrupted && most_states.is_none_or(|states| done.states < states)
    }

    /// Those of some points that are explored here.
    pub fn of_points(&self, points: &[usize]) -> Vec<usize> {
        let part = self.part.filter(|_| self.only_points);
        let is_mine = |place: usize| part.is_none_or(|part| part.has(place as u64));
        let mine = points
            .iter()
            .enumerate()
            .filter(|(place, _)| is_mine(*place));
        mine.map(|(_, &number)| number).collect()
    }

    /// What is counted, for people.
    pub fn unit(&self) -> &'static str {
        match self.part {
            Some(_) if self.only_known => "failure points looked at for causes",
            _ => "failure points",
        }
    }

    /// How many points are visited between two looks at what they came to. Nothing follows from how many, for
    /// who tells of points alone; with few, it ends the sooner if it is stopped.
    pub fn batch(&self, usual: usize) -> usize {
        if self.only_points { FEW_POINTS } else { usual }
    }

    /// What of a limit is for who does this share of points.
    pub fn of_limit(&self, limit: u64) -> u64 {
        match self.part {
            Some(part) if self.only_points => part.of(limit),
            _ => limit,
        }
    }

    /// What was done here, for who puts everything together.
    pub fn told(self) -> Result<String, Error> {
        let told = Told {
            points: self.points.new.unwrap_or_default(),
            causes: self.causes.new.unwrap_or_default(),
            within: self.within.new.unwrap_or_default(),
            rounds: self.rounds.new.unwrap_or_default(),
        };
        let bytes = postcard::to_allocvec(&told);
        let bytes = bytes.map_err(|error| Error::Defect(format!("a share of a check: {error}")))?;
        Ok(STANDARD_NO_PAD.encode(compress_to_vec(&bytes, PACKED)))
    }
}

/// All that some have told.
fn read_all(told: &[String]) -> Result<Told, Error> {
    let mut all = Told::default();
    for text in told {
        let one: Told = read(text).ok_or_else(|| {
            Error::Request("a share of a check is damaged, or of another build".into())
        })?;
        all.points.extend(one.points);
        all.causes.extend(one.causes);
        all.within.extend(one.within);
        all.rounds.extend(one.rounds);
    }
    Ok(all)
}

fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
    let packed = STANDARD_NO_PAD.decode(text).ok()?;
    let bytes = decompress_to_vec(&packed).ok()?;
    postcard::from_bytes(&bytes).ok()
}
