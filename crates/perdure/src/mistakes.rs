//! Mistakes of the machine itself, planted to see whether the judge notices them.
//!
//! A design's mistakes are the design's ([`perdure_designs::PlantedBug`]); these are of what every
//! design relies on: who lets output out, who saves and restores, and who carries epochs to a replica.
//! And the judge itself can be made blind in one eye ([`Blind`]), to see whether that is noticed.

use perdure_designs::PlantedBug;
use perdure_hardware::mistaken::PersistMistake;
use perdure_linux::pools::PoolMistake;

use crate::configuration::nearest;
use crate::error::Error;
use crate::losses::Lost;

/// Before the name of one of these mistakes, where planted bugs are named.
pub const PREFIX: &str = "machine:";

/// Before the name of what is lost, where losses are named.
pub const FORGETS: &str = "forgets-";

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Output leaves an epoch before the one that wrote it is announced.
    ReleasesEarly,
    /// Standard output is sealed as if the epoch before had written it.
    SealsEarly,
    /// Files are held as if the epoch before had written them.
    HoldsFilesEarly,
    /// Restoring loses something.
    Forgets(Lost),
    /// Every other epoch, harts' contexts are not saved: those of the epoch before stay.
    SavesOldContexts,
    /// Recovery names the epoch after the one whose memory it brought back.
    NamesNextEpoch,
    /// Recovery names the epoch before it.
    NamesLastEpoch,
    /// Recovery finds the image to be damaged.
    Refuses,
    /// The machine record is stored with a byte changed.
    SavesDamagedRecord,
    /// A machine that has come back has other bytes where the program has none.
    ResumesOtherMemory,
    /// A machine that has come back changes the last byte that it lets out.
    GarblesOutput,
    /// What has left before leaves again with its last byte changed.
    GarblesAgain,
    /// A machine that has come back ends with exit status 0.
    LosesStatus,
    /// What a run does depends on how many there were before it.
    Drifts,
    /// The replica forgets a line of every record.
    ReplicaSkipsLine,
    /// The replica says that it holds the epoch after the one that it holds.
    ReplicaNamesNextEpoch,
    /// The replica takes a seal for good and forgets the lines that came with it.
    ReplicaForgetsSealed,
    /// The replica applies lines as they come, before the seal of their epoch.
    ReplicaAppliesUnsealed,
    /// The kernel keeps pools badly.
    Pools(PoolMistake),
    /// What pools have after a cut is read from the caches.
    ReadsPoolsBack,
    /// The hardware persists badly.
    Persists(PersistMistake),
}

/// What a mistake is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The machine.
    Machine,
    /// What is saved of the machine and its kernel.
    State,
    /// Replication.
    Replication,
    /// Pools, and what makes bytes in them durable.
    Pools,
}

/// A check of the judge's that is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blind {
    /// Whether recovered memory is the epoch's.
    Digest,
    /// Whether the recovered epoch is new enough.
    Age,
    /// Whether what left was of an epoch that had ended.
    Stamps,
    /// Whether nothing is part of a causal cut without what it follows from.
    Causality,
    /// Whether recovery that was cut ends where it did before.
    Convergence,
    /// Whether recovery found the image to be whole.
    Refusal,
    /// Whether two runs end in the same state.
    Determinism,
    /// What a replica holds.
    Replica,
    /// Whether what recovery brought back can be resumed.
    Resumption,
    /// Whether a resumed machine has the memory that was recovered.
    Carried,
    /// Whether what has left leaves again as it was.
    Repetition,
    /// Whether a resumed run ends with the exit status of the uncut one.
    Status,
    /// Whether it has let out the same.
    Output,
    /// Whether a different end is the golden machine's, too.
    Timing,
}

impl Mistake {
    /// What it is in.
    pub fn part(self) -> Part {
        match self {
            Self::ReleasesEarly
            | Self::SealsEarly
            | Self::HoldsFilesEarly
            | Self::SavesOldContexts
            | Self::NamesNextEpoch
            | Self::NamesLastEpoch
            | Self::Refuses
            | Self::SavesDamagedRecord
            | Self::ResumesOtherMemory
            | Self::GarblesOutput
            | Self::GarblesAgain
            | Self::LosesStatus
            | Self::Drifts => Part::Machine,
            Self::Forgets(_) => Part::State,
            Self::ReplicaSkipsLine
            | Self::ReplicaNamesNextEpoch
            | Self::ReplicaForgetsSealed
            | Self::ReplicaAppliesUnsealed => Part::Replication,
            Self::Pools(_) | Self::ReadsPoolsBack | Self::Persists(_) => Part::Pools,
        }
    }

