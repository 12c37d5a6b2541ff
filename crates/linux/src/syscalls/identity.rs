//! Who and where the process is, and what it may use.

use super::processes::usage_bytes;
use super::{Answer, Call};
use crate::errno::Errno;
use crate::machine::PAGE_BYTES;
use crate::process::USER_ID;
use crate::refusals::Refusal;
use crate::signal::SIGNAL_MAX;
use crate::thread::NAME_BYTES;
use crate::vfs::spelling::{bytes_of, text_of};

/// What `uname` says, field by field.
pub(crate) const UNAME: [&str; 6] = [
    "Linux",
    "perdure",
    "6.12.0-perdure",
    "#1 SMP",
    "riscv64",
    "(none)",
];

/// `uname`.
pub(crate) fn uname(call: &mut Call) -> Answer {
    const FIELD_BYTES: usize = 65;
    let mut bytes = [0; 6 * FIELD_BYTES];
    for (index, text) in UNAME.iter().enumerate() {
        let at = index * FIELD_BYTES;
        bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    call.write(call.arguments[0], &bytes)?;
    Ok(0)
}

/// `getuid` and its three kin.
pub(crate) fn getuid(_call: &mut Call) -> Answer {
    Ok(u64::from(USER_ID))
}

/// `setuid`, `setgid`: to oneself only.
pub(crate) fn setuid(call: &mut Call) -> Answer {
    if call.arguments[0] as u32 == USER_ID {
        Ok(0)
    } else {
        Err(Errno::EPERM.into())
    }
}

/// `setreuid` and `setregid`: to oneself or unchanged only.
pub(crate) fn setreuid(call: &mut Call) -> Answer {
    become_nobody_else(&call.arguments[..2])
}

/// `setresuid` and `setresgid`: the same.
pub(crate) fn setresuid(call: &mut Call) -> Answer {
    become_nobody_else(&call.arguments[..3])
}

fn become_nobody_else(wished: &[u64]) -> Answer {
    let own = |id: &u64| *id as u32 == USER_ID || *id as u32 == u32::MAX;
    if wished.iter().all(own) {
        Ok(0)
    } else {
        Err(Errno::EPERM.into())
    }
}

/// `getresuid` and `getresgid`.
pub(crate) fn getresuid(call: &mut Call) -> Answer {
    for address in [call.arguments[0], call.arguments[1], call.arguments[2]] {
        call.write(address, &USER_ID.to_le_bytes())?;
    }
    Ok(0)
}

/// `getgroups`: none beside the own.
pub(crate) fn getgroups(call: &mut Call) -> Answer {
    if (call.arguments[0] as i32).is_negative() {
        return Err(Errno::EINVAL.into());
    }
    Ok(0)
}

/// What only a superuser may do.
pub(crate) fn not_permitted(_call: &mut Call) -> Answer {
    Err(Errno::EPERM.into())
}

/// `unshare`. A process alone shares nothing; new name spaces are for superusers.
pub(crate) fn unshare(call: &mut Call) -> Answer {
    const THREADS: u64 = 0x100 | 0x800 | 0x1_0000;
    const TABLES: u64 = 0x200 | 0x400 | 0x4_0000;
    const SPACES: u64 = 0x80 | 0x2_0000 | 0x0200_0000 | 0x7c00_0000;
    let flags = call.arguments[0];
    if flags & !(THREADS | TABLES | SPACES) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if flags & SPACES != 0 {
        return Err(Errno::EPERM.into());
    }
    if flags != 0 && call.kernel.threads_of(call.process).len() > 1 {
        return Err(Errno::EINVAL.into());
    }
    Ok(0)
}

/// What this file system has not.
pub(crate) fn not_supported(_call: &mut Call) -> Answer {
    Err(Errno::EOPNOTSUPP.into())
}

/// `prlimit64`.
pub(crate) fn prlimit64(call: &mut Call) -> Answer {
    let [process, resource, new, old, ..] = call.arguments;
    let target = call.kernel.processes.named(process, call.process);
    let target = target.ok_or(Errno::ESRCH)?;
    let id = target.id;
    let resource = resource as u32 as usize;
    let present = *target.limits.get(resource).ok_or(Errno::EINVAL)?;
    let wished = if new == 0 {
        None
    } else {
        let soft = call.read_u64(new)?;
        let hard = call.read_u64(new.wrapping_add(8))?;
        if soft > hard {
            return Err(Errno::EINVAL.into());
        }
        if hard > present.1 {
            return Err(Errno::EPERM.into());
        }
        Some((soft, hard))
    };
    if old != 0 {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&present.0.to_le_bytes());
        bytes[8..].copy_from_slice(&present.1.to_le_bytes());
        call.write(old, &bytes)?;
    }
    if let Some(wished) = wished {
        call.kernel.processes[id].limits[resource] = wished;
    }
    Ok(0)
}

