//! What the mapping's engine does, for whoever draws it.

use perdure_hardware::hierarchy::Hardware;
use perdure_hardware::time::Cycles;
use perdure_hardware::timeline::Track;

use super::Mnm;

/// Where the steps of indexes, registers, merges and compaction are drawn.
const ENGINE: Track = Track::of_design("mapping engine");

impl Mnm {
    /// [`Self::step`], which takes until the next one may come. What had been written to do is what it is
    /// drawn as.
    pub(super) fn stepped(&mut self, hardware: &mut Hardware, now: Cycles) -> Option<Cycles> {
        let merged = self.merged;
        let before = self.phase();
        let next = self.step(hardware, now);
        if hardware.memory.draws() {
            let name = match (before, self.phase()) {
                ("idle", "idle") if self.merged > merged => "merge",
                ("idle", after) => after,
                (before, _) => before,
            };
            if let (Some(timeline), Some(next)) = (hardware.memory.timeline(), next) {
                timeline.step(ENGINE, name, [now, next]);
            }
        }
        next
    }
}
