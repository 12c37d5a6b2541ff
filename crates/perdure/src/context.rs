//! What is saved at an epoch's end beside memory itself: every hart's context, the kernel's state,
//! and a machine record that binds them together.
//!
//! ```text
//! context(h)      Hart::to_bytes (536 bytes); u32 each: 1 if a thread runs here, program, thread,
//!                 space; u64 each: virtual time in ns, instructions retired elsewhere while this hart
//!                 was idle, local time in cycles, checksum of all before
//! context(harts)  machine record: epoch, kernel image length and checksum, skipped time (sealed)
//! kernel image    Kernel::save
//! ```
//!
//! They are stored like any other memory, through the caches of the hart that they belong to, so
//! that a design protects them without knowing them.

use perdure_designs::bytes::{Sealed, checksum};
use perdure_designs::layout::{CONTEXT_BYTES, Layout};
use perdure_hardware::specification::Core;
use perdure_hardware::time::Cycles;
use perdure_linux::{HostView, Kernel, Running, SpaceId, ThreadId};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::source::{REGISTERS_BYTES, Registers};

/// Bytes of a saved context: registers, what runs, times, checksum.
pub const SAVED_BYTES: usize = REGISTERS_BYTES + 6 * 8;
/// Where the virtual time stands in it.
pub const CLOCK_AT: usize = REGISTERS_BYTES + 2 * 8;

/// A hart and what runs on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HartContext {
    /// Registers.
    pub hart: Registers,
    /// The thread, if not idle.
    pub running: Option<Running>,
    /// What the hart's progress has over its retired instructions (see
    /// [`VirtualClock`](crate::port::VirtualClock)).
    pub idle: u64,
}

/// When a context was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedAt {
    /// The virtual clock.
    pub clock_ns: u64,
    /// The hart's local time.
    pub cycles: Cycles,
}

impl HartContext {
    /// The instructions that this hart has retired, and those of others while it was idle.
    pub fn progress(&self) -> u64 {
        self.hart.retired.saturating_add(self.idle)
    }

    /// The bytes to store, at that time.
    pub fn encode(&self, at: SavedAt) -> Vec<u8> {
        let mut bytes = self.hart.to_bytes().to_vec();
        let running = self.running.map_or([0; 4], |running| {
            [1, running.program, running.thread.0, running.space.0]
        });
        bytes.extend(running.into_iter().flat_map(u32::to_le_bytes));
        let times = [at.clock_ns, self.idle, at.cycles];
        bytes.extend(times.into_iter().flat_map(u64::to_le_bytes));
        let seal = checksum(&bytes);
        bytes.extend_from_slice(&seal.to_le_bytes());
        debug_assert!(bytes.len() == SAVED_BYTES && SAVED_BYTES as u64 <= CONTEXT_BYTES);
        bytes
    }

    /// The context, and when it was saved.
    fn decode(bytes: &[u8]) -> Result<(Self, SavedAt), String> {
        let (body, seal) = bytes.split_at(SAVED_BYTES - 8);
        if checksum(body).to_le_bytes() != seal {
            return Err("a processor context is damaged: its checksum is wrong".into());
        }
        let (registers, rest) = body.split_at(REGISTERS_BYTES);
        let registers = registers.try_into().expect("split at the right length");
        let hart = Registers::from_bytes(registers).map_err(|error| error.to_string())?;
        let (who, times) = rest.split_at(4 * 4);
        let (who, times) = (who.as_chunks::<4>().0, times.as_chunks::<8>().0);
        let [runs, program, thread, space] = std::array::from_fn(|at| u32::from_le_bytes(who[at]));
        let [clock_ns, idle, cycles] = std::array::from_fn(|at| u64::from_le_bytes(times[at]));
        let running = (runs != 0).then_some(Running {
            thread: ThreadId(thread),
            space: SpaceId(space),
            program,
        });
        let context = Self {
            hart,
            running,
            idle,
        };
        Ok((context, SavedAt { clock_ns, cycles }))
    }
}

/// The machine record.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, FromBytes, IntoBytes, Immutable,
)]
#[repr(C)]
pub struct MachineRecord {
    /// The epoch whose end this is.
    pub epoch: u64,
    /// Bytes of the kernel image.
    pub kernel_bytes: u64,
    /// Their checksum.
    pub kernel_checksum: u64,
    /// Virtual time skipped while all harts were idle.
    pub skipped_ns: u64,
}

impl MachineRecord {
    /// The record for a kernel image.
    pub fn new(epoch: u64, image: &[u8], skipped_ns: u64) -> Self {
        Self {
            epoch,
            kernel_bytes: image.len() as u64,
            kernel_checksum: checksum(image),
            skipped_ns,
        }
    }
}

