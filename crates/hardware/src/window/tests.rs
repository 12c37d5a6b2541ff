//! Micro-kernels whose time is known in closed form, laws that hold for every stream of instructions, and
//! cases that each structure alone decides.

use super::*;
use crate::cache::Slot;
use crate::counters::Counters as _;
use crate::random::Random;
use crate::statistics::Statistics;

/// Latency of everything that misses here.
const MISS: Cycles = 200;
const SLOTS: usize = 64;

/// A core, and a memory of which every kernel says itself what it answers.
struct Rig {
    window: Window,
    clock: Cycles,
}

fn wide() -> WindowSpecification {
    WindowSpecification {
        reorder_buffer_entries: 4096,
        issue_queue_entries: 4096,
        load_queue_entries: 4096,
        store_queue_entries: 4096,
        l1d_miss_entries: 4096,
        ..WindowSpecification::default()
    }
}

impl Rig {
    fn new(core: &WindowSpecification) -> Self {
        Self {
            window: Window::new(core, 2, SLOTS),
            clock: 0,
        }
    }

    fn run(
        &mut self,
        work: Work,
        sources: [u8; 3],
        destination: u8,
        at_work: impl FnOnce(&mut Window),
    ) {
        let instruction = Instruction {
            work,
            sources,
            destination,
        };
        self.window.begin(instruction, self.clock);
        at_work(&mut self.window);
        self.clock += self.window.end(work, 0x1000, None).0;
    }

    /// A transfer of control, which goes there.
    fn transfer(&mut self, transfer: Transfer, target: u64) {
        let instruction = Instruction {
            work: Work::Transfer(transfer),
            sources: [0; 3],
            destination: NOWHERE,
        };
        self.window.begin(instruction, self.clock);
        self.clock += (self.window.end(instruction.work, 0x1000, Some(target))).0;
    }

    fn plain(&mut self, work: Work, sources: [u8; 3], destination: u8) {
        self.run(work, sources, destination, |_| ());
    }

    /// A load of a line that is nowhere near, or in the L1D.
    fn load(&mut self, slot: u32, address: u64, sources: [u8; 3], destination: u8, miss: bool) {
        self.run(Work::Load, sources, destination, |window| {
            let ready = if miss {
                window.miss(1) + MISS
            } else {
                window.issued()
            };
            window.load(Slot(slot), (address, 8), ready);
        });
    }

    fn store(&mut self, slot: u32, address: u64, latency: Cycles) {
        self.run(Work::Store, [1, 2, 0], NOWHERE, |window| {
            let ready = match latency {
                0 => window.issued(),
                _ => window.miss(1) + latency,
            };
            window.store(Slot(slot), (address, 8), ready);
        });
    }

    /// When everything has committed.
    fn end(mut self) -> Cycles {
        self.clock += self.window.trap(self.clock);
        self.conserves();
        self.clock
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::default();
        self.window.report(&mut statistics);
        statistics
    }

    fn conserves(&self) {
        let all: Cycles = self.window.cycles.iter().sum();
        assert_eq!(all, self.window.present);
        self.statistics().check_conservation().unwrap();
    }
}

/// Within 2 % of the formula.
#[track_caller]
fn about(cycles: Cycles, formula: Cycles) {
    let apart = cycles.abs_diff(formula);
    assert!(apart * 50 <= formula, "{cycles} cycles, not {formula}");
}

const MANY: Cycles = 2000;

#[test]
fn a_dependent_chain_takes_the_sum_of_its_latencies() {
    let chain = |work: Work| {
        let mut rig = Rig::new(&wide());
        for _ in 0..MANY {
            rig.plain(work, [5, 0, 0], 5);
        }
        rig.end()
    };
    about(chain(Work::Integer), MANY);
    about(chain(Work::Multiply), 3 * MANY);
    about(chain(Work::FloatMultiply), 4 * MANY);
    let mut rig = Rig::new(&wide());
    (0..MANY).for_each(|_| rig.load(0, 64, [5, 0, 0], 5, false));
    about(rig.end(), 2 * MANY);
}

