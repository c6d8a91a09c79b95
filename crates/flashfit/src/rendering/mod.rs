//! Converts a stored run to the input of the renderers.

pub mod answer;
pub mod apply;
pub mod bare_device;
pub mod card_bench;
pub mod catalog;
pub mod check;
pub mod check_next;
pub mod comparison;
mod constraint;
pub mod crash_states;
pub mod crash_test;
pub mod device_errors;
mod devices;
pub mod doctor;
mod duration;
mod excluded;
mod figures;
mod findings;
pub mod free_space;
pub mod head_to_head;
mod headline;
mod highlights;
pub mod inspect;
pub mod keep_data;
pub mod life;
mod likely;
pub mod matrix;
pub mod more_time;
mod mounting;
pub mod named_setup;
mod no_figure;
mod noise;
pub mod options;
pub mod plan;
mod plan_life;
pub mod plan_list;
pub mod price;
pub mod prior;
pub mod probe;
mod processors;
pub mod progress_line;
pub mod rankings;
pub mod rankings_document;
pub mod replay;
pub mod reproduce;
pub mod run_preview;
pub mod run_preview_document;
pub mod setup_commands;
mod setup_constraints;
pub mod setup_figures;
mod starts;
#[cfg(feature = "survey")]
pub mod survey;
pub mod sustained;
pub mod twin;
mod two_digits;
pub mod verdict;
pub mod wear;
pub mod wear_age;
pub mod wear_counters;
pub mod wear_measurement;

use std::collections::BTreeSet;
use std::path::Path;

use flashfit_bench::Workload;
use flashfit_filesystem::{FileSystemCatalog, Setup};
use flashfit_report::{FailedTrials, Report, SetupDetail, SetupRole};
use flashfit_testbed::MemoryFacts;
use flashfit_tune::drift::BaselineCheck;
use flashfit_tune::recommend::percent;
use flashfit_tune::run_dir::read_raw;
use flashfit_tune::spread::DeviceEffects;
use flashfit_tune::{
    Conclusion, ConclusionError, MeritResults, Recommendation, RecordedOutcome, RunHeader, Space,
    TrialRecord,
};

pub use duration::duration;
pub use two_digits::two_digits;

/// A run with what is derived from it.
pub struct RunView<'a> {
    pub header: &'a RunHeader,
    pub trials: &'a [TrialRecord],
    pub workloads: &'a [Workload],
    pub space: &'a Space,
    pub results: MeritResults,
    pub conclusion: Conclusion,
    /// The differences between the devices of the run.
    pub levels: DeviceEffects,
    /// The trials, adjusted to the first device.
    pub levelled: Vec<TrialRecord>,
}

impl<'a> RunView<'a> {
    /// Derives what is needed to show a run.
    ///
    /// # Errors
    /// When the trials lack the values of the criterion.
    pub fn new(
        header: &'a RunHeader,
        trials: &'a [TrialRecord],
        workloads: &'a [Workload],
        space: &'a Space,
    ) -> Result<Self, ConclusionError> {
        let spec = &header.spec;
        let levels = DeviceEffects::of_whole_batches(trials);
        let levelled = levels.applied_to_all(trials);
        let results = MeritResults::of(&levelled, &spec.workloads);
        let conclusion = Conclusion::of_run(space, spec, trials)?;
        Ok(Self { header, trials, workloads, space, results, conclusion, levels, levelled })
    }

    pub fn recommendation(&self) -> Option<&Recommendation> {
        self.conclusion.recommendation.as_ref()
    }

    /// The role of a setup in this run.
    fn role(&self, setup: &Setup) -> SetupRole {
        let recommended = self.recommendation().map(Recommendation::recommended);
        if recommended == Some(setup) {
            SetupRole::Recommended
        } else if self.space.baseline().as_ref() == Some(setup) {
            SetupRole::Baseline
        } else if self.space.defaults_of(&setup.filesystem).as_ref() == Some(setup) {
            SetupRole::Defaults
        } else {
            SetupRole::Candidate
        }
    }

    fn is_simulated(&self) -> bool {
        self.header.facts.card.is_some()
    }
}

