//! Tests of bundles: what leaves a survey, and what a stranger's file can do.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;

use super::format::SurveyBundle;
use super::*;
use crate::database::{AddOptions, Addition, SurveyDatabase, SurveyTable};
use crate::error::SurveyError;
use crate::identity::{CardIdentity, hexadecimal};
use crate::query::cells::CellTable;
use crate::query::comparison::compare;
use crate::query::{ListedCard, siblings};
use crate::record::{
    MeasuredSetup, ProbedConstruction, SourceFacts, SourceKind, SurveyMeasure, SurveyResult,
    SurveySource, SurveyValue,
};

const SERIAL: &str = "0x7654321";
const NAME: &str = "red card";

/// A run on a card of a product; serial number 0 is none.
fn source(run: u8, rank: u8, (product, serial): (u8, u8)) -> SurveySource {
    let address = |parts: &[u8]| hexadecimal(&[parts, &[9; 32][parts.len()..]].concat());
    let result = |workload: &str, value: f64| SurveyResult {
        setup: MeasuredSetup { filesystem: "ext4".into(), ..MeasuredSetup::default() },
        measure: SurveyMeasure {
            metric: "rate".into(),
            unit: "bytes/s".into(),
            workload: workload.into(),
            ..SurveyMeasure::default()
        },
        value: SurveyValue { value, low: Some(0.5), high: None, count: 3, confidence: None },
    };
    // JSON keeps such fractions exactly.
    let figure = f64::from(rank) + f64::from(run) / 8.0 + f64::from(serial) + 1.0;
    SurveySource {
        address: address(&[1, run, rank, product, serial]),
        origin: address(&[2, run, product, serial]),
        former_origin: None,
        rank: rank.into(),
        kind: SourceKind::Run,
        is_simulated: false,
        card: CardIdentity {
            kind: "sd-card".into(),
            product: format!("P{product}"),
            capacity: Some(32 << 30),
            serial: if serial == 0 { String::new() } else { format!("{SERIAL}{serial}") },
            ..CardIdentity::default()
        },
        facts: SourceFacts {
            created_unix_s: Some(1_795_012_345 + u64::from(run)),
            kernel: "6.12.0".into(),
            test_bed: "ssh:secret-host".into(),
            ..SourceFacts::default()
        },
        construction: ProbedConstruction::default(),
        results: vec![result("database", figure), result("/home/me/w.toml", figure * 2.0)],
        notes: Vec::new(),
    }
}

fn new_survey(folder: &Path, name: &str) -> SurveyDatabase {
    SurveyDatabase::open(&folder.join(name)).unwrap()
}

fn add_all(survey: &mut SurveyDatabase, sources: &[(u8, u8, (u8, u8))]) {
    for (run, rank, card) in sources {
        survey.add(&source(*run, *rank, *card), &AddOptions::default()).unwrap();
    }
}

fn listed(survey: &SurveyDatabase) -> Vec<ListedCard> {
    survey.cards().unwrap().into_iter().map(ListedCard::new).collect()
}

fn bundled(survey: &SurveyDatabase, options: BundleOptions) -> SurveyBundle {
    let keys = survey.bundle_keys().unwrap();
    make(&listed(survey), &survey.results().unwrap(), &keys, options).bundle
}

fn checked(bundle: &SurveyBundle) -> CheckedBundle {
    parse(bundle.text().as_bytes()).unwrap()
}

/// Everything that a survey shows.
fn content(survey: &SurveyDatabase) -> String {
    let results = survey.results().unwrap();
    format!("{:?}\n{results:?}", survey.cards().unwrap())
}

