//! A kernel as somebody outside sees it: processes, threads, mappings, pages, and the symbols of what
//! is loaded. For tools that look at a saved state; nothing here changes it.
//!
//! [`Kernel`] gives all of it once it is restored. [`SavedMappings`] answers the one question that is
//! asked most, where a page lies, from a few lines of the saved bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::address_space::{AddressSpace, Backing, Purpose};
use crate::elf;
use crate::kernel::Kernel;
use crate::machine::{PAGE_BYTES, SpaceId, ThreadId};
use crate::page_table::{EXECUTE, READ, VALID, WRITE, frame_of};
use crate::process::Process;
use crate::restore::{RestoreError, SavedSections, records};
use crate::save::Section;
use crate::thread::{Thread, ThreadState};

use crate::vfs::inode::{PAGE_FRAME_SHIFT, PAGE_PRESENT};
use crate::vfs::path::Viewer;
use crate::vfs::{FileSystem, HostPath, InodeId};

pub use crate::elf::{Symbol, symbols};

/// A live process.
#[derive(Clone, Debug)]
pub struct ProcessView {
    /// Its number.
    pub id: u32,
    /// Its parent's, 0 for the outside.
    pub parent: u32,
    /// Process group.
    pub group: u32,
    /// Session.
    pub session: u32,
    /// The program that it belongs to: its place in the configuration.
    pub program: u32,
    /// Where it lives.
    pub space: SpaceId,
    /// The program file's guest path.
    pub executable: String,
    /// Its arguments, each with a zero behind it.
    pub command_line: Vec<u8>,
    /// The auxiliary vector.
    pub auxiliary: Vec<u8>,
    /// Its threads, in the order of their numbers.
    pub threads: Vec<ThreadView>,
}

/// A thread. Its registers here are stale while it is on a hart.
#[derive(Clone, Debug)]
pub struct ThreadView {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The hart that it runs on.
    pub hart: Option<u32>,
    /// Integer registers.
    pub x: [u64; 32],
    /// Floating-point registers.
    pub f: [u64; 32],
    /// Program counter.
    pub pc: u64,
    /// Rounding mode and exception flags.
    pub fcsr: u32,
}

impl ThreadView {
    fn of(thread: &Thread) -> Self {
        Self {
            id: thread.id.0,
            name: thread.name.clone(),
            hart: match thread.state {
                ThreadState::Running { hart } => Some(hart),
                _ => None,
            },
            x: thread.context.x,
            f: thread.context.f,
            pc: thread.context.pc,
            fcsr: thread.context.fcsr,
        }
    }
}

/// A run of pages with one meaning.
#[derive(Clone, Debug)]
pub struct MappingView {
    /// First address.
    pub start: u64,
    /// Address behind the last one.
    pub end: u64,
    /// Loads are allowed.
    pub readable: bool,
    /// Stores are allowed.
    pub writable: bool,
    /// Fetches are allowed.
    pub executable: bool,
    /// Guest path of the file, or `[heap]`, `[stack]`, `[sigpage]`; empty for plain memory.
    pub name: String,
    /// Where in the file it begins.
    pub file_offset: Option<u64>,
}

/// What a mapped page holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageView {
    /// A frame; only so many bytes of it, then zeros.
    Frame {
        /// Its number.
        frame: u64,
        /// How many of its bytes show.
        bytes: u64,
    },
    /// Nobody has touched it: these bytes of its file, then zeros.
    Untouched(Vec<u8>),
    /// Nobody has touched it, and its file is not here.
    Elsewhere,
}

/// Mount and path in it.
pub type FileKey = (u32, String);

/// An ELF file in an address space.
#[derive(Clone, Debug)]
pub struct LoadedFile {
    /// Guest path.
    pub name: String,
    /// What was added to the file's addresses.
    pub bias: u64,
    /// Mount and path, which name the file for good.
    pub key: FileKey,
    /// Its bytes.
    pub contents: Arc<[u8]>,
}

/// An ELF file that the kernel has looked into.
#[derive(Clone, Debug)]
pub struct ProgramFile {
    /// The mount that it lies in.
    pub mount: u32,
    /// Where in the mount; empty for a mount of one file.
    pub path: String,
    /// A name for people.
    pub name: String,
    /// Its bytes.
    pub contents: Arc<[u8]>,
}

