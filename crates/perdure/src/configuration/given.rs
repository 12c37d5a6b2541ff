//! What somebody gives as a configuration, on its way in: a machine file's text, and what of it a refusal
//! shows.
//!
//! Always true here: no file is read without a bound, and a refusal is not endless, whatever was given.

use std::io::ErrorKind;
use std::path::Path;

use toml::Value;

use crate::error::Error;
use crate::given_files;

/// Of a text in a refusal.
const SHOWN_CHARACTERS: usize = 200;

/// A text as a refusal shows it: not endless.
pub fn shown(text: &str) -> String {
    let count = text.chars().count();
    if count <= SHOWN_CHARACTERS {
        return text.to_owned();
    }
    let half = SHOWN_CHARACTERS / 2;
    let begin: String = text.chars().take(half).collect();
    let end: String = text.chars().skip(count - half).collect();
    format!("{begin}…{end} ({count} characters)")
}

/// The text of a machine file; the presets have a twentieth of what it may have.
pub fn read(machine: &str) -> Result<String, Error> {
    let what = format!("machine file {}", shown(machine));
    let bytes = given_files::text(Path::new(machine)).map_err(|source| match source.kind() {
        ErrorKind::FileTooLarge => Error::Configuration(format!("{what}: {source}")),
        _ => Error::Host {
            what: what.clone(),
            source,
        },
    })?;
    String::from_utf8(bytes)
        .map_err(|_| Error::Configuration(format!("{what}: it is not UTF-8 text")))
}

/// A machine file that is no TOML.
pub fn no_toml(source: &str, error: &toml::de::Error, text: &str) -> Error {
    let lines = text
        .lines()
        .any(|line| line.chars().count() > SHOWN_CHARACTERS);
    let said = match error.span() {
        Some(span) if lines => {
            let before = text.get(..span.start).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|&one| one != '\n').count() + 1;
            let message = shown(error.message());
            format!("TOML parse error at line {line}, column {column}: {message}")
        }
        _ => error.to_string(),
    };
    Error::Configuration(format!("machine file {}: {said}", shown(source)))
}

/// A value that its key cannot have, in one line that ends with the key.
pub fn no_value(error: &toml::de::Error) -> String {
    let words: Vec<_> = error.to_string().split_whitespace().map(shown).collect();
    words.join(" ")
}

/// A refusal of a value in the words in which an option gave it.
pub fn in_words(refusal: Error, value: &Value, given: &str) -> Error {
    match refusal {
        Error::Configuration(message) if value.is_float() => {
            let (was, is) = (format!(" = {value} "), format!(" = {given} "));
            Error::Configuration(message.replacen(&was, &is, 1))
        }
        other => other,
    }
}
