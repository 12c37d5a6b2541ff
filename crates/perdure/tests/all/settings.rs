//! Every number of the configuration, at the ends of its range: a run with it ends, soon, or is
//! refused in one line. Numbers outside are refused before anything is built (`configuration.rs`).

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::SMALL;
use perdure::api::{self, Observer};
use perdure::configuration::MACHINES;
use serde_json::{Value, json};

/// For one run, of a program that takes a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks a run to end that takes too long.
struct Impatient(Instant);

impl Observer for Impatient {
    fn progress(&self, _done: u64, _total: u64, _unit: &str, _message: &str) {}

    fn interrupted(&self) -> bool {
        self.0.elapsed() > PATIENCE
    }
}

/// Key, least and most of every number of the preset.
fn ranges() -> Vec<(String, String, String)> {
    let (mut section, mut range) = (String::new(), None);
    let mut found = Vec::new();
    for line in MACHINES[0].1.lines() {
        if let Some(text) = line.strip_prefix("# Range: ") {
            let limits = text.trim_start_matches("0, or ").trim_end_matches('.');
            range = limits.split_once(" to ");
        } else if let Some(name) = line.strip_prefix('[') {
            section = format!("{}.", name.trim_end_matches(']'));
        } else if let (Some((key, _)), Some((least, most))) = (line.split_once(" = "), range.take())
        {
            found.push((format!("{section}{key}"), least.into(), most.into()));
        }
    }
    found
}

/// The designs under which a key is tried: its own, or one on each machine.
fn designs(key: &str) -> Vec<&str> {
    let section = key.split('.').next().unwrap_or_default();
    match perdure_designs::NAMES.iter().find(|name| **name == section) {
        Some(design) => vec![design],
        None => vec!["picl", "nvoverlay"],
    }
}

fn machine(design: &str) -> &str {
    if design == "nvoverlay" {
        "nvoverlay"
    } else {
        "picl"
    }
}

fn asked(design: &str, setting: &str) -> Value {
    let mut set: Vec<&str> = SMALL.to_vec();
    set.extend(["nvoverlay.pool_extent_bytes=1MiB", setting]);
    json!({
        "machine": machine(design), "design": design, "set": set, "harts": 2,
        "program": ["@exerciser:2000:64:300"], "stop_after": 2_000_000,
    })
}

#[test]
fn at_the_ends_of_its_range_a_number_is_refused_or_the_run_ends() {
    let mut cases = Vec::new();
    for (key, least, most) in ranges() {
        for value in [&least, &most] {
            for design in designs(&key) {
                cases.push((design.to_owned(), format!("{key}={value}")));
            }
        }
    }
    assert!(cases.len() > 200);
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((design, setting)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = tried(design, setting) {
                let line = format!("{design}, {setting}: {why}");
                failures.lock().expect("nobody panics").push(line);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let failures = failures.into_inner().expect("nobody panicked");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// One run; what is wrong with how it ended.
fn tried(design: &str, setting: &str) -> Result<(), String> {
    let request = asked(design, setting).to_string();
    let impatient = Impatient(Instant::now());
    let ended = std::panic::catch_unwind(|| api::run(&request, &impatient));
    let seconds = impatient.0.elapsed().as_secs_f64();
    if seconds > 2.0 {
        println!("{design}, {setting}: {seconds:.1} s");
    }
    match ended {
        Err(_) => Err("panicked".into()),
        Ok(Err(perdure::Error::Defect(why))) => Err(why),
        Ok(Err(error)) if error.to_string().contains('\n') => Err(error.to_string()),
        Ok(Err(error)) => {
            println!("{design}, {setting}: {error}");
            Ok(())
        }
        Ok(Ok(text)) => {
            let result: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            match result["interrupted"].as_bool() {
                Some(false) => Ok(()),
                _ => Err(format!("had not ended after {seconds:.0} s")),
            }
        }
    }
}
