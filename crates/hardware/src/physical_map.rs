//! The physical map: what an address is (DRAM, persistent memory, a device), and which memory module
//! has it where.
//!
//! It is a table, made once and asked on misses only. A module counts its own bytes from 0; that is what
//! its banks go by, so that modules that share a region each use all of theirs.
//!
//! Always true here:
//! - Regions lie side by side from address 0 on, without a gap, in the order DRAM, persistent memory,
//!   devices.
//! - A byte of a region is one module's, at one place there, and no two bytes are at the same place.
//! - The modules of a region take it in turn, granule by granule. What lies within a granule lies
//!   together in its module.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// What a region is to the rest of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegionKind {
    /// Memory that forgets.
    Dram,
    /// Memory that keeps what its module's persistence says.
    Persistent,
    /// Loads and stores reach the program of a module, with their bytes; nothing is cached.
    Device,
}

/// A region to be laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What people call it.
    pub name: String,
    /// What it is.
    pub kind: RegionKind,
    /// All of it: the same share of every module, in whole granules.
    pub bytes: u64,
    /// The modules that have it, in turn.
    pub modules: Vec<usize>,
    /// Bytes that lie together in a module: a power of two. Of no account to a region of one module.
    pub granule_bytes: u64,
    /// Where each module's share begins in the module.
    pub offset: u64,
}

/// A region of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// What people call it.
    pub name: String,
    /// What it is.
    pub kind: RegionKind,
    /// Its physical addresses.
    pub addresses: Range<u64>,
    /// The modules that have it, in turn.
    pub modules: Vec<usize>,
    granule_shift: u32,
    offset: u64,
}

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The module.
    pub module: usize,
    /// Where in it.
    pub offset: u64,
}

/// What one module has of a range of addresses, in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first physical address.
    pub address: u64,
    /// How many bytes.
    pub length: u64,
    /// Where the first one lies.
    pub place: Place,
}

impl Region {
    fn locate(&self, address: u64) -> Place {
        let within = address - self.addresses.start;
        let count = self.modules.len() as u64;
        if count == 1 {
            return Place {
                module: self.modules[0],
                offset: self.offset + within,
            };
        }
        let granule = within >> self.granule_shift;
        let rest = within & ((1 << self.granule_shift) - 1);
        Place {
            module: self.modules[(granule % count) as usize],
            offset: self.offset + ((granule / count) << self.granule_shift) + rest,
        }
    }

    /// Where the piece of one module ends that an address lies in.
    fn piece_end(&self, address: u64) -> u64 {
        if self.modules.len() == 1 {
            return self.addresses.end;
        }
        let within = address - self.addresses.start;
        self.addresses.start + (((within >> self.granule_shift) + 1) << self.granule_shift)
    }

    /// How much of the module that is `turn`-th in it lies below an address.
    fn below(&self, turn: usize, address: u64) -> u64 {
        let within = address.clamp(self.addresses.start, self.addresses.end) - self.addresses.start;
        let count = self.modules.len() as u64;
        if count == 1 {
            return within;
        }
        let (granule, turn) = (within >> self.granule_shift, turn as u64);
        let (rounds, at) = (granule / count, granule % count);
        let rest = within & ((1 << self.granule_shift) - 1);
        let last = match at.cmp(&turn) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => rest,
            std::cmp::Ordering::Greater => 1 << self.granule_shift,
        };
        (rounds << self.granule_shift) + last
    }
}

/// The map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalMap {
    regions: Vec<Region>,
    /// The first region's end if one module has that region from its own byte 0 on, else 0: below it, an
    /// address is its own place in [`Self::plain_module`].
    plain_end: u64,
    plain_module: usize,
    /// Where devices begin.
    devices_start: u64,
}

impl PhysicalMap {
    /// Lays regions out, each kind's in the order given. At least one; none is empty.
    pub fn new(plans: Vec<Plan>) -> Self {
        let mut plans = plans;
        plans.sort_by_key(|plan| plan.kind);
        let mut end = 0;
        let regions: Vec<_> = plans
            .into_iter()
            .map(|plan| {
                let start = end;
                end += plan.bytes;
                Region {
                    name: plan.name,
                    kind: plan.kind,
                    addresses: start..end,
                    modules: plan.modules,
                    granule_shift: plan.granule_bytes.trailing_zeros(),
                    offset: plan.offset,
                }
            })
            .collect();
        let first = &regions[0];
        let plain = first.modules.len() == 1 && first.offset == 0;
        let devices = regions.iter().find(|one| one.kind == RegionKind::Device);
        Self {
            plain_end: if plain { first.addresses.end } else { 0 },
            plain_module: first.modules[0],
            devices_start: devices.map_or(end, |region| region.addresses.start),
            regions,
        }
    }

