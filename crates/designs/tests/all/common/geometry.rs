//! Machines that are small and unlucky in different ways, as one table.

use perdure_designs::picl::Parameters;
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::specification::{
    Core, CoreModel, Dram, Inclusion, Interleaving, Link, Nvm, PagePolicy, PersistenceDomain,
    Posted, PrefetcherSpecification, Private, Scheduling, Second, Shared, Specification,
    WindowSpecification,
};

/// A machine, the parameters of `picl` on it, and how a program uses it.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub name: &'static str,
    pub harts: usize,
    /// Sets and ways.
    pub l1d: (usize, usize),
    /// Of the prefetchers.
    pub prefetch_degree: usize,
    pub l2: (usize, usize),
    /// Harts that share an L2.
    pub l2_harts: usize,
    /// Of one hart's slice.
    pub llc: (usize, usize),
    pub inclusion: Inclusion,
    pub nvm_bytes: u64,
    pub banks: usize,
    pub row_bytes: usize,
    pub scheduling: Scheduling,
    pub home_interleaving: Interleaving,
    pub write_queue_entries: usize,
    /// DRAM in front of the NVM.
    pub dram: bool,
    pub eid_bits: u32,
    pub acs_gap: u64,
    pub acs_sets_per_step: usize,
    pub undo_buffer_bytes: usize,
    pub bloom_filter_bits: usize,
    pub log_extent_bytes: u64,
    pub log_limit_bytes: u64,
    /// Lines that the program touches, and how many of them it prefers.
    pub lines: usize,
    pub hot_lines: usize,
    /// Most stores in one epoch.
    pub epoch_stores: u64,
    /// One epoch in so many is ended by output commit.
    pub forced_once_in: u64,
    /// Most cycles that a hart computes between two accesses.
    pub pause_cycles: u64,
    /// Most accesses that harts still make after the design has asked for the epoch's end, as a
    /// kernel does that finishes a copy first.
    pub accesses_after_overflow: u64,
}

/// Caches of a few lines, so that every kind of conflict happens all the time.
pub const TINY: Geometry = Geometry {
    name: "tiny",
    harts: 1,
    l1d: (2, 2),
    prefetch_degree: 0,
    l2: (4, 2),
    l2_harts: 1,
    llc: (4, 4),
    inclusion: Inclusion::Inclusive,
    nvm_bytes: 64 << 20,
    banks: 16,
    row_bytes: 2048,
    scheduling: Scheduling::Fcfs,
    home_interleaving: Interleaving::Line,
    write_queue_entries: 8,
    dram: false,
    eid_bits: 4,
    acs_gap: 3,
    acs_sets_per_step: 1,
    undo_buffer_bytes: 2048,
    bloom_filter_bits: 4096,
    log_extent_bytes: 16 << 10,
    log_limit_bytes: 4 << 20,
    lines: 96,
    hot_lines: 8,
    epoch_stores: 60,
    forced_once_in: 16,
    pause_cycles: 40,
    accesses_after_overflow: 0,
};

pub const DIRECT_MAPPED: Geometry = Geometry {
    name: "direct-mapped",
    home_interleaving: Interleaving::Row,
    l1d: (4, 1),
    l2: (8, 1),
    llc: (16, 1),
    eid_bits: 3,
    acs_gap: 1,
    undo_buffer_bytes: 512,
    log_extent_bytes: 16 << 10,
    lines: 64,
    epoch_stores: 40,
    ..TINY
};

pub const MANY_HARTS: Geometry = Geometry {
    name: "many harts",
    harts: 4,
    l1d: (2, 1),
    l2: (2, 2),
    llc: (4, 4),
    acs_gap: 5,
    undo_buffer_bytes: 1024,
    lines: 128,
    hot_lines: 16,
    epoch_stores: 150,
    ..TINY
};

/// Two-bit tags: three epochs may be outstanding, and tags wrap at every fourth.
pub const NARROW_TAGS: Geometry = Geometry {
    name: "narrow tags",
    scheduling: Scheduling::StartOrder,
    home_interleaving: Interleaving::Row,
    harts: 2,
    eid_bits: 2,
    acs_gap: 1,
    acs_sets_per_step: 4,
    undo_buffer_bytes: 512,
    log_extent_bytes: 16 << 10,
    epoch_stores: 24,
    forced_once_in: 8,
    ..TINY
};

