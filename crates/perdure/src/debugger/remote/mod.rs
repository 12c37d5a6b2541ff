//! A session over gdb's remote protocol: one client at a time, on a local socket.
//!
//! Always true here: a client that goes away, or that sends what is no packet, ends its connection and
//! nothing else; the session waits for the next one where it stands.

mod files;
mod registers;
mod target;
mod wire;

use std::io;
use std::num::NonZeroUsize;

use gdbstub::common::Signal;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStubBuilder, MultiThreadStopReason};
use gdbstub::target::ext::base::reverse_exec::ReplayLogPosition;
use gdbstub::target::ext::breakpoints::WatchKind;

use super::debuggee::Debuggee;
use super::forward::Stop;
use crate::error::Error;
use crate::stepping::Touch;
use target::Remote;
use wire::Wire;

pub(super) use wire::Socket;

/// The longest packet: large enough that a file is read in few of them.
const PACKET_BYTES: usize = 1 << 16;

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The client has gone; another one may come.
    Gone,
    /// It wants the session to end.
    Killed,
    /// The programs have ended, with this status.
    Ended(i32),
    /// The server is to end.
    Interrupted,
}

type Reason = MultiThreadStopReason<u64>;

/// Serves one client.
pub(super) fn serve(
    session: &mut dyn Debuggee,
    socket: Socket,
    ends: &dyn Fn() -> bool,
) -> Result<Left, Error> {
    let wire = Wire::new(socket).map_err(refused)?;
    let mut remote = Remote::new(session, ends);
    let stub = GdbStubBuilder::new(wire).packet_buffer_size(PACKET_BYTES);
    let Ok(stub) = stub.build() else {
        return Err(Error::Defect("a debugger's stub without a buffer".into()));
    };
    let Ok(mut state) = stub.run_state_machine(&mut remote) else {
        return Ok(Left::Gone);
    };
    let mut status = 0;
    loop {
        // What is wrong with a client's packets ends its connection.
        let next = match state {
            GdbStubStateMachine::Idle(mut idle) => {
                let wire = idle.borrow_conn();
                match wire.next() {
                    Some(byte) => idle.incoming_data(&mut remote, byte),
                    None if wire.closed => return Ok(Left::Gone),
                    None if ends() => return Ok(Left::Interrupted),
                    None => Ok(idle.into()),
                }
            }
            GdbStubStateMachine::Running(mut running) => {
                match go_on(&mut remote, running.borrow_conn(), ends)? {
                    Went::Stopped(stop) => {
                        if let Stop::Exited(code, _) = stop {
                            status = code;
                        }
                        let reason = reason(&remote, &stop);
                        running.report_stop(&mut remote, reason)
                    }
                    Went::Heard(byte) => running.incoming_data(&mut remote, byte),
                    Went::Left(left) => return Ok(left),
                    Went::Nowhere => Ok(running.into()),
                }
            }
            GdbStubStateMachine::CtrlCInterrupt(interrupt) => {
                let reason = with_thread(&remote, Signal::SIGINT);
                interrupt.interrupt_handled(&mut remote, Some(reason))
            }
            GdbStubStateMachine::Disconnected(mut gone) => {
                return Ok(match gone.get_reason() {
                    DisconnectReason::Kill => {
                        // gdb waits for the answer; one that is gone is none the worse without it.
                        let _ = gone.borrow_conn().send("OK");
                        Left::Killed
                    }
                    DisconnectReason::Disconnect => Left::Gone,
                    DisconnectReason::TargetExited(_) | DisconnectReason::TargetTerminated(_) => {
                        Left::Ended(status)
                    }
                });
            }
        };
        match next {
            Ok(next) => state = next,
            Err(_) => return Ok(Left::Gone),
        }
    }
}

/// What came of going on.
enum Went {
    /// It stopped.
    Stopped(Stop),
    /// The client has sent something meanwhile.
    Heard(u8),
    /// The connection is over.
    Left(Left),
    /// Nothing: go on.
    Nowhere,
}

