//! What a wrong key may have been meant to be.
//!
//! Always true here: what is suggested is a key that there is; one that is spelled nearly so comes alone,
//! and otherwise those come whose names, or failing that meanings, have the words of the wrong one.

use toml::Table;

use super::{explained, leaves};

/// From where on two spellings are taken for one key.
const NEAR: f64 = 0.9;
/// Of keys with equally many of the words, at most so many are named.
const NAMED: usize = 4;

/// What words stand for that people use of other machines.
const ALSO: &[(&str, &[&str])] = &[
    ("assoc", &["ways"]),
    ("associativity", &["ways"]),
    ("bandwidth", &["width", "frequency"]),
    ("cache", &["l1i", "l1d", "l2", "llc"]),
    ("capacity", &["bytes", "entries"]),
    ("clock", &["frequency"]),
    ("core", &["harts"]),
    ("cpu", &["core", "harts"]),
    ("delay", &["latency", "ns"]),
    ("depth", &["entries"]),
    ("freq", &["frequency"]),
    ("interval", &["epoch"]),
    ("l1", &["l1i", "l1d"]),
    ("l3", &["llc"]),
    ("latency", &["ns"]),
    ("length", &["entries", "instructions"]),
    ("memory", &["nvm", "dram"]),
    ("nvram", &["nvm"]),
    ("pmem", &["nvm"]),
    ("ram", &["dram"]),
    ("set", &["ways"]),
    ("size", &["bytes", "entries"]),
    ("speed", &["frequency"]),
    ("thread", &["harts"]),
];

/// The name nearest to a wrong one.
pub fn nearest<'a>(wrong: &str, right: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    right.max_by(|a, b| strsim::jaro_winkler(wrong, a).total_cmp(&strsim::jaro_winkler(wrong, b)))
}

/// The end of a refusal: what may have been meant.
pub(super) fn hint(wrong: &str, table: &Table) -> String {
    let mut known = Vec::new();
    leaves(table, "", &mut known);
    let known: Vec<_> = known.into_iter().map(|(key, _)| key).collect();
    let keys = || known.iter().map(String::as_str);
    if let Some(near) = nearest(wrong, keys())
        && strsim::jaro_winkler(wrong, near) >= NEAR
    {
        return format!("the nearest is '{near}'");
    }
    let quoted: Vec<_> = (by_meaning(wrong, &known)
        .iter()
        .map(|key| format!("'{key}'")))
    .collect();
    match quoted.as_slice() {
        [] => "`perdure list keys` has those that there are".to_owned(),
        [one] => format!("perhaps {one} is meant"),
        several => format!("perhaps one of these is meant: {}", several.join(", ")),
    }
}

/// The keys that have most of the words, those with the shortest names first.
fn by_meaning<'a>(wrong: &str, known: &'a [String]) -> Vec<&'a str> {
    let wanted = words(wrong);
    let scored = known.iter().map(|key| (score(&wanted, key), key.as_str()));
    let mut scored: Vec<_> = scored.filter(|(score, _)| *score > 0).collect();
    let best = scored.iter().map(|(score, _)| *score).max().unwrap_or(0);
    scored.retain(|(score, _)| *score == best);
    scored.sort_by_key(|(_, key)| words(key).len());
    scored.iter().take(NAMED).map(|(_, key)| *key).collect()
}

/// How much of what is wanted a key has: a word in its name counts most, then what the word stands for
/// there, then either in what the key means.
fn score(wanted: &[String], key: &str) -> u32 {
    let (name, meaning) = (words(key), words(&explained::meaning(key)));
    let score = |word: &String| {
        let also = ALSO.iter().find(|(said, _)| said == word);
        let also = also.map_or(&[][..], |(_, also)| also);
        let stands = |words: &[String]| also.iter().any(|one| words.contains(&singular(one)));
        if name.contains(word) {
            // One word may be a section's name, and meant for what it stands for: cores are harts.
            if wanted.len() == 1 { 4 } else { 6 }
        } else if stands(&name) {
            4
        } else {
            u32::from(meaning.contains(word) || stands(&meaning))
        }
    };
    wanted.iter().map(score).sum()
}

/// The words of a name or a text, in small letters and the singular.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words = words.filter(|word| word.len() > 1);
    words.map(|word| singular(&word.to_lowercase())).collect()
}

fn singular(word: &str) -> String {
    let plural = word
        .strip_suffix('s')
        .filter(|rest| rest.len() > 2 && !rest.ends_with('s'));
    plural.unwrap_or(word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tests::refused;

    #[test]
    fn keys_are_suggested_by_meaning_where_no_spelling_is_near() {
        for (wrong, meant) in [
            (
                "cache.size=1MB",
                &["'l2.bytes'", "'llc.bytes_per_hart'"][..],
            ),
            ("banks=4", &["'nvm.banks'", "'dram.banks'"]),
            (
                "frequency=1",
                &["'core.frequency_mhz'", "'link.frequency_mhz'"],
            ),
            ("memory.write_queue=2", &["'nvm.write_queue_entries'"]),
            ("l3.associativity=2", &["'llc.ways'"]),
            ("write.latency=300", &["'nvm.row_write_ns'"]),
            ("threads=2", &["'harts'"]),
            ("cores=4", &["meant: 'harts', 'core.model'"]),
        ] {
            let said = refused(wrong);
            let key = wrong.split('=').next().unwrap();
            assert!(
                said.contains(&format!("no key '{key}'; perhaps ")),
                "{said}"
            );
            assert!(meant.iter().all(|key| said.contains(key)), "{said}");
        }
    }

    #[test]
    fn a_near_spelling_comes_alone_and_nonsense_leads_to_the_list() {
        assert!(refused("llc.byte_per_hart=1").ends_with("the nearest is 'llc.bytes_per_hart'"));
        assert!(refused("xyzzy.qq=1").ends_with("`perdure list keys` has those that there are"));
    }
}
