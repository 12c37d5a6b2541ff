//! Decoding a command, and translating its addresses (section 5.2, steps 2a and 3a; section 5.4).

use std::ops::Range;

use perdure_hardware::device::Inside;
use perdure_hardware::time::Cycles;

use super::{Log, NearPmDevice};
use crate::bytes::word;
use crate::nearpm::area::{self, Area, Fill};
use crate::nearpm::command::{Asked, Command, Fault, Opcode};
use crate::nearpm::operations::{Operands, Operation, Site, Step};
use crate::nearpm::packet::Packet;
use crate::nearpm::points::{POINT_AREA, reached};
use crate::nearpm::table::{AddressTable, Mapping};

/// What a command comes to.
pub(super) struct Work {
    pub kind: Doing,
    pub touches: Vec<(Range<u64>, bool)>,
    /// It begins no earlier, whatever the dispatcher finds.
    pub not_before: Cycles,
    pub entry: u64,
    pub second: u64,
    pub transaction: u64,
    pub area: Range<u64>,
}

pub(super) enum Doing {
    Nothing,
    Entries(area::Kind, Vec<area::Logged>, u64),
    Steps(Vec<Step>),
    Commit((u8, u8)),
    Reset(Box<Log>, (u8, u8)),
}

impl Work {
    pub fn nothing() -> Self {
        Self {
            kind: Doing::Nothing,
            touches: Vec::new(),
            not_before: 0,
            entry: 0,
            second: 0,
            transaction: 0,
            area: 0..0,
        }
    }
}

impl NearPmDevice {
    pub(super) fn decode(
        &mut self,
        inside: &mut Inside,
        packet: &Packet,
        asked: Option<Asked>,
    ) -> Result<Work, Fault> {
        let command = &packet.command;
        let asked = asked.ok_or(Fault::Opcode)?;
        if matches!(asked, Asked::Transaction(Opcode::Recover)) {
            let told = std::mem::replace(&mut self.recovery_told, true);
            return if told {
                Err(Fault::Recovered)
            } else {
                Ok(Work::nothing())
            };
        }
        let pool = self.pool(packet)?;
        let operand = match asked.operand_bytes_max() {
            None => 0..0,
            Some(most) => {
                let size = u64::from(command.size);
                if size == 0 || size > most {
                    return Err(Fault::Size);
                }
                self.translate(&pool, command.operand, size)?
            }
        };
        let opcode = match asked {
            Asked::Transaction(opcode) => opcode,
            Asked::Operation(one) => return self.operation(inside, one, command, &pool, operand),
        };
        let key = (command.pool, command.thread);
        match opcode {
            Opcode::UndologCreate => self.entries(area::Kind::Undo, key, &operand, &pool),
            Opcode::CheckpointCreate => self.entries(area::Kind::Checkpoint, key, &operand, &pool),
            Opcode::CommitLog => self.commit(key),
            Opcode::LogReset => self.lay_log(inside, &operand, Some(command.second), key),
            Opcode::LogAttach => self.lay_log(inside, &operand, None, key),
            Opcode::Recover => Ok(Work::nothing()),
        }
    }

    fn pool(&self, packet: &Packet) -> Result<Mapping, Fault> {
        let Command { pool, thread, .. } = packet.command;
        let found = self.table.of(pool, thread, packet.owner);
        if let (Err(_), true) = (found, self.flaws.ignores_owner) {
            let index = AddressTable::index(pool, thread).ok_or(Fault::Pool)?;
            return self.table.get(index).copied().ok_or(Fault::Pool);
        }
        found.copied()
    }

    fn translate(&self, pool: &Mapping, address: u64, bytes: u64) -> Result<Range<u64>, Fault> {
        let found = pool.translate(address, bytes);
        if let (None, true) = (&found, self.flaws.ignores_bounds) {
            let start = address
                .wrapping_sub(pool.virtual_start)
                .wrapping_add(pool.physical_start);
            let region = &self.geometry.region;
            let end = start.saturating_add(bytes);
            return (region.start <= start && end <= region.end)
                .then_some(start..end)
                .ok_or(Fault::Bounds);
        }
        found.ok_or(Fault::Bounds)
    }

