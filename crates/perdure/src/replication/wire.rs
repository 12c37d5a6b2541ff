//! The protocol over TCP, and the primary's end of it.
//!
//! Both sides have a secret. Before anything else, each proves to the other that it does, without
//! showing it; the key for the rest follows from what both have drawn at random:
//!
//! ```text
//! replica   "PERDREPL" u32 version, 32 random bytes r
//! primary   "PERDREPL" u32 version, 32 random bytes p, MAC(secret, "primary" r p)
//! replica   u8 1, MAC(secret, "replica" r p)          or: u8 0, and that is the end
//! then      messages, each  u32 kind  u32 bytes  payload  MAC(key, side, number, kind, bytes, payload)
//! ```
//!
//! | message | from | payload |
//! |---|---|---|
//! | 1 to 5 | primary | a record (`record.rs`) |
//! | 16 begin | primary | the identity as JSON |
//! | 17 holding | replica | what it holds, as JSON |
//! | 18 commit | primary | – |
//! | 19 committed | replica | – |
//! | 20 refused | replica | why, as text; the end |
//! | 21 bye | primary | – |
//!
//! A MAC is BLAKE3, keyed. Nothing is encrypted.
//!
//! Always true: whoever does not know the secret gets the greeting and a refusal, and nothing that it
//! sends reaches more than the handshake.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use super::record::{Kind, PAYLOAD_MAX, u32_at};
use super::{Destination, Failure, Holding, Identity, VERSION};
use crate::error::Error;

const MAGIC: &[u8; 8] = b"PERDREPL";
/// Begin.
pub const BEGIN: u32 = 16;
/// Holding.
pub const HOLDING: u32 = 17;
/// Commit.
pub const COMMIT: u32 = 18;
/// Committed.
pub const COMMITTED: u32 = 19;
/// Refused.
pub const REFUSED: u32 = 20;
/// Bye.
pub const BYE: u32 = 21;

/// How long a handshake may take.
pub const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long an answer, or the rest of a message, may take.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How long a read waits before it looks whether it should stop.
const LOOK: Duration = Duration::from_millis(100);
const SECRET_BYTES_MIN: usize = 16;

type Mac = [u8; blake3::OUT_LEN];

/// The secret that primary and replica share.
#[derive(Clone)]
pub struct Secret([u8; blake3::KEY_LEN]);

impl Secret {
    /// From a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read(path).map_err(|source| Error::Host {
            what: format!("the shared secret {}", path.display()),
            source,
        })?;
        let text = text.trim_ascii();
        if text.len() < SECRET_BYTES_MIN {
            return Err(Error::Request(format!(
                "the shared secret {} has {} bytes; at least {SECRET_BYTES_MIN} are needed",
                path.display(),
                text.len()
            )));
        }
        Ok(Self(blake3::derive_key("perdure replication 1", text)))
    }

    /// From a file, which is made with a random secret if it is not there.
    pub fn read_or_make(path: &Path) -> Result<Self, Error> {
        if !path.exists() {
            let failed = |source| Error::Host {
                what: format!("making the shared secret {}", path.display()),
                source,
            };
            let random = random().map_err(failed)?;
            let text = blake3::Hash::from_bytes(random).to_hex();
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(path).map_err(failed)?;
            writeln!(file, "{text}").map_err(failed)?;
        }
        Self::read(path)
    }

    fn mac(&self, parts: &[&[u8]]) -> Mac {
        mac(&self.0, parts)
    }
}

fn mac(key: &[u8; blake3::KEY_LEN], parts: &[&[u8]]) -> Mac {
    let mut hasher = blake3::Hasher::new_keyed(key);
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// Compares in the same time wherever they differ.
fn same(one: &Mac, other: &[u8]) -> bool {
    let other: Result<Mac, _> = other.try_into();
    other.is_ok_and(|other| blake3::Hash::from_bytes(*one) == blake3::Hash::from_bytes(other))
}

fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Primary = 1,
    Replica = 2,
}

/// A message.
#[derive(Debug)]
pub struct Message {
    /// What it is.
    pub kind: u32,
    /// Its content.
    pub payload: Vec<u8>,
}

/// A connection whose other end has shown that it knows the secret.
pub struct Channel {
    stream: TcpStream,
    key: [u8; blake3::KEY_LEN],
    side: Side,
    sent: u64,
    received: u64,
}

