//! Gathers the workloads' sources and the guest headers that they include, so
//! that the Python package carries them and `perdure demo` and `perdure bench`
//! need no source tree. `pyproject.toml` says where the wheel puts them.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What is gathered, from the root of the source tree.
const GATHERED: [&str; 2] = ["workloads", "guest"];

fn main() -> io::Result<()> {
    let variable = |name| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let root = variable("CARGO_MANIFEST_DIR").join("../..");
    for name in GATHERED {
        let from = root.join(name);
        println!("cargo:rerun-if-changed={}", from.display());
        let to = variable("OUT_DIR").join(name);
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        if from.is_dir() {
            copy(&from, &to)?;
        }
    }
    Ok(())
}

/// Copies a folder with everything in it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
