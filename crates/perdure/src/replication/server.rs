//! The replica's end of the connection: takes records of whoever knows the secret, makes them durable,
//! and says so.
//!
//! Always true: one connection at a time writes to the log. A newer one that has shown that it knows the
//! secret takes over from an older one, whose primary may be dead without anybody having noticed. One
//! that has shown nothing yet has two seconds, and one of a few places: whoever comes after takes the
//! place of the oldest of them, so that strangers keep nobody out who knows the secret.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::log::Log;
use super::noise::{Channel, PATIENCE};
use super::record::Kind;
use super::wire::{BEGIN, BYE, COMMIT, COMMITTED, HOLDING, REFUSED, Secret};
use super::{Destination, Failure};
use crate::error::Error;
use crate::observer::Observer;

/// How often a waiting server looks whether it should stop.
const LOOK: Duration = Duration::from_millis(50);
/// Connections that may know the secret or not.
const STRANGERS_MAX: usize = 8;
/// Connections that know it. One writes, the others are on their way out.
const CONNECTIONS_MAX: u64 = 32;

/// What to serve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Where the replica is.
    pub directory: PathBuf,
    /// Where to listen, `HOST:PORT`.
    pub listen: String,
    /// The shared secret's file; in the replica's directory, if none is named.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// Stop when a primary has said that it is done.
    #[serde(default)]
    pub once: bool,
}

struct Server<'a> {
    directory: &'a Path,
    secret: &'a Secret,
    /// Counts connections that were let in: the last one writes.
    turn: AtomicU64,
    open: AtomicU64,
    /// Those that have shown nothing yet, the oldest first.
    strangers: Mutex<VecDeque<(u64, TcpStream)>>,
    /// One writes at a time.
    log: Mutex<()>,
    stop: AtomicBool,
    once: bool,
    newest: Mutex<Option<u64>>,
    say: &'a (dyn Fn(&str) + Sync),
}

/// Serves until it is interrupted. `say` gets a line about everything that happens. Returns the newest
/// epoch that is held.
pub fn serve(
    options: &Options,
    observer: &dyn Observer,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Option<u64>, Error> {
    let directory = &options.directory;
    let newest = Log::open(directory)?
        .ledger
        .position
        .map(|position| position.epoch);
    let secret_file = options
        .secret_file
        .clone()
        .unwrap_or_else(|| directory.join("secret"));
    let secret = Secret::read_or_make(&secret_file)?;
    let listening = |source| Error::Host {
        what: format!("--listen {}", options.listen),
        source,
    };
    let listener = TcpListener::bind(&options.listen).map_err(listening)?;
    listener.set_nonblocking(true).map_err(listening)?;
    let address = listener.local_addr().map_err(listening)?;
    say(&format!(
        "listening on {address}; {}; the shared secret is in {}",
        held(newest),
        secret_file.display()
    ));
    let server = Server {
        directory,
        secret: &secret,
        turn: AtomicU64::new(0),
        open: AtomicU64::new(0),
        strangers: Mutex::default(),
        log: Mutex::new(()),
        stop: AtomicBool::new(false),
        once: options.once,
        newest: Mutex::new(newest),
        say,
    };
    let mut number = 0;
    std::thread::scope(|scope| {
        while !server.stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, from)) => {
                    // Without a second handle on it, it could not be ended: it is not let in.
                    let Ok(handle) = stream.try_clone() else {
                        continue;
                    };
                    number += 1;
                    server.let_wait(number, handle);
                    let server = &server;
                    scope.spawn(move || server.connection(number, stream, from));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
                // One connection failed, not the listener.
                Err(_) => std::thread::sleep(LOOK),
            }
            if observer.interrupted() {
                server.stop.store(true, Ordering::Relaxed);
            }
        }
    });
    Ok(server.newest())
}

fn held(newest: Option<u64>) -> String {
    match newest {
        Some(epoch) => format!("holds epochs up to {epoch}"),
        None => "holds nothing yet".into(),
    }
}

