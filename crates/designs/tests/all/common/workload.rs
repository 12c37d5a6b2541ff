//! A random program: loads, stores and cache-block operations of every hart over a small set of
//! lines, epochs of random length, some of them ended by output commit.

use perdure_designs::{Design, Urgency};
use perdure_hardware::time::Cycles;

use super::Random;
use super::geometry::Geometry;
use super::judge::Accusation;
use super::rig::Rig;

/// The program and where it stands.
pub struct Workload {
    pub random: Random,
    geometry: Geometry,
    stores_left: u64,
    /// Accesses that harts may still make once the design has asked for the epoch's end.
    accesses_after_overflow: u64,
}

impl Workload {
    pub fn new(geometry: &Geometry, seed: u64) -> Self {
        Self {
            random: Random(seed),
            geometry: *geometry,
            stores_left: 1,
            accesses_after_overflow: geometry.accesses_after_overflow,
        }
    }

    /// Does everything that starts at `until` or before.
    pub fn run_until<D: Design>(
        &mut self,
        rig: &mut Rig<D>,
        until: Cycles,
    ) -> Result<(), Accusation> {
        loop {
            let broken = rig.hardware.breach.take();
            if let Some(failure) = broken.or_else(|| rig.hardware.failure.take()) {
                return Err(Accusation::Failed(failure.0));
            }
            let overflowed = rig.overflowed && self.accesses_after_overflow == 0;
            let epoch_due = self.stores_left == 0 || overflowed;
            let stands = rig.waits() || (epoch_due && !rig.can_end_epoch());
            let hart = rig.next_hart();
            let hart_time = if stands { Cycles::MAX } else { rig.clock(hart) };
            let event_time = rig.hardware.events.next_time();
            let time = hart_time.min(event_time);
            if time == Cycles::MAX {
                return Err(Accusation::Failed(
                    "harts wait, and nothing will ever happen".into(),
                ));
            }
            if time > until {
                return Ok(());
            }
            if event_time <= hart_time {
                rig.fire_next(stands);
            } else if epoch_due {
                self.end_epoch(rig);
            } else {
                if rig.overflowed {
                    self.accesses_after_overflow -= 1;
                }
                self.act(rig, hart)?;
            }
        }
    }

    fn end_epoch<D: Design>(&mut self, rig: &mut Rig<D>) {
        let forced = self.random.once_in(self.geometry.forced_once_in);
        rig.end_epoch(if rig.overflowed {
            Urgency::Overflow
        } else if forced {
            Urgency::OutputCommit
        } else {
            Urgency::Routine
        });
        self.stores_left = 1 + self.random.below(self.geometry.epoch_stores);
        let most = self.geometry.accesses_after_overflow;
        if most > 0 {
            self.accesses_after_overflow = self.random.below(most + 1);
        }
    }

    fn act<D: Design>(&mut self, rig: &mut Rig<D>, hart: usize) -> Result<(), Accusation> {
        let geometry = self.geometry;
        let random = &mut self.random;
        let hot = random.once_in(2);
        let among = if hot {
            geometry.hot_lines
        } else {
            geometry.lines
        };
        let line = rig.frame_line(random.below(among as u64));
        match random.below(100) {
            0..60 => {
                rig.store(hart, line, random.index(8), random.next());
                self.stores_left = self.stores_left.saturating_sub(1);
            }
            60..96 => rig.try_load(hart, line)?,
            96..98 => rig.cache_block(hart, line, false),
            _ => rig.cache_block(hart, line, true),
        }
        let random = &mut self.random;
        let pause = if random.once_in(200) {
            random.below(20_000)
        } else {
            random.below(geometry.pause_cycles + 1)
        };
        rig.pause(hart, pause);
        Ok(())
    }
}
