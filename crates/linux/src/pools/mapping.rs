//! What `mmap` says of pools.

use crate::errno::Errno;
use crate::kernel::Kernel;
use crate::page_table::SYNC;
use crate::syscalls::memory::{MAP_ANONYMOUS, MAP_FIXED, MAP_SHARED_VALIDATE, MAP_TYPE};
use crate::vfs::InodeId;

const MAP_SYNC: u64 = 0x8_0000;
/// The flags that are older than `MAP_SHARED_VALIDATE`, from `MAP_GROWSDOWN` to `MAP_HUGETLB` and the
/// sizes of huge pages. It takes these, of pools [`MAP_SYNC`], and no other: so `MAP_SYNC` of a file that is
/// no pool and, as in Linux, `MAP_FIXED_NOREPLACE` are refused.
const MAP_LEGACY: u64 = MAP_TYPE | MAP_FIXED | MAP_ANONYMOUS | 0x100 | 0x7_f800 | 0x7c00_0000;

impl Kernel {
    /// [`SYNC`] if a mapping of a file is one with [`MAP_SYNC`], else nothing. Fails if its flags are to
    /// be checked and one of them is unknown.
    pub(crate) fn check_validated(&self, flags: u64, id: Option<InodeId>) -> Result<u64, Errno> {
        if flags & MAP_TYPE != MAP_SHARED_VALIDATE {
            return Ok(0);
        }
        match flags & !MAP_LEGACY {
            0 => Ok(0),
            MAP_SYNC if id.is_some_and(|id| self.is_pool(id)) => Ok(SYNC),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
}
