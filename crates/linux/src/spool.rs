//! Bytes that have left the machine's memory and are not where they go yet.
//!
//! Always true: what a spool holds in memory stays below its bound, however much a guest writes;
//! what comes beyond it lies in an unlinked temporary file, which goes with the process, and gives
//! its room back to the disk piece by piece. Bytes never change, so copies of them share one place.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};

/// Where bytes wait. Clones share its room.
#[derive(Clone, Debug)]
pub struct Spool {
    place: Arc<Place>,
}

#[derive(Debug)]
struct Place {
    /// The most bytes that are held in memory.
    memory_bytes: u64,
    in_memory: AtomicU64,
    spilled: Mutex<Spilled>,
}

/// The temporary file, once there is one, and how far it has been used.
#[derive(Debug, Default)]
struct Spilled {
    file: Option<Arc<File>>,
    end: u64,
}

impl Default for Spool {
    fn default() -> Self {
        Self::new(64 << 20)
    }
}

impl Spool {
    /// Holds so many bytes in memory, and what comes beyond them on the disk.
    pub fn new(memory_bytes: u64) -> Self {
        Self {
            place: Arc::new(Place {
                memory_bytes,
                in_memory: AtomicU64::new(0),
                spilled: Mutex::default(),
            }),
        }
    }

    /// Takes bytes in; fails if the disk does.
    pub fn hold(&self, bytes: Vec<u8>) -> io::Result<Bytes> {
        let length = bytes.len() as u64;
        let place = &self.place;
        let before = place.in_memory.fetch_add(length, Ordering::Relaxed);
        if before.saturating_add(length) <= place.memory_bytes {
            let counted = Some(Arc::clone(place));
            return Ok(Bytes(Arc::new(Held::Memory { bytes, counted })));
        }
        place.in_memory.fetch_sub(length, Ordering::Relaxed);
        let (file, start) = {
            let mut spilled = place.spilled.lock().unwrap_or_else(PoisonError::into_inner);
            let file = match &spilled.file {
                Some(file) => Arc::clone(file),
                None => Arc::new(tempfile::tempfile()?),
            };
            spilled.file = Some(Arc::clone(&file));
            let start = spilled.end;
            spilled.end += length;
            (file, start)
        };
        file.write_all_at(&bytes, start)?;
        Ok(Bytes(Arc::new(Held::Disk {
            file,
            range: start..start + length,
        })))
    }

    /// Bytes that are held in memory now.
    pub fn in_memory(&self) -> u64 {
        self.place.in_memory.load(Ordering::Relaxed)
    }
}

/// Bytes in a spool. They leave it with their last copy.
#[derive(Clone)]
pub struct Bytes(Arc<Held>);

enum Held {
    Memory {
        bytes: Vec<u8>,
        /// Where they are counted, if anywhere.
        counted: Option<Arc<Place>>,
    },
    Disk {
        file: Arc<File>,
        range: Range<u64>,
    },
}

impl Drop for Held {
    fn drop(&mut self) {
        match self {
            Held::Memory { bytes, counted } => {
                if let Some(place) = counted {
                    let length = bytes.len() as u64;
                    place.in_memory.fetch_sub(length, Ordering::Relaxed);
                }
            }
            Held::Disk { file, range } => {
                // A file system that cannot do this keeps the room until the file goes.
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = fallocate(file, flags, range.start, range.end - range.start);
            }
        }
    }
}

impl Bytes {
    /// How many there are.
    pub fn len(&self) -> usize {
        match &*self.0 {
            Held::Memory { bytes, .. } => bytes.len(),
            Held::Disk { range, .. } => (range.end - range.start) as usize,
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if both are the same copy.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The bytes themselves.
    pub fn read(&self) -> io::Result<Cow<'_, [u8]>> {
        match &*self.0 {
            Held::Memory { bytes, .. } => Ok(Cow::Borrowed(bytes)),
            Held::Disk { file, range } => {
                let mut bytes = vec![0; self.len()];
                file.read_exact_at(&mut bytes, range.start)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        let counted = None;
        Self(Arc::new(Held::Memory { bytes, counted }))
    }
}

impl PartialEq for Bytes {
    /// True if the bytes are equal, and can be read.
    fn eq(&self, other: &Self) -> bool {
        let equal = || Some(self.read().ok()? == other.read().ok()?);
        self.is(other) || self.len() == other.len() && equal() == Some(true)
    }
}

impl Eq for Bytes {}

impl fmt::Debug for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stays_below_the_bound_and_everything_reads_back() {
        let spool = Spool::new(10_000);
        let piece = |index: u8| vec![index; 1000];
        let held: Vec<Bytes> = (0..50)
            .map(|index| spool.hold(piece(index)).expect("the disk has room"))
            .collect();
        assert_eq!(spool.in_memory(), 10_000);
        for (index, bytes) in (0..).zip(&held) {
            assert_eq!(*bytes.read().expect("they are there"), piece(index));
            assert_eq!(*bytes, Bytes::from(piece(index)));
            assert_ne!(*bytes, Bytes::from(piece(index + 1)));
        }
        let copies = held.clone();
        drop(held);
        assert_eq!(spool.in_memory(), 10_000);
        assert_eq!(*copies[49].read().expect("a copy holds them"), piece(49));
        drop(copies);
        assert_eq!(spool.in_memory(), 0);
        assert!(matches!(
            &*spool.hold(piece(1)).expect("room").0,
            Held::Memory { .. }
        ));
    }

    #[test]
    fn what_is_let_go_gives_its_room_on_the_disk_back() {
        use std::os::unix::fs::MetadataExt;
        let spool = Spool::new(0);
        let mut file = None;
        for _ in 0..100 {
            let bytes = spool.hold(vec![7; 1 << 20]).expect("the disk has room");
            if let Held::Disk { file: known, .. } = &*bytes.0 {
                file = Some(Arc::clone(known));
            }
        }
        let used = file
            .expect("a file")
            .metadata()
            .expect("it is there")
            .blocks()
            * 512;
        assert!(used <= 4 << 20, "{used} bytes are still used");
    }
}
