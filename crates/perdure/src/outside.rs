//! The world outside the machine: what it has received, and when.
//!
//! Output arrives as records that say where their bytes belong in absolute terms. After a power cut
//! the machine may send a record again; the outside recognises it. A record that contradicts what
//! is already there, or leaves a gap, is a broken promise and is remembered as such.
//!
//! Always true: files take the room of the pages that were written, whatever size they claim; what is
//! more than the spool holds in memory lies on the disk; and where nobody will compare, nothing is
//! kept but sizes and digests.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use perdure_linux::{Bytes, PAGE_BYTES, Release, Spool};
use twox_hash::XxHash3_128;

/// Bytes of a stream that are kept as one piece.
const PIECE_BYTES: usize = 64 << 10;

/// What came of a stream: whole pieces, and the rest.
#[derive(Clone, Default)]
pub struct Stream {
    pieces: Vec<Bytes>,
    rest: Vec<u8>,
    length: u64,
    digest: Box<XxHash3_128>,
    /// Only its length and digest are wanted.
    forgets: bool,
}

impl Stream {
    /// How many bytes.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Of all bytes, in their order.
    pub fn digest(&self) -> u128 {
        self.digest.finish_128()
    }

    fn append(&mut self, spool: &Spool, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len() as u64;
        self.digest.write(bytes);
        if self.forgets {
            return Ok(());
        }
        self.rest.extend_from_slice(bytes);
        while self.rest.len() >= PIECE_BYTES {
            let later = self.rest.split_off(PIECE_BYTES);
            let piece = std::mem::replace(&mut self.rest, later);
            self.pieces.push(spool.hold(piece)?);
        }
        Ok(())
    }

    /// Bytes from `start` on, as far as they are kept, in pieces.
    fn after(&self, start: u64) -> impl Iterator<Item = io::Result<Vec<u8>>> + '_ {
        let first = (start as usize / PIECE_BYTES).min(self.pieces.len());
        let kept = self.pieces[first..].iter();
        let pieces = kept.map(|piece| piece.read().map(std::borrow::Cow::into_owned));
        let mut skip = start as usize - first * PIECE_BYTES;
        pieces
            .chain(std::iter::once_with(|| Ok(self.rest.clone())))
            .map(move |piece| {
                let mut piece = piece?;
                let skipped = std::mem::take(&mut skip).min(piece.len());
                Ok(piece.split_off(skipped))
            })
    }

    /// True if the bytes from `start` on begin with these.
    fn says(&self, start: u64, bytes: &[u8]) -> io::Result<bool> {
        let mut rest = bytes;
        for piece in self.after(start) {
            if self.forgets || rest.is_empty() {
                break;
            }
            let piece = piece?;
            let (now, later) = rest.split_at(rest.len().min(piece.len()));
            if *now != piece[..now.len()] {
                return Ok(false);
            }
            rest = later;
        }
        Ok(true)
    }

    /// The first bytes, at most so many.
    pub fn first(&self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for piece in self.after(0) {
            if bytes.len() >= most {
                break;
            }
            bytes.extend(piece?);
        }
        bytes.truncate(most);
        Ok(bytes)
    }

    /// Where this and another stream differ first; `None` if they are equal.
    fn difference(&self, other: &Self) -> io::Result<Option<u64>> {
        if self.length == other.length && self.digest() == other.digest() {
            return Ok(None);
        }
        let pairs = self.pieces.iter().zip(&other.pieces);
        let equal = pairs.take_while(|(mine, theirs)| mine == theirs).count();
        let mut at = (equal * PIECE_BYTES) as u64;
        for (mine, theirs) in self.after(at).zip(other.after(at)) {
            let (mine, theirs) = (mine?, theirs?);
            let same = mine.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
            at += same as u64;
            if same < PIECE_BYTES {
                break;
            }
        }
        Ok(Some(at))
    }
}

/// A file as the outside has it. What no page holds is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Its size.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Pages by their numbers; none ends beyond the file's end, and none is all zeros.
    pages: BTreeMap<u64, Bytes>,
}

impl File {
    /// Takes a record's word for size, mode and some pages.
    fn apply(
        &mut self,
        spool: &Spool,
        size: u64,
        mode: u32,
        pieces: Vec<(u64, Bytes)>,
    ) -> io::Result<()> {
        if size < self.size {
            self.pages.split_off(&size.div_ceil(PAGE_BYTES));
            let last = size / PAGE_BYTES;
            if let Some(page) = self.pages.remove(&last) {
                self.put(spool, last, &page.read()?, size)?;
            }
        }
        (self.size, self.mode) = (size, mode);
        for (offset, bytes) in pieces {
            let page = offset / PAGE_BYTES;
            if bytes.len() as u64 == PAGE_BYTES && offset + PAGE_BYTES <= size {
                // Shared with the record.
                let zero = bytes.read()?.iter().all(|&byte| byte == 0);
                self.pages.insert(page, bytes);
                if zero {
                    self.pages.remove(&page);
                }
            } else {
                self.put(spool, page, &bytes.read()?, size)?;
            }
        }
        Ok(())
    }

