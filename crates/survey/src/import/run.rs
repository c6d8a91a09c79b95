//! A run directory: rates and latencies of each setup under each workload.
//!
//! Only the name and version of the format are required of `run.json`, as for a comparison of runs.
//! Limit: of a run on several boards, only the trials on the first device are kept, because the run
//! does not describe the others. It does not name the board of that device, so of devices without a
//! serial number, the first is that of the first trial.

use std::path::Path;

use flashfit_bench::{FigureKind, Figures, PointResult, StageResult, WorkloadPoint};
use flashfit_device::identity::DeviceIdentity;
use flashfit_device::{Bytes, DeclaredFacts, DeviceKind};
use flashfit_run_format::run_dir::{RunDigest, read_with_digest};
use flashfit_run_format::{RecordedOutcome, TrialRecord};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::figures::{FigureSet, measure, setup};
use crate::error::SurveyInputError;
use crate::identity::{CardIdentity, hexadecimal};
use crate::metric::SurveyMetric;
use crate::record::{
    MeasuredSetup, ProbedConstruction, SourceFacts, SourceKind, SurveyMeasure, SurveySource,
    stored_text,
};

/// A run of a hundred thousand trials is smaller.
const MOST_TRIALS_BYTES: u64 = 1 << 30;
/// Rates below these count as these, as in scores: their logarithm is 0 there.
const LEAST_BYTES: f64 = 1024.0;
const LEAST_OPERATIONS: f64 = 1.0;

/// # Errors
/// If it is not a run, or has no trials.
pub fn read(path: &Path) -> Result<SurveySource, SurveyInputError> {
    let unusable = |reason: &str| SurveyInputError::unusable(path, reason);
    let trials = std::fs::symlink_metadata(path.join("trials.jsonl"));
    if trials.is_ok_and(|found| found.len() > MOST_TRIALS_BYTES) {
        return Err(unusable("its file of trials is larger than 1 GiB, the limit"));
    }
    let (header, trials, digest): (Value, Vec<TrialRecord>, RunDigest) = read_with_digest(path)?;
    let header = RunFacts(&header);
    let Some(first) = digest.first_trial else {
        return Err(unusable("the run has no trials yet"));
    };
    let mut notes = Vec::new();
    let all = trials.len();
    let own = header.own_trials(trials);
    if own.len() < all {
        let others = all - own.len();
        notes.push(format!(
            "{others} trials on other boards: the run does not describe their devices"
        ));
    }
    let mut figures = FigureSet::default();
    let mut failed = 0;
    for trial in &own {
        match &trial.outcome {
            RecordedOutcome::Completed { points } => collect(&mut figures, trial, points),
            RecordedOutcome::Failed { .. } => failed += 1,
        }
    }
    if failed > 0 {
        notes.push(format!("{failed} failed trials have no figures"));
    }
    if figures.is_too_large() {
        return Err(unusable("it has more results than a survey keeps of one run"));
    }
    Ok(SurveySource {
        address: hexadecimal(&digest.whole),
        origin: header.origin(&first),
        former_origin: None,
        rank: all as u64,
        kind: SourceKind::Run,
        is_simulated: header.card_name().is_some(),
        card: header.card(),
        facts: header.facts(),
        construction: header.construction(),
        results: figures.results(),
        notes,
    })
}

fn collect(figures: &mut FigureSet, trial: &TrialRecord, points: &[PointResult]) {
    let key = &trial.key;
    let of = setup(&key.setup.filesystem, &key.setup.options, key.setup.scheduler.name());
    for point in points {
        for stage in &point.stages {
            let place = SurveyMeasure {
                workload: stored_text(&key.workload),
                point: point_text(point.point),
                stage: stored_text(&stage.name),
                length: if key.length.is_full() { String::new() } else { "short".to_owned() },
                ..SurveyMeasure::default()
            };
            for (direction, found) in [("read", &stage.read), ("write", &stage.write)] {
                if let Some(found) = found {
                    let place = SurveyMeasure { direction: direction.to_owned(), ..place.clone() };
                    collect_stage(figures, &of, &place, stage, found);
                }
            }
        }
    }
    if let Some(counters) = &trial.counters {
        let place = SurveyMeasure {
            workload: stored_text(&key.workload),
            ..measure(SurveyMetric::WriteAmplification, "ratio")
        };
        let thousandths = counters.write_amplification_thousandths;
        figures.push(&of, place, thousandths.map_or(0.0, |value| value as f64 / 1000.0));
    }
}

fn collect_stage(
    figures: &mut FigureSet,
    of: &MeasuredSetup,
    place: &SurveyMeasure,
    stage: &StageResult,
    found: &Figures,
) {
    let rate = found.rate(stage.kind) as f64;
    let (unit, rate) = match stage.kind {
        FigureKind::Throughput => ("bytes/s", rate.max(LEAST_BYTES)),
        FigureKind::Operations => ("operations/s", (rate / 1000.0).max(LEAST_OPERATIONS)),
        FigureKind::Time => ("runs/s", rate / 1e6),
    };
    let sync = found.sync.map_or(0, |sync| sync.p99_ns);
    for (metric, unit, value) in [
        (SurveyMetric::Rate, unit, rate),
        (SurveyMetric::LatencyP99, "ns", found.latency.p99_ns as f64),
        (SurveyMetric::LatencyMax, "ns", found.worst_ns() as f64),
        (SurveyMetric::SyncLatencyP99, "ns", sync as f64),
    ] {
        let (metric, unit) = (metric.name().to_owned(), unit.to_owned());
        figures.push(of, SurveyMeasure { metric, unit, ..place.clone() }, value);
    }
}

