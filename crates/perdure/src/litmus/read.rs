//! Litmus files: TOML in, a [`Test`] out, or what is wrong with it, by line and column.
//!
//! ```toml
//! name = "two stores and a flush"
//! model = "px86"
//! same_line = [["x", "x2"]]   # may be left out: every other location has a line of its own
//! threads = [["store x 1", "clflush x", "store y 1"], ["load a y", "beqz a 1", "store z 1"]]
//! allowed = ["x=0 y=0 z=0"]   # may be left out: what a cut may leave
//! ```
//!
//! Always true here: a test that is read keeps what `program` promises.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::model::Model;
use super::models::MODELS;
use super::program::{Action, Contents, INSTRUCTIONS, Instruction, THREADS, Test};
use super::words::{Names, Vocabulary, Wrong, split, unknown, value};

/// A file as it stands there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    model: Spanned<String>,
    #[serde(default)]
    same_line: Vec<Vec<Spanned<String>>>,
    threads: Spanned<Vec<Spanned<Vec<Spanned<String>>>>>,
    #[serde(default)]
    allowed: Option<Spanned<Vec<Spanned<String>>>>,
}

/// Reads a test that may be no text at all. What is wrong comes as `LINE:COLUMN: message`.
pub fn read_bytes(bytes: &[u8]) -> Result<Test, String> {
    match str::from_utf8(bytes) {
        Ok(text) => read(text),
        Err(error) => {
            let at = error.valid_up_to();
            let text = String::from_utf8_lossy(bytes);
            let message = format!("the byte {:#04x} is no UTF-8", bytes[at]);
            Err(placed(&text, (at, message)))
        }
    }
}

/// Reads a test. What is wrong comes as `LINE:COLUMN: message`.
pub fn read(text: &str) -> Result<Test, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        placed(text, (at, error.message().replace('\n', ", ")))
    })?;
    test(text, &file).map_err(|wrong| placed(text, wrong))
}

/// What is wrong, behind its line and column.
fn placed(text: &str, (at, message): Wrong) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("{line}:{column}: {message}")
}

/// Where a byte of a string stands in the file: behind the quote, unless something is escaped.
fn inside(text: &str, word: &Spanned<String>, at: usize) -> usize {
    let Range { start, end } = word.span();
    let is_plain = text[start..end].len() == word.get_ref().len() + 2;
    if is_plain { start + 1 + at } else { start }
}

fn test(text: &str, file: &File) -> Result<Test, Wrong> {
    let model = model(&file.model)?;
    let mut locations = Names::default();
    let threads = threads(text, file, model, &mut locations)?;
    let lines = lines(&file.same_line, &locations)?;
    let locations = locations.known;
    let allowed = match &file.allowed {
        None => None,
        Some(listed) => {
            let mut allowed = BTreeSet::new();
            for one in listed.get_ref() {
                let found = contents(one.get_ref(), &locations)
                    .map_err(|(at, message)| (inside(text, one, at), message))?;
                if !allowed.insert(found) {
                    return Err((one.span().start, "this is allowed already".to_owned()));
                }
            }
            Some(allowed)
        }
    };
    Ok(Test {
        name: file.name.clone(),
        model,
        locations,
        lines,
        threads,
        allowed,
    })
}

fn model(name: &Spanned<String>) -> Result<&'static Model, Wrong> {
    let word = name.get_ref();
    MODELS
        .iter()
        .find(|model| model.name == word)
        .ok_or_else(|| {
            let message = unknown("model", word, &mut MODELS.iter().map(|model| model.name));
            (name.span().start, message)
        })
}