impl Server<'_> {
    fn newest(&self) -> Option<u64> {
        *self
            .newest
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Gives a place to a connection that has shown nothing yet: that of the oldest, if all are taken.
    fn let_wait(&self, number: u64, handle: TcpStream) {
        let mut strangers = self.strangers();
        strangers.push_back((number, handle));
        if strangers.len() > STRANGERS_MAX
            && let Some((_, oldest)) = strangers.pop_front()
        {
            // Its thread reads the end of the connection, and ends, too.
            let _ = oldest.shutdown(std::net::Shutdown::Both);
        }
    }

    fn strangers(&self) -> std::sync::MutexGuard<'_, VecDeque<(u64, TcpStream)>> {
        self.strangers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn connection(&self, number: u64, stream: TcpStream, from: SocketAddr) {
        let accepted = Channel::accept(stream, self.secret);
        self.strangers().retain(|(waiting, _)| *waiting != number);
        let channel = match accepted {
            Ok(channel) => channel,
            Err(why) => return (self.say)(&format!("{from}: refused: {why}")),
        };
        if self.open.fetch_add(1, Ordering::Relaxed) < CONNECTIONS_MAX {
            self.serve(channel, from);
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Serves a connection that knows the secret.
    fn serve(&self, mut channel: Channel, from: SocketAddr) {
        let turn = self.turn.fetch_add(1, Ordering::SeqCst) + 1;
        let over = || self.stop.load(Ordering::Relaxed) || self.turn.load(Ordering::SeqCst) != turn;
        let _writing = self
            .log
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if over() {
            return;
        }
        (self.say)(&format!("{from}: connected"));
        let end = match self.take(&mut channel, &over) {
            Ok(()) if self.once => {
                self.stop.store(true, Ordering::Relaxed);
                "done".to_owned()
            }
            Ok(()) => "done".to_owned(),
            Err(Failure::Lost(_)) if over() => {
                "another primary took over, or this is the end".into()
            }
            Err(Failure::Lost(why)) => format!("lost: {why}"),
            Err(Failure::Refused(why)) => {
                let _ = channel.send(REFUSED, why.as_bytes());
                format!("refused: {why}")
            }
        };
        (self.say)(&format!("{from}: {end}; {}", held(self.newest())));
    }

    /// Takes what comes until the primary says that it is done.
    fn take(&self, channel: &mut Channel, over: &dyn Fn() -> bool) -> Result<(), Failure> {
        let lost = |error: io::Error| {
            Failure::Lost(match error.kind() {
                ErrorKind::UnexpectedEof
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe => "the primary went away".to_owned(),
                ErrorKind::TimedOut => "the primary stopped in the middle of a message".to_owned(),
                _ => error.to_string(),
            })
        };
        let mut log = Log::open(self.directory)?;
        let begin = channel
            .receive(Some(Instant::now() + PATIENCE), over)
            .map_err(lost)?;
        let identity = (begin.kind == BEGIN).then(|| serde_json::from_slice(&begin.payload));
        let Some(Ok(identity)) = identity else {
            return Err(Failure::Refused(
                "it does not say which run it is of".into(),
            ));
        };
        let holding = log.begin(&identity)?;
        let holding = serde_json::to_vec(&holding).expect("plain data is JSON");
        channel.send(HOLDING, &holding).map_err(lost)?;
        loop {
            let message = channel.receive(None, over).map_err(lost)?;
            match (message.kind, Kind::of(message.kind)) {
                (_, Some(kind)) => log.append(kind, &message.payload)?,
                (COMMIT, _) => {
                    log.commit()?;
                    let newest = log.ledger.position.map(|position| position.epoch);
                    *self
                        .newest
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner) = newest;
                    channel.send(COMMITTED, &[]).map_err(lost)?;
                }
                (BYE, _) => return Ok(()),
                (kind, _) => {
                    return Err(Failure::Refused(format!(
                        "it sent a message of kind {kind}"
                    )));
                }
            }
        }
    }
}
