//! *Partitioned persist ordering* (section 4 of the NearPM paper): the four invariants, of a run and of what
//! recovery brings back.
//!
//! It follows the accesses of the processor and of the devices to each module, in the order in which the module
//! hears of them, and takes the devices' word for when they have taken a command.
//!
//! - *Invariants 1 and 2*: what the processor accesses behind a command does not reach the banks before the
//!   command is done with those bytes, if one of the two writes; likewise a command behind another. Bytes that
//!   programs leave to the devices, their logs, are ordered among the devices alone.
//! - *Invariant 3*: where devices agree on when a transaction's log is deleted, each has done what is before it,
//!   and none writes the deletion earlier.
//! - *Invariant 4*: after a cut, memory is as all writes that survive and all commands that were taken leave it,
//!   in that order; a log is deleted if every device had been told to, and else not. So what recovery reads is
//!   what was persisted before the failure.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::ops::Range;

use perdure_hardware::arena::{Arena, Digest};
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of};
use perdure_hardware::physical_map::PhysicalMap;
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::{Accessor, Traced};

use super::{Beginning, Breach, Evidence, Fault, Judgement, Oracle, Promise, Remember, Witness};
use crate::Design;
use crate::layout::Layout;
use crate::nearpm::{NearPm, Opcode, POINT_AREA, POINT_DONE, POINT_SYNCHRONISED, POINT_TAKEN};

/// A command, as the devices speak of it.
#[derive(Clone, Debug, Default)]
struct Command {
    opcode: u8,
    devices: u8,
    /// They agree on when it is done.
    agreed: bool,
    taken: BTreeMap<usize, Cycles>,
    done: BTreeMap<usize, Cycles>,
    synchronised: BTreeMap<usize, Cycles>,
}

impl Command {
    fn ends_transaction(&self) -> bool {
        self.opcode == Opcode::CommitLog as u8
    }

