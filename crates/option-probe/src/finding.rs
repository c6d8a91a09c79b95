//! What was found of an option: a verdict and what it rests on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What this kernel and these programs make of an option.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum OptionVerdict {
    /// A trace of it is seen that is not there without it.
    Effective,
    /// Nothing refused it and nothing says that it is ignored, but no trace of it is seen.
    Accepted,
    /// It is so without the option too.
    Default,
    /// It is taken, and the kernel says that it does nothing.
    Ignored,
    /// mkfs, the tuning program or mount says no; or flashfit does, because it names another place.
    Refused,
    /// This kernel does not have the file system, so what mounting makes of it is not known.
    NotInKernel,
    /// A program that it needs is not installed.
    ToolMissing,
    /// It was not tried.
    NotMeasured,
}

impl OptionVerdict {
    /// Its name in JSON and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Effective => "effective",
            Self::Accepted => "accepted",
            Self::Default => "default",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
            Self::NotInKernel => "not-in-kernel",
            Self::ToolMissing => "tool-missing",
            Self::NotMeasured => "not-measured",
        }
    }

    /// What it means, as half a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Effective => "a trace of it is seen",
            Self::Accepted => "taken; no trace of it is seen, and nothing says that it is ignored",
            Self::Default => "the same as without it",
            Self::Ignored => "taken, and it does nothing",
            Self::Refused => "the program or the kernel says no",
            Self::NotInKernel => "this kernel does not have the file system",
            Self::ToolMissing => "a program is not installed",
            Self::NotMeasured => "not tried here",
        }
    }
}

impl std::fmt::Display for OptionVerdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Where a piece of evidence was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceSource {
    /// The commands themselves, with and without the option.
    Commands,
    /// What mkfs or the tuning program printed.
    Program,
    /// What the file system's own program shows of the superblock.
    Superblock,
    /// What mount(8) printed.
    Mount,
    KernelLog,
    MountTable,
    /// The file system's own list of its options in `/proc/fs`.
    OptionList,
    /// A rule of flashfit's, or what it lacked.
    Flashfit,
}

impl EvidenceSource {
    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Commands => "commands",
            Self::Program => "program",
            Self::Superblock => "superblock",
            Self::Mount => "mount",
            Self::KernelLog => "kernel log",
            Self::MountTable => "mount table",
            Self::OptionList => "option list",
            Self::Flashfit => "flashfit",
        }
    }
}

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionEvidence {
    /// Where it was seen.
    pub place: EvidenceSource,
    pub text: String,
}

impl OptionEvidence {
    pub(crate) fn new(place: EvidenceSource, text: impl Into<String>) -> Self {
        Self { place, text: text.into() }
    }
}

/// What was found of one option.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionFinding {
    pub option: String,
    pub verdict: OptionVerdict,
    /// What it rests on, the most telling first.
    pub evidence: Vec<OptionEvidence>,
    /// What the user can type to get further.
    pub hint: Option<String>,
}

impl OptionFinding {
    /// Why measuring it would measure something else; `None` where it is a choice.
    pub fn why_no_choice(&self) -> Option<String> {
        let why = match self.verdict {
            OptionVerdict::Default => "on this machine it is the same as without it",
            OptionVerdict::Ignored => "it is taken here and does nothing",
            OptionVerdict::Refused => "it is refused here",
            OptionVerdict::ToolMissing => "a program that it needs is not installed",
            OptionVerdict::Effective
            | OptionVerdict::Accepted
            | OptionVerdict::NotInKernel
            | OptionVerdict::NotMeasured => return None,
        };
        Some(match self.evidence.first() {
            Some(first) => format!("{why} ({}: {})", first.place.title(), first.text),
            None => why.to_owned(),
        })
    }
}

/// What was found of a file system's options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionFindings {
    /// The file system's name.
    pub filesystem: String,
    /// Why nothing was mounted, where nothing was.
    pub not_mounted: Option<String>,
    /// One for each option, in catalog order.
    pub options: Vec<OptionFinding>,
}

impl OptionFindings {
    /// What was found of the option of that name.
    pub fn of(&self, option: &str) -> Option<&OptionFinding> {
        self.options.iter().find(|finding| finding.option == option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        let all = [
            OptionVerdict::Effective,
            OptionVerdict::Accepted,
            OptionVerdict::Default,
            OptionVerdict::Ignored,
            OptionVerdict::Refused,
            OptionVerdict::NotInKernel,
            OptionVerdict::ToolMissing,
            OptionVerdict::NotMeasured,
        ];
        for verdict in all {
            assert_eq!(serde_json::to_string(&verdict).unwrap(), format!("\"{verdict}\""));
        }
    }

    #[test]
    fn only_what_changes_nothing_or_cannot_be_is_no_choice() {
        let finding = |verdict| OptionFinding {
            option: "x".into(),
            verdict,
            evidence: vec![OptionEvidence::new(
                EvidenceSource::KernelLog,
                "Ignoring removed x option",
            )],
            hint: None,
        };
        let why = finding(OptionVerdict::Ignored).why_no_choice().unwrap();
        assert_eq!(
            why,
            "it is taken here and does nothing (kernel log: Ignoring removed x option)"
        );
        for verdict in [OptionVerdict::Default, OptionVerdict::Refused, OptionVerdict::ToolMissing]
        {
            assert!(finding(verdict).why_no_choice().is_some());
        }
        for verdict in
            [OptionVerdict::Effective, OptionVerdict::Accepted, OptionVerdict::NotMeasured]
        {
            assert!(finding(verdict).why_no_choice().is_none());
        }
    }
}
