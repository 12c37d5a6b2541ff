//! Memory types against a plain model: a flat array of lines, and for each hart the stores that wait in
//! its combining buffers.
//!
//! A random walk of loads and stores of every type to the same few lines by one to four harts, over
//! both kinds of last-level cache, with fences, persist operations and a version that changes. After
//! every step:
//! - a load saw the newest bytes that had been sent, and its own hart's stores;
//! - the design heard of every store around the caches, with the bytes before and after it;
//! - what was stored through or around the caches is in memory, and durable after a fence.

use perdure_hardware::arena::Arena;
use perdure_hardware::counters::Counters;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, Version};
use perdure_hardware::memory::Traffic;
use perdure_hardware::memory_type::MemoryType;
use perdure_hardware::persist::{Effect, Fence, Order, Persist, Point};
use perdure_hardware::policy::{Cause, CrossVersionStore, Evicted, Eviction, Policy};
use perdure_hardware::specification::Inclusion;
use perdure_hardware::time::Cycles;
use perdure_hardware::watched::{Heard, Watched, Writer};

use crate::support::{Random, seeds, share_l2s, tiny};

const FIRST: LineNumber = 0x4321;
const BUFFERS: usize = 10;
const TYPES: [MemoryType; 4] = [
    MemoryType::WriteBack,
    MemoryType::WriteThrough,
    MemoryType::Uncached,
    MemoryType::WriteCombining,
];

/// What every line holds: as the walk says, and as the design has been told.
struct Model {
    lines: Vec<Line>,
    told: Vec<Line>,
    sees_every_store: bool,
    inclusive: bool,
    current: Version,
    /// Stores over a line of another version than the current one.
    crossed: u64,
}

impl Policy for Model {
    fn current_version(&self, _: usize) -> Version {
        self.current
    }

    fn sees_every_store(&self) -> bool {
        self.sees_every_store
    }

    fn store(&mut self, _: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        let told = &mut self.told[(store.line - FIRST) as usize];
        if self.sees_every_store {
            assert_eq!(store.old, told, "{store:?}");
        } else {
            assert_ne!(store.version, self.current, "{store:?}");
        }
        *told = *store.new;
        self.crossed += u64::from(store.version != self.current);
        now + 3
    }

    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        // A shared cache that is not inclusive may replace bytes that an L2 has newer ones of.
        if self.sees_every_store && (self.inclusive || eviction.cause != Cause::Replacement) {
            let told = self.told[(eviction.line - FIRST) as usize];
            assert_eq!(eviction.bytes, told, "{eviction:?}");
        }
        let done = hardware.memory.write_line(
            eviction.line,
            &eviction.bytes,
            Traffic::WriteBack,
            now,
            0,
            &mut hardware.statistics,
        );
        done.into()
    }

    fn fired(&mut self, _: &mut Hardware, _: u32, _: Cycles) {}
}

/// What one hart's buffer has of a line: which bytes, and their values.
type Waiting = (LineNumber, [Option<u8>; LINE_BYTES]);

struct Walk {
    random: Random,
    hardware: Hardware,
    model: Model,
    /// By hart, the oldest first.
    waiting: Vec<Vec<Waiting>>,
    /// By hart: lines that were sent to memory in this step, and when what was is durable.
    sent: Vec<LineNumber>,
    durable: Vec<Cycles>,
}

impl Walk {
    fn new(seed: u64, (harts, sharing): (usize, usize), inclusion: Inclusion) -> Self {
        let mut specification = tiny(harts);
        specification.llc.inclusion = inclusion;
        share_l2s(&mut specification, sharing);
        let arena = Arena::new(specification.nvm.bytes).expect("address space");
        let lines = vec![Line::ZERO; 8 + 16 * harts];
        Self {
            random: Random(seed),
            hardware: Hardware::new(specification, arena, 0..0),
            model: Model {
                told: lines.clone(),
                lines,
                sees_every_store: seed.is_multiple_of(2),
                inclusive: inclusion == Inclusion::Inclusive,
                current: Version(1),
                crossed: 0,
            },
            waiting: vec![Vec::new(); harts],
            sent: Vec::new(),
            durable: vec![0; harts],
        }
    }

