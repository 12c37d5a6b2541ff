//! From a configuration to processes that are ready to run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::address_space::Spaces;
use crate::configuration::{Configuration, Region, WORK_DIRECTORY};
use crate::elf::ElfError;
use crate::errno::Errno;
use crate::frames::Frames;
use crate::kernel::{Kernel, Settings};
use crate::limits::default_limits;
use crate::load::{Launch, LoadError};
use crate::machine::{Machine, PAGE_BYTES, ThreadId};
use crate::outcome::ProgramReport;
use crate::output::Output;
use crate::pools::PoolsError;
use crate::process::{IntervalTimer, Process, ProcessId, Processes, USER_ID, Usage};
use crate::program::{GUEST_PATH, Progress, Recipe, environment, random_seed};
use crate::rare::Rare;
use crate::room::Room;
use crate::schedule::Scheduler;
use crate::syscalls::execution::check_regular;
use crate::thread::{Thread, name_of};
use crate::vfs::descriptor::{
    DESCRIPTORS_MAX, Descriptor, O_WRONLY, Object, OpenFile, OpenFiles, Table,
};
use crate::vfs::host_view::{HostNode, PROGRAM_DIRECTORY};
use crate::vfs::inode::{Device, FileNode, InodeId, Node, ProcessLink, Report};
use crate::vfs::path::Viewer;
use crate::vfs::released::Released;
use crate::vfs::report::hart_list;
use crate::vfs::{DirectoryNode, FileSystem, HostPath, HostView, MountPoint};

/// Where a bare name is looked for after that: servers are there.
const SYSTEM_PATH: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Why a program could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootError {
    /// No such file.
    #[error("{}: no such program, neither on the host nor in the sysroot", .0.display())]
    NoProgram(PathBuf),
    /// A directory, a device or the like.
    #[error("{}: not a regular file that can be read", .0.display())]
    NotAFile(PathBuf),
    /// Not a program for this machine.
    #[error("{path}: {error}")]
    Elf {
        /// Which file.
        path: String,
        /// What is wrong with it.
        error: ElfError,
    },
    /// A dynamic program without its loader.
    #[error(
        "{program}: it is dynamically linked and needs {interpreter}, which is not in {place}; \
         give --sysroot DIR with a riscv64 root (`perdure sysroot DIR` makes one), or link it \
         with -static"
    )]
    MissingInterpreter {
        /// The program.
        program: String,
        /// Its loader.
        interpreter: String,
        /// Where it was looked for.
        place: String,
    },
    /// A script without its interpreter.
    #[error("{script}: it is a script for {interpreter}, {reason}")]
    ScriptInterpreter {
        /// The script.
        script: String,
        /// What its first line names.
        interpreter: String,
        /// Why that does not do, and what to do about it.
        reason: String,
    },
    /// Scripts that name each other.
    #[error("{0}: it is a script whose interpreter is a script, more than five deep")]
    Scripts(String),
    /// A host directory that is not there.
    #[error("{}: this directory shall be mounted at {guest}, but it is not a directory", .host.display())]
    Mount {
        /// On the host.
        host: PathBuf,
        /// In the guest.
        guest: String,
    },
    /// A mount point that is not usable.
    #[error("mount point {0:?}: give an absolute guest path below /, without . or ..")]
    MountPoint(String),
    /// Unusable physical memory.
    #[error("frames {start:#x}..{end:#x}: give a range of whole 4096-byte pages below 2^52")]
    Frames {
        /// First byte.
        start: u64,
        /// First byte beyond.
        end: u64,
    },
    /// Memory beside the frames that is none.
    #[error(
        "memory {name}, {start:#x}..{end:#x}: give whole 4096-byte pages behind the frames, below 2^52"
    )]
    Region {
        /// What it is called.
        name: String,
        /// First byte.
        start: u64,
        /// First byte beyond.
        end: u64,
    },
    /// The pools cannot be had.
    #[error(transparent)]
    Pools(#[from] PoolsError),
    /// Nothing to run, or more than the machine can number.
    #[error("{0} programs: a machine runs from 1 to 1024")]
    Programs(usize),
    /// No harts.
    #[error("{0} harts: a machine has from 1 to 1024")]
    Harts(usize),
    /// The stack's size is unusable.
    #[error("a stack of {0} bytes: give from 65536 bytes to 1 GiB")]
    Stack(u64),
    /// Too long.
    #[error("arguments and environment take more than 1 MiB")]
    Arguments,
    /// A zero byte inside a string.
    #[error("argument or variable {0:?} holds a zero byte")]
    ZeroByte(String),
    /// Not even the program's stack fits.
    #[error("the machine's memory is too small to start the program")]
    Memory,
}

