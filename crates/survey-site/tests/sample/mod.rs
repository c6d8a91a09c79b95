//! Made-up cards for the tests of pages.

use flashfit_survey::database::{ResultTable, StoredCard, StoredResult, StoredSource};
use flashfit_survey::query::{ListedCard, siblings};
use flashfit_survey::record::{
    MeasuredSetup, ProbedConstruction, SourceKind, SurveyMeasure, SurveyValue,
};

/// Cards with their results.
#[derive(Default)]
pub struct Sample {
    pub cards: Vec<ListedCard>,
    pub results: ResultTable,
}

impl Sample {
    fn setup(&mut self, setup: MeasuredSetup) -> usize {
        let known = self.results.setups.iter().position(|known| *known == setup);
        known.unwrap_or_else(|| {
            self.results.setups.push(setup);
            self.results.setups.len() - 1
        })
    }

    fn measure(&mut self, measure: SurveyMeasure) -> usize {
        let known = self.results.measures.iter().position(|known| *known == measure);
        known.unwrap_or_else(|| {
            self.results.measures.push(measure);
            self.results.measures.len() - 1
        })
    }

    /// A figure of the newest source, with three repeats.
    pub fn figure(
        &mut self,
        filesystem: &str,
        place: (&str, &str),
        metric: (&str, &str),
        value: f64,
    ) {
        let setup = self.setup(MeasuredSetup {
            filesystem: filesystem.into(),
            options: String::new(),
            scheduler: if filesystem.is_empty() { "" } else { "none" }.into(),
        });
        let measure = self.measure(SurveyMeasure {
            metric: metric.0.into(),
            unit: metric.1.into(),
            workload: place.0.into(),
            stage: place.1.into(),
            direction: place.1.into(),
            ..SurveyMeasure::default()
        });
        let source = self.cards.last().expect("a card").card.sources.last().expect("a card").id;
        let (low, high) = (Some(value * 0.98), Some(value / 0.98));
        let value = SurveyValue { value, low, high, count: 3, confidence: None };
        self.results.rows.push(StoredResult { source, setup, measure, value });
    }

    /// A card with one run; what it measures is added next.
    pub fn card(&mut self, kind: &str, product: &str, erase_block: Option<u64>) {
        let id = self.cards.len() as i64;
        let is_simulated = kind == "simulated";
        let source = StoredSource {
            id,
            address: format!("{id:064x}"),
            origin: format!("{id:064x}"),
            bundle: String::new(),
            rank: 1,
            kind: SourceKind::Run.name().into(),
            is_simulated,
            created_unix_s: Some(1_795_640_104),
            tool_version: "0.2.0".into(),
            kernel: "6.12.8-secret-board".into(),
            machine: "aarch64".into(),
            processors: Some(4),
            test_bed: "here".into(),
            firmware: "SECRET-FIRMWARE".into(),
            conditions: "quick, 8 MiB of data".into(),
            construction: ProbedConstruction { erase_block, ..ProbedConstruction::default() },
            results: 0,
        };
        self.cards.push(ListedCard::new(StoredCard {
            id,
            keys: vec![
                format!("{:064x}", 0x00ab_cdef_0000_u64 + id as u64).chars().rev().collect(),
            ],
            kind: kind.into(),
            manufacturer: if is_simulated { "" } else { "0x03" }.into(),
            oem: if is_simulated { "" } else { "SD" }.into(),
            product: product.into(),
            revision: "8.0".into(),
            manufactured: "2018-11".into(),
            capacity_bytes: Some(32_000_000_000),
            is_individual: !is_simulated,
            is_simulated,
            name: "SECRET-NAME".into(),
            serial: Some("SECRET-SERIAL".into()),
            sources: vec![source],
        }));
    }

    /// A card with rates of two workloads on two file systems.
    pub fn measured_card(
        &mut self,
        kind: &str,
        product: &str,
        erase_block: Option<u64>,
        factor: f64,
    ) {
        self.card(kind, product, erase_block);
        for (filesystem, own) in [("ext4", 1.0), ("f2fs", 1.3)] {
            for (workload, direction, base) in
                [("database", "write", 2e6), ("linear-read", "read", 2e7)]
            {
                let place = (workload, direction);
                self.figure(filesystem, place, ("rate", "bytes/s"), base * own * factor);
                let latency = 9e6 / own / factor;
                self.figure(filesystem, place, ("latency-p99", "ns"), latency);
            }
        }
        if let Some(size) = erase_block {
            self.figure("", ("", ""), ("erase-block", "bytes"), size as f64);
        }
    }

    /// Flags cards that differ from their siblings.
    pub fn flagged(mut self) -> Self {
        siblings::flag(&mut self.cards, &self.results);
        self
    }
}

/// Two products, one with an odd card, and a simulated one.
pub fn small() -> Sample {
    let mut sample = Sample::default();
    for factor in [1.0, 1.02, 0.99, 1.01, 0.5] {
        let erase_block = if factor < 0.9 { 2 << 20 } else { 4 << 20 };
        sample.measured_card("sd-card", "SL32G", Some(erase_block), factor);
    }
    sample.measured_card("sd-card", "EB1QT", None, 1.4);
    sample.measured_card("simulated", "sd-c4-block", Some(4 << 20), 0.7);
    sample.flagged()
}