/// Everything stays in the caches: only the scan writes in place, only scans flush the buffer.
pub const RESIDENT: Geometry = Geometry {
    name: "resident",
    harts: 2,
    l1d: (8, 2),
    l2: (16, 4),
    llc: (32, 8),
    eid_bits: 3,
    acs_gap: 0,
    acs_sets_per_step: 16,
    lines: 48,
    hot_lines: 6,
    epoch_stores: 80,
    pause_cycles: 200,
    ..TINY
};

/// A handful of lines that every epoch writes again: no scan ever finds them old, entries of many
/// epochs gather in one undo buffer.
pub const HOT: Geometry = Geometry {
    name: "hot",
    eid_bits: 2,
    acs_gap: 1,
    undo_buffer_bytes: 4096,
    row_bytes: 4096,
    lines: 3,
    hot_lines: 2,
    epoch_stores: 6,
    forced_once_in: 64,
    pause_cycles: 900,
    ..RESIDENT
};

/// Blocks of one entry each, and the shortest log: reclaimed and reused all the time.
pub const TINY_LOG: Geometry = Geometry {
    name: "tiny log",
    harts: 2,
    acs_gap: 2,
    undo_buffer_bytes: 128,
    log_extent_bytes: 16 << 10,
    epoch_stores: 30,
    ..TINY
};

/// A log that a long epoch fills: epochs end early, again and again.
pub const FULL_LOG: Geometry = Geometry {
    name: "full log",
    undo_buffer_bytes: 256,
    log_limit_bytes: 64 << 10,
    epoch_stores: 2000,
    forced_once_in: 64,
    ..TINY_LOG
};

/// The same in few large blocks, some of an entry or two: the log is full before many epochs are over.
pub const FULL_LOG_OF_ROWS: Geometry = Geometry {
    name: "full log, large blocks",
    undo_buffer_bytes: 2048,
    ..FULL_LOG
};

/// One bank and a queue of one entry: every write waits for the one before it.
pub const ONE_BANK: Geometry = Geometry {
    name: "one bank",
    banks: 1,
    write_queue_entries: 1,
    bloom_filter_bits: 64,
    undo_buffer_bytes: 4096,
    row_bytes: 4096,
    acs_gap: 0,
    forced_once_in: 4,
    ..TINY
};

/// Many banks, hardly any link time: as many writes in flight at once as can be.
pub const PARALLEL_MEDIA: Geometry = Geometry {
    name: "parallel media",
    harts: 2,
    banks: 256,
    write_queue_entries: 64,
    undo_buffer_bytes: 256,
    bloom_filter_bits: 256,
    acs_gap: 1,
    acs_sets_per_step: 8,
    log_extent_bytes: 16 << 10,
    epoch_stores: 50,
    pause_cycles: 4,
    ..TINY
};

/// DRAM in front of the NVM: misses come from elsewhere than what recovery sees.
pub const BEHIND_DRAM: Geometry = Geometry {
    name: "behind DRAM",
    dram: true,
    lines: 400,
    hot_lines: 40,
    ..MANY_HARTS
};

/// Rows of one line, as where lines are dealt out to banks: blocks and records span many.
pub const ROWS_OF_LINES: Geometry = Geometry {
    name: "rows of lines",
    row_bytes: 64,
    acs_gap: 1,
    ..MANY_HARTS
};

/// The same behind DRAM, with hardly any time between stores and cleans of different harts.
pub const NO_PAUSES_BEHIND_DRAM: Geometry = Geometry {
    name: "no pauses, behind DRAM",
    row_bytes: 64,
    lines: 24,
    hot_lines: 6,
    pause_cycles: 0,
    ..BEHIND_DRAM
};