impl Kernel {
    /// Builds process 1 from the configured program; its first thread is ready.
    // The kernel is built once from it and then stands for it.
    #[allow(clippy::needless_pass_by_value)]
    pub fn boot(
        configuration: Configuration,
        machine: &mut dyn Machine,
    ) -> Result<Self, BootError> {
        let configuration = &configuration;
        let host = HostView::new(configuration);
        check(configuration, &host)?;
        let frames = &configuration.frames;
        let count = ((frames.end - frames.start) / PAGE_BYTES).min(u64::from(u32::MAX >> 1));
        let root = configuration.sysroot.as_ref().map(|_| HostPath {
            mount: 0,
            path: String::new(),
        });
        let programs = configuration.programs.len();
        let mut kernel = Self {
            settings: Settings::of(configuration),
            frames: Frames::new(frames.start / PAGE_BYTES, count as u32),
            spaces: Spaces::default(),
            files: FileSystem::new(configuration.clock_start_ns, root),
            open: OpenFiles::default(),
            locks: BTreeMap::new(),
            processes: Processes::default(),
            threads: BTreeMap::new(),
            scheduler: Scheduler {
                running: vec![None; configuration.harts],
                ..Scheduler::default()
            },
            dead: Vec::new(),
            futexes: BTreeMap::new(),
            output: Output::new(programs),
            released: Released::default(),
            room: Room::default(),
            rare: Rare::default(),
            progress: Vec::new(),
            unknown: BTreeSet::new(),
            exit: None,
            reports: vec![ProgramReport::default(); programs],
            host,
        };
        kernel
            .build_tree(configuration)
            .map_err(|_| BootError::Memory)?;
        kernel.mount_pools(machine, configuration.pools.as_ref())?;
        for place in 0..programs {
            kernel.start_first(configuration, machine, place)?;
        }
        Ok(kernel)
    }

    /// Starts a program for the first time.
    fn start_first(
        &mut self,
        configuration: &Configuration,
        machine: &mut dyn Machine,
        place: usize,
    ) -> Result<(), BootError> {
        let program = &configuration.programs[place];
        let typed = program.path.display().to_string();
        let (path, inode) = self.find_program(place, &program.path)?;
        let guest_path = path.clone();
        // What a user typed is named so, and not by where the guest sees it.
        let named = move |path: String| {
            if path == guest_path {
                typed.clone()
            } else {
                path
            }
        };
        let recipe = Recipe {
            path,
            arguments: program.arguments.clone(),
            environment: environment(program),
            stdin: program.stdin.clone(),
            random_seed: random_seed(configuration.random_seed, place),
        };
        self.progress.push(Progress::new(place as u32, &recipe));
        self.settings.programs.push(recipe);
        let result = self.start_program(machine, place as u32, inode);
        result.map_err(|error| match error {
            LoadError::Unreadable(path) => BootError::NotAFile(PathBuf::from(named(path))),
            LoadError::Elf { path, error } => BootError::Elf {
                path: named(path),
                error,
            },
            LoadError::Script {
                script,
                interpreter,
                error,
            } => BootError::ScriptInterpreter {
                script: named(script),
                interpreter,
                reason: script_reason(configuration, error),
            },
            LoadError::Scripts => BootError::Scripts(program.path.display().to_string()),
            LoadError::MissingInterpreter {
                program,
                interpreter,
            } => BootError::MissingInterpreter {
                program: named(program),
                interpreter,
                place: match &configuration.sysroot {
                    Some(sysroot) => format!("the sysroot {}", sysroot.display()),
                    None => "the guest's root: there is no sysroot".to_owned(),
                },
            },
            LoadError::Arguments => BootError::Arguments,
            LoadError::Memory => BootError::Memory,
        })?;
        if place == 0 {
            let link = Node::ProcessLink(ProcessLink::Executable);
            self.place("/proc/1/exe", link, 0o777, false)
                .map_err(|_| BootError::Memory)?;
        }
        Ok(())
    }

