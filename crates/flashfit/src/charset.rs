//! Text for terminals and files whose character set is not UTF-8: the few other characters that
//! flashfit prints become ASCII. Which set it is, the locale says (setlocale(3): the first of
//! `LC_ALL`, `LC_CTYPE` and `LANG` that is set); without any it is the C locale. JSON documents and
//! the files that flashfit writes are UTF-8 everywhere.

use std::borrow::Cow;
use std::ffi::OsString;
use std::sync::LazyLock;

use flashfit_report::text::plain_lines;

/// The text as the locale can show it, without characters that would move the cursor: a recorded
/// run, the name of a device or a kernel message can contain anything.
pub fn shown(text: &str) -> Cow<'_, str> {
    let text = plain_lines(text);
    static IS_UTF8: LazyLock<bool> = LazyLock::new(|| is_utf8(|name| std::env::var_os(name)));
    if *IS_UTF8 || text.is_ascii() { text } else { Cow::Owned(ascii(&text)) }
}

fn is_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

fn ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{d7}' => ascii.push('x'),
            '\u{b1}' => ascii.push_str("+/-"),
            '\u{b5}' | '\u{3bc}' => ascii.push('u'),
            '\u{2010}'..='\u{2015}' | '\u{2212}' => ascii.push('-'),
            // What a table shortened keeps its width.
            '\u{2026}' => ascii.push('~'),
            '\u{b7}' | '\u{2022}' => ascii.push('*'),
            '\u{2190}' => ascii.push_str("<-"),
            '\u{2192}' => ascii.push_str("->"),
            '\u{2264}' => ascii.push_str("<="),
            '\u{2265}' => ascii.push_str(">="),
            '\u{2248}' => ascii.push('~'),
            '\u{2018}' | '\u{2019}' => ascii.push('\''),
            '\u{201c}' | '\u{201d}' => ascii.push('"'),
            '\u{a0}' | '\u{2009}' | '\u{202f}' => ascii.push(' '),
            // Others come from the user's own names, and commands with them are copied.
            other => ascii.push(other),
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_flashfit_prints_has_a_spelling_in_ascii() {
        assert_eq!(
            ascii("10 \u{b5}s \u{b1} 2 \u{d7} 3 \u{2013} a\u{2026}"),
            "10 us +/- 2 x 3 - a~"
        );
        assert_eq!(ascii("16 \u{413}\u{411}"), "16 \u{413}\u{411}");
    }

    #[test]
    fn what_others_wrote_does_not_move_the_cursor() {
        let warning = "warning: card\u{1b}[1A\u{1b}[2K\rwarning: all is well\n";
        assert_eq!(shown(warning), "warning: card[1A[2Kwarning: all is well\n");
    }

    #[test]
    fn the_locale_says_which_set_it_is() {
        let with = |set: &[(&str, &str)]| {
            is_utf8(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert!(with(&[("LANG", "en_US.UTF-8")]));
        assert!(with(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        for not in [&[][..], &[("LANG", "C")], &[("LC_ALL", "POSIX"), ("LANG", "de_DE.UTF-8")]] {
            assert!(!with(not), "{not:?}");
        }
    }
}
