//! From a path to an inode. The kernel follows symbolic links itself, inside the guest's tree.

use std::collections::BTreeMap;

use super::inode::{Device, ProcessLink};
use super::spelling::length_of;
use super::{DirectoryNode, FileSystem, HostView, InodeId, Node};
use crate::errno::Errno;
use crate::machine::ThreadId;
use crate::process::{ProcessId, Processes};
use crate::thread::Thread;
use crate::vfs::descriptor::OpenFiles;

pub(super) const LINKS_MAX: u32 = 40;
const NAME_BYTES_MAX: usize = 255;

/// How far `openat2` lets a path lead (its `RESOLVE_*`).
pub(crate) const NO_MAGIC_LINKS: u64 = 0x02;
pub(crate) const NO_LINKS: u64 = 0x04;
pub(crate) const BENEATH: u64 = 0x08;
pub(crate) const IN_ROOT: u64 = 0x10;

/// Who looks: `/proc` shows each process itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewer<'a> {
    pub process: ProcessId,
    pub thread: ThreadId,
    /// Whose directory in `/proc` the look begins in.
    pub subject: Option<ProcessId>,
    /// Whose below `/proc/PID/task`.
    pub task: Option<ThreadId>,
    pub processes: &'a Processes,
    pub open: &'a OpenFiles,
    /// The threads, whose numbers lead to their processes though no list has them.
    pub threads: Option<&'a BTreeMap<ThreadId, Thread>>,
    /// What the path must not do.
    pub resolve: u64,
}

impl<'a> Viewer<'a> {
    /// Whose look begins nowhere in particular, and may lead anywhere.
    pub fn new(
        (process, thread): (ProcessId, ThreadId),
        processes: &'a Processes,
        open: &'a OpenFiles,
    ) -> Self {
        Self {
            process,
            thread,
            subject: None,
            task: None,
            processes,
            open,
            threads: None,
            resolve: 0,
        }
    }

    /// Nobody in particular, while the kernel itself looks.
    pub fn nobody(processes: &'a Processes, open: &'a OpenFiles) -> Self {
        Self::new((ProcessId::default(), ThreadId(0)), processes, open)
    }
}

/// Where a path ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The process whose directory in `/proc` the path led through.
    pub subject: Option<ProcessId>,
    /// The thread whose directory below `/proc/PID/task` it led through.
    pub task: Option<ThreadId>,
    /// The directory that holds the last name.
    pub directory: InodeId,
    /// The last name; `.` for the root itself.
    pub name: String,
    /// What is there.
    pub inode: Option<InodeId>,
    /// The path ended in a slash, so it must be a directory.
    pub wants_directory: bool,
    /// It is the link of a descriptor, in the directory that `inode` is, and points there.
    pub descriptor: Option<DescriptorLink>,
}

/// The process whose directory in `/proc` a path leads through.
pub(crate) fn subject_of(path: &str) -> Option<ProcessId> {
    let (number, _) = path.strip_prefix("/proc/")?.split_once('/')?;
    number.parse().ok().map(ProcessId)
}

/// The thread whose directory in `/proc/PID/task` a path leads through.
pub(crate) fn task_of(path: &str) -> Option<ThreadId> {
    let (_, task) = path.strip_prefix("/proc/")?.split_once('/')?;
    let (number, _) = task.strip_prefix("task/")?.split_once('/')?;
    number.parse().ok().map(ThreadId)
}

/// A link below `/proc/PID/fd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorLink {
    pub number: u32,
    pub target: String,
}

impl FileSystem {
    /// Follows `path` from the directory `start`. The last component's link is followed if
    /// `follow`. A missing last component is not an error here.
    pub fn walk(
        &mut self,
        host: &HostView,
        viewer: Viewer,
        start: InodeId,
        path: &str,
        follow: bool,
    ) -> Result<Place, Errno> {
        let mut walk = Walk {
            host,
            viewer,
            links: 0,
            base: start,
            subject: viewer.subject,
            task: viewer.task,
        };
        walk.follow(self, start, path, follow)
    }

    /// What `/dev` gets when somebody asks for pseudo-terminals.
    fn terminal_name(&mut self, directory: InodeId, name: &str) -> Result<Option<InodeId>, Errno> {
        if self.directory_path(directory) != "/dev" {
            return Ok(None);
        }
        let (node, mode) = match name {
            "ptmx" => (Node::Device(Device::Master), 0o666),
            _ => (DirectoryNode::empty(directory, name, None), 0o755),
        };
        let id = self.create(node, mode, self.start_ns);
        self.enter(directory, name, id)?;
        Ok(Some(id))
    }

