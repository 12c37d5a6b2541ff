//! Bytes as text: two digits for each.

use std::fmt::Write;

/// The digits.
pub fn of(bytes: &[u8]) -> String {
    let empty = String::with_capacity(2 * bytes.len());
    bytes.iter().fold(empty, |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
