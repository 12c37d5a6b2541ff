//! Trials of designs whose programs restart: strands or wraps in a pool.

use super::Trial;
use crate::request::Schedule;

/// Caches of a few lines, with more settings.
macro_rules! few_lines {
    ($($more:literal),* $(,)?) => {
        &[
            "l1i.bytes=1KiB",
            "l1d.bytes=1KiB",
            "l1d.ways=2",
            "l2.bytes=2KiB",
            "l2.ways=2",
            "llc.ways=4",
            $($more),*
        ]
    };
}

/// Caches of a few lines, and a strand buffer and tables that are soon full.
macro_rules! small_strands {
    ($($more:literal)?) => {
        few_lines![
            "harts=2",
            "nvm.bytes=64MiB",
            "llc.bytes_per_hart=4KiB",
            "spms.cid_bits=1",
            "spms.tid_bits=1",
            "spms.sid_bits=3",
            "spms.sgst_entries=20",
            "spms.buffer_bytes=4096",
            $($more)?
        ]
    };
}

const SMALL_STRANDS: &[&str] = small_strands!();
const SMALL_STRANDS_BY_READS: &[&str] = small_strands!("spms.order=reads");
const SMALL_STRANDS_BY_THREADS: &[&str] = small_strands!("spms.order=thread");

/// The same with media that keep nothing on its way, and a strand buffer that overflows.
const OVERFLOWING: &[&str] = few_lines![
    "harts=2",
    "nvm.bytes=64MiB",
    "persistence.domain=media",
    "llc.bytes_per_hart=2KiB",
    "spms.cid_bits=1",
    "spms.tid_bits=2",
    "spms.sid_bits=2",
    "spms.sgst_entries=10",
    "spms.buffer_bytes=256",
];

/// One hart with more threads than that.
const TAKING_TURNS: &[&str] = few_lines![
    "nvm.bytes=64MiB",
    "nvm.row_write_ns=2000",
    "persistence.domain=media",
    "scheduling.slice_cycles=1000",
    "llc.bytes_per_hart=4KiB",
    "spms.cid_bits=0",
    "spms.tid_bits=3",
    "spms.sid_bits=3",
    "spms.sgst_entries=40",
    "spms.buffer_bytes=1024",
];

/// A few lines that are committed again and again, and media that take long to write them.
const SLOW_MEDIA: &[&str] = few_lines![
    "nvm.bytes=64MiB",
    "nvm.row_write_ns=4000",
    "persistence.domain=media",
    "llc.bytes_per_hart=4KiB",
];

/// For designs whose promise is about strands in a pool.
pub(super) const TRIALS_OF_STRANDS: &[Trial] = &[
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
    Trial {
        name: "two harts, ordered by reads",
        machine: "spms",
        program: "@strands:2000:4:6:2",
        set: SMALL_STRANDS_BY_READS,
        schedule: Schedule::Random,
        cuts: 300,
    },
    Trial {
        name: "two harts, ordered by threads",
        machine: "spms",
        program: "@strands:2000:4:6:2",
        set: SMALL_STRANDS_BY_THREADS,
        schedule: Schedule::Random,
        cuts: 300,
    },
];

/// Caches of a few lines, a log that is soon full, and places for next to no victims.
const SMALL_LOG: &[&str] = few_lines![
    "harts=2",
    "nvm.bytes=64MiB",
    "nvm.banks=2",
    "persistence.domain=media",
    "llc.bytes_per_hart=4KiB",
    "hlog.log_bytes=4096",
    "hlog.buffer_bytes=256",
    "hlog.victim_bytes=512",
];

/// The same with a write queue that survives and a log that is never full.
const ROOMY_LOG: &[&str] = few_lines![
    "harts=2",
    "nvm.bytes=64MiB",
    "llc.bytes_per_hart=4KiB",
    "hlog.log_bytes=65536",
];

/// One hart with more threads than that.
const WRAPS_IN_TURNS: &[&str] = few_lines![
    "nvm.bytes=64MiB",
    "persistence.domain=media",
    "scheduling.slice_cycles=1000",
    "llc.bytes_per_hart=2KiB",
    "hlog.log_bytes=16384",
    "hlog.victim_bytes=1024",
];

/// A few words that are stored again and again, and media that take long to write them.
const SLOW_HOMES: &[&str] = few_lines![
    "harts=4",
    "nvm.bytes=64MiB",
    "nvm.row_write_ns=4000",
    "persistence.domain=media",
    "llc.bytes_per_hart=2KiB",
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
pub(super) const TRIALS_OF_WRAPS: &[Trial] = &[
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

/// Caches of a few lines, so that what is stored comes to the devices soon.
const NEAR: &[&str] = few_lines![
    "harts=4",
    "core.model=in-order",
    "l1d.latency_cycles=1",
    "llc.bytes_per_hart=2KiB",
];

/// For designs whose promise is about devices in memory modules.
pub(super) const TRIALS_OF_DEVICES: &[Trial] = &[
    Trial {
        name: "four harts, small caches",
        machine: "nearpm",
        program: "@devices:1500:4",
        set: NEAR,
        schedule: Schedule::Random,
        cuts: 200,
    },
    Trial {
        name: "one thread",
        machine: "nearpm",
        program: "@devices:1500:1",
        set: NEAR,
        schedule: Schedule::NearEvents,
        cuts: 300,
    },
];
