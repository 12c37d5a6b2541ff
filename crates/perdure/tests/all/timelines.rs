//! Traces of runs: a run is the same with one, what it says adds up to what the run has counted, every design
//! is in it, and nothing overlaps in a row. Read as anybody would: as Chrome's JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::common::{self, Directory, statistic, with};

/// A trace: events by part of the machine and track.
struct Trace {
    events: Vec<(String, String, Value)>,
}

impl Trace {
    fn read(path: &std::path::Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a trace");
        let trace: Value = serde_json::from_str(&text).expect("JSON");
        let all = trace["traceEvents"].as_array().expect("events");
        let mut names = BTreeMap::new();
        let place = |event: &Value| [&event["pid"], &event["tid"]].map(|id| id.as_u64().unwrap());
        for event in all.iter().filter(|event| event["ph"] == "M") {
            if let Some(name) = event["args"]["name"].as_str() {
                names.insert(place(event), name.to_owned());
            }
        }
        let told = all.iter().filter(|event| event["ph"] != "M");
        let events = told.map(|event| {
            let [pid, tid] = place(event);
            let name = |at: [u64; 2]| names[&at].clone();
            (name([pid, 0]), name([pid, tid]), event.clone())
        });
        Self {
            events: events.collect(),
        }
    }

    /// What some events come to, each as much as `worth` says.
    fn sum(&self, part: &str, track: &str, worth: impl Fn(&Value) -> u64) -> u64 {
        let of = self.events.iter();
        let of = of.filter(|(of, on, _)| of.starts_with(part) && on.starts_with(track));
        of.map(|(_, _, event)| worth(event)).sum()
    }

    fn count(&self, part: &str, track: &str) -> u64 {
        self.sum(part, track, |_| 1)
    }

    /// The tracks of the design, its devices' among them.
    fn of_design(&self) -> BTreeSet<&str> {
        let own = |part: &str, track: &str| {
            part.starts_with("design ")
                || [
                    "command FIFO",
                    "unit ",
                    "host queue",
                    "multi-device handler",
                ]
                .iter()
                .any(|name| track.starts_with(name))
        };
        let tracks = self
            .events
            .iter()
            .filter(|(part, track, _)| own(part, track));
        tracks.map(|(_, track, _)| track.as_str()).collect()
    }

    /// In no row is anything before what was there has ended.
    fn check_rows(&self) {
        let mut rows: BTreeMap<[u64; 2], Vec<[u64; 2]>> = BTreeMap::new();
        for (_, _, event) in self.events.iter().filter(|event| event.2["ph"] == "X") {
            let number = |value: &Value| value.as_u64().expect("a number");
            let from = number(&event["args"]["cycle"]);
            let row = [number(&event["pid"]), number(&event["tid"])];
            let span = [from, from + number(&event["args"]["cycles"])];
            rows.entry(row).or_default().push(span);
        }
        for spans in rows.values_mut() {
            spans.sort_unstable();
            for two in spans.windows(2) {
                assert!(two[0][1] <= two[1][0], "{two:?} overlap");
            }
        }
    }
}

fn cycles(event: &Value) -> u64 {
    event["args"]["cycles"].as_u64().unwrap_or(0)
}

fn named<'n>(names: &'n [&str], worth: &'n dyn Fn(&Value) -> u64) -> impl Fn(&Value) -> u64 + 'n {
    move |event| {
        let is_one = names.iter().any(|name| event["name"] == *name);
        if is_one { worth(event) } else { 0 }
    }
}

fn bytes(event: &Value) -> u64 {
    event["args"]["bytes"].as_u64().expect("so many bytes")
}

/// Runs a request twice, traced and not; both come to the same. Returns the traced one's result, and the
/// trace.
fn traced(request: &Value, name: &str) -> (Value, Trace) {
    let directory = Directory::new(&format!("timeline-{name}"));
    let path = directory.at("trace.json");
    let plain = common::run(request);
    // The second run finds the pools as the first one did: there are none.
    if let Some(pools) = request["pmem"].as_str() {
        std::fs::remove_dir_all(pools).expect("a folder");
        std::fs::create_dir_all(pools).expect("a folder");
    }
    let result = common::run(&with(request.clone(), json!({"trace": {"file": path}})));
    for key in ["state_hash", "statistics", "sim"] {
        assert_eq!(plain[key], result[key], "{name}: {key}");
    }
    let trace = Trace::read(&path);
    let said = result["trace"]["events"].as_u64().expect("a count");
    assert_eq!(said, trace.events.len() as u64, "{name}");
    trace.check_rows();
    (result, trace)
}

