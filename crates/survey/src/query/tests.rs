//! Tests of comparisons and flags, through a database in a file.

use super::cells::CellTable;
use super::comparison::{self, compare};
use super::*;
use crate::identity::{CardIdentity, hexadecimal};
use crate::record::{
    MeasuredSetup, ProbedConstruction, SourceFacts, SourceKind, SurveyMeasure, SurveyResult,
    SurveySource, SurveyValue,
};
use crate::{AddOptions, SurveyDatabase};

fn card(product: &str, number: u8, factor: f64, erase_block: u64) -> SurveySource {
    let results = (0..5u8).map(|workload| {
        // Each card has its own small deviations.
        let noise = f64::from((u32::from(number) * 37 + u32::from(workload) * 11) % 7 + 1) / 1000.0;
        SurveyResult {
            setup: MeasuredSetup { filesystem: "ext4".into(), ..MeasuredSetup::default() },
            measure: SurveyMeasure {
                metric: "rate".into(),
                unit: "bytes/s".into(),
                workload: format!("w{workload}"),
                ..SurveyMeasure::default()
            },
            value: SurveyValue {
                value: 1e6 * factor * (1.0 + noise) * f64::from(workload + 1),
                low: None,
                high: None,
                count: 3,
                confidence: None,
            },
        }
    });
    let address = hexadecimal(&[[number; 16], [product.len() as u8; 16]].concat());
    SurveySource {
        origin: address.clone(),
        former_origin: None,
        address,
        rank: 1,
        kind: SourceKind::Run,
        is_simulated: false,
        card: CardIdentity {
            kind: "sd-card".into(),
            product: product.into(),
            capacity: Some(32 << 30),
            serial: format!("0x76543{number:03}"),
            revision: if number == 9 { "2.0" } else { "1.0" }.into(),
            ..CardIdentity::default()
        },
        facts: SourceFacts::default(),
        construction: ProbedConstruction {
            erase_block: Some(erase_block),
            ..ProbedConstruction::default()
        },
        results: results.collect(),
        notes: Vec::new(),
    }
}

fn read(sources: &[SurveySource]) -> (Vec<ListedCard>, crate::database::ResultTable) {
    let folder = tempfile::tempdir().unwrap();
    let mut survey = SurveyDatabase::open(&folder.path().join("s")).unwrap();
    for source in sources {
        survey.add(source, &AddOptions::default()).unwrap();
    }
    let cards = survey.cards().unwrap().into_iter().map(ListedCard::new).collect();
    (cards, survey.results().unwrap())
}

fn flagged(sources: &[SurveySource]) -> Vec<String> {
    let (mut cards, results) = read(sources);
    siblings::flag(&mut cards, &results);
    cards.into_iter().flat_map(|card| card.oddities).collect()
}

#[test]
fn the_slow_card_of_a_product_is_flagged_and_its_siblings_are_not() {
    let mut all: Vec<SurveySource> =
        (1..=8).map(|number| card("A", number, 1.0 + f64::from(number) / 200.0, 4 << 20)).collect();
    assert_eq!(flagged(&all), Vec::<String>::new());
    // Four percent are nothing, and three cards show nothing.
    all.push(card("A", 9, 0.6, 4 << 20));
    let found = flagged(&all);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].contains("rates 41 % lower than those of 8 siblings"), "{found:#?}");
    assert!(found[1].contains("revision 2.0, that of 8 siblings is 1.0"), "{found:#?}");
    assert_eq!(flagged(&all[6..]), Vec::<String>::new(), "three cards");
    // The cards of another product are no siblings.
    let other: Vec<SurveySource> = (1..=8).map(|number| card("BB", number, 5.0, 4 << 20)).collect();
    assert_eq!(flagged(&[&all[..8], &other[..]].concat()), Vec::<String>::new());
}

#[test]
fn another_construction_is_flagged() {
    let mut all: Vec<SurveySource> =
        (1..=5).map(|number| card("A", number, 1.0, 4 << 20)).collect();
    all.push(card("A", 6, 1.0, 6 << 20));
    let found = flagged(&all);
    assert_eq!(found, ["erase block 6 MiB, that of 5 siblings is 4 MiB"]);
}