/// Goes on as the client has asked, until something stops that or somebody has something to say.
fn go_on(remote: &mut Remote, wire: &mut Wire, ends: &dyn Fn() -> bool) -> Result<Went, Error> {
    let (goal, backward) = (remote.goal, remote.backward);
    let mut poll = || ends() || wire.has_news();
    remote
        .session
        .let_go(if remote.locked { &remote.named } else { &[] });
    let stop = remote.session.go_on(goal, backward, &mut poll)?;
    if stop != Stop::Interrupted {
        let passed = remote.session.passed();
        let mut told = passed.into_iter().chain(words(&stop));
        return Ok(match told.try_for_each(|words| wire.tell(&words)) {
            Ok(()) => Went::Stopped(stop),
            Err(_) => Went::Left(Left::Gone),
        });
    }
    if ends() {
        return Ok(Went::Left(Left::Interrupted));
    }
    Ok(match wire.next() {
        Some(byte) => Went::Heard(byte),
        None if wire.closed => Went::Left(Left::Gone),
        None => Went::Nowhere,
    })
}

/// The host does not let us.
pub(super) fn refused(source: io::Error) -> Error {
    Error::Host {
        what: "the debugger's socket".into(),
        source,
    }
}

/// What the client's user should read, beside the stop.
fn words(stop: &Stop) -> Option<String> {
    match stop {
        Stop::PowerFails => Some(
            "[perdure] the power fails next: going on leads through recovery into the next life"
                .into(),
        ),
        Stop::HistoryEnds(words) => Some(format!("[perdure] {words}")),
        Stop::HistoryBegins => Some("[perdure] nothing is before this: the machine boots".into()),
        _ => None,
    }
}

fn with_thread(remote: &Remote, signal: Signal) -> Reason {
    match NonZeroUsize::new(remote.session.thread() as usize) {
        Some(tid) => Reason::SignalWithThread { tid, signal },
        None => Reason::Signal(signal),
    }
}

fn reason(remote: &Remote, stop: &Stop) -> Reason {
    let tid = NonZeroUsize::new(remote.session.thread() as usize);
    match (stop, tid) {
        (Stop::Exited(_, Some(signal)), _) => Reason::Terminated(signal_of(*signal)),
        (Stop::Exited(status, None), _) => Reason::Exited(status.to_le_bytes()[0]),
        (Stop::Breakpoint, Some(tid)) => {
            let pc = remote.session.registers(remote.session.thread());
            if pc.is_some_and(|registers| remote.software.contains(&registers.pc)) {
                Reason::SwBreak(tid)
            } else {
                Reason::HwBreak(tid)
            }
        }
        (Stop::Watch { address, touch, .. }, Some(tid)) => Reason::Watch {
            tid,
            kind: match touch {
                Touch::Write => WatchKind::Write,
                Touch::Read => WatchKind::Read,
                Touch::Either => WatchKind::ReadWrite,
            },
            addr: *address,
        },
        (Stop::PowerFails, _) => with_thread(remote, Signal::SIGPWR),
        (Stop::Interrupted, _) => with_thread(remote, Signal::SIGINT),
        (Stop::HistoryBegins, tid) => Reason::ReplayLog {
            tid,
            pos: ReplayLogPosition::Begin,
        },
        (Stop::HistoryEnds(_), tid) => Reason::ReplayLog {
            tid,
            pos: ReplayLogPosition::End,
        },
        (Stop::Stepped | Stop::Breakpoint | Stop::Watch { .. }, _) => {
            with_thread(remote, Signal::SIGTRAP)
        }
    }
}

/// A signal of Linux by the protocol's number for it.
fn signal_of(linux: u8) -> Signal {
    match linux {
        1 => Signal::SIGHUP,
        2 => Signal::SIGINT,
        3 => Signal::SIGQUIT,
        4 => Signal::SIGILL,
        5 => Signal::SIGTRAP,
        6 => Signal::SIGABRT,
        7 => Signal::SIGBUS,
        8 => Signal::SIGFPE,
        9 => Signal::SIGKILL,
        10 => Signal::SIGUSR1,
        11 => Signal::SIGSEGV,
        12 => Signal::SIGUSR2,
        13 => Signal::SIGPIPE,
        14 => Signal::SIGALRM,
        15 => Signal::SIGTERM,
        24 => Signal::SIGXCPU,
        25 => Signal::SIGXFSZ,
        26 => Signal::SIGVTALRM,
        27 => Signal::SIGPROF,
        30 => Signal::SIGPWR,
        31 => Signal::SIGSYS,
        _ => Signal::UNKNOWN,
    }
}
