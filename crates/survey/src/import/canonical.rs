//! The address of a document: SHA-256 over its JSON with sorted keys and without spaces, so that a
//! program that only formats it again does not make another one of it.

use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::identity::hexadecimal;

/// The address, in hexadecimal.
pub fn address(document: &Value) -> String {
    let mut text = String::new();
    write(document, &mut text);
    hexadecimal(&Sha256::digest(text.as_bytes()))
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (key, value) in entries {
                // Cannot fail: it is a string.
                let _ = write!(text, "{}:", Value::from(key.as_str()));
                write(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(list) => {
            text.push('[');
            for value in list {
                write(value, text);
                text.push(',');
            }
            text.push(']');
        }
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_keys_and_spaces_do_not_count() {
        let read = |text: &str| address(&serde_json::from_str(text).unwrap());
        let one = read(r#"{"a": [1, {"b": null, "c": "x"}], "d": 1.5}"#);
        assert_eq!(one, read(r#"{"d":1.5,"a":[1,{"c":"x","b":null}]}"#));
        assert_ne!(one, read(r#"{"a": [1, {"b": null, "c": "y"}], "d": 1.5}"#));
        assert_ne!(address(&json!(["a,b"])), address(&json!(["a", "b"])));
        assert_ne!(address(&json!("1")), address(&json!(1)));
    }
}
