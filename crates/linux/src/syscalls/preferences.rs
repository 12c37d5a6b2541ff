//! What programs wish for their turns, their input and output, and the place of their memory.
//!
//! Always true: there is one memory node, every thread has equal turns, and input and output know no
//! priority; so wishes are checked, remembered and told, and change nothing.

use super::transfer::{STEP_BYTES, part_of, total};
use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::machine::ThreadId;
use crate::process::{Process, USER_ID};
use crate::wishes::{BEST_EFFORT, RESET_ON_FORK, Wishes};

impl Call<'_> {
    pub fn wishes(&self, thread: ThreadId) -> Wishes {
        let all = &self.kernel.rare.wishes;
        all.get(&thread).copied().unwrap_or_default()
    }

    pub fn wish(&mut self, thread: ThreadId, change: impl FnOnce(&mut Wishes)) {
        let mut wishes = self.wishes(thread);
        change(&mut wishes);
        let all = &mut self.kernel.rare.wishes;
        if wishes == Wishes::default() {
            all.remove(&thread);
        } else {
            all.insert(thread, wishes);
        }
    }

    /// Wishes for a policy and a niceness. To be less nice than before, to be idle no more, and to hand
    /// everything on again, is a superuser's.
    pub fn wish_policy(&mut self, thread: ThreadId, policy: u32, nice: i32) -> Result<(), Errno> {
        const IDLE: u32 = 5;
        let before = self.wishes(thread);
        let is_idle = policy & !RESET_ON_FORK == IDLE;
        let was_idle = before.policy_alone() == IDLE;
        let rises = !is_idle && (was_idle || nice < before.nice);
        if rises || before.policy & !policy & RESET_ON_FORK != 0 {
            return Err(Errno::EPERM);
        }
        self.wish(thread, |wishes| {
            wishes.policy = policy;
            if !is_idle {
                wishes.nice = nice;
            }
        });
        Ok(())
    }

    /// A new thread wishes what the one wishes that made it, is bound to what that is, and runs where it may.
    pub fn inherit_wishes(&mut self, child: ThreadId) {
        let own = self.wishes(self.thread);
        let wishes = Wishes {
            death_signal: 0,
            policy: own.policy_alone(),
            ..own
        };
        self.wish(child, |own| *own = wishes);
        self.kernel.inherit_restraint(self.thread, child);
        if let Some(harts) = self.kernel.rare.affinities.get(&self.thread).cloned() {
            self.kernel.rare.affinities.insert(child, harts);
        }
    }

    /// The thread with a number; 0 stands for the caller.
    fn thread_named(&self, number: u64) -> Result<ThreadId, Errno> {
        match number as i32 {
            0 => Ok(self.thread),
            number if number < 0 => Err(Errno::EINVAL),
            number => {
                let id = ThreadId(number as u32);
                let known = self.kernel.threads.contains_key(&id);
                known.then_some(id).ok_or(Errno::ESRCH)
            }
        }
    }
}

