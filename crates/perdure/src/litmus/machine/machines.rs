//! The machines on which litmus tests run, and how they are made unlucky.
//!
//! Always true here: a machine's times and its memory are those of its preset. What differs is its size, so
//! that lines leave the caches early and queues are full, and the ways in which it may be built.

use perdure_hardware::time::Cycles;

/// A preset with a design, built in several ways.
#[derive(Debug)]
pub(super) struct Preset {
    /// The preset.
    pub machine: &'static str,
    /// The design.
    pub design: &'static str,
    /// The ways.
    pub builds: &'static [&'static [&'static str]],
    /// True if the design makes epochs durable, and not what the program writes back.
    pub has_epochs: bool,
}

/// How long an epoch lasts on machines that have some.
pub(super) const EPOCH_CYCLES: Cycles = 20_000;

/// [`EPOCH_CYCLES`].
const SHORT_EPOCHS: &str = "epoch.cycles=20000";

/// Beside what a way of building says: harts take turns in the order of their clocks.
pub(super) const ALWAYS: &[&str] = &[
    "scheduling.lookahead_cycles=1",
    "scheduling.slice_cycles=10000",
    "l1i.bytes=1024",
    "l1i.ways=1",
];

const DIRECT_MAPPED: &[&str] = &[
    "core.model=in-order",
    "l1d.latency_cycles=1",
    "l1d.bytes=512",
    "l1d.ways=1",
    "l2.bytes=2048",
    "l2.ways=1",
    "llc.bytes_per_hart=2048",
    "llc.ways=1",
];

const SHORT_QUEUE: &[&str] = &[
    "core.model=in-order",
    "l1d.latency_cycles=1",
    "nvm.write_queue_entries=1",
    "core.store_buffer_entries=2",
    "l1d.bytes=1024",
    "l1d.ways=2",
    "l2.bytes=2048",
    "l2.ways=2",
    "llc.bytes_per_hart=4096",
    "llc.ways=2",
];

const OUT_OF_ORDER: &[&str] = &[
    "core.model=out-of-order",
    "l1d.bytes=512",
    "l1d.ways=1",
    "l2.bytes=2048",
    "l2.ways=1",
    "llc.bytes_per_hart=2048",
    "llc.ways=1",
];

const WEAK_STORES: &[&str] = &[
    "core.model=out-of-order",
    "core.window.store_order=weak",
    "nvm.write_queue_entries=2",
    "l1d.bytes=1024",
    "l1d.ways=2",
    "l2.bytes=2048",
    "l2.ways=2",
    "llc.bytes_per_hart=4096",
    "llc.ways=2",
];

const BLOCKING: &[&str] = &[
    "core.model=timing-simple",
    "l1d.latency_cycles=1",
    "persistence.domain=media",
    "l1d.bytes=512",
    "l1d.ways=1",
    "l2.bytes=2048",
    "l2.ways=1",
    "llc.bytes_per_hart=2048",
    "llc.ways=1",
];

const AT_THE_MEDIA: &[&str] = &[
    "core.model=in-order",
    "l1d.latency_cycles=1",
    "persistence.domain=media",
    "l1d.bytes=512",
    "l1d.ways=1",
    "l2.bytes=2048",
    "l2.ways=1",
    "llc.bytes_per_hart=2048",
    "llc.ways=1",
];

const CACHES_KEPT: &[&str] = &[
    "core.model=in-order",
    "l1d.latency_cycles=1",
    "persistence.domain=eadr",
    "l1d.bytes=512",
    "l1d.ways=1",
    "l2.bytes=2048",
    "l2.ways=1",
    "llc.bytes_per_hart=2048",
    "llc.ways=1",
];

const BUILDS: &[&[&str]] = &[
    DIRECT_MAPPED,
    OUT_OF_ORDER,
    SHORT_QUEUE,
    AT_THE_MEDIA,
    WEAK_STORES,
    CACHES_KEPT,
    BLOCKING,
];

const IN_EPOCHS: &[&[&str]] = &[
    &[
        SHORT_EPOCHS,
        "core.model=in-order",
        "l1d.latency_cycles=1",
        "l1d.bytes=512",
        "l1d.ways=1",
        "l2.bytes=2048",
        "l2.ways=1",
        "llc.bytes_per_hart=2048",
        "llc.ways=1",
    ],
    &[
        SHORT_EPOCHS,
        "core.model=out-of-order",
        "l1d.bytes=1024",
        "l1d.ways=2",
        "l2.bytes=2048",
        "l2.ways=2",
        "llc.bytes_per_hart=4096",
        "llc.ways=2",
    ],
];

const fn explicit(machine: &'static str) -> Preset {
    Preset {
        machine,
        design: "ideal",
        builds: BUILDS,
        has_epochs: false,
    }
}

const fn transparent(machine: &'static str, design: &'static str) -> Preset {
    Preset {
        machine,
        design,
        builds: IN_EPOCHS,
        has_epochs: true,
    }
}

const EXPLICIT: &[Preset] = &[
    explicit("x86-pm"),
    explicit("arm-pm"),
    explicit("xeon-pm"),
    explicit("picl"),
];

const EPOCH_PREFIX: &[Preset] = &[
    transparent("picl", "picl"),
    transparent("picl", "journaling"),
    transparent("picl", "shadow-paging"),
    transparent("picl", "frm"),
    transparent("picl", "thynvm"),
];

const CAUSAL_CUT: &[Preset] = &[transparent("nvoverlay", "nvoverlay")];

/// The machines that are to keep a model.
pub(super) fn of_model(model: &str) -> &'static [Preset] {
    match model {
        "px86" | "ptso" | "arm" | "perdure" => EXPLICIT,
        "epoch-prefix" => EPOCH_PREFIX,
        "causal-cut" => CAUSAL_CUT,
        _ => &[],
    }
}
