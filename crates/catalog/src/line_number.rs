//! Finds the line of a position or key in a TOML file, for error messages.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The line of a byte, counted from 1.
pub fn line_at(text: &str, start: usize) -> usize {
    let end = start.min(text.len());
    1 + text.as_bytes()[..end].iter().filter(|&&byte| byte == b'\n').count()
}

/// The line of a key such as `nand.page`, or `entry.2.low` in the third table of an array; of its
/// section if the key is missing; 1 if the section is missing too.
pub fn line_of_key(text: &str, key: &str) -> usize {
    let Ok(table) = DeTable::parse(text) else { return 1 };
    let mut line = 1;
    let mut names = key.split('.');
    let Some((start, mut value)) = names.next().and_then(|name| entry(table.get_ref(), name))
    else {
        return line;
    };
    line = line_at(text, start);
    for name in names {
        let found = match value.get_ref() {
            DeValue::Table(table) => entry(table, name),
            DeValue::Array(items) => name
                .parse()
                .ok()
                .and_then(|index: usize| items.get(index))
                .map(|item| (item.span().start, item)),
            _ => None,
        };
        let Some((start, inner)) = found else { break };
        (line, value) = (line_at(text, start), inner);
    }
    line
}

fn entry<'a, 't>(table: &'a DeTable<'t>, name: &str) -> Option<(usize, &'a Spanned<DeValue<'t>>)> {
    table.get_key_value(name).map(|(key, value)| (key.span().start, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_its_section_and_a_missing_key_at_its_section() {
        let text = "a = 1\n\n[nand]\npage = 2\n[nand.pslc]\nunits = 3\n";
        assert_eq!(line_of_key(text, "a"), 1);
        assert_eq!(line_of_key(text, "nand.page"), 4);
        assert_eq!(line_of_key(text, "nand.pslc.units"), 6);
        assert_eq!(line_of_key(text, "nand.erase_unit"), 3);
        assert_eq!(line_of_key(text, "bus.kind"), 1);
        assert_eq!(line_of_key(text, "a.b"), 1);
    }

    #[test]
    fn a_key_is_found_in_one_of_several_tables() {
        let text = "a = [\n1,\n2]\n[[entry]]\nlow = 1\n[[entry]]\n# the second\nlow = 2\n";
        assert_eq!(line_of_key(text, "entry.0.low"), 5);
        assert_eq!(line_of_key(text, "entry.1.low"), 8);
        assert_eq!(line_of_key(text, "entry.1.high"), 6);
        assert_eq!(line_of_key(text, "a.1"), 3);
    }
}
