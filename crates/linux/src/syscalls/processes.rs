//! Processes: making them, waiting for their end, and their families.

use super::{Answer, Call, Stop};
use perdure_riscv::Access;

use crate::errno::Errno;
use crate::jobs::Change;
use crate::machine::{SpaceId, ThreadId};
use crate::page_table::ALL_PAGES;
use crate::process::{Process, ProcessId, USER_ID, Usage, Zombie};
use crate::signal::{SIGCHLD, SIGNAL_MAX};
use crate::thread::{Context, Thread, Wait};

const CLONE_VM: u64 = 0x100;
const CLONE_PIDFD: u64 = 0x1000;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_PARENT: u64 = 0x8000;
const CLONE_SYSVSEM: u64 = 0x4_0000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_DETACHED: u64 = 0x40_0000;
const CLONE_UNTRACED: u64 = 0x80_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;
const CLONE_IO: u64 = 0x8000_0000;
/// The low byte of clone's flags: what the parent gets when the child ends.
const EXIT_SIGNAL: u64 = 0xff;

/// Cycles of making a process, and of each page-table entry that is copied.
const FORK_CYCLES: u64 = 3000;
const FORK_PAGE_CYCLES: u64 = 4;
const WNOHANG: u64 = 1;
const WUNTRACED: u64 = 2;
const WEXITED: u64 = 4;
const WCONTINUED: u64 = 8;
const WNOWAIT: u64 = 0x100_0000;
/// `__WALL`, `__WCLONE`: all children, and those alone that end with another signal than SIGCHLD.
const WALL: u64 = 0x4000_0000;
const WCLONE: u64 = 0x8000_0000;
/// These and `__WNOTHREAD`: every child is found by every thread.
const WAIT_KINDS: u64 = 0xe000_0000;

/// `clone` of a process: `fork`, `vfork`, and what `posix_spawn` does. Sharing descriptors or
/// directories between processes, and namespaces, are refused with EINVAL.
pub(crate) fn clone_process(call: &mut Call) -> Answer {
    const KNOWN: u64 = EXIT_SIGNAL
        | CLONE_VM
        | CLONE_PIDFD
        | CLONE_VFORK
        | CLONE_PARENT
        | CLONE_SYSVSEM
        | CLONE_SETTLS
        | CLONE_PARENT_SETTID
        | CLONE_CHILD_CLEARTID
        | CLONE_DETACHED
        | CLONE_UNTRACED
        | CLONE_CHILD_SETTID
        | CLONE_IO;
    let [flags, stack, parent_address, tls, child_address, _] = call.arguments;
    let signal = (flags & EXIT_SIGNAL) as u8;
    let both = CLONE_PIDFD | CLONE_PARENT_SETTID;
    if flags & !KNOWN != 0 || signal > SIGNAL_MAX || flags & both == both {
        return Err(Errno::EINVAL.into());
    }
    call.check_room_for_thread()?;
    if flags & CLONE_PIDFD != 0 {
        call.kernel
            .touch(call.machine, call.space, parent_address, 4, Access::Store)?;
        let process = call.process();
        if process.descriptors.is_full(process.descriptors_max()) {
            return Err(Errno::EMFILE.into());
        }
    }
    let shares_space = flags & CLONE_VM != 0;
    let growth = call.kernel.growth_of_fork(call.process, shares_space);
    if !call.kernel.make_room(growth) {
        return Err(Errno::EAGAIN.into());
    }
    let space = if shares_space {
        call.kernel.spaces[call.space].users += 1;
        call.machine.charge(FORK_CYCLES);
        call.space
    } else {
        let space = fork_space(call);
        call.kernel
            .note_inherited(call.machine, call.process, space);
        space
    };
    let number = call.kernel.take_number(call.process().program);
    let id = ProcessId(number);
    let thread = ThreadId(number);
    let now = call.machine.clock_ns();
    let parent = call.process();
    let child = Process {
        id,
        parent: if flags & CLONE_PARENT != 0 {
            parent.parent
        } else {
            Some(parent.id)
        },
        leads_run: false,
        space,
        pending: Vec::new(),
        timer: crate::process::IntervalTimer::default(),
        executed: false,
        exit_signal: signal,
        vfork_waiter: (flags & CLONE_VFORK != 0).then_some(call.thread),
        ending: None,
        started_ns: now,
        retired: 0,
        children: Usage::default(),
        ..parent.clone()
    };
    for (_, descriptor) in child.descriptors.iter() {
        if let Some(file) = call.kernel.open.files.get_mut(descriptor.file) {
            file.references += 1;
        }
    }
    call.kernel.processes.live.insert(id, child);
    let mut context = Context::of(call.hart);
    context.x[10] = 0;
    context.pc = context.pc.wrapping_add(4);
    if stack != 0 {
        context.x[2] = stack;
    }
    if flags & CLONE_SETTLS != 0 {
        context.x[4] = tls;
    }
    let mut first = Thread::new(thread, id, context, String::new());
    if let Some(own) = call.kernel.threads.get(&call.thread) {
        first.name.clone_from(&own.name);
        first.mask = own.saved_mask.unwrap_or(own.mask);
        if flags & (CLONE_VM | CLONE_VFORK) != CLONE_VM {
            first.alternate_stack = own.alternate_stack;
        }
    }
    if flags & CLONE_CHILD_CLEARTID != 0 {
        first.clear_child = child_address;
    }
    // Like Linux, an address that cannot be written does not undo the child.
    if flags & CLONE_PARENT_SETTID != 0 {
        let _ = call.write(parent_address, &number.to_le_bytes());
    }
    if flags & CLONE_CHILD_SETTID != 0 {
        let kernel = &mut *call.kernel;
        let _ = kernel.copy_out(call.machine, space, child_address, &number.to_le_bytes());
    }
    call.kernel.threads.insert(thread, first);
    call.inherit_wishes(thread);
    call.kernel.scheduler.ready.push_back(thread);
    if flags & CLONE_PIDFD != 0 {
        let descriptor = call.open_process(id, 0)?;
        call.write(parent_address, &descriptor.to_le_bytes())?;
    }
    if flags & CLONE_VFORK != 0 {
        return Err(Stop::Wait(Wait::Vfork, None));
    }
    Ok(u64::from(number))
}

