//! Litmus tests as plain data: a few threads of a few instructions, and what persistent memory may hold.
//!
//! Always true here: every location and register begins as zero, values are bytes, jumps go forward and
//! stay inside their thread, and a register is written on every way to where it is read.

use std::collections::BTreeSet;

use super::model::{Kind, Model};

/// The most locations of a test.
pub const LOCATIONS: usize = 16;
/// The most threads.
pub const THREADS: usize = 8;
/// The most instructions of a thread.
pub const INSTRUCTIONS: usize = 16;
/// The most registers of a thread.
pub const REGISTERS: usize = 8;

/// What persistent memory holds: a byte for each location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contents([u8; LOCATIONS]);

impl Contents {
    /// What a location holds.
    pub fn of(&self, location: usize) -> u8 {
        self.0[location]
    }

    /// Stores to a location.
    pub fn set(&mut self, location: usize, value: u8) {
        self.0[location] = value;
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A number.
    Value(u8),
    /// What a register holds.
    Register(usize),
}

/// What an instruction does, beside what its kind says about order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `load REGISTER LOCATION`
    Load {
        /// Where to.
        register: usize,
        /// Where from.
        location: usize,
    },
    /// `store LOCATION OPERAND`
    Store {
        /// Where to.
        location: usize,
        /// What.
        operand: Operand,
    },
    /// `xchg REGISTER LOCATION OPERAND`: both at once, and nothing between.
    Exchange {
        /// Gets what was there.
        register: usize,
        /// Where.
        location: usize,
        /// What is stored.
        operand: Operand,
    },
    /// `beqz` and `bnez`: passes over some instructions.
    Branch {
        /// What it looks at.
        register: usize,
        /// It jumps if this is zero, and otherwise if it is not.
        if_zero: bool,
        /// How many it passes over.
        skips: usize,
    },
    /// Sends the line of a location to where it survives.
    WriteBack {
        /// In whose line.
        location: usize,
    },
    /// A fence, or a mark that orders.
    Barrier,
}

/// Sets of accesses that RISC-V's `fence` names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Loads.
    pub reads: bool,
    /// Stores.
    pub writes: bool,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// How it is written.
    pub name: &'static str,
    /// What orders it.
    pub kind: Kind,
    /// What it does.
    pub action: Action,
    /// Of RISC-V's `fence`: which earlier accesses, and which later ones.
    pub sets: [Accesses; 2],
}

impl Instruction {
    /// Where it acts.
    pub fn location(&self) -> Option<usize> {
        match self.action {
            Action::Load { location, .. }
            | Action::Store { location, .. }
            | Action::Exchange { location, .. }
            | Action::WriteBack { location } => Some(location),
            Action::Branch { .. } | Action::Barrier => None,
        }
    }

    /// The register that it writes.
    pub fn written(&self) -> Option<usize> {
        match self.action {
            Action::Load { register, .. } | Action::Exchange { register, .. } => Some(register),
            _ => None,
        }
    }

    /// The register that it reads.
    pub fn read(&self) -> Option<usize> {
        match self.action {
            Action::Store { operand, .. } | Action::Exchange { operand, .. } => match operand {
                Operand::Register(register) => Some(register),
                Operand::Value(_) => None,
            },
            Action::Branch { register, .. } => Some(register),
            _ => None,
        }
    }
}

/// A litmus test.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// Whose rules hold.
    pub model: &'static Model,
    /// The locations, as they are first named.
    pub locations: Vec<String>,
    /// The line of each location.
    pub lines: Vec<usize>,
    /// The threads.
    pub threads: Vec<Vec<Instruction>>,
    /// What its author says that a cut may leave.
    pub allowed: Option<BTreeSet<Contents>>,
}

impl Test {
    /// Contents as people write them.
    pub fn show(&self, contents: &Contents) -> String {
        let names = self.locations.iter().enumerate();
        let words: Vec<String> = names
            .map(|(location, name)| format!("{name}={}", contents.of(location)))
            .collect();
        words.join(" ")
    }
}
