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
    }
}
