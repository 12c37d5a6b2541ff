//! What stands between an engine and a hart's door, and writes down what passes.
//!
//! Always true here: everything is handed on as it came, and answered as it was; so a run is the same.

use perdure_riscv::{Amo, CacheBlock, Class, Fault, Memory, Observed, Scalar, hand_on};

use super::{Instructions, Step, note};

/// A door through which an engine is observed. It says where instructions begin only to an engine that says
/// where every one ends: the plain one.
pub(crate) struct Recording<'r, M> {
    inner: M,
    files: &'r mut Instructions,
    hart: usize,
    /// The address of the next instruction.
    pc: u64,
    retired: u64,
    step: Option<Step>,
}

impl<'r, M: Memory> Recording<'r, M> {
    /// In front of a door, for a hart that goes on at `pc`.
    pub fn new(inner: M, files: &'r mut Instructions, hart: usize, pc: u64) -> Self {
        Self {
            inner,
            files,
            hart,
            pc,
            retired: 0,
            step: None,
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
        self.retired = retired;
        self.step = Some(Step {
            address: self.pc,
            observed,
            written: [0; 2],
            read: [0; 4],
        });
        if M::OBSERVES {
            self.inner.begins(observed, retired);
        }
    }

    fn ends(&mut self, class: Class, behind: u64, target: Option<u64>) {
        if let Some(step) = self.step.take() {
            let now = self.inner.cycle(self.retired);
            self.files.write(self.hart, &step, target.is_some(), now);
        }
        if M::OBSERVES {
            self.inner.ends(class, behind, target);
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
