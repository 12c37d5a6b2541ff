//! Bytes as values of a type.

use serde_json::{Value, json};

use super::{Answer, asked};
use crate::hexadecimal;

/// A type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Unsigned(usize),
    Signed(usize),
    Float(usize),
    Pointer,
    Characters(usize),
    Hexadecimal(usize),
}

/// Most bytes of one value.
const BYTES_MAX: usize = 1 << 20;

impl Kind {
    /// By its name.
    pub fn named(name: &str) -> Answer<Self> {
        let (base, length) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            // A length that is none is one that no kind has.
            Some((base, length)) => (base, Some(length.parse().unwrap_or(0))),
            None => (name, None),
        };
        let bits = |digits: &str| match digits {
            "8" => Some(1),
            "16" => Some(2),
            "32" => Some(4),
            "64" => Some(8),
            _ => None,
        };
        let kind = match (base, length) {
            ("char", Some(length @ 1..=BYTES_MAX)) => Some(Self::Characters(length)),
            ("hex", Some(length @ 1..=BYTES_MAX)) => Some(Self::Hexadecimal(length)),
            ("hex", None) => Some(Self::Hexadecimal(16)),
            ("char", None) => Some(Self::Characters(1)),
            ("ptr", None) => Some(Self::Pointer),
            ("f32", None) => Some(Self::Float(4)),
            ("f64", None) => Some(Self::Float(8)),
            (_, None) => match base.split_at_checked(1) {
                Some(("u", digits)) => bits(digits).map(Self::Unsigned),
                Some(("i", digits)) => bits(digits).map(Self::Signed),
                _ => None,
            },
            _ => None,
        };
        kind.map_or_else(
            || asked(format!(
                "--type {name}: take u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, ptr, char[N] or hex[N]"
            )),
            Ok,
        )
    }

    /// What suits so many bytes whose type nobody told.
    pub fn of_size(bytes: u64) -> Self {
        match bytes {
            1 | 2 | 4 | 8 => Self::Unsigned(bytes as usize),
            bytes => Self::Hexadecimal((bytes as usize).clamp(1, BYTES_MAX)),
        }
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::Unsigned(bytes) => format!("u{}", bytes * 8),
            Self::Signed(bytes) => format!("i{}", bytes * 8),
            Self::Float(bytes) => format!("f{}", bytes * 8),
            Self::Pointer => "ptr".into(),
            Self::Characters(length) => format!("char[{length}]"),
            Self::Hexadecimal(length) => format!("hex[{length}]"),
        }
    }

    /// Its size.
    pub fn bytes(self) -> usize {
        match self {
            Self::Unsigned(bytes)
            | Self::Signed(bytes)
            | Self::Float(bytes)
            | Self::Characters(bytes)
            | Self::Hexadecimal(bytes) => bytes,
            Self::Pointer => 8,
        }
    }

    /// The value that bytes of that size are. Numbers that JSON has not are texts.
    pub fn value(self, bytes: &[u8]) -> Value {
        let mut raw = [0; 8];
        let length = bytes.len().min(8);
        raw[..length].copy_from_slice(&bytes[..length]);
        let number = u64::from_le_bytes(raw);
        let float = |value: f64, text: String| {
            if value.is_finite() {
                json!(value)
            } else {
                json!(text)
            }
        };
        match self {
            Self::Unsigned(_) => json!(number),
            Self::Signed(size) => {
                let shift = 64 - 8 * size as u32;
                json!((number << shift).cast_signed() >> shift)
            }
            Self::Float(4) => {
                let value = f32::from_bits(number as u32);
                // As short as a single needs, not as its double would be written.
                let text = value.to_string();
                float(text.parse().unwrap_or(f64::from(value)), text)
            }
            Self::Float(_) => {
                let value = f64::from_bits(number);
                float(value, value.to_string())
            }
            Self::Pointer => json!(format!("{number:#x}")),
            Self::Characters(_) => {
                let end = bytes
                    .iter()
                    .position(|&byte| byte == 0)
                    .unwrap_or(bytes.len());
                json!(String::from_utf8_lossy(&bytes[..end]))
            }
            Self::Hexadecimal(_) => json!(hexadecimal::of(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_c_would_print() {
        let value = |name: &str, bytes: &[u8]| Kind::named(name).unwrap().value(bytes);
        assert_eq!(value("u16", &[0xff, 0xff]), json!(65535));
        assert_eq!(value("i16", &[0xff, 0xff]), json!(-1));
        assert_eq!(value("i64", &[0xff; 8]), json!(-1));
        assert_eq!(value("u64", &[0xff; 8]), json!(u64::MAX));
        assert_eq!(value("f32", &0.1f32.to_le_bytes()), json!(0.1));
        assert_eq!(value("f64", &f64::NAN.to_le_bytes()), json!("NaN"));
        assert_eq!(value("f64", &f64::INFINITY.to_le_bytes()), json!("inf"));
        assert_eq!(value("char[4]", b"ab\0c"), json!("ab"));
        assert_eq!(value("hex[2]", &[1, 0xab]), json!("01ab"));
        for wrong in [
            "", "u", "u7", "i128", "f16", "char[0]", "char[x]", "char[", "u8[2]", "µ8",
        ] {
            assert!(Kind::named(wrong).is_err(), "{wrong}");
        }
        for name in ["u8", "i32", "f64", "ptr", "char[7]", "hex[16]"] {
            assert_eq!(Kind::named(name).unwrap().name(), name);
        }
    }
}
