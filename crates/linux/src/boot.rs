//! From a configuration to a process that is ready to run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::address_space::{
    AddressSpace, Backing, LOWEST, Mapping, Purpose, SPACE_END, STACK_TOP, TRAMPOLINE,
};
use crate::configuration::{Configuration, Program, WORK_DIRECTORY};
use crate::elf::{self, ElfError, Image};
use crate::errno::Errno;
use crate::frames::Frames;
use crate::kernel::{Kernel, Settings};
use crate::machine::{Machine, PAGE_BYTES, ThreadId};
use crate::outcome::ProgramReport;
use crate::output::Output;
use crate::page_table::{EXECUTE, READ, WRITE};
use crate::process::{IntervalTimer, LoadedImage, PROCESS_ID, Process, USER_ID, default_limits};
use crate::random::Random;
use crate::schedule::Scheduler;
use crate::signal::SIGNAL_FRAME_BYTES;
use crate::thread::{Context, Thread};
use crate::vfs::descriptor::{O_WRONLY, Object, OpenFile, OpenFiles};
use crate::vfs::host_view::{HostNode, PROGRAM_DIRECTORY};
use crate::vfs::inode::{Device, FileNode, InodeId, Node, Report};
use crate::vfs::released::Released;
use crate::vfs::report::hart_list;
use crate::vfs::{DirectoryNode, FileSystem, HostPath, HostView, MountPoint};

