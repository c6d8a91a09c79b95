//! Tests of ends of life from erase rates.

use super::*;

fn model(by_block: Vec<f64>) -> LifeModel {
    LifeModel {
        courses: vec![EraseRates::new(by_block)],
        gib_a_day: 2.0,
        spare_share: 0.05,
        uncertainty: Uncertainty::default(),
        used: UsedLife::NEW,
    }
}

#[test]
fn an_even_card_lives_as_long_as_its_formula_says() {
    // 1000 GiB wear it out, 2 GiB a day: 500 days.
    let even = model(vec![0.001; 200]);
    let [(_, mean), (_, most), (_, spares)] = even.median_years();
    assert!((mean - 500.0 / YEAR_DAYS).abs() < 1e-9 && (mean - most).abs() < 1e-9);
    assert!(spares < mean && spares > 0.7 * mean, "{spares} {mean}");
}

#[test]
fn the_most_worn_block_ends_an_uneven_card() {
    let mut rates = vec![0.001; 200];
    rates[17] = 0.004;
    let uneven = model(rates);
    assert_eq!(usual_limit(&uneven.ends(200, 1, 2)), LifeLimit::MostWornPastRating);
    let [(_, mean), (_, most), _] = uneven.median_years();
    assert!((most / mean - 1.015 / 4.0).abs() < 1e-3, "{most} {mean}");
}

#[test]
fn draws_are_paired_and_more_uncertainty_widens_the_interval() {
    let even = model(vec![0.001; 50]);
    assert_eq!(even.ends(20, 5, 6), even.ends(20, 5, 6));
    let years = |model: &LifeModel| {
        Interval::of(model.ends(500, 5, 6).iter().map(|end| end.years).collect())
    };
    let narrow = years(&even);
    let mut vague = even.clone();
    vague.uncertainty.volume_factor = 3.0;
    let wide = years(&vague);
    assert!(wide.high / wide.low > 1.5 * narrow.high / narrow.low, "{wide:?} {narrow:?}");
    assert_eq!(vague.sensitivity()[0].0, Assumption::Volume);
}

#[test]
fn the_error_of_the_simulation_is_at_its_quantile() {
    let mut even = model(vec![0.001; 50]);
    even.uncertainty.model_factor = 1.6;
    even.uncertainty.replay_factor = 1.15;
    let effects = even.sensitivity();
    let of_it = effects.iter().find(|(of, _)| *of == Assumption::Simulation).unwrap().1;
    let half = (of_it[1] / of_it[0]).sqrt();
    let expected = 1.6_f64.ln().hypot(1.15_f64.ln()).exp();
    assert!((half - expected).abs() < 0.01, "{half} {expected}");
}

#[test]
fn twice_the_cost_halves_the_years_and_an_unsure_cost_widens_them() {
    let years = Interval { low: 2.0, median: 4.0, high: 8.0 };
    assert_eq!(years.at_cost(1.0, 1.0), years);
    let halved = years.at_cost(2.0, 1.0);
    assert!((halved.low - 1.0).abs() < 1e-12 && (halved.high - 4.0).abs() < 1e-12);
    let unsure = years.at_cost(1.0, 2.0);
    assert!(unsure.low < 2.0 && unsure.high > 8.0 && unsure.low > 1.0, "{unsure:?}");
    // The same as a life at that many GiB a day.
    let mut even = model(vec![0.001; 50]);
    let before = even.median_years();
    even.gib_a_day *= 3.0;
    let ratio = before[0].1 / even.median_years()[0].1;
    assert!((ratio - 3.0).abs() < 1e-9, "{ratio}");
}

#[test]
fn a_used_device_has_the_rest_of_its_life() {
    let fresh = model(vec![0.001; 50]);
    let half = LifeModel { used: UsedLife::exactly(0.5), ..fresh.clone() };
    let ratio = half.median_years()[0].1 / fresh.median_years()[0].1;
    assert!((ratio - 0.5).abs() < 1e-9, "{ratio}");
    assert_ne!(fresh.sensitivity()[0].0, Assumption::UsedLife);
    let years = |model: &LifeModel| {
        Interval::of(model.ends(500, 5, 6).iter().map(|end| end.years).collect())
    };
    // Near its rating it may end at once or have endured more than its rating promises.
    let late = LifeModel { used: UsedLife::from_step(90, 10), ..fresh.clone() };
    let (late, half, fresh) = (years(&late), years(&half), years(&fresh));
    assert!(late.median < half.median && half.median < fresh.median, "{late:?} {half:?}");
    assert!(late.high / late.median > 1.5 * fresh.high / fresh.median, "{late:?} {fresh:?}");
    let dead = LifeModel { used: UsedLife::from_step(255, 1), ..model(vec![0.001; 50]) };
    assert_eq!(years(&dead).high, 0.0);
    let at_end = LifeModel { used: UsedLife::at_end(100), ..model(vec![0.001; 50]) };
    assert_eq!(years(&at_end).high, 0.0);
    assert_eq!(at_end.median_years()[2].1, 0.0);
    assert_eq!(usual_limit(&at_end.ends(5, 1, 2)), LifeLimit::MeanPastRating);
}

