//! What was found of an option: a verdict and what it rests on.

use serde::{Deserialize, Serialize};

/// What this kernel and these programs make of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
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

impl Verdict {
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

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Where a piece of evidence was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The commands themselves, with and without the option.
    Commands,
    /// What mkfs or the tuning program printed.
    Program,
    /// What the file system's own program shows of the superblock.
    Superblock,
    /// What mount(8) printed.
    Mount,
    /// The kernel's log.
    KernelLog,
    /// The mount table.
    MountTable,
    /// The file system's own list of its options in `/proc/fs`.
    OptionList,
    /// A rule of flashfit's, or what it lacked.
    Flashfit,
}

impl Place {
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Where it was seen.
    pub place: Place,
    /// What was seen.
    pub text: String,
}

impl Evidence {
    pub(crate) fn new(place: Place, text: impl Into<String>) -> Self {
        Self { place, text: text.into() }
    }
}

/// What was found of one option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The option's name.
    pub option: String,
    /// The verdict.
    pub verdict: Verdict,
    /// What it rests on, the most telling first.
    pub evidence: Vec<Evidence>,
    /// What the user can type to get further.
    pub hint: Option<String>,
}

impl Finding {
    /// Why measuring it would measure something else; `None` where it is a choice.
    pub fn why_no_choice(&self) -> Option<String> {
        let why = match self.verdict {
            Verdict::Default => "on this machine it is the same as without it",
            Verdict::Ignored => "it is taken here and does nothing",
            Verdict::Refused => "it is refused here",
            Verdict::ToolMissing => "a program that it needs is not installed",
            Verdict::Effective
            | Verdict::Accepted
            | Verdict::NotInKernel
            | Verdict::NotMeasured => return None,
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
pub struct Findings {
    /// The file system's name.
    pub filesystem: String,
    /// Why nothing was mounted, where nothing was.
    pub not_mounted: Option<String>,
    /// One for each option, in catalogue order.
    pub options: Vec<Finding>,
}

impl Findings {
    /// What was found of the option of that name.
    pub fn of(&self, option: &str) -> Option<&Finding> {
        self.options.iter().find(|finding| finding.option == option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        let all = [
            Verdict::Effective,
            Verdict::Accepted,
            Verdict::Default,
            Verdict::Ignored,
            Verdict::Refused,
            Verdict::NotInKernel,
            Verdict::ToolMissing,
            Verdict::NotMeasured,
        ];
        for verdict in all {
            assert_eq!(serde_json::to_string(&verdict).unwrap(), format!("\"{verdict}\""));
        }
    }

    #[test]
    fn only_what_changes_nothing_or_cannot_be_is_no_choice() {
        let finding = |verdict| Finding {
            option: "x".into(),
            verdict,
            evidence: vec![Evidence::new(Place::KernelLog, "Ignoring removed x option")],
            hint: None,
        };
        let why = finding(Verdict::Ignored).why_no_choice().unwrap();
        assert_eq!(
            why,
            "it is taken here and does nothing (kernel log: Ignoring removed x option)"
        );
        for verdict in [Verdict::Default, Verdict::Refused, Verdict::ToolMissing] {
            assert!(finding(verdict).why_no_choice().is_some());
        }
        for verdict in [Verdict::Effective, Verdict::Accepted, Verdict::NotMeasured] {
            assert!(finding(verdict).why_no_choice().is_none());
        }
    }
}
