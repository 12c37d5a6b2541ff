//! A module with a program, from end to end: it zeroes pages of its module on command.
//!
//! A command is a store of eight bytes, the page's address, to the device region's start. The device takes
//! it when one of four places is free, and zeroes the pages one after the other, over its module's banks;
//! a load from there says how many are done. What it has taken, and not done, when the power fails, it
//! saves in the first page of its module, and does when it recovers. The processor's accesses to a page
//! wait until it is zeroed.
//!
//! Its record: the count of addresses, then the addresses, all little-endian `u64`. The count is written
//! back to 0 last, so that a recovery that the power cuts short is done again.

use std::ops::Range;

use crate::support::{Random, seeds, table_iv};
use perdure_hardware::arena::Arena;
use perdure_hardware::device::{
    Admission, Device, HostAccess, Inside, PowerLost, Recovery, SurvivingBytes,
};
use perdure_hardware::line::{LINE_BYTES, Line};
use perdure_hardware::memory::{Memory, Tear, Traffic};
use perdure_hardware::physical_map::RegionKind;
use perdure_hardware::specification::{ModuleSpecification, Persistence, Specification};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

const PAGE: u64 = 4096;
const PLACES: usize = 4;
const PAGES: u64 = 8;

/// A mistake of the device, to test the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// It saves nothing.
    SavesNothing,
    /// It saves what it has not been given yet, too.
    SavesTheFuture,
    /// The processor passes.
    LetsPass,
    /// It clears its record before it has done what it says.
    ClearsFirst,
}

#[derive(Clone, Copy, Debug)]
struct Command {
    page: u64,
    taken: Cycles,
    done: Cycles,
}

#[derive(Clone, Debug)]
struct Zeroer {
    mistake: Mistake,
    record: u64,
    commands: Vec<Command>,
}

impl Device for Zeroer {
    fn copy(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }

    fn load(&mut self, _: &mut Inside, _: u64, bytes: &mut [u8], now: Cycles) -> Cycles {
        let done = self.commands.iter().filter(|one| one.done <= now).count();
        bytes.copy_from_slice(&(done as u64).to_le_bytes()[..bytes.len()]);
        now
    }

    fn store(&mut self, inside: &mut Inside, _: u64, bytes: &[u8], now: Cycles) -> Cycles {
        let page = u64::from_le_bytes(bytes.try_into().expect("a command of eight bytes"));
        let ahead = self.commands.len().checked_sub(PLACES);
        let taken = ahead.map_or(now, |index| now.max(self.commands[index].done));
        let start = self
            .commands
            .last()
            .map_or(taken, |last| taken.max(last.done));
        let zeros = [0; PAGE as usize];
        let done = inside.write(page, &zeros, Traffic::Flush, start, 0).durable;
        self.commands.push(Command { page, taken, done });
        taken
    }

    fn admit(&mut self, _: &mut Inside, access: &HostAccess, now: Cycles) -> Admission {
        if self.mistake == Mistake::LetsPass {
            return Admission::Admitted { at: now };
        }
        let touched =
            (self.commands.iter()).filter(|one| access.touches(&(one.page..one.page + PAGE)));
        let at = touched.map(|one| one.done).fold(now, Cycles::max);
        Admission::Admitted { at }
    }

    fn power_off(&self, at: Cycles, save: &mut dyn FnMut(u64, &[u8])) {
        let future = self.mistake == Mistake::SavesTheFuture;
        let held = |one: &&Command| (future || one.taken <= at) && one.done > at;
        let held: Vec<_> = self.commands.iter().filter(held).collect();
        if self.mistake == Mistake::SavesNothing {
            return;
        }
        let words = [held.len() as u64].into_iter();
        let words = words.chain(held.iter().map(|one| one.page));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        save(self.record, &bytes);
    }

    fn recovery(&self) -> Recovery {
        if self.mistake == Mistake::ClearsFirst {
            |image, memory| recover(image, memory, true)
        } else {
            |image, memory| recover(image, memory, false)
        }
    }
}

