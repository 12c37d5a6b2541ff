//! The text of `/proc` files, from the kernel's own state and configuration alone.

use std::fmt::Write;
use std::ops::Range;

use super::inode::Report;
use super::spelling::into_bytes;
use crate::address_space::{Backing, Mapping, Purpose};
use crate::kernel::Kernel;
use crate::limits::UNLIMITED;
use crate::machine::{Machine, PAGE_BYTES, ThreadId};
use crate::page_table::{EXECUTE, READ, VALID, WRITE, frame_of};
use crate::process::{Process, ProcessId};
use crate::thread::{Thread, ThreadState};

/// What of mappings is in memory.
#[derive(Clone, Copy, Default)]
struct Resident {
    kib: u64,
    /// A page that several share counts for its part.
    proportional_bytes: u64,
    /// In pages that several have.
    shared_kib: u64,
    /// In pages that are no file's.
    anonymous_kib: u64,
}

impl Resident {
    /// The lines of `smaps` that are counts. Every page counts as written and used.
    fn text(self) -> String {
        let lines = [
            ("Rss:", self.kib),
            ("Pss:", self.proportional_bytes / 1024),
            ("Shared_Clean:", 0),
            ("Shared_Dirty:", self.shared_kib),
            ("Private_Clean:", 0),
            ("Private_Dirty:", self.kib - self.shared_kib),
            ("Referenced:", self.kib),
            ("Anonymous:", self.anonymous_kib),
            ("AnonHugePages:", 0),
            ("Swap:", 0),
            ("SwapPss:", 0),
            ("Locked:", 0),
        ];
        lines.iter().fold(String::new(), |mut text, (name, kib)| {
            let _ = writeln!(text, "{name:15} {kib:8} kB");
            text
        })
    }
}

/// A hundredth of a second, in which `/proc` counts.
const TICK_NS: u64 = 10_000_000;

impl Kernel {
    /// A report as it is now; of a live process, where it is about one.
    pub(crate) fn report(
        &self,
        report: Report,
        about: (ProcessId, Option<ThreadId>),
        machine: &dyn Machine,
    ) -> Vec<u8> {
        let process = &self.processes[about.0];
        match report {
            // These are bytes, which need not be a text.
            Report::CommandLine => process.command_line.clone(),
            Report::Environment => process.environment.clone(),
            Report::Auxiliary => process.auxiliary.clone(),
            _ => into_bytes(self.report_text(report, about, machine)),
        }
    }