    fn now(&self, hart: usize) -> Cycles {
        self.hardware.cores[hart].timing.now(0)
    }

    fn newest(&mut self, line: LineNumber) -> &mut Line {
        &mut self.model.lines[(line - FIRST) as usize]
    }

    fn step(&mut self) {
        let hart = self.random.below(self.waiting.len());
        let line = FIRST + self.random.below(self.model.lines.len()) as u64;
        let memory_type = TYPES[self.random.below(TYPES.len())];
        match self.random.below(100) {
            0..35 => self.load(hart, line, memory_type),
            35..85 => self.store(hart, line, memory_type),
            85..88 => self.fence(hart),
            88..93 => self.persist(hart, line),
            _ => {
                self.model.current = Version(self.model.current.0 % 15 + 1);
                self.hardware.version_changed();
            }
        }
        for line in std::mem::take(&mut self.sent) {
            let memory = self.hardware.memory.arena.line(line * LINE_BYTES as u64);
            let newest = self.model.lines[(line - FIRST) as usize];
            assert_eq!(*memory, newest, "memory has not got line {line:#x}");
            let durable = self.hardware.memory.durable_at(line, 0);
            self.durable[hart] = self.durable[hart].max(durable);
        }
        if self.model.sees_every_store {
            let told = &self.model.told;
            let differ = (0..told.len()).find(|&index| told[index] != self.model.lines[index]);
            assert_eq!(differ, None, "the line that the design was told otherwise");
        }
        if self.random.once_in(50) {
            self.hardware.audit(&self.model).expect("the audit");
            self.compare();
        }
    }

    // ---- The plain model -------------------------------------------------------------------

    /// What waits in a hart's buffer is sent.
    fn send(&mut self, hart: usize, index: usize) {
        let (line, bytes) = self.waiting[hart].remove(index);
        for (byte, stored) in self.newest(line).0.iter_mut().zip(bytes) {
            *byte = stored.unwrap_or(*byte);
        }
        self.sent.push(line);
    }

    fn buffer_of(&self, hart: usize, line: LineNumber) -> Option<usize> {
        self.waiting[hart].iter().position(|begun| begun.0 == line)
    }

    /// A hart accesses a line otherwise than by combining.
    fn leaves_buffer(&mut self, hart: usize, line: LineNumber) {
        if let Some(index) = self.buffer_of(hart, line) {
            self.send(hart, index);
        }
    }

    fn combine(&mut self, hart: usize, line: LineNumber, offset: usize, bytes: &[u8]) {
        let begun = self.buffer_of(hart, line);
        if begun.is_none() && self.waiting[hart].len() == BUFFERS {
            self.send(hart, 0);
        }
        let mut buffer = match begun {
            Some(index) => self.waiting[hart].remove(index),
            None => (line, [None; LINE_BYTES]),
        };
        for (place, &byte) in buffer.1[offset..].iter_mut().zip(bytes) {
            *place = Some(byte);
        }
        let complete = buffer.1.iter().all(Option::is_some);
        self.waiting[hart].push(buffer);
        if complete {
            self.send(hart, self.waiting[hart].len() - 1);
        }
    }

    // ---- Steps -----------------------------------------------------------------------------

    fn load(&mut self, hart: usize, line: LineNumber, memory_type: MemoryType) {
        self.leaves_buffer(hart, line);
        let now = self.now(hart);
        let (hardware, model) = (&mut self.hardware, &mut self.model);
        let (bytes, goes_on) = hardware.load_as(model, hart, line, memory_type, now);
        assert_eq!(goes_on, self.now(hart), "the hart waits for what it loads");
        let newest = *self.newest(line);
        assert_eq!(
            bytes, newest,
            "{memory_type:?}, line {line:#x}, hart {hart}"
        );
        let around = [MemoryType::Uncached, MemoryType::WriteCombining];
        let cached = self.hardware.llc.find(line).is_some();
        assert!(!cached || !around.contains(&memory_type), "a cache kept it");
    }