/// Reads exactly so many bytes by a deadline. `stop` ends it early.
fn read_exact(
    stream: &mut TcpStream,
    bytes: &mut [u8],
    deadline: Option<Instant>,
    stop: &dyn Fn() -> bool,
) -> io::Result<()> {
    stream.set_read_timeout(Some(LOOK))?;
    let mut done = 0;
    while done < bytes.len() {
        match stream.read(&mut bytes[done..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => done += more,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if stop() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if done < bytes.len() && deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

fn hello(random: &[u8; 32]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(random);
    bytes
}

const HELLO_BYTES: usize = 44;

/// The other side's random bytes, if it speaks this protocol.
fn greeted(hello: &[u8]) -> Result<[u8; 32], String> {
    if !hello.starts_with(MAGIC) {
        return Err("it does not speak this protocol".into());
    }
    let version = u32_at(hello, 8);
    if version != VERSION {
        return Err(format!(
            "it speaks version {version} of the protocol, and this build version {VERSION}"
        ));
    }
    let random = hello.get(12..).and_then(|rest| rest.first_chunk());
    random.copied().ok_or_else(|| "it said too little".into())
}

impl Channel {
    fn new(stream: TcpStream, secret: &Secret, side: Side, both: [&[u8; 32]; 2]) -> Self {
        let key = secret.mac(&[b"session", both[0], both[1]]);
        Self {
            stream,
            key,
            side,
            sent: 0,
            received: 0,
        }
    }

    /// The replica's side of the handshake. An error is why the other side was refused.
    pub fn accept(mut stream: TcpStream, secret: &Secret) -> Result<Self, String> {
        let deadline = Some(Instant::now() + HANDSHAKE);
        let lost = |error: io::Error| format!("it went away during the handshake ({error})");
        stream.set_nonblocking(false).map_err(lost)?;
        stream.set_nodelay(true).map_err(lost)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(lost)?;
        let mine = random().map_err(|error| format!("no random numbers: {error}"))?;
        stream.write_all(&hello(&mine)).map_err(lost)?;
        let mut answer = [0; HELLO_BYTES + blake3::OUT_LEN];
        read_exact(&mut stream, &mut answer, deadline, &|| false).map_err(lost)?;
        let (greeting, proof) = answer.split_at(HELLO_BYTES);
        let theirs = greeted(greeting)?;
        let good = same(&secret.mac(&[b"primary", &mine, &theirs]), proof);
        let mut verdict = vec![u8::from(good)];
        let proof = secret.mac(&[b"replica", &mine, &theirs]);
        verdict.extend_from_slice(if good { &proof } else { &[0; blake3::OUT_LEN] });
        stream.write_all(&verdict).map_err(lost)?;
        if !good {
            return Err("its secret is another one".into());
        }
        Ok(Self::new(stream, secret, Side::Replica, [&mine, &theirs]))
    }

    /// The primary's side.
    pub fn connect(address: &str, secret: &Secret) -> Result<Self, Failure> {
        let lost =
            |error: io::Error| Failure::Lost(format!("no replica answers at {address}: {error}"));
        let no_address = |why: &dyn std::fmt::Display| {
            Failure::Refused(format!("--to {address}: {why}; write HOST:PORT"))
        };
        let mut resolved = address.to_socket_addrs().map_err(|error| match error {
            error if error.kind() == io::ErrorKind::InvalidInput => no_address(&error),
            error => lost(error),
        })?;
        let place = resolved
            .next()
            .ok_or_else(|| no_address(&"there is no such host"))?;
        let mut stream = TcpStream::connect_timeout(&place, HANDSHAKE).map_err(lost)?;
        stream.set_nodelay(true).map_err(lost)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(lost)?;
        let deadline = Some(Instant::now() + HANDSHAKE);
        let mut greeting = [0; HELLO_BYTES];
        read_exact(&mut stream, &mut greeting, deadline, &|| false).map_err(lost)?;
        let no_replica = |why: String| {
            Failure::Refused(format!("what listens at {address} is no replica: {why}"))
        };
        let theirs = greeted(&greeting).map_err(no_replica)?;
        let mine = random().map_err(lost)?;
        let mut answer = hello(&mine);
        answer.extend_from_slice(&secret.mac(&[b"primary", &theirs, &mine]));
        stream.write_all(&answer).map_err(lost)?;
        let mut verdict = [0; 1 + blake3::OUT_LEN];
        read_exact(&mut stream, &mut verdict, deadline, &|| false).map_err(lost)?;
        if verdict[0] != 1 {
            return Err(Failure::Refused(format!(
                "the replica at {address} refused: the shared secret is not the one that it has"
            )));
        }
        if !same(&secret.mac(&[b"replica", &theirs, &mine]), &verdict[1..]) {
            return Err(no_replica("it does not know the shared secret".into()));
        }
        Ok(Self::new(stream, secret, Side::Primary, [&theirs, &mine]))
    }

    fn message_mac(&self, side: Side, number: u64, head: [u8; 8], payload: &[u8]) -> Mac {
        let number = number.to_le_bytes();
        mac(&self.key, &[&[side as u8], &number, &head, payload])
    }

    /// Sends a message.
    pub fn send(&mut self, kind: u32, payload: &[u8]) -> io::Result<()> {
        let mut head = [0; 8];
        head[..4].copy_from_slice(&kind.to_le_bytes());
        head[4..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        let seal = self.message_mac(self.side, self.sent, head, payload);
        self.sent += 1;
        self.stream.write_all(&head)?;
        self.stream.write_all(payload)?;
        self.stream.write_all(&seal)
    }

    /// Waits for a message; without a deadline, for ever, but not within it.
    pub fn receive(
        &mut self,
        deadline: Option<Instant>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Message> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut head = [0; 8];
        let (first, rest) = head.split_at_mut(1);
        read_exact(&mut self.stream, first, deadline, stop)?;
        let deadline = Some(Instant::now() + PATIENCE);
        read_exact(&mut self.stream, rest, deadline, stop)?;
        let (kind, length) = (u32_at(&head, 0), u32_at(&head, 4));
        if length > PAYLOAD_MAX {
            return Err(wrong("a message is longer than any can be"));
        }
        // Memory grows with what comes, not with what is announced.
        let mut payload = Vec::new();
        while payload.len() < length as usize {
            let start = payload.len();
            let piece = (length as usize - start).min(1 << 20);
            payload.resize(start + piece, 0);
            let deadline = Some(Instant::now() + PATIENCE);
            read_exact(&mut self.stream, &mut payload[start..], deadline, stop)?;
        }
        let mut seal = [0; blake3::OUT_LEN];
        read_exact(&mut self.stream, &mut seal, deadline, stop)?;
        let other = match self.side {
            Side::Primary => Side::Replica,
            Side::Replica => Side::Primary,
        };
        if !same(
            &self.message_mac(other, self.received, head, &payload),
            &seal,
        ) {
            return Err(wrong("a message was changed on its way"));
        }
        self.received += 1;
        Ok(Message { kind, payload })
    }
}

/// A replica at the other end of a connection.
pub struct Remote {
    address: String,
    channel: Channel,
}

impl Remote {
    /// Connects to it.
    pub fn connect(address: &str, secret: &Secret) -> Result<Self, Failure> {
        Ok(Self {
            address: address.to_owned(),
            channel: Channel::connect(address, secret)?,
        })
    }

    fn lost(&self, error: &io::Error) -> Failure {
        Failure::Lost(format!("the replica at {} is lost: {error}", self.address))
    }

    /// Sends a message. If that fails, the replica may have said why.
    fn say(&mut self, kind: u32, payload: &[u8]) -> Result<(), Failure> {
        let Err(error) = self.channel.send(kind, payload) else {
            return Ok(());
        };
        let soon = Some(Instant::now() + LOOK);
        match self.channel.receive(soon, &|| false) {
            Ok(message) if message.kind == REFUSED => Err(self.refusal(&message)),
            _ => Err(self.lost(&error)),
        }
    }

    fn refusal(&self, message: &Message) -> Failure {
        let why = String::from_utf8_lossy(&message.payload);
        Failure::Refused(format!("the replica at {} refused: {why}", self.address))
    }

    fn answer(&mut self, wanted: u32) -> Result<Vec<u8>, Failure> {
        let deadline = Some(Instant::now() + PATIENCE);
        match self.channel.receive(deadline, &|| false) {
            Ok(message) if message.kind == wanted => Ok(message.payload),
            Ok(message) if message.kind == REFUSED => Err(self.refusal(&message)),
            Ok(_) => Err(self.lost(&io::Error::other("it gave an answer to something else"))),
            Err(error) => Err(self.lost(&error)),
        }
    }
}

impl Destination for Remote {
    fn begin(&mut self, identity: &Identity) -> Result<Holding, Failure> {
        let identity = serde_json::to_vec(identity).expect("plain data is JSON");
        self.say(BEGIN, &identity)?;
        let holding = self.answer(HOLDING)?;
        serde_json::from_slice(&holding).map_err(|error| self.lost(&error.into()))
    }

    fn append(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Failure> {
        self.say(kind as u32, payload)
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.say(COMMIT, &[])?;
        self.answer(COMMITTED).map(|_| ())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Whether it is heard does not matter: everything that counts is committed.
        let _ = self.channel.send(BYE, &[]);
    }
}
