//! The folder of the host that pools are taken from and given back to.
//!
//! Always true here:
//! - Of the folder, only regular files are touched, all of which the machine began with or leaves.
//! - It has all pools as they were, or all as they survived, unless the host dies in between: they are
//!   written in a folder of their own in it, and moved when they are whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::Hasher;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use perdure_hardware::physical_map::RegionKind;
use perdure_hardware::specification::Specification;
use perdure_linux::PAGE_BYTES;
use perdure_linux::pools::{Pool, PoolFile, PoolSource};
use rustix::fs::{FlockOperation, flock};
use twox_hash::XxHash3_64;

use crate::error::Error;
use crate::pools::Survived;

/// So much of a file is read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// A folder whose pools a run takes and gives back, which nobody else does meanwhile.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The files that it had then, all of which the machine begins with.
    names: BTreeSet<String>,
    /// Of the folder itself, as long as this lives.
    _lock: fs::File,
}

impl Folder {
    /// Takes a folder, which is made if it is missing.
    ///
    /// # Errors
    /// It cannot be read or written, or somebody else has taken it.
    pub fn take(path: &Path) -> Result<Self, Error> {
        let taken = || -> io::Result<Option<Self>> {
            make(path)?;
            let lock = fs::File::open(path)?;
            // Where the host's file system has no locks, nobody is refused.
            if let Err(rustix::io::Errno::WOULDBLOCK) =
                flock(&lock, FlockOperation::NonBlockingLockExclusive)
            {
                return Ok(None);
            }
            beside(path)?;
            Ok(Some(Self {
                path: path.into(),
                names: names(path)?,
                _lock: lock,
            }))
        };
        let taken = taken().map_err(|error| host(path, error))?;
        taken.ok_or_else(|| {
            Error::Request(format!(
                "--pmem {}: another run has taken these pools, and gives back what survives of them: wait for its \
                 end, or give this one a folder of its own",
                path.display()
            ))
        })
    }

    /// Makes the files of the folder those that survived.
    ///
    /// # Errors
    /// One cannot be written; then they are what they were.
    pub fn put(&self, survived: &Survived) -> Result<(), Error> {
        let unfinished = beside(&self.path).map_err(|error| host(&self.path, error))?;
        for pool in survived.pools() {
            self.write(survived, pool, unfinished.path())
                .map_err(|source| Error::Host {
                    what: format!(
                        "--pmem {}: the pools stay what they were, as one cannot be written, {}",
                        self.path.display(),
                        pool.name
                    ),
                    source,
                })?;
        }
        self.replace(survived, unfinished.path())
            .map_err(|error| host(&self.path, error))
    }

    /// Writes a pool beside its place, with the mode and the owner of the file that is there.
    fn write(&self, survived: &Survived, pool: &Pool, unfinished: &Path) -> io::Result<()> {
        let mut file = fs::File::create(unfinished.join(&pool.name))?;
        file.set_len(pool.size)?;
        survived.each_piece(pool, |offset, bytes| {
            if bytes.iter().any(|&byte| byte != 0) {
                file.seek(SeekFrom::Start(offset))?;
                file.write_all(bytes)?;
            }
            Ok(())
        })?;
        let Ok(before) = fs::symlink_metadata(self.path.join(&pool.name)) else {
            return Ok(());
        };
        if !before.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "what has its name there is no file",
            ));
        }
        // Who is not allowed to give files away becomes their owner.
        let _ = fchown(&file, Some(before.uid()), Some(before.gid()));
        file.set_permissions(before.permissions())
    }

    fn replace(&self, survived: &Survived, unfinished: &Path) -> io::Result<()> {
        let mut gone = self.names.clone();
        for pool in survived.pools() {
            gone.remove(&pool.name);
            fs::rename(unfinished.join(&pool.name), self.path.join(&pool.name))?;
        }
        for name in gone {
            match fs::remove_file(self.path.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A folder in a folder, for what is not whole yet; it goes with what is in it.
fn beside(path: &Path) -> io::Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix(".perdure-")
        .tempdir_in(path)
}

fn host(directory: &Path, source: io::Error) -> Error {
    Error::Host {
        what: format!("--pmem {}", directory.display()),
        source,
    }
}

fn make(directory: &Path) -> io::Result<()> {
    if directory.exists() && !directory.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "no directory"));
    }
    fs::create_dir_all(directory)
}

/// The regular files of a folder by their names, which is made if it is missing.
fn names(directory: &Path) -> io::Result<BTreeSet<String>> {
    make(directory)?;
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let name = entry.file_name().into_string().map_err(|name| {
                let words = format!("{}: the name is no UTF-8", name.display());
                io::Error::new(io::ErrorKind::InvalidData, words)
            })?;
            names.insert(name);
        }
    }
    Ok(names)
}

