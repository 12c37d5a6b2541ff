//! A trace as Cranelift's intermediate code.
//!
//! The guest's registers that a trace uses most are variables, read from the hart where it is entered and
//! written back where it is left; others stay in the hart. What a trace counts (accesses, stores, uses of
//! lines, retired instructions) is kept in variables likewise.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{
    AbiParam, Block as Place, BlockArg, Function, InstBuilder, MemFlags, SigRef, Signature, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};

use super::super::blocks::Block;
use super::super::chain::End;
use super::accesses::Counts;
use super::arithmetic;
use super::helpers::{self, Frame, Helpers};
use super::region::{Node, Region};
use super::{Exit, To};
use crate::Hart;
use crate::instruction::Instruction;
use crate::layout::Layout;
use crate::table::Operation;

/// Everything that is read and written lies where it is said to, is aligned, and no trap comes of it.
pub(super) fn trusted() -> MemFlags {
    MemFlags::trusted()
}

/// The function of a trace, and where it may be left, by what it returns.
pub(super) fn trace<Hint>(
    (function, context, convention): (&mut Function, &mut FunctionBuilderContext, CallConv),
    region: &Region,
    layout: &Layout,
    helpers: &Helpers,
) -> Box<[Exit]> {
    let mut signature = Signature::new(convention);
    signature.params = vec![AbiParam::new(I64); 4];
    signature.returns = vec![AbiParam::new(I64)];
    function.signature = signature;
    let hints = Hints {
        block_bytes: size_of::<Block<Hint>>(),
        first: offset_of!(Block<Hint>, hint),
        second: offset_of!(Block<Hint>, second_hint),
    };
    let builder = FunctionBuilder::new(function, context);
    let mut translator = Translator::enter(builder, region, layout, hints, helpers);
    for index in 0..region.nodes.len() {
        translator.node(index);
    }
    translator.finish()
}

/// Where blocks keep where their lines are.
struct Hints {
    block_bytes: usize,
    first: usize,
    second: usize,
}

pub(super) struct Translator<'f> {
    pub(super) builder: FunctionBuilder<'f>,
    region: &'f Region,
    pub(super) layout: &'f Layout,
    hints: Hints,
    pub(super) helpers: &'f Helpers,
    /// Of helpers with one operand and with two.
    pub(super) signatures: [SigRef; 2],
    hart: Value,
    pub(super) frame: Value,
    pub(super) memory: Value,
    blocks: Value,
    pub(super) entries: Value,
    records: Value,
    pub(super) counts: Counts,
    /// Instructions that were retired when the block at hand began.
    retired: Variable,
    registers: [Option<Variable>; 32],
    /// Where each block begins, before its fetch is charged; and the head behind that.
    begins: Vec<Place>,
    entered: Place,
    /// The block at hand; its ways out to its steps, if it has any, and to its beginning: one piece of code
    /// for each.
    node: usize,
    within: Option<Place>,
    gone: Option<Place>,
    exits: Vec<Exit>,
}

impl<'f> Translator<'f> {
    /// Reads what is counted and the registers that are kept, and goes to the head, whose fetch has been
    /// charged.
    fn enter(
        mut builder: FunctionBuilder<'f>,
        region: &'f Region,
        layout: &'f Layout,
        hints: Hints,
        helpers: &'f Helpers,
    ) -> Self {
        let signatures = [1, 2].map(|operands| helpers::signature(&mut builder, operands));
        let first = builder.create_block();
        builder.append_block_params_for_function_params(first);
        builder.switch_to_block(first);
        builder.seal_block(first);
        let &[hart, frame, blocks, memory] = builder.block_params(first) else {
            unreachable!("the signature has four parameters");
        };
        let counts = Counts::new(&mut builder, frame);
        let mut read = |address: Value, offset: usize| {
            (builder.ins()).load(I64, trusted(), address, offset as i32)
        };
        let entries = read(frame, offset_of!(Frame, direct.entries));
        let records = read(frame, offset_of!(Frame, direct.records));
        let retired = read(hart, offset_of!(Hart, retired));
        let registers: [Option<Value>; 32] = std::array::from_fn(|register| {
            let kept = region.kept >> register & 1 != 0;
            kept.then(|| read(hart, x_at(register as u8)))
        });
        let retired = declare(&mut builder, retired);
        let registers = registers.map(|value| value.map(|value| declare(&mut builder, value)));
        let entered = builder.create_block();
        let begins = (region.nodes.iter())
            .map(|_| builder.create_block())
            .collect();
        builder.ins().jump(entered, &[]);
        Self {
            builder,
            region,
            layout,
            hints,
            helpers,
            signatures,
            hart,
            frame,
            memory,
            blocks,
            entries,
            records,
            counts,
            retired,
            registers,
            begins,
            entered,
            node: 0,
            within: None,
            gone: None,
            exits: Vec::new(),
        }
    }

    pub(super) fn read(&mut self, address: Value, offset: usize) -> Value {
        (self.builder.ins()).load(I64, trusted(), address, offset as i32)
    }

