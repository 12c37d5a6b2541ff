//! `page-zeroing`: a memory module that zeroes its pages on command, and the design that installs its device.
//!
//! A program maps the module (`/dev/module/NAME`) and its device region (`/dev/module/NAME.device`). A store
//! of eight bytes to the region's start is a command: the number of a page of the module. A load from there
//! says how many pages have been zeroed. The device has places for four commands, for which senders wait; it
//! zeroes the pages one after the other, piece by piece, over its module's banks, and the processor's
//! accesses to a page wait until it is zeroed. Caches know nothing of that: a program flushes a page's lines
//! before it commands the page to be zeroed. The program itself is lost when the power fails, and finds the
//! module again.
//!
//! What it has taken, and not done, when the power fails, its energy saves in the module's first page:
//!
//! ```text
//! u64 magic "ZERO-PGS", u64 count, u64 page for each; sealed, 64 bytes
//! ```
//!
//! The record is written whole, or not at all. Its magic goes last when the device recovers.
//!
//! Always true here:
//! - A command counts from the moment at which its sender goes on.
//! - No store to a page is durable while the device may yet zero the page for an earlier command.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;

use perdure_designs::bytes::{Writer, sealed, unsealed};
use perdure_designs::design::ImpossibleParameter;
use perdure_designs::layout::Layout;
use perdure_designs::oracle::{
    Beginning, Breach, Evidence, Fault, Judgement, Oracle, Promise, Remember, Witness,
};
use perdure_designs::surviving::{Interrupted, Surviving};
use perdure_designs::{Design, NoEpochs, PlantedBug, Recovered};
use perdure_hardware::device::{
    Admission, Device, HostAccess, Inside, PowerLost, Recovery, SurvivingBytes,
};
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::physical_map::{PhysicalMap, RegionKind};
use perdure_hardware::policy::{Evicted, Eviction, Policy};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;

/// What a command zeroes.
pub const PAGE: u64 = 4096;
/// As much as the device writes at once.
const PIECE: usize = 512;
/// Commands that it may have taken, and not done.
const PLACES: usize = 4;
const RECORD: u64 = u64::from_le_bytes(*b"ZERO-PGS");
const RECORD_BYTES: usize = 64;

perdure_designs::planted_bugs! {
    acknowledges_early, "early-acknowledgement", "a sender goes on while its command waits for a place, where no energy saves it";
    lets_pass, "conflicts-pass", "the processor's accesses to a page do not wait until it is zeroed";
    replays_half, "half-replayed", "recovery zeroes the first half of each page only";
}

/// A command that the device has taken, or will take then.
#[derive(Clone, Debug)]
struct Command {
    page: Range<u64>,
    taken: Cycles,
    done: Cycles,
}

/// The device. All of it is lost at power-off, but for what [`Device::power_off`] saves.
#[derive(Clone, Debug)]
struct Zeroer {
    memory: Range<u64>,
    commands: VecDeque<Command>,
    /// Commands that were done before the first of these.
    forgotten: u64,
    flaws: Flaws,
}

/// The addresses of a page of a module by its number, if programs may have it zeroed.
fn page_of(memory: &Range<u64>, number: u64) -> Option<Range<u64>> {
    let pages = (memory.end - memory.start) / PAGE;
    let start = memory.start + number % pages * PAGE;
    (1..pages).contains(&number).then_some(start..start + PAGE)
}

/// The page that a store to the device region asks for.
fn command(memory: &Range<u64>, at: u64, bytes: &[u8]) -> Option<Range<u64>> {
    let number = u64::from_le_bytes(bytes.try_into().ok()?);
    page_of(memory, number).filter(|_| at == 0)
}

impl Zeroer {
    /// Lets go of what no cut can bring back.
    fn forget_until(&mut self, horizon: Cycles) {
        while self.commands.front().is_some_and(|one| one.done <= horizon) {
            self.commands.pop_front();
            self.forgotten += 1;
        }
    }
}

