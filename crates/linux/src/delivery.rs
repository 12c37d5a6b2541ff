//! Delivering signals: the frame that a handler runs on, the way back, and the end that a signal is.
//!
//! Always true: the frame is Linux's riscv64 `rt_sigframe`, byte for byte.

use perdure_riscv::{Access, Hart};

use crate::address_space::TRAMPOLINE;
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, SpaceId, ThreadId};
use crate::outcome::{ExitReport, FatalSignal};
use crate::page_table::frame_of;
use crate::process::Ending;
use crate::signal::{
    self, AlternateStack, SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SA_RESTART, SIG_DFL, SIG_IGN,
    SIGBUS, SIGSEGV, SS_AUTODISARM, SS_DISABLE, SignalInfo, UNBLOCKABLE, bit, cause_of,
};
use crate::syscalls::{FUTEX, time_bytes};
use crate::thread::Interrupted;

/// The instruction that enters the kernel.
const ECALL: u32 = 0x73;
/// `waitid` and `wait4`.
const WAITID: u64 = 95;
const WAIT4: u64 = 260;

/// Where the parts of `struct rt_sigframe` lie.
mod frame {
    /// `siginfo_t info`.
    pub const INFO: usize = 0;
    /// `struct ucontext uc`.
    pub const CONTEXT: usize = 128;
    /// `uc.uc_stack`.
    pub const STACK: usize = CONTEXT + 16;
    /// `uc.uc_sigmask`.
    pub const MASK: usize = CONTEXT + 40;
    /// `uc.uc_mcontext.sc_regs`: pc, then x1 to x31.
    pub const REGISTERS: usize = CONTEXT + 176;
    /// `uc.uc_mcontext.sc_fpregs`: f0 to f31, then fcsr.
    pub const FLOAT: usize = REGISTERS + 256;
    /// `fcsr`.
    pub const FLOAT_CONTROL: usize = FLOAT + 256;
    /// The union of floating-point states is as wide as its quad-precision arm.
    pub const BYTES: usize = FLOAT + 528;
}

