//! Threads: making and ending them, and what they ask about harts.

use super::processes::clone_process;
use super::{Answer, Call, Stop};
use crate::affinity::HartSet;
use crate::errno::Errno;
use crate::machine::ThreadId;
use crate::thread::{Context, NAME_BYTES, Thread};
use crate::vfs::spelling::text_of;
use crate::wishes::RESET_ON_FORK;

const CLONE_VM: u64 = 0x100;
const CLONE_SIGHAND: u64 = 0x800;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;

/// `clone`: of a thread, or of a process.
pub(crate) fn clone(call: &mut Call) -> Answer {
    let [flags, stack, parent, tls, child, _] = call.arguments;
    let of_a_thread = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
    if flags & of_a_thread != of_a_thread {
        return clone_process(call);
    }
    call.check_room_for_thread()?;
    let id = ThreadId(call.kernel.take_number(call.process().program));
    if flags & CLONE_PARENT_SETTID != 0 {
        call.write(parent, &id.0.to_le_bytes())?;
    }
    if flags & CLONE_CHILD_SETTID != 0 {
        call.write(child, &id.0.to_le_bytes())?;
    }
    let mut context = Context::of(call.hart);
    context.x[10] = 0;
    context.pc = context.pc.wrapping_add(4);
    if stack != 0 {
        context.x[2] = stack;
    }
    if flags & CLONE_SETTLS != 0 {
        context.x[4] = tls;
    }
    let kernel = &mut *call.kernel;
    let (name, mask) = kernel
        .threads
        .get(&call.thread)
        .map(|thread| (thread.name.clone(), thread.mask))
        .unwrap_or_default();
    let mut thread = Thread::new(id, call.process, context, name);
    thread.mask = mask;
    if flags & CLONE_CHILD_CLEARTID != 0 {
        thread.clear_child = child;
    }
    kernel.threads.insert(id, thread);
    kernel.scheduler.ready.push_back(id);
    call.inherit_wishes(id);
    Ok(u64::from(id.0))
}

/// `exit`.
pub(crate) fn exit(call: &mut Call) -> Answer {
    Err(Stop::EndThread(call.arguments[0] as i32 & 0xff))
}

/// `exit_group`.
pub(crate) fn exit_group(call: &mut Call) -> Answer {
    Err(Stop::EndProcess(call.arguments[0] as i32))
}

/// `set_tid_address`.
pub(crate) fn set_tid_address(call: &mut Call) -> Answer {
    if let Some(thread) = call.kernel.threads.get_mut(&call.thread) {
        thread.clear_child = call.arguments[0];
    }
    Ok(u64::from(call.thread.0))
}

/// `gettid`.
pub(crate) fn gettid(call: &mut Call) -> Answer {
    Ok(u64::from(call.thread.0))
}

/// `sched_yield`.
pub(crate) fn sched_yield(_call: &mut Call) -> Answer {
    Err(Stop::Yield)
}

fn check_thread(call: &Call, id: u64) -> Result<(), Errno> {
    let exists = id == 0 || call.kernel.threads.contains_key(&ThreadId(id as u32));
    if exists { Ok(()) } else { Err(Errno::ESRCH) }
}

/// `sched_getaffinity`.
pub(crate) fn sched_getaffinity(call: &mut Call) -> Answer {
    let [_, length, mask, ..] = call.arguments;
    let thread = scheduled_thread(call)?;
    let harts = call.kernel.harts_of(thread).mask();
    if length < harts.len() as u64 || length % 8 != 0 {
        return Err(Errno::EINVAL.into());
    }
    call.write(mask, &harts)?;
    Ok(harts.len() as u64)
}

/// `sched_setaffinity`: from now on the thread runs on harts of the mask, if that names any.
pub(crate) fn sched_setaffinity(call: &mut Call) -> Answer {
    let [_, length, mask, ..] = call.arguments;
    let thread = scheduled_thread(call)?;
    let length = length.min(128);
    let bytes = call
        .kernel
        .bytes_in(call.machine, call.space, mask, length)?;
    let harts = HartSet::named(&bytes, call.kernel.settings.harts);
    if harts.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    call.kernel.bind(thread, harts);
    Ok(0)
}

/// `sched_getscheduler`: what was wished for; every thread has equal turns, whatever it is.
pub(crate) fn sched_getscheduler(call: &mut Call) -> Answer {
    if (call.arguments[0] as i32).is_negative() {
        return Err(Errno::EINVAL.into());
    }
    let thread = scheduled_thread(call)?;
    Ok(u64::from(call.wishes(thread).policy))
}

