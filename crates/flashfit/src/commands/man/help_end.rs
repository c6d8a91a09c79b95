//! What follows the options in a help text, as sections of a man page.

/// Examples, exit codes and other paragraphs of the end of a help text.
pub struct HelpEnd<'a> {
    paragraphs: Vec<Vec<&'a str>>,
}

const EXIT_CODES: &str = "Exit codes:";

impl<'a> HelpEnd<'a> {
    pub fn of(help: &'a str) -> Self {
        let mut paragraphs = vec![Vec::new()];
        for line in help.lines() {
            if line.trim().is_empty() {
                paragraphs.push(Vec::new());
            } else {
                paragraphs.last_mut().expect("one at least").push(line);
            }
        }
        paragraphs.retain(|lines| !lines.is_empty());
        Self { paragraphs }
    }

    /// Running text, which continues the description.
    pub fn notes(&self) -> String {
        let notes = self.paragraphs.iter().filter(|lines| !is_list(lines) && !is_exit(lines));
        notes.map(|lines| format!(".PP\n{}\n", escaped(&lines.join(" ")))).collect()
    }

    /// The exit codes, one below the other.
    pub fn exit_status(&self) -> Option<String> {
        let lines = self.paragraphs.iter().find(|lines| is_exit(lines))?;
        if is_list(lines) {
            return Some(verbatim(&lines[1..]));
        }
        let text = lines.join(" ");
        let text = text.trim_start_matches(EXIT_CODES).trim();
        if !text.starts_with(|first: char| first.is_ascii_digit()) {
            return Some(format!("{}\n", escaped(text)));
        }
        let mut items: Vec<String> = Vec::new();
        for part in text.split("; ") {
            match (part.starts_with(|first: char| first.is_ascii_digit()), items.last_mut()) {
                (false, Some(last)) => last.push_str(&format!("; {part}")),
                _ => items.push(part.to_owned()),
            }
        }
        let item = |item: String| {
            let (code, meaning) = item.split_once(' ').unwrap_or((&item, ""));
            format!(".TP\n{code}\n{}\n", escaped(meaning))
        };
        Some(items.into_iter().map(item).collect())
    }

    /// Lists with a title, such as examples.
    pub fn lists(&self) -> String {
        let lists = self.paragraphs.iter().filter(|lines| is_list(lines) && !is_exit(lines));
        let one = |lines: &Vec<&str>| {
            let title = match lines[0].trim_end_matches(':') {
                "Example" => "EXAMPLES".to_owned(),
                title => title.to_uppercase(),
            };
            format!(".SH \"{title}\"\n{}", verbatim(&lines[1..]))
        };
        lists.map(one).collect()
    }
}

fn is_exit(lines: &[&str]) -> bool {
    lines[0].starts_with(EXIT_CODES)
}

/// A title with indented lines below it.
fn is_list(lines: &[&str]) -> bool {
    lines[0].ends_with(':')
        && lines.len() > 1
        && lines[1..].iter().all(|line| line.starts_with("  "))
}

/// Lines that are neither filled nor broken.
fn verbatim(lines: &[&str]) -> String {
    let line = |line: &&str| format!("{}\n", escaped(line.strip_prefix("  ").unwrap_or(line)));
    format!(".nf\n{}.fi\n", lines.iter().map(line).collect::<String>())
}

/// Text that roff(7) shows as it is, in characters that can be pasted into a shell.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    if text.starts_with('.') {
        escaped.push_str("\\&");
    }
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\e"),
            '-' => escaped.push_str("\\-"),
            '\'' => escaped.push_str("\\(aq"),
            '`' => escaped.push_str("\\(ga"),
            '^' => escaped.push_str("\\(ha"),
            '~' => escaped.push_str("\\(ti"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_help_text_becomes_sections() {
        let help = "Examples:\n  tool 'a' \\\n      --flag\n\n.First, read-only.\n\nExit codes: 0 \
                    done; as planned; 1 bad.";
        let end = HelpEnd::of(help);
        let examples = ".SH \"EXAMPLES\"\n.nf\ntool \\(aqa\\(aq \\e\n    \\-\\-flag\n.fi\n";
        assert_eq!(end.lists(), examples);
        assert_eq!(end.notes(), ".PP\n\\&.First, read\\-only.\n");
        let codes = ".TP\n0\ndone; as planned\n.TP\n1\nbad.\n";
        assert_eq!(end.exit_status().as_deref(), Some(codes));
    }
}
