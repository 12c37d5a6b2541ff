//! A machine without caches, for running guests on the kernel alone.
//!
//! Always true: one nanosecond passes per instruction retired on any hart, so a run depends on
//! nothing but its configuration, the number of harts and the length of a slice.
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use perdure_linux::{
    Configuration, Exception, Kernel, Machine, Outcome, Program, ProgramReport, Release, SpaceId,
    Spool, ThreadId,
};
use perdure_riscv::fast::BlockCache;
use perdure_riscv::{
    Access, Amo, CacheBlock, Exit, Fault, FetchedLine, Hart, Memory, Scalar, fast, plain,
};

pub const MEMORY_START: u64 = 0x8000_0000;
const LOOKASIDE: usize = 256;
const ZERO_PAGE: [u8; 4096] = [0; 4096];
const NOTHING: (u64, u64) = (u64::MAX, 0);

/// Physical memory and the clock.
pub struct Flat {
    pub bytes: Vec<u8>,
    pub clock_ns: u64,
    /// By hart.
    pub retired: Vec<u64>,
    pub charged: u64,
    /// Counts changes to code: what was fetched before may be stale.
    generation: u64,
    lookaside: [[(u64, u64); LOOKASIDE]; 3],
    /// What was fetched of each line: like an instruction cache that sees no stores.
    fetched: BTreeMap<usize, [u8; 64]>,
    /// The space that the lookaside is about.
    space: SpaceId,
}

impl Flat {
    pub fn new(length: usize) -> Self {
        Self {
            bytes: vec![0; length],
            clock_ns: 0,
            retired: Vec::new(),
            charged: 0,
            generation: 1,
            lookaside: [[NOTHING; LOOKASIDE]; 3],
            fetched: BTreeMap::new(),
            space: SpaceId(0),
        }
    }

    fn forget_code(&mut self) {
        self.generation += 1;
        self.fetched.clear();
    }

    /// The place of physical bytes, if there is memory; a restored kernel that lies may ask for
    /// more.
    fn range(&self, physical: u64, length: usize) -> Option<Range<usize>> {
        let start = usize::try_from(physical.checked_sub(MEMORY_START)?).ok()?;
        let end = start
            .checked_add(length)
            .filter(|&end| end <= self.bytes.len())?;
        Some(start..end)
    }
}

impl Machine for Flat {
    fn read(&mut self, physical: u64, buffer: &mut [u8]) {
        match self.range(physical, buffer.len()) {
            Some(range) => buffer.copy_from_slice(&self.bytes[range]),
            None => buffer.fill(0),
        }
    }
    fn write(&mut self, physical: u64, bytes: &[u8]) {
        if let Some(range) = self.range(physical, bytes.len()) {
            self.bytes[range].copy_from_slice(bytes);
        }
    }
    fn zero_frame(&mut self, physical: u64) {
        if let Some(range) = self.range(physical, 4096) {
            self.bytes[range].fill(0);
        }
    }
    fn charge(&mut self, cycles: u64) {
        self.charged += cycles;
    }
    fn clock_ns(&self) -> u64 {
        self.clock_ns
    }
    fn retired(&self, hart: usize) -> u64 {
        self.retired.get(hart).copied().unwrap_or_default()
    }
    fn duration_ns(&self, instructions: u64) -> u64 {
        instructions
    }
    fn mappings_changed(&mut self, _space: SpaceId, _pages: Range<u64>, executable: bool) {
        self.lookaside = [[NOTHING; LOOKASIDE]; 3];
        self.generation += u64::from(executable);
    }
    fn code_written(&mut self) {
        self.forget_code();
    }
}

/// Memory as one hart sees it.
struct Port<'a> {
    flat: &'a mut Flat,
    kernel: &'a Kernel,
    space: SpaceId,
    limit: u64,
    reservation: &'a mut Option<u64>,
}

