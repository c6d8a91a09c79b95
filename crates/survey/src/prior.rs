//! What a survey knows of devices like one that is to be tuned.
//!
//! Of the device itself, of cards of its product, or, where there are none, of cards of other
//! products in which probes found the same erase block and write unit. Cards that are marked are
//! left out. Each run is a source of its own, because levels of runs differ with their conditions.
//!
//! Limit: how alike devices of one geometry are is not known before trials; the search finds out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use flashfit_bench::MeasurementLength;
use flashfit_filesystem::{Scheduler, Setup};
use flashfit_run_format::{Criterion, Likeness, PriorResult, PriorSource, RunPrior};
use flashfit_search::student;

use crate::database::{ResultTable, StoredResult, StoredSource, SurveyDatabase};
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
        let mut sources: Vec<(Likeness, &ListedCard, &StoredSource)> = alike
            .iter()
            .flat_map(|(likeness, card)| {
                card.card.sources.iter().map(|source| (*likeness, *card, source))
            })
            .filter(|(.., source)| {
                source.kind == SourceKind::Run.name() && !request.without.contains(&source.origin)
            })
            .collect();
        // The newest first, of whichever card.
        sources.sort_by_key(|(likeness, _, source)| {
            (*likeness, Reverse(source.created_unix_s), source.address.as_str())
        });
        let mut found = RunPrior { sources: Vec::new() };
        for (likeness, card, source) in sources {
            if found.sources.len() >= MOST_SOURCES {
                break;
            }
            let mut results = merits(&results, results.of_source(source.id), request.by);
            results.truncate(MOST_RESULTS - found.results());
            if !results.is_empty() {
                let device = format!("{} {}", card.card.product, card.short_key());
                found.sources.push(PriorSource { device, likeness, results });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::hexadecimal;
    use crate::record::{
        MeasuredSetup, ProbedConstruction, SourceFacts, SurveyMeasure, SurveyResult, SurveySource,
        SurveyValue,
    };

    /// A run of one result, whose figure is its day.
    fn run(card: u8, day: u8) -> SurveySource {
        let address = hexadecimal(&[[card; 16], [day; 16]].concat());
        SurveySource {
            origin: address.clone(),
            former_origin: None,
            address,
            rank: 1,
            kind: SourceKind::Run,
            is_simulated: false,
            card: CardIdentity {
                kind: "sd-card".into(),
                product: "SL32G".into(),
                serial: format!("0x7654321{card}"),
                ..CardIdentity::default()
            },
            facts: SourceFacts {
                created_unix_s: Some(u64::from(day) * 86_400),
                ..SourceFacts::default()
            },
            construction: ProbedConstruction::default(),
            results: vec![SurveyResult {
                setup: MeasuredSetup { filesystem: "ext4".into(), ..MeasuredSetup::default() },
                measure: SurveyMeasure {
                    metric: SurveyMetric::Rate.name().into(),
                    workload: "database".into(),
                    ..SurveyMeasure::default()
                },
                value: SurveyValue {
                    value: f64::from(day),
                    low: None,
                    high: None,
                    count: 1,
                    confidence: None,
                },
            }],
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_newest_runs_of_all_cards_count() {
        let folder = tempfile::tempdir().unwrap();
        let mut survey = SurveyDatabase::open(&folder.path().join("s")).unwrap();
        for day in 1..=40 {
            survey.add(&run(day % 3, day), &crate::AddOptions::default()).unwrap();
        }
        let identity = CardIdentity { serial: "0x99887766".into(), ..run(0, 1).card };
        let request = PriorRequest {
            identity: &identity,
            is_simulated: false,
            erase_block: None,
            write_unit: None,
            by: Criterion::Throughput,
            without: &[],
        };
        let prior = survey.prior(&request).unwrap().unwrap();
        let merit = |source: &PriorSource| source.results[0].log_merit_millionths as f64 / 1e6;
        let days: Vec<u32> =
            prior.sources.iter().map(|source| merit(source).exp().round() as u32).collect();
        assert_eq!(days, (21..=40).rev().collect::<Vec<u32>>());
    }
}
