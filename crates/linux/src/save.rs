//! The kernel's state as bytes.
//!
//! Always true: equal parts of the state stand at equal places for as long as possible, because
//! only lines that changed cost anything when the bytes are stored. So there are sections with
//! room to grow; processes, threads, spaces and inodes are records padded to lines; page tables, page
//! lists and frame cells are plain arrays. Restoring trusts nothing: every reference is checked.
//!
//! ```text
//! 0    "PERDKRNL"  version u32  sections u32  length u64  checksum u64 (XXH3 of all that follows)
//! 64   per section: offset u64, length u64
//! …    sections, each on a line
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::address_space::AddressSpace;
use crate::frames::Frames;
use crate::kernel::{Kernel, Settings};
use crate::machine::ThreadId;
use crate::outcome::ProgramReport;
use crate::output::Output;
use crate::process::{Process, ProcessId, Zombie};
use crate::program::Progress;
use crate::rare::Rare;
use crate::schedule::Scheduler;
use crate::thread::{Context, FutexKey, Thread};
use crate::vfs::FileSystem;
use crate::vfs::descriptor::OpenFiles;
use crate::vfs::inode::Inode;
use crate::vfs::locks::RecordLocks;
use crate::vfs::released::Released;

pub(crate) const MAGIC: &[u8; 8] = b"PERDKRNL";
pub(crate) const VERSION: u32 = 3;
pub(crate) const LINE: usize = 64;

/// The sections in their order.
#[derive(Clone, Copy)]
pub(crate) enum Section {
    Settings,
    Output,
    Core,
    Processes,
    Threads,
    Spaces,
    Inodes,
    PageLists,
    FreePageLists,
    PageTables,
    FreePageTables,
    FrameCells,
}
pub(crate) const SECTION_ORDER: [Section; 12] = [
    Section::Settings,
    Section::Output,
    Section::Core,
    Section::Processes,
    Section::Threads,
    Section::Spaces,
    Section::Inodes,
    Section::PageLists,
    Section::FreePageLists,
    Section::PageTables,
    Section::FreePageTables,
    Section::FrameCells,
];
pub(crate) const SECTIONS: usize = SECTION_ORDER.len();
/// How many sections are no arrays; they come first.
pub(crate) const LENGTHS: usize = Section::PageLists as usize;
pub(crate) const BODY: usize = (LINE + SECTIONS * 16).next_multiple_of(LINE);

