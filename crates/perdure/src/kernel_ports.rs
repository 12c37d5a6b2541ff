//! How the kernel, and output devices, reach the hardware: [`perdure_linux::Machine`] over the hierarchy
//! while the machine runs, and over memory alone before it does.
//!
//! Always true here:
//! - What the kernel does on behalf of a hart goes through that hart's caches and is charged to it.
//! - Nothing waits in a hart's combining buffers while the kernel runs on its behalf.
//! - What has no modelled cost (booting, releasing what was written) changes no cycle.

use std::ops::Range;

use perdure_hardware::core_timing::AccessKind;
use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber, line_of, pieces};
use perdure_hardware::persist::{Effect, Fence, Persist};
use perdure_hardware::policy::{Policy, PolicyFailure};
use perdure_hardware::time::Cycles;
use perdure_hardware::trace::Traced;
use perdure_hardware::watched::Ordered;
use perdure_linux::{PAGE_BYTES, SpaceId};

use crate::port::OFFSET_MASK;
use crate::virtual_clock::VirtualClock;

/// The kernel's door to the machine while it runs on behalf of one hart.
pub struct KernelPort<'m> {
    /// The hardware.
    pub hardware: &'m mut Hardware,
    /// The design.
    pub design: &'m mut dyn Policy,
    /// The hart, and how much it has retired.
    pub hart: usize,
    /// Retired instructions of that hart.
    pub retired: u64,
    /// The virtual clock.
    pub clock: VirtualClock,
    /// What each of the other harts has retired.
    pub others: &'m dyn Fn(usize) -> u64,
    /// What the kernel did to mappings.
    pub changed: &'m mut Changed,
}

/// What the kernel did to mappings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changed {
    /// Decoded code must be dropped.
    pub code: bool,
    /// Some address is translated otherwise.
    pub mappings: bool,
}

impl KernelPort<'_> {
    fn now(&self) -> Cycles {
        self.hardware.cores[self.hart].timing.now(self.retired)
    }

    /// One cycle for every eight bytes that the kernel copies.
    fn charge_copy(&mut self, bytes: usize) {
        let cycles = bytes.div_ceil(8) as u64;
        self.hardware.cores[self.hart].timing.stand_still(cycles);
    }

    /// What waits in a hart's combining buffers goes to memory: whoever enters the kernel, and all whose
    /// pages the kernel may give away, have nothing there.
    pub fn send_combined(&mut self, hart: usize) {
        if self.hardware.cores[hart].combining.is_empty() {
            return;
        }
        let now = self.now();
        let sent = self.hardware.send_all_combined(self.design, hart, now);
        self.hardware.cores[self.hart]
            .timing
            .stand_still_until(now, sent);
    }

    /// The kernel runs in the newest epoch of all, so no line can be ahead of it.
    fn hold_to_epoch(&mut self, line: LineNumber) {
        if self.hardware.cores[self.hart].ahead.take().is_some() {
            let problem = format!("line {line:#x} is of a newer epoch than the kernel");
            self.hardware.failure = Some(PolicyFailure(problem));
        }
    }

    /// Writes a piece of one line.
    fn write_piece(&mut self, physical: u64, bytes: &[u8]) {
        let (now, line) = (self.now(), line_of(physical));
        let stored = ((physical & OFFSET_MASK) as usize, bytes);
        let (_, ready) = (self.hardware).store(self.design, self.hart, line, stored, now);
        self.hold_to_epoch(line);
        (self.hardware).accessed(self.hart, AccessKind::Store, now, ready);
        self.charge_copy(bytes.len());
    }
}