    /// From when on a device's writes of it are there after a cut.
    fn counts_from(&self, device: usize) -> Cycles {
        let own = self.taken.get(&device).copied().unwrap_or(Cycles::MAX);
        if !self.agreed || !self.ends_transaction() {
            return own;
        }
        let all = (0..u8::BITS as usize).filter(|device| self.devices & 1 << device != 0);
        all.map(|device| self.taken.get(&device).copied().unwrap_or(Cycles::MAX))
            .fold(own, Cycles::max)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The processor; it survives from then on.
    Host(Cycles),
    /// A device, by its module, for a command.
    Device(usize, u64),
}

/// Bytes of a line that were written.
#[derive(Clone, Debug)]
struct Written {
    by: By,
    offset: usize,
    bytes: Box<[u8]>,
}

/// What a device did for a command.
#[derive(Clone, Debug)]
struct Access {
    module: usize,
    command: u64,
    bytes: Range<u64>,
    writes: bool,
    done: Cycles,
}

/// The oracle.
#[derive(Debug)]
pub struct PartitionedPersistOrdering {
    scope: Range<u64>,
    /// Memory when the run began.
    first: Arena,
    /// Lines that have been written, as every cut finds them unless something in `pending` counts.
    settled: HashMap<LineNumber, Line>,
    /// Of memory so.
    digest: Digest,
    pending: BTreeMap<LineNumber, VecDeque<Written>>,
    commands: HashMap<u64, Command>,
    /// By module, which device it is.
    devices: BTreeMap<usize, usize>,
    accesses: VecDeque<Access>,
    /// What programs leave to the devices.
    managed: BTreeSet<(u64, u64)>,
    /// What is wrong from a moment on, whatever is found after a cut.
    wrong: Vec<(Cycles, Fault, String)>,
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
            scope: run.range.clone(),
            digest: memory.arena.digest().unwrap_or_default(),
            first: memory.arena.clone(),
            settled: HashMap::new(),
            pending: BTreeMap::new(),
            commands: HashMap::new(),
            devices: modules.iter().copied().zip(0..).collect(),
            accesses: VecDeque::new(),
            managed: BTreeSet::new(),
            wrong: Vec::new(),
        })
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl PartitionedPersistOrdering {
    fn take(&mut self, event: Traced) {
        match event {
            Traced::Accessed {
                module,
                by,
                address,
                length,
                wrote,
                when: [begins, done],
            } => {
                let bytes = address..address + length as u64;
                let by = match by {
                    Accessor::Host => By::Host(done),
                    Accessor::Device { command } => By::Device(module, command),
                };
                self.check_order(module, by, &bytes, wrote.is_some(), begins);
                if let By::Device(_, command) = by {
                    self.accesses.push_back(Access {
                        module,
                        command,
                        bytes,
                        writes: wrote.is_some(),
                        done,
                    });
                    self.check_deletion(module, command, wrote.is_some(), begins);
                }
                if let Some(wrote) = wrote {
                    self.write(by, address, &wrote);
                }
            }
            Traced::Reached { point, of, at, .. } => self.reached(point, &of, at),
            _ => {}
        }
    }

    fn reached(&mut self, point: u16, of: &[u64], at: Cycles) {
        if let (POINT_AREA, [start, end]) = (point, of) {
            self.managed.insert((*start, *end));
            return;
        }
        let [number, device, more @ ..] = of else {
            return;
        };
        let device = *device as usize;
        let command = self.commands.entry(*number).or_default();
        match (point, more) {
            (POINT_TAKEN, [opcode, devices, agreed]) => {
                command.opcode = *opcode as u8;
                command.devices = *devices as u8;
                command.agreed = *agreed != 0;
                command.taken.insert(device, at);
            }
            (POINT_DONE, _) => {
                command.done.insert(device, at);
            }
            (POINT_SYNCHRONISED, _) => {
                command.synchronised.insert(device, at);
                let others = 0..u8::BITS as usize;
                let mut others = others.filter(|other| {
                    command.devices & 1 << other != 0
                        && command.done.get(other).is_none_or(|done| *done > at)
                });
                let late = others.next().filter(|_| command.agreed);
                if let Some(late) = late {
                    let message = format!(
                        "invariant 3: device {device} takes command {number} for complete at {at}, before device {late} has done what is before it"
                    );
                    self.wrong.push((at, Fault::Causality, message));
                }
            }
            _ => {}
        }
    }

    fn is_managed(&self, bytes: &Range<u64>) -> bool {
        let mut areas = self.managed.iter();
        areas.any(|(start, end)| overlap(bytes, &(*start..*end)))
    }

    /// Invariants 1 and 2: nothing passes what a command works on.
    fn check_order(
        &mut self,
        module: usize,
        by: By,
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
        self.wrong.push((begins, Fault::Causality, message));
    }

    /// Invariant 3, its other side: what comes after a synchronisation is not persisted before it.
    fn check_deletion(&mut self, module: usize, number: u64, writes: bool, begins: Cycles) {
        let device = self.devices.get(&module).copied().unwrap_or_default();
        let Some(command) = self.commands.get(&number) else {
            return;
        };
        let synchronised = command.synchronised.get(&device).copied();
        let late = synchronised.is_none_or(|at| begins < at);
        if writes && command.ends_transaction() && late {
            let message = format!(
                "invariant 3: device {device} deletes the log of command {number} at {begins}, before it is complete"
            );
            self.wrong.push((begins, Fault::Causality, message));
        }
    }

    fn write(&mut self, by: By, address: u64, bytes: &[u8]) {
        let mut at = address;
        while at < address + bytes.len() as u64 {
            let line = line_of(at);
            let next = ((line + 1) * LINE_BYTES as u64).min(address + bytes.len() as u64);
            let piece = &bytes[(at - address) as usize..(next - address) as usize];
            if self.scope.contains(&at) {
                self.pending.entry(line).or_default().push_back(Written {
                    by,
                    offset: at as usize % LINE_BYTES,
                    bytes: piece.into(),
                });
            }
            at = next;
        }
    }

    fn counts_from(&self, by: By) -> Cycles {
        match by {
            By::Host(survives) => survives,
            By::Device(module, command) => {
                let device = self.devices.get(&module).copied().unwrap_or_default();
                let command = self.commands.get(&command);
                command.map_or(Cycles::MAX, |command| command.counts_from(device))
            }
        }
    }

    fn settled(&self, line: LineNumber) -> Line {
        let settled = self.settled.get(&line);
        *settled.unwrap_or_else(|| self.first.line(line * LINE_BYTES as u64))
    }

    /// What no cut can come before any more is part of what every cut finds.
    fn settle(&mut self, horizon: Cycles) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|line, written| {
            let before = self.settled(*line);
            let mut now = before;
            while written
                .front()
                .is_some_and(|one| self.counts_from(one.by) <= horizon)
            {
                let one = written.pop_front().expect("it is there");
                now.0[one.offset..][..one.bytes.len()].copy_from_slice(&one.bytes);
            }
            if now != before {
                let address = *line * LINE_BYTES as u64;
                self.digest.replace(address, &before.0, &now.0);
                self.settled.insert(*line, now);
            }
            !written.is_empty()
        });
        self.pending = pending;
        self.accesses.retain(|one| one.done > horizon);
    }

    /// What a cut must find in a line.
    fn expected(&self, line: LineNumber, written: &VecDeque<Written>, at: Cycles) -> Line {
        let mut expected = self.settled(line);
        for one in written {
            if self.counts_from(one.by) <= at {
                expected.0[one.offset..][..one.bytes.len()].copy_from_slice(&one.bytes);
            }
        }
        expected
    }

    /// Which line is wrong, and who wrote it last.
    fn difference(&self, evidence: &Evidence) -> String {
        let found = |line: LineNumber| *evidence.image.line(line * LINE_BYTES as u64);
        for (&line, written) in &self.pending {
            let expected = self.expected(line, written, evidence.at);
            if found(line) == expected {
                continue;
            }
            let counting = written.iter().rev();
            let mut counting = counting.filter(|one| self.counts_from(one.by) <= evidence.at);
            let by = match counting.next().map(|one| one.by) {
                None => "as it was before".to_owned(),
                Some(By::Host(at)) => format!("as the processor left it at {at}"),
                Some(By::Device(_, command)) => format!("as command {command} leaves it"),
            };
            return format!(
                "invariant 4: the line at {:#x} should be {by}, and is not",
                line * LINE_BYTES as u64
            );
        }
        let mut lines = line_of(self.scope.start)..line_of(self.scope.end);
        let wrong = lines
            .find(|line| !self.pending.contains_key(line) && found(*line) != self.settled(*line));
        let line = wrong.unwrap_or_default();
        format!(
            "invariant 4: the line at {:#x}, which nothing was writing, is not what it was long before the cut",
            line * LINE_BYTES as u64
        )
    }
}

