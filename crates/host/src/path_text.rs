//! Names of files as text, without loss: JSON and commands cannot contain a name that is not UTF-8,
//! and a message cannot show control characters, which could pass for a line of the message.
//!
//! A name that can be shown stays as it is. Any other becomes a `file:` URL with percent-encoded
//! bytes (RFC 8089); so does a name that would be read as one.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::Serializer;

use crate::visible::is_visible;

const SCHEME: &str = "file://";

/// The path as text; [`from_text`] restores it. A relative path that cannot be shown becomes
/// absolute.
pub fn to_text(path: &Path) -> String {
    match showable(path.as_os_str()) {
        Some(text) if !text.starts_with(SCHEME) => text.to_owned(),
        _ => {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            format!("{SCHEME}{}", percent_encoded(absolute.as_os_str()))
        }
    }
}

/// The path that [`to_text`] wrote.
pub fn from_text(text: &str) -> PathBuf {
    let encoded = text.strip_prefix(SCHEME).filter(|path| path.starts_with('/'));
    encoded.and_then(percent_decoded).unwrap_or_else(|| PathBuf::from(text))
}

/// A file's name that can be typed and shown on any terminal: percent-encoded unless it is UTF-8
/// without control characters and the like.
pub fn name_to_text(name: &OsStr) -> String {
    showable(name).map_or_else(|| percent_encoded(name), str::to_owned)
}

/// The name, if it is UTF-8 and every character of it can be seen.
pub fn showable(name: &OsStr) -> Option<&str> {
    name.to_str().filter(|text| text.chars().all(is_visible))
}

fn percent_encoded(name: &OsStr) -> String {
    let mut text = String::new();
    for byte in name.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~+=,@:".contains(byte) {
            text.push(char::from(*byte));
        } else {
            write!(text, "%{byte:02X}").expect("a string takes all text");
        }
    }
    text
}

/// `None` if an escape is incomplete or means the byte zero, which no name contains.
fn percent_decoded(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let byte = u8::from_str_radix(digits, 16).ok().filter(|byte| is_hex && *byte != 0)?;
        bytes.push(byte);
        rest = &tail[2..];
    }
    Some(std::ffi::OsString::from_vec(bytes).into())
}

/// For `#[serde(serialize_with)]`: paths in a document.
///
/// # Errors
/// Those of the serializer.
pub fn list<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| to_text(path)))
}

/// For `#[serde(with)]`: a path in a document.
pub mod document {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::to_text(path))
    }

    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(super::from_text(&String::deserialize(deserializer)?))
    }
}

/// For `#[serde(with)]`: a path in a document that may be absent.
pub mod optional {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(super::to_text).serialize(serializer)
    }

    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(text.map(|text| super::from_text(&text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(bytes: &[u8]) -> PathBuf {
        OsStr::from_bytes(bytes).into()
    }

    #[test]
    fn every_absolute_path_survives() {
        for bytes in [
            &b"/tmp/plain.img"[..],
            "/tmp/a b%20\u{e9}".as_bytes(),
            b"/tmp/\xff\xfe%41 \n.img",
            b"/\xc3\x28/%",
            b"/tmp/esc\x1b[31m/nl\nx",
            "/tmp/\u{202E}gmi".as_bytes(),
        ] {
            assert_eq!(from_text(&to_text(&path(bytes))), path(bytes));
        }
        assert_eq!(to_text(&path(b"/tmp/a b")), "/tmp/a b");
        assert_eq!(to_text(&path(b"/tmp/t\xff 1")), "file:///tmp/t%FF%201");
        assert_eq!(to_text(&path(b"/tmp/nl\nx")), "file:///tmp/nl%0Ax");
    }

    #[test]
    fn names_are_encoded_if_they_cannot_be_shown() {
        for (name, text) in [
            (&b"a b.img"[..], "a b.img"),
            ("\u{e9}.img".as_bytes(), "\u{e9}.img"),
            (b"t\xff", "t%FF"),
            (b"nl\nx.img", "nl%0Ax.img"),
            (b"esc\x1b[31m", "esc%1B%5B31m"),
            ("a\u{200B}b".as_bytes(), "a%E2%80%8Bb"),
        ] {
            assert_eq!(name_to_text(OsStr::from_bytes(name)), text);
        }
    }

    #[test]
    fn a_relative_path_stays_as_it_is_or_becomes_absolute() {
        assert_eq!(to_text(Path::new("file:a")), "file:a");
        let absolute = std::path::absolute(path(b"t\xff")).unwrap();
        assert_eq!(from_text(&to_text(&path(b"t\xff"))), absolute);
        assert_eq!(
            from_text(&to_text(Path::new("file://a"))),
            std::path::absolute("file://a").unwrap()
        );
    }

    #[test]
    fn what_is_not_a_valid_url_is_a_path() {
        for text in ["file:///a%0", "file:///a%zz", "file:///a%+1", "file:///a%00b", "file://a"] {
            assert_eq!(from_text(text), Path::new(text));
        }
    }

    #[test]
    fn documents_hold_any_path() {
        #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
        struct Document {
            #[serde(with = "document")]
            path: PathBuf,
            #[serde(with = "optional", default)]
            other: Option<PathBuf>,
        }
        let written = Document { path: path(b"/\xff"), other: None };
        let text = serde_json::to_string(&written).unwrap();
        assert_eq!(text, r#"{"path":"file:///%FF","other":null}"#);
        assert_eq!(serde_json::from_str::<Document>(&text).unwrap(), written);
    }
}
