//! What a port remembers of the page tables: a walk takes 80 host instructions.
//!
//! Always true here: nothing is mapped while a port is open, for that takes the kernel.

use perdure_linux::{Kernel, Leaf, PAGE_BYTES, SpaceId};
use perdure_riscv::{Access, Fault};

use super::{Place, Port};

/// Few, because a turn may be short.
const PAGES: usize = 8;

/// No page has this number.
const NO_PAGE: u64 = u64::MAX;

/// Pages with their numbers, which say where each one stands.
pub(super) struct Walked([(u64, Leaf); PAGES]);

impl Default for Walked {
    fn default() -> Self {
        Self([(NO_PAGE, Leaf::default()); PAGES])
    }
}

impl Walked {
    #[inline(always)]
    fn page(&mut self, kernel: &Kernel, space: SpaceId, number: u64) -> Leaf {
        // Arrays lie a power of two of pages apart.
        let place = number ^ number >> 5 ^ number >> 13;
        let known = &mut self.0[place as usize % PAGES];
        if known.0 != number {
            *known = (number, kernel.walk(space, number));
        }
        known.1
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
