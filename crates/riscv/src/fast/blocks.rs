//! The decoded blocks of one hart.
//!
//! Blocks and their steps live in two growing arrays; when either is full, everything is
//! forgotten and decoding starts afresh, so memory is bounded. A block is found by `pc` through a
//! table of chains. Links between blocks are guesses: whoever follows one compares the block's
//! `pc`, so a block may die or be replaced without its predecessors knowing.

use super::chain::ErasedHandler;
use super::compiled::{Compiler, NO_TRACE, Pace};
use super::pair;
use super::step::Step;
use crate::Memory;
use crate::instruction::{Bits, Instruction, LINE_BYTES, bits_at, join};
use crate::memory::{Fault, FetchedLine};
use std::any::TypeId;
use std::collections::BTreeSet;
use std::ops::Range;

/// Blocks kept before all are forgotten.
const BLOCKS_MAX: usize = 1 << 16;
/// Steps kept before all are forgotten; about 4 MiB.
const STEPS_MAX: usize = 1 << 18;
/// Chains in the table.
const CHAINS: usize = 1 << 14;
/// Bytes in a page, the granule of [`BlockCache::flush_range`].
const PAGE_BYTES: u64 = 4096;

/// The number of no block: slot 0 holds a block that no `pc` matches.
pub(super) const NONE: u32 = 0;
/// No block's entry: odd as only those of straddling blocks are, which begin two bytes before a line's end.
const NO_PC: u64 = 1;

/// A block: what an engine needs to enter it, and the bytes that it was decoded from.
/// A power of two in size, so that its number becomes its address by a shift.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub(super) struct Block<Hint> {
    /// Address of the first instruction, and one more if the block straddles: so a chain, which does not
    /// enter those, compares nothing else. [`NO_PC`] in a dead block.
    pub(super) entry: u64,
    /// The number of the first step.
    pub(super) first_step: u32,
    /// The blocks that came next the last time it ended, by [`super::chain::End`].
    pub(super) links: [u32; 2],
    /// The next block of the chain.
    chain: u32,
    /// Where its line sits in the instruction cache.
    pub(super) hint: Hint,
    /// True if it is one instruction across two lines.
    pub(super) straddles: bool,
    /// Bytes that the block was decoded from: its code, and the half instruction behind it that
    /// ended it, if one did.
    pub(super) length: u8,
    /// How often a chain began with it, while traces are looked for.
    pub(super) heat: u16,
    /// The trace that it is the head of.
    pub(super) trace: u16,
    /// Traces go through it.
    pub(super) traced: bool,
    /// Where a straddling instruction's second line sits.
    pub(super) second_hint: Hint,
    /// The code.
    pub(super) code: [u8; 64],
}

/// The decoded blocks of one hart. Bounded; see the module's documentation.
#[derive(Clone, Debug)]
pub struct BlockCache<Hint> {
    pub(super) blocks: Vec<Block<Hint>>,
    pub(super) steps: Vec<Step>,
    chains: Vec<u32>,
    /// The block that was about to run when the hart's turn ended: the guess with which its next one begins.
    pub(super) awaited: u32,
    /// Numbers of the pages that hold code of a block.
    pages: BTreeSet<u64>,
    /// The memory type that the steps' handlers are for.
    memory: Option<TypeId>,
    /// What makes traces of them, if anything does.
    pub(super) compiler: Option<Box<Compiler>>,
}

impl<Hint: Copy + Default> Default for BlockCache<Hint> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Hint: Copy + Default> BlockCache<Hint> {
    /// An empty cache of which what is run often is compiled, if there is a compiler for this host.
    pub fn compiling(pace: Pace) -> Self {
        Self {
            compiler: Compiler::new(pace),
            ..Self::new()
        }
    }

    /// How many traces it has compiled.
    pub fn traces(&self) -> u64 {
        self.compiler.as_ref().map_or(0, |compiler| compiler.made())
    }

    /// An empty cache.
    pub fn new() -> Self {
        let mut cache = Self {
            blocks: Vec::new(),
            steps: Vec::new(),
            chains: vec![NONE; CHAINS],
            awaited: NONE,
            pages: BTreeSet::new(),
            memory: None,
            compiler: None,
        };
        cache.flush();
        cache
    }

