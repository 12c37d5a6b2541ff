//! Mistakes of the machine itself, planted to see whether the judge notices them.
//!
//! A design's mistakes are the design's ([`perdure_designs::PlantedBug`]); these are of what every design
//! relies on: who lets output out, and who saves and restores.

use perdure_designs::PlantedBug;
use perdure_linux::Loss;

/// Before the name of one of these mistakes, where planted bugs are named.
pub const PREFIX: &str = "machine:";

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Output leaves an epoch before the one that wrote it is announced.
    ReleasesEarly,
    /// Standard output is sealed as if the epoch before had written it.
    SealsEarly,
    /// Files are held as if the epoch before had written them.
    HoldsFilesEarly,
    /// Restoring loses something of the kernel's.
    Restores(Loss),
}

impl Mistake {
    /// By the name in [`MISTAKES`], without the prefix.
    pub fn named(name: &str) -> Option<Self> {
        let named = |(bug, _): &&(PlantedBug, Self)| bug.name == name;
        MISTAKES.iter().find(named).map(|&(_, mistake)| mistake)
    }
}

/// All of them.
pub const MISTAKES: &[(PlantedBug, Mistake)] = &[
    (
        PlantedBug {
            name: "releases-early",
            summary: "output leaves an epoch before the one that wrote it is announced",
        },
        Mistake::ReleasesEarly,
    ),
    (
        PlantedBug {
            name: "seals-early",
            summary: "standard output is sealed as if the epoch before had written it",
        },
        Mistake::SealsEarly,
    ),
    (
        PlantedBug {
            name: "holds-files-early",
            summary: "files are held as if the epoch before had written them",
        },
        Mistake::HoldsFilesEarly,
    ),
    (
        PlantedBug {
            name: "restores-pipes-empty",
            summary: "restoring loses the bytes that wait in pipes",
        },
        Mistake::Restores(Loss::PipeBytes),
    ),
    (
        PlantedBug {
            name: "restores-offsets-as-zero",
            summary: "restoring loses where open files stand",
        },
        Mistake::Restores(Loss::Offsets),
    ),
];
