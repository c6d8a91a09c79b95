//! A hint: text, and the commands and settings of flashfit that it refers to.
//!
//! Which flag sets a setting and how a command is typed is known to the command alone, so a hint
//! names them by [`Task`] and [`UserSetting`]. A hint can be sent to another process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a user can do about an error. Texts and references follow each other without separators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hint {
    parts: Vec<HintPart>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HintPart {
    Text(String),
    Setting(UserSetting),
    Task(Task),
}

/// Something that the user chose or can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UserSetting {
    /// The directory for the backup of a device.
    Backup,
    /// The name by which a device is confirmed.
    Confirm,
    /// How much data a workload uses.
    DataSize,
    EraseBlock,
    /// How full the device is before a workload.
    Fill,
    /// The memory of a trial.
    Memory,
    Scheduler,
    /// The start of the partition.
    Start,
    /// The file with the state of a simulated card.
    State,
    TestBed,
    VmDisk,
    VmKernel,
    VmSpeed,
}

/// Something that flashfit does when asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Any of them, for hints about its environment.
    Any,
    ListDevices,
    ListCards,
    /// Without a path, of the device that the error is about.
    Inspect(Option<PathBuf>),
    Plan,
    /// Makes a plan and writes it to a file.
    WritePlan,
    ProbeOptions,
    Resume,
    /// Switches on a simulated card.
    PowerOn(PathBuf),
    /// Ends the agent with this directory.
    EndAgent(PathBuf),
}

impl Hint {
    #[must_use]
    pub fn and(mut self, rest: impl Into<Self>) -> Self {
        self.parts.extend(rest.into().parts);
        self
    }

    pub fn parts(&self) -> &[HintPart] {
        &self.parts
    }

    /// Whether one of its texts contains `text`.
    pub fn contains(&self, text: &str) -> bool {
        self.parts.iter().any(|part| matches!(part, HintPart::Text(own) if own.contains(text)))
    }

    /// The text of a hint that refers to nothing of flashfit.
    pub fn text(&self) -> Option<&str> {
        match &self.parts[..] {
            [HintPart::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl<T: Into<HintPart>> From<T> for Hint {
    fn from(part: T) -> Self {
        Self { parts: vec![part.into()] }
    }
}

impl From<&str> for HintPart {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for HintPart {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<UserSetting> for HintPart {
    fn from(setting: UserSetting) -> Self {
        Self::Setting(setting)
    }
}

impl From<Task> for HintPart {
    fn from(task: Task) -> Self {
        Self::Task(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_hint_without_references_is_text() {
        assert_eq!(Hint::from("run it as root").text(), Some("run it as root"));
        let hint = Hint::from("make room, then: ").and(Task::Resume);
        assert_eq!(hint.text(), None);
        assert_eq!(hint.parts().len(), 2);
    }
}
