//! What a machine is made of: plain, immutable data, one struct per component, units in the names.
//!
//! A specification comes from a TOML preset in `machines/` plus the user's overrides and is
//! validated once, before anything is built.

use serde::{Deserialize, Serialize};

use crate::cache::LINE_NUMBER_LIMIT;
use crate::line::LINE_BYTES;
use crate::time::Clock;

mod modules;
mod prefetcher;
mod window;

pub use modules::{Domain, ModuleSpecification, Persistence, PersistenceDomain};
use modules::{validate_link, validate_media};
pub use prefetcher::PrefetcherSpecification;
pub use window::{StoreOrder, WindowSpecification};

/// How a core turns instructions and memory latencies into time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreModel {
    /// One cycle per instruction; a load miss stalls; stores drain through a store buffer.
    InOrder,
    /// One cycle per instruction; every miss, of loads and stores alike, stalls.
    TimingSimple,
    /// Instructions begin when their operands are there, within the window of [`WindowSpecification`].
    OutOfOrder,
}

/// The cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Timing model.
    pub model: CoreModel,
    /// Clock in megahertz; every cycle count is in this clock.
    pub frequency_mhz: u64,
    /// Stores that may wait for their line while the core goes on, where it is in order.
    pub store_buffer_entries: usize,
    /// What an out-of-order core is made of.
    #[serde(default)]
    pub window: WindowSpecification,
}

impl Core {
    /// The most instructions that are retired in a cycle.
    pub fn instructions_a_cycle(&self) -> u64 {
        match self.model {
            CoreModel::InOrder | CoreModel::TimingSimple => 1,
            CoreModel::OutOfOrder => self.window.dispatch_width as u64,
        }
    }
}

/// A private cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Private {
    /// Capacity in bytes.
    pub bytes: usize,
    /// Associativity.
    pub ways: usize,
    /// Cycles that a hit here adds to what the level above already took.
    pub latency_cycles: u64,
}

/// The second-level cache, which one or more harts share: with them it is a sharing group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Second {
    /// Harts that share one. They are dealt out in order; the last one may have fewer.
    pub harts: usize,
    /// Capacity of one in bytes, however many harts share it.
    pub bytes: usize,
    /// Associativity.
    pub ways: usize,
    /// Cycles that a hit here adds to what the level above already took.
    pub latency_cycles: u64,
    /// Cycles that a snoop of another hart's L1 adds.
    pub snoop_cycles: u64,
}

/// What the last-level cache holds of the lines in private caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// All of them; its directory is part of its tags.
    Inclusive,
    /// What it likes: it is filled by lines that leave the L2s, and its directory lies apart.
    NonInclusive,
    /// Not inclusive, unless the design needs it. The configuration settles which before anything
    /// is built.
    ByDesign,
}

/// The shared last-level cache with its directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// What it holds of the lines in private caches.
    pub inclusion: Inclusion,
    /// Capacity in bytes for each hart; there is one slice per hart.
    pub bytes_per_hart: usize,
    /// Associativity.
    pub ways: usize,
    /// Cycles that a hit here adds.
    pub latency_cycles: u64,
    /// Cycles for which an access occupies its slice's port.
    pub port_cycles: u64,
    /// Cycles that a snoop of a private cache adds.
    pub snoop_cycles: u64,
}

/// The link between the memory controller and the memory module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Data width in bits.
    pub width_bits: u64,
    /// Transfers per microsecond (MHz of the data clock).
    pub frequency_mhz: u64,
    /// What every message takes on its way, over and above its transfer, in either direction.
    pub latency_ns: f64,
}

/// In which order the controller starts requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// First come, first served at each bank: it starts the oldest request that can start. A request
    /// waits for no other bank's.
    Fcfs,
    /// No request starts before an earlier one has started, whatever their banks.
    StartOrder,
}

/// By what the addresses of programs and the kernel are dealt out to the banks. What designs keep beside
/// them is dealt out by rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interleaving {
    /// Lines: neighbours lie in different banks.
    Line,
    /// Rows: the lines of a row lie in one bank.
    Row,
}

/// What a bank does with its row after an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PagePolicy {
    /// Closes it: every request pays the full row access.
    Closed,
}

