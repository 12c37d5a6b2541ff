//! Recovery (section 5.3.3): the devices load what their energy has saved, and replay it up to the latest
//! synchronisation point that all of them had reached.
//!
//! Each replays its own commands and the processor's writes that it held, in the order in which it took
//! them in, until it comes to the end of a transaction; that is done when every device that was told of it
//! has come so far, or has it behind it. An end of which one device never heard is dropped, on all: software
//! rolls the transaction back.
//!
//! Always true here:
//! - What has been done is not done again: a write that was replayed is what an entry before it would copy
//!   the second time. Every item counts, in a word of its own, before the next one begins.
//! - Nothing that was saved is given up before all devices are done.

use std::ops::Range;

use perdure_hardware::line::line_of;

use super::area::{self, Area, Fill};
use super::bugs::Flaws;
use super::command::Opcode;
use super::geometry::Geometry;
use super::operations::{self, Operands, Operation, Site};
use super::record::{Item, PROGRESS, RESERVED, Record, SavedCommand};
use crate::bytes::word;
use crate::surviving::{Interrupted, Surviving};

const PAGE: u64 = 4096;

/// A device that recovers.
struct Replaying {
    device: usize,
    geometry: Geometry,
    place: u64,
    items: Vec<Item>,
    /// Items that are done.
    done: usize,
}

/// Brings the devices' memory to where it would be if everything had been done that they had taken.
pub fn recover(
    image: &mut Surviving,
    region: &Range<u64>,
    flaws: &Flaws,
) -> Result<(), Interrupted> {
    let mut all = Vec::new();
    for place in (region.start..region.start + RESERVED).step_by(PAGE as usize) {
        let found = Record::read(place, region, &mut |at, length| bytes(image, at, length));
        let Some((record, geometry)) = found else {
            continue;
        };
        let progress = word_at(image, place + PROGRESS);
        let mut items = record.items();
        if flaws.replays_writes_first {
            items.sort_by_key(|item| matches!(item, Item::Command(_)));
        }
        all.push(Replaying {
            device: record.device,
            geometry,
            place,
            items,
            done: if flaws.replays_from_start {
                0
            } else {
                progress as usize
            },
        });
    }
    if flaws.clears_first {
        clear(image, &all)?;
    }
    // Each round, every device goes as far as it can; nobody waits for somebody who waits for it, because
    // all were told of ends in the same order.
    loop {
        let mut moved = false;
        for index in 0..all.len() {
            while let Some(item) = all[index].items.get(all[index].done).cloned() {
                match &item {
                    Item::Write(write) => image.write_line(line_of(write.address), &write.bytes)?,
                    Item::Command(command) if command.opcode == Opcode::CommitLog as u8 => {
                        match ends(image, &all, command, flaws) {
                            Ends::Waits => break,
                            Ends::Never => {}
                            Ends::Now => end(image, &all[index], command)?,
                        }
                    }
                    Item::Command(command) => replay(image, &all[index], command, flaws)?,
                }
                moved = true;
                let one = &mut all[index];
                one.done += 1;
                image.write(one.place + PROGRESS, &(one.done as u64).to_le_bytes())?;
            }
        }
        if !moved {
            break;
        }
    }
    if flaws.clears_first {
        return Ok(());
    }
    clear(image, &all)
}

fn clear(image: &mut Surviving, all: &[Replaying]) -> Result<(), Interrupted> {
    for one in all {
        image.write(one.place, &[0; 8])?;
    }
    // A record that comes later begins at its first item.
    for one in all {
        image.write(one.place + PROGRESS, &[0; 8])?;
    }
    Ok(())
}

fn bytes(image: &Surviving, address: u64, length: usize) -> Vec<u8> {
    image
        .read(address, length)
        .map_or_else(|_| vec![0; length], |bytes| bytes.to_vec())
}

fn word_at(image: &Surviving, address: u64) -> u64 {
    word(&bytes(image, address, 8), 0)
}

/// Whether a transaction ends.
enum Ends {
    Now,
    /// Another device has not come so far.
    Waits,
    /// Another device never heard of it.
    Never,
}

