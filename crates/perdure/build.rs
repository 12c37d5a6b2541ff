//! Names this build: version, commit if there is one, and a hash of the sources, so that a replay token
//! can say which build made it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What decides results, from the root of the source tree.
const SOURCES: [&str; 7] = [
    "crates/riscv/src",
    "crates/hardware/src",
    "crates/designs/src",
    "crates/linux/src",
    "crates/perdure/src",
    "machines",
    "Cargo.lock",
];

fn main() {
    let variable = |name| env::var(name).unwrap_or_default();
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for source in SOURCES {
        let path = root.join(source);
        println!("cargo:rerun-if-changed={}", path.display());
        list(&path, &mut files);
    }
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for file in files {
        let name = file.strip_prefix(&root).unwrap_or(&file);
        take(name.to_string_lossy().as_bytes());
        take(&fs::read(&file).unwrap_or_default());
    }
    let commit = git(&root, &["rev-parse", "--short=10", "HEAD"]);
    let changed = git(&root, &["status", "--porcelain", "--untracked-files=no"]);
    let commit = match (commit, changed) {
        (Some(commit), Some(changed)) if changed.is_empty() => format!(" {commit}"),
        (Some(commit), _) => format!(" {commit}+changes"),
        (None, _) => String::new(),
    };
    let version = variable("CARGO_PKG_VERSION");
    println!(
        "cargo:rustc-env=PERDURE_BUILD={version}{commit} {:08x}",
        hash as u32
    );
}

fn list(path: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(path) else {
        return files.push(path.to_owned());
    };
    for entry in entries.flatten() {
        list(&entry.path(), files);
    }
}

/// What git says, if this is a checkout of its own.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    if !root.join(".git").exists() {
        return None;
    }
    let said = Command::new("git")
        .current_dir(root)
        .args(words)
        .output()
        .ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| text.trim().to_owned())
}
