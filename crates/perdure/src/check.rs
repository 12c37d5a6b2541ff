//! A user's own checker: decides, in place of equality with the uncut run, whether a resumed run has
//! ended well.
//!
//! It runs on the host, in a new folder with the files that the resumed run has let out, and is given
//! its output and exit status. Exit status 0 means that all is well. Nothing of it is part of a replay
//! token: a token from somebody else never runs a program here.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use perdure_linux::{HostDirectories, WORK_DIRECTORY};

use crate::error::Error;
use crate::outside::Outside;

/// How long a checker may take, unless told otherwise.
pub const SECONDS: u64 = 60;

/// How much of its output is shown.
const SHOWN_BYTES: u64 = 2000;

/// A checker.
#[derive(Clone, Debug)]
pub struct Check {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its time limit.
    pub seconds: u64,
}

/// A folder that is gone when nobody needs it any more.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("perdure-check-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Check {
    /// Runs it. Returns what is wrong, if anything is.
    pub fn run(&self, outside: &Outside, status: Option<i32>) -> Result<Option<String>, Error> {
        let host = |source| Error::Host {
            what: format!("the checker {} (--check)", self.command.join(" ")),
            source,
        };
        let folder = Folder::new().map_err(host)?;
        let files = folder.0.join("files");
        let work = files.join(WORK_DIRECTORY.trim_start_matches('/'));
        fs::create_dir_all(&work).map_err(host)?;
        let refused = |error: perdure_linux::HostError| host(std::io::Error::other(error));
        let mut directories = HostDirectories::new(Some(&files), &[], &[]).map_err(refused)?;
        for release in outside.file_releases() {
            directories.apply(&release).map_err(refused)?;
        }
        let written = |name: &str, descriptor| {
            let path = folder.0.join(name);
            let mut file = File::create(&path)?;
            outside.copy_stream(0, descriptor, &mut file).map(|()| path)
        };
        let output = written("output", 1).map_err(host)?;
        let error = written("error", 2).map_err(host)?;
        let said = folder.0.join("said");
        let log = File::create(&said).map_err(host)?;
        let child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .current_dir(&work)
            .env("PERDURE_FILES", &files)
            .env("PERDURE_OUTPUT", output)
            .env("PERDURE_ERROR", error)
            .env("PERDURE_STATUS", status.unwrap_or(-1).to_string())
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(host)?)
            .stderr(log)
            .spawn();
        let mut child = child.map_err(host)?;
        let ended = wait(&mut child, Duration::from_secs(self.seconds)).map_err(host)?;
        let wrong = match ended {
            Some(status) if status.success() => return Ok(None),
            Some(status) => format!("the checker says no ({status})"),
            None => format!("the checker had not ended after {} seconds", self.seconds),
        };
        Ok(Some(match tail(&said) {
            said if said.is_empty() => wrong,
            said => format!("{wrong}: {said}"),
        }))
    }
}

/// Waits for a child; one that takes longer is killed.
fn wait(
    child: &mut std::process::Child,
    limit: Duration,
) -> std::io::Result<Option<std::process::ExitStatus>> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// The last that a checker said.
fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    read().unwrap_or_default()
}
