//! The machine `nearpm` with other numbers of devices than the paper has.

use perdure::Error;
use perdure::api::{self, Unobserved};
use serde_json::{Value, json};

use super::{accused, machines};
use crate::common::{Directory, cut};

fn asked(count: usize, pools: &Directory) -> Value {
    let set = [
        format!("module.nearpm.count={count}"),
        "harts=2".into(),
        "l1i.bytes=4KiB".into(),
        "l1d.bytes=4KiB".into(),
        "l2.bytes=8KiB".into(),
        "llc.bytes_per_hart=16KiB".into(),
    ];
    json!({"design": "nearpm", "machine": "nearpm", "set": set, "pmem": pools.0, "program": ["@devices:200:2"]})
}

#[test]
fn one_to_eight_devices_keep_their_promise() {
    for count in [1, 3, 8] {
        let pools = Directory::new(&format!("nearpm-counts-{count}"));
        let mut asked = asked(count, &pools);
        let run = api::run(&asked.to_string(), &Unobserved).expect("the request is good");
        let run: Value = serde_json::from_str(&run).expect("results are JSON");
        let modules = run["modules"].as_array().expect("several modules");
        let stores = |one: &&Value| one["statistics"]["device_stores"]["value"] != 0;
        let names: Vec<_> = (modules.iter().filter(stores))
            .filter_map(|one| one["name"].as_str())
            .collect();
        let all: Vec<_> = (0..count)
            .map(|device| format!("nearpm-{device}"))
            .collect();
        assert_eq!(names, all);
        asked["cuts"] = 30.into();
        asked["seed"] = 5.into();
        let cuts = cut(&asked);
        let counts = ["cuts", "failed"].map(|key| cuts[key].as_u64().expect("a number"));
        assert_eq!(counts, [30, 0], "{count} devices");
    }
}

/// All of them have a part in every log, and agree on when it is deleted.
#[test]
fn eight_devices_are_cut_at_every_event() {
    let mut machine = machines().swap_remove(0);
    machine.devices = 8;
    for seed in crate::rigs::seeds(1) {
        let (fault, cuts, counters) = accused(&machine, seed, 100, None);
        assert_eq!(fault, None, "PERDURE_SEED={seed}");
        assert!(
            cuts > 100 && counters.messages > 7 * counters.commits,
            "{counters:?}"
        );
    }
}

#[test]
fn nine_devices_are_refused() {
    let pools = Directory::new("nearpm-counts-nine");
    let refused = api::run(&asked(9, &pools).to_string(), &Unobserved);
    let Err(Error::Configuration(said)) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        said.contains("module = 9: nearpm has at most 8 devices"),
        "{said}"
    );
}
