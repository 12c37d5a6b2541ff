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
use xxhash_rust::xxh3::xxh3_64;

use crate::address_space::{AddressSpace, Spaces};
use crate::arena::Arena;
use crate::frames::Frames;
use crate::kernel::{Kernel, Settings};
use crate::limits::LIMITS;
use crate::machine::ThreadId;
use crate::outcome::ProgramReport;
use crate::output::Output;
use crate::page_table::{PageTables, frame_of};
use crate::process::{Process, ProcessId, Processes, Zombie};
use crate::program::Progress;
use crate::rare::Rare;
use crate::room::Room;
use crate::schedule::Scheduler;
use crate::signal::{SIGNAL_MAX, SignalInfo};
use crate::thread::{Context, FutexKey, Thread, ThreadState, Wait};
use crate::vfs::content::FILE_BYTES_MAX;
use crate::vfs::descriptor::OpenFiles;
use crate::vfs::inode::{CHUNK_PAGES, Inode, Node, PAGE_FRAME_SHIFT, PAGE_PRESENT};
use crate::vfs::locks::RecordLocks;
use crate::vfs::released::Released;
use crate::vfs::{FileSystem, HostView};

const MAGIC: &[u8; 8] = b"PERDKRNL";
const VERSION: u32 = 3;
const LINE: usize = 64;

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
const BODY: usize = (LINE + SECTIONS * 16).next_multiple_of(LINE);

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

