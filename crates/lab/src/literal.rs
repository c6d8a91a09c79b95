//! Parses Python literals as printed by `pprint.pformat`: None, booleans, numbers, strings
//! (including concatenated ones), lists, tuples and dictionaries with string keys.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// Maximum nesting of lists and dictionaries.
const DEPTH_MAX: u32 = 32;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PythonLiteral {
    None,
    /// `True` or `False`.
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    /// Also a tuple.
    List(Vec<PythonLiteral>),
    /// A dictionary with strings as keys.
    Dict(BTreeMap<String, PythonLiteral>),
}

impl PythonLiteral {
    /// Parses all of `text`; `None` if it is not a literal.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text.chars().peekable() };
        let value = reader.value(0)?;
        reader.skip_space();
        reader.rest.next().is_none().then_some(value)
    }

    /// The value of `key` in a dictionary.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Dict(entries) => entries.get(key),
            _ => None,
        }
    }

    /// The value of a string.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Reader<'_> {
    fn value(&mut self, depth: u32) -> Option<PythonLiteral> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.skip_space();
        match self.rest.peek()? {
            '{' => self.dict(depth),
            '[' => self.sequence(']', depth).map(|(items, _)| PythonLiteral::List(items)),
            '(' => {
                let (mut items, commas) = self.sequence(')', depth)?;
                // Parentheses around one value without a comma are not a tuple.
                if commas == 0 && items.len() == 1 {
                    items.pop()
                } else {
                    Some(PythonLiteral::List(items))
                }
            }
            '\'' | '"' => self.strings().map(PythonLiteral::Str),
            _ => self.word(),
        }
    }

    fn dict(&mut self, depth: u32) -> Option<PythonLiteral> {
        self.rest.next();
        let mut entries = BTreeMap::new();
        loop {
            self.skip_space();
            if self.take('}') {
                return Some(PythonLiteral::Dict(entries));
            }
            let key = self.strings()?;
            self.skip_space();
            if !self.take(':') {
                return None;
            }
            entries.insert(key, self.value(depth + 1)?);
            self.skip_space();
            if !self.take(',') && self.rest.peek() != Some(&'}') {
                return None;
            }
        }
    }

    fn sequence(&mut self, end: char, depth: u32) -> Option<(Vec<PythonLiteral>, usize)> {
        self.rest.next();
        let (mut items, mut commas) = (Vec::new(), 0);
        loop {
            self.skip_space();
            if self.take(end) {
                return Some((items, commas));
            }
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(',') {
                commas += 1;
            } else if self.rest.peek() != Some(&end) {
                return None;
            }
        }
    }

    /// Parses adjacent strings as one.
    fn strings(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut pieces = 0;
        while let Some(&quote @ ('\'' | '"')) = self.rest.peek() {
            self.rest.next();
            loop {
                match self.rest.next()? {
                    c if c == quote => break,
                    '\\' => text.push(self.escaped()?),
                    c => text.push(c),
                }
            }
            pieces += 1;
            self.skip_space();
        }
        (pieces > 0).then_some(text)
    }

    fn escaped(&mut self) -> Option<char> {
        let digits = match self.rest.next()? {
            'n' => return Some('\n'),
            't' => return Some('\t'),
            'r' => return Some('\r'),
            c @ ('\\' | '\'' | '"') => return Some(c),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return None,
        };
        let mut code = 0u32;
        for _ in 0..digits {
            code = code.checked_mul(16)?.checked_add(self.rest.next()?.to_digit(16)?)?;
        }
        char::from_u32(code)
    }

    fn word(&mut self) -> Option<PythonLiteral> {
        let mut word = String::new();
        while let Some(&c) = self.rest.peek() {
            if !(c.is_ascii_alphanumeric() || "+-._".contains(c)) {
                break;
            }
            word.push(c);
            self.rest.next();
        }
        Some(match word.as_str() {
            "None" => PythonLiteral::None,
            "True" => PythonLiteral::Bool(true),
            "False" => PythonLiteral::Bool(false),
            number => match number.parse() {
                Ok(whole) => PythonLiteral::Int(whole),
                Err(_) => PythonLiteral::Float(number.parse().ok()?),
            },
        })
    }

    fn skip_space(&mut self) {
        while self.rest.next_if(|c| c.is_whitespace()).is_some() {}
    }

    fn take(&mut self, c: char) -> bool {
        self.rest.next_if_eq(&c).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_python_prints_them() {
        let text = r#"{'avail': True, 'acquired': None, 'n': -3, 'f': 1.5,
                       'l': [1, 2], 't': ('a',), 's': 'it\'s "a"\n\xe4\u20ac'}"#;
        let value = PythonLiteral::read(text).unwrap();
        assert_eq!(value.get("avail"), Some(&PythonLiteral::Bool(true)));
        assert_eq!(value.get("acquired"), Some(&PythonLiteral::None));
        assert_eq!(value.get("n"), Some(&PythonLiteral::Int(-3)));
        assert_eq!(value.get("f"), Some(&PythonLiteral::Float(1.5)));
        assert_eq!(
            value.get("l"),
            Some(&PythonLiteral::List(vec![PythonLiteral::Int(1), PythonLiteral::Int(2)]))
        );
        assert_eq!(
            value.get("t"),
            Some(&PythonLiteral::List(vec![PythonLiteral::Str("a".into())]))
        );
        assert_eq!(value.get("s").and_then(PythonLiteral::text), Some("it's \"a\"\nä€"));
    }

    #[test]
    fn adjacent_strings_are_concatenated() {
        let text = "{'password': 'it\\'s a \"long\" one '\n             'and more'}";
        let value = PythonLiteral::read(text).unwrap();
        assert_eq!(
            value.get("password").and_then(PythonLiteral::text),
            Some("it's a \"long\" one and more")
        );
        assert_eq!(PythonLiteral::read("('a '\n 'b')"), Some(PythonLiteral::Str("a b".into())));
    }

    #[test]
    fn invalid_literals_are_refused() {
        for text in ["", "{", "{'a': }", "{'a' 1}", "[1 2]", "'open", "set()", "1 2", "'\\q'"] {
            assert_eq!(PythonLiteral::read(text), None, "{text:?}");
        }
        assert_eq!(PythonLiteral::read(&"[".repeat(100_000)), None);
    }
}
