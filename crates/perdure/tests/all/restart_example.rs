//! The restart example of `docs/add-a-design.md`: a design without epochs, whose programs are lost and whose
//! pool comes back. Transactions are driven by hand, because programs cannot map pools yet; whole machines
//! run programs under it, and say at a cut what is lost.

use perdure::api::Unobserved;
use perdure::campaign;
use perdure::request::Request;
use perdure_designs::oracle::{Beginning, Evidence, Fault, Judgement, Oracle, Remember, Witness};
use perdure_designs::surviving::{Journal, Surviving};
use perdure_designs::{Design, Promise};
use perdure_hardware::arena::Arena;
use perdure_hardware::line::line_of;
use perdure_hardware::memory::Tear;
use perdure_hardware::physical_map::RegionKind;
use perdure_hardware::random::Random;
use perdure_hardware::specification::{
    Domain, ModuleSpecification, Persistence, PersistenceDomain, Specification,
};
use perdure_hardware::time::Cycles;

use crate::rigs::geometry::{DIRECT_MAPPED, Geometry, TINY};
use crate::rigs::judge::Image;
use crate::rigs::rig::Rig;
use crate::undo_log::{BEGIN, COMMIT, Parameters, UndoLog, WholeTransactions, data_of};

/// A small machine with as much DRAM before its pool as that has.
fn machine(geometry: &Geometry) -> Specification {
    let mut specification = geometry.specification();
    specification.persistence = PersistenceDomain {
        domain: Domain::Adr,
    };
    specification.modules = vec![ModuleSpecification {
        name: "main".into(),
        kind: RegionKind::Dram,
        persistence: Persistence::None,
        region: String::new(),
        interleaving_bytes: 4096,
        device_bytes: 0,
        media: specification.nvm.clone(),
        link: specification.link.clone(),
    }];
    specification
}

/// A rig with the oracle of its pool.
struct Run {
    rig: Rig<UndoLog>,
    oracle: WholeTransactions,
    bug: Option<&'static str>,
    cuts: u64,
    in_recovery: u64,
    /// The first thing that was wrong.
    fault: Option<Fault>,
}

impl Run {
    fn new(geometry: &Geometry, bug: Option<&'static str>) -> Self {
        let specification = machine(geometry);
        let arena = Arena::new(specification.physical_map().bytes()).expect("an arena");
        let mut rig =
            Rig::<UndoLog>::over(specification, &Parameters {}, bug, arena, 0, Image::new());
        rig.hardware.trace = Some(Vec::new());
        let data = WholeTransactions::scope(rig.hardware.memory.map(), &rig.layout);
        rig.hardware.memory.arena.keep_digest(data);
        let beginning = Beginning {
            epoch: 0,
            executing: 0,
            groups: 1,
        };
        let oracle = WholeTransactions::begin(&witness(&rig), beginning, Remember::Digests);
        Self {
            oracle: oracle.expect("no copy is made"),
            rig,
            bug,
            cuts: 0,
            in_recovery: 0,
            fault: None,
        }
    }

    fn instruct(&mut self, function: u16) -> u64 {
        let now = self.rig.clock(0);
        let Rig {
            hardware, design, ..
        } = &mut self.rig;
        let answer = hardware.instruct(design, 0, function, [0; 2], now);
        let (value, done) = answer.expect("the design has it");
        // What has happened up to the next instruction is seen before the hart goes on.
        self.cut_between(now, done);
        self.rig.hold_until(done);
        self.rig.pause(0, 1);
        value
    }

