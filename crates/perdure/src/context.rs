//! What is saved at an epoch's end beside memory itself: every hart's context, the kernel's state,
//! and a machine record that binds them together.
//!
//! ```text
//! context(h)      Hart::to_bytes (536 bytes), then u64 each: 1 if a thread runs here, thread,
//!                 space, program, virtual time, checksum of all before
//! context(harts)  machine record: epoch, kernel image length and checksum, skipped time (sealed)
//! kernel image    Kernel::save
//! ```
//!
//! They are stored like any other memory, through the caches of the hart that they belong to, so
//! that a design protects them without knowing them.

use perdure_designs::bytes::{Writer, checksum, sealed, unsealed};
use perdure_designs::layout::{CONTEXT_BYTES, Layout};
use perdure_linux::{HostView, Kernel, Running, SpaceId, ThreadId};
use perdure_riscv::Hart;

const MAGIC: u64 = u64::from_le_bytes(*b"PERDMACH");
/// Bytes of a machine record.
pub const RECORD_BYTES: usize = 128;
const HART_BYTES: usize = perdure_riscv::CONTEXT_BYTES;
/// Bytes of a saved context: registers, what runs, virtual time, checksum.
pub const SAVED_BYTES: usize = HART_BYTES + 6 * 8;
/// Where the virtual time stands in it.
pub const CLOCK_AT: usize = HART_BYTES + 4 * 8;

/// A hart and what runs on it.
#[derive(Clone, Debug, Default)]
pub struct HartContext {
    /// Registers.
    pub hart: Hart,
    /// The thread, if not idle.
    pub running: Option<Running>,
}

impl HartContext {
    /// The bytes to store, at that virtual time.
    pub fn encode(&self, clock_ns: u64) -> Vec<u8> {
        let mut bytes = self.hart.to_bytes().to_vec();
        let running = self.running.map_or([0; 4], |running| {
            [
                1,
                u64::from(running.thread.0),
                u64::from(running.space.0),
                u64::from(running.program),
            ]
        });
        for word in running.into_iter().chain([clock_ns]) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let seal = checksum(&bytes);
        bytes.extend_from_slice(&seal.to_le_bytes());
        debug_assert!(bytes.len() == SAVED_BYTES && SAVED_BYTES as u64 <= CONTEXT_BYTES);
        bytes
    }

    /// The context, and the virtual time when it was saved.
    fn decode(bytes: &[u8]) -> Result<(Self, u64), String> {
        let (body, seal) = bytes.split_at(SAVED_BYTES - 8);
        if checksum(body).to_le_bytes() != seal {
            return Err("a processor context is damaged: its checksum is wrong".into());
        }
        let (registers, rest) = body.split_at(HART_BYTES);
        let registers = registers.try_into().expect("split at the right length");
        let hart = Hart::from_bytes(registers).map_err(|error| error.to_string())?;
        let word = |index: usize| {
            u64::from_le_bytes(rest[index * 8..][..8].try_into().expect("eight bytes"))
        };
        let running = (word(0) != 0).then(|| Running {
            thread: ThreadId(word(1) as u32),
            space: SpaceId(word(2) as u32),
            program: word(3) as u32,
        });
        Ok((Self { hart, running }, word(4)))
    }
}

/// The machine record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// The bytes to store.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MAGIC);
        writer
            .u64(self.epoch)
            .u64(self.kernel_bytes)
            .u64(self.kernel_checksum)
            .u64(self.skipped_ns);
        sealed(writer, RECORD_BYTES)
    }
}

/// Everything that was saved, as read back.
pub struct Saved {
    /// The machine record.
    pub record: MachineRecord,
    /// The harts.
    pub harts: Vec<HartContext>,
    /// The newest virtual time at which one of them was saved.
    pub clock_ns: u64,
    /// The kernel.
    pub kernel: Kernel,
}

/// Reads everything back from an image; the error says what is damaged.
pub fn restore(
    read: impl Fn(u64, usize) -> Vec<u8>,
    layout: &Layout,
    harts: usize,
    host: HostView,
) -> Result<Saved, String> {
    let bytes = read(layout.context(harts), RECORD_BYTES);
    let mut reader = unsealed(&bytes, MAGIC).ok_or("the machine record is damaged")?;
    let record = MachineRecord {
        epoch: reader.u64(),
        kernel_bytes: reader.u64(),
        kernel_checksum: reader.u64(),
        skipped_ns: reader.u64(),
    };
    if record.kernel_bytes > layout.kernel.end - layout.kernel.start {
        return Err(
            "the machine record is damaged: the kernel image is larger than its region".into(),
        );
    }
    let image = read(layout.kernel.start, record.kernel_bytes as usize);
    if checksum(&image) != record.kernel_checksum {
        return Err("the kernel image is damaged: its checksum is wrong".into());
    }
    let kernel = Kernel::restore(&image, host).map_err(|error| error.to_string())?;
    let harts: Vec<_> = (0..harts)
        .map(|hart| HartContext::decode(&read(layout.context(hart), SAVED_BYTES)))
        .collect::<Result<_, _>>()?;
    let (harts, clocks): (_, Vec<u64>) = harts.into_iter().unzip();
    Ok(Saved {
        record,
        harts,
        clock_ns: clocks.into_iter().max().unwrap_or(0),
        kernel,
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
        let bytes = context.encode(5);
        let (again, clock_ns) = HartContext::decode(&bytes).expect("it is whole");
        assert_eq!(clock_ns, 5);
        assert_eq!((again.hart, again.running), (context.hart, context.running));
        assert_eq!(bytes[CLOCK_AT..CLOCK_AT + 8], 5u64.to_le_bytes());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(HartContext::decode(&damaged).is_err(), "byte {at}");
        }
    }
}
