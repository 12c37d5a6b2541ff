//! Replacing a process's program: `execve` and `execveat`.
//!
//! Always true: until the new program is known to start, nothing of the old one is gone; then it has the
//! thread that calls alone, under the process's number.

use super::names::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, own_descriptor};
use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::load::{ARGUMENT_BYTES_MAX, Launch, LoadError, Loaded};
use crate::machine::ThreadId;
use crate::owners::Owner;
use crate::room::Growth;
use crate::signal::{AlternateStack, SIG_IGN, SIGCHLD};
use crate::thread::{Wait, name_of};
use crate::vfs::InodeId;
use crate::vfs::path::Viewer;

/// Cycles of replacing a process's program, beside its page faults.
const EXECUTE_CYCLES: u64 = 5000;

/// Of one argument or one variable, with the zero behind it.
const STRING_BYTES_MAX: usize = 1 << 17;

/// A list of strings that ends in a null pointer. `room` shrinks by what they take.
fn strings(call: &mut Call, mut address: u64, room: &mut usize) -> Result<Vec<Vec<u8>>, Errno> {
    let mut texts = Vec::new();
    // Like Linux, no list at all is an empty one.
    while address != 0 {
        let at = call.read_u64(address)?;
        if at == 0 {
            break;
        }
        let text = call
            .kernel
            .text_in(call.machine, call.space, at, STRING_BYTES_MAX.min(*room))
            .map_err(|error| match error {
                Errno::ENAMETOOLONG => LoadError::Arguments.into(),
                other => other,
            })?;
        let taken = text.len() + 1 + 8;
        *room = room.checked_sub(taken).ok_or(LoadError::Arguments)?;
        texts.push(text);
        address = address.wrapping_add(8);
    }
    Ok(texts)
}

/// `execve`.
pub(crate) fn execve(call: &mut Call) -> Answer {
    let [path, arguments, environment, ..] = call.arguments;
    call.arguments = [AT_FDCWD as u64, path, arguments, environment, 0, 0];
    execveat(call)
}

/// `execveat`.
pub(crate) fn execveat(call: &mut Call) -> Answer {
    let [directory, path, arguments, environment, flags, _] = call.arguments;
    if flags & !(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let mut path = call.string(path)?;
    let most = ARGUMENT_BYTES_MAX.min(call.process().argument_bytes_max() as usize);
    let mut room = most;
    let mut arguments = strings(call, arguments, &mut room)?;
    let environment = strings(call, environment, &mut room)?;
    if arguments.is_empty() {
        arguments.push(Vec::new());
    }
    let by_descriptor = !path.starts_with('/') && directory as i32 != AT_FDCWD;
    let inode = if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
        call.file(directory)?.inode().ok_or(Errno::EACCES)?
    } else {
        executable(call, directory, &path, flags & AT_SYMLINK_NOFOLLOW == 0)?
    };
    if by_descriptor {
        let base = format!("/dev/fd/{}", directory as i32);
        let below = (!path.is_empty()).then(|| format!("{base}/{path}"));
        path = below.unwrap_or(base);
    }
    // An interpreter could not open a script by a descriptor that is closed when it starts.
    let is_closed = by_descriptor && call.descriptor(directory)?.close_on_exec;
    let mut launch = Launch {
        file: path.clone(),
        path,
        inode,
        arguments,
        environment,
        program: call.process().program,
        stack_bytes: call.process().stack_bytes(call.kernel.settings.stack_bytes),
    };
    check_regular(call.kernel, inode)?;
    let (process, thread) = (call.process, call.thread);
    let look_up = |kernel: &mut Kernel, path: &str| {
        let viewer = Viewer::new((process, thread), &kernel.processes, &kernel.open);
        let directory = kernel.processes[process].directory;
        let found = kernel
            .files
            .find(&kernel.host, viewer, directory, path, true)?;
        check_regular(kernel, found).map(|()| found)
    };
    call.kernel
        .settle_scripts(call.machine, &mut launch, look_up)
        .map_err(Errno::from)?;
    if is_closed && launch.file != launch.path {
        return Err(Errno::ENOENT.into());
    }
    call.kernel
        .check_image(call.machine, &launch)
        .map_err(Errno::from)?;
    let growth = Growth {
        bytes: (most - room + (64 << 10)) as u64,
        page_tables: 8,
        page_lists: 0,
    };
    if !call.kernel.make_room(growth) {
        return Err(Errno::ENOMEM.into());
    }
    // From here on, the process has this thread alone.
    call.kernel.doom_threads(call.process, Some(call.thread));
    if call.kernel.threads_of(call.process).len() > 1 {
        return Err(Stop::Wait(Wait::Alone, None));
    }
    call.machine.charge(EXECUTE_CYCLES);
    let loaded = call
        .kernel
        .load(call.machine, &launch)
        .map_err(Errno::from)?;
    become_program(call, &launch, loaded);
    Err(Stop::Executed)
}