/// Does what the record says; all that it needs to know is where its module's memory begins.
fn recover(
    image: &mut dyn SurvivingBytes,
    memory: &[Range<u64>],
    clears_first: bool,
) -> Result<(), PowerLost> {
    let record = memory[0].start;
    let word = |image: &mut dyn SurvivingBytes, index: u64| {
        let bytes = image.read(record + 8 * index, 8);
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    };
    let count = word(image, 0);
    if clears_first {
        image.write(record, &[0; 8])?;
    }
    for index in 1..=count {
        let page = word(image, index);
        for line in (page..page + PAGE).step_by(LINE_BYTES) {
            image.write(line, &[0; LINE_BYTES])?;
        }
    }
    image.write(record, &[0; 8])
}

/// An image whose power fails at a step, which tears that write.
struct Image<'a> {
    arena: &'a mut Arena,
    steps: u64,
    fails_at: u64,
}

impl SurvivingBytes for Image<'_> {
    fn read(&mut self, address: u64, length: usize) -> Vec<u8> {
        self.arena.slice(address, length).to_vec()
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), PowerLost> {
        self.steps += 1;
        if self.steps > self.fails_at {
            let mut torn = self.arena.slice(address, bytes.len()).to_vec();
            Tear::new(self.steps).apply(&mut torn, bytes);
            self.arena.write(address, &torn);
            return Err(PowerLost);
        }
        self.arena.write(address, bytes);
        Ok(())
    }
}

/// A machine with modules of these names, a mebibyte and a device page each.
fn machine(modules: &[&str]) -> Specification {
    let mut specification = table_iv(1);
    for &name in modules {
        let mut media = specification.nvm.clone();
        media.bytes = 1 << 20;
        specification.modules.push(ModuleSpecification {
            name: name.into(),
            kind: RegionKind::Persistent,
            persistence: Persistence::Media,
            region: String::new(),
            interleaving_bytes: PAGE,
            device_bytes: PAGE,
            media,
            link: specification.link.clone(),
        });
    }
    specification
        .validate()
        .expect("a machine that can be built");
    specification
}

struct Bench {
    memory: Memory,
    statistics: Statistics,
    /// Of the module's memory, and of its device region.
    start: u64,
    device: u64,
}

impl Bench {
    fn new(mistake: Mistake) -> Self {
        let specification = machine(&["near"]);
        let map = specification.physical_map();
        let arena = Arena::new(map.bytes()).expect("address space");
        let start = map.regions()[1].addresses.start;
        let device = map.regions()[2].addresses.start;
        assert!(map.is_device(device) && !map.is_device(device - 1));
        let mut memory = Memory::new(&specification, arena, 0..0);
        memory.install(
            1,
            Box::new(Zeroer {
                mistake,
                record: start,
                commands: Vec::new(),
            }),
        );
        for page in 1..=PAGES {
            memory
                .arena
                .write(start + page * PAGE, &[0xff; PAGE as usize]);
        }
        Self {
            memory,
            statistics: Statistics::default(),
            start,
            device,
        }
    }

    fn page(&self, number: u64) -> u64 {
        self.start + number * PAGE
    }

    fn zero(&mut self, number: u64, now: Cycles) -> Cycles {
        let command = self.page(number).to_le_bytes();
        let (device, statistics) = (self.device, &mut self.statistics);
        self.memory.device_store(device, &command, now, statistics)
    }

    fn done(&mut self, now: Cycles) -> u64 {
        let mut bytes = [0; 8];
        let (device, statistics) = (self.device, &mut self.statistics);
        self.memory.device_load(device, &mut bytes, now, statistics);
        u64::from_le_bytes(bytes)
    }
}

#[test]
fn a_command_takes_the_banks_and_not_the_link_and_the_processor_waits_for_its_page() {
    let mut bench = Bench::new(Mistake::None);
    let taken = bench.zero(1, 0);
    // Eight bytes over the link, then two rows in two banks at once.
    let done = taken + 736;
    assert_eq!(taken, 2);
    assert_eq!([done - 1, done].map(|now| bench.done(now)), [0, 1]);
    let statistics = &mut bench.statistics;
    let line = |page: u64| (bench.start + page * PAGE) / LINE_BYTES as u64;
    let free = bench.memory.read(line(5), 0, statistics);
    assert!(free < done, "another page of the module: at once");
    let waits = bench.memory.read(line(1), 0, statistics);
    assert!(waits >= done + 256, "the page that is being zeroed");
    let counters = &bench.memory.modules()[1].counters;
    assert_eq!(counters.link_bytes, 2 * LINE_BYTES as u64);
    let data = bench.statistics.nvm_written_bytes_data;
    assert_eq!((counters.written_bytes, data), (PAGE, PAGE));
    assert_eq!((counters.device_stores, counters.device_loads), (1, 2));
    assert_eq!(
        counters.energy_peak_bytes, 16,
        "a count, and the address of a page"
    );
}