    /// Starts a run of a program: its first process, whose thread is ready.
    fn start_program(
        &mut self,
        machine: &mut dyn Machine,
        program: u32,
        inode: InodeId,
    ) -> Result<(), LoadError> {
        let recipe = &self.settings.programs[program as usize];
        let bytes = |text: &String| text.clone().into_bytes();
        let mut launch = Launch {
            path: recipe.path.clone(),
            file: recipe.path.clone(),
            inode,
            arguments: std::iter::once(&recipe.path)
                .chain(&recipe.arguments)
                .map(bytes)
                .collect(),
            environment: recipe.environment.iter().map(bytes).collect(),
            program,
            stack_bytes: self.settings.stack_bytes,
        };
        let mut loaded = self.load(machine, &launch);
        if let Err(LoadError::Elf {
            error: ElfError::NotElf,
            ..
        }) = loaded
        {
            let look_up = |kernel: &mut Self, path: &str| {
                let inode = kernel.find_from_first(path)?;
                check_regular(kernel, inode).map(|()| inode)
            };
            self.settle_scripts(machine, &mut launch, look_up)?;
            loaded = self.load(machine, &launch);
        }
        let loaded = loaded?;
        let executable = match self.files.path_of(launch.inode) {
            Some(path) if !launch.file.starts_with('/') => path,
            _ => launch.file,
        };
        let number = self.take_number(program);
        let id = ProcessId(number);
        let mut process = Process {
            id,
            parent: None,
            group: number,
            session: number,
            program,
            run: self.progress[program as usize].run,
            leads_run: true,
            space: loaded.space,
            descriptors: Table::default(),
            executable,
            command_line: loaded.command_line,
            environment: loaded.environment,
            auxiliary: loaded.auxiliary,
            directory: self.settings.first_directory,
            umask: 0o022,
            actions: BTreeMap::new(),
            pending: Vec::new(),
            limits: default_limits(self.settings.stack_bytes),
            timer: IntervalTimer::default(),
            last_status: 0,
            dumpable: true,
            executed: true,
            exit_signal: 0,
            vfork_waiter: None,
            ending: None,
            started_ns: machine.clock_ns(),
            retired: 0,
            children: Usage::default(),
        };
        self.open_standard_files(&mut process.descriptors, program)
            .map_err(|_| LoadError::Memory)?;
        self.processes.live.insert(id, process);
        let thread = ThreadId(number);
        let first = Thread::new(thread, id, loaded.context, name_of(&launch.path));
        self.threads.insert(thread, first);
        self.scheduler.ready.push_back(thread);
        Ok(())
    }

    /// Starts a program that has finished once more; false if that is not possible any more.
    pub(crate) fn start_again(&mut self, machine: &mut dyn Machine, program: u32) -> bool {
        let recipe = &self.settings.programs[program as usize];
        let path = recipe.path.clone();
        self.progress[program as usize].begin_again(recipe);
        match self.find_from_first(&path) {
            Ok(inode) => self.start_program(machine, program, inode).is_ok(),
            Err(_) => false,
        }
    }

