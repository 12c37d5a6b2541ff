//! Watch points: where a stop is reported, and the step over what was touched.
//!
//! gdb expects of RISC-V (as of most processors) that a watch point stops before the access: it takes its
//! watch points away then, lets the thread make one step, and compares the values; going back, one step back.
//!
//! Always true here: at a stop, the access is still ahead in the direction of travel: the position is before
//! it going forward, and behind it going back. What was reported is not reported again to whoever goes on
//! in that direction with the watch point still set.

use super::forward::{Goal, Stop};
use super::head::Met;
use super::session::{Position, Session};
use super::view;
use crate::error::Error;

/// An access that a watch point has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// Before it.
    pub at: Position,
    /// The thread that does it, or for whose process the kernel does it.
    pub thread: u32,
    /// The kernel does it, and no instruction.
    pub kernel: bool,
}

impl Access {
    /// Where one stands who has it behind, or before.
    fn beside(&self, behind: bool) -> Position {
        Position {
            moment: self.at.moment + u64::from(behind),
            ..self.at
        }
    }
}

impl Session {
    /// The stop at an access of a life, which is remembered.
    pub fn watch_stop(&mut self, life: usize, met: Met) -> Stop {
        let Met {
            moment,
            thread,
            hit,
        } = met;
        let at = Position { life, moment };
        let kernel = hit.kernel;
        self.reported = Some(Access { at, thread, kernel });
        self.thread = thread;
        let watch = self.stops.watches[hit.watch];
        Stop::Watch {
            address: watch.start,
            touch: watch.touch,
        }
    }

    /// Whether the access at a moment is the one that was reported last.
    pub fn is_reported(&self, life: usize, moment: u64) -> bool {
        let at = Position { life, moment };
        self.reported.is_some_and(|access| access.at == at)
    }

    /// Forgets the access that was reported last, if it is not the next one in that direction.
    pub fn keep_reported(&mut self, backward: bool) {
        let here = self.position();
        let reported = self.reported.take();
        self.reported = reported.filter(|access| access.beside(backward) == here);
    }

    /// The step over the access that was reported: the client has taken its watch points away and lets that
    /// thread alone go on, to see what has become of the value. Exactly the access is done, or undone: the
    /// kernel may be the one who does it, while the thread waits for something that takes long.
    pub fn step_over_access(&mut self, goal: Goal, backward: bool) -> Result<Option<Stop>, Error> {
        let Some(access) = self.reported else {
            return Ok(None);
        };
        let steps = matches!(goal, Goal::Step { thread, .. } if thread == access.thread);
        let alone = !backward && self.only == [access.thread];
        if !self.stops.watches.is_empty() || !(steps || alone) {
            return Ok(None);
        }
        self.reported = None;
        self.go(access.beside(!backward))?;
        self.thread = access.thread;
        self.choose_thread();
        let pc = view::pc_of(self.machine(), self.thread);
        let met = pc.is_some_and(|pc| self.stops.breakpoints.contains(&pc));
        Ok(Some(if met && alone {
            Stop::Breakpoint
        } else {
            Stop::Stepped
        }))
    }
}
