//! Replication: a replica holds what the primary made durable, whatever dies, and never anything else.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{self, Directory, Server, request, with};
use perdure::api::{self, Unobserved};
use perdure::replication::Destination;
use perdure::replication::log::{self, COMMITS, Log, START};
use perdure::replication::primary::{Primary, Target};
use perdure::replication::record::{self, Kind};
use perdure::request::Request;
use perdure::snapshots::{Snapshots, keep};
use perdure::{Engine, Machine, Pause};
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::random::Random;
use serde_json::{Value, json};

/// Where the exerciser's region begins.
const DATA: u64 = 0x10_0000;
const PROGRAM: &str = "@exerciser:12000:32:800:2";

fn run_request(program: &str) -> Value {
    let set = [
        "epoch.stores=300",
        "nvm.bytes=268435456",
        "nvoverlay.pool_extent_bytes=1MiB",
        "nvoverlay.pool_limit_bytes=64MiB",
    ];
    with(
        request("nvoverlay", program),
        json!({"machine": "nvoverlay", "harts": 2, "set": set}),
    )
}

fn run(request: &Value) -> Result<Value, String> {
    let result = api::run(&request.to_string(), &Unobserved);
    result
        .map(|text| serde_json::from_str(&text).expect("results are JSON"))
        .map_err(|error| error.to_string())
}

fn replicate(to: &Path, program: &str) -> Value {
    let result = run(&with(run_request(program), json!({"replicate_to": to})));
    let result = result.expect("it runs");
    assert_eq!(result["replication"]["trouble"], Value::Null);
    result
}

fn newest(result: &Value) -> u64 {
    result["replication"]["recoverable_epoch"].as_u64().unwrap()
}

fn ask(store: &Snapshots, question: &Value) -> Result<Value, String> {
    let answer = store.ask(&question.to_string());
    answer
        .map(|text| serde_json::from_str(&text).expect("answers are JSON"))
        .map_err(|error| error.to_string())
}

/// Questions that together lead to most of a store.
fn questions(newest: u64) -> Vec<Value> {
    let mut all = vec![
        json!({"ask": "diff", "from": 1, "to": newest - 1}),
        json!({"ask": "history", "what": format!("{DATA:#x}"), "type": "hex[64]"}),
    ];
    for step in 0..12 {
        let epoch = step * newest / 12;
        let what = format!("{:#x}", DATA + step * 2500);
        all.push(json!({"ask": "read", "what": what, "epoch": epoch, "type": "hex[2048]"}));
    }
    all
}

/// Every question's answer.
fn answers(directory: &Path, newest: u64) -> Vec<Result<Value, String>> {
    let store = Snapshots::open(directory).expect("it can be opened");
    let questions = questions(newest);
    questions
        .iter()
        .map(|question| ask(&store, question))
        .collect()
}

#[test]
fn a_replica_reads_like_the_snapshots_of_the_same_run() {
    let folder = Directory::new("replica-reads");
    let asked = with(
        run_request(PROGRAM),
        json!({"replicate_to": folder.at("replica"), "snapshots": folder.at("store")}),
    );
    let result = run(&asked).expect("it runs");
    let newest = newest(&result);
    assert!(newest > 30, "{newest} epochs");
    assert_eq!(result["replication"]["epoch"], newest);
    assert_eq!(
        result["replication"]["epochs_sent"],
        newest + 1,
        "and the start"
    );
    let of_replica = answers(&folder.at("replica"), newest);
    assert!(of_replica.iter().all(Result::is_ok), "{of_replica:?}");
    assert_eq!(of_replica, answers(&folder.at("store"), newest));
}

#[test]
fn replication_does_not_change_the_run() {
    let folder = Directory::new("replica-same");
    let alone = run(&run_request(PROGRAM)).expect("it runs");
    let replicated = replicate(&folder.at("replica"), PROGRAM);
    assert_eq!(alone["state_hash"], replicated["state_hash"]);
    assert_eq!(alone["sim"], replicated["sim"]);
}

