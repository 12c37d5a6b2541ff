//! The map of the NVM: where the boot record, a design's metadata, contexts, the kernel's state,
//! the program's frames and the design's log lie. The same for every design, so that a program
//! gets the same addresses under each.
//!
//! ```text
//! 0x0000_0000  boot record, copy 0   (this layout; see BootRecord)
//! 0x0000_1000  boot record, copy 1
//! 0x0000_2000  design metadata (registers, tables), to 64 KiB
//! 0x0001_0000  processor contexts, 1 KiB for each hart, then 1 KiB for the machine
//!      …       kernel state image
//!      …       frames
//!      …       log area, to the end
//! ```

use std::ops::Range;

use perdure_hardware::arena::Arena;

use crate::bytes::{Writer, sealed, unsealed};
use crate::surviving::{Corruption, Surviving};

/// Bytes kept for one hart's context.
pub const CONTEXT_BYTES: u64 = 1024;

/// Where a design keeps registers and tables.
pub const METADATA: Range<u64> = 0x2000..0x1_0000;

const CONTEXTS_START: u64 = 0x1_0000;
const PAGE: u64 = 4096;
const BOOT_MAGIC: u64 = u64::from_le_bytes(*b"PERDURE1");
const BOOT_COPIES: [u64; 2] = [0, PAGE];
const BOOT_BYTES: usize = 128;

/// The map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Processor contexts.
    pub contexts: Range<u64>,
    /// The kernel's state image.
    pub kernel: Range<u64>,
    /// Frames for programs.
    pub frames: Range<u64>,
    /// What a design may use for logs, shadow pages and the like.
    pub log_area: Range<u64>,
}

impl Layout {
    /// The map of a machine with so much NVM. A quarter of it, at the top, is the design's; an
    /// eighth at most is for the kernel's image.
    pub fn new(harts: usize, nvm_bytes: u64) -> Self {
        let contexts_end =
            (CONTEXTS_START + (harts as u64 + 1) * CONTEXT_BYTES).next_multiple_of(PAGE);
        let kernel_end = contexts_end + (nvm_bytes / 8).min(256 << 20) / PAGE * PAGE;
        let log_start = nvm_bytes / 4 * 3 / PAGE * PAGE;
        Self {
            contexts: CONTEXTS_START..contexts_end,
            kernel: contexts_end..kernel_end,
            frames: kernel_end..log_start,
            log_area: log_start..nvm_bytes / PAGE * PAGE,
        }
    }

    /// Everything that an epoch-prefix promise is about: contexts, kernel state, frames.
    pub fn protected(&self) -> Range<u64> {
        self.contexts.start..self.frames.end
    }

    /// Puts the boot record of a machine there, before a design starts: with up to four numbers of the
    /// design's own.
    pub fn put_boot_record(&self, harts: usize, design: [u64; 4], arena: &mut Arena) {
        let record = BootRecord {
            layout: self.clone(),
            harts: harts as u64,
            design,
        };
        for (address, bytes) in record.encode() {
            arena.write(address, &bytes);
        }
    }

    /// Address of a hart's context; the machine's own comes after the last hart's.
    pub fn context(&self, hart: usize) -> u64 {
        self.contexts.start + hart as u64 * CONTEXT_BYTES
    }
}

/// What recovery must know before it can read anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootRecord {
    /// The map.
    pub layout: Layout,
    /// Harts whose contexts are kept.
    pub harts: u64,
    /// Up to four numbers of the design's own.
    pub design: [u64; 4],
}

impl BootRecord {
    /// Both copies, as address and bytes.
    pub fn encode(&self) -> [(u64, Vec<u8>); 2] {
        let mut writer = Writer::new(BOOT_MAGIC);
        for range in [
            &self.layout.contexts,
            &self.layout.kernel,
            &self.layout.frames,
            &self.layout.log_area,
        ] {
            writer.u64(range.start).u64(range.end);
        }
        writer.u64(self.harts);
        for number in self.design {
            writer.u64(number);
        }
        let bytes = sealed(writer, BOOT_BYTES);
        BOOT_COPIES.map(|address| (address, bytes.clone()))
    }

    /// The record from whichever copy is whole.
    pub fn read(image: &Surviving) -> Result<Self, Corruption> {
        BOOT_COPIES
            .into_iter()
            .find_map(|address| {
                let bytes = image.read(address, BOOT_BYTES).ok()?;
                let mut reader = unsealed(&bytes, BOOT_MAGIC)?;
                let mut range = || reader.u64()..reader.u64();
                let layout = Layout {
                    contexts: range(),
                    kernel: range(),
                    frames: range(),
                    log_area: range(),
                };
                let harts = reader.u64();
                let design = std::array::from_fn(|_| reader.u64());
                Some(Self {
                    layout,
                    harts,
                    design,
                })
            })
            .ok_or(Corruption {
                what: "boot record: both copies are damaged",
                address: 0,
            })
    }
}
