//! What a survey knows of devices like one that is to be tuned.
//!
//! Of the device itself, of cards of its product, or, where there are none, of cards of other
//! products in which probes found the same erase block and write unit. Cards that are marked are
//! left out. Each run is a source of its own, because levels of runs differ with their conditions.
//!
//! Limit: how alike devices of one geometry are is not known before trials; the search finds out.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_bench::MeasurementLength;
use flashfit_filesystem::{Scheduler, Setup};
use flashfit_run_format::{Criterion, Likeness, PriorResult, PriorSource, RunPrior};
use flashfit_search::student;

use crate::database::{ResultTable, StoredResult, SurveyDatabase};
use crate::error::SurveyError;
use crate::identity::CardIdentity;
use crate::metric::SurveyMetric;
use crate::query::{ListedCard, siblings};
use crate::record::SourceKind;

/// The most results that a run begins with, and the most sources of them.
const MOST_RESULTS: usize = 3000;
const MOST_SOURCES: usize = 20;
/// The largest standard deviation of repeats that is believed.
const MOST_SD: f64 = 4.0;

/// The device that is to be tuned.
#[derive(Debug)]
pub struct PriorRequest<'a> {
    pub identity: &'a CardIdentity,
    pub is_simulated: bool,
    /// What a probe found, in bytes.
    pub erase_block: Option<u64>,
    pub write_unit: Option<u64>,
    /// What the run ranks by.
    pub by: Criterion,
    /// The origins of sources that do not count.
    pub without: &'a [String],
}

impl SurveyDatabase {
    /// The results of similar devices; `None` if there are none.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn prior(&self, request: &PriorRequest<'_>) -> Result<Option<RunPrior>, SurveyError> {
        let keys = self.keys_of(request.identity)?;
        let mut cards: Vec<ListedCard> = self.cards()?.into_iter().map(ListedCard::new).collect();
        let results = self.results()?;
        siblings::flag(&mut cards, &results);
        let mut alike: Vec<(Likeness, &ListedCard)> = cards
            .iter()
            .filter(|card| card.doubts().is_empty())
            .filter_map(|card| Some((likeness(request, &keys, card)?, card)))
            .collect();
        alike.sort_by_key(|(likeness, _)| *likeness);
        if alike.iter().any(|(likeness, _)| *likeness < Likeness::SameGeometry) {
            alike.retain(|(likeness, _)| *likeness < Likeness::SameGeometry);
        }
        let mut found = RunPrior { sources: Vec::new() };
        for (likeness, card) in alike {
            // The newest first.
            for source in card.card.sources.iter().rev() {
                let counts = source.kind == SourceKind::Run.name()
                    && !request.without.contains(&source.origin)
                    && found.sources.len() < MOST_SOURCES;
                if !counts {
                    continue;
                }
                let mut results = merits(&results, results.of_source(source.id), request.by);
                results.truncate(MOST_RESULTS - found.results());
                if !results.is_empty() {
                    let device = format!("{} {}", card.card.product, card.short_key());
                    found.sources.push(PriorSource { device, likeness, results });
                }
            }
        }
        Ok((!found.sources.is_empty()).then_some(found))
    }
}

fn likeness(request: &PriorRequest<'_>, keys: &[String], listed: &ListedCard) -> Option<Likeness> {
    let (identity, card) = (request.identity, &listed.card);
    if card.is_simulated != request.is_simulated || card.kind != identity.kind {
        return None;
    }
    if identity.is_individual("") && listed.has_key(keys) {
        return Some(Likeness::SameDevice);
    }
    if listed.is_of_product(identity) {
        return Some(Likeness::SameProduct);
    }
    let same = |found: &[u64], own: Option<u64>| own.is_some_and(|own| found == [own]);
    let is_alike = same(&listed.erase_blocks, request.erase_block)
        && same(&listed.write_units, request.write_unit);
    is_alike.then_some(Likeness::SameGeometry)
}

/// The results of a source as merits: those of the setups that have all series of a workload.
fn merits(table: &ResultTable, rows: &[StoredResult], by: Criterion) -> Vec<PriorResult> {
    let metric = match by {
        Criterion::Throughput => SurveyMetric::Rate,
        Criterion::Latency => SurveyMetric::LatencyMax,
        Criterion::Wear => SurveyMetric::WriteAmplification,
    };
    type Cell<'a> = (usize, &'a str, &'a str);
    type Series<'a> = (&'a str, &'a str, &'a str);
    let mut cells: BTreeMap<Cell<'_>, BTreeMap<Series<'_>, &StoredResult>> = BTreeMap::new();
    for row in rows {
        let of = &table.measures[row.measure];
        let is_usable = row.value.value > 0.0 && row.value.value.is_finite();
        if of.metric == metric.name() && !of.workload.is_empty() && is_usable {
            let cell = (row.setup, of.workload.as_str(), of.length.as_str());
            let series = (of.point.as_str(), of.stage.as_str(), of.direction.as_str());
            cells.entry(cell).or_default().insert(series, row);
        }
    }
    let mut whole: BTreeMap<(&str, &str), BTreeSet<Series<'_>>> = BTreeMap::new();
    for ((_, workload, length), series) in &cells {
        whole.entry((workload, length)).or_default().extend(series.keys());
    }
    let merit = |((setup, workload, length), series): (Cell<'_>, BTreeMap<_, &StoredResult>)| {
        if series.len() < whole[&(workload, length)].len() {
            return None;
        }
        let setup = &table.setups[setup];
        let logs: Vec<f64> = series.values().map(|row| row.value.value.ln()).collect();
        let log_merit = match by {
            Criterion::Throughput => logs.iter().sum::<f64>() / logs.len() as f64,
            // Less is better, and the worst series counts.
            Criterion::Latency | Criterion::Wear => {
                -logs.iter().copied().fold(f64::NEG_INFINITY, f64::max)
            }
        };
        let sd = series.values().map(|row| sd(row)).sum::<f64>() / logs.len() as f64;
        let options = setup.options.split('+').filter(|option| !option.is_empty());
        Some(PriorResult {
            setup: Setup {
                filesystem: setup.filesystem.clone(),
                options: options.map(str::to_owned).collect(),
                scheduler: Scheduler::new(setup.scheduler.as_str()),
            },
            workload: workload.to_owned(),
            length: match length {
                "short" => MeasurementLength::Short,
                _ => MeasurementLength::Full,
            },
            log_merit_millionths: (1e6 * log_merit).round() as i64,
            repeats: series.values().map(|row| row.value.count).min().unwrap_or(1),
            sd_millionths: (1e6 * sd).round() as u32,
        })
    };
    cells.into_iter().filter_map(merit).collect()
}

/// The standard deviation of the logarithms of the repeats, from their interval.
fn sd(row: &StoredResult) -> f64 {
    let value = &row.value;
    match (value.low, value.high) {
        (Some(low), Some(high)) if value.count > 1 && low > 0.0 && high >= low => {
            let count = f64::from(value.count);
            let half = 0.5 * (high / low).ln();
            (half * count.sqrt() / student::quantile(0.975, count - 1.0)).min(MOST_SD)
        }
        _ => 0.0,
    }
}
