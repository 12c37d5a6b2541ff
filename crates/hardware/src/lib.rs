//! The substrate of Perdure's machine: simulated time, caches that hold data, the coherence
//! directory, the memory controller, NVM and links, and what each of them loses at power-off.
//!
//! It knows no instruction set, no Linux and no design. A design is a [`policy::Policy`] over it.
//! Reading order: [`line`], [`cache`], [`coherence`], [`sharing_group`], [`hierarchy`], [`persist`],
//! [`memory_type`], [`core_timing`], [`window`], [`prefetcher`], [`memory`], [`policy`].
//!
//! # What survives a power-off
//! | component | survives |
//! |---|---|
//! | cores, store buffers, write-combining buffers, L1, L2, last-level cache, lookaside | nothing |
//! | controller queues, link | nothing |
//! | a write between its start and its end at the media | any of its 8-byte words |
//! | the NVM array | everything |
//! | a module without persistence | nothing |
//!
//! That is so with a persistence domain that ends at the media. With `adr`, what a persistent module's
//! write queue has accepted survives, whole; with `eadr`, caches and store buffers survive, too.
#![warn(
    clippy::cast_lossless,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]

mod ahead;
pub mod arena;
mod array;
pub mod bank;
pub mod cache;
pub mod calendar;
pub mod coherence;
pub mod combining;
pub mod contract;
pub mod controller;
mod copy;
pub mod core_timing;
pub mod counters;
pub mod device;
mod directories;
pub mod dram;
mod energy;
pub mod event;
pub mod hierarchy;
pub mod line;
pub mod link;
pub mod lookaside;
pub mod memory;
pub mod memory_type;
pub mod mistaken;
pub mod module;
pub mod pages;
pub mod persist;
pub mod persist_order;
pub mod physical_map;
pub mod placement;
pub mod policy;
pub mod posted;
mod power;
pub mod prefetcher;
pub mod queue;
pub mod random;
pub mod recovery_clock;
mod ring;
mod shadow;
pub mod sharing_group;
mod slab;
pub mod specification;
pub mod statistics;
pub mod time;
pub mod timeline;
pub mod trace;
mod waiting;
pub mod watched;
pub mod window;

/// Asks the host to load a cache line that will be read soon.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