    /// Where a link points, seen by somebody, on a path about `subject`; `None` if it is no link.
    pub fn link_target(
        &self,
        id: InodeId,
        viewer: Viewer,
        subject: Option<ProcessId>,
    ) -> Result<Option<String>, Errno> {
        let own = viewer.process.0;
        Ok(match &self.inode(id)?.node {
            Node::Link(target) => Some(target.clone()),
            Node::ProcessLink(ProcessLink::Itself) => Some(own.to_string()),
            Node::ProcessLink(ProcessLink::Thread) => {
                Some(format!("{own}/task/{}", viewer.thread.0))
            }
            Node::ProcessLink(ProcessLink::Executable) => {
                let about = viewer.processes.get(subject.unwrap_or(viewer.process));
                let executable = &about.ok_or(Errno::ENOENT)?.executable;
                // The first program's is what somebody wrote.
                let real = self.real_path(executable);
                Some(real.unwrap_or_else(|| executable.clone()))
            }
            Node::ProcessLink(ProcessLink::Directory) => {
                let about = viewer.processes.get(subject.unwrap_or(viewer.process));
                Some(self.directory_path(about.ok_or(Errno::ENOENT)?.directory))
            }
            Node::ProcessLink(ProcessLink::Namespace(target)) => match self.inode(*target)?.node {
                Node::Namespace(namespace) => Some(namespace.text()),
                _ => None,
            },
            _ => None,
        })
    }

    /// Like [`FileSystem::walk`] for something that must be there.
    pub fn find(
        &mut self,
        host: &HostView,
        viewer: Viewer,
        start: InodeId,
        path: &str,
        follow: bool,
    ) -> Result<InodeId, Errno> {
        self.walk(host, viewer, start, path, follow)?
            .inode
            .ok_or(Errno::ENOENT)
    }
}

/// A path being followed.
struct Walk<'a> {
    host: &'a HostView,
    viewer: Viewer<'a>,
    /// Symbolic links met so far.
    links: u32,
    /// Where the path began.
    base: InodeId,
    subject: Option<ProcessId>,
    task: Option<ThreadId>,
}

