//! Pseudo-terminals: opening, reading and writing their ends, and what a controlling terminal
//! does to the processes of its session.

use super::terminal_control::take_control;
use super::transfer::{Pieces, scatter};
use super::{Answer, Call, Stop};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::process::{Process, ProcessId};
use crate::signal::{SIG_IGN, SIGCONT, SIGHUP, SignalInfo, Target, bit};
use crate::thread::Wait;
use crate::vfs::descriptor::{O_CLOEXEC, O_CREAT, O_EXCL, O_NOCTTY, O_TRUNC, Object, OpenFile};
use crate::vfs::inode::{Device, InodeId, Node};
use crate::vfs::path::Viewer;
use crate::vfs::terminal::{TERMINALS_MAX, Terminal};

const SIGTTIN: u8 = 21;
pub(crate) const SIGTTOU: u8 = 22;
const TENTH_NS: u64 = 100_000_000;

impl Kernel {
    /// Sends a signal to a process group.
    pub(crate) fn signal_group(&mut self, group: u32, signal: u8) {
        let all = self.processes.live.values();
        let members = all.filter(|process| process.group == group);
        let members: Vec<ProcessId> = members.map(|process| process.id).collect();
        for id in members {
            self.send_signal(Target::Process(id), SignalInfo::kernel(signal));
        }
    }

    /// The controlling terminal of a session.
    pub(crate) fn terminal_of_session(&self, session: u32) -> Option<(u32, &Terminal)> {
        let mut all = self.open.terminals.iter();
        all.find(|(_, terminal)| terminal.session == Some(session))
    }

    /// A process that led a session is gone: its terminal is nobody's, and the foreground is told.
    pub(crate) fn leave_terminal(&mut self, process: &Process) {
        if process.session != process.id.0 || self.open.terminals.is_empty() {
            return;
        }
        let found = self.terminal_of_session(process.session);
        let Some((id, foreground)) = found.map(|(id, terminal)| (id, terminal.foreground)) else {
            return;
        };
        if let Some(terminal) = self.open.terminals.get_mut(id) {
            (terminal.session, terminal.foreground) = (None, 0);
        }
        self.signal_group(foreground, SIGHUP);
    }

    /// The directory of the slaves' names.
    fn slave_directory(&mut self) -> Result<InodeId, Errno> {
        let viewer = Viewer::nobody(&self.processes, &self.open);
        let root = self.files.root;
        self.files.find(&self.host, viewer, root, "/dev/pts", true)
    }

    /// One open file less at an end of a terminal.
    pub(crate) fn close_terminal(&mut self, id: u32, inode: InodeId, master: bool) {
        if master {
            self.hang_up(id);
        }
        let mut gone = false;
        if let Some(terminal) = self.open.terminals.get_mut(id) {
            if !master {
                terminal.slaves = terminal.slaves.saturating_sub(1);
                terminal.left |= terminal.slaves == 0;
            }
            terminal.activity += 1;
            gone = !terminal.has_master && terminal.slaves == 0;
        }
        if gone {
            self.open.terminals.remove(id);
        }
        self.free_inode_if_unused(inode);
        self.wake_all_file_waiters();
    }

    /// The master is closed: the name goes, and the session's leader is told.
    fn hang_up(&mut self, id: u32) {
        let Some(terminal) = self.open.terminals.get_mut(id) else {
            return;
        };
        terminal.has_master = false;
        let (session, slave) = (terminal.session.take(), terminal.inode);
        if let Ok(directory) = self.slave_directory() {
            let named = self
                .files
                .directory(directory)
                .is_ok_and(|node| node.entries.get(&id.to_string()) == Some(&Some(slave)));
            if named {
                let left = self.files.leave(&self.host, directory, &id.to_string());
                debug_assert!(left.is_ok());
            }
        }
        self.free_inode_if_unused(slave);
        if let Some(session) = session {
            let leader = ProcessId(session);
            for signal in [SIGHUP, SIGCONT] {
                self.send_signal(Target::Process(leader), SignalInfo::kernel(signal));
            }
        }
    }

