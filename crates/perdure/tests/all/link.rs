//! The link between primary and replica: what is sent arrives or the connection ends, nobody reads
//! along, and strangers keep nobody out.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Directory, Server, request, with};
use perdure::api::{self, Unobserved};
use perdure::replication::noise::{Channel, Refusal};
use perdure::replication::record::PAYLOAD_MAX;
use perdure::replication::wire::Secret;
use perdure_hardware::random::Random;
use serde_json::{Value, json};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const PROGRAM: &str = "@exerciser:12000:32:800:2";
const GREETING_BYTES: usize = 44;
/// Of a primary's handshake.
const OPENING_BYTES: usize = 60;
/// What fits into a frame.
const PIECE_MAX: usize = 65535 - 16;

fn shared(name: &str) -> Secret {
    let folder = Directory::new(name);
    Secret::read(&folder.secret(SECRET)).unwrap()
}

/// A replica's end, which takes messages until the first error: those, and the error.
type Taken = std::thread::JoinHandle<(Vec<(u32, Vec<u8>)>, String)>;

fn taking(name: &str) -> (String, Taken) {
    let secret = shared(name);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let taken = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut channel = match Channel::accept(stream, &secret) {
            Ok(channel) => channel,
            Err(refusal) => return (Vec::new(), refusal.to_string()),
        };
        let mut messages = Vec::new();
        loop {
            let deadline = Some(Instant::now() + Duration::from_secs(20));
            match channel.receive(deadline, &|| false) {
                Ok(message) => messages.push((message.kind, message.payload)),
                Err(error) => return (messages, error.to_string()),
            }
        }
    });
    (address, taken)
}

fn sample(seed: u64, count: u32, most: u64) -> Vec<(u32, Vec<u8>)> {
    let mut random = Random::new(seed);
    (0..count)
        .map(|kind| {
            let length = random.below(most);
            (kind, (0..length).map(|_| random.bits() as u8).collect())
        })
        .collect()
}

#[test]
fn messages_of_any_length_arrive_as_they_were() {
    let (address, taken) = taking("link-lengths");
    let stream = TcpStream::connect(address).unwrap();
    let mut channel = Channel::greet(stream, &shared("link-lengths-2")).unwrap();
    let edges = [
        0,
        1,
        PIECE_MAX - 9,
        PIECE_MAX - 8,
        PIECE_MAX - 7,
        PIECE_MAX,
        2 * PIECE_MAX - 8,
        2 * PIECE_MAX - 7,
        1 << 20,
    ];
    let messages: Vec<(u32, Vec<u8>)> = (0..)
        .zip(edges)
        .map(|(kind, length)| (kind, (0..length).map(|at| (at * 7) as u8).collect()))
        .collect();
    for (kind, payload) in &messages {
        channel.send(*kind, payload).unwrap();
    }
    drop(channel);
    assert!(taken.join().unwrap().0 == messages);
}

/// The bytes of a session that a primary sends, as they go over the wire.
fn recorded(messages: &[(u32, Vec<u8>)], name: &str) -> (TcpStream, Vec<u8>, Taken) {
    let (address, taken) = taking(name);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let between = listener.local_addr().unwrap();
    let secret = shared(&format!("{name}-primary"));
    let sent = messages.to_vec();
    let primary = std::thread::spawn(move || {
        let mut channel = Channel::greet(TcpStream::connect(between).unwrap(), &secret).unwrap();
        for (kind, payload) in &sent {
            channel.send(*kind, payload).unwrap();
        }
    });
    let (mut near, _) = listener.accept().unwrap();
    let mut far = TcpStream::connect(address).unwrap();
    let hand_on = |from: &mut TcpStream, to: &mut TcpStream, bytes: usize| {
        let mut buffer = vec![0; bytes];
        from.read_exact(&mut buffer).unwrap();
        to.write_all(&buffer).unwrap();
    };
    hand_on(&mut far, &mut near, GREETING_BYTES);
    hand_on(&mut near, &mut far, OPENING_BYTES);
    hand_on(&mut far, &mut near, 49);
    let mut bytes = Vec::new();
    near.read_to_end(&mut bytes).unwrap();
    primary.join().unwrap();
    (far, bytes, taken)
}

fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while bytes.len() > 2 {
        let (frame, rest) =
            bytes.split_at(2 + usize::from(u16::from_le_bytes([bytes[0], bytes[1]])));
        found.push(frame.to_vec());
        bytes = rest;
    }
    found
}