fn name_of_purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Plain => "",
        Purpose::Heap => "[heap]",
        Purpose::Stack => "[stack]",
        Purpose::Trampoline => "[sigpage]",
    }
}

impl Kernel {
    /// The processes that have not ended.
    pub fn live_processes(&self) -> Vec<ProcessView> {
        let live = self.processes.live.values();
        live.filter(|process| process.ending.is_none())
            .map(|process| self.view_of(process))
            .collect()
    }

    fn view_of(&self, process: &Process) -> ProcessView {
        let threads = self.threads.values();
        let threads = threads.filter(|thread| thread.process == process.id);
        ProcessView {
            id: process.id.0,
            parent: process.parent.map_or(0, |parent| parent.0),
            group: process.group,
            session: process.session,
            program: process.program,
            space: process.space,
            executable: process.executable.clone(),
            command_line: process.command_line.clone(),
            auxiliary: process.auxiliary.clone(),
            threads: threads.map(ThreadView::of).collect(),
        }
    }

    /// A live thread.
    pub fn thread_view(&self, id: u32) -> Option<ThreadView> {
        self.live_thread(id).map(ThreadView::of)
    }

    /// Where a thread's saved registers say that it is; stale while it is on a hart.
    pub fn thread_pc(&self, id: u32) -> Option<u64> {
        self.live_thread(id).map(|thread| thread.context.pc)
    }

    /// A thread of every process, with the space that it lives in.
    pub fn inhabitants(&self) -> impl Iterator<Item = (u32, SpaceId)> {
        let live = self.processes.live.values();
        let live = live.filter(|process| process.ending.is_none());
        live.filter_map(|process| {
            let mut threads = self.threads.values();
            let first = threads.find(|thread| thread.process == process.id)?;
            Some((first.id.0, process.space))
        })
    }

    /// The space that a thread lives in.
    pub fn space_of_thread(&self, id: u32) -> Option<SpaceId> {
        let thread = self.live_thread(id)?;
        Some(self.processes.get(thread.process)?.space)
    }

    /// The guest path of the program that a thread runs.
    pub fn executable_of_thread(&self, id: u32) -> Option<&str> {
        let thread = self.live_thread(id)?;
        Some(&self.processes.get(thread.process)?.executable)
    }

    /// What a thread does, in words: runs, is ready, or what it waits for.
    pub fn thread_state(&self, id: u32) -> Option<String> {
        Some(match self.live_thread(id)?.state {
            ThreadState::Ready => "ready".into(),
            ThreadState::Running { hart } => format!("on hart {hart}"),
            ThreadState::Stopped => "stopped by a signal".into(),
            ThreadState::Blocked { wait, .. } => format!("waits for {}", wait.words()),
        })
    }

    fn live_thread(&self, id: u32) -> Option<&Thread> {
        let thread = self.threads.get(&ThreadId(id))?;
        let process = self.processes.get(thread.process)?;
        process.ending.is_none().then_some(thread)
    }

    /// What is mapped in a space, in order.
    pub fn mappings(&self, space: SpaceId) -> Vec<MappingView> {
        let mappings = self.spaces.get(space).into_iter();
        let mappings = mappings.flat_map(|space| &space.mappings);
        mappings
            .map(|(&start, mapping)| {
                let (name, file_offset) = match mapping.backing {
                    Backing::Anonymous => (name_of_purpose(mapping.purpose).to_owned(), None),
                    Backing::File { inode, offset, .. } => {
                        let path = self.files.path_of(inode);
                        (path.unwrap_or_else(|| "(deleted)".into()), Some(offset))
                    }
                };
                MappingView {
                    start,
                    end: mapping.end,
                    readable: mapping.permissions & READ != 0,
                    writable: mapping.permissions & WRITE != 0,
                    executable: mapping.permissions & EXECUTE != 0,
                    name,
                    file_offset,
                }
            })
            .collect()
    }

    /// Pages of a space that have a frame, with the frames' numbers.
    pub fn frames(&self, space: SpaceId) -> BTreeMap<u64, u64> {
        let mut frames = BTreeMap::new();
        if self.spaces.get(space).is_some() {
            self.spaces.for_each_page(space, |page, leaf| {
                frames.insert(page, frame_of(leaf));
            });
        }
        frames
    }