/// Position-independent programs are loaded here.
const PROGRAM_BASE: u64 = 0x5555_5555_4000;
/// Arguments and environment may take this much.
const ARGUMENT_BYTES_MAX: usize = 1 << 20;
/// I, M, A, F, D, C as `AT_HWCAP` bits.
const HARDWARE_CAPABILITIES: u64 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 8 | 1 << 12;
/// `li a7, 139; ecall`: `rt_sigreturn`, in the form that unwinders know.
const TRAMPOLINE_CODE: [u8; 8] = [0x93, 0x08, 0xb0, 0x08, 0x73, 0x00, 0x00, 0x00];
const GUEST_PATH: [&str; 5] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Why a program could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootError {
    /// No such file.
    #[error("{}: no such program, neither on the host nor in the sysroot", .0.display())]
    NoProgram(PathBuf),
    /// A directory or the like.
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
        let mut kernel = Self {
            settings: Settings::of(configuration),
            frames: Frames::new(frames.start / PAGE_BYTES, count as u32),
            space: AddressSpace::new(),
            files: FileSystem::new(configuration.clock_start_ns, root),
            open: OpenFiles::default(),
            process: empty_process(configuration),
            threads: BTreeMap::new(),
            scheduler: Scheduler {
                running: vec![None; configuration.harts],
                ..Scheduler::default()
            },
            futexes: BTreeMap::new(),
            output: Output::default(),
            released: Released::default(),
            random: Random::new(configuration.random_seed),
            stdin_offset: 0,
            unknown: BTreeSet::new(),
            exit: None,
            reports: vec![ProgramReport::default()],
            host,
        };
        kernel
            .build_tree(configuration)
            .map_err(|_| BootError::Memory)?;
        kernel.load_program(configuration, machine)?;
        Ok(kernel)
    }

    fn load_program(
        &mut self,
        configuration: &Configuration,
        machine: &mut dyn Machine,
    ) -> Result<(), BootError> {
        let (path, inode) = self.find_program(&configuration.programs[0].path)?;
        let image = self.read_image(inode, &path)?;
        let bias = if image.relocatable {
            place_at(&image, PROGRAM_BASE)
        } else {
            0
        };
        self.load_image(machine, inode, &image, bias);
        let mut entry = image.entry.wrapping_add(bias);
        let mut base = 0;
        if let Some(interpreter) = &image.interpreter {
            let missing = || BootError::MissingInterpreter {
                program: path.clone(),
                interpreter: interpreter.clone(),
                place: match &configuration.sysroot {
                    Some(sysroot) => format!("the sysroot {}", sysroot.display()),
                    None => "the guest's root: there is no sysroot".to_owned(),
                },
            };
            let root = self.files.root;
            let found = self.files.find(&self.host, root, interpreter, true);
            let inode = found.map_err(|_| missing())?;
            let loader = self.read_image(inode, interpreter)?;
            let (low, high) = loader.extent();
            let gap = self.space.find_gap(high - low + loader.alignment);
            let gap = gap.ok_or(BootError::Memory)?;
            base = if loader.relocatable {
                place_at(&loader, gap)
            } else {
                0
            };
            self.load_image(machine, inode, &loader, base);
            entry = loader.entry.wrapping_add(base);
        }
        let (_, end) = image.extent();
        self.space.break_start = end + bias;
        self.space.break_now = end + bias;
        self.process.program.clone_from(&path);
        self.process.program_inode = inode;
        self.add_program_links(inode, &path)
            .map_err(|_| BootError::Memory)?;
        let auxiliary = [
            // AT_PHDR, AT_PHENT, AT_PHNUM, AT_PAGESZ, AT_BASE, AT_FLAGS, AT_ENTRY.
            (
                3,
                image
                    .headers_address
                    .wrapping_add(if image.headers_address == 0 { 0 } else { bias }),
            ),
            (4, image.header_bytes),
            (5, image.header_count),
            (6, PAGE_BYTES),
            (7, base),
            (8, 0),
            (9, image.entry.wrapping_add(bias)),
            // AT_UID, AT_EUID, AT_GID, AT_EGID, AT_HWCAP, AT_CLKTCK, AT_SECURE, AT_MINSIGSTKSZ.
            (11, u64::from(USER_ID)),
            (12, u64::from(USER_ID)),
            (13, u64::from(USER_ID)),
            (14, u64::from(USER_ID)),
            (16, HARDWARE_CAPABILITIES),
            (17, 100),
            (23, 0),
            (51, SIGNAL_FRAME_BYTES),
        ];
        let stack = self
            .build_stack(configuration, machine, &path, &auxiliary)
            .map_err(|error| match error {
                StackError::TooLong => BootError::Arguments,
                StackError::Memory => BootError::Memory,
            })?;
        let mut context = Context {
            pc: entry,
            ..Context::default()
        };
        context.x[2] = stack;
        let name: String = path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .chars()
            .take(15)
            .collect();
        let id = ThreadId(PROCESS_ID);
        self.threads.insert(id, Thread::new(id, context, name));
        self.scheduler.ready.push_back(id);
        Ok(())
    }

    /// The program's guest path and inode. With a sysroot, an absolute path or a bare name is
    /// looked for in the guest first.
    fn find_program(&mut self, program: &Path) -> Result<(String, InodeId), BootError> {
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
                .map(|directory| format!("{directory}/{name}"))
                .collect(),
        };
        for path in candidates {
            let root = self.files.root;
            if let Ok(inode) = self.files.find(&self.host, root, &path, true)
                && self.files.file(inode).is_ok()
            {
                return Ok((path, inode));
            }
        }
        let mount = self.host.program_mount();
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
                let file = FileNode {
                    size,
                    host,
                    host_bytes: size,
                    ..FileNode::default()
                };
                let memory = |_| BootError::Memory;
                let root = self.files.root;
                let directory = PROGRAM_DIRECTORY.trim_start_matches('/');
                let directory = self.make_directory(root, directory).map_err(memory)?;
                let inode = self
                    .files
                    .create(Node::File(file), 0o755, self.files.start_ns);
                self.files.enter(directory, name, inode).map_err(memory)?;
                Ok((format!("{PROGRAM_DIRECTORY}/{name}"), inode))
            }
            Some(_) => Err(BootError::NotAFile(program.to_owned())),
            None => Err(BootError::NoProgram(program.to_owned())),
        }
    }

    fn read_image(&self, inode: InodeId, path: &str) -> Result<Image, BootError> {
        let unreadable = || BootError::NotAFile(PathBuf::from(path));
        let file = self.files.file(inode).map_err(|_| unreadable())?;
        let host = file.host.as_ref().ok_or_else(unreadable)?;
        let bytes = self
            .host
            .contents(host.mount, &host.path)
            .ok_or_else(unreadable)?;
        elf::parse(&bytes).map_err(|error| BootError::Elf {
            path: path.to_owned(),
            error,
        })
    }

    /// Maps an image's segments; pages come when they are touched.
    fn load_image(&mut self, machine: &mut dyn Machine, inode: InodeId, image: &Image, bias: u64) {
        for segment in &image.segments {
            let address = segment.address + bias;
            let start = address & !(PAGE_BYTES - 1);
            let slack = address - start;
            let file_end = (address + segment.file_bytes).next_multiple_of(PAGE_BYTES);
            let end = (address + segment.memory_bytes).next_multiple_of(PAGE_BYTES);
            let mapping = Mapping {
                end: file_end,
                permissions: segment.permissions,
                shared: false,
                backing: Backing::File {
                    inode,
                    offset: segment.file_offset - slack,
                    limit: slack + segment.file_bytes,
                },
                purpose: Purpose::Plain,
            };
            if segment.file_bytes > 0 {
                self.map(machine, start, mapping);
            }
            let zero_start = if segment.file_bytes > 0 {
                file_end
            } else {
                start
            };
            if end > zero_start {
                let zeros = Mapping {
                    end,
                    backing: Backing::Anonymous,
                    ..mapping
                };
                self.map(machine, zero_start, zeros);
            }
        }
        let (low, high) = image.extent();
        self.process.images.push(LoadedImage {
            inode,
            bias,
            start: low + bias,
            end: high + bias,
        });
    }

    /// The first stack: strings, auxiliary vector, environment, arguments. Returns its pointer.
    fn build_stack(
        &mut self,
        configuration: &Configuration,
        machine: &mut dyn Machine,
        path: &str,
        auxiliary: &[(u64, u64)],
    ) -> Result<u64, StackError> {
        self.map_stack(configuration, machine)?;
        let mut strings: Vec<u8> = Vec::new();
        let mut arguments = vec![path.to_owned()];
        arguments.extend(configuration.programs[0].arguments.iter().cloned());
        let environment = environment(&configuration.programs[0]);
        let mut random = [0; 16];
        self.random.fill(&mut random);
        let mut offsets = Vec::new();
        let all = arguments.iter().chain(&environment);
        for text in all {
            offsets.push(strings.len() as u64);
            strings.extend(text.as_bytes());
            strings.push(0);
        }
        let split = offsets
            .get(arguments.len())
            .map_or(strings.len(), |&at| at as usize);
        self.process.command_line = strings[..split].to_vec();
        self.process.environment = strings[split..].to_vec();
        let random_at = strings.len() as u64;
        strings.extend(random);
        let path_at = strings.len() as u64;
        strings.extend(path.as_bytes());
        strings.push(0);
        let room = configuration.stack_bytes as usize / 2;
        if strings.len() + 8 * offsets.len() > ARGUMENT_BYTES_MAX.min(room) {
            return Err(StackError::TooLong);
        }
        let strings_at = (STACK_TOP - 16 - strings.len() as u64) & !15;
        let (argument_offsets, environment_offsets) = offsets.split_at(arguments.len());
        let mut words = vec![arguments.len() as u64];
        words.extend(argument_offsets.iter().map(|offset| strings_at + offset));
        words.push(0);
        words.extend(environment_offsets.iter().map(|offset| strings_at + offset));
        words.push(0);
        let auxiliary_at = words.len();
        // AT_RANDOM, AT_EXECFN, AT_NULL.
        let tail = [
            (25, strings_at + random_at),
            (31, strings_at + path_at),
            (0, 0),
        ];
        for &(kind, value) in auxiliary.iter().chain(&tail) {
            words.extend([kind, value]);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.process.auxiliary = bytes[8 * auxiliary_at..].to_vec();
        let pointer = (strings_at - bytes.len() as u64) & !15;
        self.copy_out(machine, strings_at, &strings)
            .map_err(|_| StackError::Memory)?;
        self.copy_out(machine, pointer, &bytes)
            .map_err(|_| StackError::Memory)?;
        Ok(pointer)
    }

    fn map_stack(
        &mut self,
        configuration: &Configuration,
        machine: &mut dyn Machine,
    ) -> Result<(), StackError> {
        let anonymous = |end, permissions, purpose| Mapping {
            end,
            permissions,
            shared: false,
            backing: Backing::Anonymous,
            purpose,
        };
        let bytes = configuration.stack_bytes.next_multiple_of(PAGE_BYTES);
        let stack = anonymous(STACK_TOP, READ | WRITE, Purpose::Stack);
        self.map(machine, STACK_TOP - bytes, stack);
        // Written while it is still writable, then read-only for good.
        let trampoline = anonymous(SPACE_END, READ | WRITE, Purpose::Trampoline);
        self.map(machine, TRAMPOLINE, trampoline);
        self.copy_out(machine, TRAMPOLINE, &TRAMPOLINE_CODE)
            .map_err(|_| StackError::Memory)?;
        self.protect(machine, &(TRAMPOLINE..SPACE_END), READ | EXECUTE);
        Ok(())
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
            self.files.inode_mut(id)?.mode = 0o777;
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
        for (path, target) in LINKS {
            self.place(path, Node::Link(target.to_owned()), 0o777, false)?;
        }
        self.place("/proc/1/fd", Node::DescriptorDirectory, 0o500, false)?;
        for path in ["/proc", "/proc/1", "/sys", "/dev"] {
            let id = self.make_path(path)?;
            self.files.inode_mut(id)?.mode = 0o555;
        }
        self.mount_host(configuration)?;
        let work = self.make_path(WORK_DIRECTORY)?;
        self.process.directory = work;
        self.open_standard_files()
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

    fn add_program_links(&mut self, _inode: InodeId, path: &str) -> Result<(), Errno> {
        self.place("/proc/1/exe", Node::Link(path.to_owned()), 0o777, false)
    }

    fn open_standard_files(&mut self) -> Result<(), Errno> {
        for (path, flags) in [
            ("/dev/stdin", 0),
            ("/dev/stdout", O_WRONLY),
            ("/dev/stderr", O_WRONLY),
        ] {
            let root = self.files.root;
            let inode = self.files.find(&self.host, root, path, true)?;
            self.open.open(
                OpenFile::new(Object::Inode(inode), flags, path.to_owned()),
                false,
            )?;
        }
        Ok(())
    }
}

enum StackError {
    TooLong,
    Memory,
}

/// What to add to an image's addresses so that it begins at or above `base`.
fn place_at(image: &Image, base: u64) -> u64 {
    let (low, _) = image.extent();
    base.next_multiple_of(image.alignment)
        .wrapping_sub(low & !(image.alignment - 1))
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
        .take(host.program_mount() as usize)
    {
        if host.node(index as u32, "") != Some(HostNode::Directory) {
            let (host, guest) = (mount.host.clone(), mount.guest.clone());
            return Err(BootError::Mount { host, guest });
        }
    }
    if configuration.programs.len() != 1 {
        return Err(BootError::Programs(configuration.programs.len()));
    }
    let variables = configuration.programs[0]
        .environment
        .iter()
        .flat_map(|(name, value)| [name, value]);
    match configuration.programs[0]
        .arguments
        .iter()
        .chain(variables)
        .find(|text| text.contains('\0'))
    {
        Some(text) => Err(BootError::ZeroByte(text.clone())),
        None => Ok(()),
    }
}

/// The fixed variables and the configured ones, as `NAME=value`.
fn environment(program: &Program) -> Vec<String> {
    let path = GUEST_PATH.join(":");
    let mut variables: Vec<(&str, &str)> = vec![
        ("HOME", "/home/user"),
        ("LANG", "C.UTF-8"),
        ("PATH", &path),
        ("PWD", WORK_DIRECTORY),
        ("TERM", "dumb"),
        ("TZ", "UTC"),
        ("USER", "user"),
    ];
    for (name, value) in &program.environment {
        variables.retain(|(old, _)| old != name);
        variables.push((name, value));
    }
    variables
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

fn empty_process(configuration: &Configuration) -> Process {
    Process {
        program: String::new(),
        program_inode: InodeId(0),
        images: Vec::new(),
        command_line: Vec::new(),
        environment: Vec::new(),
        auxiliary: Vec::new(),
        directory: InodeId(0),
        umask: 0o022,
        actions: BTreeMap::new(),
        pending: Vec::new(),
        limits: default_limits(configuration.stack_bytes),
        timer: IntervalTimer::default(),
        next_thread: PROCESS_ID + 1,
        last_status: 0,
        dumpable: true,
        page_faults: 0,
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

const LINKS: [(&str, &str); 6] = [
    ("/proc/self", "1"),
    ("/proc/thread-self", "1/task/1"),
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

/// The lowest address is below every program.
const _: () = assert!(LOWEST < PROGRAM_BASE);
