//! What a restored kernel can be made to lose, to see whether the judge of power cuts notices.

use crate::kernel::Kernel;

/// Something that restoring could forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The bytes that wait in pipes.
    PipeBytes,
    /// Where open files stand.
    Offsets,
}

impl Kernel {
    /// Loses it.
    pub fn lose(&mut self, loss: Loss) {
        match loss {
            Loss::PipeBytes => {
                for pipe in self.open.pipes.entries.iter_mut().flatten() {
                    pipe.bytes.clear();
                }
            }
            Loss::Offsets => {
                for file in self.open.files.entries.iter_mut().flatten() {
                    file.offset = 0;
                }
            }
        }
    }
}
