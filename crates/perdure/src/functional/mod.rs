//! A machine without time: the kernel, one hart, memory, and persistent memory beside it. No cache, no queue
//! and no design; what persistence models allow is for whoever watches persistent memory ([`Watcher`]).
//!
//! Always true here:
//! - A copy goes on as the one that it was made of would have: bytes are shared until one of them writes.
//! - Threads take turns on the one hart, each for so many instructions. Every access takes effect when its
//!   instruction is executed.
//! - The clock is the instructions retired, a nanosecond each, and what was slept.

mod arriving;
mod calls;
mod door;
mod entering;
mod gathering;
mod kernel_door;
mod turns;
mod watcher;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use perdure_designs::layout::Layout;
use perdure_hardware::arena::Arena;
use perdure_hardware::random::Random;
use perdure_linux::pools::PoolSource;
use perdure_linux::{
    Configuration, ExitReport, Kernel, PAGE_BYTES, Pools, Release, Running, ThreadId,
};
use perdure_riscv::{Access, Exit, Hart, fast, plain};

use crate::call_stack;
use crate::error::Error;
use arriving::Arriving;
use calls::Calls;
use door::{Door, Hint, Lookaside};
use gathering::Gathering;
use kernel_door::KernelDoor;
use turns::{SLICE, Turns};

pub use calls::Functions;
pub use door::Pool;
pub use watcher::{At, Flush, Unwatched, Wait, Watcher};

/// The hart.
const HART: usize = 0;
/// Standard output and error that are kept of a life, in bytes.
const OUTPUT_BYTES: usize = 16 << 20;
/// Where things lie, and what every life has in common.
#[derive(Clone)]
pub struct World {
    /// Of physical memory, what programs live in.
    frames: Range<u64>,
    /// What pools live in.
    pools: Range<u64>,
    /// The kernel's, without programs and pools.
    kernel: Configuration,
    /// Functions whose calls are operations, by program.
    pub operations: Arc<BTreeMap<PathBuf, Functions>>,
}

/// Why a machine came back.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// The program has ended.
    Ended(ExitReport),
    /// It has retired so many instructions.
    Limit,
    /// The watcher wanted it. An access that it did not let happen will be tried again.
    Watcher,
    /// Nothing will ever run again.
    Deadlock,
}

/// A source of instructions: decoded blocks, for which nobody observes where instructions begin.
#[derive(Default)]
pub struct Engine(fast::BlockCache<Hint>);

/// The machine.
#[derive(Clone)]
pub struct Functional {
    kernel: Kernel,
    hart: Hart,
    memory: Arena,
    /// Persistent memory.
    pub pool: Pool,
    lookaside: Lookaside,
    running: Option<Running>,
    skipped_ns: u64,
    /// Of how long threads run where several can, if that is drawn.
    schedule: Option<Random>,
    slice_end: u64,
    turns: Turns,
    calls: Calls,
    gathering: Option<Gathering>,
    /// Stores to persistent memory after which the turn is over, too.
    stores_left: u64,
    /// There was a thread to wait while another one ran.
    pub has_threads: bool,
    ended: Option<ExitReport>,
    /// Standard output, then standard error.
    output: [Vec<u8>; 2],
}

impl World {
    /// On the memory of a machine that is laid out so, for programs that find this of the host.
    pub fn new(
        layout: &Layout,
        pools: Range<u64>,
        kernel: Configuration,
        configuration: &crate::Configuration,
    ) -> Self {
        Self {
            frames: layout.frames.clone(),
            kernel: Configuration {
                harts: 1,
                regions: Vec::new(),
                caches: configuration.caches(),
                random_seed: configuration.kernel.random_seed,
                clock_start_ns: configuration.kernel.clock_start_ns,
                output_limit_bytes: configuration.kernel.output_limit_bytes,
                host_limit_bytes: configuration.kernel.host_limit_bytes,
                image_room_bytes: layout.kernel.end - layout.kernel.start,
                stack_bytes: configuration.kernel.stack_bytes,
                ..kernel
            },
            pools,
            operations: Arc::default(),
        }
    }

