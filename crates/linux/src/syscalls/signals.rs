//! Sending, catching and awaiting signals.

use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::machine::ThreadId;
use crate::process::ProcessId;
use crate::signal::{
    AlternateStack, IGNORED, SI_TKILL, SI_USER, SIG_DFL, SIG_IGN, SIGNAL_MAX, SignalInfo, Target,
    UNBLOCKABLE, bit,
};
use crate::thread::Wait;

pub(crate) fn signal_number(value: u64) -> Result<u8, Errno> {
    u8::try_from(value as u32)
        .ok()
        .filter(|&n| n <= SIGNAL_MAX)
        .ok_or(Errno::EINVAL)
}

/// `rt_sigaction`.
pub(crate) fn rt_sigaction(call: &mut Call) -> Answer {
    let [signal, new, old, set_bytes, ..] = call.arguments;
    let signal = signal_number(signal)?;
    if set_bytes != 8 || signal == 0 || new != 0 && bit(signal) & UNBLOCKABLE != 0 {
        return Err(Errno::EINVAL.into());
    }
    let present = call
        .process()
        .actions
        .get(&signal)
        .copied()
        .unwrap_or_default();
    let mut wished = present;
    if new != 0 {
        wished.handler = call.read_u64(new)?;
        wished.flags = call.read_u64(new.wrapping_add(8))?;
        wished.mask = call.read_u64(new.wrapping_add(16))? & !UNBLOCKABLE;
    }
    if old != 0 {
        let words = [present.handler, present.flags, present.mask];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        call.write(old, &bytes)?;
    }
    if new != 0 {
        call.process_mut().actions.insert(signal, wished);
        if wished.handler == SIG_IGN || wished.handler == SIG_DFL && bit(signal) & IGNORED != 0 {
            call.kernel.forget_pending(call.process, bit(signal));
        }
    }
    Ok(0)
}

/// `rt_sigprocmask`.
pub(crate) fn rt_sigprocmask(call: &mut Call) -> Answer {
    let [how, new, old, set_bytes, ..] = call.arguments;
    if set_bytes != 8 {
        return Err(Errno::EINVAL.into());
    }
    let present = call
        .kernel
        .threads
        .get(&call.thread)
        .map_or(0, |thread| thread.mask);
    let wished = if new == 0 {
        present
    } else {
        let set = call.read_u64(new)?;
        match how {
            0 => present | set,
            1 => present & !set,
            2 => set,
            _ => return Err(Errno::EINVAL.into()),
        }
    };
    if old != 0 {
        call.write(old, &present.to_le_bytes())?;
    }
    if let Some(thread) = call.kernel.threads.get_mut(&call.thread) {
        thread.mask = wished & !UNBLOCKABLE;
    }
    Ok(0)
}

/// `rt_sigpending`.
pub(crate) fn rt_sigpending(call: &mut Call) -> Answer {
    let thread = call.kernel.threads.get(&call.thread);
    let own = thread.into_iter().flat_map(|thread| &thread.pending);
    let set = own
        .chain(&call.process().pending)
        .fold(0, |set, info| set | bit(info.signal));
    let mask = thread.map_or(0, |thread| thread.mask);
    call.write(call.arguments[0], &(set & mask).to_le_bytes())?;
    Ok(0)
}

/// `rt_sigreturn`.
pub(crate) fn rt_sigreturn(call: &mut Call) -> Answer {
    if let Ok(()) = call
        .kernel
        .leave_handler(call.thread, call.hart, call.machine)
    {
        Err(Stop::SignalReturn)
    } else {
        let info = SignalInfo::fault(crate::signal::SIGSEGV, 1, call.hart.x[2]);
        let cause = "the frame of a signal handler is not readable".to_owned();
        call.kernel
            .force_signal(call.thread, call.hart, call.machine, info, cause);
        Err(Stop::SignalReturn)
    }
}

