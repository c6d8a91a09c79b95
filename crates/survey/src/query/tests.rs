//! Tests of comparisons and flags, through a database in a file.

use super::cells::CellTable;
use super::comparison::compare;
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
    let (low, high) = rows[0].sample.interval().unwrap();
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
