//! From a path to an inode. The kernel follows symbolic links itself, inside the guest's tree.

use super::{FileSystem, HostView, InodeId, Node};
use crate::errno::Errno;

const LINKS_MAX: u32 = 40;
const NAME_BYTES_MAX: usize = 255;

/// Where a path ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The directory that holds the last name.
    pub directory: InodeId,
    /// The last name; `.` for the root itself.
    pub name: String,
    /// What is there.
    pub inode: Option<InodeId>,
    /// The path ended in a slash, so it must be a directory.
    pub wants_directory: bool,
}

impl FileSystem {
    /// Follows `path` from the directory `start`. The last component's link is followed if
    /// `follow`. A missing last component is not an error here.
    pub fn walk(
        &mut self,
        host: &HostView,
        start: InodeId,
        path: &str,
        follow: bool,
    ) -> Result<Place, Errno> {
        let mut links = 0;
        self.walk_counted(host, start, path, follow, &mut links)
    }

    fn walk_counted(
        &mut self,
        host: &HostView,
        start: InodeId,
        path: &str,
        follow: bool,
        links: &mut u32,
    ) -> Result<Place, Errno> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let mut at = if path.starts_with('/') {
            self.root
        } else {
            start
        };
        let wants_directory = path.ends_with('/') || path.ends_with("/.") || path == ".";
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        if parts.peek().is_none() {
            return Ok(Place {
                directory: at,
                name: ".".to_owned(),
                inode: Some(at),
                wants_directory: true,
            });
        }
        while let Some(part) = parts.next() {
            if part.len() > NAME_BYTES_MAX {
                return Err(Errno::ENAMETOOLONG);
            }
            let directory = self.inode(at)?;
            if !directory.is_directory() {
                return Err(Errno::ENOTDIR);
            }
            if directory.mode & 0o100 == 0 {
                return Err(Errno::EACCES);
            }
            let last = parts.peek().is_none();
            let child = self.child(host, at, part)?;
            let Some(id) = child else {
                if last {
                    return Ok(Place {
                        directory: at,
                        name: part.to_owned(),
                        inode: None,
                        wants_directory,
                    });
                }
                return Err(Errno::ENOENT);
            };
            let target = match &self.inode(id)?.node {
                Node::Link(target) if !last || follow || wants_directory => Some(target.clone()),
                _ => None,
            };
            if let Some(target) = target {
                *links += 1;
                if *links > LINKS_MAX {
                    return Err(Errno::ELOOP);
                }
                let end = self.walk_counted(host, at, &target, true, links)?;
                if last {
                    return Ok(Place {
                        wants_directory: wants_directory || end.wants_directory,
                        ..end
                    });
                }
                at = end.inode.ok_or(Errno::ENOENT)?;
            } else if last {
                if wants_directory && !self.inode(id)?.is_directory() {
                    return Err(Errno::ENOTDIR);
                }
                return Ok(Place {
                    directory: at,
                    name: part.to_owned(),
                    inode: Some(id),
                    wants_directory,
                });
            } else {
                at = id;
            }
        }
        Err(Errno::ENOENT)
    }

    /// Like [`FileSystem::walk`] for something that must be there.
    pub fn find(
        &mut self,
        host: &HostView,
        start: InodeId,
        path: &str,
        follow: bool,
    ) -> Result<InodeId, Errno> {
        self.walk(host, start, path, follow)?
            .inode
            .ok_or(Errno::ENOENT)
    }
}