    /// The program's guest path and inode. With a sysroot, an absolute path or a bare name is
    /// looked for in the guest first.
    fn find_program(
        &mut self,
        place: usize,
        program: &Path,
    ) -> Result<(String, InodeId), BootError> {
        let text = program.to_str().unwrap_or_default();
        let has_sysroot = self
            .files
            .directory(self.files.root)
            .is_ok_and(|root| root.host.is_some());
        let candidates: Vec<String> = match text {
            _ if !has_sysroot || text.is_empty() => Vec::new(),
            path if path.starts_with('/') => vec![path.to_owned()],
            path if path.contains('/') => Vec::new(),
            name => GUEST_PATH
                .iter()
                .chain(&SYSTEM_PATH)
                .map(|directory| format!("{directory}/{name}"))
                .collect(),
        };
        for path in candidates {
            if let Ok(inode) = self.find_from_root(&path)
                && self.files.file(inode).is_ok()
            {
                return Ok((path, inode));
            }
        }
        let mount = self.host.program_mount(place);
        if let Some(found) = self.find_script(mount, text) {
            return Ok(found);
        }
        match self.host.node(mount, "") {
            Some(HostNode::File { size, .. }) => {
                let name = program
                    .file_name()
                    .and_then(|name| name.to_str())
                    .ok_or_else(|| BootError::NotAFile(program.to_owned()))?;
                let host = Some(HostPath {
                    mount,
                    path: String::new(),
                });
                self.place_program(place, name, host, size)
                    .map_err(|_| BootError::Memory)
            }
            _ if program.exists() => Err(BootError::NotAFile(program.to_owned())),
            _ => Err(BootError::NoProgram(program.to_owned())),
        }
    }

    /// A script below the working directory, by the path that was typed: so it finds what stands
    /// beside it.
    fn find_script(&mut self, mount: u32, typed: &str) -> Option<(String, InodeId)> {
        let stays_below = !typed.starts_with('/') && typed.split('/').all(|part| part != "..");
        let is_file = matches!(self.host.node(mount, ""), Some(HostNode::File { .. }));
        let is_script = || {
            let contents = self.host.contents(mount, "");
            contents.is_some_and(|contents| contents.starts_with(b"#!"))
        };
        if !stays_below || !is_file || !is_script() {
            return None;
        }
        let inode = self.find_from_first(typed).ok()?;
        self.files.file(inode).ok()?;
        Some((typed.to_owned(), inode))
    }

    /// What is at a path, seen from where every program begins.
    fn find_from_first(&mut self, path: &str) -> Result<InodeId, Errno> {
        let viewer = Viewer::nobody(&self.processes, &self.open);
        let first = self.settings.first_directory;
        self.files.find(&self.host, viewer, first, path, true)
    }

    fn find_from_root(&mut self, path: &str) -> Result<InodeId, Errno> {
        let viewer = Viewer::nobody(&self.processes, &self.open);
        let root = self.files.root;
        self.files.find(&self.host, viewer, root, path, true)
    }

    /// Puts a program's host file into the guest's tree; one file serves all programs that it is.
    fn place_program(
        &mut self,
        place: usize,
        name: &str,
        host: Option<HostPath>,
        size: u64,
    ) -> Result<(String, InodeId), Errno> {
        let mut path = format!("{PROGRAM_DIRECTORY}/{name}");
        if let Ok(inode) = self.find_from_root(&path) {
            if self.files.file(inode).is_ok_and(|file| file.host == host) {
                return Ok((path, inode));
            }
            // Another file of the same name.
            path = format!("{PROGRAM_DIRECTORY}/{}/{name}", place + 1);
        }
        let (directory, _) = path.rsplit_once('/').unwrap_or_default();
        let directory = self.make_path(directory)?;
        let file = FileNode {
            size,
            host,
            host_bytes: size,
            ..FileNode::default()
        };
        let now = self.files.start_ns;
        let inode = self.files.create(Node::File(file), 0o755, now);
        self.files.enter(directory, name, inode)?;
        Ok((path, inode))
    }

    /// A directory by name, made if it is not there.
    fn make_directory(&mut self, parent: InodeId, name: &str) -> Result<InodeId, Errno> {
        if let Some(id) = self.files.child(&self.host, parent, name)?
            && self.files.directory(id).is_ok()
        {
            return Ok(id);
        }
        let node = DirectoryNode::empty(parent, name, None);
        let id = self.files.create(node, 0o755, self.files.start_ns);
        self.files.enter(parent, name, id)?;
        Ok(id)
    }

