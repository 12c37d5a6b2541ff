//! `undo-log`: transactions on a pool by an undo log, the textbook library built into the memory controller.
//!
//! Programs live in DRAM and are lost when the power fails. What they find again is the pool, a persistent
//! region whose write queue is in the persistence domain (`persistence.domain = "adr"`). A program begins a
//! transaction, stores to lines of the pool, and commits. Before a line's new bytes may become durable, its
//! old bytes are in the log; a commit brings the lines home and then lets the register name the transaction.
//! Recovery undoes the one that was under way.
//!
//! ```text
//! register      u64: committed << 32 | recoveries << 16 | check, the pool's first word
//! log entry i   u64 magic "UNDO-LOG", u64 register, u64 i, u64 line, 64 bytes; sealed, 128 bytes
//! data          from 256 KiB on: what the promise is about
//! ```
//!
//! Always true here:
//! - No line of the pool is durable with bytes of a transaction that is under way unless the log entry with
//!   those before it is.
//! - The register names a transaction only when everything that it stored is durable, and the hart goes on
//!   only when the register does.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use perdure_designs::bytes::{Writer, checksum, sealed, unsealed};
use perdure_designs::design::ImpossibleParameter;
use perdure_designs::layout::Layout;
use perdure_designs::oracle::{
    Beginning, Breach, Evidence, Fault, Judgement, Oracle, Remember, Witness,
};
use perdure_designs::rows;
use perdure_designs::surviving::{Corruption, Interrupted, Surviving};
use perdure_designs::{Design, NoEpochs, PlantedBug, Promise, Recovered};
use perdure_hardware::arena::Digest;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_hardware::memory::Traffic;
use perdure_hardware::persist::{Effect, Persist};
use perdure_hardware::physical_map::PhysicalMap;
use perdure_hardware::policy::{CrossVersionStore, Evicted, Eviction, Policy, PolicyFailure};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;

/// The persistence instruction that begins a transaction; it answers 1, or 0 while another is under way.
pub const BEGIN: u16 = 0;
/// The one that commits it; it answers the transaction's number.
pub const COMMIT: u16 = 1 << 3;

const ENTRY: u64 = u64::from_le_bytes(*b"UNDO-LOG");
const ENTRY_BYTES: u64 = 128;
const LOG: Range<u64> = 4096..256 << 10;

/// The state. All of it is lost at power-off.
#[derive(Clone)]
pub struct UndoLog {
    pool: Range<u64>,
    /// The last transaction that was committed, and recoveries of that state.
    committed: u64,
    recoveries: u64,
    open: bool,
    /// Lines that the transaction has stored to, with when their log entries are durable.
    logged: BTreeMap<LineNumber, Cycles>,
    entries: u64,
    log_durable: Cycles,
    /// When the register names the last transaction, so that the log may start over.
    recorded: Cycles,
    flaws: Flaws,
}

perdure_designs::planted_bugs! {
    logs_new_bytes, "new-bytes-logged", "the log entry has the bytes after the store in place of those before it";
    commits_before_flush, "commit-before-flush", "the register names the transaction, and only then are its lines brought home";
    acknowledges_early, "early-acknowledgement", "the hart goes on while the register is still on its way";
}

/// No parameters.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {}

fn register(committed: u64, recoveries: u64) -> u64 {
    let value = committed << 32 | (recoveries & 0xffff) << 16;
    value | checksum(&value.to_le_bytes()) & 0xffff
}

/// Transaction and recoveries, if the word is as [`register`] makes it.
fn decode_register(bytes: &[u8]) -> Option<(u64, u64)> {
    let word = u64::from_le_bytes(bytes.try_into().ok()?);
    let (committed, recoveries) = (word >> 32, word >> 16 & 0xffff);
    (register(committed, recoveries) == word).then_some((committed, recoveries))
}

/// What programs have of a pool.
pub fn data_of(pool: &Range<u64>) -> Range<u64> {
    pool.start + LOG.end..pool.end
}

impl UndoLog {
    /// What an entry begins with that belongs to the transaction under way.
    fn register(&self) -> u64 {
        register(self.committed, self.recoveries)
    }

    fn fail(hardware: &mut Hardware, why: &str) {
        (hardware.failure).get_or_insert(PolicyFailure(why.into()));
    }