impl Port<'_> {
    #[inline(always)]
    fn place(&mut self, address: u64, access: Access) -> Result<usize, Fault> {
        let page = address >> 12;
        let kind = match access {
            Access::Load => 0,
            Access::Store => 1,
            Access::Fetch => 2,
        };
        let slot = page as usize % LOOKASIDE;
        let (tag, start) = self.flat.lookaside[kind][slot];
        if tag == page {
            return Ok((start + (address & 4095)) as usize);
        }
        let found = self.kernel.translate(self.space, address, access);
        let found = found.ok_or(Fault { access, address })?;
        let range = self.flat.range(found.physical_frame << 12, 4096);
        let start = range.ok_or(Fault { access, address })?.start as u64;
        self.flat.lookaside[kind][slot] = (page, start);
        Ok((start + (address & 4095)) as usize)
    }

    fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<(), Fault> {
        for (index, byte) in buffer.iter_mut().enumerate() {
            let place = self.place(address.wrapping_add(index as u64), Access::Load)?;
            *byte = self.flat.bytes[place];
        }
        Ok(())
    }
}

impl Memory for Port<'_> {
    type FetchHint = u64;

    fn limit(&self) -> u64 {
        self.limit
    }
    #[inline]
    fn load<T: Scalar>(&mut self, address: u64, _retired: u64) -> Result<T, Fault> {
        if address & 4095 <= 4096 - T::BYTES as u64 {
            let place = self.place(address, Access::Load)?;
            return Ok(T::from_le(&self.flat.bytes[place..place + T::BYTES]));
        }
        let mut raw = [0; 8];
        self.read(address, &mut raw[..T::BYTES])?;
        Ok(T::from_le(&raw[..T::BYTES]))
    }
    #[inline]
    fn store<T: Scalar>(&mut self, address: u64, value: T, _retired: u64) -> Result<(), Fault> {
        let raw = value.to_u64().to_le_bytes();
        if address & 4095 <= 4096 - T::BYTES as u64 {
            let place = self.place(address, Access::Store)?;
            self.flat.bytes[place..place + T::BYTES].copy_from_slice(&raw[..T::BYTES]);
            return Ok(());
        }
        // Both pages first, so that a fault leaves nothing half done.
        self.place(address, Access::Store)?;
        self.place(address + T::BYTES as u64 - 1, Access::Store)?;
        for (index, byte) in raw[..T::BYTES].iter().enumerate() {
            let place = self.place(address + index as u64, Access::Store)?;
            self.flat.bytes[place] = *byte;
        }
        Ok(())
    }
    fn fetch(&mut self, pc: u64, _retired: u64) -> Result<FetchedLine<'_, u64>, Fault> {
        let place = self.place(pc, Access::Fetch)? & !63;
        let memory = &self.flat.bytes[place..place + 64];
        let fetched = self.flat.fetched.entry(place).or_insert_with(|| {
            let mut bytes = [0; 64];
            bytes.copy_from_slice(memory);
            bytes
        });
        Ok(FetchedLine {
            bytes: fetched,
            hint: self.flat.generation,
        })
    }
    fn fetch_again(&mut self, _pc: u64, hint: u64, _retired: u64) -> bool {
        hint == self.flat.generation
    }
    fn load_reserved<T: Scalar>(&mut self, address: u64, retired: u64) -> Result<T, Fault> {
        let value = self.load(address, retired)?;
        *self.reservation = Some(address >> 6);
        Ok(value)
    }
    fn store_conditional<T: Scalar>(
        &mut self,
        address: u64,
        value: T,
        retired: u64,
    ) -> Result<bool, Fault> {
        self.place(address, Access::Store)?;
        let stands = self.reservation.take() == Some(address >> 6);
        if stands {
            self.store(address, value, retired)?;
        }
        Ok(stands)
    }
    fn atomic<T: Scalar>(
        &mut self,
        operation: Amo,
        address: u64,
        operand: T,
        retired: u64,
    ) -> Result<T, Fault> {
        self.place(address, Access::Store)?;
        let old: T = self.load(address, retired)?;
        self.store(address, operation.apply(old, operand), retired)?;
        Ok(old)
    }
    fn cache_block(&mut self, operation: CacheBlock, address: u64, _: u64) -> Result<(), Fault> {
        let place = self.place(address, Access::Store)? & !63;
        if operation == CacheBlock::Zero {
            self.flat.bytes[place..place + 64].fill(0);
        }
        Ok(())
    }
    fn fence(&mut self, _predecessor: u8, _successor: u8, _retired: u64) {}
    fn fence_instruction(&mut self, _retired: u64) {
        self.flat.forget_code();
    }
    fn persistence(&mut self, _: u16, _: [u64; 2], _: u64) -> Result<Option<u64>, Fault> {
        Ok(None)
    }
    fn cycle(&self, retired: u64) -> u64 {
        retired
    }
    fn time(&self, retired: u64) -> u64 {
        retired
    }
}

