//! NVOverlay (Wang et al., ISCA 2021): frequent snapshots of all memory, without a global epoch or a log.
//!
//! Above the memory bus, *Coherent Snapshot Tracking* (§IV): each sharing group (an L2 with the harts that
//! share it) has its own epoch; lines carry the epoch of their last store as OID, in the caches and in DRAM;
//! a sharing group that gets a line from a newer epoch advances to that one: a Lamport clock; a dirty
//! version of an older epoch never changes, and goes to the OMC when it leaves the sharing group or the tag
//! walker finds it. Below it, *Multi-snapshot NVM Mapping* (§V, [`mnm`]) keeps what arrives there.
//!
//! `numbers.rs`: epoch numbers as tags, and their recycling (§IV-D). `oids.rs`: OIDs in DRAM (§IV-A4).
//! `walker.rs`: tag walkers (§IV-C). The version access protocol is the substrate's, `apart.rs` (§IV-A).
//!
//! Always true:
//! - A sharing group never holds a line whose version is newer than its epoch.
//! - All sharing groups run epochs of one group of numbers.
//! - DRAM holds the working memory. The NVM's home addresses hold the initial image, for ever.

mod bugs;
pub mod counters;
pub mod mnm;
mod numbers;
mod oids;
mod walker;

use perdure_hardware::arena::Arena;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{Line, LineNumber, Version};
use perdure_hardware::policy::{CrossVersionStore, Departure, Evicted, Eviction, Policy};
use perdure_hardware::statistics::Statistics;
use perdure_hardware::time::Cycles;
use serde::{Deserialize, Serialize};

use crate::design::{Design, ImpossibleParameter, PlantedBug, Recovered, refuse_inclusion};
use crate::epochs::{EpochNumbers, GroupEpochs, OfGroups};
use crate::layout::Layout;
use crate::oracle::CausalCut;
use crate::surviving::{Interrupted, Surviving};
use bugs::Flaws;
use counters::Counters;
use mnm::{Mnm, MnmParameters};
use numbers::Numbers;
use oids::Oids;
use walker::{EVENT_WALK, Walker};

/// Parameters. Unknown keys are refused where the configuration is put together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parameters {
    /// Width of OIDs.
    pub oid_bits: u32,
    /// One OID in DRAM for four lines.
    pub super_blocks: bool,
    /// A sharing group that is so many epochs behind the newest one is told to advance.
    pub skew_epochs: u64,
    /// Sets of the L2 that one step of the tag walker looks at, one a cycle.
    pub walk_sets_per_step: usize,
    /// Time from one step to the next.
    pub walk_step_cycles: u64,
    /// False: versions depart by capacity and coherence alone, and a walk is made only when somebody
    /// waits for an epoch.
    pub walker: bool,
    /// The OMCs and what they keep.
    #[serde(flatten)]
    pub mnm: MnmParameters,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            oid_bits: 16,
            super_blocks: false,
            skew_epochs: 2,
            walk_sets_per_step: 16,
            walk_step_cycles: 256,
            walker: true,
            mnm: MnmParameters::default(),
        }
    }
}

impl Parameters {
    fn validate(&self, hardware: &Hardware) -> Result<(), ImpossibleParameter> {
        let specification = &hardware.specification;
        ImpossibleParameter::unless(
            (3..=16).contains(&self.oid_bits),
            "nvoverlay.oid_bits",
            self.oid_bits,
            "must be 3 to 16",
        )?;
        let group = Numbers::new(self.oid_bits).group_epochs();
        ImpossibleParameter::unless(
            (1..group).contains(&self.skew_epochs),
            "nvoverlay.skew_epochs",
            self.skew_epochs,
            format!(
                "must be 1 to {}, less than half the epoch numbers",
                group - 1
            ),
        )?;
        ImpossibleParameter::unless(
            (1..=1 << 20).contains(&self.walk_sets_per_step),
            "nvoverlay.walk_sets_per_step",
            self.walk_sets_per_step,
            "must be 1 to 1048576",
        )?;
        ImpossibleParameter::unless(
            (1..=1 << 30).contains(&self.walk_step_cycles),
            "nvoverlay.walk_step_cycles",
            self.walk_step_cycles,
            "must be 1 to 1073741824",
        )?;
        ImpossibleParameter::unless(
            specification.dram.present,
            "dram.present",
            specification.dram.present,
            "must be true for nvoverlay, whose working memory is DRAM (machine nvoverlay has it)",
        )?;
        refuse_inclusion(specification, Nvoverlay::NAME)
    }
}

