//! The socket that a debugger's client is at.
//!
//! Always true here: nobody waits at it for longer than a tenth of a second without looking whether the
//! server is to end.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gdbstub::conn::Connection;

/// How long a read waits before somebody looks at what else there is.
const PATIENCE: Duration = Duration::from_millis(100);

/// A connected socket.
pub(in crate::debugger) enum Socket {
    /// On this host or another one.
    Tcp(TcpStream),
    /// A path on this host.
    Unix(UnixStream),
}

impl Socket {
    fn reads(&mut self, bytes: &mut [u8], waits: bool) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(!waits)?;
                stream.read(bytes)
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(!waits)?;
                stream.read(bytes)
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                Write::write_all(stream, bytes)
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(false)?;
                Write::write_all(stream, bytes)
            }
        }
    }
}

/// A socket with what has come and what is to go.
pub(super) struct Wire {
    socket: Socket,
    input: Vec<u8>,
    at: usize,
    output: Vec<u8>,
    /// The client has gone.
    pub closed: bool,
}

impl Wire {
    /// Over a connected socket.
    pub fn new(socket: Socket) -> io::Result<Self> {
        match &socket {
            Socket::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
            }
            Socket::Unix(stream) => stream.set_read_timeout(Some(PATIENCE))?,
        }
        Ok(Self {
            socket,
            input: Vec::new(),
            at: 0,
            output: Vec::new(),
            closed: false,
        })
    }

    fn fill(&mut self, waits: bool) {
        if self.at < self.input.len() || self.closed {
            return;
        }
        let mut bytes = vec![0; 1 << 16];
        match self.socket.reads(&mut bytes, waits) {
            Ok(0) => self.closed = true,
            Ok(length) => {
                bytes.truncate(length);
                (self.input, self.at) = (bytes, 0);
            }
            Err(error) => {
                let nothing = matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                        | io::ErrorKind::Interrupted
                );
                self.closed = !nothing;
            }
        }
    }

    /// Whether a byte is there, or the client has gone.
    pub fn has_news(&mut self) -> bool {
        self.fill(false);
        self.closed || self.at < self.input.len()
    }

    /// The next byte, if one comes soon.
    pub fn next(&mut self) -> Option<u8> {
        self.fill(true);
        let byte = self.input.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    /// Shows the client a text on its console.
    pub fn tell(&mut self, text: &str) -> io::Result<()> {
        let mut body = String::from("O");
        for byte in text.bytes().chain(*b"\n") {
            let _ = write!(body, "{byte:02x}");
        }
        self.send(&body)
    }

    /// Sends a packet of its own.
    pub fn send(&mut self, body: &str) -> io::Result<()> {
        let sum = body.bytes().fold(0_u8, u8::wrapping_add);
        self.write_all(format!("${body}#{sum:02x}").as_bytes())?;
        self.flush()
    }
}

impl Connection for Wire {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.output.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let output = std::mem::take(&mut self.output);
        self.socket.write(&output)
    }
}
