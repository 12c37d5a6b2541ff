//! A run of pages with one meaning: what fills it, what it is for, what may be done with it.

use serde::{Deserialize, Serialize};

use crate::page_table::{EXECUTE, KEPT, MAY_WRITE, WRITE};
use crate::vfs::InodeId;

/// What a stack counts where mapped bytes are limited: what Linux maps of it when a program starts.
const STACK_COUNTED_BYTES: u64 = 132 << 10;

/// What fills a mapping's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Backing {
    /// Zeros.
    Anonymous,
    /// A file. A private page beyond `limit` bytes of the mapping is cut off with zeros, which is
    /// how an ELF segment's last page ends.
    File {
        inode: InodeId,
        offset: u64,
        limit: u64,
    },
}

/// What a mapping is for, as `/proc/self/maps` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    Plain,
    Heap,
    Stack,
    Trampoline,
}

/// [`MAY_WRITE`] beside permissions without [`WRITE`], which says it as well: for shared mappings that may be
/// written.
pub(crate) fn later_written(permissions: u64) -> u64 {
    if permissions & WRITE == 0 {
        MAY_WRITE
    } else {
        0
    }
}

/// A run of pages with one meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mapping {
    pub end: u64,
    /// [`READ`], [`WRITE`], [`EXECUTE`], and what is [`KEPT`].
    pub permissions: u64,
    /// Stores reach the file.
    pub shared: bool,
    pub backing: Backing,
    pub purpose: Purpose,
}

impl Mapping {
    /// The part of a mapping at `start` that begins `by` bytes further on.
    pub fn advanced(self, by: u64) -> Self {
        let backing = match self.backing {
            Backing::Anonymous => Backing::Anonymous,
            Backing::File {
                inode,
                offset,
                limit,
            } => Backing::File {
                inode,
                offset: offset + by,
                limit: if limit == u64::MAX {
                    limit
                } else {
                    limit.saturating_sub(by)
                },
            },
        };
        Self { backing, ..self }
    }

    /// Whether stores may be let through, now or later: not through what was opened to be read.
    pub fn may_be_written(&self) -> bool {
        !self.shared || self.permissions & (WRITE | MAY_WRITE) != 0
    }

    /// Its permissions when those to load, store and execute change.
    pub fn permissions_with(&self, changed: u64) -> u64 {
        let kept = changed | self.permissions & KEPT & !MAY_WRITE;
        if self.shared && self.may_be_written() {
            kept | later_written(changed)
        } else {
            kept
        }
    }

    pub fn inode(&self) -> Option<InodeId> {
        match self.backing {
            Backing::Anonymous => None,
            Backing::File { inode, .. } => Some(inode),
        }
    }

    pub fn executable(&self) -> bool {
        self.permissions & EXECUTE != 0
    }

    /// So many of its bytes, as limits count them.
    pub fn counted(&self, length: u64) -> u64 {
        match self.purpose {
            Purpose::Stack => length.min(STACK_COUNTED_BYTES),
            _ => length,
        }
    }

    /// Private and writable, and no stack.
    pub fn is_data(&self) -> bool {
        !self.shared && self.permissions & WRITE != 0 && self.purpose != Purpose::Stack
    }
}
