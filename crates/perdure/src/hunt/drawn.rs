//! The machine and schedule that a seed stands for.
//!
//! Always true here: the same design, request, seed and attempt get the same.

use perdure_designs::{Epochs, Facts};
use perdure_hardware::random::Random;

use super::CUTS;
use crate::request::{Request, Resume, Schedule};

/// A key with values to choose from; one of them is drawn as often as the key's default.
pub(crate) type Choice = (&'static str, &'static [&'static str]);

pub(crate) const MACHINES: &[Choice] = &[
    ("core.store_buffer_entries", &["1", "32"]),
    ("nvm.banks", &["1", "3", "64", "256"]),
    ("nvm.row_bytes", &["64", "256", "4096"]),
    ("nvm.row_read_ns", &["10", "500"]),
    ("nvm.row_write_ns", &["10", "4000"]),
    ("nvm.write_queue_entries", &["1", "2", "8"]),
    ("nvm.scheduling", &["\"fcfs\"", "\"start-order\""]),
    ("nvm.home_interleaving", &["\"line\"", "\"row\""]),
    ("scheduling.lookahead_cycles", &["1", "1000", "20000"]),
    ("scheduling.slice_cycles", &["5000", "50000"]),
];

/// Caches beside what the preset has: those that do not fit are refused, and the rest is seldom tiny.
pub(crate) const CACHES: &[Choice] = &[
    ("l1i.bytes", &["512", "1KiB", "4KiB"]),
    ("l1d.bytes", &["512", "1KiB", "2KiB", "4KiB"]),
    ("l1d.ways", &["1", "2"]),
    ("l2.bytes", &["1KiB", "2KiB", "4KiB", "16KiB", "32KiB"]),
    ("l2.ways", &["1", "2", "4"]),
    (
        "llc.bytes_per_hart",
        &["2KiB", "4KiB", "8KiB", "16KiB", "64KiB", "256KiB"],
    ),
    ("llc.ways", &["1", "4", "16"]),
];

/// Bytes of an L1, and how many times as large each level below is at least as what it includes.
const L1_BYTES: [u64; 4] = [512, 1024, 2048, 4096];
const LARGER: [u64; 3] = [1, 2, 4];
const WAYS: [u64; 3] = [1, 2, 4];

const STEPS: [u64; 4] = [1000, 2000, 4000, 8000];
const REGIONS_KIB: [u64; 5] = [4, 16, 64, 128, 256];
const OUTPUT_EVERY: [u64; 4] = [100, 300, 1000, 2000];
/// How often in a row the power is cut, where a cut is resumed; none: as a campaign has it by default.
const GENERATIONS: [Option<u32>; 5] = [None, None, Some(1), Some(2), Some(5)];

/// Caches of a few lines that fit into one another: what is drawn level by level hardly ever would.
pub(crate) fn caches(random: &mut Random, sharing_harts: u64) -> Vec<String> {
    let l1 = [one_of(random, &L1_BYTES), one_of(random, &L1_BYTES)];
    let included = (l1[0] + l1[1]).next_power_of_two() * sharing_harts;
    let l2 = included * one_of(random, &LARGER);
    let llc = l2 / sharing_harts * one_of(random, &LARGER) * one_of(random, &LARGER);
    let sizes = [
        ("l1i.bytes", l1[0]),
        ("l1d.bytes", l1[1]),
        ("l1d.ways", one_of(random, &WAYS[..2])),
        ("l2.bytes", l2),
        ("l2.ways", one_of(random, &WAYS)),
        ("llc.bytes_per_hart", llc),
        ("llc.ways", one_of(random, &WAYS)),
    ];
    sizes.map(|(key, value)| format!("{key}={value}")).into()
}

pub(crate) fn one_of<T: Copy>(random: &mut Random, among: &[T]) -> T {
    among[random.below(among.len() as u64) as usize]
}

/// Whether nobody has said what to run, so that each seed draws a program.
pub(super) fn draws_program(asked: &Request) -> bool {
    asked.program.is_empty() && asked.programs.is_empty()
}

/// What a design says about itself that a machine is drawn by.
pub(super) struct Drawn {
    by_group: bool,
    /// It has some to go on from, which is what a hunt watches.
    pub(super) has_epochs: bool,
    settings: Vec<(&'static str, Vec<&'static str>)>,
}

impl Drawn {
    /// Every key of the design's unlucky settings with its values.
    pub(super) fn of(design: &Facts) -> Self {
        let mut settings: Vec<(&str, Vec<&str>)> = Vec::new();
        for text in design.unlucky_settings.iter().flat_map(|set| set.iter()) {
            let Some((key, value)) = text.split_once('=') else {
                continue;
            };
            match settings.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) if values.contains(&value) => {}
                Some((_, values)) => values.push(value),
                None => settings.push((key, vec![value])),
            }
        }
        let by_group = design.epochs == Epochs::ByGroup;
        if !design.needs_inclusion && !by_group {
            settings.push(("llc.inclusion", vec!["inclusive", "non-inclusive"]));
        }
        Self {
            by_group,
            has_epochs: design.epochs != Epochs::None,
            settings,
        }
    }

    /// The request of a seed; the `attempt`-th, where the design refused those before.
    pub(super) fn request(&self, base: &Request, seed: u64, attempt: u64) -> Request {
        // Every second machine has caches of a few lines: some orders show there alone, others never.
        let tiny = seed.is_multiple_of(2);
        let alone = if tiny { &[] } else { CACHES };
        let number = seed.div_ceil(2);
        let mut random = Random::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ attempt << 56);
        let random = &mut random;
        let mut set = Vec::new();
        for (key, values) in alone.iter().chain(MACHINES) {
            // The later the attempt, the closer to the preset: something must fit.
            if random.below(2 + attempt / 4) == 0 {
                set.push(format!("{key}={}", one_of(random, values)));
            }
        }
        for (key, values) in &self.settings {
            if random.below(2) == 0 {
                set.push(format!("{key}={}", one_of(random, values)));
            }
        }
        let harts = if self.by_group {
            one_of(random, &[2u64, 4, 4])
        } else {
            one_of(random, &[1u64, 1, 2, 4])
        };
        if base.harts.is_none() {
            set.push(format!("harts={harts}"));
        }
        let sharing_harts = if harts > 1 && random.below(4) == 0 {
            set.push("l2.harts=2".into());
            2
        } else {
            1
        };
        if tiny && random.below(4 + attempt / 4) < 3 {
            set.extend(caches(random, sharing_harts));
        }
        set.push(if self.by_group || random.below(3) == 0 {
            format!("epoch.stores={}", one_of(random, &[60, 200, 500, 2000]))
        } else {
            let length = one_of(random, &[1000, 2000, 5000, 10_000, 20_000, 60_000]);
            format!("epoch.instructions={length}")
        });
        let schedules = [Schedule::NearEvents, Schedule::Random, Schedule::Stratified];
        let mut request = Request {
            schedule: Some(one_of(random, &schedules)),
            cuts: Some(CUTS),
            seed: Some(random.bits() >> 1),
            during_recovery: true,
            resume: Some(one_of(random, &[Resume::Sample, Resume::None])),
            generations: one_of(random, &GENERATIONS),
            jobs: Some(1),
            ..base.clone()
        };
        // What the user set holds, whatever is drawn.
        set.append(&mut request.set);
        request.set = set;
        if draws_program(&request) {
            let (steps, region) = (one_of(random, &STEPS), one_of(random, &REGIONS_KIB));
            let every = one_of(random, &OUTPUT_EVERY);
            request.program = vec![format!(
                "@exerciser:{}:{region}:{every}:{harts}",
                steps / harts
            )];
        }
        request
    }
}