/// The whole report of a run.
pub fn report(view: &RunView<'_>, fs_catalog: &FileSystemCatalog, dir: &Path) -> Report {
    let tested = view
        .recommendation()
        .and_then(|found| crash_test::CrashTest::read(dir, found.recommended()));
    let mut verdict = verdict::verdict(view, fs_catalog);
    // Whoever reads the gain must see this first.
    let spoiled = device_errors::sentence(view).into_iter();
    let spoiled = spoiled.chain(no_figure::sentence(view)).chain(excluded::sentence(view));
    verdict.detail.splice(0..0, spoiled);
    let raw = read_raw(dir).unwrap_or_default();
    let sustained = sustained::SustainedAnswer::of(view, dir);
    let of_sustained = sustained.iter().map(|found| found.finding()).collect();
    let contradiction = sustained.as_ref().and_then(|found| found.warning());
    verdict.power_cuts = tested.map_or_else(String::new, |tested| tested.sentence());
    Report {
        title: title(view),
        simulated: view.is_simulated(),
        verdict,
        facts: facts(view, dir),
        findings: [findings::findings(view), of_sustained, vec![bare_device::finding(view, &raw)]]
            .concat()
            .into_iter()
            .filter(|finding| !finding.rows.is_empty())
            .collect(),
        rankings: rankings::rankings(view, view.header.spec.by, 5),
        matrix: Some(matrix::finding(view, view.header.spec.by)),
        highlights: highlights::highlights(view),
        figures: figures::figures(view, &raw),
        setups: setups(view),
        warnings: [
            contradiction.into_iter().collect(),
            sustained::failures(dir),
            warnings(view),
            figures::raw_failures(&raw),
        ]
        .concat(),
        failures: failures(view),
        reproduce: reproduce::reproduce(dir),
    }
}

pub use devices::statement as several_devices;
pub use rankings::rankings;

fn title(view: &RunView<'_>) -> String {
    let what = match &view.header.facts.card {
        Some(card) => format!("the simulated card {}", card.name),
        None => view.header.spec.target.clone(),
    };
    format!("File systems on {what}, by {}", view.header.spec.by)
}

fn facts(view: &RunView<'_>, dir: &Path) -> Vec<(String, String)> {
    let facts = &view.header.facts;
    let spec = &view.header.spec;
    let mut list: Vec<(String, String)> = Vec::new();
    let mut fact = |name: &str, value: String| list.push((name.to_owned(), value));
    match &facts.card {
        Some(card) => fact("Device", format!("simulated card {}: {}", card.name, card.title)),
        None => fact(
            "Device",
            format!("{} ({}, {})", spec.target, facts.device.kind, facts.device.identity.summary()),
        ),
    }
    fact("Size", format!("{} ({})", facts.device.capacity, facts.device.capacity.si()));
    let known = |known: &Option<flashfit_geometry::Sourced>| {
        known.as_ref().map_or_else(
            || "unknown".to_owned(),
            |known| format!("{} ({})", known.bytes, known.source),
        )
    };
    fact("Erase block", known(&facts.geometry.erase_block));
    fact("Write unit", known(&facts.geometry.write_unit));
    fact("Layout", facts.layout.reason.clone());
    fact("Test bed", facts.test_bed.clone());
    fact("Kernel", format!("Linux {} on {}", facts.kernel, facts.machine));
    fact("Processors", facts.processors.to_string());
    let programs: Vec<&str> = facts.programs.values().map(String::as_str).collect();
    fact("Programs", programs.join("; "));
    fact(
        "Memory of a trial",
        match &facts.memory {
            MemoryFacts::Limited => format!("limited to {}", spec.memory),
            MemoryFacts::Unlimited(reason) => format!("not limited: {reason}"),
        },
    );
    fact("Workloads", spec.workloads.join(", "));
    fact("Trials", format!("{}, in random order from the seed {}", view.trials.len(), spec.seed));
    if let Some(prior) = &spec.prior {
        fact(if prior.is_of_twin() { "Twin" } else { "Survey" }, prior::fact(prior));
    }
    if let Some(found) = twin::agreement(view.header, &view.levelled) {
        fact("Twin and device", twin::agreement_text(&found));
    }
    fact("Time", own_time(view));
    if let Some(wear) = wear(view) {
        fact("Wear of the simulated card", wear);
    }
    fact("Run directory", dir.display().to_string());
    list
}