#[test]
fn products_are_compared_cell_by_cell() {
    let mut all: Vec<SurveySource> =
        (1..=6).map(|number| card("A", number, 1.0, 4 << 20)).collect();
    all.extend((1..=4).map(|number| card("BB", number, 2.0, 4 << 20)));
    let (cards, results) = read(&all);
    let filters = ResultFilters::parse(&["workload=w2".to_owned()]).unwrap();
    let wants = |card: &ListedCard, source: &_, setup, measure| {
        filters.matches(card, source, (&results, setup, measure))
    };
    let table = CellTable::of(&cards, &results, &wants);
    let rows = compare(&cards, &results, &table);
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].cards, rows[0].to_first), (6, None));
    let (ratio, interval) = rows[1].to_first.unwrap();
    let (low, high) = interval.unwrap();
    assert!((ratio.exp() - 2.0).abs() < 0.02 && low < ratio && ratio < high, "{ratio}");
    let (low, high) = rows[0].interval.unwrap();
    assert!(
        low < rows[0].sample.mean && rows[0].sample.mean < high && rows[0].least < rows[0].most
    );
    assert!(ResultFilters::parse(&["colour=red".to_owned()]).is_err());
}

#[test]
fn a_card_is_found_by_the_beginning_of_its_key_or_by_its_name() {
    let (cards, _) = read(&[card("A", 1, 1.0, 4 << 20), card("A", 2, 1.0, 4 << 20)]);
    let key = cards[0].card.keys[0].clone();
    assert_eq!(find_card(cards.clone(), &key[..8]).unwrap().card.keys[0], key);
    for text in ["", "zzzz", &key[..3]] {
        assert!(find_card(cards.clone(), text).is_err(), "{text}");
    }
}

#[test]
fn what_is_known_of_a_device_names_itself_and_its_siblings() {
    let all: Vec<SurveySource> = (1..=5).map(|number| card("A", number, 1.0, 4 << 20)).collect();
    let (cards, _) = read(&all);
    let keys: Vec<String> = cards[0].card.keys.clone();
    let mut identity = all[0].card.clone();
    let found = known::sentences(&identity, &keys, &cards);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("this card is ") && found[0].ends_with("runs: 1, probes: 0"));
    assert_eq!(found[1], "other cards of this product: 4; probes found an erase block of 4 MiB");
    // Another one of the product, and one of which nothing is known.
    assert_eq!(known::sentences(&identity, &["0".repeat(64)], &cards).len(), 1);
    identity.capacity = Some(1 << 30);
    assert_eq!(known::sentences(&identity, &["0".repeat(64)], &cards).len(), 0);
}

/// A source without a run: figures of one metric of a card.
fn document(
    kind: SourceKind,
    (product, number): (&str, u8),
    day: u64,
    figures: &[(&str, f64, u32)],
) -> SurveySource {
    let result = |(metric, value, count): &(&str, f64, u32)| SurveyResult {
        setup: MeasuredSetup::default(),
        measure: SurveyMeasure { metric: (*metric).into(), ..SurveyMeasure::default() },
        value: SurveyValue {
            value: *value,
            low: None,
            high: None,
            count: *count,
            confidence: None,
        },
    };
    let mut source = card(product, number, 1.0, 4 << 20);
    source.address = hexadecimal(&[[number; 16], [100 + day as u8; 16]].concat());
    source.origin = source.address.clone();
    source.kind = kind;
    source.facts.created_unix_s = Some(day * 86_400);
    source.construction = ProbedConstruction::default();
    source.results = figures.iter().map(result).collect();
    source
}

fn compared(sources: &[SurveySource], metric: &str) -> Vec<comparison::ComparedProduct> {
    let (cards, results) = read(sources);
    let wants = |_: &ListedCard, _: &_, _, measure: usize| {
        let of: &SurveyMeasure = &results.measures[measure];
        of.metric == metric
    };
    let table = CellTable::of(&cards, &results, &wants);
    compare(&cards, &results, &table)
}

