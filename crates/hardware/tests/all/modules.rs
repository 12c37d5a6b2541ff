//! Several memory modules in one map, and what each keeps when the power fails.
//!
//! Cycles are Table IV's, as in `memory.rs`: a row read takes 256, a row write 736, a line 10 on the link.

use crate::support::{AtHome, Random, seeds, share_l2s, table_iv, tiny};
use perdure_hardware::arena::Arena;
use perdure_hardware::counters::Counters;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::{Accepted, Memory, Tear, Traffic};
use perdure_hardware::module::check_conservation;
use perdure_hardware::persist::{Effect, Order, Persist, Point};
use perdure_hardware::physical_map::RegionKind;
use perdure_hardware::recovery_clock::RecoveryClock;
use perdure_hardware::specification::{
    Domain, Inclusion, ModuleSpecification, Persistence, Specification,
};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

const ROW_WRITE: Cycles = 736;
const LINK: Cycles = 10;
const BYTES: u64 = 1 << 20;
const GRANULE: u64 = 4096;

/// A machine with its NVM and these modules of a mebibyte each: name, kind, persistence, region.
fn machine(modules: &[(&str, RegionKind, Persistence, &str)]) -> Specification {
    let mut specification = table_iv(1);
    add(&mut specification, modules);
    specification
}

pub fn add(specification: &mut Specification, modules: &[(&str, RegionKind, Persistence, &str)]) {
    for &(name, kind, persistence, region) in modules {
        let mut media = specification.nvm.clone();
        media.bytes = BYTES;
        specification.modules.push(ModuleSpecification {
            name: name.into(),
            kind,
            persistence,
            region: region.into(),
            interleaving_bytes: GRANULE,
            device_bytes: 0,
            media,
            link: specification.link.clone(),
        });
    }
    specification
        .validate()
        .expect("a machine that can be built");
}

struct Bench {
    memory: Memory,
    statistics: Statistics,
}

impl Bench {
    fn new(specification: &Specification) -> Self {
        let arena = Arena::new(specification.physical_map().bytes()).expect("address space");
        Self {
            memory: Memory::new(specification, arena, 0..0),
            statistics: Statistics::default(),
        }
    }

    /// Where a region begins.
    fn start(&self, name: &str) -> u64 {
        let found = (self.memory.map().regions().iter()).find(|region| region.name == name);
        found.expect("a region of that name").addresses.start
    }

    fn write(&mut self, address: u64, bytes: &Line, now: Cycles, not_before: Cycles) -> Accepted {
        let line = address / LINE_BYTES as u64;
        let (traffic, statistics) = (Traffic::WriteBack, &mut self.statistics);
        self.memory
            .write_line(line, bytes, traffic, now, not_before, statistics)
    }
}

#[test]
fn modules_have_links_and_banks_of_their_own_and_take_a_region_in_turn() {
    let pool = |name| (name, RegionKind::Persistent, Persistence::Media, "pool");
    let mut bench = Bench::new(&machine(&[pool("a"), pool("b")]));
    let start = bench.start("pool");
    let bytes = Line([3; LINE_BYTES]);
    // The same bank of one module: one after the other. Of another: at once.
    let first = bench.write(start, &bytes, 0, 0);
    assert_eq!(first.durable, LINK + ROW_WRITE);
    let second = bench.write(start + 64, &bytes, 0, 0);
    assert_eq!(second.durable, LINK + 2 * ROW_WRITE);
    let other = bench.write(start + GRANULE, &bytes, 0, 0);
    assert_eq!(other.durable, LINK + ROW_WRITE);
    let nvm = bench.write(0, &bytes, 0, 0);
    assert_eq!(nvm.durable, LINK + ROW_WRITE);
    // The second granule of the first module is its third row: another bank than the first's.
    let third = bench.write(start + 2 * GRANULE, &bytes, 0, 0);
    assert_eq!(third.durable, 3 * LINK + ROW_WRITE);
    let writes: Vec<_> = (bench.memory.modules().iter())
        .map(|module| (module.name.as_str(), module.counters.writes))
        .collect();
    assert_eq!(writes, [("nvm", 1), ("a", 3), ("b", 1)]);
    assert_eq!(bench.statistics.nvm_writes, 5);
    assert_eq!(bench.memory.modules()[1].counters.link_bytes, 3 * 64);
    bench.statistics.check_conservation().expect("sums");
    check_conservation(bench.memory.modules(), &bench.statistics).expect("sums");
    bench.statistics.nvm_writes += 1;
    let broken = check_conservation(bench.memory.modules(), &bench.statistics).unwrap_err();
    assert!(broken.contains("nvm.writes: 5 ≠ 6"), "{broken}");
}

