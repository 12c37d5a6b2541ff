//! The structures of an out-of-order core: one key for each.

use serde::{Deserialize, Serialize};

use super::{CoreModel, ImpossibleGeometry, Specification, require};

/// In which order stores that have committed are written into the L1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreOrder {
    /// Total store order: as the program made them, one a cycle.
    Tso,
    /// As their lines come; an entry of the store queue is free when its own store is written.
    Weak,
}

/// An out-of-order core. Only `core.model = "out-of-order"` has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowSpecification {
    /// Instructions fetched in a cycle. A branch that is taken ends the cycle's.
    pub fetch_width: usize,
    /// Instructions between fetch and dispatch.
    pub fetch_queue_entries: usize,
    /// From the resolution of a mispredicted branch, or a trap, to the dispatch of what follows it.
    pub front_end_cycles: u64,
    /// Instructions dispatched in a cycle.
    pub dispatch_width: usize,
    /// Instructions that begin in a cycle, in whatever units.
    pub issue_width: usize,
    /// Instructions committed in a cycle.
    pub commit_width: usize,
    /// Instructions between dispatch and commit.
    pub reorder_buffer_entries: usize,
    /// Instructions between dispatch and issue.
    pub issue_queue_entries: usize,
    /// Loads between dispatch and commit.
    pub load_queue_entries: usize,
    /// Stores between dispatch and being written.
    pub store_queue_entries: usize,
    /// In which order stores are written.
    pub store_order: StoreOrder,
    /// Units for integers and branches, of one cycle.
    pub integer_units: usize,
    /// Units for products and quotients of integers.
    pub multiply_units: usize,
    /// A product of integers.
    pub multiply_cycles: u64,
    /// A quotient or remainder of integers. Its unit takes nothing else meanwhile.
    pub divide_cycles: u64,
    /// Units for sums, comparisons and conversions of floating-point numbers.
    pub float_units: usize,
    /// A sum, comparison or conversion.
    pub float_cycles: u64,
    /// Units for products, quotients and roots of floating-point numbers.
    pub float_multiply_units: usize,
    /// A product, or a product and a sum in one.
    pub float_multiply_cycles: u64,
    /// A quotient or root. Its unit takes nothing else meanwhile.
    pub float_divide_cycles: u64,
    /// Loads that begin in a cycle.
    pub load_units: usize,
    /// Stores that begin in a cycle.
    pub store_units: usize,
    /// Misses that may be outstanding at the L1D (MSHRs).
    pub l1d_miss_entries: usize,
    /// Misses of a core that may be outstanding at its L2.
    pub l2_miss_entries: usize,
    /// Misses of a core that may be outstanding at the last-level cache.
    pub llc_miss_entries: usize,
    /// Tagged tables of the branch predictor.
    pub predictor_tables: usize,
    /// Entries of each; of its table without tags four times as many.
    pub predictor_entries: usize,
    /// Branches that the table with the longest history looks back.
    pub predictor_history: usize,
    /// Calls whose return addresses are remembered.
    pub return_stack_entries: usize,
    /// Indirect jumps whose last targets are remembered.
    pub indirect_entries: usize,
}

/// gem5's out-of-order core, where the flush study's paper says no more than that it has one; the misses
/// are the study's.
impl Default for WindowSpecification {
    fn default() -> Self {
        Self {
            fetch_width: 8,
            fetch_queue_entries: 32,
            front_end_cycles: 5,
            dispatch_width: 8,
            issue_width: 8,
            commit_width: 8,
            reorder_buffer_entries: 192,
            issue_queue_entries: 64,
            load_queue_entries: 32,
            store_queue_entries: 32,
            store_order: StoreOrder::Tso,
            integer_units: 6,
            multiply_units: 2,
            multiply_cycles: 3,
            divide_cycles: 20,
            float_units: 4,
            float_cycles: 2,
            float_multiply_units: 2,
            float_multiply_cycles: 4,
            float_divide_cycles: 12,
            load_units: 2,
            store_units: 1,
            l1d_miss_entries: 16,
            l2_miss_entries: 32,
            llc_miss_entries: 32,
            predictor_tables: 4,
            predictor_entries: 1024,
            predictor_history: 64,
            return_stack_entries: 16,
            indirect_entries: 512,
        }
    }
}

