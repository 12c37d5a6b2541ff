//! What the tests of the examples that restart share: a machine without processors whose power is cut at
//! every event, and again while it recovers, before its promise's oracle.

use perdure_designs::oracle::{Beginning, Evidence, Fault, Judgement, Oracle, Remember, Witness};
use perdure_designs::surviving::{Interrupted, Journal, Surviving, recover_devices};
use perdure_designs::{Design, Promise, Recovered};
use perdure_hardware::arena::Arena;
use perdure_hardware::memory::{Memory, Tear};
use perdure_hardware::random::Random;
use perdure_hardware::specification::Specification;
use perdure_hardware::time::Cycles;

use crate::rigs::judge::Image;
use crate::rigs::rig::Rig;

/// A rig with its promise's oracle.
pub struct Run<D: Design> {
    pub rig: Rig<D>,
    oracle: D::Promise,
    bug: Option<&'static str>,
    /// Of each recovery, so many steps are cut at the most.
    most_steps: u64,
    pub cuts: u64,
    pub in_recovery: u64,
    /// Cuts that left something without what it had loaded, and without what its thread did before.
    pub without: [u64; 2],
    /// The first thing that was wrong.
    pub fault: Option<Fault>,
}

impl<D: Design> Run<D> {
    pub fn new(specification: Specification, bug: Option<&'static str>, most_steps: u64) -> Self {
        Self::with(specification, &D::Parameters::default(), bug, most_steps)
    }

    pub fn with(
        specification: Specification,
        parameters: &D::Parameters,
        bug: Option<&'static str>,
        most_steps: u64,
    ) -> Self {
        let arena = Arena::new(specification.physical_map().bytes()).expect("an arena");
        let mut rig = Rig::<D>::over(specification, parameters, bug, arena, 0, Image::new());
        rig.hardware.memory.trace = Some(Vec::new());
        let scope = D::Promise::scope(rig.hardware.memory.map(), &rig.layout);
        if D::Promise::HEARS_LOADS {
            rig.hardware.hear_loads(scope.clone());
        }
        rig.hardware.memory.arena.keep_digest(scope);
        let beginning = Beginning {
            epoch: 0,
            executing: 0,
            groups: 1,
        };
        let oracle = D::Promise::begin(&witness(&rig), beginning, Remember::Digests);
        Self {
            oracle: oracle.expect("no copy is made"),
            rig,
            bug,
            most_steps,
            cuts: 0,
            in_recovery: 0,
            without: [0; 2],
            fault: None,
        }
    }

    /// Does something, and cuts at every event up to when the hart goes on.
    pub fn act<A>(&mut self, act: impl FnOnce(&mut Rig<D>) -> A) -> A {
        let now = self.rig.clock(0);
        let answer = act(&mut self.rig);
        self.cut_between(now, self.rig.clock(0));
        answer
    }

    /// The hart that is furthest behind does something, after the events that are due; and cuts at every
    /// event up to whatever happens next.
    pub fn step(&mut self, act: impl FnOnce(&mut Rig<D>, usize)) {
        let hart = self.rig.next_hart();
        loop {
            let due = self.rig.hardware.events.next_time();
            if due > self.rig.clock(hart) {
                break;
            }
            self.rig.fire_next(false);
            self.cut_between(due, self.next_step().max(due));
        }
        let now = self.rig.clock(hart);
        act(&mut self.rig, hart);
        self.cut_between(now, self.next_step().max(now));
    }

    fn next_step(&self) -> Cycles {
        let clock = self.rig.clock(self.rig.next_hart());
        self.rig.hardware.events.next_time().min(clock)
    }

