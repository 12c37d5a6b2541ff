//! What debugged programs write: on this process's standard streams, once.
//!
//! Always true here: a byte of a stream is printed when the machine first releases it, and not again when
//! the same stretch of time is run another time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use perdure_linux::Release;

use crate::delivery::write_and_flush;
use crate::outside::Forward;

/// How much of each stream has been printed, by program and descriptor.
#[derive(Clone)]
pub(super) struct Printer {
    printed: Arc<Mutex<BTreeMap<(u32, u8), u64>>>,
    /// Somebody wants to read it.
    speaks: bool,
}

impl Printer {
    /// One that has printed nothing yet, and does if it `speaks`.
    pub fn new(speaks: bool) -> Self {
        Self {
            printed: Arc::default(),
            speaks,
        }
    }

    /// One for programs that begin anew.
    pub fn anew(&self) -> Self {
        Self::new(self.speaks)
    }

    /// Itself, as the outside calls it.
    pub fn receiver(&self) -> Forward {
        let printer = self.clone();
        Arc::new(move |release| printer.take(release))
    }

    fn take(&self, release: &Release) {
        let Release::Stream {
            program,
            descriptor,
            offset,
            bytes,
        } = release
        else {
            return;
        };
        let new = self.new_part(*program, *descriptor, *offset, bytes);
        if new.is_empty() || !self.speaks {
            return;
        }
        // A reader that went away ends nothing.
        let _ = match *descriptor {
            2 => write_and_flush(std::io::stderr().lock(), new),
            _ => write_and_flush(std::io::stdout().lock(), new),
        };
    }

    fn new_part<'b>(&self, program: u32, descriptor: u8, offset: u64, bytes: &'b [u8]) -> &'b [u8] {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = printed.entry((program, descriptor)).or_default();
        let old = known.saturating_sub(offset).min(bytes.len() as u64);
        *known = (*known).max(offset + bytes.len() as u64);
        &bytes[old as usize..]
    }
}

#[cfg(test)]
mod tests {
    use super::Printer;

    #[test]
    fn what_was_printed_is_not_printed_again() {
        let printer = Printer::new(false);
        assert_eq!(printer.new_part(0, 1, 0, b"abc"), b"abc");
        assert_eq!(printer.new_part(0, 1, 0, b"abc"), b"");
        assert_eq!(printer.new_part(0, 1, 2, b"cde"), b"de");
        assert_eq!(printer.new_part(0, 2, 0, b"abc"), b"abc");
    }
}