/// Why saved bytes are not a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Not a saved kernel.
    #[error("saved kernel: the bytes do not begin like one")]
    Magic,
    /// From another version.
    #[error("saved kernel: version {0}, but this build reads version {VERSION}")]
    Version(u32),
    /// Cut off.
    #[error("saved kernel: {0} bytes, but its header speaks of {1}")]
    Length(u64, u64),
    /// Changed bytes.
    #[error("saved kernel: the checksum does not match; the bytes are damaged")]
    Checksum,
    /// Bytes that decode to nothing.
    #[error("saved kernel: the section {0} does not decode; the bytes are damaged")]
    Section(&'static str),
    /// Contents that contradict each other.
    #[error("saved kernel: {0}; the bytes are damaged")]
    Inconsistent(&'static str),
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
struct CoreIn {
    progress: Vec<Progress>,
    scheduler: Scheduler,
    frames: Frames,
    zombies: BTreeMap<ProcessId, Zombie>,
    dead: Vec<ProcessId>,
    unknown: BTreeSet<u64>,
    reports: Vec<ProgramReport>,
    futexes: BTreeMap<FutexKey, VecDeque<ThreadId>>,
    open: OpenFiles,
    locks: RecordLocks,
    files: FileSystem,
    released: Released,
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
const CONTEXT_WORDS: usize = 66;

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
    let checksum = xxh3_64(&out[LINE..]);
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

    /// The kernel from bytes written by [`Kernel::save`]; more bytes may follow them.
    pub fn restore(bytes: &[u8], host: HostView) -> Result<Self, RestoreError> {
        let sections = sections(bytes)?;
        let part = |section: Section| sections[section as usize];
        let settings: Settings = decode(part(Section::Settings), "settings")?;
        let (core, rare) = core(part(Section::Core)).ok_or(RestoreError::Section("core"))?;
        let output = decode(part(Section::Output), "output")?;
        let threads = threads(part(Section::Threads))?;
        let mut files = core.files;
        files.inodes = records(part(Section::Inodes), "inodes")?;
        files.page_lists = arena(
            part(Section::PageLists),
            part(Section::FreePageLists),
            "page lists",
        )?;
        let mut frames = core.frames;
        let cells = halves(part(Section::FrameCells)).ok_or(RestoreError::Section("frames"))?;
        frames
            .set_cells(cells)
            .map_err(RestoreError::Inconsistent)?;
        let tables = arena(
            part(Section::PageTables),
            part(Section::FreePageTables),
            "page tables",
        )?;
        let spaces: Vec<Option<AddressSpace>> = records(part(Section::Spaces), "spaces")?;
        let roots: Vec<u32> = spaces.iter().flatten().map(AddressSpace::root).collect();
        let tables = PageTables::from_arena(tables, &roots, |leaf| frames.is_held(frame_of(leaf)))
            .map_err(RestoreError::Inconsistent)?;
        let processes: Vec<Option<Process>> = records(part(Section::Processes), "processes")?;
        let live = processes.into_iter().flatten();
        let processes = Processes {
            live: live.map(|process| (process.id, process)).collect(),
            zombies: core.zombies,
        };
        let mut scheduler = core.scheduler;
        scheduler.deadlines = threads
            .values()
            .filter_map(|thread| match thread.state {
                ThreadState::Blocked {
                    deadline_ns: Some(at),
                    ..
                } => Some((at, thread.id)),
                _ => None,
            })
            .collect();
        let exit = Kernel::overall_exit(&settings, &core.reports);
        let kernel = Self {
            settings,
            frames,
            spaces: Spaces::from_parts(spaces, tables),
            files,
            open: core.open,
            locks: core.locks,
            processes,
            threads,
            scheduler,
            dead: core.dead,
            futexes: core.futexes,
            output,
            released: core.released,
            room: Room::default(),
            rare,
            progress: core.progress,
            unknown: core.unknown,
            exit,
            reports: core.reports,
            host,
        };
        kernel.validate().map_err(RestoreError::Inconsistent)?;
        Ok(kernel)
    }

    /// Everything that is named exists, and every count is right.
    fn validate(&self) -> Result<(), &'static str> {
        if !(1..=1024).contains(&self.settings.harts) || self.scheduler.running.len() > 1024 {
            return Err("the number of harts is impossible");
        }
        self.validate_programs()?;
        self.validate_spaces()?;
        self.validate_files()?;
        let processes = self.processes.live.values();
        let descriptors = processes.flat_map(|process| process.descriptors.iter());
        let descriptors = descriptors.map(|(_, descriptor)| descriptor.file);
        let held = self.rare.asynchronous.held_files();
        let holders = (descriptors.chain(self.rare.sockets.files_in_flight())).chain(held);
        self.open
            .validate(&self.files, &self.rare.sockets, holders)?;
        self.rare.sockets.validate(&self.files, &self.open)?;
        self.validate_frames()?;
        self.validate_processes()?;
        self.validate_jobs()?;
        self.validate_timers()?;
        self.validate_terminals()?;
        self.validate_watches()?;
        self.validate_rare()?;
        self.validate_threads()
    }

    /// What few programs have is about threads and files that exist.
    fn validate_rare(&self) -> Result<(), &'static str> {
        let rare = &self.rare;
        let mut threads = rare.wishes.keys().chain(rare.lock_waits.keys());
        if !threads.all(|id| self.threads.contains_key(id)) {
            return Err("a thread that is gone wishes or waits for something");
        }
        let mut wishes = rare.wishes.values();
        if !wishes.all(|wishes| wishes.death_signal <= SIGNAL_MAX) {
            return Err("a signal has an impossible number");
        }
        let mut spaces = rare.future_locks.iter();
        if !spaces.all(|&id| self.spaces.get(id).is_some()) {
            return Err("memory is locked in a space that is gone");
        }
        if !rare.seals.keys().all(|&id| self.files.file(id).is_ok()) {
            return Err("a seal is on no file");
        }
        rare.system_v.validate(
            |id| self.files.file(id).is_ok(),
            |id| self.threads.contains_key(id),
        )?;
        self.validate_owners()?;
        self.validate_asynchronous()?;
        self.validate_attributes()?;
        self.validate_queues()
    }

    fn validate_programs(&self) -> Result<(), &'static str> {
        let programs = &self.settings.programs;
        let count = programs.len();
        let counts = [self.progress.len(), self.reports.len()];
        if !(1..=1024).contains(&count) || counts != [count; 2] || !self.output.is_valid(count) {
            return Err("there are records of too many or too few programs");
        }
        for (place, (progress, program)) in self.progress.iter().zip(programs).enumerate() {
            if progress.stdin_offset > program.input().len() as u64 {
                return Err("the position of standard input is wrong");
            }
            let next = progress.next_number;
            if next as usize % count != (place + 1) % count || next > 1 << 30 {
                return Err("the numbers of processes are wrong");
            }
        }
        Ok(())
    }

    /// True if a program may have given this number to a process or thread.
    fn number_is_of(&self, number: u32, program: u32) -> bool {
        let count = self.progress.len();
        let progress = self.progress.get(program as usize);
        progress.is_some_and(|progress| number > 0 && number < progress.next_number)
            && number as usize % count == (program as usize + 1) % count
    }

    fn validate_spaces(&self) -> Result<(), &'static str> {
        for (id, space) in self.spaces.iter() {
            space.validate()?;
            let users = self.processes.live.values();
            let users = users.filter(|process| process.space == id).count();
            if users == 0 || space.users as usize != users {
                return Err("an address space has the wrong number of processes");
            }
        }
        Ok(())
    }

    fn validate_processes(&self) -> Result<(), &'static str> {
        let signal_exists = |signal: u8| (1..=SIGNAL_MAX).contains(&signal);
        for process in self.processes.live.values() {
            if !self.number_is_of(process.id.0, process.program)
                || self.spaces.get(process.space).is_none()
                || self.files.directory(process.directory).is_err()
                || process.limits.len() != LIMITS
                || process.exit_signal > SIGNAL_MAX
            {
                return Err("a process is impossible");
            }
            let threads = self.threads_of(process.id);
            let threads = threads.iter().filter_map(|id| self.threads.get(id));
            let pending = threads.flat_map(|thread| &thread.pending);
            let mut infos: Vec<&SignalInfo> = pending.chain(&process.pending).collect();
            infos.retain(|info| !signal_exists(info.signal));
            if !infos.is_empty() || !process.actions.keys().copied().all(signal_exists) {
                return Err("a signal has an impossible number");
            }
            let buried_soon = self.dead.contains(&process.id) || self.exit.is_some();
            if self.threads_of(process.id).is_empty() && !buried_soon {
                return Err("a process has no threads");
            }
        }
        let ended = |id: &ProcessId| {
            let process = self.processes.get(*id);
            process.is_some_and(|process| process.ending.is_some())
                && self.threads_of(*id).is_empty()
        };
        let mut zombies = self.processes.zombies.iter();
        if !self.dead.iter().all(ended)
            || !zombies.all(|(id, zombie)| {
                self.number_is_of(id.0, zombie.program) && self.processes.get(*id).is_none()
            })
        {
            return Err("a process that ended is impossible");
        }
        Ok(())
    }

    fn validate_files(&self) -> Result<(), &'static str> {
        let files = &self.files;
        let mut free: Vec<_> = files.free.clone();
        free.sort_unstable();
        free.dedup();
        let is_free =
            |id: &crate::vfs::InodeId| files.inodes.get(id.0 as usize).is_some_and(Option::is_none);
        let empty = files.inodes.iter().filter(|inode| inode.is_none()).count();
        if free.len() != files.free.len() || free.len() != empty || !free.iter().all(is_free) {
            return Err("the list of free inodes is wrong");
        }
        let mut slots = BTreeSet::new();
        let count = files.page_lists.slots().len();
        let mut claims = |slot: u32| (slot as usize) < count && slots.insert(slot);
        for &slot in files.page_lists.free_slots() {
            if !claims(slot) || files.page_lists.get(slot).iter().any(|&word| word != 0) {
                return Err("the list of free page lists is wrong");
            }
        }
        for inode in files.inodes.iter().flatten() {
            match &inode.node {
                Node::File(file) => {
                    let sizes = file.size <= FILE_BYTES_MAX && file.host_bytes <= file.size;
                    let last = FILE_BYTES_MAX / (CHUNK_PAGES as u64 * 4096);
                    let held = file.chunks.iter().try_fold(0, |held, (&chunk, &slot)| {
                        let words = || files.page_lists.get(slot).iter();
                        let known = chunk <= last && claims(slot);
                        known.then(|| held + words().filter(|&&word| word != 0).count() as u64)
                    });
                    if !sizes || held != Some(file.pages_held) {
                        return Err("a file's size or pages are wrong");
                    }
                }
                Node::Directory(directory) => {
                    let exists = |id: &Option<crate::vfs::InodeId>| {
                        id.is_none_or(|id| files.inode(id).is_ok())
                    };
                    let parent = files.directory(directory.parent).is_ok();
                    if !directory.entries.values().all(exists) || !parent && inode.links > 0 {
                        return Err("a directory names something that does not exist");
                    }
                }
                _ => {}
            }
        }
        self.validate_tree()
    }

    /// From the root, every directory is reached at most once.
    fn validate_tree(&self) -> Result<(), &'static str> {
        let files = &self.files;
        let mut reached = BTreeSet::from([files.root]);
        let mut waiting = vec![files.root];
        while let Some(id) = waiting.pop() {
            let directory = files
                .directory(id)
                .map_err(|_| "the root is not a directory")?;
            for &child in directory.entries.values().flatten() {
                if files.directory(child).is_ok() {
                    if !reached.insert(child) {
                        return Err("a directory stands at two places");
                    }
                    waiting.push(child);
                }
            }
        }
        let mounted = files
            .mounts
            .iter()
            .all(|mount| reached.contains(&mount.inode));
        let first = files.directory(self.settings.first_directory).is_ok();
        if mounted && first {
            Ok(())
        } else {
            Err("a mount or the first directory is missing")
        }
    }

    /// The holders of every frame are as many as its count says.
    fn validate_frames(&self) -> Result<(), &'static str> {
        let mut holders: BTreeMap<u64, u32> = BTreeMap::new();
        for (id, _) in self.spaces.iter() {
            self.spaces.for_each_page(id, |_, leaf| {
                *holders.entry(frame_of(leaf)).or_default() += 1;
            });
        }
        for &word in self.files.page_lists.slots().as_flattened() {
            if word == 0 {
                continue;
            }
            let frame = word >> PAGE_FRAME_SHIFT;
            if word & PAGE_PRESENT == 0 || !self.frames.is_held(frame) {
                return Err("a page list names no frame in use");
            }
            *holders.entry(frame).or_default() += 1;
        }
        let right = holders
            .iter()
            .all(|(&frame, &count)| self.frames.holders(frame) == count);
        let used = self.frames.total() - self.frames.free();
        if !right || used != holders.len() as u64 {
            return Err("a frame has the wrong number of holders");
        }
        let spaces = self.spaces.slots().iter().flatten();
        let mapped = spaces
            .clone()
            .flat_map(|space| space.mappings.values())
            .filter_map(super::address_space::Mapping::inode);
        let mut images = spaces.flat_map(|space| &space.images);
        for inode in mapped {
            if self.files.file(inode).is_err() {
                return Err("a mapping names no file");
            }
        }
        // Images only serve reports; their inodes may be gone, but must be sane numbers.
        if images.any(|image| image.inode.0 as usize > self.files.inodes.len()) {
            return Err("a loaded image names no inode");
        }
        Ok(())
    }

    fn validate_threads(&self) -> Result<(), &'static str> {
        let wrong = Err("a thread is in two places or in none");
        let mut ready = BTreeSet::new();
        for id in &self.scheduler.ready {
            let state = self.threads.get(id).map(|thread| thread.state);
            if state != Some(ThreadState::Ready) || !ready.insert(*id) {
                return wrong;
            }
        }
        let queues: usize = self.futexes.values().map(VecDeque::len).sum();
        let mut waiting = 0;
        let waits_for_several = |id: &ThreadId| {
            let state = self.threads.get(id).map(|thread| thread.state);
            matches!(
                state,
                Some(ThreadState::Blocked {
                    wait: Wait::Futexes,
                    ..
                })
            )
        };
        if !self.rare.futex_lists.keys().all(waits_for_several) {
            return wrong;
        }
        for (id, thread) in &self.threads {
            let placed = match thread.state {
                ThreadState::Ready => ready.contains(id),
                ThreadState::Running { hart } => {
                    self.scheduler.running.get(hart as usize) == Some(&Some(*id))
                }
                ThreadState::Blocked {
                    wait: wait @ (Wait::Futex { .. } | Wait::Futexes | Wait::FutexMove { .. }),
                    ..
                } => {
                    let keys = self.futex_keys(*id, wait);
                    waiting += keys.len();
                    let stands = |key: &FutexKey| {
                        let queue = self.futexes.get(key);
                        queue.is_some_and(|queue| queue.iter().filter(|w| *w == id).count() == 1)
                    };
                    !keys.is_empty() && keys.iter().all(stands)
                }
                ThreadState::Blocked {
                    wait: Wait::Fifo { inode, .. },
                    ..
                } => (self.files.inode(inode)).is_ok_and(|inode| matches!(inode.node, Node::Fifo)),
                ThreadState::Blocked { .. } => true,
                ThreadState::Stopped => self.is_stopped(thread.process),
            };
            let Some(process) = self.processes.get(thread.process) else {
                return Err("a thread belongs to no process");
            };
            if !placed || thread.id != *id || !self.number_is_of(id.0, process.program) {
                return wrong;
            }
        }
        let running = self.scheduler.running.iter().flatten().count();
        let on_harts = self.threads.values();
        let on_harts = on_harts
            .filter(|t| matches!(t.state, ThreadState::Running { .. }))
            .count();
        if queues != waiting || running != on_harts || self.futexes.values().any(VecDeque::is_empty)
        {
            return wrong;
        }
        Ok(())
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

fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let raw = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(raw.try_into().ok()?))
}

/// Where the sections are, from the header alone: whoever uses this answers for the bytes in another
/// way than by their checksum.
pub(crate) struct SavedSections([(u64, u64); SECTIONS]);

impl SavedSections {
    /// Bytes of the header.
    pub const BYTES: usize = BODY;

    /// From the header's bytes.
    pub fn read(header: &[u8]) -> Result<Self, RestoreError> {
        if header.len() < BODY || !header.starts_with(MAGIC) {
            return Err(RestoreError::Magic);
        }
        let second = word_at(header, 8).unwrap_or(0);
        if second as u32 != VERSION || second >> 32 != SECTIONS as u64 {
            return Err(RestoreError::Version(second as u32));
        }
        let length = word_at(header, 16).unwrap_or(0);
        let mut places = [(0, 0); SECTIONS];
        for (index, place) in places.iter_mut().enumerate() {
            let at = LINE + 16 * index;
            let found = word_at(header, at).zip(word_at(header, at + 8));
            *place = found
                .filter(|(start, bytes)| start.checked_add(*bytes).is_some_and(|end| end <= length))
                .ok_or(RestoreError::Section("table"))?;
        }
        Ok(Self(places))
    }

    /// Offset and length of a section.
    pub fn place(&self, section: Section) -> (u64, u64) {
        self.0[section as usize]
    }
}

