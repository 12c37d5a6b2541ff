//! Instructions of litmus tests as words: `store x 1`, `beqz a 1`, `fence rw,w`.
//!
//! Always true here: what is wrong is said with the place of the word that is wrong.

use super::model::Kind;
use super::program::{Accesses, Action, Instruction, LOCATIONS, Operand, REGISTERS};
use crate::configuration::nearest;

/// Something wrong: how many bytes into the text, and what.
pub type Wrong = (usize, String);

/// How an instruction is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Load,
    Store,
    Exchange,
    Branch { if_zero: bool },
    WriteBack,
    Barrier,
    Fence,
}

impl Form {
    fn operands(self) -> &'static str {
        match self {
            Self::Load => "REGISTER LOCATION",
            Self::Store => "LOCATION NUMBER|REGISTER",
            Self::Exchange => "REGISTER LOCATION NUMBER|REGISTER",
            Self::Branch { .. } => "REGISTER INSTRUCTIONS",
            Self::WriteBack => "LOCATION",
            Self::Barrier => "",
            Self::Fence => "SET,SET",
        }
    }
}

const INSTRUCTIONS: &[(&str, Kind, Form)] = &[
    ("load", Kind::Load, Form::Load),
    ("store", Kind::Store, Form::Store),
    ("xchg", Kind::Exchange, Form::Exchange),
    ("beqz", Kind::Branch, Form::Branch { if_zero: true }),
    ("bnez", Kind::Branch, Form::Branch { if_zero: false }),
    ("mfence", Kind::Mfence, Form::Barrier),
    ("sfence", Kind::Sfence, Form::Barrier),
    ("clflush", Kind::Flush, Form::WriteBack),
    ("clflushopt", Kind::FlushOpt, Form::WriteBack),
    ("clwb", Kind::FlushOpt, Form::WriteBack),
    ("dmb", Kind::Dmb, Form::Barrier),
    ("dsb", Kind::Dsb, Form::Barrier),
    ("dc-civac", Kind::Clean, Form::WriteBack),
    ("dc-cvac", Kind::Clean, Form::WriteBack),
    ("dc-cvap", Kind::Clean, Form::WriteBack),
    ("cbo.clean", Kind::Clean, Form::WriteBack),
    ("cbo.flush", Kind::Clean, Form::WriteBack),
    ("fence", Kind::Fence, Form::Fence),
    ("persist-barrier", Kind::PersistBarrier, Form::Barrier),
    ("new-strand", Kind::NewStrand, Form::Barrier),
    ("join-strand", Kind::JoinStrand, Form::Barrier),
    ("strand-sync", Kind::StrandSync, Form::Barrier),
];

/// Instructions that a model of this architecture has, of those that are written differently and
/// ordered alike.
fn belongs(name: &str, model: &str) -> bool {
    let prefix = match model {
        "arm" => "dc-",
        _ => "cbo.",
    };
    !(name.starts_with("dc-") || name.starts_with("cbo.")) || name.starts_with(prefix)
}

/// Names of one sort, numbered as they come.
#[derive(Debug, Default)]
pub struct Names {
    /// The names.
    pub known: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str, most: usize, sort: &str) -> Result<usize, String> {
        if let Some(found) = self.known.iter().position(|known| known == name) {
            return Ok(found);
        }
        if self.known.len() == most {
            return Err(format!("'{name}': a test has at most {most} {sort}"));
        }
        self.known.push(name.to_owned());
        Ok(self.known.len() - 1)
    }
}

/// What the words of a test may mean.
pub struct Vocabulary<'a> {
    /// The model's name.
    pub model: &'a str,
    /// The kinds that it knows.
    pub kinds: &'a [Kind],
    /// Locations, of the whole test.
    pub locations: &'a mut Names,
    /// Registers, of the thread.
    pub registers: &'a mut Names,
}

struct Words<'a> {
    rest: std::vec::IntoIter<(usize, &'a str)>,
    end: usize,
    usage: String,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<(usize, &'a str), Wrong> {
        self.rest.next().ok_or_else(|| {
            (
                self.end,
                format!("something is missing: write {}", self.usage),
            )
        })
    }
}

/// Words with where they begin.
pub fn split(text: &str) -> Vec<(usize, &str)> {
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split_whitespace()
        .map(|word| (start(word), word))
        .collect()
}

