//! Whatever a design breaks of its contract ends the run with a message that names the hook: a
//! design that keeps everything, and one breach planted at a time.

use crate::common::geometry::{Geometry, ROWS_OF_LINES, TINY};
use crate::common::rig::Rig;
use crate::common::workload::Workload;
use perdure_designs::design::ImpossibleParameter;
use perdure_designs::layout::{Layout, METADATA};
use perdure_designs::oracle::EpochPrefix;
use perdure_designs::surviving::{Interrupted, Surviving};
use perdure_designs::{
    Design, EpochNumbers, MachineEpochs, OfMachine, PlantedBug, Recovered, Urgency,
};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, Version};
use perdure_hardware::memory::Traffic;
use perdure_hardware::policy::{CrossVersionStore, Evicted, Eviction, Policy, Transfer};
use perdure_hardware::specification::Specification;
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

/// Lines go home, epochs are counted, and `breach` is what is wrong.
#[derive(Clone)]
struct Rogue {
    executing: u64,
    announced: u64,
    version: u16,
    breach: &'static str,
}

impl Rogue {
    /// `right`, or a cycle before `now` if that is the breach.
    fn answer(&self, breach: &str, now: Cycles, right: Cycles) -> Cycles {
        if self.breach == breach {
            now - 1
        } else {
            right
        }
    }
}

impl Policy for Rogue {
    fn current_version(&self, _hart: usize) -> Version {
        Version(self.version)
    }

    fn store(&mut self, _: &mut Hardware, _: &CrossVersionStore, now: Cycles) -> Cycles {
        if self.breach == "silent-version" {
            self.version += 1;
        }
        self.answer("early-store", now, now)
    }

    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let (line, bytes) = (eviction.line, &eviction.bytes);
        if self.breach == "forgets-eviction" {
            return Evicted {
                accepted: now,
                durable: now,
            };
        }
        let asked = if self.breach == "early-write" { 0 } else { now };
        let done = memory.write_line(line, bytes, Traffic::WriteBack, asked, 0, statistics);
        match self.breach {
            "over-the-row" => {
                let place = METADATA.start + 64;
                let traffic = Traffic::Metadata;
                memory.write_block(place, &[1; 128], traffic, now, 0, statistics);
            }
            "outside-the-nvm" => {
                let end = memory.arena.len();
                memory.write_block(end, &[1; 8], Traffic::Log, now, 0, statistics);
            }
            _ => {}
        }
        Evicted {
            accepted: match self.breach {
                "endless-eviction" => Cycles::MAX,
                _ => self.answer("early-eviction", now, done.accepted),
            },
            durable: match self.breach {
                "durable-before-accepted" => done.accepted - 1,
                "endless-eviction" => Cycles::MAX,
                _ => done.durable,
            },
        }
    }

    fn fill(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        let (_, arrived) = hardware.read_memory(line, now);
        let bytes = if self.breach == "other-bytes" {
            *hardware.memory.arena.line(line * LINE_BYTES as u64)
        } else {
            self.peek(hardware, line)
        };
        (bytes, self.answer("early-fill", now, arrived))
    }

    fn peek(&self, hardware: &Hardware, line: LineNumber) -> Line {
        let mut bytes = *hardware.memory.arena.line(line * LINE_BYTES as u64);
        let late = self.executing > 20 && line % 5 == 2;
        if self.breach == "other-bytes" || (self.breach == "goes-stale" && late) {
            bytes.0[0] ^= 1;
        }
        bytes
    }

    fn transfer(&mut self, _: &mut Hardware, _: &Transfer, now: Cycles) -> Cycles {
        self.answer("early-transfer", now, now)
    }

    fn fired(&mut self, hardware: &mut Hardware, event: u32, now: Cycles) {
        self.announced = match self.breach {
            "announces-the-executing" => self.executing,
            "announces-backwards" if self.announced > 1 => self.announced - 1,
            _ => u64::from(event),
        };
        if self.breach == "event-in-the-past" {
            hardware.events.schedule(now - 1, event);
        }
    }
}