/// A copy crosses no link; from one module to another there is none.
#[test]
fn a_copy_stays_in_its_module() {
    let pool = |name| (name, RegionKind::Persistent, Persistence::Media, "pool");
    let mut bench = Bench::new(&machine(&[pool("a"), pool("b")]));
    let start = bench.start("pool");
    let newest: Vec<u8> = (0..GRANULE).map(|byte| byte as u8).collect();
    bench.memory.arena.write(start, &newest);
    let mut copy = |to: u64| {
        let (traffic, statistics) = (Traffic::Flush, &mut bench.statistics);
        let length = GRANULE as usize;
        let memory = &mut bench.memory;
        let done = memory.copy_within(start, to, length, traffic, 0, 0, statistics);
        (done, bench.memory.arena.slice(to, length) == newest)
    };
    assert_eq!(
        copy(start + GRANULE),
        (Accepted::at(0), false),
        "the other module"
    );
    assert_eq!(copy(0), (Accepted::at(0), false), "the other module");
    let (done, copied) = copy(start + 2 * GRANULE);
    assert!(copied && done.durable > 0);
    let counters = &bench.memory.modules()[1].counters;
    assert_eq!((counters.reads, counters.writes), (2, 2));
    assert_eq!((counters.written_bytes, counters.link_bytes), (GRANULE, 0));
}

#[test]
fn memory_without_persistence_is_empty_after_a_cut_and_back_when_it_is_undone() {
    let specification = machine(&[("main", RegionKind::Dram, Persistence::None, "")]);
    let mut bench = Bench::new(&specification);
    assert_eq!((bench.start("main"), bench.start("nvm")), (0, BYTES));
    let (old, new) = (Line([1; LINE_BYTES]), Line([2; LINE_BYTES]));
    bench.write(4096, &old, 0, 0);
    bench.write(4096, &new, 5, 0);
    bench.write(BYTES, &new, 5, 0);
    assert_eq!(
        bench.statistics.nvm_writes, 1,
        "what is no NVM is not counted as one"
    );
    let lost = bench.memory.power_off(100_000, &mut Tear::new(1));
    assert_eq!(bench.memory.arena.line(4096), &Line::ZERO);
    assert_eq!(bench.memory.arena.line(BYTES), &new);
    bench.memory.power_back(&lost);
    assert_eq!(bench.memory.arena.line(4096), &new);
}

