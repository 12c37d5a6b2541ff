//! Descriptors that stand for processes.
//!
//! Always true: numbers of processes are not used again, so such a descriptor never comes to stand
//! for another one; it is readable once its process has ended.

use super::{Answer, Call};
use crate::errno::Errno;
use crate::process::ProcessId;
use crate::signal::{SI_USER, SIGKILL, SignalInfo, Target};
use crate::syscalls::signals::{info_at, signal_number};
use crate::vfs::descriptor::{Descriptor, O_NONBLOCK, Object, OpenFile};
use crate::vfs::path::subject_of;

impl Call<'_> {
    /// The process that a descriptor stands for.
    pub fn process_behind(&self, number: u64) -> Result<ProcessId, Errno> {
        match self.file(number)?.object {
            Object::Process(id) => Ok(id),
            _ => Err(Errno::EBADF),
        }
    }

    /// The process that is sent a signal through a descriptor, which may be open on its directory in
    /// `/proc`, too.
    fn process_signalled(&self, number: u64) -> Result<ProcessId, Errno> {
        let file = self.file(number)?;
        match file.object {
            Object::Inode(inode) if inode == self.kernel.files.process => {
                subject_of(&format!("{}/", file.path)).ok_or(Errno::EBADF)
            }
            _ => self.process_behind(number),
        }
    }

    /// A new descriptor for a process; it is closed on exec.
    pub fn open_process(&mut self, id: ProcessId, flags: u32) -> Result<u32, Errno> {
        let name = "anon_inode:[pidfd]".to_owned();
        let file = OpenFile::new(Object::Process(id), flags & O_NONBLOCK | 2, name);
        self.open(file, true)
    }
}

/// `pidfd_open`.
pub(crate) fn pidfd_open(call: &mut Call) -> Answer {
    let [process, flags, ..] = call.arguments;
    let flags = flags as u32;
    if flags & !O_NONBLOCK != 0 || process as i32 <= 0 {
        return Err(Errno::EINVAL.into());
    }
    let id = ProcessId(process as u32);
    if !call.kernel.processes.exists(id) {
        // Of a thread that leads no process, Linux knows no such descriptor.
        let is_thread = call
            .kernel
            .threads
            .contains_key(&crate::machine::ThreadId(id.0));
        let error = if is_thread {
            Errno::EINVAL
        } else {
            Errno::ESRCH
        };
        return Err(error.into());
    }
    Ok(u64::from(call.open_process(id, flags)?))
}

/// `pidfd_send_signal`.
pub(crate) fn pidfd_send_signal(call: &mut Call) -> Answer {
    let [number, signal, address, flags, ..] = call.arguments;
    let id = call.process_signalled(number)?;
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let signal = signal_number(signal)?;
    let info = if address == 0 {
        SignalInfo::sent(signal, SI_USER, call.process)
    } else {
        let given = call.read_u32(address)?;
        if given != u32::from(signal) {
            return Err(Errno::EINVAL.into());
        }
        info_at(call, address, signal, id.0)?
    };
    if !call.kernel.processes.exists(id) {
        return Err(Errno::ESRCH.into());
    }
    if signal != 0 {
        call.kernel.send_signal(Target::Process(id), info);
    }
    Ok(0)
}

/// `pidfd_getfd`: an open file of another process.
pub(crate) fn pidfd_getfd(call: &mut Call) -> Answer {
    let [number, wanted, flags, ..] = call.arguments;
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let id = call.process_behind(number)?;
    let process = call.kernel.processes.get(id).ok_or(Errno::ESRCH)?;
    let file = process.descriptors.descriptor(wanted)?.file;
    let new = Descriptor {
        file,
        close_on_exec: true,
    };
    let installed = call.install(0, new)?;
    if let Some(file) = call.kernel.open.files.get_mut(file) {
        file.references += 1;
    }
    Ok(u64::from(installed))
}

/// `process_mrelease`: what a process has that is about to end goes with it.
pub(crate) fn process_mrelease(call: &mut Call) -> Answer {
    let [number, flags, ..] = call.arguments;
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let id = call.process_behind(number)?;
    let process = call.kernel.processes.get(id).ok_or(Errno::ESRCH)?;
    let is_killed = (process.pending.iter()).any(|info| info.signal == SIGKILL);
    if process.ending.is_some() || is_killed {
        Ok(0)
    } else {
        Err(Errno::EINVAL.into())
    }
}
