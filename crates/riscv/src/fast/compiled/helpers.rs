//! What a trace calls for what does not hit.

use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AbiParam, SigRef, Signature};
use cranelift_frontend::FunctionBuilder;

use crate::layout::Direct;
use crate::memory::{Fault, Memory, Scalar};

/// What a trace has beside the hart while it runs.
#[repr(C)]
pub(super) struct Frame {
    pub(super) direct: Direct,
    /// Not zero if the memory refused an access.
    pub(super) faulted: u64,
    pub(super) fault: Option<Fault>,
}

/// Addresses of functions, by the logarithm of an access's bytes.
pub(super) struct Helpers {
    pub(super) load: [usize; 4],
    pub(super) store: [usize; 4],
}

impl Helpers {
    pub(super) fn new<M: Memory>() -> Self {
        type Load<M> = unsafe extern "C" fn(&mut Frame, &mut M, u64, u64) -> u64;
        type Store<M> = unsafe extern "C" fn(&mut Frame, &mut M, u64, u64, u64) -> u64;
        let loads: [Load<M>; 4] = [
            load::<M, u8>,
            load::<M, u16>,
            load::<M, u32>,
            load::<M, u64>,
        ];
        let stores: [Store<M>; 4] = [
            store::<M, u8>,
            store::<M, u16>,
            store::<M, u32>,
            store::<M, u64>,
        ];
        Self {
            load: loads.map(|function| function as usize),
            store: stores.map(|function| function as usize),
        }
    }
}

/// The signature of a helper with so many operands.
pub(super) fn signature(builder: &mut FunctionBuilder, operands: usize) -> SigRef {
    let mut signature = Signature::new(builder.func.signature.call_conv);
    signature.params = vec![AbiParam::new(I64); 3 + operands];
    signature.returns = vec![AbiParam::new(I64)];
    builder.import_signature(signature)
}

/// The value, if nothing faulted.
extern "C" fn load<M: Memory, T: Scalar>(
    frame: &mut Frame,
    memory: &mut M,
    retired: u64,
    address: u64,
) -> u64 {
    match memory.load::<T>(address, retired) {
        Ok(value) => value.to_u64(),
        Err(fault) => frame.refuse(fault),
    }
}

extern "C" fn store<M: Memory, T: Scalar>(
    frame: &mut Frame,
    memory: &mut M,
    retired: u64,
    address: u64,
    value: u64,
) -> u64 {
    match memory.store(address, T::from_u64(value), retired) {
        Ok(()) => 0,
        Err(fault) => frame.refuse(fault),
    }
}

impl Frame {
    #[cold]
    fn refuse(&mut self, fault: Fault) -> u64 {
        self.faulted = 1;
        self.fault = Some(fault);
        0
    }
}