#[derive(Default)]
struct HartPlace {
    hart: Hart,
    blocks: BlockCache<u64>,
    running: Option<(ThreadId, SpaceId)>,
    /// The space of the decoded blocks.
    space: Option<SpaceId>,
    reservation: Option<u64>,
}

/// How a guest is run.
#[derive(Clone, Debug)]
pub struct Options {
    pub configuration: Configuration,
    pub memory_bytes: usize,
    /// Instructions of a time slice.
    pub slice: u64,
    /// Save and restore the kernel after every so many slices.
    pub restore_every: Option<u64>,
    pub plain: bool,
    /// Give up after so many instructions.
    pub instructions_max: u64,
}

impl Options {
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let memory_bytes = 256 << 20;
        Self {
            configuration: Configuration {
                programs: vec![Program::new(program)],
                frames: MEMORY_START..MEMORY_START + memory_bytes as u64,
                ..Configuration::default()
            },
            memory_bytes,
            slice: 20_000,
            restore_every: None,
            plain: false,
            instructions_max: 4_000_000_000,
        }
    }
}

/// What became of a guest.
#[derive(Debug, Default)]
pub struct Ended {
    /// Standard output of each program but the first.
    pub others: BTreeMap<u32, Vec<u8>>,
    pub reports: Vec<ProgramReport>,
    pub status: i32,
    pub report: String,
    pub standard_output: Vec<u8>,
    pub standard_error: Vec<u8>,
    pub files: Vec<Release>,
    pub instructions: u64,
    pub restored: u64,
    pub unknown: Vec<(u64, &'static str)>,
}

/// A machine with its kernel.
pub struct Runner {
    pub flat: Flat,
    pub kernel: Kernel,
    options: Options,
    harts: Vec<HartPlace>,
    epoch: u64,
    slices: u64,
    pub ended: Ended,
    /// The kernel may lie about what it did before.
    forged: bool,
}

impl Runner {
    pub fn new(options: Options) -> Result<Self, perdure_linux::BootError> {
        let mut flat = Flat::new(options.memory_bytes);
        let kernel = Kernel::boot(options.configuration.clone(), &mut flat)?;
        let harts = 0..options.configuration.harts;
        let harts: Vec<_> = harts.map(|_| HartPlace::default()).collect();
        flat.retired = vec![0; harts.len()];
        Ok(Self {
            flat,
            kernel,
            options,
            harts,
            epoch: 0,
            slices: 0,
            ended: Ended::default(),
            forged: false,
        })
    }

    /// This machine with another kernel, everything else as it is.
    pub fn with_kernel(&self, kernel: Kernel) -> Self {
        let mut flat = Flat::new(self.flat.bytes.len());
        // Memory that was never written need not be touched: most of it.
        let pages = self
            .flat
            .bytes
            .chunks(4096)
            .zip(flat.bytes.chunks_mut(4096));
        for (page, copy) in pages.filter(|(page, _)| **page != ZERO_PAGE) {
            copy.copy_from_slice(page);
        }
        flat.clock_ns = self.flat.clock_ns;
        flat.retired.clone_from(&self.flat.retired);
        let harts = self.harts.iter().map(|place| HartPlace {
            hart: place.hart.clone(),
            running: place.running,
            ..HartPlace::default()
        });
        Self {
            flat,
            kernel,
            options: self.options.clone(),
            harts: harts.collect(),
            epoch: self.epoch,
            slices: self.slices,
            ended: Ended {
                instructions: self.ended.instructions,
                ..Ended::default()
            },
            forged: true,
        }
    }

