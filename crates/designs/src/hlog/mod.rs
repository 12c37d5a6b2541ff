//! `hlog`: a log that a controller behind the caches keeps (Doshi, Giles and Varman, *Atomic Persistence for
//! SCM with a Non-intrusive Backend Controller*, HPCA 2016; the rival of SPMS, whose paper describes it in a
//! sentence).
//!
//! A thread opens a *wrap*, stores to persistent memory as ever, sends a log record of each store around the
//! caches, and closes the wrap ([`wraps`]). The controller writes records to its log ([`log`]), a close
//! record behind them, and later, in the background, the words to where they belong ([`engine`]). The
//! caches know of none of this. So that no word of an open wrap gets home as a cache evicts its line, such
//! a line is held in the victim persistence cache ([`victims`]) until all wraps are home that it may have
//! words of.
//!
//! Programs live in DRAM and are lost when the power fails; what they find again is the pool, with every
//! closed wrap whole and nothing of any other ([`recovery`]).
//!
//! Always true here:
//! - No line that left the caches after a wrap was opened is written home before that wrap is home, unless
//!   the system stored it.
//! - What a miss brings is what left the caches last.

mod bugs;
mod counters;
mod engine;
mod log;
mod parameters;
mod places;
mod recovery;
mod victims;
mod wraps;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, Version};
use perdure_hardware::policy::{CrossVersionStore, Evicted, Eviction, Policy};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

use crate::bytes::Sealed;
use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered, only_pools};
use crate::epochs::NoEpochs;
use crate::layout::Layout;
use crate::oracle::Wraps;
use crate::surviving::{Interrupted, Surviving};
use bugs::Flaws;
pub use counters::Counters;
use engine::Retiring;
use log::{Header, Record};
pub use parameters::Parameters;
use parameters::check;
use places::Places;
use victims::{Bytes, Victims};
use wraps::{Closed, Sent, Wrap};

/// Opens a wrap.
pub const WRAP_OPEN: u16 = 0x12 << 3;
/// Sends a log record: the first operand is the address of a word, the second is the word.
pub const WRAP_RECORD: u16 = WRAP_OPEN + 1;
/// Closes the wrap, and answers when it is durable.
pub const WRAP_CLOSE: u16 = WRAP_OPEN + 2;

/// The tag of what the system stores.
const SYSTEM: Version = Version(u16::MAX - 2);

/// What runs on a hart.
#[derive(Clone, Copy, Debug)]
struct Running {
    thread: u32,
    system: bool,
}

/// A thread.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    wrap: Option<u32>,
    /// Wraps that it has opened.
    opened: u64,
}

/// The state. All of it is lost at power-off.
#[derive(Clone)]
pub struct Hlog {
    pool: Range<u64>,
    module: usize,
    layout: log::Layout,
    latency: Cycles,
    harts: Vec<Running>,
    /// By their numbers; looked up, and gone through only for what does not depend on the order.
    threads: HashMap<u32, Thread>,
    open: BTreeMap<u32, Wrap>,
    opened: u32,
    /// Wraps that wait until they go home, in the order of their closes.
    closed: VecDeque<Closed>,
    closed_count: u64,
    retiring: Option<Retiring>,
    /// When wraps were home, of the last ones that were.
    retired: VecDeque<Cycles>,
    retired_count: u64,
    places: Places,
    /// Log lines in the controller's buffer.
    buffered: usize,
    buffer_lines: usize,
    victims: Victims,
    /// An event is scheduled.
    awake: bool,
    flaws: Flaws,
    counters: Counters,
}

impl Hlog {
    fn is_pooled(&self, line: LineNumber) -> bool {
        self.pool.contains(&(line * LINE_BYTES as u64))
    }
}

impl Policy for Hlog {
    #[inline(always)]
    fn current_version(&self, hart: usize) -> Version {
        if self.harts[hart].system {
            SYSTEM
        } else {
            Version::NONE
        }
    }

    /// A thread takes its wrap along. What it has gathered on the hart that it leaves is sent.
    fn thread_runs(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        thread: u32,
        now: Cycles,
    ) -> Cycles {
        let before = std::mem::replace(&mut self.harts[hart].thread, thread);
        if self.flaws.loses_thread {
            let wrap = self.threads.entry(before).or_default().wrap.take();
            self.threads.entry(thread).or_default().wrap = wrap;
            return now;
        }
        let mut sent = now;
        let wraps = [before, thread].map(|thread| self.wrap_of(thread));
        for wrap in wraps.into_iter().flatten() {
            sent = self.send(hardware, wrap, Sent::Early, sent);
        }
        sent
    }

