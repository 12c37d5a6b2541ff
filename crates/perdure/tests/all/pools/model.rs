//! What a power cut may leave of pools, from the operations of a program alone.
//!
//! Always true here: nothing is known of caches, frames and tables. A page has, line by line, the contents
//! that it had one after the other; which of them a cut may leave follows from what was flushed, fenced and
//! synchronised. What names and lengths it may leave are those of the last commit.

use std::collections::{BTreeMap, BTreeSet};

use perdure_hardware::specification::Domain;

use super::Trial;
use super::program::{FENCES, FLUSHES, NAMES, Operation, PAGE, PAGES, written};

const LINE: usize = 64;

/// What a line had, one after the other.
#[derive(Clone, Debug)]
struct Line {
    contents: Vec<[u8; LINE]>,
    /// The oldest that a cut may leave.
    floor: usize,
    /// Those that were sent to memory, and are there at the latest when a fence has waited.
    sent: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Page {
    lines: Vec<Line>,
    /// It was changed since it was last synchronised.
    dirty: bool,
}

impl Page {
    fn new() -> Self {
        let line = Line {
            contents: vec![[0; LINE]],
            floor: 0,
            sent: Vec::new(),
        };
        Self {
            lines: vec![line; PAGE as usize / LINE],
            dirty: false,
        }
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.dirty = true;
        let mut at = offset;
        while at < offset + bytes.len() {
            let line = &mut self.lines[at / LINE];
            let end = (at / LINE * LINE + LINE).min(offset + bytes.len());
            let mut new = *line.contents.last().expect("it begins with zeros");
            new[at % LINE..at % LINE + end - at].copy_from_slice(&bytes[at - offset..end - offset]);
            line.contents.push(new);
            at = end;
        }
    }

    fn newest_only(&mut self) {
        for line in &mut self.lines {
            line.floor = line.contents.len() - 1;
        }
    }
}

/// A file's length and pages, by their numbers in [`Model::pages`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct File {
    size: u64,
    pages: BTreeMap<u64, usize>,
}

type Names = BTreeMap<usize, usize>;

/// Names and files, as a commit makes them durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Committed {
    files: BTreeMap<usize, File>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    file: usize,
    synchronous: bool,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Model {
    domain: Domain,
    /// Nothing leaves the caches but by being sent.
    keeps: bool,
    pages: Vec<Page>,
    files: Vec<File>,
    names: Names,
    slots: [Slot; 2],
    /// Pages that a slot may store to without a fault.
    writable: [BTreeSet<u64>; 2],
    /// Pages whose bytes are durable with the next commit.
    fresh: BTreeSet<usize>,
    changed: BTreeSet<usize>,
    names_changed: bool,
    committed: Committed,
}

impl Model {
    pub fn new(trial: &Trial) -> Self {
        Self {
            domain: trial.domain,
            keeps: trial.large,
            pages: Vec::new(),
            files: Vec::new(),
            names: Names::new(),
            slots: [Slot::default(); 2],
            writable: Default::default(),
            fresh: BTreeSet::new(),
            changed: BTreeSet::new(),
            names_changed: false,
            committed: Committed::default(),
        }
    }

    /// A page of a file, made if there is none.
    fn page(&mut self, file: usize, page: u64) -> &mut Page {
        let next = self.pages.len();
        let number = *self.files[file].pages.entry(page).or_insert(next);
        if number == next {
            self.pages.push(Page::new());
            self.fresh.insert(number);
            self.changed.insert(file);
        }
        &mut self.pages[number]
    }

    /// Where a slot maps a line.
    fn line(&mut self, slot: usize, at: u64) -> &mut Line {
        let page = self.page(self.slots[slot].file, at / PAGE);
        &mut page.lines[(at % PAGE) as usize / LINE]
    }