    /// Forgets every block: the hart changed to another address space.
    pub fn flush(&mut self) {
        self.blocks.clear();
        self.blocks.push(Block {
            entry: NO_PC,
            first_step: 0,
            links: [NONE; 2],
            chain: NONE,
            hint: Hint::default(),
            straddles: false,
            length: 0,
            heat: 0,
            trace: NO_TRACE,
            traced: false,
            second_hint: Hint::default(),
            code: [0; 64],
        });
        self.steps.clear();
        self.chains.fill(NONE);
        self.awaited = NONE;
        self.pages.clear();
        if let Some(compiler) = &mut self.compiler {
            compiler.flush();
        }
    }

    /// Forgets the blocks with code on the pages of `addresses`: a mapping changed.
    pub fn flush_range(&mut self, addresses: Range<u64>) {
        let Some(last) = addresses.end.checked_sub(1) else {
            return;
        };
        if addresses.start > last {
            return;
        }
        let pages = addresses.start / PAGE_BYTES..=last / PAGE_BYTES;
        if self.pages.range(pages.clone()).next().is_none() {
            return;
        }
        for number in 1..self.blocks.len() as u32 {
            let block = &self.blocks[number as usize];
            let pc = block.pc();
            let last_byte = pc.wrapping_add(u64::from(block.length.max(1)) - 1);
            let touched =
                pages.contains(&(pc / PAGE_BYTES)) || pages.contains(&(last_byte / PAGE_BYTES));
            if block.entry != NO_PC && touched {
                self.kill(number);
            }
        }
        let gone: Vec<u64> = self.pages.range(pages).copied().collect();
        for page in gone {
            self.pages.remove(&page);
        }
    }

    /// Makes the cache one for memory type `memory`: handlers of another one are forgotten.
    pub(super) fn claim(&mut self, memory: TypeId) {
        if self.memory != Some(memory) {
            self.flush();
            self.memory = Some(memory);
        }
    }

    /// The number of the block that stands there.
    #[inline(always)]
    pub(super) fn number_of(&self, block: *const Block<Hint>) -> u32 {
        let bytes = block.addr() - self.blocks.as_ptr().addr();
        (bytes / size_of::<Block<Hint>>()) as u32
    }

    /// The block at `pc`, or [`NONE`].
    fn find(&self, pc: u64) -> u32 {
        let mut number = self.chains[chain_of(pc)];
        while number != NONE && !self.blocks[number as usize].begins_at(pc) {
            number = self.blocks[number as usize].chain;
        }
        number
    }

    /// Takes a block out of its chain and marks it dead. Its steps stay until the next flush.
    fn kill(&mut self, number: u32) {
        let (pc, behind) = {
            let block = &self.blocks[number as usize];
            (block.pc(), block.chain)
        };
        let head = &mut self.chains[chain_of(pc)];
        if *head == number {
            *head = behind;
        } else {
            let mut before = *head;
            while self.blocks[before as usize].chain != number {
                before = self.blocks[before as usize].chain;
            }
            self.blocks[before as usize].chain = behind;
        }
        let block = &mut self.blocks[number as usize];
        block.entry = NO_PC;
        if block.traced {
            self.forget_traces_of(number);
        }
    }

    /// The block at `pc`, its lines fetched and charged: found or decoded.
    #[inline(never)]
    pub(super) fn enter<M: Memory<FetchHint = Hint>>(
        &mut self,
        pc: u64,
        memory: &mut M,
        retired: u64,
    ) -> Result<u32, Fault> {
        let number = self.find(pc);
        if number == NONE {
            let FetchedLine {
                bytes: &bytes,
                hint,
            } = memory.fetch(pc, retired)?;
            return self.decode(pc, &bytes, hint, memory, retired);
        }
        if memory.fetch_again(pc, self.blocks[number as usize].hint, retired) {
            self.enter_second_line(number, memory, retired)
        } else {
            self.enter_fetched_anew(number, memory, retired)
        }
    }

