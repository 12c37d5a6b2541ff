//! Data accesses of a trace: by itself where they hit ([`crate::Layout`]), else by a call of the memory.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{Block as Place, BlockArg, InstBuilder, Type, Value};
use cranelift_frontend::{FunctionBuilder, Variable};

use super::To;
use super::helpers::Frame;
use super::translate::{Translator, declare, trusted};
use crate::instruction::LINE_BYTES;
use crate::layout::Layout;

/// A load's width and extension.
#[derive(Clone, Copy)]
pub(super) struct Loaded {
    pub(super) bytes: u64,
    pub(super) signed: bool,
}

impl Translator<'_> {
    /// Loads so many bytes, extended: by itself if it hits, else by the memory.
    pub(super) fn load(&mut self, address: Value, access: Loaded, step: u8) -> Value {
        let (entry, asks) = self.look_up(address, access.bytes, self.layout.read_tag);
        let behind = self.builder.create_block();
        self.builder.append_block_param(behind, I64);

        let place = self.use_entry(entry, address);
        let value = self.read_bytes(place, access);
        self.builder.ins().jump(behind, &[BlockArg::Value(value)]);

        self.builder.switch_to_block(asks);
        let helper = self.helpers.load[access.bytes.ilog2() as usize];
        let value = self.ask(helper, &[address], step);
        let value = match (access.signed, access.bytes) {
            (true, 1) => self.extended(I8, value),
            (true, 2) => self.extended(I16, value),
            (true, 4) => self.extended(I32, value),
            _ => value,
        };
        self.builder.ins().jump(behind, &[BlockArg::Value(value)]);
        self.builder.switch_to_block(behind);
        self.builder.seal_block(behind);
        self.builder.block_params(behind)[0]
    }

    /// The low bits of a value, of that width, sign-extended.
    pub(super) fn extended(&mut self, width: Type, value: Value) -> Value {
        let low = self.builder.ins().ireduce(width, value);
        self.builder.ins().sextend(I64, low)
    }

    fn read_bytes(&mut self, place: Value, access: Loaded) -> Value {
        let ins = self.builder.ins();
        match (access.bytes, access.signed) {
            (1, true) => ins.sload8(I64, trusted(), place, 0),
            (1, false) => ins.uload8(I64, trusted(), place, 0),
            (2, true) => ins.sload16(I64, trusted(), place, 0),
            (2, false) => ins.uload16(I64, trusted(), place, 0),
            (4, true) => ins.sload32(trusted(), place, 0),
            (4, false) => ins.uload32(trusted(), place, 0),
            _ => ins.load(I64, trusted(), place, 0),
        }
    }

    /// Stores the low bytes of a value, so many, likewise.
    pub(super) fn store(&mut self, address: Value, value: Value, bytes: u64, step: u8) {
        let (entry, asks) = self.look_up(address, bytes, self.layout.write_tag);
        let behind = self.builder.create_block();

        self.count(self.counts.stores);
        let place = self.use_entry(entry, address);
        let ins = self.builder.ins();
        match bytes {
            1 => ins.istore8(trusted(), value, place, 0),
            2 => ins.istore16(trusted(), value, place, 0),
            4 => ins.istore32(trusted(), value, place, 0),
            _ => ins.store(trusted(), value, place, 0),
        };
        self.builder.ins().jump(behind, &[]);

        self.builder.switch_to_block(asks);
        let helper = self.helpers.store[bytes.ilog2() as usize];
        self.ask(helper, &[address, value], step);
        self.builder.ins().jump(behind, &[]);
        self.builder.switch_to_block(behind);
        self.builder.seal_block(behind);
    }

    /// The entry for an address, and where to go on if that does not answer the access.
    fn look_up(&mut self, address: Value, bytes: u64, tag: usize) -> (Value, Place) {
        let layout = self.layout;
        let shift = layout.entry_bytes.ilog2();
        let [first, second, third] = (layout.index_shifts)
            .map(|by| self.builder.ins().ushr_imm(address, i64::from(by - shift)));
        let offset = self.builder.ins().bxor(first, second);
        let offset = self.builder.ins().bxor(offset, third);
        let within = (layout.entries - 1) << shift;
        let offset = self.builder.ins().band_imm(offset, within as i64);
        let entry = self.builder.ins().iadd(self.entries, offset);
        let tag = self.read(entry, tag);
        let mask = Layout::tag_mask(bytes) as i64;
        let wanted = self.builder.ins().band_imm(address, mask);
        let differs = self.builder.ins().icmp(IntCC::NotEqual, tag, wanted);
        let asks = self.builder.create_block();
        self.leave_by(differs, asks);
        self.builder.seal_block(asks);
        self.builder.set_cold_block(asks);
        (entry, asks)
    }

    /// Counts a hit: the address of its bytes.
    fn use_entry(&mut self, entry: Value, address: Value) -> Value {
        let now = self.count(self.counts.accesses);
        let stamp = self.read(entry, self.layout.stamp);
        self.write(stamp, 0, now);
        let line = self.read(entry, self.layout.bytes);
        let offset = (self.builder.ins()).band_imm(address, LINE_BYTES as i64 - 1);
        self.builder.ins().iadd(line, offset)
    }

    /// Asks the memory for what does not hit. That may change whatever is counted, and the limit.
    fn ask(&mut self, helper: usize, operands: &[Value], step: u8) -> Value {
        self.write_counts();
        let retired = self.retired(i64::from(step));
        let mut arguments = vec![self.frame, self.memory, retired];
        arguments.extend(operands);
        let signature = self.signatures[operands.len() - 1];
        let helper = self.builder.ins().iconst(I64, helper as i64);
        let call = (self.builder.ins()).call_indirect(signature, helper, &arguments);
        let value = self.builder.inst_results(call)[0];
        self.read_counts();
        let faulted = self.read(self.frame, offset_of!(Frame, faulted));
        let [traps, goes_on] = self.fork(faulted);
        self.builder.set_cold_block(traps);
        self.builder.set_cold_block(goes_on);
        self.builder.switch_to_block(traps);
        self.leave_within(To::Trap(step));
        self.builder.switch_to_block(goes_on);
        value
    }

    pub(super) fn write_counts(&mut self) {
        let counts = self.counts;
        let [accesses, stores, uses, ahead] =
            [counts.accesses, counts.stores, counts.uses, counts.ahead]
                .map(|variable| self.builder.use_var(variable));
        let fetches = self.builder.ins().iadd(ahead, uses);
        for (address, value) in counts
            .addresses
            .into_iter()
            .zip([accesses, stores, uses, fetches])
        {
            self.write(address, 0, value);
        }
    }

    fn read_counts(&mut self) {
        let counts = self.counts;
        let values = read(&mut self.builder, counts.addresses);
        for (variable, value) in counts.variables().into_iter().zip(values) {
            self.builder.def_var(variable, value);
        }
    }
}