fn point_text(point: WorkloadPoint) -> String {
    match point {
        WorkloadPoint::Only => String::new(),
        other => other.to_string(),
    }
}

/// The header of a run, of which everything may be missing.
struct RunFacts<'a>(&'a Value);

impl RunFacts<'_> {
    fn value(&self, pointer: &str) -> Option<&Value> {
        self.0.pointer(pointer).filter(|value| !value.is_null())
    }

    fn number(&self, pointer: &str) -> Option<u64> {
        self.value(pointer)?.as_u64()
    }

    fn text(&self, pointer: &str) -> String {
        stored_text(self.value(pointer).and_then(Value::as_str).unwrap_or_default())
    }

    fn typed<T: DeserializeOwned>(&self, pointer: &str) -> Option<T> {
        serde_json::from_value(self.value(pointer)?.clone()).ok()
    }

    fn card_name(&self) -> Option<String> {
        self.value("/facts/card")?;
        Some(self.text("/facts/card/name"))
    }

    fn identity(&self) -> DeviceIdentity {
        self.typed("/facts/medium/identity").unwrap_or_default()
    }

    fn card(&self) -> CardIdentity {
        let capacity = self.number("/facts/medium/capacity");
        if let Some(name) = self.card_name() {
            return CardIdentity::simulated(&super::probe::simulated_name(&name), capacity);
        }
        let kind = self.typed("/facts/medium/kind").unwrap_or(DeviceKind::Other);
        let declared: DeclaredFacts = self.typed("/facts/medium/declared").unwrap_or_default();
        let is_partition = self.value("/facts/medium/partition_start").is_some();
        let size = capacity.unwrap_or(0);
        let card = CardIdentity::of_device(kind, &self.identity(), &declared, size, is_partition);
        CardIdentity { capacity: card.capacity.filter(|bytes| *bytes > 0), ..card }
    }

    /// The trials on the device of the header. The same device on another board is another one.
    fn own_trials(&self, mut trials: Vec<TrialRecord>) -> Vec<TrialRecord> {
        if self.card_name().is_some() {
            return trials;
        }
        let name = self.trial_device_name();
        let mut devices = trials.iter().filter_map(|trial| trial.made_on.as_ref());
        let own = devices.find(|made_on| made_on.device == name).cloned();
        trials.retain(|trial| trial.made_on.is_none() || trial.made_on == own);
        trials
    }

    /// The device as `TrialDevice` names it.
    fn trial_device_name(&self) -> String {
        let identity = self.identity();
        let serial = identity.serial.or(identity.cid);
        let path = self.text("/facts/medium/path");
        let name = path.rsplit('/').next().unwrap_or_default();
        serial.map_or_else(|| name.to_owned(), |serial| format!("{name} {serial}"))
    }

    /// The same for all states of a run, also after it was extended.
    fn origin(&self, first_trial: &[u8]) -> String {
        let mut hash = Sha256::new();
        hash.update(b"run\n");
        hash.update(self.number("/created_unix_s").unwrap_or(0).to_le_bytes());
        hash.update(first_trial);
        hexadecimal(&hash.finalize())
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts {
            created_unix_s: self.number("/created_unix_s"),
            tool_version: self.text("/tool_version"),
            kernel: self.text("/facts/kernel"),
            machine: self.text("/facts/machine"),
            processors: self.number("/facts/processors"),
            test_bed: self.text("/facts/stand"),
            firmware: self.text("/facts/medium/identity/firmware"),
            conditions: self.conditions(),
        }
    }

    /// What decides whether figures of two runs mean the same, in words.
    fn conditions(&self) -> String {
        let size = |pointer| self.number(pointer).map(|bytes| Bytes(bytes).to_string());
        let percent = |hundredths: u64| format!("{} %", hundredths as f64 / 100.0);
        let profile = self.text("/spec/profile");
        let is_varied = self.value("/spec/state/varied") == Some(&Value::Bool(true));
        let parts = [
            (!profile.is_empty()).then_some(profile),
            size("/spec/data_size").map(|size| format!("{size} of data")),
            size("/spec/memory").map(|size| format!("{size} of memory")),
            self.number("/spec/runtime_ms").map(|time| format!("{time} ms a stage")),
            self.number("/spec/state/fill_hundredths")
                .filter(|fill| *fill > 0)
                .map(|fill| format!("{} full", percent(fill))),
            self.number("/spec/state/age_rounds")
                .filter(|rounds| *rounds > 0)
                .map(|rounds| format!("{rounds} rounds of aging")),
            is_varied.then(|| "varied starts".to_owned()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// What a probe found before the run; what is declared or of a model does not count.
    fn construction(&self) -> ProbedConstruction {
        let probed = |name: &str| {
            let quantity = self.value(&format!("/facts/geometry/{name}"))?;
            let is_probed = quantity.get("source").and_then(Value::as_str) == Some("probed");
            quantity.get("bytes").and_then(Value::as_u64).filter(|_| is_probed)
        };
        ProbedConstruction {
            erase_block: probed("erase_unit"),
            write_unit: probed("write_unit"),
            capacity: None,
        }
    }
}