    /// Cuts at every event from one time to another.
    pub fn cut_between(&mut self, first: Cycles, last: Cycles) {
        let times = self.rig.hardware.memory.persistence_times.as_mut();
        let mut times = std::mem::take(times.expect("the rig asks for them"));
        times.extend([first, last]);
        times.sort_unstable();
        times.dedup();
        let (now, later) = times.into_iter().partition(|&time| time <= last);
        let (now, later): (Vec<Cycles>, Vec<Cycles>) = (now, later);
        self.rig.hardware.memory.persistence_times = Some(later);
        if self.fault.is_some() {
            return;
        }
        for at in now.into_iter().filter(|&time| time >= first) {
            for at in [at.saturating_sub(1).max(first), at] {
                let judged = self.cut(at);
                let without = &judged.without;
                self.without[0] += u64::from(without.loaded.is_some());
                self.without[1] += u64::from(without.before.is_some());
                let Some(breach) = judged.breaches.first() else {
                    continue;
                };
                if self.fault.is_none() {
                    println!("cut at {at}: {}", breach.message);
                }
                self.fault = self.fault.or(Some(breach.fault));
            }
        }
    }

    /// Cuts the power, judges, and cuts again at steps of recovery.
    fn cut(&mut self, at: Cycles) -> Judgement {
        let events = self.rig.hardware.memory.trace.as_mut().map(std::mem::take);
        self.oracle
            .follow(&witness(&self.rig), events.unwrap_or_default());
        self.cuts += 1;
        let (hardware, design) = (&mut self.rig.hardware, &self.rig.design);
        let mut lost = hardware.power_off(design, at, &mut Tear::new(self.cuts));
        design.drain(at, &mut |address, bytes| {
            hardware.memory.drain(&mut lost, address, bytes);
        });
        let (mut judgement, steps) = self.recover_and_judge(at, None);
        let mut random = Random::new(at);
        for index in 0..steps.min(self.most_steps) {
            let few = steps <= self.most_steps;
            let step = if few { index } else { random.below(steps) };
            self.in_recovery += 1;
            let (again, _) = self.recover_and_judge(at, Some(step));
            if judgement.breaches.is_empty() && again != judgement {
                judgement = again;
            }
        }
        self.rig.hardware.memory.power_back(&lost);
        judgement
    }

    /// Lets everything recover from what survived, perhaps after a recovery that was cut at a step; judges,
    /// and puts back what was written. Returns with how many steps it took.
    fn recover_and_judge(&mut self, at: Cycles, fails_at: Option<u64>) -> (Judgement, u64) {
        let memory = &mut self.rig.hardware.memory;
        let interrupted = fails_at.map(|step| {
            let (_, _, journal) = recover::<D>(memory, Some((step, Tear::new(at))), self.bug);
            journal
        });
        let (recovered, steps, journal) = recover::<D>(memory, None, self.bug);
        let judgement = self.oracle.judge(&Evidence {
            recovered: &recovered,
            image: &memory.arena,
            memory: memory.arena.digest().expect("it is kept"),
            at,
            announced: 0,
            seen: 0,
            early: None,
        });
        for journal in [Some(journal), interrupted].into_iter().flatten() {
            journal.undo(&mut memory.arena);
        }
        (judgement, steps)
    }
}

/// The devices recover, and then the design: what that said, how many steps it took, what it overwrote.
fn recover<D: Design>(
    memory: &mut Memory,
    fails_at: Option<(u64, Tear)>,
    bug: Option<&'static str>,
) -> (Result<Recovered, Interrupted>, u64, Journal) {
    let devices = memory.device_recoveries();
    let mut image = Surviving::of(memory, Journal::default());
    if let Some((step, tear)) = fails_at {
        image = image.failing_at(step, tear);
    }
    let recovered = recover_devices(&mut image, &devices);
    let recovered = recovered.and_then(|()| D::recover(&mut image, bug));
    (recovered, image.steps(), image.into_journal())
}

fn witness<D: Design>(rig: &Rig<D>) -> Witness<'_> {
    Witness {
        hardware: &rig.hardware,
        design: &rig.design,
        range: D::Promise::scope(rig.hardware.memory.map(), &rig.layout),
    }
}
