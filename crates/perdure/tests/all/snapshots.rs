//! Snapshot stores: what they give is what was there, and no damage makes them lie.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{request, with};
use perdure::api::{self, Unobserved};
use perdure::snapshots::Snapshots;
use perdure_designs::bytes::checksum;
use perdure_hardware::random::Random;
use serde_json::{Value, json};

/// Where the exerciser's region begins.
const DATA: u64 = 0x10_0000;

/// A directory that is gone when the test is over.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perdure-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kept(directory: &Path, program: &str, stores: u64) -> Value {
    kept_with(
        directory,
        program,
        stores,
        &[
            "nvoverlay.pool_extent_bytes=1MiB",
            "nvoverlay.pool_limit_bytes=64MiB",
        ],
    )
}

fn kept_with(directory: &Path, program: &str, stores: u64, more: &[&str]) -> Value {
    let stores = format!("epoch.stores={stores}");
    let mut set = vec![stores.as_str(), "nvm.bytes=268435456"];
    set.extend(more);
    let asked = with(
        request("nvoverlay", program),
        json!({
            "machine": "nvoverlay",
            "harts": 2,
            "set": set,
            "snapshots": directory,
        }),
    );
    let result = api::run(&asked.to_string(), &Unobserved).unwrap();
    serde_json::from_str(&result).unwrap()
}

fn ask(store: &Snapshots, question: &Value) -> Result<Value, String> {
    let answer = store.ask(&question.to_string());
    answer
        .map(|text| serde_json::from_str(&text).unwrap())
        .map_err(|error| error.to_string())
}

/// Questions that together lead to most of a store.
fn questions(newest: u64) -> Vec<Value> {
    let mut all = vec![
        json!({"ask": "epochs"}),
        json!({"ask": "diff", "from": 1, "to": newest - 1}),
        json!({"ask": "history", "what": format!("{DATA:#x}"), "type": "hex[64]"}),
    ];
    for step in 0..12 {
        let epoch = 1 + step * (newest - 2) / 12;
        let what = format!("{:#x}", DATA + step * 5000);
        all.push(json!({"ask": "read", "what": what, "epoch": epoch, "type": "hex[4096]"}));
    }
    all
}

#[test]
fn a_store_is_no_larger_than_what_the_design_wrote_and_ends_where_recovery_would() {
    let directory = Directory::new("store-size");
    let result = kept(&directory.0, "@exerciser:20000:64:1000:2", 500);
    let kept = &result["snapshots"];
    let size = |key: &str| kept["sizes"][key].as_u64().unwrap();
    assert_eq!(size("nvm_written"), result["nvm"]["written_bytes"]["total"]);
    let file = fs::metadata(directory.0.join("snapshots.nvm"))
        .unwrap()
        .len();
    assert_eq!(file, size("snapshots") + size("initial_image"));
    let room = size("nvm_written") * 13 / 10 + size("initial_image");
    assert!(file <= room, "{file} bytes, {room} allowed");
    let store = Snapshots::open(&directory.0).unwrap();
    let epochs = ask(&store, &json!({"ask": "epochs"})).unwrap();
    let listed = epochs["epochs"].as_array().unwrap();
    assert_eq!(listed.last().unwrap()["epoch"], kept["epochs"]["newest"]);
    assert_eq!(
        listed.last().unwrap()["processes"],
        json!([]),
        "it has ended"
    );
    let mut before = 0;
    for epoch in listed {
        let clock = epoch["virtual_ns"].as_u64().unwrap();
        assert!(clock >= before, "time only grows: {epoch}");
        before = clock;
    }
}

#[test]
fn history_reads_and_differences_agree() {
    let directory = Directory::new("store-agree");
    kept(&directory.0, "@exerciser:6000:64:500:2", 200);
    agree(&directory.0, 0);
}

#[test]
fn they_agree_behind_a_horizon_too() {
    let directory = Directory::new("store-horizon");
    let small = [
        "nvoverlay.pool_extent_bytes=64KiB",
        "nvoverlay.pool_limit_bytes=1280KiB",
    ];
    let result = kept_with(&directory.0, "@exerciser:20000:64:500:2", 200, &small);
    let oldest = result["snapshots"]["epochs"]["oldest"].as_u64().unwrap();
    assert!(oldest > 0, "nothing was compacted");
    agree(&directory.0, oldest);
}