    /// Enters a block whose line has to be fetched again; its code may have changed since.
    #[cold]
    #[inline(never)]
    pub(super) fn enter_fetched_anew<M: Memory<FetchHint = Hint>>(
        &mut self,
        number: u32,
        memory: &mut M,
        retired: u64,
    ) -> Result<u32, Fault> {
        let block = &mut self.blocks[number as usize];
        let pc = block.pc();
        let FetchedLine { bytes, hint } = memory.fetch(pc, retired)?;
        let begin = (pc % LINE_BYTES) as usize;
        let length = if block.straddles {
            2
        } else {
            usize::from(block.length)
        };
        if bytes[begin..begin + length] == block.code[..length] {
            block.hint = hint;
            self.enter_second_line(number, memory, retired)
        } else {
            let bytes = *bytes;
            self.kill(number);
            self.decode(pc, &bytes, hint, memory, retired)
        }
    }

    /// Enters a block whose first line is fetched and unchanged.
    fn enter_second_line<M: Memory<FetchHint = Hint>>(
        &mut self,
        number: u32,
        memory: &mut M,
        retired: u64,
    ) -> Result<u32, Fault> {
        let block = &self.blocks[number as usize];
        let second = block.pc().wrapping_add(2);
        if !block.straddles || memory.fetch_again(second, block.second_hint, retired) {
            return Ok(number);
        }
        self.enter_second_fetched_anew(number, memory, retired)
    }

    /// Enters a straddling block whose first line is fetched and unchanged, and whose second line
    /// has to be fetched again.
    #[cold]
    #[inline(never)]
    pub(super) fn enter_second_fetched_anew<M: Memory<FetchHint = Hint>>(
        &mut self,
        number: u32,
        memory: &mut M,
        retired: u64,
    ) -> Result<u32, Fault> {
        let block = &mut self.blocks[number as usize];
        let line = memory.fetch(block.pc().wrapping_add(2), retired)?;
        if line.bytes[..2] == block.code[2..4] {
            block.second_hint = line.hint;
            return Ok(number);
        }
        let (pc, hint) = (block.pc(), block.hint);
        let bits = join(
            u16::from_le_bytes([block.code[0], block.code[1]]),
            u16::from_le_bytes([line.bytes[0], line.bytes[1]]),
        );
        self.kill(number);
        Ok(self.insert_straddling::<M>(pc, bits, [hint, line.hint]))
    }

    /// Decodes the block at `pc` from its `line`; fetches the second line of a straddling one.
    fn decode<M: Memory<FetchHint = Hint>>(
        &mut self,
        pc: u64,
        line: &[u8; 64],
        hint: Hint,
        memory: &mut M,
        retired: u64,
    ) -> Result<u32, Fault> {
        let begin = (pc % LINE_BYTES) as usize;
        if let Bits::Straddling(first) = bits_at(line, begin) {
            let second = memory.fetch(pc.wrapping_add(2), retired)?;
            let bits = join(
                first,
                u16::from_le_bytes([second.bytes[0], second.bytes[1]]),
            );
            return Ok(self.insert_straddling::<M>(pc, bits, [hint, second.hint]));
        }
        self.make_room();
        let first_step = self.steps.len() as u32;
        let mut at = begin;
        let mut index = 0;
        // The instruction before, if it is not the second of a pair.
        let mut before: Option<Instruction> = None;
        loop {
            let offset = (at - begin) as u8;
            let Some(bits) = whole_bits(line, at) else {
                self.join(before.and_then(|last| pair::handler_of_last::<M>(&last)));
                self.steps.push(Step::end_of_line::<M>(offset, index));
                // The half of an instruction that is left ends the block as long as it is one.
                at = line.len();
                break;
            };
            let Some(instruction) = Instruction::decode(bits) else {
                self.steps.push(Step::illegal::<M>(index));
                at += usize::from(crate::instruction::length(bits as u16));
                break;
            };
            let pair = before.and_then(|first| pair::handler_of::<M>(&first, &instruction));
            before = (!self.join(pair)).then_some(instruction);
            self.steps.push(Step::new::<M>(&instruction, offset, index));
            at += usize::from(instruction.length);
            index += 1;
            if instruction.operation.ends_block() {
                break;
            }
        }
        Ok(self.insert(
            pc,
            first_step,
            &line[begin..at],
            [hint, Hint::default()],
            false,
        ))
    }