/// Refuses a priority of input and output that an unprivileged process cannot ask for.
pub(crate) fn check_io_priority(priority: u32) -> Result<(), Errno> {
    match (priority >> 13, priority & 0x1fff) {
        (0, 0) | (2, 0..8) | (3, _) => Ok(()),
        (1, _) => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

/// `ioprio_set`: of a thread; of a group or user it is accepted.
pub(crate) fn ioprio_set(call: &mut Call) -> Answer {
    let [kind, who, priority, ..] = call.arguments;
    let priority = priority as u32;
    check_io_priority(priority)?;
    match kind {
        1 => {
            let thread = call.thread_named(who)?;
            let kept = if priority == 0 { BEST_EFFORT } else { priority };
            call.wish(thread, |wishes| wishes.io_priority = kept);
            Ok(0)
        }
        2 | 3 => Ok(0),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `ioprio_get`.
pub(crate) fn ioprio_get(call: &mut Call) -> Answer {
    let [kind, who, ..] = call.arguments;
    match kind {
        1 => {
            let thread = call.thread_named(who)?;
            Ok(u64::from(call.wishes(thread).io_priority))
        }
        2 | 3 => Ok(u64::from(call.wishes(call.thread).io_priority)),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// Mode and node of a memory policy, checked against the one node that there is.
fn policy_at(call: &mut Call, mode: u64, mask: u64, bits: u64) -> Result<(u32, bool), Errno> {
    const MODE_FLAGS: u32 = 0xe000;
    let mode = mode as u32;
    let named = if mask == 0 || bits <= 1 {
        0
    } else {
        if bits > 1 << 15 {
            return Err(Errno::EINVAL);
        }
        let words = (bits - 1).div_ceil(64);
        let first = call.read_u64(mask)?;
        for word in 1..words {
            if call.read_u64(mask.wrapping_add(8 * word))? != 0 {
                return Err(Errno::EINVAL);
            }
        }
        let valid = if bits > 64 {
            u64::MAX
        } else {
            (1 << (bits - 1)) - 1
        };
        first & valid
    };
    if named & !1 != 0 {
        return Err(Errno::EINVAL);
    }
    let is_right = match mode & !MODE_FLAGS {
        // MPOL_DEFAULT, MPOL_LOCAL.
        0 | 4 => named == 0,
        // MPOL_PREFERRED.
        1 => true,
        // MPOL_BIND, MPOL_INTERLEAVE, MPOL_PREFERRED_MANY, MPOL_WEIGHTED_INTERLEAVE.
        2 | 3 | 5 | 6 => named != 0,
        _ => false,
    };
    is_right.then_some((mode, named != 0)).ok_or(Errno::EINVAL)
}

/// `set_mempolicy`.
pub(crate) fn set_mempolicy(call: &mut Call) -> Answer {
    let [mode, mask, bits, ..] = call.arguments;
    let (mode, names_node) = policy_at(call, mode, mask, bits)?;
    call.wish(call.thread, |wishes| {
        wishes.memory_mode = mode;
        wishes.names_node = names_node;
    });
    Ok(0)
}

/// `mbind`.
pub(crate) fn mbind(call: &mut Call) -> Answer {
    const MOVE_ALL: u64 = 4;
    let [address, length, mode, mask, bits, flags] = call.arguments;
    policy_at(call, mode, mask, bits)?;
    if flags & !7 != 0 {
        return Err(Errno::EINVAL.into());
    }
    if flags & MOVE_ALL != 0 {
        return Err(Errno::EPERM.into());
    }
    if address % 4096 != 0 {
        return Err(Errno::EINVAL.into());
    }
    let end = address.checked_add(length).ok_or(Errno::EINVAL)?;
    let range = address..end.next_multiple_of(4096);
    if !call.kernel.spaces[call.space].is_covered(&range) {
        return Err(Errno::EFAULT.into());
    }
    Ok(0)
}

/// `get_mempolicy`.
pub(crate) fn get_mempolicy(call: &mut Call) -> Answer {
    const F_NODE: u64 = 1;
    const F_ADDR: u64 = 2;
    const F_MEMS_ALLOWED: u64 = 4;
    let [mode, mask, bits, address, flags, _] = call.arguments;
    if flags & !7 != 0
        || flags & F_MEMS_ALLOWED != 0 && flags & (F_NODE | F_ADDR) != 0
        || flags & F_ADDR == 0 && address != 0
        || flags & F_NODE != 0 && flags & F_ADDR == 0
    {
        return Err(Errno::EINVAL.into());
    }
    if flags & F_ADDR != 0 && call.kernel.spaces[call.space].find(address).is_none() {
        return Err(Errno::EFAULT.into());
    }
    let wishes = call.wishes(call.thread);
    let (told, named) = match flags {
        F_MEMS_ALLOWED => (0, true),
        0 => (wishes.memory_mode, wishes.names_node),
        // The node of a page, or a mapping's policy, which is everybody's.
        _ => (0, false),
    };
    if mode != 0 {
        call.write(mode, &told.to_le_bytes())?;
    }
    if mask != 0 && bits > 1 {
        let words = (bits - 1).div_ceil(64).min(128);
        for word in 0..words {
            let value = u64::from(word == 0 && named);
            call.write(mask.wrapping_add(8 * word), &value.to_le_bytes())?;
        }
    }
    Ok(0)
}

/// Bytes of the first `struct sched_attr`, and of today's.
const ATTRIBUTE_BYTES: u64 = 48;
const ATTRIBUTE_BYTES_TODAY: usize = 56;
/// More are none that the kernel could know.
const ATTRIBUTE_BYTES_MAX: u64 = 4096;

/// `sched_setattr`: like `sched_setscheduler`.
pub(crate) fn sched_setattr(call: &mut Call) -> Answer {
    const KNOWN: u64 = 0x7f;
    const RESET: u64 = 1;
    const KEEP_POLICY: u64 = 8;
    const KEEP_PARAMETERS: u64 = 16;
    let [thread, address, flags, ..] = call.arguments;
    if flags != 0 || address == 0 {
        return Err(Errno::EINVAL.into());
    }
    let size = u64::from(call.read_u32(address)?);
    if size != 0 && !(ATTRIBUTE_BYTES..=ATTRIBUTE_BYTES_MAX).contains(&size) {
        call.write(address, &(ATTRIBUTE_BYTES_TODAY as u32).to_le_bytes())?;
        return Err(Errno::E2BIG.into());
    }
    let policy = call.read_u32(address.wrapping_add(4))?;
    let flags = call.read_u64(address.wrapping_add(8))?;
    let nice = call.read_u32(address.wrapping_add(16))? as i32;
    let priority = call.read_u32(address.wrapping_add(20))?;
    if flags & !KNOWN != 0 {
        return Err(Errno::EINVAL.into());
    }
    let thread = call.thread_named(thread)?;
    let before = call.wishes(thread);
    let policy = if flags & KEEP_POLICY == 0 {
        policy
    } else {
        before.policy_alone()
    };
    let nice = if flags & KEEP_PARAMETERS == 0 {
        nice.clamp(-20, 19)
    } else {
        before.nice
    };
    let reset = if flags & RESET == 0 { 0 } else { RESET_ON_FORK };
    match policy {
        0 | 3 | 5 if priority == 0 => {
            call.wish_policy(thread, policy | reset, nice)?;
            Ok(0)
        }
        1 | 2 | 6 => Err(Errno::EPERM.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `sched_getattr`.
pub(crate) fn sched_getattr(call: &mut Call) -> Answer {
    let [thread, address, size, flags, ..] = call.arguments;
    if flags != 0 || address == 0 || !(ATTRIBUTE_BYTES..=ATTRIBUTE_BYTES_MAX).contains(&size) {
        return Err(Errno::EINVAL.into());
    }
    let thread = call.thread_named(thread)?;
    let wishes = call.wishes(thread);
    let mut bytes = [0; ATTRIBUTE_BYTES_TODAY];
    let told = ATTRIBUTE_BYTES_TODAY.min(size as usize);
    bytes[..4].copy_from_slice(&(told as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&wishes.policy_alone().to_le_bytes());
    bytes[8] = u8::from(wishes.policy & RESET_ON_FORK != 0);
    bytes[16..20].copy_from_slice(&wishes.nice.to_le_bytes());
    call.write(address, &bytes[..told])?;
    Ok(0)
}

/// The threads that a priority is for: one, those of a group of processes, those of a user.
fn prioritised(call: &Call, kind: u64, who: u64) -> Result<Vec<ThreadId>, Errno> {
    const OF_THREAD: i32 = 0;
    const OF_GROUP: i32 = 1;
    const OF_USER: i32 = 2;
    let processes = &call.kernel.processes;
    let group = match who as u32 {
        0 => processes[call.process].group,
        group => group,
    };
    let threads = call.kernel.threads.values();
    let chosen: Vec<ThreadId> = match kind as i32 {
        OF_THREAD => call.thread_named(who).into_iter().collect(),
        OF_GROUP => threads
            .filter(|thread| processes[thread.process].group == group)
            .map(|thread| thread.id)
            .collect(),
        OF_USER if matches!(who as u32, 0 | USER_ID) => threads.map(|thread| thread.id).collect(),
        OF_USER => Vec::new(),
        _ => return Err(Errno::EINVAL),
    };
    if chosen.is_empty() {
        return Err(Errno::ESRCH);
    }
    Ok(chosen)
}

/// `getpriority`: the least nice of them, in the kernel's form, which is never negative.
pub(crate) fn getpriority(call: &mut Call) -> Answer {
    let [kind, who, ..] = call.arguments;
    let threads = prioritised(call, kind, who)?.into_iter();
    let least = threads.map(|thread| call.wishes(thread).nice).min();
    Ok((20 - least.unwrap_or(0)) as u64)
}

/// `setpriority`: remembered; every thread has equal turns, whatever it wishes.
pub(crate) fn setpriority(call: &mut Call) -> Answer {
    let [kind, who, nice, ..] = call.arguments;
    let nice = (nice as i32).clamp(-20, 19);
    let mut answer = Ok(0);
    for thread in prioritised(call, kind, who)? {
        if nice < call.wishes(thread).nice {
            answer = Err(Errno::EACCES.into());
        } else {
            call.wish(thread, |wishes| wishes.nice = nice);
        }
    }
    answer
}

/// `personality`: remembered, and means nothing here.
pub(crate) fn personality(call: &mut Call) -> Answer {
    let wished = call.arguments[0] as u32;
    let old = call.wishes(call.thread).personality;
    if wished != u32::MAX {
        call.wish(call.thread, |wishes| wishes.personality = wished);
    }
    Ok(u64::from(old))
}

/// `setfsuid`, `setfsgid`: tells the number that there is.
pub(crate) fn set_file_user(_call: &mut Call) -> Answer {
    Ok(u64::from(USER_ID))
}

/// `kcmp`: whether two processes share something.
pub(crate) fn kcmp(call: &mut Call) -> Answer {
    let [first, second, kind, one, other, _] = call.arguments;
    let processes = &call.kernel.processes;
    let find = |number: u64| processes.named(number, call.process).ok_or(Errno::ESRCH);
    let (first, second) = (find(first)?, find(second)?);
    let order = match kind {
        // KCMP_FILE.
        0 => {
            let file = first.descriptors.descriptor(one)?.file;
            file.cmp(&second.descriptors.descriptor(other)?.file)
        }
        // KCMP_VM.
        1 => first.space.cmp(&second.space),
        // KCMP_FILES, KCMP_FS, KCMP_SIGHAND, KCMP_IO: each process has its own.
        2..=5 => first.id.cmp(&second.id),
        // KCMP_SYSVSEM: so has who has something to undo; the others have nothing, which is the same.
        6 => {
            let system_v = &call.kernel.rare.system_v;
            let own = |process: &Process| system_v.undoes(process.id).then_some(process.id);
            own(first).cmp(&own(second))
        }
        _ => return Err(Errno::EINVAL.into()),
    };
    Ok(match order {
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Less => 1,
        std::cmp::Ordering::Greater => 2,
    })
}

/// Bytes that one piece of a copy between processes takes.
const PIECE_BYTES: u64 = 4096;

/// `process_vm_readv` and `process_vm_writev`.
fn copy_between(call: &mut Call, writes: bool) -> Answer {
    let [process, local, local_count, remote, remote_count, flags] = call.arguments;
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let before = call.transferred();
    let whole_local = super::transfer::vector(call, local, local_count)?;
    let whole_remote = super::transfer::vector(call, remote, remote_count)?;
    let mut local = part_of(&whole_local, before, STEP_BYTES);
    let mut remote = part_of(&whole_remote, before, STEP_BYTES);
    let target = call
        .kernel
        .processes
        .get(crate::process::ProcessId(process as u32));
    let other = target.ok_or(Errno::ESRCH)?.space;
    let (mut at_local, mut at_remote, mut done) = (0, 0, 0);
    while at_local < local.len() && at_remote < remote.len() {
        let (near, far) = (&mut local[at_local], &mut remote[at_remote]);
        let count = near.1.min(far.1).min(PIECE_BYTES);
        let (to, from) = if writes {
            ((other, far.0), (call.space, near.0))
        } else {
            ((call.space, near.0), (other, far.0))
        };
        let mut bytes = vec![0; count as usize];
        let kernel = &mut *call.kernel;
        let moved = kernel
            .copy_in(call.machine, from.0, from.1, &mut bytes)
            .and_then(|()| kernel.copy_out(call.machine, to.0, to.1, &bytes));
        if let Err(error) = moved {
            // What was moved before counts.
            return if before + done > 0 {
                Ok(before + done)
            } else {
                Err(error.into())
            };
        }
        done += count;
        for piece in [near, far] {
            piece.0 = piece.0.wrapping_add(count);
            piece.1 -= count;
        }
        at_local += usize::from(local[at_local].1 == 0);
        at_remote += usize::from(remote[at_remote].1 == 0);
    }
    let done = before + done;
    if done < total(&whole_local).min(total(&whole_remote)) {
        call.set_transferred(done);
        return Err(Stop::Again);
    }
    Ok(done)
}

/// `process_vm_readv`.
pub(crate) fn process_vm_readv(call: &mut Call) -> Answer {
    copy_between(call, false)
}

/// `process_vm_writev`.
pub(crate) fn process_vm_writev(call: &mut Call) -> Answer {
    copy_between(call, true)
}