/// `getrlimit`.
pub(crate) fn getrlimit(call: &mut Call) -> Answer {
    let [resource, address, ..] = call.arguments;
    call.arguments = [0, resource, 0, address, 0, 0];
    prlimit64(call)
}

/// `setrlimit`.
pub(crate) fn setrlimit(call: &mut Call) -> Answer {
    let [resource, address, ..] = call.arguments;
    call.read_u64(address)?;
    call.arguments = [0, resource, address, 0, 0, 0];
    prlimit64(call)
}

/// `getrusage`.
pub(crate) fn getrusage(call: &mut Call) -> Answer {
    const CHILDREN: i32 = -1;
    const OWN: i32 = 0;
    const THREAD: i32 = 1;
    let [who, address, ..] = call.arguments;
    let mut usage = call.kernel.usage(call.process(), call.machine);
    let used = call.kernel.frames.total() - call.kernel.frames.free();
    let mut resident_kib = used * PAGE_BYTES / 1024;
    match who as i32 {
        OWN => {}
        THREAD => usage.retired = call.retired(),
        CHILDREN => {
            usage = call.process().children;
            resident_kib = 0;
        }
        _ => return Err(Errno::EINVAL.into()),
    }
    call.write(address, &usage_bytes(call, usage, resident_kib))?;
    Ok(0)
}

/// `sysinfo`.
pub(crate) fn sysinfo(call: &mut Call) -> Answer {
    let mut bytes = [0; 112];
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(0, call.machine.clock_ns() / 1_000_000_000);
    put(32, call.kernel.frames.total() * PAGE_BYTES);
    put(40, call.kernel.frames.free() * PAGE_BYTES);
    // The 16-bit count shares its word with padding.
    put(80, call.kernel.processes.live.len() as u64);
    bytes[104..108].copy_from_slice(&1_u32.to_le_bytes());
    call.write(call.arguments[0], &bytes)?;
    Ok(0)
}

/// The last of the capabilities that there are.
const LAST_CAPABILITY: u64 = 40;