/// Random writes to a module whose queue is in the persistence domain and to one whose queue is not, cut
/// at every moment at which anything changes: what had been accepted there is whole, nothing later is.
#[test]
fn a_write_queue_in_the_domain_keeps_what_it_accepted_whole() {
    for seed in seeds(11) {
        let mut random = Random(seed);
        let kinds = [
            ("queue", RegionKind::Persistent, Persistence::WriteQueue, ""),
            ("media", RegionKind::Persistent, Persistence::Media, ""),
        ];
        let mut specification = machine(&kinds);
        // With the whole machine's domain reaching so far, the other one keeps as much.
        let adr = seed % 3 == 0;
        if adr {
            specification.persistence.domain = Domain::Adr;
        }
        specification.modules[0].media.write_queue_entries = 1 + random.below(4);
        let mut bench = Bench::new(&specification);
        let (queue, media) = (bench.start("queue"), bench.start("media"));
        let mut writes: Vec<(u64, Line, Accepted)> = Vec::new();
        let mut now = 0;
        for number in 0..120u8 {
            now += random.below(300) as u64;
            let start = if random.once_in(3) { media } else { queue };
            let address = start + 64 * random.below(6) as u64;
            let bytes = Line([number + 1; LINE_BYTES]);
            // Some are dated ahead, and some are ordered behind others.
            let ahead = if random.once_in(5) { 2000 } else { 0 };
            let behind = if random.once_in(4) { now + 900 } else { 0 };
            let done = bench.write(address, &bytes, now + ahead, behind);
            assert!(done.durable >= behind && done.durable >= done.accepted);
            let in_domain = adr || start == queue;
            assert!(in_domain || done.durable >= done.accepted + ROW_WRITE);
            writes.push((address, bytes, done));
        }
        let mut moments: Vec<_> = (writes.iter())
            .flat_map(|write| [write.2.accepted, write.2.durable])
            .flat_map(|time| [time.saturating_sub(1), time])
            .collect();
        moments.sort_unstable();
        moments.dedup();
        for at in moments {
            let lost = bench.memory.power_off(at, &mut Tear::new(at));
            for address in (0..6).map(|line| queue + 64 * line) {
                let mut of_line = writes.iter().filter(|write| write.0 == address);
                let kept = of_line.rfind(|write| write.2.durable <= at);
                let expected = kept.map_or(Line::ZERO, |write| write.1);
                let found = bench.memory.arena.line(address);
                assert_eq!(*found, expected, "seed {seed}, cut at {at}, {address:#x}");
            }
            assert!(
                !adr || lost.writes_in_flight == 0,
                "seed {seed}: torn at {at}"
            );
            bench.memory.power_back(&lost);
        }
    }
}

#[test]
fn what_the_queues_hold_at_the_worst_moment_is_counted() {
    let mut specification = machine(&[]);
    specification.nvm.write_queue_entries = 4;
    let peak = |domain, writes: u64| {
        let mut specification = specification.clone();
        specification.persistence.domain = domain;
        let mut bench = Bench::new(&specification);
        for number in 0..writes {
            // One bank, so that they wait; the queue holds four at most.
            bench.write(number * 64, &Line([1; LINE_BYTES]), 0, 0);
        }
        bench.memory.reserve_peak_bytes()
    };
    assert_eq!(peak(Domain::Media, 9), 0);
    assert_eq!(
        [1, 3, 4, 9].map(|writes| peak(Domain::Adr, writes)),
        [64, 192, 256, 256]
    );
}

/// Cuts the power and gives it back: every store is there in between, and energy was counted for it.
fn cut(hardware: &mut Hardware, expected: &[Line], now: Cycles, told: &str) {
    let mut dirty = 0;
    hardware.newer_lines(&AtHome, &mut |line, _| {
        dirty += u64::from(line >= BYTES / LINE_BYTES as u64) * LINE_BYTES as u64;
    });
    let lost = hardware.power_off(&AtHome, now, &mut Tear::new(now));
    for (index, bytes) in expected.iter().enumerate() {
        let found = hardware.memory.arena.line(BYTES + 64 * index as u64);
        assert_eq!(found, bytes, "{told}");
    }
    assert_eq!(hardware.memory.arena.line(0), &Line::ZERO, "{told}");
    hardware.memory.power_back(&lost);
    let peak = hardware.statistics().reserve_peak_bytes;
    assert!(
        peak >= dirty,
        "{told}: {dirty} bytes are dirty, counted {peak}"
    );
}

