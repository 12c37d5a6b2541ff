//! A file of results on this host, which takes its name when it is whole.
//!
//! Always true here: under its name is what was there before, or all of what is new, because it is written
//! beside its place and then renamed; what is no regular file (a terminal, a pipe, `/dev/null`) is never
//! replaced, but written to; where a link leads is written, and the link stays.

use std::fs::{self, File, Permissions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

/// So much of a name, from its end, is in that of the unfinished file: the ending says what it is.
const NAME_BYTES: usize = 64;
/// Names of what is open already, as `/dev/stdout`: never replaced, whatever stands behind them.
const WRITTEN_IN_PLACE: [&str; 2] = ["/dev", "/proc"];
/// As the host's kernel has it.
const LINKS_MOST: usize = 40;

/// The file. Dropped before it is kept, it leaves nothing.
#[derive(Debug)]
pub struct Replaced {
    file: File,
    /// Under which name it is until then, and the place that it takes.
    beside: Option<(TempPath, PathBuf)>,
}

/// Where a file is that is known by that name.
fn place_of(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MOST {
        let Ok(target) = fs::read_link(&place) else {
            break;
        };
        place = place.parent().unwrap_or(Path::new("")).join(target);
    }
    place
}

impl Replaced {
    /// An empty file, for that name.
    pub fn create(path: &Path) -> io::Result<Self> {
        let named = std::path::absolute(path)?;
        let known = fs::metadata(path).ok();
        let is_file = known.as_ref().is_none_or(fs::Metadata::is_file);
        if !is_file || WRITTEN_IN_PLACE.iter().any(|root| named.starts_with(root)) {
            let file = File::create(path)?;
            return Ok(Self { file, beside: None });
        }
        let place = place_of(&named);
        let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let name = name.as_bytes();
        let mut ending = b"-".to_vec();
        ending.extend_from_slice(&name[name.len().saturating_sub(NAME_BYTES)..]);
        let (file, unfinished) = tempfile::Builder::new()
            .prefix(".perdure-")
            .suffix(&std::ffi::OsString::from_vec(ending))
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)?
            .into_parts();
        if let Some(known) = known {
            file.set_permissions(known.permissions())?;
        }
        Ok(Self {
            file,
            beside: Some((unfinished, place)),
        })
    }

    /// The open file.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// It is whole, and takes its place.
    pub fn keep(&mut self) -> io::Result<()> {
        match self.beside.take() {
            Some((unfinished, place)) => Ok(unfinished.persist(place)?),
            None => Ok(()),
        }
    }
}

impl Write for Replaced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Replaced {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().expect("text"))
            .collect();
        names.sort();
        names
    }

    fn written(path: &Path, content: &[u8]) -> Replaced {
        let mut file = Replaced::create(path).expect("a file");
        file.write_all(content).expect("written");
        file
    }

    #[test]
    fn what_was_there_stays_until_the_file_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.json");
        fs::write(&path, "before").expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("a mode");
        let file = written(&path, b"half");
        let unfinished = names(folder.path());
        assert!(unfinished[0].starts_with(".perdure-") && unfinished[0].ends_with("-t.json"));
        drop(file);
        assert_eq!(names(folder.path()), ["t.json"]);
        assert_eq!(fs::read(&path).expect("the file"), b"before");
        written(&path, b"whole").keep().expect("kept");
        assert_eq!(names(folder.path()), ["t.json"]);
        assert_eq!(fs::read(&path).expect("the file"), b"whole");
        let mode = fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn where_a_link_leads_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("inner")).expect("a folder");
        let (link, other) = (folder.path().join("link"), folder.path().join("inner/a"));
        symlink("inner/a", &link).expect("a link");
        for content in ["new", "newer"] {
            written(&link, content.as_bytes()).keep().expect("kept");
            assert_eq!(fs::read_to_string(&other).expect("the file"), content);
        }
        assert_eq!(names(folder.path()), ["inner", "link"]);
    }

    #[test]
    fn what_is_no_regular_file_is_written_to() {
        let null = Path::new("/dev/null");
        written(null, b"gone").keep().expect("written");
        assert!(!fs::metadata(null).expect("it is there").is_file());
        let folder = tempfile::tempdir().expect("a folder");
        Replaced::create(folder.path()).expect_err("a folder");
        let path = folder.path().join("pipe");
        let pipe = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(pipe.expect("mkfifo").success());
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).expect("the other end")
        });
        written(&path, b"through").keep().expect("written");
        assert_eq!(reader.join().expect("read"), b"through");
        assert_eq!(names(folder.path()), ["pipe"]);
    }
}