#[test]
fn any_epoch_can_be_resumed_and_ends_as_the_run_did() {
    let folder = Directory::new("replica-resume");
    let result = replicate(&folder.at("replica"), PROGRAM);
    let newest = newest(&result);
    for epoch in [0, 1, newest / 3, newest / 2, newest - 2, newest] {
        let asked = json!({"directory": folder.at("replica"), "epoch": epoch});
        let resumed = api::resume(&asked.to_string(), &Unobserved).expect("it resumes");
        let resumed: Value = serde_json::from_str(&resumed).unwrap();
        assert_eq!(resumed["exit_code"], result["exit_code"], "epoch {epoch}");
        assert_eq!(resumed["restored_epoch"], epoch);
    }
    let asked = json!({"directory": folder.at("replica"), "epoch": newest + 1});
    let error = api::resume(&asked.to_string(), &Unobserved).unwrap_err();
    assert!(
        error.to_string().contains("is not in the snapshot store"),
        "{error}"
    );
}

#[test]
fn a_replica_that_died_at_any_byte_holds_whole_epochs_and_goes_on() {
    let folder = Directory::new("replica-dies");
    let result = replicate(&folder.at("whole"), PROGRAM);
    let newest = newest(&result);
    let whole = answers(&folder.at("whole"), newest);
    let log = fs::read(folder.at("whole").join("replica.log")).unwrap();
    for (seed, round, mut random) in common::rounds(12) {
        // What a host leaves that fails: the newest commit of which the file has all bytes, and some of
        // what lies behind it.
        let length = START + random.below(log.len() as u64 - START);
        let length = length as usize;
        let mut left = log[..length].to_vec();
        let commits = commits(&log);
        let (number, committed, chain) = *commits
            .iter()
            .rev()
            .find(|(_, committed, _)| *committed <= length as u64)
            .expect("the first commit is of nothing");
        put_commit(&mut left, number, committed, chain);
        let directory = folder.at(&format!("part-{round}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("replica.log"), &left).unwrap();
        if let Ok(store) = Snapshots::open(&directory) {
            let held = ask(&store, &json!({"ask": "epochs"})).unwrap();
            let held = held["manifest"]["epochs"]["newest"].as_u64().unwrap();
            for question in questions(newest) {
                let until = question["epoch"].as_u64().or(question["to"].as_u64());
                if until.is_some_and(|until| until <= held) {
                    let whole = Snapshots::open(&folder.at("whole")).unwrap();
                    let expected = ask(&whole, &question);
                    assert_eq!(ask(&store, &question), expected, "PERDURE_SEED={seed}");
                }
            }
        }
        replicate(&directory, PROGRAM);
        assert_eq!(answers(&directory, newest), whole, "PERDURE_SEED={seed}");
    }
}

/// Every commit that a log has had: number, bytes, chain; they follow from its records. The number of
/// a commit is unknown, but only which of two is larger counts.
fn commits(log: &[u8]) -> Vec<(u64, u64, u64)> {
    let word = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
    let half = |at: usize| u32::from_le_bytes(log[at..at + 4].try_into().unwrap());
    let first = perdure_designs::bytes::checksum(b"PERDREPL");
    let mut commits = vec![(0, START, first)];
    let mut at = START as usize;
    while at < log.len() {
        let (kind, length) = (half(at), half(at + 4) as usize);
        at += 16 + length;
        if kind == 5 {
            commits.push((commits.len() as u64, at as u64, word(at - 8)));
        }
    }
    commits
}

fn put_commit(log: &mut [u8], number: u64, length: u64, chain: u64) {
    let mut copy = Vec::new();
    for field in [number, length, chain] {
        copy.extend_from_slice(&field.to_le_bytes());
    }
    let seal = perdure_designs::bytes::checksum(&copy);
    copy.extend_from_slice(&seal.to_le_bytes());
    for at in COMMITS {
        log[at as usize..][..copy.len()].fill(0);
    }
    let at = COMMITS[(number % 2) as usize] as usize;
    log[at..at + copy.len()].copy_from_slice(&copy);
}

#[test]
fn what_was_compacted_while_a_replica_was_away_comes_in_one_step() {
    let folder = Directory::new("replica-gap");
    let mut asked = run_request("@exerciser:30000:64:800:2");
    asked["set"] = json!([
        "l1i.bytes=4KiB",
        "l1d.bytes=4KiB",
        "l2.bytes=16KiB",
        "llc.bytes_per_hart=64KiB",
        "epoch.stores=200",
        "nvm.bytes=268435456",
        "nvoverlay.pool_extent_bytes=64KiB",
        "nvoverlay.pool_limit_bytes=6MiB",
    ]);
    let request = Request::parse(&asked.to_string()).expect("a request");
    let prepared = request.prepare().expect("it can run");
    let boot = <Machine>::boot;
    let mut machine = boot(
        &prepared.configuration,
        &prepared.workload,
        Engine::Fast,
        None,
    )
    .expect("it boots");
    let target = Target::Directory(folder.at("replica"));
    let mut primary = Primary::start(target, &prepared, &machine).expect("it is there");
    // The replica is there for the first 50 epochs, and again at the end.
    let mut held = 0;
    loop {
        match machine.run(u64::MAX - 1).expect("it runs") {
            Pause::Finished => break,
            Pause::EpochEnded(_) if machine.announced_epoch() < 50 => {
                primary.follow(&machine);
                held = machine.announced_epoch();
            }
            _ => {}
        }
    }
    let newest = machine.announced_epoch();
    primary.finish(&machine, Duration::ZERO, &Unobserved);
    let trouble = primary.report(&machine)["trouble"].clone();
    assert_eq!(trouble, Value::Null);
    let kept = keep::keep(&mut machine, &prepared, &folder.at("store")).expect("it is kept");
    let oldest = kept.epochs.oldest;
    assert!(
        held > 10 && oldest > held + 1,
        "{held} held, {oldest} is the oldest there"
    );
    let replica = Snapshots::open(&folder.at("replica")).expect("a replica");
    assert_eq!(replica.manifest.epochs.oldest, oldest, "as in the primary");
    let store = Snapshots::open(&folder.at("store")).expect("a store");
    for epoch in [oldest, u64::midpoint(oldest, newest), newest - 1] {
        for step in 0..32 {
            let what = format!("{:#x}", DATA + step * 2048);
            let read = json!({"ask": "read", "what": what, "epoch": epoch, "type": "hex[2048]"});
            let value = |store: &Snapshots| ask(store, &read).map(|answer| answer["bytes"].clone());
            assert_eq!(value(&replica), value(&store), "epoch {epoch}, {what}");
        }
    }
    let gone = json!({"ask": "read", "what": format!("{DATA:#x}"), "epoch": held});
    assert!(
        ask(&replica, &gone)
            .unwrap_err()
            .contains("is not in the snapshot store")
    );
}

#[test]
fn a_damaged_replica_gives_an_error_or_what_was_there() {
    let folder = Directory::new("replica-damage");
    let result = replicate(&folder.at("replica"), "@exerciser:4000:16:800:2");
    let newest = newest(&result);
    let right = answers(&folder.at("replica"), newest);
    let path = folder.at("replica").join("replica.log");
    let log = fs::read(&path).unwrap();
    let mut refused = 0;
    for (seed, round, mut random) in common::rounds(150) {
        let mut damaged = log.clone();
        // The header now and then, so that it is hit.
        let at = if round % 3 == 0 {
            let parts = [0, COMMITS[0], COMMITS[1]];
            parts[random.below(3) as usize] + random.below(12)
        } else {
            random.below(log.len() as u64)
        };
        let at = at as usize;
        if round % 10 == 9 {
            damaged.truncate(at);
        } else {
            damaged[at] ^= 1 << random.below(8);
        }
        fs::write(&path, &damaged).unwrap();
        let Ok(store) = Snapshots::open(&folder.at("replica")) else {
            refused += 1;
            continue;
        };
        for (question, right) in questions(newest).iter().zip(&right) {
            // With one copy of the commit damaged, the last epochs may be missing.
            let answer = ask(&store, question);
            let missing =
                matches!(&answer, Err(why) if why.contains("is not in the snapshot store"));
            let fewer = question["ask"] == "history";
            assert!(
                missing || fewer || answer == *right,
                "PERDURE_SEED={seed}, byte {at}: {answer:?}"
            );
        }
    }
    assert!(refused > 80, "{refused} of 150 were refused");
}

#[test]
fn every_flipped_bit_of_a_record_is_noticed() {
    let folder = Directory::new("replica-flips");
    replicate(&folder.at("replica"), "@exerciser:1000:4:800:2");
    // A fact is under no seal.
    let mut log = Log::open(&folder.at("replica")).expect("it is whole");
    log.append(Kind::Fact, &[7; 5000]).expect("it is taken");
    log.commit().expect("it is written");
    drop(log);
    let path = folder.at("replica").join("replica.log");
    let whole = fs::read(&path).unwrap();
    let read = || log::read(&folder.at("replica"), |_, _, _| Ok(()));
    read().expect("it is whole");
    for (seed, round, mut random) in common::rounds(300) {
        let records = whole.len() as u64 - START;
        // Half of them in the fact, which is the last record.
        let back = random.below(if round % 2 == 0 { 5024 } else { records });
        let at = whole.len() - 1 - back as usize;
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << random.below(8);
        fs::write(&path, &damaged).unwrap();
        assert!(read().is_err(), "PERDURE_SEED={seed}: byte {at}");
    }
}

// ---- Over TCP ----------------------------------------------------------------------------------

fn secret(folder: &Directory, name: &str, text: &str) -> PathBuf {
    let path = folder.at(name);
    fs::write(&path, text).unwrap();
    path
}

fn remote(program: &str, address: &str, secret: &Path) -> Value {
    with(
        run_request(program),
        json!({"replicate_to": address, "secret_file": secret}),
    )
}

#[test]
fn a_replica_over_tcp_is_the_same() {
    let folder = Directory::new("replica-tcp");
    let secret = secret(&folder, "secret", "0123456789abcdef0123456789abcdef\n");
    let serving = Server::start(&folder.at("remote"), &secret);
    let result = run(&remote(PROGRAM, &serving.address, &secret)).expect("it runs");
    assert_eq!(result["replication"]["trouble"], Value::Null);
    assert!(serving.said("done; holds epochs up to"));
    drop(serving);
    replicate(&folder.at("local"), PROGRAM);
    let file = |name: &str| fs::read(folder.at(name).join("replica.log")).unwrap();
    assert!(
        file("remote")[START as usize..] == file("local")[START as usize..],
        "the same records"
    );
}

#[test]
fn who_does_not_know_the_secret_is_refused_before_any_data() {
    let folder = Directory::new("replica-secret");
    let right = secret(&folder, "right", "0123456789abcdef0123456789abcdef");
    let wrong = secret(&folder, "wrong", "0123456789abcdef0123456789abcdeF");
    let short = secret(&folder, "short", "secret");
    let serving = Server::start(&folder.at("replica"), &right);
    let empty = fs::read(folder.at("replica").join("replica.log")).unwrap();
    let error = run(&remote(PROGRAM, &serving.address, &wrong)).unwrap_err();
    assert!(
        error.contains("the shared secret is not the one that it has"),
        "{error}"
    );
    assert!(serving.said("refused: its secret is another one"));
    let error = run(&remote(PROGRAM, &serving.address, &short)).unwrap_err();
    assert!(error.contains("at least 16 are needed"), "{error}");
    let asked = with(
        run_request(PROGRAM),
        json!({"replicate_to": serving.address}),
    );
    let error = run(&asked).unwrap_err();
    assert!(error.contains("needs --secret-file"), "{error}");
    // Garbage gets the greeting, and nothing else; what was there is as it was.
    for (seed, round, mut random) in common::rounds(20) {
        let mut stream = TcpStream::connect(&serving.address).unwrap();
        let mut garbage: Vec<u8> = (0..200).map(|_| random.bits() as u8).collect();
        if round % 2 == 0 {
            garbage[..8].copy_from_slice(b"PERDREPL");
            garbage[8..12].copy_from_slice(&2u32.to_le_bytes());
        }
        let _ = stream.write_all(&garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() <= 44 + 49, "{} bytes", answer.len());
        assert_ne!(answer.get(44), Some(&1), "PERDURE_SEED={seed}");
    }
    assert_eq!(
        fs::read(folder.at("replica").join("replica.log")).unwrap(),
        empty
    );
    // And it still serves who does know it.
    let result = run(&remote(PROGRAM, &serving.address, &right)).expect("it runs");
    assert_eq!(result["replication"]["trouble"], Value::Null);
}

#[test]
fn what_is_no_replica_is_told_so() {
    let folder = Directory::new("replica-none");
    let secret = secret(&folder, "secret", "0123456789abcdef0123456789abcdef");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let web = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(answer);
    });
    let error = run(&remote(PROGRAM, &address, &secret)).unwrap_err();
    web.join().unwrap();
    assert!(error.contains("is no replica"), "{error}");
    let error = run(&remote(PROGRAM, &address, &secret)).unwrap_err();
    assert!(error.contains("no replica answers at"), "{error}");
    fs::write(folder.at("something"), "else").unwrap();
    let asked = with(run_request(PROGRAM), json!({"replicate_to": folder.0}));
    let error = run(&asked).unwrap_err();
    assert!(error.contains("is not empty and no replica"), "{error}");
    let picl = json!({"design": "picl", "program": [PROGRAM], "replicate_to": folder.at("new")});
    let error = run(&picl).unwrap_err();
    assert!(
        error.contains("--to: design picl keeps no snapshots"),
        "{error}"
    );
}

