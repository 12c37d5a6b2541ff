//! The monitor's commands about bytes: what would survive now, and who wrote it.
//!
//! Always true here: what would survive is found by letting the power fail on a copy of the machine and
//! recovering it, and who wrote something by running the past again; nothing is kept on the way for it.

use std::fmt::Write;
use std::sync::Arc;

use perdure_hardware::line::{LINE_BYTES, LineNumber, line_of};
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;
use perdure_hardware::watched::{Heard, Watched};
use perdure_linux::PAGE_BYTES;

use super::forward::{Goal, Stop};
use super::head::NEVER;
use super::life::Cut;
use super::monitor::number;
use super::session::{Poll, Position, Session};
use super::view;
use super::watched::Access;
use crate::error::Error;
use crate::machine::Machine;
use crate::stepping::{Stops, Touch, WatchPoint};

/// Bytes that are looked at where nobody says how many, and at most.
const BYTES: u64 = 8;
const BYTES_MAX: u64 = 4096;

/// How far the past is run again between two looks, in moments.
const STRIDE: u64 = 1000;

/// A range of a program's addresses, as the user named it.
struct Range {
    name: String,
    address: u64,
    bytes: u64,
}

impl Range {
    fn named(&self) -> String {
        let place = format!("{} bytes at {:#x}", self.bytes, self.address);
        match number(&self.name) {
            Some(_) => place,
            None => format!("{} ({place})", self.name),
        }
    }
}

impl Session {
    fn range(&self, text: &str) -> Result<Range, Error> {
        let (name, bytes) = match text.rsplit_once(':') {
            Some((name, bytes)) => {
                let bytes = number(bytes).filter(|bytes| (1..=BYTES_MAX).contains(bytes));
                let wrong = || {
                    Error::Request(format!(
                        "{text}: write 1 to {BYTES_MAX} bytes behind the colon"
                    ))
                };
                (name, Some(bytes.ok_or_else(wrong)?))
            }
            None => (text, None),
        };
        let (address, own) = if let Some(address) = number(name) {
            (address, BYTES)
        } else {
            let space = view::space_of(self.machine(), self.thread);
            let found = space.and_then(|space| self.machine().kernel().address_of(space, name));
            let thread = self.thread;
            let unknown = format!(
                "{name}: that is no address, and no symbol of what thread {thread} has loaded"
            );
            let (address, bytes) = found.ok_or(Error::Request(unknown))?;
            (address, bytes.clamp(1, BYTES_MAX))
        };
        Ok(Range {
            name: name.into(),
            address,
            bytes: bytes.unwrap_or(own),
        })
    }

    /// What would survive a power cut now.
    pub fn durable(&mut self, text: &str) -> Result<String, Error> {
        let range = self.range(text)?;
        let space = view::space_of(self.machine(), self.thread);
        let space = space.ok_or_else(|| Error::Request("no thread lives here".into()))?;
        let mut seen = vec![0; range.bytes as usize];
        let there = view::read(self.machine(), space, range.address, &mut seen);
        if there < seen.len() {
            return Err(Error::Request(format!(
                "{:#x}: nothing is mapped there for thread {}",
                range.address + there as u64,
                self.thread
            )));
        }
        let cycle = self.now();
        let (back, how) = self.bytes_back(&range, space, cycle)?;
        let named = range.named();
        let mut told = format!("{named}, if the power failed at cycle {cycle}:\n{how}\n");
        let pairs = seen.iter().zip(&back);
        match pairs.filter(|(seen, back)| Some(**seen) != **back).count() {
            0 => told += "every byte would come back as the program sees it\n",
            1 => told += "one byte would be another (marked *), or gone (--)\n",
            many => {
                let _ = writeln!(
                    told,
                    "{many} bytes would be others (marked *), or gone (--)"
                );
            }
        }
        told += &table(range.address, &seen, &back);
        self.tell_places(&mut told, &range, space, cycle);
        Ok(told)
    }