/// Rows of one line, with small blocks and DRAM in front.
pub const LINES_BEHIND_DRAM: Geometry = Geometry {
    name: "rows of lines behind DRAM",
    harts: 2,
    row_bytes: 64,
    undo_buffer_bytes: 256,
    write_queue_entries: 2,
    acs_gap: 0,
    ..BEHIND_DRAM
};

/// For designs whose blocks may be longer than a row; not part of [`ALL`].
pub const SHORT_ROWS: [Geometry; 2] = [ROWS_OF_LINES, LINES_BEHIND_DRAM];

/// L2s that harts share: two of them have one, the third has the other to itself.
pub const SHARED_L2S: Geometry = Geometry {
    name: "shared L2s",
    prefetch_degree: 2,
    harts: 3,
    l2_harts: 2,
    l2: (4, 2),
    ..MANY_HARTS
};

pub const ALL: &[Geometry] = &[
    TINY,
    DIRECT_MAPPED,
    MANY_HARTS,
    SHARED_L2S,
    NARROW_TAGS,
    RESIDENT,
    HOT,
    TINY_LOG,
    ONE_BANK,
    PARALLEL_MEDIA,
    BEHIND_DRAM,
];

/// All of them, with a design's parameters on each.
pub fn all_with<P>(parameters: impl Fn(&Geometry) -> P) -> Vec<(Geometry, P)> {
    ALL.iter().map(|one| (*one, parameters(one))).collect()
}

impl Geometry {
    /// The same machine with a last-level cache that is not inclusive.
    pub fn not_inclusive(self) -> Self {
        Self {
            inclusion: Inclusion::NonInclusive,
            ..self
        }
    }

    pub fn specification(&self) -> Specification {
        let private = |(sets, ways): (usize, usize), latency_cycles| Private {
            bytes: sets * ways * LINE_BYTES,
            ways,
            latency_cycles,
        };
        let specification = Specification {
            harts: self.harts,
            core: Core {
                model: CoreModel::InOrder,
                frequency_mhz: 2000,
                store_buffer_entries: 4,
                window: WindowSpecification::default(),
            },
            l1i: private((1, 1), 1),
            l1d: private(self.l1d, 1),
            prefetcher: PrefetcherSpecification {
                degree: self.prefetch_degree,
                streams: 4,
            },
            l2: Second {
                harts: self.l2_harts,
                bytes: self.l2.0 * self.l2.1 * LINE_BYTES,
                ways: self.l2.1,
                latency_cycles: 4,
                snoop_cycles: 2,
            },
            llc: Shared {
                inclusion: self.inclusion,
                bytes_per_hart: self.llc.0 * self.llc.1 * LINE_BYTES,
                ways: self.llc.1,
                latency_cycles: 30,
                port_cycles: 1,
                snoop_cycles: 8,
            },
            link: Link {
                latency_ns: 0.0,
                width_bits: 64,
                frequency_mhz: 1600,
            },
            nvm: Nvm {
                bytes: self.nvm_bytes,
                scheduling: self.scheduling,
                home_interleaving: self.home_interleaving,
                page_policy: PagePolicy::Closed,
                banks: self.banks,
                row_bytes: self.row_bytes,
                row_read_ns: 128.0,
                row_write_ns: 368.0,
                read_queue_entries: 8,
                write_queue_entries: self.write_queue_entries,
            },
            dram: Dram {
                present: self.dram,
                preloaded: self.dram,
                controllers: 2,
                banks: 2,
                access_ns: 27.0,
                cycle_ns: 49.5,
                frequency_mhz: 1333,
            },
            posted: Posted::default(),
            persistence: PersistenceDomain::default(),
            modules: Vec::new(),
        };
        specification
            .validate()
            .expect("a machine that can be built");
        specification
    }

    pub fn parameters(&self) -> Parameters {
        Parameters {
            eid_bits: self.eid_bits,
            acs_gap: self.acs_gap,
            acs_sets_per_step: self.acs_sets_per_step,
            undo_buffer_bytes: self.undo_buffer_bytes,
            bloom_filter_bits: self.bloom_filter_bits,
            log_extent_bytes: self.log_extent_bytes,
            log_limit_bytes: self.log_limit_bytes,
            ..Parameters::default()
        }
    }
}