/// A memory controller and the media behind it: the NVM, or another module's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nvm {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Request order.
    pub scheduling: Scheduling,
    /// Row policy.
    pub page_policy: PagePolicy,
    /// Banks that work in parallel; consecutive rows lie in consecutive banks.
    pub banks: usize,
    /// What lies in consecutive banks at home addresses.
    pub home_interleaving: Interleaving,
    /// Bytes of a row. One write of up to a whole row is one row operation.
    pub row_bytes: usize,
    /// A row read, in nanoseconds.
    pub row_read_ns: f64,
    /// A row write, in nanoseconds.
    pub row_write_ns: f64,
    /// Reads that may wait at the controller.
    pub read_queue_entries: usize,
    /// Writes that may wait at the controller. What waits is lost at power-off, unless the module's
    /// persistence says otherwise.
    pub write_queue_entries: usize,
}

impl Nvm {
    /// Banks that neighbouring lines at home take in turn: all, or one if rows are dealt out. Designs
    /// that hand out places of their own line by line do it by the same rule.
    pub fn line_spread(&self) -> usize {
        match self.home_interleaving {
            Interleaving::Line => self.banks,
            Interleaving::Row => 1,
        }
    }
}

/// DRAM in front of the NVM: a write-back buffer with room for everything that programs touch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// True if there is one.
    pub present: bool,
    /// True if it has everything from the start; otherwise lines come from the NVM when first read.
    pub preloaded: bool,
    /// Controllers, each with a channel of 64 bits; lines are dealt out to them in turn.
    pub controllers: usize,
    /// Banks of each controller.
    pub banks: usize,
    /// From the start of an access to its bytes, in nanoseconds.
    pub access_ns: f64,
    /// For how long an access occupies its bank, in nanoseconds.
    pub cycle_ns: f64,
    /// Transfers per microsecond of a channel.
    pub frequency_mhz: u64,
}

/// Writes as no machine has them, for comparison with a model that has: timing only, and no promise
/// holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Posted {
    /// Every write to the NVM is taken at once and queues on its bank without bound.
    pub writes: bool,
    /// The bank is that of the program's line that a write belongs to, by its number's low bits.
    pub banks_by_home_line: bool,
}

/// The substrate's specification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Specification {
    /// Number of harts, each with its private caches.
    pub harts: usize,
    /// Cores.
    pub core: Core,
    /// First-level instruction cache.
    pub l1i: Private,
    /// First-level data cache.
    pub l1d: Private,
    /// What asks for its lines ahead.
    #[serde(default)]
    pub prefetcher: PrefetcherSpecification,
    /// Second-level caches, inclusive of the first levels of their harts.
    pub l2: Second,
    /// Last-level cache.
    pub llc: Shared,
    /// Link.
    pub link: Link,
    /// Memory.
    pub nvm: Nvm,
    /// DRAM in front of it.
    pub dram: Dram,
    /// Posted writes.
    pub posted: Posted,
    /// What the reserve of energy keeps.
    pub persistence: PersistenceDomain,
    /// Modules beside the NVM.
    pub modules: Vec<ModuleSpecification>,
}

/// A geometry that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {problem}")]
pub struct ImpossibleGeometry {
    /// The configuration key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

/// What the module of `nvm` and `link` is called.
pub const MAIN_MODULE: &str = "nvm";

/// Most bytes of all caches of a level, which the host holds.
const CACHE_BYTES_MOST: usize = 4 << 30;

fn require(
    good: bool,
    key: &str,
    value: &impl ToString,
    problem: &str,
) -> Result<(), ImpossibleGeometry> {
    if good {
        return Ok(());
    }
    Err(ImpossibleGeometry {
        key: key.into(),
        value: value.to_string(),
        problem: problem.into(),
    })
}

impl Specification {
    /// The core clock.
    pub fn clock(&self) -> Clock {
        Clock {
            frequency_mhz: self.core.frequency_mhz,
        }
    }

