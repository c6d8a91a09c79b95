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
    /// Lists those of a host that is reached by SSH.
    ListDevicesOf(String),
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

    /// The same hint from the machine `host`, to be read on this one. `reached_as` names that
    /// machine for SSH, if this user can reach it. What continues or repeats a command with another
    /// setting is for the command that was typed here, and stays as it is.
    #[must_use]
    pub fn from_host(self, host: &str, reached_as: Option<&str>) -> Self {
        let is_list = |part: &HintPart| *part == HintPart::Task(Task::ListDevices);
        if let Some(reached_as) = reached_as.filter(|_| self.parts.iter().any(is_list)) {
            let list = HintPart::Task(Task::ListDevicesOf(reached_as.to_owned()));
            let of_host = |part| if is_list(&part) { list.clone() } else { part };
            return Self { parts: self.parts.into_iter().map(of_host).collect() };
        }
        let is_for_host = |part: &HintPart| match part {
            HintPart::Text(_) | HintPart::Task(Task::ListDevices | Task::Inspect(_)) => true,
            HintPart::Setting(_) | HintPart::Task(_) => false,
        };
        match self.parts.iter().all(is_for_host) {
            true => Self::from(format!("on {host}: ")).and(self),
            false => self,
        }
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
    fn a_hint_of_another_machine_names_it() {
        let from_board = |hint: &Hint| hint.clone().from_host("board", Some("root@board"));
        let kill = Hint::from("run kill 25810");
        assert_eq!(from_board(&kill), Hint::from("on board: ").and(kill.clone()));
        let resume = Hint::from("make room, then: ").and(Task::Resume);
        assert_eq!(from_board(&resume), resume);
        let list = Hint::from("run ").and(Task::ListDevices);
        let of_board = Hint::from("run ").and(Task::ListDevicesOf("root@board".to_owned()));
        assert_eq!(from_board(&list), of_board);
        let unreachable = Hint::from("on b1: ").and(list.clone());
        assert_eq!(list.from_host("b1", None), unreachable);
    }

    #[test]
    fn only_a_hint_without_references_is_text() {
        assert_eq!(Hint::from("run it as root").text(), Some("run it as root"));
        let hint = Hint::from("make room, then: ").and(Task::Resume);
        assert_eq!(hint.text(), None);
        assert_eq!(hint.parts().len(), 2);
    }
}
