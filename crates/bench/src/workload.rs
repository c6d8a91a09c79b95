//! A workload: a fio job file with a header for flashfit.
//!
//! The job file also works without flashfit. The header consists of comment lines `#: key = value`,
//! which form one TOML document and are ignored by fio. fio expands variables `${NAME}` from the
//! environment; [`crate::plan`] lists them.

use std::ops::Range;

use flashfit_catalog::{CatalogEntry, Origin};
use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::jobfile;

/// Starts a line of the header.
const HEADER_PREFIX: &str = "#:";
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

/// The rate of a stage that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    Throughput,
    Operations,
}

/// The direction of data; creating and deleting files counts as writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    Read,
    Write,
}

/// A part of a workload that is run and measured separately.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StageSpec {
    /// Its name in results.
    pub name: String,
    /// The job sections of the stage, which run concurrently.
    pub sections: Vec<String>,
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

impl StageSpec {
    pub fn measures(&self, direction: Direction) -> bool {
        self.yields.contains(&direction)
    }
}

/// The header of a workload file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Header {
    title: String,
    explanation: String,
    source: String,
    parameter: Parameter,
    #[serde(default)]
    points: Vec<Bytes>,
    #[serde(default)]
    quick_points: Vec<Bytes>,
    #[serde(default)]
    fill: Vec<String>,
    #[serde(default)]
    fresh_files: bool,
    #[serde(default)]
    raw: bool,
    file_size: Option<Bytes>,
    stage: Vec<StageSpec>,
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
    /// The size of one file, if the number of files depends on the data size.
    pub file_bytes: Option<u64>,
    pub text: String,
    pub origin: Origin,
    standard: Vec<WorkloadPoint>,
    quick: Vec<WorkloadPoint>,
}

impl Workload {
    /// # Errors
    /// [`BenchError::BadWorkload`] with file and line.
    pub fn parse(entry: &CatalogEntry) -> Result<Self, BenchError> {
        let bad =
            |line, reason| BenchError::BadWorkload { origin: entry.origin.clone(), line, reason };
        let text = header_text(&entry.text);
        let head: Header = toml::from_str(&text).map_err(|error| {
            bad(line_of(&text, error.span()), error.message().trim().replace('\n', ", "))
        })?;
        let sections = jobfile::check(&entry.text).map_err(|(line, reason)| bad(line, reason))?;
        check_stages(&head, &sections).map_err(|reason| bad(1, reason))?;
        let (standard, quick) = points(&head).map_err(|reason| bad(1, reason))?;
        Ok(Self {
            name: entry.name.clone(),
            title: head.title,
            explanation: head.explanation.trim().to_owned(),
            source: head.source,
            parameter: head.parameter,
            stages: head.stage,
            fill: head.fill,
            fresh_files: head.fresh_files,
            raw: head.raw,
            file_bytes: head.file_size.map(|size| size.0),
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

fn line_of(text: &str, span: Option<Range<usize>>) -> usize {
    let end = span.map_or(0, |span| span.start.min(text.len()));
    1 + text.as_bytes()[..end].iter().filter(|&&byte| byte == b'\n').count()
}

fn check_stages(head: &Header, sections: &[String]) -> Result<(), String> {
    if head.stage.is_empty() {
        return Err("[[stage]] is missing".to_owned());
    }
    for stage in &head.stage {
        if stage.sections.is_empty() || stage.yields.is_empty() || stage.volume == 0 {
            return Err(format!(
                "stage `{}`: `sections` and `yields` must not be empty, and `volume` must not be 0",
                stage.name
            ));
        }
    }
    let named = head.stage.iter().flat_map(|stage| &stage.sections).chain(&head.fill);
    for section in named {
        if !sections.contains(section) {
            return Err(format!("unknown job section [{section}]"));
        }
    }
    if head.file_size.is_some_and(|size| size.0 == 0) {
        return Err("`file-size` must not be 0".to_owned());
    }
    Ok(())
}

fn points(head: &Header) -> Result<(Vec<WorkloadPoint>, Vec<WorkloadPoint>), String> {
    if head.parameter == Parameter::None {
        if !head.points.is_empty() || !head.quick_points.is_empty() {
            return Err("with `parameter = \"none\"`, no points are allowed".to_owned());
        }
        return Ok((vec![WorkloadPoint::Only], vec![WorkloadPoint::Only]));
    }
    let read = |list: &[Bytes], what| {
        if list.is_empty() {
            return Err(format!("`{what}` is missing"));
        }
        list.iter().map(|value| point(head.parameter, value.0)).collect()
    };
    Ok((read(&head.points, "points")?, read(&head.quick_points, "quick-points")?))
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
    fn an_unknown_key_is_named_with_file_and_line() {
        let text = error_text(&GOOD.replace("#: source", "#: sauce"));
        assert!(text.starts_with("mine.fio:4: ") && text.contains("sauce"), "{text}");
    }

    #[test]
    fn an_unknown_section_is_named() {
        let text = error_text(&GOOD.replace("[\"r\"]", "[\"x\"]"));
        assert!(text.contains("[x]"), "{text}");
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