/// A copy of the caller's address space.
fn fork_space(call: &mut Call) -> SpaceId {
    let kernel = &mut *call.kernel;
    let (space, pages) = kernel.spaces.fork(call.space, &mut kernel.frames);
    call.machine.charge(FORK_CYCLES + pages * FORK_PAGE_CYCLES);
    kernel.inherit_small_pages(call.space, space);
    if kernel.rare.barriers.contains(&call.space) {
        kernel.rare.barriers.insert(space);
    }
    // What the parent could write is now shared.
    call.machine.mappings_changed(call.space, ALL_PAGES, false);
    space
}

/// Which children are waited for.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Any,
    One(u32),
    Group(u32),
}

impl Wanted {
    fn includes(self, id: ProcessId, group: u32) -> bool {
        match self {
            Wanted::Any => true,
            Wanted::One(number) => id.0 == number,
            Wanted::Group(number) => group == number,
        }
    }
}

/// A wanted child that has ended, if the options ask for such; `None` if none of them has. It is asked for
/// no more without `WNOWAIT`. No child is left that could do what is waited for: ECHILD.
fn ended_child(
    call: &mut Call,
    wanted: Wanted,
    options: u64,
) -> Result<Option<(ProcessId, Zombie)>, Errno> {
    let own = call.process;
    let (processes, clones) = (&mut call.kernel.processes, &mut call.kernel.rare.clones);
    let found = processes
        .zombies
        .iter()
        .filter(|_| options & WEXITED != 0)
        .find(|(id, zombie)| {
            zombie.parent == own
                && wanted.includes(**id, zombie.group)
                && is_of_kind(options, clones.contains(id))
        })
        .map(|(&id, &zombie)| (id, zombie));
    if let Some((id, zombie)) = found {
        if options & WNOWAIT == 0 {
            processes.zombies.remove(&id);
            clones.remove(&id);
            processes[own].children = processes[own].children.plus(zombie.usage);
        }
        return Ok(Some((id, zombie)));
    }
    let mut children = processes.live.values();
    let any = children.any(|child| is_wanted(child, own, wanted, options));
    if any { Ok(None) } else { Err(Errno::ECHILD) }
}

/// Whether children that end otherwise than with SIGCHLD, or the others, are asked for.
fn is_of_kind(options: u64, is_clone: bool) -> bool {
    options & WALL != 0 || is_clone == (options & WCLONE != 0)
}