    /// Terminals have the ends that are open.
    pub(crate) fn validate_terminals(&self) -> Result<(), &'static str> {
        let ends = |id: u32, master: bool| {
            let files = self.open.files.iter();
            let own = files.filter(|(_, file)| {
                matches!(file.object, Object::Terminal { terminal, master: m, .. }
                    if terminal == id && m == master)
            });
            own.count() as u64
        };
        for (id, terminal) in self.open.terminals.iter() {
            let masters = u64::from(terminal.has_master);
            if !terminal.is_valid()
                || ends(id, true) != masters
                || ends(id, false) != u64::from(terminal.slaves)
                || terminal.has_master && self.files.inode(terminal.inode).is_err()
            {
                return Err("a terminal is impossible");
            }
        }
        let known = |file: &OpenFile| match file.object {
            Object::Terminal { terminal, .. } => self.open.terminals.get(terminal).is_some(),
            _ => true,
        };
        if self.open.files.iter().all(|(_, file)| known(file)) {
            Ok(())
        } else {
            Err("an open terminal does not exist")
        }
    }
}

fn opened(call: &mut Call, object: Object, flags: u32, path: String) -> Result<u32, Errno> {
    let kept = flags & !(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC | O_NOCTTY);
    let file = OpenFile::new(object, kept, path);
    call.open(file, flags & O_CLOEXEC != 0)
}

/// Opens `/dev/ptmx`: a new pair of ends.
pub(crate) fn open_master(call: &mut Call, inode: InodeId, flags: u32) -> Answer {
    let kernel = &mut *call.kernel;
    let directory = kernel.slave_directory()?;
    if kernel.open.terminals.iter().count() >= TERMINALS_MAX {
        return Err(Errno::ENOSPC.into());
    }
    let id = kernel.open.terminals.insert(Terminal {
        locked: true,
        has_master: true,
        ..Terminal::default()
    });
    let object = Object::Terminal {
        terminal: id,
        inode,
        master: true,
    };
    let number = match opened(call, object, flags, "/dev/ptmx".to_owned()) {
        Ok(number) => number,
        Err(error) => {
            call.kernel.open.terminals.remove(id);
            return Err(error.into());
        }
    };
    let now = call.now_ns();
    let node = Node::Device(Device::Slave(id));
    let files = &mut call.kernel.files;
    let slave = files.create(node, 0o620, now);
    files.enter(directory, &id.to_string(), slave)?;
    if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
        terminal.inode = slave;
    }
    Ok(u64::from(number))
}

/// Opens the slave end of a terminal, which may become the controlling one.
pub(crate) fn open_slave(call: &mut Call, id: u32, flags: u32) -> Answer {
    let terminal = call.kernel.open.terminals.get(id);
    let terminal = terminal.filter(|terminal| terminal.has_master && !terminal.locked);
    let inode = terminal.ok_or(Errno::EIO)?.inode;
    let object = Object::Terminal {
        terminal: id,
        inode,
        master: false,
    };
    let number = opened(call, object, flags, format!("/dev/pts/{id}"))?;
    if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
        terminal.slaves += 1;
        terminal.left = false;
        terminal.activity += 1;
    }
    if flags & O_NOCTTY == 0 {
        // Whether it does is nobody's error.
        let _ = take_control(call, id);
    }
    call.kernel.wake_all_file_waiters();
    Ok(u64::from(number))
}

/// Opens `/dev/tty`.
pub(crate) fn open_controlling(call: &mut Call, flags: u32) -> Answer {
    let found = call.kernel.terminal_of_session(call.process().session);
    let (id, _) = found.ok_or(Errno::ENXIO)?;
    open_slave(call, id, flags | O_NOCTTY)
}

/// Keeps a process in the background from using its controlling terminal: it gets a signal, and the
/// call is made again after it.
pub(crate) fn check_foreground(call: &mut Call, id: u32, signal: u8) -> Result<(), Stop> {
    let process = call.process();
    let (group, session) = (process.group, process.session);
    let Some(terminal) = call.kernel.open.terminals.get(id) else {
        return Err(Errno::EIO.into());
    };
    if terminal.session != Some(session) || terminal.foreground == group {
        return Ok(());
    }
    let mask = call.kernel.threads.get(&call.thread).map_or(0, |t| t.mask);
    let ignored = call.kernel.action(call.process, signal).handler == SIG_IGN;
    if ignored || mask & bit(signal) != 0 {
        // Output goes on.
        let refused = Err(Errno::EIO.into());
        return if signal == SIGTTIN { refused } else { Ok(()) };
    }
    if call.kernel.is_orphaned_group(group, None) {
        return Err(Errno::EIO.into());
    }
    call.kernel.signal_group(group, signal);
    Err(Stop::for_files())
}