impl EpochNumbers for Rogue {
    fn executing_epoch(&self) -> u64 {
        self.executing
    }

    fn announced_epoch(&self) -> u64 {
        self.announced
    }
}

impl MachineEpochs for Rogue {
    fn end_epoch(&mut self, hardware: &mut Hardware, _: Urgency, now: Cycles) -> Cycles {
        hardware.events.schedule(now + 50, self.executing as u32);
        self.executing += 1;
        self.version += 1;
        hardware.version_changed();
        self.answer("early-epoch-end", now, now)
    }
}

impl Design for Rogue {
    const NAME: &'static str = "rogue";
    const SUMMARY: &'static str = "breaks its contract";
    const PLANTED_BUGS: &'static [PlantedBug] = &[];
    type Epochs = OfMachine;
    type Promise = EpochPrefix;
    type Parameters = ();
    type Counters = ();

    fn start(
        (): &(),
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        let harts = hardware.cores.len();
        layout.put_boot_record(harts, [0; 4], &mut hardware.memory.arena);
        Ok(Self {
            executing: epoch + 1,
            announced: epoch,
            version: 1,
            breach: bug.unwrap_or(""),
        })
    }

    fn recover(_: &mut Surviving, _: Option<&'static str>) -> Result<Recovered, Interrupted> {
        Ok(Recovered::at(0))
    }

    fn phase(&self) -> &'static str {
        "running"
    }

    fn counters(&self) {}

    fn paths(_: &Statistics, (): &()) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Runs for a while with a breach: what the run ended with.
fn ended_with(breach: &'static str) -> Option<String> {
    let geometry = Geometry {
        harts: 2,
        row_bytes: ROWS_OF_LINES.row_bytes,
        ..TINY
    };
    let specification: Specification = geometry.specification();
    let mut rig = Rig::<Rogue>::new(specification, &(), Some(breach));
    rig.pause(0, 1000);
    rig.pause(1, 1000);
    Workload::new(&geometry, 1)
        .run_until(&mut rig, 200_000)
        .err()
        .map(|accusation| accusation.to_string())
}

#[test]
fn a_design_that_keeps_the_contract_is_left_alone() {
    assert_eq!(ended_with("none"), None);
}

#[test]
fn every_breach_ends_the_run_and_names_the_hook() {
    let breaches = [
        ("early-store", "hook `store` answered cycle"),
        ("early-eviction", "hook `evict` answered cycle"),
        (
            "endless-eviction",
            "hook `evict` answered cycle 18446744073709551615, which never comes",
        ),
        ("early-fill", "hook `fill` answered cycle"),
        ("early-transfer", "hook `transfer` answered cycle"),
        ("early-epoch-end", "hook `end_epoch` answered cycle"),
        ("early-write", "hook `evict` writes at cycle 0"),
        ("over-the-row", "do not lie within one row"),
        ("outside-the-nvm", "are not in the NVM"),
        ("durable-before-accepted", "before they were accepted"),
        ("other-bytes", "than hook `peek` showed"),
        ("forgets-eviction", "and hook `peek` shows other bytes"),
        ("goes-stale", "than those that left the caches last"),
        ("silent-version", "call `version_changed`"),
        ("event-in-the-past", "hook `fired` scheduled an event"),
        ("announces-the-executing", "which has not ended"),
        ("announces-backwards", "went back from"),
    ];
    for (breach, expected) in breaches {
        let found = ended_with(breach).unwrap_or_else(|| panic!("{breach} went unnoticed"));
        assert!(found.contains(expected), "{breach}: {found}");
    }
}

#[test]
fn the_message_says_where() {
    let found = ended_with("over-the-row").expect("it is noticed");
    assert!(
        found.contains("hook `evict` writes 128 bytes at 0x"),
        "{found}"
    );
}
