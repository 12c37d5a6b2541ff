//! Names and paths are texts here and any bytes on Linux.
//!
//! Always true: [`text_of`] and [`bytes_of`] are each other's inverse. A name that is UTF-8 is itself;
//! each byte that is not is one of the last 128 characters of the last private-use plane, and so are
//! the bytes of these characters.

use std::borrow::Cow;

/// The character of the byte 0; those of bytes from 128 on are used.
const FIRST: u32 = 0x10_ff00;

fn byte_of(letter: char) -> Option<u8> {
    let number = u32::from(letter).checked_sub(FIRST)?;
    u8::try_from(number).ok().filter(|byte| *byte >= 128)
}

/// The text for bytes that a guest or the host calls something by.
pub(crate) fn text_of(bytes: Vec<u8>) -> String {
    // What stands for a byte begins with this one.
    let bytes = if bytes.contains(&0xf4) {
        bytes
    } else {
        match String::from_utf8(bytes) {
            Ok(text) => return text,
            Err(error) => error.into_bytes(),
        }
    };
    let mut text = String::with_capacity(bytes.len());
    let push_raw = |text: &mut String, raw: &[u8]| {
        let letters = raw.iter().map(|&byte| match FIRST + u32::from(byte) {
            _ if byte < 128 => char::from(byte),
            number => char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER),
        });
        text.extend(letters);
    };
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if byte_of(letter).is_some() {
                push_raw(&mut text, letter.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(letter);
            }
        }
        push_raw(&mut text, chunk.invalid());
    }
    text
}

/// The bytes that a text stands for.
pub(crate) fn bytes_of(text: &str) -> Cow<'_, [u8]> {
    if !text.as_bytes().contains(&0xf4) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match byte_of(letter) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// The same of a text that nobody needs any more.
pub(crate) fn into_bytes(text: String) -> Vec<u8> {
    match bytes_of(&text) {
        Cow::Borrowed(_) => text.into_bytes(),
        Cow::Owned(bytes) => bytes,
    }
}

/// How many bytes a text stands for.
pub(crate) fn length_of(text: &str) -> usize {
    bytes_of(text).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back() {
        let names: [&[u8]; 7] = [
            b"",
            b"plain",
            "ü€𝄞".as_bytes(),
            b"\xff",
            b"a\xffb\xc3",
            "\u{10ffff}x\u{10ff80}\u{10ff7f}".as_bytes(),
            b"\xf4\x8f\xbf\xf4\x90",
        ];
        let mut texts = Vec::new();
        for name in names {
            let text = text_of(name.to_vec());
            assert_eq!(bytes_of(&text).as_ref(), name);
            assert_eq!(length_of(&text), name.len());
            assert_eq!(into_bytes(text.clone()), name);
            texts.push(text);
        }
        assert_eq!(texts[2], "ü€𝄞");
        assert_eq!(texts[3], "\u{10ffff}");
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), names.len());
    }
}
