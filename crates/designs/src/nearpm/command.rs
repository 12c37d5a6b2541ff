//! Commands: what a program stores to the device page, and what the memory controller makes of it.
//!
//! A command is 24 bytes, sent as eight stores of 32 bits to the command port. Each has a tag in its upper
//! eight bits, which says whose word it is, and three bytes of the command below: the form of the public RTL,
//! whose commands have one word less, because it has no second address.
//!
//! ```text
//! 0   u8 opcode   u8 pool   u8 thread   u8 zero
//! 4   u64 operand, a virtual address
//! 12  u64 second operand: where a copy goes, or the number of a reset
//! 20  u32 size in bytes
//! ```

use std::collections::BTreeMap;

use super::operations::{self, Operation};

/// Bytes of a command.
pub const COMMAND_BYTES: usize = 24;
/// Of it, those that a store brings.
const BYTES_OF_STORE: usize = 3;
/// The most that a command works on (the size of the RTL has 16 bits, where 0 would be this).
pub const COPY_BYTES_MAX: u64 = 64 << 10;

/// What commands of transactions and their logs ask for, beside [operations](super::operations). The numbers
/// are the RTL's where it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Opcode {
    /// `NearPM_undolog_create`: old data goes into the log.
    UndologCreate = 0x02,
    /// `NearPM_commit_log`: the entries of the thread's transaction are dead.
    CommitLog = 0x03,
    /// `NearPM_ckpoint_create`: the same as an undo log's entry, of a page.
    CheckpointCreate = 0x04,
    /// The system-wide recovery of section 6.2 is acknowledged.
    Recover = 0x0a,
    /// A thread's log area is laid down, empty.
    LogReset = 0x0b,
    /// A thread's log area is found again.
    LogAttach = 0x0c,
}

impl Opcode {
    const ALL: [Self; 6] = [
        Self::UndologCreate,
        Self::CommitLog,
        Self::CheckpointCreate,
        Self::Recover,
        Self::LogReset,
        Self::LogAttach,
    ];

    /// What a command of that number is, for people; those of extended operations are told apart by it.
    pub fn name_of(number: u8) -> &'static str {
        match Self::of(number) {
            Some(Self::UndologCreate) => "undo log entry",
            Some(Self::CommitLog) => "commit",
            Some(Self::CheckpointCreate) => "checkpoint",
            Some(Self::Recover) => "recover",
            Some(Self::LogReset) => "log reset",
            Some(Self::LogAttach) => "log attach",
            None if number == 0 => "refused",
            None => "operation",
        }
    }

    /// The one of that number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u8 == number)
    }
}

/// What a command asks for.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    /// Something of a transaction.
    Transaction(Opcode),
    /// An operation on bytes.
    Operation(&'static Operation),
}

impl Asked {
    /// By its number, if it has one.
    pub fn of(number: u8) -> Option<Self> {
        let transaction = Opcode::of(number).map(Self::Transaction);
        transaction.or_else(|| operations::find(number).map(Self::Operation))
    }

    /// Whether every device has to hear of it, whatever its operand spans.
    pub fn is_for_all(self) -> bool {
        matches!(
            self,
            Self::Transaction(
                Opcode::CommitLog | Opcode::Recover | Opcode::LogReset | Opcode::LogAttach
            )
        )
    }

    /// Whether it has an operand, and how large that may be.
    pub fn operand_bytes_max(self) -> Option<u64> {
        match self {
            Self::Transaction(Opcode::CommitLog | Opcode::Recover) => None,
            Self::Transaction(Opcode::LogReset | Opcode::LogAttach) => Some(u64::MAX),
            _ => Some(COPY_BYTES_MAX),
        }
    }
}

/// A command as its sender wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// An [`Opcode`], or an operation's number.
    pub opcode: u8,
    /// Which pool of the thread's.
    pub pool: u8,
    /// Which thread of the program's.
    pub thread: u8,
    /// A virtual address.
    pub operand: u64,
    /// Another one, or a number.
    pub second: u64,
    /// Bytes.
    pub size: u32,
}

