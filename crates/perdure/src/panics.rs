//! Panics that are somebody's answer, in words.
//!
//! Always true here: a panic that is caught is printed only where its call stack is asked for
//! (`RUST_BACKTRACE`), and any other one is, as before.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use perdure_hardware::time::Cycles;

use crate::error::Error;

thread_local! {
    static CATCHES: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What is called answers, or with what words and where it panicked, in one line.
pub fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            if CATCHES.get() {
                SAID.set(panicked.to_string());
            }
            if !CATCHES.get() || Backtrace::capture().status() == BacktraceStatus::Captured {
                before(panicked);
            }
        }));
    });
    let outer = CATCHES.replace(true);
    let answered = panic::catch_unwind(AssertUnwindSafe(call));
    CATCHES.set(outer);
    answered.map_err(|_| SAID.take().split_whitespace().collect::<Vec<_>>().join(" "))
}

/// What is called, perhaps at a cut, answers, may fail, and has failed if it panics.
pub fn told<T>(at: Option<Cycles>, call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    caught(call).unwrap_or_else(|said| Err(Error::Panicked { said, at }))
}

/// Whether a message is, or ends with, what a panic said.
pub fn is_of_one(message: &str) -> bool {
    message.contains(": it panicked at ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_place() {
        assert_eq!(caught(|| 7), Ok(7));
        let said = caught(|| -> () { panic!("half a\nlog") }).unwrap_err();
        assert!(
            said.starts_with("panicked at crates/perdure/src/panics.rs:"),
            "{said}"
        );
        assert!(said.ends_with(": half a log"), "{said}");
    }
}
