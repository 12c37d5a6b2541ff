//! The small, unlucky machines on which planted bugs of designs must show, with their programs and
//! schedules.
//!
//! Always true here: a trial is a whole request but for the design, its unlucky settings and the bug.

use perdure_designs::oracle::Wraps;
use perdure_designs::{Design, Epochs, EpochsOf, Promise};

use crate::request::{Request, Resume, Schedule};

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

/// Caches of a few lines, and a strand buffer and tables that are soon full.
const SMALL_STRANDS: &[&str] = &[
    "harts=2",
    "nvm.bytes=64MiB",
    "l1i.bytes=1KiB",
    "l1d.bytes=1KiB",
    "l1d.ways=2",
    "l2.bytes=2KiB",
    "l2.ways=2",
    "llc.bytes_per_hart=4KiB",
    "llc.ways=4",
    "spms.cid_bits=1",
    "spms.tid_bits=1",
    "spms.sid_bits=3",
    "spms.sgst_entries=20",
    "spms.buffer_bytes=4096",
];

/// The same with media that keep nothing on its way, and a strand buffer that overflows.
const OVERFLOWING: &[&str] = &[
    "harts=2",
    "nvm.bytes=64MiB",
    "persistence.domain=media",
    "l1i.bytes=1KiB",
    "l1d.bytes=1KiB",
    "l1d.ways=2",
    "l2.bytes=2KiB",
    "l2.ways=2",
    "llc.bytes_per_hart=2KiB",
    "llc.ways=4",
    "spms.cid_bits=1",
    "spms.tid_bits=2",
    "spms.sid_bits=2",
    "spms.sgst_entries=10",
    "spms.buffer_bytes=256",
];

/// One hart with more threads than that.
const TAKING_TURNS: &[&str] = &[
    "nvm.bytes=64MiB",
    "nvm.row_write_ns=2000",
    "persistence.domain=media",
    "scheduling.slice_cycles=1000",
    "l1i.bytes=1KiB",
    "l1d.bytes=1KiB",
    "l1d.ways=2",
    "l2.bytes=2KiB",
    "l2.ways=2",
    "llc.bytes_per_hart=4KiB",
    "llc.ways=4",
    "spms.cid_bits=0",
    "spms.tid_bits=3",
    "spms.sid_bits=3",
    "spms.sgst_entries=40",
    "spms.buffer_bytes=1024",
];

/// A few lines that are committed again and again, and media that take long to write them.
const SLOW_MEDIA: &[&str] = &[
    "nvm.bytes=64MiB",
    "nvm.row_write_ns=4000",
    "persistence.domain=media",
    "l1i.bytes=1KiB",
    "l1d.bytes=1KiB",
    "l1d.ways=2",
    "l2.bytes=2KiB",
    "l2.ways=2",
    "llc.bytes_per_hart=4KiB",
    "llc.ways=4",
];

/// For designs whose promise is about strands in a pool.
const TRIALS_OF_STRANDS: &[Trial] = &[
    Trial {
        name: "two harts, small tables",
        machine: "spms",
        program: "@strands:2000:4:6:2",
        set: SMALL_STRANDS,
        schedule: Schedule::Random,
        cuts: 300,
    },
    Trial {
        name: "two harts, a strand buffer of four lines",
        machine: "spms",
        program: "@strands:1500:2:10:2",
        set: OVERFLOWING,
        schedule: Schedule::Random,
        cuts: 400,
    },
    Trial {
        name: "four threads on one hart",
        machine: "spms",
        program: "@strands:1000:2:8:4",
        set: TAKING_TURNS,
        schedule: Schedule::Stratified,
        cuts: 400,
    },
    Trial {
        name: "one thread, slow media",
        machine: "spms",
        program: "@strands:3000:1:2:1",
        set: SLOW_MEDIA,
        schedule: Schedule::Random,
        cuts: 400,
    },
];