    pub(super) fn write(&mut self, address: Value, offset: usize, value: Value) {
        (self.builder.ins()).store(trusted(), value, address, offset as i32);
    }

    /// A block of the trace.
    fn node(&mut self, index: usize) {
        let region = self.region;
        let node = &region.nodes[index];
        self.node = index;
        self.builder.switch_to_block(self.begins[index]);
        self.fetch(node);
        if index == 0 {
            self.builder.ins().jump(self.entered, &[]);
            self.builder.switch_to_block(self.entered);
            self.builder.seal_block(self.entered);
        }
        let last = node.instructions.len().wrapping_sub(1);
        let mut ended = false;
        for (step, (pc, instruction)) in node.instructions.iter().enumerate() {
            if instruction.operation.ends_block() {
                debug_assert_eq!(step, last);
                self.transfer(node, *pc, instruction);
                ended = true;
            } else {
                arithmetic::translate(self, *pc, instruction, step as u8);
            }
        }
        if node.broken {
            self.leave_within(To::Step(node.instructions.len() as u8));
        } else if !ended {
            self.go(node, End::Fallen, node.behind);
        }
        self.ways_out(node);
    }

    /// Charges the fetch of a block; the trace is left if a line is not where it was.
    fn fetch(&mut self, node: &Node) {
        let hints = [self.hints.first, self.hints.second];
        let lines = if node.straddles { 2 } else { 1 };
        let base = node.number as usize * self.hints.block_bytes;
        let (mut records, mut gone) = (Vec::new(), None);
        for &hint in &hints[..lines] {
            let hint = base + hint;
            let at = (hint + self.layout.hint_slot) as i32;
            let slot = (self.builder.ins()).uload32(trusted(), self.blocks, at);
            let shift = i64::from(self.layout.record_bytes.ilog2());
            let offset = self.builder.ins().ishl_imm(slot, shift);
            let record = self.builder.ins().iadd(self.records, offset);
            let word = self.read(self.blocks, hint + self.layout.hint_word);
            let found = self.read(record, 0);
            let differs = self.builder.ins().icmp(IntCC::NotEqual, found, word);
            let place = *gone.get_or_insert_with(|| self.builder.create_block());
            self.leave_by(differs, place);
            records.push(record);
        }
        for record in records {
            let now = self.count(self.counts.uses);
            self.write(record, self.layout.record_stamp, now);
        }
        self.gone = gone;
    }

    /// Where it goes on if a condition holds, and where if not.
    pub(super) fn fork(&mut self, condition: Value) -> [Place; 2] {
        let ways = [(); 2].map(|()| self.builder.create_block());
        let [then, otherwise] = ways;
        self.builder
            .ins()
            .brif(condition, then, &[], otherwise, &[]);
        self.builder.seal_block(then);
        self.builder.seal_block(otherwise);
        ways
    }

    /// Goes another way, to which more may lead, if a condition holds.
    pub(super) fn leave_by(&mut self, condition: Value, way: Place) {
        let stays = self.builder.create_block();
        self.builder.ins().brif(condition, way, &[], stays, &[]);
        self.builder.switch_to_block(stays);
        self.builder.seal_block(stays);
    }

    pub(super) fn count(&mut self, variable: Variable) -> Value {
        let before = self.builder.use_var(variable);
        let now = self.builder.ins().iadd_imm(before, 1);
        self.builder.def_var(variable, now);
        now
    }

    /// Goes on at `pc`: in the trace, if that has a block there, and if one may begin.
    fn go(&mut self, node: &Node, end: End, pc: u64) {
        let done = node.instructions.len() as i64;
        if let Some(index) = self.region.at(pc) {
            let retired = self.retired(done);
            let limit = self.builder.use_var(self.counts.limit);
            let reached = IntCC::UnsignedGreaterThanOrEqual;
            let may_not = self.builder.ins().icmp(reached, retired, limit);
            let [leaves, goes] = self.fork(may_not);
            self.builder.switch_to_block(goes);
            self.builder.def_var(self.retired, retired);
            self.builder.ins().jump(self.begins[index], &[]);
            self.builder.switch_to_block(leaves);
        }
        let pc = self.builder.ins().iconst(I64, pc as i64);
        self.leave(node.number, To::End(end), pc, done);
    }

    /// A branch or jump.
    fn transfer(&mut self, node: &Node, pc: u64, instruction: &Instruction) {
        let target = pc.wrapping_add(instruction.immediate as u64);
        match instruction.operation {
            Operation::Jal => {
                self.set_constant(instruction.rd, node.behind);
                self.go(node, End::Jumped, target);
            }
            Operation::Jalr => self.jump(node, instruction),
            operation => {
                let taken = arithmetic::condition(operation);
                let [left, right] = [instruction.rs1, instruction.rs2].map(|x| self.x(x));
                let taken = self.builder.ins().icmp(taken, left, right);
                let [jumped, fallen] = self.fork(taken);
                for (place, end, pc) in [
                    (jumped, End::Jumped, target),
                    (fallen, End::Fallen, node.behind),
                ] {
                    self.builder.switch_to_block(place);
                    self.go(node, end, pc);
                }
            }
        }
    }

