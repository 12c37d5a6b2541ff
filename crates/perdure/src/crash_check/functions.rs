//! Operations by the names of functions (`--operations`): which addresses of a program they are.
//!
//! A name is a symbol's, as it is or without what compilers add: demangled (C++, Rust), with or without
//! parameters, without Rust's hash, without the ending of a copy that GCC has made (`put.isra.0`). `*` stands
//! for anything, `?` for one character.
//!
//! Always true here: every name that is given is a function of the program, or it is refused.

use std::collections::BTreeSet;

use perdure_linux::inspect::{Symbol, symbols};

use super::refused;
use crate::demangle;
use crate::error::Error;
use crate::functional::Functions;

/// What makes a stack of Go larger.
const GO: &str = "runtime.morestack";
/// Names that are told where one is not known.
const NEAREST: usize = 3;
/// What GCC and LLVM put behind the name of a copy; parts of functions (`.part`, `.cold`) are none.
const COPIES: [&str; 4] = ["constprop", "isra", "lto_priv", "llvm"];

/// The functions of these names, in the file that has these bytes.
pub fn named(file: &[u8], program: &str, names: &[String]) -> Result<Functions, Error> {
    let functions: Vec<(Symbol, Vec<String>)> = (symbols(file).into_iter())
        .filter(|symbol| !symbol.data)
        .map(|symbol| (names_of(&symbol.name), symbol))
        .map(|(names, symbol)| (symbol, names))
        .collect();
    if functions.is_empty() {
        return refused(format!(
            "--operations: {program} has no symbols, so that no function of it has a name; do not strip it"
        ));
    }
    let mut entries = Vec::new();
    for name in names {
        let fits = |(_, names): &&(Symbol, Vec<String>)| names.iter().any(|one| is_like(name, one));
        let before = entries.len();
        entries.extend(functions.iter().filter(fits).map(|(one, _)| one.address));
        if entries.len() == before {
            return refused(format!(
                "--operations {name}: {program} has no such function; the nearest {}; a function that is inlined wherever it is called has no name: declare it __attribute__((noinline))",
                nearest(name, functions.iter().flat_map(|(_, names)| names))
            ));
        }
    }
    let of_go = |(symbol, _): &(Symbol, Vec<String>)| symbol.name.starts_with(GO);
    Ok(Functions {
        entries,
        of_go: functions.iter().any(of_go),
    })
}

/// What a symbol may be called.
fn names_of(symbol: &str) -> Vec<String> {
    let whole = without_copy(symbol);
    let mut names = vec![whole.to_owned()];
    if let Some(name) = demangle::rust(whole) {
        names.push(name);
    } else if let Some(name) = demangle::cpp(whole) {
        names.extend(without_parameters(&name).map(str::to_owned));
        names.push(name);
    }
    names
}

/// A symbol's name without the ending of a copy: `.isra.0`.
fn without_copy(name: &str) -> &str {
    let ending = name.rsplit_once('.').and_then(|(rest, number)| {
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let (rest, kind) = rest.rsplit_once('.')?;
        (is_number && COPIES.contains(&kind)).then_some(rest)
    });
    ending.map_or(name, without_copy)
}

/// `table::put(unsigned long) const` without its parameters.
fn without_parameters(name: &str) -> Option<&str> {
    let end = name.rfind(')')?;
    let mut depth = 0_usize;
    let start = name[..=end].char_indices().rev().find(|(_, letter)| {
        match letter {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    start.map(|(place, _)| &name[..place])
}

/// Whether a name fits a pattern.
fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut from) = (0, 0);
    // Where the last star stands, and up to where it has taken the name.
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(&letter) if letter == b'?' || letter == name[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((place, taken)) = star else {
                    return false;
                };
                star = Some((place, taken + 1));
                (at, from) = (place + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|&letter| letter == b'*')
}

/// The names that are nearest to another one, for a message.
fn nearest<'n>(wrong: &str, names: impl Iterator<Item = &'n String>) -> String {
    let distinct: BTreeSet<&String> = names.collect();
    let mut all: Vec<(f64, &String)> = (distinct.into_iter())
        .map(|name| (strsim::jaro_winkler(wrong, name), name))
        .collect();
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    let told: Vec<String> = (all.iter().take(NEAREST))
        .map(|(_, name)| format!("'{name}'"))
        .collect();
    format!("are {}", told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_has_the_names_that_people_call_it() {
        let fits = |pattern: &str, symbol: &str| {
            let names = names_of(symbol);
            names.iter().any(|name| is_like(pattern, name))
        };
        for (pattern, symbol) in [
            ("put", "put"),
            ("put", "put.isra.0"),
            ("put", "put.constprop.0.isra.12"),
            ("p?t", "put"),
            ("*", "put"),
            ("p*t*", "put_at"),
            ("_ZN5table3putEm", "_ZN5table3putEm"),
            ("table::put", "_ZN5table3putEm"),
            ("table::put(unsigned long)", "_ZN5table3putEm"),
            ("table::put(*", "_ZN5table3putEm"),
            ("table::put", "_ZNK5table3putEPFvmE"),
            ("list::push", "_ZN4list4push17h0123456789abcdefE"),
            ("main.(*list).push", "main.(*list).push"),
        ] {
            assert!(fits(pattern, symbol), "{pattern} is {symbol}");
        }
        for (pattern, symbol) in [
            ("put", "output"),
            ("put", "put.part.0"),
            ("put", "put.cold"),
            ("p?t", "pt"),
            ("put*x", "put"),
            ("put", "_ZN5table3putEm"),
            ("list", "_ZN4list4push17h0123456789abcdefE"),
        ] {
            assert!(!fits(pattern, symbol), "{pattern} is not {symbol}");
        }
    }

    #[test]
    fn a_name_that_there_is_not_is_told_with_the_nearest() {
        let names: Vec<String> = ["push", "pop", "structure_put"].map(str::to_owned).into();
        let told = nearest("pusch", names.iter());
        assert!(told.starts_with("are 'push', 'pop'"), "{told}");
    }
}