/// `sigaltstack`.
pub(crate) fn sigaltstack(call: &mut Call) -> Answer {
    let [new, old, ..] = call.arguments;
    let stack_pointer = call.hart.x[2];
    let present = call
        .kernel
        .threads
        .get(&call.thread)
        .map(|t| t.alternate_stack)
        .unwrap_or_default();
    let mut wished = present;
    if new != 0 {
        wished = AlternateStack {
            base: call.read_u64(new)?,
            flags: call.read_u32(new.wrapping_add(8))?,
            size: call.read_u64(new.wrapping_add(16))?,
        };
    }
    if old != 0 {
        call.write(old, &present.to_bytes(stack_pointer))?;
    }
    if new != 0 {
        let wished = present.replaced_by(wished, stack_pointer)?;
        if let Some(thread) = call.kernel.threads.get_mut(&call.thread) {
            thread.alternate_stack = wished;
        }
    }
    Ok(0)
}

/// `kill`. −1 means every other process of the same program.
pub(crate) fn kill(call: &mut Call) -> Answer {
    let [number, signal, ..] = call.arguments;
    let signal = signal_number(signal)?;
    let number = number as i32;
    let own = call.process();
    let (own_id, own_group, program) = (own.id, own.group, own.program);
    let processes = &call.kernel.processes;
    if number > 0 {
        let id = process_by_number(call, number as u32)?;
        return send_to(call, &[id], signal);
    }
    let meets = |id: ProcessId, of_program: u32, group: u32| match number {
        0 => group == own_group,
        -1 => id != own_id && of_program == program,
        _ => group == number.unsigned_abs(),
    };
    let live = processes.live.values();
    let receivers: Vec<ProcessId> = live
        .filter(|process| meets(process.id, process.program, process.group))
        .map(|process| process.id)
        .collect();
    let mut zombies = processes.zombies.iter();
    let any_zombie = zombies.any(|(&id, zombie)| meets(id, zombie.program, zombie.group));
    if receivers.is_empty() && !any_zombie {
        return Err(Errno::ESRCH.into());
    }
    send_to(call, &receivers, signal)
}

/// The process that a number stands for: a thread's stands for its process.
fn process_by_number(call: &Call, number: u32) -> Result<ProcessId, Errno> {
    let thread = call.kernel.threads.get(&ThreadId(number));
    let id = thread.map_or(ProcessId(number), |thread| thread.process);
    let exists = call.kernel.processes.exists(id);
    if exists { Ok(id) } else { Err(Errno::ESRCH) }
}

fn send_to(call: &mut Call, receivers: &[ProcessId], signal: u8) -> Answer {
    note_place(call);
    let info = SignalInfo::sent(signal, SI_USER, call.process);
    for &id in receivers.iter().filter(|_| signal != 0) {
        call.kernel.send_signal(Target::Process(id), info);
    }
    Ok(0)
}

/// So that a report of a fatal signal that a thread sends itself says where.
fn note_place(call: &mut Call) {
    if let Some(own) = call.kernel.threads.get_mut(&call.thread) {
        own.context.pc = call.hart.pc;
    }
}

fn kill_thread(call: &mut Call, thread: u64, signal: u64) -> Answer {
    let signal = signal_number(signal)?;
    let id = ThreadId(u32::try_from(thread as i32).map_err(|_| Errno::EINVAL)?);
    if !call.kernel.threads.contains_key(&id) {
        return Err(Errno::ESRCH.into());
    }
    if signal != 0 {
        note_place(call);
        let info = SignalInfo::sent(signal, SI_TKILL, call.process);
        call.kernel.send_signal(Target::Thread(id), info);
    }
    Ok(0)
}

/// `tkill`.
pub(crate) fn tkill(call: &mut Call) -> Answer {
    if call.arguments[0] as i32 <= 0 {
        return Err(Errno::EINVAL.into());
    }
    kill_thread(call, call.arguments[0], call.arguments[1])
}

