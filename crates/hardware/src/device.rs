//! Devices: memory modules with a program of their own.
//!
//! A program is reached by loads and stores to its device region, with their bytes; nothing caches
//! them. It works on its module's bytes through [`Inside`], where everything costs what it costs at the
//! module's controller and banks, and nothing crosses the link. What the processor reads and writes in
//! the module's other regions passes it, and waits for it where it says so.
//!
//! Always true here:
//! - A program sees no bytes but its own module's, and no design.
//! - What it would save at a power cut it says without changing: the cut may be undone.
//! - Its recovery is a function without state. It gets the bytes that survived and where its module's
//!   lie, and nothing else, and runs before any software does.

use std::any::Any;
use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;

use crate::controller::Path;
use crate::line::LINE_BYTES;
use crate::memory::{Accepted, Lost, Memory, Traffic};
use crate::module::Operation;
use crate::physical_map::Place;
use crate::statistics::Statistics;
use crate::time::Cycles;
use crate::timeline::{Fact, Track};
use crate::trace::{Accessor, Traced};

/// What the processor asks of a module that has a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAccess<'b> {
    /// The first byte.
    pub address: u64,
    /// How many.
    pub length: usize,
    /// What it writes there, unless it reads.
    pub written: Option<&'b [u8]>,
}

impl<'b> HostAccess<'b> {
    /// A write.
    pub fn write(address: u64, bytes: &'b [u8]) -> Self {
        Self {
            address,
            length: bytes.len(),
            written: Some(bytes),
        }
    }

    /// True if it has a byte of a range.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        self.address < range.end && range.start < self.address + self.length as u64
    }
}

/// What a device makes of an access of the processor to its module's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The banks may begin with it then.
    Admitted {
        /// When.
        at: Cycles,
    },
    /// A write waits in the device until its banks may begin with it, and survives from `kept` on: if the
    /// power fails in between, the device saves it, and its recovery writes it. Memory has its bytes for
    /// everybody who reads.
    Held {
        /// When the device has it.
        kept: Cycles,
        /// When the banks may begin.
        at: Cycles,
    },
    /// What is read comes from the device, and is on its way to the processor then: it is the newest that
    /// was written, and no bank is asked.
    Answered {
        /// When.
        at: Cycles,
    },
}

/// The power failed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the power failed while a device recovered")]
pub struct PowerLost;

/// What survived, for a device that recovers. Every write is a step at which the power may fail.
pub trait SurvivingBytes {
    /// Bytes of the image, which are within the device's module.
    fn read(&mut self, address: u64, length: usize) -> Vec<u8>;

    /// Writes bytes.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), PowerLost>;
}

/// How a device recovers: from what survived, and from where its module's memory lies.
pub type Recovery = fn(&mut dyn SurvivingBytes, &[Range<u64>]) -> Result<(), PowerLost>;

impl Clone for Box<dyn Device> {
    fn clone(&self) -> Self {
        self.copy()
    }
}

/// The program of a module.
pub trait Device: Debug + Send {
    /// A device in the same state, for a copy of the hardware.
    fn copy(&self) -> Box<dyn Device>;

    /// Itself, for a design that wants to look at the device that it has installed ([`Memory::device`]).
    fn as_any(&self) -> &dyn Any {
        &()
    }

    /// A load from the device region, so many bytes after its start. Returns when they are ready to
    /// be sent.
    fn load(&mut self, inside: &mut Inside, at: u64, bytes: &mut [u8], now: Cycles) -> Cycles;

    /// A store to the device region. Returns when the device has taken it: until then, its sender waits.
    fn store(&mut self, inside: &mut Inside, at: u64, bytes: &[u8], now: Cycles) -> Cycles;

    /// The processor accesses the module's memory.
    fn admit(&mut self, _inside: &mut Inside, _access: &HostAccess, now: Cycles) -> Admission {
        Admission::Admitted { at: now }
    }

    /// Of the write to that address which the device keeps since then: when it has come in, for which it may
    /// have waited before the module's queue, and when it is with the banks and survives without the device.
    fn settled(&mut self, _address: u64, _kept: Cycles, _when: [Cycles; 2]) {}

