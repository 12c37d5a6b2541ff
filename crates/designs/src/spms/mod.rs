//! `spms`: strands in the caches, a strand buffer on the memory module (*SPMS: Strand based Persistent Memory
//! System*, Li, Wang, Xiao, Sun and Liu).
//!
//! A thread's stores to persistent memory belong to its strand, which `NewStrand` ends. The caches tag each
//! line with the strand that stored to it last (§III-A); the SGST counts how many lines of each are in the
//! caches, and joins strands that store to the same line into a group (§IV-B, [`sgst`]). What leaves the
//! caches goes to the strand buffer on the module (§IV-C, [`buffer`]). When all strands of a group have ended
//! and all their lines are there, the group is committed: capacitors keep what is, everything else is gone
//! with the power. No flush, no fence, no log, unless the buffer overflows ([`log`]).
//!
//! Programs live in DRAM and are lost when the power fails; what they find again is the pool.
//!
//! Always true here:
//! - A strand's Cnt is the number of cached lines that carry its tag.
//! - Strands that have stored to one line while neither was committed are of one group.
//! - No line is written home, and none that was is overwritten there, but by a committed strand, or by the
//!   system.

mod buffer;
mod bugs;
mod counters;
mod engine;
mod lag;
mod log;
mod parameters;
mod sgst;
mod strands;

use std::ops::Range;

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, Version};
use perdure_hardware::policy::{Behind, CrossVersionStore, Evicted, Eviction, Policy};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;

use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered, only_pools};
use crate::epochs::NoEpochs;
use crate::layout::Layout;
use crate::oracle::StrandGroups;
use crate::surviving::{Interrupted, Surviving};
use buffer::{Buffer, Bytes};
use bugs::Flaws;
pub use counters::Counters;
use lag::Lags;
use log::Log;
use parameters::check;
pub use parameters::{Order, Parameters};
use sgst::{Bits, Sgst, Strand};

/// Ends the thread's strand and begins the next.
pub const NEW_STRAND: u16 = 0x10 << 3;
/// Ends the thread's strand, if it has stored anything, and works towards the commit of all its strands.
/// Answers how many are not committed when it is over.
pub const STRAND_SYNC: u16 = NEW_STRAND + 1;

/// The tag of what a thread stores that has no strand.
const NO_STRAND: Version = Version(u16::MAX - 1);
/// The tag of what the system stores.
const SYSTEM: Version = Version(u16::MAX - 2);

/// What runs on a hart.
#[derive(Clone, Copy, Debug)]
struct Running {
    thread: u32,
    /// The tag of what it stores.
    version: Version,
    system: bool,
}

/// A thread.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    strand: Option<Strand>,
    /// Who stands for the one that it ended last.
    last: Option<Strand>,
    /// Strands that it has begun.
    begun: u64,
    /// Strands of it that have ended and are not committed.
    waiting: u64,
    /// When the last of them was.
    committed: Cycles,
}

/// The state. All of it is lost at power-off, but for what [`Design::drain`] saves.
#[derive(Clone)]
pub struct Spms {
    pool: Range<u64>,
    module: usize,
    latency: Cycles,
    order: Order,
    harts: Vec<Running>,
    /// By their numbers, as far as any has been asked for.
    threads: Vec<Thread>,
    sgst: Sgst,
    buffer: Buffer,
    log: Log,
    /// When the module has the last line, of those that were sent.
    arrived: Cycles,
    draining: bool,
    lags: Lags,
    flaws: Flaws,
    counters: Counters,
}

impl Policy for Spms {
    #[inline(always)]
    fn current_version(&self, hart: usize) -> Version {
        self.harts[hart].version
    }

    /// A thread takes its strand along.
    fn thread_runs(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        thread: u32,
        now: Cycles,
    ) -> Cycles {
        if self.flaws.loses_thread {
            let strand = self.thread_on(hart).strand.take();
            self.thread(thread).strand = strand;
        }
        self.harts[hart].thread = thread;
        self.show_version(hardware, hart);
        now
    }

    fn system_stores(&mut self, hardware: &mut Hardware, hart: usize, begins: bool) {
        self.harts[hart].system = begins;
        self.show_version(hardware, hart);
    }