/// The page's bank is idle until the device comes to it; who does not ask the device reads too early.
#[test]
fn the_processor_waits_also_where_the_bank_is_free() {
    let read = |mistake| {
        let mut bench = Bench::new(mistake);
        bench.zero(2, 0);
        bench.zero(1, 0);
        let line = bench.page(1) / LINE_BYTES as u64;
        bench.memory.read(line, 0, &mut bench.statistics)
    };
    assert!(read(Mistake::None) >= 2 * 736 + 256);
    assert!(read(Mistake::LetsPass) < 736);
}

#[test]
fn a_device_without_room_keeps_its_sender_waiting() {
    let mut bench = Bench::new(Mistake::None);
    let taken: Vec<_> = (1..=6).map(|page| bench.zero(page, 0)).collect();
    assert!(
        taken[3] < 736 && taken[4] >= 736 && taken[5] > taken[4],
        "{taken:?}"
    );
}

#[test]
fn a_device_region_without_a_program_reads_as_zeros() {
    let mut specification = table_iv(1);
    specification.modules.push(ModuleSpecification {
        name: "near".into(),
        kind: RegionKind::Device,
        persistence: Persistence::None,
        region: String::new(),
        interleaving_bytes: PAGE,
        device_bytes: 0,
        media: specification.nvm.clone(),
        link: specification.link.clone(),
    });
    let map = specification.physical_map();
    let arena = Arena::new(map.bytes()).expect("address space");
    let (mut memory, mut statistics) = (
        Memory::new(&specification, arena, 0..0),
        Statistics::default(),
    );
    let mut bytes = [9; 8];
    let at = map.regions()[1].addresses.start;
    assert_eq!(memory.device_store(at, &[1; 8], 100, &mut statistics), 102);
    assert_eq!(
        memory.device_load(at, &mut bytes, 200, &mut statistics),
        202
    );
    assert_eq!(bytes, [0; 8]);
}

/// Random commands and stores of the processor, cut at every moment at which anything changes, and again
/// at steps of recovery: a page that the device had taken is zeros, with what the processor stored to it
/// later and is durable; no other page has changed. What fails first, if anything does.
fn every_cut(mistake: Mistake, seed: u64) -> Result<(), String> {
    let mut random = Random(seed);
    let mut bench = Bench::new(mistake);
    let (mut now, mut moments) = (0, vec![0]);
    // For each page, what it became when: durable, or taken by the device.
    let mut history: Vec<(Cycles, u64, Option<Line>)> = Vec::new();
    for number in 1..=24u8 {
        now += random.below(700) as Cycles;
        let page = 1 + random.below(PAGES as usize) as u64;
        if random.once_in(3) {
            let bytes = Line([number; LINE_BYTES]);
            let line = bench.page(page) / LINE_BYTES as u64;
            let (traffic, statistics) = (Traffic::WriteBack, &mut bench.statistics);
            let memory = &mut bench.memory;
            let done = memory.write_line(line, &bytes, traffic, now, 0, statistics);
            history.push((done.durable, page, Some(bytes)));
            moments.extend([done.durable - 400, done.durable - 1, done.durable]);
            now = now.max(done.durable);
        } else {
            let taken = bench.zero(page, now);
            history.push((taken, page, None));
            moments.extend((0..5).map(|part| taken + 170 * part));
            moments.push(taken - 1);
            now = taken;
        }
    }
    for at in moments {
        for fails_at in [0, 1, 70, 150, u64::MAX] {
            let lost = bench.memory.power_off(at, &mut Tear::new(at));
            let before = bench.memory.arena.clone();
            for (recovery, memory) in bench.memory.device_recoveries() {
                let arena = &mut bench.memory.arena;
                let mut image = Image {
                    arena,
                    steps: 0,
                    fails_at,
                };
                if recovery(&mut image, &memory).is_err() {
                    let mut image = Image {
                        arena,
                        steps: 0,
                        fails_at: u64::MAX,
                    };
                    recovery(&mut image, &memory).expect("the power stays");
                }
            }
            let judged = judge(&bench, &history, at);
            for page in 0..=PAGES {
                let address = bench.page(page);
                let bytes = before.slice(address, PAGE as usize);
                bench.memory.arena.write(address, &bytes);
            }
            bench.memory.power_back(&lost);
            judged.map_err(|why| format!("{mistake:?}, seed {seed}, cut at {at}: {why}"))?;
        }
    }
    Ok(())
}