/// What a trace counts, and the limit: in variables, and where the memory has them.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    /// Of accesses, stores, uses of lines, fetches, and of the limit, which is only read.
    addresses: [Value; 5],
    accesses: Variable,
    stores: Variable,
    pub(super) uses: Variable,
    /// By how much fetches are more than uses of lines: they are counted together.
    ahead: Variable,
    pub(super) limit: Variable,
}

impl Counts {
    pub(super) fn new(builder: &mut FunctionBuilder, frame: Value) -> Self {
        let addresses = [
            offset_of!(Frame, direct.accesses),
            offset_of!(Frame, direct.stores),
            offset_of!(Frame, direct.uses),
            offset_of!(Frame, direct.fetches),
            offset_of!(Frame, direct.limit),
        ]
        .map(|offset| (builder.ins()).load(I64, trusted(), frame, offset as i32));
        let values = read(builder, addresses);
        let [accesses, stores, uses, ahead, limit] = values.map(|value| declare(builder, value));
        Self {
            addresses,
            accesses,
            stores,
            uses,
            ahead,
            limit,
        }
    }

    fn variables(&self) -> [Variable; 5] {
        [
            self.accesses,
            self.stores,
            self.uses,
            self.ahead,
            self.limit,
        ]
    }
}

/// The values at [`Counts::addresses`], of fetches by how much they are more than uses.
fn read(builder: &mut FunctionBuilder, addresses: [Value; 5]) -> [Value; 5] {
    let [accesses, stores, uses, fetches, limit] =
        addresses.map(|address| builder.ins().load(I64, trusted(), address, 0));
    let ahead = builder.ins().isub(fetches, uses);
    [accesses, stores, uses, ahead, limit]
}
