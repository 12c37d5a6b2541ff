//! Panics that are somebody's answer, in words.
//!
//! Always true here: a panic that is caught is not printed, and any other one is, as before.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

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
            } else {
                before(panicked);
            }
        }));
    });
    let outer = CATCHES.replace(true);
    let answered = panic::catch_unwind(AssertUnwindSafe(call));
    CATCHES.set(outer);
    answered.map_err(|_| SAID.take().split_whitespace().collect::<Vec<_>>().join(" "))
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
