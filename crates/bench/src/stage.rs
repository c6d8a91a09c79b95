//! A part of a workload: jobs of fio, a task of flashfit, or a command of the user.

use flashfit_catalog::{FileMistake, line_at};
use serde::{Deserialize, Serialize};

use crate::task::{FileOrder, TaskKind};

/// A command may take so many seconds if its stage does not say.
const DEFAULT_LIMIT_S: u64 = 600;
const MOST_LIMIT_S: u64 = 86_400;

/// The rate of a stage that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    Throughput,
    Operations,
    /// The time of a command, as its reciprocal.
    Time,
}

/// The direction of data; creating and deleting files counts as writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    Read,
    Write,
}

/// What is in the page cache when a command starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    /// Nothing: it is dropped.
    #[default]
    Cold,
    /// What a run of the same command left there, which is not measured.
    Warm,
}

/// A part of a workload that is run and measured separately.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StageSpec {
    /// Its name in results.
    pub name: String,
    /// The job sections of the stage, which run concurrently.
    #[serde(default)]
    pub sections: Vec<String>,
    pub task: Option<TaskKind>,
    /// Of the files of a task.
    #[serde(default)]
    pub order: FileOrder,
    /// For sh(1), in the mounted file system.
    pub command: Option<String>,
    /// Commands before and after each run of the command, which are not measured.
    pub prepare: Option<String>,
    pub cleanup: Option<String>,
    #[serde(default)]
    pub cache: CacheState,
    /// As whom the commands run: a name, or numbers of user and group with a `:`.
    pub user: Option<String>,
    /// The longest time of each command, in seconds.
    #[serde(default = "default_limit_s")]
    pub limit_s: u64,
    pub kind: FigureKind,
    pub yields: Vec<Direction>,
    /// The bytes transferred within the time limit, in percent of the data size or the working set.
    #[serde(default = "hundred")]
    pub volume: u64,
    /// Whether syncfs(2) after the jobs counts as write time.
    #[serde(default)]
    pub sync: bool,
}

fn hundred() -> u64 {
    100
}

fn default_limit_s() -> u64 {
    DEFAULT_LIMIT_S
}

impl StageSpec {
    /// A stage of one job section.
    pub fn of_jobs(name: &str, section: &str, kind: FigureKind, yields: Vec<Direction>) -> Self {
        Self {
            name: name.to_owned(),
            sections: vec![section.to_owned()],
            task: None,
            order: FileOrder::Name,
            command: None,
            prepare: None,
            cleanup: None,
            cache: CacheState::Cold,
            user: None,
            limit_s: DEFAULT_LIMIT_S,
            kind,
            yields,
            volume: hundred(),
            sync: false,
        }
    }

    pub fn measures(&self, direction: Direction) -> bool {
        self.yields.contains(&direction)
    }

    /// The commands that it runs, in the order of execution.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        [&self.prepare, &self.command, &self.cleanup].into_iter().flatten().map(String::as_str)
    }

    /// What is wrong with it beyond the form of its keys.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        let kinds = [!self.sections.is_empty(), self.task.is_some(), self.command.is_some()];
        let is_command = self.command.is_some();
        let only_commands = [
            (self.prepare.is_some(), "prepare"),
            (self.cleanup.is_some(), "cleanup"),
            (self.user.is_some(), "user"),
            (self.cache == CacheState::Warm, "cache"),
            (self.limit_s != DEFAULT_LIMIT_S, "limit-s"),
        ];
        let stray = only_commands.iter().filter(|(is_set, _)| *is_set && !is_command);
        let alone = self.sections.is_empty() && self.yields.len() > 1;
        let is_whole = kinds.iter().filter(|is_set| **is_set).count() == 1;
        let rules = [
            (!is_whole, "one of `sections`, `task` and `command` must be given".to_owned()),
            (self.yields.is_empty(), "`yields` must not be empty".to_owned()),
            (alone, "`yields` must be `read` or `write` for a command or a task".to_owned()),
            (self.volume == 0, "`volume` must be at least 1".to_owned()),
            (
                is_command != (self.kind == FigureKind::Time),
                "`kind` is `time` for a command, and only for a command".to_owned(),
            ),
            (
                self.commands().any(|command| command.trim().is_empty() || command.contains('\0')),
                "a command must not be empty".to_owned(),
            ),
            (
                !(1..=MOST_LIMIT_S).contains(&self.limit_s),
                format!("`limit-s` must be 1 to {MOST_LIMIT_S}"),
            ),
        ];
        let broken = rules.into_iter().filter(|(is_broken, _)| *is_broken).map(|(_, rule)| rule);
        let stray = stray.map(|(_, key)| format!("`{key}` needs `command`"));
        broken.chain(stray).map(|rule| format!("stage `{}`: {rule}", self.name)).collect()
    }

    pub(crate) fn report(&self, text: &str, start: usize, into: &mut Vec<FileMistake>) {
        let line = line_at(text, start);
        into.extend(self.mistakes().into_iter().map(|reason| FileMistake { line, reason }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(stage: &str) -> Vec<String> {
        toml::from_str::<StageSpec>(&format!("name = \"s\"\n{stage}")).unwrap().mistakes()
    }

    #[test]
    fn a_stage_is_one_of_jobs_task_and_command() {
        let good = [
            "command = \"true\"\nkind = \"time\"\nyields = [\"write\"]\ncache = \"warm\"",
            "task = \"walk-tree\"\nkind = \"operations\"\nyields = [\"read\"]",
            "sections = [\"a\"]\nkind = \"throughput\"\nyields = [\"read\", \"write\"]",
        ];
        for stage in good {
            assert_eq!(mistakes(stage), [""; 0], "{stage}");
        }
        let bad = [
            ("kind = \"throughput\"\nyields = [\"read\"]", "one of"),
            ("command = \"true\"\nkind = \"operations\"\nyields = [\"read\"]", "`time`"),
            ("task = \"walk-tree\"\nkind = \"time\"\nyields = [\"read\"]", "`time`"),
            ("command = \" \"\nkind = \"time\"\nyields = [\"read\"]", "empty"),
            ("command = \"a\"\nkind = \"time\"\nyields = [\"read\", \"write\"]", "or a task"),
            (
                "task = \"walk-tree\"\nkind = \"operations\"\nyields = [\"read\"]\nuser = \"me\"",
                "needs",
            ),
        ];
        for (stage, expected) in bad {
            let found = mistakes(stage);
            assert!(found.len() == 1 && found[0].contains(expected), "{stage}: {found:?}");
        }
    }
}
