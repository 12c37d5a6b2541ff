//! The models as their papers have them: one table each, or the rules of groups. `docs/persistency.md` says
//! them in words.
//!
//! Always true here: a row is an instruction, a column one that comes later in the same thread. `F`: the
//! later one may take effect first. `W`: it waits. `A`: it waits if both are about one address (location).
//! `L`: if both are about one cache line. `N`: if the fence names the other in its set. What takes effect
//! does so for all threads at once.

use super::groups::Groups;
use super::model::Cell::{Free as F, Line as L, Location as A, Named as N, Waits as W};
use super::model::Explored::{ByBuffers, ByGroups, ByTable};
use super::model::Kind::{
    Clean, Dmb, Dsb, Exchange, Fence, Flush, FlushOpt, JoinStrand, Load, Mfence, NewStrand,
    PersistBarrier, Sfence, Store, StrandSync,
};
use super::model::{Between, Causes, Kind, Left, Model, Table};

/// Every model.
pub const MODELS: &[Model] = &[
    PX86,
    PTSO,
    ARM,
    PERDURE,
    EPOCH_PREFIX,
    CAUSAL_CUT,
    STRAND,
    SPMS,
    SPMS_READS,
    SPMS_THREAD,
];

const X86: &[Kind] = &[Load, Store, Exchange, Mfence, Sfence, FlushOpt, Flush];

/// Raad, Wickerson, Neiger, Vafeiadis: *Persistency Semantics of the Intel-x86 Architecture*, POPL 2020:
/// the ordering table of Px86sim. `clwb` is ordered as `clflushopt` is.
#[rustfmt::skip]
const PX86_ORDER: &Table = &Table {
    later: X86,
    rows: &[
        //           Load Store Exchange Mfence Sfence FlushOpt Flush
        (Load,     &[W,   W,    W,       W,     W,     W,       W]),
        (Store,    &[F,   W,    W,       W,     W,     L,       W]),
        (Exchange, &[W,   W,    W,       W,     W,     W,       W]),
        (Mfence,   &[W,   W,    W,       W,     W,     W,       W]),
        (Sfence,   &[F,   W,    W,       W,     W,     W,       W]),
        (FlushOpt, &[F,   F,    W,       W,     W,     F,       L]),
        (Flush,    &[F,   W,    W,       W,     W,     L,       W]),
    ],
};

/// Px86.
const PX86: Model = Model {
    name: "px86",
    source: "Raad, Wickerson, Neiger, Vafeiadis, POPL 2020 (Px86sim)",
    kinds: X86,
    explored: ByTable {
        order: PX86_ORDER,
        past_branches: &[],
        left: Left::Lines,
    },
};

/// PTSO: the tables are with their explorer.
const PTSO: Model = Model {
    name: "ptso",
    source: "Khyzha, Lahav, POPL 2021 (PTSOsyn)",
    kinds: X86,
    explored: ByBuffers,
};

const ARM_KINDS: &[Kind] = &[Load, Store, Exchange, Dmb, Dsb, Clean];

/// Raad, Wickerson, Vafeiadis: *Weak Persistency Semantics from the Ground Up*, OOPSLA 2019, as Cho, Lee,
/// Raad, Kang restate it (*Revamping Hardware Persistency Models*, PLDI 2021): `bob`, `fob` and `per`. An
/// exchange is one with acquire and release.
#[rustfmt::skip]
const ARM_ORDER: &Table = &Table {
    later: ARM_KINDS,
    rows: &[
        //           Load Store Exchange Dmb Dsb Clean
        (Load,     &[A,   A,    W,       W,  W,  L]),
        (Store,    &[F,   A,    W,       W,  W,  L]),
        (Exchange, &[W,   W,    W,       W,  W,  L]),
        (Dmb,      &[W,   W,    W,       W,  W,  W]),
        (Dsb,      &[W,   W,    W,       W,  W,  W]),
        (Clean,    &[F,   F,    F,       F,  W,  F]),
    ],
};

/// Arm.
const ARM: Model = Model {
    name: "arm",
    source: "Raad, Wickerson, Vafeiadis, OOPSLA 2019; Cho, Lee, Raad, Kang, PLDI 2021 (PARMv8)",
    kinds: ARM_KINDS,
    explored: ByTable {
        order: ARM_ORDER,
        past_branches: &[Load, Clean],
        left: Left::Lines,
    },
};

const RISC_V: &[Kind] = &[Load, Store, Exchange, Fence, Clean];

