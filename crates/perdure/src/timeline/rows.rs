//! The persist order on its way to a file: rows in the order in which they become durable, as bytes that a
//! converter makes Parquet of (`perdure.timelines`).
//!
//! A row, all numbers little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | cycle accepted |
//! | 8 | cycle begun |
//! | 8 | cycle durable |
//! | 8 | address |
//! | 8 | home line's address |
//! | 8 | epoch that was executing |
//! | 4 | length of the data |
//! | 2 | module |
//! | 2 | hart, 65535 for none |
//! | 1 | traffic: 0 write-back, 1 flush, 2 log, 3 metadata |
//! | 7 | zero |
//! | length | data |
//!
//! The file is the converter's alone: it has no header, and one that was cut short lacks rows at its end.

use std::collections::BTreeMap;
use std::io::{self, Write};

use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::memory::Traffic;
use perdure_hardware::persist_order::{PersistRow, RowSink};
use perdure_hardware::time::Cycles;

use super::output::Output;

/// Who writes the rows.
pub struct Rows {
    output: Output,
    /// Not durable yet, or not known to be the next: by when they are, and in which order they came.
    waiting: BTreeMap<(Cycles, u64), PersistRow>,
    accepted: u64,
    /// Rows in the file.
    pub count: u64,
    /// Bytes of data in them.
    pub data_bytes: u64,
    /// Rows that are not in it, because it was full.
    pub left_out: u64,
    trouble: Option<io::Error>,
}

const fn number_of(traffic: Traffic) -> u8 {
    match traffic {
        Traffic::WriteBack => 0,
        Traffic::Flush => 1,
        Traffic::Log => 2,
        Traffic::Metadata => 3,
    }
}

fn encoded(row: &PersistRow) -> Vec<u8> {
    let home = row.home.wrapping_mul(LINE_BYTES as u64);
    let [accepted, begun, durable] = row.when;
    let mut bytes = Vec::with_capacity(64 + row.bytes.len());
    for word in [accepted, begun, durable, row.address, home, row.epoch] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend((row.bytes.len() as u32).to_le_bytes());
    bytes.extend((row.module as u16).to_le_bytes());
    let hart = row.hart.map_or(u16::MAX, |hart| hart as u16);
    bytes.extend(hart.to_le_bytes());
    bytes.push(number_of(row.traffic));
    bytes.extend([0; 7]);
    bytes.extend(&row.bytes);
    bytes
}

impl Rows {
    /// None so far.
    pub fn new(output: Output) -> Self {
        Self {
            output,
            waiting: BTreeMap::new(),
            accepted: 0,
            count: 0,
            data_bytes: 0,
            left_out: 0,
            trouble: None,
        }
    }

    fn write_until(&mut self, horizon: Cycles) -> io::Result<()> {
        while let Some(next) = self.waiting.first_entry()
            && next.key().0 < horizon
        {
            let row = next.remove();
            if self.left_out > 0 || self.output.is_full() {
                self.left_out += 1;
                continue;
            }
            self.count += 1;
            self.data_bytes += row.bytes.len() as u64;
            self.output.write_all(&encoded(&row))?;
        }
        Ok(())
    }

    /// Writes what is left, whenever it is durable, and ends the file.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(trouble) = self.trouble.take() {
            return Err(trouble);
        }
        self.write_until(Cycles::MAX)?;
        self.output.finish()
    }
}

impl RowSink for Rows {
    fn take(&mut self, rows: &mut Vec<PersistRow>, horizon: Cycles) {
        for row in rows.drain(..) {
            self.accepted += 1;
            self.waiting.insert((row.when[2], self.accepted), row);
        }
        if self.trouble.is_none() {
            self.trouble = self.write_until(horizon).err();
        }
        if self.trouble.is_some() {
            self.waiting.clear();
        }
    }
}
