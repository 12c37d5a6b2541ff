//! What happens to units between epochs: blocks and pages change granularity by how often they were
//! written, and versions that are not written any more go home in the background, so that their
//! entries become free.
//!
//! Always true here: the durable checkpoint, and the one in flight, find every version where they
//! list it, whatever is copied: home is written only for units that both list elsewhere.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::LINE_BYTES;
use perdure_hardware::memory::Traffic;
use perdure_hardware::time::Cycles;

use super::Thynvm;
use super::format::{Kind, PAGE_BYTES, PAGE_LINES};
use super::version::{Place, Versions};

/// The next few versions may be read.
pub const EVENT: u32 = 1;
/// What was read has arrived.
pub const EVENT_ARRIVED: u32 = 2;

/// Lines that are read, then written, together.
const LINES_PER_STEP: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Unit {
    kind: Kind,
    key: u64,
    slot: usize,
}

/// The background copy.
#[derive(Clone, Debug, Default)]
pub struct Copying {
    /// What is to go home, overflowed lines first; a unit may have changed since.
    queue: Vec<Unit>,
    next: usize,
    /// Lines that were read.
    arriving: Vec<Unit>,
    active: bool,
    /// A version came home that the durable checkpoint lists elsewhere.
    copied: bool,
}

impl Copying {
    /// True while versions are on their way.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// True while overflowed lines of the last checkpoint are not home.
    pub(super) fn holds_overflow(&self) -> bool {
        let mut ahead = self.arriving.iter().chain(self.queue.get(self.next));
        self.active && ahead.any(|unit| unit.kind == Kind::Overflow)
    }

    /// A new checkpoint lists what came home so far as being there.
    pub(super) fn forget_copied(&mut self) {
        self.copied = false;
    }
}

impl Thynvm {
    /// At the end of an epoch: which pages are tracked as such from now on, and which units go
    /// home when the checkpoint is durable.
    pub(super) fn choose_granularities(&mut self) {
        let mut written: Vec<(u64, u32)> = Vec::new();
        let mut turn = |versions: &mut Versions, line: u64, homebound: bool| {
            if versions.live && versions.writes > 0 {
                written.push((line / PAGE_LINES, versions.writes));
            }
            versions.homebound = homebound;
            versions.written = false;
            versions.writes = 0;
        };
        for slot in 0..self.blocks.capacity() {
            if let Some(line) = self.blocks.key(slot) {
                let versions = self.blocks.value_mut(slot);
                let idle = !versions.written;
                turn(versions, line, idle);
            }
        }
        let listed: Vec<_> = self
            .overflow
            .iter()
            .map(|(slot, line, _)| (slot, line))
            .collect();
        for (slot, line) in listed {
            turn(self.overflow.value_mut(slot), line, true);
        }
        self.demote();
        written.sort_unstable();
        for page in written.chunk_by(|one, next| one.0 == next.0) {
            let writes: u32 = page.iter().map(|(_, writes)| writes).sum();
            let page = page[0].0;
            if writes >= self.parameters.promote_writes
                && self.live_page(page).is_none()
                && self.new_page(page).is_some()
            {
                self.counters.pages_promoted += 1;
            }
        }
    }

    fn demote(&mut self) {
        for slot in 0..self.pages.capacity() {
            if self.pages.key(slot).is_none() {
                continue;
            }
            let versions = self.pages.value_mut(slot);
            let few = versions.writes <= self.parameters.demote_writes;
            versions.written = false;
            versions.writes = 0;
            if few && versions.live && !versions.homebound {
                self.counters.pages_demoted += 1;
            }
            versions.homebound = few;
            if few && versions.newest == Place::Home {
                versions.die();
            }
        }
    }

    /// The checkpoint is durable: lists what goes home.
    pub(super) fn start_copying(&mut self, hardware: &mut Hardware, now: Cycles) {
        let early = self.flaws.copies_home_early;
        let mut queue = std::mem::take(&mut self.copying.queue);
        queue.clear();
        let goes = |versions: &Versions, pressed: bool| {
            let may = versions.may_go_home() || (early && versions.live);
            may && (versions.homebound || pressed)
        };
        for (slot, key, versions) in self.overflow.iter() {
            if goes(versions, true) {
                let kind = Kind::Overflow;
                queue.push(Unit { kind, key, slot });
            }
        }
        for (slot, key, versions) in self.blocks.iter() {
            if goes(versions, self.pressed) {
                let kind = Kind::Block;
                queue.push(Unit { kind, key, slot });
            }
        }
        for (slot, key, versions) in self.pages.iter() {
            if goes(versions, self.pressed) {
                let kind = Kind::Page;
                queue.push(Unit { kind, key, slot });
            }
        }
        self.copying.next = 0;
        if !queue.is_empty() && !self.copying.active {
            self.copying.active = true;
            hardware.events.schedule(now, EVENT);
        }
        self.copying.queue = queue;
    }

