//! The server: a listening socket, and the session that its clients get one after the other.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use super::debuggee::Debuggee;
use super::remote::{self, Left, Socket};
use crate::error::Error;

/// How often somebody looks whether a client has come.
const PATIENCE: Duration = Duration::from_millis(20);

/// Where clients come to.
pub(super) enum Listener {
    /// A port.
    Tcp(TcpListener),
    /// A path, which goes with the server.
    Unix(UnixListener, PathBuf),
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Whoever removed it before has done no harm.
            let _ = fs::remove_file(path);
        }
    }
}

impl Listener {
    /// At `HOST:PORT`, or at a path where there is no port.
    pub fn new(place: &str) -> Result<Self, Error> {
        let failed = |source| Error::Host {
            what: format!("--listen {place}"),
            source,
        };
        let is_port = place
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let listener = if is_port {
            let listener = TcpListener::bind(place).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            Self::Tcp(listener)
        } else if place.contains('/') {
            let listener = UnixListener::bind(place).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            Self::Unix(listener, place.into())
        } else {
            return Err(Error::Request(format!(
                "--listen {place}: write HOST:PORT (port 0 is a free one), or the path of a socket, with a slash in it"
            )));
        };
        Ok(listener)
    }

    /// Where clients find it, as gdb's `target remote` has it.
    pub fn place(&self) -> Result<String, Error> {
        Ok(match self {
            Self::Tcp(listener) => listener.local_addr().map_err(remote::refused)?.to_string(),
            Self::Unix(_, path) => path.display().to_string(),
        })
    }

    /// The next client, if one has come.
    fn accept(&self) -> Result<Option<Socket>, Error> {
        let accepted = match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Socket::Tcp(stream)),
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| Socket::Unix(stream)),
        };
        match accepted {
            Ok(socket) => Ok(Some(socket)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(None),
            Err(error) => Err(remote::refused(error)),
        }
    }
}

/// Serves clients until one ends the session, the programs have ended, or the server is to end. The exit
/// status, if the programs have ended.
pub(super) fn serve(
    session: &mut dyn Debuggee,
    listener: &Listener,
    ends: &dyn Fn() -> bool,
) -> Result<Option<i32>, Error> {
    while !ends() {
        let Some(socket) = listener.accept()? else {
            sleep(PATIENCE);
            continue;
        };
        match remote::serve(session, socket, ends)? {
            Left::Gone => {}
            Left::Killed | Left::Interrupted => return Ok(None),
            Left::Ended(status) => return Ok(Some(status)),
        }
    }
    Ok(None)
}
