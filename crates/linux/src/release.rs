//! What may leave the machine once the epoch that wrote it is persisted.
//!
//! Always true: every record says where its bytes belong in absolute terms, so applying one
//! twice, as happens after a power cut, changes nothing.

use crate::spool::Bytes;

/// One record of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// Bytes of standard output (1) or standard error (2).
    Stream {
        /// The program that wrote them: its place in the configuration.
        program: u32,
        /// 1 or 2.
        descriptor: u8,
        /// Offset of the first byte since the program started.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A file as it is now.
    File {
        /// Absolute guest path.
        path: String,
        /// Its size; longer host content is cut off, shorter is extended with zeros.
        size: u64,
        /// Permission bits.
        mode: u32,
        /// The pieces are all of the content: host content outside of them becomes zeros.
        whole: bool,
        /// Pages of content, the last one perhaps shorter, with their offsets. Others are as they were,
        /// or zeros.
        pieces: Vec<(u64, Bytes)>,
    },
    /// A symbolic link.
    Link {
        /// Absolute guest path.
        path: String,
        /// What it points to, a guest path.
        target: String,
    },
    /// A file, link or empty directory is gone.
    Removed {
        /// Absolute guest path.
        path: String,
    },
    /// A directory exists.
    Directory {
        /// Absolute guest path.
        path: String,
    },
}