/// Sums of the trace are the run's own.
fn check_sums(result: &Value, trace: &Trace) {
    let persistent: BTreeSet<String> = match result["modules"].as_array() {
        None => ["module nvm".to_owned()].into(),
        Some(modules) => (modules.iter())
            .filter(|module| module["kind"] == "persistent")
            .map(|module| format!("module {}", module["name"].as_str().unwrap()))
            .collect(),
    };
    let nvm = |track: &str, names: &[&str], worth: &dyn Fn(&Value) -> u64| -> u64 {
        let each = persistent.iter();
        each.map(|part| trace.sum(part, track, named(names, worth)))
            .sum()
    };
    let read = ["read", "read inside"];
    let data = ["write-back", "flush"];
    let written = ["write-back", "flush", "log", "metadata"];
    let counted = |name: &str| statistic(result, name);
    let home = counted("nvm.written_bytes.data") + counted("nvm.written_bytes.context");
    let sums = [
        ("l1d.misses", trace.count("hart", "L1D misses")),
        ("l1i.misses", trace.count("hart", "L1I misses")),
        ("l2.misses", trace.count("L2", "misses")),
        ("llc.misses", trace.count("last-level cache", "misses")),
        ("l2.write_backs", trace.count("L2", "write-backs")),
        (
            "llc.write_backs",
            trace.sum(
                "last-level cache",
                "write-backs",
                named(&["replacement"], &|_| 1),
            ),
        ),
        (
            "dram.reads",
            trace.sum("DRAM", "accesses", named(&["read"], &|_| 1)),
        ),
        ("nvm.reads", nvm("reads", &read, &|_| 1)),
        ("nvm.read_bytes", nvm("reads", &read, &bytes)),
        ("nvm.writes", nvm("writes", &written, &|_| 1)),
        ("nvm.written_bytes.log", nvm("writes", &["log"], &bytes)),
        (
            "nvm.written_bytes.metadata",
            nvm("writes", &["metadata"], &bytes),
        ),
    ];
    for (name, sum) in sums {
        assert_eq!(sum, counted(name), "{}: {name}", result["design"]);
    }
    assert_eq!(nvm("writes", &data, &bytes), home, "{}", result["design"]);
    check_waits(result, trace);
    check_epochs(result, trace);
}

/// What harts waited for: in order by what it was that they asked for, out of order by what kept the core
/// from dispatching.
fn check_waits(result: &Value, trace: &Trace) {
    let in_order: &[(&str, &[&str])] = &[
        ("core.store_buffer_stall", &["store buffer full"]),
        ("core.fence_stall", &["fence"]),
        (
            "core.memory_stall",
            &[
                "load",
                "store",
                "atomic",
                "instruction fetch",
                "persist operation",
                "store around the caches",
                "write-combining buffer",
                "persistence instruction",
            ],
        ),
    ];
    let out_of_order: &[(&str, &[&str])] = &[
        ("window.stall.front_end", &["front end"]),
        ("window.stall.mispredict", &["mispredicted branch"]),
        ("window.stall.reorder_buffer", &["reorder buffer full"]),
        ("window.stall.issue_queue", &["issue queue full"]),
        ("window.stall.load_queue", &["load queue full"]),
        ("window.stall.store_queue", &["store queue full"]),
        ("window.stall.trap", &["trap"]),
    ];
    let is_in_order = statistic(result, "window.cycles") == 0;
    for (name, waits) in if is_in_order { in_order } else { out_of_order } {
        let sum = trace.sum("hart", "waits", named(waits, &cycles));
        assert_eq!(sum, statistic(result, name), "{}: {name}", result["design"]);
    }
}

fn check_epochs(result: &Value, trace: &Trace) {
    let epochs = trace
        .events
        .iter()
        .filter(|event| event.1 == "epoch executing");
    let ended = epochs.filter(|event| event.2["args"].get("unfinished").is_none());
    assert_eq!(
        ended.count() as u64,
        statistic(result, "epoch.committed"),
        "{}",
        result["design"]
    );
}

/// The tracks of each design, in a run that takes its ordinary ways.
const TRACKS: [(&str, &[&str]); 11] = [
    ("ideal", &["phase"]),
    (
        "picl",
        &["cache scan", "epoch registers", "phase", "undo log"],
    ),
    (
        "picl-l2",
        &["cache scan", "epoch registers", "phase", "undo log"],
    ),
    ("journaling", &["commit", "phase"]),
    ("shadow-paging", &["commit", "phase"]),
    (
        "frm",
        &["commit", "phase", "read-log-modify buffer", "undo log"],
    ),
    ("thynvm", &["checkpoint", "phase"]),
    (
        "nvoverlay",
        &["mapping engine", "phase", "tag walker 0", "tag walker 1"],
    ),
    ("software-logging", &["commit", "phase", "undo log"]),
    ("software-shadow", &["commit", "phase"]),
    ("hardware-shadow", &["checkpoint", "phase"]),
];

