//! Files of `/proc` and `/sys` that take no room before somebody asks for them.
//!
//! Always true: what stands here becomes inodes when its name is first looked up, so that a program
//! that never looks there has the inodes that it had without it.

use super::inode::{ProcessLink, Report};
use super::namespaces::NAMESPACES;
use super::report::{list_of, mask_of};
use super::{DirectoryNode, FileSystem, HostView, InodeId, Node};
use crate::configuration::{CacheKind, CpuCache};
use crate::errno::Errno;

/// What such a file says.
enum Says {
    Report(Report),
    Text(&'static str),
    /// A directory, whose names follow from the process.
    Directory,
    Link(ProcessLink),
    /// A link whose target is a path.
    To(&'static str),
}

/// A directory that is there from the start, what is made in it, and what that says. The directories
/// between are made, too.
const LATE: [(&str, &str, Says); 80] = [
    (PROCESS, "fdinfo", Says::Directory),
    (PROCESS, "cwd", Says::Link(ProcessLink::Directory)),
    (PROCESS, "io", Says::Report(Report::Transfers)),
    (PROCESS, "oom_score", Says::Text("0\n")),
    (PROCESS, "mountinfo", Says::Report(Report::MountInfo)),
    (PROCESS, "smaps", Says::Report(Report::MapsInFull)),
    (PROCESS, "smaps_rollup", Says::Report(Report::MapsTogether)),
    (THREAD, "cmdline", Says::Report(Report::CommandLine)),
    (THREAD, "comm", Says::Report(Report::Name)),
    (THREAD, "environ", Says::Report(Report::Environment)),
    (THREAD, "stat", Says::Report(Report::Stat)),
    (THREAD, "statm", Says::Report(Report::Statm)),
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
    (PROCESS, "coredump_filter", Says::Text("00000033\n")),
    (PROCESS, "gid_map", Says::Text(EVERYBODY)),
    (PROCESS, "loginuid", Says::Text("4294967295")),
    (PROCESS, "net", Says::To("/proc/net")),
    (PROCESS, "sessionid", Says::Text("4294967295")),
    (PROCESS, "setgroups", Says::Text("allow\n")),
    (PROCESS, "uid_map", Says::Text(EVERYBODY)),
    ("/proc", "locks", Says::Report(Report::Locks)),
    ("/proc", "modules", Says::Text("")),
    (
        "/proc",
        "partitions",
        Says::Text("major minor  #blocks  name\n\n"),
    ),
    (
        "/proc/net",
        "if_inet6",
        Says::Text("00000000000000000000000000000001 01 80 10 80       lo\n"),
    ),
    (
        "/proc/sys",
        "fs/inotify/max_queued_events",
        Says::Text("16384\n"),
    ),
    (
        "/proc/sys",
        "fs/inotify/max_user_instances",
        Says::Text("128\n"),
    ),
    (
        "/proc/sys",
        "fs/inotify/max_user_watches",
        Says::Text("65536\n"),
    ),
    ("/proc/sys", "fs/pipe-max-size", Says::Text("1048576\n")),
    ("/proc/sys", "net/core/rmem_default", Says::Text("212992\n")),
    ("/proc/sys", "net/core/rmem_max", Says::Text("212992\n")),
    ("/proc/sys", "net/core/somaxconn", Says::Text("4096\n")),
    ("/proc/sys", "net/core/wmem_default", Says::Text("212992\n")),
    ("/proc/sys", "net/core/wmem_max", Says::Text("212992\n")),
    (
        "/proc/sys",
        "net/ipv4/ip_local_port_range",
        Says::Text("32768\t60999\n"),
    ),
    (KERNEL, "core_pattern", Says::Text("core\n")),
    (KERNEL, "domainname", Says::Text("(none)\n")),
    (KERNEL, "randomize_va_space", Says::Text("0\n")),
    (KERNEL, "tainted", Says::Text("0\n")),
    (KERNEL, "version", Says::Text("#1 SMP\n")),
    (
        "/sys",
        "class/net/lo/address",
        Says::Text("00:00:00:00:00:00\n"),
    ),
    ("/sys", "class/net/lo/flags", Says::Text("0x9\n")),
    ("/sys", "class/net/lo/ifindex", Says::Text("1\n")),
    ("/sys", "class/net/lo/mtu", Says::Text("65536\n")),
    ("/sys", "class/net/lo/operstate", Says::Text("unknown\n")),
    ("/sys", "class/net/lo/type", Says::Text("772\n")),
    (SYSTEM, "node/node0/cpulist", Says::Report(Report::Harts)),
    (SYSTEM, "node/node0/cpumap", Says::Report(Report::HartMask)),
    (SYSTEM, "node/has_memory", Says::Text("0\n")),
    (SYSTEM, "node/online", Says::Text("0\n")),
    (SYSTEM, "node/possible", Says::Text("0\n")),
    // Those of a directory that is there are made each by itself.
    ("/proc/sys/vm", "nr_hugepages", Says::Text("0\n")),
    ("/proc/sys/vm", "overcommit_ratio", Says::Text("50\n")),
    ("/proc/sys/vm", "swappiness", Says::Text("60\n")),
    (RANDOM, "entropy_avail", Says::Text("256\n")),
    (RANDOM, "poolsize", Says::Text("256\n")),
    (KERNEL, "arch", Says::Text("riscv64\n")),
    (KERNEL, "overflowgid", Says::Text("65534\n")),
    (KERNEL, "overflowuid", Says::Text("65534\n")),
];
/// There is one namespace.
const EVERYBODY: &str = "         0          0 4294967295\n";
const PROCESS: &str = "/proc/1";
const THREAD: &str = "/proc/1/task/1";
const KERNEL: &str = "/proc/sys/kernel";
const RANDOM: &str = "/proc/sys/kernel/random";
const SYSTEM: &str = "/sys/devices/system";

/// What is said of each hart beside its number: every one is a core by itself, and all are in one package.
const TOPOLOGY: [(&str, Among); 9] = [
    ("physical_package_id", Among::Packages),
    ("thread_siblings", Among::Core),
    ("thread_siblings_list", Among::Core),
    ("core_cpus", Among::Core),
    ("core_cpus_list", Among::Core),
    ("core_siblings", Among::Package),
    ("core_siblings_list", Among::Package),
    ("package_cpus", Among::Package),
    ("package_cpus_list", Among::Package),
];

/// Whose numbers such a file has.
#[derive(Clone, Copy)]
enum Among {
    Core,
    Package,
    Packages,
}

impl FileSystem {
    /// Makes what stands here under a name that a directory has not: a file, or a directory with all
    /// that is below it.
    pub fn make_late(
        &mut self,
        host: &HostView,
        directory: InodeId,
        name: &str,
    ) -> Result<Option<InodeId>, Errno> {
        // Nearly every look-up ends here: it is not for any of these.
        let begins = |rest: &str| rest.split('/').next() == Some(name);
        let of_hart = TOPOLOGY.iter().find(|(known, _)| *known == name);
        let is_special = matches!(name, "cache" | "ns") || of_hart.is_some();
        if !is_special && !LATE.iter().any(|(_, rest, _)| begins(rest)) {
            return Ok(None);
        }
        let path = self.directory_path(directory);
        if let Some(&(_, among)) = of_hart {
            return self.make_topology(directory, &path, (name, among));
        }
        if let Some(hart) = hart_of(&path).filter(|_| name == "cache") {
            return self.make_caches(host.caches(), directory, hart);
        }
        if name == "ns" && matches!(path.as_str(), PROCESS | THREAD) {
            return self.make_namespaces(directory).map(Some);
        }
        let mut made = None;
        let here = LATE
            .iter()
            .filter(|(parent, rest, _)| *parent == path && begins(rest));
        for (_, rest, says) in here {
            let node = match says {
                Says::Directory => None,
                Says::Report(Report::Name) => Some((Node::Report(Report::Name), 0o644)),
                Says::Report(report) => Some((Node::Report(*report), 0o444)),
                Says::Link(link) => Some((Node::ProcessLink(*link), 0o777)),
                Says::To(path) => Some((Node::Link((*path).to_owned()), 0o777)),
                Says::Text(text) => Some((Node::Fixed((*text).to_owned()), 0o444)),
            };
            let top = self.make_below(directory, rest, node)?;
            made.get_or_insert(top);
        }
        Ok(made)
    }

    /// Makes what stands at a path below a directory, an empty directory without `node`, and the
    /// directories between. The answer is the first of them.
    fn make_below(
        &mut self,
        directory: InodeId,
        path: &str,
        mut node: Option<(Node, u32)>,
    ) -> Result<InodeId, Errno> {
        let (mut at, mut first) = (directory, None);
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            let known = self.directory(at)?.entries.get(part).copied().flatten();
            let next = if let Some(known) = known {
                known
            } else {
                let is_last = parts.peek().is_none();
                let (node, mode) = match node.take_if(|_| is_last) {
                    Some(node) => node,
                    None if is_last => (DirectoryNode::empty(at, part, None), 0o500),
                    None => (DirectoryNode::empty(at, part, None), 0o555),
                };
                let id = self.create(node, mode, self.start_ns);
                self.enter(at, part, id)?;
                id
            };
            first.get_or_insert(next);
            at = next;
        }
        first.ok_or(Errno::ENOENT)
    }

    /// Makes the directory of a hart's caches.
    fn make_caches(
        &mut self,
        caches: &[CpuCache],
        directory: InodeId,
        hart: usize,
    ) -> Result<Option<InodeId>, Errno> {
        let harts = self.hart_directories(directory)?;
        let mut made = None;
        for (index, cache) in caches.iter().enumerate() {
            for (name, text) in cache_texts(cache, hart, harts) {
                let node = (Node::Fixed(text + "\n"), 0o444);
                let path = format!("cache/index{index}/{name}");
                let top = self.make_below(directory, &path, Some(node))?;
                made.get_or_insert(top);
            }
        }
        Ok(made)
    }

    /// Makes the directory of a process's namespaces.
    fn make_namespaces(&mut self, directory: InodeId) -> Result<InodeId, Errno> {
        let made = self.make_below(directory, "ns", None)?;
        self.inode_mut(made)?.mode = 0o511;
        for (name, namespace) in NAMESPACES {
            let target = self.create(Node::Namespace(namespace), 0o444, self.start_ns);
            // No name leads to it, but this link does.
            self.inode_mut(target)?.links = 1;
            let link = Node::ProcessLink(ProcessLink::Namespace(target));
            self.make_below(made, name, Some((link, 0o777)))?;
        }
        Ok(made)
    }

    /// Makes a file about a hart's place.
    fn make_topology(
        &mut self,
        directory: InodeId,
        path: &str,
        (name, among): (&str, Among),
    ) -> Result<Option<InodeId>, Errno> {
        let Some(hart) = path.strip_suffix("/topology").and_then(hart_of) else {
            return Ok(None);
        };
        let harts = self.hart_directories(self.directory(directory)?.parent)?;
        let some = match among {
            Among::Core => hart..hart + 1,
            Among::Package => 0..harts,
            Among::Packages => 0..1,
        };
        let text = match among {
            Among::Core | Among::Package if !name.ends_with("_list") => {
                mask_of(|hart| some.contains(&hart), harts)
            }
            _ => list_of(some),
        };
        let node = (Node::Fixed(text + "\n"), 0o444);
        self.make_below(directory, name, Some(node)).map(Some)
    }

    /// How many harts there are: they stand beside this one.
    fn hart_directories(&self, directory: InodeId) -> Result<usize, Errno> {
        let parent = self.directory(directory)?.parent;
        let names = self.directory(parent)?.entries.keys();
        Ok(names.filter(|name| hart_named(name).is_some()).count())
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

/// The hart whose directory stands at a path.
fn hart_of(path: &str) -> Option<usize> {
    hart_named(path.strip_prefix(SYSTEM)?.strip_prefix("/cpu/")?)
}

/// The hart whose directory has a name.
fn hart_named(name: &str) -> Option<usize> {
    name.strip_prefix("cpu")?.parse().ok()
}

/// The files about one cache of a hart, without their line ends.
fn cache_texts(cache: &CpuCache, hart: usize, harts: usize) -> [(&'static str, String); 9] {
    let kind = match cache.kind {
        CacheKind::Data => "Data",
        CacheKind::Instruction => "Instruction",
        CacheKind::Unified => "Unified",
    };
    let sharing = cache.harts.max(1);
    let number = hart / sharing;
    let sharers = number * sharing..harts.min((number + 1) * sharing);
    let set_bytes = (cache.line_bytes * cache.ways).max(1);
    [
        ("level", cache.level.to_string()),
        ("type", kind.to_owned()),
        ("size", format!("{}K", cache.bytes / 1024)),
        ("coherency_line_size", cache.line_bytes.to_string()),
        ("ways_of_associativity", cache.ways.to_string()),
        ("number_of_sets", (cache.bytes / set_bytes).to_string()),
        ("shared_cpu_list", list_of(sharers.clone())),
        (
            "shared_cpu_map",
            mask_of(|hart| sharers.contains(&hart), harts),
        ),
        ("id", number.to_string()),
    ]
}
