//! *Partitioned persist ordering* (section 4 of the NearPM paper): the four invariants, of a run and of what
//! recovery brings back.
//!
//! It follows the accesses of the processor and of the devices to each module, in the order in which the
//! module hears of them, and takes the devices' word for when they have taken a command.
//!
//! - *Invariants 1 and 2*: what the processor accesses behind a command does not reach the banks before the
//!   command is done with those bytes, if one of the two writes; likewise a command behind another. Bytes
//!   that programs leave to the devices, their logs, are ordered among the devices alone. A command comes to
//!   every device that has a part of its operand, before its sender goes on to what is behind it.
//! - *Invariant 3*: where devices agree on when a transaction's log is deleted, each has done what is before
//!   it, and none writes the deletion earlier.
//! - *Invariant 4*: after a cut, memory is as all writes that survive and all commands that were taken leave
//!   it, in that order; a log is deleted if every device had been told to, and else not; the entries that a
//!   command makes hold what was there before it, and none is written over that recovery may need; an
//!   operation leaves what it means.

mod command;
mod image;
mod logs;
mod operations;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::ops::Range;

use perdure_hardware::line::{Line, LineNumber};
use perdure_hardware::memory::Memory;
use perdure_hardware::physical_map::PhysicalMap;
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::{Accessor, Traced};

use super::{
    Beginning, Breach, Evidence, Fault, Judgement, Oracle, Promise, Remember, Witness, Wrong,
    breaches_until,
};
use crate::Design;
use crate::bytes::overlap;
use crate::layout::Layout;
use crate::nearpm::operations::Operands;
use crate::nearpm::{
    Assembly, MAP, NearPm, POINT_AREA, POINT_DONE, POINT_SYNCHRONISED, POINT_TAKEN,
};
use command::{Access, Command, counts_from};
use image::{By, Image};

/// What is longer than any command takes.
const NEVER: Cycles = 1 << 40;
const PAGE: u64 = 4096;

/// Entries of a transaction: until when they are something to somebody, and where they lie.
type Entries = (Cycles, Vec<Range<u64>>);

/// The oracle.
#[derive(Debug)]
pub struct PartitionedPersistOrdering {
    image: Image,
    commands: HashMap<u64, Command>,
    /// By module, which device it is.
    devices: BTreeMap<usize, usize>,
    accesses: VecDeque<Access>,
    /// By device and key, when the entries of the transaction that runs survive, and where they are.
    entries: HashMap<(usize, u64), Entries>,
    /// By device and the command that ends their transaction, entries that recovery may need, until they are
    /// dead.
    ended: BTreeMap<(usize, u64), Entries>,
    /// Which thread runs on which hart.
    threads: BTreeMap<usize, u32>,
    /// By thread of the system and key, the pages that it has mapped.
    pages: HashMap<(u32, u64), BTreeSet<u64>>,
    /// What senders have sent of a command.
    assembly: Assembly,
    /// What programs leave to the devices.
    managed: BTreeSet<(u64, u64)>,
    /// Commands that devices have taken since a hart last stored to one, with what a message takes to there.
    just_taken: Vec<(u64, Cycles)>,
    /// What is wrong from a moment on, whatever is found after a cut.
    wrong: Vec<Wrong>,
}

impl Promise for PartitionedPersistOrdering {
    const NAME: &'static str = "partitioned-persist-ordering";

    fn scope(map: &PhysicalMap, _: &Layout) -> Range<u64> {
        (map.pools().next()).map_or(0..0, |region| NearPm::pool_data(&region))
    }

    fn begin(run: &Witness, _: Beginning, _: Remember) -> io::Result<Self> {
        let memory = &run.hardware.memory;
        let region = memory.map().region(run.range.start);
        let modules = region.map_or(&[][..], |region| &region.modules);
        Ok(Self {
            image: Image::new(run.range.clone(), &memory.arena),
            commands: HashMap::new(),
            devices: modules.iter().copied().zip(0..).collect(),
            accesses: VecDeque::new(),
            entries: HashMap::new(),
            ended: BTreeMap::new(),
            threads: BTreeMap::new(),
            pages: HashMap::new(),
            assembly: Assembly::default(),
            managed: BTreeSet::new(),
            just_taken: Vec::new(),
            wrong: Vec::new(),
        })
    }
}