/// The file at a path, if it may be executed.
fn executable(call: &mut Call, directory: u64, path: &str, follow: bool) -> Result<InodeId, Errno> {
    let inode = match own_descriptor(call, path) {
        Some(number) => call.file(number)?.inode().ok_or(Errno::EACCES)?,
        None => call.find(directory, path, follow)?,
    };
    check_regular(call.kernel, inode)?;
    Ok(inode)
}

/// Fails unless an inode is a file that may be executed.
pub(crate) fn check_regular(kernel: &Kernel, inode: InodeId) -> Result<(), Errno> {
    let executable = kernel.files.inode(inode)?.mode & 0o100 != 0;
    if kernel.files.file(inode).is_err() || !executable {
        return Err(Errno::EACCES);
    }
    // Memory that has a descriptor (it can be sealed) is opened by nobody.
    if kernel.open.is_written(inode) && !kernel.rare.seals.contains_key(&inode) {
        return Err(Errno::ETXTBSY);
    }
    Ok(())
}

/// The calling process goes on as the loaded program.
fn become_program(call: &mut Call, launch: &Launch, loaded: Loaded) {
    let number = call.thread.0;
    take_leader_number(call);
    let kernel = &mut *call.kernel;
    let old_space = call.space;
    let (mut cleared, mut robust_list) = (0, 0);
    if let Some(thread) = kernel.threads.get_mut(&call.thread) {
        cleared = std::mem::take(&mut thread.clear_child);
        robust_list = std::mem::take(&mut thread.robust_list);
        thread.context = loaded.context;
        thread.name = name_of(&launch.path);
        thread.alternate_stack = AlternateStack::default();
        thread.retry_deadline_ns = None;
        thread.transferred = 0;
        if let Some(mask) = thread.saved_mask.take() {
            thread.mask = mask;
        }
    }
    kernel.hand_on_words_of(call.machine, number);
    if robust_list != 0 {
        kernel.leave_robust_list(call.machine, old_space, number, robust_list);
    }
    kernel.clear_child(call.machine, old_space, cleared);
    let faults = kernel.spaces[old_space].page_faults;
    if kernel.spaces[old_space].users == 1 {
        kernel.spaces[loaded.space].page_faults += faults;
    }
    let executable = kernel
        .files
        .path_of(launch.inode)
        .unwrap_or_else(|| launch.file.clone());
    kernel.inherit_small_pages(old_space, loaded.space);
    let process = &mut kernel.processes[call.process];
    process.space = loaded.space;
    process.executable = executable;
    process.command_line = loaded.command_line;
    process.environment = loaded.environment;
    process.auxiliary = loaded.auxiliary;
    process.executed = true;
    process.dumpable = true;
    if process.parent.is_some() {
        process.exit_signal = SIGCHLD;
    }
    process
        .actions
        .retain(|_, action| action.handler == SIG_IGN);
    for action in process.actions.values_mut() {
        (action.flags, action.mask) = (0, 0);
    }
    let waiter = process.vfork_waiter.take();
    let closing: Vec<u32> = process
        .descriptors
        .iter()
        .filter(|(_, descriptor)| descriptor.close_on_exec)
        .map(|(number, _)| number)
        .collect();
    for number in closing {
        let _ = kernel.close(call.process, number);
    }
    if let Some(waiter) = waiter {
        kernel.unblock(waiter, Some(i64::from(call.process.0)));
    }
    kernel.forget_timers(call.process);
    if kernel.spaces[old_space].users == 1 {
        kernel.note_left(call.machine, call.process, old_space);
    }
    kernel.leave_space(call.machine, old_space);
}

/// The thread that calls `execve` goes on under its process's number.
fn take_leader_number(call: &mut Call) {
    let leader = ThreadId(call.process.0);
    if call.thread == leader {
        return;
    }
    let kernel = &mut *call.kernel;
    if let Some(mut thread) = kernel.threads.remove(&call.thread) {
        thread.id = leader;
        kernel.threads.insert(leader, thread);
    }
    kernel.rare.renumber(call.thread, leader);
    kernel.disown(Owner::Thread(call.thread));
    for place in &mut kernel.scheduler.running {
        if *place == Some(call.thread) {
            *place = Some(leader);
        }
    }
    call.thread = leader;
}