/// The duration of the trials and flashfit's share of it.
fn own_time(view: &RunView<'_>) -> String {
    let total_ns: u64 = view.trials.iter().map(|trial| trial.phases.total_ns).sum();
    let own_ns: u64 = view.trials.iter().map(|trial| trial.phases.own_ns()).sum();
    let thousandths = own_ns * 1000 / total_ns.max(1);
    format!(
        "{} s in trials, {}.{} % of it overhead of flashfit (not discard, mkfs, mount, fill, settling, fio)",
        total_ns / 1_000_000_000,
        thousandths / 10,
        thousandths % 10
    )
}

/// The wear of a simulated card, or of a device that counts, by all trials. Cards count while a
/// workload is measured; what a trial writes before that is only known as bytes.
fn wear(view: &RunView<'_>) -> Option<String> {
    let counters: Vec<_> = view.trials.iter().filter_map(|trial| trial.counters.as_ref()).collect();
    if counters.is_empty() {
        return wear_measurement::of_trials(view.trials.iter().map(|trial| &trial.wear[..]));
    }
    let host: u64 = counters.iter().map(|found| found.host_written_bytes).sum();
    let nand: u64 = counters.iter().map(|found| found.nand_programmed_bytes).sum();
    let erases: u64 = counters.iter().map(|found| found.erases).sum();
    let hundredths = nand * 100 / host.max(1);
    // Runs of earlier versions do not have it.
    let all: Option<u64> = view.trials.iter().map(|trial| Some(trial.written?.trial_bytes)).sum();
    let all = all.map_or_else(String::new, |bytes| {
        let bytes = flashfit_device::Bytes(bytes);
        format!("; in whole trials, with mkfs and what is written before: {bytes} by the host")
    });
    Some(format!(
        "while workloads were measured: {} written by the host, {} programmed (write amplification \
         {}.{:02}), {erases} erases{all}",
        flashfit_device::Bytes(host),
        flashfit_device::Bytes(nand),
        hundredths / 100,
        hundredths % 100
    ))
}

fn setups(view: &RunView<'_>) -> Vec<SetupDetail> {
    view.results
        .setups()
        .filter_map(|setup| {
            let filesystem = &view.space.of(&setup.filesystem)?.filesystem;
            let option = |name: &String| {
                let option = filesystem.option(name).ok()?;
                let text = format!("{} (at a power cut: {})", option.title, option.durability);
                Some((name.clone(), text))
            };
            let mut choices: Vec<(String, String)> =
                setup.options.iter().filter_map(option).collect();
            choices.push(("scheduler".to_owned(), setup.scheduler.to_string()));
            Some(SetupDetail { name: setup.label(), role: view.role(setup), choices })
        })
        .collect()
}

/// Warnings before the run and notes of the trials, without duplicates.
fn warnings(view: &RunView<'_>) -> Vec<String> {
    let noted: BTreeSet<&String> = view.trials.iter().flat_map(|trial| &trial.notes).collect();
    let drift = baseline_warning(&view.conclusion.baseline_check);
    let devices = devices::statement(view);
    view.header.warnings.iter().chain(noted).cloned().chain(drift).chain(devices).collect()
}

/// Warns if the device changed during the run beyond the noise, or if that cannot be determined.
fn baseline_warning(check: &BaselineCheck) -> Option<String> {
    let shown = |log: f64| flashfit_report::FigureUnit::PercentChange.show(percent(log));
    match check {
        BaselineCheck::TooFewRepeats => None,
        BaselineCheck::Failed { spread, repeats } => Some(format!(
            "the baseline check failed: {repeats} repeats of the baseline differ by up to a factor \
             of {:.1}, so whether the device drifts cannot be told",
            spread.exp()
        )),
        BaselineCheck::Measured(drift) => {
            let (low, high) = drift.change.interval?;
            drift.change.excludes_zero().then(|| {
                format!(
                    "the device drifts: over {} trials the baseline changed by {} (95 % interval {} \
                     to {}, {} repeats); gains are computed from trials that are close in time",
                    drift.over_trials,
                    shown(drift.change.middle),
                    shown(low),
                    shown(high),
                    drift.change.count
                )
            })
        }
    }
}

fn failures(view: &RunView<'_>) -> Vec<FailedTrials> {
    view.trials
        .iter()
        .filter_map(|trial| match &trial.outcome {
            RecordedOutcome::Failed { message } => Some(FailedTrials {
                setup: trial.key.setup.label(),
                workload: trial.key.workload.clone(),
                reason: message.clone(),
                trials: 1,
            }),
            RecordedOutcome::Completed { .. } => None,
        })
        .collect()
}
