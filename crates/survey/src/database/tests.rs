//! Tests of the database: what is added is there once, in whatever order, whole or not at all.

use std::path::Path;

use flashfit_user_error::{ExitClass, UserError};
use proptest::prelude::*;
use rusqlite::Connection;

use super::*;
use crate::identity::{CardIdentity, hexadecimal};
use crate::record::{
    MeasuredSetup, ProbedConstruction, SourceFacts, SourceKind, SurveyMeasure, SurveyResult,
    SurveySource, SurveyValue,
};

/// A source of the card with this serial number; 0 has none.
fn source(run: u8, rank: u8, serial: u8) -> SurveySource {
    let address = |parts: &[u8]| hexadecimal(&[parts, &[0; 32][parts.len()..]].concat());
    let result = |workload: &str, value: f64| SurveyResult {
        setup: MeasuredSetup { filesystem: "ext4".into(), ..MeasuredSetup::default() },
        measure: SurveyMeasure {
            metric: "rate".into(),
            unit: "bytes/s".into(),
            workload: workload.into(),
            ..SurveyMeasure::default()
        },
        value: SurveyValue { value, low: None, high: None, count: 1, confidence: None },
    };
    SurveySource {
        address: address(&[1, run, rank, serial]),
        origin: address(&[2, run, serial]),
        former_origin: None,
        rank: rank.into(),
        kind: SourceKind::Run,
        is_simulated: false,
        card: CardIdentity {
            kind: "sd-card".into(),
            product: "SL32G".into(),
            capacity: Some(32 << 30),
            serial: if serial == 0 { String::new() } else { format!("0x76543{serial:03}") },
            ..CardIdentity::default()
        },
        facts: SourceFacts::default(),
        construction: ProbedConstruction { erase_block: Some(4 << 20), ..Default::default() },
        results: vec![result("database", f64::from(rank) + 1.0), result("sync-files", 7.0)],
        notes: Vec::new(),
    }
}

/// Everything in a survey but its numbers of rows.
fn content(survey: &SurveyDatabase) -> Vec<String> {
    let lines = |query: &str| -> Vec<String> {
        let mut query = survey.connection.prepare(query).unwrap();
        let columns = query.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            let values = (0..columns).map(|at| format!("{:?}", row.get_ref_unwrap(at)));
            Ok(values.collect::<Vec<_>>().join("|"))
        };
        let mut lines: Vec<String> =
            query.query_map([], row).unwrap().map(Result::unwrap).collect();
        lines.sort();
        lines
    };
    let cards = lines(
        "SELECT card.kind, product, capacity_bytes, is_individual, name, serial,
            (SELECT group_concat(key) FROM (SELECT key FROM card_key WHERE card = card.id
                ORDER BY key)),
            (SELECT group_concat(address) FROM (SELECT address FROM source WHERE card = card.id
                ORDER BY address)) FROM card",
    );
    let results = lines("SELECT address, filesystem, metric, workload, value, count FROM results");
    [cards, results].concat()
}

