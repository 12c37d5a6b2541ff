//! What no check can be made of, and why.

use super::campaign::{said, words};
use super::places::{Place, innermost};
use super::record::Mistake;
use super::recovery::End;
use super::uncut::Surveyed;
use super::{Asked, refused};
use crate::error::Error;
use crate::functional::At;

/// Refuses what no check can be made of.
pub fn is_checkable(asked: &Asked, surveyed: &Surveyed) -> Result<(), Error> {
    let recorder = &surveyed.recorder;
    if surveyed.life.end != End::Status(0) {
        return refused(format!(
            "check: the program itself fails, with no power cut at all: {}{}",
            words(&surveyed.life.end),
            said(&surveyed.life)
        ));
    }
    if recorder.stores == 0 {
        return refused(
            "check: the program never stores to persistent memory: have it keep its data in a file below /pmem, which it maps shared or writes",
        );
    }
    match &recorder.mistake {
        Some(Mistake::Operations(mistake)) => {
            let by = match asked.operations.as_slice() {
                [] => "perdure_op_begin, perdure_op_end",
                _ => "--operations: a function that is not left by returning from it",
            };
            refused(format!("check: {mistake} ({by})"))
        }
        &Some(Mistake::Whole { start, bytes, at }) => {
            let place = place_of(surveyed, &at)?;
            refused(format!(
                "check: perdure_atomic{place}: the {bytes} bytes from {start:#x} on do not lie in one mapping of a file below /pmem that is mapped shared: give it the start and the length of bytes that do"
            ))
        }
        None => Ok(()),
    }
}

/// Where the program does something, as far as that is known.
fn place_of(surveyed: &Surveyed, at: &At) -> Result<String, Error> {
    let stacks = surveyed.uncut.stacks([at.retired])?;
    let place = stacks.get(&at.retired).and_then(|stack| innermost(stack));
    Ok(place.map_or_else(String::new, |place| format!(" {}", in_words(place))))
}

fn in_words(place: &Place) -> String {
    let function = place.function.as_deref().unwrap_or(&place.pc);
    match (&place.file, place.line) {
        (Some(file), Some(line)) => format!("in {function} ({file}:{line})"),
        _ => format!("in {function}"),
    }
}