    /// The bytes of a range as they would come back, nothing for those that would not, and how they do.
    fn bytes_back(
        &self,
        range: &Range,
        space: perdure_linux::SpaceId,
        cycle: Cycles,
    ) -> Result<(Vec<Option<u8>>, String), Error> {
        let length = range.bytes as usize;
        let mut head = self.at_cycle(self.life, cycle)?;
        let (next, told) = self.next_machine(&mut head.machine, Cut::at(cycle))?;
        if self.prepared.restart.is_none() {
            let mut bytes = vec![0; length];
            let there = view::read(&next, space, range.address, &mut bytes);
            let bytes = bytes.into_iter().enumerate();
            let bytes = bytes.map(|(at, byte)| (at < there).then_some(byte));
            return Ok((bytes.collect(), told));
        }
        let mappings = self.machine().kernel().mappings(space);
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let address = range.address + bytes.len() as u64;
            let in_page = (PAGE_BYTES - address % PAGE_BYTES) as usize;
            let piece = in_page.min(length - bytes.len());
            let mapping = (mappings.iter()).find(|one| (one.start..one.end).contains(&address));
            let held = mapping.and_then(|mapping| {
                let offset = mapping.file_offset? + (address - mapping.start);
                view::read_file(&next, &mapping.name, offset, piece)
            });
            match held {
                Some(held) => bytes.extend(held.into_iter().map(Some)),
                None => bytes.resize(bytes.len() + piece, None),
            }
        }
        Ok((bytes, told))
    }

    /// Where the newest copies are.
    fn tell_places(
        &self,
        told: &mut String,
        range: &Range,
        space: perdure_linux::SpaceId,
        cycle: Cycles,
    ) {
        let machine = self.machine();
        let first = range.address / LINE_BYTES as u64;
        let last = (range.address + range.bytes - 1) / LINE_BYTES as u64;
        for line in (first..=last).take(4) {
            let address = line * LINE_BYTES as u64;
            let Some(physical) = view::physical(machine, space, address) else {
                let _ = writeln!(
                    told,
                    "line {address:#x}: no frame yet, so nothing was written"
                );
                continue;
            };
            let newest = machine.hardware.peek(&*machine.design, line_of(physical));
            let _ = writeln!(told, "line {address:#x}, at {physical:#x} in memory:");
            for held in machine
                .hardware
                .whereabouts(&*machine.design, line_of(physical), cycle)
            {
                let is_newest = if held.bytes == newest {
                    "newest"
                } else {
                    "older"
                };
                let survives = if held.survives {
                    "survives"
                } else {
                    "lost by a cut"
                };
                let state = if held.state.is_empty() {
                    String::new()
                } else {
                    format!(", {}", held.state)
                };
                let _ = writeln!(told, "  {}: {is_newest}{state}, {survives}", held.place);
            }
        }
    }

    /// Which store wrote there last, and when that became durable.
    pub fn wrote(&mut self, text: &str, poll: Poll) -> Result<String, Error> {
        let range = self.range(text)?;
        let began = self.position();
        let now = self.now();
        let (stops, thread, program) = (Arc::clone(&self.stops), self.thread, self.program.clone());
        let watch = WatchPoint {
            start: range.address,
            bytes: range.bytes,
            touch: Touch::Write,
        };
        self.stops = Arc::new(Stops {
            breakpoints: Vec::new(),
            watches: vec![watch],
        });
        let own = self
            .machine()
            .kernel()
            .executable_of_thread(thread)
            .map(str::to_owned);
        self.program = own.unwrap_or_else(|| program.clone());
        let reported = self.reported.take();
        let found = self.retreat(Goal::Stop, poll);
        (self.stops, self.program) = (stops, program);
        let met = std::mem::replace(&mut self.reported, reported);
        let told = match found {
            Ok(Stop::Watch { .. }) => match met {
                Some(access) => self.told_store(&range, access, began, now),
                None => Err(Error::Defect("a watch point that met nothing".into())),
            },
            Ok(Stop::Interrupted) => Ok("interrupted".into()),
            Ok(_) => Ok(format!(
                "{}: nobody has changed anything there; what is there was there at the start",
                range.name
            )),
            Err(error) => Err(error),
        };
        self.go(began)?;
        self.thread = thread;
        self.choose_thread();
        told
    }

    /// Goes to before a store; what there is to say of it.
    fn told_store(
        &mut self,
        range: &Range,
        store: Access,
        until: Position,
        now: Cycles,
    ) -> Result<String, Error> {
        let kernel = store.kernel;
        self.go(store.at)?;
        self.thread = store.thread;
        self.choose_thread();
        let position = self.position();
        let cycle = self.cycle();
        let machine = self.machine();
        let thread = self.thread;
        let pc = view::pc_of(machine, thread).unwrap_or_default();
        let hart = view::hart_of(machine, thread);
        let hart = hart.map_or("no hart".into(), |hart| format!("hart {hart}"));
        let who = if kernel {
            "the kernel for thread"
        } else {
            "thread"
        };
        let mut told = format!(
            "{}: written last by {who} {thread} on {hart}, at {}\nin life {}, cycle {cycle}, moment {}\n",
            range.named(),
            self.instruction(pc),
            position.life + 1,
            position.moment
        );
        if position.life != until.life {
            told += "that was before the last power cut: what came back of it has survived\n";
            return Ok(told);
        }
        told += &if self.machine().facts().recovery.resumes() {
            self.told_persisted(until)?
        } else {
            self.told_written(range, kernel, until, now)?
        };
        Ok(told)
    }

    /// When the epoch of what comes next became persistent.
    fn told_persisted(&mut self, until: Position) -> Result<String, Error> {
        let hart = view::hart_of(self.machine(), self.thread).unwrap_or_default();
        // Asking a sharing group takes the design as it may be changed.
        let own = self.machine().clone().epoch_of(hart);
        let epoch = own.unwrap_or_else(|| self.machine().executing_epoch());
        let mut head = self.nearest(self.life, self.position().moment)?;
        while head.moment() < until.moment && head.machine.announced_epoch() < epoch {
            if head.run_to((head.moment() + STRIDE).min(until.moment), NEVER)? {
                break;
            }
        }
        if head.machine.announced_epoch() < epoch {
            let persisted = head.machine.announced_epoch();
            return Ok(format!(
                "it belongs to epoch {epoch}, which is not persisted yet (epoch {persisted} is): a power cut now would undo it"
            ));
        }
        Ok(format!(
            "it belongs to epoch {epoch}, which was persisted by cycle {}",
            head.machine.time()
        ))
    }

    /// When memory had the line of what comes next.
    fn told_written(
        &mut self,
        range: &Range,
        kernel: bool,
        until: Position,
        now: Cycles,
    ) -> Result<String, Error> {
        let space = view::space_of(self.machine(), self.thread);
        let physical = space.and_then(|space| view::physical(self.machine(), space, range.address));
        let Some(physical) = physical else {
            return Ok("its page has no frame".into());
        };
        let mut head = self.head.clone();
        head.look_for(&Arc::default());
        let hardware = &mut head.machine.hardware;
        if !hardware.memory.keeps(physical) {
            return Ok("it lies in memory that no power cut leaves".into());
        }
        if hardware.memory.keeps_caches() {
            return Ok("it was durable at once: this machine keeps its caches (eADR)".into());
        }
        // From now on everything is heard of the line: no store to it may hit what nobody hears.
        hardware.memory.watched = Some(Box::new(Watched::new([line_of(physical)])));
        for core in &mut hardware.cores {
            core.lookaside.kill_all();
        }
        let mut with_store = head.inside(self.inside + 1).0;
        let stores = heard(&mut with_store)
            .iter()
            .filter(|one| is_store(one))
            .count();
        // Of the kernel's, none is among those of the block before its entry.
        let stores = stores + usize::from(kernel);
        let mut all = Vec::new();
        while head.moment() < until.moment {
            let ended = head.run_to((head.moment() + STRIDE).min(until.moment), NEVER)?;
            all.extend(heard(&mut head.machine));
            if let Some(done) = durable_at(&all, line_of(physical), stores.max(1)) {
                return Ok(if done <= now {
                    format!("it was durable at cycle {done}")
                } else {
                    format!(
                        "it is on its way to memory, and durable at cycle {done}: a power cut now may lose it"
                    )
                });
            }
            if ended {
                break;
            }
        }
        Ok(
            "it is not durable yet: memory has not got it, and a power cut now would lose it"
                .into(),
        )
    }
}