#[test]
fn independent_work_is_bounded_by_units_and_widths() {
    let independent = |work: Work, core: &WindowSpecification| {
        let mut rig = Rig::new(core);
        for number in 0..MANY {
            rig.plain(work, [0; 3], 5 + (number % 8) as u8);
        }
        rig.end()
    };
    let core = WindowSpecification::default();
    about(independent(Work::Integer, &core), MANY / 6);
    about(independent(Work::Multiply, &core), MANY / 2);
    about(independent(Work::Divide, &core), MANY * 20 / 2);
    about(independent(Work::FloatDivide, &core), MANY * 12 / 2);
    about(independent(Work::Float, &core), MANY / 4);
    let narrow = |change: fn(&mut WindowSpecification)| {
        let mut core = wide();
        change(&mut core);
        independent(Work::Integer, &core)
    };
    about(narrow(|core| core.fetch_width = 2), MANY / 2);
    about(narrow(|core| core.dispatch_width = 3), MANY / 3);
    about(narrow(|core| core.issue_width = 1), MANY);
    about(narrow(|core| core.commit_width = 4), MANY / 4);
}

#[test]
fn independent_misses_are_bounded_by_the_entries_for_them() {
    for entries in [1, 4, 16] {
        let mut rig = Rig::new(&WindowSpecification {
            l1d_miss_entries: entries,
            ..wide()
        });
        for number in 0..MANY {
            rig.load((number % 64) as u32, number * 64, [0; 3], 5, true);
        }
        assert!(rig.statistics().window_l1d_miss_wait_cycles > 0);
        about(rig.end(), MANY * MISS / entries as u64);
    }
    let mut rig = Rig::new(&wide());
    for number in 0..MANY {
        rig.load(0, number * 64, [5, 0, 0], 5, true);
    }
    about(rig.end(), MANY * (MISS + 2));
}

#[test]
fn misses_overlap_as_far_as_the_window_reaches() {
    for (entries, every) in [(64, 64), (64, 16), (192, 32)] {
        let mut rig = Rig::new(&WindowSpecification {
            reorder_buffer_entries: entries,
            ..wide()
        });
        for number in 0..MANY * 10 {
            match number % every {
                0 => rig.load(0, number * 64, [0; 3], 5, true),
                _ => rig.plain(Work::Integer, [0; 3], 6),
            }
        }
        let statistics = rig.statistics();
        assert!(statistics.window_reorder_buffer_cycles * 10 > statistics.window_cycles * 8);
        // All of the window's misses begin within its dispatch, and one latency later the next.
        let misses = entries as u64 / every;
        let begun = (misses - 1) * every / 8;
        let formula = MANY * 10 / entries as u64 * (MISS + 4);
        let cycles = rig.end();
        assert!(
            (formula * 98 / 100..=(formula + MANY * 10 / entries as u64 * begun) * 102 / 100)
                .contains(&cycles),
            "{entries}, {every}: {cycles}, not {formula}"
        );
    }
}

#[test]
fn a_fence_after_each_store_costs_each_store_in_full() {
    let mut rig = Rig::new(&wide());
    let mut written = 0;
    for number in 0..MANY {
        rig.store((number % 64) as u32, number * 64, MISS);
        rig.run(Work::Alone(Alone::Fence), [0; 3], NOWHERE, |window| {
            // As `CoreTiming::fence` has it: until the last store is written.
            written = window.written;
            window.completes(written);
        });
        assert!(rig.clock >= written, "nothing follows before it");
    }
    let statistics = rig.statistics();
    assert_eq!(statistics.window_head_stalls, MANY);
    assert!(statistics.window_fence_cycles > MANY * (MISS - 5));
    about(rig.end(), MANY * (MISS + 2));
    let mut without = Rig::new(&wide());
    (0..MANY).for_each(|number| without.store((number % 64) as u32, number * 64, MISS));
    about(without.end(), MANY);
}

#[test]
fn a_mispredicted_branch_costs_its_resolution_and_the_front_end() {
    for front_end_cycles in [5, 15] {
        let mut rig = Rig::new(&WindowSpecification {
            front_end_cycles,
            ..wide()
        });
        for number in 0..MANY {
            rig.transfer(Transfer::Indirect, 0x2000 + 64 * number);
        }
        let statistics = rig.statistics();
        assert_eq!(statistics.window_mispredicts, MANY);
        // Dispatched, issued, complete; then fetched anew.
        about(rig.end(), MANY * (2 + front_end_cycles));
    }
}

#[test]
fn a_taken_branch_ends_what_is_fetched_in_a_cycle() {
    let mut rig = Rig::new(&wide());
    for number in 0..MANY {
        rig.plain(Work::Integer, [0; 3], 5);
        rig.transfer(Transfer::Jump, 64 * number);
    }
    about(rig.end(), MANY);
}