    /// Gives the last step so far a handler that does the next one, too, if there is one.
    fn join(&mut self, handler: Option<ErasedHandler>) -> bool {
        match handler.zip(self.steps.last_mut()) {
            Some((handler, step)) => {
                step.handler = handler;
                true
            }
            None => false,
        }
    }

    fn insert_straddling<M: Memory<FetchHint = Hint>>(
        &mut self,
        pc: u64,
        bits: u32,
        hints: [Hint; 2],
    ) -> u32 {
        self.make_room();
        let first_step = self.steps.len() as u32;
        match Instruction::decode(bits) {
            None => self.steps.push(Step::illegal::<M>(0)),
            Some(instruction) => {
                self.steps.push(Step::new::<M>(&instruction, 0, 0));
                if !instruction.operation.ends_block() {
                    self.steps
                        .push(Step::end_of_line::<M>(instruction.length, 1));
                }
            }
        }
        self.insert(pc, first_step, &bits.to_le_bytes(), hints, true)
    }

    fn insert(
        &mut self,
        pc: u64,
        first_step: u32,
        code: &[u8],
        hints: [Hint; 2],
        straddles: bool,
    ) -> u32 {
        let number = self.blocks.len() as u32;
        let head = &mut self.chains[chain_of(pc)];
        let mut block = Block {
            entry: pc | u64::from(straddles),
            first_step,
            links: [NONE; 2],
            chain: *head,
            hint: hints[0],
            straddles,
            length: code.len() as u8,
            heat: 0,
            trace: NO_TRACE,
            traced: false,
            second_hint: hints[1],
            code: [0; 64],
        };
        block.code[..code.len()].copy_from_slice(code);
        *head = number;
        self.blocks.push(block);
        self.pages.insert(pc / PAGE_BYTES);
        self.pages
            .insert(pc.wrapping_add(code.len() as u64 - 1) / PAGE_BYTES);
        number
    }

    /// Forgets everything if another block might not fit.
    fn make_room(&mut self) {
        const STEPS_IN_A_BLOCK_MAX: usize = LINE_BYTES as usize / 2 + 1;
        if self.blocks.len() == BLOCKS_MAX || self.steps.len() + STEPS_IN_A_BLOCK_MAX > STEPS_MAX {
            self.flush();
        }
    }
}

impl<Hint> Block<Hint> {
    /// Address of the first instruction of a block that is not dead.
    pub(super) fn pc(&self) -> u64 {
        self.entry & !1
    }

    /// True if the block begins there and is not dead.
    #[inline(always)]
    pub(super) fn begins_at(&self, pc: u64) -> bool {
        self.entry == pc | u64::from(self.straddles)
    }

    /// The offset and the bits of the instruction that has `index` others before it.
    pub(super) fn instruction(&self, index: u8) -> (u64, u32) {
        let mut offset = 0;
        for _ in 0..index {
            offset += match bits_at(&self.code, offset) {
                Bits::Whole(bits) => usize::from(crate::instruction::length(bits as u16)),
                Bits::Straddling(_) => 2,
            };
        }
        let bits = match bits_at(&self.code, offset) {
            Bits::Whole(bits) => bits,
            Bits::Straddling(first) => u32::from(first),
        };
        (offset as u64, bits)
    }
}

/// The bits of the instruction at `at`, if it is all in the line.
fn whole_bits(line: &[u8; 64], at: usize) -> Option<u32> {
    match (at < line.len()).then(|| bits_at(line, at))? {
        Bits::Whole(bits) => Some(bits),
        Bits::Straddling(_) => None,
    }
}

/// The chain for `pc`.
fn chain_of(pc: u64) -> usize {
    let halves = pc >> 1;
    (halves ^ halves >> 14 ^ halves >> 28) as usize % CHAINS
}
