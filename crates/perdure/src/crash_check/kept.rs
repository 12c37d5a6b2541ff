//! What a check has done, in a file that grows with it: one that was interrupted goes on from there.
//!
//! ```text
//! 0   "PERDCHK1"
//! 8   xxh3-64 of all that follows, little-endian
//! 16  what is checked, and what was done ([`Kept`], as postcard writes it)
//! ```
//!
//! Always true here: the file is written beside itself and renamed, so that it is of one moment, between two
//! batches of failure points; a check that goes on from it does what it would have done.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use twox_hash::XxHash3_64;

use super::done::Done;
use super::uncut::Surveyed;
use super::{Asked, refused};
use crate::error::Error;
use crate::given_files;
use crate::replaced::Replaced;
use crate::version;

const MAGIC: &[u8; 8] = b"PERDCHK1";
/// What stands before the content.
const HEAD_BYTES: usize = 16;
/// How long a moment is good.
const PERIOD: Duration = Duration::from_secs(2);
/// What is asked, and says how far a check goes, or how fast, and not what it is of.
const BOUNDS: [&str; 5] = ["states", "minutes", "memory", "keep", "jobs"];

/// What the file has.
#[derive(Serialize, Deserialize)]
struct Kept<D> {
    subject: Vec<(String, String)>,
    done: D,
}

/// The file of a check under way.
pub struct Keeper {
    path: PathBuf,
    subject: Vec<(String, String)>,
    written: Option<Instant>,
    /// A limit, or the user, has ended the check within a run: that is where it goes on.
    is_over: bool,
    /// Why it could not be written the last time.
    pub unkept: Option<String>,
}

/// What a check is of, by name.
fn subject_of(asked: &Asked, surveyed: &Surveyed) -> Result<Vec<(String, String)>, Error> {
    let failed = |_| Error::Defect("what is asked is no JSON".into());
    let all = serde_json::to_value(asked).map_err(failed)?;
    let mut named = Map::new();
    if let Value::Object(all) = all {
        for (name, value) in all {
            match value {
                Value::Object(request) if name == "request" => named.extend(request),
                other => _ = named.insert(name, other),
            }
        }
    }
    named.retain(|name, value| !BOUNDS.contains(&name.as_str()) && *value != Value::Null);
    let mut subject: Vec<_> = (named.into_iter())
        .map(|(name, value)| (name, value.to_string()))
        .collect();
    subject.push(("seed".into(), asked.seed().to_string()));
    subject.sort();
    let mut programs: Vec<&str> = Vec::new();
    for words in [
        &asked.request.program,
        &asked.request.then,
        &asked.checker,
        &asked.dump,
    ] {
        programs.extend(words.first().map(String::as_str));
    }
    for program in programs {
        let bytes = given_files::regular(Path::new(program)).unwrap_or_default();
        let digest = format!("{:016x}", XxHash3_64::oneshot(&bytes));
        subject.push((format!("the content of {program}"), digest));
    }
    let run = format!("{:016x}", surveyed.digest());
    subject.push(("what the program does".into(), run));
    subject.push(("perdure".into(), version::BUILD.into()));
    Ok(subject)
}

impl Keeper {
    /// Opens a file, or begins one; and what was done so far.
    pub fn open(path: &Path, asked: &Asked, surveyed: &Surveyed) -> Result<(Self, Done), Error> {
        let keeper = Self {
            path: path.to_owned(),
            subject: subject_of(asked, surveyed)?,
            written: None,
            is_over: false,
            unkept: None,
        };
        let done = match given_files::regular(path) {
            Ok(bytes) => keeper.read(&bytes)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Done::default(),
            Err(source) => return Err(keeper.host(source)),
        };
        Ok((keeper, done))
    }

    /// Refuses a place where no file can be, before anything is explored.
    pub fn probe(&self) -> Result<(), Error> {
        let probed = Replaced::create(&self.path).map(drop);
        probed.map_err(|source| self.host(source))
    }

    fn host(&self, source: std::io::Error) -> Error {
        Error::Host {
            what: format!("--continue {}", self.path.display()),
            source,
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Done, Error> {
        let name = self.path.display();
        let content = bytes.get(HEAD_BYTES..).filter(|content| {
            bytes.starts_with(MAGIC)
                && bytes[8..HEAD_BYTES] == XxHash3_64::oneshot(content).to_le_bytes()
        });
        let kept: Option<(Kept<()>, &[u8])> =
            content.and_then(|content| postcard::take_from_bytes(content).ok());
        let Some((kept, rest)) = kept else {
            return refused(format!(
                "--continue {name}: this is no file of an interrupted check, or it is damaged; remove it, or name another"
            ));
        };
        let differ = |(then, now): (&(String, String), &(String, String))| then != now;
        let differs = (kept.subject.iter().zip(&self.subject)).find(|both| differ(*both));
        if let Some((then, now)) = differs {
            let both = if then.0 == now.0 {
                format!("{} is {} there, and {} now", now.0, then.1, now.1)
            } else {
                format!("{} {} there, and {} {} now", then.0, then.1, now.0, now.1)
            };
            return refused(format!(
                "--continue {name}: it is of another check: {both}; remove it, or name another file"
            ));
        }
        if kept.subject.len() != self.subject.len() {
            return refused(format!(
                "--continue {name}: it is of another check, of which other things were asked; remove it, or name another file"
            ));
        }
        postcard::from_bytes(rest).map_err(|_| {
            Error::Request(format!(
                "--continue {name}: another build of perdure has written it; remove it"
            ))
        })
    }

    /// Writes what was done, unless that is known well enough and more of the run is to come.
    pub fn write(&mut self, done: &Done, is_last: bool) -> Result<(), Error> {
        let is_recent = self.written.is_some_and(|when| when.elapsed() < PERIOD);
        if self.is_over || is_recent && !is_last {
            return Ok(());
        }
        self.is_over = is_last && done.points < done.planned;
        let kept = Kept {
            subject: self.subject.clone(),
            done,
        };
        let content = postcard::to_allocvec(&kept);
        let content = content.map_err(|error| Error::Defect(format!("--continue: {error}")))?;
        self.written = Some(Instant::now());
        // A disk that is full ends no check: there may be room the next time.
        let replaced = self.replace(&content);
        self.unkept = replaced.err().map(|source| self.host(source).to_string());
        Ok(())
    }

    fn replace(&self, content: &[u8]) -> std::io::Result<()> {
        let mut file = Replaced::create(&self.path)?;
        file.write_all(MAGIC)?;
        file.write_all(&XxHash3_64::oneshot(content).to_le_bytes())?;
        file.write_all(content)?;
        file.file().sync_all()?;
        file.keep()
    }
}