    /// A time has come for which the device asked to be woken ([`Inside::wake`]).
    fn fired(&mut self, _inside: &mut Inside, _event: u16, _now: Cycles) {}

    /// What the device's reserve of energy writes to its module when the power fails at `at`.
    fn power_off(&self, at: Cycles, save: &mut dyn FnMut(u64, &[u8]));

    /// How many bytes these are.
    fn energy_bytes(&self, at: Cycles) -> u64 {
        let mut bytes = 0;
        self.power_off(at, &mut |_, saved| bytes += saved.len() as u64);
        bytes
    }

    /// How it recovers when the power is back.
    fn recovery(&self) -> Recovery;
}

/// A module, as its program works with it.
#[derive(Debug)]
pub struct Inside<'a> {
    memory: &'a mut Memory,
    module: usize,
    statistics: &'a mut Statistics,
    /// Programs see what is written: a device does with their bytes what it was told. A design only moves
    /// bytes.
    shows: bool,
}

impl Inside<'_> {
    /// Wakes the device then ([`Device::fired`]).
    pub fn wake(&mut self, at: Cycles, event: u16) {
        let event = (self.module as u32) << 16 | u32::from(event);
        self.memory.device_events.schedule(at, event);
    }

    /// The time up to which no cut will come any more: what was over by then a device may forget.
    pub fn horizon(&self) -> Cycles {
        self.memory.horizon()
    }

    /// Tells whoever verifies the run, if somebody does.
    pub fn tell(&mut self, event: impl FnOnce() -> Traced) {
        if let Some(trace) = &mut self.memory.trace {
            trace.push(event());
        }
    }

    /// True if somebody draws.
    pub fn draws(&self) -> bool {
        self.memory.draws()
    }

    /// Tells whoever draws of a span.
    pub fn draw_span(&mut self, track: Track, name: &'static str, when: [Cycles; 2], of: &[Fact]) {
        self.memory.draw_span(track, name, when, of);
    }

    /// The number of the module.
    pub fn module(&self) -> usize {
        self.module
    }

    /// A store to the region of another module's device, over both links. Returns when that has taken it.
    pub fn store(&mut self, address: u64, bytes: &[u8], now: Cycles) -> Cycles {
        let sent = self.memory.cross(self.module, bytes.len(), now);
        self.memory
            .device_store(address, bytes, sent, self.statistics)
    }

    /// What the module has of a range of addresses, piece by piece.
    pub fn own(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let pieces = self.memory.map.pieces(range);
        let own = pieces.filter(|piece| piece.place.module == self.module);
        own.map(|piece| piece.address..piece.address + piece.length)
            .collect()
    }

    /// Bytes of the module, as they are with everything that was accepted. [`Self::read`] is what they
    /// cost.
    pub fn bytes(&self, address: u64, length: usize) -> Cow<'_, [u8]> {
        self.memory.arena.slice(address, length)
    }

    /// Reads bytes that lie together in the module, row by row. Returns when all are in the row buffers.
    pub fn read(&mut self, address: u64, length: usize, now: Cycles) -> Cycles {
        let Some(place) = self.place("reads", address, length, now) else {
            return now;
        };
        let module = &self.memory.modules[self.module];
        let mut done = now;
        for (offset, bytes) in module.placement().pieces(place, length) {
            let module = self.module;
            let (place, way) = (Place { module, offset }, (Path::Inside, 0));
            (self.memory).count_design_read(module, bytes, Traffic::Log, self.statistics);
            let read = (self.memory).read_row(place, (bytes, bytes), way, now, self.statistics);
            done = done.max(read);
        }
        done
    }

    /// Writes bytes that lie together in the module, row by row, none of them before `not_before`, and
    /// counts them as that traffic. Returns when all are accepted, and when all are durable.
    pub fn write(
        &mut self,
        address: u64,
        bytes: &[u8],
        traffic: Traffic,
        now: Cycles,
        not_before: Cycles,
    ) -> Accepted {
        let Some(place) = self.place("writes", address, bytes.len(), now) else {
            return Accepted::at(now);
        };
        let module = &self.memory.modules[self.module];
        let mut done = Accepted::at(now);
        for (offset, length) in module.placement().pieces(place, bytes.len()) {
            let start = address + (offset - place);
            let piece = &bytes[(offset - place) as usize..][..length];
            let operation = Operation {
                module: self.module,
                address: start,
                home: start / LINE_BYTES as u64,
                bytes: length,
                counted: length,
                traffic,
            };
            let memory = &mut *self.memory;
            memory.displace(self.module, start, piece);
            if let (true, Some(contract)) = (self.shows, &mut memory.contract) {
                contract.changed_inside(start, piece);
            }
            let way = (Path::Inside, not_before);
            let written = memory.write_row(&operation, offset, way, now, self.statistics);
            done.accepted = done.accepted.max(written.accepted);
            done.durable = done.durable.max(written.durable);
        }
        done
    }

    /// Where in the module bytes lie, which must be its own and lie together: anything else is held
    /// against the contract, and done to nothing.
    fn place(&mut self, what: &str, address: u64, length: usize, now: Cycles) -> Option<u64> {
        let range = address..address + length as u64;
        let first = self.memory.map.pieces(range).next();
        let own = first.filter(|piece| {
            piece.length == length as u64 && piece.place.module == self.module && length > 0
        });
        let room = own
            .map(drop)
            .ok_or("which do not lie together in the device's module");
        self.memory.hold(what, address, length, room, now);
        own.map(|piece| piece.place.offset)
    }
}

