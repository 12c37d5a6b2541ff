//! What the remote protocol asks of a session, whatever its design.

use std::sync::Arc;

use super::forward::{Goal, Stop};
use super::session::{Poll, Session};
use super::view::{self, Registers};
use crate::error::Error;
use crate::stepping::Stops;

/// A session, seen from outside.
pub(super) trait Debuggee {
    /// All threads.
    fn threads(&self) -> Vec<u32>;
    /// Whether there is such a thread.
    fn has_thread(&self, thread: u32) -> bool;
    /// The one that stopped last.
    fn thread(&self) -> u32;
    /// A thread's registers.
    fn registers(&self, thread: u32) -> Option<Registers>;
    /// Reads memory as a thread sees it; how many bytes are there.
    fn read(&self, thread: u32, address: u64, bytes: &mut [u8]) -> usize;
    /// Where to stop from now on.
    fn stop_at(&mut self, stops: Stops);
    /// Which threads may go on from now on, where these are not all: the others are not stopped for.
    fn let_go(&mut self, only: &[u32]);
    /// Goes forward, or backward.
    fn go_on(&mut self, goal: Goal, backward: bool, poll: Poll) -> Result<Stop, Error>;
    /// What the user should know of a breakpoint that was passed on the way, once.
    fn passed(&mut self) -> Option<String>;
    /// Carries out a command of the monitor.
    fn command(&mut self, line: &str, poll: Poll) -> Result<String, Error>;
    /// The guest path of the program that is debugged.
    fn program(&self) -> String;
    /// The auxiliary vector of a process that runs it.
    fn auxiliary(&self) -> Vec<u8>;
    /// A file of the guest's that the host provides.
    fn file(&self, path: &str) -> Option<Arc<[u8]>>;
    /// What else is to be said of a thread.
    fn about(&self, thread: u32) -> String;
}

impl Debuggee for Session {
    fn threads(&self) -> Vec<u32> {
        let threads = view::threads(self.machine()).into_iter();
        threads.map(|(thread, _)| thread).collect()
    }

    fn has_thread(&self, thread: u32) -> bool {
        view::pc_of(self.machine(), thread).is_some()
    }

    fn thread(&self) -> u32 {
        self.thread
    }

    fn registers(&self, thread: u32) -> Option<Registers> {
        view::registers(self.machine(), thread)
    }

    fn read(&self, thread: u32, address: u64, bytes: &mut [u8]) -> usize {
        let own = view::space_of(self.machine(), thread);
        let space = own.or_else(|| view::space_of(self.machine(), self.thread));
        space.map_or(0, |space| view::read(self.machine(), space, address, bytes))
    }

    fn stop_at(&mut self, stops: Stops) {
        self.stops = Arc::new(stops);
    }

    fn let_go(&mut self, only: &[u32]) {
        self.only = only.to_vec();
    }

    fn go_on(&mut self, goal: Goal, backward: bool, poll: Poll) -> Result<Stop, Error> {
        if backward {
            self.retreat(goal, poll)
        } else {
            self.advance(goal, poll)
        }
    }

    fn passed(&mut self) -> Option<String> {
        self.passed.take()
    }

    fn command(&mut self, line: &str, poll: Poll) -> Result<String, Error> {
        self.monitor(line, poll)
    }

    fn program(&self) -> String {
        self.program.clone()
    }

    fn auxiliary(&self) -> Vec<u8> {
        let processes = self.machine().kernel().live_processes();
        let own = processes.iter().find(|process| {
            let mut threads = process.threads.iter();
            threads.any(|thread| thread.id == self.thread)
        });
        let any = own.or_else(|| processes.first());
        any.map(|process| process.auxiliary.clone())
            .unwrap_or_default()
    }

    fn file(&self, path: &str) -> Option<Arc<[u8]>> {
        let kernel = self.machine().kernel();
        let space = view::space_of(self.machine(), self.thread);
        let loaded = space.map(|space| kernel.loaded_files(space));
        let mut loaded = loaded.unwrap_or_default().into_iter();
        let own = loaded.find(|file| file.name == path);
        own.map(|file| file.contents)
            .or_else(|| kernel.provided_file(path))
    }

    fn about(&self, thread: u32) -> String {
        let kernel = self.machine().kernel();
        let state = kernel.thread_state(thread).unwrap_or_default();
        let program = kernel.executable_of_thread(thread).unwrap_or_default();
        let name = program.rsplit('/').next().unwrap_or_default();
        let epoch = self.machine().executing_epoch();
        if epoch == 0 {
            return format!("{name}, {state}");
        }
        format!("{name}, {state}, epoch {epoch}")
    }
}
