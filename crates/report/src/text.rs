//! Makes untrusted text safe to show and fits it into a width.
//!
//! A model string, a label or an error message can contain anything. Characters that move the
//! cursor, are invisible or change the direction of writing are removed. Each character counts as
//! one column, so wide (East Asian) and combining characters misalign columns.

use std::borrow::Cow;

use flashfit_host::visible::{is_harmful, is_line_or_tab};

/// Removes control, bidirectional and invisible characters; line breaks become spaces.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if is_line_or_tab(character) {
            plain.push(' ');
        } else if !is_harmful(character) {
            plain.push(character);
        }
    }
    plain
}

/// The same for text of several lines: line feeds and tabs stay.
pub fn plain_lines(text: &str) -> Cow<'_, str> {
    let is_kept = |character: char| matches!(character, '\n' | '\t') || !is_harmful(character);
    match text.chars().all(is_kept) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.chars().filter(|character| is_kept(*character)).collect()),
    }
}

/// A command with `�` instead of every unsafe character: a command that contained one fails instead
/// of doing something else.
pub fn plain_command(line: &str) -> String {
    let visible = |c| if is_line_or_tab(c) || is_harmful(c) { '\u{FFFD}' } else { c };
    line.chars().map(visible).collect()
}

/// The width in columns.
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// Shortens to `columns`, with `…` in the middle: the names of setups differ at both ends.
pub fn shorten_middle(text: &str, columns: usize) -> String {
    let length = width(text);
    if length <= columns {
        return text.to_owned();
    }
    let Some(kept) = columns.checked_sub(1) else { return String::new() };
    let tail = kept / 2;
    let head = text.chars().take(kept - tail);
    head.chain(std::iter::once('…')).chain(text.chars().skip(length - tail)).collect()
}

/// Shortens names to `columns` so that different names stay different: where their middles differ,
/// these are kept instead of the ends. A name for which that fails is not shortened.
pub fn shorten_distinct(names: &[&str], columns: usize) -> Vec<String> {
    let shortened: Vec<String> = names.iter().map(|name| shorten_middle(name, columns)).collect();
    let place = |index: usize| {
        let rivals = names
            .iter()
            .zip(&shortened)
            .filter(|(name, other)| **other == shortened[index] && **name != names[index]);
        let same = |other: &str| {
            names[index].chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
        };
        rivals.map(|(name, _)| same(name)).max()
    };
    let tried = |index: usize| match place(index) {
        None => shortened[index].clone(),
        Some(same) => {
            let rest: String =
                names[index].chars().skip(same.saturating_sub(columns / 2)).collect();
            shorten_end(&format!("…{rest}"), columns)
        }
    };
    let tried: Vec<String> = (0..names.len()).map(tried).collect();
    let is_alone = |index: usize| {
        let is_rival = |other: usize| names[other] != names[index] && tried[other] == tried[index];
        !(0..names.len()).any(is_rival)
    };
    (0..names.len())
        .map(|index| if is_alone(index) { tried[index].clone() } else { names[index].to_owned() })
        .collect()
}

/// Shortens to `columns`, with `…` at the end.
pub fn shorten_end(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(kept) = columns.checked_sub(1) else { return String::new() };
    text.chars().take(kept).chain(std::iter::once('…')).collect()
}

/// A command in lines of at most `columns` where its words permit, joined by backslashes. Later
/// lines are indented by two more columns.
pub fn fold_command(words: &[String], indent: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in words.iter().map(|word| plain_command(word)) {
        // A blank, the word, a blank and the backslash.
        if !line.trim().is_empty() && width(&line) + width(&word) + 3 > columns {
            lines.push(format!("{line} \\"));
            line = format!("{indent}  {word}");
        } else if line.is_empty() {
            line = format!("{indent}{word}");
        } else {
            line = format!("{line} {word}");
        }
    }
    lines.push(line);
    lines
}

/// Breaks at spaces into lines of at most `columns`; a longer word gets its own line.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `1 warning`, `2 warnings`.
pub fn count_of(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_folded_between_its_words() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(fold_command(&words("echo one two"), "  ", 80), ["  echo one two"]);
        let folded = fold_command(&words("echo one two three"), "  ", 14);
        assert_eq!(folded, ["  echo one \\", "    two \\", "    three"]);
        // A word that is too long stays whole.
        assert_eq!(fold_command(&words("a bcdefghijkl"), "", 5), ["a \\", "  bcdefghijkl"]);
    }

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(plain("SC\u{1b}[31m16G\u{7}\0"), "SC[31m16G");
        assert_eq!(plain("a\u{202e}txt.exe\u{2066}\u{200b}\u{feff}"), "atxt.exe");
        assert_eq!(plain("two\nlines\tand\u{2028}more"), "two lines and more");
        assert_eq!(plain("Größe 16 ГБ · 容量"), "Größe 16 ГБ · 容量");
        assert_eq!(plain("\u{9b}31m"), "31m");
        assert_eq!(plain_lines("a\tb\n\u{1b}[2Jc\r\u{202e}d\n"), "a\tb\n[2Jcd\n");
        assert!(matches!(plain_lines("a\tb\n16 ГБ"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_command_with_a_hidden_line_break_is_visibly_broken() {
        assert_eq!(plain_command("mkfs x\nrm -rf /"), "mkfs x\u{FFFD}rm -rf /");
        assert_eq!(plain_command("mkfs.ext4 -E 'a=b' /dev/x"), "mkfs.ext4 -E 'a=b' /dev/x");
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shorten_middle("ext4 noatime bfq", 9), "ext4… bfq");
        assert_eq!(shorten_middle("short", 5), "short");
        assert_eq!(shorten_middle("short", 1), "…");
        assert_eq!(shorten_middle("short", 0), "");
        assert_eq!(shorten_end("äöüß", 3), "äö…");
    }

    #[test]
    fn lines_break_at_spaces_only() {
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensibilities no", 5), ["incomprehensibilities", "no"]);
        assert!(wrap("", 5).is_empty());
    }
}
