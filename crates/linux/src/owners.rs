//! Who is told by a signal that an open file has something new (`F_SETOWN`, `O_ASYNC`).
//!
//! Always true: an owner is of an open file that exists, and is alive, or a group of processes; a
//! file without an owner tells nobody.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::machine::ThreadId;
use crate::process::ProcessId;
use crate::signal::{SIGIO, SignalInfo, Target};
use crate::vfs::descriptor::{O_ASYNC, Object, OpenFile};

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Owner {
    Thread(ThreadId),
    Process(ProcessId),
    Group(u32),
}

/// The owners of the open files that have one.
pub(crate) type Owners = BTreeMap<u32, Owner>;

/// Whether there is anything to tell of such files; Linux knows it of a few more.
pub(crate) fn can_tell(object: &Object) -> bool {
    matches!(
        object,
        Object::Socket(_)
            | Object::PipeReader(_)
            | Object::PipeWriter(_)
            | Object::Fifo { .. }
            | Object::Terminal { .. }
    )
}

/// The reading ends of a pipe, or the writing ones.
pub(crate) fn is_end_of(file: &OpenFile, pipe: u32, reading: bool) -> bool {
    match file.object {
        Object::PipeReader(id) => reading && id == pipe,
        Object::PipeWriter(id) => !reading && id == pipe,
        Object::Fifo { pipe: id, .. } => {
            let counts = if reading {
                file.readable()
            } else {
                file.writable()
            };
            id == pipe && counts
        }
        _ => false,
    }
}

impl Kernel {
    /// Something came to open files, or there is room in them again: their owners are told. May end
    /// a process.
    pub(crate) fn tell_owners(&mut self, changed: impl Fn(&OpenFile) -> bool) {
        if self.rare.owners.is_empty() {
            return;
        }
        let tells = |file: &u32| {
            let file = self.open.files.get(*file);
            file.is_some_and(|file| file.flags & O_ASYNC != 0 && changed(file))
        };
        let owners = self.rare.owners.iter();
        let told: Vec<Owner> = owners
            .filter(|(file, _)| tells(file))
            .map(|(_, &owner)| owner)
            .collect();
        for owner in told {
            for target in self.targets_of(owner) {
                self.send_signal(target, SignalInfo::kernel(SIGIO));
            }
        }
    }

    fn targets_of(&self, owner: Owner) -> Vec<Target> {
        match owner {
            Owner::Thread(thread) => vec![Target::Thread(thread)],
            Owner::Process(process) => vec![Target::Process(process)],
            Owner::Group(group) => {
                let live = self.processes.live.values();
                let own = live.filter(|process| process.group == group);
                own.map(|process| Target::Process(process.id)).collect()
            }
        }
    }

    /// A process or thread is gone, and owns nothing more.
    pub(crate) fn disown(&mut self, gone: Owner) {
        self.rare.owners.retain(|_, owner| *owner != gone);
    }

    /// Who owns something lives, and what is owned exists.
    pub(crate) fn validate_owners(&self) -> Result<(), &'static str> {
        let right = |(&file, owner): (&u32, &Owner)| {
            let lives = match owner {
                Owner::Thread(id) => self.threads.contains_key(id),
                Owner::Process(id) => self.processes.get(*id).is_some(),
                Owner::Group(group) => *group > 0 && i32::try_from(*group).is_ok(),
            };
            lives && self.open.files.get(file).is_some()
        };
        let all = self.rare.owners.iter().all(right);
        all.then_some(())
            .ok_or("an open file's owner is impossible")
    }
}