fn new_survey(folder: &Path, name: &str, salt: Option<Salt>) -> SurveyDatabase {
    let survey = SurveyDatabase::open(&folder.join(name)).unwrap();
    if let Some(salt) = salt {
        survey.connection.execute("UPDATE salt SET bytes = ?1", [salt]).unwrap();
    }
    survey
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_order_of_additions_does_not_count(
        sources in prop::collection::vec((0u8..3, 0u8..3, 0u8..3), 1..12),
        seed in any::<u64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut one = new_survey(folder.path(), "one", Some([7; SALT_BYTES]));
        let mut other = new_survey(folder.path(), "other", Some([7; SALT_BYTES]));
        let options = AddOptions::default();
        for (run, rank, serial) in &sources {
            one.add(&source(*run, *rank, *serial), &options).unwrap();
        }
        let mut shuffled = [sources.clone(), sources].concat();
        shuffled.sort_by_key(|item| {
            flashfit_device::random::Random::new(
                seed ^ u64::from(item.0) ^ u64::from(item.1) << 8 ^ u64::from(item.2) << 16,
            ).next_u64()
        });
        for (run, rank, serial) in &shuffled {
            other.add(&source(*run, *rank, *serial), &options).unwrap();
        }
        prop_assert_eq!(content(&one), content(&other));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Surveys of one salt, each with some sources, merged in two orders and added to one survey.
    #[test]
    fn the_order_of_merges_does_not_count(
        parts in prop::collection::vec(
            prop::collection::vec((0u8..3, 0u8..3, 0u8..3), 0..5), 1..4,
        ),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let salt = Some([7; SALT_BYTES]);
        let options = AddOptions::default();
        let mut all = new_survey(folder.path(), "all", salt);
        let surveys: Vec<SurveyDatabase> = parts.iter().enumerate().map(|(number, sources)| {
            let mut survey = new_survey(folder.path(), &number.to_string(), salt);
            for (run, rank, serial) in sources {
                survey.add(&source(*run, *rank, *serial), &options).unwrap();
                all.add(&source(*run, *rank, *serial), &options).unwrap();
            }
            survey
        }).collect();
        let mut forward = new_survey(folder.path(), "forward", salt);
        let mut backward = new_survey(folder.path(), "backward", salt);
        for survey in surveys.iter().chain(&surveys) {
            forward.merge(survey, false).unwrap();
        }
        for survey in surveys.iter().rev() {
            backward.merge(survey, false).unwrap();
        }
        prop_assert_eq!(content(&forward), content(&all));
        prop_assert_eq!(content(&backward), content(&all));
    }
}

#[test]
fn cards_of_other_salts_are_joined_by_a_common_source_or_an_addition() {
    let folder = tempfile::tempdir().unwrap();
    let options = AddOptions::default();
    let mut one = new_survey(folder.path(), "one", None);
    let mut other = new_survey(folder.path(), "other", None);
    one.add(&source(1, 1, 1), &options).unwrap();
    other.add(&source(2, 1, 1), &options).unwrap();
    one.merge(&other, false).unwrap();
    let cards = |survey: &SurveyDatabase| survey.count(SurveyTable::Cards).unwrap();
    assert_eq!(cards(&one), 2, "not known to be one card");
    // The card is measured again: it has keys of both salts now.
    one.add(&source(3, 1, 1), &options).unwrap();
    assert_eq!((cards(&one), one.cards().unwrap()[0].keys.len()), (1, 2));

    let mut third = new_survey(folder.path(), "third", None);
    third.add(&source(1, 1, 1), &options).unwrap();
    assert_eq!(third.merge(&one, false).unwrap().added, 2);
    assert_eq!(cards(&third), 1, "source 1 is in both");
    // An empty survey takes the salt over.
    let mut empty = new_survey(folder.path(), "empty", None);
    empty.merge(&other, false).unwrap();
    empty.add(&source(4, 1, 1), &options).unwrap();
    assert_eq!((cards(&empty), empty.cards().unwrap()[0].keys.len()), (1, 1));
}

#[test]
fn what_is_there_is_not_added_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut survey = new_survey(folder.path(), "s", None);
    let options = AddOptions::default();
    let mut add = |rank| survey.add(&source(1, rank, 1), &options).unwrap();
    assert_eq!(add(1), Addition::Added);
    assert_eq!(add(1), Addition::Present);
    assert_eq!(add(2), Addition::Replaced);
    assert_eq!(add(1), Addition::Older);
    assert_eq!(survey.count(SurveyTable::Sources).unwrap(), 1);
    assert_eq!(survey.count(SurveyTable::Results).unwrap(), 2);
    let cards = survey.cards().unwrap();
    assert_eq!((cards.len(), cards[0].sources[0].results), (1, 2));
}