impl PartitionedPersistOrdering {
    fn breaks(&mut self, from: Cycles, message: String) {
        self.wrong.push((from, Fault::Causality, message));
    }

    fn take(&mut self, memory: &Memory, event: Traced) {
        match event {
            Traced::Accessed {
                module,
                by,
                address,
                length,
                wrote,
                when,
            } => {
                let bytes = address..address + length as u64;
                let by = match by {
                    Accessor::Host => By::Host(when[1]),
                    Accessor::Device { command } => By::Device(self.device(module), command),
                };
                self.accessed((module, by), bytes, wrote, when);
            }
            Traced::Reached {
                module,
                point,
                of,
                at,
            } => self.reached(memory, (module, point), &of, at),
            Traced::Ran { hart, thread } => {
                self.threads.insert(hart, thread);
            }
            Traced::Instructed {
                hart,
                function: MAP,
                operands: [physical, words],
                value: 0,
                ..
            } => {
                let owner = (self.thread(hart), words & 0xffff);
                let pages = self.pages.entry(owner).or_default();
                pages.insert(physical / PAGE);
            }
            Traced::Commanded {
                hart, bytes, taken, ..
            } => self.goes_on(hart, &bytes, taken),
            _ => {}
        }
    }

    fn device(&self, module: usize) -> usize {
        self.devices.get(&module).copied().unwrap_or_default()
    }

    fn accessed(
        &mut self,
        (module, by): (usize, By),
        bytes: Range<u64>,
        wrote: Option<Box<[u8]>>,
        [begins, done]: [Cycles; 2],
    ) {
        self.check_order((module, by), &bytes, wrote.is_some(), begins);
        if let By::Device(device, number) = by {
            self.accesses.push_back(Access {
                module,
                command: number,
                bytes: bytes.clone(),
                writes: wrote.is_some(),
                done,
            });
            self.check_deletion(device, number, wrote.is_some(), begins);
            let command = self.commands.entry(number).or_default();
            if let (true, Some(wrote)) = (command.logs(), &wrote) {
                command.writes.push((bytes.start, wrote.clone()));
                let entries = self.entries.entry((device, command.key)).or_default();
                entries.0 = done.max(entries.0);
                entries.1.push(bytes.clone());
                self.check_overwriting(device, number, &bytes, begins);
            } else if command.ends_transaction()
                && let Some(ended) = self.ended.get_mut(&(device, number))
            {
                ended.0 = done;
            }
            if wrote.is_some() {
                self.check_written(number, device, &bytes, begins);
            }
        }
        if let Some(wrote) = wrote {
            self.image.write(by, bytes.start, &wrote);
        }
    }

    fn reached(&mut self, memory: &Memory, (module, point): (usize, u16), of: &[u64], at: Cycles) {
        match (point, of) {
            (POINT_AREA, [start, end]) => {
                self.managed.insert((*start, *end));
            }
            (
                POINT_TAKEN,
                [
                    number,
                    device,
                    opcode,
                    devices,
                    agreed,
                    key,
                    start,
                    end,
                    more @ ..,
                ],
            ) => {
                let command = self.commands.entry(*number).or_default();
                command.opcode = *opcode as u8;
                command.devices = *devices as u8;
                command.agreed = *agreed != 0;
                command.key = *key;
                command.operand = *start..*end;
                command.taken.insert(*device as usize, at);
                self.just_taken
                    .push((*number, at - memory.latency_of_link(module)));
                self.check_devices(memory.map(), *number, at);
                if let [second, pool, pool_end] = *more {
                    let (first, pool) = (*start..*end, pool..pool_end);
                    let operands = Operands {
                        first,
                        second,
                        pool,
                    };
                    self.expect(memory.map(), *number, *device as usize, &operands);
                }
            }
            (POINT_DONE, [number, device]) => {
                self.done(memory.map(), module, (*number, *device as usize), at);
            }
            (POINT_SYNCHRONISED, [number, device]) => {
                self.synchronised(*number, *device as usize, at);
            }
            _ => {}
        }
    }