    /// True if the unit still is as it was listed, and may go.
    fn still_goes(&self, unit: Unit) -> bool {
        let key = match unit.kind {
            Kind::Page => self.pages.key(unit.slot),
            Kind::Block => self.blocks.key(unit.slot),
            Kind::Overflow => self
                .overflow
                .find(unit.key)
                .filter(|&slot| slot == unit.slot)
                .map(|_| unit.key),
        };
        if key != Some(unit.key) {
            return false;
        }
        let versions = self.value(unit.kind, unit.slot);
        let early = self.flaws.copies_home_early
            && versions.live
            && !versions.written
            && versions.newest != Place::Home;
        versions.may_go_home() || early
    }

    /// Reads a few lines, or copies a page.
    pub(super) fn home_step(&mut self, hardware: &mut Hardware, now: Cycles) {
        let mut arrived = now;
        while let Some(&unit) = self.copying.queue.get(self.copying.next) {
            let is_page = unit.kind == Kind::Page;
            let full = self.copying.arriving.len() == LINES_PER_STEP;
            if full || (is_page && !self.copying.arriving.is_empty()) {
                break;
            }
            self.copying.next += 1;
            if !self.still_goes(unit) {
                continue;
            }
            if is_page {
                let accepted = self.page_goes_home(hardware, unit, now);
                hardware.events.schedule(accepted, EVENT);
                return;
            }
            let place = self.value(unit.kind, unit.slot).newest;
            let from = self.regions.address(unit.kind, unit.key, unit.slot, place);
            let Hardware {
                memory, statistics, ..
            } = hardware;
            let at_hand = memory.read_block(from, LINE_BYTES, now, statistics);
            arrived = arrived.max(at_hand);
            self.copying.arriving.push(unit);
        }
        if self.copying.arriving.is_empty() {
            self.copying.active = false;
            self.clean_up_if_due(hardware, now);
        } else {
            hardware.events.schedule(arrived, EVENT_ARRIVED);
        }
    }

    /// Writes what was read.
    pub(super) fn home_arrived(&mut self, hardware: &mut Hardware, now: Cycles) {
        let arriving = std::mem::take(&mut self.copying.arriving);
        let mut time = now;
        for &unit in &arriving {
            if self.still_goes(unit) {
                time = self.line_goes_home(hardware, unit, time);
            }
        }
        self.copying.arriving = arriving;
        self.copying.arriving.clear();
        hardware.events.schedule(time, EVENT);
    }

    /// A line goes to its home address, or to its page if that is tracked as one elsewhere.
    fn line_goes_home(&mut self, hardware: &mut Hardware, unit: Unit, now: Cycles) -> Cycles {
        let Unit { kind, key, slot } = unit;
        let place = self.value(kind, slot).newest;
        let from = self.regions.address(kind, key, slot, place);
        let bytes = *hardware.memory.arena.line(from);
        let page = self
            .live_page(key / PAGE_LINES)
            .filter(|&page| self.pages.value(page).newest != Place::Home);
        if let Some(page) = page {
            self.counters.blocks_merged += 1;
            let done = self.write_to_page(hardware, page, key, &bytes, Traffic::Flush, now);
            return done.accepted;
        }
        self.counters.units_brought_home += 1;
        self.copying.copied = true;
        let versions = self.value_mut(kind, slot);
        versions.newest = Place::Home;
        versions.settled = true;
        let Hardware {
            memory, statistics, ..
        } = hardware;
        memory
            .write_line(key, &bytes, Traffic::Flush, now, 0, statistics)
            .accepted
    }

    /// A page goes home whole; the lines of a demoted one are then tracked by themselves.
    fn page_goes_home(&mut self, hardware: &mut Hardware, unit: Unit, now: Cycles) -> Cycles {
        let Unit { kind, key, slot } = unit;
        let place = self.value(kind, slot).newest;
        let from = self.regions.address(kind, key, slot, place);
        self.counters.units_brought_home += 1;
        self.copying.copied = true;
        let versions = self.pages.value_mut(slot);
        versions.newest = Place::Home;
        if versions.homebound {
            versions.die();
        }
        versions.settled = true;
        let home = key * PAGE_BYTES;
        Self::copy_page(hardware, from, home, PAGE_BYTES, Traffic::Flush, now).accepted
    }

    /// When everything that goes home is there, its entries become free by recording so.
    pub(super) fn clean_up_if_due(&mut self, hardware: &mut Hardware, now: Cycles) {
        if self.copying.copied && !self.copying.active && !self.checkpoint_in_flight() {
            self.clean_up(hardware, now);
        }
    }
}