/// Zeroes a page, piece by piece. Returns when it is zeroed.
fn zero(inside: &mut Inside, page: &Range<u64>, now: Cycles) -> Cycles {
    let pieces = page.clone().step_by(PIECE);
    pieces.fold(now, |now, piece| {
        let written = inside.write(piece, &[0; PIECE], Traffic::Flush, now, 0);
        written.durable
    })
}

impl Device for Zeroer {
    fn copy(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }

    fn load(&mut self, _: &mut Inside, at: u64, bytes: &mut [u8], now: Cycles) -> Cycles {
        let done = self.commands.iter().filter(|one| one.done <= now).count() as u64;
        if at == 0 {
            bytes.copy_from_slice(&(self.forgotten + done).to_le_bytes()[..bytes.len()]);
        }
        now
    }

    fn store(&mut self, inside: &mut Inside, at: u64, bytes: &[u8], now: Cycles) -> Cycles {
        let Some(page) = command(&self.memory, at, bytes) else {
            return now;
        };
        self.forget_until(inside.horizon());
        let place = self.commands.len().checked_sub(PLACES);
        let taken = place.map_or(now, |place| now.max(self.commands[place].done));
        let idle = self.commands.back().map_or(0, |last| last.done);
        let done = zero(inside, &page, taken.max(idle));
        self.commands.push_back(Command { page, taken, done });
        if self.flaws.acknowledges_early {
            now
        } else {
            taken
        }
    }

    fn admit(&mut self, _: &mut Inside, access: &HostAccess, now: Cycles) -> Admission {
        let conflict = |one: &&Command| access.touches(&one.page) && !self.flaws.lets_pass;
        let conflicts = self.commands.iter().filter(conflict);
        let at = conflicts.map(|one| one.done).fold(now, Cycles::max);
        Admission::Admitted { at }
    }

    fn power_off(&self, at: Cycles, save: &mut dyn FnMut(u64, &[u8])) {
        let held = self.commands.iter();
        let held: Vec<_> = held
            .filter(|one| one.taken <= at && at < one.done)
            .collect();
        if held.is_empty() {
            return;
        }
        let mut writer = Writer::new(RECORD);
        writer.u64(held.len() as u64);
        for one in held {
            writer.u64((one.page.start - self.memory.start) / PAGE);
        }
        save(self.memory.start, &sealed(writer, RECORD_BYTES));
    }

    fn recovery(&self) -> Recovery {
        if self.flaws.replays_half {
            |image, memory| replay(image, &memory[0], PAGE / 2)
        } else {
            |image, memory| replay(image, &memory[0], PAGE)
        }
    }
}

/// Zeroes so much of each page of the record.
fn replay(
    image: &mut dyn SurvivingBytes,
    memory: &Range<u64>,
    bytes: u64,
) -> Result<(), PowerLost> {
    let record = image.read(memory.start, RECORD_BYTES);
    let Some(mut record) = unsealed(&record, RECORD) else {
        return Ok(());
    };
    for _ in 0..record.u64() {
        let Some(page) = page_of(memory, record.u64()) else {
            continue;
        };
        for piece in (page.start..page.start + bytes).step_by(PIECE) {
            image.write(piece, &[0; PIECE])?;
        }
    }
    // Only now is the record worthless. Until then, another recovery starts over.
    image.write(memory.start, &[0; 8])
}

/// Of a machine: the number of the module with the device, its memory, and where its commands go.
fn parts(map: &PhysicalMap) -> Option<(usize, Range<u64>, u64)> {
    let mut regions = map.regions().iter();
    let device = regions.clone().find(|one| one.kind == RegionKind::Device)?;
    let memory = regions
        .find(|one| one.kind == RegionKind::Persistent && one.modules == device.modules)?
        .addresses
        .clone();
    Some((device.modules[0], memory, device.addresses.start))
}

/// The design: it installs the device, and has nothing else to do.
#[derive(Clone)]
pub struct PageZeroing;

/// No parameters.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {}