    /// Runs to the end.
    pub fn run(mut self) -> Ended {
        let instructions_max = self.options.instructions_max;
        assert!(self.run_until(instructions_max), "the guest does not end");
        self.commit();
        let report = self.kernel.exited().expect("ended").clone();
        self.ended.status = report.status;
        self.ended.report = report
            .fatal
            .map(|fatal| format!("{fatal:x?}"))
            .unwrap_or_default();
        self.ended.unknown = self.kernel.unknown_calls();
        self.ended.reports = self.kernel.program_reports().to_vec();
        self.ended
    }

    /// Runs until the process ends (true), so many instructions have been retired, or nothing can
    /// ever happen again.
    pub fn run_until(&mut self, instructions: u64) -> bool {
        while self.kernel.exited().is_none() {
            if self.ended.instructions >= instructions {
                return false;
            }
            if self
                .options
                .restore_every
                .is_some_and(|every| self.slices.is_multiple_of(every))
            {
                self.save_and_restore();
            }
            self.slices += 1;
            let mut worked = false;
            for index in 0..self.harts.len() {
                worked |= self.run_hart(index);
                if self.kernel.exited().is_some() {
                    break;
                }
            }
            if !worked {
                let Some(due) = self.kernel.next_change_ns() else {
                    return false;
                };
                self.flat.clock_ns = self.flat.clock_ns.max(due);
            }
            self.kernel.wake_sleepers(self.flat.clock_ns);
        }
        true
    }

    /// The kernel is replaced by what its bytes say; harts and memory stay.
    fn save_and_restore(&mut self) {
        let bytes = self.kernel.save();
        let restored = Kernel::restore(&bytes, self.kernel.host_view()).expect("it restores");
        assert!(
            restored.save() == bytes,
            "a restored kernel saves the same bytes"
        );
        self.kernel = restored;
        self.ended.restored += 1;
    }

    fn commit(&mut self) {
        self.epoch += 1;
        self.kernel.seal(self.epoch);
        for (_, release) in self.kernel.release(self.epoch) {
            let Release::Stream {
                program,
                descriptor,
                offset,
                bytes,
            } = release
            else {
                continue;
            };
            let stream = match (program, descriptor) {
                (0, 1) => &mut self.ended.standard_output,
                (_, 1) => self.ended.others.entry(program).or_default(),
                _ => &mut self.ended.standard_error,
            };
            if !self.forged && (program, descriptor) != (program.max(1), 2) {
                assert_eq!(stream.len() as u64, offset, "stream output has a gap");
            }
            stream.extend(bytes);
        }
        let files = self.kernel.release_files(&mut self.flat, &Spool::default());
        let files = files.expect("the disk has room");
        self.ended.files.extend(files);
    }