impl Walk<'_> {
    /// What a name in a directory is.
    fn place(&self, directory: InodeId, name: &str, inode: Option<InodeId>) -> Place {
        Place {
            subject: self.subject,
            task: self.task,
            directory,
            name: name.to_owned(),
            inode,
            wants_directory: false,
            descriptor: None,
        }
    }

    /// The inode of a name in a directory; of the numbers in `/proc`, all that are processes.
    fn child(
        &mut self,
        files: &mut FileSystem,
        directory: InodeId,
        name: &str,
    ) -> Result<Option<InodeId>, Errno> {
        if directory == files.processes || directory == files.tasks {
            let number = name.parse::<u32>();
            let number = number.ok().filter(|number| number.to_string() == name);
            if let Some(number) = number {
                if directory == files.tasks {
                    self.task = Some(ThreadId(number));
                    return if self.is_task(number) {
                        files.child(self.host, directory, "1")
                    } else {
                        Ok(None)
                    };
                }
                let id = ProcessId(number);
                self.subject = Some(id);
                if self.viewer.processes.exists(id) {
                    return Ok(Some(files.process));
                }
                let all = self.viewer.threads;
                let thread = all.and_then(|threads| threads.get(&ThreadId(number)));
                self.task = thread.map(|thread| thread.id);
                self.subject = thread.map(|thread| thread.process);
                return Ok(thread.map(|_| files.process));
            }
        }
        if files.is_descriptor_info(directory) {
            let Ok(number) = name.parse::<u32>() else {
                return Ok(None);
            };
            let about = self.subject.unwrap_or(self.viewer.process);
            let process = self.viewer.processes.get(about);
            let exists = process.is_some_and(|process| process.descriptors.get(number).is_some());
            return if exists && number.to_string() == name {
                files.make_descriptor_info(directory, number).map(Some)
            } else {
                Ok(None)
            };
        }
        let found = files.child(self.host, directory, name)?;
        if found.is_none() && matches!(name, "ptmx" | "pts") {
            return files.terminal_name(directory, name);
        }
        Ok(found)
    }

    /// True unless no thread of the process whose directory this is has the number. Its first one is there
    /// for as long as the process is.
    fn is_task(&self, number: u32) -> bool {
        let about = self.subject.unwrap_or(self.viewer.process);
        let lives = |threads: &BTreeMap<ThreadId, Thread>| {
            let thread = threads.get(&ThreadId(number));
            thread.is_some_and(|thread| thread.process == about)
        };
        number == about.0 || self.viewer.threads.is_none_or(lives)
    }

    /// What a name in `/proc/PID/fd` stands for: the link itself, or the file that is open.
    fn descriptor(
        &mut self,
        files: &mut FileSystem,
        directory: InodeId,
        name: &str,
        to_link: bool,
    ) -> Result<Place, Errno> {
        let mut place = self.place(directory, name, None);
        match name {
            "." => place.inode = Some(directory),
            ".." => place.inode = Some(files.process),
            _ => {}
        }
        if place.inode.is_some() {
            return Ok(place);
        }
        let about = self.subject.unwrap_or(self.viewer.process);
        let process = self.viewer.processes.get(about).ok_or(Errno::ENOENT)?;
        let number = name.parse::<u32>().map_err(|_| Errno::ENOENT)?;
        let found = process.descriptors.get(number);
        let file = found.and_then(|found| self.viewer.open.files.get(found.file));
        let file = file.ok_or(Errno::ENOENT)?;
        if to_link {
            place.inode = Some(directory);
            let target = file.path.clone();
            place.descriptor = Some(DescriptorLink { number, target });
            return Ok(place);
        }
        self.check_magic()?;
        place.inode = file.inode();
        // The name that it was opened by, if that still leads there.
        if file.path.starts_with('/') {
            let by_name = self.follow(files, files.root, &file.path, true);
            if let Ok(by_name) = by_name
                && by_name.inode == place.inode
            {
                return Ok(by_name);
            }
        }
        Ok(place)
    }

    /// Fails if no link may lead where no path leads.
    fn check_magic(&self) -> Result<(), Errno> {
        if self.viewer.resolve & (NO_MAGIC_LINKS | NO_LINKS) != 0 {
            return Err(Errno::ELOOP);
        }
        if self.viewer.resolve & (BENEATH | IN_ROOT) != 0 {
            return Err(Errno::EXDEV);
        }
        Ok(())
    }

    /// Where a link in a directory ends.
    fn behind(
        &mut self,
        files: &mut FileSystem,
        directory: InodeId,
        (link, target): (InodeId, &str),
    ) -> Result<Place, Errno> {
        match files.inode(link)?.node {
            Node::ProcessLink(ProcessLink::Namespace(namespace)) => {
                self.check_magic()?;
                return Ok(self.place(directory, target, Some(namespace)));
            }
            Node::ProcessLink(ProcessLink::Executable | ProcessLink::Directory) => {
                self.check_magic()?;
            }
            _ => {}
        }
        self.follow(files, directory, target, true)
    }

    fn follow(
        &mut self,
        files: &mut FileSystem,
        start: InodeId,
        path: &str,
        follow: bool,
    ) -> Result<Place, Errno> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let resolve = self.viewer.resolve;
        let absolute = path.starts_with('/');
        if absolute && resolve & BENEATH != 0 {
            return Err(Errno::EXDEV);
        }
        let mut at = if !absolute {
            start
        } else if resolve & IN_ROOT != 0 {
            self.base
        } else {
            files.root
        };
        let wants_directory = path.ends_with('/') || path.ends_with("/.") || path == ".";
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        if parts.peek().is_none() {
            return Ok(Place {
                wants_directory: true,
                ..self.place(at, ".", Some(at))
            });
        }
        while let Some(part) = parts.next() {
            if length_of(part) > NAME_BYTES_MAX {
                return Err(Errno::ENAMETOOLONG);
            }
            let directory = files.inode(at)?;
            if !directory.is_directory() {
                return Err(Errno::ENOTDIR);
            }
            if directory.mode & 0o100 == 0 {
                return Err(Errno::EACCES);
            }
            let last = parts.peek().is_none();
            if matches!(directory.node, Node::DescriptorDirectory) {
                let to_link = last && !follow && !wants_directory;
                let place = self.descriptor(files, at, part, to_link)?;
                if last {
                    return Ok(place);
                }
                at = place.inode.ok_or(Errno::ENOENT)?;
                continue;
            }
            let up = part == ".." && at == self.base;
            if up && resolve & BENEATH != 0 {
                return Err(Errno::EXDEV);
            }
            let part = if up && resolve & IN_ROOT != 0 {
                "."
            } else {
                part
            };
            let child = self.child(files, at, part)?;
            let Some(id) = child else {
                if last {
                    return Ok(Place {
                        wants_directory,
                        ..self.place(at, part, None)
                    });
                }
                return Err(Errno::ENOENT);
            };
            let target = if !last || follow || wants_directory {
                files.link_target(id, self.viewer, self.subject)?
            } else {
                None
            };
            if let Some(target) = target {
                self.links += 1;
                if self.links > LINKS_MAX || resolve & NO_LINKS != 0 {
                    return Err(Errno::ELOOP);
                }
                let end = self.behind(files, at, (id, &target))?;
                if last {
                    return Ok(Place {
                        wants_directory: wants_directory || end.wants_directory,
                        ..end
                    });
                }
                at = end.inode.ok_or(Errno::ENOENT)?;
            } else if last {
                if wants_directory && !files.inode(id)?.is_directory() {
                    return Err(Errno::ENOTDIR);
                }
                return Ok(Place {
                    wants_directory,
                    ..self.place(at, part, Some(id))
                });
            } else {
                at = id;
            }
        }
        Err(Errno::ENOENT)
    }
}