impl perdure_linux::Machine for KernelPort<'_> {
    fn read(&mut self, physical: u64, buffer: &mut [u8]) {
        for (at, piece) in pieces(physical, buffer.len()) {
            let now = self.now();
            let line = line_of(at);
            let (slot, ready) = self.hardware.load(self.design, self.hart, line, now);
            self.hold_to_epoch(line);
            (self.hardware).accessed(self.hart, AccessKind::Load, now, ready);
            let offset = (at & OFFSET_MASK) as usize;
            let data = &self.hardware.cores[self.hart].l1d.data(slot).0;
            buffer[piece.clone()].copy_from_slice(&data[offset..offset + piece.len()]);
            self.charge_copy(piece.len());
        }
    }

    fn peek(&mut self, physical: u64, buffer: &mut [u8]) {
        peek(self.hardware, self.design, physical, buffer);
    }

    fn write(&mut self, physical: u64, bytes: &[u8]) {
        for (at, piece) in pieces(physical, bytes.len()) {
            self.write_piece(at, &bytes[piece]);
        }
    }

    fn zero_frame(&mut self, physical: u64) {
        for (at, _) in pieces(physical, PAGE_BYTES as usize) {
            self.write_piece(at, &Line::ZERO.0);
        }
    }

    fn persist(&mut self, physical: Range<u64>) {
        for line in line_of(physical.start)..physical.end.div_ceil(LINE_BYTES as u64) {
            let persist = Persist::behind_stores(self.hart, line, Effect::Clean);
            let now = self.now();
            let ready = self.hardware.persist(self.design, &persist, now);
            self.hold_to_epoch(line);
            let kind = AccessKind::Persist(persist.order);
            (self.hardware).accessed(self.hart, kind, now, ready);
        }
    }

    fn wait_durable(&mut self) {
        let now = self.now();
        self.hardware
            .fence(self.design, self.hart, Fence::FULL, now);
    }

    fn system_stores(&mut self, begins: bool) {
        let hart = self.hart;
        if let Some(trace) = &mut self.hardware.memory.trace {
            trace.push(Traced::SystemStores { hart, begins });
        }
        let memory = &mut self.hardware.memory;
        memory.hear_order(|| Ordered::System { hart, begins });
        self.design.system_stores(self.hardware, hart, begins);
    }

    fn charge(&mut self, cycles: u64) {
        self.hardware.cores[self.hart].timing.stand_still(cycles);
        self.hardware.statistics.kernel_cycles += cycles;
    }

    fn clock_ns(&self) -> u64 {
        self.clock.nanoseconds(self.retired)
    }

    fn retired(&self, hart: usize) -> u64 {
        if hart == self.hart {
            return self.retired;
        }
        (self.others)(hart)
    }

    fn duration_ns(&self, instructions: u64) -> u64 {
        self.clock.duration_ns(instructions)
    }

    fn mappings_changed(&mut self, _space: SpaceId, _pages: Range<u64>, executable: bool) {
        self.hardware.kill_lookasides();
        (0..self.hardware.cores.len()).for_each(|hart| self.send_combined(hart));
        self.changed.mappings = true;
        self.changed.code |= executable;
    }

    fn code_written(&mut self) {
        for hart in 0..self.hardware.cores.len() {
            self.hardware.flush_l1i(hart);
        }
    }
}

/// The kernel's door before the machine starts: straight into NVM, durable and free.
pub struct BootPort<'m>(pub &'m mut Hardware);

impl perdure_linux::Machine for BootPort<'_> {
    fn read(&mut self, physical: u64, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.0.memory.arena.slice(physical, buffer.len()));
    }

    fn write(&mut self, physical: u64, bytes: &[u8]) {
        self.0.memory.arena.write(physical, bytes);
    }

    fn zero_frame(&mut self, physical: u64) {
        self.0
            .memory
            .arena
            .write(physical, &[0; PAGE_BYTES as usize]);
    }

    fn charge(&mut self, _cycles: u64) {}

    fn clock_ns(&self) -> u64 {
        0
    }

    fn retired(&self, _hart: usize) -> u64 {
        0
    }

    fn duration_ns(&self, _instructions: u64) -> u64 {
        0
    }

    fn mappings_changed(&mut self, _space: SpaceId, _pages: Range<u64>, _executable: bool) {}

    fn code_written(&mut self) {}
}

/// The newest bytes at a physical address, wherever they are.
fn peek(hardware: &Hardware, design: &dyn Policy, physical: u64, buffer: &mut [u8]) {
    for (at, piece) in pieces(physical, buffer.len()) {
        let offset = (at & OFFSET_MASK) as usize;
        let line = hardware.peek(design, line_of(at));
        buffer[piece.clone()].copy_from_slice(&line.0[offset..offset + piece.len()]);
    }
}

/// How output devices read memory: coherently, and without a cost that we model.
pub struct DevicePort<'m>(pub &'m mut Hardware, pub &'m dyn Policy);

impl perdure_linux::Machine for DevicePort<'_> {
    fn read(&mut self, physical: u64, buffer: &mut [u8]) {
        peek(self.0, self.1, physical, buffer);
    }

    fn write(&mut self, _physical: u64, _bytes: &[u8]) {
        unreachable!("releasing files only reads");
    }

    fn zero_frame(&mut self, _physical: u64) {
        unreachable!("releasing files only reads");
    }

    fn charge(&mut self, _cycles: u64) {}

    fn clock_ns(&self) -> u64 {
        0
    }

    fn retired(&self, _hart: usize) -> u64 {
        0
    }

    fn duration_ns(&self, _instructions: u64) -> u64 {
        0
    }

    fn mappings_changed(&mut self, _space: SpaceId, _pages: Range<u64>, _executable: bool) {
        // Released pages become read-only again, so that the next store is seen.
        self.0.kill_lookasides();
    }

    fn code_written(&mut self) {
        unreachable!("releasing files only reads");
    }
}