    fn thread(&self, hart: usize) -> u32 {
        self.threads.get(&hart).copied().unwrap_or(hart as u32)
    }

    /// Devices do what was sent, to pages that the MMU has shown them to be the sender's, and nothing else;
    /// and a sender goes on when every device of its command has room for it.
    fn goes_on(&mut self, hart: usize, bytes: &[u8], at: Cycles) {
        let thread = self.thread(hart);
        let word = <[u8; 4]>::try_from(bytes).map(u32::from_le_bytes);
        let sent = word.ok().and_then(|word| self.assembly.take(thread, word));
        for (number, _) in self.just_taken.clone() {
            let command = &self.commands[&number];
            let key = sent.map(|sent| u64::from(sent.pool) | u64::from(sent.thread) << 8);
            let pages = self.pages.get(&(thread, command.key));
            let has = |page| pages.is_some_and(|pages| pages.contains(&page));
            let outside = self.outside(number, has);
            let message = if key.is_some_and(|key| key != command.key) {
                Some(format!(
                    "the devices got another command {number} than was sent"
                ))
            } else {
                outside.map(|outside| {
                    format!(
                        "command {number} works on {outside:#x}, which is in no pool that its sender has mapped"
                    )
                })
            };
            if let Some(message) = message {
                self.breaks(at, message);
            }
        }
        let early = self.just_taken.iter().find(|(_, sent)| at < *sent).copied();
        self.just_taken.clear();
        if let Some((number, sent)) = early {
            self.breaks(
                at,
                format!(
                    "invariant 2: the sender of command {number} goes on at {at}, and could not have sent it before {sent}"
                ),
            );
        }
    }

    fn done(
        &mut self,
        map: &PhysicalMap,
        module: usize,
        (number, device): (u64, usize),
        at: Cycles,
    ) {
        let command = self.commands.entry(number).or_default();
        command.done.insert(device, at);
        let taken = command.taken.get(&device).copied().unwrap_or_default();
        if at - taken > NEVER {
            self.breaks(taken, format!("command {number} hangs device {device}"));
        } else if command.logs() {
            self.check_entries(map, module, number, at);
        } else if !command.effects.is_empty() {
            self.check_effect(number, device, at);
        } else if command.ends_transaction() {
            let entries = self.entries.remove(&(device, command.key));
            let (entries, places) = entries.unwrap_or_default();
            self.ended.insert((device, number), (Cycles::MAX, places));
            if entries > at {
                self.breaks(
                    at,
                    format!(
                        "invariant 3: device {device} takes the transaction that command {number} ends for done at {at}, before its entries survive at {entries}"
                    ),
                );
            }
        }
    }

    fn synchronised(&mut self, number: u64, device: usize, at: Cycles) {
        let command = self.commands.entry(number).or_default();
        command.synchronised.insert(device, at);
        let late = |other: &usize| command.done.get(other).is_none_or(|done| *done > at);
        let late = command.others().find(late).filter(|_| command.agreed);
        if let Some(late) = late {
            self.breaks(
                at,
                format!(
                    "invariant 3: device {device} takes command {number} for complete at {at}, before device {late} has done what is before it"
                ),
            );
        }
    }

    fn is_managed(&self, bytes: &Range<u64>) -> bool {
        let mut areas = self.managed.iter();
        areas.any(|(start, end)| overlap(bytes, &(*start..*end)))
    }