    fn system_stores(&mut self, hardware: &mut Hardware, hart: usize, begins: bool) {
        if std::mem::replace(&mut self.harts[hart].system, begins) != begins {
            hardware.version_changed_of(hart);
        }
    }

    fn store(&mut self, hardware: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        let system = self.harts[store.hart].system;
        if system || store.version != SYSTEM || !self.is_pooled(store.line) {
            return now;
        }
        // What the system stored belongs to no wrap: it goes home before a wrap may store over it.
        self.write_home(hardware, store.line, store.old, now)
            .accepted
    }

    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let Eviction {
            line,
            bytes,
            version,
            ..
        } = eviction;
        if !self.is_pooled(*line) || *version == SYSTEM {
            return self.write_home(hardware, *line, bytes, now);
        }
        self.leaves(hardware, *line, bytes, now)
    }

    /// What is held is newer than what is at home.
    fn fill(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        let held = self.victims.get(line).map(|held| held.bytes);
        match held.filter(|_| !self.flaws.reads_past_victims) {
            Some(Bytes::Here(bytes)) => {
                self.counters.reads += 1;
                let (address, sent) = (line * LINE_BYTES as u64, now + self.latency);
                (bytes, hardware.memory.cross_link(address, LINE_BYTES, sent))
            }
            Some(Bytes::Spilled(slot)) => {
                self.counters.spill_reads += 1;
                hardware.read_memory(self.layout.slot(slot), now + self.latency)
            }
            None => hardware.read_memory(line, now),
        }
    }

    fn peek(&self, hardware: &Hardware, line: LineNumber) -> Line {
        let held = self.victims.get(line).map(|held| held.bytes);
        let home = match held.filter(|_| !self.flaws.reads_past_victims) {
            Some(Bytes::Here(bytes)) => return bytes,
            Some(Bytes::Spilled(slot)) => self.layout.slot(slot),
            None => line,
        };
        *hardware.memory.arena.line(home * LINE_BYTES as u64)
    }

    fn displaced(&self, show: &mut dyn FnMut(LineNumber)) {
        self.victims.lines().for_each(show);
    }

    fn holds(&self, _: &Hardware, line: LineNumber, show: &mut dyn FnMut(String, &Line)) {
        if let Some(Bytes::Here(bytes)) = self.victims.get(line).map(|held| held.bytes) {
            show("the controller's victim buffer".into(), &bytes);
        }
    }

    fn fired(&mut self, hardware: &mut Hardware, _: u32, now: Cycles) {
        self.work_when_idle(hardware, now);
    }

    fn takes_address(&self, function: u16) -> bool {
        function == WRAP_RECORD
    }

    fn instruction(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        function: u16,
        [address, value]: [u64; 2],
        now: Cycles,
    ) -> Option<(u64, Cycles)> {
        match function {
            WRAP_OPEN => {
                self.open(hardware, hart, now);
                Some((0, now))
            }
            WRAP_RECORD if address.is_multiple_of(8) => {
                let record = Record { address, value };
                Some((0, self.record(hardware, hart, record, now)))
            }
            WRAP_CLOSE => Some((0, self.close(hardware, hart, now))),
            _ => None,
        }
    }
}

// ---- What the design states about itself ---------------------------------------------------

