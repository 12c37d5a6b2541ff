//! The machines of NearPM: an FPGA behind a bus, DIMMs, and devices behind CXL.

use perdure::configuration::Configuration;
use perdure_hardware::arena::Arena;
use perdure_hardware::line::line_of;
use perdure_hardware::memory::Memory;
use perdure_hardware::statistics::Statistics;
use serde_json::json;

use crate::common::{Directory, cut};

/// What a miss takes of idle memory, from the L1 on: of DRAM, and of a device.
fn miss_ns(machine: &str) -> [f64; 2] {
    let built = Configuration::new(machine, "nearpm", &[], None).expect("a preset");
    let of = &built.specification;
    let levels = of.l1d.latency_cycles + of.l2.latency_cycles + of.llc.latency_cycles;
    let map = of.physical_map();
    let pools = map.pools().next().expect("pools").start;
    [0, pools].map(|address| {
        let arena = Arena::new(map.bytes()).expect("address space");
        let mut memory = Memory::new(of, arena, 0..0);
        let done = memory.read(line_of(address), 0, &mut Statistics::default());
        (done + levels) as f64 * 1000.0 / of.core.frequency_mhz as f64
    })
}

/// Of the paper, of what was measured of DIMMs, and of what was published of CXL.
#[test]
fn what_a_miss_takes_is_what_each_machine_says() {
    for (machine, expected) in [
        ("nearpm", 436.0),
        ("nearpm-dimm", 305.0),
        ("nearpm-cxl", 200.0),
    ] {
        let [dram, device] = miss_ns(machine);
        assert!((device - expected).abs() < 3.0, "{machine}: {device} ns");
        // The devices' link is not DRAM's.
        assert!((45.0..55.0).contains(&dram), "{machine}: {dram} ns of DRAM");
    }
}

#[test]
fn every_machine_says_where_its_values_are_from() {
    for machine in ["nearpm", "nearpm-dimm", "nearpm-cxl"] {
        let built = Configuration::new(machine, "nearpm", &[], None).expect("a preset");
        let all = built.describe();
        for key in ["nvm.row_read_ns", "link.latency_ns", "module.nearpm.count"] {
            let (.., known) = all.iter().find(|(name, ..)| name == key).expect("a key");
            let words = ["paper: ", "measured, ", "published, ", "ours: "];
            let said = words.iter().any(|word| known.source.starts_with(word));
            assert!(said, "{machine}: {key}: {}", known.source);
        }
    }
}

#[test]
fn the_promise_is_kept_on_every_machine() {
    for machine in ["nearpm", "nearpm-dimm", "nearpm-cxl"] {
        let pools = Directory::new(&format!("on-{machine}"));
        let set = [
            "harts=2",
            "l1i.bytes=4KiB",
            "l1d.bytes=4KiB",
            "l2.bytes=8KiB",
        ];
        let cuts = cut(&json!({
            "design": "nearpm", "machine": machine, "set": set, "pmem": pools.0,
            "program": ["@devices:200:2"], "cuts": 30, "seed": 7,
        }));
        let counts = ["cuts", "failed"].map(|key| cuts[key].as_u64().expect("a number"));
        assert_eq!(counts, [30, 0], "{machine}");
    }
}
