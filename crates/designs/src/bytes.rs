//! Sealed byte records: magic, little-endian fields, padding, and a checksum in the last eight
//! bytes. A record that is torn or damaged anywhere does not unseal.

/// The checksum that seals records and log blocks.
pub fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, 0x7065_7264_7572_6531)
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
    let mut reader = Reader(body);
    (reader.u64() == magic).then_some(reader)
}