    /// Where persistent memory lies.
    pub fn pools(&self) -> Range<u64> {
        self.pools.clone()
    }

    /// Persistent memory that has nothing yet.
    pub fn empty_pool(&self) -> Result<Pool, Error> {
        let bytes = self.pools.end - self.pools.start;
        Ok(Pool::new(self.pools.start, reserve(bytes)?))
    }

    /// A machine before its first instruction: programs begin on these pools, the `lives`-th time after the
    /// power failed.
    pub fn boot(
        &self,
        programs: &[perdure_linux::Program],
        source: PoolSource,
        pool: Pool,
        lives: u64,
    ) -> Result<Functional, Error> {
        let mut configuration = self.kernel.clone();
        configuration.programs = programs.to_vec();
        configuration.frames = self.frames.clone();
        configuration.random_seed ^= lives.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        configuration.pools = Some(Pools {
            addresses: self.pools.clone(),
            source: Arc::new(source),
            faults_commit: true,
            mistake: None,
        });
        let (mut memory, mut pool) = (reserve(self.frames.end)?, pool);
        let mut hart = Hart::default();
        let mut lookaside = Lookaside::default();
        let mut door = KernelDoor {
            memory: &mut memory,
            pool: &mut pool,
            lookaside: &mut lookaside,
            watcher: &mut Unwatched,
            at: At {
                thread: ThreadId(0),
                pc: 0,
                retired: 0,
                by_kernel: true,
            },
            now_ns: 0,
            bookkeeps: false,
            pauses: false,
        };
        let mut kernel = Kernel::boot(configuration, &mut door)?;
        let running = kernel.schedule(HART, &mut hart, &mut door);
        let calls = self.calls_of(programs, &kernel, running);
        Ok(Functional {
            kernel,
            hart,
            memory,
            pool,
            lookaside,
            running,
            skipped_ns: 0,
            schedule: None,
            slice_end: SLICE,
            turns: Turns::All,
            calls,
            gathering: None,
            stores_left: u64::MAX,
            has_threads: false,
            ended: None,
            output: Default::default(),
        })
    }
}

impl World {
    /// The functions of a program that has been loaded.
    fn calls_of(
        &self,
        programs: &[perdure_linux::Program],
        kernel: &Kernel,
        running: Option<Running>,
    ) -> Calls {
        let known = programs.first();
        let functions = known.and_then(|program| self.operations.get(&program.path));
        let (Some(functions), Some(running)) = (functions, running) else {
            return Calls::default();
        };
        let files = kernel.loaded_files(running.space);
        let bias = files.first().map_or(0, |file| file.bias);
        Calls::of(functions, bias)
    }
}

/// Memory of so many bytes.
fn reserve(bytes: u64) -> Result<Arena, Error> {
    Arena::new(bytes).map_err(|source| Error::Host {
        what: format!("reserving {bytes} bytes of simulated memory"),
        source,
    })
}

impl call_stack::Memory for Functional {
    fn read(&self, address: u64, buffer: &mut [u8], access: Access) -> Option<()> {
        let space = self.running?.space;
        let page = self.kernel.translate(space, address, access)?;
        let physical = page.physical_frame * PAGE_BYTES + address % PAGE_BYTES;
        if address % PAGE_BYTES + buffer.len() as u64 > PAGE_BYTES {
            return None;
        }
        match self.pool.offset_of(physical) {
            Some(_) => self.pool.read(physical, buffer),
            None => buffer.copy_from_slice(&self.memory.slice(physical, buffer.len())),
        }
        Some(())
    }
}

impl Functional {
    /// What a thread does now, by itself.
    fn now(&self, thread: ThreadId) -> At {
        At {
            thread,
            pc: self.hart.pc,
            retired: self.hart.retired,
            by_kernel: false,
        }
    }

    /// Instructions retired.
    pub fn retired(&self) -> u64 {
        self.hart.retired
    }

    /// The registers.
    pub fn registers(&self) -> &Hart {
        &self.hart
    }

