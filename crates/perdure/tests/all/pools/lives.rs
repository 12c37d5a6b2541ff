//! Machines that start on the pools that an earlier life left, life after life.

use std::sync::Arc;

use perdure::api::{self, Unobserved};
use perdure::machine::{Machine, Past};
use perdure::verify;
use perdure::{Engine, Pause};
use perdure_hardware::random::Random;
use perdure_linux::pools::PoolSource;
use serde_json::{Value, json};

use super::program::{self, Operation, Program};
use super::{PLAIN, Trial, machine_of, prepared_of, survived};
use crate::common::{Directory, cut, with};

/// Boots a program on what a machine leaves whose power is cut now.
fn boot_again(
    trial: &Trial,
    folder: &Directory,
    cut: (&mut Machine, u64, u64),
    program: &Program,
) -> Machine {
    let (machine, at, seed) = cut;
    let past = machine.behind_it();
    let image = verify::recovered_image(machine, at, seed).expect("it recovers");
    let mut prepared = prepared_of(trial, folder, program);
    prepared.workload.pools = Some(Arc::new(PoolSource::Surviving));
    prepared.workload.past = past;
    let configuration = &prepared.configuration;
    let machine = Machine::boot_again(
        configuration,
        &prepared.workload,
        image.memory,
        Engine::Fast,
        None,
    );
    machine.expect("it boots")
}

#[test]
fn the_next_life_finds_the_pools_that_the_last_one_left() {
    for seed in crate::rigs::seeds(4) {
        let mut random = Random::new(seed);
        let told = format!("PERDURE_SEED={seed}");
        let folder = Directory::new(&format!("pool-lives-{seed}"));
        let draw = |random: &mut Random| Program::new(program::random(random, 60));
        let mut machine = machine_of(&PLAIN, &folder, &draw(&mut random));
        let (mut past, mut found) = (Past::default(), 0);
        for life in 1..=5 {
            let mut at = 0;
            while random.below(200) > 0 {
                if machine.run(at + 300).expect("it runs") == Pause::Finished {
                    break;
                }
                at += 300;
            }
            let at = at.max(machine.clock(0));
            let tear = random.bits();
            let left = survived(&mut machine, at, tear);
            assert_eq!(machine.behind_it().lives, life, "{told}");
            assert!(
                machine.behind_it().nanoseconds >= past.nanoseconds,
                "{told}"
            );
            past = machine.behind_it();
            let program = draw(&mut random);
            machine = boot_again(&PLAIN, &folder, (&mut machine, at, tear), &program);
            assert_eq!(survived(&mut machine, 0, 0), left, "{told}, life {life}");
            found += left.len();
        }
        while machine.run(u64::MAX - 1).expect("it runs") != Pause::Finished {}
        assert_eq!(machine.ended().expect("it has").report.status, 0, "{told}");
        assert!(found > 0, "{told}: no life left a pool");
    }
}

/// A request to cut a program and to start it again.
fn restarting(folder: &Directory, program: &Program, more: Value) -> Value {
    let path = folder.at("program");
    std::fs::write(&path, &program.elf).expect("a program");
    let request = json!({
        "machine": "x86-pm", "design": "ideal", "set": super::SMALL, "program": [path],
        "pmem": folder.at("pools"), "restart": true, "cuts": 12, "seed": 5,
    });
    with(request, more)
}

#[test]
fn a_campaign_starts_programs_again_for_any_jobs_and_a_token_does_so_once_more() {
    let folder = Directory::new("restarts");
    let program = Program::new(program::random(&mut Random::new(7), 60));
    let more = json!({"during_recovery": true, "generations": 3, "jobs": 1});
    let request = restarting(&folder, &program, more);
    let alone = cut(&request);
    let together = cut(&with(request, json!({"jobs": 2})));
    assert_eq!(
        (&alone["verified"], &alone["restarted"]),
        (&json!(12), &json!(12))
    );
    assert_eq!(alone["results"], together["results"]);
    assert_eq!(alone["after_the_end"]["exit_code"], 0);
    for result in alone["results"]
        .as_array()
        .expect("a list")
        .iter()
        .step_by(5)
    {
        let restarts = result["restarts"].as_array().expect("a list");
        assert_eq!(restarts.len(), 3);
        assert_eq!(result["lives"].as_array().map(Vec::len), Some(3));
        assert_eq!(result["resumed"], false);
        let token = result["token"].as_str().expect("a text");
        let again = api::replay(token, &Unobserved).expect("it replays");
        let again: Value = serde_json::from_str(&again).expect("JSON");
        let again = &again["results"][0];
        assert_eq!(
            (&again["lives"], &again["verdict"]),
            (&result["lives"], &json!("verified"))
        );
        for (again, first) in again["restarts"]
            .as_array()
            .into_iter()
            .flatten()
            .zip(restarts)
        {
            assert_eq!(again["cycles"], first["cycles"]);
        }
    }
}

#[test]
fn a_program_that_does_not_end_well_when_it_is_started_again_is_told() {
    let folder = Directory::new("restarts-failing");
    let program = Program::new(vec![Operation::Fence { how: 0 }; 40]);
    // It exits with what it sums up.
    let then = json!({"then": ["@exerciser:200:4:100"], "generations": 2});
    let report = cut(&restarting(&folder, &program, then));
    assert_eq!(
        (&report["failed"], &report["verified"]),
        (&json!(12), &json!(0))
    );
    let status = &report["after_the_end"]["exit_code"];
    assert_ne!(status, 0);
    for result in report["results"].as_array().expect("a list") {
        assert_eq!(result["verdict"], "restart-failed");
        assert_eq!(
            result["message"],
            format!("started again: exit status {status}")
        );
        assert_eq!(&result["restarts"][0]["exit_code"], status);
        assert!(result["restarts"][0]["output"].is_string());
    }
    let asked = restarting(&folder, &program, json!({"then": ["/no/such/program"]}));
    let refused = api::cut(&asked.to_string(), &Unobserved).expect_err("it cannot start");
    assert!(
        refused.to_string().contains("/no/such/program"),
        "{refused}"
    );
}