/// Reading from an end of a terminal.
pub(crate) fn read(
    call: &mut Call,
    (id, master): (u32, bool),
    pieces: &Pieces,
    wanted: u64,
    nonblocking: bool,
) -> Answer {
    if wanted == 0 {
        return Ok(0);
    }
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    if master {
        return read_master(call, id, pieces, wanted, nonblocking);
    }
    if !call
        .kernel
        .open
        .terminals
        .get(id)
        .is_some_and(|t| t.has_master)
    {
        return Ok(0);
    }
    check_foreground(call, id, SIGTTIN)?;
    let terminal = call.kernel.open.terminals.get(id).ok_or(Errno::EIO)?;
    let (least, tenths) = terminal.least_and_time();
    let ready = if terminal.is_canonical() {
        terminal.has_input()
    } else {
        terminal.input.len() >= least.min(wanted) && (least > 0 || !terminal.input.is_empty())
    };
    if !ready {
        let timed =
            !terminal.is_canonical() && (least == 0 || tenths > 0 && !terminal.input.is_empty());
        let timeout = timed.then_some(tenths * TENTH_NS);
        if nonblocking {
            return Err(Errno::EAGAIN.into());
        }
        if !(timed && call.timed_out(timeout)) {
            return Err(call.wait_until_retry(Wait::Files, timeout));
        }
    }
    let terminal = call.kernel.open.terminals.get(id).ok_or(Errno::EIO)?;
    let count = terminal.readable_bytes(wanted);
    let bytes: Vec<u8> = terminal.input.iter().take(count).copied().collect();
    scatter(call, pieces, &bytes)?;
    if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
        terminal.consume(count);
    }
    call.kernel.wake_all_file_waiters();
    Ok(count as u64)
}

fn read_master(
    call: &mut Call,
    id: u32,
    pieces: &Pieces,
    wanted: usize,
    nonblocking: bool,
) -> Answer {
    let terminal = call.kernel.open.terminals.get(id).ok_or(Errno::EIO)?;
    if terminal.output.is_empty() {
        return Err(match (terminal.left, nonblocking) {
            (true, _) => Errno::EIO.into(),
            (_, true) => Errno::EAGAIN.into(),
            (_, false) => Stop::for_files(),
        });
    }
    let head = usize::from(terminal.packets);
    let count = terminal.output.len().min(wanted - head);
    // In packet mode, a zero says that data follow.
    let zero = std::iter::repeat_n(0, head);
    let bytes: Vec<u8> = zero
        .chain(terminal.output.iter().take(count).copied())
        .collect();
    scatter(call, pieces, &bytes)?;
    if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
        terminal.output.drain(..count);
        terminal.activity += 1;
    }
    call.kernel.wake_all_file_waiters();
    Ok(bytes.len() as u64)
}

/// Writing to an end of a terminal.
pub(crate) fn write(
    call: &mut Call,
    (id, master): (u32, bool),
    bytes: &[u8],
    nonblocking: bool,
) -> Answer {
    let thread = call.kernel.threads.get(&call.thread);
    let done = thread.map_or(0, |thread| thread.transferred) as usize;
    let rest = bytes.get(done..).unwrap_or_default();
    let terminal = call.kernel.open.terminals.get(id).ok_or(Errno::EIO)?;
    if !master {
        if !terminal.has_master {
            return Err(Errno::EIO.into());
        }
        if terminal.stops_background_output() {
            check_foreground(call, id, SIGTTOU)?;
        }
    }
    let mut count = 0;
    let mut signals = Vec::new();
    let mut news = [false; 2];
    if let Some(terminal) = call.kernel.open.terminals.get_mut(id) {
        let before = terminal.arrived();
        for &byte in rest {
            if master && terminal.input_room() > 0 {
                let signal = terminal.receive(byte);
                signals.extend(signal.map(|signal| (terminal.foreground, signal)));
            } else if !master && terminal.output_room() > 0 {
                terminal.put(byte);
            } else {
                break;
            }
            count += 1;
        }
        let after = terminal.arrived();
        news = [after[0] > before[0], after[1] > before[1]];
    }
    for (foreground, signal) in signals {
        if foreground != 0 {
            call.kernel.signal_group(foreground, signal);
        }
    }
    if count > 0 {
        call.kernel.wake_all_file_waiters();
        call.kernel.tell_owners(|file| match file.object {
            Object::Terminal {
                terminal, master, ..
            } => terminal == id && news[usize::from(master)],
            _ => false,
        });
    }
    let done = done + count;
    if done == bytes.len() {
        return Ok(done as u64);
    }
    if nonblocking {
        let short = Ok(done as u64);
        return if done > 0 {
            short
        } else {
            Err(Errno::EAGAIN.into())
        };
    }
    if let Some(thread) = call.kernel.threads.get_mut(&call.thread) {
        thread.transferred = done as u64;
    }
    Err(Stop::for_files())
}
