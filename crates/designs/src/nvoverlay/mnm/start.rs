//! How a mapping starts: over an NVM that it formats, or going on with what one holds.

use std::collections::{BTreeMap, VecDeque};

use perdure_hardware::arena::Arena;
use perdure_hardware::hierarchy::Hardware;

use super::buffer::Buffer;
use super::bugs::Flaws;
use super::format::{ChainReader, Chains, Header, Kind, PAGE_BYTES, Register, Visit};
use super::master::{self, Found, NODE_UNITS};
use super::pool::Pool;
use super::statistics::MnmStatistics;
use super::{Mnm, MnmParameters, Omc, RESERVED_ONE_IN};
use crate::design::ImpossibleParameter;
use crate::layout::Layout;
use crate::surviving::Corruption;

impl Mnm {
    /// Starts the mapping over an NVM that holds epoch `epoch`: 0 formats it; any other is what
    /// [`recover`](super::recover) has just brought back, or [`format()`](Self::format) prepared.
    pub fn start(
        parameters: &MnmParameters,
        layout: &Layout,
        hardware: &mut Hardware,
        epoch: u64,
        bug: Option<&'static str>,
    ) -> Result<Self, ImpossibleParameter> {
        parameters.check(layout)?;
        let arena = &mut hardware.memory.arena;
        let mut pool = Pool::new(
            layout.log_area.clone(),
            parameters.pool_extent_bytes,
            parameters.pool_limit_bytes,
        );
        let mut statistics = MnmStatistics::default();
        let mut register;
        let mut blocks = vec![(VecDeque::new(), Vec::new()); parameters.omcs];
        if epoch == 0 {
            register = empty(parameters, &mut pool, arena, epoch);
            statistics.master_nodes = parameters.omcs as u64;
        } else {
            let unusable = |why: Corruption| {
                let problem = format!("the NVM's snapshots cannot be gone on with: {why}");
                ImpossibleParameter::new("epoch", epoch, problem)
            };
            register = Register::read(&*arena).map_err(unusable)?;
            goes_on(&register, parameters, layout, epoch)?;
            rebuild(arena, &register, &mut pool, &mut blocks, &mut statistics).map_err(unusable)?;
        }
        register.extents = pool.extents();
        statistics.extents = pool.extents();
        // Both copies say the same: neither leads to units that are free now.
        for _ in 0..2 {
            register.sequence += 1;
            arena.write(register.address(), &register.encode());
        }
        let omcs = controllers(parameters, &register, blocks);
        Ok(Self {
            parameters: parameters.clone(),
            flaws: Flaws::of(bug),
            row_bytes: hardware.specification.nvm.row_bytes as u64,
            pool,
            omcs,
            told: VecDeque::new(),
            completed: epoch,
            indexed: epoch,
            merged: epoch,
            horizon: register.horizon,
            versions_durable: BTreeMap::new(),
            named_durable: 0,
            index_durable: 0,
            merges_durable: VecDeque::new(),
            merged_durably: epoch,
            other_recoverable: epoch,
            overwritten_recoverable: epoch,
            register,
            register_durable: 0,
            announcements: VecDeque::new(),
            recoverable: epoch,
            indexing: None,
            index_put_off: Vec::new(),
            merging: None,
            compaction: None,
            starved: false,
            step_at: None,
            fence: 0,
            waits_until: None,
            statistics,
        })
    }

    /// Prepares an NVM that has the memory of an epoch at its home addresses, and no snapshots, for
    /// [`start`](Self::start) at that epoch. It will be the oldest that can be read.
    pub fn format(
        parameters: &MnmParameters,
        layout: &Layout,
        arena: &mut Arena,
        epoch: u64,
    ) -> Result<(), ImpossibleParameter> {
        parameters.check(layout)?;
        let (extent, limit) = (parameters.pool_extent_bytes, parameters.pool_limit_bytes);
        let mut pool = Pool::new(layout.log_area.clone(), extent, limit);
        let mut register = empty(parameters, &mut pool, arena, epoch);
        register.extents = pool.extents();
        arena.write(register.address(), &register.encode());
        Ok(())
    }
}

