//! Which characters of a foreign text can be shown as they are. Bidirectional controls are those of
//! Unicode (UAX #9, section 2).

/// Whether a terminal shows the character, and it changes nothing else there.
pub fn is_visible(character: char) -> bool {
    !is_line_or_tab(character) && !is_harmful(character)
}

/// Whether it moves to another line or column.
pub fn is_line_or_tab(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}')
}

/// Control, bidirectional and invisible characters.
pub fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'
            | '\u{00AD}' | '\u{180E}' | '\u{200B}'..='\u{200D}' | '\u{2060}'..='\u{2065}'
            | '\u{206A}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}'
            | '\u{FDD0}'..='\u{FDEF}' | '\u{FFFE}' | '\u{FFFF}' | '\u{E0000}'..='\u{E007F}')
}