    fn report_text(
        &self,
        report: Report,
        (about, thread): (ProcessId, Option<ThreadId>),
        machine: &dyn Machine,
    ) -> String {
        let process = &self.processes[about];
        match report {
            Report::CommandLine | Report::Environment | Report::Auxiliary => String::new(),
            Report::Maps => self.maps(process),
            Report::Status => self.status(process, thread),
            Report::Stat => self.process_stat(process, thread, machine),
            Report::Statm => self.statm(process),
            Report::Name => format!("{}\n", self.name_of(process, thread)),
            Report::Limits => limits(process),
            Report::Mounts => self.mounts(),
            Report::ProcessorInfo => self.processor_info(),
            Report::MemoryInfo => self.memory_info(),
            Report::MapsInFull => self.maps_in_full(process),
            Report::MapsTogether => self.maps_together(process),
            Report::MountInfo => self.mount_info(),
            Report::VirtualMemory => self.virtual_memory(),
            Report::Harts => format!("{}\n", hart_list(self.settings.harts)),
            Report::HartMask => hart_mask(self.settings.harts),
            // Nothing is counted: no account of it is kept.
            Report::Transfers => "rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\n\
                 write_bytes: 0\ncancelled_write_bytes: 0\n"
                .to_owned(),
            Report::Requests => format!("{}\n", self.rare.asynchronous.requests()),
            Report::Descriptor(number) => self.descriptor_info(about, number),
            Report::Segments => self.segment_table(),
            Report::Semaphores => self.semaphore_table(),
            Report::Queues => self.queue_table(),
            Report::Locks => self.lock_table(),
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

    /// A thread of a process, or its first one.
    fn thread_of(&self, process: &Process, thread: Option<ThreadId>) -> Option<&Thread> {
        let mut own = (self.threads.values()).filter(|thread| thread.process == process.id);
        own.find(|own| thread.is_none_or(|thread| own.id == thread))
    }

    pub(super) fn name_of(&self, process: &Process, thread: Option<ThreadId>) -> &str {
        let thread = self.thread_of(process, thread);
        thread.map_or("", |thread| thread.name.as_str())
    }

    /// What a thread does, by its letter first.
    pub(super) fn state_of(&self, process: &Process, thread: Option<ThreadId>) -> &str {
        match self.thread_of(process, thread).map(|thread| &thread.state) {
            _ if self.is_stopped(process.id) => "T (stopped)",
            Some(ThreadState::Blocked { .. }) => "S (sleeping)",
            _ => "R (running)",
        }
    }

    pub(super) fn resident_pages(&self, process: &Process) -> u64 {
        let mut pages = 0;
        self.spaces.for_each_page(process.space, |_, _| pages += 1);
        pages
    }

    fn maps(&self, process: &Process) -> String {
        let mappings = self.spaces[process.space].mappings.iter();
        mappings
            .map(|(&start, mapping)| self.map_line(start, mapping))
            .collect()
    }

    fn map_line(&self, start: u64, mapping: &Mapping) -> String {
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
                let is_ring = self.rare.asynchronous.contexts.contains_key(&inode);
                let nameless = if is_ring {
                    "/[aio] (deleted)"
                } else {
                    "(deleted)"
                };
                let path = self.files.path_of(inode);
                let path = path.unwrap_or_else(|| nameless.to_owned());
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
        if name.is_empty() {
            format!("{line} \n")
        } else {
            format!("{line:<72} {name}\n")
        }
    }

    /// What of every mapping is in memory, by the mapping's start.
    fn resident(&self, process: &Process) -> Vec<(u64, Resident)> {
        let mappings = &self.spaces[process.space].mappings;
        let mut all: Vec<(u64, Resident)> = Vec::new();
        self.spaces.for_each_page(process.space, |page, leaf| {
            let address = page * PAGE_BYTES;
            let Some((&start, mapping)) = mappings.range(..=address).next_back() else {
                return;
            };
            if leaf & VALID == 0 || address >= mapping.end {
                return;
            }
            if all.last().is_none_or(|(last, _)| *last != start) {
                all.push((start, Resident::default()));
            }
            if let Some((_, resident)) = all.last_mut() {
                // A file holds the frames of its own pages, too.
                let of_file = matches!(mapping.backing, Backing::File { .. }) && mapping.shared;
                let holders = self.frames.holders(frame_of(leaf));
                let users = u64::from(holders.saturating_sub(u32::from(of_file)).max(1));
                let kib = PAGE_BYTES / 1024;
                resident.kib += kib;
                resident.proportional_bytes += PAGE_BYTES / users;
                if users > 1 {
                    resident.shared_kib += kib;
                }
                if !of_file {
                    resident.anonymous_kib += kib;
                }
            }
        });
        all
    }

    fn maps_in_full(&self, process: &Process) -> String {
        let all = self.resident(process);
        let mut text = String::new();
        for (&start, mapping) in &self.spaces[process.space].mappings {
            let found = all.binary_search_by_key(&start, |(start, _)| *start);
            let resident = found.map_or_else(|_| Resident::default(), |at| all[at].1);
            let size = (mapping.end - start) / 1024;
            text += &self.map_line(start, mapping);
            let _ = write!(
                text,
                "Size:           {size:8} kB\nKernelPageSize:        4 kB\n\
                 MMUPageSize:           4 kB\n{resident}VmFlags:",
                resident = resident.text(),
            );
            for (bit, flag) in [(READ, "rd"), (WRITE, "wr"), (EXECUTE, "ex")] {
                if mapping.permissions & bit != 0 {
                    let _ = write!(text, " {flag}");
                }
            }
            text += if mapping.shared { " sh" } else { "" };
            text += " mr mw me \n";
        }
        text
    }

    fn maps_together(&self, process: &Process) -> String {
        let mappings = &self.spaces[process.space].mappings;
        let start = mappings.keys().next().copied().unwrap_or(0);
        let end = mappings.values().next_back().map_or(0, |last| last.end);
        let mut sum = Resident::default();
        for (_, one) in self.resident(process) {
            sum.kib += one.kib;
            sum.proportional_bytes += one.proportional_bytes;
            sum.shared_kib += one.shared_kib;
            sum.anonymous_kib += one.anonymous_kib;
        }
        let line = format!("{start:08x}-{end:08x} ---p 00000000 00:00 0");
        format!("{line:<72} [rollup]\n{}", sum.text())
    }

    fn mount_info(&self) -> String {
        let mut text = "1 1 8:1 / / rw - ext4 rootfs rw\n2 1 8:1 / /proc rw - proc proc rw\n\
             3 1 8:1 / /sys rw - sysfs sysfs rw\n"
            .to_owned();
        for (number, mount) in (4..).zip(&self.files.mounts) {
            let mut path = String::new();
            for letter in mount.path.chars() {
                match letter {
                    ' ' | '\t' | '\n' | '\\' => {
                        let _ = write!(path, "\\{:03o}", u32::from(letter));
                    }
                    _ => path.push(letter),
                }
            }
            let _ = writeln!(text, "{number} 1 8:1 / {path} rw - ext4 host rw");
        }
        text
    }

    fn virtual_memory(&self) -> String {
        let faults: u64 = (self.spaces.iter())
            .map(|(_, space)| space.page_faults)
            .sum();
        format!(
            "nr_free_pages {free}\npgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault {faults}\n\
             pgmajfault 0\noom_kill 0\n",
            free = self.frames.free(),
        )
    }

    fn process_stat(
        &self,
        process: &Process,
        thread: Option<ThreadId>,
        machine: &dyn Machine,
    ) -> String {
        let ticks = |retired| machine.duration_ns(retired) / TICK_NS;
        let own = match thread.and_then(|_| self.thread_of(process, thread)) {
            Some(thread) => ticks(thread.retired_by_now(machine)),
            None => ticks(self.usage(process, machine).retired),
        };
        let children = ticks(process.children.retired);
        let started = process.started_ns / TICK_NS;
        let size = self.spaces[process.space].mapped_bytes();
        let resident = self.resident_pages(process);
        let controlling = self.terminal_of_session(process.session);
        let (terminal, foreground) = controlling.map_or((0, -1), |(id, terminal)| {
            (0x8800 + u64::from(id), i64::from(terminal.foreground))
        });
        let state = self.thread_of(process, thread).map(|thread| thread.state);
        let hart = match state {
            Some(ThreadState::Running { hart }) => hart,
            _ => 0,
        };
        let about = thread.unwrap_or(ThreadId(process.id.0));
        let wishes = self.rare.wishes.get(&about).copied().unwrap_or_default();
        format!(
            "{id} ({name}) {state} {parent} {group} {session} {terminal} {foreground} 4194304 {faults} 0 0 0 {own} 0 {children} 0 \
             {priority} {nice} {threads} 0 {started} {size} {resident} 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 \
             {hart} 0 {policy} 0 0 0 0 0 0 0 0 0 0 0\n",
            priority = 20 + wishes.nice,
            nice = wishes.nice,
            policy = wishes.policy_alone(),
            id = thread.map_or(process.id.0, |thread| thread.0),
            parent = process.parent.map_or(0, |parent| parent.0),
            state = &self.state_of(process, thread)[..1],
            group = process.group,
            session = process.session,
            name = self.name_of(process, thread),
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
/// All harts as `/sys` shows sets of them.
fn hart_mask(harts: usize) -> String {
    mask_of(|hart| hart < harts, harts) + "\n"
}

/// Some of the harts as `/sys` shows sets of them: 32 to a word, the last word first.
pub(crate) fn mask_of(has: impl Fn(usize) -> bool, harts: usize) -> String {
    let words = harts.div_ceil(32).max(1);
    let word = |index: usize| {
        let bits = (0..32).filter(|bit| has(32 * index + bit));
        bits.fold(0_u32, |word, bit| word | 1 << bit)
    };
    let all: Vec<String> = (0..words)
        .rev()
        .map(|index| format!("{:08x}", word(index)))
        .collect();
    all.join(",")
}

/// All harts as `/sys` lists them.
pub(crate) fn hart_list(harts: usize) -> String {
    list_of(0..harts)
}

/// Some of the harts as `/sys` lists them.
pub(crate) fn list_of(some: Range<usize>) -> String {
    if some.len() <= 1 {
        some.start.to_string()
    } else {
        format!("{}-{}", some.start, some.end - 1)
    }
}
