//! Files of the host that a request names: they may be anything, without an end or no files at all.
//!
//! Always true here: nothing is opened that may keep the reader waiting where a file is needed, and no more
//! is read than there may be.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Of a text that somebody has written.
pub const TEXT_BYTES_MAX: u64 = 1 << 20;

/// The bytes of a text, from a file or a pipe.
pub fn text(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        let words = format!("it is longer than {} MiB", TEXT_BYTES_MAX >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
    }
    Ok(bytes)
}

/// The bytes of a regular file, whatever its length.
pub fn regular(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        let words = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    }
    fs::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused_and_what_is_no_file_is_not_waited_for() {
        let endless = text(Path::new("/dev/zero")).expect_err("it has no end");
        assert_eq!(endless.to_string(), "it is longer than 1 MiB");
        let folder = tempfile::tempdir().expect("a folder");
        let longest = folder.path().join("longest");
        fs::write(&longest, vec![b' '; TEXT_BYTES_MAX as usize]).expect("a file");
        let read = text(&longest).expect("it is not too long");
        assert_eq!(read.len() as u64, TEXT_BYTES_MAX);
        assert_eq!(regular(&longest).expect("a file"), read);
        let other = regular(Path::new("/dev/zero")).expect_err("it is none");
        assert_eq!(other.to_string(), "it is not a regular file");
        let none = regular(&folder.path().join("none")).expect_err("there is none");
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }
}
