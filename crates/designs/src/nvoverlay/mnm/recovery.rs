//! From surviving bytes to the image of rec-epoch (§V-E).
//!
//! 1. Read the boot record and the newer whole copy of the registers.
//! 2. Walk all index chains; every block's checksum must be right.
//! 3. If the master tables lack epochs up to rec-epoch, finish the merge: both copies of the
//!    registers are made to say the same first, so that neither is behind the tables; then nodes,
//!    entries, and registers that say that nothing is left to merge.
//! 4. Scan the master tables: every line that an index names must be mapped. Load each version into
//!    its home address in the DRAM.
//!
//! Only step 3 writes to the NVM. Cut anywhere, it starts over and comes to the same end: what to
//! enter follows from the indexes, which it does not touch, and new nodes lie in units that nothing
//! leads to.

use std::collections::BTreeMap;

use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};

use super::bugs::Flaws;
use super::format::{
    ChainReader, PAGE_BYTES, PAGE_LINES, Register, UNIT_BYTES, Visit, line_number,
};
use super::master::{self, Found, Lookup, Unplanned};
use super::pool::Pool;
use crate::design::Recovered;
use crate::layout::{BootRecord, Layout};
use crate::surviving::{Corruption, Interrupted, Surviving};

/// How many versions ahead the host is told what will be touched.
const PREFETCH: usize = 16;

/// What the indexes tell recovery.
struct Indexed {
    /// For each OMC, what the master table lacks: the newest version of each line.
    unmerged: Vec<BTreeMap<LineNumber, u64>>,
    /// For each OMC, which lines of which pages have versions, a mask for each segment.
    lines: Vec<Vec<(u64, u64)>>,
    /// Units in use, and how many.
    units: Vec<(u32, u32)>,
}

/// Brings the newest recoverable image back into the DRAM.
pub fn recover(image: &mut Surviving, bug: Option<&'static str>) -> Result<Recovered, Interrupted> {
    let flaws = Flaws::of(bug);
    let layout = BootRecord::read(image)?.layout;
    let (register, other) = registers(image, flaws)?;
    check(&register, &layout)?;
    let indexed = read_indexes(image, &register, &layout, flaws)?;
    if register.merged < register.recoverable {
        redo(image, &register, other.as_ref(), &indexed)?;
    }
    for (omc, lines) in indexed.lines.iter().enumerate() {
        let root = register.chains[omc].root;
        let mut lookup = Lookup::new(root);
        for &(page, mask) in lines {
            for line in (0..PAGE_LINES as u8).filter(|line| mask >> line & 1 != 0) {
                if lookup.find(image, line_number(page, line))?.is_none() {
                    let (what, address) = ("master table: an entry is missing", root);
                    return Err(Corruption { what, address }.into());
                }
            }
        }
        load(image, &register, &layout, omc)?;
    }
    Ok(Recovered::at(register.recoverable))
}

/// The copy of the registers to go by, and the other one if it is whole.
fn registers(image: &Surviving, flaws: Flaws) -> Result<(Register, Option<Register>), Corruption> {
    let newest = Register::read(image)?;
    let other = Register::read_copies(image)?.into_iter().nth(1);
    match other {
        Some(older) if flaws.reads_older_copy => Ok((older, Some(newest))),
        other => Ok((newest, other)),
    }
}

fn check(register: &Register, layout: &Layout) -> Result<(), Corruption> {
    let good = register.pool == layout.log_area
        && register.merged <= register.recoverable
        && register.horizon <= register.recoverable
        && register.extent_bytes > 0;
    if good {
        return Ok(());
    }
    Err(Corruption {
        what: "registers of the multi-snapshot mapping: not of this memory",
        address: register.address(),
    })
}

fn read_indexes(
    image: &Surviving,
    register: &Register,
    layout: &Layout,
    flaws: Flaws,
) -> Result<Indexed, Corruption> {
    let omcs = register.chains.len();
    let mut indexed = Indexed {
        unmerged: vec![BTreeMap::new(); omcs],
        lines: vec![Vec::new(); omcs],
        units: Vec::new(),
    };
    let mut last = register.recoverable;
    if flaws.redo_stops_early {
        last = register.merged + 1;
    }
    for (omc, chains) in register.chains.iter().enumerate() {
        let unmerged = &mut indexed.unmerged[omc];
        ChainReader::new(image, register, omc).walk(chains, |visit| {
            let segment = match visit {
                Visit::Segment(segment) => segment,
                Visit::Block(header) => {
                    let unit = (header.address - register.pool.start) / UNIT_BYTES;
                    indexed.units.push((unit as u32, header.units));
                    return Ok(());
                }
            };
            let start = register.pool.start + u64::from(segment.unit) * UNIT_BYTES;
            let first = line_number(segment.page, 0) * LINE_BYTES as u64;
            let protected = layout.protected();
            if !(protected.contains(&first) && protected.contains(&(first + PAGE_BYTES - 1))) {
                let (what, address) = ("index: a page outside memory", start);
                return Err(Corruption { what, address });
            }
            let lacks = register.merged < segment.epoch && segment.epoch <= last;
            let mut mask = 0;
            for (at, slot) in segment.slots().enumerate() {
                let Some(slot) = slot else { continue };
                mask |= 1u64 << slot.line;
                if lacks {
                    // From the newest to the oldest: what is there already is newer.
                    let line = line_number(segment.page, slot.line);
                    let address = start + (at * LINE_BYTES) as u64;
                    unmerged.entry(line).or_insert(address);
                }
            }
            indexed.lines[omc].push((segment.page, mask));
            indexed.units.push((segment.unit, segment.units()));
            Ok(())
        })?;
    }
    Ok(indexed)
}