    /// A directory by absolute path, with all that lead to it.
    fn make_path(&mut self, path: &str) -> Result<InodeId, Errno> {
        let mut at = self.files.root;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = self.make_directory(at, name)?;
        }
        Ok(at)
    }

    /// Puts a node at an absolute path, unless the host has something there and `only_absent`.
    fn place(&mut self, path: &str, node: Node, mode: u32, only_absent: bool) -> Result<(), Errno> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = self.make_path(directory)?;
        if only_absent && self.files.child(&self.host, directory, name)?.is_some() {
            return Ok(());
        }
        let id = self.files.create(node, mode, self.files.start_ns);
        self.files.enter(directory, name, id)
    }

    /// Everything in the guest's tree that is neither host nor program.
    fn build_tree(&mut self, configuration: &Configuration) -> Result<(), Errno> {
        for directory in ["/tmp", "/var/tmp", "/home/user", "/dev/shm", "/run"] {
            let id = self.make_path(directory)?;
            // Where everybody has files, only who has one may remove it.
            let shared = matches!(directory, "/tmp" | "/var/tmp" | "/dev/shm");
            self.files.inode_mut(id)?.mode = if shared { 0o1777 } else { 0o777 };
        }
        // A sysroot unpacked without the package that makes these links has them all the same.
        for name in ["bin", "sbin", "lib"] {
            let root = self.files.root;
            let usr = self.make_directory(root, "usr")?;
            if self.files.child(&self.host, usr, name)?.is_some() {
                self.place(
                    &format!("/{name}"),
                    Node::Link(format!("usr/{name}")),
                    0o777,
                    true,
                )?;
            }
        }
        for (path, text) in fixed_texts(configuration.harts) {
            let absent_only = path.starts_with("/etc");
            self.place(&path, Node::Fixed(text), 0o444, absent_only)?;
        }
        for (path, device, mode) in DEVICES {
            self.place(path, Node::Device(device), mode, false)?;
        }
        for (path, report) in REPORTS {
            self.place(path, Node::Report(report), 0o444, false)?;
        }
        for (path, link) in PROCESS_LINKS {
            self.place(path, Node::ProcessLink(link), 0o777, false)?;
        }
        for (path, target) in LINKS {
            self.place(path, Node::Link(target.to_owned()), 0o777, false)?;
        }
        self.place("/proc/1/fd", Node::DescriptorDirectory, 0o500, false)?;
        for region in &configuration.regions {
            let node = Node::Device(Device::Region {
                first_frame: region.addresses.start / PAGE_BYTES,
                pages: (region.addresses.end - region.addresses.start) / PAGE_BYTES,
                device: region.device,
            });
            self.place(&format!("/dev/module/{}", region.name), node, 0o666, false)?;
        }
        for path in ["/proc", "/proc/1", "/sys", "/dev"] {
            let id = self.make_path(path)?;
            self.files.inode_mut(id)?.mode = 0o555;
        }
        self.mount_host(configuration)?;
        let work = self.make_path(WORK_DIRECTORY)?;
        self.settings.first_directory = work;
        self.files.processes = self.make_path("/proc")?;
        self.files.process = self.make_path("/proc/1")?;
        self.files.tasks = self.make_path("/proc/1/task")?;
        Ok(())
    }

    fn mount_host(&mut self, configuration: &Configuration) -> Result<(), Errno> {
        let mounts = self.host.mounts().to_vec();
        let released =
            usize::from(configuration.work_directory.is_some()) + configuration.mounts.len();
        let first = usize::from(configuration.sysroot.is_some());
        if configuration.work_directory.is_none() {
            let inode = self.make_path(WORK_DIRECTORY)?;
            let path = WORK_DIRECTORY.to_owned();
            self.files.mounts.push(MountPoint {
                inode,
                path,
                released: true,
            });
        }
        for (index, mount) in mounts.iter().enumerate().skip(first).take(released) {
            let host = HostPath {
                mount: index as u32,
                path: String::new(),
            };
            let (parent, name) = mount.guest.rsplit_once('/').unwrap_or(("", &mount.guest));
            let parent = self.make_path(parent)?;
            let node = DirectoryNode::empty(parent, name, Some(host));
            let inode = self.files.create(node, 0o755, self.files.start_ns);
            self.files.enter(parent, name, inode)?;
            let path = mount.guest.clone();
            self.files.mounts.push(MountPoint {
                inode,
                path,
                released: true,
            });
        }
        Ok(())
    }

    fn open_standard_files(
        &mut self,
        descriptors: &mut Table<Descriptor>,
        program: u32,
    ) -> Result<(), Errno> {
        let input = match self.settings.programs[program as usize].stdin {
            Some(_) => "/dev/stdin",
            None => "/dev/null",
        };
        for (path, flags) in [
            (input, 0),
            ("/dev/stdout", O_WRONLY),
            ("/dev/stderr", O_WRONLY),
        ] {
            let inode = self.find_from_root(path)?;
            let file = OpenFile::new(Object::Inode(inode), flags, path.to_owned());
            self.open.open(descriptors, file, false, DESCRIPTORS_MAX)?;
        }
        Ok(())
    }
}

