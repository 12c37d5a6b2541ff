//! Whatever is wrong with a request, the answer is one clear message.

use crate::common::{request, with};
use perdure::api::{self, Unobserved};
use perdure::crash_check;
use serde_json::{Value, json};

fn refusal(request: &Value) -> String {
    api::run(&request.to_string(), &Unobserved)
        .unwrap_err()
        .to_string()
}

#[test]
fn requests_are_checked_key_by_key() {
    let base = request("picl", "@exerciser:1000:64:500");
    for (more, word) in [
        (json!({"design": "pickle"}), "'picl'"),
        (json!({"machine": "pcil"}), "'picl'"),
        (json!({"machine": "./none.toml"}), "none.toml"),
        (json!({"set": ["l3.bytes=1"]}), "nearest"),
        (json!({"set": ["llc.ways=0"]}), "llc.ways"),
        (json!({"set": ["l2.bytes=100"]}), "l2.bytes"),
        (json!({"set": ["picl.acs_gap=99"]}), "picl.acs_gap"),
        (
            json!({"set": ["epoch.instructions=5"]}),
            "epoch.instructions",
        ),
        (
            json!({"set": ["epoch.schedule=1e6:1000,5e5:2000"]}),
            "'5e5:2000' should be INSTRUCTIONS:STORES, with growing",
        ),
        (json!({"harts": 0}), "harts"),
        (json!({"harts": 1000}), "harts"),
        (json!({"engine": "turbo"}), "turbo"),
        (json!({"program": []}), "no program"),
        (json!({"program": ["./no-such-program"]}), "no-such-program"),
        (json!({"program": ["@exerciser:x"]}), "@exerciser"),
        (json!({"sysroot": "/no/such/directory"}), "perdure sysroot"),
        (json!({"mounts": ["nowhere"]}), "HOST:GUEST"),
        (json!({"environment": ["X"]}), "KEY=VALUE"),
        (json!({"stdin": "/no/such/file"}), "/no/such/file"),
        (json!({"stop_after": 0}), "--stop-after"),
        (json!({"planted_bug": "forward-scam"}), "forward-scan"),
        (json!({"colour": "red"}), "colour"),
        (
            json!({"stop_after": -5}),
            "request: stop_after: invalid value",
        ),
        (json!({"harts": "2"}), "request: harts: invalid type"),
        (json!({"environment": [3]}), "request: environment[0]: "),
    ] {
        let message = refusal(&with(base.clone(), more.clone()));
        assert!(message.contains(word), "{more}: {message}");
        assert!(!message.contains("panicked"), "{message}");
    }
}

/// What only the design can say is said where nothing runs, too.
#[test]
fn a_configuration_is_one_that_a_machine_can_have() {
    for (design, machine, set, words) in [
        ("picl", "picl", "picl.acs_gap=20", "must be at most 13"),
        (
            "journaling",
            "picl",
            "journaling.table_ways=7",
            "journaling.table_ways",
        ),
        (
            "nvoverlay",
            "nvoverlay",
            "nvoverlay.omcs=3",
            "nvoverlay.omcs",
        ),
        ("thynvm", "picl", "thynvm.table_ways=5", "thynvm.table_ways"),
        (
            "nearpm",
            "nearpm",
            "persistence.domain=eadr",
            "has its queues in the persistence domain",
        ),
    ] {
        let asked = with(
            request(design, "@exerciser:1000:64:500"),
            json!({"machine": machine, "set": [set]}),
        );
        let message = api::configuration(&asked.to_string()).unwrap_err();
        assert!(message.to_string().contains(words), "{set}: {message}");
        let mut without = asked.clone();
        without["set"] = json!([]);
        api::configuration(&without.to_string()).unwrap();
    }
}

/// What stands in front of one module cannot see what goes to another one.
#[test]
fn strands_and_wraps_need_pools_in_one_module() {
    for design in ["spms", "hlog"] {
        for (machine, count, is_refused) in [
            ("nearpm", 2, true),
            ("nearpm", 1, false),
            ("spms", 1, false),
        ] {
            let mut asked = with(
                request(design, "@exerciser:1000:64:500"),
                json!({"machine": machine, "set": []}),
            );
            if machine == "nearpm" {
                asked["set"] = json!([format!("module.nearpm.count={count}")]);
            }
            let refused = api::run(&asked.to_string(), &Unobserved).err();
            let message = refused.map_or_else(String::new, |error| error.to_string());
            let is_said = message.contains("in one piece, of one module");
            assert_eq!(is_said, is_refused, "{design} on {machine}: {message}");
        }
    }
}

#[test]
fn what_a_command_does_not_use_is_refused() {
    let base = request("picl", "@exerciser:1000:64:500");
    for (more, option) in [
        (json!({"snapshots": "./store"}), "--snapshots"),
        (json!({"replicate_to": "./replica"}), "--to"),
        (json!({"sample_cycles": 1000}), "--sample-cycles"),
        (json!({"probe_cuts": true}), "--probe-cuts"),
    ] {
        let asked = with(base.clone(), more).to_string();
        let message = api::cut(&asked, &Unobserved).unwrap_err().to_string();
        assert!(
            message.contains(option) && message.contains("perdure run"),
            "{message}"
        );
    }
    let asked = with(base.clone(), json!({"part": [2, 2]})).to_string();
    let message = api::cut(&asked, &Unobserved).unwrap_err().to_string();
    assert!(message.contains("there is no such part"), "{message}");
    for (more, option) in [
        (json!({"at": 5000}), "--at"),
        (json!({"resume": "all"}), "--resume"),
        (json!({"jobs": 2}), "--jobs"),
    ] {
        let message = refusal(&with(base.clone(), more));
        assert!(
            message.contains(option) && message.contains("perdure cut"),
            "{message}"
        );
    }
}