/// The backend's mistakes that cuts of a whole machine notice. Memory that nobody has written holds
/// zeros there, so a node that is linked before it is initialised looks initialised; `mnm`'s own
/// tests notice that one.
const BACKEND_BUGS: usize = mnm::bugs::ALL.len() - 1;

/// The frontend's mistakes, then the backend's.
const ALL_BUGS: [PlantedBug; bugs::ALL.len() + BACKEND_BUGS] = {
    let mut all = [bugs::ALL[0]; bugs::ALL.len() + BACKEND_BUGS];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < bugs::ALL.len() {
            bugs::ALL[at]
        } else {
            mnm::bugs::ALL[at - bugs::ALL.len()]
        };
        at += 1;
    }
    all
};

#[derive(Clone, Copy, Debug)]
struct SharingGroup {
    epoch: u64,
    walker: Walker,
}

/// The frontend's state, over the backend.
#[derive(Clone)]
pub struct Nvoverlay {
    parameters: Parameters,
    numbers: Numbers,
    groups: Vec<SharingGroup>,
    /// By hart, the tag of its sharing group's epoch, for which every store asks.
    tags: Vec<Version>,
    /// The newest of the sharing groups' epochs.
    newest: u64,
    /// The kernel's state as of every epoch before this one is saved.
    kernel_epoch: u64,
    /// The recoverable epoch as the master OMC knows it; `mnm` knows which one is durable.
    complete: u64,
    oids: Oids,
    /// When the numbers of the newest epoch's group were free.
    recycled_at: Cycles,
    /// Addresses that working memory may have.
    memory: std::ops::Range<u64>,
    mnm: Mnm,
    flaws: Flaws,
}

impl Nvoverlay {
    /// What the backend counts.
    pub fn mnm(&self) -> &Mnm {
        &self.mnm
    }

    /// Frees the numbers of the group that begins (§IV-D): no line keeps a tag of it. Dirty versions
    /// depart; clean copies count as older than everything. Returns when all of it is done.
    ///
    /// What it takes (ours): every cache looks at a set in a cycle, all of them side by side, once the
    /// dirty versions have left; then each OID in DRAM is read with its line, and written with it if it
    /// is forgotten. That there is none is known without looking.
    fn recycle(&mut self, hardware: &mut Hardware, now: Cycles) -> Cycles {
        let departed = self.walk_everything(hardware, now);
        let (numbers, newest) = (self.numbers, self.newest);
        let current = numbers.group(newest);
        let stale = |tag: Version| numbers.group(numbers.epoch(tag, newest)) != current;
        hardware.retag(|tag| if stale(tag) { Version::NONE } else { tag });
        let swept = departed + hardware.most_sets() as Cycles;
        let mut ready = swept;
        let memory = &mut hardware.memory;
        self.oids
            .forget(self.memory.clone(), stale, |line, forgotten| {
                let mut at = swept;
                for _ in 0..=u64::from(forgotten) {
                    at = memory.occupy_dram(line, at);
                }
                ready = ready.max(at);
            });
        self.recycled_at = ready;
        ready
    }
}

/// Who is noted as a version's writer: the first hart of the sharing group that it departs from.
fn writer(hardware: &Hardware, group: usize) -> u16 {
    hardware.groups[group].harts.start as u16
}

impl Policy for Nvoverlay {
    #[inline]
    fn current_version(&self, hart: usize) -> Version {
        self.tags[hart]
    }

    fn store(&mut self, _: &mut Hardware, _: &CrossVersionStore, now: Cycles) -> Cycles {
        now
    }

    fn keeps_versions(&self) -> bool {
        true
    }

    fn depart(&mut self, hardware: &mut Hardware, departure: &Departure, now: Cycles) -> Cycles {
        let mut epoch = self.numbers.epoch(departure.version, self.newest);
        if self.flaws.ignores_epoch_sense
            && self.numbers.group(epoch) != self.numbers.group(self.newest)
        {
            epoch += self.numbers.group_epochs();
        }
        if self.flaws.loses(departure.reason) || epoch == 0 {
            return now;
        }
        let writer = writer(hardware, departure.group);
        let (line, bytes) = (departure.line, &departure.bytes);
        self.mnm
            .insert(hardware, epoch, line, bytes, writer, now)
            .accepted
    }

