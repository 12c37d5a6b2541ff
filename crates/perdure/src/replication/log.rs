//! A replica's file: an append-only log of records.
//!
//! ```text
//! 0    "PERDREPL"    8  u32 version    12  u32 zero
//! 512  commit, copy 0         1024  commit, copy 1;  the one with the larger number counts:
//!        0  u64  number, one more with each commit
//!        8  u64  bytes of the file that are committed
//!       16  u64  checksum of the last record in them
//!       24  u64  checksum of these 24 bytes
//! 1536 records, each  u32 kind   u32 bytes   payload   u64 checksum chained to the one before
//! ```
//!
//! Appended records count once a commit covers them. A commit is written, in turn to either copy (a
//! sector each), when everything before it is durable; so a host that fails at any moment leaves the
//! last commit or the one before, and what lies behind it is cut off when the log is next written to.
//!
//! Always true: no byte is given out of a log that was damaged since it was committed.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use perdure_designs::bytes::{checksum, decoded, encoded};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::ledger::Ledger;
use super::record::{Kind, PAYLOAD_MAX, chained, u32_at};
use super::{Destination, Failure, Holding, Identity, VERSION};
use crate::snapshots::{Answer, SnapshotsError};

/// The file's name in a replica's directory.
pub const NAME: &str = "replica.log";

const MAGIC: &[u8; 8] = b"PERDREPL";
/// Where the copies of the commit are: in different sectors, so that no write can tear both.
pub const COMMITS: [u64; 2] = [512, 1024];
const COMMIT_BYTES: usize = size_of::<Commit>() + 8;
/// Where the records begin.
pub const START: u64 = 1536;
const HEAD_BYTES: u64 = 8;
const TAIL_BYTES: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Commit {
    number: u64,
    length: u64,
    chain: u64,
}

impl Commit {
    fn encode(self) -> Vec<u8> {
        let mut bytes = encoded(&self);
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (fields, seal) = bytes.split_last_chunk()?;
        (u64::from_le_bytes(*seal) == checksum(fields)).then(|| decoded(fields))
    }
}

/// Where the chain of checksums begins.
fn first_chain() -> u64 {
    checksum(MAGIC)
}

fn header() -> [u8; START as usize] {
    let mut header = [0; START as usize];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let first = Commit {
        number: 0,
        length: START,
        chain: first_chain(),
    };
    header[COMMITS[0] as usize..][..COMMIT_BYTES].copy_from_slice(&first.encode());
    header
}

/// True if a directory holds a replica.
pub fn is_replica(directory: &Path) -> bool {
    directory.join(NAME).is_file()
}

fn host(path: &Path, source: io::Error) -> SnapshotsError {
    SnapshotsError::Host {
        what: format!("the replica {}", path.display()),
        source,
    }
}

/// The newest commit of a file.
fn commit_of(path: &Path, file: &mut File) -> Answer<Commit> {
    let damaged = |place: u64, what: &str| SnapshotsError::Damaged {
        file: path.to_owned(),
        place,
        what: what.to_owned(),
    };
    let length = file.metadata().map_err(|source| host(path, source))?.len();
    let mut header = Vec::new();
    let head = Read::by_ref(file).take(START);
    { head }
        .read_to_end(&mut header)
        .map_err(|source| host(path, source))?;
    if !header.starts_with(MAGIC) {
        return Err(SnapshotsError::NotAStore {
            file: path.to_owned(),
        });
    }
    let version = u32_at(&header, 8);
    if header.len() >= 12 && version != VERSION {
        return Err(SnapshotsError::OtherVersion {
            file: path.to_owned(),
            found: u64::from(version),
            known: u64::from(VERSION),
        });
    }
    if header.len() < START as usize {
        return Err(SnapshotsError::CutShort {
            file: path.to_owned(),
            length,
            expected: START,
        });
    }
    let copies = COMMITS.map(|at| Commit::decode(&header[at as usize..][..COMMIT_BYTES]));
    let newest = copies.into_iter().flatten().max_by_key(|copy| copy.number);
    let commit = newest.ok_or_else(|| damaged(COMMITS[0], "both copies of the commit are"))?;
    if length < commit.length {
        return Err(SnapshotsError::CutShort {
            file: path.to_owned(),
            length,
            expected: commit.length,
        });
    }
    Ok(commit)
}

/// Reads the committed records of a log. `visit` gets each one's kind, payload, and where in the file
/// the payload begins.
pub fn read(
    directory: &Path,
    visit: impl FnMut(Kind, &[u8], u64) -> Result<(), String>,
) -> Answer<Ledger> {
    let path = directory.join(NAME);
    let mut file = File::open(&path).map_err(|source| host(&path, source))?;
    let commit = commit_of(&path, &mut file)?;
    scan(&path, &mut file, commit, visit)
}