/// The comparison of all rates; a path in the name of a workload counts as any.
fn comparison(survey: &SurveyDatabase) -> BTreeSet<String> {
    let (cards, results) = (listed(survey), survey.results().unwrap());
    let table = CellTable::of(&cards, &results, &|_, _, _, _| true);
    let rows = compare(&cards, &results, &table).into_iter();
    let row = |row: crate::query::comparison::ComparedProduct| {
        let product = &cards[row.example].card.product;
        let is_path = row.measure.workload != "database";
        let (cards, sources) = (row.cards, row.sources);
        // Sums in another order differ in the last digits.
        let sample = row.sample;
        let (mean, deviation) = (sample.mean, sample.deviation.map(|one| format!("{one:.9}")));
        let kernel = &row.way.kernel;
        format!("{product} {is_path} {cards} {sources} {mean:.9} {deviation:?} {kernel}")
    };
    rows.map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_bundle_has_the_comparison_of_its_survey_and_adds_it_once(
        sources in prop::collection::vec((0u8..3, 0u8..2, (0u8..2, 0u8..4)), 1..12),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut one = new_survey(folder.path(), "one");
        add_all(&mut one, &sources);
        let bundle = bundled(&one, BundleOptions::default());
        let read = checked(&bundle);
        prop_assert_eq!(read.bundle(), &bundle);
        let mut other = new_survey(folder.path(), "other");
        let added = other.add_bundle(&checked(&bundle)).unwrap();
        prop_assert_eq!(added.sources, one.count(SurveyTable::Sources).unwrap());
        prop_assert_eq!(added.cards, one.count(SurveyTable::Cards).unwrap());
        prop_assert_eq!(comparison(&other), comparison(&one));
        let before = content(&other);
        let again = other.add_bundle(&checked(&bundle)).unwrap();
        prop_assert_eq!((again.sources, again.cards), (0, 0));
        prop_assert_eq!(content(&other), before);
        // The survey that made it has all of it.
        let before = content(&one);
        prop_assert_eq!(one.add_bundle(&checked(&bundle)).unwrap().sources, 0);
        prop_assert_eq!(content(&one), before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Changed bytes are refused, or add rows next to those that were there.
    #[test]
    fn changed_bundles_never_panic_and_change_nothing_that_is_there(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..6),
    ) {
        thread_local! {
            static SURVEYS: (Vec<u8>, tempfile::TempDir) = {
                let folder = tempfile::tempdir().unwrap();
                let mut one = new_survey(folder.path(), "one");
                add_all(&mut one, &[(0, 0, (0, 1)), (1, 0, (0, 2)), (1, 1, (1, 0))]);
                (bundled(&one, BundleOptions::default()).text().into_bytes(), folder)
            };
        }
        let (mut bytes, path) = SURVEYS.with(|(bytes, folder)| {
            (bytes.clone(), folder.path().join("other"))
        });
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                2 => bytes.insert(at, b"0123456789\"[{}],:ent\\-."[usize::from(byte) % 23]),
                _ => bytes[at] ^= 1 << (byte % 8),
            }
        }
        if let Ok(bundle) = parse(&bytes) {
            let _ = std::fs::remove_file(&path);
            let mut survey = SurveyDatabase::open(&path).unwrap();
            add_all(&mut survey, &[(0, 0, (0, 1)), (2, 0, (0, 0))]);
            let own = |survey: &SurveyDatabase| -> Vec<String> {
                let cards = survey.cards().unwrap().into_iter();
                let own = cards.filter(|card| card.sources.iter().all(|one| one.bundle.is_empty()));
                own.map(|card| format!("{card:?}")).collect()
            };
            let before = own(&survey);
            let added = survey.add_bundle(&bundle).unwrap();
            prop_assert_eq!(added.sources + added.present, bundle.sources() as u64);
            prop_assert_eq!(own(&survey), before);
            prop_assert_eq!(survey.add_bundle(&bundle).unwrap().sources, 0);
        }
    }
}

#[test]
fn nothing_private_leaves_a_survey() {
    let folder = tempfile::tempdir().unwrap();
    let mut survey = new_survey(folder.path(), "one");
    let named = AddOptions { with_serial: true, name: NAME.into() };
    let (one, other) = (source(0, 0, (0, 1)), source(1, 0, (0, 0)));
    survey.add(&one, &named).unwrap();
    survey.add(&other, &AddOptions::default()).unwrap();
    let text = bundled(&survey, BundleOptions::default()).text();
    let salt = hexadecimal(&survey.own_salt());
    let mut private = vec![SERIAL, NAME, "secret", "/home", &salt, "1795012"];
    for source in [&one, &other] {
        private.extend([source.address.as_str(), source.origin.as_str()]);
    }
    let cards = survey.cards().unwrap();
    private.extend(cards.iter().flat_map(|card| &card.keys).map(String::as_str));
    for word in private {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert!(text.contains("\"day_unix_s\":1794960000") && text.contains("\"test_bed\":\"ssh\""));
    let with_names = BundleOptions { with_names: true, ..BundleOptions::default() };
    let mut third = new_survey(folder.path(), "third");
    third.add_bundle(&checked(&bundled(&survey, with_names))).unwrap();
    assert!(listed(&third).iter().any(|card| card.card.name == "red card (bundle)"));
    // What others measured is not sent on.
    assert_eq!(bundled(&third, with_names).cards, []);
}

#[test]
fn a_survey_prefers_its_own_measurement_to_that_of_a_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = new_survey(folder.path(), "one");
    add_all(&mut one, &[(0, 0, (0, 1)), (1, 0, (0, 1))]);
    let mut other = new_survey(folder.path(), "other");
    other.add_bundle(&checked(&bundled(&one, BundleOptions::default()))).unwrap();
    assert!(listed(&other).iter().all(ListedCard::is_bundled));
    // With its salt, the rows of the bundle are recognized and replaced.
    assert_eq!(other.merge(&one, false).unwrap().added, 2);
    assert_eq!((listed(&other).len(), listed(&other)[0].is_bundled()), (1, false));
    let again = other.add_bundle(&checked(&bundled(&one, BundleOptions::default()))).unwrap();
    assert_eq!((again.sources, again.present), (0, 2));
    // A continued run of the bundle is not added next to it either.
    add_all(&mut one, &[(0, 1, (0, 1))]);
    let again = other.add_bundle(&checked(&bundled(&one, BundleOptions::default()))).unwrap();
    assert_eq!((again.sources, again.present), (0, 2));
}