    fn entries(
        &mut self,
        kind: area::Kind,
        key: (u8, u8),
        operand: &Range<u64>,
        pool: &Mapping,
    ) -> Result<Work, Fault> {
        let log = self.logs.get_mut(&key).ok_or(Fault::NoLog)?;
        let area = self.geometry.relative(&log.range);
        let before = log.fill;
        let number = if self.flaws.reuses_halves {
            0
        } else {
            log.running
        };
        let half = log.area.half(number);
        let mut fill = before;
        let placed = area::place(&self.geometry, self.index, half, operand, &mut fill);
        let placed = placed.ok_or(Fault::LogFull)?;
        log.fill = fill;
        let free = log.free[(log.running % 2) as usize];
        let mut touches: Vec<_> = vec![(operand.clone(), false)];
        touches.extend(placed.iter().map(|one| {
            let bytes = one.data.end - one.data.start;
            (one.entry..one.entry + area::LINE + bytes, true)
        }));
        Ok(Work {
            kind: Doing::Entries(kind, placed, log.running),
            touches,
            not_before: if self.flaws.reuses_halves { 0 } else { free },
            entry: (before.piece as u64) << 32 | before.offset,
            second: pool.physical_start,
            transaction: log.running,
            area,
        })
    }

    /// The device's part of an operation.
    fn operation(
        &self,
        inside: &Inside,
        operation: &Operation,
        command: &Command,
        pool: &Mapping,
        first: Range<u64>,
    ) -> Result<Work, Fault> {
        let second = match (operation.second_bytes)(first.end - first.start) {
            0 => command.second,
            bytes => self.translate(pool, command.second, bytes)?.start,
        };
        let operands = Operands {
            first,
            second,
            pool: pool.physical(),
        };
        let mut site = Site {
            geometry: &self.geometry,
            device: self.index,
            read: &mut |at, length| inside.bytes(at, length).to_vec(),
        };
        let plan = (operation.plan)(&mut site, &operands)?;
        let writes = plan.writes.into_iter().map(|bytes| (bytes, true));
        Ok(Work {
            kind: Doing::Steps(plan.steps),
            touches: std::iter::once((operands.first, false))
                .chain(writes)
                .collect(),
            second,
            area: self.geometry.relative(&operands.pool),
            ..Work::nothing()
        })
    }

    fn commit(&mut self, key: (u8, u8)) -> Result<Work, Fault> {
        let log = self.logs.get(&key).ok_or(Fault::NoLog)?;
        Ok(Work {
            kind: Doing::Commit(key),
            touches: vec![(log.area.header..log.area.header + area::LINE, true)],
            transaction: log.running,
            area: self.geometry.relative(&log.range),
            ..Work::nothing()
        })
    }

    fn lay_log(
        &self,
        inside: &mut Inside,
        range: &Range<u64>,
        number: Option<u64>,
        key: (u8, u8),
    ) -> Result<Work, Fault> {
        let pages = [range.start, range.end];
        if pages.iter().any(|end| !end.is_multiple_of(4096)) {
            return Err(Fault::NoLog);
        }
        // All devices say the same: a log that some of them had would never end a transaction.
        let areas = (0..self.geometry.devices).map(|one| Area::new(&self.geometry, one, range));
        let mut areas = areas.collect::<Option<Vec<_>>>().ok_or(Fault::NoLog)?;
        let area = areas.swap_remove(self.index);
        let header = inside.bytes(area.header, 16);
        let committed = match number {
            Some(number) => number,
            None if word(&header, 0) == area::HEADER_MAGIC => word(&header, 1),
            None => return Err(Fault::NoLog),
        };
        let log = Log {
            running: committed + 1,
            fill: Fill::default(),
            free: [0; 2],
            ready: 0,
            range: range.clone(),
            area,
        };
        let module = inside.module();
        inside.tell(|| reached(module, POINT_AREA, 0, &[range.start, range.end]));
        Ok(Work {
            touches: vec![(range.clone(), number.is_some())],
            area: self.geometry.relative(range),
            second: committed,
            kind: Doing::Reset(Box::new(log), key),
            ..Work::nothing()
        })
    }
}
