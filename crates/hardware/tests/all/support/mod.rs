//! What the tests of the substrate share: the paper's machine as a starting point, and random numbers.

#[allow(dead_code, reason = "each crate's tests use some of it")]
#[path = "../../../../../tests/random.rs"]
mod random;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::policy::{Evicted, Eviction, Policy};
use perdure_hardware::specification::{
    Core, CoreModel, Dram, Inclusion, Interleaving, Link, Nvm, PagePolicy, PersistenceDomain,
    Posted, PrefetcherSpecification, Private, Scheduling, Second, Shared, Specification,
    WindowSpecification,
};

use perdure_hardware::time::Cycles;
#[allow(unused_imports, reason = "an example takes no seeds")]
pub use random::{Random, seed_alone, seeds};

/// `PiCL`'s Table IV. What the paper leaves out (banks, rows, queues) is ours.
pub fn table_iv(harts: usize) -> Specification {
    let private = |bytes, ways, latency_cycles| Private {
        bytes,
        ways,
        latency_cycles,
    };
    let specification = Specification {
        harts,
        core: Core {
            model: CoreModel::InOrder,
            frequency_mhz: 2000,
            store_buffer_entries: 8,
            window: WindowSpecification::default(),
        },
        l1i: private(32 << 10, 4, 1),
        l1d: private(32 << 10, 4, 1),
        prefetcher: PrefetcherSpecification::default(),
        l2: Second {
            harts: 1,
            bytes: 256 << 10,
            ways: 8,
            latency_cycles: 4,
            snoop_cycles: 2,
        },
        llc: Shared {
            inclusion: Inclusion::Inclusive,
            bytes_per_hart: 2 << 20,
            ways: 8,
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
            bytes: 64 << 20,
            scheduling: Scheduling::Fcfs,
            home_interleaving: Interleaving::Row,
            page_policy: PagePolicy::Closed,
            banks: 16,
            row_bytes: 2048,
            row_read_ns: 128.0,
            row_write_ns: 368.0,
            read_queue_entries: 32,
            write_queue_entries: 32,
        },
        dram: Dram {
            present: false,
            preloaded: false,
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

/// The same with caches of a few lines, so that every kind of conflict happens all the time:
/// L1s of 2 sets × 2 ways, an L2 of 4 × 2, a shared cache of 4 × 4 for each hart.
pub fn tiny(harts: usize) -> Specification {
    let mut specification = table_iv(harts);
    for cache in [&mut specification.l1i, &mut specification.l1d] {
        cache.bytes = 2 * 2 * LINE_BYTES;
        cache.ways = 2;
    }
    specification.l2.bytes = 4 * 2 * LINE_BYTES;
    specification.l2.ways = 2;
    specification.llc.bytes_per_hart = 4 * 4 * LINE_BYTES;
    specification.llc.ways = 4;
    specification.core.store_buffer_entries = 2;
    specification.nvm.read_queue_entries = 2;
    specification.nvm.write_queue_entries = 2;
    specification
        .validate()
        .expect("a machine that can be built");
    specification
}

/// Lets so many harts share an L2, which grows with them.
pub fn share_l2s(specification: &mut Specification, harts: usize) {
    specification.l2.harts = harts;
    specification.l2.bytes *= harts;
    specification
        .validate()
        .expect("a machine that can be built");
}

/// Lines are at home, and nothing else.
pub struct AtHome;

impl Policy for AtHome {
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let (line, bytes) = (eviction.line, &eviction.bytes);
        let done = hardware
            .memory
            .write_back(line, bytes, now, &mut hardware.statistics);
        done.into()
    }

    fn fired(&mut self, _: &mut Hardware, _: u32, _: Cycles) {}
}
