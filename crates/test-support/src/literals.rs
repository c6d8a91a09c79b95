//! The string literals of a Rust source file, for tests that check texts for users.
//!
//! Limits: it recognizes comments, characters, strings, raw strings and byte strings, which is
//! enough for formatted code; it does not expand macros.

/// A string literal, unescaped as far as line continuations and quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Literal {
    /// The line on which it starts, from 1.
    pub line: usize,
    pub text: String,
}

/// The string literals of the code before its `#[cfg(test)]` module, without byte strings.
pub fn of_code(source: &str) -> Vec<Literal> {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let letters: Vec<char> = code.chars().collect();
    let mut scanner = Scanner { letters: &letters, at: 0, line: 1 };
    let mut literals = Vec::new();
    while let Some(letter) = scanner.next() {
        match letter {
            '/' if scanner.peek() == Some('/') => scanner.skip_line(),
            '\'' => scanner.skip_character(),
            '"' => {
                let (line, is_bytes) = (scanner.line, scanner.before(2) == Some('b'));
                let text = scanner.string();
                if !is_bytes {
                    literals.push(Literal { line, text });
                }
            }
            'r' if scanner.is_raw() => {
                let (line, is_bytes) = (scanner.line, scanner.before(2) == Some('b'));
                let text = scanner.raw_string();
                if !is_bytes {
                    literals.push(Literal { line, text });
                }
            }
            _ => {}
        }
    }
    literals
}

struct Scanner<'a> {
    letters: &'a [char],
    at: usize,
    line: usize,
}

impl Scanner<'_> {
    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += 1;
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    /// The letter `back` places before the next one.
    fn before(&self, back: usize) -> Option<char> {
        self.letters.get(self.at.checked_sub(back)?).copied()
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|letter| letter != '\n') {}
    }

    /// A character, unless the quote starts a lifetime.
    fn skip_character(&mut self) {
        match (self.peek(), self.letters.get(self.at + 1)) {
            (Some('\\'), _) => {
                self.next();
                self.next();
                while self.next().is_some_and(|letter| letter != '\'') {}
            }
            (Some(_), Some('\'')) => {
                self.next();
                self.next();
            }
            _ => {}
        }
    }

    fn string(&mut self) -> String {
        let mut text = String::new();
        while let Some(letter) = self.next() {
            match letter {
                '"' => break,
                '\\' => match self.next() {
                    Some('\n') => {
                        while self.peek().is_some_and(char::is_whitespace) {
                            self.next();
                        }
                    }
                    Some('n') => text.push('\n'),
                    Some(other) => text.push(other),
                    None => break,
                },
                other => text.push(other),
            }
        }
        text
    }

    /// Whether the `r` that was just read starts a raw string.
    fn is_raw(&self) -> bool {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let starts = self.before(2).is_none_or(|before| before == 'b' || !is_word(before));
        let mut rest = self.letters[self.at..].iter().skip_while(|letter| **letter == '#');
        starts && rest.next() == Some(&'"')
    }

    fn raw_string(&mut self) -> String {
        let mut hashes = 0;
        while self.next() == Some('#') {
            hashes += 1;
        }
        let mut text = String::new();
        while let Some(letter) = self.next() {
            let rest = &self.letters[self.at..];
            if letter == '"' && rest.len() >= hashes && rest[..hashes].iter().all(|one| *one == '#')
            {
                self.at += hashes;
                break;
            }
            text.push(letter);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_found_and_nothing_else() {
        let source = r##"
// a "comment" with 'quotes'
fn f<'a>(x: &'a str) -> char { let q = '"'; let e = '\''; g(b"bytes", "one \"two\"") }
const LONG: &str = "a long \
    line"; const RAW: &str = r#"raw "text""#; let rest = "end";
#[cfg(test)]
mod tests { const T: &str = "not this"; }
"##;
        let found = of_code(source);
        let texts: Vec<&str> = found.iter().map(|literal| literal.text.as_str()).collect();
        assert_eq!(texts, ["one \"two\"", "a long line", "raw \"text\"", "end"]);
        assert_eq!(found[1].line, 4);
        assert_eq!(found[3].line, 5);
    }
}