    fn store(&mut self, hart: usize, line: LineNumber, memory_type: MemoryType) {
        let length = 1 << self.random.below(7);
        let offset = self.random.below(LINE_BYTES / length) * length;
        let mut bytes = [0; LINE_BYTES];
        bytes.fill_with(|| self.random.next() as u8);
        let bytes = &bytes[..length];
        if memory_type == MemoryType::WriteCombining {
            self.combine(hart, line, offset, bytes);
        } else {
            // An uncached store stays behind all others, combined ones included.
            while memory_type == MemoryType::Uncached && !self.waiting[hart].is_empty() {
                self.send(hart, 0);
            }
            self.leaves_buffer(hart, line);
            self.newest(line).0[offset..][..length].copy_from_slice(bytes);
            if memory_type == MemoryType::WriteBack {
                // It may have been sent before, and is newer in the caches now.
                self.sent.retain(|&sent| sent != line);
            } else {
                self.sent.push(line);
            }
        }
        let now = self.now(hart);
        let (hardware, model) = (&mut self.hardware, &mut self.model);
        hardware.store_as(model, hart, line, (offset, bytes), memory_type, now);
    }

    fn fence(&mut self, hart: usize) {
        while !self.waiting[hart].is_empty() {
            self.send(hart, 0);
        }
        let now = self.now(hart);
        (self.hardware).fence(&mut self.model, hart, Fence::FULL, now);
        for line in &self.sent {
            let durable = self.hardware.memory.durable_at(*line, 0);
            self.durable[hart] = self.durable[hart].max(durable);
        }
        assert!(
            self.now(hart) >= self.durable[hart],
            "a fence does not wait for what went through or around the caches"
        );
    }

    fn persist(&mut self, hart: usize, line: LineNumber) {
        self.leaves_buffer(hart, line);
        self.sent.push(line);
        let persist = Persist {
            hart,
            line,
            effect: Effect::Clean,
            point: Point::Persistence,
            order: Order::Line,
        };
        let now = self.now(hart);
        self.hardware.persist(&mut self.model, &persist, now);
    }

    /// Whoever looks without an access sees what waits, too.
    fn compare(&mut self) {
        let mut newest = self.model.lines.clone();
        for (line, bytes) in self.waiting.iter().flatten() {
            let line = &mut newest[(line - FIRST) as usize];
            for (byte, stored) in line.0.iter_mut().zip(bytes) {
                *byte = stored.unwrap_or(*byte);
            }
        }
        let mut memory: Vec<_> = (FIRST..)
            .zip(&newest)
            .map(|(line, _)| *self.hardware.memory.arena.line(line * LINE_BYTES as u64))
            .collect();
        self.hardware.newer_lines(&self.model, &mut |line, bytes| {
            memory[(line - FIRST) as usize] = *bytes;
        });
        let counted = self.hardware.statistics().cross_version_stores;
        assert_eq!(counted, self.model.crossed, "stores across versions");
        for (index, expected) in newest.iter().enumerate() {
            let line = FIRST + index as u64;
            let found = self.hardware.peek(&self.model, line);
            assert_eq!(found, *expected, "peek at line {line:#x}");
            assert_eq!(
                memory[index], *expected,
                "line {line:#x} among the newer ones"
            );
        }
    }
}

#[test]
fn every_type_sees_the_newest_bytes() {
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive] {
        for shape in [(1, 1), (2, 1), (4, 2), (3, 1)] {
            for seed in seeds(4) {
                println!("seed {seed}, {shape:?}, {inclusion:?}");
                let mut walk = Walk::new(seed, shape, inclusion);
                for _ in 0..3000 {
                    walk.step();
                }
                let statistics = walk.hardware.statistics();
                statistics.check_conservation().expect("sums");
            }
        }
    }
}

// ---- Timing -------------------------------------------------------------------------------------