#[test]
fn a_used_device_was_worn_by_the_same_use_while_it_could_work_after_that() {
    // A tenth of the blocks wears four times as fast: it ends when the mean has used about a third.
    let rates: Vec<f64> = (0..200).map(|block| if block < 20 { 0.004 } else { 0.001 }).collect();
    let fresh = model(rates);
    let used = |share| LifeModel { used: UsedLife::exactly(share), ..fresh.clone() };
    let medians = |model: &LifeModel| model.median_years().map(|(_, years)| years);
    let [before, after] = [&fresh, &used(0.2)].map(medians);
    let passed = 0.2 / 0.0013 / 2.0 / YEAR_DAYS;
    for (before, after) in before.into_iter().zip(after) {
        assert!((before - after - passed).abs() < 1e-9, "{before} {after} {passed}");
    }
    let writable = |model: &LifeModel| {
        let ends = model.ends(500, 5, 6);
        Interval::of(ends.iter().map(|end| end.writable_years).collect())
    };
    let (at_20, at_30, at_60) = (writable(&used(0.2)), writable(&used(0.3)), writable(&used(0.6)));
    assert!(at_30.median < 0.6 * at_20.median, "{at_20:?} {at_30:?}");
    // With the same use it would be dead: it was worn more evenly.
    assert!(at_60.low > 0.0 && at_60.median < at_20.median, "{at_20:?} {at_60:?}");
    assert!(medians(&used(0.6))[2] > 0.0);
}

#[test]
fn no_used_life_makes_a_year_that_is_not_a_number() {
    // A few blocks of static data are never erased.
    let rates: Vec<f64> = (0..60).map(|block| f64::from(block % 4) * 0.001).collect();
    for percent in 0..=300 {
        let used = UsedLife::from_step(percent, 0);
        let model = LifeModel { used, ..model(rates.clone()) };
        let ends = model.ends(40, 1, 2);
        let years = Interval::of(ends.iter().map(|end| end.years).collect());
        assert!(0.0 <= years.low && years.low <= years.median, "{percent} %: {years:?}");
        assert!(years.median <= years.high && years.high.is_finite(), "{percent} %: {years:?}");
        assert!(ends.iter().all(|end| end.writable_years.is_finite()), "{percent} %");
        assert!(model.median_years().iter().all(|(_, years)| *years >= 0.0), "{percent} %");
        let effects = model.sensitivity();
        assert!(effects.iter().all(|(_, [low, high])| 0.0 <= *low && low <= high), "{percent} %");
        let cost = years.at_cost(2.0, 1.5);
        assert!(cost.low <= cost.median && cost.median <= cost.high, "{percent} %: {cost:?}");
        if percent > 220 {
            assert_eq!(usual_limit(&ends), LifeLimit::MeanPastRating, "{percent} %");
        }
    }
}

#[test]
fn a_device_accepts_writes_until_its_spare_blocks_are_used_up() {
    // A tenth of the blocks wears four times as fast, and half of the blocks are spare.
    let rates: Vec<f64> = (0..200).map(|block| if block < 20 { 0.004 } else { 0.001 }).collect();
    let roomy = LifeModel { spare_share: 0.5, ..model(rates) };
    let ends = roomy.ends(200, 1, 2);
    assert!(ends.iter().all(|end| end.writable_years >= end.years));
    let writable = Interval::of(ends.iter().map(|end| end.writable_years).collect()).median;
    let first = Interval::of(ends.iter().map(|end| end.years).collect()).median;
    assert!(writable > 2.5 * first, "{writable} {first}");
}

#[test]
fn the_logarithm_matches_the_library() {
    for x in [1.0_f64, 1.2, 1.5, 2.0, 5.0, 10.0] {
        assert!((ln(x) - x.ln()).abs() < 1e-9, "{x}");
    }
    assert!((factor(1.5, Q95) - 1.5).abs() < 1e-9);
}