    fn passes_dirty(&self, to: usize, version: Version) -> bool {
        self.flaws.transfers_past_omc
            || self.numbers.epoch(version, self.newest) >= self.groups[to].walker.floor
    }

    #[inline]
    fn memory_version(&self, line: LineNumber) -> Version {
        self.oids.get(line)
    }

    #[inline]
    fn is_ahead(&self, group: usize, version: Version, write: bool) -> bool {
        let epoch = self.groups[group].epoch;
        let newer =
            version != self.numbers.tag(epoch) && self.numbers.epoch(version, self.newest) > epoch;
        newer && !self.flaws.ignores_newer(write)
    }

    fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
        let Hardware {
            memory, statistics, ..
        } = hardware;
        let &Eviction {
            line,
            ref bytes,
            version,
            ..
        } = eviction;
        let (numbers, newest) = (self.numbers, self.newest);
        self.oids
            .set(line, version, |tag| numbers.epoch(tag, newest));
        let done = memory.write_back(line, bytes, now, statistics);
        done.into()
    }

    fn fired(&mut self, hardware: &mut Hardware, event: u32, now: Cycles) {
        if event >= EVENT_WALK {
            self.walk(hardware, (event - EVENT_WALK) as usize, now);
        } else {
            self.mnm.fired(hardware, event, now);
        }
    }
}

impl GroupEpochs for Nvoverlay {
    fn epoch(&self, group: usize) -> u64 {
        self.groups[group].epoch
    }

    fn epoch_of(&self, version: Version) -> u64 {
        self.numbers.epoch(version, self.newest)
    }

    fn lags(&self, group: usize) -> bool {
        let epoch = self.groups[group].epoch;
        epoch + self.parameters.skew_epochs < self.newest
            || self.numbers.group(epoch) != self.numbers.group(self.newest)
    }

    fn save(
        &mut self,
        hardware: &mut Hardware,
        group: usize,
        epoch: u64,
        line: LineNumber,
        bytes: &Line,
        now: Cycles,
    ) -> Cycles {
        let epoch = epoch + u64::from(self.flaws.dumps_context_after_advance);
        let writer = writer(hardware, group);
        self.mnm
            .insert(hardware, epoch, line, bytes, writer, now)
            .accepted
    }

    fn advance(
        &mut self,
        hardware: &mut Hardware,
        group: usize,
        epoch: u64,
        now: Cycles,
    ) -> Cycles {
        // Nobody runs an epoch of the group that has begun before its numbers are free.
        let mut ready = now.max(self.recycled_at);
        if self.numbers.group(epoch) != self.numbers.group(self.newest) {
            ready = self.recycle(hardware, now);
        }
        self.newest = self.newest.max(epoch);
        self.groups[group].epoch = epoch;
        self.tags[hardware.groups[group].harts.clone()].fill(self.numbers.tag(epoch));
        if self.flaws.sibling_keeps_epoch {
            let first = hardware.groups[group].harts.start;
            hardware.cores[first].lookaside.revoke_all_writes();
        } else {
            hardware.version_changed_in(group);
        }
        if self.parameters.walker {
            self.start_walk(hardware, group, ready);
        }
        ready
    }

    fn persist(&mut self, hardware: &mut Hardware, now: Cycles) {
        for group in 0..self.groups.len() {
            self.start_walk(hardware, group, now);
        }
    }

    fn kernel_advanced(&mut self, hardware: &mut Hardware, epoch: u64, now: Cycles) {
        self.kernel_epoch = epoch;
        self.look_for_recoverable(hardware, now);
    }
}

impl EpochNumbers for Nvoverlay {
    fn executing_epoch(&self) -> u64 {
        self.newest
    }

    fn announced_epoch(&self) -> u64 {
        self.mnm.recoverable()
    }
}

