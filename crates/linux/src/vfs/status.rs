//! `/proc/PID/status`.

use std::fmt::Write;

use crate::address_space::SPACE_END;
use crate::kernel::Kernel;
use crate::limits::Resource;
use crate::machine::{PAGE_BYTES, ThreadId};
use crate::process::{Process, USER_ID};
use crate::signal::{SIG_DFL, SIG_IGN, SignalInfo, bit};

/// The signals of a list.
fn set_of(pending: &[SignalInfo]) -> u64 {
    pending.iter().fold(0, |set, info| set | bit(info.signal))
}

impl Kernel {
    /// What a process is, or a thread of it.
    pub(super) fn status(&self, process: &Process, thread: Option<ThreadId>) -> String {
        let own = thread.unwrap_or(ThreadId(process.id.0));
        let mut text = format!(
            "Name:\t{name}\nUmask:\t{umask:04o}\nState:\t{state}\nTgid:\t{id}\nNgid:\t0\n\
             Pid:\t{own}\nPPid:\t{parent}\nTracerPid:\t0\nUid:\t{user}\t{user}\t{user}\t{user}\n\
             Gid:\t{user}\t{user}\t{user}\t{user}\nFDSize:\t64\nGroups:\t\n",
            name = self.name_of(process, thread),
            state = self.state_of(process, thread),
            umask = process.umask,
            id = process.id.0,
            own = own.0,
            parent = process.parent.map_or(0, |parent| parent.0),
            user = USER_ID,
        );
        let total = self.spaces[process.space].mapped_bytes() / 1024;
        let locked = self.spaces[process.space].locked_bytes(&(0..SPACE_END)) / 1024;
        let resident = self.resident_pages(process) * PAGE_BYTES / 1024;
        let _ = write!(
            text,
            "VmPeak:\t{total:8} kB\nVmSize:\t{total:8} kB\nVmLck:\t{locked:8} kB\n\
             VmHWM:\t{resident:8} kB\nVmRSS:\t{resident:8} kB\nVmSwap:\t{swapped:8} kB\n\
             Threads:\t{threads}\n",
            swapped = 0,
            threads = self.threads_of(process.id).len(),
        );
        self.tell_signals(&mut text, process, own);
        // Nobody is privileged, there is no seccomp, one memory node, and nothing counts switches.
        let harts = self.settings.harts;
        let allowed = self.harts_of(own);
        let _ = write!(
            text,
            "CapInh:\t{none:016x}\nCapPrm:\t{none:016x}\nCapEff:\t{none:016x}\nCapBnd:\t{none:016x}\n\
             CapAmb:\t{none:016x}\nNoNewPrivs:\t{restrained}\nSeccomp:\t0\n\
             Cpus_allowed:\t{allowed}\nCpus_allowed_list:\t{list}\n\
             Mems_allowed:\t1\nMems_allowed_list:\t0\n\
             voluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n",
            none = 0,
            restrained = u8::from(self.restraint_of(own).no_new_privileges),
            allowed = allowed.words(harts),
            list = allowed.list(harts),
        );
        text
    }

    /// The signals that wait, and the sets of those that are blocked, ignored and caught.
    fn tell_signals(&self, text: &mut String, process: &Process, own: ThreadId) {
        let thread = self.threads.get(&own);
        let handled_by = |is: fn(u64) -> bool| {
            let actions = process.actions.iter();
            let some = actions.filter(|(_, action)| is(action.handler));
            some.fold(0, |set, (&signal, _)| set | bit(signal))
        };
        let of_threads = self.threads.values().map(|one| one.pending.len());
        let of_processes = self.processes.live.values().map(|one| one.pending.len());
        let queued: usize = of_threads.chain(of_processes).sum();
        let most = process.limits[Resource::PendingSignals as usize].0;
        let sets = [
            ("SigPnd", thread.map_or(0, |one| set_of(&one.pending))),
            ("ShdPnd", set_of(&process.pending)),
            ("SigBlk", thread.map_or(0, |one| one.mask)),
            ("SigIgn", handled_by(|handler| handler == SIG_IGN)),
            (
                "SigCgt",
                handled_by(|handler| handler != SIG_IGN && handler != SIG_DFL),
            ),
        ];
        let _ = writeln!(text, "SigQ:\t{queued}/{most}");
        for (name, set) in sets {
            let _ = writeln!(text, "{name}:\t{set:016x}");
        }
    }
}