#[test]
fn a_bundle_cannot_claim_a_card_or_a_source_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut victim = new_survey(folder.path(), "victim");
    add_all(&mut victim, &[(0, 0, (0, 1)), (1, 0, (0, 0))]);
    let mut bundle = bundled(&victim, BundleOptions::default());
    let cards = victim.cards().unwrap();
    let own = &cards[0];
    bundle.survey = "0".repeat(64);
    for card in &mut bundle.cards {
        // The key and the addresses of the victim's own rows.
        card.card.clone_from(&own.keys[0]);
        card.name = NAME.to_owned();
    }
    bundle.cards.truncate(1);
    bundle.cards[0].sources.truncate(1);
    bundle.cards[0].sources[0].source.clone_from(&own.sources[0].address);
    bundle.cards[0].sources[0].run.clone_from(&own.sources[0].origin);
    bundle.cards[0].sources[0].real_capacity_bytes = Some(1);
    bundle.cards[0].sources[0].figures[0].value = 1e9;
    let before: Vec<String> = cards.iter().map(|card| format!("{card:?}")).collect();
    victim.add_bundle(&checked(&bundle)).unwrap();
    let mut after = listed(&victim);
    assert_eq!(after.len(), before.len() + 1);
    siblings::flag(&mut after, &victim.results().unwrap());
    for card in after.iter().filter(|card| !card.is_bundled()) {
        assert!(before.contains(&format!("{:?}", card.card)), "{card:?}");
        assert_eq!(card.doubts(), Vec::<String>::new());
    }
    let addition = victim.add(&source(0, 0, (0, 1)), &AddOptions::default()).unwrap();
    assert_eq!(addition, Addition::Present);
}

#[test]
fn what_a_bundle_must_not_have_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut survey = new_survey(folder.path(), "one");
    add_all(&mut survey, &[(0, 0, (0, 1)), (1, 0, (0, 2))]);
    let good = bundled(&survey, BundleOptions::default());
    let refused = |change: &dyn Fn(&mut SurveyBundle), part: &str| {
        let mut bundle = good.clone();
        change(&mut bundle);
        let error = CheckedBundle::try_from(bundle).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    };
    refused(&|bundle| bundle.schema_version = 2, "schema");
    refused(&|bundle| bundle.survey = "A".repeat(64), "64 hexadecimal");
    refused(&|bundle| bundle.cards[0].card = "../../etc".into(), "64 hexadecimal");
    refused(&|bundle| bundle.cards[0].product = "x".repeat(300), "too long");
    refused(&|bundle| bundle.cards[0].name = "a\u{1b}[31m".into(), "control characters");
    refused(&|bundle| bundle.cards[0].kind = "toaster".into(), "kind");
    refused(&|bundle| bundle.cards[0].simulated = true, "simulated");
    refused(&|bundle| bundle.cards[0].capacity_bytes = Some(u64::MAX), "capacity_bytes");
    refused(&|bundle| bundle.cards[0].sources[0].kind = "script".into(), "kind");
    refused(&|bundle| bundle.cards[0].sources[0].day_unix_s = Some(u64::MAX), "day_unix_s");
    refused(&|bundle| bundle.cards[0].sources.clear(), "no sources");
    refused(&|bundle| bundle.cards[0].sources[0].figures[0].measure = 9, "index");
    refused(&|bundle| bundle.cards[0].sources[0].figures[0].value = -1.0, "between");
    refused(&|bundle| bundle.cards[0].sources[0].figures[0].value = f64::NAN, "between");
    refused(&|bundle| bundle.cards[0].sources[0].figures[0].high = Some(0.1), "interval");
    refused(&|bundle| bundle.cards[0].sources[0].figures[0].confidence = Some(2.0), "confidence");
    refused(&|bundle| bundle.measures[0].metric = "fame".into(), "metric");
    refused(&|bundle| bundle.measures[0].direction = "up".into(), "direction");
    refused(
        &|bundle| {
            let figure = bundle.cards[0].sources[0].figures[0];
            bundle.cards[0].sources[0].figures.push(figure);
        },
        "twice in `figures`",
    );
    refused(&|bundle| bundle.cards[1].card = bundle.cards[0].card.clone(), "twice in `cards`");
    refused(
        &|bundle| {
            bundle.cards[1].sources[0].source = bundle.cards[0].sources[0].source.clone();
        },
        "twice in `sources`",
    );
    let text = good.text();
    let error = |text: &str| parse(text.as_bytes()).unwrap_err();
    assert!(error(&text.replacen("\"kind\"", "\"run_me\":\"rm\",\"kind\"", 1)).contains("run_me"));
    let newer = text.replacen("\"schema_version\": 1", "\"schema_version\": 2", 1);
    assert!(error(&newer.replacen("\"kind\"", "\"new\":1,\"kind\"", 1)).contains("newer version"));
    assert!(error(&"[".repeat(100_000)).contains("not a bundle"));
    assert!(error(&text.replacen("\"count\":3", "\"count\":1e999", 1)).contains("not a bundle"));
}