/// Random stores of four harts through caches of a few lines. With the caches in the domain, every store
/// that was made is there after a cut, at once and whole; the reserve is what is dirty then at least.
#[test]
fn with_the_caches_in_the_domain_a_cut_loses_no_store() {
    for (seed, inclusion) in (0..8).flat_map(|seed| {
        [Inclusion::Inclusive, Inclusion::NonInclusive].map(|inclusion| (seed, inclusion))
    }) {
        let mut random = Random(seed);
        let mut specification = tiny(4);
        specification.llc.inclusion = inclusion;
        share_l2s(&mut specification, 1 + random.below(2));
        specification.persistence.domain = Domain::Eadr;
        add(
            &mut specification,
            &[("main", RegionKind::Dram, Persistence::None, "")],
        );
        let arena = Arena::new(specification.physical_map().bytes()).expect("address space");
        let mut hardware = Hardware::new(specification, arena, 0..0);
        let first = BYTES / LINE_BYTES as u64;
        let mut expected = vec![Line::ZERO; 200];
        let mut now = 0;
        for step in 0..3000u32 {
            now += 3;
            let index = random.below(expected.len());
            let line: LineNumber = first + index as u64;
            let hart = random.below(4);
            if random.once_in(40) {
                let persist = Persist {
                    hart,
                    line,
                    effect: [Effect::Clean, Effect::Flush][random.below(2)],
                    point: Point::Persistence,
                    order: Order::Line,
                };
                now = hardware.persist(&mut AtHome, &persist, now);
                continue;
            }
            if random.once_in(3) {
                (_, now) = hardware.load(&mut AtHome, hart, line, now);
            } else {
                let bytes = step.to_le_bytes();
                expected[index].0[..4].copy_from_slice(&bytes);
                (_, now) = hardware.store(&mut AtHome, hart, line, (0, &bytes), now);
            }
            // Lines of the DRAM are dirty, too, and are not kept.
            if random.once_in(10) {
                (_, now) = hardware.store(&mut AtHome, hart, line - first, (0, &[7]), now);
            }
            if step % 100 == 99 {
                cut(
                    &mut hardware,
                    &expected,
                    now,
                    &format!("seed {seed}, step {step}"),
                );
            }
        }
        hardware.audit(&AtHome).expect("a hierarchy that is whole");
        let groups = hardware.groups.len();
        let l2 = hardware.groups[0].l2.sets() * hardware.groups[0].l2.ways();
        let most = 64 * (4 * (4 + 16) + groups * l2) as u64;
        let peak = hardware.statistics().reserve_peak_bytes;
        let queued = 64 * 2 * 2;
        assert!(
            peak <= most + queued,
            "{peak} bytes do not fit in the caches and queues"
        );
    }
}

/// Recovery that reads two modules reads them at the same time.
#[test]
fn recovery_is_charged_to_the_module_that_has_the_bytes() {
    let pool = |name| (name, RegionKind::Persistent, Persistence::Media, "pool");
    let specification = machine(&[pool("a"), pool("b")]);
    let start = specification.nvm.bytes;
    let cycles = |reads: &[u64]| {
        let mut clock = RecoveryClock::new(&specification, 0..0);
        for &address in reads {
            clock.read(address, LINE_BYTES);
        }
        clock.cost().cycles
    };
    let one = cycles(&[start]);
    assert_eq!(cycles(&[start, start + GRANULE]), one);
    assert_eq!(cycles(&[start, 0]), one);
    assert!(cycles(&[start, start + 64]) > one);
    let mut clock = RecoveryClock::new(&specification, 0..0);
    clock.read(start - 64, 128 + GRANULE as usize);
    assert_eq!(clock.cost().read_bytes, 128 + GRANULE);
}

/// Devices of two modules recover side by side; what one has read keeps no other waiting.
#[test]
fn devices_recover_beside_each_other() {
    let alone = |name| (name, RegionKind::Persistent, Persistence::Media, "");
    let specification = machine(&[alone("a"), alone("b")]);
    let map = specification.physical_map();
    let starts = [1, 2].map(|region: usize| map.regions()[region].addresses.start);
    let cycles = |devices: &[u64]| {
        let mut clock = RecoveryClock::new(&specification, 0..0);
        for &start in devices {
            clock.device_begins();
            clock.read(start, LINE_BYTES);
            clock.write(start + 4096, LINE_BYTES);
        }
        clock.devices_end();
        clock.cost().cycles
    };
    assert_eq!(cycles(&starts), cycles(&starts[..1]));
    assert!(cycles(&[]) == 0 && cycles(&[starts[0], starts[0]]) > cycles(&starts[..1]));
}