/// Somebody who is told what a section holds, in the order of the bytes, by name and type.
pub(crate) trait Contents {
    /// One value.
    fn value<T: Serialize + DeserializeOwned>(&mut self, name: &'static str);
    /// A value behind its number, or nothing.
    fn part<T: Serialize + DeserializeOwned>(&mut self, number: u8, name: &'static str);
    /// A record each.
    fn records<T: Serialize + DeserializeOwned>(&mut self, name: &'static str);
    /// A record each, behind the thread's context.
    fn threads(&mut self, context: &'static str, name: &'static str);
    /// Plain numbers.
    fn array(&mut self, name: &'static str);
}

impl Section {
    /// What it holds. A section that is not told here does not compile, and neither does one told
    /// here and saved as something else decode.
    pub fn tell(self, contents: &mut impl Contents) {
        match self {
            Self::Settings => contents.value::<Settings>("settings"),
            Self::Output => contents.value::<Output>("output"),
            Self::Core => {
                contents.value::<CoreIn>("core");
                Rare::tell(contents);
            }
            Self::Processes => contents.records::<Process>("process"),
            Self::Threads => contents.threads("context", "thread"),
            Self::Spaces => contents.records::<AddressSpace>("space"),
            Self::Inodes => contents.records::<Inode>("inode"),
            Self::PageLists => contents.array("page-lists"),
            Self::FreePageLists => contents.array("free-page-lists"),
            Self::PageTables => contents.array("page-tables"),
            Self::FreePageTables => contents.array("free-page-tables"),
            Self::FrameCells => contents.array("frame-cells"),
        }
    }
}

/// The state that is neither array nor record.
#[derive(Serialize)]
struct CoreOut<'a> {
    progress: &'a [Progress],
    scheduler: &'a Scheduler,
    frames: &'a Frames,
    zombies: &'a BTreeMap<ProcessId, Zombie>,
    dead: &'a [ProcessId],
    unknown: &'a BTreeSet<u64>,
    reports: &'a [ProgramReport],
    futexes: &'a BTreeMap<FutexKey, VecDeque<ThreadId>>,
    open: &'a OpenFiles,
    locks: &'a RecordLocks,
    files: &'a FileSystem,
    released: &'a Released,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct CoreIn {
    pub progress: Vec<Progress>,
    pub scheduler: Scheduler,
    pub frames: Frames,
    pub zombies: BTreeMap<ProcessId, Zombie>,
    pub dead: Vec<ProcessId>,
    pub unknown: BTreeSet<u64>,
    pub reports: Vec<ProgramReport>,
    pub futexes: BTreeMap<FutexKey, VecDeque<ThreadId>>,
    pub open: OpenFiles,
    pub locks: RecordLocks,
    pub files: FileSystem,
    pub released: Released,
}

/// Room for a section of this length: it at least doubles before the next one has to move.
pub(crate) fn room(length: usize) -> usize {
    (length + length / 4).next_power_of_two().max(16 * LINE)
}

/// Appends a value's bytes. Serialising plain data into memory cannot fail; if it did, the
/// section would not decode and restoring would say so.
pub(crate) fn append(out: &mut Vec<u8>, value: &impl Serialize) {
    let start = out.len();
    let taken = std::mem::take(out);
    match postcard::to_extend(value, taken) {
        Ok(bytes) => *out = bytes,
        Err(error) => debug_assert!(
            false,
            "a section of {start} bytes does not serialise: {error}"
        ),
    }
}

/// Appends a record: its length, its bytes, and zeros to the end of the line.
fn append_record(out: &mut Vec<u8>, record: &[u8]) {
    out.extend((record.len() as u32).to_le_bytes());
    out.extend(record);
    out.resize(out.len().next_multiple_of(LINE), 0);
}

fn append_words(out: &mut Vec<u8>, words: &[u64]) {
    out.reserve(8 * words.len());
    for word in words {
        out.extend(word.to_le_bytes());
    }
}

fn append_halves(out: &mut Vec<u8>, halves: &[u32]) {
    out.reserve(4 * halves.len());
    for half in halves {
        out.extend(half.to_le_bytes());
    }
}

/// Words of a saved context: x0 to x31, f0 to f31, pc, fcsr.
pub(crate) const CONTEXT_WORDS: usize = 66;

fn context_words(context: &Context) -> [u64; CONTEXT_WORDS] {
    let mut words = [0; CONTEXT_WORDS];
    words[..32].copy_from_slice(&context.x);
    words[32..64].copy_from_slice(&context.f);
    words[64] = context.pc;
    words[65] = u64::from(context.fcsr);
    words
}

/// Saved bytes, section by section: `append` is called for each.
pub(crate) fn assemble(out: &mut Vec<u8>, mut append: impl FnMut(usize, &mut Vec<u8>)) {
    out.clear();
    out.resize(BODY, 0);
    let mut table = Vec::new();
    for index in 0..SECTIONS {
        let start = out.len();
        append(index, out);
        let length = out.len() - start;
        table.push((start as u64, length as u64));
        out.resize(start + room(length), 0);
    }
    for (index, (offset, length)) in table.into_iter().enumerate() {
        let at = LINE + 16 * index;
        out[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        out[at + 8..at + 16].copy_from_slice(&length.to_le_bytes());
    }
    let checksum = XxHash3_64::oneshot(&out[LINE..]);
    let length = out.len() as u64;
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&(SECTIONS as u32).to_le_bytes());
    out[16..24].copy_from_slice(&length.to_le_bytes());
    out[24..32].copy_from_slice(&checksum.to_le_bytes());
}

impl Kernel {
    /// The whole kernel state as bytes; equal parts of the state stand at equal places.
    pub fn save(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.save_into(&mut out);
        out
    }

    /// [`Kernel::save`] into a buffer that is used again.
    pub fn save_into(&self, out: &mut Vec<u8>) {
        assemble(out, |index, out| self.append_section(index, out));
    }

    /// A section's bytes.
    fn append_section(&self, index: usize, out: &mut Vec<u8>) {
        let lists = &self.files.page_lists;
        let tables = self.spaces.tables().arena();
        match SECTION_ORDER[index] {
            Section::Settings => append(out, &self.settings),
            Section::Output => append(out, &self.output),
            Section::Core => {
                let core = CoreOut {
                    progress: &self.progress,
                    scheduler: &self.scheduler,
                    frames: &self.frames,
                    zombies: &self.processes.zombies,
                    dead: &self.dead,
                    unknown: &self.unknown,
                    reports: &self.reports,
                    futexes: &self.futexes,
                    open: &self.open,
                    locks: &self.locks,
                    files: &self.files,
                    released: &self.released,
                };
                append(out, &core);
                self.rare.save(&self.open, out);
            }
            Section::Processes => {
                let processes = self.processes.live.values();
                processes.for_each(|process| save_record(out, Some(process)));
            }
            Section::Threads => {
                let threads = self.threads.values();
                threads.for_each(|thread| save_thread(out, thread));
            }
            Section::Spaces => {
                let spaces = self.spaces.slots().iter();
                spaces.for_each(|space| save_record(out, space.as_ref()));
            }
            Section::Inodes => {
                let inodes = self.files.inodes.iter();
                inodes.for_each(|inode| save_record(out, inode.as_ref()));
            }
            Section::PageLists => append_words(out, lists.slots().as_flattened()),
            Section::FreePageLists => append_halves(out, lists.free_slots()),
            Section::PageTables => append_words(out, tables.slots().as_flattened()),
            Section::FreePageTables => append_halves(out, tables.free_slots()),
            Section::FrameCells => append_halves(out, self.frames.cells()),
        }
    }

    /// Lengths of the sections that are no arrays, with what a commit adds to them.
    pub(crate) fn section_lengths(&self) -> [u64; LENGTHS] {
        let mut scratch = Vec::new();
        std::array::from_fn(|index| {
            scratch.clear();
            self.append_section(index, &mut scratch);
            let later = match SECTION_ORDER[index] {
                Section::Core => self.unreleased_bytes(),
                _ => 0,
            };
            scratch.len() as u64 + later
        })
    }
}

pub(crate) fn save_thread(out: &mut Vec<u8>, thread: &Thread) {
    append_words(out, &context_words(&thread.context));
    let mut record = Vec::new();
    append(&mut record, thread);
    append_record(out, &record);
}

/// A record; an empty one for nothing.
pub(crate) fn save_record<T: Serialize>(out: &mut Vec<u8>, value: Option<&T>) {
    let mut record = Vec::new();
    if let Some(value) = value {
        append(&mut record, value);
    }
    append_record(out, &record);
}