fn agree(directory: &Path, oldest: u64) {
    let store = Snapshots::open(directory).unwrap();
    let last = ask(&store, &json!({"ask": "epochs"})).unwrap()["default_epoch"]
        .as_u64()
        .unwrap();
    assert!(last > oldest + 5, "epochs {oldest} to {last}");
    let read = |what: &str, epoch: u64| {
        let question = json!({"ask": "read", "what": what, "epoch": epoch, "type": "hex[64]"});
        ask(&store, &question).map(|answer| answer["bytes"].clone())
    };
    let mut random = Random::new(7);
    for _ in 0..20 {
        let what = format!("{:#x}", DATA + random.bits() % 1024 * 64);
        let question = json!({"ask": "history", "what": what, "type": "hex[64]"});
        let history = ask(&store, &question).unwrap();
        let versions = history["versions"].as_array().unwrap();
        // Between two versions nothing changes.
        for (index, version) in versions.iter().enumerate() {
            let from = version["epoch"].as_u64().unwrap().max(oldest);
            let next = versions
                .get(index + 1)
                .and_then(|next| next["epoch"].as_u64());
            if version["bytes"].is_null() {
                assert!(read(&what, from).is_err());
                continue;
            }
            for epoch in from..next.unwrap_or(last + 1) {
                assert_eq!(
                    read(&what, epoch).unwrap(),
                    version["bytes"],
                    "{what} at {epoch}"
                );
            }
        }
    }
    let (from, to) = (oldest + (last - oldest) / 3, oldest + (last - oldest) / 2);
    let diff = ask(&store, &json!({"ask": "diff", "from": from, "to": to})).unwrap();
    let lines = diff["processes"][0]["lines"].as_array().unwrap();
    assert!(!lines.is_empty());
    let mut differing: Vec<&str> = Vec::new();
    for line in lines {
        let what = line["address"].as_str().unwrap();
        assert_eq!(read(what, from).unwrap(), line["old"], "{what}");
        assert_eq!(read(what, to).unwrap(), line["new"], "{what}");
        differing.push(what);
    }
    for line in 0..1024 {
        let what = format!("{:#x}", DATA + line * 64);
        let same = read(&what, from).unwrap() == read(&what, to).unwrap();
        assert_eq!(same, !differing.contains(&what.as_str()), "{what}");
    }
}

#[test]
fn damage_anywhere_is_refused_or_changes_nothing() {
    let directory = Directory::new("store-damage");
    kept(&directory.0, "@exerciser:3000:64:500:2", 300);
    let store = Snapshots::open(&directory.0).unwrap();
    let newest = ask(&store, &json!({"ask": "epochs"})).unwrap()["default_epoch"]
        .as_u64()
        .unwrap();
    let questions = questions(newest);
    let right: Vec<Value> = questions
        .iter()
        .map(|one| ask(&store, one).unwrap())
        .collect();
    drop(store);
    let files: Vec<PathBuf> = {
        let copies = fs::read_dir(directory.0.join("files")).unwrap();
        let copies = copies.map(|entry| entry.unwrap().path());
        ["store.json", "snapshots.nvm"]
            .map(|name| directory.0.join(name))
            .into_iter()
            .chain(copies)
            .collect()
    };
    // Refusals, and answers that were right all the same.
    let (refused, unmoved) = (Cell::new(0), Cell::new(0));
    let more = |count: &Cell<u32>| count.set(count.get() + 1);
    let check = |what: &str| {
        let store = match Snapshots::open(&directory.0) {
            Ok(store) => store,
            Err(error) => {
                let message = error.to_string();
                assert!(
                    message.contains("perdure-store-damage"),
                    "{what}: {message}"
                );
                more(&refused);
                return;
            }
        };
        for (question, right) in questions.iter().zip(&right) {
            match ask(&store, question) {
                Ok(answer) => {
                    assert_eq!(&answer, right, "{what}: {question}");
                    more(&unmoved);
                }
                Err(message) => {
                    assert!(
                        message.contains("damaged") || message.contains("cut short"),
                        "{what}: {message}"
                    );
                    more(&refused);
                }
            }
        }
    };
    let mut random = Random::new(11);
    for file in &files {
        let whole = fs::read(file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        // All of the header, and places everywhere.
        let header = (0..128.min(whole.len())).step_by(3);
        let anywhere: Vec<usize> = (0..40)
            .map(|_| random.bits() as usize % whole.len())
            .collect();
        for at in header.chain(anywhere) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (random.bits() % 8);
            fs::write(file, &damaged).unwrap();
            check(&format!("{name}, byte {at}"));
        }
        for length in [0, 1, 7, 60, whole.len() / 2, whole.len() - 1] {
            fs::write(file, &whole[..length.min(whole.len() - 1)]).unwrap();
            check(&format!("{name}, {length} bytes"));
        }
        let mut longer = whole.clone();
        longer.push(0);
        fs::write(file, &longer).unwrap();
        check(&format!("{name}, a byte more"));
        fs::write(file, &whole).unwrap();
    }
    println!(
        "{} refusals, {} right answers",
        refused.get(),
        unmoved.get()
    );
    assert!(refused.get() > 100);
    let before = refused.get();
    check("nothing");
    assert_eq!(refused.get(), before, "the store is whole again");
}