/// `prctl`.
pub(crate) fn prctl(call: &mut Call) -> Answer {
    let [option, argument, others @ .., _] = call.arguments;
    match option as i32 {
        // Whoever sets NO_NEW_PRIVS says 1, and who asks for that and THP_DISABLE nothing.
        38 | 39 | 42 if argument != u64::from(option == 38) => Err(Errno::EINVAL.into()),
        38 | 39 | 41 | 42 if others != [0; 3] => Err(Errno::EINVAL.into()),
        29 | 30 | 36..=39 | 41 | 42 => restraint(call, option, argument),
        // PR_SET_VMA changes nothing; PR_GET_KEEPCAPS, PR_GET_SECUREBITS are off.
        0x5356_4d41 | 7 | 27 => Ok(0),
        // PR_SET_KEEPCAPS: there are none to keep. PR_GET_SECCOMP: the kernel is without it.
        8 if argument <= 1 => Ok(0),
        // PR_CAPBSET_READ: none of the capabilities that there are.
        23 if argument <= LAST_CAPABILITY => Ok(0),
        8 | 21 | 23 => Err(Errno::EINVAL.into()),
        // PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_MM.
        24 | 28 | 35 => Err(Errno::EPERM.into()),
        // PR_SET_PDEATHSIG, PR_GET_PDEATHSIG.
        1 => {
            let signal = u8::try_from(argument).ok();
            let signal = signal.filter(|&signal| signal <= SIGNAL_MAX);
            let signal = signal.ok_or(Errno::EINVAL)?;
            call.wish(call.thread, |wishes| wishes.death_signal = signal);
            Ok(0)
        }
        2 => {
            let signal = u32::from(call.wishes(call.thread).death_signal);
            call.write(argument, &signal.to_le_bytes())?;
            Ok(0)
        }
        // PR_CAP_AMBIENT.
        47 => ambient(call),
        // PR_GET_DUMPABLE.
        3 => Ok(u64::from(call.process().dumpable)),
        // PR_SET_DUMPABLE.
        4 if argument <= 1 => {
            call.process_mut().dumpable = argument == 1;
            Ok(0)
        }
        // PR_SET_NAME.
        15 => {
            let mut raw = Vec::new();
            while raw.len() < NAME_BYTES - 1 {
                let mut byte = [0];
                let at = argument.wrapping_add(raw.len() as u64);
                call.kernel
                    .copy_in(call.machine, call.space, at, &mut byte)?;
                if byte[0] == 0 {
                    break;
                }
                raw.push(byte[0]);
            }
            let name = text_of(raw);
            if let Some(thread) = call.kernel.threads.get_mut(&call.thread) {
                thread.name = name;
            }
            Ok(0)
        }
        // PR_GET_NAME.
        16 => {
            let thread = call.kernel.threads.get(&call.thread);
            let mut bytes = [0; NAME_BYTES];
            let name = thread.map(|thread| thread.name.clone()).unwrap_or_default();
            let name = bytes_of(&name);
            let count = name.len().min(NAME_BYTES - 1);
            bytes[..count].copy_from_slice(&name[..count]);
            call.write(argument, &bytes)?;
            Ok(0)
        }
        _ => prctl_without_effect(call, option, argument, others),
    }
}

