//! From a program file to an address space and the first registers: for boot and for `execve`.
//!
//! Always true: a load that fails leaves nothing behind.

use crate::address_space::{
    Backing, LoadedImage, Mapping, Purpose, SPACE_END, STACK_TOP, TRAMPOLINE,
};
use crate::delivery::SIGNAL_FRAME_BYTES;
use crate::elf::{self, ElfError, Image};
use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE_BYTES, SpaceId};
use crate::page_table::{EXECUTE, READ, WRITE};
use crate::process::USER_ID;
use crate::thread::Context;
use crate::vfs::InodeId;
use crate::vfs::path::Viewer;
use crate::vfs::spelling::{bytes_of, into_bytes, text_of};

/// Position-independent programs are loaded here.
const PROGRAM_BASE: u64 = 0x5555_5555_4000;
/// Arguments and environment may take this much.
pub(crate) const ARGUMENT_BYTES_MAX: usize = 1 << 20;
/// As much of a file as its headers can take.
const HEADER_BYTES_MAX: u64 = 64 << 10;
/// I, M, A, F, D, C as `AT_HWCAP` bits.
const HARDWARE_CAPABILITIES: u64 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 8 | 1 << 12;
/// `li a7, 139; ecall`: `rt_sigreturn`, in the form that unwinders know.
const TRAMPOLINE_CODE: [u8; 8] = [0x93, 0x08, 0xb0, 0x08, 0x73, 0x00, 0x00, 0x00];

/// The part of a script that is looked at for its first line.
const SCRIPT_LINE_BYTES: u64 = 256;
/// Scripts that may be each other's interpreters.
const SCRIPTS_MAX: usize = 5;

/// What to load.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// What was asked for, for `AT_EXECFN` and the thread's name: the program, or a script.
    pub path: String,
    /// The file that is loaded: of a script, its interpreter.
    pub file: String,
    pub inode: InodeId,
    pub arguments: Vec<Vec<u8>>,
    /// `NAME=value`.
    pub environment: Vec<Vec<u8>>,
    /// Whose random numbers it gets.
    pub program: u32,
    /// How long its stack is at first.
    pub stack_bytes: u64,
}

/// A program in memory, ready to begin.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub space: SpaceId,
    pub context: Context,
    pub command_line: Vec<u8>,
    pub environment: Vec<u8>,
    pub auxiliary: Vec<u8>,
}

/// Why a program cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoadError {
    /// Not a regular file, or its bytes are not there.
    Unreadable(String),
    Elf {
        path: String,
        error: ElfError,
    },
    MissingInterpreter {
        program: String,
        interpreter: String,
    },
    /// A script's interpreter cannot be executed.
    Script {
        script: String,
        interpreter: String,
        error: Errno,
    },
    /// Too many scripts are each other's interpreters.
    Scripts,
    /// Arguments and environment are too long.
    Arguments,
    /// There is no memory left, or no place in the address space.
    Memory,
}

impl From<LoadError> for Errno {
    fn from(error: LoadError) -> Self {
        const E2BIG: Errno = Errno(7);
        const ENOEXEC: Errno = Errno(8);
        match error {
            LoadError::Unreadable(_) => Errno::EACCES,
            LoadError::Elf { .. } => ENOEXEC,
            LoadError::MissingInterpreter { .. } => Errno::ENOENT,
            LoadError::Script { error, .. } => error,
            LoadError::Scripts => Errno::ELOOP,
            LoadError::Arguments => E2BIG,
            LoadError::Memory => Errno::ENOMEM,
        }
    }
}

impl Kernel {
    /// Fails if a program file, or the loader that it names, is none.
    pub(crate) fn check_image(
        &mut self,
        machine: &mut dyn Machine,
        launch: &Launch,
    ) -> Result<(), LoadError> {
        let image = self.read_image(machine, launch.inode, &launch.file)?;
        if let Some(interpreter) = &image.interpreter {
            let inode = self.find_interpreter(launch, interpreter)?;
            self.read_image(machine, inode, interpreter)?;
        }
        Ok(())
    }

