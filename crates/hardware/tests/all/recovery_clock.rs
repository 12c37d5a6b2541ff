//! What a recovery takes, in closed form: on an idle machine of 2 GHz a row read takes 256 cycles, a
//! row write 736, and a line 10 on the link.

use std::ops::Range;

use crate::modules::add;
use crate::support::{Random, seeds, table_iv};
use perdure_hardware::controller::{Controller, Path, Request};
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::physical_map::{PhysicalMap, Place, RegionKind};
use perdure_hardware::placement::bank_of_row;
use perdure_hardware::recovery_clock::{RecoveryClock, RecoveryCost};
use perdure_hardware::specification::{Interleaving, Persistence, Specification};
use perdure_hardware::time::Cycles;

const ROW_READ: Cycles = 256;
const ROW_WRITE: Cycles = 736;
const LINK: Cycles = 10;
const ROW_BYTES: u64 = 2048;

fn clock() -> RecoveryClock {
    RecoveryClock::new(&table_iv(1), 0..0)
}

#[test]
fn nothing_takes_no_time() {
    assert_eq!(clock().cost(), RecoveryCost::default());
}

#[test]
fn bytes_of_a_line_are_read_once() {
    let mut clock = clock();
    clock.read(0x1008, 16);
    clock.read(0x1000, 64);
    let cost = clock.cost();
    assert_eq!(cost.cycles, ROW_READ + LINK);
    assert_eq!((cost.reads, cost.read_bytes), (1, 64));
}

#[test]
fn bytes_across_two_rows_are_two_operations() {
    let mut clock = clock();
    clock.read(ROW_BYTES - 8, 16);
    let cost = clock.cost();
    assert_eq!((cost.reads, cost.read_bytes), (2, 128));
    assert_eq!(cost.cycles, ROW_READ + 2 * LINK, "two banks, one link");
}

#[test]
fn a_scan_is_bound_by_the_link() {
    let mut clock = clock();
    let rows = 512;
    clock.read(0, (rows * ROW_BYTES) as usize);
    let cost = clock.cost();
    assert_eq!((cost.reads, cost.read_bytes), (rows, rows * ROW_BYTES));
    // The link takes 320 cycles for a row, the banks together less.
    assert_eq!(cost.cycles, ROW_READ + rows * ROW_BYTES / 64 * LINK);
}

#[test]
fn lines_of_one_bank_are_bound_by_it() {
    let mut clock = clock();
    let banks = table_iv(1).nvm.banks;
    let mut rows = (0..).filter(|&row| bank_of_row(row, banks) == 0);
    let rows: [u64; 4] = std::array::from_fn(|_| rows.next().expect("there are more"));
    for row in rows {
        clock.read(row * ROW_BYTES, 64);
    }
    assert_eq!(clock.cost().cycles, rows.len() as u64 * ROW_READ + LINK);
}

#[test]
fn a_write_waits_for_what_was_read_before_it() {
    let mut clock = clock();
    clock.read(0, 64);
    clock.write(ROW_BYTES, 64);
    let cost = clock.cost();
    assert_eq!(cost.cycles, (ROW_READ + LINK) + LINK + ROW_WRITE);
    assert_eq!((cost.writes, cost.written_bytes), (1, 64));
}

#[test]
fn what_was_written_need_not_be_read() {
    let mut clock = clock();
    clock.write(0, 128);
    let before = clock.cost();
    clock.read(64, 64);
    assert_eq!(clock.cost(), before);
}

#[test]
fn lines_are_loaded_into_dram_when_they_have_arrived() {
    let mut specification = table_iv(1);
    specification.dram.present = true;
    let mut clock = RecoveryClock::new(&specification, 0..0);
    clock.read(0, 64);
    clock.load(5);
    let cost = clock.cost();
    assert_eq!((cost.loaded_lines, cost.writes), (1, 0));
    assert!(cost.cycles > ROW_READ + LINK);
}

/// A device reads a row into its buffer, without link and cache, and what it writes waits for that.
#[test]
fn a_device_recovers_with_its_banks_alone_and_software_begins_afterwards() {
    let mut clock = clock();
    clock.device_begins();
    clock.read(8, 16);
    clock.read(8, 16);
    assert_eq!(clock.cost().cycles, 2 * ROW_READ, "one bank, read twice");
    assert_eq!((clock.cost().reads, clock.cost().read_bytes), (2, 32));
    clock.write(ROW_BYTES, 64);
    let device = 2 * ROW_READ + ROW_WRITE;
    assert_eq!(clock.cost().cycles, device);
    clock.devices_end();
    assert_eq!(clock.cost().cycles, device);
    clock.read(0, 64);
    assert_eq!(clock.cost().cycles, device + ROW_READ + LINK);
}

