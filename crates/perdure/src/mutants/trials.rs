//! The small, unlucky machines on which planted bugs of designs must show, with their programs and
//! schedules.
//!
//! Always true here: a trial is a whole request but for the design, its unlucky settings and the bug.

mod pools;

use perdure_designs::oracle::{PartitionedPersistOrdering, Wraps};
use perdure_designs::{Epochs, Facts, Promise};

use crate::request::{Request, Resume, Schedule};
use pools::{TRIALS_OF_DEVICES, TRIALS_OF_STRANDS, TRIALS_OF_WRAPS};

/// A small, unlucky machine with its program and schedule.
pub(super) struct Trial {
    pub(super) name: &'static str,
    machine: &'static str,
    pub(super) program: &'static str,
    pub(super) set: &'static [&'static str],
    pub(super) schedule: Schedule,
    pub(super) cuts: u64,
}

const TINY_CACHES: &[&str] = &[
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=64KiB",
    "epoch.instructions=20000",
];

const DIRECT_MAPPED: &[&str] = &[
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l1d.ways=1",
    "l2.bytes=8KiB",
    "l2.ways=1",
    "llc.bytes_per_hart=16KiB",
    "llc.ways=1",
    "epoch.instructions=10000",
];

const SHORT_EPOCHS: &[&str] = &[
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=64KiB",
    "epoch.instructions=5000",
];

/// Media so fast that an epoch is durable almost as soon as it ends.
const FAST_MEDIA: &[&str] = &[
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=64KiB",
    "epoch.instructions=5000",
    "nvm.row_bytes=4096",
    "nvm.row_read_ns=10",
    "nvm.row_write_ns=10",
];

const CACHE_RESIDENT: &[&str] = &["epoch.instructions=20000"];

const TRIALS: &[Trial] = &[
    Trial {
        name: "tiny caches",
        machine: "picl",
        program: "@exerciser:12000:256:1000",
        set: TINY_CACHES,
        schedule: Schedule::Random,
        cuts: 150,
    },
    Trial {
        name: "direct-mapped caches",
        machine: "picl",
        program: "@exerciser:6000:64:1000",
        set: DIRECT_MAPPED,
        schedule: Schedule::Stratified,
        cuts: 300,
    },
    Trial {
        name: "short epochs",
        machine: "picl",
        program: "@exerciser:8000:128:2000",
        set: SHORT_EPOCHS,
        schedule: Schedule::Random,
        cuts: 200,
    },
    Trial {
        name: "fast media",
        machine: "picl",
        program: "@exerciser:8000:32:2000",
        set: FAST_MEDIA,
        schedule: Schedule::Stratified,
        cuts: 300,
    },
    Trial {
        name: "working set in the caches",
        machine: "picl",
        program: "@exerciser:8000:16:500",
        set: CACHE_RESIDENT,
        schedule: Schedule::Stratified,
        cuts: 150,
    },
];

const FOUR_TINY: &[&str] = &[
    "harts=4",
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=16KiB",
    "epoch.stores=500",
];

const FOUR_DIRECT_MAPPED: &[&str] = &[
    "harts=4",
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l1d.ways=1",
    "l2.bytes=8KiB",
    "l2.ways=1",
    "llc.bytes_per_hart=8KiB",
    "llc.ways=1",
    "epoch.stores=200",
];

const FOUR_RESIDENT: &[&str] = &["harts=4", "epoch.stores=300"];

/// Two sharing groups of two harts, which find most of each other's lines in the L2 that they share.
const PAIRS: &[&str] = &[
    "harts=4",
    "l2.harts=2",
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=64KiB",
    "llc.bytes_per_hart=16KiB",
    "epoch.stores=300",
];

const TWO_FAST: &[&str] = &[
    "harts=2",
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=16KiB",
    "epoch.stores=200",
    "nvm.row_bytes=4096",
    "nvm.row_read_ns=10",
    "nvm.row_write_ns=10",
];

