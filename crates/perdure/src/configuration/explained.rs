//! What stands above the keys of machine files: what a key means, what a number may be, where its value is
//! from and what that decides.
//!
//! Always true here: meaning and range are the first preset's, which has every key; where a value is from
//! is said by whoever gave it, and never said of another's.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::json;
use toml::{Table, Value};

use super::{MACHINES, configuration_error, leaves, modules};
use crate::error::Error;

/// What is known of a key and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// What the key means.
    pub meaning: String,
    /// Where the value is from: a paper, an artifact, what others measured or published, ours, an option; a
    /// base preset is named before it.
    pub source: String,
    /// What hangs on the value, where that is known.
    pub decides: String,
}

impl Explained {
    /// As `perdure config --json` shows a key and its value.
    pub fn json(&self, key: &str, value: &Value) -> serde_json::Value {
        json!({
            "value": value,
            "unit": unit_of(key),
            "meaning": self.meaning,
            "source": self.source,
            "decides": self.decides,
        })
    }
}

/// Units stand in the names.
fn unit_of(key: &str) -> &'static str {
    let name = key.rsplit('.').next().unwrap_or(key);
    let units = [
        ("bytes_per_hart", "bytes"),
        ("bytes", "bytes"),
        ("cycles", "cycles"),
        ("_ns", "ns"),
        ("_mhz", "MHz"),
        ("_bits", "bits"),
        ("instructions", "instructions"),
        ("entries", "entries"),
        ("_blocks", "blocks"),
        ("sets_per_step", "sets"),
        ("gap", "epochs"),
    ];
    units
        .iter()
        .find(|(suffix, _)| name.ends_with(suffix))
        .map_or("", |(_, unit)| unit)
}

/// The same of every key.
#[derive(Clone, Debug)]
pub struct Explanations {
    keys: BTreeMap<String, Explained>,
    /// Of keys of `[[module]]` tables, as `module.NAME.KEY`, those that somebody gave.
    modules: BTreeMap<String, Explained>,
}

impl Explanations {
    /// As the first preset has them.
    pub fn of_base() -> Self {
        let comments = comments(MACHINES[0].1).into_iter();
        Self {
            keys: comments.map(|one| (one.key, one.explained)).collect(),
            modules: BTreeMap::new(),
        }
    }

    /// A machine file on top of the first preset. `name` is what it is called, and the source of what it
    /// does not explain.
    pub fn give(&mut self, file: &str, name: &str) {
        let (base, text) = MACHINES[0];
        if file == text {
            return;
        }
        let own: BTreeMap<_, _> = comments(file)
            .into_iter()
            .map(|one| (one.key, one.explained))
            .collect();
        for (key, known) in &mut self.keys {
            let Some(given) = own.get(key) else {
                known.source = format!("{base}: {}", known.source);
                continue;
            };
            known.source = match given.source.as_str() {
                "" => name.to_owned(),
                said => said.to_owned(),
            };
            if !given.decides.is_empty() {
                known.decides.clone_from(&given.decides);
            }
        }
        for (key, mut given) in own {
            if key.starts_with(OF_MODULES) {
                if given.source.is_empty() {
                    name.clone_into(&mut given.source);
                }
                self.modules.insert(key, given);
            }
        }
    }

    /// An option on top of the file.
    pub fn set(&mut self, key: &str, option: &str) {
        let known = if key.starts_with(OF_MODULES) {
            Some(self.modules.entry(key.to_owned()).or_default())
        } else {
            self.keys.get_mut(key)
        };
        if let Some(known) = known {
            option.clone_into(&mut known.source);
        }
    }

    /// What is known of a key.
    pub fn of(&self, key: &str) -> Explained {
        match key
            .strip_prefix(OF_MODULES)
            .and_then(|rest| rest.split_once('.'))
        {
            Some((_, rest)) => self.of_module(key, rest),
            None => self.keys.get(key).cloned().unwrap_or_default(),
        }
    }

    /// What is known of a key of a `[[module]]` table, which means what it does in `[nvm]` or `[link]`, and
    /// has the value from there if nobody gave one.
    fn of_module(&self, key: &str, rest: &str) -> Explained {
        let base = if rest.starts_with("link.") {
            rest.to_owned()
        } else {
            format!("nvm.{rest}")
        };
        let known = self.keys.get(&base).cloned();
        let unsaid = known
            .as_ref()
            .map_or("unsaid".into(), |_| format!("as {base}"));
        let mut explained = known.unwrap_or_default();
        if let Some(meaning) = modules::meaning(rest) {
            meaning.clone_into(&mut explained.meaning);
        }
        let given = self.modules.get(key);
        explained.source = given.map_or(unsaid, |given| given.source.clone());
        explained
    }
}

