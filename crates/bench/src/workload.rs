//! A workload: a fio job file, and what its head tells flashfit about it.
//!
//! The job file is usable by hand. Its head is made of comment lines `#: key = value` that are
//! together one TOML document; fio passes over them. Variables reach the jobs through fio's own
//! `${NAME}` expansion of the environment; [`crate::plan`] lists them.

use std::ops::Range;

use flashfit_catalog::{CatalogEntry, Origin};
use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::jobfile;

/// What starts a line of the head.
const HEAD: &str = "#:";
/// A work set of more than ten times the memory is a slip of the pen.
const WORK_SET_MAX_HUNDREDTHS: u64 = 1000;

/// What differs from point to point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    /// The size of one request.
    BlockSize,
    /// How much data there is, compared with the memory.
    WorkSet,
    /// Nothing: there is one point.
    None,
}

/// One setting of the parameter, at which figures are taken.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadPoint {
    /// The size of one request, in bytes.
    BlockSize(u64),
    /// Data in hundredths of the memory limit.
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

/// How many points are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointProfile {
    /// Few points: for a search.
    Quick,
    /// All points: for a claim.
    Standard,
}

/// Which of a stage's figures is the one to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// Bytes in a second.
    Throughput,
    /// Operations in a second.
    Operations,
}

/// Which way data goes; making and removing files counts as writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// A part of a workload that is run and measured by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StageSpec {
    /// Its name in results.
    pub name: String,
    /// The job sections that make it up; they run at the same time.
    pub sections: Vec<String>,
    /// Which figure is to be compared.
    pub kind: FigureKind,
    /// The directions for which it gives figures.
    pub yields: Vec<Direction>,
    /// The bytes it moves when its time does not run out, in hundredths of the data size (of the
    /// work set, where that is the parameter).
    #[serde(default = "hundred")]
    pub volume: u64,
    /// Whether writing back what is dirty (syncfs) after the jobs belongs to the time of writing.
    #[serde(default)]
    pub sync: bool,
}

fn hundred() -> u64 {
    100
}

impl StageSpec {
    /// Whether it gives figures for `direction`.
    pub fn gives(&self, direction: Direction) -> bool {
        self.yields.contains(&direction)
    }
}

/// The head of a workload file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Head {
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

/// A workload as the catalog has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Its name: the file's, without the ending.
    pub name: String,
    /// A few words.
    pub title: String,
    /// What it measures and whom that concerns.
    pub explanation: String,
    /// Who measured it so before.
    pub source: String,
    /// What differs from point to point.
    pub parameter: Parameter,
    /// What is run, in this order.
    pub stages: Vec<StageSpec>,
    /// The job sections whose files are laid out before the first stage.
    pub fill: Vec<String>,
    /// Whether every point starts without files.
    pub fresh_files: bool,
    /// Whether it can read a bare block device.
    pub raw: bool,
    /// The size of one file in bytes, where the number of files follows from the data size.
    pub file_bytes: Option<u64>,
    /// The file as fio reads it.
    pub text: String,
    /// Where it comes from.
    pub origin: Origin,
    standard: Vec<WorkloadPoint>,
    quick: Vec<WorkloadPoint>,
}

impl Workload {
    /// Reads a file of the catalog.
    ///
    /// # Errors
    /// [`BenchError::BadWorkload`] with file and line.
    pub fn parse(entry: &CatalogEntry) -> Result<Self, BenchError> {
        let bad =
            |line, reason| BenchError::BadWorkload { origin: entry.origin.clone(), line, reason };
        let text = head_text(&entry.text);
        let head: Head = toml::from_str(&text).map_err(|error| {
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

    /// The points that a profile measures, in the file's order.
    pub fn points(&self, profile: PointProfile) -> &[WorkloadPoint] {
        match profile {
            PointProfile::Quick => &self.quick,
            PointProfile::Standard => &self.standard,
        }
    }

    /// Whether its measured part writes. Laying out files does so in any case.
    pub fn writes(&self) -> bool {
        self.stages.iter().any(|stage| stage.gives(Direction::Write))
    }
}

/// The head as TOML; other lines are left empty, so that line numbers stay those of the file.
fn head_text(text: &str) -> String {
    text.lines()
        .take_while(|line| line.trim().is_empty() || line.starts_with(['#', ';']))
        .map(|line| line.strip_prefix(HEAD).unwrap_or(""))
        .map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned() + "\n")
        .collect()
}

fn line_of(text: &str, span: Option<Range<usize>>) -> usize {
    let end = span.map_or(0, |span| span.start.min(text.len()));
    1 + text.as_bytes()[..end].iter().filter(|&&byte| byte == b'\n').count()
}

fn check_stages(head: &Head, sections: &[String]) -> Result<(), String> {
    if head.stage.is_empty() {
        return Err("a workload needs a [[stage]]".to_owned());
    }
    for stage in &head.stage {
        if stage.sections.is_empty() || stage.yields.is_empty() || stage.volume == 0 {
            return Err(format!(
                "stage `{}` needs sections, what it yields, and a volume that is not 0",
                stage.name
            ));
        }
    }
    let named = head.stage.iter().flat_map(|stage| &stage.sections).chain(&head.fill);
    for section in named {
        if !sections.contains(section) {
            return Err(format!("there is no job section [{section}] in the file"));
        }
    }
    if head.file_size.is_some_and(|size| size.0 == 0) {
        return Err("file-size is 0".to_owned());
    }
    Ok(())
}

fn points(head: &Head) -> Result<(Vec<WorkloadPoint>, Vec<WorkloadPoint>), String> {
    if head.parameter == Parameter::None {
        if !head.points.is_empty() || !head.quick_points.is_empty() {
            return Err("a workload without a parameter has no points".to_owned());
        }
        return Ok((vec![WorkloadPoint::Only], vec![WorkloadPoint::Only]));
    }
    let read = |list: &[Bytes], what| {
        if list.is_empty() {
            return Err(format!("{what} is missing"));
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
        Parameter::BlockSize => Err(format!("a block size of {value} is no number of sectors")),
        Parameter::WorkSet if (1..=WORK_SET_MAX_HUNDREDTHS).contains(&value) => {
            Ok(WorkloadPoint::WorkSet(value))
        }
        _ => Err(format!("a work set of {value} hundredths of the memory is out of range")),
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

    fn complaint(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_good_file_is_read() {
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
        let text = complaint(&GOOD.replace("#: source", "#: sauce"));
        assert!(text.starts_with("mine.fio:4: ") && text.contains("sauce"), "{text}");
    }

    #[test]
    fn a_section_that_is_not_there_is_named() {
        let text = complaint(&GOOD.replace("[\"r\"]", "[\"x\"]"));
        assert!(text.contains("[x]"), "{text}");
    }

    #[test]
    fn points_must_suit_the_parameter() {
        assert!(complaint(&GOOD.replace("8192", "1000")).contains("1000"));
        assert!(complaint(&GOOD.replace("block-size", "none")).contains("no points"));
        assert!(complaint(&GOOD.replace("block-size", "work-set")).contains("4096"));
    }

    #[test]
    fn a_file_that_reaches_elsewhere_is_refused_with_its_line() {
        let text = complaint(&GOOD.replace("rw=read", "filename=/dev/sda"));
        assert!(text.starts_with("mine.fio:17: "), "{text}");
    }
}
