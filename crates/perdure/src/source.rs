//! What executes a hart's instructions, as the machine knows it, and the engines that do.
//!
//! A source gets a hart's registers and a [`Door`] to the machine. It opens a [`crate::port::Port`] there,
//! makes every access through that, and comes back with why it stopped. Another one (translated blocks, a
//! recorded trace) is another type for the machine's `S`: nothing in `machine/` changes, and nothing is asked
//! through a table on the way of a hit. What a code generator must know of hits is data:
//! [`perdure_riscv::Layout`].
//!
//! Always true here:
//! - Registers are plain data with a byte format, and the machine's. Whatever a source keeps beside them it
//!   may forget between two calls, and nothing is different: so forks, power cuts and saved contexts never
//!   ask it.
//! - When a source comes back, `pc` and `retired` are exact. It comes back at the first beginning of a block
//!   at which the port's limit is reached. Coming back before that, at the beginning of any block and having
//!   retired something, changes nothing.
//! - The registers are RISC-V's because the kernel is Linux on RISC-V: a source of another instruction set
//!   needs another kernel, not another machine.

use perdure_riscv::fast::Pace;
pub use perdure_riscv::{CONTEXT_BYTES as REGISTERS_BYTES, Exit, Hart as Registers};
use perdure_riscv::{fast, plain};

use crate::port::{Door, FetchHint};
use crate::retired::{Listener, Recording};
use crate::stepping::Stepping;

/// What executes the instructions of one hart.
pub trait Source: Clone {
    /// What is chosen of it for a machine.
    type Choice: Copy;

    /// One that knows nothing yet.
    fn new(choice: Self::Choice) -> Self;

    /// Runs a hart until something stops it.
    fn run(&mut self, registers: &mut Registers, door: Door) -> Exit;

    /// What it remembers of code is no longer so: the hart came to another address space, or code was
    /// mapped or changed by the kernel.
    fn forget(&mut self);
}

/// Which engine runs the harts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Pre-decoded blocks and the lookaside.
    Fast,
    /// The fast one, which compiles what a program does often.
    Compiled(Pace),
    /// Fetch, decode, execute, and every access through the caches: the reference.
    Plain,
    /// The fast one, which stops where a debugger wants to look.
    Stepping,
}

impl Default for Engine {
    fn default() -> Self {
        Self::Compiled(Pace::USUAL)
    }
}

/// The engines of `perdure_riscv`.
#[derive(Clone)]
pub enum Engines {
    /// [`Engine::Fast`] or [`Engine::Compiled`], with the blocks that it has decoded.
    Fast(fast::BlockCache<FetchHint>),
    /// [`Engine::Plain`].
    Plain,
    /// [`Engine::Stepping`].
    Stepping(Box<Stepping>),
}

impl Engines {
    /// The same for a hart whose core is told of every instruction: engines of their own.
    fn run_observed(&mut self, registers: &mut Registers, door: Door) -> Exit {
        match self {
            Self::Fast(blocks) => {
                let mut port = door.open_window::<true, true>();
                let exit = fast::run(registers, &mut port, blocks);
                port.leave(&exit, registers);
                exit
            }
            Self::Plain => {
                let mut port = door.open_window::<false, true>();
                let exit = plain::run(registers, &mut port);
                port.leave(&exit, registers);
                exit
            }
            Self::Stepping(stepping) => stepping.run(registers, door),
        }
    }

    /// The debugger's engine, if it is that.
    pub(crate) fn stepping(&mut self) -> Option<&mut Stepping> {
        match self {
            Self::Stepping(stepping) => Some(stepping),
            Self::Fast(_) | Self::Plain => None,
        }
    }
}

/// Runs a hart, and tells of each instruction that it retires. The plain engine does, whichever was
/// chosen: it takes the same cycles, and says of every instruction where it ends.
fn run_recorded(registers: &mut Registers, mut door: Door, listener: &mut dyn Listener) -> Exit {
    let (hart, pc) = (door.hart, registers.pc & !1);
    if door.observes() {
        let port = door.open_window::<true, true>();
        let mut recording = Recording::new(port, listener, hart, pc);
        let exit = plain::run(registers, &mut recording);
        recording.inner().leave(&exit, registers);
        return exit;
    }
    let port = door.open::<true>();
    plain::run(registers, &mut Recording::new(port, listener, hart, pc))
}

impl Source for Engines {
    type Choice = Engine;

    fn new(engine: Engine) -> Self {
        match engine {
            Engine::Fast => Self::Fast(fast::BlockCache::default()),
            Engine::Compiled(pace) => Self::Fast(fast::BlockCache::compiling(pace)),
            Engine::Plain => Self::Plain,
            Engine::Stepping => Self::Stepping(Box::default()),
        }
    }

    fn run(&mut self, registers: &mut Registers, mut door: Door) -> Exit {
        if let Some(listener) = door.listener.take() {
            return run_recorded(registers, door, listener);
        }
        if door.observes() {
            return self.run_observed(registers, door);
        }
        match self {
            Self::Fast(blocks) => fast::run(registers, &mut door.open::<true>(), blocks),
            Self::Plain => plain::run(registers, &mut door.open::<false>()),
            Self::Stepping(stepping) => stepping.run(registers, door),
        }
    }

    fn forget(&mut self) {
        match self {
            Self::Fast(blocks) => blocks.flush(),
            Self::Stepping(stepping) => stepping.forget(),
            Self::Plain => {}
        }
    }
}