impl Oracle for PartitionedPersistOrdering {
    fn wants_trace(&self) -> bool {
        true
    }

    fn follow(&mut self, run: &Witness, events: Vec<Traced>) {
        for event in events {
            self.take(event);
        }
        self.settle(run.hardware.memory.horizon());
    }

    fn judge(&self, evidence: &Evidence) -> Judgement {
        if let Err(why) = evidence.recovered {
            return Judgement::refused(why.to_string(), 0);
        }
        let wrong = self.wrong.iter().filter(|(from, ..)| *from <= evidence.at);
        let mut breaches: Vec<Breach> = wrong
            .map(|(_, fault, message)| Breach {
                fault: *fault,
                judged_by_epoch: 0,
                message: message.clone(),
            })
            .collect();
        let mut digest = self.digest;
        for (&line, written) in &self.pending {
            let (before, expected) = (
                self.settled(line),
                self.expected(line, written, evidence.at),
            );
            digest.replace(line * LINE_BYTES as u64, &before.0, &expected.0);
        }
        if digest != evidence.memory {
            breaches.push(Breach {
                fault: Fault::Memory,
                judged_by_epoch: 0,
                message: self.difference(evidence),
            });
        }
        let taken = self.commands.values();
        let taken = taken.filter(|one| one.taken.values().any(|taken| *taken <= evidence.at));
        Judgement {
            found: Some(format!(
                "the pools are as {} commands left them",
                taken.count()
            )),
            breaches,
            ..Judgement::default()
        }
    }
}
