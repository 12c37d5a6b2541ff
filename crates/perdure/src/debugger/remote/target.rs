//! A session as gdb's remote protocol has it (`gdbstub`'s traits).
//!
//! Always true here: nothing that a client asks for changes the run. What would, writing registers or memory,
//! is refused.

use std::num::NonZeroUsize;
use std::sync::Arc;

use gdbstub::common::{Pid, Signal, Tid};
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps,
    MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps,
    SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::exec_file::{ExecFile, ExecFileOps};
use gdbstub::target::ext::host_io::HostIoOps;
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps, outputln};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};

use super::registers::{self, All, Number, Riscv};
use crate::debugger::debuggee::Debuggee;
use crate::debugger::forward::Goal;
use crate::stepping::{Stops, Touch, WatchPoint};

/// The session, and what the client has asked for.
pub(super) struct Remote<'s> {
    pub session: &'s mut dyn Debuggee,
    /// Breakpoints that are patched in, as gdb has it, and those of hardware: the same here.
    pub software: Vec<u64>,
    hardware: Vec<u64>,
    watches: Vec<WatchPoint>,
    /// What the next resumption is.
    pub goal: Goal,
    pub backward: bool,
    /// The threads that it names, and whether no others are to go on.
    pub named: Vec<u32>,
    pub locked: bool,
    /// Open files of the guest.
    pub(super) files: Vec<Option<Arc<[u8]>>>,
    /// Whether the server is to end, for long commands.
    pub ends: &'s dyn Fn() -> bool,
}

impl<'s> Remote<'s> {
    /// For a client that has just come.
    pub fn new(session: &'s mut dyn Debuggee, ends: &'s dyn Fn() -> bool) -> Self {
        let mut remote = Self {
            session,
            software: Vec::new(),
            hardware: Vec::new(),
            watches: Vec::new(),
            goal: Goal::Stop,
            backward: false,
            named: Vec::new(),
            locked: false,
            files: Vec::new(),
            ends,
        };
        remote.renew();
        remote
    }

    fn renew(&mut self) {
        let mut breakpoints = [self.software.as_slice(), &self.hardware].concat();
        breakpoints.sort_unstable();
        breakpoints.dedup();
        let watches = self.watches.clone();
        self.session.stop_at(Stops {
            breakpoints,
            watches,
        });
    }

    fn place(&mut self, address: u64, hardware: bool) -> bool {
        if address & 1 == 1 {
            return false; // No instruction is there.
        }
        let set = if hardware {
            &mut self.hardware
        } else {
            &mut self.software
        };
        if !set.contains(&address) {
            set.push(address);
        }
        self.renew();
        true
    }

    fn take(&mut self, address: u64, hardware: bool) -> bool {
        let set = if hardware {
            &mut self.hardware
        } else {
            &mut self.software
        };
        let before = set.len();
        set.retain(|one| *one != address);
        let was_there = set.len() < before;
        self.renew();
        was_there
    }
}

/// A part of some bytes for a client that asks piece by piece.
pub(super) fn part(bytes: &[u8], offset: u64, length: usize, buffer: &mut [u8]) -> usize {
    let from = usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
    let length = length.min(bytes.len() - from).min(buffer.len());
    buffer[..length].copy_from_slice(&bytes[from..from + length]);
    length
}

fn number(tid: Tid) -> u32 {
    u32::try_from(tid.get()).unwrap_or(0)
}

fn refused<T>(what: &str) -> TargetResult<T, Remote<'static>> {
    eprintln!(
        "perdure: the debugger wants to write {what}: that would be another run, so nothing was changed"
    );
    Err(TargetError::NonFatal)
}

impl Target for Remote<'_> {
    type Arch = Riscv;
    type Error = std::io::Error;

    fn base_ops(&mut self) -> BaseOps<'_, Riscv, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        Some(self)
    }

    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Remote<'_> {
    fn read_registers(&mut self, registers: &mut All, tid: Tid) -> TargetResult<(), Self> {
        let found = self.session.registers(number(tid));
        *registers = registers::all(&found.ok_or(TargetError::NonFatal)?);
        Ok(())
    }

    fn write_registers(&mut self, _: &All, _: Tid) -> TargetResult<(), Self> {
        refused("registers")
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        match self.session.read(number(tid), start, data) {
            0 if !data.is_empty() => Err(TargetError::Errno(14)),
            length => Ok(length),
        }
    }

    fn write_addrs(&mut self, _: u64, _: &[u8], _: Tid) -> TargetResult<(), Self> {
        refused("memory")
    }

    fn list_active_threads(
        &mut self,
        thread_is_active: &mut dyn FnMut(Tid),
    ) -> Result<(), Self::Error> {
        // The one that stopped comes first: gdb takes that one where it does not know better.
        let current = self.session.thread();
        let mut all = self.session.threads();
        all.sort_by_key(|&thread| thread != current);
        for thread in all {
            if let Some(tid) = NonZeroUsize::new(thread as usize) {
                thread_is_active(tid);
            }
        }
        Ok(())
    }

    fn is_thread_alive(&mut self, tid: Tid) -> Result<bool, Self::Error> {
        Ok(self.session.has_thread(number(tid)))
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for Remote<'_> {
    fn read_register(
        &mut self,
        tid: Tid,
        Number(register): Number,
        buffer: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let found = self.session.registers(number(tid));
        let all = registers::all(&found.ok_or(TargetError::NonFatal)?);
        let value = all.0.get(register).ok_or(TargetError::NonFatal)?;
        let bytes = &value.to_le_bytes()[..registers::bytes_of(register)];
        Ok(part(bytes, 0, bytes.len(), buffer))
    }

    fn write_register(&mut self, _: Tid, _: Number, _: &[u8]) -> TargetResult<(), Self> {
        refused("a register")
    }
}

