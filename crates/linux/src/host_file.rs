//! A file that a guest wrote, on its way into a directory of the host's.
//!
//! Always true: a file that is replaced is written under another name in the same directory, and
//! renamed when it is whole, so that a host that refuses leaves what was there. A file that is changed
//! in place stays the same file; as far as the host can say beforehand that it has no room, nothing of
//! it is changed. Never is what a link points to written, nor a device or pipe.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self as unix, AtFlags, FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::host::{kind, remove};
use crate::spool::Bytes;
use crate::vfs::spelling::bytes_of;

const WRITTEN: OFlags = OFlags::WRONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
const NEW: OFlags = WRITTEN.union(OFlags::CREATE).union(OFlags::EXCL);
const OWNERS: Mode = Mode::RUSR.union(Mode::WUSR);
/// So much of a name, from its end, is in that of the unfinished file.
const NAME_BYTES: usize = 64;

/// What a file gets.
pub struct Content<'a> {
    /// How long it is then.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Nothing of what it had stays.
    pub whole: bool,
    /// Bytes and where they belong.
    pub pieces: &'a [(u64, Bytes)],
}

impl Content<'_> {
    /// Puts a new file in the place of what a name has, which may be nothing; a directory only if it is
    /// empty.
    pub fn replace(&self, directory: BorrowedFd, name: &str) -> io::Result<()> {
        let (file, unfinished) = beside(directory, name)?;
        let put = self.write(&file).and_then(|()| {
            if kind(directory, name) == Some(FileType::Directory) {
                remove(directory, name, false)?;
            }
            Ok(unix::renameat(
                directory,
                &*bytes_of(&unfinished),
                directory,
                &*bytes_of(name),
            )?)
        });
        if put.is_err() {
            let _ = unix::unlinkat(directory, &*bytes_of(&unfinished), AtFlags::empty());
        }
        put
    }

    /// Changes the file of a name in place, or makes it.
    pub fn change(&self, directory: BorrowedFd, name: &str) -> io::Result<()> {
        let known = match kind(directory, name) {
            Some(FileType::RegularFile) => {
                match unix::openat(directory, &*bytes_of(name), WRITTEN, OWNERS) {
                    // A file that the guest made read-only and then went on writing.
                    Err(Errno::ACCESS) => None,
                    other => Some(File::from(other?)),
                }
            }
            _ => None,
        };
        let Some(file) = known else {
            return self.replace(directory, name);
        };
        // Somebody may have put something else there meanwhile.
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        self.make_room(&file)?;
        if self.whole {
            file.set_len(0)?;
        }
        self.write(&file)
    }

    /// Asks the host for room before anything is changed.
    fn make_room(&self, file: &File) -> io::Result<()> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (offset, bytes) in self.pieces {
            let length = bytes.len() as u64;
            match runs.last_mut() {
                Some((from, known)) if *from + *known == *offset => *known += length,
                _ => runs.push((*offset, length)),
            }
        }
        for (offset, length) in runs.into_iter().filter(|(_, length)| *length > 0) {
            match unix::fallocate(file, FallocateFlags::KEEP_SIZE, offset, length) {
                Ok(()) => {}
                Err(refusal @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                    // Gives back what was got behind its end.
                    let _ = file.set_len(file.metadata()?.len());
                    return Err(refusal.into());
                }
                // It does not say: what it thinks of it is seen when it is written.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn write(&self, file: &File) -> io::Result<()> {
        for (offset, bytes) in self.pieces {
            file.write_all_at(&bytes.read()?, *offset)?;
        }
        file.set_len(self.size)?;
        // The owner can always read and write, so that the next record finds its way in; no file runs
        // as somebody else.
        let mode = Mode::from_raw_mode(self.mode & 0o777 | 0o600);
        Ok(unix::fchmod(file, mode)?)
    }
}

/// A new file in a directory, and its name.
fn beside(directory: BorrowedFd, name: &str) -> io::Result<(File, String)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut from = name.len().saturating_sub(NAME_BYTES);
    while !name.is_char_boundary(from) {
        from += 1;
    }
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let unfinished = format!(".perdure-{}-{count}-{}", std::process::id(), &name[from..]);
        match unix::openat(directory, &*bytes_of(&unfinished), NEW, OWNERS) {
            Ok(file) => return Ok((File::from(file), unfinished)),
            // Left by a process that was killed.
            Err(Errno::EXIST) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
}