#[test]
fn another_runs_epochs_are_refused() {
    let folder = Directory::new("replica-other");
    replicate(&folder.at("replica"), PROGRAM);
    let before = fs::read(folder.at("replica").join("replica.log")).unwrap();
    let other = run_request("@exerciser:12000:32:700:2");
    let error = run(&with(other, json!({"replicate_to": folder.at("replica")}))).unwrap_err();
    assert!(error.contains("is of another run"), "{error}");
    let mut other = run_request(PROGRAM);
    other["set"][0] = json!("epoch.stores=400");
    let error = run(&with(other, json!({"replicate_to": folder.at("replica")}))).unwrap_err();
    assert!(error.contains("its configuration is"), "{error}");
    // A shorter run of the same program has nothing to add, and says so.
    let shorter = with(
        run_request(PROGRAM),
        json!({"replicate_to": folder.at("replica"), "stop_after": 60_000}),
    );
    let result = run(&shorter).expect("it runs");
    let trouble = result["replication"]["trouble"]
        .as_str()
        .unwrap_or_default();
    assert!(trouble.contains("has only come to"), "{result}");
    assert!(fs::read(folder.at("replica").join("replica.log")).unwrap() == before);
}

/// Hands bytes on from who connects to another address, and drops each connection after so many.
fn flaky(to: String, seed: u64) -> (String, Arc<AtomicU64>, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (drops, healed) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (counted, whole) = (Arc::clone(&drops), Arc::clone(&healed));
    std::thread::spawn(move || {
        let mut random = Random::new(seed);
        for from in listener.incoming() {
            let (Ok(mut from), Ok(mut to)) = (from, TcpStream::connect(&to)) else {
                return;
            };
            let (Ok(mut back), Ok(mut answers)) = (from.try_clone(), to.try_clone()) else {
                return;
            };
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut answers, &mut back);
                let _ = back.shutdown(std::net::Shutdown::Both);
            });
            let mut left = random.below(600_000);
            let mut buffer = vec![0; 4096];
            while let Ok(read) = from.read(&mut buffer) {
                if read == 0 {
                    break;
                }
                let healthy = whole.load(Ordering::Relaxed);
                let pass = if healthy {
                    read
                } else {
                    read.min(left as usize)
                };
                if to.write_all(&buffer[..pass]).is_err() || pass < read {
                    counted.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                left = left.saturating_sub(read as u64);
            }
            let _ = from.shutdown(std::net::Shutdown::Both);
            let _ = to.shutdown(std::net::Shutdown::Both);
        }
    });
    (address, drops, healed)
}