#[test]
fn serial_numbers_are_kept_only_if_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let serial = source(1, 1, 1).card.serial;
    let is_in_file = || {
        let bytes = std::fs::read(&path).unwrap();
        bytes.windows(serial.len()).any(|part| part == serial.as_bytes())
    };
    let mut survey = SurveyDatabase::open(&path).unwrap();
    survey.add(&source(1, 1, 1), &AddOptions::default()).unwrap();
    survey.finish().unwrap();
    assert!(!is_in_file());
    let mut survey = SurveyDatabase::open(&path).unwrap();
    let options = AddOptions { with_serial: true, ..AddOptions::default() };
    survey.add(&source(1, 1, 1), &options).unwrap();
    assert_eq!(survey.cards().unwrap()[0].serial.as_deref(), Some(serial.as_str()));
    survey.finish().unwrap();
    assert!(is_in_file());
}

#[test]
fn a_name_makes_a_card_of_what_has_no_serial_number() {
    let folder = tempfile::tempdir().unwrap();
    let mut survey = new_survey(folder.path(), "s", None);
    let named = |name: &str| AddOptions { name: name.to_owned(), with_serial: false };
    survey.add(&source(1, 1, 0), &named("")).unwrap();
    survey.add(&source(2, 1, 0), &named("red")).unwrap();
    let names = |survey: &SurveyDatabase| -> Vec<(String, bool, usize)> {
        let cards = survey.cards().unwrap().into_iter();
        let mut all: Vec<_> =
            cards.map(|card| (card.name, card.is_individual, card.sources.len())).collect();
        all.sort();
        all
    };
    assert_eq!(names(&survey), [(String::new(), false, 1), ("red".to_owned(), true, 1)]);
    // Known now, and the same when it is added without the name again.
    survey.add(&source(1, 1, 0), &named("red")).unwrap();
    survey.add(&source(1, 1, 0), &named("")).unwrap();
    assert_eq!(names(&survey), [("red".to_owned(), true, 2)]);
    let error = survey.add(&source(1, 1, 0), &named("blue")).unwrap_err();
    assert!(matches!(error, SurveyError::OtherName { .. }), "{error}");
    assert_eq!(names(&survey), [("red".to_owned(), true, 2)], "nothing was changed");
    survey.add(&source(5, 1, 1), &named("seven")).unwrap();
    assert!(survey.add(&source(6, 1, 1), &named("eight")).is_err(), "one card has one name");
}

#[test]
fn files_of_others_are_refused_and_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let refused = |kind: fn(&SurveyError) -> bool| {
        let before = std::fs::read(&path).unwrap();
        for opened in [SurveyDatabase::open(&path), SurveyDatabase::open_for_reading(&path)] {
            let error = opened.unwrap_err();
            assert!(kind(&error), "{error:?}");
            assert_eq!(error.class(), ExitClass::Usage);
        }
        assert!(std::fs::read(&path).unwrap() == before, "the file was changed");
    };
    std::fs::write(&path, "a text that is long enough to be no header of SQLite").unwrap();
    refused(|error| matches!(error, SurveyError::NotADatabase { .. }));
    let change = |statements: &str| {
        let _ = std::fs::remove_file(&path);
        SurveyDatabase::open(&path).unwrap().finish().unwrap();
        Connection::open(&path).unwrap().execute_batch(statements).unwrap();
    };
    change("PRAGMA user_version = 99");
    refused(|error| matches!(error, SurveyError::Newer { found: 99, .. }));
    change("CREATE TRIGGER t AFTER INSERT ON card BEGIN DELETE FROM source; END");
    refused(|error| matches!(error, SurveyError::Foreign { .. }));
    std::fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    refused(|error| matches!(error, SurveyError::Foreign { .. }));
    std::fs::remove_file(&path).unwrap();
    let missing = SurveyDatabase::open_for_reading(&path).unwrap_err();
    assert!(matches!(missing, SurveyError::Missing { .. }) && !path.exists());
}

