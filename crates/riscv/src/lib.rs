//! RV64GC and friends: one table for decode, execution and disassembly.
pub mod memory;

pub use memory::{Access, Amo, CacheBlock, Fault, FetchedLine, Memory, Scalar};
