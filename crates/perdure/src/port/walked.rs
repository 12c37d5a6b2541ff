//! What a hart remembers of the page tables: a whole walk takes 80 host instructions.
//!
//! Always true here: a table that is remembered is the address space's, and where it says a page lies is
//! looked up anew each time. So what is mapped or protected otherwise needs no word here; only tables that
//! were given back do.

use perdure_linux::{Kernel, Leaf, LeafTable, PAGE_BYTES, SpaceId, TABLE_PAGES};
use perdure_riscv::{Access, Fault};

use super::{Place, Port};

/// Tables that are remembered, of 2 MB of addresses each.
const TABLES: usize = 64;

/// No table has this number.
const NO_TABLE: u64 = u64::MAX;

/// Tables with their numbers, which say where each one stands.
#[derive(Clone)]
pub(crate) struct Walked {
    tables: [(u64, LeafTable); TABLES],
    /// The address space whose tables they are, and how many had been given back.
    of: Option<(SpaceId, u64)>,
}

impl Default for Walked {
    fn default() -> Self {
        Self {
            tables: [(NO_TABLE, LeafTable::default()); TABLES],
            of: None,
        }
    }
}

impl Walked {
    /// Forgets what is not true any more.
    #[inline]
    fn see(&mut self, kernel: &Kernel, space: SpaceId) {
        let of = Some((space, kernel.tables_released()));
        if self.of != of {
            *self = Self {
                of,
                ..Self::default()
            };
        }
    }

    #[inline(always)]
    fn page(&mut self, kernel: &Kernel, space: SpaceId, page: u64) -> Leaf {
        let number = page / TABLE_PAGES;
        // Arrays lie a power of two of tables apart.
        let place = number ^ number >> 6 ^ number >> 12;
        let known = &mut self.tables[place as usize % TABLES];
        if known.0 != number {
            let Some(table) = kernel.leaf_table(space, page) else {
                return Leaf::default();
            };
            *known = (number, table);
        }
        kernel.leaf(known.1, page)
    }
}

/// What a hart remembers, while a port is open: nothing is given back then, for that takes the kernel.
pub(super) struct Walks<'m> {
    walked: &'m mut Walked,
    /// It has been looked at since the port was opened: not before, because most turns of a program that
    /// seldom misses walk nowhere.
    is_seen: bool,
}

impl<'m> Walks<'m> {
    pub fn new(walked: &'m mut Walked) -> Self {
        Self {
            walked,
            is_seen: false,
        }
    }

    #[inline(always)]
    fn page(&mut self, kernel: &Kernel, space: SpaceId, page: u64) -> Leaf {
        if !self.is_seen {
            self.walked.see(kernel, space);
            self.is_seen = true;
        }
        self.walked.page(kernel, space, page)
    }
}

impl<const SHORTCUTS: bool, const WINDOW: bool> Port<'_, SHORTCUTS, WINDOW> {
    #[inline(always)]
    pub(super) fn translate(&mut self, address: u64, access: Access) -> Result<Place, Fault> {
        let page = (self.walked).page(self.kernel, self.space, address / PAGE_BYTES);
        let page = page.to(access).ok_or(Fault { access, address })?;
        let physical = page.physical_frame * PAGE_BYTES + address % PAGE_BYTES;
        Ok((physical, page))
    }
}
