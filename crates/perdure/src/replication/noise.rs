//! Encrypted messages over TCP: the Noise protocol `NNpsk0_25519_ChaChaPoly_BLAKE2s` of the crate
//! `snow`, keyed with the secret that both sides have.
//!
//! ```text
//! replica   "PERDREPL" u32 version, 32 random bytes            the prologue of what follows
//! primary   "PERDREPL" u32 version, the first Noise message (psk, e; 48 bytes)
//! replica   u8 1, the second Noise message (e, ee; 48 bytes)    or: u8 0, 48 zeros, and that is the end
//! then      frames, each  u16 bytes  a Noise transport message of so many
//! message   u32 kind  u32 bytes  payload, in as few frames as it fits in, none shared with another
//! ```
//!
//! Always true:
//! - Only who has the secret gets past the handshake, on either side; the keys are of this connection
//!   alone, and a secret that gets out later does not open what was recorded.
//! - A frame that was changed, left out, repeated, moved, or is of another connection ends the
//!   connection: each is sealed with its number.
//! - What comes from a stranger takes no more memory than a frame; what comes from the other side,
//!   no more than the longest message, and memory grows with what comes, not with what is announced.
//! - No key seals more than [`FRAMES_PER_KEY`] frames: then both sides go on to the next.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use snow::{Builder, HandshakeState, TransportState};

use super::record::{PAYLOAD_MAX, u32_at};
use super::wire::Secret;

const MAGIC: &[u8; 8] = b"PERDREPL";
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Version of the protocol. (Version 1 proved the secret, but did not encrypt.)
const PROTOCOL: u32 = 2;

/// How long a connection may take to show that it knows the secret.
pub const HANDSHAKE: Duration = Duration::from_secs(2);
/// How long an answer, or the rest of a message, may take.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How long a read waits before it looks whether it should stop.
pub const LOOK: Duration = Duration::from_millis(100);

const GREETING_BYTES: usize = 12;
const RANDOM_BYTES: usize = 32;
/// A Noise message of the handshake: a public key and a seal.
const NOISE_BYTES: usize = 48;
/// A frame, of Noise's longest message.
const FRAME_MAX: usize = 65535;
const SEAL_BYTES: usize = 16;
/// What fits into a frame.
const PIECE_MAX: usize = FRAME_MAX - SEAL_BYTES;
const HEAD_BYTES: usize = 8;
/// Frames that are sealed with one key: 4 GiB at most.
const FRAMES_PER_KEY: u64 = 1 << 16;

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
    noise: TransportState,
    /// A frame that is on its way in or out.
    frame: Vec<u8>,
}

/// Why there is no channel.
#[derive(Debug)]
pub enum Refusal {
    /// The connection broke, or was too slow.
    Lost(io::Error),
    /// The other side speaks something else.
    Stranger(String),
    /// It has another secret, or none.
    Secret,
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lost(error) => write!(text, "it went away during the handshake ({error})"),
            Self::Stranger(why) => text.write_str(why),
            Self::Secret => text.write_str("its secret is another one"),
        }
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
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

fn greeting() -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&PROTOCOL.to_le_bytes());
    bytes
}

/// Refuses whoever does not speak this protocol.
fn check_greeting(bytes: &[u8]) -> Result<(), Refusal> {
    if !bytes.starts_with(MAGIC) {
        return Err(Refusal::Stranger("it does not speak this protocol".into()));
    }
    match u32_at(bytes, 8) {
        PROTOCOL => Ok(()),
        version => Err(Refusal::Stranger(format!(
            "it speaks version {version} of the protocol, and this build version {PROTOCOL}"
        ))),
    }
}

/// The Noise library refuses what we ask only if we ask nonsense.
#[expect(clippy::needless_pass_by_value, reason = "as map_err calls it")]
fn defect(error: snow::Error) -> Refusal {
    Refusal::Stranger(format!("Noise cannot begin: {error}"))
}

fn handshake(secret: &Secret, prologue: &[u8], initiator: bool) -> Result<HandshakeState, Refusal> {
    let pattern = PATTERN.parse().map_err(defect)?;
    let builder = Builder::new(pattern)
        .psk(0, secret.key())
        .and_then(|builder| builder.prologue(prologue))
        .map_err(defect)?;
    let built = if initiator {
        builder.build_initiator()
    } else {
        builder.build_responder()
    };
    built.map_err(defect)
}