    fn commit(&mut self) {
        let file = |(&name, &file): (&usize, &usize)| (name, self.files[file].clone());
        let files: BTreeMap<usize, File> = self.names.iter().map(file).collect();
        self.committed = Committed { files };
        for number in std::mem::take(&mut self.fresh) {
            self.pages[number].newest_only();
        }
        self.changed.clear();
        self.names_changed = false;
    }

    fn commit_if_changed(&mut self) {
        if self.names_changed || !self.changed.is_empty() {
            self.commit();
        }
    }

    fn synchronise(&mut self, file: usize, pages: std::ops::Range<u64>) {
        let numbers: Vec<usize> = (self.files[file].pages.range(pages))
            .map(|(_, &number)| number)
            .collect();
        for number in numbers {
            if std::mem::take(&mut self.pages[number].dirty) {
                self.pages[number].newest_only();
            }
        }
        for slot in 0..2 {
            if self.slots[slot].file == file {
                self.writable[slot].clear();
            }
        }
        self.commit_if_changed();
    }

    fn resize(&mut self, file: usize, bytes: u64) {
        let old = self.files[file].size;
        if bytes == old {
            return;
        }
        if bytes < old {
            let first_gone = bytes.div_ceil(PAGE);
            self.files[file].pages.split_off(&first_gone);
            for slot in 0..2 {
                if self.slots[slot].file == file {
                    self.writable[slot].split_off(&first_gone);
                }
            }
            let tail = (bytes % PAGE) as usize;
            if let Some(&last) = self.files[file].pages.get(&(bytes / PAGE))
                && tail > 0
            {
                self.pages[last].put(tail, &vec![0; PAGE as usize - tail]);
                self.fresh.insert(last);
            }
        }
        self.files[file].size = bytes;
        self.changed.insert(file);
    }

    fn store(&mut self, slot: usize, at: u64, value: u64) {
        let Slot { file, synchronous } = self.slots[slot];
        let page = at / PAGE;
        self.page(file, page);
        if self.writable[slot].insert(page) && synchronous {
            let due = self.names_changed || self.changed.contains(&file);
            if due {
                self.commit();
            }
        }
        (self.page(file, page)).put((at % PAGE) as usize, &value.to_le_bytes());
    }

    /// Carries an operation out.
    pub fn step(&mut self, operation: Operation) {
        match operation {
            Operation::Open { slot, name } => {
                let next = self.files.len();
                let file = *self.names.entry(name).or_insert(next);
                if file == next {
                    self.files.push(File::default());
                    self.changed.insert(file);
                    self.names_changed = true;
                }
                self.slots[slot].file = file;
                self.writable[slot].clear();
            }
            Operation::Resize { slot, bytes } => self.resize(self.slots[slot].file, bytes),
            Operation::Map { slot, synchronous } => {
                self.slots[slot].synchronous = synchronous;
                self.writable[slot].clear();
            }
            Operation::Store {
                slot,
                at,
                value,
                around,
            } => {
                self.store(slot, at, value);
                if around {
                    // What the caches had of the line leaves them, too.
                    let line = self.line(slot, at);
                    let newest = line.contents.len() - 1;
                    line.sent.extend([newest - 1, newest]);
                }
            }
            Operation::Flush { slot, at, how } => {
                let line = self.line(slot, at);
                let newest = line.contents.len() - 1;
                line.sent.push(newest);
                if FLUSHES[how].1 {
                    line.floor = newest;
                }
            }
            Operation::Fence { how } if FENCES[how].1 => self.wait(),
            Operation::Fence { .. } => {}
            Operation::Write { slot, at, value } => self.write(self.slots[slot].file, at, value),
            Operation::Synchronise { slot } => {
                self.wait();
                self.synchronise(self.slots[slot].file, 0..PAGES);
            }
            Operation::SynchroniseMapped { slot, page } => {
                self.wait();
                self.synchronise(self.slots[slot].file, page..page + 1);
            }
            Operation::Rename { from, to } => {
                let file = self.names.remove(&from).expect("it is there");
                self.names.insert(to, file);
                self.names_changed = true;
            }
            Operation::Unlink { name } => {
                self.names.remove(&name);
                self.names_changed = true;
            }
        }
        if self.domain == Domain::Eadr {
            self.pages.iter_mut().for_each(Page::newest_only);
        }
    }