#[test]
fn a_changed_stream_ends_the_connection_and_what_came_before_is_right() {
    crate::rigs::seeds(1).for_each(change_streams);
}

fn change_streams(seed: u64) {
    let mut random = Random::new(seed);
    let messages = sample(seed, 12, 3 * PIECE_MAX as u64 / 2);
    let (_, foreign, _) = recorded(&messages, "link-foreign");
    let foreign = frames(&foreign);
    for round in 0..32 {
        let (mut far, bytes, taken) = recorded(&messages, &format!("link-tamper-{round}"));
        let mut list = frames(&bytes);
        let at = random.below(list.len() as u64 - 1) as usize;
        match round % 8 {
            0 => list.swap(at, at + 1),
            1 => drop(list.remove(at)),
            2 => list.insert(at, list[at].clone()),
            3 => list[at].clone_from(&foreign[at]),
            4 => {
                let byte = random.below(list[at].len() as u64) as usize;
                list[at][byte] ^= 1 << random.below(8);
            }
            5 => list.truncate(at),
            6 => {
                let keep = random.below(list[at].len() as u64) as usize;
                list[at].truncate(keep);
            }
            _ => list.insert(at, [&[16, 0][..], &[0; 16]].concat()),
        }
        let _ = far.write_all(&list.concat());
        let _ = far.shutdown(Shutdown::Write);
        let (got, error) = taken.join().unwrap();
        let place = format!("PERDURE_SEED={seed}, round {round}, frame {at}");
        assert!(got.len() < messages.len(), "{place}");
        assert!(got[..] == messages[..got.len()], "{place}");
        assert!(!error.is_empty(), "{place}");
    }
}

/// A primary made by hand, from what `noise.rs` says.
struct ByHand {
    stream: TcpStream,
    noise: snow::TransportState,
}

impl ByHand {
    fn connect(address: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut greeting = [0; GREETING_BYTES];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..12], b"PERDREPL\x02\0\0\0");
        let key = blake3::derive_key("perdure replication 2 Noise psk", SECRET.as_bytes());
        let pattern = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
        let builder = snow::Builder::new(pattern.parse().unwrap());
        let builder = builder.psk(0, &key).unwrap().prologue(&greeting).unwrap();
        let mut noise = builder.build_initiator().unwrap();
        let mut first = [0; 48];
        assert_eq!(noise.write_message(&[], &mut first).unwrap(), 48);
        stream.write_all(&greeting[..12]).unwrap();
        stream.write_all(&first).unwrap();
        let mut verdict = [0; 49];
        stream.read_exact(&mut verdict).unwrap();
        assert_eq!(verdict[0], 1);
        noise.read_message(&verdict[1..], &mut []).unwrap();
        Self {
            stream,
            noise: noise.into_transport_mode().unwrap(),
        }
    }

    fn frame(&mut self, piece: &[u8]) {
        let mut frame = vec![0; 65535];
        let length = self.noise.write_message(piece, &mut frame).unwrap();
        let _ = self.stream.write_all(&(length as u16).to_le_bytes());
        let _ = self.stream.write_all(&frame[..length]);
    }
}

fn head(kind: u32, length: u32) -> Vec<u8> {
    [kind.to_le_bytes(), length.to_le_bytes()].concat()
}

#[test]
fn who_knows_the_secret_cannot_send_more_than_a_message_may_be() {
    type Wrong = fn(&mut ByHand);
    let wrongs: [(&str, Wrong); 6] = [
        ("longer than any", |by_hand| {
            by_hand.frame(&head(1, PAYLOAD_MAX + 1));
        }),
        ("longer than any", |by_hand| {
            by_hand.frame(&head(1, u32::MAX));
        }),
        ("not as long as it says", |by_hand| {
            by_hand.frame(&[head(1, 4), vec![0; 5]].concat());
        }),
        ("not as long as it says", |by_hand| {
            by_hand.frame(&head(1, 1));
        }),
        ("not as long as it says", |by_hand| {
            by_hand.frame(&[head(1, PIECE_MAX as u32), vec![0; PIECE_MAX - 8]].concat());
            by_hand.frame(&[0; 9]);
        }),
        ("shorter than any", |by_hand| by_hand.frame(&[0; 7])),
    ];
    for (said, wrong) in wrongs {
        let (address, taken) = taking("link-long");
        let mut by_hand = ByHand::connect(&address);
        by_hand.frame(&[head(7, 2), vec![1, 2]].concat());
        wrong(&mut by_hand);
        let (got, error) = taken.join().unwrap();
        assert_eq!(got, [(7, vec![1, 2])]);
        assert!(error.contains(said), "{error}");
    }
    let (address, taken) = taking("link-too-long");
    let stream = TcpStream::connect(address).unwrap();
    let mut channel = Channel::greet(stream, &shared("link-too-long-2")).unwrap();
    let error = channel
        .send(1, &vec![0; PAYLOAD_MAX as usize + 1])
        .unwrap_err();
    assert!(error.to_string().contains("longer than any"), "{error}");
    drop(channel);
    assert!(taken.join().unwrap().0.is_empty());
}

