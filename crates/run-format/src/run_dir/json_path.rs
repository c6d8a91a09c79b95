//! The key at a position of a JSON text, such as `summary.results[2].name`: of the value that was
//! read there, or of the object or array that begins or ends there. A deserializer that counts keys
//! while it reads would do the same, but every type would be compiled a second time for it.
//! Limit: the text must be JSON.

/// The key that an error of serde_json refers to; empty for the whole text.
pub(super) fn of(text: &[u8], error: &serde_json::Error) -> String {
    let whole_lines = error.line().saturating_sub(1);
    let lines = text.split_inclusive(|byte| *byte == b'\n').take(whole_lines);
    let end = lines.map(<[u8]>::len).sum::<usize>() + error.column();
    at(&text[..end.min(text.len())])
}

enum Level {
    Object { key: String, has_value: bool },
    Array { index: usize },
}

/// Where a text ends that is cut off after a value or a key.
fn at(text: &[u8]) -> String {
    let mut levels: Vec<Level> = Vec::new();
    let mut rest = text.iter().copied().enumerate();
    while let Some((start, byte)) = rest.next() {
        match byte {
            b'{' => levels.push(Level::Object { key: String::new(), has_value: false }),
            b'[' => levels.push(Level::Array { index: 0 }),
            // What is missing is noticed here.
            b'}' | b']' => {
                levels.pop();
            }
            b':' => {
                if let Some(Level::Object { has_value, .. }) = levels.last_mut() {
                    *has_value = true;
                }
            }
            b',' => match levels.last_mut() {
                Some(Level::Object { key, has_value }) => {
                    key.clear();
                    *has_value = false;
                }
                Some(Level::Array { index }) => *index += 1,
                None => {}
            },
            b'"' => {
                let mut end = start + 1;
                let mut is_escaped = false;
                for (place, byte) in rest.by_ref() {
                    end = place;
                    match byte {
                        b'"' if !is_escaped => break,
                        _ => is_escaped = byte == b'\\' && !is_escaped,
                    }
                }
                if let Some(Level::Object { key, has_value: false }) = levels.last_mut() {
                    let name = text.get(start + 1..end).unwrap_or_default();
                    *key = String::from_utf8_lossy(name).into_owned();
                }
            }
            _ => {}
        }
    }
    let mut path = String::new();
    for level in &levels {
        match level {
            Level::Object { key, .. } if key.is_empty() => {}
            Level::Object { key, .. } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
            Level::Array { index } => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Known {
        #[expect(dead_code, reason = "only read")]
        name: String,
        #[serde(default)]
        #[expect(dead_code, reason = "only read")]
        list: Vec<BTreeMap<String, u32>>,
        #[serde(default)]
        #[expect(dead_code, reason = "only read")]
        inner: Option<Box<Known>>,
    }

    fn key(text: &str) -> String {
        of(text.as_bytes(), &serde_json::from_str::<Known>(text).unwrap_err())
    }

    #[test]
    fn the_key_of_what_is_wrong_is_found() {
        assert_eq!(key(r#"{"name": 1}"#), "name");
        assert_eq!(key(r#"{"list": [], "name": {"a": ["b"]}}"#), "name");
        assert_eq!(key(r#"{"name": "n", "list": [{}, {"a": 1, "b": "no, [\"{no"}]}"#), "list[1].b");
        assert_eq!(key("{\"name\": \"\\\"[\",\n \"list\": [\n{\"x\": -1}]}"), "list[0].x");
        assert_eq!(key(r#"{"name": "n", "inner": {"name": true}}"#), "inner.name");
        assert_eq!(key(r#"{"name": "n", "other": 1}"#), "other");
        // What is missing is missing in the object that ends there.
        assert_eq!(key(r#"{"name": "n", "inner": {"list": []}}"#), "inner");
        assert_eq!(key("{}"), "");
        assert_eq!(key("[1]"), "[0]");
    }
}