/// A clock that asks the controllers for every row of every range, one after the other.
struct Plain {
    map: PhysicalMap,
    controllers: Vec<Controller>,
    cached: Vec<u64>,
    arrived: Cycles,
    cost: RecoveryCost,
}

impl Plain {
    fn new(specification: &Specification, home: &Range<u64>) -> Self {
        let map = specification.physical_map();
        let mut controllers = Controller::all(specification);
        for (module, controller) in controllers.iter_mut().enumerate() {
            controller.interleave_home(map.share(module, home));
        }
        Self {
            map,
            controllers,
            cached: vec![
                u64::MAX;
                specification.harts * specification.llc.bytes_per_hart / LINE_BYTES
            ],
            arrived: 0,
            cost: RecoveryCost::default(),
        }
    }

    fn charge(&mut self, writes: bool, address: u64, length: usize) {
        let pieces: Vec<_> = (self.map.pieces(address..address + length as u64)).collect();
        for piece in pieces {
            let Place { module, offset } = piece.place;
            let controller = &mut self.controllers[module];
            for row in controller.placement().by_row(offset, piece.length) {
                let mut missing = 0;
                for &(at, length) in &row {
                    let first = piece.address + (at - offset);
                    for line in first / 64..=(first + length as u64 - 1) / 64 {
                        let set = (line % self.cached.len() as u64) as usize;
                        missing += usize::from(self.cached[set] != line);
                        self.cached[set] = line;
                    }
                }
                let length = if writes {
                    row.iter().map(|piece| piece.1).sum()
                } else {
                    missing * LINE_BYTES
                };
                let request = Request {
                    address: row[0].0,
                    length,
                    path: Path::Link,
                    not_before: 0,
                };
                if writes {
                    controller.write(&request, self.arrived);
                    self.cost.writes += 1;
                    self.cost.written_bytes += length as u64;
                } else if length > 0 {
                    self.arrived = self.arrived.max(controller.read(&request, 0).done);
                    self.cost.reads += 1;
                    self.cost.read_bytes += length as u64;
                }
            }
        }
    }

    fn cost(&self) -> RecoveryCost {
        let written = self.controllers.iter().map(Controller::quiet_at).max();
        let cycles = self.arrived.max(written.unwrap_or(0));
        RecoveryCost {
            cycles,
            ..self.cost
        }
    }
}

/// Most of what recovery asks for is one piece of one row, for which the clock makes no list.
#[test]
fn what_is_one_piece_is_charged_as_any_range() {
    for seed in seeds(3) {
        for interleaving in [Interleaving::Row, Interleaving::Line] {
            for (banks, modules) in [(8, 0), (3, 0), (16, 2)] {
                for harts in [1, 3] {
                    let mut specification = table_iv(harts);
                    specification.nvm.home_interleaving = interleaving;
                    specification.nvm.banks = banks;
                    specification.llc.bytes_per_hart = 256 << 10;
                    let persistent =
                        |name| (name, RegionKind::Persistent, Persistence::Media, "pool");
                    add(&mut specification, &["a", "b"].map(persistent)[..modules]);
                    one_piece_is_charged_as_any_range(&specification, seed);
                }
            }
        }
    }
}

fn one_piece_is_charged_as_any_range(specification: &Specification, seed: u64) {
    let home = 0..specification.nvm.bytes / 2;
    let mut random = Random::new(seed);
    let mut clock = RecoveryClock::new(specification, home.clone());
    let mut plain = Plain::new(specification, &home);
    let bytes = specification.physical_map().bytes();
    for step in 0..4000 {
        let (address, length) = match random.below(8) {
            0 => (random.below(bytes), random.below(5000)),
            1 | 2 => (random.below(bytes / 2048) * 2048, 2048),
            // Few lines, so that they come again.
            3 => (random.below(300u64) * 64, 64),
            _ => (random.below(bytes / 64) * 64, 64),
        };
        let length = length.min(bytes - address) as usize;
        let writes = random.below(4) > 0;
        if writes {
            clock.write(address, length);
        } else {
            clock.read(address, length);
        }
        plain.charge(writes, address, length);
        assert_eq!(
            clock.cost(),
            plain.cost(),
            "seed {seed}, step {step}: {specification:?}"
        );
    }
}