impl Policy for PageZeroing {
    /// For its promise, which is about what programs store.
    fn sees_every_store(&self) -> bool {
        true
    }

    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let (line, bytes) = (eviction.line, &eviction.bytes);
        let done = memory.write_line(line, bytes, Traffic::WriteBack, now, 0, statistics);
        done.into()
    }

    fn fired(&mut self, _: &mut Hardware, _: u32, _: Cycles) {}
}

impl Design for PageZeroing {
    const NAME: &'static str = "page-zeroing";
    const SUMMARY: &'static str = "a module that zeroes its pages on command";
    const PLANTED_BUGS: &'static [PlantedBug] = ALL;
    type Epochs = NoEpochs;
    type Promise = ZeroedPages;
    type Parameters = Parameters;
    type Counters = ();

    fn start(
        _: &Parameters,
        _: &Layout,
        hardware: &mut Hardware,
        _: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        let (module, memory, _) = parts(hardware.memory.map()).ok_or_else(|| {
            let problem =
                "needs a persistent [[module]] with device_bytes, and a region of its own";
            ImpossibleParameter::new("module", "none", problem)
        })?;
        let device = Zeroer {
            memory,
            commands: VecDeque::new(),
            forgotten: 0,
            flaws: Flaws::of(bug),
        };
        hardware.memory.install(module, Box::new(device));
        Ok(Self)
    }

    /// The device has recovered by now.
    fn recover(_: &mut Surviving, _: Option<&'static str>) -> Result<Recovered, Interrupted> {
        Ok(Recovered::default())
    }

    fn phase(&self) -> &'static str {
        "running"
    }

    fn counters(&self) {}

    fn paths(hardware: &Statistics, (): &()) -> Vec<(&'static str, u64)> {
        vec![("line flushed", hardware.cleaned_lines)]
    }
}

/// A value that eight bytes had.
#[derive(Clone, Debug)]
struct Past {
    value: u64,
    /// A command's, as of when the device had taken it.
    zeroed: Option<Cycles>,
    /// When a program knew that it survives.
    durable: Cycles,
}

/// *Zeroed pages*: a page whose command was taken is zeroed, and has what was stored to it later; no other
/// page has changed; and no store is lost for which a fence has waited.
#[derive(Debug)]
pub struct ZeroedPages {
    memory: Range<u64>,
    data: Range<u64>,
    commands: u64,
    /// By eight bytes of the data, all that they have been.
    words: Vec<Vec<Past>>,
    /// By hart, words whose newest value was on its way to where it survives.
    sent: BTreeMap<usize, Vec<(usize, usize)>>,
    taken: Vec<Cycles>,
}

impl Promise for ZeroedPages {
    const NAME: &'static str = "zeroed-pages";

    fn scope(map: &PhysicalMap, _: &Layout) -> Range<u64> {
        parts(map).map_or(0..0, |(_, memory, _)| memory.start + PAGE..memory.end)
    }

    fn begin(run: &Witness, _: Beginning, _: Remember) -> io::Result<Self> {
        let parts = parts(run.hardware.memory.map());
        let (_, memory, commands) = parts.ok_or(io::ErrorKind::NotFound)?;
        let data = run.range.clone();
        let lines = (data.start / LINE_BYTES as u64)..(data.end / LINE_BYTES as u64);
        let first = |value| {
            vec![Past {
                value,
                zeroed: None,
                durable: 0,
            }]
        };
        let words = lines.flat_map(|line| words(&run.line(line).0).map(first).collect::<Vec<_>>());
        Ok(Self {
            memory,
            commands,
            words: words.collect(),
            data,
            sent: BTreeMap::new(),
            taken: Vec::new(),
        })
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let words = bytes.chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
}

impl ZeroedPages {
    /// The words of a range, if it is of the data.
    fn words_of(&self, start: u64, bytes: u64) -> Range<usize> {
        if !self.data.contains(&start) {
            return 0..0;
        }
        let first = ((start - self.data.start) / 8) as usize;
        first..first + bytes as usize / 8
    }

    fn words_of_line(&self, line: LineNumber) -> Range<usize> {
        self.words_of(line * LINE_BYTES as u64, LINE_BYTES as u64)
    }