/// Signals that a client passes on are not the program's: it gets those of its own run and no others.
impl MultiThreadResume for Remote<'_> {
    fn resume(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        (self.goal, self.backward) = (Goal::Stop, false);
        (self.named, self.locked) = (Vec::new(), false);
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        tid: Tid,
        _: Option<Signal>,
    ) -> Result<(), Self::Error> {
        self.named.push(number(tid));
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Remote<'_> {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), Self::Error> {
        self.named.push(number(tid));
        self.goal = Goal::Step {
            thread: number(tid),
            range: None,
        };
        Ok(())
    }
}

impl MultiThreadRangeStepping for Remote<'_> {
    fn set_resume_action_range_step(
        &mut self,
        tid: Tid,
        start: u64,
        end: u64,
    ) -> Result<(), Self::Error> {
        self.named.push(number(tid));
        self.goal = Goal::Step {
            thread: number(tid),
            range: Some((start, end)),
        };
        Ok(())
    }
}

/// Which thread runs when is the machine's affair: the others go on, as they did. But a client that lets only
/// some go on is told of no stop of another: gdb would take it for what it waits for.
impl MultiThreadSchedulerLocking for Remote<'_> {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        self.locked = true;
        Ok(())
    }
}

impl ReverseStep<Tid> for Remote<'_> {
    fn reverse_step(&mut self, tid: Tid) -> Result<(), Self::Error> {
        self.goal = Goal::Step {
            thread: number(tid),
            range: None,
        };
        (self.backward, self.locked) = (true, false);
        Ok(())
    }
}

impl ReverseCont<Tid> for Remote<'_> {
    fn reverse_cont(&mut self) -> Result<(), Self::Error> {
        (self.goal, self.backward, self.locked) = (Goal::Stop, true, false);
        Ok(())
    }
}

impl Breakpoints for Remote<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Remote<'_> {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.place(address, false))
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.take(address, false))
    }
}

impl HwBreakpoint for Remote<'_> {
    fn add_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.place(address, true))
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.take(address, true))
    }
}

fn watch(start: u64, bytes: u64, kind: WatchKind) -> WatchPoint {
    let touch = match kind {
        WatchKind::Write => Touch::Write,
        WatchKind::Read => Touch::Read,
        WatchKind::ReadWrite => Touch::Either,
    };
    WatchPoint {
        start,
        bytes,
        touch,
    }
}

impl HwWatchpoint for Remote<'_> {
    fn add_hw_watchpoint(
        &mut self,
        address: u64,
        length: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        if length == 0 || address.checked_add(length).is_none() {
            return Ok(false);
        }
        self.watches.push(watch(address, length, kind));
        self.renew();
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        length: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let gone = watch(address, length, kind);
        let place = self.watches.iter().position(|one| *one == gone);
        if let Some(place) = place {
            self.watches.remove(place);
            self.renew();
        }
        Ok(place.is_some())
    }
}

impl TargetDescriptionXmlOverride for Remote<'_> {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        let xml = registers::description();
        Ok(part(xml.as_bytes(), offset, length, buffer))
    }
}

impl ThreadExtraInfo for Remote<'_> {
    fn thread_extra_info(&self, tid: Tid, buffer: &mut [u8]) -> Result<usize, Self::Error> {
        let about = self.session.about(number(tid));
        Ok(part(about.as_bytes(), 0, about.len(), buffer))
    }
}

impl ExecFile for Remote<'_> {
    fn get_exec_file(
        &self,
        _: Option<Pid>,
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let program = self.session.program();
        Ok(part(program.as_bytes(), offset, length, buffer))
    }
}

impl Auxv for Remote<'_> {
    fn get_auxv(&self, offset: u64, length: usize, buffer: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(part(&self.session.auxiliary(), offset, length, buffer))
    }
}

impl MonitorCmd for Remote<'_> {
    fn handle_monitor_cmd(
        &mut self,
        command: &[u8],
        mut out: ConsoleOutput<'_>,
    ) -> Result<(), Self::Error> {
        let line = String::from_utf8_lossy(command);
        let ends = self.ends;
        match self.session.command(line.trim(), &mut || ends()) {
            Ok(text) => outputln!(out, "{}", text.trim_end()),
            Err(error) => outputln!(out, "{error}"),
        }
        Ok(())
    }
}
