//! What is started again after a power cut, and how it has to end.
//!
//! Always true here: an end is judged by exit status and standard output alone.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::machine::Workload;
use crate::outside::Outside;
use crate::verify::Verdict;

/// How much of what a program has written is shown.
const SHOWN_LINES: usize = 8;
/// Of a stream.
pub const SHOWN_BYTES: usize = 2000;

/// What is started again.
#[derive(Clone)]
pub struct Restart {
    /// The programs; their pools are those that survived.
    pub workload: Workload,
    /// What the first program's standard output has to be, if that is judged.
    pub expected: Option<Expected>,
}

/// An output to expect.
#[derive(Clone)]
pub enum Expected {
    /// These bytes, of a file.
    File(Vec<u8>),
    /// This text, with a line's end behind it or without one.
    Text(String),
}

impl Expected {
    /// The content of a file, if there is one of that name; else the name itself.
    pub fn named(name: &str) -> Result<Self, Error> {
        let path = Path::new(name);
        if !path.is_file() {
            return Ok(Self::Text(name.to_owned()));
        }
        let read = fs::read(path).map_err(|source| Error::Host {
            what: format!("--expect {name}"),
            source,
        });
        read.map(Self::File)
    }

    /// As it was given.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::File(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }

    fn is(&self, output: &[u8]) -> bool {
        match self {
            Self::File(bytes) => bytes == output,
            Self::Text(text) => (output.strip_prefix(text.as_bytes()))
                .is_some_and(|rest| matches!(rest, b"" | b"\n")),
        }
    }

    /// What an output is not, in words.
    fn words(&self) -> String {
        match self {
            Self::File(bytes) => format!("the {} bytes of the file to expect", bytes.len()),
            Self::Text(text) => format!("'{}'", text.chars().take(60).collect::<String>()),
        }
    }
}

impl Restart {
    /// What is wrong with the end of a program that was started again, if anything is.
    pub fn wrong(&self, status: Option<i32>, outside: &Outside) -> Option<(Verdict, String)> {
        if status != Some(0) {
            let status = status.map_or("none".into(), |status| status.to_string());
            return Some((Verdict::RestartFailed, format!("exit status {status}")));
        }
        let expected = self.expected.as_ref()?;
        let wrong = !expected.is(&written(outside, 1));
        wrong.then(|| {
            let words = format!("its output is not {}", expected.words());
            (Verdict::OutputUnexpected, words)
        })
    }
}

/// All that the first program has written to a stream.
fn written(outside: &Outside, descriptor: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let copied = outside.copy_stream(0, descriptor, &mut bytes);
    copied.map(|()| bytes).unwrap_or_default()
}

/// The last lines of what the first program has written: standard output, then standard error.
pub fn last_lines(outside: &Outside) -> String {
    last_lines_of(&[written(outside, 1), written(outside, 2)].concat())
}

/// The last lines of a text.
pub fn last_lines_of(bytes: &[u8]) -> String {
    let bytes = &bytes[bytes.len().saturating_sub(SHOWN_BYTES)..];
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_met_with_or_without_a_line_end_and_a_file_to_the_byte() {
        let text = Expected::named("no such file, hence a text").expect("a text");
        assert!(text.is(b"no such file, hence a text\n") && text.is(b"no such file, hence a text"));
        assert!(!text.is(b"no such file, hence a text\n\n") && !text.is(b""));
        let file = Expected::File(b"one\n".to_vec());
        assert!(file.is(b"one\n") && !file.is(b"one"));
    }
}