impl Design for Hlog {
    const NAME: &'static str = "hlog";
    const SUMMARY: &'static str = "wraps logged by a controller behind the caches, which holds lines that caches evict too early";
    const PLANTED_BUGS: &'static [PlantedBug] = bugs::ALL;
    const INSTRUCTIONS: &'static [(u16, &'static str)] = &[
        (WRAP_OPEN, "wrap_open"),
        (WRAP_RECORD, "wrap_record"),
        (WRAP_CLOSE, "wrap_close"),
    ];
    type Epochs = NoEpochs;
    type Promise = Wraps;
    type Parameters = Parameters;
    type Counters = Counters;

    fn pool_data(region: &Range<u64>) -> Range<u64> {
        log::area(region).end..region.end
    }

    fn start(
        parameters: &Parameters,
        _: &Layout,
        hardware: &mut Hardware,
        _: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        let region = only_pools(hardware, Self::NAME)?;
        check(parameters, hardware, &region)?;
        let lines = |bytes: u64| bytes / LINE_BYTES as u64;
        let nvm = &hardware.specification.nvm;
        let apart = match nvm.line_spread() {
            1 => 1,
            _ => lines(nvm.row_bytes as u64) + 1,
        };
        let log_lines = lines(parameters.log_bytes);
        let stride = log::Layout::stride(log_lines, apart);
        let layout = log::Layout::new(&region, log_lines, stride);
        let header = first_header(hardware, &layout);
        let harts = 0..hardware.cores.len();
        let running = |hart| Running {
            thread: hart as u32,
            system: false,
        };
        let pool = Self::pool_data(&region);
        Ok(Self {
            module: hardware.memory.map().locate(pool.start).module,
            pool,
            latency: (hardware.specification.clock()).cycles(parameters.victim_latency_ns),
            harts: harts.map(running).collect(),
            threads: HashMap::new(),
            open: BTreeMap::new(),
            opened: 0,
            closed: VecDeque::new(),
            closed_count: 0,
            retiring: None,
            retired: VecDeque::new(),
            retired_count: 0,
            places: Places::new(header),
            buffered: 0,
            buffer_lines: lines(parameters.buffer_bytes) as usize,
            victims: Victims::new(lines(parameters.victim_bytes) as usize, layout.slots()),
            layout,
            awake: false,
            flaws: Flaws::of(bug),
            counters: Counters::default(),
        })
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        if let Some(region) = image.pools().first().cloned() {
            recovery::recover(image, &region, &Flaws::of(bug))?;
        }
        Ok(Recovered::default())
    }

    fn phase(&self) -> &'static str {
        if self.victims.filled().1 > 0 {
            "victims spilled"
        } else if self.victims.filled().0 > 0 {
            "victims held"
        } else if !self.closed.is_empty() || self.retiring.is_some() {
            "wraps on their way home"
        } else if self.open.is_empty() {
            "no wraps"
        } else {
            "wraps open"
        }
    }

    fn counters(&self) -> Counters {
        Counters {
            open: self.open.len() as u64,
            ..self.counters.clone()
        }
    }

    /// Who stores, and does not close the wrap, has no promise.
    fn remarks(&self) -> Vec<String> {
        let never_closed: Vec<&Wrap> = self
            .open
            .values()
            .filter(|wrap| wrap.has_records())
            .collect();
        let last = never_closed.iter().max_by_key(|wrap| wrap.thread);
        let said = last.map(|wrap| {
            let (wraps, they) = match never_closed.len() {
                1 => ("1 wrap was".to_owned(), "it"),
                more => (format!("{more} wraps were"), "they"),
            };
            format!(
                "{wraps} never closed: what {they} stored is lost with the power (last: thread {}, wrap {})",
                wrap.thread,
                wrap.ordinal + 1
            )
        });
        said.into_iter().collect()
    }

    fn paths(_: &Statistics, own: &Counters) -> Vec<(&'static str, u64)> {
        vec![
            ("log line sent early", own.lines_early),
            ("waited for a place in the log", own.log_waits),
            ("head moved", own.headers),
            ("log line read back", own.read_back),
            ("victim held", own.victims),
            ("held line replaced", own.replaced),
            ("held line drained", own.drained),
            ("words merged into a held line", own.merged),
            ("read from the victim cache", own.reads),
            ("victim spilled", own.spilled),
            ("read from the spill area", own.spill_reads),
            ("wrap closed without a record", own.empty),
        ]
    }
}

/// Lays the newest header out, behind whatever another life has left.
fn first_header(hardware: &mut Hardware, layout: &log::Layout) -> Header {
    let arena = &mut hardware.memory.arena;
    let [first, second] = [0, 1].map(|generation| {
        let address = layout.header(generation) * LINE_BYTES as u64;
        *arena.line(address)
    });
    let before = Header::newest(&first.0, &second.0).unwrap_or(Header {
        head: 1,
        ..Header::default()
    });
    let header = layout.header_of(before.generation + 1, before.head);
    let address = layout.header(header.generation) * LINE_BYTES as u64;
    arena.write(address, &header.encode());
    header
}