fn check(configuration: &Configuration, host: &HostView) -> Result<(), BootError> {
    let frames = &configuration.frames;
    let aligned = frames.start.is_multiple_of(PAGE_BYTES) && frames.end.is_multiple_of(PAGE_BYTES);
    if !aligned || frames.start >= frames.end || frames.end > 1 << 52 {
        return Err(BootError::Frames {
            start: frames.start,
            end: frames.end,
        });
    }
    let misplaced = |region: &&Region| {
        let Range { start, end } = region.addresses;
        let aligned = start.is_multiple_of(PAGE_BYTES) && end.is_multiple_of(PAGE_BYTES);
        !aligned || start < frames.end || start >= end || end > 1 << 52
    };
    if let Some(region) = configuration.regions.iter().find(misplaced) {
        return Err(BootError::Region {
            name: region.name.clone(),
            start: region.addresses.start,
            end: region.addresses.end,
        });
    }
    if !(1..=1024).contains(&configuration.harts) {
        return Err(BootError::Harts(configuration.harts));
    }
    if !(65536..=1 << 30).contains(&configuration.stack_bytes) {
        return Err(BootError::Stack(configuration.stack_bytes));
    }
    for mount in &configuration.mounts {
        let path = mount.guest.trim_end_matches('/');
        let plain = path
            .split('/')
            .skip(1)
            .all(|part| !matches!(part, "" | "." | ".."));
        if !path.starts_with('/') || path.len() < 2 || !plain {
            return Err(BootError::MountPoint(mount.guest.clone()));
        }
    }
    for (index, mount) in host
        .mounts()
        .iter()
        .enumerate()
        .take(host.directory_mounts())
    {
        if host.node(index as u32, "") != Some(HostNode::Directory) {
            let (host, guest) = (mount.host.clone(), mount.guest.clone());
            return Err(BootError::Mount { host, guest });
        }
    }
    if !(1..=1024).contains(&configuration.programs.len()) {
        return Err(BootError::Programs(configuration.programs.len()));
    }
    for program in &configuration.programs {
        let variables = program
            .environment
            .iter()
            .flat_map(|(name, value)| [name, value]);
        let mut texts = program.arguments.iter().chain(variables);
        if let Some(text) = texts.find(|text| text.contains('\0')) {
            return Err(BootError::ZeroByte(text.clone()));
        }
    }
    Ok(())
}

/// Why a script's interpreter does not do, and what to do about it.
fn script_reason(configuration: &Configuration, error: Errno) -> String {
    match (&configuration.sysroot, error) {
        (None, Errno::ENOENT) => "which is not there without a sysroot; give --sysroot DIR with a \
             riscv64 root (`perdure sysroot DIR` makes one)"
            .to_owned(),
        (Some(sysroot), Errno::ENOENT) => format!(
            "which is not in the sysroot {0}; add the package that has it \
             (`perdure sysroot {0} --packages NAME`)",
            sysroot.display()
        ),
        _ => "which is not a file that may be executed".to_owned(),
    }
}

const DEVICES: [(&str, Device, u32); 9] = [
    ("/dev/null", Device::Null, 0o666),
    ("/dev/zero", Device::Zero, 0o666),
    ("/dev/full", Device::Full, 0o666),
    ("/dev/random", Device::Random, 0o666),
    ("/dev/urandom", Device::Random, 0o666),
    ("/dev/tty", Device::Terminal, 0o666),
    ("/dev/stdin", Device::StandardInput, 0o600),
    ("/dev/stdout", Device::StandardOutput, 0o600),
    ("/dev/stderr", Device::StandardError, 0o600),
];