/// A store that is whole, of a design that keeps no snapshots: another build's, or a forged one.
#[test]
fn a_store_of_a_design_without_snapshots_is_refused_in_its_name() {
    let directory = Directory::new("store-of-none");
    kept(&directory.0, "@exerciser:2000:64:500", 300);
    assert!(Snapshots::open(&directory.0).is_ok());
    let manifest = directory.0.join("store.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let other = text.replace("\"design\": \"nvoverlay\"", "\"design\": \"journaling\"");
    assert_ne!(other, text);
    fs::write(&manifest, &other).unwrap();
    // The archive holds the manifest's checksum, and its header one of itself.
    let archive = directory.0.join("snapshots.nvm");
    let mut bytes = fs::read(&archive).unwrap();
    bytes[48..56].copy_from_slice(&checksum(other.as_bytes()).to_le_bytes());
    let sum = checksum(&bytes[..120]);
    bytes[120..128].copy_from_slice(&sum.to_le_bytes());
    fs::write(&archive, bytes).unwrap();
    let refused = Snapshots::open(&directory.0).err().unwrap().to_string();
    assert!(
        refused.contains("design journaling keeps no snapshots in this build"),
        "{refused}"
    );
}

#[test]
fn refusals_say_what_is_wrong_and_what_there_is() {
    let directory = Directory::new("store-refusals");
    let result = kept(&directory.0, "@exerciser:2000:64:500", 300);
    let newest = result["snapshots"]["epochs"]["newest"].as_u64().unwrap();
    let store = Snapshots::open(&directory.0).unwrap();
    let read = |what: &str, more: Value| {
        ask(
            &store,
            &with(json!({"ask": "read", "what": what, "epoch": 1}), more),
        )
        .unwrap_err()
    };
    let data = format!("{DATA:#x}");
    for (message, words) in [
        (
            read("0x10", json!({})),
            ["0x10 is not mapped", "mapped beside it"],
        ),
        (
            read(&data, json!({"epoch": newest + 1})),
            ["is not in the snapshot store", "epochs 0 to"],
        ),
        (
            read(&data, json!({"epoch": newest})),
            ["no program lives", "the last epoch"],
        ),
        (
            read("counter", json!({})),
            ["no symbol 'counter'", "no symbols"],
        ),
        (read(&data, json!({"type": "u7"})), ["--type u7", "u8"]),
        (
            read(&data, json!({"count": 0})),
            ["--count 0", "at least 1"],
        ),
        (read(&data, json!({"process": 99})), ["--process 99", "1 ("]),
        (read("0xzz", json!({})), ["0xzz", "no address"]),
        (
            read("p:0xffffffffffff", json!({})),
            ["is not in memory", "ends at"],
        ),
        (
            read("p:0xffffffffffffffff", json!({})),
            ["is not in memory", "ends at"],
        ),
        (
            read("0xfffffffffffffff8", json!({"type": "hex[64]"})),
            ["0xfffffffffffffff8", "not mapped"],
        ),
        (read(&data, json!({"colour": 1})), ["question", "colour"]),
    ] {
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
    }
    what_is_no_store_is_refused(&directory);
}

fn what_is_no_store_is_refused(directory: &Directory) {
    let opened = |path: &Path| Snapshots::open(path).err().unwrap().to_string();
    assert!(opened(Path::new("/nowhere/store")).contains("/nowhere/store"));
    assert!(opened(&std::env::temp_dir()).contains("no snapshot store"));
    let manifest = directory.0.join("store.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"version\": 1", "\"version\": 9")).unwrap();
    assert!(opened(&directory.0).contains("version 9"));
    fs::write(&manifest, "{}").unwrap();
    assert!(opened(&directory.0).contains("no snapshot store"));
    fs::write(&manifest, text).unwrap();
    let archive = directory.0.join("snapshots.nvm");
    let mut bytes = fs::read(&archive).unwrap();
    bytes[8] = 3;
    fs::write(&archive, bytes).unwrap();
    assert!(opened(&directory.0).contains("version 3"));
}

#[test]
fn a_run_that_could_not_keep_its_snapshots_does_not_begin() {
    let refusal = |design: &str, directory: &Path| {
        let asked = with(
            request(design, "@exerciser:1000:64:500"),
            json!({"machine": "nvoverlay", "snapshots": directory}),
        );
        api::run(&asked.to_string(), &Unobserved)
            .unwrap_err()
            .to_string()
    };
    let directory = Directory::new("store-not-kept");
    assert!(refusal("picl", &directory.0).contains("--design nvoverlay"));
    assert!(!directory.0.exists());
    fs::create_dir_all(&directory.0).unwrap();
    let file = directory.0.join("precious");
    fs::write(&file, "x").unwrap();
    assert!(refusal("nvoverlay", &directory.0).contains("not empty"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "x");
    assert!(refusal("nvoverlay", &file).contains("--snapshots"));
}
