//! The modules of this crate know each other in one direction only: their names in each other's text
//! (`crate::name`) make no circle.
//!
//! What is looked at is text, so a name that comes in by another way (a method of a type that was passed
//! in) is not seen; and a circle within a module of several files is that module's own affair.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Two modules that are one thing: a replica is a store that is filled from elsewhere, and what looks
/// into a store looks into a replica.
const ONE_ROOM: [&str; 2] = ["replication", "snapshots"];

type Arrows = BTreeMap<String, BTreeSet<String>>;

fn room(name: &str) -> String {
    let known = ONE_ROOM.contains(&name);
    if known { ONE_ROOM[0] } else { name }.to_owned()
}

/// The modules that a text names.
fn named(text: &str) -> impl Iterator<Item = String> {
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let paths = code.flat_map(|line| line.split("crate::").skip(1));
    paths.map(|path| {
        let end = path.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        room(&path[..end.unwrap_or(path.len())])
    })
}

fn look(path: &Path, module: &str, arrows: &mut Arrows) {
    if path.is_dir() {
        for entry in path.read_dir().expect("a folder of sources") {
            look(&entry.expect("an entry").path(), module, arrows);
        }
        return;
    }
    let text = std::fs::read_to_string(path).expect("a source file");
    let known = arrows.entry(room(module)).or_default();
    known.extend(named(&text).filter(|other| *other != room(module)));
}

/// Takes away every module that knows nobody who is left, until nothing changes: what stays is in a
/// circle, or knows one that is.
fn circle(mut arrows: Arrows) -> Arrows {
    loop {
        let modules: BTreeSet<String> = arrows.keys().cloned().collect();
        let before = arrows.len();
        arrows.retain(|_, known| !known.is_disjoint(&modules));
        if arrows.len() == before {
            return arrows;
        }
    }
}

#[test]
fn no_module_knows_one_that_knows_it() {
    let mut arrows = Arrows::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in sources.read_dir().expect("the sources") {
        let path = entry.expect("an entry").path();
        let module = path.file_stem().expect("a name").to_string_lossy();
        if module != "lib" {
            look(&path, &module, &mut arrows);
        }
    }
    assert!(arrows.len() > 30, "the sources are elsewhere: {arrows:?}");
    assert!(arrows["campaign"].contains("machine"));
    assert_eq!(circle(arrows), Arrows::new());
}

#[test]
fn a_circle_is_found() {
    let known = |others: &[&str]| others.iter().map(|&other| other.to_owned()).collect();
    let mut arrows = Arrows::from([
        ("a".to_owned(), known(&["b"])),
        ("b".to_owned(), known(&["c", "d"])),
        ("c".to_owned(), known(&["d"])),
        ("d".to_owned(), known(&[])),
    ]);
    assert_eq!(circle(arrows.clone()), Arrows::new());
    arrows.insert("d".to_owned(), known(&["b"]));
    assert_eq!(circle(arrows).len(), 4);
    let text = "use crate::one::Thing; // crate::two\nlet x = crate::three_four(crate::one::y);";
    let names: Vec<String> = named(text).collect();
    assert_eq!(names, ["one", "three_four", "one"]);
}
