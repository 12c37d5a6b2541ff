//! What differs between the ends of two epochs: of each process that lives at both, by symbol where
//! there is one, else by line; of the machine, how many lines of what.
//!
//! A page without a frame counts as what it would be filled with, so that touching memory is no
//! difference.

use std::collections::{BTreeMap, BTreeSet};

use perdure_hardware::line::{LINE_BYTES, LineNumber};
use perdure_linux::inspect::{MappingView, ProcessView};
use perdure_linux::{Kernel, PAGE_BYTES};
use serde_json::{Value, json};

use super::values::Kind;
use super::{Answer, Page, Snapshots, asked};
use crate::hexadecimal;

const LINE: u64 = LINE_BYTES as u64;

/// The end of an epoch.
struct End<'a> {
    epoch: u64,
    kernel: &'a Kernel,
    process: &'a ProcessView,
}

/// A line of a process that differs: old and new bytes.
type Changed = BTreeMap<u64, (Vec<u8>, Vec<u8>)>;

/// A data symbol at its place in memory.
struct Placed {
    start: u64,
    end: u64,
    name: String,
    file: String,
}

impl Snapshots {
    pub(super) fn compare(&self, from: u64, to: u64, process: Option<u32>) -> Answer<Value> {
        let (old, new) = (self.kernel(from)?, self.kernel(to)?);
        let lines: BTreeSet<LineNumber> = self.store.changed(from, to)?.into_iter().collect();
        let (before, after) = (old.live_processes(), new.live_processes());
        if let Some(wanted) = process
            && !before.iter().chain(&after).any(|one| one.id == wanted)
        {
            return asked(format!(
                "--process {wanted}: there is none at the end of epoch {from} or {to}"
            ));
        }
        let wanted = |one: &&ProcessView| process.is_none_or(|wanted| wanted == one.id);
        let mut explained = BTreeSet::new();
        let mut processes = Vec::new();
        for one in before.iter().filter(wanted) {
            let Some(other) = after.iter().find(|other| other.id == one.id) else {
                processes.push(
                    json!({"process": one.id, "executable": one.executable, "state": "ended"}),
                );
                continue;
            };
            let ends = [
                End {
                    epoch: from,
                    kernel: &old,
                    process: one,
                },
                End {
                    epoch: to,
                    kernel: &new,
                    process: other,
                },
            ];
            processes.push(self.compare_process(&ends, &lines, &mut explained)?);
        }
        for one in after.iter().filter(wanted) {
            if !before.iter().any(|other| other.id == one.id) {
                processes.push(
                    json!({"process": one.id, "executable": one.executable, "state": "began"}),
                );
            }
        }
        let (contexts, kernel) = (&self.layout.contexts, &self.layout.kernel);
        let count = |within: &dyn Fn(u64) -> bool| {
            lines.iter().filter(|&&line| within(line * LINE)).count()
        };
        let other = |address| address >= kernel.end && !explained.contains(&(address / LINE));
        Ok(json!({
            "from": from,
            "to": to,
            "processes": processes,
            "lines": lines.len(),
            "context_lines": count(&|address| contexts.contains(&address)),
            "kernel_lines": count(&|address| kernel.contains(&address)),
            "other_lines": count(&other),
        }))
    }

    fn compare_process(
        &self,
        ends: &[End; 2],
        lines: &BTreeSet<LineNumber>,
        explained: &mut BTreeSet<LineNumber>,
    ) -> Answer<Value> {
        let [old, new] = ends;
        let frames = [old, new].map(|end| end.kernel.frames(end.process.space));
        let pages: BTreeSet<u64> = frames
            .iter()
            .flat_map(|frames| frames.keys().copied())
            .collect();
        let mut changed = Changed::new();
        for page in pages {
            let [one, other] = [0, 1].map(|end: usize| frames[end].get(&page).copied());
            for frame in [one, other].into_iter().flatten() {
                let first = frame * PAGE_BYTES / LINE;
                explained.extend(lines.range(first..first + PAGE_BYTES / LINE));
            }
            if let (Some(frame), true) = (one, one == other) {
                let first = frame * PAGE_BYTES / LINE;
                for line in lines.range(first..first + PAGE_BYTES / LINE) {
                    let read = |end: &End| self.physical(line * LINE, LINE_BYTES, end.epoch);
                    let address = page * PAGE_BYTES + (line - first) * LINE;
                    changed.insert(address, (read(old)?, read(new)?));
                }
                continue;
            }
            let read = |end: &End| self.page_of(end.kernel, end.process.space, page, end.epoch);
            let (Page::Held(before), Page::Held(after)) = (read(old)?, read(new)?) else {
                continue;
            };
            let both = before.chunks(LINE_BYTES).zip(after.chunks(LINE_BYTES));
            for (index, (before, after)) in both.enumerate().filter(|(_, (a, b))| a != b) {
                let address = page * PAGE_BYTES + index as u64 * LINE;
                changed.insert(address, (before.to_vec(), after.to_vec()));
            }
        }
        let mappings = [old, new].map(|end| end.kernel.mappings(end.process.space));
        let (symbols, rest) = self.by_symbol(new, &changed)?;
        let rest: Vec<Value> = rest
            .into_iter()
            .map(|address| {
                let (before, after) = &changed[&address];
                let [old, new] = [before, after].map(|bytes| hexadecimal::of(bytes));
                let inside = |one: &&MappingView| (one.start..one.end).contains(&address);
                let region = mappings.iter().flatten().find(inside).map(|one| one.name.clone());
                json!({"address": format!("{address:#x}"), "old": old, "new": new, "region": region})
            })
            .collect();
        Ok(json!({
            "process": new.process.id,
            "executable": new.process.executable,
            "state": "lives",
            "symbols": symbols,
            "lines": rest,
            "mapped": beyond(&mappings[1], &mappings[0]),
            "unmapped": beyond(&mappings[0], &mappings[1]),
        }))
    }

