//! What the tests share: small machines, and requests as JSON.
#![allow(dead_code, reason = "each test uses its part")]

use perdure::api::{self, Unobserved};
use serde_json::{Value, json};

/// Caches so small that everything happens in a short run.
pub const SMALL: &[&str] = &[
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=16KiB",
    "llc.bytes_per_hart=64KiB",
    "epoch.instructions=20000",
    "picl.log_extent_bytes=256KiB",
    "picl.log_limit_bytes=64MiB",
];

/// A request for the exerciser on a small machine.
pub fn request(design: &str, program: &str) -> Value {
    json!({"design": design, "set": SMALL, "program": [program]})
}

/// The same with more keys.
pub fn with(mut request: Value, more: Value) -> Value {
    let Value::Object(more) = more else {
        panic!("an object")
    };
    for (key, value) in more {
        request[key] = value;
    }
    request
}

pub fn run(request: &Value) -> Value {
    parse(api::run(&request.to_string(), &Unobserved))
}

pub fn cut(request: &Value) -> Value {
    parse(api::cut(&request.to_string(), &Unobserved))
}

fn parse(result: Result<String, perdure::Error>) -> Value {
    serde_json::from_str(&result.expect("the request is good")).expect("results are JSON")
}

/// A statistic of a run.
pub fn statistic(result: &Value, name: &str) -> u64 {
    result["statistics"][name]["value"]
        .as_u64()
        .unwrap_or_else(|| panic!("no statistic {name}"))
}

/// The seed of a property test: `PERDURE_SEED`, or always the same one.
pub fn seed() -> u64 {
    let text = std::env::var("PERDURE_SEED").ok();
    let seed = text.and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("PERDURE_SEED={seed}");
    seed
}
