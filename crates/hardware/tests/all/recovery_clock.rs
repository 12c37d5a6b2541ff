//! What a recovery takes, in closed form: on an idle machine of 2 GHz a row read takes 256 cycles, a
//! row write 736, and a line 10 on the link.

use crate::support::table_iv;
use perdure_hardware::placement::bank_of_row;
use perdure_hardware::recovery_clock::{RecoveryClock, RecoveryCost};
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