    /// A page's bytes, without zeros at its end, so that equal content has one form.
    fn put(&mut self, spool: &Spool, page: u64, bytes: &[u8], size: u64) -> io::Result<()> {
        let room = size.saturating_sub(page * PAGE_BYTES).min(PAGE_BYTES);
        let bytes = &bytes[..bytes.len().min(room as usize)];
        let length = bytes
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        if length == 0 {
            self.pages.remove(&page);
            return Ok(());
        }
        let mut whole = bytes[..length].to_vec();
        whole.resize(PAGE_BYTES as usize, 0);
        self.pages.insert(page, spool.hold(whole)?);
        Ok(())
    }

    fn pieces(&self) -> Vec<(u64, Bytes)> {
        let pages = self.pages.iter();
        pages
            .map(|(page, bytes)| (page * PAGE_BYTES, bytes.clone()))
            .collect()
    }

    /// Its content; for files that are known to be small.
    pub fn content(&self) -> io::Result<Vec<u8>> {
        let mut content = vec![0; self.size as usize];
        for (page, bytes) in &self.pages {
            let start = (page * PAGE_BYTES) as usize;
            let bytes = bytes.read()?;
            let end = content.len().min(start + bytes.len());
            content[start..end].copy_from_slice(&bytes[..end - start]);
        }
        Ok(content)
    }
}

/// An entry under a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file.
    File(File),
    /// A symbolic link and its target.
    Link(String),
    /// A directory.
    Directory,
}

/// Bytes of a stream came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Program and descriptor.
    pub stream: (u32, u8),
    /// Where they end, counted from the program's start.
    pub end: u64,
    /// The epoch that sealed them.
    pub epoch: u64,
}

/// Where records go on to.
pub type Forward = Arc<dyn Fn(&Release) + Send + Sync>;

/// What has left the machine.
#[derive(Clone, Default)]
pub struct Outside {
    /// Standard output (1) and standard error (2) of each program that wrote any.
    pub streams: BTreeMap<(u32, u8), Stream>,
    /// Files by guest path; those that are gone are not there.
    pub files: BTreeMap<String, Entry>,
    /// The newest epoch that sealed something that was seen: recovery must not be older.
    pub seen_epoch: u64,
    /// Filled for the judge, if present: what came of streams.
    pub receipts: Option<Vec<Receipt>>,
    /// Where each stream begins here, if this outside came in the middle.
    pub bases: BTreeMap<(u32, u8), u64>,
    /// It has not seen what came before: the first record of a stream may begin anywhere.
    pub midway: bool,
    /// What contradicted itself, in words.
    pub contradiction: Option<String>,
    /// Why it could not take a record.
    pub failure: Option<String>,
    /// Hands every record on at once, for `perdure run`.
    pub forward: Option<Forward>,
    /// Nobody will compare it with another one: content is handed on and forgotten.
    pub forgets: bool,
    /// Where content is kept.
    pub spool: Spool,
}

impl Outside {
    /// One that holds so many bytes in memory.
    pub fn new(memory_bytes: u64) -> Self {
        Self {
            spool: Spool::new(memory_bytes),
            ..Self::default()
        }
    }

    /// Takes a record and the epoch that sealed it.
    pub fn receive(&mut self, epoch: u64, release: Release) {
        self.seen_epoch = self.seen_epoch.max(epoch);
        if let Some(forward) = &self.forward {
            forward(&release);
        }
        if let Err(error) = self.take(epoch, release) {
            self.failure.get_or_insert_with(|| error.to_string());
        }
    }

    fn take(&mut self, epoch: u64, release: Release) -> io::Result<()> {
        if !self.forgets && !matches!(release, Release::Stream { .. }) {
            return self.take_file(release);
        }
        let Release::Stream {
            program,
            descriptor,
            offset,
            bytes,
        } = release
        else {
            return Ok(());
        };
        if bytes.is_empty() {
            return Ok(());
        }
        let key = (program, descriptor);
        if let Some(receipts) = &mut self.receipts {
            receipts.push(Receipt {
                stream: key,
                end: offset + bytes.len() as u64,
                epoch,
            });
        }
        let base = if self.midway {
            *self.bases.entry(key).or_insert(offset)
        } else {
            0
        };
        let stream = self.streams.entry(key).or_insert_with(|| Stream {
            forgets: self.forgets,
            ..Stream::default()
        });
        let offset = offset.saturating_sub(base);
        if offset > stream.len() {
            let length = stream.len();
            self.contradiction.get_or_insert(format!(
                "program {program}, stream {descriptor}: bytes {length}..{offset} never came"
            ));
            return Ok(());
        }
        let known = bytes.len().min((stream.len() - offset) as usize);
        if !stream.says(offset, &bytes[..known])? {
            self.contradiction.get_or_insert(format!(
                "program {program}, stream {descriptor}: bytes from {offset} on were sent again with other content"
            ));
            return Ok(());
        }
        stream.append(&self.spool, &bytes[known..])
    }