#[test]
fn a_connection_that_breaks_anywhere_loses_nothing() {
    crate::rigs::seeds(1).for_each(break_anywhere);
}

fn break_anywhere(seed: u64) {
    let folder = Directory::new("replica-flaky");
    let secret = secret(&folder, "secret", "0123456789abcdef0123456789abcdef");
    let whole = {
        let result = replicate(&folder.at("local"), PROGRAM);
        answers(&folder.at("local"), newest(&result))
    };
    let serving = Server::start(&folder.at("remote"), &secret);
    let (address, drops, healed) = flaky(serving.address.clone(), seed);
    let mut results = Vec::new();
    for _ in 0..6 {
        let asked = with(
            remote(PROGRAM, &address, &secret),
            json!({"patience_seconds": 0}),
        );
        match run(&asked) {
            Ok(result) => results.push(result),
            Err(error) => assert!(
                error.contains("lost") || error.contains("answers"),
                "{error}"
            ),
        }
    }
    healed.store(true, Ordering::Relaxed);
    assert!(
        drops.load(Ordering::Relaxed) > 0,
        "PERDURE_SEED={seed}: nothing broke"
    );
    let result = run(&remote(PROGRAM, &address, &secret)).expect("it runs");
    assert_eq!(result["replication"]["trouble"], Value::Null);
    drop(serving);
    assert_eq!(
        answers(&folder.at("remote"), newest(&result)),
        whole,
        "PERDURE_SEED={seed}"
    );
}

