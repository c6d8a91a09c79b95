//! A marked block in a text file of the system: lines of ours between two comments, everything else
//! kept as it is.

const BEGIN: &str = "# flashfit begin ";
const END: &str = "# flashfit end ";

/// The text with `body` as the block of `key`, which takes the place of its earlier block, and of
/// those blocks of ours that `replaces` is true for. The order of everything else is kept.
///
/// # Errors
/// When a block of ours does not end: what belongs to it cannot be determined then.
pub fn put(
    text: &str,
    key: &str,
    body: &str,
    replaces: impl Fn(&str) -> bool,
) -> Result<String, String> {
    let block = format!("{BEGIN}{key}\n{}\n{END}{key}\n", body.trim_end());
    let mut result = String::new();
    let mut placed = false;
    for part in parts(text)? {
        match part {
            Part::Theirs(line) => result.push_str(&line),
            Part::Ours { key: found, body: lines, .. } if found == key || replaces(&lines) => {
                if !placed {
                    result.push_str(&block);
                }
                placed = true;
            }
            Part::Ours { whole, .. } => result.push_str(&whole),
        }
    }
    if !placed {
        if !result.is_empty() && !result.ends_with('\n') {
            result.push('\n');
        }
        result.push_str(&block);
    }
    Ok(result)
}

/// The lines that are not in a block of ours.
///
/// # Errors
/// As [`put`].
pub fn others(text: &str) -> Result<Vec<String>, String> {
    let theirs = |part| match part {
        Part::Theirs(line) => Some(line),
        Part::Ours { .. } => None,
    };
    Ok(parts(text)?.into_iter().filter_map(theirs).collect())
}

/// The contents of our blocks.
///
/// # Errors
/// As [`put`].
pub fn bodies(text: &str) -> Result<Vec<String>, String> {
    let ours = |part| match part {
        Part::Theirs(_) => None,
        Part::Ours { body, .. } => Some(body),
    };
    Ok(parts(text)?.into_iter().filter_map(ours).collect())
}

enum Part {
    Theirs(String),
    Ours { key: String, body: String, whole: String },
}

fn parts(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut lines = text.split_inclusive('\n').enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(key) = line.strip_prefix(BEGIN).map(str::trim) else {
            parts.push(Part::Theirs(line.to_owned()));
            continue;
        };
        let (mut body, mut whole) = (String::new(), line.to_owned());
        loop {
            let Some((_, line)) = lines.next().filter(|(_, line)| !line.starts_with(BEGIN)) else {
                return Err(format!("the block that starts in line {} has no end", number + 1));
            };
            whole.push_str(line);
            if line.strip_prefix(END).map(str::trim) == Some(key) {
                break;
            }
            body.push_str(line);
        }
        parts.push(Part::Ours { key: key.to_owned(), body, whole });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_plain(text: &str, key: &str, body: &str) -> String {
        put(text, key, body, |_| false).unwrap()
    }

    #[test]
    fn a_second_time_changes_nothing() {
        let once = put_plain("proc /proc proc\n", "A", "UUID=A /mnt ext4");
        assert_eq!(
            once,
            "proc /proc proc\n# flashfit begin A\nUUID=A /mnt ext4\n# flashfit end A\n"
        );
        assert_eq!(put_plain(&once, "A", "UUID=A /mnt ext4"), once);
    }

    #[test]
    fn a_block_is_replaced_where_it_stands_and_others_stay() {
        let text = put_plain(&put_plain("first", "A", "a"), "B", "b") + "last\n";
        let changed = put_plain(&text, "A", "new");
        assert_eq!(
            changed,
            "first\n# flashfit begin A\nnew\n# flashfit end A\n\
             # flashfit begin B\nb\n# flashfit end B\nlast\n"
        );
        let both = put(&text, "C", "c", |body| body == "a\n" || body == "b\n").unwrap();
        assert_eq!(both, "first\n# flashfit begin C\nc\n# flashfit end C\nlast\n");
        assert_eq!(others(&changed).unwrap(), ["first\n", "last\n"]);
    }

    #[test]
    fn a_block_without_an_end_is_not_guessed() {
        for text in ["# flashfit begin A\nx\n", "# flashfit begin A\n# flashfit begin B\n"] {
            assert!(put(text, "A", "a", |_| false).unwrap_err().contains("line 1 has no end"));
        }
    }
}