    /// The changes by symbol, and the lines that have changes outside all symbols.
    fn by_symbol(&self, new: &End, changed: &Changed) -> Answer<(Vec<Value>, Vec<u64>)> {
        let mut placed = Vec::new();
        for file in new.kernel.loaded_files(new.process.space) {
            for symbol in self.symbols.of(&file).iter() {
                if symbol.data && symbol.bytes > 0 {
                    let start = symbol.address.wrapping_add(file.bias);
                    placed.push(Placed {
                        start,
                        end: start.saturating_add(symbol.bytes),
                        name: symbol.name.clone(),
                        file: file.name.clone(),
                    });
                }
            }
        }
        // Of symbols for the same bytes the one that begins last, and is shortest, names them best.
        placed.sort_by(|a, b| (a.start, b.end, &a.name).cmp(&(b.start, a.end, &b.name)));
        let longest = placed
            .iter()
            .map(|one| one.end - one.start)
            .max()
            .unwrap_or(0);
        let mut symbols = Vec::new();
        let mut rest = Vec::new();
        // The last symbol that was shown whole, so that one over two lines is shown once.
        let mut shown = None;
        for (&line, (before, after)) in changed {
            let mut outside = false;
            let mut at = 0;
            while at < LINE {
                if before[at as usize] == after[at as usize] {
                    at += 1;
                    continue;
                }
                let address = line + at;
                let behind = placed.partition_point(|one| one.start <= address);
                let inner = placed[..behind]
                    .iter()
                    .enumerate()
                    .rev()
                    .take_while(|(_, one)| one.start.saturating_add(longest) > address)
                    .find(|(_, one)| one.end > address);
                let Some((index, symbol)) = inner else {
                    outside = true;
                    at += 1;
                    continue;
                };
                let size = symbol.end - symbol.start;
                // Words of larger symbols, whole small ones.
                let (start, end) = if size <= 8 {
                    (symbol.start, symbol.end)
                } else {
                    let start = symbol.start + (address - symbol.start) / 8 * 8;
                    (start, (start + 8).min(symbol.end))
                };
                at = end.saturating_sub(line).max(at + 1);
                if shown.replace((index, start)) == Some((index, start)) {
                    continue;
                }
                let process = super::Process {
                    id: new.process.id,
                    space: new.process.space,
                };
                let length = (end - start) as usize;
                let bytes_at = |which: usize| -> Answer<Vec<u8>> {
                    // Bytes of lines that did not change are the same at both ends.
                    let mut bytes = self.memory(process, start, length, new.epoch)?;
                    for (byte, address) in bytes.iter_mut().zip(start..) {
                        if let Some((before, after)) = changed.get(&(address / LINE * LINE)) {
                            *byte = [before, after][which][(address % LINE) as usize];
                        }
                    }
                    Ok(bytes)
                };
                let (old_bytes, new_bytes) = (bytes_at(0)?, bytes_at(1)?);
                let kind = Kind::of_size(length as u64);
                symbols.push(json!({
                    "name": symbol.name,
                    "offset": start - symbol.start,
                    "address": format!("{start:#x}"),
                    "file": symbol.file,
                    "type": kind.name(),
                    "old": kind.value(&old_bytes),
                    "new": kind.value(&new_bytes),
                }));
            }
            if outside {
                rest.push(line);
            }
        }
        Ok((symbols, rest))
    }
}

/// The parts of mappings that others do not cover.
fn beyond(these: &[MappingView], others: &[MappingView]) -> Vec<Value> {
    let mut parts = Vec::new();
    for one in these {
        let mut at = one.start;
        for other in others
            .iter()
            .filter(|other| other.start < one.end && other.end > one.start)
        {
            if other.start > at {
                parts.push((at, other.start, one));
            }
            at = at.max(other.end);
        }
        if at < one.end {
            parts.push((at, one.end, one));
        }
    }
    parts
        .into_iter()
        .map(|(start, end, one)| {
            json!({
                "start": format!("{start:#x}"),
                "end": format!("{end:#x}"),
                "name": one.name,
            })
        })
        .collect()
}