#[test]
fn every_earlier_version_becomes_the_newest() {
    for version in 1..=MIGRATIONS.len() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let connection = Connection::open(&path).unwrap();
        for statements in &MIGRATIONS[..version] {
            connection.execute_batch(statements).unwrap();
        }
        connection.pragma_update(None, "user_version", version as i64).unwrap();
        connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        drop(connection);
        let mut survey = SurveyDatabase::open(&path).unwrap();
        survey.add(&source(1, 1, 1), &AddOptions::default()).unwrap();
        survey.finish().unwrap();
        assert_eq!(SurveyDatabase::open_for_reading(&path).unwrap().cards().unwrap().len(), 1);
    }
}

fn named(name: &str) -> AddOptions {
    AddOptions { name: name.to_owned(), with_serial: false }
}

/// Name, and number of sources of each card.
fn cards_of(survey: &SurveyDatabase) -> Vec<(String, usize)> {
    let cards = survey.cards().unwrap().into_iter();
    let mut all: Vec<_> = cards.map(|card| (card.name, card.sources.len())).collect();
    all.sort();
    all
}

#[test]
fn a_continued_run_stays_with_its_card() {
    let folder = tempfile::tempdir().unwrap();
    let mut survey = new_survey(folder.path(), "s", None);
    survey.add(&source(1, 20, 0), &named("red")).unwrap();
    let error = survey.add(&source(1, 40, 0), &named("blue")).unwrap_err();
    assert!(error.to_string().contains("`red`"), "{error}");
    assert_eq!(survey.add(&source(1, 40, 0), &named("")).unwrap(), Addition::Replaced);
    assert_eq!(cards_of(&survey), [("red".to_owned(), 1)]);
    // A name that is given later moves it.
    survey.add(&source(2, 20, 0), &named("")).unwrap();
    assert_eq!(survey.add(&source(2, 40, 0), &named("red")).unwrap(), Addition::Replaced);
    assert_eq!(cards_of(&survey), [("red".to_owned(), 2)]);
    // The same of surveys that are merged, whatever the order.
    for (first, second) in [((20, "red"), (40, "")), ((40, ""), (20, "red"))] {
        let mut merged = new_survey(folder.path(), &format!("merged-{}", first.0), None);
        for (rank, name) in [first, second] {
            let mut other = new_survey(folder.path(), &format!("{}-{rank}", first.0), None);
            other.add(&source(1, rank, 0), &named(name)).unwrap();
            merged.merge(&other, false).unwrap();
        }
        assert_eq!(cards_of(&merged), [("red".to_owned(), 1)], "{first:?}");
        assert_eq!(merged.cards().unwrap()[0].sources[0].rank, 40);
    }
}

#[test]
fn a_name_moves_a_source_from_the_card_of_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let in_reader = |run: u8, rank: u8, serial: u8| {
        let mut source = source(run, rank, serial);
        source.card.kind = "usb".into();
        source
    };
    let mut survey = new_survey(folder.path(), "s", None);
    for run in [1, 2] {
        survey.add(&in_reader(run, 1, 1), &named("")).unwrap();
    }
    assert_eq!(survey.add(&in_reader(1, 1, 1), &named("red")).unwrap(), Addition::Present);
    assert_eq!(cards_of(&survey), [(String::new(), 1), ("red".to_owned(), 1)]);
    // Without the name, and as a later state, it stays where it is.
    survey.add(&in_reader(1, 1, 1), &named("")).unwrap();
    survey.add(&in_reader(1, 2, 1), &named("")).unwrap();
    assert_eq!(cards_of(&survey), [(String::new(), 1), ("red".to_owned(), 1)]);
    // A merge moves the source that has a name in one survey, not all cards of the reader.
    let mut other = new_survey(folder.path(), "other", None);
    other.add(&in_reader(2, 1, 1), &named("blue")).unwrap();
    other.add(&in_reader(3, 1, 1), &named("")).unwrap();
    survey.add(&in_reader(4, 1, 1), &named("")).unwrap();
    survey.merge(&other, false).unwrap();
    let cards = cards_of(&survey);
    assert!(cards.contains(&("blue".to_owned(), 1)), "{cards:?}");
    // Cards that are certain are not mixed, and the error names no empty name.
    let mut own = source(9, 1, 1);
    survey.add(&own, &named("")).unwrap();
    own.card.serial = "0x99887766".into();
    let error = survey.add(&own, &named("")).unwrap_err();
    assert_eq!(error.class(), ExitClass::Usage);
    assert!(!error.to_string().contains("``"), "{error}");
}

