//! Tests of estimates, against cards that are aged to their end.

use std::ops::ControlFlow;

use flashfit_card::model::WearOutModel;

use super::*;
use crate::age::tests::{model_of, setup};
use crate::age::{AgeEnd, AgePoint, AgeRequest, age};
use crate::usage;

#[test]
fn small_volumes_keep_their_digits() {
    let texts = [0.000_25, 0.12, 2.0].map(volume_text);
    assert_eq!(texts, ["0.26 MiB", "123 MiB", "2.0 GiB"]);
}

/// A usage that keeps as many tiles busy on the card as on its replica.
fn usage_of_half() -> UsageModel {
    let mut usage = usage::load("kiosk", None).unwrap();
    usage.writes.truncate(1);
    usage.changed_percent.value = 12.5;
    usage.fill_percent.value = 70.0;
    usage
}

fn estimated(model: &CardModel, usage: &UsageModel) -> SetupEstimate {
    let uncertainty = Uncertainty::default();
    let request = EstimateRequest { model, usage, uncertainty, used: UsedLife::NEW, seed: 1 };
    estimate(&request, &setup(1)).unwrap()
}

/// The age at which the card accepts no more writes, and its states until then.
fn aged(model: &CardModel, usage: &UsageModel, points: u32) -> (f64, Vec<AgePoint>) {
    let setup = setup(1);
    let request = AgeRequest { model, usage, setup: &setup, years: 2.0, points, seed: 1 };
    let aged = age(&request, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(aged.end, AgeEnd::ReadOnly);
    (aged.years, aged.points)
}

fn assert_agree(found: &SetupEstimate, years: f64) {
    let Interval { low, median, high } = found.writable_years;
    assert!(low < years && years < high, "{low} {median} {high}: {years}");
    assert!((0.7..1.4).contains(&(median / years)), "{median}: {years}");
}

#[test]
fn static_wear_leveling_keeps_the_most_worn_block_near_the_mean() {
    let usage = usage_of_half();
    let model = model_of(16, 300, 24, "wear_spread = 10\n");
    let (found, (years, points)) = (estimated(&model, &usage), aged(&model, &usage, 50));
    let last = points.last().unwrap();
    let spread = f64::from(last.erases_most) / last.erases_mean;
    assert!((found.worst_to_mean / spread - 1.0).abs() < 0.1, "{} {spread}", found.worst_to_mean);
    assert_agree(&found, years);
    assert!(found.years.low < years && years < found.years.high, "{:?} {years}", found.years);
    let free = estimated(&model_of(16, 300, 24, ""), &usage);
    assert!(free.worst_to_mean > 1.5 * found.worst_to_mean, "{}", free.worst_to_mean);
}

#[test]
fn spare_blocks_are_used_before_anything_is_counted() {
    let usage = usage_of_half();
    // 90 % of the flash is never written.
    let model = model_of(16, 20, 9 * 256, "");
    let (found, (years, points)) = (estimated(&model, &usage), aged(&model, &usage, 50));
    assert!(found.worst_to_mean < 1.5, "{}", found.worst_to_mean);
    // Before the first blocks fail, which no longer count.
    let mean = points[0].erases_mean / points[0].years;
    assert!((found.erases.mean / mean - 1.0).abs() < 0.2, "{} {mean}", found.erases.mean);
    assert!(found.limits.iter().all(|limit| limit.years.is_some()), "{:?}", found.limits);
    assert_agree(&found, years);
}

#[test]
fn a_card_with_many_spare_blocks_accepts_writes_past_its_first_limit() {
    let usage = usage_of_half();
    let model = model_of(16, 100, 256, "");
    let (found, (years, _)) = (estimated(&model, &usage), aged(&model, &usage, 50));
    assert_agree(&found, years);
    assert!(found.writable_years.median > found.years.median);
}

#[test]
fn the_rest_of_an_aged_card_is_within_the_interval_of_a_used_one() {
    let usage = usage_of_half();
    for layer in ["", "wear_spread = 10\n"] {
        let model = model_of(16, 300, 24, layer);
        let (end, points) = aged(&model, &usage, 2000);
        for share in [0.3, 0.6, 0.85] {
            let now = points.iter().find(|point| point.years >= share * end).unwrap();
            let mean = now.erases_mean / 300.0;
            let request = EstimateRequest {
                model: &model,
                usage: &usage,
                uncertainty: Uncertainty::default(),
                used: UsedLife::exactly(mean),
                seed: 1,
            };
            let found = estimate(&request, &setup(1)).unwrap().writable_years;
            let rest = end - now.years;
            assert!(found.low < rest && rest < found.high, "{layer} {share}: {rest} {found:?}");
        }
    }
}

#[test]
fn a_data_logger_with_a_third_of_its_erases_is_near_its_end() {
    // `wear age usd-a1-pagemap --fs ext4 --usage data-logger --years 1.6`: read-only after 1.52
    // years, and a mean of 484 of 1500 erases at 1.28 years.
    let usage = usage::load("data-logger", None).unwrap();
    let model = flashfit_card::catalog::load("usd-a1-pagemap", None).unwrap();
    let (model, _) = replica::resized(&model, None, &usage, None).unwrap();
    let find = |name: &str| crate::trace_file::find(name, None).unwrap().unwrap();
    let traces = usage.writes.iter().map(|(workload, _)| find(&format!("ext4-{workload}")));
    let setup = SetupTraces { name: "ext4".to_owned(), traces: traces.collect() };
    let mean = 484.0 / 1500.0;
    let uncertainty = Uncertainty { volume_factor: 1.5, ..Uncertainty::default() };
    let used = UsedLife::exactly(mean);
    let request = EstimateRequest { model: &model, usage: &usage, uncertainty, used, seed: 1 };
    let years = estimate(&request, &setup).unwrap().writable_years;
    assert!(years.low < 0.24 && 0.24 < years.high && years.median < 0.5, "{years:?}");
}

#[test]
fn blocks_that_fail_in_a_card_file_leave_the_estimate_as_it_is() {
    let usage = usage_of_half();
    let lasting = model_of(16, 20, 256, "");
    let mut failing = lasting.clone();
    failing.nand.wear_out =
        Some(WearOutModel { spread_thousandths: 100, early_thousandths: 10, seed: 1 });
    let [lasting, failing] = [lasting, failing].map(|model| estimated(&model, &usage));
    assert_eq!(lasting.years, failing.years);
}

#[test]
fn a_device_smaller_than_the_recordings_is_rejected() {
    let mut model = model_of(16, 20, 24, "");
    model.capacity = Bytes::mib(2);
    let usage = usage_of_half();
    let uncertainty = Uncertainty::default();
    let request =
        EstimateRequest { model: &model, usage: &usage, uncertainty, used: UsedLife::NEW, seed: 1 };
    assert!(matches!(estimate(&request, &setup(1)), Err(EstimateError::TooSmall { .. })));
}

#[test]
fn an_estimate_says_what_it_modeled() {
    // The recording has and changes half of its tile.
    let model = model_of(16, 100, 24, "");
    let mut usage = usage_of_half();
    let modeled = estimated(&model, &usage).modeled;
    assert!((modeled.changed_percent - 12.5).abs() < 1e-9, "{modeled:?}");
    assert!((modeled.filled_percent - 70.0).abs() < 1.0, "{modeled:?}");
    usage.changed_percent.value = 90.0;
    usage.fill_percent.value = 20.0;
    let modeled = estimated(&model, &usage).modeled;
    assert_eq!((modeled.changed_percent, modeled.filled_percent), (50.0, 50.0));
    assert!(modeled.is_changed_elsewhere(&usage) && modeled.is_filled_elsewhere(&usage));
    usage.trim.value = TrimInterval::Never;
    let modeled = estimated(&model, &usage).modeled;
    assert!((modeled.filled_percent - 100.0).abs() < 1e-9, "{modeled:?}");
    assert!(!modeled.is_filled_elsewhere(&usage));
}

#[test]
fn a_used_device_has_years_that_are_numbers_in_every_class() {
    let usage = usage_of_half();
    for layer in ["", "wear_spread = 10\n"] {
        let model = model_of(16, 300, 24, layer);
        for percent in (0..=300).step_by(20) {
            let request = EstimateRequest {
                model: &model,
                usage: &usage,
                uncertainty: Uncertainty::default(),
                used: UsedLife::from_step(percent, 0),
                seed: 1,
            };
            let found = estimate(&request, &setup(1)).unwrap();
            for years in [found.years, found.writable_years] {
                assert!(0.0 <= years.low && years.low <= years.median, "{percent} %: {years:?}");
                assert!(years.median <= years.high && years.high.is_finite(), "{years:?}");
            }
            assert!(found.limits.iter().all(|limit| limit.years.is_some()), "{percent} %");
            let is_number = |effect: &AssumptionEffect| effect.years_low <= effect.years_high;
            assert!(found.assumptions.iter().all(is_number), "{percent} %");
            let beyond = found.ratio_to(&found);
            assert!(beyond.is_none_or(|ratio| ratio.low == ratio.high), "{percent} %: {beyond:?}");
        }
    }
}