    /// Refuses what cannot be built, naming the key.
    pub fn validate(&self) -> Result<(), ImpossibleGeometry> {
        let harts = self.harts;
        require(
            (1..=64).contains(&harts),
            "harts",
            &harts,
            "must be 1 to 64, the width of the directory's holder vector",
        )?;
        require(
            (1..=64).contains(&self.l2.harts),
            "l2.harts",
            &self.l2.harts,
            "must be 1 to 64, the harts that share an L2",
        )?;
        let core = &self.core;
        require(
            (1..=100_000).contains(&core.frequency_mhz),
            "core.frequency_mhz",
            &core.frequency_mhz,
            "must be 1 to 100000",
        )?;
        require(
            (1..=1024).contains(&core.store_buffer_entries),
            "core.store_buffer_entries",
            &core.store_buffer_entries,
            "must be 1 to 1024",
        )?;
        self.validate_sets()?;
        self.validate_levels()?;
        require(
            (1..=1000).contains(&self.llc.port_cycles),
            "llc.port_cycles",
            &self.llc.port_cycles,
            "must be 1 to 1000",
        )?;
        for (key, value) in [
            ("l1d.latency_cycles", self.l1d.latency_cycles),
            ("l1i.latency_cycles", self.l1i.latency_cycles),
            ("l2.latency_cycles", self.l2.latency_cycles),
            ("l2.snoop_cycles", self.l2.snoop_cycles),
            ("llc.latency_cycles", self.llc.latency_cycles),
            ("llc.snoop_cycles", self.llc.snoop_cycles),
        ] {
            require(value <= 1_000_000, key, &value, "must be at most 1000000")?;
        }
        self.validate_hits()?;
        core.window.validate()?;
        validate_link("link.", &self.link)?;
        let nvm = &self.nvm;
        let size = (64 << 20)..=(1u64 << 42).min(LINE_NUMBER_LIMIT * LINE_BYTES as u64);
        let is_there = size.contains(&nvm.bytes) && nvm.bytes.is_multiple_of(4096);
        require(
            is_there || (nvm.bytes == 0 && self.has_dram_and_persistent_modules()),
            "nvm.bytes",
            &nvm.bytes,
            "must be a multiple of 4096, 64 MiB to 4 TiB; or 0, where [[module]] tables have DRAM and persistent memory",
        )?;
        validate_media("nvm.", nvm)?;
        require(
            self.posted.writes || !self.posted.banks_by_home_line,
            "posted.banks_by_home_line",
            &self.posted.banks_by_home_line,
            "needs posted.writes = true",
        )?;
        self.dram.validate()?;
        self.validate_modules()
    }

    /// Every cache is a power of two of sets.
    fn validate_sets(&self) -> Result<(), ImpossibleGeometry> {
        let caches = [
            ("l1i", "bytes", self.l1i.bytes, self.l1i.ways),
            ("l1d", "bytes", self.l1d.bytes, self.l1d.ways),
            ("l2", "bytes", self.l2.bytes, self.l2.ways),
            (
                "llc",
                "bytes_per_hart",
                self.llc.bytes_per_hart,
                self.llc.ways,
            ),
        ];
        for (cache, key, bytes, ways) in caches {
            require(
                (1..=64).contains(&ways),
                &format!("{cache}.ways"),
                &ways,
                "must be 1 to 64",
            )?;
            let key = format!("{cache}.{key}");
            let set_bytes = ways * LINE_BYTES;
            require(
                bytes >= set_bytes,
                &key,
                &bytes,
                &format!("is smaller than one set of {ways} ways × 64 bytes = {set_bytes} bytes"),
            )?;
            require(
                bytes % set_bytes == 0 && (bytes / set_bytes).is_power_of_two() && bytes <= 1 << 32,
                &key,
                &bytes,
                &format!(
                    "must be a power of two times {set_bytes} (ways × 64 bytes), at most 4 GiB"
                ),
            )?;
        }
        Ok(())
    }

    /// Inclusion with room for replacement: the outer level must hold what the inner ones may.
    fn validate_levels(&self) -> Result<(), ImpossibleGeometry> {
        let harts = self.harts;
        let sharing = self.l2.harts.min(harts);
        let groups = harts.div_ceil(sharing);
        require(
            self.l2.bytes >= sharing * (self.l1d.bytes + self.l1i.bytes),
            "l2.bytes",
            &self.l2.bytes,
            &format!(
                "must be at least l1i.bytes + l1d.bytes for each of the {sharing} harts that share it, because the L2 is inclusive"
            ),
        )?;
        require(
            self.llc.inclusion != Inclusion::Inclusive
                || self.llc.bytes_per_hart * harts >= self.l2.bytes * groups,
            "llc.bytes_per_hart",
            &self.llc.bytes_per_hart,
            &format!(
                "times {harts} harts must be at least l2.bytes times {groups} L2s, because the last-level cache is inclusive"
            ),
        )?;
        require(
            self.llc.inclusion == Inclusion::Inclusive || groups < 64,
            "harts",
            &harts,
            "must make at most 63 L2s (l2.harts share one) with a last-level cache that is not inclusive",
        )?;
        for (key, bytes, count) in [
            ("l2.bytes", self.l2.bytes, groups),
            ("llc.bytes_per_hart", self.llc.bytes_per_hart, harts),
        ] {
            require(
                bytes.saturating_mul(count) <= CACHE_BYTES_MOST,
                key,
                &bytes,
                &format!("times {count} must be at most {CACHE_BYTES_MOST}"),
            )?;
        }
        Ok(())
    }
}
