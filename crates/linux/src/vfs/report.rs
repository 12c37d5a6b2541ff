//! The text of `/proc` files, from the kernel's own state and configuration alone.

use std::fmt::Write;

use super::inode::Report;
use crate::address_space::{Backing, Purpose};
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE_BYTES};
use crate::page_table::{EXECUTE, READ, WRITE};
use crate::process::{Process, ProcessId, UNLIMITED, USER_ID};

/// A hundredth of a second, in which `/proc` counts.
const TICK_NS: u64 = 10_000_000;

impl Kernel {
    /// The text of a report as it is now; of a live process, where it is about one.
    pub(crate) fn report(&self, report: Report, about: ProcessId, machine: &dyn Machine) -> String {
        let process = &self.processes[about];
        match report {
            Report::Maps => self.maps(process),
            Report::Status => self.status(process),
            Report::CommandLine => lossy(&process.command_line),
            Report::Environment => lossy(&process.environment),
            Report::Auxiliary => lossy(&process.auxiliary),
            Report::Stat => self.process_stat(process, machine),
            Report::Statm => self.statm(process),
            Report::Name => format!("{}\n", self.main_name(process)),
            Report::Limits => limits(process),
            Report::Mounts => self.mounts(),
            Report::ProcessorInfo => self.processor_info(),
            Report::MemoryInfo => self.memory_info(),
            Report::SystemStat => self.system_stat(machine),
            Report::Uptime => {
                let up = machine.clock_ns() / TICK_NS;
                let harts = 0..self.settings.harts;
                let idle: u64 = harts.map(|hart| ticks_of(hart, machine)[1]).sum();
                let seconds = |ticks: u64| format!("{}.{:02}", ticks / 100, ticks % 100);
                format!("{} {}\n", seconds(up), seconds(idle))
            }
            Report::LoadAverage => {
                let count = self.processes.live.len();
                format!("0.00 0.00 0.00 1/{count} {}\n", about.0)
            }
        }
    }

    fn main_name(&self, process: &Process) -> &str {
        self.threads
            .values()
            .find(|thread| thread.process == process.id)
            .map_or("", |thread| thread.name.as_str())
    }

    fn resident_pages(&self, process: &Process) -> u64 {
        let mut pages = 0;
        self.spaces.for_each_page(process.space, |_, _| pages += 1);
        pages
    }

    fn maps(&self, process: &Process) -> String {
        let mut text = String::new();
        for (&start, mapping) in &self.spaces[process.space].mappings {
            let has = |bit: u64, letter: char| {
                if mapping.permissions & bit != 0 {
                    letter
                } else {
                    '-'
                }
            };
            let (offset, inode, path) = match mapping.backing {
                Backing::Anonymous => (0, 0, String::new()),
                Backing::File { inode, offset, .. } => {
                    let path = self
                        .files
                        .path_of(inode)
                        .unwrap_or_else(|| "(deleted)".to_owned());
                    (offset, u64::from(inode.0) + 1, path)
                }
            };
            let name = match mapping.purpose {
                Purpose::Heap => "[heap]".to_owned(),
                Purpose::Stack => "[stack]".to_owned(),
                Purpose::Trampoline => "[sigpage]".to_owned(),
                Purpose::Plain => path,
            };
            let device = if inode == 0 { "00:00" } else { "08:01" };
            let line = format!(
                "{start:08x}-{end:08x} {r}{w}{x}{p} {offset:08x} {device} {inode}",
                end = mapping.end,
                r = has(READ, 'r'),
                w = has(WRITE, 'w'),
                x = has(EXECUTE, 'x'),
                p = if mapping.shared { 's' } else { 'p' },
            );
            let _ = if name.is_empty() {
                writeln!(text, "{line} ")
            } else {
                writeln!(text, "{line:<72} {name}")
            };
        }
        text
    }

    fn status(&self, process: &Process) -> String {
        let total = self.spaces[process.space].mapped_bytes() / 1024;
        let resident = self.resident_pages(process) * PAGE_BYTES / 1024;
        format!(
            "Name:\t{name}\nUmask:\t{umask:04o}\nState:\t{state}\nTgid:\t{id}\nNgid:\t0\n\
             Pid:\t{id}\nPPid:\t{parent}\nTracerPid:\t0\nUid:\t{user}\t{user}\t{user}\t{user}\n\
             Gid:\t{user}\t{user}\t{user}\t{user}\nFDSize:\t64\nGroups:\t\n\
             VmPeak:\t{total:8} kB\nVmSize:\t{total:8} kB\nVmLck:\t       0 kB\n\
             VmHWM:\t{resident:8} kB\nVmRSS:\t{resident:8} kB\nThreads:\t{threads}\n\
             Cpus_allowed:\t{allowed:x}\nCpus_allowed_list:\t{list}\n",
            name = self.main_name(process),
            state = if self.is_stopped(process.id) {
                "T (stopped)"
            } else {
                "R (running)"
            },
            umask = process.umask,
            id = process.id.0,
            parent = process.parent.map_or(0, |parent| parent.0),
            user = USER_ID,
            threads = self.threads_of(process.id).len(),
            allowed = u64::MAX >> (64 - self.settings.harts.clamp(1, 64)),
            list = hart_list(self.settings.harts),
        )
    }