#[test]
fn a_key_is_changed_before_it_has_sealed_too_much() {
    const FRAMES: u32 = 1 << 16;
    let (address, taken) = taking("link-keys");
    let stream = TcpStream::connect(address).unwrap();
    let mut channel = Channel::greet(stream, &shared("link-keys-2")).unwrap();
    for number in 0..2 * FRAMES + 10 {
        channel.send(number, &[]).unwrap();
    }
    drop(channel);
    let (got, _) = taken.join().unwrap();
    assert!(
        got.len() as u32 == 2 * FRAMES + 10 && got.iter().zip(0..).all(|(one, at)| one.0 == at)
    );
    // Who goes on with the old key is not understood.
    let (address, taken) = taking("link-keys-3");
    let mut by_hand = ByHand::connect(&address);
    for number in 0..FRAMES + 10 {
        by_hand.frame(&head(number, 0));
    }
    let (got, error) = taken.join().unwrap();
    assert_eq!(got.len() as u32, FRAMES);
    assert!(error.contains("changed on its way"), "{error}");
}

// ---- Whole replicas ----------------------------------------------------------------------------

/// A replica that listens, in a folder of its own.
struct Serving {
    folder: Directory,
    secret: PathBuf,
    server: Server,
}

impl Serving {
    fn start(name: &str) -> Self {
        let folder = Directory::new(name);
        let secret = folder.secret(SECRET);
        let server = Server::start(&folder.at("replica"), &secret);
        Self {
            folder,
            secret,
            server,
        }
    }

    fn replicate(&self, address: &str) -> Result<Value, String> {
        let asked = with(
            request("nvoverlay", PROGRAM),
            json!({
                "machine": "nvoverlay", "harts": 2, "replicate_to": address,
                "secret_file": self.secret,
            }),
        );
        let mut asked = asked;
        asked["set"].as_array_mut().unwrap().extend([
            json!("epoch.instructions=0"),
            json!("epoch.stores=500"),
            json!("nvoverlay.pool_extent_bytes=1MiB"),
        ]);
        let result =
            api::run(&asked.to_string(), &Unobserved).map_err(|error| error.to_string())?;
        serde_json::from_str(&result).map_err(|error| error.to_string())
    }
}