fn judge(bench: &Bench, history: &[(Cycles, u64, Option<Line>)], at: Cycles) -> Result<(), String> {
    for page in 1..=PAGES {
        let mut rest = 0xff;
        let mut first = Line([0xff; LINE_BYTES]);
        let of_page = history.iter().filter(|one| one.1 == page);
        // A write that is under way may be torn; there is nothing to say of its line then.
        let torn =
            |one: &&(Cycles, u64, Option<Line>)| one.2.is_some() && one.0 > at && one.0 - 736 <= at;
        let under_way = of_page.clone().any(|one| torn(&one));
        for (_, _, stored) in of_page.filter(|one| one.0 <= at) {
            first = stored.unwrap_or(Line::ZERO);
            rest = if stored.is_none() { 0 } else { rest };
        }
        let bytes = bench.memory.arena.slice(bench.page(page), PAGE as usize);
        if !under_way && bytes[..LINE_BYTES] != first.0 {
            return Err(format!(
                "page {page} begins with {:?}, not {:?}",
                bytes[0], first.0[0]
            ));
        }
        if let Some(wrong) = bytes[LINE_BYTES..].iter().find(|&&byte| byte != rest) {
            return Err(format!("page {page} has {wrong}, not {rest}"));
        }
    }
    Ok(())
}

#[test]
fn every_cut_leaves_each_page_as_it_was_or_zeroed() {
    for seed in seeds(4) {
        every_cut(Mistake::None, seed).expect("a device that keeps what it has taken");
    }
    for mistake in [
        Mistake::SavesNothing,
        Mistake::SavesTheFuture,
        Mistake::ClearsFirst,
    ] {
        let caught = (0..20).any(|seed| every_cut(mistake, seed).is_err());
        assert!(caught, "{mistake:?} was not caught");
    }
}

/// Holds what the processor writes for so long before its banks get it, answers reads of that, and tells a
/// device of another module how much it has let go.
#[derive(Clone, Debug)]
struct Shelf {
    record: u64,
    neighbour: u64,
    held: Vec<(Cycles, Cycles, u64, Vec<u8>)>,
}

const KEPT: Cycles = 30;
const HELD: Cycles = 5000;

impl Device for Shelf {
    fn copy(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }

    fn load(&mut self, _: &mut Inside, _: u64, _: &mut [u8], now: Cycles) -> Cycles {
        now
    }

    fn store(&mut self, _: &mut Inside, _: u64, _: &[u8], now: Cycles) -> Cycles {
        now
    }

    fn admit(&mut self, inside: &mut Inside, access: &HostAccess, now: Cycles) -> Admission {
        let same = |one: &&(Cycles, Cycles, u64, Vec<u8>)| one.2 == access.address && one.1 > now;
        match access.written {
            Some(bytes) => {
                let (kept, at) = (now + KEPT, now + HELD);
                self.held.push((kept, at, access.address, bytes.to_vec()));
                inside.wake(at, 7);
                Admission::Held { kept, at }
            }
            None if self.held.iter().any(|one| same(&one)) => Admission::Answered { at: now + 5 },
            None => Admission::Admitted { at: now },
        }
    }

    fn fired(&mut self, inside: &mut Inside, event: u16, now: Cycles) {
        assert_eq!(event, 7);
        let gone = self.held.iter().filter(|one| one.1 <= now).count() as u64;
        inside.store(self.neighbour, &gone.to_le_bytes(), now);
    }