    fn log(
        &mut self,
        hardware: &mut Hardware,
        line: LineNumber,
        old: &Line,
        now: Cycles,
    ) -> Cycles {
        let at = LOG.start + self.entries * ENTRY_BYTES;
        if at + ENTRY_BYTES > LOG.end {
            Self::fail(
                hardware,
                "a transaction stores to more lines than its log has room for",
            );
            return now;
        }
        let mut writer = Writer::new(ENTRY);
        writer.u64(self.register()).u64(self.entries).u64(line);
        for word in old.0.chunks_exact(8) {
            writer.u64(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
        let (entry, place) = (sealed(writer, ENTRY_BYTES as usize), self.pool.start + at);
        let done = rows::write(hardware, place, &entry, Traffic::Log, now, self.recorded);
        self.entries += 1;
        // Recovery stops at the first hole: an entry is of use when those before it are durable, too.
        self.log_durable = self.log_durable.max(done.durable);
        self.logged.insert(line, self.log_durable);
        done.accepted
    }

    /// Brings the transaction's lines home. Returns when all are durable.
    fn flush(&mut self, hardware: &mut Hardware, hart: usize, now: Cycles) -> Cycles {
        let mut done = now;
        for line in self.logged.keys().copied().collect::<Vec<_>>() {
            let clean = Persist::behind_stores(hart, line, Effect::Clean);
            let taken = hardware.persist(self, &clean, now);
            done = done.max(hardware.memory.durable_at(line, taken));
        }
        done
    }

    fn commit(&mut self, hardware: &mut Hardware, hart: usize, now: Cycles) -> Cycles {
        let early = self.flaws.commits_before_flush;
        let home = if early {
            now
        } else {
            self.flush(hardware, hart, now)
        };
        self.committed += 1;
        let word = self.register().to_le_bytes();
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let place = self.pool.start;
        let named = memory.write_block(place, &word, Traffic::Metadata, home, home, statistics);
        self.recorded = named.durable;
        if early {
            self.recorded = self
                .recorded
                .max(self.flush(hardware, hart, named.accepted));
        }
        self.logged.clear();
        (self.entries, self.open) = (0, false);
        if self.flaws.acknowledges_early {
            now
        } else {
            self.recorded
        }
    }
}

impl Policy for UndoLog {
    fn sees_every_store(&self) -> bool {
        true
    }

    fn store(&mut self, hardware: &mut Hardware, store: &CrossVersionStore, now: Cycles) -> Cycles {
        let address = store.line * LINE_BYTES as u64;
        if !self.pool.contains(&address) || self.logged.contains_key(&store.line) {
            return now;
        }
        if !self.open || !data_of(&self.pool).contains(&address) {
            Self::fail(
                hardware,
                "a store to the pool outside a transaction, or outside its data",
            );
            return now;
        }
        let bytes = if self.flaws.logs_new_bytes {
            *store.new
        } else {
            *store.old
        };
        self.log(hardware, store.line, &bytes, now)
    }

    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let logged = self.logged.get(&eviction.line).copied().unwrap_or(0);
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let (line, bytes) = (eviction.line, &eviction.bytes);
        let done = memory.write_line(line, bytes, Traffic::WriteBack, now, logged, statistics);
        done.into()
    }

    fn fired(&mut self, _: &mut Hardware, _: u32, _: Cycles) {}

    fn instruction(
        &mut self,
        hardware: &mut Hardware,
        hart: usize,
        function: u16,
        _: [u64; 2],
        now: Cycles,
    ) -> Option<(u64, Cycles)> {
        match function {
            BEGIN => Some((u64::from(!std::mem::replace(&mut self.open, true)), now)),
            COMMIT if self.open => {
                let done = self.commit(hardware, hart, now);
                Some((self.committed, done))
            }
            _ => None,
        }
    }
}

impl Design for UndoLog {
    const NAME: &'static str = "undo-log";
    const SUMMARY: &'static str =
        "transactions on a pool by an undo log; programs are started anew";
    const PLANTED_BUGS: &'static [PlantedBug] = ALL;
    type Epochs = NoEpochs;
    type Promise = WholeTransactions;
    type Parameters = Parameters;
    type Counters = ();

    fn pool_data(region: &Range<u64>) -> Range<u64> {
        data_of(region)
    }

    fn start(
        _: &Parameters,
        _: &Layout,
        hardware: &mut Hardware,
        _: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        let pool = hardware.memory.map().pools().next();
        let pool = pool
            .filter(|pool| !data_of(pool).is_empty())
            .ok_or_else(|| {
                let problem =
                    "needs a pool beside the memory of programs: give it a [[module]] of kind dram";
                ImpossibleParameter::new("module", "none", problem)
            })?;
        let arena = &mut hardware.memory.arena;
        // A pool from an earlier run is used as it is.
        let known = decode_register(&arena.slice(pool.start, 8));
        let (committed, recoveries) = known.unwrap_or((0, 0));
        arena.write(pool.start, &register(committed, recoveries).to_le_bytes());
        Ok(Self {
            pool,
            committed,
            recoveries,
            open: false,
            logged: BTreeMap::new(),
            entries: 0,
            log_durable: 0,
            recorded: 0,
            flaws: Flaws::of(bug),
        })
    }