    /// What a page holds, if it is mapped.
    pub fn page(&self, space: SpaceId, page: u64) -> Option<PageView> {
        let leaf = self.spaces.leaf(space, page);
        let frame = |frame, bytes| Some(PageView::Frame { frame, bytes });
        if leaf & VALID != 0 {
            return frame(frame_of(leaf), PAGE_BYTES);
        }
        let address = page.checked_mul(PAGE_BYTES)?;
        let (start, mapping) = self.spaces.get(space)?.find(address)?;
        let Backing::File {
            inode,
            offset,
            limit,
        } = mapping.backing
        else {
            return Some(PageView::Untouched(Vec::new()));
        };
        let (file_page, shown) = self.file_page(inode, offset, limit, address - start)?;
        let held = self.files.page_entry(inode, file_page).unwrap_or(0);
        if held & PAGE_PRESENT != 0 {
            return frame(held >> PAGE_FRAME_SHIFT, shown);
        }
        Some(match self.files.host_page(&self.host, inode, file_page) {
            Ok(mut bytes) => {
                bytes.truncate(shown as usize);
                PageView::Untouched(bytes)
            }
            Err(_) => PageView::Elsewhere,
        })
    }

    /// The ELF files in a space whose bytes are here: the program, its interpreter, then libraries in
    /// the order of their addresses.
    pub fn loaded_files(&self, space: SpaceId) -> Vec<LoadedFile> {
        let Some(space) = self.spaces.get(space) else {
            return Vec::new();
        };
        let images = space
            .images
            .iter()
            .map(|image| (image.inode, Some(image.bias), 0, 0));
        let mapped = space.mappings.iter().filter_map(|(&start, mapping)| {
            let Backing::File { inode, offset, .. } = mapping.backing else {
                return None;
            };
            Some((inode, None, start, offset))
        });
        let mut seen = Vec::new();
        let mut files = Vec::new();
        for (inode, bias, start, offset) in images.chain(mapped) {
            if seen.contains(&inode) {
                continue;
            }
            let Some((path, contents)) = self.host_file(inode) else {
                continue;
            };
            let bias = bias.or_else(|| {
                let image = elf::parse(&contents, contents.len() as u64).ok()?;
                let segment = image.segments.iter().find(|segment| {
                    (segment.file_offset..segment.file_offset + segment.file_bytes.max(1))
                        .contains(&offset)
                        || segment.file_offset & !(PAGE_BYTES - 1) == offset
                })?;
                let address = (segment.address + offset).wrapping_sub(segment.file_offset);
                Some(start.wrapping_sub(address))
            });
            let Some(bias) = bias else { continue };
            seen.push(inode);
            files.push(LoadedFile {
                name: (self.files.path_of(inode)).unwrap_or_else(|| path.path.clone()),
                bias,
                key: (path.mount, path.path.clone()),
                contents,
            });
        }
        files
    }

    fn host_file(&self, inode: InodeId) -> Option<(&HostPath, Arc<[u8]>)> {
        let path = self.files.file(inode).ok()?.host.as_ref()?;
        let contents = self.host.contents(path.mount, &path.path)?;
        Some((path, contents))
    }

    /// The frame that holds a page of a file, if one does.
    pub fn file_frame(&self, path: &str, page: u64) -> Option<u64> {
        let (files, inode) = self.found(path)?;
        let held = files.page_entry(inode, page).ok()?;
        (held & PAGE_PRESENT != 0).then_some(held >> PAGE_FRAME_SHIFT)
    }

    /// The bytes of a file that the host provides, by the path that guests have for it.
    pub fn provided_file(&self, path: &str) -> Option<Arc<[u8]>> {
        let (files, inode) = self.found(path)?;
        let file = files.file(inode).ok()?.host.as_ref()?;
        self.host.look_into(file.mount, &file.path)
    }

    /// What a path leads to, in a copy of the tree: a walk enters what it finds, which is nothing that this
    /// kernel should have.
    fn found(&self, path: &str) -> Option<(FileSystem, InodeId)> {
        let mut files = self.files.clone();
        let viewer = Viewer::nobody(&self.processes, &self.open);
        let root = files.root;
        let place = files.walk(&self.host, viewer, root, path, true).ok()?;
        let inode = place.inode?;
        Some((files, inode))
    }