/// The OMCs, whose tables and buffers are empty.
fn controllers(parameters: &MnmParameters, register: &Register, blocks: Blocks) -> Vec<Omc> {
    let (sets, ways) = parameters.buffer_of_omc();
    let omcs = register.chains.iter().zip(blocks);
    omcs.map(|(&chains, (blocks, base_blocks))| Omc {
        tables: BTreeMap::new(),
        buffer: Buffer::new(parameters.omcs, sets, ways),
        chains,
        blocks,
        base_blocks,
    })
    .collect()
}

/// Refuses registers of another epoch, or of another geometry.
fn goes_on(
    found: &Register,
    parameters: &MnmParameters,
    layout: &Layout,
    epoch: u64,
) -> Result<(), ImpossibleParameter> {
    let same = (&found.pool, found.extent_bytes, found.chains.len())
        == (
            &layout.log_area,
            parameters.pool_extent_bytes,
            parameters.omcs,
        );
    ImpossibleParameter::unless(
        same && (found.recoverable, found.merged) == (epoch, epoch),
        "epoch",
        epoch,
        format!(
            "the NVM holds epoch {}, merged up to {}, of {} OMCs with extents of {} bytes from {:#x} on",
            found.recoverable,
            found.merged,
            found.chains.len(),
            found.extent_bytes,
            found.pool.start
        ),
    )
}

/// A mapping without versions, whose oldest and newest epoch is `epoch`: writes its master tables, and
/// returns its registers.
fn empty(parameters: &MnmParameters, pool: &mut Pool, arena: &mut Arena, epoch: u64) -> Register {
    // The kernel begins with the reserve and an extent to use.
    let reserve = parameters.pool_limit_bytes / RESERVED_ONE_IN;
    pool.reach(reserve.div_ceil(parameters.pool_extent_bytes) + 1);
    let mut root = || {
        let unit = pool.allocate_units(NODE_UNITS);
        let root = pool.address(unit.expect("an extent has room for the roots"));
        arena.write(root, &[0; PAGE_BYTES as usize]);
        root
    };
    let chains = (0..parameters.omcs).map(|_| Chains {
        root: root(),
        ..Chains::default()
    });
    let chains = chains.collect();
    Register {
        sequence: 0,
        recoverable: epoch,
        merged: epoch,
        horizon: epoch,
        pool: pool.area().clone(),
        extent_bytes: parameters.pool_extent_bytes,
        extents: 1,
        chains,
    }
}

/// Blocks of each OMC's index, oldest first, and of its base.
type Blocks = Vec<(VecDeque<Header>, Vec<Header>)>;

/// Finds again what the pool's units are used for.
fn rebuild(
    arena: &Arena,
    register: &Register,
    pool: &mut Pool,
    blocks: &mut Blocks,
    statistics: &mut MnmStatistics,
) -> Result<(), Corruption> {
    for (omc, chains) in register.chains.iter().enumerate() {
        let reader = ChainReader::new(arena, register, omc);
        let mut segments = Vec::new();
        let (epochs, bases) = &mut blocks[omc];
        reader.walk(chains, |visit| {
            segments.push(match visit {
                Visit::Segment(segment) => (segment.unit, segment.units()),
                Visit::Block(header) => {
                    match header.kind {
                        Kind::Epoch => epochs.push_front(*header),
                        Kind::Base => bases.push(*header),
                    }
                    (pool.unit(header.address), header.units)
                }
            });
            Ok(())
        })?;
        master::scan(arena, chains.root, &mut |found| {
            match found {
                Found::Node(address, units) => {
                    if !register.pool.contains(&address) {
                        let what = "master table: a node outside the pool";
                        return Err(Corruption { what, address });
                    }
                    segments.push((pool.unit(address), units));
                    if units == NODE_UNITS {
                        statistics.master_nodes += 1;
                    } else {
                        statistics.master_leaves += 1;
                    }
                }
                Found::Version(..) => statistics.master_lines += 1,
            }
            Ok(())
        })?;
        for (unit, units) in segments {
            pool.mark(unit, units)?;
        }
    }
    pool.reach(register.extents);
    Ok(())
}