    /// Cuts at every event from one time to another.
    fn cut_between(&mut self, first: Cycles, last: Cycles) {
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
                let breach = judged.breaches.first().map(|breach| breach.fault);
                self.fault = self.fault.or(breach);
            }
        }
    }

    /// Cuts the power, judges, and cuts again at every step of recovery.
    fn cut(&mut self, at: Cycles) -> Judgement {
        let events = self.rig.hardware.trace.as_mut().map(std::mem::take);
        self.oracle
            .follow(&witness(&self.rig), events.unwrap_or_default());
        self.cuts += 1;
        let (hardware, design) = (&mut self.rig.hardware, &self.rig.design);
        let lost = hardware.power_off(design, at, &mut Tear::new(self.cuts));
        let memory = &mut hardware.memory;
        let judge = |memory: &mut perdure_hardware::memory::Memory, fails_at: Option<u64>| {
            let mut surviving = Surviving::of(memory, Journal::default());
            let mut interrupted = None;
            if let Some(step) = fails_at {
                surviving = surviving.failing_at(step, Tear::new(at));
                let _ = UndoLog::recover(&mut surviving, self.bug);
                interrupted = Some(surviving.into_journal());
                surviving = Surviving::of(memory, Journal::default());
            }
            let recovered = UndoLog::recover(&mut surviving, self.bug);
            let steps = surviving.steps();
            let journal = surviving.into_journal();
            let judgement = self.oracle.judge(&Evidence {
                recovered: &recovered,
                image: &memory.arena,
                memory: memory.arena.digest().expect("it is kept"),
                at,
                announced: 0,
                seen: 0,
                early: None,
            });
            journal.undo(&mut memory.arena);
            if let Some(interrupted) = interrupted {
                interrupted.undo(&mut memory.arena);
            }
            (judgement, steps)
        };
        let (mut judgement, steps) = judge(memory, None);
        for step in 0..steps {
            self.in_recovery += 1;
            let (again, _) = judge(memory, Some(step));
            if judgement.breaches.is_empty() && again != judgement {
                judgement = again;
            }
        }
        memory.power_back(&lost);
        judgement
    }

    /// Random transactions, cut at every event.
    fn transact(&mut self, seed: u64, transactions: u64) {
        let mut random = Random::new(seed);
        let pool = self
            .rig
            .hardware
            .memory
            .map()
            .pools()
            .next()
            .expect("a pool");
        let first = line_of(data_of(&pool).start);
        for number in 1..=transactions {
            assert_eq!(self.instruct(BEGIN), 1);
            for _ in 0..=random.below(12) {
                let now = self.rig.clock(0);
                let line = first + random.below(24);
                self.rig
                    .store(0, line, random.below(8) as usize, random.bits());
                // And some in DRAM, which push the pool's lines out.
                self.rig.store(0, 4096 + random.below(64), 0, random.bits());
                self.cut_between(now, self.rig.clock(0));
            }
            assert_eq!(self.instruct(COMMIT), number);
            if self.fault.is_some() {
                return;
            }
        }
        assert!(self.rig.hardware.failure.is_none() && self.rig.hardware.breach.is_none());
    }
}

fn witness(rig: &Rig<UndoLog>) -> Witness<'_> {
    Witness {
        hardware: &rig.hardware,
        design: &rig.design,
        range: WholeTransactions::scope(rig.hardware.memory.map(), &rig.layout),
    }
}

/// What a run of transactions is accused of, with its cuts.
fn accused(geometry: &Geometry, seed: u64, bug: Option<&'static str>) -> (Option<Fault>, u64, u64) {
    let mut run = Run::new(geometry, bug);
    run.transact(seed, 12);
    (run.fault, run.cuts, run.in_recovery)
}

#[test]
fn no_cut_at_any_event_finds_it_wrong() {
    for geometry in [&TINY, &DIRECT_MAPPED] {
        for seed in crate::rigs::seeds(3) {
            let (fault, cuts, in_recovery) = accused(geometry, seed, None);
            println!(
                "'{}', PERDURE_SEED={seed}: {cuts} cuts, {in_recovery} in recovery",
                geometry.name
            );
            assert_eq!(fault, None, "'{}', PERDURE_SEED={seed}", geometry.name);
            assert!(cuts > 200 && in_recovery > cuts);
        }
    }
}

#[test]
fn every_planted_bug_is_found_by_what_it_breaks() {
    for (bug, fault) in [
        ("new-bytes-logged", Fault::Memory),
        ("commit-before-flush", Fault::Memory),
        ("early-acknowledgement", Fault::Age),
    ] {
        let bug = UndoLog::PLANTED_BUGS.iter().find(|one| one.name == bug);
        let name = bug.expect("it is planted").name;
        assert_eq!(accused(&TINY, 1, Some(name)).0, Some(fault), "{name}");
    }
    assert_eq!(UndoLog::PLANTED_BUGS.len(), 3);
}

#[test]
fn a_machine_that_is_cut_loses_its_processes_and_its_pool_is_judged() {
    let path = std::env::temp_dir().join(format!("perdure-restart-{}.toml", std::process::id()));
    let preset = "persistence.domain = \"adr\"\nnvm.bytes = 67108864\n[[module]]\nname = \"main\"\nkind = \"dram\"\nbytes = 268435456\n";
    std::fs::write(&path, preset).expect("a file");
    let request = Request {
        design: "ideal".into(),
        machine: path.display().to_string(),
        program: vec!["@exerciser:2000:64:200".into()],
        cuts: Some(6),
        seed: Some(1),
        during_recovery: true,
        ..Request::default()
    };
    let prepared = request.prepare().expect("a good request");
    let campaign = campaign::run::<UndoLog>(&request, &prepared, None, &Unobserved);
    let campaign = campaign.expect("it ends");
    std::fs::remove_file(&path).expect("it was there");
    assert_eq!((campaign.verified(), campaign.failed()), (6, 0));
    let document = campaign.to_json(&prepared);
    assert_eq!(document["resumed"], 0);
    for result in document["results"].as_array().expect("results") {
        assert!(result["recovered_epoch"].is_null());
        let said = result["message"].as_str().expect("it says what came back");
        assert_eq!(
            said,
            "processes are lost; the pool is as after transaction 0"
        );
    }
}