#[test]
fn a_full_disk_leaves_nothing_of_a_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let mut survey = new_survey(folder.path(), "one");
    let many: Vec<_> = (0..60).map(|run| (run, 0, (0, 1 + run % 3))).collect();
    add_all(&mut survey, &many);
    let bundle = checked(&bundled(&survey, BundleOptions::default()));
    let mut other = new_survey(folder.path(), "other");
    add_all(&mut other, &[(0, 0, (1, 1))]);
    let before = content(&other);
    other.limit_pages(3);
    let error = other.add_bundle(&bundle).unwrap_err();
    assert!(matches!(error, SurveyError::Full { .. }), "{error:?}");
    assert_eq!(content(&other), before);
}

#[test]
fn commands_have_salted_names_and_cards_without_sources_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut survey = new_survey(folder.path(), "s");
    let mut own = source(1, 1, (1, 1));
    own.results[0].measure.workload = "command-1a2b3c4d5e6f".into();
    survey.add(&own, &AddOptions::default()).unwrap();
    let keys = survey.bundle_keys().unwrap();
    let mut cards = listed(&survey);
    let mut empty = cards[0].clone();
    empty.card.sources.clear();
    cards.push(empty);
    let made = make(&cards, &survey.results().unwrap(), &keys, BundleOptions::default());
    assert_eq!(made.bundle.cards.len(), 1);
    assert!(!made.bundle.text().contains("command-"), "{}", made.bundle.text());
    checked(&made.bundle);
    // Pages have the same name.
    let mut results = survey.results().unwrap();
    results.hide_commands(&keys);
    let hidden: Vec<&str> =
        results.measures.iter().map(|measure| measure.workload.as_str()).collect();
    assert!(made.bundle.measures.iter().any(|measure| hidden.contains(&&*measure.workload)));
    assert!(hidden.iter().all(|name| !name.starts_with("command-")), "{hidden:?}");
    // What is wrong with a card is said of that card.
    let mut wrong = made.bundle;
    wrong.cards[0].capacity_bytes = Some(u64::MAX);
    let error = CheckedBundle::try_from(wrong).unwrap_err();
    assert!(error.contains("P1") && error.contains("capacity_bytes"), "{error}");
}

#[test]
fn the_pseudonym_of_a_card_stays_when_surveys_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let mut survey = new_survey(folder.path(), "s");
    add_all(&mut survey, &[(1, 1, (1, 1))]);
    let pseudonym = |survey: &SurveyDatabase| {
        let cards = bundled(survey, BundleOptions::default()).cards;
        assert_eq!(cards.len(), 1);
        cards[0].card.clone()
    };
    let before = pseudonym(&survey);
    let key = listed(&survey)[0].short_key().to_owned();
    for number in 0..8 {
        let mut other = new_survey(folder.path(), &number.to_string());
        add_all(&mut other, &[(1, 1, (1, 1))]);
        survey.merge(&other, false).unwrap();
        assert_eq!(listed(&survey)[0].card.keys.len(), 2 + number);
        assert_eq!((pseudonym(&survey), listed(&survey)[0].short_key()), (before.clone(), &*key));
    }
    add_all(&mut survey, &[(2, 1, (1, 1))]);
    assert_eq!(pseudonym(&survey), before);
}