/// The sections of saved bytes whose header and checksum are right.
pub(crate) fn sections(bytes: &[u8]) -> Result<[&[u8]; SECTIONS], RestoreError> {
    if bytes.len() < BODY || !bytes.starts_with(MAGIC) {
        return Err(RestoreError::Magic);
    }
    let second = word_at(bytes, 8).unwrap_or(0);
    let version = second as u32;
    if version != VERSION || second >> 32 != SECTIONS as u64 {
        return Err(RestoreError::Version(version));
    }
    let length = word_at(bytes, 16).unwrap_or(0);
    let all = usize::try_from(length)
        .ok()
        .filter(|&length| length >= BODY);
    let all = all.and_then(|length| bytes.get(..length));
    let all = all.ok_or(RestoreError::Length(bytes.len() as u64, length))?;
    if word_at(bytes, 24) != Some(xxh3_64(&all[LINE..])) {
        return Err(RestoreError::Checksum);
    }
    let mut sections: [&[u8]; SECTIONS] = [&[]; SECTIONS];
    for (index, section) in sections.iter_mut().enumerate() {
        let at = LINE + 16 * index;
        let range = word_at(all, at)
            .zip(word_at(all, at + 8))
            .and_then(|(start, length)| {
                let start = usize::try_from(start).ok()?;
                all.get(start..start.checked_add(usize::try_from(length).ok()?)?)
            });
        *section = range.ok_or(RestoreError::Section("table"))?;
    }
    Ok(sections)
}

