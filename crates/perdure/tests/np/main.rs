#![allow(dead_code, unused)]
use perdure::api::Unobserved;
use perdure::campaign;
use perdure::request::{Request, Resume, Schedule};
use perdure::verify::Verdict;
use perdure_designs::Design;
use perdure_designs::nearpm::NearPm;

fn request(program: &str, more: &[&str], cuts: u64) -> Request {
    let set = [
        "harts=4",
        "core.model=in-order",
        "l1d.latency_cycles=1",
        "l1i.bytes=1KiB",
        "l1d.bytes=1KiB",
        "l1d.ways=2",
        "l2.bytes=2KiB",
        "l2.ways=2",
        "llc.bytes_per_hart=2KiB",
        "llc.ways=4",
    ];
    Request {
        design: "nearpm".into(),
        machine: "nearpm".into(),
        set: set.iter().chain(more).map(|s| s.to_string()).collect(),
        program: vec![program.into()],
        pmem: Some("/tmp/np-pools".into()),
        schedule: Some(Schedule::Random),
        cuts: Some(cuts),
        seed: Some(1),
        during_recovery: true,
        resume: Some(Resume::Sample),
        ..Request::default()
    }
}
fn go(bug: Option<&'static str>, program: &str, more: &[&str], cuts: u64) -> Option<String> {
    let request = request(program, more, cuts);
    let prepared = match request.prepare() {
        Ok(p) => p,
        Err(e) => return Some(format!("PREPARE {e}")),
    };
    let campaign = match campaign::run::<NearPm>(&request, &prepared, bug, &Unobserved) {
        Ok(c) => c,
        Err(e) => return Some(format!("ERR {e}")),
    };
    let document = campaign.to_json(&prepared);
    if bug.is_none() {
        println!(
            "exit {} paths {}",
            document["exit_code"], document["coverage"]
        );
    }
    let results = document["results"].as_array().unwrap();
    campaign
        .results
        .iter()
        .zip(results)
        .find(|(c, _)| c.verdict != Verdict::Verified)
        .map(|(c, r)| format!("{:?} {}", c.verdict, r["message"]))
}
#[test]
fn guests() {
    for (program, more) in [
        ("@devices:1500:4", &[][..]),
        ("@devices:1500:1", &[]),
        (
            "@devices:1500:4",
            &[
                "nearpm.units=1",
                "nearpm.fifo_entries=2",
                "nearpm.host_queue_entries=2",
            ],
        ),
        (
            "@devices:1500:4",
            &[
                "nearpm.clock_mhz=50",
                "nearpm.bursts=1",
                "nearpm.burst_bytes=64",
            ],
        ),
    ] {
        let start = std::time::Instant::now();
        if go(None, program, more, 3).is_some_and(|s| s.starts_with("PREPARE")) {
            panic!()
        };
        println!(
            "CLEAN {program} {more:?}: {:?} {:?}",
            go(None, program, more, 100),
            start.elapsed()
        );
    }
    for bug in NearPm::PLANTED_BUGS
        .iter()
        .filter(|b| b.name == "half-reused")
    {
        let found = go(Some(bug.name), "@devices:1500:4", &[], 200).or_else(|| {
            go(
                Some(bug.name),
                "@devices:1500:4",
                &[
                    "nearpm.units=1",
                    "nearpm.fifo_entries=2",
                    "nearpm.host_queue_entries=2",
                ],
                200,
            )
        });
        println!("BUG {}: {found:?}", bug.name);
    }
}

#[path = "../all/nearpm.rs"]
mod nearpm;
#[path = "../all/restart_rig.rs"]
mod restart_rig;
#[path = "../../../designs/tests/all/common/mod.rs"]
mod rigs;