    /// Invariants 1 and 2: nothing passes what a command works on.
    fn check_order(
        &mut self,
        (module, by): (usize, By),
        bytes: &Range<u64>,
        writes: bool,
        begins: Cycles,
    ) {
        let mut before = self.accesses.iter().filter(|one| {
            one.module == module
                && one.done > begins
                && (one.writes || writes)
                && overlap(&one.bytes, bytes)
        });
        let passed = before.find(|one| match by {
            By::Host(_) => !self.is_managed(bytes),
            By::Device(_, command) => one.command != command,
        });
        let Some(passed) = passed else {
            return;
        };
        let verb = |writes: bool| if writes { "write" } else { "read" };
        let who = match by {
            By::Host(_) => "the processor".to_owned(),
            By::Device(_, command) => format!("command {command}"),
        };
        let message = format!(
            "invariant 1: the {} of {:#x} by {who} reaches the banks at {begins}, before command {}'s {} of {:#x} is done at {}",
            verb(writes),
            bytes.start,
            passed.command,
            verb(passed.writes),
            passed.bytes.start,
            passed.done,
        );
        self.breaks(begins, message);
    }

    /// Invariant 3, its other side: what comes after a synchronisation is not persisted before it.
    fn check_deletion(&mut self, device: usize, number: u64, writes: bool, begins: Cycles) {
        let Some(command) = self.commands.get(&number) else {
            return;
        };
        let synchronised = command.synchronised.get(&device).copied();
        let late = synchronised.is_none_or(|at| begins < at);
        if writes && command.ends_transaction() && late {
            self.breaks(
                begins,
                format!(
                    "invariant 3: device {device} deletes the log of command {number} at {begins}, before it is complete"
                ),
            );
        }
    }

    /// Which line is wrong, and who wrote it last.
    fn difference(&self, evidence: &Evidence) -> String {
        let counts = |by| counts_from(&self.commands, by) <= evidence.at;
        let Some((address, by)) = self.image.difference(evidence.image, counts) else {
            return "invariant 4: memory is not as it was left".into();
        };
        let by = match by {
            None => "as it was before".to_owned(),
            Some(By::Host(at)) => format!("as the processor left it at {at}"),
            Some(By::Device(_, command)) => format!("as command {command} leaves it"),
        };
        format!("invariant 4: the line at {address:#x} should be {by}, and is not")
    }
}

impl Oracle for PartitionedPersistOrdering {
    fn wants_trace(&self) -> bool {
        true
    }

    fn follow(&mut self, run: &Witness, events: Vec<Traced>) {
        let memory = &run.hardware.memory;
        for event in events {
            self.take(memory, event);
        }
        let (horizon, commands) = (memory.horizon(), &self.commands);
        self.image.settle(horizon, |by| counts_from(commands, by));
        self.accesses.retain(|one| one.done > horizon);
        self.ended.retain(|_, (dead, _)| *dead > horizon);
    }

    fn wrong_lines(&self, evidence: &Evidence) -> Option<Vec<(LineNumber, Line)>> {
        let counts = |by| counts_from(&self.commands, by) <= evidence.at;
        Some(self.image.wrong(evidence.image, counts))
    }

    fn judge(&self, evidence: &Evidence) -> Judgement {
        if let Err(why) = evidence.recovered {
            return Judgement::refused(why.to_string(), 0);
        }
        let mut breaches = breaches_until(evidence.at, &self.wrong);
        let counts = |by| counts_from(&self.commands, by) <= evidence.at;
        if self.image.digest(counts) != evidence.memory {
            breaches.push(Breach {
                fault: Fault::Memory,
                judged_by_epoch: 0,
                message: self.difference(evidence),
            });
        }
        let taken = self.commands.values();
        let taken = taken.filter(|one| one.taken.values().any(|taken| *taken <= evidence.at));
        let commands = taken.count();
        Judgement {
            found: Some(format!("the pools are as {commands} commands left them")),
            breaches,
            ..Judgement::default()
        }
    }
}
