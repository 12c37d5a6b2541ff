//! `/proc/PID/ns`: the namespaces of a process, of which there is one of each kind.
//!
//! Always true: they have the numbers of those that every Linux starts with.

use serde::{Deserialize, Serialize};

/// A kind of namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Namespace {
    Groups,
    Communication,
    Mounts,
    Network,
    Processes,
    Time,
    Users,
    Names,
}

/// What stands in `/proc/PID/ns`.
pub(super) const NAMESPACES: [(&str, Namespace); 10] = [
    ("cgroup", Namespace::Groups),
    ("ipc", Namespace::Communication),
    ("mnt", Namespace::Mounts),
    ("net", Namespace::Network),
    ("pid", Namespace::Processes),
    ("pid_for_children", Namespace::Processes),
    ("time", Namespace::Time),
    ("time_for_children", Namespace::Time),
    ("user", Namespace::Users),
    ("uts", Namespace::Names),
];

impl Namespace {
    /// The kind's name, the only one's number, and the flag by which `clone` makes another.
    fn facts(self) -> (&'static str, u32, u32) {
        match self {
            Namespace::Groups => ("cgroup", 0xefff_fffb, 0x0200_0000),
            Namespace::Communication => ("ipc", 0xefff_ffff, 0x0800_0000),
            Namespace::Mounts => ("mnt", 0xefff_fff8, 0x0002_0000),
            Namespace::Network => ("net", 0xefff_fff9, 0x4000_0000),
            Namespace::Processes => ("pid", 0xefff_fffc, 0x2000_0000),
            Namespace::Time => ("time", 0xefff_fffa, 0x80),
            Namespace::Users => ("user", 0xefff_fffd, 0x1000_0000),
            Namespace::Names => ("uts", 0xefff_fffe, 0x0400_0000),
        }
    }

    /// Its inode's number.
    pub fn number(self) -> u64 {
        u64::from(self.facts().1)
    }

    /// What `clone` and `setns` call its kind.
    pub fn flag(self) -> u32 {
        self.facts().2
    }

    /// What links to it say.
    pub fn text(self) -> String {
        let (kind, number, _) = self.facts();
        format!("{kind}:[{number}]")
    }
}
