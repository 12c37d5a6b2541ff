//! The flags of `mmap` that are Perdure's own: a mapping's memory type (`guest/perdure.h`).
//!
//! Always true here: they are of bits for which Linux has no use.

use crate::errno::Errno;
use crate::machine::MemoryType;

const FLAGS: [(u64, MemoryType); 3] = [
    (0x20_0000, MemoryType::WriteThrough),
    (0x40_0000, MemoryType::Uncached),
    (0x80_0000, MemoryType::WriteCombining),
];

/// Flags without those of a memory type, and that type. Two types are none.
pub(super) fn without_type(flags: u64) -> Result<(u64, MemoryType), Errno> {
    let mut given = FLAGS.iter().filter(|(flag, _)| flags & flag != 0);
    match (given.next(), given.next()) {
        (None, _) => Ok((flags, MemoryType::WriteBack)),
        (Some(&(flag, memory_type)), None) => Ok((flags & !flag, memory_type)),
        (Some(_), Some(_)) => Err(Errno::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_has_one_type() {
        assert_eq!(without_type(0x22), Ok((0x22, MemoryType::WriteBack)));
        for (flag, memory_type) in FLAGS {
            assert_eq!(without_type(flag | 0x22), Ok((0x22, memory_type)));
            for (other, _) in FLAGS.into_iter().filter(|(other, _)| *other != flag) {
                assert_eq!(without_type(flag | other), Err(Errno::EINVAL));
            }
        }
    }
}
