//! An ELF core file of a process, as Linux would write it for riscv64.
//!
//! Notes: `NT_PRSTATUS` and `NT_FPREGSET` of every thread, `NT_PRPSINFO`, `NT_AUXV`, `NT_FILE`. Then
//! everything that is mapped; of pages that nobody has touched, what they would be filled with, as far
//! as that is known. Zeros are holes in the file.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use object::elf::{
    EF_RISCV_FLOAT_ABI_DOUBLE, EF_RISCV_RVC, ET_CORE, NT_AUXV, NT_FILE, NT_FPREGSET, NT_PRPSINFO,
    NT_PRSTATUS, PT_LOAD, PT_NOTE,
};
use perdure_linux::inspect::{MappingView, PageView, ProcessView, ThreadView};
use perdure_linux::{Kernel, PAGE_BYTES};
use serde_json::{Value, json};

use crate::context::HartContext;
use crate::elf;
use crate::replaced::Replaced;

/// Compressed instructions, double-precision calling convention.
const FLAGS: u32 = EF_RISCV_RVC | EF_RISCV_FLOAT_ABI_DOUBLE;
/// More segments than an ELF header can count.
const SEGMENTS_MAX: usize = 0xfff0;

/// Bytes as C lays them out, in order.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A text in so many bytes, ending with a zero.
    fn text(&mut self, text: &[u8], length: usize) -> &mut Self {
        let end = self.0.len() + length;
        self.raw(&text[..text.len().min(length - 1)]);
        self.0.resize(end, 0);
        self
    }

    fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    fn note(&mut self, kind: u32, content: &[u8]) {
        self.u32(5).u32(content.len() as u32).u32(kind);
        self.raw(b"CORE\0\0\0\0").raw(content);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

fn status(process: &ProcessView, thread: &ThreadView) -> Vec<u8> {
    let mut note = Bytes::default();
    // Signal information, the current signal, pending and held ones.
    note.zeros(32);
    note.u32(thread.id)
        .u32(process.parent)
        .u32(process.group)
        .u32(process.session);
    // Times.
    note.zeros(64);
    note.u64(thread.pc);
    thread.x[1..].iter().for_each(|&register| {
        note.u64(register);
    });
    // The floating-point registers are valid.
    note.u32(1).u32(0);
    note.0
}

fn floats(thread: &ThreadView) -> Vec<u8> {
    let mut note = Bytes::default();
    thread.f.iter().for_each(|&register| {
        note.u64(register);
    });
    note.u32(thread.fcsr).u32(0);
    note.0
}

fn information(process: &ProcessView) -> Vec<u8> {
    let mut words = process.command_line.clone();
    while words.last() == Some(&0) {
        words.pop();
    }
    words
        .iter_mut()
        .filter(|byte| **byte == 0)
        .for_each(|byte| *byte = b' ');
    let name = process.executable.rsplit('/').next().unwrap_or_default();
    let mut note = Bytes::default();
    note.zeros(8).u64(0).u32(1000).u32(1000);
    note.u32(process.id)
        .u32(process.parent)
        .u32(process.group)
        .u32(process.session);
    note.text(name.as_bytes(), 16).text(&words, 80);
    note.0
}

fn files(mappings: &[MappingView]) -> Vec<u8> {
    let mapped = mappings
        .iter()
        .filter_map(|one| Some((one, one.file_offset?)));
    let mapped: Vec<_> = mapped.collect();
    let mut note = Bytes::default();
    note.u64(mapped.len() as u64).u64(PAGE_BYTES);
    for (one, offset) in &mapped {
        note.u64(one.start).u64(one.end).u64(offset / PAGE_BYTES);
    }
    for (one, _) in &mapped {
        note.raw(one.name.as_bytes()).raw(&[0]);
    }
    note.0
}

/// A run of pages of a mapping, all with content or all without.
struct Segment {
    start: u64,
    end: u64,
    flags: u32,
    held: bool,
}

/// Why a core file could not be written.
#[derive(Debug)]
pub enum CoreError<E> {
    /// The host refused.
    Host(io::Error),
    /// Memory has so many separate pieces, more than a core file can have.
    Pieces(usize),
    /// There is no saying what a page holds.
    Content(E),
}

/// What to tell of [`CoreError::Pieces`].
pub fn too_many_pieces(process: u32, pieces: usize) -> String {
    format!(
        "process {process} has {pieces} separate pieces of memory, more than a core file can have"
    )
}

/// Writes the core file of a process, whose threads have their registers; `content` says what a page of its
/// has, nothing being zeros. Returns how long the file is.
pub fn write<E>(
    file: &Path,
    kernel: &Kernel,
    process: &ProcessView,
    mut content: impl FnMut(u64) -> Result<Vec<u8>, E>,
) -> Result<u64, CoreError<E>> {
    let mappings = kernel.mappings(process.space);
    let mut notes = Bytes::default();
    for (index, thread) in process.threads.iter().enumerate() {
        notes.note(NT_PRSTATUS, &status(process, thread));
        if index == 0 {
            notes.note(NT_PRPSINFO, &information(process));
            notes.note(NT_AUXV, &process.auxiliary);
            notes.note(NT_FILE, &files(&mappings));
        }
        notes.note(NT_FPREGSET, &floats(thread));
    }
    let segments = segments(kernel, process, &mappings);
    if segments.len() > SEGMENTS_MAX {
        return Err(CoreError::Pieces(segments.len()));
    }
    let host = CoreError::Host;
    let mut out = BufWriter::new(Replaced::create(file).map_err(host)?);
    let end = head(&mut out, &notes.0, &segments).map_err(host)?;
    for segment in segments.iter().filter(|segment| segment.held) {
        for page in segment.start / PAGE_BYTES..segment.end / PAGE_BYTES {
            let content = content(page).map_err(CoreError::Content)?;
            let written = if content.iter().any(|&byte| byte != 0) {
                out.write_all(&content)
            } else {
                out.seek_relative(PAGE_BYTES.cast_signed())
            };
            written.map_err(host)?;
        }
    }
    let mut out = out
        .into_inner()
        .map_err(io::IntoInnerError::into_error)
        .map_err(host)?;
    out.file().set_len(end).map_err(host)?;
    out.keep().map_err(host)?;
    Ok(end)
}

/// The threads of a process, as JSON.
pub fn threads(kernel: &Kernel, process: &ProcessView) -> Value {
    let threads = process.threads.iter().map(|thread| {
        json!({
            "thread": thread.id,
            "name": thread.name,
            "hart": thread.hart,
            "pc": format!("{:#x}", thread.pc),
            "symbol": kernel.symbol(process.space, thread.pc).map(|(name, _)| name),
        })
    });
    threads.collect()
}

/// The memory of a process in runs.
fn segments(kernel: &Kernel, process: &ProcessView, mappings: &[MappingView]) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for one in mappings {
        let flags =
            u32::from(one.executable) | u32::from(one.writable) << 1 | u32::from(one.readable) << 2;
        let first = segments.len();
        for page in one.start / PAGE_BYTES..one.end / PAGE_BYTES {
            let content = kernel.page(process.space, page);
            let held = !matches!(content, None | Some(PageView::Elsewhere));
            let end = (page + 1) * PAGE_BYTES;
            match segments[first..].last_mut() {
                Some(last) if last.held == held => last.end = end,
                _ => segments.push(Segment {
                    start: page * PAGE_BYTES,
                    end,
                    flags,
                    held,
                }),
            }
        }
    }
    segments
}