    /// One time slice; false if the hart has nothing to run.
    fn run_hart(&mut self, index: usize) -> bool {
        let place = &mut self.harts[index];
        if place.running.is_none() {
            place.reservation = None;
            let running = self.kernel.schedule(index, &mut place.hart, &mut self.flat);
            place.running = running.map(|running| (running.thread, running.space));
        }
        let Some((_, space)) = place.running else {
            return false;
        };
        if place.space.replace(space) != Some(space) {
            place.blocks.flush();
        }
        if self.flat.space != space {
            self.flat.space = space;
            self.flat.lookaside = [[NOTHING; LOOKASIDE]; 3];
        }
        let (limit, mut calls) = (place.hart.retired + self.options.slice, 0);
        while place.hart.retired < limit {
            let before = place.hart.retired;
            let mut port = Port {
                flat: &mut self.flat,
                kernel: &self.kernel,
                space,
                limit,
                reservation: &mut place.reservation,
            };
            let exit = if self.options.plain {
                plain::run(&mut place.hart, &mut port)
            } else {
                fast::run(&mut place.hart, &mut port, &mut place.blocks)
            };
            let retired = place.hart.retired - before;
            self.flat.clock_ns += retired;
            calls = if retired == 0 { calls + 1 } else { 0 };
            assert!(calls < 100_000, "a thread makes the same call for ever");
            self.flat.retired[index] = place.hart.retired;
            self.ended.instructions += retired;
            let (kernel, hart, flat) = (&mut self.kernel, &mut place.hart, &mut self.flat);
            let outcome = match exit {
                Exit::Limit => kernel.preempt(index, hart, flat),
                Exit::EnvironmentCall => kernel.system_call(index, hart, flat),
                Exit::Fault(fault) => kernel.fault(index, hart, fault, flat),
                Exit::Breakpoint => kernel.exception(index, hart, Exception::Breakpoint, flat),
                Exit::Illegal { bits } => {
                    kernel.exception(index, hart, Exception::Illegal { bits }, flat)
                }
                Exit::Misaligned { address, .. } => {
                    kernel.exception(index, hart, Exception::Misaligned { address }, flat)
                }
            };
            match outcome {
                Outcome::Continue => {}
                Outcome::Commit => {
                    self.commit();
                    return true;
                }
                Outcome::Blocked | Outcome::Exited { .. } => {
                    place.running = None;
                    place.reservation = None;
                    return true;
                }
            }
        }
        true
    }
}

/// Runs a program to its end.
pub fn run(options: Options) -> Ended {
    Runner::new(options).expect("it boots").run()
}

/// What was compiled: tests run in threads of one process, and several want the same program.
static COMPILED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Compiles a guest program, once per test run; the compiler is part of the set-up.
pub fn compile(source: &Path, flags: &[&str]) -> PathBuf {
    let directory =
        PathBuf::from(option_env!("CARGO_TARGET_TMPDIR").unwrap_or(".")).join("programs");
    std::fs::create_dir_all(&directory).expect("a directory for programs");
    let stem = source
        .file_stem()
        .expect("a source file")
        .to_string_lossy()
        .into_owned();
    let output = directory.join(format!("{stem}{}", flags.concat().replace(['/', ' '], "_")));
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if compiled.contains(&output) {
        return output;
    }
    let (compiler, standard) = if source.extension().is_some_and(|e| e == "cc") {
        ("riscv64-linux-gnu-g++", "-std=c++17")
    } else {
        ("riscv64-linux-gnu-gcc", "-std=gnu11")
    };
    let partial = output.with_extension(format!("partial{}", std::process::id()));
    let result = std::process::Command::new(compiler)
        .args([standard, "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(flags)
        .arg("-o")
        .arg(&partial)
        .arg(source)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}; install gcc-riscv64-linux-gnu"));
    assert!(
        result.status.success(),
        "{}: {}",
        source.display(),
        String::from_utf8_lossy(&result.stderr)
    );
    std::fs::rename(&partial, &output).expect("the program can be put in place");
    compiled.insert(output.clone());
    output
}

pub fn guest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/guests")
        .join(name)
}

/// Makes the guest's first thread map and touch pages, by the kernel's own calls; returns how many.
pub fn map_pages(runner: &mut Runner, pages: u64) -> u64 {
    const MMAP: u64 = 222;
    let index = runner
        .harts
        .iter()
        .position(|place| place.running.is_some())
        .unwrap_or(0);
    let place = &mut runner.harts[index];
    if place.running.is_none() {
        let running = runner
            .kernel
            .schedule(index, &mut place.hart, &mut runner.flat);
        place.running = running.map(|running| (running.thread, running.space));
    }
    let mut hart = place.hart.clone();
    hart.x[10..17].copy_from_slice(&[0, pages << 12, 3, 0x22, u64::MAX, 0, 0]);
    hart.x[17] = MMAP;
    let outcome = runner
        .kernel
        .system_call(index, &mut hart, &mut runner.flat);
    assert_eq!(outcome, Outcome::Continue);
    let start = hart.x[10];
    for page in 0..pages {
        let fault = Fault {
            access: Access::Store,
            address: start + (page << 12),
        };
        let outcome = runner
            .kernel
            .fault(index, &mut hart, fault, &mut runner.flat);
        assert_eq!(outcome, Outcome::Continue);
    }
    pages
}
