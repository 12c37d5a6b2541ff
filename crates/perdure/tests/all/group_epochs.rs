//! Epochs by sharing group, end to end: `nvoverlay` on several harts that share their lines.

use crate::common::{Directory, compile, cut, with};
use perdure::api::{self, Unobserved};
use serde_json::{Value, json};

const TINY: [&str; 7] = [
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=16KiB",
    "epoch.stores=500",
    "nvm.bytes=256MiB",
    "nvoverlay.pool_extent_bytes=4MiB",
];

/// A request on four harts with tiny caches, and further settings.
fn request(program: &str, settings: &[&str]) -> Value {
    let set: Vec<&str> = TINY.iter().chain(settings).copied().collect();
    json!({
        "machine": "nvoverlay",
        "design": "nvoverlay",
        "harts": 4,
        "program": [program],
        "set": set,
    })
}

fn run(request: &Value) -> Value {
    let text = api::run(&request.to_string(), &Unobserved).expect("a run that ends");
    serde_json::from_str(&text).expect("JSON")
}

fn counter(result: &Value, name: &str) -> u64 {
    result["statistics"][name]["value"].as_u64().expect(name)
}

#[test]
fn every_cut_is_causal_and_every_resume_ends_alike() {
    for (program, settings) in [
        ("@exerciser:800:16:200:4", &[][..]),
        (
            "@exerciser:800:4:200:4",
            &["nvoverlay.oid_bits=3", "nvoverlay.skew_epochs=1"],
        ),
        (
            "@exerciser:800:64:200:4",
            &["nvoverlay.super_blocks=true", "nvoverlay.buffer_sets=0"],
        ),
        (
            "@exerciser:800:16:200:2",
            &["nvoverlay.omcs=1", "nvoverlay.walk_step_cycles=5000"],
        ),
        ("@exerciser:800:16:200:4", &["l2.harts=2"]),
        (
            "@exerciser:800:4:200:4",
            &[
                "l2.harts=4",
                "l2.bytes=32KiB",
                "nvoverlay.oid_bits=3",
                "nvoverlay.skew_epochs=1",
            ],
        ),
        (
            "@exerciser:800:64:200:4",
            &[
                "l2.harts=3",
                "l2.bytes=32KiB",
                "nvoverlay.super_blocks=true",
            ],
        ),
    ] {
        let result = cut(&with(
            request(program, settings),
            json!({"cuts": 30, "resume": "all", "during_recovery": true, "seed": 5}),
        ));
        assert_eq!(result["verified"], 30, "{program} {settings:?}: {result}");
        assert_eq!(result["resumed"], 30, "{program} {settings:?}");
        assert!(result["coverage"]["cuts_during_recovery"].as_u64().unwrap() > 0);
    }
}

/// What an earlier, longer state of the kernel has left in memory is known to a later life, too.
#[test]
fn a_kernel_s_state_that_shrinks_and_grows_is_saved_in_every_life() {
    let folder = Directory::new("emptied");
    let program = compile(&folder, "emptied.c");
    let settings = ["epoch.stores=100000", "epoch.instructions=50000"];
    let more = json!({"harts": 1, "cuts": 20, "generations": 3, "resume": "all", "seed": 2});
    let asked = request(program.to_str().expect("a path"), &settings);
    let result = cut(&with(asked, more));
    assert_eq!(result["verified"], 20, "{result}");
}

#[test]
fn what_the_published_code_gets_wrong_is_noticed() {
    for bug in [
        "transfer-skips-omc",
        "idle-domain-ignored",
        "store-keeps-oid",
    ] {
        let result = cut(&with(
            request(
                "@exerciser:1500:16:400:4",
                &["nvoverlay.walk_step_cycles=2000"],
            ),
            json!({"cuts": 60, "resume": "none", "planted_bug": bug}),
        ));
        assert!(result["failed"].as_u64().unwrap() > 0, "{bug}");
    }
}

