//! A workload: a fio job file with a header for flashfit, or the header alone as a TOML file.
//!
//! The job file also works without flashfit. The header consists of comment lines `#: key = value`,
//! which form one TOML document and are ignored by fio. fio expands variables `${NAME}` from the
//! environment; [`crate::plan`] lists them.

use flashfit_catalog::{
    CatalogEntry, FileMistake, FileMistakes, Origin, ReadToml, line_at, nearest, read_toml,
};
use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::error::BenchError;
use crate::jobfile::{self, JobFile};
use crate::stage::{Direction, StageSpec};
use crate::task::TaskKind;

/// Starts a line of the header.
const HEADER_PREFIX: &str = "#:";
/// A file without jobs for fio is the header alone.
const TOML_ENDING: &str = ".toml";
/// A working set of more than ten times the memory is probably a typing error.
const WORK_SET_MAX_HUNDREDTHS: u64 = 1000;

/// The parameter that differs between points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    /// The size of one request.
    BlockSize,
    /// The working set relative to the memory.
    WorkSet,
    /// There is only one point.
    None,
}

/// One value of the parameter.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadPoint {
    BlockSize(u64),
    /// The working set in percent of the memory limit.
    WorkSet(u64),
    /// The only point of a workload without a parameter.
    #[default]
    Only,
}

impl std::fmt::Display for WorkloadPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BlockSize(bytes) => write!(f, "{}", Bytes(*bytes)),
            Self::WorkSet(hundredths) => write!(f, "{hundredths} % of memory"),
            Self::Only => f.write_str("the whole"),
        }
    }
}

/// A set of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointProfile {
    /// Few points, for a search.
    Quick,
    /// All points, for a comparison.
    Standard,
}

/// What a trial of a profile takes unless the user chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialSize {
    /// Of the files of a workload.
    pub data_size: Bytes,
    pub memory: Bytes,
    pub runtime_ms: u64,
}

impl PointProfile {
    pub fn usual_size(self) -> TrialSize {
        let size = |data_mib, memory_mib, runtime_ms| TrialSize {
            data_size: Bytes::mib(data_mib),
            memory: Bytes::mib(memory_mib),
            runtime_ms,
        };
        match self {
            Self::Quick => size(16, 64, 2_000),
            Self::Standard => size(128, 256, 10_000),
        }
    }
}

/// The header of a workload file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Header {
    title: String,
    explanation: String,
    source: String,
    parameter: Spanned<Parameter>,
    #[serde(default)]
    points: Vec<Spanned<Bytes>>,
    #[serde(default)]
    quick_points: Vec<Spanned<Bytes>>,
    #[serde(default)]
    fill: Vec<Spanned<String>>,
    #[serde(default)]
    fresh_files: bool,
    #[serde(default)]
    raw: bool,
    #[serde(default)]
    extra: bool,
    file_size: Option<Spanned<Bytes>>,
    stage: Vec<Spanned<StageSpec>>,
}

/// A workload of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The file name without its extension.
    pub name: String,
    pub title: String,
    /// What it measures and for which use.
    pub explanation: String,
    /// Where the workload was published.
    pub source: String,
    pub parameter: Parameter,
    /// In the order of execution.
    pub stages: Vec<StageSpec>,
    /// The job sections whose files are laid out before the first stage.
    pub fill: Vec<String>,
    /// Whether each point starts without files.
    pub fresh_files: bool,
    /// Whether it can read a bare block device.
    pub raw: bool,
    /// Whether it is measured only if it is named.
    pub extra: bool,
    /// The size of one file, if the number of files depends on the data size.
    pub file_bytes: Option<u64>,
    pub text: String,
    pub origin: Origin,
    standard: Vec<WorkloadPoint>,
    quick: Vec<WorkloadPoint>,
}

impl Workload {
    /// # Errors
    /// [`BenchError::BadFiles`] with all mistakes of the file.
    pub fn parse(entry: &CatalogEntry) -> Result<Self, BenchError> {
        Self::read(entry).map_err(|mistakes| BenchError::BadFiles(vec![mistakes]))
    }

    /// A valid file with a comment for each key, to start a new workload from.
    pub fn template(name: &str) -> String {
        include_str!("template.fio").replacen("NAME", name, 1)
    }

