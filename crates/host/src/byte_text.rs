//! The contents of text files as text, without loss: a file can have comments that are not UTF-8.
//!
//! Each byte that is not part of valid UTF-8 becomes one character of a range for private use
//! (U+EF80 to U+EFFF). Characters of that range in a file are taken apart into such bytes, so that
//! every content survives. UTF-8 without them stays as it is.

const FIRST: u32 = 0xEF80;
const LAST: u32 = 0xEFFF;

/// The bytes as text; [`to_bytes`] restores them.
pub fn from_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if (FIRST..=LAST).contains(&u32::from(c)) {
                text.extend(c.encode_utf8(&mut [0; 4]).bytes().map(escaped));
            } else {
                text.push(c);
            }
        }
        text.extend(chunk.invalid().iter().copied().map(escaped));
    }
    text
}

/// The bytes that [`from_bytes`] read.
pub fn to_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match u32::from(c) {
            code @ FIRST..=LAST => {
                bytes.push(u8::try_from(code - FIRST + 0x80).expect("the range has 128 codes"));
            }
            _ => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    bytes
}

/// Bytes of ASCII are always valid, so the upper half is enough.
fn escaped(byte: u8) -> char {
    char::from_u32(FIRST + u32::from(byte) - 0x80).expect("the range has no surrogates")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_content_survives() {
        for bytes in [
            &b"# caf\xe9\nproc /proc proc\n"[..],
            "# caf\u{e9} \u{ef80}\u{efff}\n".as_bytes(),
            b"\xff\xfe\x80\xc3\x28\xf0\x9f\x98",
            b"\xee\xbe\x80\xee\xbe",
            b"",
        ] {
            assert_eq!(to_bytes(&from_bytes(bytes)), bytes);
        }
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(to_bytes(&from_bytes(&all)), all);
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        let text = "# /etc/fstab \u{e9}\u{1f600}\r\n";
        assert_eq!(from_bytes(text.as_bytes()), text);
        assert_eq!(to_bytes(text), text.as_bytes());
    }
}