/// `PR_CAP_AMBIENT`: there are no capabilities to keep (`IS_SET`, `CLEAR_ALL`, `LOWER`) or to get (`RAISE`).
fn ambient(call: &Call) -> Answer {
    let [_, operation, capability, others @ .., _] = call.arguments;
    let known = if operation == 4 { 0 } else { LAST_CAPABILITY };
    match operation {
        1..=4 if capability > known || others != [0; 2] => Err(Errno::EINVAL.into()),
        1 | 3 | 4 => Ok(0),
        2 => Err(Errno::EPERM.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// What can be asked with `prctl` and makes no difference here.
fn prctl_without_effect(call: &mut Call, option: u64, argument: u64, others: [u64; 3]) -> Answer {
    match option as i32 {
        // PR_GET_TIMING and PR_SET_TIMING: there is one kind. PR_TASK_PERF_EVENTS_DISABLE and _ENABLE.
        13 | 31 | 32 => Ok(0),
        14 if argument == 0 => Ok(0),
        // PR_MCE_KILL_GET: by default.
        34 if argument == 0 && others == [0; 3] => Ok(2),
        14 | 34 => Err(Errno::EINVAL.into()),
        // PR_GET_TID_ADDRESS.
        40 => {
            let thread = call.kernel.threads.get(&call.thread);
            let at = thread.map_or(0, |thread| thread.clear_child);
            call.write(argument, &at.to_le_bytes())?;
            Ok(0)
        }
        // PR_SET_IO_FLUSHER and PR_GET_IO_FLUSHER are a superuser's.
        57 | 58 => Err(Errno::EPERM.into()),
        _ => {
            call.kernel.note_refusal(Refusal::Prctl(option as u32));
            Err(Errno::EINVAL.into())
        }
    }
}

/// What `prctl` binds a thread to, and what a process does with orphans.
fn restraint(call: &mut Call, option: u64, argument: u64) -> Answer {
    let (thread, process) = (call.thread, call.process);
    let mut own = call.kernel.restraint_of(thread);
    match option {
        // PR_SET_TIMERSLACK, PR_GET_TIMERSLACK.
        29 if argument == 0 => own.timer_slack_ns = own.first_timer_slack_ns,
        29 => own.timer_slack_ns = argument,
        30 => return Ok(own.timer_slack_ns),
        // PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER.
        36 if argument == 0 => {
            call.kernel.rare.reapers.remove(&process);
        }
        36 => {
            call.kernel.rare.reapers.insert(process);
        }
        37 => {
            let reaps = u32::from(call.kernel.rare.reapers.contains(&process));
            call.write(argument, &reaps.to_le_bytes())?;
        }
        // PR_SET_THP_DISABLE, PR_GET_THP_DISABLE.
        41 if argument == 0 => {
            call.kernel.rare.small_pages.remove(&call.space);
        }
        41 => {
            call.kernel.rare.small_pages.insert(call.space);
        }
        42 => {
            return Ok(u64::from(
                call.kernel.rare.small_pages.contains(&call.space),
            ));
        }
        // PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS.
        38 => own.no_new_privileges = true,
        _ => return Ok(u64::from(own.no_new_privileges)),
    }
    call.kernel.restrain(thread, own);
    Ok(0)
}

/// The header of `capget` and `capset`: the process that is meant, 0 for the caller, and the bytes of
/// its capabilities; `None` if the version was only asked for.
fn capability_header(call: &mut Call) -> Result<Option<(u64, usize)>, Errno> {
    const VERSIONS: [u32; 3] = [0x1998_0330, 0x2007_1026, VERSION_3];
    const VERSION_3: u32 = 0x2008_0522;
    let [header, data, ..] = call.arguments;
    let version = call.read_u32(header)?;
    if !VERSIONS.contains(&version) {
        call.write(header, &VERSION_3.to_le_bytes())?;
        return if data == 0 {
            Ok(None)
        } else {
            Err(Errno::EINVAL)
        };
    }
    let process = call.read_u32(header.wrapping_add(4))?;
    if process as i32 <= -1 {
        return Err(Errno::EINVAL);
    }
    // The first version has 32 capabilities, the others twice as many.
    let bytes = if version == VERSIONS[0] { 12 } else { 24 };
    Ok(Some((u64::from(process), bytes)))
}

/// `capget`: no capabilities.
pub(crate) fn capget(call: &mut Call) -> Answer {
    let Some((process, bytes)) = capability_header(call)? else {
        return Ok(0);
    };
    let known = call.kernel.processes.named(process, call.process);
    known.ok_or(Errno::ESRCH)?;
    let data = call.arguments[1];
    if data != 0 {
        call.write(data, &[0; 24][..bytes])?;
    }
    Ok(0)
}

/// `capset`: whoever has none can keep none, and nothing else.
pub(crate) fn capset(call: &mut Call) -> Answer {
    let Some((process, bytes)) = capability_header(call)? else {
        return Ok(0);
    };
    if process != 0 && process != u64::from(call.process.0) {
        return Err(Errno::EPERM.into());
    }
    let data = call.arguments[1];
    for offset in (0..bytes as u64).step_by(4) {
        // What may be inherited, the second of three, is limited by what may be had, too.
        if call.read_u32(data.wrapping_add(offset))? != 0 {
            return Err(Errno::EPERM.into());
        }
    }
    Ok(0)
}

/// Calls that programs do without when they are refused.
pub(crate) fn not_implemented(_call: &mut Call) -> Answer {
    Err(Errno::ENOSYS.into())
}