    fn stored(&mut self, line: LineNumber, old: &Line, new: &Line) {
        let values = words(&old.0).zip(words(&new.0));
        for (word, (old, value)) in self.words_of_line(line).zip(values) {
            if old != value {
                self.words[word].push(Past {
                    value,
                    zeroed: None,
                    durable: Cycles::MAX,
                });
            }
        }
    }

    fn commanded(&mut self, page: &Range<u64>, taken: Cycles) {
        self.taken.push(taken);
        for word in self.words_of(page.start, PAGE) {
            self.words[word].push(Past {
                value: 0,
                zeroed: Some(taken),
                durable: taken,
            });
        }
    }
}

/// What is wrong with a page after a cut.
fn wrong(page: &[Vec<Past>], bytes: &[u8], at: Cycles) -> Option<(Fault, &'static str)> {
    let (mut before, mut zeroed, mut lost) = (0, 0, 0);
    for (values, found) in page.iter().zip(words(bytes)) {
        let can_be = |one: &Past| one.zeroed.is_none_or(|taken| taken <= at);
        let last =
            |is: &dyn Fn(&Past) -> bool| values.iter().rposition(|one| can_be(one) && is(one));
        let command = last(&|one| one.zeroed.is_some());
        match last(&|one| one.value == found) {
            None => return Some((Fault::Memory, "has bytes that nobody put there")),
            Some(index) if Some(index) < command => before += 1,
            Some(index) if Some(index) < last(&|one| one.durable <= at) => lost += 1,
            Some(_) => {
                let changed = command.is_some_and(|index| values[index - 1].value != 0);
                zeroed += usize::from(changed);
            }
        }
    }
    match (before, zeroed, lost) {
        (0, _, 0) => None,
        (0, _, _) => Some((Fault::Age, "lacks stores for which a fence has waited")),
        (_, 0, _) => Some((Fault::Age, "is not zeroed, and its command was taken")),
        _ => Some((Fault::Memory, "is zeroed in part")),
    }
}

impl Oracle for ZeroedPages {
    fn wants_trace(&self) -> bool {
        true
    }

    fn follow(&mut self, _: &Witness, events: Vec<Traced>) {
        for event in events {
            match event {
                Traced::Wrote { line, old, new } => self.stored(line, &old, &new),
                Traced::Persisted { hart, line, .. } => {
                    let newest = self
                        .words_of_line(line)
                        .map(|word| (word, self.words[word].len() - 1));
                    let newest: Vec<_> = newest.collect();
                    self.sent.entry(hart).or_default().extend(newest);
                }
                Traced::Fenced { hart, done } => {
                    for (word, index) in self.sent.remove(&hart).unwrap_or_default() {
                        let durable = &mut self.words[word][index].durable;
                        *durable = done.min(*durable);
                    }
                }
                Traced::Commanded {
                    address,
                    bytes,
                    taken,
                    ..
                } => {
                    let at = address.checked_sub(self.commands);
                    let page = at.and_then(|at| command(&self.memory, at, &bytes));
                    if let Some(page) = page {
                        self.commanded(&page, taken);
                    }
                }
                _ => {}
            }
        }
    }

    fn judge(&self, evidence: &Evidence) -> Judgement {
        if let Err(why) = evidence.recovered {
            return Judgement::refused(why.to_string(), 0);
        }
        let pages = self.words.chunks_exact(PAGE as usize / 8);
        let mut found = pages.enumerate().filter_map(|(index, page)| {
            let address = self.data.start + index as u64 * PAGE;
            let bytes = evidence.image.slice(address, PAGE as usize);
            let (fault, what) = wrong(page, &bytes, evidence.at)?;
            Some(Breach {
                fault,
                judged_by_epoch: 0,
                message: format!("page {} of the module {what}", index + 1),
            })
        });
        let breaches = Vec::from_iter(found.next());
        let taken = self
            .taken
            .iter()
            .filter(|&&taken| taken <= evidence.at)
            .count();
        let found = format!("the module is as after {taken} commands");
        Judgement {
            found: breaches.is_empty().then_some(found),
            breaches,
            ..Judgement::default()
        }
    }
}