impl Memory {
    /// A module, for a design whose engine is inside it.
    pub fn inside<'m>(&'m mut self, module: usize, statistics: &'m mut Statistics) -> Inside<'m> {
        Inside {
            memory: self,
            module,
            statistics,
            shows: false,
        }
    }

    /// Sends bytes over the link of the module that has an address, in which no bank has a part. Returns
    /// when they have arrived.
    pub fn cross_link(&mut self, address: u64, bytes: usize, now: Cycles) -> Cycles {
        let module = self.map.locate(address).module;
        self.cross(module, bytes, now)
    }

    /// What a message takes on its way over the link of a module, over and above its transfer.
    pub fn latency_of_link(&self, module: usize) -> Cycles {
        self.modules[module].controller.latency()
    }

    /// Gives a module a program.
    pub fn install(&mut self, module: usize, device: Box<dyn Device>) {
        self.modules[module].device = Some(device);
    }

    /// The program of a module, if it has one of that kind.
    pub fn device<D: Device + 'static>(&self, module: usize) -> Option<&D> {
        self.modules[module]
            .device
            .as_ref()?
            .as_any()
            .downcast_ref()
    }

    /// Lets the program of a module act, if it has one.
    #[inline(always)]
    fn with_device<A>(
        &mut self,
        module: usize,
        statistics: &mut Statistics,
        act: impl FnOnce(&mut dyn Device, &mut Inside) -> A,
    ) -> Option<A> {
        let mut device = self.modules[module].device.take()?;
        let mut inside = Inside {
            shows: true,
            ..self.inside(module, statistics)
        };
        let answer = act(&mut *device, &mut inside);
        self.modules[module].device = Some(device);
        Some(answer)
    }

    /// What a module makes of an access of the processor.
    #[inline(always)]
    pub(crate) fn admit(
        &mut self,
        module: usize,
        access: &HostAccess,
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Admission {
        let asked = self.with_device(module, statistics, |device, inside| {
            device.admit(inside, access, now)
        });
        if let Some(Admission::Held { kept, .. }) = asked {
            self.count_energy(module, kept);
        }
        asked.unwrap_or(Admission::Admitted { at: 0 })
    }

    /// What whoever verifies hears of the processor's access to a module that has a device.
    #[cold]
    pub(crate) fn trace_host(
        &mut self,
        module: usize,
        (address, length): (u64, usize),
        written: bool,
        when: [Cycles; 2],
    ) {
        if self.modules[module].device.is_none() {
            return;
        }
        let wrote = written.then(|| self.arena.slice(address, length).into());
        if let Some(trace) = &mut self.trace {
            trace.push(Traced::Accessed {
                module,
                by: Accessor::Host,
                address,
                length,
                wrote,
                when,
            });
        }
    }

    /// A load from a device region ([`PhysicalMap::is_device`](crate::physical_map::PhysicalMap::is_device)),
    /// which one module has. Where there is no program, zeros come. Returns when the bytes have arrived.
    pub fn device_load(
        &mut self,
        address: u64,
        bytes: &mut [u8],
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Cycles {
        let (module, at) = self.device_place(address);
        bytes.fill(0);
        let asked = now + self.modules[module].controller.latency();
        let ready = self.with_device(module, statistics, |device, inside| {
            device.load(inside, at, bytes, asked)
        });
        self.modules[module].counters.device_loads += 1;
        self.cross(module, bytes.len(), ready.unwrap_or(asked))
    }

    /// A store to a device region, which comes behind what was written over the same link before. Where there
    /// is no program, it has no effect. Returns when the device has taken it.
    pub fn device_store(
        &mut self,
        address: u64,
        bytes: &[u8],
        now: Cycles,
        statistics: &mut Statistics,
    ) -> Cycles {
        let (module, at) = self.device_place(address);
        self.modules[module].counters.device_stores += 1;
        let arrived = self.cross(module, bytes.len(), now);
        let arrived = arrived.max(self.modules[module].last_accepted);
        let taken = self.with_device(module, statistics, |device, inside| {
            device.store(inside, at, bytes, arrived)
        });
        if let Some(taken) = taken {
            self.count_energy(module, taken);
            // From now on, the device saves what it was told.
            self.persistence_times
                .iter_mut()
                .for_each(|times| times.push(taken));
        }
        taken.unwrap_or(arrived)
    }

    /// Wakes a device whose time has come, if there is one that is due at `time`.
    pub fn wake_device(&mut self, time: Cycles, statistics: &mut Statistics) -> bool {
        let Some((time, event)) = self.device_events.take_due(time) else {
            return false;
        };
        let module = (event >> 16) as usize;
        self.with_device(module, statistics, |device, inside| {
            device.fired(inside, event as u16, time);
        });
        self.count_energy(module, time);
        true
    }

    /// Notes how much a device would have to save if the power failed now: something has just come in.
    fn count_energy(&mut self, module: usize, now: Cycles) {
        let module = &mut self.modules[module];
        let device = module.device.as_ref();
        let bytes = device.map_or(0, |device| device.energy_bytes(now));
        let peak = &mut module.counters.energy_peak_bytes;
        *peak = bytes.max(*peak);
    }

    /// The module of an address of a device, and how far into its region it lies.
    fn device_place(&self, address: u64) -> (usize, u64) {
        let region = self.map.region(address).expect("an address of the map");
        (region.modules[0], address - region.addresses.start)
    }

    /// What devices save when the power fails: each in its own module, or it is held against the contract.
    pub(crate) fn save_devices(&mut self, at: Cycles, lost: &mut Lost) {
        for number in 0..self.modules.len() {
            let mut saved: Vec<(u64, Vec<u8>)> = Vec::new();
            if let Some(device) = &self.modules[number].device {
                device.power_off(at, &mut |address, bytes| {
                    saved.push((address, bytes.into()));
                });
            }
            for (address, bytes) in saved {
                let own = (self.map.pieces(address..address + bytes.len() as u64))
                    .all(|piece| piece.place.module == number);
                let room = own
                    .then_some(())
                    .ok_or("which do not lie in the device's module");
                self.hold("saves", address, bytes.len(), room, at);
                if own {
                    lost.saved_bytes += bytes.len() as u64;
                    lost.replace(&mut self.arena, address, &bytes);
                }
            }
        }
    }

    /// How the devices recover, with where the memory of each one's module lies.
    pub fn device_recoveries(&self) -> Vec<(Recovery, Vec<Range<u64>>)> {
        let modules = self.modules.iter().enumerate();
        let recoveries = modules.filter_map(|(number, module)| {
            let recovery = module.device.as_ref()?.recovery();
            let all = self.map.pieces(0..self.map.bytes());
            let own = all
                .filter(|piece| piece.place.module == number && !self.map.is_device(piece.address));
            let own = own.map(|piece| piece.address..piece.address + piece.length);
            Some((recovery, own.collect()))
        });
        recoveries.collect()
    }
}