/// Where writes are posted no promise can be kept, so whoever needs one is told so.
#[test]
fn what_needs_a_power_cut_is_refused_on_a_machine_for_timing_only() {
    let base = with(
        request("picl", "@exerciser:1000:64:500"),
        json!({"machine": "nvoverlay-paper", "harts": 1, "set": ["nvm.bytes=67108864"]}),
    );
    let cut = api::cut(&base.to_string(), &Unobserved)
        .unwrap_err()
        .to_string();
    assert!(
        cut.contains("posted.writes = true") && cut.contains("power cut"),
        "{cut}"
    );
    let probed = refusal(&with(base, json!({"probe_cuts": true})));
    assert!(
        probed.contains("posted.writes") && probed.contains("--probe-cuts"),
        "{probed}"
    );
}

#[test]
fn guests_are_for_mutants_of_the_saved_state_alone() {
    let (guests, unnoticed) = ("./no-such-folder", "./no-such-list");
    for (asked, words) in [
        (json!({"design": "state"}), ["(state)", "(--guests)"]),
        (
            json!({"design": "state", "unnoticed": unnoticed}),
            ["(--unnoticed)", "needs"],
        ),
        (
            json!({"design": "picl", "unnoticed": unnoticed}),
            ["(--unnoticed)", "needs"],
        ),
        (
            json!({"design": "machine", "guests": guests}),
            ["(state)", "of machine"],
        ),
        (
            json!({"design": "picl", "guests": guests, "unnoticed": unnoticed}),
            ["(state)", "of picl"],
        ),
        (
            json!({"design": "state", "guests": guests, "unnoticed": unnoticed}),
            ["reading", unnoticed],
        ),
        (json!({"design": "picle"}), ["picle", "'picl'"]),
        (
            json!({"design": "state", "program": [guests]}),
            ["unknown field", "program"],
        ),
    ] {
        let message = api::mutants(&asked.to_string(), &Unobserved).unwrap_err();
        let message = message.to_string();
        assert!(
            words.iter().all(|word| message.contains(word)),
            "{asked}: {message}"
        );
    }
}

#[test]
fn a_log_too_small_for_one_epoch_span_says_so() {
    let request = with(
        request("picl", "@exerciser:20000:1024:100000"),
        json!({"set": ["epoch.instructions=100000", "picl.log_extent_bytes=16384", "picl.log_limit_bytes=16384"]}),
    );
    let message = refusal(&request);
    assert!(message.contains("picl.log_limit_bytes"), "{message}");
}

/// A file may be longer than any memory; what it has besides zeros must fit.
#[test]
fn pools_that_no_memory_could_hold_are_refused() {
    let folder = std::env::temp_dir().join(format!("perdure-huge-pool-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = std::fs::File::create(folder.join("huge")).unwrap();
    file.set_len(1 << 42).unwrap();
    let base = request("ideal", "@exerciser:1000:64:500");
    let small = json!({"machine": "x86-pm", "pmem": folder, "set": ["nvm.bytes=67108864"]});
    let small = with(base, small);
    api::run(&small.to_string(), &Unobserved).unwrap();
    std::fs::write(folder.join("full"), vec![1; 65 << 20]).unwrap();
    let message = refusal(&small);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(
        message.contains("the pools have more than 67108864 bytes"),
        "{message}"
    );
}

#[test]
fn a_word_that_is_no_utf_8_is_named() {
    let asked = request("picl", "@exerciser:1000:64:500").to_string();
    let asked = asked.replacen("@exerciser", "\\udcff", 1);
    let message = api::run(&asked, &Unobserved).unwrap_err().to_string();
    assert!(
        message.contains("request: program[0]: it is no UTF-8"),
        "{message}"
    );
}

/// Who names a folder by mistake finds none made, and no check of pools that are not there.
#[test]
fn a_refused_request_makes_no_folder_of_pools() {
    let name = format!("perdure-no-pools-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let pools = json!({"pmem": folder});
    let asked = with(request("picl", "@exerciser:1000:64:500"), pools.clone());
    assert!(refusal(&asked).contains("picl brings programs back as they were"));
    let pools = with(pools, json!({"machine": "x86-pm", "set": []}));
    let checked = with(request("ideal", "@pools:40:1"), pools);
    let checked = json!({"request": checked, "model": "px86", "nested": false});
    let message = crash_check::check(&checked.to_string(), &Unobserved).unwrap_err();
    assert!(message.to_string().contains("no such folder"), "{message}");
    assert!(!folder.exists());
}

#[test]
fn files_that_are_not_programs_are_refused() {
    let directory = std::env::temp_dir().join(format!("perdure-bad-input-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let host_program = std::env::current_exe().unwrap();
    let bytes = std::fs::read(&host_program).unwrap();
    for (name, content, word) in [
        ("empty", &b""[..], "not an ELF file"),
        ("text", &b"#!/bin/sh\necho no\n"[..], "sysroot"),
        ("other-machine", &bytes[..4096.min(bytes.len())], "RISC-V"),
        ("cut-short", &bytes[..40], "truncated"),
    ] {
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        let request = with(request("picl", "x"), json!({"program": [path]}));
        let message = refusal(&request);
        assert!(message.contains(word), "{name}: {message}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn damaged_tokens_are_refused() {
    for token in ["", "p2-", "p2-AAAA", "garbage", "p1-AAAAAAAA"] {
        let message = api::replay(token, &Unobserved).unwrap_err().to_string();
        assert!(message.contains("token"), "{token}: {message}");
    }
}