    /// Where a symbol of what is loaded in a space lies, and how many bytes it has.
    pub fn address_of(&self, space: SpaceId, name: &str) -> Option<(u64, u64)> {
        self.loaded_files(space).iter().find_map(|file| {
            let symbols = symbols(&file.contents);
            let symbol = symbols.into_iter().find(|symbol| symbol.name == name)?;
            Some((symbol.address.wrapping_add(file.bias), symbol.bytes))
        })
    }

    /// The symbol that holds an address, and the offset in it: of the program, its interpreter,
    /// or a library mapped from a host file.
    pub fn symbol(&self, space: SpaceId, virtual_address: u64) -> Option<(String, u64)> {
        let space = self.spaces.get(space)?;
        let mut images = space.images.iter();
        if let Some(image) =
            images.find(|image| (image.start..image.end).contains(&virtual_address))
        {
            let (_, bytes) = self.host_file(image.inode)?;
            return elf::symbol(&bytes, virtual_address.wrapping_sub(image.bias));
        }
        let (start, mapping) = space.find(virtual_address)?;
        let Backing::File { inode, offset, .. } = mapping.backing else {
            return None;
        };
        let (_, bytes) = self.host_file(inode)?;
        let in_file = offset + (virtual_address - start);
        let image = elf::parse(&bytes, bytes.len() as u64).ok()?;
        let segment = image.segments.iter().find(|segment| {
            in_file >= segment.file_offset && in_file - segment.file_offset < segment.file_bytes
        })?;
        elf::symbol(&bytes, in_file - segment.file_offset + segment.address)
    }
}

/// Which program addresses are where, from a saved kernel whose other parts stay unread.
#[derive(Clone, Debug)]
pub struct SavedMappings {
    processes: Vec<(u32, SpaceId)>,
    spaces: Vec<Option<AddressSpace>>,
    /// Where the page tables begin in the saved bytes, and how many there are.
    tables: (u64, u64),
}

impl SavedMappings {
    /// From the saved bytes, of which `read(offset, length)` gives a part.
    pub fn read<E: From<RestoreError>>(
        mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
    ) -> Result<Self, E> {
        let sections = SavedSections::read(&read(0, SavedSections::BYTES)?)?;
        let mut part = |section| {
            let (offset, length) = sections.place(section);
            read(offset, length as usize)
        };
        let processes: Vec<Option<Process>> = records(&part(Section::Processes)?, "processes")?;
        let spaces: Vec<Option<AddressSpace>> = records(&part(Section::Spaces)?, "spaces")?;
        let live = processes.iter().flatten();
        let live = live.filter(|process| process.ending.is_none());
        let (offset, length) = sections.place(Section::PageTables);
        Ok(Self {
            processes: live.map(|process| (process.id.0, process.space)).collect(),
            spaces,
            tables: (offset, length / (8 * 512)),
        })
    }

    /// Live processes and where each lives.
    pub fn processes(&self) -> &[(u32, SpaceId)] {
        &self.processes
    }

    /// True if something is mapped at an address.
    pub fn is_mapped(&self, space: SpaceId, address: u64) -> bool {
        let index = (space.0 as usize).wrapping_sub(1);
        let space = self.spaces.get(index).and_then(Option::as_ref);
        space.is_some_and(|space| space.find(address).is_some())
    }

    /// The frame that a page-table entry names for a page, if there is such an entry.
    pub fn frame<E: From<RestoreError>>(
        &self,
        space: SpaceId,
        page: u64,
        mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
    ) -> Result<Option<u64>, E> {
        let index = (space.0 as usize).wrapping_sub(1);
        let Some(space) = self.spaces.get(index).and_then(Option::as_ref) else {
            return Ok(None);
        };
        if page >> 36 != 0 {
            return Ok(None);
        }
        let mut slot = u64::from(space.root());
        for level in (0..4).rev() {
            if slot >= self.tables.1 {
                return Err(RestoreError::Inconsistent("a page table does not exist").into());
            }
            let entry = (slot * 512 + (page >> (9 * level) & 511)) * 8;
            let raw = read(self.tables.0 + entry, 8)?;
            let word = raw.first_chunk().map_or(0, |raw| u64::from_le_bytes(*raw));
            match (word, level) {
                (0, _) => return Ok(None),
                (leaf, 0) => return Ok((leaf & VALID != 0).then(|| frame_of(leaf))),
                (next, _) => slot = next - 1,
            }
        }
        Ok(None)
    }
}
