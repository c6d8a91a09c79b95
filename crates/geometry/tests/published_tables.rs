//! Inference from published tables of real cards, which must be consistent, and from randomly drawn
//! tables, which must be correct or give no answer.

#![expect(clippy::unwrap_used, reason = "tests end where something fails")]

use std::path::{Path, PathBuf};

use flashfit_device::Bytes;
use flashfit_device::random::Random;
use flashfit_geometry::flashbench::inference::infer;
use flashfit_geometry::flashbench::{AlignRow, AlignTable, Imported};
use flashfit_geometry::{CandidateValue, GeometryFinding, GeometryFindings, QuantityValue};

fn files(kind: &str) -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/flashbench");
    let mut files = Vec::new();
    for card in std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
        if card.is_dir() {
            let name = card.file_name().unwrap().to_str().unwrap().to_owned();
            for file in std::fs::read_dir(&card).unwrap().map(|entry| entry.unwrap().path()) {
                if file.file_name().unwrap().to_str().unwrap().starts_with(kind) {
                    files.push((name.clone(), file));
                }
            }
        }
    }
    files.sort();
    files
}

fn findings(file: &Path) -> GeometryFindings {
    infer(&Imported::read(&std::fs::read(file).unwrap()).unwrap()).findings
}

#[test]
fn runs_of_one_card_agree_on_its_erase_block() {
    let (mut pairs, mut agree, mut consistent, mut answered) = (0, 0, 0, 0);
    // Two sizes are named where there are two steps.
    let names = |one: &GeometryFinding, other: &GeometryFinding| {
        let named = |of: &CandidateValue| Some(of.value) == other.value && of.probability > 0.1;
        one.candidates.iter().any(named)
    };
    let files = files("align");
    let answers: Vec<_> =
        files.iter().map(|(card, file)| (card, findings(file).erase_block)).collect();
    for (index, (card, answer)) in answers.iter().enumerate() {
        let Some(QuantityValue::Bytes(bytes)) = answer.value else { continue };
        assert!((64 << 10..=64 << 20).contains(&bytes), "{card}: {bytes}");
        answered += 1;
        for other in answers[..index].iter().filter(|(other, _)| other == card) {
            if other.1.value.is_some() {
                pairs += 1;
                agree += usize::from(other.1.value == answer.value);
                consistent += usize::from(names(&other.1, answer) || names(answer, &other.1));
            }
        }
    }
    assert!(agree * 100 >= pairs * 96, "{agree} of {pairs} pairs agree");
    assert!(consistent * 100 >= pairs * 99, "{consistent} of {pairs} pairs are consistent");
    assert!(answered * 10 >= answers.len() * 7, "{answered} of {}", answers.len());
}

#[test]
fn open_erase_blocks_are_inferred_from_a_cliff() {
    let count = |card: &str| {
        let all = files("open-au");
        let (_, file) = all.iter().find(|(of, _)| of == card).unwrap();
        let findings = findings(file);
        (findings.open_erase_blocks_linear.value, findings.small_write_log.value)
    };
    assert_eq!(
        count("card-1"),
        (Some(QuantityValue::Count(4)), Some(QuantityValue::Bytes(8 << 10)))
    );
    assert_eq!(
        count("card-21"),
        (Some(QuantityValue::Count(3)), Some(QuantityValue::Bytes(4 << 10)))
    );
    assert_eq!(count("card-31"), (None, None));
}

/// The parameters of a randomly drawn table.
struct Drawn {
    /// A power of two; 0 for no visible unit.
    unit: u64,
    page: u64,
    /// In microseconds: adjacent reads, steps of the page and the unit, noise.
    beside: f64,
    page_extra: f64,
    unit_extra: f64,
    noise: f64,
}

/// A number from 0 to 1.
fn share(random: &mut Random) -> f64 {
    random.below(1 << 20) as f64 / f64::from(1 << 20)
}

impl Drawn {
    fn new(random: &mut Random, with_unit: bool) -> Self {
        let beside = 200.0 * (1.0 + 5.0 * share(random));
        let unit = if with_unit { 256 << (10 + random.below(7)) } else { 0 };
        Self {
            unit,
            page: 2048 << random.below(4),
            beside,
            page_extra: beside * 0.3 * share(random),
            unit_extra: beside * (0.08 + 0.3 * share(random)),
            noise: beside * (0.002 + 0.015 * share(random)),
        }
    }

