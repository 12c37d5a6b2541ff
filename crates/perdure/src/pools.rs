//! Pools between a folder of the host and a machine's persistent memory.
//!
//! Always true here:
//! - What the folder gets is what persistent memory has when the power is gone and recovery is done: no
//!   cache, no queue outside the persistence domain and no state of the kernel has a part in it.
//! - Of the folder, only regular files are touched, all of which the machine began with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::Hasher;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use perdure_hardware::arena::Arena;
use perdure_hardware::line::{LINE_BYTES, Line};
use perdure_hardware::physical_map::RegionKind;
use perdure_hardware::specification::Specification;
use perdure_hardware::time::Cycles;
use perdure_linux::PAGE_BYTES;
use perdure_linux::pools::{Pool, PoolFile, PoolSource, surviving};
use serde_json::{Map, Value, json};
use twox_hash::XxHash3_64;

use crate::error::Error;
use crate::machine::Machine;
use crate::mistakes::Mistake;
use crate::verify;

/// So much of a file is read at once.
const PIECE_BYTES: u64 = 1 << 20;

fn host(directory: &Path, source: io::Error) -> Error {
    Error::Host {
        what: format!("--pmem {}", directory.display()),
        source,
    }
}

/// The regular files of a folder by their names, which is made if it is missing.
fn names(directory: &Path) -> io::Result<BTreeSet<String>> {
    if directory.exists() && !directory.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "no directory"));
    }
    fs::create_dir_all(directory)?;
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

/// Gives a folder, if there is one, what survives when the run is over: the machine is left to itself until
/// its memory is done, and then loses its power. The result says what.
pub fn keep(
    machine: &mut Machine,
    directory: Option<&Path>,
    result: &mut Map<String, Value>,
) -> Result<(), Error> {
    let at = machine.time().max(machine.hardware.memory.quiet_at());
    let Some(survived) = Survived::cut(machine, at, 0)? else {
        return Ok(());
    };
    if let Some(directory) = directory {
        survived.put(directory)?;
    }
    let changed = machine.kernel().pools().map(|(_, changed)| changed);
    let told = json!({"survived": survived.to_json(), "not_synchronised": changed});
    result.insert("pools".into(), told);
    Ok(())
}

/// What survived: the memory, and the pools that it has.
#[derive(Debug)]
pub struct Survived {
    memory: Arena,
    pools: Vec<Pool>,
}

impl Survived {
    /// The pools of a memory whose power was cut.
    pub fn of(memory: Arena, addresses: &Range<u64>) -> Result<Self, Error> {
        let pools = surviving(addresses, &mut |address, buffer| {
            buffer.copy_from_slice(&memory.slice(address, buffer.len()));
        });
        let pools = pools.map_err(|error| Error::Defect(format!("after the cut: {error}")))?;
        Ok(Self { memory, pools })
    }

    /// Those of a machine whose power is cut, which is as before then; `None` if it has none.
    pub fn cut(machine: &mut Machine, at: Cycles, tear_seed: u64) -> Result<Option<Self>, Error> {
        let Some((addresses, _)) = machine.kernel().pools() else {
            return Ok(None);
        };
        let mut memory = verify::recovered_image(machine, at, tear_seed)?.memory;
        if machine.mistake == Some(Mistake::ReadsPoolsBack) {
            let overwrite = &mut |line: u64, newest: &Line| {
                memory.write_line(line * LINE_BYTES as u64, newest);
            };
            machine.hardware.newer_lines(&*machine.design, overwrite);
        }
        Self::of(memory, &addresses).map(Some)
    }

    /// All bytes of a pool.
    pub fn bytes(&self, pool: &Pool) -> Vec<u8> {
        let mut bytes = vec![0; pool.size as usize];
        self.each_piece(pool, |offset, piece| {
            bytes[offset as usize..offset as usize + piece.len()].copy_from_slice(piece);
            Ok(())
        })
        .expect("nothing refuses a piece");
        bytes
    }

    /// The pools.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Calls `take(offset, bytes)` for what a pool's pages have within its length.
    fn each_piece(
        &self,
        pool: &Pool,
        mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for extent in &pool.extents {
            for number in 0..extent.pages {
                let offset = (extent.page + number) * PAGE_BYTES;
                let length = pool.size.saturating_sub(offset).min(PAGE_BYTES);
                let frame = (extent.frame + number) * PAGE_BYTES;
                take(offset, &self.memory.slice(frame, length as usize))?;
            }
        }
        Ok(())
    }

    /// Makes the files of a folder those that survived.
    pub fn put(&self, directory: &Path) -> Result<(), Error> {
        self.replace(directory)
            .map_err(|error| host(directory, error))
    }

    fn replace(&self, directory: &Path) -> io::Result<()> {
        let mut gone = names(directory)?;
        for pool in &self.pools {
            gone.remove(&pool.name);
            let unfinished: PathBuf = directory.join(format!(".{}.unfinished", std::process::id()));
            let mut file = fs::File::create(&unfinished)?;
            file.set_len(pool.size)?;
            self.each_piece(pool, |offset, bytes| {
                if bytes.iter().any(|&byte| byte != 0) {
                    file.seek(SeekFrom::Start(offset))?;
                    file.write_all(bytes)?;
                }
                Ok(())
            })?;
            fs::rename(&unfinished, directory.join(&pool.name))?;
        }
        gone.into_iter()
            .try_for_each(|name| fs::remove_file(directory.join(name)))
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let pool = |pool: &Pool| json!({"name": pool.name, "size": pool.size});
        self.pools.iter().map(pool).collect()
    }
}

#[cfg(test)]
mod tests {
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
