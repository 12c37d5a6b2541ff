//! The kernel from its saved bytes (`save.rs` has the format).
//!
//! Always true: restoring trusts nothing. Header and checksum are looked at first, every section has to
//! decode to its last byte, and what comes of it is validated.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use twox_hash::XxHash3_64;

use crate::address_space::{AddressSpace, Spaces};
use crate::arena::Arena;
use crate::kernel::{Kernel, Settings};
use crate::machine::ThreadId;
use crate::page_table::{PageTables, frame_of};
use crate::process::{Process, Processes};
use crate::rare::Rare;
use crate::room::Room;
use crate::save::{BODY, CONTEXT_WORDS, CoreIn, LINE, MAGIC, SECTIONS, Section, VERSION};
use crate::thread::{Context, Thread, ThreadState};
use crate::vfs::HostView;

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

impl Kernel {
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
        let regions = files.regions();
        let tables = PageTables::from_arena(tables, &roots, |leaf| {
            let frame = frame_of(leaf);
            frames.is_held(frame) || regions.iter().any(|region| region.contains(&frame))
        })
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
    if word_at(bytes, 24) != Some(XxHash3_64::oneshot(&all[LINE..])) {
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
