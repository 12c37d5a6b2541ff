//! Sealed byte records: magic, little-endian fields, padding, and a checksum in the last eight
//! bytes. A record that is torn or damaged anywhere does not unseal.

use std::ops::Range;

use twox_hash::XxHash3_64;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The checksum that seals records and log blocks.
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(0x7065_7264_7572_6531, bytes)
}

/// The word of eight bytes that has so many before it.
pub fn word(bytes: &[u8], index: usize) -> u64 {
    let (words, _) = bytes.as_chunks();
    u64::from_le_bytes(words[index])
}

/// Whether two ranges of addresses have a byte in common.
pub fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Gathers fields.
pub struct Writer(Vec<u8>);

impl Writer {
    /// A record that starts with its magic number.
    pub fn new(magic: u64) -> Self {
        Self(magic.to_le_bytes().to_vec())
    }

    /// Adds a field.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
}

/// Gives fields back in order.
pub struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// The next field; 0 past the end, which a checksum over the whole record makes impossible.
    pub fn u64(&mut self) -> u64 {
        let Some((field, rest)) = self.0.split_first_chunk() else {
            return 0;
        };
        self.0 = rest;
        u64::from_le_bytes(*field)
    }
}

/// Pads to `length` and adds the checksum.
pub fn sealed(writer: Writer, length: usize) -> Vec<u8> {
    let mut bytes = writer.0;
    assert!(
        bytes.len() + 8 <= length,
        "a record of {} bytes does not fit {length}",
        bytes.len()
    );
    bytes.resize(length - 8, 0);
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    bytes
}

/// The fields after the magic, if magic and checksum are right.
pub fn unsealed(bytes: &[u8], magic: u64) -> Option<Reader<'_>> {
    let (body, seal) = bytes.split_last_chunk()?;
    if u64::from_le_bytes(*seal) != checksum(body) {
        return None;
    }
    begun(body, magic)
}

/// The fields after the magic, if that is right.
fn begun(bytes: &[u8], magic: u64) -> Option<Reader<'_>> {
    let mut reader = Reader(bytes);
    (reader.u64() == magic).then_some(reader)
}

/// The bytes of something whose fields have 64 bits each: the fields in their order, little-endian.
pub fn encoded<T: IntoBytes + Immutable>(fields: &T) -> Vec<u8> {
    let (fields, _) = fields.as_bytes().as_chunks();
    let words = fields.iter().map(|field| u64::from_ne_bytes(*field));
    words.flat_map(u64::to_le_bytes).collect()
}

/// What has such bytes; 0 for fields that they lack.
pub fn decoded<T: FromBytes + IntoBytes>(bytes: &[u8]) -> T {
    let mut fields = T::new_zeroed();
    let mut reader = Reader(bytes);
    for field in fields.as_mut_bytes().chunks_exact_mut(8) {
        field.copy_from_slice(&reader.u64().to_ne_bytes());
    }
    fields
}

/// A record whose fields have 64 bits each.
pub trait Sealed: FromBytes + IntoBytes + Immutable + Sized {
    /// What it begins with.
    const MAGIC: &'static [u8; 8];
    /// All of it, zeros and checksum included.
    const BYTES: usize = 128;

    /// Its bytes.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Self::MAGIC.to_vec();
        bytes.extend(encoded(self));
        sealed(Writer(bytes), Self::BYTES)
    }

    /// The record, if its bytes are whole. With `torn_too`, a planted bug, the magic is enough.
    fn decode(bytes: &[u8], torn_too: bool) -> Option<Self> {
        let magic = u64::from_le_bytes(*Self::MAGIC);
        let reader = if torn_too {
            begun(bytes, magic)?
        } else {
            unsealed(bytes, magic)?
        };
        Some(decoded(reader.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
    #[repr(C)]
    struct Example {
        number: u64,
        pair: [u64; 2],
    }

    impl Sealed for Example {
        const MAGIC: &'static [u8; 8] = b"EXAMPLE1";
        const BYTES: usize = 64;
    }

    #[test]
    fn a_record_is_its_magic_its_fields_zeros_and_a_checksum() {
        let example = Example {
            number: 0x0102,
            pair: [3, u64::MAX],
        };
        let bytes = example.encode();
        let mut expected = b"EXAMPLE1\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0".to_vec();
        expected.extend([0xff; 8]);
        expected.resize(56, 0);
        expected.extend(checksum(&expected).to_le_bytes());
        assert_eq!(bytes, expected);
        assert_eq!(Example::decode(&bytes, false), Some(example));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Example::decode(&damaged, false), None, "byte {at}");
            assert_eq!(Example::decode(&damaged, true).is_some(), at >= 8);
        }
        assert_eq!(Example::decode(&bytes[..56], false), None);
    }
}