    /// It makes no difference before the power was cut.
    pub fn strikes_only_resumed(self) -> bool {
        matches!(
            self,
            Self::GarblesOutput | Self::GarblesAgain | Self::LosesStatus
        )
    }

    /// The kernel's mistake, if it is one with pools.
    pub fn of_pools(self) -> Option<PoolMistake> {
        match self {
            Self::Pools(mistake) => Some(mistake),
            _ => None,
        }
    }

    /// The hardware's mistake, if it is one with persist operations.
    pub fn of_persists(self) -> Option<PersistMistake> {
        match self {
            Self::Persists(mistake) => Some(mistake),
            _ => None,
        }
    }

    /// By the name in [`MISTAKES`], or that of a loss behind [`FORGETS`]; without the prefix.
    pub fn named(name: &str) -> Option<Self> {
        if let Some(lost) = name.strip_prefix(FORGETS) {
            return Lost::named(lost).map(Self::Forgets);
        }
        let named = |(bug, _): &&(PlantedBug, Self)| bug.name == name;
        MISTAKES.iter().find(named).map(|&(_, mistake)| mistake)
    }
}

/// The mistake to plant in the machine, if the planted bug is one of its own.
pub fn planted(bug: Option<&str>) -> Result<Option<Mistake>, Error> {
    let Some(name) = bug.and_then(|bug| bug.strip_prefix(PREFIX)) else {
        return Ok(None);
    };
    let losses = Lost::all().map(|lost| format!("{FORGETS}{}", lost.name()));
    let mistakes = MISTAKES.iter().map(|(bug, _)| bug.name.to_owned());
    Mistake::named(name).map(Some).ok_or_else(|| {
        let names: Vec<String> = mistakes.chain(losses).collect();
        let names = names.iter().map(String::as_str);
        let hint = nearest(name, names).unwrap_or("releases-early");
        Error::Request(format!(
            "the machine has no planted bug '{name}'; the nearest is '{hint}'"
        ))
    })
}