impl Channel {
    /// The replica's side of the handshake. An error is why the other side was refused.
    pub fn accept(mut stream: TcpStream, secret: &Secret) -> Result<Self, Refusal> {
        let deadline = Some(Instant::now() + HANDSHAKE);
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(HANDSHAKE))?;
        let mut prologue = greeting();
        prologue.resize(GREETING_BYTES + RANDOM_BYTES, 0);
        getrandom::fill(&mut prologue[GREETING_BYTES..])
            .map_err(|error| io::Error::other(error.to_string()))?;
        stream.write_all(&prologue)?;
        let mut theirs = [0; GREETING_BYTES + NOISE_BYTES];
        let (greeting, first) = theirs.split_at_mut(GREETING_BYTES);
        read_exact(&mut stream, greeting, deadline, &|| false)?;
        check_greeting(greeting)?;
        read_exact(&mut stream, first, deadline, &|| false)?;
        let mut noise = handshake(secret, &prologue, false)?;
        let mut verdict = [0; 1 + NOISE_BYTES];
        if noise.read_message(first, &mut []).is_err() {
            stream.write_all(&verdict)?;
            return Err(Refusal::Secret);
        }
        verdict[0] = 1;
        noise
            .write_message(&[], &mut verdict[1..])
            .map_err(defect)?;
        stream.write_all(&verdict)?;
        Self::begun(stream, noise)
    }

    /// The primary's side.
    pub fn greet(mut stream: TcpStream, secret: &Secret) -> Result<Self, Refusal> {
        let deadline = Some(Instant::now() + HANDSHAKE);
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(HANDSHAKE))?;
        let mut prologue = [0; GREETING_BYTES + RANDOM_BYTES];
        read_exact(&mut stream, &mut prologue, deadline, &|| false)?;
        check_greeting(&prologue)?;
        let mut noise = handshake(secret, &prologue, true)?;
        let mut mine = greeting();
        mine.resize(GREETING_BYTES + NOISE_BYTES, 0);
        noise
            .write_message(&[], &mut mine[GREETING_BYTES..])
            .map_err(defect)?;
        stream.write_all(&mine)?;
        let mut verdict = [0; 1 + NOISE_BYTES];
        read_exact(&mut stream, &mut verdict, deadline, &|| false)?;
        if verdict[0] != 1 {
            return Err(Refusal::Secret);
        }
        if noise.read_message(&verdict[1..], &mut []).is_err() {
            let why = "it does not know the shared secret";
            return Err(Refusal::Stranger(why.into()));
        }
        Self::begun(stream, noise)
    }

    fn begun(stream: TcpStream, noise: HandshakeState) -> Result<Self, Refusal> {
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            noise: noise.into_transport_mode().map_err(defect)?,
            frame: vec![0; 2 + FRAME_MAX],
        })
    }

    /// Sends a message.
    pub fn send(&mut self, kind: u32, payload: &[u8]) -> io::Result<()> {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&kind.to_le_bytes());
        let length = u32::try_from(payload.len())
            .ok()
            .filter(|&length| length <= PAYLOAD_MAX)
            .ok_or_else(|| wrong("a message is longer than any may be"))?;
        head[4..].copy_from_slice(&length.to_le_bytes());
        let (first, rest) = payload.split_at(payload.len().min(PIECE_MAX - HEAD_BYTES));
        self.send_frame(&[&head, first].concat())?;
        rest.chunks(PIECE_MAX)
            .try_for_each(|piece| self.send_frame(piece))
    }

    fn send_frame(&mut self, piece: &[u8]) -> io::Result<()> {
        let number = self.noise.sending_nonce();
        if number > 0 && number.is_multiple_of(FRAMES_PER_KEY) {
            self.noise.rekey_outgoing();
        }
        let sealed = self.noise.write_message(piece, &mut self.frame[2..]);
        let length = sealed.map_err(|error| io::Error::other(error.to_string()))?;
        self.frame[..2].copy_from_slice(&(length as u16).to_le_bytes());
        self.stream.write_all(&self.frame[..2 + length])
    }

    /// Waits for a message; without a deadline, for ever, but not within it.
    pub fn receive(
        &mut self,
        deadline: Option<Instant>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Message> {
        let mut piece = vec![0; PIECE_MAX];
        let first = self.receive_frame(&mut piece, deadline, stop)?;
        if first < HEAD_BYTES {
            return Err(wrong("a message is shorter than any can be"));
        }
        let (kind, length) = (u32_at(&piece, 0), u32_at(&piece, 4));
        if length > PAYLOAD_MAX {
            return Err(wrong("a message is longer than any can be"));
        }
        let length = length as usize;
        if first - HEAD_BYTES != length.min(PIECE_MAX - HEAD_BYTES) {
            return Err(wrong("a message is not as long as it says"));
        }
        let mut payload = piece[HEAD_BYTES..first].to_vec();
        while payload.len() < length {
            let deadline = Some(Instant::now() + PATIENCE);
            let more = self.receive_frame(&mut piece, deadline, stop)?;
            if more != (length - payload.len()).min(PIECE_MAX) {
                return Err(wrong("a message is not as long as it says"));
            }
            payload.extend_from_slice(&piece[..more]);
        }
        Ok(Message { kind, payload })
    }

    /// Puts what a frame holds into `piece`, and returns how much it is.
    fn receive_frame(
        &mut self,
        piece: &mut [u8],
        deadline: Option<Instant>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<usize> {
        let mut length = [0; 2];
        let (first, second) = length.split_at_mut(1);
        read_exact(&mut self.stream, first, deadline, stop)?;
        let deadline = Some(Instant::now() + PATIENCE);
        read_exact(&mut self.stream, second, deadline, stop)?;
        let length = usize::from(u16::from_le_bytes(length));
        if length < SEAL_BYTES {
            return Err(wrong("a frame is shorter than its seal"));
        }
        let frame = &mut self.frame[..length];
        read_exact(&mut self.stream, frame, deadline, stop)?;
        let number = self.noise.receiving_nonce();
        if number > 0 && number.is_multiple_of(FRAMES_PER_KEY) {
            self.noise.rekey_incoming();
        }
        self.noise
            .read_message(frame, piece)
            .map_err(|_| wrong("a message was changed on its way"))
    }
}