#[test]
fn each_queue_bounds_what_it_holds() {
    let bounded = |change: fn(&mut WindowSpecification), load: bool| {
        let mut core = wide();
        change(&mut core);
        let mut rig = Rig::new(&core);
        for number in 0..MANY {
            if load {
                rig.load((number % 64) as u32, number * 64, [0; 3], 5, true);
            } else {
                rig.store((number % 64) as u32, number * 64, MISS);
            }
        }
        let statistics = rig.statistics();
        let stalls = [
            statistics.window_load_queue_cycles,
            statistics.window_store_queue_cycles,
        ];
        assert!(stalls[usize::from(!load)] * 10 > statistics.window_cycles * 8);
        assert_eq!(stalls[usize::from(load)], 0);
        rig.end()
    };
    about(
        bounded(|core| core.load_queue_entries = 8, true),
        MANY * (MISS + 3) / 8,
    );
    about(
        bounded(|core| core.store_queue_entries = 8, false),
        MANY * (MISS + 1) / 8,
    );
}

#[test]
fn the_issue_queue_holds_what_waits_for_operands() {
    let mut rig = Rig::new(&WindowSpecification {
        issue_queue_entries: 8,
        ..wide()
    });
    for number in 0..100 {
        rig.load(0, number * 64, [0; 3], 5, true);
        (0..20).for_each(|_| rig.plain(Work::Integer, [5, 0, 0], 6));
    }
    // Of the next round, the load waits for the queue until the last of its users has been issued.
    let statistics = rig.statistics();
    assert!(statistics.window_issue_queue_cycles > 95 * MISS);
    about(rig.end(), 100 * (MISS + 6));
}

#[test]
fn stores_are_written_in_order_or_as_their_lines_come() {
    let written = |store_order| {
        let mut rig = Rig::new(&WindowSpecification {
            store_queue_entries: 2,
            store_order,
            ..wide()
        });
        for number in 0..MANY {
            let latency = if number % 8 == 0 { MISS } else { 0 };
            rig.store((number % 64) as u32, number * 64, latency);
        }
        rig.end()
    };
    // The entry beside the one that waits goes round seven times meanwhile, and the next miss overlaps.
    let (tso, weak) = (written(StoreOrder::Tso), written(StoreOrder::Weak));
    about(tso, MANY / 8 * (MISS + 10));
    assert!(weak * 10 < tso * 8, "{weak} weak, {tso} in order");
}

#[test]
fn a_load_takes_bytes_from_the_store_queue_or_waits_for_them() {
    let mut rig = Rig::new(&wide());
    rig.store(3, 640, MISS);
    let mut seen = |address, bytes| {
        let before = rig.statistics().window_forwarded;
        let mut complete = 0;
        rig.run(Work::Load, [0; 3], 5, |window| {
            let issued = window.issued();
            window.load(Slot(3), (address, bytes), issued);
            complete = window.at_hand.complete - issued;
        });
        (complete, rig.statistics().window_forwarded - before)
    };
    assert_eq!(seen(640, 8), (2, 1));
    assert_eq!(seen(644, 4), (2, 1), "a part");
    let (wait, forwarded) = seen(648, 8);
    assert!(
        wait > MISS - 5 && forwarded == 0,
        "bytes of the line beside it"
    );
    let mut rig = Rig::new(&wide());
    rig.run(Work::Store, [0; 3], NOWHERE, |window| {
        let ready = window.miss(1) + MISS;
        window.store(Slot(3), (640, 1), ready);
    });
    let begun = rig.clock;
    rig.load(3, 640, [0; 3], 5, false);
    assert_eq!(
        rig.statistics().window_forwarded,
        0,
        "only one byte of eight"
    );
    assert!(rig.end() > begun + MISS);
}

#[test]
fn a_line_on_its_way_is_waited_for_and_asked_for_once() {
    let mut rig = Rig::new(&WindowSpecification {
        l1d_miss_entries: 1,
        ..wide()
    });
    for number in 0..100 {
        rig.load(7, number * 64, [0; 3], 5, true);
        rig.load(7, number * 64 + 8, [0; 3], 6, false);
        rig.load(7, number * 64 + 16, [0; 3], 6, false);
    }
    about(rig.end(), 100 * MISS);
}