#[test]
fn numbers_out_of_range_are_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let mut survey = new_survey(folder.path(), "s", None);
    let mut odd = source(1, 1, 1);
    odd.card.capacity = Some(u64::MAX);
    odd.facts.processors = Some(u64::MAX);
    odd.facts.created_unix_s = Some(u64::MAX);
    odd.construction.erase_block = Some(u64::MAX);
    survey.add(&odd, &AddOptions::default()).unwrap();
    let card = survey.cards().unwrap().remove(0);
    let found = &card.sources[0];
    assert_eq!((card.capacity_bytes, found.processors, found.created_unix_s), (None, None, None));
    assert_eq!(found.construction.erase_block, None);
    // A survey of an earlier version can have them.
    survey.connection.execute("UPDATE card SET capacity_bytes = ?1", [i64::MAX]).unwrap();
    assert_eq!(survey.cards().unwrap()[0].capacity_bytes, None);
}

#[test]
fn the_host_of_a_test_bed_is_neither_stored_nor_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut survey = new_survey(folder.path(), "s", None);
    let mut remote = source(1, 1, 1);
    remote.facts.test_bed = "ssh:root@build.customer.example".into();
    survey.add(&remote, &AddOptions::default()).unwrap();
    let query = "SELECT test_bed FROM source";
    let stored: String = survey.connection.query_row(query, [], |row| row.get(0)).unwrap();
    assert_eq!(stored, "ssh");
    // Earlier versions stored it.
    survey.connection.execute("UPDATE source SET test_bed = 'lab:red@host'", []).unwrap();
    assert_eq!(survey.cards().unwrap()[0].sources[0].test_bed, "lab");
}

#[test]
fn figures_that_no_bundle_may_have_are_not_merged() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = new_survey(folder.path(), "other", None);
    let options = AddOptions::default();
    other.add(&source(1, 1, 1), &options).unwrap();
    other.add(&source(2, 1, 2), &options).unwrap();
    let values = [(1, 1, 1.7e308, 0.0), (1, 2, -1.7e308, 0.0), (2, 1, 2.0, f64::MAX)];
    for (source, measure, value, high) in values {
        let change = "UPDATE result SET value = ?3, high = ?4 WHERE source = ?1 AND measure = ?2";
        let values = (source, measure, value, high);
        assert_eq!(other.connection.execute(change, values).unwrap(), 1);
    }
    let mut survey = new_survey(folder.path(), "s", None);
    survey.merge(&other, false).unwrap();
    let mut found: Vec<(f64, Option<f64>)> = survey
        .results()
        .unwrap()
        .rows
        .iter()
        .map(|row| (row.value.value, row.value.high))
        .collect();
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    assert_eq!(found, [(2.0, None), (7.0, None)]);
}

#[test]
fn names_that_sqlite_reserves_are_files() {
    assert_eq!(file_name(Path::new(":memory:")), Path::new("./:memory:"));
    assert_eq!(file_name(Path::new("")), Path::new("./"));
    assert_eq!(file_name(Path::new("/a/:memory:")), Path::new("/a/:memory:"));
}