    fn take_file(&mut self, release: Release) -> io::Result<()> {
        let (path, entry) = match release {
            Release::Stream { .. } => return Ok(()),
            Release::File {
                path,
                size,
                mode,
                whole,
                pieces,
            } => {
                let mut file = match self.files.remove(&path) {
                    Some(Entry::File(file)) if !whole => file,
                    _ => File::default(),
                };
                file.apply(&self.spool, size, mode, pieces)?;
                (path, Entry::File(file))
            }
            Release::Link { path, target } => (path, Entry::Link(target)),
            Release::Directory { path } => (path, Entry::Directory),
            Release::Removed { path } => {
                let below = format!("{path}/");
                let inner = self.files.range(below.clone()..);
                let inner = inner.take_while(|(other, _)| other.starts_with(&below));
                let inner: Vec<String> = inner.map(|(other, _)| other.clone()).collect();
                for other in inner {
                    self.files.remove(&other);
                }
                self.files.remove(&path);
                return Ok(());
            }
        };
        self.files.insert(path, entry);
        Ok(())
    }

    /// What a program wrote to a stream, its first MiB; empty if that cannot be read.
    pub fn stream(&self, program: u32, descriptor: u8) -> Vec<u8> {
        const SHOWN_BYTES: usize = 1 << 20;
        let stream = self.streams.get(&(program, descriptor));
        let first = stream.map(|stream| stream.first(SHOWN_BYTES));
        first.and_then(Result::ok).unwrap_or_default()
    }

    /// Writes everything that a program wrote to a stream.
    pub fn copy_stream(
        &self,
        program: u32,
        descriptor: u8,
        to: &mut dyn io::Write,
    ) -> io::Result<()> {
        let Some(stream) = self.streams.get(&(program, descriptor)) else {
            return Ok(());
        };
        stream.after(0).try_for_each(|piece| to.write_all(&piece?))
    }

    /// The records that make the files as they are.
    pub fn file_releases(&self) -> impl Iterator<Item = Release> + '_ {
        self.files.iter().map(|(path, entry)| {
            let path = path.clone();
            match entry {
                Entry::File(file) => Release::File {
                    path,
                    size: file.size,
                    mode: file.mode,
                    whole: true,
                    pieces: file.pieces(),
                },
                Entry::Link(target) => Release::Link {
                    path,
                    target: target.clone(),
                },
                Entry::Directory => Release::Directory { path },
            }
        })
    }

    /// What differs between this and what another run sent, in words.
    pub fn difference(&self, golden: &Self) -> Option<String> {
        if let Some(contradiction) = &self.contradiction {
            return Some(contradiction.clone());
        }
        let nothing = Stream::default();
        for key in self.streams.keys().chain(golden.streams.keys()) {
            let (program, descriptor) = *key;
            let name = match descriptor {
                2 => "standard error",
                _ => "standard output",
            };
            let mine = self.streams.get(key).unwrap_or(&nothing);
            let theirs = golden.streams.get(key).unwrap_or(&nothing);
            match mine.difference(theirs) {
                Ok(None) => {}
                Ok(Some(at)) => {
                    return Some(format!(
                        "program {program}: {name} differs from byte {at} on ({} bytes in place of {})",
                        mine.len(),
                        theirs.len()
                    ));
                }
                Err(error) => return Some(format!("program {program}: {name}: {error}")),
            }
        }
        let paths = self.files.keys().chain(golden.files.keys());
        paths
            .into_iter()
            .find(|path| self.files.get(*path) != golden.files.get(*path))
            .map(|path| format!("file {path} differs"))
    }
}

#[cfg(test)]
mod tests {
    use perdure_hardware::random::Random;

    use super::*;

    const PATH: &str = "/work/file";

    fn stream(offset: u64, bytes: &[u8]) -> Release {
        Release::Stream {
            program: 0,
            descriptor: 1,
            offset,
            bytes: bytes.to_vec(),
        }
    }