    pub(crate) fn read(entry: &CatalogEntry) -> Result<Self, FileMistakes> {
        let is_toml = entry.origin.to_string().ends_with(TOML_ENDING);
        let text = if is_toml { entry.text.clone() } else { header_text(&entry.text) };
        let ReadToml { value, mut mistakes } = read_toml::<Header>(&text);
        let jobs = if is_toml { JobFile::default() } else { jobfile::check(&entry.text) };
        mistakes.extend(jobs.mistakes);
        let mut rules = Rules { text: &text, mistakes: &mut mistakes };
        let points = value.as_ref().map(|head| {
            rules.stages(head, &jobs.sections);
            [
                rules.points(head, &head.points, "points"),
                rules.points(head, &head.quick_points, "quick-points"),
            ]
        });
        let (Some(head), Some([standard, quick]), true) = (value, points, mistakes.is_empty())
        else {
            return Err(FileMistakes::new(&entry.origin, mistakes));
        };
        Ok(Self {
            name: entry.name.clone(),
            title: head.title,
            explanation: head.explanation.trim().to_owned(),
            source: head.source,
            parameter: head.parameter.into_inner(),
            stages: head.stage.into_iter().map(Spanned::into_inner).collect(),
            fill: head.fill.into_iter().map(Spanned::into_inner).collect(),
            fresh_files: head.fresh_files,
            raw: head.raw,
            extra: head.extra,
            file_bytes: head.file_size.map(|size| size.get_ref().0),
            text: entry.text.clone(),
            origin: entry.origin.clone(),
            standard,
            quick,
        })
    }

    /// The points of a profile, in the order of the file.
    pub fn points(&self, profile: PointProfile) -> &[WorkloadPoint] {
        match profile {
            PointProfile::Quick => &self.quick,
            PointProfile::Standard => &self.standard,
        }
    }

    /// The commands of the user that it runs, in the order of execution.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.stages.iter().flat_map(StageSpec::commands)
    }

    pub(crate) fn has_tasks(&self) -> bool {
        self.stages.iter().any(|stage| stage.task.is_some())
    }

    /// Whether a tree of files is laid out before the first stage.
    pub(crate) fn needs_tree(&self) -> bool {
        self.stages.iter().filter_map(|stage| stage.task).any(TaskKind::needs_tree)
    }

    /// Whether files are laid out before the first stage.
    pub fn lays_out(&self) -> bool {
        !self.fill.is_empty() || self.needs_tree()
    }

    /// Whether the measured part writes; laying out files always does.
    pub fn writes(&self) -> bool {
        self.stages.iter().any(|stage| stage.measures(Direction::Write))
    }
}

/// The header as TOML; other lines are empty to keep the line numbers of the file.
fn header_text(text: &str) -> String {
    text.lines()
        .take_while(|line| line.trim().is_empty() || line.starts_with(['#', ';']))
        .map(|line| line.strip_prefix(HEADER_PREFIX).unwrap_or(""))
        .map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned() + "\n")
        .collect()
}

/// What must hold beyond the form of the header.
struct Rules<'a> {
    text: &'a str,
    mistakes: &'a mut Vec<FileMistake>,
}

impl Rules<'_> {
    fn bad(&mut self, start: usize, reason: String) {
        self.mistakes.push(FileMistake { line: line_at(self.text, start), reason });
    }

    fn stages(&mut self, head: &Header, sections: &[String]) {
        if head.stage.is_empty() {
            self.bad(0, "[[stage]] is missing".to_owned());
        }
        for place in &head.stage {
            let (start, stage) = (place.span().start, place.get_ref());
            stage.report(self.text, start, self.mistakes);
            for section in &stage.sections {
                self.section(start, section, sections);
            }
        }
        for place in &head.fill {
            self.section(place.span().start, place.get_ref(), sections);
        }
        let without_jobs = head.stage.iter().find(|stage| stage.get_ref().sections.is_empty());
        if let Some(stage) = without_jobs.filter(|_| head.raw) {
            self.bad(stage.span().start, "a bare device is read by jobs of fio only".to_owned());
        }
        let task = head.stage.iter().find(|stage| stage.get_ref().task.is_some());
        if let Some(stage) = task.filter(|_| head.file_size.is_none()) {
            self.bad(stage.span().start, "a task needs `file-size`".to_owned());
        }
        if let Some(size) = head.file_size.as_ref().filter(|size| size.get_ref().0 == 0) {
            self.bad(size.span().start, "`file-size` must not be 0".to_owned());
        }
    }

    fn section(&mut self, start: usize, name: &str, sections: &[String]) {
        if sections.iter().any(|known| known == name) {
            return;
        }
        let nearest = nearest(name, sections.iter().map(String::as_str));
        let hint = nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        self.bad(start, format!("unknown job section [{name}]{hint}"));
    }

    fn points(&mut self, head: &Header, list: &[Spanned<Bytes>], what: &str) -> Vec<WorkloadPoint> {
        let parameter = *head.parameter.get_ref();
        let start = head.parameter.span().start;
        if parameter == Parameter::None {
            if let Some(first) = list.first() {
                let reason = format!("with `parameter = \"none\"`, no {what} are allowed");
                self.bad(first.span().start, reason);
            }
            return vec![WorkloadPoint::Only];
        }
        if list.is_empty() {
            self.bad(start, format!("`{what}` is missing, which `parameter` needs"));
        }
        let mut found = Vec::new();
        for place in list {
            match point(parameter, place.get_ref().0) {
                Ok(point) => found.push(point),
                Err(reason) => self.bad(place.span().start, reason),
            }
        }
        found
    }
}

