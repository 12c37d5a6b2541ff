//! Random pool programs: a list of operations, and the instructions that carry it out, one after the other.
//!
//! Always true here: a program makes no access that ends it, and each operation's last instruction that
//! matters is its system call, store, flush or fence.

use perdure_hardware::random::Random;

/// Files that programs name.
pub const NAMES: [&str; 3] = ["a", "b", "c"];
/// Pages of a mapping.
pub const PAGES: u64 = 4;
pub const PAGE: u64 = 4096;

const CODE: u64 = 0x1_0000;
const DATA: u64 = 0x10_0000;
const MAPPINGS: u64 = 0x2000_0000;
/// Where words lie that are written by calls.
const WORDS: u64 = DATA + 256;
pub const WRITTEN: u64 = 3;

/// An operation; a slot has a descriptor and a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Open {
        slot: usize,
        name: usize,
    },
    Resize {
        slot: usize,
        bytes: u64,
    },
    Map {
        slot: usize,
        synchronous: bool,
    },
    Store {
        slot: usize,
        at: u64,
        value: u64,
        /// Around the caches.
        around: bool,
    },
    /// One of [`FLUSHES`].
    Flush {
        slot: usize,
        at: u64,
        how: usize,
    },
    /// One of [`FENCES`].
    Fence {
        how: usize,
    },
    /// `pwrite` of [`WRITTEN`] words.
    Write {
        slot: usize,
        at: u64,
        value: u64,
    },
    Synchronise {
        slot: usize,
    },
    SynchroniseMapped {
        slot: usize,
        page: u64,
    },
    Rename {
        from: usize,
        to: usize,
    },
    Unlink {
        name: usize,
    },
}

/// Instructions that send a line, less the register with its address, and whether the hart goes on when that
/// is durable: cbo.clean, cbo.flush, clflush, clflushopt, clwb, dc civac, dc cvac, dc cvap.
pub const FLUSHES: [(u32, bool); 8] = [
    (0x0010_200f, false),
    (0x0020_200f, false),
    (0x8000_002b, true),
    (0x8000_102b, false),
    (0x8000_202b, false),
    (0x8200_002b, false),
    (0x8200_102b, false),
    (0x8200_202b, false),
];

/// Fences, and whether what was sent is durable behind them: fence rw,rw, sfence, mfence, dsb ish, dmb ish.
pub const FENCES: [(u32, bool); 5] = [
    (0x0330_000f, true),
    (0x8000_402b, true),
    (0x8000_502b, true),
    (0x8200_502b, true),
    (0x8200_402b, false),
];

/// Words that a write with a value writes.
pub fn written(value: u64) -> [u64; WRITTEN as usize] {
    [value, !value, value.rotate_left(9)]
}

#[derive(Default)]
struct Code(Vec<u32>);

const A: [u32; 6] = [10, 11, 12, 13, 14, 15];
const T0: u32 = 5;
const T1: u32 = 6;

/// Where a slot's descriptor is.
fn descriptor(slot: usize) -> u32 {
    18 + slot as u32
}

impl Code {
    fn immediate(&mut self, opcode: u32, funct3: u32, rd: u32, rs1: u32, value: i32) {
        self.0
            .push(value.cast_unsigned() << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode);
    }

    fn copy(&mut self, rd: u32, rs: u32) {
        self.immediate(0x13, 0, rd, rs, 0);
    }

    fn constant(&mut self, rd: u32, value: u64) {
        self.immediate(0x13, 0, rd, 0, (value >> 55) as i32);
        for shift in [44, 33, 22, 11, 0] {
            self.immediate(0x13, 1, rd, rd, 11);
            self.immediate(0x13, 6, rd, rd, (value >> shift & 0x7ff) as i32);
        }
    }

    /// A system call whose arguments from the second on are constants.
    fn call(&mut self, number: u64, constants: &[u64]) {
        for (register, &value) in A[1..].iter().zip(constants) {
            self.constant(*register, value);
        }
        self.constant(17, number);
        self.0.push(0x73);
    }