/// One hart and its model, which starts at time 0.
fn one() -> Walk {
    Walk::new(1, (1, 1), Inclusion::Inclusive)
}

/// Stores a line in pieces of eight bytes. Returns when the hart has issued them.
fn store_a_line(walk: &mut Walk, line: LineNumber, memory_type: MemoryType) -> Cycles {
    for piece in 0..LINE_BYTES / 8 {
        let now = walk.now(0);
        let stored = (piece * 8, &[7; 8][..]);
        let (hardware, model) = (&mut walk.hardware, &mut walk.model);
        hardware.store_as(model, 0, line, stored, memory_type, now);
    }
    walk.now(0)
}

#[test]
fn a_complete_line_is_one_write_and_uncached_stores_are_one_each() {
    for (memory_type, writes) in [
        (MemoryType::WriteCombining, 1),
        (MemoryType::Uncached, 8),
        (MemoryType::WriteThrough, 8),
        (MemoryType::WriteBack, 0),
        (MemoryType::WriteBack.non_temporal(), 1),
        (MemoryType::Uncached.non_temporal(), 8),
    ] {
        let mut walk = one();
        store_a_line(&mut walk, FIRST, memory_type);
        assert_eq!(
            walk.hardware.statistics.nvm_writes, writes,
            "{memory_type:?}"
        );
    }
}

#[test]
fn a_hart_waits_for_uncached_stores_and_not_for_combined_ones() {
    let mut combined = one();
    let issued = store_a_line(&mut combined, FIRST, MemoryType::WriteCombining);
    assert_eq!(issued, 0, "the buffer takes them at once");
    let fence = Fence::FULL;
    let goes_on = (combined.hardware).fence(&mut combined.model, 0, fence, issued);
    assert_eq!(goes_on, combined.hardware.memory.durable_at(FIRST, 0));
    let mut uncached = one();
    let issued = store_a_line(&mut uncached, FIRST, MemoryType::Uncached);
    assert!(issued > 8 * 30, "each has gone to memory: {issued}");
}

#[test]
fn an_uncached_store_stays_behind_earlier_stores() {
    let mut walk = one();
    let (hardware, model) = (&mut walk.hardware, &mut walk.model);
    hardware.store_as(model, 0, FIRST, (0, &[1]), MemoryType::WriteBack, 0);
    assert_eq!(hardware.cores[0].timing.now(0), 0, "it waits in the buffer");
    let fence = Fence {
        stores: true,
        ..Fence::default()
    };
    let done = hardware.cores[0].timing.clone().fence(fence, 0);
    hardware.store_as(model, 0, FIRST + 1, (0, &[1]), MemoryType::Uncached, 0);
    assert!(hardware.cores[0].timing.now(0) > done);
}

#[test]
fn a_combined_store_is_heard_on_behalf_of_who_made_it() {
    let mut walk = one();
    let (hardware, model) = (&mut walk.hardware, &mut walk.model);
    hardware.memory.watched = Some(Box::new(Watched::new([FIRST, FIRST + 1])));
    let writer = |address| Writer {
        instruction: Some((1, address)),
        system: None,
        began: Some(address),
    };
    for (line, memory_type, address) in [
        (FIRST, MemoryType::WriteCombining, 0x10),
        (FIRST + 1, MemoryType::WriteBack, 0x20),
    ] {
        hardware.memory.stores_for(|| writer(address));
        hardware.store_as(model, 0, line, (0, &[1]), memory_type, 0);
    }
    // What sends the buffer is not what has stored.
    hardware.memory.stores_for(|| writer(0x30));
    hardware.fence(model, 0, Fence::FULL, 0);
    let heard = hardware.memory.watched.take().expect("it hears").take();
    let stored: Vec<_> = heard
        .iter()
        .filter_map(|one| match one {
            Heard::Stored { line, writer, .. } => Some((*line, *writer)),
            _ => None,
        })
        .collect();
    assert_eq!(stored, [(FIRST + 1, writer(0x20)), (FIRST, writer(0x10))]);
}