/// Registers of threads that are on harts, from the harts.
pub fn put_in_harts(process: &mut ProcessView, harts: &[HartContext]) {
    for (index, context) in harts.iter().enumerate() {
        let Some(running) = context.running else {
            continue;
        };
        let threads = process.threads.iter_mut();
        for thread in threads.filter(|thread| thread.id == running.thread.0) {
            thread.hart = Some(index as u32);
            thread.x = context.hart.x;
            thread.f = context.hart.f;
            thread.pc = context.hart.pc;
            thread.fcsr = context.hart.fcsr;
        }
    }
}

/// Writes headers and notes; the file is then at the first segment's bytes. Returns where the last
/// segment's will end.
fn head(out: &mut BufWriter<Replaced>, notes: &[u8], segments: &[Segment]) -> io::Result<u64> {
    let count = segments.len() as u64 + 1;
    let notes_at = elf::HEADER_BYTES + count * elf::SEGMENT_BYTES;
    let mut at = (notes_at + notes.len() as u64).next_multiple_of(PAGE_BYTES);
    let first = at;
    let mut head = Vec::new();
    let header = elf::Header {
        kind: ET_CORE,
        flags: FLAGS,
        entry: 0,
        segments: count as u16,
        section_header_bytes: 0,
    };
    header.append(&mut head);
    let noted = elf::Segment {
        kind: PT_NOTE,
        flags: 0,
        offset: notes_at,
        address: 0,
        physical_address: 0,
        file_bytes: notes.len() as u64,
        memory_bytes: 0,
        alignment: 4,
    };
    noted.append(&mut head);
    for segment in segments {
        let bytes = segment.end - segment.start;
        let held = if segment.held { bytes } else { 0 };
        let loaded = elf::Segment {
            kind: PT_LOAD,
            flags: segment.flags,
            offset: at,
            address: segment.start,
            physical_address: 0,
            file_bytes: held,
            memory_bytes: bytes,
            alignment: PAGE_BYTES,
        };
        loaded.append(&mut head);
        at += held;
    }
    out.write_all(&head)?;
    out.write_all(notes)?;
    out.seek(SeekFrom::Start(first))?;
    Ok(at)
}