/// Most entries of a queue.
const QUEUE_MOST: usize = 4096;
/// Most of what works side by side.
const WIDTH_MOST: usize = 64;
/// Longest latency of a unit.
const CYCLES_MOST: u64 = 1000;

impl WindowSpecification {
    /// Refuses what cannot be built, naming the key.
    pub(super) fn validate(&self) -> Result<(), ImpossibleGeometry> {
        self.validate_counts()?;
        let latencies = [
            ("front_end_cycles", self.front_end_cycles),
            ("multiply_cycles", self.multiply_cycles),
            ("divide_cycles", self.divide_cycles),
            ("float_cycles", self.float_cycles),
            ("float_multiply_cycles", self.float_multiply_cycles),
            ("float_divide_cycles", self.float_divide_cycles),
        ];
        for (key, value) in latencies {
            require(
                (1..=CYCLES_MOST).contains(&value),
                &format!("core.window.{key}"),
                &value,
                &format!("must be 1 to {CYCLES_MOST}"),
            )?;
        }
        for (key, value) in [
            ("predictor_entries", self.predictor_entries),
            ("indirect_entries", self.indirect_entries),
        ] {
            require(
                value.is_power_of_two() && (16..=1 << 16).contains(&value),
                &format!("core.window.{key}"),
                &value,
                "must be a power of two, 16 to 65536",
            )?;
        }
        require(
            self.predictor_history >= self.predictor_tables,
            "core.window.predictor_history",
            &self.predictor_history,
            "must be at least core.window.predictor_tables, each of which looks further back",
        )
    }

    fn validate_counts(&self) -> Result<(), ImpossibleGeometry> {
        let counts = [
            ("fetch_width", self.fetch_width, WIDTH_MOST),
            ("fetch_queue_entries", self.fetch_queue_entries, QUEUE_MOST),
            ("dispatch_width", self.dispatch_width, WIDTH_MOST),
            ("issue_width", self.issue_width, WIDTH_MOST),
            ("commit_width", self.commit_width, WIDTH_MOST),
            (
                "reorder_buffer_entries",
                self.reorder_buffer_entries,
                QUEUE_MOST,
            ),
            ("issue_queue_entries", self.issue_queue_entries, QUEUE_MOST),
            ("load_queue_entries", self.load_queue_entries, QUEUE_MOST),
            ("store_queue_entries", self.store_queue_entries, QUEUE_MOST),
            ("integer_units", self.integer_units, WIDTH_MOST),
            ("multiply_units", self.multiply_units, WIDTH_MOST),
            ("float_units", self.float_units, WIDTH_MOST),
            (
                "float_multiply_units",
                self.float_multiply_units,
                WIDTH_MOST,
            ),
            ("load_units", self.load_units, WIDTH_MOST),
            ("store_units", self.store_units, WIDTH_MOST),
            ("l1d_miss_entries", self.l1d_miss_entries, QUEUE_MOST),
            ("l2_miss_entries", self.l2_miss_entries, QUEUE_MOST),
            ("llc_miss_entries", self.llc_miss_entries, QUEUE_MOST),
            ("predictor_tables", self.predictor_tables, 8),
            ("predictor_history", self.predictor_history, 128),
            (
                "return_stack_entries",
                self.return_stack_entries,
                QUEUE_MOST,
            ),
        ];
        for (key, value, most) in counts {
            require(
                (1..=most).contains(&value),
                &format!("core.window.{key}"),
                &value,
                &format!("must be 1 to {most}"),
            )?;
        }
        Ok(())
    }
}

impl Specification {
    /// Refuses latencies of L1 hits that the core does not have, and a prefetcher that cannot be built.
    pub(super) fn validate_hits(&self) -> Result<(), ImpossibleGeometry> {
        self.prefetcher.validate()?;
        let most = match self.core.model {
            CoreModel::OutOfOrder => 100,
            CoreModel::InOrder | CoreModel::TimingSimple => 1,
        };
        for (key, latency, most) in [
            ("l1d.latency_cycles", self.l1d.latency_cycles, most),
            ("l1i.latency_cycles", self.l1i.latency_cycles, 1),
        ] {
            require(
                (1..=most).contains(&latency),
                key,
                &latency,
                "must be 1: an L1 hit is part of the core's one cycle per instruction (an out-of-order core may wait up to 100 for data)",
            )?;
        }
        Ok(())
    }
}
