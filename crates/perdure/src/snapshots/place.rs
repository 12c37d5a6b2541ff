//! What a user names: `0x…` or decimal digits for an address of the program, `p:0x…` for a physical
//! one, else a symbol, as `SYMBOL`, `SYMBOL+OFFSET`, `SYMBOL@FILE` or `SYMBOL@FILE+OFFSET`.
//!
//! A symbol that several files of a process define globally is the first one's, as the linker has it.
//! Whatever else is not unique is refused, never guessed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use perdure_linux::inspect::{FileKey, LoadedFile, ProcessView, Symbol, symbols};
use perdure_linux::{Kernel, SpaceId};

use super::{Answer, Process, Snapshots, asked};
use crate::configuration::nearest;

/// A place in memory.
#[derive(Clone, Debug)]
pub struct Place {
    /// Whose memory; `None` for physical memory.
    pub process: Option<Process>,
    /// Address there.
    pub address: u64,
    /// What is there, if it was named.
    pub symbol: Option<Named>,
}

/// A symbol that was named.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// The file that defines it.
    pub file: String,
    /// Bytes behind its address that were asked for.
    pub offset: u64,
    /// Its size; 0 where the file does not say.
    pub bytes: u64,
}

/// Symbols of the files in a store, as far as somebody asked for them.
#[derive(Debug, Default)]
pub struct SymbolTables(RefCell<BTreeMap<FileKey, Arc<Vec<Symbol>>>>);

impl SymbolTables {
    /// The symbols of a file, by name.
    pub fn of(&self, file: &LoadedFile) -> Arc<Vec<Symbol>> {
        let mut tables = self.0.borrow_mut();
        let table = tables.entry(file.key.clone()).or_insert_with(|| {
            let mut all = symbols(&file.contents);
            all.sort_by(|a, b| (&a.name, a.address).cmp(&(&b.name, b.address)));
            all.dedup_by(|a, b| a.name == b.name && a.address == b.address);
            Arc::new(all)
        });
        Arc::clone(table)
    }
}

/// The last part of a path.
fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn number(text: &str) -> Option<u64> {
    let plain: String = text.chars().filter(|&c| c != '_').collect();
    match plain
        .strip_prefix("0x")
        .or_else(|| plain.strip_prefix("0X"))
    {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => plain.parse().ok(),
    }
}

/// What lies beside an address that is not mapped, in words.
pub fn neighbours(kernel: &Kernel, space: SpaceId, address: u64) -> String {
    let mappings = kernel.mappings(space);
    let shown = |start: u64, end: u64, name: &str| {
        format!("{start:#x}–{end:#x} {name}").trim_end().to_owned()
    };
    let below = mappings.iter().rev().find(|one| one.end <= address);
    let above = mappings.iter().find(|one| one.start > address);
    let near: Vec<String> = [below, above]
        .into_iter()
        .flatten()
        .map(|one| shown(one.start, one.end, &one.name))
        .collect();
    if near.is_empty() {
        return String::new();
    }
    format!("; mapped beside it: {}", near.join(", "))
}