#[test]
fn two_hundred_strangers_keep_no_primary_out() {
    let serving = Serving::start("link-strangers");
    let empty = fs::read(serving.folder.at("replica/replica.log")).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let mut idle = Vec::new();
    let mut dripping = Vec::new();
    for number in 0..200 {
        let stream = TcpStream::connect(&serving.server.address).unwrap();
        if number % 2 == 0 {
            idle.push(stream);
        } else {
            dripping.push(stream);
        }
    }
    let ended = Arc::clone(&over);
    let dripper = std::thread::spawn(move || {
        let mut bytes = b"PERDREPL\x02\0\0\0".iter().cycle();
        while !ended.load(Ordering::Relaxed) {
            let byte = [*bytes.next().unwrap()];
            for stream in &mut dripping {
                let _ = stream.write(&byte);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let started = Instant::now();
    let result = serving.replicate(&serving.server.address).expect("it runs");
    assert!(started.elapsed() < Duration::from_secs(20));
    let replication = &result["replication"];
    assert_eq!(replication["trouble"], Value::Null);
    assert_eq!(replication["epoch"], replication["recoverable_epoch"]);
    assert_eq!(replication["connections"], 1, "it was never put out");
    // Each of them is sent away, dripping or not, in little more than the time that it has.
    let refused =
        |lines: &Vec<String>| lines.iter().filter(|line| line.contains("refused")).count();
    let deadline = Instant::now() + Duration::from_secs(8);
    while refused(&serving.server.lines.lock().unwrap()) < 200 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(refused(&serving.server.lines.lock().unwrap()), 200);
    over.store(true, Ordering::Relaxed);
    dripper.join().unwrap();
    assert_ne!(
        fs::read(serving.folder.at("replica/replica.log")).unwrap(),
        empty
    );
}

#[test]
fn a_primary_that_is_connected_stays_while_strangers_come() {
    let serving = Serving::start("link-flood");
    let secret = Secret::read(&serving.secret).unwrap();
    let stream = TcpStream::connect(&serving.server.address).unwrap();
    let mut channel = Channel::greet(stream, &secret).unwrap();
    assert!(serving.server.said(": connected"));
    let strangers: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(&serving.server.address).unwrap())
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    // It is still listened to: what it says is no beginning, and it is told so.
    channel.send(99, b"").unwrap();
    let soon = Some(Instant::now() + Duration::from_secs(5));
    let answer = channel.receive(soon, &|| false).expect("an answer");
    assert!(String::from_utf8_lossy(&answer.payload).contains("does not say which run"));
    drop(strangers);
}

#[test]
fn an_older_protocol_is_named_on_both_sides() {
    let serving = Serving::start("link-old");
    let mut old = TcpStream::connect(&serving.server.address).unwrap();
    let mut greeting = [0; GREETING_BYTES];
    old.read_exact(&mut greeting).unwrap();
    old.write_all(&[&b"PERDREPL\x01\0\0\0"[..], &[7; 64]].concat())
        .unwrap();
    assert!(
        serving
            .server
            .said("it speaks version 1 of the protocol, and this build version 2")
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let replica = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(&[&b"PERDREPL\x01\0\0\0"[..], &[7; 32]].concat());
        let _ = stream.read(&mut [0; 100]);
    });
    let error = serving.replicate(&address).unwrap_err();
    replica.join().unwrap();
    assert!(
        error.contains("is no replica: it speaks version 1 of the protocol"),
        "{error}"
    );
    let secret = shared("link-old-secret");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    drop(listener.accept().unwrap());
    let refusal = Channel::greet(stream, &secret).err().unwrap();
    assert!(matches!(refusal, Refusal::Lost(_)), "{refusal}");
}

#[test]
fn a_recorded_session_shows_nothing_and_cannot_be_played_again() {
    let serving = Serving::start("link-recorded");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let to = serving.server.address.clone();
    let between = std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut far = TcpStream::connect(to).unwrap();
        let (mut back, mut answers) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let answering = std::thread::spawn(move || {
            let mut heard = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = answers.read(&mut buffer) {
                heard.extend_from_slice(&buffer[..read]);
                let _ = back.write_all(&buffer[..read]);
            }
            heard
        });
        let mut said = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = near.read(&mut buffer) {
            said.extend_from_slice(&buffer[..read]);
            let _ = far.write_all(&buffer[..read]);
        }
        let _ = far.shutdown(Shutdown::Both);
        (said, answering.join().unwrap())
    });
    let result = serving.replicate(&address).expect("it runs");
    assert_eq!(result["replication"]["trouble"], Value::Null);
    let (said, heard) = between.join().unwrap();
    let log = fs::read(serving.folder.at("replica/replica.log")).unwrap();
    assert!(said.len() > log.len() / 2, "all of it went that way");
    // Everything of some length in the file came over the wire, and none of it can be seen there.
    let recording = [said.clone(), heard].concat();
    let seen: HashSet<&[u8]> = recording.windows(12).collect();
    let varied = |piece: &[u8]| piece.iter().collect::<HashSet<_>>().len() > 4;
    let pieces: Vec<&[u8]> = log[1536..]
        .chunks_exact(12)
        .filter(|piece| varied(piece))
        .collect();
    assert!(pieces.len() > 1000);
    assert!(log.windows(15).any(|window| window == b"perdure-replica"));
    assert!(pieces.iter().all(|piece| !seen.contains(piece)));
    // Played again, word for word.
    let mut again = TcpStream::connect(&serving.server.address).unwrap();
    again.write_all(&said).unwrap();
    let mut answer = Vec::new();
    let _ = again.read_to_end(&mut answer);
    assert!(serving.server.said("refused: its secret is another one"));
    assert!(answer.len() <= GREETING_BYTES + 49);
    assert_eq!(
        fs::read(serving.folder.at("replica/replica.log")).unwrap(),
        log
    );
}