/// Perdure's contract for RISC-V: accesses take effect in order, and a write-back at any time before what
/// a fence puts behind it.
#[rustfmt::skip]
const PERDURE_ORDER: &Table = &Table {
    later: RISC_V,
    rows: &[
        //           Load Store Exchange Fence Clean
        (Load,     &[W,   W,    W,       W,    W]),
        (Store,    &[W,   W,    W,       W,    W]),
        (Exchange, &[W,   W,    W,       W,    W]),
        (Fence,    &[N,   N,    W,       F,    N]),
        (Clean,    &[F,   F,    F,       N,    F]),
    ],
};

/// Perdure's own.
const PERDURE: Model = Model {
    name: "perdure",
    source: "docs/machine.md, What persists when",
    kinds: RISC_V,
    explored: ByTable {
        order: PERDURE_ORDER,
        past_branches: &[],
        left: Left::Lines,
    },
};

/// Under designs that need no help of the program: write-backs and fences persist nothing.
const IN_ORDER: &Table = &Table {
    later: RISC_V,
    rows: &[],
};

/// PiCL, ThyNVM, FRM, journaling, shadow paging: the end of an epoch, wherever epochs end.
const EPOCH_PREFIX: Model = Model {
    name: "epoch-prefix",
    source: "Nguyen, Wentzlaff, MICRO 2018 (PiCL)",
    kinds: RISC_V,
    explored: ByTable {
        order: IN_ORDER,
        past_branches: &[],
        left: Left::Prefix,
    },
};

/// NVOverlay: each sharing group at the end of one of its epochs, and no effect without its cause.
const CAUSAL_CUT: Model = Model {
    name: "causal-cut",
    source: "Wang, Choo, Kozuch, Mowry, Pekhimenko, Seshadri, Skarlatos, ISCA 2021 (NVOverlay)",
    kinds: RISC_V,
    explored: ByTable {
        order: IN_ORDER,
        past_branches: &[],
        left: Left::Causal(Causes {
            loads: true,
            stores: true,
        }),
    },
};

const STRAND_KINDS: &[Kind] = &[Load, Store, Exchange, PersistBarrier, NewStrand, JoinStrand];

/// Strand persistency: accesses take effect in order; what orders persists is below.
const STRAND: Model = Model {
    name: "strand",
    source: "Pelley, Chen, Wenisch, ISCA 2014; Gogte et al., ISCA 2020 (StrandWeaver)",
    kinds: STRAND_KINDS,
    explored: ByTable {
        order: &Table {
            later: STRAND_KINDS,
            rows: &[],
        },
        past_branches: &[],
        left: Left::Strands(Between {
            barrier_orders_strand: true,
            new_strand_forgets: true,
            join_orders_thread: true,
            location_orders: true,
            load_orders: true,
            overwriting_orders: true,
        }),
    },
};

/// The persist barrier of strand persistency is known and orders nothing, so that a test can be asked of
/// both.
const SPMS_KINDS: &[Kind] = &[Load, Store, Exchange, PersistBarrier, NewStrand, StrandSync];

/// Section IV-B, and an instruction of ours that waits.
const PAPERS_GROUPS: Groups = Groups {
    new_strand_ends: true,
    waits_for_ends: true,
    by_line: true,
    stores_merge: true,
    loads_merge: false,
    chains_threads: false,
    sync_ends: true,
    sync_waits: true,
};

const fn by_groups(name: &'static str, source: &'static str, groups: Groups) -> Model {
    Model {
        name,
        source,
        kinds: SPMS_KINDS,
        explored: ByGroups(groups),
    }
}

/// SPMS: strands that conflict are durable together.
const SPMS: Model = by_groups(
    "spms",
    "Li, Wang, Xiao, Sun, Liu (SPMS), section IV-B",
    PAPERS_GROUPS,
);

/// SPMS, and whoever reads what is not durable is durable together with it.
const SPMS_READS: Model = by_groups(
    "spms-reads",
    "Perdure: SPMS, ordered by reads",
    Groups {
        loads_merge: true,
        ..PAPERS_GROUPS
    },
);

/// The same, and a thread's strands become durable in order.
const SPMS_THREAD: Model = by_groups(
    "spms-thread",
    "Perdure: SPMS, ordered by reads and threads",
    Groups {
        loads_merge: true,
        chains_threads: true,
        ..PAPERS_GROUPS
    },
);