#[test]
fn what_waits_at_the_head_keeps_everything_behind_it() {
    let mut rig = Rig::new(&wide());
    rig.load(0, 0, [0; 3], 5, true);
    let mut issued = 0;
    rig.run(Work::Alone(Alone::Atomic), [0; 3], 6, |window| {
        issued = window.issued();
        window.completes(issued + 50);
    });
    assert!(issued >= MISS, "the load has committed");
    assert_eq!(rig.clock, issued + 50, "the present has gone on");
    rig.plain(Work::Integer, [0; 3], 7);
    assert_eq!(rig.clock, issued + 50);
    let mut rig = Rig::new(&wide());
    rig.load(0, 0, [0; 3], 5, true);
    rig.run(Work::Alone(Alone::Flush), [0; 3], NOWHERE, |window| {
        let head = window.wait_at_head(Alone::Flush);
        assert!(head >= MISS);
        window.post(head + 1000);
    });
    assert!(rig.clock < 10, "it was posted: nothing waits for it");
    assert_eq!(rig.statistics().window_head_stalls, 0);
}

#[test]
fn a_trap_waits_for_all_before_it() {
    let mut rig = Rig::new(&wide());
    rig.load(0, 0, [0; 3], 5, true);
    assert!(rig.clock < 10);
    rig.clock += rig.window.trap(rig.clock);
    assert!(rig.clock > MISS);
    let (at, back) = (rig.clock, 1000);
    rig.clock += back;
    rig.plain(Work::Integer, [0; 3], 5);
    assert_eq!(rig.clock, at + back);
    assert_eq!(rig.statistics().window_outside_cycles, back);
    rig.conserves();
}

/// A stream of everything, with hits, misses, waits and mispredictions.
fn stream(rig: &mut Rig, random: &mut Random, instructions: usize) {
    let works = [
        Work::Integer,
        Work::Integer,
        Work::Multiply,
        Work::Divide,
        Work::Float,
        Work::FloatMultiply,
        Work::FloatDivide,
        Work::Transfer(Transfer::Branch),
        Work::Transfer(Transfer::Return),
        Work::Transfer(Transfer::Call),
    ];
    for _ in 0..instructions {
        let bits = random.bits();
        let register = |shift: u32| (bits >> shift) as u8 % 64;
        let sources = [register(8), register(16), register(24)];
        let (slot, address) = ((bits >> 32) as u32 % 64, bits >> 32 & 0xfff);
        let before = rig.window.present;
        match bits % 32 {
            0..8 => rig.load(slot, address, sources, register(40), bits >> 50 & 7 == 0),
            8..12 => rig.store(slot, address, (bits >> 50 & 1) * MISS),
            12 if bits >> 50 & 7 == 0 => {
                rig.run(Work::Alone(Alone::Fence), sources, NOWHERE, |window| {
                    window.completes(window.written);
                });
            }
            13 if bits >> 50 & 7 == 0 => rig.clock += bits >> 54 & 0xff,
            14 if bits >> 50 & 7 == 0 => rig.clock += rig.window.trap(rig.clock),
            15 => rig.window.fetched(rig.clock + (bits >> 54 & 0x1f)),
            other => {
                let work = works[other as usize % works.len()];
                let instruction = Instruction {
                    work,
                    sources,
                    destination: register(40),
                };
                rig.window.begin(instruction, rig.clock);
                let target = (bits >> 50 & 1 == 0).then_some(address * 2);
                rig.clock += rig.window.end(work, 0x1000 + address, target).0;
            }
        }
        assert!(rig.window.present >= before, "time goes forward");
        rig.conserves();
    }
}

#[test]
fn every_cycle_has_one_cause_and_a_copy_goes_on_alike() {
    let fresh = std::collections::hash_map::RandomState::new();
    let fresh = std::hash::BuildHasher::hash_one(&fresh, 0);
    for seed in [1, fresh] {
        println!("seed {seed}");
        for small in [false, true] {
            let mut core = WindowSpecification::default();
            if small {
                core.reorder_buffer_entries = 12;
                core.issue_queue_entries = 5;
                core.load_queue_entries = 3;
                core.store_queue_entries = 2;
                core.l1d_miss_entries = 2;
                core.fetch_queue_entries = 1;
                core.store_order = StoreOrder::Weak;
            }
            let mut rig = Rig::new(&core);
            let mut random = Random::new(seed);
            stream(&mut rig, &mut random, 3000);
            let mut copy = Rig {
                window: rig.window.clone(),
                clock: rig.clock,
            };
            let mut again = random.clone();
            stream(&mut rig, &mut random, 3000);
            stream(&mut copy, &mut again, 3000);
            assert_eq!(rig.clock, copy.clock, "seed {seed}");
            assert_eq!(rig.statistics(), copy.statistics(), "seed {seed}");
        }
    }
}
