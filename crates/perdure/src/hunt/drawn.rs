//! The machine and schedule that a seed stands for.
//!
//! Always true here: the same design, request, seed and attempt get the same.

use perdure_designs::{Epochs, Facts};
use perdure_hardware::random::Random;

use super::{
    CACHES, CUTS, GENERATIONS, MACHINES, OUTPUT_EVERY, REGIONS_KIB, STEPS, caches, one_of,
};
use crate::request::{Request, Resume, Schedule};

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
        if request.program.is_empty() && request.programs.is_empty() {
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
