//! Bytes as `serde` writes them in one piece.
//!
//! Always true here: what is read is what was written.

use perdure_hardware::line::LINE_BYTES;

/// The bytes of a line.
type Line = [u8; LINE_BYTES];

/// Lines, for `serde`.
pub mod lines {
    use super::Line;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_bytes::ByteArray;

    pub fn serialize<S: Serializer>(lines: &[Line; 2], to: S) -> Result<S::Ok, S::Error> {
        lines.map(ByteArray::new).serialize(to)
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<[Line; 2], D::Error> {
        let lines = <[ByteArray<{ super::LINE_BYTES }>; 2]>::deserialize(from)?;
        Ok(lines.map(ByteArray::into_array))
    }
}

/// Bytes that several have, for `serde`.
pub mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};
    use serde_bytes::{ByteBuf, Bytes};

    pub fn serialize<S: Serializer>(all: &[Arc<Vec<u8>>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(|bytes| Bytes::new(bytes)))
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<Arc<Vec<u8>>>, D::Error> {
        let all = Vec::<ByteBuf>::deserialize(from)?;
        Ok(all
            .into_iter()
            .map(|bytes| Arc::new(bytes.into_vec()))
            .collect())
    }
}