/// What keys of `[[module]]` tables begin with.
const OF_MODULES: &str = "module.";

/// What stands above a key of a preset.
#[derive(Default)]
struct Comment {
    key: String,
    explained: Explained,
    range: Option<Range>,
}

/// What a key means, as the first preset says it.
pub(super) fn meaning(key: &str) -> String {
    static MEANINGS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
        let known = comments(MACHINES[0].1).into_iter();
        known.map(|one| (one.key, one.explained.meaning)).collect()
    });
    MEANINGS.get(key).cloned().unwrap_or_default()
}

/// The comment above each key of a preset.
fn comments(preset: &str) -> Vec<Comment> {
    let (mut section, mut text, mut range) = (String::new(), String::new(), None);
    // Of the last `[[module]]` table: what its keys begin with, and which of them is the first.
    let (mut module, mut first) = (String::new(), 0);
    let mut found: Vec<Comment> = Vec::new();
    for line in preset.lines() {
        if let Some(limits) = line.strip_prefix("# Range: ") {
            range = Range::parse(limits.trim_end_matches('.'));
        } else if let Some(more) = line.strip_prefix('#') {
            text.push_str(more);
        } else {
            let (above, range) = (std::mem::take(&mut text), range.take());
            if line.starts_with("[[") {
                (module, first) = (format!("{OF_MODULES}."), found.len());
                section.clone_from(&module);
            } else if let Some(name) = line.strip_prefix('[') {
                let name = format!("{}.", name.trim_end_matches(']'));
                section = match name.strip_prefix(OF_MODULES) {
                    Some(of_module) => format!("{module}{of_module}"),
                    None => name,
                };
            } else if let Some((key, value)) = line.split_once('=') {
                if key.trim() == "name" && section == module {
                    let unnamed = std::mem::take(&mut module);
                    module = format!("{OF_MODULES}{}.", value.trim().trim_matches('"'));
                    section.clone_from(&module);
                    for one in &mut found[first..] {
                        one.key = one.key.replacen(&unnamed, &module, 1);
                    }
                }
                found.push(Comment {
                    key: format!("{section}{}", key.trim()),
                    explained: explained(above.trim()),
                    range,
                });
            }
        }
    }
    found
}

/// A comment in its parts: `What it means. (paper: where it is from; decides: what hangs on it)`.
fn explained(text: &str) -> Explained {
    let bracket = text
        .strip_suffix(')')
        .and_then(|inner| inner.rsplit_once('('))
        .filter(|(_, said)| {
            ["paper", "artifact", "measured", "published", "ours"]
                .iter()
                .any(|word| said.starts_with(word))
        });
    let (meaning, said) = bracket.unwrap_or((text, ""));
    let (source, decides) = said.split_once("; decides: ").unwrap_or((said, ""));
    Explained {
        meaning: meaning.trim_end().to_owned(),
        source: source.to_owned(),
        decides: decides.to_owned(),
    }
}

/// What a number may be: from least to most, perhaps also 0, which then has a meaning of its own.
pub(super) struct Range {
    zero: bool,
    least: f64,
    most: f64,
    /// As the preset says it: `0, or 1000 to 5000`.
    pub text: String,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (zero, limits) = match text.strip_prefix("0, or ") {
            Some(limits) => (true, limits),
            None => (false, text),
        };
        let (least, most) = limits.split_once(" to ")?;
        Some(Self {
            zero,
            least: least.parse().ok()?,
            most: most.parse().ok()?,
            text: text.to_owned(),
        })
    }

    /// No for a number that is none, too.
    pub fn holds(&self, value: f64) -> bool {
        (self.least..=self.most).contains(&value) || self.zero && value == 0.0
    }
}

/// The range of each number.
pub(super) static RANGES: LazyLock<BTreeMap<String, Range>> = LazyLock::new(|| {
    let known = comments(MACHINES[0].1).into_iter();
    known
        .filter_map(|comment| Some((comment.key, comment.range?)))
        .collect()
});

/// Refuses a number that is outside its range, in any section.
pub(super) fn check_ranges(table: &Table) -> Result<(), Error> {
    let mut values = Vec::new();
    leaves(table, "", &mut values);
    for (key, value) in values {
        let (Some(range), Some(number)) = (RANGES.get(&key), number(&value)) else {
            continue;
        };
        if !range.holds(number) {
            return configuration_error(format!("{key} = {value}: must be {}", range.text));
        }
    }
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "ranges end far below 2^53, and what is beyond stays beyond"
)]
/// A value as a number, if it is one.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}
