//! Which device has what: the persistent region is dealt out to the devices granule by granule, so that a
//! block lies together in one of them (section 7; scatter and gather are not supported).

use std::ops::Range;

use perdure_hardware::physical_map::{PhysicalMap, RegionKind};

/// The region and how it is dealt out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Its addresses.
    pub region: Range<u64>,
    /// What lies together in a device.
    pub granule: u64,
    /// How many devices take it in turn.
    pub devices: usize,
}

impl Geometry {
    /// Of a machine whose pools lie in modules with devices: that, and the numbers of the modules.
    pub fn of(map: &PhysicalMap, granule: u64) -> Option<(Self, Vec<usize>)> {
        let region = map.pools().next()?;
        let found = map.region(region.start)?;
        let has_device = |module: &usize| {
            let mut regions = map.regions().iter();
            regions.any(|one| one.kind == RegionKind::Device && one.modules == [*module])
        };
        let modules = found.modules.clone();
        let geometry = Self {
            region,
            granule,
            devices: modules.len(),
        };
        modules
            .iter()
            .all(has_device)
            .then_some((geometry, modules))
    }

    /// The device of an address.
    pub fn device(&self, address: u64) -> usize {
        ((address - self.region.start) / self.granule) as usize % self.devices
    }

    /// A range, granule by granule.
    pub fn granules(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let (start, granule, end) = (self.region.start, self.granule, range.end);
        let mut at = range.start;
        std::iter::from_fn(move || {
            let next = start + ((at - start) / granule + 1) * granule;
            let piece = at..next.min(end);
            at = piece.end;
            (piece.start < piece.end).then_some(piece)
        })
    }

    /// What a device has of a range, granule by granule.
    pub fn own(
        &self,
        device: usize,
        range: &Range<u64>,
    ) -> impl Iterator<Item = Range<u64>> + use<> {
        let of = self.clone();
        let granules = self.granules(range);
        granules.filter(move |piece| of.device(piece.start) == device)
    }

    /// The devices that have something of a range, as bits.
    pub fn devices_of(&self, range: &Range<u64>) -> u8 {
        let granules = self.granules(range).take(self.devices);
        granules.fold(0, |devices, piece| devices | 1 << self.device(piece.start))
    }

    /// All devices, as bits.
    pub fn all(&self) -> u8 {
        (1u16 << self.devices).wrapping_sub(1) as u8
    }

    /// A range of the region, from its start.
    pub fn relative(&self, range: &Range<u64>) -> Range<u64> {
        range.start - self.region.start..range.end - self.region.start
    }

    /// Where a device writes what its energy saves: the start of its first granule.
    pub fn record(&self, device: usize) -> u64 {
        self.region.start + device as u64 * self.granule
    }
}