impl Vocabulary<'_> {
    /// Reads an instruction.
    pub fn instruction(&mut self, text: &str) -> Result<Instruction, Wrong> {
        let words = split(text);
        let &(at, name) = words
            .first()
            .ok_or((0, "no instruction stands here".to_owned()))?;
        let &(name, kind, form) = INSTRUCTIONS
            .iter()
            .find(|(known, ..)| *known == name)
            .ok_or_else(|| (at, unknown("instruction", name, &mut self.instructions())))?;
        if kind != Kind::Branch && !self.kinds.contains(&kind) || !belongs(name, self.model) {
            let known: Vec<&str> = self.instructions().collect();
            let known = known.join(", ");
            let model = self.model;
            return Err((
                at,
                format!("the model {model} has no {name}; it has {known}"),
            ));
        }
        let mut words = Words {
            rest: words.into_iter(),
            end: text.trim_end().len(),
            usage: format!("{name} {}", form.operands()).trim_end().to_owned(),
        };
        words.next()?;
        let read = self.operands((name, kind, form), &mut words)?;
        match words.rest.next() {
            None => Ok(read),
            Some((at, word)) => Err((at, format!("'{word}' is too much: write {}", words.usage))),
        }
    }

    /// What the model knows.
    fn instructions(&self) -> impl Iterator<Item = &'static str> {
        let (model, kinds) = (self.model.to_owned(), self.kinds.to_vec());
        INSTRUCTIONS
            .iter()
            .filter(move |(name, kind, _)| {
                (*kind == Kind::Branch || kinds.contains(kind)) && belongs(name, &model)
            })
            .map(|(name, ..)| *name)
    }

    fn operands(
        &mut self,
        (name, kind, form): (&'static str, Kind, Form),
        words: &mut Words,
    ) -> Result<Instruction, Wrong> {
        let mut sets = [Accesses::default(); 2];
        let action = match form {
            Form::Load => {
                let register = self.register(words.next()?)?;
                let location = self.location(words.next()?)?;
                Action::Load { register, location }
            }
            Form::Store => {
                let location = self.location(words.next()?)?;
                let operand = self.operand(words.next()?)?;
                Action::Store { location, operand }
            }
            Form::Exchange => {
                let register = self.register(words.next()?)?;
                let location = self.location(words.next()?)?;
                let operand = self.operand(words.next()?)?;
                Action::Exchange {
                    register,
                    location,
                    operand,
                }
            }
            Form::Branch { if_zero } => {
                let register = self.register(words.next()?)?;
                let skips = skips(words.next()?)?;
                Action::Branch {
                    register,
                    if_zero,
                    skips,
                }
            }
            Form::WriteBack => {
                let location = self.location(words.next()?)?;
                Action::WriteBack { location }
            }
            Form::Barrier => Action::Barrier,
            Form::Fence => {
                sets = sets_of(words.next()?)?;
                Action::Barrier
            }
        };
        Ok(Instruction {
            name,
            kind,
            action,
            sets,
        })
    }

    /// A register and a location are told apart by where they stand, so one name cannot be both.
    fn register(&mut self, (at, word): (usize, &str)) -> Result<usize, Wrong> {
        name(at, word, "register")?;
        if self.locations.known.iter().any(|known| known == word) {
            return Err((
                at,
                format!("'{word}' is a location: a register needs a name of its own"),
            ));
        }
        let number = self
            .registers
            .number(word, REGISTERS, "registers for each thread");
        number.map_err(|message| (at, message))
    }

    fn location(&mut self, (at, word): (usize, &str)) -> Result<usize, Wrong> {
        name(at, word, "location")?;
        if self.registers.known.iter().any(|known| known == word) {
            return Err((
                at,
                format!("'{word}' is a register: a location needs a name of its own"),
            ));
        }
        let number = self.locations.number(word, LOCATIONS, "locations");
        number.map_err(|message| (at, message))
    }

    fn operand(&mut self, (at, word): (usize, &str)) -> Result<Operand, Wrong> {
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            return value(at, word).map(Operand::Value);
        }
        self.register((at, word)).map(Operand::Register)
    }
}

/// That a word is none of those that are known.
pub fn unknown(sort: &str, word: &str, known: &mut dyn Iterator<Item = &str>) -> String {
    match nearest(word, known) {
        Some(hint) => format!("'{word}' is no {sort}; the nearest is '{hint}'"),
        None => format!("'{word}' is no {sort}"),
    }
}

/// A number that a location can hold.
pub fn value(at: usize, word: &str) -> Result<u8, Wrong> {
    (word.parse()).map_err(|_| (at, format!("'{word}' is no number from 0 to 255")))
}

fn name(at: usize, word: &str, sort: &str) -> Result<(), Wrong> {
    let begins = word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if begins
        && word
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || one == '_')
    {
        return Ok(());
    }
    Err((
        at,
        format!("'{word}' is no name of a {sort}: letters, digits and _, not a digit first"),
    ))
}

fn skips((at, word): (usize, &str)) -> Result<usize, Wrong> {
    match word.parse() {
        Ok(skips) if skips > 0 => Ok(skips),
        _ => Err((
            at,
            format!("'{word}' is no number of instructions to pass over (1 or more)"),
        )),
    }
}

fn sets_of((at, word): (usize, &str)) -> Result<[Accesses; 2], Wrong> {
    let set = |text: &str| {
        let is_set = !text.is_empty() && text.chars().all(|one| "rw".contains(one));
        is_set.then(|| Accesses {
            reads: text.contains('r'),
            writes: text.contains('w'),
        })
    };
    let both = word
        .split_once(',')
        .map(|(one, other)| (set(one), set(other)));
    match both {
        Some((Some(one), Some(other))) => Ok([one, other]),
        _ => Err((
            at,
            format!("'{word}' names no accesses: write rw,rw or r, w in the place of each rw"),
        )),
    }
}
