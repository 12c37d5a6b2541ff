//! What programs asked for and this kernel has not: calls answered with ENOSYS on purpose, and
//! commands of calls that do many things.
//!
//! Always true: a bounded number is remembered, each once; what Linux refuses in the same way is
//! no refusal.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::kernel::Kernel;
use crate::syscalls::table;

/// Refusals that are remembered.
const REFUSALS_MAX: usize = 256;

/// Something that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// A call, by number.
    Call(u32),
    /// A request of `ioctl`.
    Ioctl(u32),
    /// A command of `fcntl`.
    Fcntl(u32),
    /// An option of `prctl`.
    Prctl(u32),
    /// An operation of `futex`.
    Futex(u32),
}

/// All refusals.
pub(crate) type Refusals = BTreeSet<Refusal>;

/// A refusal as a user is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// `system call`, or the call whose command it is.
    pub kind: &'static str,
    /// The number of the call or command.
    pub number: u64,
    /// Its name, or its number in words.
    pub name: String,
    /// The C library makes this call when a program starts, and does without.
    pub expected: bool,
}

/// Calls that every program's start makes and does without.
const EXPECTED: [&str; 3] = ["riscv_hwprobe", "rseq", "clone3"];

const FCNTL: [(u32, &str); 4] = [
    (10, "F_SETSIG"),
    (11, "F_GETSIG"),
    (1024, "F_SETLEASE"),
    (1026, "F_NOTIFY"),
];

const PRCTL: [(u32, &str); 5] = [
    (22, "PR_SET_SECCOMP"),
    (47, "PR_CAP_AMBIENT"),
    (52, "PR_SET_SPECULATION_CTRL"),
    (62, "PR_SCHED_CORE"),
    (0x5961_6d61, "PR_SET_PTRACER"),
];

const IOCTL: [(u32, &str); 5] = [
    (0x5452, "FIOASYNC"),
    (0x8008_6601, "FS_IOC_GETFLAGS"),
    (0x4008_6602, "FS_IOC_SETFLAGS"),
    (0xc020_660b, "FS_IOC_FIEMAP"),
    (0x8004_1272, "BLKGETSIZE64"),
];

const FUTEX: [(u32, &str); 2] = [(11, "FUTEX_WAIT_REQUEUE_PI"), (12, "FUTEX_CMP_REQUEUE_PI")];

impl Refusal {
    fn told(self) -> Refused {
        let named = |kind, number: u32, names: &[(u32, &str)]| {
            let name = names.iter().find(|(known, _)| *known == number);
            Refused {
                kind,
                number: u64::from(number),
                name: name.map_or_else(|| format!("{number:#x}"), |(_, name)| (*name).to_owned()),
                expected: false,
            }
        };
        match self {
            Refusal::Call(number) => {
                let name = table::name(u64::from(number));
                Refused {
                    kind: "system call",
                    number: u64::from(number),
                    name: name.to_owned(),
                    expected: EXPECTED.contains(&name),
                }
            }
            Refusal::Ioctl(request) => named("ioctl", request, &IOCTL),
            Refusal::Fcntl(command) => named("fcntl", command, &FCNTL),
            Refusal::Prctl(option) => named("prctl", option, &PRCTL),
            Refusal::Futex(operation) => named("futex", operation, &FUTEX),
        }
    }
}

impl Kernel {
    /// Remembers a refusal.
    pub(crate) fn note_refusal(&mut self, refusal: Refusal) {
        if self.rare.refusals.len() < REFUSALS_MAX {
            self.rare.refusals.insert(refusal);
        }
    }

    /// What was refused on purpose, of calls and of commands.
    pub fn refusals(&self) -> Vec<Refused> {
        self.rare.refusals.iter().map(|one| one.told()).collect()
    }
}