fn threads(
    text: &str,
    file: &File,
    model: &Model,
    locations: &mut Names,
) -> Result<Vec<Vec<Instruction>>, Wrong> {
    let count = file.threads.get_ref().len();
    if !(1..=THREADS).contains(&count) {
        let message = format!("{count} threads: a test has 1 to {THREADS}");
        return Err((file.threads.span().start, message));
    }
    let mut threads = Vec::new();
    for words in file.threads.get_ref() {
        let count = words.get_ref().len();
        if count > INSTRUCTIONS {
            let message = format!("{count} instructions: a thread has at most {INSTRUCTIONS}");
            return Err((words.span().start, message));
        }
        let mut registers = Names::default();
        let mut thread = Vec::new();
        for word in words.get_ref() {
            let mut vocabulary = Vocabulary {
                model: model.name,
                kinds: model.kinds,
                locations,
                registers: &mut registers,
            };
            let instruction = vocabulary.instruction(word.get_ref());
            thread.push(instruction.map_err(|(at, message)| (inside(text, word, at), message))?);
        }
        check(&thread, &registers)
            .map_err(|(at, message)| (words.get_ref()[at].span().start, message))?;
        threads.push(thread);
    }
    Ok(threads)
}

/// Jumps stay inside, and what is read was written on every way there.
fn check(thread: &[Instruction], registers: &Names) -> Result<(), Wrong> {
    let mut written: Vec<Option<u32>> = vec![None; thread.len() + 1];
    written[0] = Some(0);
    let meet = |place: &mut Option<u32>, set: u32| *place = Some(place.unwrap_or(!0) & set);
    for (at, instruction) in thread.iter().enumerate() {
        let Some(mut set) = written[at] else { continue };
        if let Some(register) = instruction.read()
            && set & 1 << register == 0
        {
            let name = &registers.known[register];
            return Err((at, format!("register {name} is used before it is written")));
        }
        if let Some(register) = instruction.written() {
            set |= 1 << register;
        }
        if let Action::Branch { skips, .. } = instruction.action {
            let left = thread.len() - at - 1;
            if skips > left {
                let message = format!("jumps out of the thread: it has {left} instructions more");
                return Err((at, message));
            }
            meet(&mut written[at + 1 + skips], set);
        }
        meet(&mut written[at + 1], set);
    }
    Ok(())
}

/// The line of each location.
fn lines(groups: &[Vec<Spanned<String>>], locations: &Names) -> Result<Vec<usize>, Wrong> {
    let mut lines: Vec<Option<usize>> = vec![None; locations.known.len()];
    for (line, group) in groups.iter().enumerate() {
        for name in group {
            let word = name.get_ref();
            // A line may have places that no thread touches.
            let Some(location) = locations.known.iter().position(|known| known == word) else {
                continue;
            };
            if lines[location].replace(line).is_some() {
                return Err((name.span().start, format!("'{word}' is in a line already")));
            }
        }
    }
    // Numbered as they come, so that there are no more lines than locations.
    let keys: Vec<usize> = (lines.iter().enumerate())
        .map(|(location, line)| line.unwrap_or(groups.len() + location))
        .collect();
    let mut seen: Vec<usize> = Vec::new();
    let numbered = keys.iter().map(|key| {
        seen.iter()
            .position(|known| known == key)
            .unwrap_or_else(|| {
                seen.push(*key);
                seen.len() - 1
            })
    });
    Ok(numbered.collect())
}

/// Reads `x=0 y=1`: every location once.
fn contents(text: &str, locations: &[String]) -> Result<Contents, Wrong> {
    let mut contents = Contents::default();
    let mut named = vec![false; locations.len()];
    for (at, word) in split(text) {
        let Some((name, number)) = word.split_once('=') else {
            return Err((
                at,
                format!("'{word}' says nothing of a location: write x=0"),
            ));
        };
        let Some(location) = locations.iter().position(|known| known == name) else {
            let known = &mut locations.iter().map(String::as_str);
            return Err((at, unknown("location of any thread", name, known)));
        };
        if std::mem::replace(&mut named[location], true) {
            return Err((at, format!("{name} has a value already")));
        }
        contents.set(location, value(at + name.len() + 1, number)?);
    }
    match named.iter().position(|named| !named) {
        Some(missing) => Err((0, format!("what {} holds is missing", locations[missing]))),
        None => Ok(contents),
    }
}