#[test]
fn cards_whose_figure_is_0_are_compared_too() {
    let cuts = |product, number, broken: f64, cuts: u32| {
        let figures = [
            ("broken-promises", broken / f64::from(cuts), cuts),
            ("power-cuts", cuts.into(), 1),
            ("failed-cuts", broken / f64::from(cuts), cuts),
        ];
        // An oracle that found nothing has no row.
        let rows = if broken > 0.0 { &figures[..] } else { &figures[..2] };
        document(SourceKind::PowerCuts, (product, number), 1, rows)
    };
    let mut all: Vec<SurveySource> = (1..=4)
        .map(|number| cuts("A", number, if number == 4 { 10.0 } else { 0.0 }, 100))
        .collect();
    all.extend((5..=7).map(|number| cuts("BB", number, 0.0, 100)));
    for metric in ["broken-promises", "failed-cuts"] {
        let rows = compared(&all, metric);
        assert_eq!((rows[0].cards, rows[1].cards), (4, 3), "{metric}");
        assert!((rows[0].scale.figure(rows[0].sample.mean) - 0.025).abs() < 1e-9, "{metric}");
        // Student's interval, cut at 0.
        let (low, high) = rows[0].interval.unwrap();
        assert!(low == 0.0 && (high - 0.10456).abs() < 1e-4, "{low} {high}");
        // Of 300 power cuts, none broke a promise: Wilson's.
        let (low, high) = rows[1].interval.unwrap();
        assert!(low == 0.0 && (high - 0.012643).abs() < 1e-5, "{low} {high}");
        assert_eq!(rows[1].variation_percent(), None);
        let (difference, interval) = rows[1].to_first.unwrap();
        let (low, high) = interval.unwrap();
        assert!((difference + 0.025).abs() < 1e-9 && low < difference && 0.0 < high);
    }
    // Two campaigns of one card are one share of all of its power cuts.
    let mut more = cuts("A", 4, 0.0, 300);
    more.address = "d".repeat(64);
    more.origin = more.address.clone();
    all.push(more);
    let rows = compared(&all, "broken-promises");
    assert_eq!((rows[0].cards, rows[0].sources, rows[0].most), (4, 5, 0.025));
}

#[test]
fn the_latest_reading_of_a_card_counts() {
    let life = |number, day, life: f64| {
        document(SourceKind::WearReading, ("A", number), day, &[("life-used", life, 1)])
    };
    let all = [life(1, 3, 20.0), life(1, 1, 10.0), life(2, 1, 0.0), life(3, 2, 10.0)];
    let rows = compared(&all, "life-used");
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.cards, row.sources, row.least, row.most), (3, 3, 0.0, 20.0));
    assert_eq!(row.scale.figure(row.sample.mean), 10.0);
    // Equal figures show no variation.
    let rows = compared(&[life(1, 1, 10.0), life(2, 1, 10.0)], "life-used");
    assert_eq!((rows[0].cards, rows[0].interval), (2, None));
}

#[test]
fn cards_with_few_figures_are_seldom_flagged_wrongly() {
    let mut random = flashfit_device::random::Random::new(1);
    // Nearly normal, with a standard deviation of 1.
    let mut normal = || {
        (0..12).map(|_| (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64).sum::<f64>() - 6.0
    };
    let mut wrong = [0, 0];
    for (few, wrong) in [1, 3].into_iter().zip(&mut wrong) {
        for product in 0..40 {
            let all: Vec<SurveySource> = (1..=10)
                .map(|number| {
                    let mut source = card(&format!("P{product}"), number, 1.0, 4 << 20);
                    let own = 0.02 * normal();
                    let cells = if number == 1 { few } else { 60 };
                    let template = source.results[0].clone();
                    let result = |cell: i32| {
                        let mut result = template.clone();
                        result.measure.workload = format!("w{cell}");
                        result.value.value = 1e6 * (own + 0.15 * normal()).exp();
                        result
                    };
                    source.results = (0..cells).map(result).collect();
                    source
                })
                .collect();
            *wrong += usize::from(!flagged(&all).is_empty());
        }
    }
    assert!(wrong.iter().all(|count| *count <= 2), "of 40 products: {wrong:?}");
}

#[test]
fn conditions_are_checked_for_what_the_columns_have() {
    let (mut cards, _) = read(&[card("A", 1, 1.0, 4 << 20)]);
    let card = &mut cards[0];
    (card.real_capacity, card.life_used) = (Some(32 << 30), Some(1.0));
    card.write_units = vec![16 << 10];
    card.card.name = "red".into();
    for column in ListedCard::COLUMNS {
        // A condition that is not for such a column is refused, one that is must be accepted.
        let is_accepted = |value: &str| {
            filter::RowFilter::parse(&format!("{column}={value}"), &ListedCard::COLUMNS).is_ok()
        };
        let accepted = match card.column(column) {
            Some(filter::ColumnValue::Is(_)) => (true, false, false),
            Some(filter::ColumnValue::Number(_)) => (false, true, false),
            _ => (true, true, true),
        };
        assert_eq!((is_accepted("true"), is_accepted("1"), is_accepted("x")), accepted, "{column}");
    }
}