    fn recover(image: &mut Surviving, _: Option<&'static str>) -> Result<Recovered, Interrupted> {
        let pool = image.pools().first().cloned().unwrap_or_default();
        let found = decode_register(&image.read(pool.start, 8)?);
        let (committed, recoveries) = found.ok_or(Corruption {
            what: "the register is damaged",
            address: pool.start,
        })?;
        // The log ends at the first entry that is not whole, or not this transaction's.
        let mut entries = Vec::new();
        for (index, at) in LOG.step_by(ENTRY_BYTES as usize).enumerate() {
            let bytes = image.read(pool.start + at, ENTRY_BYTES as usize)?;
            let Some(mut reader) = unsealed(&bytes, ENTRY) else {
                break;
            };
            if (reader.u64(), reader.u64()) != (register(committed, recoveries), index as u64) {
                break;
            }
            let line = reader.u64();
            let mut old = Line::ZERO;
            for word in old.0.chunks_exact_mut(8) {
                word.copy_from_slice(&reader.u64().to_le_bytes());
            }
            entries.push((line, old));
        }
        for (line, old) in entries {
            image.write_line(line, &old)?;
        }
        // Only now is the log worthless. Until then, another recovery starts over.
        image.write(
            pool.start,
            &register(committed, recoveries + 1).to_le_bytes(),
        )?;
        Ok(Recovered::default())
    }

    fn phase(&self) -> &'static str {
        if self.open {
            "transaction"
        } else {
            "between transactions"
        }
    }

    fn counters(&self) {}

    fn paths(hardware: &Statistics, (): &()) -> Vec<(&'static str, u64)> {
        vec![("line brought home", hardware.cleaned_lines)]
    }
}

/// *Whole transactions*: the pool is as after some prefix of the committed transactions, no older than the
/// last one of whose commit a program knew.
#[derive(Debug)]
pub struct WholeTransactions {
    data: Range<u64>,
    /// With everything that was stored so far.
    now: Digest,
    /// After each commit, the state before the first included; and when a program knew of it.
    commits: Vec<(Cycles, Digest)>,
}

impl Promise for WholeTransactions {
    const NAME: &'static str = "whole-transactions";

    fn scope(map: &PhysicalMap, _: &Layout) -> Range<u64> {
        map.pools().next().map_or(0..0, |pool| data_of(&pool))
    }

    fn begin(run: &Witness, _: Beginning, _: Remember) -> io::Result<Self> {
        let now = run.digest();
        Ok(Self {
            data: run.range.clone(),
            now,
            commits: vec![(0, now)],
        })
    }
}

impl Oracle for WholeTransactions {
    fn wants_trace(&self) -> bool {
        true
    }

    fn follow(&mut self, _: &Witness, events: Vec<Traced>) {
        for event in events {
            match event {
                Traced::Wrote { line, old, new } => {
                    let address = line * LINE_BYTES as u64;
                    if self.data.contains(&address) {
                        self.now.replace(address, &old.0, &new.0);
                    }
                }
                Traced::Instructed { function, done, .. } if function == COMMIT => {
                    self.commits.push((done, self.now));
                }
                _ => {}
            }
        }
    }

    fn judge(&self, evidence: &Evidence) -> Judgement {
        if let Err(why) = evidence.recovered {
            return Judgement::refused(why.to_string(), self.newest());
        }
        let known = (self.commits.iter()).rposition(|(done, _)| *done <= evidence.at);
        let found = (self.commits.iter()).rposition(|(_, digest)| *digest == evidence.memory);
        let (fault, message) = match found {
            Some(found) if Some(found) >= known => {
                return Judgement {
                    found: Some(format!("the pool is as after transaction {found}")),
                    ..Judgement::default()
                };
            }
            Some(found) => (
                Fault::Age,
                format!(
                    "the pool is as after transaction {found}, and a later one was acknowledged"
                ),
            ),
            None => (Fault::Memory, "the pool is as after no transaction".into()),
        };
        Judgement {
            breaches: vec![Breach {
                fault,
                judged_by_epoch: self.newest(),
                message,
            }],
            ..Judgement::default()
        }
    }

    fn newest(&self) -> u64 {
        self.commits.len() as u64 - 1
    }
}