fn ends(image: &Surviving, all: &[Replaying], command: &SavedCommand, flaws: &Flaws) -> Ends {
    if flaws.drops_commits {
        return Ends::Never;
    }
    let Some(geometry) = all.first().map(|one| &one.geometry) else {
        return Ends::Never;
    };
    let mut waits = false;
    for device in 0..geometry.devices {
        if command.devices & 1 << device == 0 || flaws.commits_alone {
            continue;
        }
        let replaying = all.iter().find(|one| one.device == device);
        let own = replaying.and_then(|one| {
            let is_it =
                |item: &Item| matches!(item, Item::Command(of) if of.number == command.number);
            Some((one.items.iter().position(is_it)?, one.done))
        });
        match own {
            Some((at, done)) => waits |= done < at,
            None if committed(image, geometry, device, command) >= command.transaction => {}
            None => return Ends::Never,
        }
    }
    if waits { Ends::Waits } else { Ends::Now }
}

fn area_of(geometry: &Geometry, device: usize, command: &SavedCommand) -> Option<Area> {
    let start = geometry.region.start;
    Area::new(
        geometry,
        device,
        &(start + command.area.start..start + command.area.end),
    )
}

/// The last transaction that has ended, as a device has it.
fn committed(image: &Surviving, geometry: &Geometry, device: usize, command: &SavedCommand) -> u64 {
    let area = area_of(geometry, device, command);
    area.map_or(0, |area| word_at(image, area.header + area::COMMITTED))
}

/// Deletes a device's entries of a transaction.
fn end(image: &mut Surviving, one: &Replaying, command: &SavedCommand) -> Result<(), Interrupted> {
    let Some(area) = area_of(&one.geometry, one.device, command) else {
        return Ok(());
    };
    image.write(
        area.header + area::COMMITTED,
        &command.transaction.to_le_bytes(),
    )
}

/// Does a command again, from what is in memory now.
fn replay(
    image: &mut Surviving,
    one: &Replaying,
    command: &SavedCommand,
    flaws: &Flaws,
) -> Result<(), Interrupted> {
    match Opcode::of(command.opcode) {
        Some(Opcode::UndologCreate) => log(image, one, command, area::Kind::Undo, flaws),
        Some(Opcode::CheckpointCreate) => log(image, one, command, area::Kind::Checkpoint, flaws),
        Some(Opcode::LogReset) => {
            let area = area_of(&one.geometry, one.device, command);
            let writes = area.iter();
            let mut writes = writes.flat_map(|area| area::reset_writes(area, command.second));
            writes.try_for_each(|(address, bytes)| image.write(address, &bytes))
        }
        Some(_) => Ok(()),
        None => match operations::find(command.opcode) {
            Some(operation) => operate(image, one, command, operation),
            // It was refused.
            None => Ok(()),
        },
    }
}

fn operate(
    image: &mut Surviving,
    one: &Replaying,
    command: &SavedCommand,
    operation: &Operation,
) -> Result<(), Interrupted> {
    let start = one.geometry.region.start;
    let operands = Operands {
        first: command.operand..command.operand + u64::from(command.size),
        second: command.second,
        pool: start + command.area.start..start + command.area.end,
    };
    let mut site = Site {
        geometry: &one.geometry,
        device: one.device,
        read: &mut |at, length| bytes(image, at, length),
    };
    let plan = (operation.plan)(&mut site, &operands);
    for step in plan.unwrap_or_default().steps {
        let read = bytes(
            image,
            step.from.start,
            (step.from.end - step.from.start) as usize,
        );
        image.write(step.to, &step.makes.of(read))?;
    }
    Ok(())
}

fn log(
    image: &mut Surviving,
    one: &Replaying,
    command: &SavedCommand,
    kind: area::Kind,
    flaws: &Flaws,
) -> Result<(), Interrupted> {
    let Some(area) = area_of(&one.geometry, one.device, command) else {
        return Ok(());
    };
    let operand = command.operand..command.operand + u64::from(command.size);
    let mut fill = Fill {
        piece: (command.entry >> 32) as usize,
        offset: command.entry & 0xffff_ffff,
    };
    let half = area.half(command.transaction);
    let entries = area::place(&one.geometry, one.device, half, &operand, &mut fill);
    for entry in entries.unwrap_or_default() {
        let data = bytes(
            image,
            entry.data.start,
            (entry.data.end - entry.data.start) as usize,
        );
        let target = entry.data.start - command.second;
        image.write(entry.entry + area::LINE, &data)?;
        if !flaws.no_metadata {
            let header = area::header_of(kind, command.transaction, target, &data);
            image.write(entry.entry, &header)?;
        }
    }
    Ok(())
}
