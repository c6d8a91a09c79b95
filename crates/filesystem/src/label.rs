//! Labels of file systems: which ones a file system takes, from its file in the catalog, and how
//! its mkfs is given one.
//!
//! Limits: a label is checked by length and characters; what a program does to others (FAT's
//! tools write lower case as upper case, or warn) is not modeled, such labels are refused.

use serde::Deserialize;

/// What the length of a label counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelUnit {
    Bytes,
    /// Units of UTF-16.
    Utf16,
}

/// The labels that a file system takes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelRule {
    /// The flag of mkfs.
    pub flag: String,
    /// The longest label.
    pub most: usize,
    /// What it counts.
    pub counts: LabelUnit,
    /// Characters that it cannot contain.
    #[serde(default)]
    pub excludes: String,
    /// Whether it has no lower-case letters.
    #[serde(default)]
    pub upper_case: bool,
}

impl LabelRule {
    /// Why `label` cannot be one; `None` if it can.
    pub fn why_not(&self, label: &str) -> Option<String> {
        let (length, unit) = match self.counts {
            LabelUnit::Bytes => (label.len(), "bytes"),
            LabelUnit::Utf16 => (label.encode_utf16().count(), "characters"),
        };
        if label.trim() != label || label.is_empty() {
            return Some("it is empty, or begins or ends with a space".to_owned());
        }
        if length > self.most {
            return Some(format!("it has {length} {unit}, and the most are {}", self.most));
        }
        // A line for fstab(5) and a script for sfdisk(8) can have it, too.
        let is_excluded =
            |c: &char| c.is_control() || ['"', '\\'].contains(c) || self.excludes.contains(*c);
        if let Some(c) = label.chars().find(is_excluded) {
            return Some(format!("it cannot contain {c:?}"));
        }
        let lower = label.chars().find(|c| c.is_lowercase()).filter(|_| self.upper_case);
        lower.map(|_| format!("it has upper-case letters only: {}", label.to_uppercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_characters_and_case_are_checked() {
        let rule = |counts, upper_case| LabelRule {
            flag: "-L".to_owned(),
            most: 11,
            counts,
            excludes: "*?".to_owned(),
            upper_case,
        };
        let bytes = rule(LabelUnit::Bytes, false);
        assert_eq!(bytes.why_not("rootfs"), None);
        assert_eq!(bytes.why_not("ünïcödé"), None);
        assert!(bytes.why_not("ünïcödé1").unwrap().contains("12 bytes"));
        assert_eq!(rule(LabelUnit::Utf16, false).why_not("ünïcödé1"), None);
        for bad in ["", " a", "a*", "a\"", "a\\b", "a\nb"] {
            assert!(bytes.why_not(bad).is_some(), "{bad:?}");
        }
        let upper = rule(LabelUnit::Bytes, true);
        assert!(upper.why_not("boot").unwrap().ends_with("BOOT"));
        assert_eq!(upper.why_not("BOOT 1"), None);
    }
}