impl Command {
    /// Its bytes.
    pub fn encode(&self) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        bytes[..3].copy_from_slice(&[self.opcode, self.pool, self.thread]);
        bytes[4..12].copy_from_slice(&self.operand.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.second.to_le_bytes());
        bytes[20..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    /// The command of these bytes.
    pub fn decode(bytes: &[u8; COMMAND_BYTES]) -> Self {
        let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|at| bytes[from + at]));
        Self {
            opcode: bytes[0],
            pool: bytes[1],
            thread: bytes[2],
            operand: number(4),
            second: number(12),
            size: u32::from_le_bytes(std::array::from_fn(|at| bytes[20 + at])),
        }
    }

    /// The stores that send it, with a tag.
    pub fn words(&self, tag: u8) -> impl Iterator<Item = u32> {
        let bytes = self.encode();
        (0..COMMAND_BYTES / BYTES_OF_STORE).map(move |at| {
            let payload = &bytes[at * BYTES_OF_STORE..][..BYTES_OF_STORE];
            u32::from_le_bytes([payload[0], payload[1], payload[2], tag])
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Partial {
    bytes: [u8; COMMAND_BYTES],
    filled: usize,
}

/// Where the memory controller puts the words of commands together: for each thread of the system, and each
/// tag that it uses, by themselves. All of it is lost with the power.
#[derive(Clone, Debug, Default)]
pub struct Assembly(BTreeMap<(u32, u8), Partial>);

impl Assembly {
    /// A thread has stored a word: the command that is whole with it.
    pub fn take(&mut self, owner: u32, word: u32) -> Option<Command> {
        let [a, b, c, tag] = word.to_le_bytes();
        let partial = self.0.entry((owner, tag)).or_default();
        partial.bytes[partial.filled..][..BYTES_OF_STORE].copy_from_slice(&[a, b, c]);
        partial.filled += BYTES_OF_STORE;
        if partial.filled < COMMAND_BYTES {
            return None;
        }
        let whole = Command::decode(&partial.bytes);
        self.0.remove(&(owner, tag));
        Some(whole)
    }

    /// Commands of which some words are there.
    pub fn begun(&self) -> usize {
        self.0.len()
    }
}

/// Why a device does not do what it is told. Programs read the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// No such opcode.
    Opcode = 1,
    /// The thread that sends has not mapped the pool.
    Pool = 2,
    /// An operand is not in its pool.
    Bounds = 3,
    /// A size of zero, or more than a command copies.
    Size = 4,
    /// The transaction's entries do not fit into the log.
    LogFull = 5,
    /// The thread has no log there, or what is there is none.
    NoLog = 6,
    /// From one device to another.
    Crosses = 7,
    /// Bytes would go where they come from.
    Overlap = 8,
    /// The devices have recovered already.
    Recovered = 9,
    /// A record of a redo log is damaged.
    Damaged = 10,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_different_senders_are_put_together_apart() {
        let command = |operand| Command {
            opcode: 2,
            pool: 3,
            thread: 4,
            operand,
            second: 0x0102_0304_0506_0708,
            size: 64,
        };
        let mut assembly = Assembly::default();
        let (one, other) = (command(0x1000_0000_1234), command(7));
        let words: Vec<_> = one.words(9).zip(other.words(9)).collect();
        for (index, (a, b)) in words.iter().enumerate() {
            let last = index == words.len() - 1;
            assert_eq!(assembly.take(1, *a), last.then_some(one));
            assert_eq!(
                assembly.begun(),
                if last { 1 } else { 1 + usize::from(index > 0) }
            );
            assert_eq!(assembly.take(2, *b), last.then_some(other));
        }
        assert_eq!(assembly.begun(), 0);
    }
}