const REPORTS: [(&str, Report); 16] = [
    ("/proc/1/maps", Report::Maps),
    ("/proc/1/status", Report::Status),
    ("/proc/1/cmdline", Report::CommandLine),
    ("/proc/1/environ", Report::Environment),
    ("/proc/1/auxv", Report::Auxiliary),
    ("/proc/1/stat", Report::Stat),
    ("/proc/1/statm", Report::Statm),
    ("/proc/1/comm", Report::Name),
    ("/proc/1/limits", Report::Limits),
    ("/proc/1/mounts", Report::Mounts),
    ("/proc/cpuinfo", Report::ProcessorInfo),
    ("/proc/meminfo", Report::MemoryInfo),
    ("/proc/stat", Report::SystemStat),
    ("/proc/uptime", Report::Uptime),
    ("/proc/loadavg", Report::LoadAverage),
    ("/proc/1/task/1/status", Report::Status),
];

/// What names the process that looks.
const PROCESS_LINKS: [(&str, ProcessLink); 2] = [
    ("/proc/self", ProcessLink::Itself),
    ("/proc/thread-self", ProcessLink::Thread),
];

const LINKS: [(&str, &str); 4] = [
    ("/proc/mounts", "self/mounts"),
    ("/proc/1/root", "/"),
    ("/dev/fd", "/proc/self/fd"),
    ("/etc/mtab", "../proc/self/mounts"),
];

/// Texts that follow from the configuration alone.
fn fixed_texts(harts: usize) -> Vec<(String, String)> {
    let list = format!("{}\n", hart_list(harts));
    let uname = crate::syscalls::identity::UNAME;
    let fixed: [(&str, String); 24] = [
        (
            "/proc/version",
            format!("Linux version {} (perdure) {}\n", uname[2], uname[3]),
        ),
        ("/proc/filesystems", "nodev\tproc\n\text4\n".to_owned()),
        (
            "/proc/swaps",
            "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n".to_owned(),
        ),
        ("/proc/1/cgroup", "0::/\n".to_owned()),
        ("/proc/1/oom_score_adj", "0\n".to_owned()),
        ("/proc/sys/kernel/osrelease", format!("{}\n", uname[2])),
        ("/proc/sys/kernel/ostype", "Linux\n".to_owned()),
        ("/proc/sys/kernel/hostname", format!("{}\n", uname[1])),
        ("/proc/sys/kernel/ngroups_max", "65536\n".to_owned()),
        ("/proc/sys/kernel/pid_max", "4194304\n".to_owned()),
        ("/proc/sys/kernel/threads-max", "4096\n".to_owned()),
        (
            "/proc/sys/kernel/random/boot_id",
            "00000000-0000-4000-8000-000000000001\n".to_owned(),
        ),
        (
            "/proc/sys/kernel/random/uuid",
            "00000000-0000-4000-8000-000000000002\n".to_owned(),
        ),
        ("/proc/sys/vm/overcommit_memory", "1\n".to_owned()),
        ("/proc/sys/vm/max_map_count", "65530\n".to_owned()),
        ("/sys/devices/system/cpu/online", list.clone()),
        ("/sys/devices/system/cpu/possible", list.clone()),
        ("/sys/devices/system/cpu/present", list),
        (
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "always madvise [never]\n".to_owned(),
        ),
        (
            "/etc/passwd",
            format!("user:x:{USER_ID}:{USER_ID}:user:/home/user:/bin/sh\n"),
        ),
        ("/etc/group", format!("user:x:{USER_ID}:\n")),
        ("/etc/hosts", "127.0.0.1\tlocalhost\n".to_owned()),
        (
            "/etc/nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files\n".to_owned(),
        ),
        ("/etc/hostname", format!("{}\n", uname[1])),
    ];
    let mut texts: Vec<(String, String)> = fixed
        .into_iter()
        .map(|(path, text)| (path.to_owned(), text))
        .collect();
    for hart in 0..harts {
        let path = format!("/sys/devices/system/cpu/cpu{hart}/topology/core_id");
        texts.push((path, format!("{hart}\n")));
    }
    texts
}
