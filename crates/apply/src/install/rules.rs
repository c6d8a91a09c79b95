//! Our rules in a file of udev(7): one for each attribute of a kernel name. Of two rules for the
//! same attribute the last one wins, so a new one replaces all earlier ones.

use super::block;

/// The text with this rule as the only one of ours for its attribute.
///
/// # Errors
/// As [`block::put`].
pub(crate) fn put(text: &str, rule: &str) -> Result<String, String> {
    let rule = rule.trim_end();
    let subject = subject(rule);
    let key = subject.map_or_else(|| rule.to_owned(), |(name, of)| format!("{name} {of}"));
    let is_earlier =
        |body: &str| subject.is_some() && body.lines().any(|line| self::subject(line) == subject);
    block::put(text, &key, rule, is_earlier)
}

/// The kernel name that a rule matches, and the attribute that it sets.
fn subject(rule: &str) -> Option<(&str, &str)> {
    let between = |before: &str, after: char| {
        let (_, rest) = rule.split_once(before)?;
        Some(rest.split_once(after)?.0)
    };
    Some((between("KERNEL==\"", '"')?, between("ATTR{", '}')?))
}

#[cfg(test)]
mod tests {
    use flashfit_filesystem::scheduler::udev_queue_rule;

    use super::*;

    fn scheduler(name: &str) -> String {
        udev_queue_rule("sdx", "scheduler", name)
    }

    #[test]
    fn one_rule_of_ours_stays_for_an_attribute() {
        // Earlier versions used the UUID of the file system as the key.
        let text = "# theirs\n# flashfit begin 1-2\n".to_owned()
            + &scheduler("none")
            + "# flashfit end 1-2\n# flashfit begin 3-4\n"
            + &scheduler("bfq")
            + "# flashfit end 3-4\n";
        let text = put(&text, &udev_queue_rule("sdy", "scheduler", "bfq")).unwrap();
        let text = put(&text, &udev_queue_rule("sdx", "read_ahead_kb", "516")).unwrap();
        for name in ["none", "mq-deadline", "none"] {
            let text = put(&text, &scheduler(name)).unwrap();
            assert_eq!(text.matches("KERNEL==\"sdx\", ATTR{queue/scheduler}").count(), 1);
            assert!(text.contains(&scheduler(name)), "{text}");
            assert!(text.starts_with("# theirs\n# flashfit begin sdx queue/scheduler\n"));
            assert!(text.contains("\"sdy\"") && text.contains("\"516\""), "{text}");
        }
    }
}
