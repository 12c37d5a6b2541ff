//! What threads bind themselves to, and which processes look after the orphans of those below them.
//!
//! Always true: nobody has privileges to gain, and timers are exact; so restraints are remembered, handed
//! down and told, and change nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::machine::{SpaceId, ThreadId};
use crate::process::{Process, ProcessId};

/// What `PR_GET_TIMERSLACK` says where nobody set it.
const TIMER_SLACK_NS: u64 = 50_000;

/// What a thread bound itself to, where that is not what everybody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Restraint {
    /// `PR_SET_NO_NEW_PRIVS`.
    pub no_new_privileges: bool,
    /// `PR_SET_TIMERSLACK`.
    pub timer_slack_ns: u64,
    /// What setting it to 0 makes of it: what the thread had from the one that made it.
    pub first_timer_slack_ns: u64,
}

impl Default for Restraint {
    fn default() -> Self {
        Self {
            no_new_privileges: false,
            timer_slack_ns: TIMER_SLACK_NS,
            first_timer_slack_ns: TIMER_SLACK_NS,
        }
    }
}

/// The restraints of the threads that have any.
pub(crate) type Restraints = BTreeMap<ThreadId, Restraint>;

impl Kernel {
    pub(crate) fn restraint_of(&self, thread: ThreadId) -> Restraint {
        let all = &self.rare.restraints;
        all.get(&thread).copied().unwrap_or_default()
    }

    pub(crate) fn restrain(&mut self, thread: ThreadId, restraint: Restraint) {
        if restraint == Restraint::default() {
            self.rare.restraints.remove(&thread);
        } else {
            self.rare.restraints.insert(thread, restraint);
        }
    }

    /// A new thread is bound to what the one is bound to that made it.
    pub(crate) fn inherit_restraint(&mut self, parent: ThreadId, child: ThreadId) {
        let own = self.restraint_of(parent);
        let restraint = Restraint {
            first_timer_slack_ns: own.timer_slack_ns,
            ..own
        };
        self.restrain(child, restraint);
    }

    /// A copy of a space, and what takes its place, shall have large pages or not as it has.
    pub(crate) fn inherit_small_pages(&mut self, space: SpaceId, new: SpaceId) {
        if self.rare.small_pages.contains(&space) {
            self.rare.small_pages.insert(new);
        }
    }

    /// Whose children the orphans of a process become: its nearest ancestor's that wants them
    /// (`PR_SET_CHILD_SUBREAPER`).
    pub(crate) fn reaper_of(&self, process: &Process) -> Option<ProcessId> {
        if self.rare.reapers.is_empty() {
            return None;
        }
        let mut next = process.parent;
        while let Some(ancestor) = next.and_then(|id| self.processes.get(id)) {
            if ancestor.ending.is_none() && self.rare.reapers.contains(&ancestor.id) {
                return Some(ancestor.id);
            }
            next = ancestor.parent;
        }
        None
    }
}
