//! What the tests share: small machines, requests as JSON, folders, and replicas that listen.
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use perdure::Error;
use perdure::api::{self, Observer, Unobserved};
use perdure::replication::server::{self, Options};
use perdure_hardware::random::Random;
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

/// The designs of the registry, by their promise.
fn designs_by(wanted: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let catalogue: Value = serde_json::from_str(&api::catalogue()).expect("JSON");
    let designs = catalogue["designs"].as_array().expect("a list");
    let text = |design: &Value, key: &str| design[key].as_str().expect("a text").to_owned();
    designs
        .iter()
        .filter(|design| wanted(&text(design, "promise"), &text(design, "recovery")))
        .map(|design| text(design, "name"))
        .collect()
}

/// All designs of the registry.
pub fn designs() -> Vec<String> {
    designs_by(|_, _| true)
}

/// Those that promise something to programs which go on.
pub fn protected_designs() -> Vec<String> {
    designs_by(|promise, recovery| promise != "nothing" && recovery == "resume")
}

/// The preset that a design runs on: PiCL's, unless the design refuses it.
pub fn machine_of(design: &str) -> &'static str {
    let fits = |machine: &&str| {
        let program = ["@exerciser:10:4:10"];
        let asked = json!({"design": design, "machine": machine, "program": program});
        let run = api::run(&asked.to_string(), &Unobserved);
        !matches!(run, Err(Error::Configuration(_)))
    };
    let known = ["picl", "nvoverlay", "spms", "nearpm"];
    known.into_iter().find(fits).expect("a machine for it")
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

/// So many rounds of a random test: seed, number, and random numbers of the round's own. Half of them are of
/// a seed that never changes, and the others of a fresh one; `PERDURE_SEED` names one for all.
pub fn rounds(count: u64) -> impl Iterator<Item = (u64, u64, Random)> {
    let seeds: Vec<u64> = crate::rigs::seeds(1).collect();
    let each = count / seeds.len() as u64;
    seeds.into_iter().flat_map(move |seed| {
        (0..each).map(move |round| (seed, round, Random::new(seed.wrapping_add(round << 48))))
    })
}

/// A directory that is gone when the test is over.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perdure-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The file of a secret.
    pub fn secret(&self, text: &str) -> PathBuf {
        let path = self.at("secret");
        fs::write(&path, text).expect("a secret");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compiles a guest program of the tests' into a directory; one that many tests share is named from there.
pub fn compile(directory: &Directory, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/guests")
        .join(name);
    let program = directory.at(source
        .file_stem()
        .and_then(|stem| stem.to_str())
        .expect("a name"));
    let made = std::process::Command::new("riscv64-linux-gnu-gcc")
        .args([
            "-std=gnu11",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-static",
        ])
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../guest"))
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .output()
        .expect("riscv64-linux-gnu-gcc, of gcc-riscv64-linux-gnu");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{}: {said}", source.display());
    program
}

/// Stops a server.
#[derive(Default)]
struct Stop(AtomicBool);

impl Observer for Stop {
    fn progress(&self, _: u64, _: u64, _: &str, _: &str) {}

    fn interrupted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A replica that listens, in a thread.
pub struct Server {
    pub address: String,
    pub lines: Arc<Mutex<Vec<String>>>,
    stop: Arc<Stop>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub fn start(directory: &Path, secret: &Path) -> Self {
        let options = Options {
            directory: directory.to_owned(),
            listen: "127.0.0.1:0".into(),
            secret_file: Some(secret.to_owned()),
            once: false,
        };
        let lines = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(Stop::default());
        let (said, stopped) = (Arc::clone(&lines), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let say = |line: &str| said.lock().unwrap().push(line.to_owned());
            server::serve(&options, &*stopped, &say).expect("it serves");
        });
        let address = loop {
            if let Some(line) = lines.lock().unwrap().first() {
                let address = line.strip_prefix("listening on ").expect("it listens");
                break address.split(';').next().unwrap().to_owned();
            }
            assert!(!thread.is_finished(), "the server ended");
            std::thread::sleep(Duration::from_millis(5));
        };
        Self {
            address,
            lines,
            stop,
            thread: Some(thread),
        }
    }

    /// Whether it says that, sooner or later.
    pub fn said(&self, what: &str) -> bool {
        let patience = 400;
        (0..patience).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let lines = self.lines.lock().unwrap();
            lines.iter().any(|line| line.contains(what))
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends");
        }
    }
}