/// All of them, save the losses, which follow from what is saved.
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
            name: "saves-old-contexts",
            summary: "every other epoch, harts' contexts stay those of the epoch before",
        },
        Mistake::SavesOldContexts,
    ),
    (
        PlantedBug {
            name: "names-next-epoch",
            summary: "recovery names the epoch after the one whose memory it brought back",
        },
        Mistake::NamesNextEpoch,
    ),
    (
        PlantedBug {
            name: "names-last-epoch",
            summary: "recovery names the epoch before the one whose memory it brought back",
        },
        Mistake::NamesLastEpoch,
    ),
    (
        PlantedBug {
            name: "refuses",
            summary: "recovery finds every image to be damaged",
        },
        Mistake::Refuses,
    ),
    (
        PlantedBug {
            name: "saves-damaged-record",
            summary: "the machine record is stored with a byte changed",
        },
        Mistake::SavesDamagedRecord,
    ),
    (
        PlantedBug {
            name: "resumes-other-memory",
            summary: "a machine that has come back has other bytes where the program has none",
        },
        Mistake::ResumesOtherMemory,
    ),
    (
        PlantedBug {
            name: "garbles-again",
            summary: "what has left before leaves again with its last byte changed",
        },
        Mistake::GarblesAgain,
    ),
    (
        PlantedBug {
            name: "loses-status",
            summary: "a machine that has come back ends with exit status 0",
        },
        Mistake::LosesStatus,
    ),
    (
        PlantedBug {
            name: "garbles-output",
            summary: "a machine that has come back changes the last byte that it lets out",
        },
        Mistake::GarblesOutput,
    ),
    (
        PlantedBug {
            name: "drifts",
            summary: "what a run does depends on how many there were before it",
        },
        Mistake::Drifts,
    ),
    (
        PlantedBug {
            name: "replica-skips-line",
            summary: "a replica forgets a line of every record",
        },
        Mistake::ReplicaSkipsLine,
    ),
    (
        PlantedBug {
            name: "replica-names-next-epoch",
            summary: "a replica says that it holds the epoch after the one that it holds",
        },
        Mistake::ReplicaNamesNextEpoch,
    ),
    (
        PlantedBug {
            name: "replica-forgets-sealed",
            summary: "a replica takes a seal for good and forgets the lines that came with it",
        },
        Mistake::ReplicaForgetsSealed,
    ),
    (
        PlantedBug {
            name: "replica-applies-unsealed",
            summary: "a replica applies lines as they come, before the seal of their epoch",
        },
        Mistake::ReplicaAppliesUnsealed,
    ),
    (
        PlantedBug {
            name: "pool-table-first",
            summary: "a pool's table is durable before the bytes of the new pages that it names",
        },
        Mistake::Pools(PoolMistake::TableFirst),
    ),
    (
        PlantedBug {
            name: "pool-synchronises-nothing",
            summary: "fsync and msync of a pool write no page back",
        },
        Mistake::Pools(PoolMistake::SynchronisesNothing),
    ),
    (
        PlantedBug {
            name: "pool-fault-commits-nothing",
            summary: "the fault of a page mapped with MAP_SYNC commits nothing",
        },
        Mistake::Pools(PoolMistake::FaultCommitsNothing),
    ),
    (
        PlantedBug {
            name: "pool-frees-early",
            summary: "frames that the durable table of pools names are handed out again",
        },
        Mistake::Pools(PoolMistake::FreesEarly),
    ),
    (
        PlantedBug {
            name: "pool-read-back",
            summary: "what pools have after a cut is read from the caches",
        },
        Mistake::ReadsPoolsBack,
    ),
    (
        PlantedBug {
            name: "fence-waits-for-stores-alone",
            summary: "fences do not wait until what was flushed is durable",
        },
        Mistake::Persists(PersistMistake::FencesForStoresAlone),
    ),
    (
        PlantedBug {
            name: "flush-misses-other-harts",
            summary: "a flush misses what the L1D of another hart has newer",
        },
        Mistake::Persists(PersistMistake::MissesOtherHarts),
    ),
    (
        PlantedBug {
            name: "flush-passes-its-stores",
            summary: "clflushopt, clwb and dc pass their hart's stores to the line",
        },
        Mistake::Persists(PersistMistake::PassesItsStores),
    ),
    (
        PlantedBug {
            name: "clflush-goes-on-early",
            summary: "clflush waits until memory has taken the line, durable or not",
        },
        Mistake::Persists(PersistMistake::GoesOnEarly),
    ),
    (
        PlantedBug {
            name: "fence-forgets-cleans",
            summary: "fences do not wait for write-backs that leave their line cached",
        },
        Mistake::Persists(PersistMistake::FencesForgetCleans),
    ),
    (
        PlantedBug {
            name: "fence-waits-for-last",
            summary: "fences wait for the last write-back alone",
        },
        Mistake::Persists(PersistMistake::FencesForLast),
    ),
    (
        PlantedBug {
            name: "atomic-waits-for-nothing",
            summary: "atomic accesses do not wait for write-backs",
        },
        Mistake::Persists(PersistMistake::AtomicsForNothing),
    ),
    (
        PlantedBug {
            name: "seen-early",
            summary: "what a hart does when it has waited for durable bytes is seen before it happens",
        },
        Mistake::Persists(PersistMistake::SeenEarly),
    ),
    (
        PlantedBug {
            name: "durable-at-coherence",
            summary: "a write-back counts as durable when the shared cache has given the line up",
        },
        Mistake::Persists(PersistMistake::DurableAtCoherence),
    ),
    (
        PlantedBug {
            name: "clean-is-durable",
            summary: "a clean line counts as durable while its write still waits",
        },
        Mistake::Persists(PersistMistake::CleanIsDurable),
    ),
    (
        PlantedBug {
            name: "queue-loses-entries",
            summary: "the write queue loses every other entry at power-off, for a while",
        },
        Mistake::Persists(PersistMistake::QueueLosesEntries),
    ),
    (
        PlantedBug {
            name: "queue-takes-words",
            summary: "the write queue takes a line word by word",
        },
        Mistake::Persists(PersistMistake::QueueTakesWords),
    ),
    (
        PlantedBug {
            name: "keeps-shared-cache-only",
            summary: "eADR drains the shared cache and not those of harts",
        },
        Mistake::Persists(PersistMistake::KeepsSharedCacheOnly),
    ),
];
