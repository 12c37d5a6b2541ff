//! Where what leaves a machine goes on this host.
//!
//! Always true: the host is read-only to the guest, whatever runs it. Streams go to this process's
//! own if it passes them on, and the end of the first program's stays; files go below the folder that
//! keeps them, if there is one, and into folders that were named for being written through; nothing
//! else is touched. What the host refuses is remembered; the guest has long gone on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perdure_linux::{HostDirectories, Release};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::observer::Observer;
use crate::outside;
use crate::request::{Prepared, Request};
use crate::restart::{SHOWN_BYTES, last_lines_of};

/// Something that the guest has made and not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// A file or link: its size, and whether the host has it.
    File { size: u64, kept: bool },
    /// A directory.
    Directory,
}

#[derive(Debug)]
struct State {
    directories: HostDirectories,
    made: BTreeMap<String, Made>,
    /// What the host had and the guest has removed.
    removed: BTreeSet<String>,
    refused: Option<String>,
    /// The end of what the first program wrote to standard output.
    said: Vec<u8>,
    /// What standard streams got since the observer was told.
    unheard: Vec<(u8, Vec<u8>)>,
}

/// Hands output on to the host as it is released.
pub struct Delivery {
    passthrough: bool,
    listened: bool,
    state: Mutex<State>,
}

impl Delivery {
    /// As request and observer want it; a folder that cannot be written to is refused now.
    pub fn new(
        request: &Request,
        prepared: &Prepared,
        observer: &dyn Observer,
    ) -> Result<Self, Error> {
        let below_out = request.out.as_ref().map(|out| out.join("files"));
        let kept = request.files.clone().or(below_out);
        let mounts = prepared.workload.kernel.mounts.iter();
        let guests: Vec<&str> = mounts.map(|mount| mount.guest.as_str()).collect();
        let directories =
            HostDirectories::new(kept.as_deref(), &prepared.write_through, &guests)
                .map_err(|refusal| Error::Request(format!("the guest's files: {refusal}")))?;
        Ok(Self {
            passthrough: request.passthrough,
            listened: observer.listens(),
            state: Mutex::new(State {
                directories,
                made: BTreeMap::new(),
                removed: BTreeSet::new(),
                refused: None,
                said: Vec::new(),
                unheard: Vec::new(),
            }),
        })
    }

    /// Itself, as the outside calls it.
    pub fn receiver(self: &Arc<Self>) -> outside::Forward {
        let receiver = Arc::clone(self);
        Arc::new(move |release| receiver.take(release))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a record.
    pub fn take(&self, release: &Release) {
        if let Release::Stream {
            program,
            descriptor,
            bytes,
            ..
        } = release
        {
            if (*program, *descriptor) == (0, 1) {
                self.state().hear(bytes);
            }
            if self.listened {
                self.state().note_unheard(*descriptor, bytes);
            }
            if self.passthrough {
                // A reader that went away ends nothing: the guest has long gone on.
                let _ = match *descriptor {
                    2 => write_and_flush(std::io::stderr().lock(), bytes),
                    _ => write_and_flush(std::io::stdout().lock(), bytes),
                };
            }
            return;
        }
        let mut state = self.state();
        let kept = match state.directories.apply(release) {
            Ok(kept) => kept,
            Err(refusal) => {
                state.refused.get_or_insert_with(|| refusal.to_string());
                false
            }
        };
        state.note(release, kept);
    }

    /// Tells the observer what standard streams got since it was told.
    pub fn hand_on(&self, observer: &dyn Observer) {
        let unheard = std::mem::take(&mut self.state().unheard);
        for (descriptor, bytes) in unheard {
            observer.released(descriptor, bytes);
        }
    }

    /// Tells the observer the rest. What a result says about output: the end of what the first program
    /// said, the files that the guest wrote, and which of the host's it removed.
    pub fn finish(&self, result: &mut Map<String, Value>, observer: &dyn Observer) {
        self.hand_on(observer);
        let mut state = self.state();
        let State {
            directories,
            made,
            removed,
            refused,
            said,
            ..
        } = &mut *state;
        result.insert("output".into(), json!(last_lines_of(said)));
        if let Err(refusal) = directories.note_removed(removed) {
            refused.get_or_insert_with(|| refusal.to_string());
        }
        let files: Vec<Value> = made
            .iter()
            .filter_map(|(path, made)| match made {
                Made::File { size, kept } => {
                    let mut file = json!({"path": path, "size": size, "kept": kept});
                    if directories.lacks(path) {
                        file["refused"] = true.into();
                    }
                    Some(file)
                }
                Made::Directory => None,
            })
            .collect();
        result.insert("files".into(), json!(files));
        result.insert("removed_files".into(), json!(state.removed));
        result.insert("refused_output".into(), json!(state.refused));
    }
}

impl State {
    /// Keeps the end of what is said, and forgets the rest from time to time.
    fn hear(&mut self, bytes: &[u8]) {
        self.said.extend_from_slice(bytes);
        if self.said.len() > 4 * SHOWN_BYTES {
            self.said.drain(..self.said.len() - SHOWN_BYTES);
        }
    }