/// Caches of a few lines, a log that is soon full, and places for next to no victims.
const SMALL_LOG: &[&str] = &[
    "harts=2",
    "nvm.bytes=64MiB",
    "nvm.banks=2",
    "persistence.domain=media",
    "l1i.bytes=1KiB",
    "l1d.bytes=1KiB",
    "l1d.ways=2",
    "l2.bytes=2KiB",
    "l2.ways=2",
    "llc.bytes_per_hart=4KiB",
    "llc.ways=4",
    "hlog.log_bytes=4096",
    "hlog.buffer_bytes=256",
    "hlog.victim_bytes=512",
];

/// The same with a write queue that survives and a log that is never full.
const ROOMY_LOG: &[&str] = &[
    "harts=2",
    "nvm.bytes=64MiB",
    "l1i.bytes=1KiB",
    "l1d.bytes=1KiB",
    "l1d.ways=2",
    "l2.bytes=2KiB",
    "l2.ways=2",
    "llc.bytes_per_hart=4KiB",
    "llc.ways=4",
    "hlog.log_bytes=65536",
];

/// One hart with more threads than that.
const WRAPS_IN_TURNS: &[&str] = &[
    "nvm.bytes=64MiB",
    "persistence.domain=media",
    "scheduling.slice_cycles=1000",
    "l1i.bytes=1KiB",
    "l1d.bytes=1KiB",
    "l1d.ways=2",
    "l2.bytes=2KiB",
    "l2.ways=2",
    "llc.bytes_per_hart=2KiB",
    "llc.ways=4",
    "hlog.log_bytes=16384",
    "hlog.victim_bytes=1024",
];

/// A few words that are stored again and again, and media that take long to write them.
const SLOW_HOMES: &[&str] = &[
    "harts=4",
    "nvm.bytes=64MiB",
    "nvm.row_write_ns=4000",
    "persistence.domain=media",
    "l1i.bytes=1KiB",
    "l1d.bytes=1KiB",
    "l1d.ways=2",
    "l2.bytes=2KiB",
    "l2.ways=2",
    "llc.bytes_per_hart=2KiB",
    "llc.ways=4",
    "hlog.log_bytes=16384",
];

/// The same, and nothing else to do for the media when a wrap is closed.
const RARE_CLOSES: &[&str] = &[
    "harts=2",
    "nvm.bytes=64MiB",
    "nvm.row_write_ns=2000",
    "persistence.domain=media",
    "hlog.log_bytes=16384",
];

/// For designs whose promise is about wraps in a pool.
const TRIALS_OF_WRAPS: &[Trial] = &[
    Trial {
        name: "two harts, a small log",
        machine: "spms",
        program: "@wraps:1500:2:6:2",
        set: SMALL_LOG,
        schedule: Schedule::Random,
        cuts: 300,
    },
    Trial {
        name: "two harts, more than the caches hold",
        machine: "spms",
        program: "@wraps:1500:16:10:2",
        set: ROOMY_LOG,
        schedule: Schedule::Random,
        cuts: 300,
    },
    Trial {
        name: "four threads on one hart",
        machine: "spms",
        program: "@wraps:1000:2:8:4",
        set: WRAPS_IN_TURNS,
        schedule: Schedule::Stratified,
        cuts: 400,
    },
    Trial {
        name: "four harts, slow media",
        machine: "spms",
        program: "@wraps:1000:1:24:4",
        set: SLOW_HOMES,
        schedule: Schedule::Random,
        cuts: 400,
    },
    Trial {
        name: "two harts, closes far apart",
        machine: "spms",
        program: "@wraps:1500:64:4:2",
        set: RARE_CLOSES,
        schedule: Schedule::Random,
        cuts: 400,
    },
];

/// The trials that a design goes through, and the one for what they do not show, if there is one.
pub(super) fn of_design<D: Design>() -> (&'static [Trial], Option<&'static Trial>) {
    match D::Epochs::WHOSE {
        Epochs::None if D::Promise::NAME == Wraps::NAME => (TRIALS_OF_WRAPS, None),
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
            pmem: ["@strands", "@wraps"]
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