    fn power_off(&self, at: Cycles, save: &mut dyn FnMut(u64, &[u8])) {
        // The banks have what was given to them more than a row write ago.
        let there = |one: &&(Cycles, Cycles, u64, Vec<u8>)| one.0 <= at && at < one.1 + 1000;
        for (place, (_, _, address, bytes)) in self.held.iter().filter(there).enumerate() {
            let mut entry = address.to_le_bytes().to_vec();
            entry.extend(bytes);
            save(self.record + place as u64 * 128, &entry);
        }
    }

    fn recovery(&self) -> Recovery {
        |image, memory| {
            for place in (memory[0].start..memory[0].start + PAGE).step_by(128) {
                let entry = image.read(place, 8 + LINE_BYTES);
                let address = u64::from_le_bytes(entry[..8].try_into().expect("eight bytes"));
                if address != 0 {
                    image.write(address, &entry[8..])?;
                }
            }
            Ok(())
        }
    }
}

/// Keeps the last number that it was told.
#[derive(Clone, Debug, Default)]
struct Ear(u64);

impl Device for Ear {
    fn copy(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }

    fn load(&mut self, _: &mut Inside, _: u64, bytes: &mut [u8], now: Cycles) -> Cycles {
        bytes.copy_from_slice(&self.0.to_le_bytes());
        now
    }

    fn store(&mut self, _: &mut Inside, _: u64, bytes: &[u8], now: Cycles) -> Cycles {
        self.0 = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        now
    }

    fn power_off(&self, _: Cycles, _: &mut dyn FnMut(u64, &[u8])) {}

    fn recovery(&self) -> Recovery {
        |_, _| Ok(())
    }
}

#[test]
fn a_write_that_a_device_holds_survives_from_when_it_has_it() {
    let specification = machine(&["shelf", "ear"]);
    let map = specification.physical_map();
    let start = |name: &str| {
        let found = map.regions().iter().find(|region| region.name == name);
        found.expect("a region").addresses.start
    };
    let (record, ear) = (start("shelf"), start("ear.device"));
    let arena = Arena::new(map.bytes()).expect("address space");
    let mut memory = Memory::new(&specification, arena, 0..0);
    let mut statistics = Statistics::default();
    let (neighbour, held) = (ear, Vec::new());
    memory.install(
        1,
        Box::new(Shelf {
            record,
            neighbour,
            held,
        }),
    );
    memory.install(2, Box::new(Ear::default()));

    let (address, bytes) = (record + PAGE, Line([5; LINE_BYTES]));
    let line = address / LINE_BYTES as u64;
    let done = memory.write_line(line, &bytes, Traffic::WriteBack, 0, 0, &mut statistics);
    assert_eq!(done.durable, KEPT);
    // Five cycles, and eight bytes a cycle over the link: no bank is asked, which has not begun.
    let answered = memory.read(line, 100, &mut statistics);
    assert!(answered < 100 + 5 + 20, "{answered}");
    assert!(
        memory.read(line, HELD, &mut statistics) > HELD + 256,
        "from the bank"
    );
    for (at, survives) in [(KEPT - 1, false), (KEPT, true), (HELD + 300, true)] {
        let lost = memory.power_off(at, &mut Tear::new(at));
        assert_eq!(lost.saved_bytes, if survives { 72 } else { 0 });
        let before = memory.arena.slice(address, LINE_BYTES).to_vec();
        for (recovery, own) in memory.device_recoveries() {
            let mut image = Image {
                arena: &mut memory.arena,
                steps: 0,
                fails_at: u64::MAX,
            };
            recovery(&mut image, &own).expect("the power stays");
        }
        let found = *memory.arena.line(address);
        assert_eq!(found == bytes, survives, "cut at {at}");
        memory.arena.write(address, &before);
        memory.power_back(&lost);
    }
    assert!(!memory.wake_device(HELD - 1, &mut statistics));
    assert!(memory.wake_device(HELD, &mut statistics));
    let mut told = [0; 8];
    memory.device_load(ear, &mut told, HELD + 100, &mut statistics);
    assert_eq!(u64::from_le_bytes(told), 1);
}
