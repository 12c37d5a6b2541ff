//! The restart example of `docs/add-a-design.md`: a design without epochs, whose programs are lost and whose
//! pool comes back. Transactions are driven by hand; whole machines run programs under it that do not map the
//! pool, and say at a cut what is lost.

use perdure::api::Unobserved;
use perdure::campaign;
use perdure::request::Request;
use perdure_designs::Design;
use perdure_designs::Facts;
use perdure_designs::oracle::Fault;
use perdure_hardware::line::line_of;
use perdure_hardware::physical_map::RegionKind;
use perdure_hardware::random::Random;
use perdure_hardware::specification::{
    Domain, ModuleSpecification, Persistence, PersistenceDomain, Specification,
};

use crate::restart_rig::Run;
use crate::rigs::geometry::{DIRECT_MAPPED, Geometry, TINY};
use crate::rigs::rig::Rig;
use crate::undo_log::{BEGIN, COMMIT, UndoLog, data_of};

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

/// A rig that makes transactions.
struct Pool(Run<UndoLog>);

impl Pool {
    fn instruct(&mut self, function: u16) -> u64 {
        let Self(run) = self;
        let now = run.rig.clock(0);
        let Rig {
            hardware, design, ..
        } = &mut run.rig;
        let answer = hardware.instruct(design, 0, function, [0; 2], now);
        let (value, done) = answer.expect("the design has it");
        // What has happened up to the next instruction is seen before the hart goes on.
        run.cut_between(now, done);
        run.rig.hold_until(done);
        run.rig.pause(0, 1);
        value
    }

    /// Random transactions, cut at every event.
    fn transact(&mut self, seed: u64, transactions: u64) {
        let mut random = Random::new(seed);
        let pool = self.0.rig.hardware.memory.map().pools().next();
        let first = line_of(data_of(&pool.expect("a pool")).start);
        for number in 1..=transactions {
            assert_eq!(self.instruct(BEGIN), 1);
            for _ in 0..=random.below(12) {
                self.0.act(|rig| {
                    let line = first + random.below(24);
                    rig.store(0, line, random.below(8) as usize, random.bits());
                    // And some in DRAM, which push the pool's lines out.
                    rig.store(0, 4096 + random.below(64), 0, random.bits());
                });
            }
            assert_eq!(self.instruct(COMMIT), number);
            if self.0.fault.is_some() {
                return;
            }
        }
        let hardware = &self.0.rig.hardware;
        assert!(hardware.failure.is_none() && hardware.breach.is_none());
    }
}

/// What a run of transactions is accused of, with its cuts.
fn accused(geometry: &Geometry, seed: u64, bug: Option<&'static str>) -> (Option<Fault>, u64, u64) {
    let mut pool = Pool(Run::new(machine(geometry), bug, u64::MAX));
    pool.transact(seed, 12);
    let Pool(run) = pool;
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
    let prepared = prepared.under(Facts::of::<UndoLog>());
    let campaign = campaign::run(&request, &prepared, None, &Unobserved);
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
