//! What stands between an engine and a hart's door, and tells of every instruction that is retired.
//!
//! Always true here: everything is handed on as it came, and answered as it was; so a run is the same.

use perdure_hardware::time::Cycles;
use perdure_riscv::{Amo, CacheBlock, Class, Fault, Memory, Observed, Scalar, hand_on};

/// An instruction that a hart has retired. What traps is none, nor is what the kernel does.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its address.
    pub address: u64,
    /// What it is.
    pub observed: Observed,
    /// Addresses that it writes, or 0.
    pub written: [u64; 2],
    /// Addresses that it reads, or 0.
    pub read: [u64; 4],
    /// Instructions that its hart had retired before it.
    pub retired: u64,
    /// For how long its hart was not done with it, after it was with all before it, beyond the cycle in
    /// which it retires.
    pub held_up: Cycles,
}

/// Whoever is told of instructions.
pub trait Listener: std::fmt::Debug + Send {
    /// A hart has retired one, and has jumped or not.
    fn retires(&mut self, hart: usize, step: &Step, taken: bool, now: Cycles);

    /// The measured region begins.
    fn begins_at(&mut self, from: Cycles) {
        let _ = from;
    }
}

/// Puts an address into the first place that is free, if it is not there yet.
fn note(places: &mut [u64], address: u64) {
    let free = places
        .iter_mut()
        .find(|place| **place == 0 || **place == address);
    if let Some(place) = free {
        *place = address;
    }
}

/// A door through which an engine is observed. It says where instructions begin only to an engine that says
/// where every one ends: the plain one.
pub(crate) struct Recording<'r, M> {
    inner: M,
    listener: &'r mut dyn Listener,
    hart: usize,
    /// The address of the next instruction.
    pc: u64,
    step: Option<Step>,
    /// When the hart was done with all before it.
    done: Cycles,
}

impl<'r, M: Memory> Recording<'r, M> {
    /// In front of a door, for a hart that goes on at `pc`.
    pub fn new(inner: M, listener: &'r mut dyn Listener, hart: usize, pc: u64) -> Self {
        Self {
            inner,
            listener,
            hart,
            pc,
            step: None,
            done: 0,
        }
    }

    /// The door.
    pub fn inner(&mut self) -> &mut M {
        &mut self.inner
    }

    fn reads(&mut self, address: u64) {
        if let Some(step) = &mut self.step {
            note(&mut step.read, address);
        }
    }

    fn writes(&mut self, address: u64) {
        if let Some(step) = &mut self.step {
            note(&mut step.written, address);
        }
    }
}

impl<M: Memory> Memory for Recording<'_, M> {
    type FetchHint = M::FetchHint;

    const OBSERVES: bool = true;

    fn begins(&mut self, observed: Observed, retired: u64) {
        self.done = self.inner.committed(retired);
        self.step = Some(Step {
            address: self.pc,
            observed,
            written: [0; 2],
            read: [0; 4],
            retired,
            held_up: 0,
        });
        if M::OBSERVES {
            self.inner.begins(observed, retired);
        }
    }

    fn ends(&mut self, class: Class, behind: u64, target: Option<u64>) {
        let now = self
            .step
            .as_ref()
            .map(|step| self.inner.cycle(step.retired));
        if M::OBSERVES {
            self.inner.ends(class, behind, target);
        }
        if let (Some(mut step), Some(now)) = (self.step.take(), now) {
            let done = self.inner.committed(step.retired + 1);
            step.held_up = done.saturating_sub(self.done + 1);
            (self.listener).retires(self.hart, &step, target.is_some(), now);
        }
        self.pc = target.unwrap_or(behind);
    }

    hand_on!(inner: limit fetch fetch_again barrier fence fence_instruction mark persistence cycle time);

    fn load<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        self.reads(address);
        self.inner.load(address, retired)
    }

    fn store<T: Scalar>(&mut self, address: u64, value: T, retired: u64) -> Result<(), Fault> {
        self.writes(address);
        self.inner.store(address, value, retired)
    }

    fn load_reserved<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        self.reads(address);
        self.inner.load_reserved(address, retired)
    }

    fn store_conditional<T: Scalar>(
        &mut self,
        address: u64,
        value: T,
        retired: u64,
    ) -> Result<bool, Fault> {
        let stored = self.inner.store_conditional(address, value, retired)?;
        if stored {
            self.writes(address);
        }
        Ok(stored)
    }

    fn atomic<T: Scalar>(
        &mut self,
        operation: Amo,
        address: u64,
        operand: T,
        retired: u64,
    ) -> Result<T, Fault> {
        self.reads(address);
        self.writes(address);
        self.inner.atomic(operation, address, operand, retired)
    }

    fn cache_block(
        &mut self,
        operation: CacheBlock,
        address: u64,
        retired: u64,
    ) -> Result<(), Fault> {
        if operation == CacheBlock::Zero {
            self.writes(address);
        }
        self.inner.cache_block(operation, address, retired)
    }

    fn store_non_temporal(&mut self, address: u64, value: u64, retired: u64) -> Result<(), Fault> {
        self.writes(address);
        self.inner.store_non_temporal(address, value, retired)
    }
}