    fn find_interpreter(
        &mut self,
        launch: &Launch,
        interpreter: &str,
    ) -> Result<InodeId, LoadError> {
        let viewer = Viewer::nobody(&self.processes, &self.open);
        let root = self.files.root;
        self.files
            .find(&self.host, viewer, root, interpreter, true)
            .map_err(|_| LoadError::MissingInterpreter {
                program: launch.file.clone(),
                interpreter: interpreter.to_owned(),
            })
    }

    /// Puts the interpreter in the place of a script, until it is a program. `look_up` finds the
    /// file at a path, if it may be executed.
    pub(crate) fn settle_scripts(
        &mut self,
        machine: &mut dyn Machine,
        launch: &mut Launch,
        look_up: impl Fn(&mut Self, &str) -> Result<InodeId, Errno>,
    ) -> Result<(), LoadError> {
        let mut scripts = 0;
        while let Some(line) = self.first_line(machine, launch)? {
            scripts += 1;
            if scripts > SCRIPTS_MAX {
                return Err(LoadError::Scripts);
            }
            launch.inode = look_up(self, &line.interpreter).map_err(|error| LoadError::Script {
                script: launch.file.clone(),
                interpreter: line.interpreter.clone(),
                error,
            })?;
            let script = std::mem::replace(&mut launch.file, line.interpreter.clone());
            let first = into_bytes(line.interpreter);
            let before = std::iter::once(first).chain(line.option);
            let rest = launch.arguments.drain(..).skip(1).collect::<Vec<_>>();
            launch.arguments = before.chain([into_bytes(script)]).chain(rest).collect();
        }
        Ok(())
    }

    /// The first line of a script; `None` for anything else.
    fn first_line(
        &mut self,
        machine: &mut dyn Machine,
        launch: &Launch,
    ) -> Result<Option<FirstLine>, LoadError> {
        let head = self
            .read_file(machine, launch.inode, 0, SCRIPT_LINE_BYTES)
            .map_err(|_| LoadError::Unreadable(launch.file.clone()))?;
        let Some(line) = head.strip_prefix(b"#!") else {
            return Ok(None);
        };
        let is_whole = head.len() < SCRIPT_LINE_BYTES as usize;
        FirstLine::parse(line, is_whole).map(Some).ok_or_else(|| {
            let error = ElfError::NotElf;
            let path = launch.file.clone();
            LoadError::Elf { path, error }
        })
    }

    /// Puts a program into a new address space.
    pub(crate) fn load(
        &mut self,
        machine: &mut dyn Machine,
        launch: &Launch,
    ) -> Result<Loaded, LoadError> {
        let space = self.spaces.create();
        let loaded = self.load_into(machine, space, launch);
        if loaded.is_err() {
            self.leave_space(machine, space);
        }
        loaded
    }