/// For designs whose sharing groups have an epoch each: several harts that share their lines.
const TRIALS_OF_GROUPS: &[Trial] = &[
    Trial {
        name: "four harts, tiny caches",
        machine: "nvoverlay",
        program: "@exerciser:1500:64:400:4",
        set: FOUR_TINY,
        schedule: Schedule::Random,
        cuts: 100,
    },
    Trial {
        name: "four harts, direct-mapped caches",
        machine: "nvoverlay",
        program: "@exerciser:1500:16:400:4",
        set: FOUR_DIRECT_MAPPED,
        schedule: Schedule::Stratified,
        cuts: 200,
    },
    Trial {
        name: "four harts, working set in the caches",
        machine: "nvoverlay",
        program: "@exerciser:1500:4:300:4",
        set: FOUR_RESIDENT,
        schedule: Schedule::Random,
        cuts: 150,
    },
    Trial {
        name: "two harts, fast media",
        machine: "nvoverlay",
        program: "@exerciser:3000:32:500:2",
        set: TWO_FAST,
        schedule: Schedule::Stratified,
        cuts: 200,
    },
    Trial {
        name: "four harts, more than the caches hold",
        machine: "nvoverlay",
        program: "@exerciser:3000:1024:1000:4",
        set: FOUR_TINY,
        schedule: Schedule::Random,
        cuts: 150,
    },
    Trial {
        name: "two pairs of harts, each with an L2",
        machine: "nvoverlay",
        program: "@exerciser:1500:4:400:4",
        set: PAIRS,
        schedule: Schedule::Random,
        cuts: 150,
    },
];

/// Two banks that are slow to write and quick to read, four harts, and caches that hold next to nothing:
/// writes of different banks end out of the order in which they were accepted.
const TWO_BANKS: &[&str] = &[
    "nvm.banks=2",
    "nvm.row_read_ns=10",
    "harts=4",
    "l1i.bytes=1KiB",
    "l1d.bytes=512",
    "l1d.ways=1",
    "l2.bytes=2KiB",
    "l2.ways=1",
    "llc.bytes_per_hart=4KiB",
    "llc.ways=1",
    "epoch.stores=500",
];

/// For what the other trials do not show: many cuts, so that only designs that have such a bug make
/// them.
const RARE: Trial = Trial {
    name: "two banks",
    machine: "picl",
    program: "@exerciser:400:64:1000:4",
    set: TWO_BANKS,
    schedule: Schedule::Random,
    cuts: 1000,
};

/// The trials that a design goes through, and the one for what they do not show, if there is one.
pub(super) fn of_design(design: &Facts) -> (&'static [Trial], Option<&'static Trial>) {
    match design.epochs {
        Epochs::None if design.promise.name == Wraps::NAME => (TRIALS_OF_WRAPS, None),
        Epochs::None if design.promise.name == PartitionedPersistOrdering::NAME => {
            (TRIALS_OF_DEVICES, None)
        }
        Epochs::None => (TRIALS_OF_STRANDS, None),
        Epochs::ByGroup => (TRIALS_OF_GROUPS, None),
        Epochs::Machine => (TRIALS, Some(&RARE)),
    }
}

impl Trial {
    /// What is asked for, with a set of the design's own unlucky settings.
    pub(super) fn request(&self, design: &str, unlucky: &[&str]) -> Request {
        Request {
            design: design.into(),
            machine: self.machine.into(),
            set: (self.set.iter().chain(unlucky))
                .map(|&text| text.to_owned())
                .collect(),
            program: vec![self.program.into()],
            pmem: ["@strands", "@wraps", "@devices"]
                .iter()
                .any(|name| self.program.starts_with(name))
                .then(|| {
                    // Nothing is put there: a campaign leaves the folder of its pools as it was.
                    std::env::temp_dir().join("perdure-exerciser").join("pools")
                }),
            schedule: Some(self.schedule),
            cuts: Some(self.cuts),
            seed: Some(1),
            during_recovery: true,
            resume: Some(Resume::Sample),
            ..Request::default()
        }
    }
}