/// What a machine begins with that has a folder for its pools; each is put among what a run is given.
pub fn given(
    directory: Option<&Path>,
    specification: &Specification,
    given: &mut Vec<(String, Option<u32>)>,
) -> Result<Option<Arc<PoolSource>>, Error> {
    let Some(directory) = directory else {
        return Ok(None);
    };
    let beside = specification.modules.iter();
    let beside = beside.filter(|module| module.kind != RegionKind::Dram);
    let room = specification.nvm.bytes + beside.map(|module| module.media.bytes).sum::<u64>();
    let (mut files, mut left) = (Vec::new(), room);
    for name in names(directory).map_err(|error| host(directory, error))? {
        let file = read_pool(directory, name, &mut left);
        let file = file.map_err(|error| host(directory, error))?;
        let file = file.ok_or_else(|| too_large(directory, room))?;
        given.push((
            format!("the pool {}", file.name),
            Some(digest_of(&file, room)),
        ));
        files.push(file);
    }
    Ok(Some(Arc::new(PoolSource::Files(files))))
}

fn too_large(directory: &Path, room: u64) -> Error {
    Error::Request(format!(
        "--pmem {}: the pools have more than {room} bytes beside pages of zeros, which is what the machine \
         has of memory beside DRAM",
        directory.display()
    ))
}

/// A file of a folder; `None` if it has more than is left of the room for all. Nothing is read where the
/// file has a hole, which may be longer than the host's memory.
fn read_pool(directory: &Path, name: String, left: &mut u64) -> io::Result<Option<PoolFile>> {
    let mut file = fs::File::open(directory.join(&name))?;
    let size = file.metadata()?.len();
    if size > PoolFile::SIZE_MAX {
        let words = format!(
            "{name}: no file can be longer than {} bytes",
            PoolFile::SIZE_MAX
        );
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
    }
    let mut pieces = BTreeMap::new();
    let mut buffer = vec![0; PIECE_BYTES as usize];
    let mut at = 0;
    while let Some(data) = data_from(&file, at, size) {
        let bytes = &mut buffer[..(size - data).min(PIECE_BYTES) as usize];
        file.seek(SeekFrom::Start(data))?;
        file.read_exact(bytes)?;
        for (page, bytes) in (data / PAGE_BYTES..).zip(bytes.chunks(PAGE_BYTES as usize)) {
            if bytes.iter().all(|&byte| byte == 0) {
                continue;
            }
            match left.checked_sub(PAGE_BYTES) {
                Some(less) => *left = less,
                None => return Ok(None),
            }
            append(&mut pieces, page, bytes);
        }
        at = data + bytes.len() as u64;
    }
    Ok(Some(PoolFile { name, size, pieces }))
}

/// The first page from a place on that may be something else than zeros, as far as the host tells.
fn data_from(file: &fs::File, at: u64, size: u64) -> Option<u64> {
    if at >= size {
        return None;
    }
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(data) => (data < size).then_some(at.max(data / PAGE_BYTES * PAGE_BYTES)),
        Err(rustix::io::Errno::NXIO) => None,
        Err(_) => Some(at),
    }
}

/// Puts a page, the last of which a file may have a part, behind those before it.
fn append(pieces: &mut BTreeMap<u64, Vec<u8>>, page: u64, bytes: &[u8]) {
    let follows =
        |(first, piece): (&u64, &Vec<u8>)| first + piece.len() as u64 / PAGE_BYTES == page;
    let first = match pieces.last_key_value() {
        Some(last) if follows(last) => *last.0,
        _ => page,
    };
    let piece = pieces.entry(first).or_default();
    piece.extend(bytes);
    piece.resize(piece.len().next_multiple_of(PAGE_BYTES as usize), 0);
}

/// The digest of a pool: of all its bytes; of one that is longer than the machine's memory, of what is not
/// zeros, and where that is.
fn digest_of(pool: &PoolFile, room: u64) -> u32 {
    let mut hasher = XxHash3_64::new();
    let mut at = 0;
    for (page, bytes) in &pool.pieces {
        let start = page * PAGE_BYTES;
        if pool.size > room {
            hasher.write(&page.to_le_bytes());
        } else {
            hash_zeros(&mut hasher, start - at);
        }
        let bytes = &bytes[..bytes.len().min((pool.size - start) as usize)];
        hasher.write(bytes);
        at = start + bytes.len() as u64;
    }
    if pool.size > room {
        hasher.write(&pool.size.to_le_bytes());
    } else {
        hash_zeros(&mut hasher, pool.size - at);
    }
    hasher.finish() as u32
}