    fn store(&mut self, address: u64, value: u64, around: bool) {
        self.constant(T0, address);
        self.constant(T1, value);
        let instruction = if around { 0x8000_302b } else { 0x3023 };
        self.0.push(T1 << 20 | T0 << 15 | instruction);
    }

    fn operate(&mut self, operation: Operation) {
        let path = |name: usize| DATA + 16 * name as u64;
        let place = |slot: usize, at: u64| MAPPINGS + slot as u64 * 0x10_0000 + at;
        let here = -100_i64 as u64;
        match operation {
            Operation::Open { slot, name } => {
                self.constant(A[0], here);
                self.call(56, &[path(name), 0o102, 0o644]);
                self.copy(descriptor(slot), A[0]);
            }
            Operation::Resize { slot, bytes } => {
                self.copy(A[0], descriptor(slot));
                self.call(46, &[bytes]);
            }
            Operation::Map { slot, synchronous } => {
                self.constant(A[0], place(slot, 0));
                let flags = if synchronous { 0x8_0013 } else { 0x11 };
                self.copy(A[4], descriptor(slot));
                for (register, value) in [(A[1], PAGES * PAGE), (A[2], 3), (A[3], flags), (A[5], 0)]
                {
                    self.constant(register, value);
                }
                self.call(222, &[]);
            }
            Operation::Store {
                slot,
                at,
                value,
                around,
            } => self.store(place(slot, at), value, around),
            Operation::Flush { slot, at, how } => {
                self.constant(T0, place(slot, at));
                self.0.push(FLUSHES[how].0 | T0 << 15);
            }
            Operation::Fence { how } => self.0.push(FENCES[how].0),
            Operation::Write { slot, at, value } => {
                for (word, value) in (0..).zip(written(value)) {
                    self.store(WORDS + 8 * word, value, false);
                }
                self.copy(A[0], descriptor(slot));
                self.call(68, &[WORDS, 8 * WRITTEN, at]);
            }
            Operation::Synchronise { slot } => {
                self.copy(A[0], descriptor(slot));
                self.call(82, &[]);
            }
            Operation::SynchroniseMapped { slot, page } => {
                self.constant(A[0], place(slot, page * PAGE));
                self.call(227, &[PAGE, 4]);
            }
            Operation::Rename { from, to } => {
                self.constant(A[0], here);
                self.call(276, &[path(from), here, path(to), 0]);
            }
            Operation::Unlink { name } => {
                self.constant(A[0], here);
                self.call(35, &[path(name), 0]);
            }
        }
    }
}

/// A program.
pub struct Program {
    pub operations: Vec<Operation>,
    /// Where each operation's instructions begin, and where the last ones end.
    starts: Vec<u64>,
    pub elf: Vec<u8>,
}

impl Program {
    pub fn new(operations: Vec<Operation>) -> Self {
        let mut code = Code::default();
        // Relative paths are those of pools.
        code.constant(A[0], DATA + 128);
        code.call(49, &[]);
        let mut starts = Vec::new();
        let at = |code: &Code| CODE + 0x1000 + 4 * code.0.len() as u64;
        for &operation in &operations {
            starts.push(at(&code));
            code.operate(operation);
        }
        starts.push(at(&code));
        code.constant(A[0], 0);
        code.call(93, &[]);
        Self {
            elf: elf(&code.0),
            operations,
            starts,
        }
    }

    /// How many operations are over when the program is at an address, and how many have begun.
    pub fn progress(&self, pc: u64) -> (usize, usize) {
        let over = self.starts[1..].partition_point(|&end| end <= pc);
        let begun = self.starts.partition_point(|&start| start < pc);
        (over, begun.min(self.operations.len()))
    }
}