    /// The regions, by address.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Where programs and the kernel live: the region at address 0.
    pub fn main(&self) -> &Region {
        &self.regions[0]
    }

    /// Persistent regions beside the main one: what lies there is found again by whoever is started anew.
    pub fn pools(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let beside = self.regions.iter().skip(1);
        beside
            .filter(|region| region.kind == RegionKind::Persistent)
            .map(|region| region.addresses.clone())
    }

    /// Size of the physical address space in bytes.
    pub fn bytes(&self) -> u64 {
        self.regions.last().map_or(0, |last| last.addresses.end)
    }

    /// The region of an address, if it is in one.
    pub fn region(&self, address: u64) -> Option<&Region> {
        // Few regions: one after the other is quickest.
        self.regions
            .iter()
            .find(|region| address < region.addresses.end)
    }

    /// Which module has an address, and where. The address is below [`Self::bytes`].
    #[inline]
    pub fn locate(&self, address: u64) -> Place {
        if address < self.plain_end {
            return Place {
                module: self.plain_module,
                offset: address,
            };
        }
        self.locate_in_table(address)
    }

    /// Where a range lies, if its addresses are their own places in one module.
    #[inline(always)]
    pub fn plain(&self, address: u64, length: usize) -> Option<Place> {
        let end = address.checked_add(length as u64)?;
        (end <= self.plain_end).then_some(Place {
            module: self.plain_module,
            offset: address,
        })
    }

    fn locate_in_table(&self, address: u64) -> Place {
        let region = self.region(address);
        region.expect("an address of the map").locate(address)
    }

    /// True if there is a device region.
    #[inline]
    pub fn has_devices(&self) -> bool {
        self.devices_start < self.bytes()
    }

    /// True if an address belongs to a device.
    #[inline]
    pub fn is_device(&self, address: u64) -> bool {
        address >= self.devices_start
    }