fn decode<T: DeserializeOwned>(bytes: &[u8], name: &'static str) -> Result<T, RestoreError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(RestoreError::Section(name)),
    }
}

/// The core section: what every kernel has, then the rest.
fn core(bytes: &[u8]) -> Option<(CoreIn, Rare)> {
    let (mut core, rest): (CoreIn, _) = postcard::take_from_bytes(bytes).ok()?;
    let (rare, files) = Rare::restore(rest)?;
    core.open.traits = files.traits;
    core.open.timer_files = files.timer_files;
    core.open.signal_files = files.signal_files;
    core.open.terminals = files.terminals;
    core.open.watching = files.watching;
    Some((core, rare))
}

/// Splits a record off; its length and padding are checked.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_le_bytes(bytes.first_chunk::<4>().copied()?) as usize;
    let padded = (4 + length).next_multiple_of(LINE);
    Some((bytes.get(4..4 + length)?, bytes.get(padded..)?))
}

pub(crate) fn threads(mut bytes: &[u8]) -> Result<BTreeMap<ThreadId, Thread>, RestoreError> {
    let damaged = RestoreError::Section("threads");
    let mut threads = BTreeMap::new();
    while !bytes.is_empty() {
        let (words, rest) = bytes
            .split_at_checked(8 * CONTEXT_WORDS)
            .ok_or_else(|| damaged.clone())?;
        let mut context = Context::default();
        let word = |index: usize| word_at(words, 8 * index).unwrap_or(0);
        for register in 0..32 {
            context.x[register] = word(register);
            context.f[register] = word(32 + register);
        }
        context.pc = word(64);
        context.fcsr = word(65) as u32;
        // Records of threads follow their contexts, so only the record pads to a line.
        let (body, rest) =
            thread_record(rest, bytes.len() - rest.len()).ok_or_else(|| damaged.clone())?;
        let mut thread: Thread = decode(body, "threads")?;
        thread.context = context;
        if threads.insert(thread.id, thread).is_some() {
            return Err(damaged);
        }
        bytes = rest;
    }
    Ok(threads)
}