#[test]
fn a_group_that_does_nothing_does_not_hold_the_others_back() {
    // One thread on four harts: three sharing groups store nothing at all.
    let result = run(&with(
        request("@exerciser:20000:64:100000", &[]),
        json!({"sample_cycles": 20_000}),
    ));
    let series = result["series"].as_array().expect("a series");
    let last = series.last().expect("samples");
    assert!(last["persisted_epoch"].as_u64().unwrap() > 10, "{last}");
    assert!(counter(&result, "epoch.committed") > 40);
}

#[test]
fn both_engines_agree_to_the_bit() {
    for sharing in ["l2.harts=1", "l2.harts=2"] {
        let fast = request("@exerciser:1500:64:400:4", &[sharing]);
        let plain = run(&with(fast.clone(), json!({"engine": "plain"})));
        let fast = run(&fast);
        for key in ["state_hash", "sim", "statistics", "nvm"] {
            assert_eq!(fast[key], plain[key], "{key}, {sharing}");
        }
    }
}

#[test]
fn harts_that_share_an_l2_share_an_epoch() {
    let shared = |harts: &str| {
        let set = ["l2.bytes=64KiB", "epoch.stores=1000", harts];
        run(&request("@exerciser:4000:64:100000:4", &set))
    };
    let (four, one) = (shared("l2.harts=1"), shared("l2.harts=4"));
    // A context is dumped for each hart, an epoch ended for each sharing group.
    let contexts =
        |result| counter(result, "epoch.context_lines") / counter(result, "epoch.committed");
    assert!(
        contexts(&one) >= 3 * contexts(&four),
        "{} {}",
        contexts(&one),
        contexts(&four)
    );
    assert_eq!(counter(&one, "versions.departed.downgrade"), 0);
    assert_eq!(counter(&one, "versions.departed.invalidation"), 0);
    assert!(counter(&one, "l2.snoops") > 1000);
    assert_eq!(counter(&four, "l2.snoops"), 0);
}

#[test]
fn a_watched_store_starts_a_burst_and_so_does_the_schedule() {
    let base = request("@exerciser:20000:64:100000", &["epoch.stores=100000"]);
    let usual = counter(&run(&base), "epoch.committed");
    let watched = run(&with(
        base.clone(),
        json!({"watch": ["0x100000:64"], "burst_stores": 100, "burst_instructions": 20_000}),
    ));
    let burst = counter(&watched, "epoch.committed");
    assert!(
        burst > usual + 20,
        "{usual} epochs usually, {burst} with bursts"
    );
    let scheduled = run(&request(
        "@exerciser:20000:64:100000",
        &[
            "epoch.stores=100000",
            "epoch.schedule=50000:100,100000:100000",
        ],
    ));
    assert!(counter(&scheduled, "epoch.committed") > usual + 20);
}

#[test]
fn machines_that_cannot_be_are_refused_with_the_key() {
    for (setting, key) in [
        ("dram.present=false", "dram.present"),
        ("llc.inclusion=inclusive", "llc.inclusion"),
        ("nvoverlay.oid_bits=2", "nvoverlay.oid_bits"),
        ("nvoverlay.skew_epochs=0", "nvoverlay.skew_epochs"),
        ("epoch.schedule=5", "epoch.schedule"),
        ("epoch.stores=7", "epoch.stores"),
        ("l2.harts=0", "l2.harts"),
        ("l2.harts=3", "l2.bytes"),
    ] {
        let request = request("@exerciser:100:16:50:2", &[setting]);
        let error = api::run(&request.to_string(), &Unobserved).expect_err(setting);
        assert!(error.to_string().contains(key), "{setting}: {error}");
    }
    let needs = with(
        request("@exerciser:100:16:50:2", &["llc.inclusion=non-inclusive"]),
        json!({"design": "picl"}),
    );
    let error = api::run(&needs.to_string(), &Unobserved).expect_err("picl");
    assert!(error.to_string().contains("llc.inclusion"), "{error}");
}
