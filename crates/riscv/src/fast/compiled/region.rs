//! The blocks of a trace as a graph: those that ran most often while it was recorded, and the ways between
//! them.

use super::super::blocks::Block;
use super::arithmetic;
use super::recording::Recording;
use crate::instruction::{Bits, Instruction, LINE_BYTES, bits_at, length};
use crate::table::Operation;

/// Blocks in a trace.
const BLOCKS_MAX: usize = 24;
/// A block that is one of more than so many of those that ran is left out.
const RAREST: u32 = 100;
/// The head has to be one of so many: a trace pays where a program stays.
const RAREST_HEAD: u32 = 32;
/// Instructions that are worth the way in.
const LEAST: usize = 4;
/// Targets of a jump through a register that are looked for.
const TARGETS_MAX: usize = 2;
/// Guest registers that a trace keeps in the host's: those that it uses most.
const KEPT_MAX: usize = 8;

/// A block of a trace.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) number: u32,
    pub(super) pc: u64,
    pub(super) straddles: bool,
    /// With their addresses.
    pub(super) instructions: Vec<(u64, Instruction)>,
    /// Behind its last instruction.
    pub(super) behind: u64,
    /// It has an instruction behind these that is not translated.
    pub(super) broken: bool,
    /// How often it ran.
    pub(super) weight: u32,
    /// Where it went, if by a jump through a register: pcs of the most frequent first.
    pub(super) targets: Vec<u64>,
}

/// The blocks of a trace, its head first.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) nodes: Vec<Node>,
    /// Registers that are kept in the host's, a bit for each, and those of them that it writes.
    pub(super) kept: u32,
    pub(super) written: u32,
}

impl Region {
    /// What is worth compiling of a recording.
    pub(super) fn new<Hint>(blocks: &[Block<Hint>], recording: &Recording) -> Option<Self> {
        let ran = recording.ran();
        let one_of = |most: u32| ran.len() as u32 / most;
        // The head stays the first; of others that ran as often, those that ran first.
        let mut counted = counted(ran.iter().map(|ran| ran.number));
        if counted.first()?.1 < one_of(RAREST_HEAD) {
            return None;
        }
        most_first(&mut counted[1..]);
        counted.truncate(BLOCKS_MAX);
        let frequent = counted[1..].partition_point(|one| one.1 >= one_of(RAREST));
        counted.truncate(1 + frequent);
        let nodes = counted.iter().map(|&(number, weight)| {
            let mut node = Node::decode(&blocks[number as usize], number, weight);
            if node.jumps_through_register() {
                node.targets = targets(recording, number);
            }
            node
        });
        let mut nodes: Vec<Node> = nodes.collect();
        keep_reachable(&mut nodes);
        let instructions: usize = nodes.iter().map(|node| node.instructions.len()).sum();
        if instructions < LEAST {
            return None;
        }
        let (kept, written) = registers(&nodes);
        Some(Self {
            nodes,
            kept,
            written,
        })
    }

    /// The block that begins there.
    pub(super) fn at(&self, pc: u64) -> Option<usize> {
        self.nodes.iter().position(|node| node.pc == pc)
    }
}

impl Node {
    fn decode<Hint>(block: &Block<Hint>, number: u32, weight: u32) -> Self {
        let end = usize::from(block.length);
        let (mut at, mut instructions, mut broken) = (0, Vec::new(), false);
        while at < end {
            let Bits::Whole(bits) = bits_at(&block.code, at) else {
                break;
            };
            let behind = at + usize::from(length(bits as u16));
            if behind > end {
                break; // Half an instruction, which the next block begins with.
            }
            let Some(instruction) = Instruction::decode(bits).filter(arithmetic::is_translated)
            else {
                broken = true;
                break;
            };
            instructions.push((block.pc() + at as u64, instruction));
            at = behind;
        }
        debug_assert!(end <= LINE_BYTES as usize);
        Self {
            number,
            pc: block.pc(),
            straddles: block.straddles,
            instructions,
            behind: block.pc() + at as u64,
            broken,
            weight,
            targets: Vec::new(),
        }
    }

    fn jumps_through_register(&self) -> bool {
        (self.instructions.last()).is_some_and(|(_, last)| last.operation == Operation::Jalr)
    }

    /// Where it may go by itself.
    pub(super) fn ways(&self) -> Vec<u64> {
        if self.broken {
            return Vec::new();
        }
        let Some(&(pc, last)) = self.instructions.last() else {
            return vec![self.behind];
        };
        let target = pc.wrapping_add(last.immediate as u64);
        match last.operation {
            Operation::Jalr => self.targets.clone(),
            Operation::Jal => vec![target],
            operation if operation.ends_block() => vec![target, self.behind],
            _ => vec![self.behind],
        }
    }
}

/// Where a block's jump through a register led most often.
fn targets(recording: &Recording, number: u32) -> Vec<u64> {
    let jumps = recording.ran().iter().filter(|ran| ran.number == number);
    let mut counted = counted(jumps.map(|ran| ran.next));
    most_first(&mut counted);
    counted.truncate(TARGETS_MAX);
    counted.into_iter().map(|(next, _)| next).collect()
}

/// Each value once, in the order in which they come, with how often it does.
fn counted<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<(T, u32)> {
    let mut counted: Vec<(T, u32)> = Vec::new();
    for value in values {
        match counted.iter_mut().find(|(one, _)| *one == value) {
            Some((_, count)) => *count += 1,
            None => counted.push((value, 1)),
        }
    }
    counted
}

fn most_first<T>(counted: &mut [(T, u32)]) {
    counted.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
}

/// Leaves out what the head does not lead to.
fn keep_reachable(nodes: &mut Vec<Node>) {
    let mut reached = vec![false; nodes.len()];
    let mut open = vec![0];
    while let Some(index) = open.pop() {
        if std::mem::replace(&mut reached[index], true) {
            continue;
        }
        for pc in nodes[index].ways() {
            open.extend(nodes.iter().position(|node| node.pc == pc));
        }
    }
    let mut reached = reached.into_iter();
    nodes.retain(|_| reached.next() == Some(true));
}

/// The registers that are used most, and those of them that are written.
fn registers(nodes: &[Node]) -> (u32, u32) {
    let (mut uses, mut written) = ([0u32; 32], 0);
    for node in nodes {
        for (_, instruction) in &node.instructions {
            let (reads, writes) = arithmetic::registers(instruction);
            written |= writes;
            for (register, uses) in uses.iter_mut().enumerate() {
                let used = (reads >> register & 1) + (writes >> register & 1);
                *uses += used * node.weight;
            }
        }
    }
    let mut order: Vec<usize> = (1..32).filter(|&register| uses[register] > 0).collect();
    order.sort_by_key(|&register| std::cmp::Reverse(uses[register]));
    let kept = order
        .iter()
        .take(KEPT_MAX)
        .fold(0, |kept, register| kept | 1 << register);
    (kept, written & kept)
}