/// A program of these instructions alone.
pub fn elf(code: &[u32]) -> Vec<u8> {
    let text: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut data = vec![0; 512];
    for (name, at) in NAMES.iter().zip((0..).step_by(16)) {
        data[at..at + name.len()].copy_from_slice(name.as_bytes());
    }
    data[128..133].copy_from_slice(b"/pmem");
    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0\x01\0\0\0".to_vec();
    for word in [CODE + 0x1000, 64, 0] {
        out.extend(u64::to_le_bytes(word));
    }
    out.extend(5_u32.to_le_bytes());
    for half in [64_u16, 56, 2, 64, 0, 0] {
        out.extend(half.to_le_bytes());
    }
    let text_bytes = text.len() as u64;
    let data_offset = (0x1000 + text_bytes).next_multiple_of(0x1000);
    for (flags, offset, address, bytes) in [
        (5_u32, 0x1000, CODE + 0x1000, text_bytes),
        (6, data_offset, DATA, data.len() as u64),
    ] {
        out.extend(1_u32.to_le_bytes());
        out.extend(flags.to_le_bytes());
        for word in [offset, address, address, bytes, bytes, 0x1000] {
            out.extend(u64::to_le_bytes(word));
        }
    }
    out.resize(0x1000, 0);
    out.extend(text);
    out.resize(data_offset as usize, 0);
    out.extend(data);
    out
}

/// What a generator must know of a slot to make no access that ends the program.
#[derive(Clone, Copy, Default)]
struct Known {
    file: Option<usize>,
    mapped: bool,
}

/// A random list of operations.
pub fn random(random: &mut Random, count: usize) -> Vec<Operation> {
    let mut slots = [Known::default(); 2];
    let mut sizes: Vec<u64> = Vec::new();
    let mut names: [Option<usize>; 3] = [None; 3];
    let mut operations = Vec::new();
    while operations.len() < count {
        let slot = random.below(2) as usize;
        let Known { file, mapped } = slots[slot];
        let choice = random.below(30);
        let size = file.map_or(0, |file| sizes[file]);
        let (name, other) = (random.below(3) as usize, random.below(3) as usize);
        let made = match (choice, file) {
            (0 | 1, _) | (_, None) => {
                let file = *names[name].get_or_insert_with(|| {
                    sizes.push(0);
                    sizes.len() - 1
                });
                slots[slot] = Known {
                    file: Some(file),
                    mapped: false,
                };
                Some(Operation::Open { slot, name })
            }
            (2 | 3, Some(file)) => {
                sizes[file] = random.below(PAGES * 8 + 1) * 512;
                let bytes = sizes[file];
                Some(Operation::Resize { slot, bytes })
            }
            (4 | 5, _) => {
                slots[slot].mapped = true;
                let synchronous = random.below(4) > 0;
                Some(Operation::Map { slot, synchronous })
            }
            (6..=14, _) if mapped && size > 0 => Some(store(random, slot, size)),
            (15..=18, _) if mapped && size > 0 => {
                let at = place(random, size);
                let how = one_of(random, &FLUSHES);
                Some(Operation::Flush { slot, at, how })
            }
            (19..=21, _) => Some(Operation::Fence {
                how: one_of(random, &FENCES),
            }),
            (22 | 23, Some(file)) => {
                let at = random.below(PAGES * 512 - WRITTEN) * 8;
                sizes[file] = size.max(at + 8 * WRITTEN);
                let value = random.bits();
                Some(Operation::Write { slot, at, value })
            }
            (24 | 25, _) => Some(Operation::Synchronise { slot }),
            (26 | 27, _) if mapped => {
                let page = random.below(PAGES);
                Some(Operation::SynchroniseMapped { slot, page })
            }
            (28, _) if names[name].is_some() && name != other => {
                names[other] = names[name].take();
                Some(Operation::Rename {
                    from: name,
                    to: other,
                })
            }
            (29, _) => names[name].take().map(|_| Operation::Unlink { name }),
            _ => None,
        };
        operations.extend(made);
    }
    operations
}

fn store(random: &mut Random, slot: usize, size: u64) -> Operation {
    Operation::Store {
        slot,
        at: place(random, size),
        value: random.bits(),
        around: random.below(4) == 0,
    }
}

fn one_of<T>(random: &mut Random, list: &[T]) -> usize {
    random.below(list.len() as u64) as usize
}

/// Of a few lines of each page.
fn place(random: &mut Random, size: u64) -> u64 {
    let page = random.below(size.div_ceil(PAGE)) * PAGE;
    (page + random.below(6) * 712 / 8 * 8).min(size - 8)
}