    /// Adds to what the observer is told next, in the order in which it came.
    fn note_unheard(&mut self, descriptor: u8, bytes: &[u8]) {
        match self.unheard.last_mut() {
            Some((last, more)) if *last == descriptor => more.extend_from_slice(bytes),
            _ => self.unheard.push((descriptor, bytes.to_vec())),
        }
    }

    fn note(&mut self, release: &Release, kept: bool) {
        let (path, made) = match release {
            Release::Stream { .. } => return,
            Release::File { path, size, .. } => (path, Made::File { size: *size, kept }),
            Release::Link { path, target } => {
                let size = target.len() as u64;
                (path, Made::File { size, kept })
            }
            Release::Directory { path } => (path, Made::Directory),
            Release::Removed { path } => {
                if self.made.remove(path).is_none() {
                    self.removed.insert(path.clone());
                }
                return;
            }
        };
        self.removed.remove(path);
        self.made.insert(path.clone(), made);
    }
}

/// Writes bytes that are to be seen now.
pub fn write_and_flush(mut stream: impl Write, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use perdure_linux::Bytes;

    use super::*;
    use crate::observer::Unobserved;

    fn file(path: &str, size: u64) -> Release {
        Release::File {
            path: path.into(),
            size,
            mode: 0o644,
            whole: true,
            pieces: vec![(0, Bytes::from(b"text".to_vec()))],
        }
    }

    #[test]
    fn a_result_says_which_files_the_host_has_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let directories = HostDirectories::new(Some(folder.path()), &[], &[]);
        let delivery = Delivery {
            passthrough: false,
            listened: false,
            state: Mutex::new(State {
                directories: directories.expect("a folder"),
                made: BTreeMap::new(),
                removed: BTreeSet::new(),
                refused: None,
                said: Vec::new(),
                unheard: Vec::new(),
            }),
        };
        for (path, size) in [("/work/a", 4), ("/work/b", u64::MAX), ("/work/c", u64::MAX)] {
            delivery.take(&file(path, size));
        }
        delivery.take(&file("/work/c", 4));
        let mut result = Map::new();
        delivery.finish(&mut result, &Unobserved);
        let expected = json!([
            {"path": "/work/a", "size": 4, "kept": true},
            {"path": "/work/b", "size": u64::MAX, "kept": false, "refused": true},
            {"path": "/work/c", "size": 4, "kept": true},
        ]);
        assert_eq!(result["files"], expected);
        let refused = result["refused_output"].as_str().expect("a refusal");
        assert!(refused.starts_with("/work/b: "), "{refused}");
        let kept = std::fs::read_dir(folder.path().join("work")).expect("a folder");
        assert_eq!(kept.count(), 2);
    }
}
