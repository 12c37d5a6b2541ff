//! Open files on their way from one process to another (`SCM_RIGHTS`).
//!
//! Always true: a file in a message has one reference for it. Files that only messages hold which
//! nobody can ever receive, because they wait in such files themselves, are let go.

use std::collections::BTreeSet;

use super::State;
use crate::kernel::Kernel;
use crate::vfs::descriptor::Object;

impl Kernel {
    /// The open files that no descriptor can ever lead to: their messages' files are taken out, for
    /// the caller to close.
    pub(crate) fn unreachable_flights(&mut self) -> Vec<u32> {
        let mut in_flight = vec![0_u32; self.open.files.entries.len()];
        for file in self.rare.sockets.files_in_flight() {
            if let Some(count) = in_flight.get_mut(file as usize) {
                *count += 1;
            }
        }
        if in_flight.iter().all(|&count| count == 0) {
            return Vec::new();
        }
        let all = self.open.files.iter();
        let mut waiting: Vec<u32> = all
            .filter(|(index, file)| file.references > in_flight[*index as usize])
            .map(|(index, _)| index)
            .collect();
        let mut reached: BTreeSet<u32> = waiting.iter().copied().collect();
        while let Some(index) = waiting.pop() {
            for socket in self.sockets_behind(index) {
                let messages = self.rare.sockets.get(socket).into_iter();
                let messages = messages.flat_map(|socket| &socket.queue);
                for &file in messages.flat_map(|message| &message.files) {
                    if reached.insert(file) {
                        waiting.push(file);
                    }
                }
            }
        }
        let lost: Vec<u32> = (self.open.files.iter())
            .map(|(index, _)| index)
            .filter(|index| !reached.contains(index))
            .collect();
        let mut taken = Vec::new();
        let behind = lost.iter().flat_map(|&index| self.sockets_behind(index));
        let behind: Vec<u32> = behind.collect();
        for socket in behind {
            let socket = self.rare.sockets.get_mut(socket).into_iter();
            let messages = socket.flat_map(|socket| &mut socket.queue);
            for message in messages {
                taken.append(&mut message.files);
            }
        }
        taken
    }

    /// The sockets whose messages an open file's holder can receive: its own, and those that wait to
    /// be accepted.
    fn sockets_behind(&self, file: u32) -> Vec<u32> {
        let Some(Object::Socket(id)) = self.open.files.get(file).map(|file| &file.object) else {
            return Vec::new();
        };
        let mut found = vec![*id];
        if let Ok(socket) = self.rare.sockets.get(*id)
            && let State::Listening { pending, .. } = &socket.state
        {
            found.extend(pending);
        }
        found
    }
}