/// `tgkill`.
pub(crate) fn tgkill(call: &mut Call) -> Answer {
    let [process, thread, signal, ..] = call.arguments;
    if process as i32 <= 0 || thread as i32 <= 0 {
        return Err(Errno::EINVAL.into());
    }
    let id = ThreadId(thread as u32);
    if call.kernel.process_of(id) != ProcessId(process as u32) {
        return Err(Errno::ESRCH.into());
    }
    kill_thread(call, thread, signal)
}

/// The signal of a guest's `siginfo_t`, for a process or thread with a number: nobody pretends to another
/// that it came from the kernel, or from `tkill`.
pub(crate) fn info_at(
    call: &mut Call,
    address: u64,
    signal: u8,
    to: u32,
) -> Result<SignalInfo, Errno> {
    let code = call.read_u32(address.wrapping_add(8))? as i32;
    if (code >= 0 || code == SI_TKILL) && to != call.thread.0 {
        return Err(Errno::EPERM);
    }
    let words = [
        call.read_u64(address.wrapping_add(16))?,
        call.read_u64(address.wrapping_add(24))?,
    ];
    Ok(SignalInfo {
        signal,
        code,
        words,
    })
}

/// `rt_sigqueueinfo`.
pub(crate) fn rt_sigqueueinfo(call: &mut Call) -> Answer {
    let [process, signal, address, ..] = call.arguments;
    let signal = signal_number(signal)?;
    let info = info_at(call, address, signal, process as u32)?;
    let id = process_by_number(call, process as u32)?;
    if signal != 0 {
        call.kernel.send_signal(Target::Process(id), info);
    }
    Ok(0)
}

/// `rt_tgsigqueueinfo`.
pub(crate) fn rt_tgsigqueueinfo(call: &mut Call) -> Answer {
    let [process, thread, signal, address, ..] = call.arguments;
    let signal = signal_number(signal)?;
    let info = info_at(call, address, signal, thread as u32)?;
    let id = ThreadId(thread as u32);
    let known = call.kernel.threads.contains_key(&id);
    if !known || call.kernel.process_of(id) != ProcessId(process as u32) {
        return Err(Errno::ESRCH.into());
    }
    if signal != 0 {
        call.kernel.send_signal(Target::Thread(id), info);
    }
    Ok(0)
}

/// Replaces the thread's mask for the duration of a call. A call that is made again keeps it.
pub(crate) fn replace_mask(call: &mut Call, address: u64, set_bytes: u64) -> Result<(), Errno> {
    if address == 0 {
        return Ok(());
    }
    if set_bytes != 8 {
        return Err(Errno::EINVAL);
    }
    let mask = call.read_u64(address)? & !UNBLOCKABLE;
    if let Some(thread) = call.kernel.threads.get_mut(&call.thread)
        && thread.saved_mask.is_none()
    {
        thread.saved_mask = Some(thread.mask);
        thread.mask = mask;
    }
    Ok(())
}

/// `rt_sigsuspend`.
pub(crate) fn rt_sigsuspend(call: &mut Call) -> Answer {
    let [mask, set_bytes, ..] = call.arguments;
    if mask == 0 {
        return Err(Errno::EFAULT.into());
    }
    replace_mask(call, mask, set_bytes)?;
    Err(Stop::Wait(Wait::Pause, None))
}

/// `rt_sigtimedwait`.
pub(crate) fn rt_sigtimedwait(call: &mut Call) -> Answer {
    let [set, info, timeout, set_bytes, ..] = call.arguments;
    if set_bytes != 8 {
        return Err(Errno::EINVAL.into());
    }
    let set = call.read_u64(set)? & !UNBLOCKABLE;
    let timeout = if timeout == 0 {
        None
    } else {
        Some(call.duration_at(timeout)?)
    };
    if let Some(found) = call.kernel.next_signal(call.thread, set, call.machine) {
        if info != 0 {
            call.write(info, &found.to_bytes())?;
        }
        return Ok(u64::from(found.signal));
    }
    if call.timed_out(timeout) {
        return Err(Errno::EAGAIN.into());
    }
    Err(call.wait_until_retry(Wait::Signals { set }, timeout))
}