    /// §IV-B: "When a new cacheline is updated by a strand, the Cnt of the strand increases by 1."
    fn store(&mut self, hardware: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        let line = store.line;
        if !self.pool.contains(&(line * LINE_BYTES as u64)) {
            return now;
        }
        if self.harts[store.hart].system {
            self.leave_line(store.version);
            self.commit_if_complete(hardware, store.version.0, now);
            return now;
        }
        let Some((strand, now)) = self.strand_of(hardware, store.hart, line, now) else {
            return now;
        };
        self.join_last_writer(line, store.version, strand);
        let now = if store.version == SYSTEM {
            // What the system stored is nobody's strand's: it goes home before.
            self.write_home(hardware, line, store.old, now).accepted
        } else {
            now
        };
        self.leave_line(store.version);
        let again = self.flaws.counts_lines_once && self.sgst.of(strand).lines.contains(&line);
        if !again {
            self.sgst.count_line(strand);
        }
        self.sgst.of_mut(strand).lines.push(line);
        self.counters.lines += 1;
        now
    }

    /// Ours: who reads what is not committed is committed together with it.
    fn load(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        (line, version): (LineNumber, Version),
        now: Cycles,
    ) -> Cycles {
        if self.order == Order::Paper || self.harts[hart].system {
            return now;
        }
        let Some((strand, now)) = self.strand_of(hardware, hart, line, now) else {
            return now;
        };
        if let Some(writer) = self.last_writer(line, version)
            && !self.flaws.ignores_loads
            && self.sgst.merge(writer, strand)
        {
            self.counters.merges += 1;
            self.counters.merges_by_loads += 1;
        }
        now
    }

    fn commits_behind(&self) -> Behind {
        Behind {
            loads: self.order != Order::Paper,
            threads: self.order == Order::Thread,
        }
    }

    /// §IV-B: "When one cacheline is evicted from the LLC, the Cnt of the corresponding SGST entry decreases
    /// by 1."
    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let Eviction {
            line,
            bytes,
            version,
            ..
        } = eviction;
        let in_pool = self.pool.contains(&(line * LINE_BYTES as u64));
        if !in_pool || !self.sgst.lives(version.0) {
            return self.write_home(hardware, *line, bytes, now);
        }
        let sent = self.arrive(hardware, version.0, *line, bytes, now);
        self.leave_line(*version);
        self.commit_if_complete(hardware, version.0, sent.accepted);
        sent
    }

    /// §III-B: "the strand buffer acts as a victim cache".
    fn fill(&mut self, hardware: &mut Hardware, line: LineNumber, now: Cycles) -> (Line, Cycles) {
        let address = line * LINE_BYTES as u64;
        if !self.pool.contains(&address) {
            return hardware.read_memory(line, now);
        }
        self.buffer.settle(now, hardware.memory.horizon());
        match self.buffer.newest(line).map(|held| held.bytes) {
            Some(Bytes::Here(bytes)) => {
                self.counters.reads += 1;
                let sent = now + self.latency;
                (bytes, hardware.memory.cross_link(address, LINE_BYTES, sent))
            }
            Some(Bytes::Logged(slot)) => {
                self.counters.log_reads += 1;
                hardware.read_memory(self.log.slot(slot), now + self.latency)
            }
            None => hardware.read_memory(line, now),
        }
    }

    fn peek(&self, hardware: &Hardware, line: LineNumber) -> Line {
        let held = (self.pool.contains(&(line * LINE_BYTES as u64)))
            .then(|| self.buffer.newest(line))
            .flatten();
        let home = match held.map(|held| held.bytes) {
            Some(Bytes::Here(bytes)) => return bytes,
            Some(Bytes::Logged(slot)) => self.log.slot(slot),
            None => line,
        };
        *hardware.memory.arena.line(home * LINE_BYTES as u64)
    }

    fn displaced(&self, show: &mut dyn FnMut(LineNumber)) {
        self.buffer.lines().for_each(show);
    }

    fn holds(&self, _: &Hardware, line: LineNumber, show: &mut dyn FnMut(String, &Line)) {
        let in_pool = self.pool.contains(&(line * LINE_BYTES as u64));
        let held = in_pool.then(|| self.buffer.newest(line)).flatten();
        if let Some(Bytes::Here(bytes)) = held.map(|held| held.bytes) {
            show("the module's strand buffer".into(), &bytes);
        }
    }

    fn fired(&mut self, hardware: &mut Hardware, _: u32, now: Cycles) {
        self.drain_when_idle(hardware, now);
    }

    fn instruction(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        function: u16,
        _: [u64; 2],
        now: Cycles,
    ) -> Option<(u64, Cycles)> {
        match function {
            NEW_STRAND => Some((0, self.new_strand(hardware, hart, now))),
            STRAND_SYNC => Some(self.strand_sync(hardware, hart, now)),
            _ => None,
        }
    }
}

// ---- What the design states about itself ---------------------------------------------------

