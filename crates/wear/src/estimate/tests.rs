//! Tests of estimates, against cards that are aged to their end.

use std::ops::ControlFlow;

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
fn aged(model: &CardModel, usage: &UsageModel) -> (f64, Vec<AgePoint>) {
    let setup = setup(1);
    let request = AgeRequest { model, usage, setup: &setup, years: 2.0, points: 50, seed: 1 };
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
    let (found, (years, points)) = (estimated(&model, &usage), aged(&model, &usage));
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
    let (found, (years, points)) = (estimated(&model, &usage), aged(&model, &usage));
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
    let (found, (years, _)) = (estimated(&model, &usage), aged(&model, &usage));
    assert_agree(&found, years);
    assert!(found.writable_years.median > found.years.median);
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