/// Like [`record`], where `before` bytes since the last line boundary precede it.
fn thread_record(bytes: &[u8], before: usize) -> Option<(&[u8], &[u8])> {
    let length = u32::from_le_bytes(bytes.first_chunk::<4>().copied()?) as usize;
    let padded = (before + 4 + length).next_multiple_of(LINE) - before;
    Some((bytes.get(4..4 + length)?, bytes.get(padded..)?))
}

pub(crate) fn records<T: DeserializeOwned>(
    mut bytes: &[u8],
    name: &'static str,
) -> Result<Vec<Option<T>>, RestoreError> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        let (body, rest) = record(bytes).ok_or(RestoreError::Section(name))?;
        values.push(if body.is_empty() {
            None
        } else {
            Some(decode(body, name)?)
        });
        bytes = rest;
    }
    Ok(values)
}

fn halves(bytes: &[u8]) -> Option<Vec<u32>> {
    let (chunks, []) = bytes.as_chunks::<4>() else {
        return None;
    };
    Some(chunks.iter().map(|raw| u32::from_le_bytes(*raw)).collect())
}

fn arena<const WIDTH: usize>(
    slots: &[u8],
    free: &[u8],
    name: &'static str,
) -> Result<Arena<WIDTH>, RestoreError> {
    let damaged = || RestoreError::Section(name);
    let free = halves(free).ok_or_else(damaged)?;
    if !slots.len().is_multiple_of(8 * WIDTH) {
        return Err(damaged());
    }
    let slots: Vec<[u64; WIDTH]> = slots
        .chunks_exact(8 * WIDTH)
        .map(|raw| std::array::from_fn(|index| word_at(raw, 8 * index).unwrap_or(0)))
        .collect();
    if free.iter().any(|&slot| slot as usize >= slots.len()) {
        return Err(damaged());
    }
    Ok(Arena::from_parts(slots, free))
}
