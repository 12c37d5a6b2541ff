//! The messages between primary and replica over TCP, and the primary's end of them. How they travel,
//! and how both sides show that they know the secret, is in `noise.rs`.
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
//! Always true: whoever does not know the secret gets the greeting and a refusal, and nothing that it
//! sends reaches more than the handshake.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Instant;

use super::noise::{Channel, HANDSHAKE, LOOK, Message, PATIENCE, Refusal};
use super::record::Kind;
use super::{Destination, Failure, Holding, Identity};
use crate::error::Error;
use crate::given_files;

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

const SECRET_BYTES_MIN: usize = 16;

/// The secret that primary and replica share.
#[derive(Clone)]
pub struct Secret([u8; blake3::KEY_LEN]);

impl Secret {
    /// From a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = given_files::text(path).map_err(|source| Error::Host {
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
        Ok(Self(blake3::derive_key(
            "perdure replication 2 Noise psk",
            text,
        )))
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

    /// The key that follows from it.
    pub(super) fn key(&self) -> &[u8; blake3::KEY_LEN] {
        &self.0
    }
}

fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// Connects to a replica that listens, and shows that it knows the secret.
fn connect(address: &str, secret: &Secret) -> Result<Channel, Failure> {
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
    let stream = TcpStream::connect_timeout(&place, HANDSHAKE).map_err(lost)?;
    Channel::greet(stream, secret).map_err(|refusal| match refusal {
        Refusal::Lost(error) => lost(error),
        Refusal::Stranger(why) => {
            Failure::Refused(format!("what listens at {address} is no replica: {why}"))
        }
        Refusal::Secret => Failure::Refused(format!(
            "the replica at {address} refused: the shared secret is not the one that it has"
        )),
    })
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
            channel: connect(address, secret)?,
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
