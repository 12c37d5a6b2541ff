//! A visit of a failure point: everything there that follows from the point alone.
//!
//! Always true here: who visits does not matter, and how many points were visited before does not, either;
//! but for what is read there, which is asked at the first points only.

use serde::{Deserialize, Serialize};

use super::{Campaign, Choices, explorer, reads};
use crate::crash_check::explore::Explored;
use crate::crash_check::nested::Watched;
use crate::crash_check::unread::Read;
use crate::error::Error;

/// Points at which it is looked what is read.
const READ: u64 = 128;

/// What a visit has come to.
#[derive(Clone, Serialize, Deserialize)]
pub struct Visited {
    /// What recoveries find.
    pub explored: Explored,
    /// What programs read there, where somebody has looked.
    read: Option<Read>,
    /// The numbers of the failure points of recoveries that went well, with their call stacks.
    pub stacks: Vec<Vec<(u64, u64)>>,
}

/// Recoveries that went well there, in which power may fail.
pub fn well<'c>(choices: &'c Choices, explored: &'c Explored) -> impl Iterator<Item = Watched<'c>> {
    let well = explored.well.iter();
    well.map(move |(which, found)| Watched {
        which: *which,
        choices,
        found,
    })
}

impl Campaign<'_> {
    /// Visits points; the first of them, if the user stops it or time is over.
    pub(super) fn visit(&mut self, choices: &[Choices]) -> Result<Vec<Visited>, Error> {
        let room = READ.saturating_sub(self.book.done.points);
        let nearest = self.book.shares.of_limit(room) as usize;
        let explorer = explorer(
            self.asked,
            self.uncut,
            (&self.recoveries, &self.expected),
            &self.timely,
        );
        let (recoveries, model, jobs) = (&self.recoveries, self.asked.model, self.asked.jobs());
        let nested = self.asked.nested;
        let numbered: Vec<(usize, &Choices)> = choices.iter().enumerate().collect();
        let run = self.uncut.number;
        let visited = self.book.shares.points.map(
            (None, jobs),
            &numbered,
            |(_, choices)| (run, choices.point.number),
            |&(place, choices)| {
                let explored =
                    recoveries.with_engine(|engine| explorer.explore(choices, engine))?;
                let stacks = well(choices, &explored).filter(|_| nested);
                let stacks = stacks.map(|one| one.stacks(recoveries, model));
                Ok(Visited {
                    stacks: stacks.collect::<Result<_, _>>()?,
                    read: if place < nearest {
                        Some(reads::at(recoveries, choices)?)
                    } else {
                        None
                    },
                    explored,
                })
            },
        )?;
        let visited: Vec<Visited> = visited.into_iter().map_while(|one| one).collect();
        if visited.len() < choices.len() {
            self.book.is_torn = true;
            self.book.done.interrupted |= self.observer.interrupted();
        }
        for (one, choices) in visited.iter().zip(choices).take(room as usize) {
            match &one.read {
                Some(read) => self.book.done.read.merge(read),
                // Who visited it did not know that it is among the first.
                None => self.book.done.read.merge(&reads::at(recoveries, choices)?),
            }
        }
        Ok(visited)
    }
}