impl Sealed for MachineRecord {
    const MAGIC: &'static [u8; 8] = b"PERDMACH";
}

/// Everything that was saved, as read back.
pub struct Saved {
    /// The machine record.
    pub record: MachineRecord,
    /// The harts.
    pub harts: Vec<HartContext>,
    /// The newest times at which one of them was saved.
    pub at: SavedAt,
    /// The kernel.
    pub kernel: Kernel,
}

impl Saved {
    /// These, where each hart was saved at a time of its own.
    pub fn of(
        record: MachineRecord,
        harts: Vec<HartContext>,
        times: &[SavedAt],
        kernel: Kernel,
    ) -> Self {
        let newest = |time: fn(&SavedAt) -> u64| times.iter().map(time).max().unwrap_or(0);
        let at = SavedAt {
            clock_ns: newest(|at| at.clock_ns),
            cycles: newest(|at| at.cycles),
        };
        Self {
            record,
            harts,
            at,
            kernel,
        }
    }

    /// Itself, unless a context has retired more than there was time for: who went on from it, at a time that
    /// is none, would do so for ever.
    pub fn in_time(self, core: &Core) -> Result<Self, String> {
        let room = self.at.cycles.saturating_add(1);
        let room = room.saturating_mul(core.instructions_a_cycle());
        if self.harts.iter().any(|hart| hart.hart.retired > room) {
            return Err("a processor context is later than its time".into());
        }
        Ok(self)
    }
}

/// What is saved beside the kernel's state.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    record: MachineRecord,
    harts: Vec<HartContext>,
    times: Vec<SavedAt>,
}

/// Everything that an image holds, not looked into.
pub struct Found {
    /// What is saved beside the kernel's state.
    pub beside: Beside,
    /// The kernel's state.
    pub kernel: Vec<u8>,
}

/// Reads everything back from an image, as `change` leaves what is found there; the error says what is
/// damaged.
pub fn restore(
    read: impl Fn(u64, usize) -> Vec<u8>,
    layout: &Layout,
    harts: usize,
    host: HostView,
    change: impl FnOnce(&mut Found) -> Result<(), String>,
) -> Result<Saved, String> {
    let mut found = find(read, layout, harts)?;
    change(&mut found)?;
    if found.beside.harts.len() != harts || found.beside.times.len() != harts {
        return Err("there are no processor contexts".into());
    }
    let kernel = Kernel::restore(&found.kernel, host).map_err(|error| error.to_string())?;
    let Beside {
        record,
        harts,
        times,
    } = found.beside;
    Ok(Saved::of(record, harts, &times, kernel))
}

/// What an image holds; the error says what is damaged.
pub fn find(
    read: impl Fn(u64, usize) -> Vec<u8>,
    layout: &Layout,
    harts: usize,
) -> Result<Found, String> {
    let bytes = read(layout.context(harts), MachineRecord::BYTES);
    let record = MachineRecord::decode(&bytes, false).ok_or("the machine record is damaged")?;
    if record.kernel_bytes > layout.kernel.end - layout.kernel.start {
        return Err(
            "the machine record is damaged: the kernel image is larger than its region".into(),
        );
    }
    let image = read(layout.kernel.start, record.kernel_bytes as usize);
    if checksum(&image) != record.kernel_checksum {
        return Err("the kernel image is damaged: its checksum is wrong".into());
    }
    let harts: Vec<_> = (0..harts)
        .map(|hart| HartContext::decode(&read(layout.context(hart), SAVED_BYTES)))
        .collect::<Result<_, _>>()?;
    let (harts, times) = harts.into_iter().unzip();
    let beside = Beside {
        record,
        harts,
        times,
    };
    Ok(Found {
        beside,
        kernel: image,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damaged_byte_of_a_context_is_noticed() {
        let mut context = HartContext::default();
        context.hart.pc = 0x1_0000;
        context.running = Some(Running {
            thread: ThreadId(7),
            space: SpaceId(1),
            program: 0,
        });
        context.idle = 3;
        let at = SavedAt {
            clock_ns: 5,
            cycles: 9,
        };
        let bytes = context.encode(at);
        let (again, saved_at) = HartContext::decode(&bytes).expect("it is whole");
        assert_eq!((again.idle, saved_at), (context.idle, at));
        assert_eq!((again.hart, again.running), (context.hart, context.running));
        assert_eq!(bytes[CLOCK_AT..CLOCK_AT + 8], 5u64.to_le_bytes());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(HartContext::decode(&damaged).is_err(), "byte {at}");
        }
    }
}
