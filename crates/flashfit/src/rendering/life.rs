//! How long setups last under a usage model, next to their throughput.

use std::collections::BTreeMap;

use flashfit_filesystem::Setup;
use flashfit_report::{ColumnKind, FigureUnit, ReportFinding};
use flashfit_search::CandidateIndex;
use flashfit_tune::Conclusion;
use flashfit_tune::life::{LifeBasis, SetupLife, SetupLives};
use flashfit_tune::recommend::percent;
use flashfit_wear::extrapolation::Interval;
use schemars::JsonSchema;
use serde::Serialize;

use super::RunView;
use super::wear::{years_cell, years_in_words};

/// Rows that the terminal shows.
const TERMINAL_ROWS: usize = 6;

/// The lives of a run, as JSON.
#[derive(Debug, JsonSchema, Serialize)]
pub struct LifeParts {
    usage: String,
    gib_a_day: f64,
    /// How the device was modeled.
    device: String,
    rated_cycles: u64,
    /// The years that the recommended setup must last.
    min_years: Option<f64>,
    /// Whether a setup was shown to last them.
    min_years_shown: Option<bool>,
    /// The setup that lasts longest, if none was shown to last them.
    nearest_to_min_years: Option<Setup>,
    setups: Vec<SetupYears>,
    /// Always true: no years are measured on a device.
    simulated: bool,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct SetupYears {
    setup: Setup,
    #[serde(flatten)]
    years: YearsPart,
}

/// The years of a setup, or why they are not known.
#[derive(Debug, JsonSchema, Serialize)]
pub struct YearsPart {
    /// With 90 %.
    pub years: Option<Interval>,
    /// `recorded`, `trials` or `other-file-system`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub years_basis: Option<&'static str>,
    /// What is the first limit most often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub years_unknown: Option<String>,
}

impl From<&SetupLife> for YearsPart {
    fn from(life: &SetupLife) -> Self {
        match life {
            SetupLife::Known { years, basis, limit } => Self {
                years: Some(*years),
                years_basis: Some(match basis {
                    LifeBasis::Recorded => "recorded",
                    LifeBasis::Trials => "trials",
                    LifeBasis::OtherFileSystem => "other-file-system",
                }),
                limit: Some(limit.clone()),
                years_unknown: None,
            },
            SetupLife::Unknown(reason) => Self {
                years: None,
                years_basis: None,
                limit: None,
                years_unknown: Some(reason.clone()),
            },
        }
    }
}

impl LifeParts {
    /// `None` without a usage model.
    pub fn of(conclusion: &Conclusion) -> Option<Self> {
        let lives = conclusion.lives.as_ref()?;
        let estimates = conclusion.problem.life.as_ref()?;
        let setup = |candidate: CandidateIndex| conclusion.problem.setups[candidate].clone();
        let shown = lives.min_years().map(|_| conclusion.is_any_shown_to_last());
        Some(Self {
            usage: estimates.usage.clone(),
            gib_a_day: estimates.gib_a_day_thousandths as f64 / 1000.0,
            device: estimates.device.clone(),
            rated_cycles: estimates.rated_cycles,
            min_years: lives.min_years(),
            min_years_shown: shown,
            nearest_to_min_years: conclusion
                .longest_lasting()
                .filter(|_| shown == Some(false))
                .map(setup),
            setups: listed(conclusion, lives)
                .into_iter()
                .map(|(candidate, _)| SetupYears {
                    setup: setup(candidate),
                    years: YearsPart::from(lives.life(candidate)),
                })
                .collect(),
            simulated: true,
        })
    }
}

/// The setups measured under every workload, the fastest first, with their throughput; then others
/// whose years are known.
fn listed(conclusion: &Conclusion, lives: &SetupLives) -> Vec<(CandidateIndex, Option<f64>)> {
    let measured = conclusion.profiles.iter();
    let mut listed: Vec<(CandidateIndex, Option<f64>)> =
        measured.map(|profile| (profile.candidate, Some(profile.throughput))).collect();
    for candidate in 0..conclusion.problem.setups.len() {
        let is_listed = listed.iter().any(|(known, _)| *known == candidate);
        if !is_listed && lives.life(candidate).years().is_some() {
            listed.push((candidate, None));
        }
    }
    listed
}

/// `2.6 (1.1 to 6.1)`, or `not known`.
pub fn cell(life: &SetupLife) -> String {
    life.years().map_or_else(|| "not known".to_owned(), years_cell)
}

/// The years of each setup, as a table without rows if there is no usage model.
pub fn finding(conclusion: &Conclusion) -> ReportFinding {
    let estimates = conclusion.problem.life.as_ref();
    let (usage, gib, device) = estimates.map_or(("", 0.0, ""), |life| {
        (life.usage.as_str(), life.gib_a_day_thousandths as f64 / 1000.0, life.device.as_str())
    });
    let mut finding = ReportFinding::new(
        &format!("Years under the usage model {usage}, simulated"),
        &format!(
            "The years until the first limit of the device under {gib:.2} GiB a day of programs, \
             with their 90 % interval, for {device}: the mean or the most worn block past its \
             rating, or no spare blocks left. They are simulated: `trace` with recorded requests of \
             the setup, `trials` with those of the default setup of its file system and the bytes that \
             the trials of both cost the device, `other trace` the same with the file system of \
             the baseline. Throughput is the change against the baseline."
        ),
        [
            ("setup", ColumnKind::Name),
            ("throughput", ColumnKind::Number),
            ("years (90 % interval)", ColumnKind::Number),
            ("from", ColumnKind::Remark),
        ],
        TERMINAL_ROWS,
    );
    let Some(lives) = &conclusion.lives else { return finding };
    for (candidate, throughput) in listed(conclusion, lives) {
        let change = |log: f64| FigureUnit::PercentChange.show(percent(log));
        let life = lives.life(candidate);
        let mut remark = match life {
            SetupLife::Known { basis, .. } => basis.text().to_owned(),
            SetupLife::Unknown(reason) => reason.clone(),
        };
        if lives.is_probably_short(candidate) {
            remark = format!("too short; {remark}");
        }
        finding.rows.push(vec![
            conclusion.problem.setups[candidate].label(),
            throughput.map_or_else(|| "–".to_owned(), change),
            cell(life),
            remark,
        ]);
    }
    finding
}

/// The life of a setup of a run with a usage model.
pub fn of_setup<'a>(view: &'a RunView<'_>, setup: &Setup) -> Option<&'a SetupLife> {
    let lives = view.conclusion.lives.as_ref()?;
    Some(lives.life(view.conclusion.problem.candidate(setup)?))
}

/// The lives of all setups by their labels; none without a usage model.
pub fn by_label<'a>(view: &'a RunView<'_>) -> BTreeMap<String, &'a SetupLife> {
    let setups = view.results.setups();
    setups.filter_map(|setup| Some((setup.label(), of_setup(view, setup)?))).collect()
}

/// How long a setup lasts, as a sentence; `None` without a usage model.
pub fn sentence(conclusion: &Conclusion, setup: &Setup) -> Option<String> {
    let lives = conclusion.lives.as_ref()?;
    let usage = &conclusion.problem.life.as_ref()?.usage;
    let label = setup.label();
    Some(match lives.life(conclusion.problem.candidate(setup)?) {
        SetupLife::Known { years, limit, .. } => {
            let (median, range) = years_in_words(*years);
            format!(
                "Under the usage model {usage}, {label} lasts {median} (simulated, 90 % interval \
                 {range}) until the first limit, which is usually: {limit}."
            )
        }
        SetupLife::Unknown(reason) => {
            format!("How long {label} lasts under the usage model {usage} is not known: {reason}.")
        }
    })
}

/// `no setup was shown to last 5 years; the nearest is ext4 base none: 2.6 years (90 % interval 1.1
/// to 6.1)`. `None` if that many years are not asked.
pub fn not_shown(conclusion: &Conclusion) -> Option<String> {
    let lives = conclusion.lives.as_ref()?;
    let least = lives.min_years()?;
    if conclusion.is_any_shown_to_last() {
        return Some("no setup was shown to meet all constraints together".to_owned());
    }
    let least = match least.to_string().as_str() {
        "1" => "1 year".to_owned(),
        years => format!("{years} years"),
    };
    let start = format!("no setup was shown to last {least}");
    let Some((nearest, found)) =
        conclusion.longest_lasting().and_then(|at| Some((at, lives.life(at).years()?)))
    else {
        return Some(format!("{start}: the years of none are known"));
    };
    let (median, range) = years_in_words(found);
    let nearest = conclusion.problem.setups[nearest].label();
    Some(format!("{start}; the nearest is {nearest}: {median} (90 % interval {range})"))
}
