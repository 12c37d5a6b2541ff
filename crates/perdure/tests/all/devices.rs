//! How programs reach a memory module's device, and what is refused.

use crate::common::{Directory, compile, run};
use serde_json::json;

/// A machine file with a module that has a device region.
const NEAR: &str = r#"
[[module]]
name = "near"
bytes = 1048576
device_bytes = 4096
"#;

#[test]
fn a_device_takes_aligned_loads_and_stores_and_nothing_else() {
    let directory = Directory::new("devices");
    let program = compile(&directory, "device_accesses.c");
    let machine = directory.at("near.toml");
    std::fs::write(&machine, NEAR).expect("a machine file");
    for engine in ["fast", "plain"] {
        let result = run(&json!({
            "design": "ideal",
            "machine": machine,
            "engine": engine,
            "program": [program],
        }));
        assert_eq!(
            result["exit_code"], 0,
            "{engine}: the first check that fails"
        );
        let modules = result["modules"].as_array().expect("two modules");
        let names: Vec<_> = modules.iter().map(|module| &module["name"]).collect();
        assert_eq!(names, ["nvm", "near"]);
        let near = &modules[1]["statistics"];
        let counted = |name: &str| near[name]["value"].as_u64();
        // What reaches a device, and what it would have to save, had it a program.
        assert_eq!(counted("device_stores"), Some(2));
        assert_eq!(counted("energy_peak"), Some(0));
        assert_eq!(modules[0]["statistics"]["device_loads"]["value"], 0);
    }
    let one = run(&json!({"design": "ideal", "program": ["@exerciser:100:4:10"]}));
    assert!(one.get("modules").is_none());
}