    fn write(&mut self, file: usize, at: u64, value: u64) {
        let bytes: Vec<u8> = written(value)
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let mut from = at;
        while from < at + bytes.len() as u64 {
            let end = (from / PAGE * PAGE + PAGE).min(at + bytes.len() as u64);
            let piece = &bytes[(from - at) as usize..(end - at) as usize];
            self.page(file, from / PAGE)
                .put((from % PAGE) as usize, piece);
            from = end;
        }
        if from > self.files[file].size {
            self.files[file].size = from;
            self.changed.insert(file);
        }
    }

    /// What was sent is there.
    fn wait(&mut self) {
        for line in self.pages.iter_mut().flat_map(|page| &mut page.lines) {
            let last = std::mem::take(&mut line.sent).into_iter().max();
            line.floor = line.floor.max(last.unwrap_or(0));
        }
    }

    /// What is wrong with pools that a cut left, by `earlier`, of which every operation was done at the
    /// time of the cut, and this model, where more may have been begun.
    pub fn refuses(&self, earlier: &Self, found: &BTreeMap<String, Vec<u8>>) -> Option<String> {
        let mut tables = vec![&earlier.committed];
        if self.committed != earlier.committed {
            tables.push(&self.committed);
        }
        let wrong = |table: &&Committed| self.differs(earlier, table, found);
        let all: Option<Vec<String>> = tables.iter().map(wrong).collect();
        all.map(|all| all.join("; or "))
    }

    fn differs(
        &self,
        earlier: &Self,
        table: &Committed,
        found: &BTreeMap<String, Vec<u8>>,
    ) -> Option<String> {
        let names = |(&name, file): (&usize, &File)| (NAMES[name].to_owned(), file.size);
        let expected: BTreeMap<String, u64> = table.files.iter().map(names).collect();
        let sizes = |(name, bytes): (&String, &Vec<u8>)| (name.clone(), bytes.len() as u64);
        let present: BTreeMap<String, u64> = found.iter().map(sizes).collect();
        if present != expected {
            return Some(format!("{present:?} in place of {expected:?}"));
        }
        for (&name, file) in &table.files {
            for (place, bytes) in found[NAMES[name]].chunks(LINE).enumerate() {
                let (page, line) = (place as u64 * 64 / PAGE, place % (PAGE as usize / LINE));
                let Some(&number) = file.pages.get(&page) else {
                    if bytes.iter().any(|&byte| byte != 0) {
                        return Some(format!("{}: line {place} of no page", NAMES[name]));
                    }
                    continue;
                };
                let now = &self.pages[number].lines[line];
                let floor = match earlier.pages.get(number) {
                    Some(page) => page.lines[line].floor,
                    None => 0,
                };
                if !self.allows(now, floor, bytes) {
                    let newest = now.contents.len() - 1;
                    return Some(format!(
                        "{}: line {place} is none of what it had, {floor} to {newest}",
                        NAMES[name]
                    ));
                }
            }
        }
        None
    }

    /// Whether a cut may leave bytes of a line.
    fn allows(&self, line: &Line, floor: usize, bytes: &[u8]) -> bool {
        let may = |at: &usize| !self.keeps || *at <= line.floor || line.sent.contains(at);
        let left: Vec<&[u8; LINE]> = (floor..line.contents.len())
            .filter(may)
            .map(|at| &line.contents[at])
            .collect();
        if self.domain == Domain::Media {
            let word = |at: usize| {
                let range = at..(at + 8).min(bytes.len());
                left.iter()
                    .any(|one| one[range.clone()] == bytes[range.clone()])
            };
            return (0..bytes.len()).step_by(8).all(word);
        }
        left.iter().any(|one| one[..bytes.len()] == *bytes)
    }
}
