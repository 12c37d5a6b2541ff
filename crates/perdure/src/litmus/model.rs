//! What a memory model is made of: kinds of instructions, a table of what is ordered behind what, and
//! what a power cut may leave of the stores that were made. The models themselves are in
//! [`super::models`].
//!
//! Always true here: a rule is an entry of a table. Whoever changes one entry has another model, which is
//! how the tests know that each of them is there for a reason.

use super::groups::Groups;
use super::program::Instruction;

/// Kinds of instructions, as far as order goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `load`
    Load,
    /// `store`
    Store,
    /// `xchg`
    Exchange,
    /// `beqz`, `bnez`
    Branch,
    /// `mfence`
    Mfence,
    /// `sfence`
    Sfence,
    /// `clflushopt`, `clwb`
    FlushOpt,
    /// `clflush`
    Flush,
    /// `dmb`
    Dmb,
    /// `dsb`
    Dsb,
    /// `dc-civac`, `dc-cvac`, `dc-cvap`; `cbo.clean`, `cbo.flush`
    Clean,
    /// `fence`
    Fence,
    /// `persist-barrier`
    PersistBarrier,
    /// `new-strand`
    NewStrand,
    /// `join-strand`
    JoinStrand,
    /// `strand-sync`
    StrandSync,
}

/// How many kinds there are.
pub const KINDS: usize = Kind::StrandSync as usize + 1;

/// Whether an instruction waits for an earlier one of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// It never does.
    Free,
    /// It always does.
    Waits,
    /// If both are about one location.
    Location,
    /// If both are about one line.
    Line,
    /// If the fence of the two names the other's kind in its set.
    Named,
}

/// Which instruction waits for which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order([[Cell; KINDS]; KINDS]);

impl Order {
    /// From a table: a row for each earlier kind, a column for each later one. What is not in it is
    /// ordered, for no test has it.
    pub fn of(table: &Table) -> Self {
        let mut cells = [[Cell::Waits; KINDS]; KINDS];
        for (earlier, row) in table.rows {
            assert_eq!(row.len(), table.later.len(), "{earlier:?}: cells");
            for (later, cell) in table.later.iter().zip(*row) {
                cells[*earlier as usize][*later as usize] = *cell;
            }
        }
        Self(cells)
    }

    /// An entry.
    pub fn cell(&self, earlier: Kind, later: Kind) -> Cell {
        self.0[earlier as usize][later as usize]
    }

    /// Changes an entry.
    pub fn set(&mut self, earlier: Kind, later: Kind, cell: Cell) {
        self.0[earlier as usize][later as usize] = cell;
    }

    /// Whether an instruction waits for an earlier one. `lines` gives the line of a location.
    pub fn waits(&self, earlier: &Instruction, later: &Instruction, lines: &[usize]) -> bool {
        let both = || earlier.location().zip(later.location());
        match self.cell(earlier.kind, later.kind) {
            Cell::Free => false,
            Cell::Waits => true,
            Cell::Location => both().is_some_and(|(one, other)| one == other),
            Cell::Line => both().is_some_and(|(one, other)| lines[one] == lines[other]),
            Cell::Named if later.kind == Kind::Fence => names(later, 0, earlier.kind),
            Cell::Named => names(earlier, 1, later.kind),
        }
    }
}

/// Whether a set of a fence names a kind. Cache-block instructions are ordered as writes are.
fn names(fence: &Instruction, set: usize, kind: Kind) -> bool {
    let set = fence.sets[set];
    match kind {
        Kind::Load => set.reads,
        Kind::Store | Kind::Clean => set.writes,
        _ => set.reads || set.writes,
    }
}

/// A table as it is written down.
#[derive(Debug)]
pub struct Table {
    /// What the columns are for.
    pub later: &'static [Kind],
    /// A row for each kind that comes earlier.
    pub rows: &'static [(Kind, &'static [Cell])],
}

/// What a cut may leave of the stores that were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Of each line the first so many stores, independently of other lines, but everything that a
    /// write-back found in its line.
    Lines,
    /// The first so many of all stores.
    Prefix,
    /// What is closed under the order of programs and under these.
    Causal(Causes),
    /// What is closed under the order of strands.
    Strands(Between),
}

/// What makes a store part of another one's past, beside the order of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Causes {
    /// A thread that loads from a line comes behind the line's last store.
    pub loads: bool,
    /// A thread that stores to it does.
    pub stores: bool,
}

/// What stands between persists of one thread, and what it does to their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Between {
    /// A persist barrier: later persists of the strand come behind its earlier accesses.
    pub barrier_orders_strand: bool,
    /// A new strand: later persists come behind nothing that came before it.
    pub new_strand_forgets: bool,
    /// A join: later persists of the thread come behind all strands before it.
    pub join_orders_thread: bool,
    /// Persists to one location keep their order, whosever they are.
    pub location_orders: bool,
    /// A load of a location comes behind the persist that it sees.
    pub load_orders: bool,
    /// A persist comes behind a load of what it overwrites.
    pub overwriting_orders: bool,
}

/// The rules of a model, as the table-driven explorer follows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What is ordered behind what in a thread.
    pub order: Order,
    /// What need not wait until it is known where earlier branches go.
    pub past_branches: Vec<Kind>,
    /// What a cut may leave.
    pub left: Left,
}

/// How a model's set is found.
#[derive(Debug)]
pub enum Explored {
    /// By [`super::explore`], from these rules.
    ByTable {
        /// What is ordered behind what.
        order: &'static Table,
        /// What passes branches.
        past_branches: &'static [Kind],
        /// What a cut may leave.
        left: Left,
    },
    /// By [`super::ptso`].
    ByBuffers,
    /// By [`super::groups`], from these rules.
    ByGroups(Groups),
}

/// A memory model.
#[derive(Debug)]
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// Whose it is.
    pub source: &'static str,
    /// The kinds that it gives a meaning to, beside branches.
    pub kinds: &'static [Kind],
    /// How its set is found.
    pub explored: Explored,
}

impl Model {
    /// The rules of a model that is explored by table.
    pub fn rules(&self) -> Option<Rules> {
        match &self.explored {
            Explored::ByTable {
                order,
                past_branches,
                left,
            } => Some(Rules {
                order: Order::of(order),
                past_branches: past_branches.to_vec(),
                left: left.clone(),
            }),
            Explored::ByBuffers | Explored::ByGroups(_) => None,
        }
    }
}