    /// The table that flashbench would print. On devices that are not a power of two, three of
    /// seven places are not at boundaries. Some rows are outliers. Also whether the row of the unit
    /// has a smaller step than later ones.
    fn table(&self, random: &mut Random) -> (AlignTable, bool) {
        let diluted = if random.below(2) == 0 { 4.0 / 7.0 } else { 1.0 };
        let noise = |random: &mut Random| {
            let sum: f64 = (0..6).map(|_| share(random) - 0.5).sum();
            let off = if random.below(30) == 0 { 12.0 } else { 1.0 };
            sum * std::f64::consts::SQRT_2 * self.noise * off
        };
        let mut has_two_steps = false;
        let rows = (11..=30).rev().map(|exponent| {
            let align = 1_u64 << exponent;
            let mut extra = if align >= self.page { self.page_extra } else { 0.0 };
            if self.unit > 0 && align >= self.unit {
                let first_units = if align == self.unit && random.below(4) == 0 {
                    has_two_steps = true;
                    0.6
                } else {
                    1.0
                };
                extra += self.unit_extra * diluted * first_units;
            }
            let time = |random: &mut Random, extra: f64| {
                let exact = (self.beside + extra + noise(random)).max(1.0);
                let digits = 10f64.powf(exact.log10().floor() - 2.0);
                (exact / digits).round() * digits * 1000.0
            };
            let (pre_ns, post_ns) = (time(random, 0.0), time(random, 0.0));
            AlignRow { align: Bytes(align), pre_ns, on_ns: time(random, extra), post_ns }
        });
        let table = AlignTable { rows: rows.collect() };
        (table, has_two_steps)
    }
}

fn answer(table: AlignTable) -> Option<QuantityValue> {
    infer(&Imported { align: vec![table], ..Imported::default() }).findings.erase_block.value
}

#[test]
fn drawn_tables_get_the_correct_answer_or_none() {
    let mut random = Random::new(7);
    let (mut answered, mut wrong) = (0, 0);
    let tables = 200;
    for _ in 0..tables {
        let drawn = Drawn::new(&mut random, true);
        let (table, has_two_steps) = drawn.table(&mut random);
        if let Some(answer) = answer(table) {
            answered += 1;
            let is_larger = has_two_steps && answer == QuantityValue::Bytes(2 * drawn.unit);
            wrong += usize::from(answer != QuantityValue::Bytes(drawn.unit) && !is_larger);
        }
    }
    assert!(wrong * 20 <= answered, "{wrong} of {answered} wrong");
    assert!(answered * 10 >= tables * 7, "{answered} of {tables} answered");
}

#[test]
fn drawn_tables_without_an_erase_block_get_no_answer() {
    let mut random = Random::new(8);
    let answered =
        (0..100).filter(|_| answer(Drawn::new(&mut random, false).table(&mut random).0).is_some());
    assert!(answered.count() <= 1);
}

/// A table with noise of 2 us in which the row of `first` has this share of a rise of 100 us.
fn stepped(random: &mut Random, first: u64, share_of_rise: f64) -> AlignTable {
    let rows = (15..=30).rev().map(|exponent| {
        let align = 1_u64 << exponent;
        let rise = match align {
            _ if align < first => 0.0,
            _ if align == first => share_of_rise,
            _ => 1.0,
        };
        let noise_ns = share(random) * 4000.0 - 2000.0;
        let (pre_ns, post_ns) = (6e5, 6e5);
        AlignRow { align: Bytes(align), pre_ns, on_ns: 6.1e5 + 1e5 * rise + noise_ns, post_ns }
    });
    AlignTable { rows: rows.collect() }
}

#[test]
fn two_steps_are_both_named_and_the_larger_one_is_the_answer() {
    let mut random = Random::new(3);
    for first in [512 << 10, 1 << 20, 4 << 20, 16 << 20] {
        for half in [0.35, 0.42, 0.5, 0.55] {
            let table = stepped(&mut random, first, half);
            let imported = Imported { align: vec![table], ..Imported::default() };
            let found = infer(&imported).findings.erase_block;
            assert_eq!(found.value, Some(QuantityValue::Bytes(2 * first)), "{half}: {found:?}");
            assert!(found.confidence.unwrap() >= 0.95, "{found:?}");
            for size in [first, 2 * first] {
                assert!(found.reason.contains(&Bytes(size).to_string()), "{}", found.reason);
                let is_it = |of: &CandidateValue| of.value == QuantityValue::Bytes(size);
                assert!(found.candidates.iter().any(is_it), "{found:?}");
            }
        }
    }
}

#[test]
fn tables_with_one_step_name_one_size() {
    let mut random = Random::new(4);
    for first in [512 << 10, 1 << 20, 4 << 20, 16 << 20] {
        for most in [0.75, 0.9, 1.0] {
            let table = stepped(&mut random, first, most);
            assert_eq!(answer(table), Some(QuantityValue::Bytes(first)), "{first} {most}");
        }
    }
}

#[test]
fn all_runs_together_name_one_size_where_one_of_them_names_two() {
    let runs = files("align").into_iter().filter(|(card, _)| card == "card-1");
    let tables: Vec<AlignTable> = runs
        .flat_map(|(_, file)| Imported::read(&std::fs::read(file).unwrap()).unwrap().align)
        .collect();
    // 42 % of the rise at 4 MiB in the first run, three quarters in the others.
    assert_eq!(answer(tables[0].clone()), Some(QuantityValue::Bytes(8 << 20)));
    let all = infer(&Imported { align: tables, ..Imported::default() }).findings.erase_block;
    assert_eq!(all.value, Some(QuantityValue::Bytes(4 << 20)), "{all:?}");
}