/// Processes with their programs, for messages.
fn list(processes: &[ProcessView]) -> String {
    let one = |process: &ProcessView| format!("{} ({})", process.id, process.executable);
    processes.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl Snapshots {
    /// The place that is meant, at the end of an epoch.
    pub fn place(&self, what: &str, process: Option<u32>, epoch: u64) -> Answer<Place> {
        let unreadable = |text: &str| {
            asked(format!(
                "'{text}' is no address: write 0x…, decimal digits, or p:0x… for a physical one"
            ))
        };
        if let Some(digits) = what.strip_prefix("p:") {
            return match number(digits) {
                Some(address) => Ok(Place {
                    process: None,
                    address,
                    symbol: None,
                }),
                None => unreadable(what),
            };
        }
        if what.starts_with(|first: char| first.is_ascii_digit()) {
            let Some(address) = number(what) else {
                return unreadable(what);
            };
            let process = Some(self.process_at(address, process, epoch)?);
            return Ok(Place {
                process,
                address,
                symbol: None,
            });
        }
        let (name, offset) = match what.rsplit_once('+') {
            None => (what, 0),
            Some((name, digits)) => match number(digits) {
                Some(offset) => (name, offset),
                None => {
                    return asked(format!(
                        "'{what}': '{digits}' is no offset; write NAME+16 or NAME+0x10"
                    ));
                }
            },
        };
        let (name, file) = match name.split_once('@') {
            Some((name, file)) => (name, Some(file)),
            None => (name, None),
        };
        self.symbol(name, file, offset, process, epoch)
    }

    /// The processes that live at the end of an epoch, or the one that is asked for.
    pub(super) fn living(
        &self,
        kernel: &Kernel,
        wanted: Option<u32>,
        epoch: u64,
    ) -> Answer<Vec<ProcessView>> {
        let all = kernel.live_processes();
        if all.is_empty() {
            let last = self.newest_living()?.map_or_else(
                || "none ever did".to_owned(),
                |last| format!("the last epoch in which one does is {last}"),
            );
            return asked(format!(
                "no program lives at the end of epoch {epoch}; {last}"
            ));
        }
        let Some(wanted) = wanted else { return Ok(all) };
        match all.iter().find(|process| process.id == wanted) {
            Some(one) => Ok(vec![one.clone()]),
            None => asked(format!(
                "--process {wanted}: there is none at the end of epoch {epoch}; those that live: {}",
                list(&all)
            )),
        }
    }

    /// The one process that has an address.
    fn process_at(&self, address: u64, wanted: Option<u32>, epoch: u64) -> Answer<Process> {
        let mappings = self.mappings(epoch)?;
        let known = mappings.processes().iter();
        let known = known.filter(|(id, _)| wanted.is_none_or(|wanted| wanted == *id));
        let mut having = known.filter(|(_, space)| mappings.is_mapped(*space, address));
        if let (Some(&(id, space)), None) = (having.next(), having.next()) {
            return Ok(Process { id, space });
        }
        // From here on it is an error; take the time to explain it.
        let kernel = self.kernel(epoch)?;
        let mut living = self.living(&kernel, wanted, epoch)?;
        let mapped = |process: &ProcessView| mappings.is_mapped(process.space, address);
        if living.iter().any(mapped) {
            living.retain(mapped);
            return asked(format!(
                "address {address:#x} is mapped in several processes: {}; name one with --process",
                list(&living)
            ));
        }
        let beside = match living.as_slice() {
            [only] => neighbours(&kernel, only.space, address),
            _ => String::new(),
        };
        let whose = match living.as_slice() {
            [only] => format!("process {} ({})", only.id, only.executable),
            several => format!("any of the processes {}", list(several)),
        };
        asked(format!(
            "address {address:#x} is not mapped in {whose} at epoch {epoch}{beside}"
        ))
    }

    fn symbol(
        &self,
        name: &str,
        file: Option<&str>,
        offset: u64,
        wanted: Option<u32>,
        epoch: u64,
    ) -> Answer<Place> {
        let kernel = self.kernel(epoch)?;
        let living = self.living(&kernel, wanted, epoch)?;
        let mut found = Vec::new();
        for process in &living {
            let files = kernel.loaded_files(process.space);
            let files = files.iter().filter(|loaded| {
                file.is_none_or(|file| loaded.name == file || base(&loaded.name) == file)
            });
            let mut local = Vec::new();
            let mut global = None;
            for loaded in files {
                let table = self.symbols.of(loaded);
                let first = table.partition_point(|symbol| symbol.name.as_str() < name);
                for symbol in table[first..]
                    .iter()
                    .take_while(|symbol| symbol.name == name)
                {
                    let place = Place {
                        process: Some(Process {
                            id: process.id,
                            space: process.space,
                        }),
                        address: symbol
                            .address
                            .wrapping_add(loaded.bias)
                            .wrapping_add(offset),
                        symbol: Some(Named {
                            name: name.to_owned(),
                            file: loaded.name.clone(),
                            offset,
                            bytes: symbol.bytes,
                        }),
                    };
                    if symbol.global {
                        global.get_or_insert(place);
                    } else {
                        local.push(place);
                    }
                }
            }
            if let Some(place) = global {
                found.push(place);
                continue;
            }
            if local.len() > 1 {
                let places = local.iter().filter_map(|place| {
                    let symbol = place.symbol.as_ref()?;
                    let address = place.address.wrapping_sub(offset);
                    Some(format!("{address:#x} in {}", symbol.file))
                });
                return asked(format!(
                    "symbol '{name}' is not unique: {}; give one of the addresses, or NAME@FILE",
                    places.collect::<Vec<_>>().join(", ")
                ));
            }
            found.extend(local);
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => self.no_symbol(&kernel, &living, name, file, epoch),
            _ => asked(format!(
                "symbol '{name}' is in several processes: {}; name one with --process",
                list(&living)
            )),
        }
    }

    fn no_symbol(
        &self,
        kernel: &Kernel,
        living: &[ProcessView],
        name: &str,
        file: Option<&str>,
        epoch: u64,
    ) -> Answer<Place> {
        let mut files = Vec::new();
        let mut names = Vec::new();
        for process in living {
            for loaded in kernel.loaded_files(process.space) {
                names.extend(
                    self.symbols
                        .of(&loaded)
                        .iter()
                        .map(|symbol| symbol.name.clone()),
                );
                files.push(base(&loaded.name).to_owned());
            }
        }
        if let Some(file) = file
            && !files.iter().any(|known| known == base(file))
        {
            return asked(format!(
                "'{name}@{file}': there is no such file at epoch {epoch}; those with symbols: {}",
                files.join(", ")
            ));
        }
        let hint = nearest(name, names.iter().map(String::as_str));
        let hint = hint.map_or_else(
            || "the programs have no symbols; give an address".to_owned(),
            |hint| format!("the nearest is '{hint}'"),
        );
        asked(format!(
            "there is no symbol '{name}' in {} at epoch {epoch}; {hint}",
            list(living)
        ))
    }
}
