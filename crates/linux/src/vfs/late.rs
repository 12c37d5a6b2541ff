//! Files of `/proc` and `/sys` that take no room before somebody asks for them.
//!
//! Always true: what stands here becomes inodes when its name is first looked up, so that a program
//! that never looks there has the inodes that it had without it.

use super::inode::{ProcessLink, Report};
use super::{DirectoryNode, FileSystem, InodeId, Node};
use crate::errno::Errno;

/// What such a file says.
enum Says {
    Report(Report),
    Text(&'static str),
    /// A directory, whose names follow from the process.
    Directory,
    Link(ProcessLink),
}

/// A directory that is there from the start, what is made in it, and what that says. The directories
/// between are made, too.
const LATE: [(&str, &str, Says); 35] = [
    ("/proc/1", "fdinfo", Says::Directory),
    ("/proc/1", "cwd", Says::Link(ProcessLink::Directory)),
    ("/proc/1", "io", Says::Report(Report::Transfers)),
    ("/proc/1", "oom_score", Says::Text("0\n")),
    ("/proc/1", "mountinfo", Says::Report(Report::MountInfo)),
    ("/proc/1", "smaps", Says::Report(Report::MapsInFull)),
    (
        "/proc/1",
        "smaps_rollup",
        Says::Report(Report::MapsTogether),
    ),
    ("/proc", "cmdline", Says::Text("\n")),
    ("/proc", "diskstats", Says::Text("")),
    ("/proc", "sysvipc/msg", Says::Report(Report::Queues)),
    ("/proc", "sysvipc/sem", Says::Report(Report::Semaphores)),
    ("/proc", "sysvipc/shm", Says::Report(Report::Segments)),
    ("/proc", "vmstat", Says::Report(Report::VirtualMemory)),
    ("/proc/sys", "fs/file-max", Says::Text("16384\n")),
    ("/proc/sys", "fs/nr_open", Says::Text("4096\n")),
    ("/proc/sys", "fs/mqueue/msg_max", Says::Text("10\n")),
    ("/proc/sys", "fs/mqueue/msg_default", Says::Text("10\n")),
    ("/proc/sys", "fs/mqueue/msgsize_max", Says::Text("8192\n")),
    (
        "/proc/sys",
        "fs/mqueue/msgsize_default",
        Says::Text("8192\n"),
    ),
    ("/proc/sys", "fs/mqueue/queues_max", Says::Text("256\n")),
    ("/proc/sys", "fs/aio-max-nr", Says::Text("65536\n")),
    ("/proc/sys", "fs/aio-nr", Says::Report(Report::Requests)),
    (KERNEL, "shmmax", Says::Text("1099511627776\n")),
    (KERNEL, "shmall", Says::Text("268435456\n")),
    (KERNEL, "shmmni", Says::Text("4096\n")),
    (KERNEL, "sem", Says::Text("32000\t65536\t500\t4096\n")),
    (KERNEL, "msgmax", Says::Text("8192\n")),
    (KERNEL, "msgmnb", Says::Text("16384\n")),
    (KERNEL, "msgmni", Says::Text("4096\n")),
    (KERNEL, "cap_last_cap", Says::Text("40\n")),
    (SYSTEM, "node/node0/cpulist", Says::Report(Report::Harts)),
    (SYSTEM, "node/node0/cpumap", Says::Report(Report::HartMask)),
    (SYSTEM, "node/has_memory", Says::Text("0\n")),
    (SYSTEM, "node/online", Says::Text("0\n")),
    (SYSTEM, "node/possible", Says::Text("0\n")),
];
const KERNEL: &str = "/proc/sys/kernel";
const SYSTEM: &str = "/sys/devices/system";

impl FileSystem {
    /// Makes what stands here under a name that a directory has not: a file, or a directory with all
    /// that is below it.
    pub fn make_late(&mut self, directory: InodeId, name: &str) -> Result<Option<InodeId>, Errno> {
        // Nearly every look-up ends here: it is not for any of these.
        let begins = |rest: &str| rest.split('/').next() == Some(name);
        if !LATE.iter().any(|(_, rest, _)| begins(rest)) {
            return Ok(None);
        }
        let path = self.directory_path(directory);
        let mut made = None;
        let here = LATE
            .iter()
            .filter(|(parent, rest, _)| *parent == path && begins(rest));
        for (_, rest, says) in here {
            let mut at = directory;
            let mut parts = rest.split('/').peekable();
            while let Some(part) = parts.next() {
                let known = self.directory(at)?.entries.get(part).copied().flatten();
                let next = if let Some(known) = known {
                    known
                } else {
                    let is_file = parts.peek().is_none();
                    let (node, mode) = match says {
                        Says::Directory => (DirectoryNode::empty(at, part, None), 0o500),
                        _ if !is_file => (DirectoryNode::empty(at, part, None), 0o555),
                        Says::Report(report) => (Node::Report(*report), 0o444),
                        Says::Link(link) => (Node::ProcessLink(*link), 0o777),
                        Says::Text(text) => (Node::Fixed((*text).to_owned()), 0o444),
                    };
                    let id = self.create(node, mode, self.start_ns);
                    self.enter(at, part, id)?;
                    id
                };
                made.get_or_insert(next);
                at = next;
            }
        }
        Ok(made)
    }

    /// True if a directory is the one about every process's descriptors.
    pub fn is_descriptor_info(&self, directory: InodeId) -> bool {
        let node = self.directory(directory);
        node.is_ok_and(|node| node.name == "fdinfo" && node.parent == self.process)
    }

    /// What is said of a descriptor, by its number.
    pub fn make_descriptor_info(
        &mut self,
        directory: InodeId,
        number: u32,
    ) -> Result<InodeId, Errno> {
        let name = number.to_string();
        let known = self.directory(directory)?.entries.get(&name);
        if let Some(known) = known.copied().flatten() {
            return Ok(known);
        }
        let node = Node::Report(Report::Descriptor(number));
        let id = self.create(node, 0o444, self.start_ns);
        self.enter(directory, &name, id)?;
        Ok(id)
    }
}
