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
    pub builds: &'static [Build],
    /// True if the design makes epochs durable, and not what the program writes back.
    pub has_epochs: bool,
}

/// How long an epoch lasts on machines that have some.
pub(super) const EPOCH_CYCLES: Cycles = 20_000;

/// [`EPOCH_CYCLES`].
const SHORT_EPOCHS: Part = &["epoch.cycles=20000"];

/// Beside what a way of building says.
pub(super) const ALWAYS: Part = &[
    "scheduling.slice_cycles=10000",
    "l1i.bytes=1024",
    "l1i.ways=1",
];

/// Keys that are set together.
type Part = &'static [&'static str];
/// A way of building: its parts.
pub(super) type Build = &'static [Part];

const IN_ORDER: Part = &["core.model=in-order", "l1d.latency_cycles=1"];
const OUT_OF_ORDER: Part = &["core.model=out-of-order"];
const WEAK_STORES: Part = &["core.window.store_order=weak"];
const TIMING_SIMPLE: Part = &["core.model=timing-simple", "l1d.latency_cycles=1"];

/// Caches of a few lines.
const ONE_WAY: Part = &[
    "l1d.bytes=512",
    "l1d.ways=1",
    "l2.bytes=2048",
    "l2.ways=1",
    "llc.bytes_per_hart=2048",
    "llc.ways=1",
];
const TWO_WAYS: Part = &[
    "l1d.bytes=1024",
    "l1d.ways=2",
    "l2.bytes=2048",
    "l2.ways=2",
    "llc.bytes_per_hart=4096",
    "llc.ways=2",
];

const ONE_ENTRY: Part = &["nvm.write_queue_entries=1", "core.store_buffer_entries=2"];
const TWO_ENTRIES: Part = &["nvm.write_queue_entries=2"];

/// Harts take turns in the order of their clocks; else one is ahead by a preset's lookahead.
const TO_THE_CYCLE: Part = &["scheduling.lookahead_cycles=1"];
const FAR_AHEAD: Part = &["scheduling.lookahead_cycles=10000"];

const AT_THE_MEDIA: Part = &["persistence.domain=media"];
const CACHES_KEPT: Part = &["persistence.domain=eadr"];

const BUILDS: &[Build] = &[
    &[IN_ORDER, ONE_WAY, TO_THE_CYCLE],
    &[OUT_OF_ORDER, ONE_WAY, TO_THE_CYCLE],
    &[IN_ORDER, ONE_ENTRY, TWO_WAYS, TO_THE_CYCLE],
    &[IN_ORDER, AT_THE_MEDIA, ONE_WAY, TO_THE_CYCLE],
    &[OUT_OF_ORDER, WEAK_STORES, TWO_ENTRIES, TWO_WAYS],
    &[IN_ORDER, CACHES_KEPT, ONE_WAY, TO_THE_CYCLE],
    &[TIMING_SIMPLE, AT_THE_MEDIA, ONE_WAY, FAR_AHEAD],
    &[IN_ORDER, ONE_WAY],
];

const IN_EPOCHS: &[Build] = &[
    &[SHORT_EPOCHS, IN_ORDER, ONE_WAY, TO_THE_CYCLE],
    &[SHORT_EPOCHS, OUT_OF_ORDER, TWO_WAYS],
];

/// A strand buffer and an SGST of a few lines and entries.
const FEW_STRANDS: Part = &["spms.buffer_bytes=128", "spms.sgst_entries=6"];

const IN_STRANDS: &[Build] = &[
    &[IN_ORDER, ONE_WAY, TO_THE_CYCLE],
    &[OUT_OF_ORDER, TWO_WAYS, TO_THE_CYCLE],
    &[TIMING_SIMPLE, AT_THE_MEDIA, ONE_WAY, FAR_AHEAD],
    &[IN_ORDER, FEW_STRANDS, ONE_ENTRY, ONE_WAY],
];

const BY_READS: Part = &["spms.order=reads"];
const BY_THREADS: Part = &["spms.order=thread"];

const IN_STRANDS_BY_READS: &[Build] = &[
    &[BY_READS, IN_ORDER, ONE_WAY, TO_THE_CYCLE],
    &[BY_READS, OUT_OF_ORDER, TWO_WAYS, TO_THE_CYCLE],
    &[BY_READS, TIMING_SIMPLE, AT_THE_MEDIA, ONE_WAY, FAR_AHEAD],
    &[BY_READS, IN_ORDER, FEW_STRANDS, ONE_ENTRY, ONE_WAY],
];

const IN_STRANDS_BY_THREADS: &[Build] = &[
    &[BY_THREADS, IN_ORDER, ONE_WAY, TO_THE_CYCLE],
    &[BY_THREADS, OUT_OF_ORDER, TWO_WAYS, TO_THE_CYCLE],
    &[BY_THREADS, TIMING_SIMPLE, AT_THE_MEDIA, ONE_WAY, FAR_AHEAD],
    &[BY_THREADS, IN_ORDER, FEW_STRANDS, ONE_ENTRY, ONE_WAY],
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

const fn in_strands(builds: &'static [Build]) -> Preset {
    Preset {
        machine: "x86-pm",
        design: "spms",
        builds,
        has_epochs: false,
    }
}

const SPMS: &[Preset] = &[in_strands(IN_STRANDS)];
const SPMS_READS: &[Preset] = &[in_strands(IN_STRANDS_BY_READS)];
const SPMS_THREAD: &[Preset] = &[in_strands(IN_STRANDS_BY_THREADS)];

/// The machines that are to keep a model.
pub(super) fn of_model(model: &str) -> &'static [Preset] {
    match model {
        "px86" | "ptso" | "arm" | "perdure" => EXPLICIT,
        "epoch-prefix" => EPOCH_PREFIX,
        "causal-cut" => CAUSAL_CUT,
        "spms" => SPMS,
        "spms-reads" => SPMS_READS,
        "spms-thread" => SPMS_THREAD,
        _ => &[],
    }
}