/// The size that `AT_MINSIGSTKSZ` announces.
pub(crate) const SIGNAL_FRAME_BYTES: u64 = frame::BYTES as u64;

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn take(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

impl Kernel {
    /// Makes a thread that is about to leave the kernel take its signals. The hart holds its
    /// registers.
    pub(crate) fn deliver_signals(
        &mut self,
        id: ThreadId,
        hart: &mut Hart,
        machine: &mut dyn Machine,
    ) {
        let process = self.process_of(id);
        let space = self.space_of(id);
        while self.exit.is_none()
            && self.processes[process].ending.is_none()
            && !self.is_stopped(process)
        {
            let Some(mask) = self.threads.get(&id).map(|thread| thread.mask) else {
                return;
            };
            let Some(info) = self.next_signal(id, !mask, machine) else {
                break;
            };
            if self.is_ignored(process, info.signal) {
                continue;
            }
            if self.is_fatal(process, info.signal) {
                let cause = cause_of(process, info);
                self.end_by_signal(info.signal, cause, id, hart.pc, None, None);
                return;
            }
            if self.stops(process, info.signal) {
                self.stop_process(process, info.signal);
                break;
            }
            let flags = self.action(process, info.signal).flags;
            self.settle_interrupted(id, hart, machine, space, flags);
            self.enter_handler(id, hart, machine, info);
        }
        // No handler ran: the call is made again as if nothing had happened.
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.interrupted = None;
        }
    }

    /// True if a signal waits for a thread that comes to a hart to make its call again, because something
    /// happened that it may have waited for. Like Linux, the call first sees what that was: it may be over
    /// by it, and else the signal interrupts it as it would have where it waited. (Who waits for a child
    /// takes the signal first.)
    pub(crate) fn makes_call_again(
        &self,
        id: ThreadId,
        hart: &Hart,
        machine: &mut dyn Machine,
    ) -> bool {
        let waits = self.threads.get(&id).is_some_and(|thread| {
            thread.interrupted.is_none()
                && thread.transferred == 0
                && !matches!(hart.x[17], FUTEX | WAITID | WAIT4)
        });
        waits
            && self.has_signal(id)
            && !self.rare.asynchronous.submissions.contains_key(&id)
            && self.is_at_call(machine, self.space_of(id), hart.pc)
    }

    /// True if the instruction at an address is `ecall`. Nobody's time passes.
    fn is_at_call(&self, machine: &mut dyn Machine, space: SpaceId, pc: u64) -> bool {
        let mut bytes = [0; 4];
        for (half, at) in bytes.chunks_mut(2).zip([pc, pc.wrapping_add(2)]) {
            let leaf = self.spaces.leaf(space, at / 4096);
            if leaf == 0 {
                return false;
            }
            machine.peek(frame_of(leaf) * 4096 + (at & 0xffe), half);
        }
        u32::from_le_bytes(bytes) == ECALL
    }

    /// Ends an interrupted call with EINTR, or leaves the pc at it to make it again.
    fn settle_interrupted(
        &mut self,
        id: ThreadId,
        hart: &mut Hart,
        machine: &mut dyn Machine,
        space: SpaceId,
        flags: u64,
    ) {
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        let interrupted = thread.interrupted.take();
        if interrupted.is_some() {
            self.rare.lock_waits.remove(&id);
            self.rare.system_v.waiting.remove(&id);
            self.rare.queues.receivers.remove(&id);
        }
        // Also between two steps of a call, where nobody waits.
        let mut transferred = std::mem::take(&mut thread.transferred);
        if self.cut_submission_short(id) {
            transferred += 1;
        }
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        if transferred != 0 {
            thread.retry_deadline_ns = None;
            hart.x[10] = transferred;
            hart.pc = hart.pc.wrapping_add(4);
            return;
        }
        let Some(interrupted) = interrupted else {
            return;
        };
        thread.retry_deadline_ns = None;
        if interrupted == Interrupted::MayRestart && flags & SA_RESTART != 0 {
            return;
        }
        let mut error = Errno::EINTR;
        if let Interrupted::Sleep {
            deadline_ns,
            remaining,
        } = interrupted
        {
            let left = deadline_ns.saturating_sub(machine.clock_ns());
            if let Err(bad) = self.copy_out(machine, space, remaining, &time_bytes(left)) {
                error = bad;
            }
        }
        hart.x[10] = (-i64::from(error.0)) as u64;
        hart.pc = hart.pc.wrapping_add(4);
    }

    /// Builds the frame and points the hart at the handler.
    fn enter_handler(
        &mut self,
        id: ThreadId,
        hart: &mut Hart,
        machine: &mut dyn Machine,
        info: SignalInfo,
    ) {
        let process = self.process_of(id);
        let space = self.space_of(id);
        let action = self.action(process, info.signal);
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        let stack = thread.alternate_stack;
        let mut top = hart.x[2];
        if action.flags & SA_ONSTACK != 0 && stack.flags & SS_DISABLE == 0 && !stack.holds(top) {
            top = stack.base.wrapping_add(stack.size);
        }
        let sp = top.wrapping_sub(frame::BYTES as u64) & !15;
        let old_mask = thread.saved_mask.take().unwrap_or(thread.mask);
        thread.mask |= action.mask;
        if action.flags & SA_NODEFER == 0 {
            thread.mask |= bit(info.signal);
        }
        thread.mask &= !UNBLOCKABLE;
        if action.flags & SA_RESETHAND != 0 {
            let actions = &mut self.processes[process].actions;
            if let Some(action) = actions.get_mut(&info.signal) {
                action.handler = SIG_DFL;
            }
        }
        let mut bytes = vec![0; frame::BYTES];
        bytes[frame::INFO..frame::CONTEXT].copy_from_slice(&info.to_bytes());
        bytes[frame::STACK..frame::STACK + 24].copy_from_slice(&stack.to_bytes(hart.x[2]));
        put(&mut bytes, frame::MASK, old_mask);
        put(&mut bytes, frame::REGISTERS, hart.pc);
        for register in 1..32 {
            put(
                &mut bytes,
                frame::REGISTERS + 8 * register,
                hart.x[register],
            );
        }
        for register in 0..32 {
            put(&mut bytes, frame::FLOAT + 8 * register, hart.f[register]);
        }
        put(&mut bytes, frame::FLOAT_CONTROL, u64::from(hart.fcsr));
        if self.copy_out(machine, space, sp, &bytes).is_err() {
            let cause = format!(
                "no room for the frame of a {} handler",
                signal::name(info.signal)
            );
            self.end_by_signal(SIGSEGV, cause, id, hart.pc, Some(sp), None);
            return;
        }
        if stack.flags & SS_AUTODISARM != 0
            && let Some(thread) = self.threads.get_mut(&id)
        {
            thread.alternate_stack = AlternateStack::default();
        }
        hart.pc = action.handler & !1;
        hart.x[1] = TRAMPOLINE;
        hart.x[2] = sp;
        hart.x[10] = u64::from(info.signal);
        hart.x[11] = sp + frame::INFO as u64;
        hart.x[12] = sp + frame::CONTEXT as u64;
    }

    /// `rt_sigreturn`: everything as the frame says.
    pub(crate) fn leave_handler(
        &mut self,
        id: ThreadId,
        hart: &mut Hart,
        machine: &mut dyn Machine,
    ) -> Result<(), Errno> {
        let mut bytes = vec![0; frame::BYTES];
        let space = self.space_of(id);
        self.copy_in(machine, space, hart.x[2], &mut bytes)?;
        hart.pc = take(&bytes, frame::REGISTERS) & !1;
        for register in 1..32 {
            hart.x[register] = take(&bytes, frame::REGISTERS + 8 * register);
        }
        for register in 0..32 {
            hart.f[register] = take(&bytes, frame::FLOAT + 8 * register);
        }
        hart.fcsr = take(&bytes, frame::FLOAT_CONTROL) as u32 & 0xff;
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.mask = take(&bytes, frame::MASK) & !UNBLOCKABLE;
            thread.interrupted = None;
            let stack = AlternateStack {
                base: take(&bytes, frame::STACK),
                size: take(&bytes, frame::STACK + 16),
                flags: take(&bytes, frame::STACK + 8) as u32,
            };
            // One that the handler ran on, or that cannot be, is not taken, and nobody is told.
            if let Ok(stack) = thread.alternate_stack.replaced_by(stack, hart.x[2]) {
                thread.alternate_stack = stack;
            }
        }
        Ok(())
    }

    /// A signal that the running instruction itself caused: its handler runs now, or the process
    /// ends. `cause` says in words what happened.
    pub(crate) fn force_signal(
        &mut self,
        id: ThreadId,
        hart: &mut Hart,
        machine: &mut dyn Machine,
        info: SignalInfo,
        cause: String,
    ) {
        let action = self.action(self.process_of(id), info.signal);
        let blocked = self
            .threads
            .get(&id)
            .is_some_and(|t| t.mask & bit(info.signal) != 0);
        if blocked || action.handler <= SIG_IGN {
            let address = matches!(info.signal, SIGSEGV | SIGBUS).then_some(info.words[0]);
            let bits = self.instruction_at(machine, self.space_of(id), hart.pc);
            self.end_by_signal(info.signal, cause, id, hart.pc, address, bits);
            return;
        }
        self.enter_handler(id, hart, machine, info);
    }

    /// The instruction word at an address, if it can be read without changing anything.
    fn instruction_at(&self, machine: &mut dyn Machine, space: SpaceId, pc: u64) -> Option<u32> {
        let mut half = |address: u64| {
            let leaf = self.spaces.leaf(space, address / 4096);
            if leaf == 0 {
                return None;
            }
            let mut raw = [0; 2];
            machine.read(frame_of(leaf) * 4096 + (address & 0xffe), &mut raw);
            Some(u32::from(u16::from_le_bytes(raw)))
        };
        let low = half(pc)?;
        if low & 3 != 3 {
            return Some(low);
        }
        Some(half(pc.wrapping_add(2))? << 16 | low)
    }

    /// Ends the process with status 128 + signal.
    pub(crate) fn end_by_signal(
        &mut self,
        signal: u8,
        cause: String,
        thread: ThreadId,
        pc: u64,
        address: Option<u64>,
        instruction_bits: Option<u32>,
    ) {
        let process = self.process_of(thread);
        let Some(dying) = self.processes.get(process) else {
            return;
        };
        // Only a program's own end is reported, and afterwards its memory is gone.
        let symbol = dying
            .leads_run
            .then(|| self.symbol(dying.space, pc))
            .flatten();
        let fatal = FatalSignal {
            signal,
            name: signal::name(signal),
            cause,
            thread,
            pc,
            address,
            instruction_bits,
            symbol,
        };
        let report = ExitReport {
            status: 128 + i32::from(signal),
            fatal: Some(fatal),
        };
        self.end_process(process, Ending::Killed(signal), report);
    }

    /// What a bad access is called in a report.
    pub(crate) fn describe_access(access: Access) -> &'static str {
        match access {
            Access::Fetch => "instruction fetch from",
            Access::Load => "load from",
            Access::Store => "store to",
        }
    }
}