    fn file(size: u64, whole: bool, pieces: &[(u64, Vec<u8>)]) -> Release {
        let pieces = pieces.iter();
        Release::File {
            path: PATH.into(),
            size,
            mode: 0o644,
            whole,
            pieces: pieces
                .map(|(offset, bytes)| (*offset, Bytes::from(bytes.clone())))
                .collect(),
        }
    }

    fn content(outside: &Outside) -> Vec<u8> {
        let Some(Entry::File(file)) = outside.files.get(PATH) else {
            panic!("a file")
        };
        file.content().expect("it reads")
    }

    /// Random records make the file that a plain array says, and equal files are equal whichever
    /// records they came by, in memory or on the disk.
    #[test]
    fn sparse_files_agree_with_plain_ones() {
        const SEED: u64 = 3;
        let mut random = Random::new(SEED);
        let mut below = move |bound: u64| random.below(bound);
        let mut outside = Outside::new(10 * PAGE_BYTES);
        let mut plain: Vec<u8> = Vec::new();
        for step in 0..3000 {
            let (size, whole) = (below(20 * PAGE_BYTES), below(20) == 0);
            let mut pieces = Vec::new();
            for page in 0..size.div_ceil(PAGE_BYTES) {
                if below(3) == 0 {
                    let length = PAGE_BYTES.min(size - page * PAGE_BYTES) as usize;
                    let value = below(3) as u8;
                    let mut bytes = vec![value; length];
                    bytes[length / 2..].fill(value * below(2) as u8);
                    pieces.push((page * PAGE_BYTES, bytes));
                }
            }
            if whole {
                plain.clear();
            }
            plain.resize(size as usize, 0);
            for (offset, bytes) in &pieces {
                plain[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            outside.receive(step, file(size, whole, &pieces));
            assert!(content(&outside) == plain, "step {step} of seed {SEED}");
            let mut dense = Outside::default();
            let pages = (0..).zip(plain.chunks(PAGE_BYTES as usize));
            let pages: Vec<_> = pages
                .map(|(page, bytes)| (page * PAGE_BYTES, bytes.to_vec()))
                .collect();
            dense.receive(0, file(size, true, &pages));
            assert_eq!(
                outside.difference(&dense),
                None,
                "step {step} of seed {SEED}"
            );
            let mut copy = Outside::default();
            for release in outside.file_releases() {
                copy.receive(0, release);
            }
            assert_eq!(
                copy.difference(&outside),
                None,
                "step {step} of seed {SEED}"
            );
            assert!(outside.spool.in_memory() <= 10 * PAGE_BYTES);
        }
        assert_eq!(outside.failure, None);
    }

    #[test]
    fn a_file_takes_no_room_for_what_was_never_written() {
        let mut outside = Outside::default();
        let end = 1 << 40;
        outside.receive(1, file(end, true, &[(end - 4096, vec![1; 4096])]));
        outside.receive(2, file(end + 5, false, &[]));
        let Some(Entry::File(file)) = outside.files.get(PATH) else {
            panic!("a file")
        };
        assert_eq!((file.size, file.pages.len()), (end + 5, 1));
    }

    /// A stream that lies on the disk: what is sent again is recognised, what contradicts it too, and
    /// two streams differ where they do.
    #[test]
    fn streams_on_the_disk_are_compared_like_those_in_memory() {
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        let received = |bytes: &[u8]| {
            let mut outside = Outside::new(0);
            for (index, piece) in bytes.chunks(777).enumerate() {
                outside.receive(1, stream(index as u64 * 777, piece));
            }
            outside
        };
        let golden = received(&bytes);
        assert_eq!(golden.spool.in_memory(), 0);
        assert_eq!(golden.stream(0, 1), bytes);
        let mut again = golden.clone();
        again.receive(2, stream(100_000, &bytes[100_000..]));
        assert_eq!(again.contradiction, None);
        assert_eq!(again.difference(&golden), None);
        for at in [0, 65_535, 65_536, 400_000, 999_999] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            let mut contradicted = golden.clone();
            contradicted.receive(2, stream(0, &other));
            let told = contradicted.contradiction.expect("it contradicts itself");
            assert!(told.contains("sent again with other content"), "{told}");
            let told = received(&other).difference(&golden).expect("they differ");
            assert!(
                told.contains(&format!("differs from byte {at} on")),
                "{told}"
            );
        }
        for length in [0, 65_536, 999_999] {
            let told = received(&bytes[..length]).difference(&golden);
            let told = told.expect("they differ");
            assert!(
                told.contains(&format!("differs from byte {length} on")),
                "{told}"
            );
        }
        let mut gap = golden.clone();
        gap.receive(2, stream(1_000_001, b"x"));
        assert!(gap.contradiction.expect("a gap").contains("never came"));
    }
}