    /// How the program ended, once it has.
    pub fn ended(&self) -> Option<&ExitReport> {
        self.ended.as_ref()
    }

    /// The kernel, for reports.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The bytes of the file of the program that runs.
    pub fn program_file(&self) -> Option<Arc<[u8]>> {
        let files = self.kernel.loaded_files(self.running?.space);
        files.into_iter().next().map(|file| file.contents)
    }

    /// What runs.
    pub fn running(&self) -> Option<Running> {
        self.running
    }

    /// What was written so far: standard output, then standard error.
    pub fn output(&mut self) -> &[Vec<u8>; 2] {
        self.let_out();
        &self.output
    }

    /// Runs until something stops it, at the latest at the first beginning of a block where it has retired so
    /// many: with decoded blocks, unless calls are operations.
    pub fn run<W: Watcher>(&mut self, watcher: &mut W, engine: &mut Engine, limit: u64) -> Stop {
        if !self.calls.is_empty() {
            return self.run_by(watcher, limit, |hart, door| {
                plain::run(hart, &mut Arriving::new(door))
            });
        }
        self.run_by(watcher, limit, |hart, door| {
            fast::run(hart, door, &mut engine.0)
        })
    }

    /// Goes on within a block until exactly so much is retired; a machine that was stopped so is only looked
    /// at.
    pub fn step_to<W: Watcher>(&mut self, watcher: &mut W, retired: u64) {
        self.run_by(watcher, retired, |hart, door| {
            plain::run_part(hart, &mut Arriving::new(door), retired - hart.retired)
        });
    }

    fn run_by<W: Watcher>(
        &mut self,
        watcher: &mut W,
        limit: u64,
        mut engine: impl FnMut(&mut Hart, &mut Door<W>) -> Exit,
    ) -> Stop {
        loop {
            if let Some(report) = &self.ended {
                return Stop::Ended(report.clone());
            }
            if self.hart.retired >= limit {
                return Stop::Limit;
            }
            if let Some(stop) = self.find_work(watcher) {
                return stop;
            }
            let Some(running) = self.running else {
                continue;
            };
            let at = self.now(running.thread);
            let mut door = Door {
                kernel: &self.kernel,
                memory: &mut self.memory,
                pool: &mut self.pool,
                lookaside: &mut self.lookaside,
                space: running.space,
                limit: limit.min(self.slice_end),
                skipped_ns: self.skipped_ns,
                stores_left: &mut self.stores_left,
                at,
                refused: false,
                pauses: false,
                gathers: self.gathering.is_some(),
                calls: &self.calls,
                arrival: None,
                mark: None,
                watcher,
            };
            let exit = engine(&mut self.hart, &mut door);
            if door.refused {
                return Stop::Watcher;
            }
            let mut pauses = door.pauses;
            let (arrival, mark) = (door.arrival, door.mark);
            pauses |= self.tell_of_operations(watcher, running.thread, arrival, mark);
            if exit == Exit::Limit {
                // Whoever looks, or was to get so far, finds the thread that got there.
                if pauses {
                    return Stop::Watcher;
                }
                if self.hart.retired >= limit {
                    return Stop::Limit;
                }
                if self.turn_is_over() {
                    self.end_slice(watcher);
                }
            } else {
                let Some(more) = self.handle_or_go_back(watcher, exit) else {
                    return Stop::Watcher;
                };
                pauses |= more;
            }
            if pauses {
                return Stop::Watcher;
            }
        }
    }

    fn look_for_end(&mut self) {
        if let Some(report) = self.kernel.exited() {
            self.ended = Some(report.clone());
        }
    }

    /// Takes what programs have written to standard output and error.
    fn let_out(&mut self) {
        self.kernel.seal(0);
        for (_, release) in self.kernel.release(0) {
            if let Release::Stream {
                program: 0,
                descriptor,
                bytes,
                ..
            } = release
            {
                let stream = &mut self.output[usize::from(descriptor == 2)];
                let room = OUTPUT_BYTES - stream.len();
                stream.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
        }
    }
}