    fn load_into(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        launch: &Launch,
    ) -> Result<Loaded, LoadError> {
        let image = self.read_image(machine, launch.inode, &launch.file)?;
        let bias = if image.relocatable {
            place_at(&image, PROGRAM_BASE)
        } else {
            0
        };
        self.load_image(machine, space, launch.inode, &image, bias);
        let (mut entry, mut base) = (image.entry.wrapping_add(bias), 0);
        if let Some(interpreter) = &image.interpreter {
            let inode = self.find_interpreter(launch, interpreter)?;
            let loader = self.read_image(machine, inode, interpreter)?;
            let (low, high) = loader.extent();
            let gap = self.spaces[space].find_gap(high - low + loader.alignment);
            let gap = gap.ok_or(LoadError::Memory)?;
            base = if loader.relocatable {
                place_at(&loader, gap)
            } else {
                0
            };
            self.load_image(machine, space, inode, &loader, base);
            entry = loader.entry.wrapping_add(base);
        }
        let (_, end) = image.extent();
        self.spaces[space].break_start = end + bias;
        self.spaces[space].break_now = end + bias;
        let headers_bias = if image.headers_address == 0 { 0 } else { bias };
        let auxiliary = [
            // AT_PHDR, AT_PHENT, AT_PHNUM, AT_PAGESZ, AT_BASE, AT_FLAGS, AT_ENTRY.
            (3, image.headers_address.wrapping_add(headers_bias)),
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
        self.map_stack(machine, space, launch.stack_bytes, image.stack_permissions)?;
        let mut loaded = self.build_stack(machine, space, launch, &auxiliary)?;
        loaded.context.pc = entry;
        Ok(loaded)
    }

    /// The headers of a program file: from the host, or as a guest wrote them.
    fn read_image(
        &mut self,
        machine: &mut dyn Machine,
        inode: InodeId,
        path: &str,
    ) -> Result<Image, LoadError> {
        let unreadable = || LoadError::Unreadable(path.to_owned());
        let file = self.files.file(inode).map_err(|_| unreadable())?;
        let size = file.size;
        let untouched = file.chunks.is_empty() && file.host_bytes == size;
        let parsed = match &file.host {
            Some(host) if untouched => {
                let contents = self.host.contents(host.mount, &host.path);
                elf::parse(&contents.ok_or_else(unreadable)?, size)
            }
            _ => {
                let head = self
                    .read_file(machine, inode, 0, size.min(HEADER_BYTES_MAX))
                    .map_err(|_| unreadable())?;
                elf::parse(&head, size)
            }
        };
        parsed.map_err(|error| LoadError::Elf {
            path: path.to_owned(),
            error,
        })
    }

    /// Maps an image's segments; pages come when they are touched.
    fn load_image(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        inode: InodeId,
        image: &Image,
        bias: u64,
    ) {
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
                self.map(machine, space, start, mapping);
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
                self.map(machine, space, zero_start, zeros);
            }
        }
        let (low, high) = image.extent();
        self.spaces[space].images.push(LoadedImage {
            inode,
            bias,
            start: low + bias,
            end: high + bias,
        });
    }

    /// The first stack: strings, auxiliary vector, environment, arguments.
    fn build_stack(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        launch: &Launch,
        auxiliary: &[(u64, u64)],
    ) -> Result<Loaded, LoadError> {
        let all = launch.arguments.iter().chain(&launch.environment);
        let mut strings: Vec<u8> = Vec::new();
        let mut offsets = Vec::new();
        for text in all {
            offsets.push(strings.len() as u64);
            strings.extend(text);
            strings.push(0);
        }
        let room = launch.stack_bytes as usize / 2;
        if strings.len() + 8 * offsets.len() > ARGUMENT_BYTES_MAX.min(room) {
            return Err(LoadError::Arguments);
        }
        let mut random = [0; 16];
        self.progress[launch.program as usize]
            .random
            .fill(&mut random);
        let (argument_offsets, environment_offsets) = offsets.split_at(launch.arguments.len());
        let split = environment_offsets
            .first()
            .map_or(strings.len(), |&at| at as usize);
        let command_line = strings[..split].to_vec();
        let environment = strings[split..].to_vec();
        let random_at = strings.len() as u64;
        strings.extend(random);
        let path_at = strings.len() as u64;
        strings.extend(bytes_of(&launch.path).iter());
        strings.push(0);
        let strings_at = (STACK_TOP - 16 - strings.len() as u64) & !15;
        let mut words = vec![launch.arguments.len() as u64];
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
        let pointer = (strings_at - bytes.len() as u64) & !15;
        self.copy_out(machine, space, strings_at, &strings)
            .map_err(|_| LoadError::Memory)?;
        self.copy_out(machine, space, pointer, &bytes)
            .map_err(|_| LoadError::Memory)?;
        let mut context = Context::default();
        context.x[2] = pointer;
        Ok(Loaded {
            space,
            context,
            command_line,
            environment,
            auxiliary: bytes[8 * auxiliary_at..].to_vec(),
        })
    }

    fn map_stack(
        &mut self,
        machine: &mut dyn Machine,
        space: SpaceId,
        stack_bytes: u64,
        permissions: u64,
    ) -> Result<(), LoadError> {
        let anonymous = |end, permissions, purpose| Mapping {
            end,
            permissions,
            shared: false,
            backing: Backing::Anonymous,
            purpose,
        };
        let stack = anonymous(STACK_TOP, permissions, Purpose::Stack);
        let bytes = stack_bytes.next_multiple_of(PAGE_BYTES);
        self.map(machine, space, STACK_TOP - bytes, stack);
        // Written while it is still writable, then read-only for good.
        let trampoline = anonymous(SPACE_END, READ | WRITE, Purpose::Trampoline);
        self.map(machine, space, TRAMPOLINE, trampoline);
        self.copy_out(machine, space, TRAMPOLINE, &TRAMPOLINE_CODE)
            .map_err(|_| LoadError::Memory)?;
        self.protect(machine, space, &(TRAMPOLINE..SPACE_END), READ | EXECUTE);
        Ok(())
    }
}