    /// A jump through a register: to one of the targets that it had, or out.
    fn jump(&mut self, node: &Node, instruction: &Instruction) {
        let base = self.x(instruction.rs1);
        let target = (self.builder.ins()).iadd_imm(base, i64::from(instruction.immediate));
        let target = self.builder.ins().band_imm(target, -2);
        self.set_constant(instruction.rd, node.behind);
        for &expected in &node.targets {
            if self.region.at(expected).is_none() {
                continue;
            }
            let value = self.builder.ins().iconst(I64, expected as i64);
            let there = self.builder.ins().icmp(IntCC::Equal, target, value);
            let [goes, other] = self.fork(there);
            self.builder.switch_to_block(goes);
            self.go(node, End::Jumped, expected);
            self.builder.switch_to_block(other);
        }
        let done = node.instructions.len() as i64;
        self.leave(node.number, To::End(End::Jumped), target, done);
    }

    /// Instructions that are retired, so many of them of the block at hand.
    pub(super) fn retired(&mut self, done: i64) -> Value {
        let before = self.builder.use_var(self.retired);
        self.builder.ins().iadd_imm(before, done)
    }

    /// The value of an integer register.
    pub(super) fn x(&mut self, register: u8) -> Value {
        match self.registers[usize::from(register)] {
            Some(variable) => self.builder.use_var(variable),
            None if register == 0 => self.builder.ins().iconst(I64, 0),
            None => self.read(self.hart, x_at(register)),
        }
    }

    /// Writes an integer register.
    pub(super) fn set(&mut self, register: u8, value: Value) {
        match self.registers[usize::from(register)] {
            Some(variable) => self.builder.def_var(variable, value),
            None if register == 0 => {}
            None => self.write(self.hart, x_at(register), value),
        }
    }

    pub(super) fn set_constant(&mut self, register: u8, value: u64) {
        if register != 0 {
            let value = self.builder.ins().iconst(I64, value as i64);
            self.set(register, value);
        }
    }

    /// The value of a floating-point register.
    pub(super) fn f(&mut self, register: u8) -> Value {
        self.read(self.hart, f_at(register))
    }

    /// Writes one.
    pub(super) fn set_f(&mut self, register: u8, value: Value) {
        self.write(self.hart, f_at(register), value);
    }

    /// Leaves the trace in the middle of the block at hand.
    pub(super) fn leave_within(&mut self, to: To) {
        let block = self.region.nodes[self.node].number;
        let number = self.builder.ins().iconst(I64, self.exits.len() as i64);
        self.exits.push(Exit { block, to });
        let place = *self.within.get_or_insert_with(|| {
            let place = self.builder.create_block();
            self.builder.append_block_param(place, I64);
            place
        });
        self.builder.ins().jump(place, &[BlockArg::Value(number)]);
    }

    /// The code behind the ways out of a block that is not done.
    fn ways_out(&mut self, node: &Node) {
        if let Some(place) = self.gone.take() {
            self.builder.seal_block(place);
            self.builder.switch_to_block(place);
            let pc = self.builder.ins().iconst(I64, node.pc as i64);
            self.leave(node.number, To::Begin, pc, 0);
        }
        if let Some(place) = self.within.take() {
            self.builder.seal_block(place);
            self.builder.switch_to_block(place);
            self.builder.set_cold_block(place);
            let number = self.builder.block_params(place)[0];
            let pc = self.builder.ins().iconst(I64, node.pc as i64);
            self.write_back(pc, 0);
            self.builder.ins().return_(&[number]);
        }
    }

    /// Leaves the trace where so many instructions of the block at hand are retired.
    fn leave(&mut self, block: u32, to: To, pc: Value, done: i64) {
        let number = self.exits.len() as i64;
        self.exits.push(Exit { block, to });
        let place = self.builder.current_block().expect("one is being filled");
        self.builder.set_cold_block(place);
        self.write_back(pc, done);
        let number = self.builder.ins().iconst(I64, number);
        self.builder.ins().return_(&[number]);
    }

    fn write_back(&mut self, pc: Value, done: i64) {
        for register in (1..32).filter(|register| self.region.written >> register & 1 != 0) {
            let value = self.x(register);
            self.write(self.hart, x_at(register), value);
        }
        self.write(self.hart, offset_of!(Hart, pc), pc);
        let retired = self.retired(done);
        self.write(self.hart, offset_of!(Hart, retired), retired);
        self.write_counts();
    }

    fn finish(mut self) -> Box<[Exit]> {
        self.builder.seal_all_blocks();
        self.builder.finalize();
        self.exits.into()
    }
}

/// A variable that begins with a value.
pub(super) fn declare(builder: &mut FunctionBuilder, value: Value) -> Variable {
    let variable = builder.declare_var(I64);
    builder.def_var(variable, value);
    variable
}

fn x_at(register: u8) -> usize {
    offset_of!(Hart, x) + usize::from(register) * 8
}

fn f_at(register: u8) -> usize {
    offset_of!(Hart, f) + usize::from(register) * 8
}
