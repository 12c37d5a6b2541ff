//! The coherence protocol: directory MESI as one pure function, without time and without data.
//!
//! A *sharing group* is what has private caches: an L2 with the harts that share it and their L1s. The
//! directory sits beside the shared last-level cache and knows exactly which sharing groups hold a line,
//! because clean evictions are told too. (Where harts share an L2, the same protocol holds between
//! their L1s, with the L2 in the place of the last-level cache.) `tests/all/coherence.rs` explores every
//! reachable state of three sharing groups and two lines under every order of requests; the hierarchy
//! wraps timing and bytes around it.

use crate::cache::State;

/// What the directory knows of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Directory {
    /// The sharing groups that hold the line, one bit each.
    pub holders: u64,
    /// The one holder has it exclusively (and may have written it).
    pub exclusive: bool,
}

/// What a sharing group, or the shared cache itself, asks of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A sharing group wants to read and doesn't hold the line.
    Read,
    /// A sharing group wants to execute; never grants exclusivity.
    Fetch,
    /// A sharing group wants to write and holds no exclusive copy.
    Write,
    /// A sharing group gives its copy up (its bytes travel along if it was modified).
    Evict,
    /// The shared cache takes the line back from everybody (inclusion).
    Recall,
    /// The shared cache wants the newest bytes; holders keep their copies, unmodified.
    Clean,
}

/// What happens to the other holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snoop {
    /// Nothing.
    None,
    /// These sharing groups lose the line; a modified one hands over its bytes.
    Invalidate(u64),
    /// This sharing group keeps the line shared; if modified, it hands over its bytes.
    Downgrade(u32),
    /// This sharing group keeps the line exclusive; if modified, it hands over its bytes.
    Clean(u32),
}

/// The directory's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The directory's next state.
    pub next: Directory,
    /// What to do to other holders first.
    pub snoop: Snoop,
    /// The state that the requester gets; `Invalid` where it asked for none.
    pub grant: State,
}

/// The protocol. `requester` is ignored by `Recall` and `Clean`.
///
/// | request | nobody | shared | exclusive elsewhere |
/// |---|---|---|---|
/// | Read | E | S | downgrade owner, S |
/// | Fetch | S | S | downgrade owner, S |
/// | Write | E | invalidate others, E | invalidate owner, E |
/// | Evict | – | drop the bit | drop the bit |
/// | Recall | – | invalidate all | invalidate owner |
/// | Clean | – | – | owner hands over its bytes |
#[inline]
pub fn transition(now: Directory, request: Request, requester: u32) -> Transition {
    let me = 1u64 << requester;
    let others = now.holders & !me;
    let owner = now.holders.trailing_zeros();
    let owned_elsewhere = now.exclusive && others != 0;
    let shared = |holders| Directory {
        holders,
        exclusive: false,
    };
    let (next, snoop, grant) = match request {
        Request::Read if now.holders == 0 => (
            Directory {
                holders: me,
                exclusive: true,
            },
            Snoop::None,
            State::Exclusive,
        ),
        Request::Read | Request::Fetch => (
            shared(now.holders | me),
            if owned_elsewhere {
                Snoop::Downgrade(owner)
            } else {
                Snoop::None
            },
            State::Shared,
        ),
        Request::Write => (
            Directory {
                holders: me,
                exclusive: true,
            },
            if others == 0 {
                Snoop::None
            } else {
                Snoop::Invalidate(others)
            },
            State::Exclusive,
        ),
        Request::Evict => (
            Directory {
                holders: others,
                exclusive: now.exclusive && others != 0,
            },
            Snoop::None,
            State::Invalid,
        ),
        Request::Recall => (
            Directory::default(),
            if now.holders == 0 {
                Snoop::None
            } else {
                Snoop::Invalidate(now.holders)
            },
            State::Invalid,
        ),
        Request::Clean => (
            now,
            if now.exclusive {
                Snoop::Clean(owner)
            } else {
                Snoop::None
            },
            State::Invalid,
        ),
    };
    Transition { next, snoop, grant }
}
