//! What only models have that are for timing only, and how epochs are counted: end to end, on four
//! harts.

use crate::common::{run, statistic};
use perdure::configuration::Configuration;
use serde_json::{Value, json};

const TINY: [&str; 13] = [
    "l1i.bytes=4KiB",
    "l1d.bytes=2KiB",
    "l2.bytes=8KiB",
    "llc.bytes_per_hart=16KiB",
    "epoch.stores=500",
    "nvm.bytes=256MiB",
    "nvoverlay.pool_extent_bytes=4MiB",
    "picl.acs_gap=0",
    "picl.log_extent_bytes=256KiB",
    "picl.log_limit_bytes=32MiB",
    "picl-l2.acs_gap=0",
    "picl-l2.log_extent_bytes=256KiB",
    "picl-l2.log_limit_bytes=32MiB",
];

const HARTS: u64 = 4;

/// The rivals of NVOverlay's evaluation, and itself.
const DESIGNS: [&str; 7] = [
    "ideal",
    "software-logging",
    "software-shadow",
    "hardware-shadow",
    "picl",
    "picl-l2",
    "nvoverlay",
];

/// Four threads that share their lines.
fn ran(machine: &str, design: &str, more: &[&str]) -> Value {
    let programs = json!([["@exerciser:1500:16:200:4"]]);
    ran_all(machine, design, &programs, more)
}

fn ran_all(machine: &str, design: &str, programs: &Value, more: &[&str]) -> Value {
    let set: Vec<&str> = TINY.iter().chain(more).copied().collect();
    run(&json!({
        "machine": machine,
        "design": design,
        "harts": HARTS,
        "programs": programs,
        "set": set,
    }))
}

/// With a write durable as soon as it is accepted, PiCL would write one register record after another
/// in the same cycle, for ever.
#[test]
fn every_design_ends_where_writes_are_posted() {
    for design in DESIGNS {
        let result = ran("nvoverlay-paper", design, &[]);
        let epochs = statistic(&result, "epoch.committed");
        assert!(epochs > 20, "{design}: {epochs} epochs");
        let records = statistic(&result, "picl.register_records");
        assert!(
            records <= epochs + 1,
            "{design}: {records} records of {epochs} epochs"
        );
    }
}

/// Four programs that store alike, a hart each.
#[test]
fn epochs_of_all_harts_are_as_many_times_as_many_as_there_are_harts() {
    let programs = json!(vec![["@exerciser:8000:16:200"]; HARTS as usize]);
    for design in DESIGNS {
        let [hart, all] = ["hart", "all"].map(|counted| {
            let set = format!("epoch.counted={counted}");
            let set = [&set, "kernel.output_limit_bytes=1GiB"];
            let result = ran_all("nvoverlay", design, &programs, &set);
            statistic(&result, "epoch.committed")
        });
        if design == "nvoverlay" {
            assert_eq!(all, hart, "its sharing groups count their own");
            continue;
        }
        // The first hart that has made so many ends an epoch, when others have made fewer.
        let times = all as f64 / hart as f64;
        let harts = HARTS as f64;
        assert!(
            (0.75 * harts..1.05 * harts).contains(&times),
            "{design}: {all} epochs for {hart}"
        );
    }
}

#[test]
fn switches_that_are_off_change_nothing() {
    let off = [
        "posted.writes=false",
        "posted.banks_by_home_line=false",
        "epoch.counted=hart",
        "hardware-shadow.table_takes_time=true",
        "picl-l2.coherence_evicts=true",
    ];
    for design in DESIGNS {
        let [without, with] = [&[][..], &off].map(|set| {
            let result = ran("nvoverlay", design, set);
            (
                result["sim"]["cycles"].clone(),
                result["statistics"].clone(),
            )
        });
        assert_eq!(without, with, "{design}");
        let set = off.map(String::from);
        let built = Configuration::new("nvoverlay", design, &set, None);
        assert_eq!(built.expect("it can be built").timing_only(), None);
    }
}

/// A line that another hart reads costs neither a write nor a second undo entry of its epoch, and the
/// scan finds it all the same.
#[test]
fn what_another_group_reads_may_stay_dirty() {
    let machine = "nvoverlay-paper";
    let [kept, evicts] = ["false", "true"].map(|value| {
        let set = format!("picl-l2.coherence_evicts={value}");
        let result = ran(machine, "picl-l2", &[&set, "epoch.stores=8000"]);
        [
            "versions.departed.downgrade",
            "nvm.written_bytes.data",
            "picl.undo_entries",
            "picl.acs_lines",
        ]
        .map(|name| statistic(&result, name))
    });
    assert!(kept[0] > 100, "{kept:?}");
    assert!(kept[1] < evicts[1], "{kept:?} {evicts:?}");
    assert!(kept[2] < evicts[2], "{kept:?} {evicts:?}");
    assert!(kept[3] > evicts[3], "{kept:?} {evicts:?}");
}