    /// A range in pieces that lie together in one module, in the order of addresses.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let region = self.region(at).filter(|_| at < range.end)?;
            let end = region.piece_end(at).min(range.end);
            let piece = Piece {
                address: at,
                length: end - at,
                place: region.locate(at),
            };
            at = end;
            Some(piece)
        })
    }

    /// What a module has of a range, which lies in one region: from where to where in the module.
    /// Nothing, if it has nothing of it.
    pub fn share(&self, module: usize, range: &Range<u64>) -> Range<u64> {
        let whole = self.regions.iter().find_map(|region| {
            let turn = region.modules.iter().position(|&one| one == module)?;
            let overlaps = region.addresses.start < range.end && range.start < region.addresses.end;
            let end = |address| region.offset + region.below(turn, address);
            overlaps.then(|| end(range.start)..end(range.end))
        });
        whole.unwrap_or(0..0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::random::Random;

    fn plan(kind: RegionKind, bytes: u64, modules: &[usize], granule_bytes: u64) -> Plan {
        Plan {
            name: format!("{modules:?}"),
            kind,
            bytes,
            modules: modules.to_vec(),
            granule_bytes,
            offset: 0,
        }
    }

    #[test]
    fn kinds_lie_in_order_whatever_the_order_of_the_plans() {
        let map = PhysicalMap::new(vec![
            plan(RegionKind::Device, 64, &[3], 64),
            plan(RegionKind::Persistent, 1024, &[0], 64),
            plan(RegionKind::Dram, 512, &[1], 64),
            plan(RegionKind::Persistent, 256, &[2], 64),
        ]);
        let starts: Vec<_> = (map.regions().iter())
            .map(|region| (region.addresses.start, region.modules[0]))
            .collect();
        assert_eq!(starts, [(0, 1), (512, 0), (1536, 2), (1792, 3)]);
        assert_eq!(map.bytes(), 1856);
        assert_eq!(map.main().modules, [1]);
        let found = |address| map.region(address).map(|region| region.modules[0]);
        assert_eq!(found(511), Some(1));
        assert_eq!(found(512), Some(0));
        assert_eq!(found(1856), None);
        assert!(!map.is_device(1791) && map.is_device(1792));
        assert_eq!(map.pools().collect::<Vec<_>>(), [512..1536, 1536..1792]);
    }

    #[test]
    fn three_modules_take_a_region_in_turn() {
        let map = PhysicalMap::new(vec![plan(RegionKind::Persistent, 768, &[4, 5, 6], 128)]);
        let at = |address| {
            let place = map.locate(address);
            (place.module, place.offset)
        };
        assert_eq!([at(0), at(127), at(128)], [(4, 0), (4, 127), (5, 0)]);
        assert_eq!([at(383), at(384), at(767)], [(6, 127), (4, 128), (6, 255)]);
        assert_eq!(map.share(5, &(0..768)), 0..256);
        assert_eq!(map.share(5, &(130..500)), 2..128);
        assert_eq!(map.share(9, &(0..768)), 0..0);
    }

    /// Every byte of small maps of every form: none is at the place of another, the fast answer is the
    /// table's, pieces cover a range without a gap and lie together, and shares are what pieces come to.
    #[test]
    fn every_byte_has_a_place_of_its_own() {
        let seed = 23;
        let mut random = Random::new(seed);
        let kinds = [RegionKind::Dram, RegionKind::Persistent, RegionKind::Device];
        for round in 0..300 {
            let mut next = 0;
            let plans = (0..=random.below(3)).map(|_| {
                let granule_bytes = 1 << random.below(5);
                let count = 1 + random.below(4);
                let modules: Vec<_> = (next..next + count as usize).collect();
                next += count as usize;
                let kind = kinds[random.below(3) as usize];
                let bytes = granule_bytes * count * (1 + random.below(4));
                Plan {
                    offset: random.below(2) * 64,
                    ..plan(kind, bytes, &modules, granule_bytes)
                }
            });
            let map = PhysicalMap::new(plans.collect());
            let told = format!("seed {seed}, round {round}: {map:?}");
            let mut places = BTreeSet::new();
            for address in 0..map.bytes() {
                let place = map.locate(address);
                let region = map.region(address).expect("no gap");
                assert!(places.insert((place.module, place.offset)), "{told}");
                assert_eq!(place, region.locate(address), "{told}");
                assert!(region.modules.contains(&place.module), "{told}");
                assert_eq!(
                    map.is_device(address),
                    region.kind == RegionKind::Device,
                    "{told}"
                );
            }
            let start = random.below(map.bytes());
            let range = start..start + 1 + random.below(map.bytes() - start);
            let mut at = range.start;
            for piece in map.pieces(range.clone()) {
                assert_eq!(piece.address, at, "{told}");
                for step in 0..piece.length {
                    let place = map.locate(piece.address + step);
                    assert_eq!(place.module, piece.place.module, "{told}");
                    assert_eq!(place.offset, piece.place.offset + step, "{told}");
                }
                at += piece.length;
            }
            assert_eq!(at, range.end, "{told}");
            for region in map.regions() {
                let within = region.addresses.clone();
                let part = range.start.max(within.start)..range.end.min(within.end);
                if part.is_empty() {
                    continue;
                }
                for &module in &region.modules {
                    let share = map.share(module, &part);
                    let mut own: Vec<_> = map.pieces(part.clone()).collect();
                    own.retain(|one| one.place.module == module);
                    let total: u64 = own.iter().map(|one| one.length).sum();
                    assert_eq!(share.end - share.start, total, "{told}");
                    for piece in own {
                        let last = piece.place.offset + piece.length;
                        assert!(
                            share.start <= piece.place.offset && last <= share.end,
                            "{told}"
                        );
                    }
                }
            }
        }
    }

    /// What a place says of the next byte decides whether two bytes may be one operation.
    #[test]
    fn a_granule_lies_together() {
        for (count, granule_bytes) in [(1, 4096), (2, 256), (3, 64), (8, 4096)] {
            let modules: Vec<_> = (0..count).collect();
            let bytes = 4 * count as u64 * granule_bytes;
            let map =
                PhysicalMap::new(vec![plan(RegionKind::Dram, bytes, &modules, granule_bytes)]);
            for address in (0..bytes).step_by(64) {
                let granule = address / granule_bytes;
                let first = map.locate(granule * granule_bytes);
                let place = map.locate(address);
                assert_eq!(place.module, first.module);
                assert_eq!(place.offset - first.offset, address % granule_bytes);
            }
        }
    }
}
