//! The world outside the machine: what it has received, and when.
//!
//! Output arrives as records that say where their bytes belong in absolute terms. After a power cut
//! the machine may send a record again; the outside recognises it. A record that contradicts what
//! is already there, or leaves a gap, is a broken promise and is remembered as such.

use std::collections::BTreeMap;
use std::sync::Arc;

use perdure_linux::Release;

/// A file as the outside has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Content.
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
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
    pub streams: BTreeMap<(u32, u8), Vec<u8>>,
    /// Files by guest path; `None` for one that was removed.
    pub files: BTreeMap<String, Option<Entry>>,
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
    /// Hands every record on at once, for `perdure run`.
    pub forward: Option<Forward>,
}

impl Outside {
    /// Takes a record and the epoch that sealed it.
    pub fn receive(&mut self, epoch: u64, release: Release) {
        self.seen_epoch = self.seen_epoch.max(epoch);
        if let Some(forward) = &self.forward {
            forward(&release);
        }
        match release {
            Release::Stream {
                program,
                descriptor,
                offset,
                bytes,
            } => {
                if bytes.is_empty() {
                    return;
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
                let stream = self.streams.entry(key).or_default();
                let offset = offset.saturating_sub(base) as usize;
                if offset > stream.len() {
                    self.contradiction.get_or_insert(format!(
                        "program {program}, stream {descriptor}: bytes {}..{offset} never came",
                        stream.len()
                    ));
                    return;
                }
                let known = bytes.len().min(stream.len() - offset);
                if stream[offset..offset + known] != bytes[..known] {
                    self.contradiction.get_or_insert(format!(
                        "program {program}, stream {descriptor}: bytes from {offset} on were sent again with other content"
                    ));
                    return;
                }
                stream.extend_from_slice(&bytes[known..]);
            }
            Release::File {
                path,
                size,
                mode,
                whole,
                pieces,
            } => {
                let mut file = match self.files.remove(&path) {
                    Some(Some(Entry::File(file))) if !whole => file,
                    _ => File::default(),
                };
                file.bytes.resize(size as usize, 0);
                file.mode = mode;
                for (offset, bytes) in pieces {
                    let start = (offset as usize).min(file.bytes.len());
                    let end = (start + bytes.len()).min(file.bytes.len());
                    file.bytes[start..end].copy_from_slice(&bytes[..end - start]);
                }
                self.files.insert(path, Some(Entry::File(file)));
            }
            Release::Link { path, target } => {
                self.files.insert(path, Some(Entry::Link(target)));
            }
            Release::Removed { path } => {
                let below = format!("{path}/");
                for (_, entry) in self
                    .files
                    .iter_mut()
                    .filter(|(other, _)| other.starts_with(&below))
                {
                    *entry = None;
                }
                self.files.insert(path, None);
            }
            Release::Directory { path } => {
                self.files.insert(path, Some(Entry::Directory));
            }
        }
    }

    /// What a program wrote to a stream.
    pub fn stream(&self, program: u32, descriptor: u8) -> &[u8] {
        self.streams
            .get(&(program, descriptor))
            .map_or(&[], Vec::as_slice)
    }

    /// What differs between this and what another run sent, in words.
    pub fn difference(&self, golden: &Self) -> Option<String> {
        if let Some(contradiction) = &self.contradiction {
            return Some(contradiction.clone());
        }
        for &(program, descriptor) in self.streams.keys().chain(golden.streams.keys()) {
            let name = match descriptor {
                2 => "standard error",
                _ => "standard output",
            };
            let mine = self.stream(program, descriptor);
            let theirs = golden.stream(program, descriptor);
            if mine != theirs {
                let at = mine.iter().zip(theirs).take_while(|(a, b)| a == b).count();
                return Some(format!(
                    "program {program}: {name} differs from byte {at} on ({} bytes in place of {})",
                    mine.len(),
                    theirs.len()
                ));
            }
        }
        let paths = self.files.keys().chain(golden.files.keys());
        paths
            .into_iter()
            .find(|path| {
                self.files.get(*path).cloned().flatten()
                    != golden.files.get(*path).cloned().flatten()
            })
            .map(|path| format!("file {path} differs"))
    }
}