#[test]
fn every_design_is_traced_without_a_change_and_its_trace_adds_up() {
    for (design, tracks) in TRACKS {
        let mut asked = common::request(design, "@exerciser:3000:64:300:2");
        asked["machine"] = common::machine_of(design).into();
        asked["harts"] = 2.into();
        let (result, trace) = traced(&asked, design);
        check_sums(&result, &trace);
        let own: Vec<_> = trace.of_design().into_iter().collect();
        assert_eq!(own, tracks, "{design}");
    }
}

/// Caches from which lines leave in a short run.
const TINY: &[&str] = &[
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=64KiB",
];

fn in_pools(design: &str, program: &str, set: &[&str]) -> (Value, Trace) {
    let pools = Directory::new(&format!("timeline-pools-{design}"));
    let asked = json!({"design": design, "machine": common::machine_of(design), "set": set, "pmem": pools.0, "program": [program]});
    let (result, trace) = traced(&asked, design);
    check_sums(&result, &trace);
    (result, trace)
}

#[test]
fn strands_and_groups_are_those_that_were_counted() {
    let (result, trace) = in_pools("spms", "@strands:600:16:20:2", TINY);
    let begun = trace.count("design spms", "strands") - trace.count("design spms", "strands ended");
    assert_eq!(begun, statistic(&result, "spms.strands.begun"));
    let committed = trace.events.iter().filter(|event| {
        event.1 == "strands ended, not committed" && event.2["args"].get("unfinished").is_none()
    });
    assert_eq!(
        committed.count() as u64,
        statistic(&result, "spms.strands.committed")
    );
    assert_eq!(
        trace.count("design spms", "groups"),
        statistic(&result, "spms.groups")
    );
    assert!(trace.of_design().contains("strand buffer"));
}

#[test]
fn wraps_are_those_that_were_counted() {
    let (result, trace) = in_pools("hlog", "@wraps:600:16:20:2", TINY);
    let going_home = trace.count("design hlog", "wraps going home");
    assert_eq!(
        trace.count("design hlog", "wraps") - going_home,
        statistic(&result, "hlog.wraps.opened")
    );
    assert_eq!(
        trace.count("design hlog", "close records"),
        statistic(&result, "hlog.wraps.closed")
    );
}

#[test]
fn units_of_near_memory_devices_do_what_was_counted() {
    let (result, trace) = in_pools("nearpm", "@devices:200:2", &[]);
    assert_eq!(
        trace.count("module", "command FIFO"),
        statistic(&result, "nearpm.taken")
    );
    let busy = trace.sum("module", "unit", cycles);
    assert_eq!(busy, statistic(&result, "nearpm.units.busy"));
}

#[test]
fn a_sample_has_whole_windows_and_nothing_else() {
    let directory = Directory::new("timeline-sample");
    let path = directory.at("trace.json");
    let asked = json!({"trace": {"file": path, "sample": 4, "window_cycles": 5000, "from": 10_000, "tracks": ["harts", "banks"]}});
    common::run(&with(
        common::request("picl", "@exerciser:3000:64:300:2"),
        asked,
    ));
    let trace = Trace::read(&path);
    trace.check_rows();
    assert!(!trace.events.is_empty());
    for (part, track, event) in &trace.events {
        assert!(
            part.starts_with("hart") || track.starts_with("bank"),
            "{part} {track}"
        );
        let from = event["args"]["cycle"].as_u64().expect("a cycle");
        let last = (from + cycles(event)).saturating_sub(1).max(from);
        assert!(from >= 10_000 && from / 5000 % 4 == 0, "{event}");
        assert_eq!(from / 5000, last / 5000, "{event}");
    }
}

#[test]
fn of_a_measured_region_that_alone_is_traced() {
    let directory = Directory::new("timeline-region");
    let path = directory.at("trace.json");
    let asked = json!({"warm_up_instructions": 50_000, "measure_instructions": 50_000, "trace": {"file": path}});
    let result = common::run(&with(
        common::request("picl", "@exerciser:3000:64:300"),
        asked,
    ));
    let trace = Trace::read(&path);
    trace.check_rows();
    let counted = result["region"]["statistics"]["l1d.misses"]["value"].as_u64();
    let counted = counted.expect("a count");
    // One may be under way when the region begins.
    let drawn = trace.count("hart", "L1D misses");
    assert!(
        counted > 100 && (counted..=counted + 1).contains(&drawn),
        "{drawn}, {counted}"
    );
}