/// Finishes the merge.
fn redo(
    image: &mut Surviving,
    register: &Register,
    other: Option<&Register>,
    indexed: &Indexed,
) -> Result<(), Interrupted> {
    let mut register = register.clone();
    let mut both = register.clone();
    both.sequence = other.map_or(0, |other| other.sequence);
    if other != Some(&both) {
        register.sequence += 1;
        image.write(register.address(), &register.encode())?;
    }
    // New nodes are seldom needed, and which units are free is much work to find out.
    let mut pool: Result<Option<Pool>, Corruption> = Ok(None);
    for (chains, unmerged) in register.chains.iter().zip(&indexed.unmerged) {
        let allocate = &mut |units| {
            if matches!(pool, Ok(None)) {
                pool = used_pool(image, &register, indexed).map(Some);
            }
            let pool = pool.as_mut().ok()?.as_mut()?;
            loop {
                if let Some(unit) = pool.allocate_units(units) {
                    return Some(pool.address(unit));
                }
                if !pool.grow() {
                    return None;
                }
            }
        };
        let versions = unmerged.iter().map(|(&line, &address)| (line, address));
        let plan = master::plan(&*image, chains.root, versions, allocate, &mut |_, _| {});
        let plan = match (plan, &pool) {
            (Ok(plan), _) => plan,
            (Err(Unplanned::Unreadable(why)), _) => return Err(why.into()),
            (Err(Unplanned::NoRoom), Err(why)) => return Err(why.clone().into()),
            (Err(Unplanned::NoRoom), Ok(_)) => {
                return Err(Corruption {
                    what: "master table: no room in the pool to finish a merge",
                    address: register.pool.end,
                }
                .into());
            }
        };
        for (address, bytes) in plan.nodes.iter().chain(&plan.updates) {
            image.write_unless_there(*address, bytes)?;
        }
    }
    register.sequence += 1;
    register.merged = register.recoverable;
    if let Ok(Some(pool)) = pool {
        register.extents = pool.extents();
    }
    image.write(register.address(), &register.encode())
}

/// The pool with everything marked that the registers lead to.
fn used_pool(
    image: &Surviving,
    register: &Register,
    indexed: &Indexed,
) -> Result<Pool, Corruption> {
    let area = register.pool.clone();
    let bytes = area.end - area.start;
    let mut pool = Pool::new(area, register.extent_bytes, bytes);
    for &(unit, units) in &indexed.units {
        pool.mark(unit, units)?;
    }
    for chains in &register.chains {
        master::scan(image, chains.root, &mut |found| match found {
            Found::Node(address, units) if register.pool.contains(&address) => {
                pool.mark(pool.unit(address), units)
            }
            Found::Node(address, _) => {
                let what = "master table: a node outside the pool";
                Err(Corruption { what, address })
            }
            Found::Version(..) => Ok(()),
        })?;
    }
    pool.reach(register.extents);
    Ok(pool)
}

/// Loads the versions of an OMC's master table into the DRAM.
fn load(
    image: &mut Surviving,
    register: &Register,
    layout: &Layout,
    omc: usize,
) -> Result<(), Interrupted> {
    let mut versions = Vec::new();
    master::scan(&*image, register.chains[omc].root, &mut |found| {
        if let Found::Version(line, address) = found {
            let good = register.pool.contains(&address)
                && layout.protected().contains(&(line * LINE_BYTES as u64));
            if !good {
                let what = "master table: a version outside memory";
                return Err(Corruption { what, address });
            }
            versions.push((line, address));
        }
        Ok(())
    })?;
    for (at, &(line, address)) in versions.iter().enumerate() {
        if let Some(&(line, address)) = versions.get(at + PREFETCH) {
            image.prefetch(address);
            image.prefetch(line * LINE_BYTES as u64);
        }
        let mut bytes = Line::ZERO;
        bytes.0.copy_from_slice(&image.read(address, LINE_BYTES)?);
        image.load_line(line, &bytes)?;
    }
    Ok(())
}