fn hash_zeros(hasher: &mut XxHash3_64, count: u64) {
    let zeros = [0; PAGE_BYTES as usize];
    let mut left = count;
    while left > 0 {
        let some = left.min(PAGE_BYTES);
        hasher.write(&zeros[..some as usize]);
        left -= some;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use perdure_hardware::arena::Arena;
    use perdure_linux::pools::Extent;

    use super::*;

    /// A file whose pages are zeros, or not, or holes; its bytes.
    fn file_at(path: &Path, pages: &[u8], length: u64) -> Vec<u8> {
        let mut bytes = vec![0; pages.len() * PAGE_BYTES as usize];
        let mut file = fs::File::create(path).unwrap();
        for (page, &fill) in bytes.chunks_mut(PAGE_BYTES as usize).zip(pages) {
            page.fill(fill);
            if fill == 0 {
                file.seek(SeekFrom::Current(PAGE_BYTES.cast_signed()))
                    .unwrap();
            } else {
                file.write_all(page).unwrap();
            }
        }
        file.set_len(length).unwrap();
        bytes.truncate(length as usize);
        bytes
    }

    /// Pools of one page each, full of their number.
    fn survived(names: &[&str]) -> Survived {
        let mut memory = Arena::new(names.len() as u64 * PAGE_BYTES).unwrap();
        let mut pools = Vec::new();
        for (frame, name) in (0..).zip(names) {
            memory.write(frame * PAGE_BYTES, &[frame as u8 + 1; PAGE_BYTES as usize]);
            pools.push(Pool {
                name: (*name).into(),
                size: PAGE_BYTES,
                mode: 0o644,
                modified_ns: 0,
                extents: vec![Extent {
                    page: 0,
                    frame,
                    pages: 1,
                }],
            });
        }
        Survived { memory, pools }
    }

    /// What a folder has: each name with the first byte and the mode.
    fn content(path: &Path) -> BTreeMap<String, (u8, u32)> {
        let one = |entry: io::Result<fs::DirEntry>| {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().mode() & 0o777;
            let first = fs::read(entry.path()).unwrap()[0];
            (entry.file_name().into_string().unwrap(), (first, mode))
        };
        fs::read_dir(path).unwrap().map(one).collect()
    }

    fn expected(files: &[(&str, u8, u32)]) -> BTreeMap<String, (u8, u32)> {
        let one = |&(name, first, mode): &(&str, u8, u32)| (name.to_owned(), (first, mode));
        files.iter().map(one).collect()
    }

    #[test]
    fn a_folder_has_what_survived_and_what_others_put_there() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["kept", "gone"] {
            fs::write(folder.path().join(name), "0").unwrap();
            let mode = PermissionsExt::from_mode(0o600);
            fs::set_permissions(folder.path().join(name), mode).unwrap();
        }
        let taken = Folder::take(folder.path()).unwrap();
        fs::write(folder.path().join("notes"), "mine").unwrap();
        let mode = PermissionsExt::from_mode(0o640);
        fs::set_permissions(folder.path().join("notes"), mode).unwrap();
        taken.put(&survived(&["kept"])).unwrap();
        let has = [("kept", 1, 0o600), ("notes", b'm', 0o640)];
        assert_eq!(content(folder.path()), expected(&has));
    }

    #[test]
    fn where_one_pool_cannot_be_written_all_stay_what_they_were() {
        for refused in ["a/b", "folder"] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("first"), "0").unwrap();
            if refused == "folder" {
                fs::create_dir(folder.path().join(refused)).unwrap();
            }
            let before = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
            let names = || fs::read_dir(folder.path()).unwrap().map(before);
            let all: BTreeSet<_> = names().collect();
            let taken = Folder::take(folder.path()).unwrap();
            let error = taken.put(&survived(&["first", refused])).unwrap_err();
            assert!(error.to_string().contains(refused), "{error}");
            assert_eq!(fs::read(folder.path().join("first")).unwrap(), b"0");
            assert_eq!(names().collect::<BTreeSet<_>>(), all);
        }
    }

    #[test]
    fn a_folder_is_taken_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let taken = Folder::take(folder.path()).unwrap();
        let error = Folder::take(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("another run has taken these pools"),
            "{error}"
        );
        drop(taken);
        Folder::take(folder.path()).unwrap();
    }

    #[test]
    fn a_pool_is_read_as_its_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let cases: [(&[u8], u64); 5] = [
            (&[], 0),
            (&[0, 0, 0], 9000),
            (&[1, 2, 0, 3], 4 * PAGE_BYTES - 5),
            (&[0, 7, 7, 0, 0, 9, 0], 6 * PAGE_BYTES + 1),
            (&[5; 300], 300 * PAGE_BYTES - 1),
        ];
        for (pages, length) in cases {
            let bytes = file_at(&folder.path().join("pool"), pages, length);
            let mut left = 300 * PAGE_BYTES;
            let pool = read_pool(folder.path(), "pool".into(), &mut left);
            let pool = pool.unwrap().expect("there is room");
            let taken = pages.iter().filter(|&&fill| fill != 0).count() as u64;
            assert_eq!(left, (300 - taken) * PAGE_BYTES);
            let mut read = vec![0; pages.len() * PAGE_BYTES as usize];
            for (page, piece) in &pool.pieces {
                let start = (page * PAGE_BYTES) as usize;
                read[start..start + piece.len()].copy_from_slice(piece);
            }
            assert_eq!(read[..length as usize], bytes);
            assert_eq!(digest_of(&pool, length), XxHash3_64::oneshot(&bytes) as u32);
            if length > 0 {
                let shorter = PoolFile {
                    size: length - 1,
                    ..pool.clone()
                };
                assert_ne!(digest_of(&pool, 0), digest_of(&shorter, 0));
            }
        }
        let pool = read_pool(folder.path(), "pool".into(), &mut (299 * PAGE_BYTES));
        assert!(pool.unwrap().is_none());
    }
}