fn scan(
    path: &Path,
    file: &mut File,
    commit: Commit,
    mut visit: impl FnMut(Kind, &[u8], u64) -> Result<(), String>,
) -> Answer<Ledger> {
    let host = |source| host(path, source);
    let damaged = |place: u64, what: String| SnapshotsError::Damaged {
        file: path.to_owned(),
        place,
        what,
    };
    file.seek(SeekFrom::Start(START)).map_err(host)?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut ledger = Ledger::default();
    let (mut at, mut chain) = (START, first_chain());
    let mut payload = Vec::new();
    while at < commit.length {
        let room = commit.length - at;
        let mut head = [0; HEAD_BYTES as usize];
        if room < HEAD_BYTES + TAIL_BYTES {
            return Err(damaged(at, "a record does not end".into()));
        }
        file.read_exact(&mut head).map_err(host)?;
        let (kind, length) = (Kind::of(u32_at(&head, 0)), u32_at(&head, 4));
        let fits = u64::from(length) <= room - HEAD_BYTES - TAIL_BYTES;
        let (Some(kind), true) = (kind, fits) else {
            return Err(damaged(at, "there should be a record".into()));
        };
        payload.resize(length as usize, 0);
        file.read_exact(&mut payload).map_err(host)?;
        let mut tail = [0; TAIL_BYTES as usize];
        file.read_exact(&mut tail).map_err(host)?;
        chain = chained(chain, kind, &payload);
        if u64::from_le_bytes(tail) != chain {
            return Err(damaged(at, "a record's checksum is wrong".into()));
        }
        let sense = ledger
            .accept(kind, &payload)
            .and_then(|()| visit(kind, &payload, at + HEAD_BYTES));
        sense.map_err(|why| damaged(at, why))?;
        at += HEAD_BYTES + u64::from(length) + TAIL_BYTES;
    }
    if chain != commit.chain {
        return Err(damaged(at, "it does not end as it was committed".into()));
    }
    Ok(ledger)
}

/// A log that is written to. Nobody else writes to it meanwhile.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    /// What its records amount to, those that are not committed included.
    pub ledger: Ledger,
    commit: Commit,
    /// Where the next record goes, and the checksum of the last.
    end: u64,
    chain: u64,
}

impl Log {
    /// Opens the log in a directory, or begins one.
    pub fn open(directory: &Path) -> Answer<Self> {
        let path = directory.join(NAME);
        let failed = |source| host(&path, source);
        std::fs::create_dir_all(directory).map_err(failed)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed)?;
        file.try_lock().map_err(|why| match why {
            std::fs::TryLockError::WouldBlock => SnapshotsError::Asked(format!(
                "the replica {} is being written to by somebody else",
                path.display()
            )),
            std::fs::TryLockError::Error(source) => host(&path, source),
        })?;
        let length = file.metadata().map_err(failed)?.len();
        if length == 0 {
            file.write_all(&header()).map_err(failed)?;
            file.sync_all().map_err(failed)?;
            let folder = File::open(directory).map_err(failed)?;
            folder.sync_all().map_err(failed)?;
            file.seek(SeekFrom::Start(0)).map_err(failed)?;
        }
        let commit = commit_of(&path, &mut file)?;
        let ledger = scan(&path, &mut file, commit, |_, _, _| Ok(()))?;
        // What was not committed came in part.
        file.set_len(commit.length).map_err(failed)?;
        file.seek(SeekFrom::Start(commit.length)).map_err(failed)?;
        Ok(Self {
            path,
            file,
            ledger,
            commit,
            end: commit.length,
            chain: commit.chain,
        })
    }

    fn failed(&self, source: &io::Error) -> Failure {
        Failure::Lost(format!("the replica {}: {source}", self.path.display()))
    }
}

impl Destination for Log {
    fn begin(&mut self, identity: &Identity) -> Result<Holding, Failure> {
        let mine = self.ledger.identity.as_ref();
        if let Some(difference) = mine.and_then(|mine| mine.difference(identity)) {
            return Err(Failure::Refused(format!(
                "the replica {} is of another run: {difference}",
                self.path.display()
            )));
        }
        if mine.is_none() {
            let identity = serde_json::to_vec(identity).expect("plain data is JSON");
            self.append(Kind::Identity, &identity)?;
        }
        Ok(Holding {
            position: self.ledger.position,
            facts: self.ledger.facts.clone(),
        })
    }

    fn append(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Failure> {
        if payload.len() as u64 > u64::from(PAYLOAD_MAX) {
            return Err(Failure::Refused(format!(
                "a record of {} bytes is too long; at most {PAYLOAD_MAX} are possible",
                payload.len()
            )));
        }
        self.ledger
            .accept(kind, payload)
            .map_err(|why| Failure::Refused(format!("the stream is no good: {why}")))?;
        let chain = chained(self.chain, kind, payload);
        let mut head = [0; HEAD_BYTES as usize];
        head[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        head[4..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        let written = (self.file.write_all(&head))
            .and_then(|()| self.file.write_all(payload))
            .and_then(|()| self.file.write_all(&chain.to_le_bytes()));
        written.map_err(|source| self.failed(&source))?;
        self.end += HEAD_BYTES + payload.len() as u64 + TAIL_BYTES;
        self.chain = chain;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        if self.end == self.commit.length {
            return Ok(());
        }
        let commit = Commit {
            number: self.commit.number + 1,
            length: self.end,
            chain: self.chain,
        };
        let place = COMMITS[(commit.number % 2) as usize];
        let written = (self.file.sync_data())
            .and_then(|()| self.file.seek(SeekFrom::Start(place)).map(|_| ()))
            .and_then(|()| self.file.write_all(&commit.encode()))
            .and_then(|()| self.file.sync_data())
            .and_then(|()| self.file.seek(SeekFrom::Start(self.end)).map(|_| ()));
        written.map_err(|source| self.failed(&source))?;
        self.commit = commit;
        Ok(())
    }
}