/// Whether somebody waits for a process that lives.
fn is_wanted(child: &Process, parent: ProcessId, wanted: Wanted, options: u64) -> bool {
    child.parent == Some(parent)
        && wanted.includes(child.id, child.group)
        && is_of_kind(options, child.exit_signal != SIGCHLD)
}

/// A wanted child that has stopped or goes on, as far as the options ask.
fn changed_child(
    call: &mut Call,
    wanted: Wanted,
    options: u64,
    take: bool,
) -> Option<(ProcessId, Change)> {
    let own = call.process;
    let jobs = call.kernel.rare.jobs.keys().copied();
    let children: Vec<ProcessId> = jobs
        .filter(|id| {
            let child = call.kernel.processes.get(*id);
            child.is_some_and(|child| is_wanted(child, own, wanted, options))
        })
        .collect();
    let (stops, continues) = (options & WUNTRACED != 0, options & WCONTINUED != 0);
    children.into_iter().find_map(|child| {
        let change = call.kernel.change_of(child, stops, continues, take)?;
        Some((child, change))
    })
}

/// `struct rusage`: all CPU time is user time.
pub(crate) fn usage_bytes(call: &Call, usage: Usage, resident_kib: u64) -> Vec<u8> {
    let time_ns = call.machine.duration_ns(usage.retired);
    let mut words = [0_u64; 18];
    words[0] = time_ns / 1_000_000_000;
    words[1] = time_ns / 1000 % 1_000_000;
    words[4] = resident_kib;
    words[8] = usage.page_faults;
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// `wait4`.
pub(crate) fn wait4(call: &mut Call) -> Answer {
    let [process, status, options, usage, ..] = call.arguments;
    let options = options & 0xffff_ffff;
    if options & !(WNOHANG | WUNTRACED | WCONTINUED | WAIT_KINDS) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let wanted = match process as i32 {
        -1 => Wanted::Any,
        0 => Wanted::Group(call.process().group),
        i32::MIN => return Err(Errno::ESRCH.into()),
        group if group < 0 => Wanted::Group(group.unsigned_abs()),
        one => Wanted::One(one as u32),
    };
    let Some((id, zombie)) = ended_child(call, wanted, options | WEXITED)? else {
        if let Some((child, change)) = changed_child(call, wanted, options, true) {
            if status != 0 {
                call.write(status, &change.status_word().to_le_bytes())?;
            }
            if usage != 0 {
                call.write(usage, &usage_bytes(call, Usage::default(), 0))?;
            }
            return Ok(u64::from(child.0));
        }
        return if options & WNOHANG != 0 {
            Ok(0)
        } else {
            Err(Stop::Wait(Wait::Child, None))
        };
    };
    if status != 0 {
        call.write(status, &zombie.ending.status_word().to_le_bytes())?;
    }
    if usage != 0 {
        call.write(usage, &usage_bytes(call, zombie.usage, 0))?;
    }
    Ok(u64::from(id.0))
}

/// `waitid`.
pub(crate) fn waitid(call: &mut Call) -> Answer {
    let [kind, id, info, options, usage, _] = call.arguments;
    let options = options & 0xffff_ffff;
    let events = WEXITED | WUNTRACED | WCONTINUED;
    if options & !(WNOHANG | WNOWAIT | events | WAIT_KINDS) != 0 || options & events == 0 {
        return Err(Errno::EINVAL.into());
    }
    let id = id as u32;
    let wanted = match kind {
        0 => Wanted::Any,
        1 if id as i32 > 0 => Wanted::One(id),
        2 if id == 0 => Wanted::Group(call.process().group),
        2 if id as i32 > 0 => Wanted::Group(id),
        // P_PIDFD.
        3 => Wanted::One(call.process_behind(u64::from(id))?.0),
        _ => return Err(Errno::EINVAL.into()),
    };
    // By a descriptor that never waits, nobody does.
    let never_waits = kind == 3 && call.file(u64::from(id))?.nonblocking();
    let ended = ended_child(call, wanted, options)?;
    let changed = match ended {
        None => changed_child(call, wanted, options, options & WNOWAIT == 0),
        Some(_) => None,
    };
    if ended.is_none() && changed.is_none() && options & WNOHANG == 0 {
        return Err(if never_waits {
            Errno::EAGAIN.into()
        } else {
            Stop::Wait(Wait::Child, None)
        });
    }
    let told = ended.map(|(child, zombie)| (child, zombie.ending.code_and_status()));
    let told = told.or(changed.map(|(child, change)| (child, change.code_and_status())));
    let mut words = [0_u32; 8];
    if let Some((child, (code, status))) = told {
        words = [
            u32::from(SIGCHLD),
            0,
            code as u32,
            0,
            child.0,
            USER_ID,
            status,
            0,
        ];
        if usage != 0 {
            let used = ended.map(|(_, zombie)| zombie.usage).unwrap_or_default();
            call.write(usage, &usage_bytes(call, used, 0))?;
        }
    }
    if info != 0 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        call.write(info, &bytes[..28])?;
    }
    Ok(0)
}