#[test]
fn a_replica_is_handed_on() {
    let folder = Directory::new("replica-chain");
    let result = replicate(&folder.at("first"), PROGRAM);
    let asked = json!({"from": folder.at("first"), "to": folder.at("second")});
    let sent = api::forward(&asked.to_string(), &Unobserved).expect("it is copied");
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!(sent["epoch"], newest(&result));
    let again = api::forward(&asked.to_string(), &Unobserved).expect("it is there already");
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["epochs_sent"], 0);
    let newest = newest(&result);
    assert_eq!(
        answers(&folder.at("first"), newest),
        answers(&folder.at("second"), newest)
    );
    replicate(&folder.at("other"), "@exerciser:4000:16:800:2");
    let asked = json!({"from": folder.at("other"), "to": folder.at("second")});
    let error = api::forward(&asked.to_string(), &Unobserved).unwrap_err();
    assert!(error.to_string().contains("another run"), "{error}");
}

// ---- Cuts --------------------------------------------------------------------------------------

#[test]
fn losing_the_primary_at_any_point_leaves_a_consistent_replica() {
    for seed in crate::rigs::seeds(1) {
        let asked = with(
            run_request(PROGRAM),
            json!({"replica": true, "cuts": 75, "seed": seed, "resume": "sample"}),
        );
        let result = common::cut(&asked);
        assert_eq!(result["verified"], result["cuts"], "{result}");
        assert!(result["resumed"].as_u64().unwrap() >= 2);
        let results = result["results"].as_array().unwrap();
        let held = results.iter().filter(|one| one["replica_epoch"].is_u64());
        assert!(held.count() > 50, "{result}");
        let behind = |one: &&Value| one["replica_epoch"].as_u64() < one["recovered_epoch"].as_u64();
        assert!(results.iter().any(|one| behind(&one)), "none lagged");
    }
}