/// What the first line of a script says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FirstLine {
    interpreter: String,
    /// The rest of the line.
    option: Option<Vec<u8>>,
}

impl FirstLine {
    /// From what stands behind the `#!`; `is_whole` unless the file goes on behind it. As on Linux,
    /// an interpreter that is cut off is none, and an option that is cut off is taken as it is.
    fn parse(text: &[u8], is_whole: bool) -> Option<Self> {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let ends = is_whole || line.len() < text.len();
        let start = line.iter().position(|byte| !is_blank(byte))?;
        let line = &line[start..];
        let last = line.iter().rposition(|byte| !is_blank(byte))?;
        let stop = |byte: &u8| is_blank(byte) || *byte == 0;
        let end = line.iter().position(stop);
        if end.is_none() && !ends {
            return None;
        }
        let line = &line[..=last];
        let (interpreter, option) = line.split_at(end.unwrap_or(line.len()).min(line.len()));
        let option = option.iter().position(|byte| !is_blank(byte)).map(|at| {
            let option = &option[at..];
            let end = option.iter().position(|&byte| byte == 0);
            option[..end.unwrap_or(option.len())].to_vec()
        });
        Some(Self {
            interpreter: text_of(interpreter.to_vec()),
            option: option.filter(|option| !option.is_empty()),
        })
        .filter(|line| !line.interpreter.is_empty())
    }
}

/// What to add to an image's addresses so that it begins at or above `base`.
fn place_at(image: &Image, base: u64) -> u64 {
    let (low, _) = image.extent();
    base.next_multiple_of(image.alignment)
        .wrapping_sub(low & !(image.alignment - 1))
}

/// The lowest address is below every program.
const _: () = assert!(crate::address_space::LOWEST < PROGRAM_BASE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_are_read_as_linux_reads_them() {
        let parsed = |text: &[u8], is_whole| {
            FirstLine::parse(text, is_whole).map(|line| (line.interpreter, line.option))
        };
        let line = |interpreter: &str, option: Option<&[u8]>| {
            Some((interpreter.to_owned(), option.map(<[u8]>::to_vec)))
        };
        assert_eq!(parsed(b"/bin/sh\nexit 1\n", true), line("/bin/sh", None));
        assert_eq!(
            parsed(b" \t/bin/sh  -e  -u \t\nexit 1\n", true),
            line("/bin/sh", Some(b"-e  -u"))
        );
        assert_eq!(parsed(b"/bin/sh\r\n", true), line("/bin/sh\r", None));
        assert_eq!(parsed(b"/bin/sh", true), line("/bin/sh", None));
        assert_eq!(parsed(b"/bin/sh\0 -x", true), line("/bin/sh", None));
        assert_eq!(parsed(b"/bin/sh -x\0y", true), line("/bin/sh", Some(b"-x")));
        for nothing in [&b""[..], b"\n", b"  \t \n", b"\0\n"] {
            assert_eq!(parsed(nothing, true), None);
        }
        assert_eq!(parsed(&[b'x'; 254], false), None, "the name is cut off");
        let mut long = b"/bin/sh ".to_vec();
        long.resize(254, b'x');
        let option = &long[8..];
        assert_eq!(parsed(&long, false), line("/bin/sh", Some(option)));
    }
}