fn point(parameter: Parameter, value: u64) -> Result<WorkloadPoint, String> {
    match parameter {
        Parameter::BlockSize if value >= 512 && value % 512 == 0 => {
            Ok(WorkloadPoint::BlockSize(value))
        }
        Parameter::BlockSize => Err(format!("the block size {value} is not a multiple of 512")),
        Parameter::WorkSet if (1..=WORK_SET_MAX_HUNDREDTHS).contains(&value) => {
            Ok(WorkloadPoint::WorkSet(value))
        }
        _ => Err(format!(
            "the working set of {value} % of the memory is out of range: 1 to {WORK_SET_MAX_HUNDREDTHS}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# A remark.\n#: title = \"T\"\n#: explanation = \"E\"\n#: source = \"S\"\n\
        #: parameter = \"block-size\"\n#: points = [\"4KiB\", 8192]\n#: quick-points = [\"4KiB\"]\n\
        #: [[stage]]\n#: name = \"read\"\n#: sections = [\"r\"]\n#: kind = \"throughput\"\n\
        #: yields = [\"read\"]\n[global]\ndirectory=${DIRECTORY}\ngroup_reporting=1\n[r]\nrw=read\n";

    fn parse(text: &str) -> Result<Workload, BenchError> {
        let origin = Origin::File("mine.fio".into());
        Workload::parse(&CatalogEntry { name: "mine".into(), text: text.into(), origin })
    }

    fn error_text(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_valid_file_is_parsed() {
        let workload = parse(GOOD).unwrap();
        assert_eq!(
            workload.points(PointProfile::Standard),
            [WorkloadPoint::BlockSize(4096), WorkloadPoint::BlockSize(8192)]
        );
        assert_eq!(workload.points(PointProfile::Quick), [WorkloadPoint::BlockSize(4096)]);
        assert!(!workload.writes());
        assert_eq!(workload.stages[0].volume, 100);
    }

    #[test]
    fn the_template_is_valid_and_explains_every_key() {
        let text = Workload::template("mine");
        let workload = parse(&text).unwrap();
        assert_eq!((workload.title.as_str(), workload.stages.len()), ("mine", 1));
        assert_eq!(workload.points(PointProfile::Standard).len(), 3);
        // The error for an unknown key lists all keys.
        for (from, to) in [("#: source", "#: sauce"), ("#: kind", "#: kinds")] {
            let errors = error_text(&text.replacen(from, to, 1));
            let list = errors.split("expected one of ").nth(1).unwrap();
            let list = list.split(';').next().unwrap().split('`').skip(1).step_by(2);
            assert!(list.clone().count() > 5, "{errors}");
            for key in list.filter(|key| *key != "stage") {
                assert!(text.contains(&format!("{key} = ")), "{key}");
            }
        }
    }

    #[test]
    fn an_unknown_key_is_named_with_file_and_line() {
        let text = error_text(&GOOD.replace("#: source", "#: sauce"));
        let hint = "; did you mean `source`?";
        assert!(text.contains("\nmine.fio:4: unknown field `sauce`"), "{text}");
        assert!(text.contains(hint), "{text}");
    }

    #[test]
    fn an_unknown_section_is_named() {
        let text = error_text(&GOOD.replace("[\"r\"]", "[\"x\"]"));
        assert!(text.contains("[x]"), "{text}");
    }

    #[test]
    fn mistakes_of_header_and_jobs_are_reported_together() {
        let text = GOOD
            .replace("[\"r\"]", "[\"x\"]\n#: volume = 0")
            .replace("8192", "1000")
            .replace("rw=read", "rw=reed\nbss=4k");
        let found = error_text(&text);
        let lines: Vec<&str> = found.lines().filter_map(|line| line.split(": ").next()).collect();
        assert_eq!(
            lines,
            ["mine.fio:6", "mine.fio:8", "mine.fio:8", "mine.fio:18", "mine.fio:19"],
            "{found}"
        );
    }

    #[test]
    fn points_must_match_the_parameter() {
        assert!(error_text(&GOOD.replace("8192", "1000")).contains("1000"));
        assert!(error_text(&GOOD.replace("block-size", "none")).contains("no points are allowed"));
        assert!(error_text(&GOOD.replace("block-size", "work-set")).contains("4096"));
    }

    #[test]
    fn a_file_name_outside_the_target_is_rejected_with_its_line() {
        let text = error_text(&GOOD.replace("rw=read", "filename=/dev/sda"));
        assert!(text.starts_with("mine.fio:17: "), "{text}");
    }
}
