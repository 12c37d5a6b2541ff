//! Applying released files to host directories.
//!
//! Always true: nothing outside the target directories is written, whatever the guest named its
//! files and links and whatever links stand on the host; applying a record twice changes nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use crate::configuration::{Configuration, WORK_DIRECTORY};
use crate::release::Release;

/// Why a release could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file operation failed.
    #[error("{place}: {error}")]
    Io {
        /// The host path.
        place: String,
        /// What the host said.
        error: io::Error,
    },
    /// The guest's path leads out of its target.
    #[error(
        "{path}: refused, because {host} on the host is a symbolic link; remove it and run again"
    )]
    Link {
        /// The guest's path.
        path: String,
        /// The host's link.
        host: String,
    },
    /// The path is below no target, or not plain.
    #[error("{0}: refused, because it lies below none of the directories that are written to")]
    Outside(String),
}

/// A guest directory and the host directory that receives its files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    guest: String,
    host: PathBuf,
}

/// The host directories that receive the files of the guest's mounts.
#[derive(Clone, Debug)]
pub struct HostDirectories {
    targets: Vec<Target>,
}

impl HostDirectories {
    /// With `out`, the guest's working directory goes there and every other mount below it under
    /// its guest path; without, every mount's files go back to where they came from. Files of a
    /// mount that has no host directory are then refused.
    // Callers have no further use for the path.
    #[allow(clippy::needless_pass_by_value)]
    pub fn new(configuration: &Configuration, out: Option<PathBuf>) -> Self {
        let out = out.as_deref();
        let mounts = configuration.mounts.iter().map(|mount| Target {
            guest: mount.guest.trim_end_matches('/').to_owned(),
            host: match out {
                Some(out) => out.join(mount.guest.trim_matches('/')),
                None => mount.host.clone(),
            },
        });
        let mut targets: Vec<Target> = mounts.collect();
        if let Some(host) = out.or(configuration.work_directory.as_deref()) {
            let host = host.to_owned();
            targets.push(Target {
                guest: WORK_DIRECTORY.to_owned(),
                host,
            });
        }
        // The innermost mount wins.
        targets.sort_by_key(|target| std::cmp::Reverse(target.guest.len()));
        Self { targets }
    }

    /// Applies one record. Stream records are not for directories and change nothing.
    pub fn apply(&self, release: &Release) -> Result<(), HostError> {
        match release {
            Release::Stream { .. } => Ok(()),
            Release::File {
                path,
                size,
                mode,
                whole,
                pieces,
            } => {
                let host = self.place(path)?;
                at(&host, write_file(&host, *size, *mode, *whole, pieces))
            }
            Release::Link { path, target } => {
                let host = self.place(path)?;
                at(&host, remove(&host).and_then(|()| link(target, &host)))
            }
            Release::Removed { path } => {
                let host = self.place(path)?;
                at(&host, remove(&host))
            }
            Release::Directory { path } => {
                let host = self.place(path)?;
                at(&host, make_directory(&host))
            }
        }
    }

    /// The host path of a guest path, with the directories that lead to it made; none of them is
    /// a link.
    fn place(&self, path: &str) -> Result<PathBuf, HostError> {
        let outside = || HostError::Outside(path.to_owned());
        let (target, inner) = self
            .targets
            .iter()
            .find_map(|target| {
                let inner = path
                    .strip_prefix(target.guest.as_str())?
                    .strip_prefix('/')?;
                Some((target, Path::new(inner)))
            })
            .ok_or_else(outside)?;
        let plain = inner
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let name = inner.file_name().filter(|_| plain).ok_or_else(outside)?;
        let mut host = target.host.clone();
        at(&host, fs::create_dir_all(&host))?;
        for part in inner.parent().into_iter().flat_map(Path::components) {
            host.push(part);
            match fs::symlink_metadata(&host) {
                Ok(metadata) if metadata.is_symlink() => {
                    let host = host.display().to_string();
                    return Err(HostError::Link {
                        path: path.to_owned(),
                        host,
                    });
                }
                Ok(_) => {}
                Err(_) => at(&host, fs::create_dir(&host))?,
            }
        }
        Ok(host.join(name))
    }
}

fn at<T>(host: &Path, result: io::Result<T>) -> Result<T, HostError> {
    result.map_err(|error| HostError::Io {
        place: host.display().to_string(),
        error,
    })
}

/// Removes whatever stands at a path; nothing there is fine.
fn remove(host: &Path) -> io::Result<()> {
    let result = match fs::symlink_metadata(host) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(host),
        Ok(_) => fs::remove_file(host),
        Err(error) => Err(error),
    };
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn make_directory(host: &Path) -> io::Result<()> {
    match fs::symlink_metadata(host) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => fs::remove_file(host).and_then(|()| fs::create_dir(host)),
        Err(_) => fs::create_dir(host),
    }
}

fn write_file(
    host: &Path,
    size: u64,
    mode: u32,
    whole: bool,
    pieces: &[(u64, Vec<u8>)],
) -> io::Result<()> {
    // Never through a link, nor into a device.
    if fs::symlink_metadata(host).is_ok_and(|metadata| !metadata.is_file()) {
        remove(host)?;
    }
    let mut file = match OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(host)
    {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // A file that the guest made read-only and then went on writing.
            remove(host)?;
            OpenOptions::new().write(true).create_new(true).open(host)?
        }
        other => other?,
    };
    if whole {
        file.set_len(0)?;
    }
    for (offset, bytes) in pieces {
        file.seek(SeekFrom::Start(*offset))?;
        file.write_all(bytes)?;
    }
    file.set_len(size)?;
    set_mode(&file, mode)
}

#[cfg(unix)]
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    // The owner can always read and write, so that the next record finds its way in.
    file.set_permissions(fs::Permissions::from_mode(mode & 0o777 | 0o600))
}

#[cfg(not(unix))]
fn set_mode(_file: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn link(target: &str, host: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, host)
}

#[cfg(not(unix))]
fn link(_target: &str, _host: &Path) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "no symbolic links on this host",
    ))
}