/// A published table without some of its rows.
fn without(missing: &[u64]) -> GeometryFindings {
    let (_, file) = files("align-run-21.1").remove(0);
    let mut imported = Imported::read(&std::fs::read(file).unwrap()).unwrap();
    imported.align[0].rows.retain(|row| !missing.contains(&row.align.0));
    infer(&imported).findings
}

#[test]
fn a_missing_row_leaves_open_which_size_its_step_has() {
    assert_eq!(without(&[]).erase_block.value, Some(QuantityValue::Bytes(4 << 20)));
    // A row far from the step does not matter.
    assert_eq!(without(&[256 << 10]).erase_block.value, Some(QuantityValue::Bytes(4 << 20)));
    for (missing, largest) in [(&[4][..], 8), (&[4, 8], 16), (&[4, 8, 16], 32)] {
        let rows: Vec<u64> = missing.iter().map(|mib| mib << 20).collect();
        let found = without(&rows).erase_block;
        assert_eq!(found.value, None, "{missing:?}: {found:?}");
        for size in rows.iter().chain([&(largest << 20)]) {
            assert!(found.reason.contains(&Bytes(*size).to_string()), "{}", found.reason);
            let is_it = |of: &CandidateValue| of.value == QuantityValue::Bytes(*size);
            let candidate = found.candidates.iter().find(|of| is_it(of)).unwrap();
            assert!((0.2..0.6).contains(&candidate.probability), "{found:?}");
        }
    }
    assert!(without(&[]).write_unit.value.is_some());
    let found = without(&[16 << 10]).write_unit;
    assert_eq!(found.value, None, "{found:?}");
    assert!(found.reason.contains("16 KiB"), "{}", found.reason);
}

#[test]
fn rates_are_a_reason_only_for_the_size_that_they_suggest() {
    let (_, file) = files("open-au-run-21").remove(0);
    let rates = Imported::read(&std::fs::read(file).unwrap()).unwrap();
    let mut random = Random::new(5);
    for (step, expected) in [(4, true), (8, false), (16, false)] {
        let table = stepped(&mut random, step << 20, 1.0);
        let imported = Imported { align: vec![table], ..rates.clone() };
        let found = infer(&imported).findings.erase_block;
        assert_eq!(found.value, Some(QuantityValue::Bytes(step << 20)), "{found:?}");
        let claims = found.reason.contains("writes copy a unit of this size");
        assert_eq!(claims, expected, "{step} MiB: {}", found.reason);
        assert_eq!(found.reason.contains("suggest 4 MiB"), !expected, "{}", found.reason);
        let notes = infer(&imported).notes;
        let is_warned = notes.iter().any(|note| note.contains("tables assume erase blocks of 4"));
        assert_eq!(is_warned, !expected, "{step} MiB: {notes:?}");
    }
}

/// A table in which reads across boundaries of units of three times `third` take 36 % longer: two
/// of the seven places of each row from `third` on are such boundaries.
fn tripled(random: &mut Random, third: u64, noise_ns: f64) -> AlignTable {
    let rows = (11..=30).rev().map(|exponent| {
        let align = 1_u64 << exponent;
        let extra = if align >= third { 2.5e5 * 2.0 / 7.0 } else { 0.0 };
        let mut time = |ns: f64| ns + noise_ns * (2.0 * share(random) - 1.0);
        let (pre_ns, post_ns) = (time(7e5), time(7e5));
        AlignRow { align: Bytes(align), pre_ns, on_ns: time(7e5 + extra), post_ns }
    });
    AlignTable { rows: rows.collect() }
}

#[test]
fn a_small_step_may_come_from_erase_blocks_of_three_times_its_size() {
    let mut random = Random::new(6);
    for third in [256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20] {
        for noise_ns in [1500.0, 4000.0] {
            let align = vec![tripled(&mut random, third, noise_ns)];
            let found = infer(&Imported { align, ..Imported::default() }).findings.erase_block;
            let named = format!("three times that size, {}", Bytes(3 * third));
            assert!(found.reason.contains(&named), "{noise_ns}: {found:?}");
        }
        let table = stepped(&mut random, third, 1.0);
        let found = infer(&Imported { align: vec![table], ..Imported::default() });
        assert!(!found.findings.erase_block.reason.contains("three times"), "{found:?}");
    }
    for (card, is_small) in [("card-25", true), ("card-3", false), ("card-21", false)] {
        for (_, file) in files("align").into_iter().filter(|(of, _)| of == card) {
            let found = findings(&file).erase_block;
            assert_eq!(found.value, Some(QuantityValue::Bytes(4 << 20)), "{card}");
            assert_eq!(found.reason.contains("three times"), is_small, "{card}: {}", found.reason);
        }
    }
}