impl Design for Nvoverlay {
    const NAME: &'static str = "nvoverlay";
    const SUMMARY: &'static str = "an epoch for each sharing group, and NVM that maps every epoch's lines: snapshots without a log";
    const PLANTED_BUGS: &'static [PlantedBug] = &ALL_BUGS;
    const UNLUCKY_SETTINGS: &'static [&'static [&'static str]] = &[
        &["nvoverlay.super_blocks=true", "nvoverlay.skew_epochs=20"],
        &[
            "nvoverlay.oid_bits=3",
            "nvoverlay.skew_epochs=1",
            "nvoverlay.buffer_sets=0",
        ],
        &[
            "nvoverlay.walk_step_cycles=4000",
            "nvoverlay.buffer_ways=8",
            "nvoverlay.merge_entries_per_step=1",
        ],
        &[
            "nvoverlay.oid_bits=4",
            "nvoverlay.walk_sets_per_step=1",
            "nvoverlay.omcs=1",
            "nvoverlay.pool_extent_bytes=64KiB",
            "nvoverlay.pool_limit_bytes=1MiB",
        ],
        &[
            "nvoverlay.super_blocks=true",
            "nvoverlay.skew_epochs=50",
            "nvoverlay.pool_extent_bytes=64KiB",
            "nvoverlay.pool_limit_bytes=6MiB",
        ],
        &["nvoverlay.walk_step_cycles=4000"],
    ];
    const NEEDS_INCLUSION: bool = false;
    const SNAPSHOTS: Option<crate::snapshots::SnapshotSource> = Some(mnm::SNAPSHOTS);
    type Epochs = OfGroups;
    type Promise = CausalCut;
    type Parameters = Parameters;
    type Counters = Counters;

    fn start(
        parameters: &Parameters,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        parameters.validate(hardware)?;
        let harts = hardware.cores.len();
        if epoch == 0 {
            write_boot_record(layout, harts, &mut hardware.memory.arena);
        }
        let mnm = Mnm::start(&parameters.mnm, layout, hardware, epoch, bug)?;
        let numbers = Numbers::new(parameters.oid_bits);
        let first = epoch + 1;
        let group = SharingGroup {
            epoch: first,
            walker: Walker::new(first),
        };
        let memory = layout.protected();
        Ok(Self {
            parameters: parameters.clone(),
            numbers,
            groups: vec![group; hardware.groups.len()],
            tags: vec![numbers.tag(first); harts],
            newest: first,
            kernel_epoch: first,
            complete: epoch,
            recycled_at: 0,
            oids: Oids::new(memory.end, parameters.super_blocks),
            memory,
            mnm,
            flaws: Flaws::of(bug),
        })
    }

    fn format(
        parameters: &Parameters,
        layout: &Layout,
        harts: usize,
        arena: &mut Arena,
        epoch: u64,
    ) -> Result<(), ImpossibleParameter> {
        write_boot_record(layout, harts, arena);
        Mnm::format(&parameters.mnm, layout, arena, epoch)
    }

    fn drain(&self, at: Cycles, write: &mut dyn FnMut(u64, &[u8])) {
        for (address, line) in self.mnm.drain(at) {
            write(address, &line.0);
        }
    }

    fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
        mnm::recover(image, bug)
    }

    fn counters(&self) -> Counters {
        let mnm = self.mnm.statistics();
        let master_units = mnm.master_nodes * u64::from(mnm::master::NODE_UNITS)
            + mnm.master_leaves * u64::from(mnm::master::LEAF_UNITS);
        Counters {
            versions: mnm.versions,
            versions_redundant: mnm.versions_redundant,
            buffer_hits: mnm.buffer_hits,
            index_bytes: mnm.index_bytes,
            master_bytes: mnm.master_bytes,
            master_bytes_now: master_units * mnm::format::UNIT_BYTES,
            master_leaves: mnm.master_leaves,
            master_lines: mnm.master_lines,
            epochs_merged: mnm.epochs_merged,
            compactions: mnm.compactions,
            compaction_bytes: mnm.compaction_bytes,
            extents: mnm.extents,
            pool_bytes_peak: mnm.units_used_peak * mnm::format::UNIT_BYTES,
            space_wait_cycles: mnm.space_wait_cycles,
        }
    }

    fn phase(&self) -> &'static str {
        if self.mnm.busy() {
            self.mnm.phase()
        } else if self.groups.iter().any(|one| one.walker.next_set.is_some()) {
            "tag walk"
        } else {
            "executing"
        }
    }

    fn paths(hardware: &Statistics, own: &Counters) -> Vec<(&'static str, u64)> {
        vec![
            ("store eviction", hardware.version_store_evictions),
            ("version passed dirty", hardware.dirty_transfers),
            ("redundant write-back", own.versions_redundant),
            ("compaction", own.compactions),
            ("more than one extent", own.extents.saturating_sub(1)),
        ]
    }
}

fn write_boot_record(layout: &Layout, harts: usize, arena: &mut Arena) {
    layout.put_boot_record(harts, [0; 4], arena);
}
