//! Finds the line of a position or key in a card file, for error messages.

use flashfit_catalog::line_at;
use toml::de::DeTable;

/// The line of a key such as `nand.page`; of its section if the key is missing; 1 if the section is
/// missing too.
pub fn line_of_key(text: &str, key: &str) -> usize {
    let Ok(table) = DeTable::parse(text) else { return 1 };
    let mut table = table.get_ref();
    let mut line = 1;
    for name in key.split('.') {
        let Some((found, value)) = table.get_key_value(name) else { break };
        line = line_at(text, found.span().start);
        match value.get_ref().as_table() {
            Some(inner) => table = inner,
            None => break,
        }
    }
    line
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
    }
}