/// `sched_setscheduler`: `SCHED_OTHER` and its batch and idle kin only.
pub(crate) fn sched_setscheduler(call: &mut Call) -> Answer {
    let [number, policy, parameter, ..] = call.arguments;
    let number = number as i32;
    if parameter == 0 || number.is_negative() {
        return Err(Errno::EINVAL.into());
    }
    let priority = call.read_u32(parameter)? as i32;
    let thread = scheduled_thread(call)?;
    let policy = policy as u32;
    match (policy & !RESET_ON_FORK, priority) {
        (0 | 3 | 5, 0) => {
            let nice = call.wishes(thread).nice;
            call.wish_policy(thread, policy, nice)?;
            Ok(0)
        }
        (1 | 2, 1..=99) => Err(Errno::EPERM.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `sched_setparam`: no policy that a thread may have here knows another priority than 0.
pub(crate) fn sched_setparam(call: &mut Call) -> Answer {
    let [number, parameter, ..] = call.arguments;
    if parameter == 0 || (number as i32).is_negative() {
        return Err(Errno::EINVAL.into());
    }
    let priority = call.read_u32(parameter)?;
    scheduled_thread(call)?;
    if priority == 0 {
        Ok(0)
    } else {
        Err(Errno::EINVAL.into())
    }
}

/// A write to `/proc/NUMBER/task/NUMBER/comm`: a thread of the caller's process is called so from now on.
pub(super) fn write_name(call: &mut Call, file: u64, bytes: &[u8]) -> Answer {
    let path = call.file(file)?.path.clone();
    let task = path.strip_suffix("/comm").and_then(|path| {
        let (_, number) = path.rsplit_once("/task/")?;
        number.parse().ok().map(ThreadId)
    });
    let thread = task.and_then(|id| call.kernel.threads.get_mut(&id));
    let thread = thread.filter(|thread| thread.process == call.process);
    let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let name = &name[..name.len().min(NAME_BYTES - 1)];
    thread.ok_or(Errno::EINVAL)?.name = text_of(name.to_vec());
    Ok(bytes.len() as u64)
}

/// The thread that a call of the scheduler's is about; 0 stands for the caller.
fn scheduled_thread(call: &Call) -> Result<ThreadId, Errno> {
    check_thread(call, call.arguments[0])?;
    Ok(match call.arguments[0] as u32 {
        0 => call.thread,
        number => ThreadId(number),
    })
}

/// `sched_getparam`: priority 0.
pub(crate) fn sched_getparam(call: &mut Call) -> Answer {
    let [id, parameter, ..] = call.arguments;
    if parameter == 0 || (id as i32).is_negative() {
        return Err(Errno::EINVAL.into());
    }
    check_thread(call, id)?;
    call.write(parameter, &0_u32.to_le_bytes())?;
    Ok(0)
}

/// `sched_get_priority_max` and `sched_get_priority_min`.
pub(crate) fn sched_priority_max(call: &mut Call) -> Answer {
    match call.arguments[0] {
        0 | 3 | 5..=7 => Ok(0),
        1 | 2 => Ok(99),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `sched_get_priority_min`.
pub(crate) fn sched_priority_min(call: &mut Call) -> Answer {
    match call.arguments[0] {
        0 | 3 | 5..=7 => Ok(0),
        1 | 2 => Ok(1),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `sched_rr_get_interval`.
pub(crate) fn sched_interval(call: &mut Call) -> Answer {
    if (call.arguments[0] as i32).is_negative() {
        return Err(Errno::EINVAL.into());
    }
    check_thread(call, call.arguments[0])?;
    call.write(call.arguments[1], &super::time_bytes(4_000_000))?;
    Ok(0)
}

/// `getcpu`.
pub(crate) fn getcpu(call: &mut Call) -> Answer {
    let [cpu, node, ..] = call.arguments;
    let state = call
        .kernel
        .threads
        .get(&call.thread)
        .map(|thread| thread.state);
    let hart = match state {
        Some(crate::thread::ThreadState::Running { hart }) => hart,
        _ => 0,
    };
    if cpu != 0 {
        call.write(cpu, &hart.to_le_bytes())?;
    }
    if node != 0 {
        call.write(node, &0_u32.to_le_bytes())?;
    }
    Ok(0)
}

/// `membarrier`: queries, and the barriers that coherent harts need nothing for.
pub(crate) fn membarrier(call: &mut Call) -> Answer {
    // GLOBAL, GLOBAL_EXPEDITED and PRIVATE_EXPEDITED with their registrations.
    const SUPPORTED: u64 = 0x1f;
    const PRIVATE_EXPEDITED: u64 = 8;
    const REGISTER_PRIVATE_EXPEDITED: u64 = 16;
    let [command, flags, ..] = call.arguments.map(|argument| argument & 0xffff_ffff);
    let registered = &mut call.kernel.rare.barriers;
    match command {
        _ if flags != 0 => Err(Errno::EINVAL.into()),
        0 => Ok(SUPPORTED),
        PRIVATE_EXPEDITED if !registered.contains(&call.space) => Err(Errno::EPERM.into()),
        REGISTER_PRIVATE_EXPEDITED => {
            registered.insert(call.space);
            Ok(0)
        }
        command if command.is_power_of_two() && command & SUPPORTED != 0 => Ok(0),
        _ => Err(Errno::EINVAL.into()),
    }
}
