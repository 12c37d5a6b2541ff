//! RV64GC and friends: one table for decode, execution and disassembly.
//!
//! ```text
//! RV64I M A F D C  Zicsr Zifencei  Zba Zbb Zbs  Zicbom Zicboz  Zihintntl Zihintpause
//! and custom-1 (opcode 0x2b): Perdure's own persistence instructions
//! ```
//!
//! A [`Hart`] is plain data, and has a byte format ([`Hart::to_bytes`]). Memory is behind the trait
//! [`Memory`]; the crate knows nothing of caches, kernels or designs. Two engines run a hart, and
//! agree on every register, on every retired count and on every call to memory:
//!
//! - [`plain::run`]`(&mut hart, &mut memory) -> Exit`: fetch, decode, execute, one at a time;
//! - [`fast::run`]`(&mut hart, &mut memory, &mut blocks) -> Exit`: pre-decoded blocks, kept in a
//!   [`fast::BlockCache`], one per hart. Whoever changes a mapping says so to it
//!   ([`fast::BlockCache::flush_range`]); changed code it finds out by itself.
//!
//! Both return an [`Exit`] with `pc` and `retired` exact, and can be called again at once, or the
//! other one can. What a block is, and so where the limit is compared and the instruction cache
//! charged, is said in [`plain`].
//!
//! [`TABLE`] is every instruction there is; [`Instruction::decode`] and [`disassemble`] read it.
//! [`FlatMemory`] is memory for tests and bare programs.
//!
//! # For whoever implements `Memory`
//! The fast engine calls [`Memory::load_hit`] and [`Memory::store_hit`] first, and `load` and
//! `store` only where these decline. Made of straight code and inlined, they keep the handlers of
//! loads and stores free of stack frames; the slow paths behind `load` and `store` should be
//! `#[cold]` and `#[inline(never)]`. `limit` and `fetch_again` are called once for each block.
#![warn(clippy::cast_lossless)]

mod compressed;
mod control;
mod disassemble;
mod encoding;
mod execute;
pub mod exit;
pub mod fast;
pub mod flat;
mod float;
pub mod hart;
mod instruction;
mod layout;
pub mod memory;
pub mod observe;
pub mod plain;
mod table;

pub use disassemble::disassemble;
pub use encoding::{Encoding, Format};
pub use exit::Exit;
pub use flat::FlatMemory;
pub use hart::{CONTEXT_BYTES, ContextError, Hart};
pub use instruction::{Instruction, offset_behind};
pub use layout::{Direct, Layout};
pub use memory::{Access, Amo, Barrier, CacheBlock, Fault, FetchedLine, Mark, Memory, Scalar};
pub use observe::{Class, Observed};
pub use table::{Description, Operation, TABLE};