#[test]
fn a_full_file_is_whole_and_says_what_it_lacks() {
    let directory = Directory::new("timeline-full");
    let request = common::request("picl", "@exerciser:3000:64:300:2");
    let plain = common::run(&request);
    for name in ["trace.json", "trace.pftrace"] {
        let path = directory.at(name);
        let asked = json!({"trace": {"file": path, "max_bytes": 65536}});
        let result = common::run(&with(request.clone(), asked));
        assert_eq!(plain["state_hash"], result["state_hash"]);
        let trace = &result["trace"];
        assert!(trace["left_out"].as_u64() > Some(0), "{trace}");
        let size = std::fs::metadata(&path).unwrap().len();
        assert_eq!(trace["bytes"], size);
        assert!((65536..80_000).contains(&size), "{size}");
    }
    Trace::read(&directory.at("trace.json")).check_rows();
}

#[test]
fn champsim_gets_every_instruction_once_whatever_the_core() {
    let directory = Directory::new("timeline-champsim");
    for core in ["in-order", "timing-simple", "out-of-order"] {
        for engine in ["fast", "plain"] {
            let mut request = common::request("picl", "@exerciser:1000:64:300:2");
            request["set"]
                .as_array_mut()
                .unwrap()
                .push(format!("core.model={core}").into());
            request["harts"] = 2.into();
            request["engine"] = engine.into();
            let plain = common::run(&request);
            let path = directory.at("run.champsim.gz");
            let result = common::run(&with(request, json!({"trace": {"champsim": path}})));
            for key in ["state_hash", "statistics"] {
                assert_eq!(plain[key], result[key], "{core}: {key}");
            }
            let files = result["trace"]["champsim"]
                .as_array()
                .expect("a file for each hart");
            assert_eq!(files.len(), 2);
            let recorded = files
                .iter()
                .map(|file| file["instructions"].as_u64().unwrap());
            assert_eq!(
                recorded.sum::<u64>(),
                plain["sim"]["instructions"],
                "{core}"
            );
        }
    }
}

#[test]
fn a_run_that_fails_leaves_the_trace_of_before() {
    let directory = Directory::new("timeline-failed");
    let path = directory.at("trace.json");
    std::fs::write(&path, "before").expect("a file");
    let run = |champsim: &std::path::Path| {
        let request = common::request("picl", "@exerciser:10:4:10");
        let asked = json!({"trace": {"file": path, "champsim": champsim}});
        perdure::api::run(&with(request, asked).to_string(), &perdure::api::Unobserved)
    };
    // The timeline is begun before that is seen.
    let refused = run(&directory.at("no/such/folder"));
    let message = refused.expect_err("there is no such folder").to_string();
    assert!(message.contains("No such file"), "{message}");
    assert_eq!(std::fs::read(&path).expect("the file"), b"before");
    // This device is full when the instructions' end is written.
    let refused = run(std::path::Path::new("/dev/full"));
    let message = refused.expect_err("it is full").to_string();
    assert!(message.contains("/dev/full: No space left"), "{message}");
    let folder = path.parent().expect("a folder");
    assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 1);
    run(std::path::Path::new("/dev/null")).expect("it can be written");
    Trace::read(&path).check_rows();
}

#[test]
fn what_cannot_be_traced_is_refused_before_the_run() {
    let refused = |trace: Value| {
        let request = with(
            common::request("picl", "@exerciser:10:4:10"),
            json!({"trace": trace}),
        );
        let answer = perdure::api::run(&request.to_string(), &perdure::api::Unobserved);
        answer.expect_err("it is refused").to_string()
    };
    for (trace, part) in [
        (json!({"file": "a.txt"}), "a.txt: the name says the format"),
        (
            json!({"file": "a.json", "from": 5, "to": 5}),
            "--from 5 --to 5: nothing lies between",
        ),
        (
            json!({"file": "a.json", "tracks": ["cache"]}),
            "did you mean 'caches'?",
        ),
        (
            json!({"file": "a.json", "max_bytes": 10}),
            "--max-bytes 10: must be at least",
        ),
        (
            json!({"file": "a.json", "window_cycles": 10}),
            "--window: needs --sample",
        ),
        (
            json!({"champsim": "a.xz", "sample": 4}),
            "--champsim with --sample",
        ),
        (json!({}), "a trace goes to a file"),
    ] {
        let message = refused(trace);
        assert!(message.contains(part), "{message}");
    }
}