/// `getpid`.
pub(crate) fn getpid(call: &mut Call) -> Answer {
    Ok(u64::from(call.process.0))
}

/// `getppid`; 0 for a process that belongs to the outside.
pub(crate) fn getppid(call: &mut Call) -> Answer {
    Ok(call
        .process()
        .parent
        .map_or(0, |parent| u64::from(parent.0)))
}

/// Group and session of a process, zombies included as far as anybody can tell.
fn family(call: &Call, number: u64) -> Result<(u32, u32), Errno> {
    let processes = &call.kernel.processes;
    if let Some(process) = processes.named(number, call.process) {
        return Ok((process.group, process.session));
    }
    let zombie = processes.zombies.get(&ProcessId(number as u32));
    zombie
        .map(|zombie| (zombie.group, zombie.group))
        .ok_or(Errno::ESRCH)
}

/// `getpgid`.
pub(crate) fn getpgid(call: &mut Call) -> Answer {
    family(call, call.arguments[0])
        .map_err(Stop::from)
        .map(|(group, _)| u64::from(group))
}

/// `getsid`.
pub(crate) fn getsid(call: &mut Call) -> Answer {
    family(call, call.arguments[0])
        .map_err(Stop::from)
        .map(|(_, session)| u64::from(session))
}

/// `setpgid`: of oneself, or of a child that has not called `execve` yet; or has ended.
pub(crate) fn setpgid(call: &mut Call) -> Answer {
    let [number, group, ..] = call.arguments.map(|argument| argument as u32);
    if group as i32 <= -1 {
        return Err(Errno::EINVAL.into());
    }
    let own = call.process();
    let session = own.session;
    let processes = &call.kernel.processes;
    let in_session = |group: u32| {
        let is_member = |id| {
            processes
                .get(id)
                .is_some_and(|member| member.session == session)
        };
        let mut live = processes.live.values();
        // A zombie is taken to be of its parent's session, which is not remembered.
        let mut zombies = processes.zombies.values();
        live.any(|other| other.group == group && other.session == session)
            || zombies.any(|other| other.group == group && is_member(other.parent))
    };
    let child = ProcessId(number);
    let zombie = processes.zombies.get(&child);
    if zombie.is_some_and(|zombie| zombie.parent == call.process) {
        // Neither is it whether it called `execve`, which would be EACCES.
        let group = if group == 0 { number } else { group };
        if group != number && !in_session(group) {
            return Err(Errno::EPERM.into());
        }
        if let Some(zombie) = call.kernel.processes.zombies.get_mut(&child) {
            zombie.group = group;
        }
        return Ok(0);
    }
    let target = processes.named(u64::from(number), call.process);
    let target = target.ok_or(Errno::ESRCH)?;
    let id = target.id;
    if id != call.process {
        if target.parent != Some(call.process) {
            return Err(Errno::ESRCH.into());
        }
        if target.session != session {
            return Err(Errno::EPERM.into());
        }
        if target.executed {
            return Err(Errno::EACCES.into());
        }
    }
    if target.session == id.0 {
        return Err(Errno::EPERM.into());
    }
    let group = if group == 0 { id.0 } else { group };
    if group != id.0 && !in_session(group) {
        return Err(Errno::EPERM.into());
    }
    call.kernel.processes[id].group = group;
    Ok(0)
}

/// `setsid`.
pub(crate) fn setsid(call: &mut Call) -> Answer {
    let number = call.process.0;
    let processes = &mut call.kernel.processes;
    let leads = processes.live.values().any(|other| other.group == number)
        || processes
            .zombies
            .values()
            .any(|other| other.group == number);
    if leads {
        return Err(Errno::EPERM.into());
    }
    let process = &mut processes[call.process];
    (process.group, process.session) = (number, number);
    Ok(u64::from(number))
}