/// Caches so small that the DRAM gets lines back from the first epoch on.
fn tiny_caches(program: &str, seed: u64) -> Value {
    let set = [
        "l1i.bytes=1KiB",
        "l1d.bytes=1KiB",
        "l2.bytes=4KiB",
        "llc.bytes_per_hart=4KiB",
        "llc.ways=4",
        "epoch.stores=500",
        "nvm.bytes=256MiB",
        "nvoverlay.pool_extent_bytes=1MiB",
    ];
    let more = json!({"machine": "nvoverlay", "harts": 4, "set": set, "seed": seed});
    with(request("nvoverlay", program), more)
}

#[test]
fn a_replica_begins_with_the_nvms_bytes_and_not_with_the_drams() {
    let base = tiny_caches("@exerciser:2000:64:300:4", 1);
    let result = common::cut(&with(base, json!({"replica": true, "cuts": 60})));
    assert_eq!(result["verified"], result["cuts"], "{result}");
}

#[test]
fn a_replica_that_comes_late_gets_memory_as_it_was_at_the_start() {
    let folder = Directory::new("replica-late");
    let asked = tiny_caches("@exerciser:2000:64:300:4", 1);
    let request = Request::parse(&asked.to_string()).expect("a request");
    let prepared = request.prepare().expect("it can run");
    let (configuration, workload) = (&prepared.configuration, &prepared.workload);
    let mut machine =
        <Machine>::boot(configuration, workload, Engine::Fast, None).expect("it boots");
    let initial = machine.hardware.memory.arena.clone();
    let target = Target::Directory(folder.at("replica"));
    let mut primary = Primary::start(target, &prepared, &machine).expect("it is there");
    while machine.run(u64::MAX - 1).expect("it runs") != Pause::Finished {}
    primary.finish(&machine, Duration::ZERO, &Unobserved);
    let mut lines = 0;
    let read = log::read(&folder.at("replica"), |kind, payload, _| {
        if kind == Kind::Memory {
            for (line, at) in record::memory(payload) {
                let address = line * LINE_BYTES as u64;
                let bytes = &payload[at..at + LINE_BYTES];
                assert!(initial.line(address).0 == bytes, "line {line:#x}");
                lines += 1;
            }
        }
        Ok(())
    });
    read.expect("it is whole");
    assert!(lines > 20, "{lines} lines");
}