/// What was heard since the last time.
fn heard(machine: &mut Machine) -> Vec<Heard> {
    let watched = machine.hardware.memory.watched.as_mut();
    watched.map(|watched| watched.take()).unwrap_or_default()
}

fn is_store(heard: &Heard) -> bool {
    matches!(heard, Heard::Stored { .. })
}

/// When a line is durable as it is after so many stores, as far as that was heard.
fn durable_at(heard: &[Heard], line: LineNumber, stores: usize) -> Option<Cycles> {
    let mut left = stores;
    let mut later = heard.iter().skip_while(|one| {
        left -= usize::from(left > 0 && is_store(one));
        left > 0
    });
    later.find_map(|one| match one {
        Heard::Written {
            home,
            traffic: Traffic::WriteBack | Traffic::Flush,
            when,
            ..
        } => (*home == line).then_some(when[2]),
        _ => None,
    })
}

/// Bytes as the program sees them above those that would come back.
fn table(address: u64, seen: &[u8], back: &[Option<u8>]) -> String {
    let mut told = String::new();
    for (row, (seen, back)) in seen.chunks(16).zip(back.chunks(16)).enumerate() {
        let _ = write!(told, "{:#x}  now ", address + 16 * row as u64);
        for byte in seen {
            let _ = write!(told, " {byte:02x} ");
        }
        let _ = write!(told, "\n{:1$}  cut ", "", format!("{address:#x}").len());
        for (seen, back) in seen.iter().zip(back) {
            let _ = match back {
                Some(byte) if byte == seen => write!(told, " {byte:02x} "),
                Some(byte) => write!(told, " {byte:02x}*"),
                None => write!(told, " -- "),
            };
        }
        told.push('\n');
    }
    told
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn bytes_that_would_be_others_are_marked() {
        let shown = table(0x1000, &[1, 2, 3], &[Some(1), Some(9), None]);
        assert_eq!(
            shown,
            "0x1000  now  01  02  03 \n        cut  01  09* -- \n"
        );
    }
}