    fn process_stat(&self, process: &Process, machine: &dyn Machine) -> String {
        let ticks = |retired| machine.duration_ns(retired) / TICK_NS;
        let own = ticks(self.usage(process, machine).retired);
        let children = ticks(process.children.retired);
        let started = process.started_ns / TICK_NS;
        let size = self.spaces[process.space].mapped_bytes();
        let resident = self.resident_pages(process);
        let controlling = self.terminal_of_session(process.session);
        let (terminal, foreground) = controlling.map_or((0, -1), |(id, terminal)| {
            (0x8800 + u64::from(id), i64::from(terminal.foreground))
        });
        format!(
            "{id} ({name}) {state} {parent} {group} {session} {terminal} {foreground} 4194304 {faults} 0 0 0 {own} 0 {children} 0 20 0 {threads} 0 \
             {started} {size} {resident} 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 \
             0 0 0 0\n",
            id = process.id.0,
            parent = process.parent.map_or(0, |parent| parent.0),
            state = if self.is_stopped(process.id) {
                'T'
            } else {
                'R'
            },
            group = process.group,
            session = process.session,
            name = self.main_name(process),
            faults = self.spaces[process.space].page_faults,
            threads = self.threads_of(process.id).len(),
        )
    }

    fn statm(&self, process: &Process) -> String {
        let size = self.spaces[process.space].mapped_bytes() / PAGE_BYTES;
        let resident = self.resident_pages(process);
        format!("{size} {resident} 0 0 0 {resident} 0\n")
    }

    fn mounts(&self) -> String {
        let mut text =
            "rootfs / ext4 rw 0 0\nproc /proc proc rw 0 0\nsysfs /sys sysfs rw 0 0\n".to_owned();
        for mount in &self.files.mounts {
            let _ = writeln!(text, "host {} ext4 rw 0 0", mount.path);
        }
        text
    }

    fn processor_info(&self) -> String {
        (0..self.settings.harts).fold(String::new(), |mut text, hart| {
            let _ = writeln!(
                text,
                "processor\t: {hart}\nhart\t\t: {hart}\n\
                 isa\t\t: rv64imafdc_zicbom_zicboz_zicond_zicsr_zifencei_zihintntl_zihintpause_zfhmin_zba_zbb_zbc_zbkb_zbs\n\
                 mmu\t\t: sv48\nuarch\t\t: perdure\n"
            );
            text
        })
    }

    fn memory_info(&self) -> String {
        let kib = PAGE_BYTES / 1024;
        let (total, free) = (self.frames.total() * kib, self.frames.free() * kib);
        format!(
            "MemTotal:       {total:8} kB\nMemFree:        {free:8} kB\nMemAvailable:   {free:8} kB\n\
             Buffers:               0 kB\nCached:                0 kB\nSwapTotal:             0 kB\n\
             SwapFree:              0 kB\nHugePages_Total:       0\nHugepagesize:       2048 kB\n"
        )
    }

    fn system_stat(&self, machine: &dyn Machine) -> String {
        let harts = (0..self.settings.harts).map(|hart| ticks_of(hart, machine));
        let harts: Vec<[u64; 2]> = harts.collect();
        let busy: u64 = harts.iter().map(|[busy, _]| busy).sum();
        let idle: u64 = harts.iter().map(|[_, idle]| idle).sum();
        let mut text = format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\n");
        for (hart, [busy, idle]) in harts.iter().enumerate() {
            let _ = writeln!(text, "cpu{hart} {busy} 0 0 {idle} 0 0 0 0 0 0");
        }
        let start = self.settings.clock_start_ns / 1_000_000_000;
        let _ = write!(
            text,
            "intr 0\nctxt 0\nbtime {start}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
        );
        text
    }
}

/// How long a hart has executed, and how long not, in hundredths of a second.
fn ticks_of(hart: usize, machine: &dyn Machine) -> [u64; 2] {
    let busy = machine.duration_ns(machine.retired(hart));
    let idle = machine.clock_ns().saturating_sub(busy);
    [busy / TICK_NS, idle / TICK_NS]
}

fn limits(process: &Process) -> String {
    const NAMES: [(&str, &str); 16] = [
        ("Max cpu time", "seconds"),
        ("Max file size", "bytes"),
        ("Max data size", "bytes"),
        ("Max stack size", "bytes"),
        ("Max core file size", "bytes"),
        ("Max resident set", "bytes"),
        ("Max processes", "processes"),
        ("Max open files", "files"),
        ("Max locked memory", "bytes"),
        ("Max address space", "bytes"),
        ("Max file locks", "locks"),
        ("Max pending signals", "signals"),
        ("Max msgqueue size", "bytes"),
        ("Max nice priority", ""),
        ("Max realtime priority", ""),
        ("Max realtime timeout", "us"),
    ];
    let mut text = format!(
        "{:25} {:20} {:20} {:10}\n",
        "Limit", "Soft Limit", "Hard Limit", "Units"
    );
    let show = |value: u64| {
        if value == UNLIMITED {
            "unlimited".to_owned()
        } else {
            value.to_string()
        }
    };
    for ((name, unit), &(soft, hard)) in NAMES.iter().zip(&process.limits) {
        let _ = writeln!(
            text,
            "{name:25} {:20} {:20} {unit:10}",
            show(soft),
            show(hard)
        );
    }
    text
}
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All harts as `/sys` lists them.
pub(crate) fn hart_list(harts: usize) -> String {
    if harts <= 1 {
        "0".to_owned()
    } else {
        format!("0-{}", harts - 1)
    }
}