impl Design for Spms {
    const NAME: &'static str = "spms";
    const SUMMARY: &'static str =
        "strands tagged in the caches, committed in a buffer on the memory module";
    const PLANTED_BUGS: &'static [PlantedBug] = bugs::ALL;
    const INSTRUCTIONS: &'static [(u16, &'static str)] =
        &[(NEW_STRAND, "NewStrand"), (STRAND_SYNC, "strand_sync")];
    type Epochs = NoEpochs;
    type Promise = StrandGroups;
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
        check(parameters, hardware)?;
        let pool = Self::pool_data(&region);
        let log = Log::of(&region);
        let capacity = (parameters.buffer_bytes / LINE_BYTES as u64) as usize;
        let bits = Bits {
            tid: parameters.tid_bits,
            sid: parameters.sid_bits,
        };
        let harts = hardware.cores.len();
        let clock = hardware.specification.clock();
        let running = |hart| Running {
            thread: hart as u32,
            version: NO_STRAND,
            system: false,
        };
        if parameters.order != Order::Paper {
            hardware.hear_loads(pool.clone());
        }
        Ok(Self {
            module: hardware.memory.map().locate(pool.start).module,
            pool,
            latency: clock.cycles(parameters.buffer_latency_ns),
            order: parameters.order,
            harts: (0..harts).map(running).collect(),
            threads: Vec::new(),
            sgst: Sgst::new(harts, bits, parameters.sgst_entries),
            buffer: Buffer::new(capacity, log.slots),
            log,
            arrived: 0,
            draining: false,
            lags: Lags::default(),
            flaws: Flaws::of(bug),
            counters: Counters::default(),
        })
    }

    /// §IV-C: "the strand buffer will flush committed entries back to persistent memory within the energy
    /// window provided by the ultra-capacitors".
    fn drain(&self, at: Cycles, write: &mut dyn FnMut(u64, &[u8])) {
        let valid = self.flaws.writes_valid_at_power_off;
        let oldest = self.flaws.writes_newest_first;
        let mut logged = Vec::new();
        for (line, held) in self.buffer.power_off(at, valid, oldest) {
            match held.bytes {
                Bytes::Here(bytes) => write(line * LINE_BYTES as u64, &bytes.0),
                Bytes::Logged(slot) => logged.push((line, slot)),
            }
        }
        if !logged.is_empty() && !self.flaws.forgets_log {
            write(self.log.directory(), &Log::encode(&logged));
        }
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        if let Some(region) = image.pools().first().cloned() {
            Log::of(&region).recover(image, Flaws::of(bug).clears_log_first)?;
        }
        Ok(Recovered::default())
    }

    fn phase(&self) -> &'static str {
        let filled = self.buffer.filled();
        if filled.logged > 0 {
            "overflow log in use"
        } else if filled.committed_here > 0 {
            "draining"
        } else if filled.here > 0 {
            "strands under way"
        } else {
            "strand buffer empty"
        }
    }

    fn counters(&self) -> Counters {
        let active = self.sgst.active() as u64;
        Counters {
            strands_open: active,
            strands_waiting: self.sgst.live() as u64 - active,
            lag_median_cycles: self.lags.percentile(50),
            lag_p99_cycles: self.lags.percentile(99),
            lag_worst_cycles: self.lags.worst(),
            ..self.counters.clone()
        }
    }

    /// §IV-B: who stores, and does not end the strand, has no promise.
    fn remarks(&self) -> Vec<String> {
        let open = |thread: &&Thread| thread.strand.is_some_and(|strand| self.has_stored(strand));
        let never_ended = self.threads.iter().filter(open).count();
        let mut numbered = self.threads.iter().enumerate();
        let last = numbered.rfind(|(_, thread)| open(thread));
        let said = last.map(|(number, thread)| {
            let (strands, they) = match never_ended {
                1 => ("1 strand was".to_owned(), "it"),
                more => (format!("{more} strands were"), "they"),
            };
            format!(
                "{strands} never ended: what {they} stored is lost with the power (last: thread {number}, strand {})",
                thread.begun
            )
        });
        said.into_iter().collect()
    }

    fn paths(_: &Statistics, own: &Counters) -> Vec<(&'static str, u64)> {
        vec![
            ("strands merged", own.merges),
            ("conflict with the strand buffer", own.merges_in_buffer),
            ("strands merged by a load", own.merges_by_loads),
            ("group of more than 16", own.groups_of_more),
            ("lines evicted for a free entry", own.forced_lines),
            ("strand folded into an active one", own.folded),
            ("line coalesced in the buffer", own.coalesced),
            ("committed line superseded", own.superseded),
            ("buffer full, waited", own.waits),
            ("overflow log written", own.log_lines),
            ("overflow log read", own.log_reads),
            ("waited for strands", own.sync_waits),
        ]
    }
}
