//! Tests of the analysis: effects, gains, ties, the recommendation, and a golden file of a whole
//! analysis.

use std::fmt::Write as _;

use flashfit_search::landscape::{Landscape, LandscapeKind, pair, run, small_space};
use flashfit_search::model::{Coding, MeritEstimate, MeritSurface, Model, Scales, Variances};
use flashfit_search::{
    Adaptive, Answer, Effect, Exhaustive, Factor, MIN_ROUNDS, Observation, Purpose, SearchEnd,
    SearchSettings, Strategy, TrialOutcome, answer,
};

fn settings(trials: f64, seed: u64) -> SearchSettings {
    SearchSettings { trials: Some(trials), seed, ..SearchSettings::default() }
}

fn answered(landscape: &Landscape, settings: &SearchSettings) -> (Answer, Vec<Observation>) {
    let trace = run(&Adaptive::default(), landscape, settings).expect("a search");
    let winner = trace.choice.expect("something was measured");
    (answer(&landscape.space, &trace.history, settings, winner, &[]), trace.history)
}

#[test]
fn equal_candidates_rarely_produce_a_significant_gain() {
    let claims = (100..160).filter(|&seed| {
        let landscape = LandscapeKind::TinyFlat.make(seed);
        let (answer, _) = answered(&landscape, &settings(40.0, seed));
        !answer.shows_no_gain(&landscape.space)
    });
    // With 60 searches at 5 % each, the probability of 8 or more is about 1 %.
    let claims = claims.count();
    assert!(claims < 8, "{claims}");
}

#[test]
fn a_single_effect_is_found_and_no_others() {
    let mut landscape = LandscapeKind::OneEffect.make(170);
    landscape.noise.drift = 0.0;
    let (answer, history) = answered(&landscape, &settings(400.0, 170));
    let of = |factor: usize, level: u16| {
        let wanted = |effect: &&Effect| effect.factor == factor && effect.level == level;
        *answer.effects.iter().find(wanted).expect("every level has an effect")
    };
    let real = of(2, 1);
    assert!(real.interval.0 > 0.05 && real.interval.1 < 0.4, "{real:?}");
    let confident = answer.effects.iter().filter(|effect| {
        (effect.factor, effect.level) != (2, 1)
            && (effect.interval.0 > 0.0 || effect.interval.1 < 0.0)
    });
    assert!(confident.count() <= 4, "hardly any of some forty");
    assert!(!answer.shows_no_gain(&landscape.space), "{:?}", answer.gain);
    assert_eq!(landscape.space.candidates[answer.winner].levels[2], Some(1));
    assert!(history.len() <= 400);
}

/// The number of trials of an effect is that of its level. A level with few of them, or without any
/// under a workload, has no effect: its interval would be that of the model's assumptions.
#[test]
fn effects_are_only_those_that_were_measured() {
    let landscape = LandscapeKind::OneEffect.make(170);
    let mut left_out = 0;
    for trials in [12.0, 30.0, 100.0] {
        let (answer, history) = answered(&landscape, &settings(trials, 170));
        let made = |factor: usize, level: u16| -> Vec<usize> {
            let has = |observation: &&Observation| {
                let candidate = observation.proposal.candidate;
                landscape.space.candidates[candidate].levels[factor] == Some(level)
            };
            let under = |workload: usize| {
                history.iter().filter(has).filter(|of| of.proposal.workload == workload).count()
            };
            (0..landscape.space.workloads.len()).map(under).collect()
        };
        let enough = |factor: usize, level: u16| {
            let made = made(factor, level);
            made.iter().sum::<usize>() >= Effect::MIN_TRIALS && !made.contains(&0)
        };
        for effect in &answer.effects {
            let wanted: usize = made(effect.factor, effect.level).iter().sum();
            let default = landscape.space.factors[effect.factor].default;
            assert!(enough(effect.factor, effect.level), "{trials}: {effect:?}");
            let of_default: usize = made(effect.factor, default).iter().sum();
            assert!(of_default >= Effect::MIN_TRIALS, "{trials}: {effect:?}");
            assert_eq!(effect.trials, wanted, "{trials}: {effect:?}");
        }
        let factors = landscape.space.factors.iter().enumerate();
        for (factor, of) in factors.filter(|_| !answer.effects.is_empty()) {
            let levels = u16::try_from(of.levels.len()).expect("few levels");
            let few = |&level: &u16| {
                made(factor, level).iter().sum::<usize>() > 0 && !enough(factor, level)
            };
            left_out += (0..levels).filter(few).count();
        }
    }
    assert!(left_out > 0, "no level had too few trials");
}

#[test]
fn a_level_with_few_trials_has_no_effect() {
    let landscape = LandscapeKind::OneEffect.make(170);
    let settings = settings(200.0, 170);
    let (found, history) = answered(&landscape, &settings);
    let rarest = found.effects.iter().min_by_key(|effect| effect.trials);
    let effect = *rarest.expect("an effect");
    let has = |of: &Observation| {
        landscape.space.candidates[of.proposal.candidate].levels[effect.factor]
            == Some(effect.level)
    };
    for keep in [1, Effect::MIN_TRIALS - 1] {
        let mut left = keep;
        let mut few = history.clone();
        few.retain(|of| {
            let kept = !has(of) || left > 0;
            left -= usize::from(kept && has(of));
            kept
        });
        let answer = answer(&landscape.space, &few, &settings, found.winner, &[]);
        let same = |other: &Effect| (other.factor, other.level) == (effect.factor, effect.level);
        assert!(!answer.effects.is_empty());
        assert!(!answer.effects.iter().any(same), "{keep}");
    }
}

#[test]
fn the_safest_tied_candidate_is_recommended() {
    let mut landscape = LandscapeKind::TinyFlat.make(171);
    for (index, candidate) in landscape.space.candidates.iter_mut().enumerate() {
        candidate.safety = u8::from(index != 6);
    }
    landscape.noise.sigma = vec![0.002];
    landscape.noise.visit = 0.0;
    let (answer, _) = answered(&landscape, &settings(120.0, 171));
    assert!(answer.ties.iter().any(|tie| tie.candidate == answer.winner));
    let recommended = answer.ties.iter().find(|tie| tie.candidate == answer.recommended);
    assert!(recommended.is_some_and(|tie| tie.trials > 0));
    // The same probability has the same meaning in both places.
    assert_eq!(recommended.map(|tie| tie.within), Some(answer.recommended_within));
    assert_eq!(answer.recommended, 6, "{:?}", answer.ties);
}

#[test]
fn a_sure_search_recommends_what_it_was_sure_of() {
    let mut sure = 0;
    for seed in 0..24 {
        let landscape = small_space(if seed % 2 == 0 { 4 } else { 16 }, 2, seed);
        let settings = settings(120.0, seed);
        let trace = run(&Adaptive::default(), &landscape, &settings).expect("a search");
        let SearchEnd::Confident { .. } = trace.stop else { continue };
        sure += 1;
        let winner = trace.choice.expect("something was measured");
        let answer = answer(&landscape.space, &trace.history, &settings, winner, &[]);
        assert!(answer.recommended_within >= 0.9, "{seed}: {answer:?}");
        let gains = answer.gain.is_some_and(|gain| gain.is_significant());
        assert!(gains || answer.recommended == landscape.space.baseline, "{seed}: {answer:?}");
    }
    assert!(sure > 8, "{sure}");
}

#[test]
fn two_setups_are_not_decided_before_their_difference_is_known() {
    let (mut sure, mut right) = (0, 0);
    for percent in [3, 5, 8] {
        for seed in 300..330 {
            let landscape = pair(f64::from(percent) / 100.0, 1, seed);
            let settings = settings(100.0, seed);
            let trace = run(&Adaptive::default(), &landscape, &settings).expect("a search");
            let SearchEnd::Confident { .. } = trace.stop else { continue };
            let winner = trace.choice.expect("something was measured");
            let answer = answer(&landscape.space, &trace.history, &settings, winner, &[]);
            sure += 1;
            right += usize::from(landscape.regret(answer.recommended) <= 0.02);
        }
    }
    assert!(sure > 30 && 10 * right >= 9 * sure, "{right} of {sure}");
}

/// A budget that ends early would otherwise end with too few rounds for any claim.
#[test]
fn two_setups_are_compared_in_rounds_after_the_first_batch() {
    let (_, history) = answered(&pair(0.08, 1, 1), &settings(24.0, 1));
    let is_search = |of: &&Observation| of.proposal.purpose == Purpose::Search;
    let searched = history.iter().filter(is_search).count();
    let confirmed = history.iter().filter(|of| of.proposal.purpose == Purpose::Confirm).count();
    assert!(searched <= 3 && confirmed >= 2 * MIN_ROUNDS, "{searched} {confirmed}");
}

#[test]
fn a_failed_candidate_is_reported_as_excluded() {
    let mut landscape = LandscapeKind::Tiny.make(172);
    let failing = usize::from(landscape.space.baseline == 0);
    landscape.failing = vec![failing];
    let settings = settings(50.0, 172);
    let trace = run(&Exhaustive, &landscape, &settings).expect("a search");
    let winner = Exhaustive.choice(&landscape.space, &trace.history, &settings).expect("a choice");
    let answer = answer(&landscape.space, &trace.history, &settings, winner, &[]);
    assert_eq!(answer.excluded, vec![(failing, TrialOutcome::Failed)]);
    assert_eq!(answer.gain, None, "nothing was confirmed");
}

#[test]
fn drift_is_found_if_and_only_if_there_is_some() {
    let of = |drift: f64| {
        let mut landscape = LandscapeKind::Tiny.make(173);
        landscape.noise.drift = drift;
        landscape.noise.sigma = vec![0.03];
        let settings = SearchSettings { repeats: 12, ..settings(150.0, 173) };
        let trace = run(&Exhaustive, &landscape, &settings).expect("a search");
        let all: Vec<usize> = (0..landscape.space.candidates.len()).collect();
        let coding = Coding::of(&landscape.space, &all);
        1000.0 * Model::fit(&landscape.space, &coding, &trace.history, Variances::Learned).drift()
    };
    assert!(of(0.0).abs() < 1e-9);
    let found = of(-2.0);
    assert!((-2.4..-1.6).contains(&found), "{found}");
}

#[test]
fn the_posterior_matches_the_closed_form() {
    let space = LandscapeKind::Tiny.make(174).space;
    let all: Vec<usize> = (0..space.candidates.len()).collect();
    let coding = Coding::of(&space, &all);
    let scales = Scales::guess(&coding, 0.05);
    let queried = [0, 3, 7];
    let (_, prior) = MeritSurface::of(&coding, Vec::new(), scales.clone()).joint(&queried);
    let k = |a: usize, b: usize| prior.row(a.max(b))[a.min(b)];
    let point = |candidate: usize, value: f64, variance: f64| MeritEstimate {
        candidate,
        short: false,
        value,
        variance,
    };
    let points = vec![point(0, 0.3, 0.01), point(3, -0.1, 0.02)];
    let surface = MeritSurface::of(&coding, points, scales);
    let (means, covariance) = surface.joint(&queried);
    // K* (K + V)^-1 y with the closed-form inverse of a 2 by 2 matrix.
    let (a, b, d) = (k(0, 0) + 0.01, k(0, 1), k(1, 1) + 0.02);
    let determinant = a * d - b * b;
    let solved = |x: f64, y: f64| ((d * x - b * y) / determinant, (a * y - b * x) / determinant);
    let (first, second) = solved(0.3, -0.1);
    for (row, mean) in means.iter().enumerate() {
        let wanted = k(row, 0) * first + k(row, 1) * second;
        assert!((mean - wanted).abs() < 1e-9);
        assert!((surface.mean(queried[row]) - wanted).abs() < 1e-9);
        let (one, other) = solved(k(row, 0), k(row, 1));
        let left = k(row, row) - k(row, 0) * one - k(row, 1) * other;
        assert!((covariance.row(row)[row] - left).abs() < 1e-9);
    }
}

fn named(factor: &Factor, level: u16) -> String {
    format!("{}={}", factor.name, factor.levels[usize::from(level)])
}

#[test]
fn a_whole_analysis_matches_the_golden_file() {
    let landscape = LandscapeKind::Tiny.make(175);
    let settings = settings(60.0, 175);
    let (answer, history) = answered(&landscape, &settings);
    let space = &landscape.space;
    let percent = |log: f64| 100.0 * log.exp_m1();
    let mut text = String::new();
    let line = &mut text;
    let gain = answer.winner_gain.expect("there was a race");
    let (low, high) = gain.interval.expect("of some rounds");
    writeln!(line, "trials {}", history.len()).expect("text");
    writeln!(line, "winner {} recommended {}", answer.winner, answer.recommended).expect("text");
    writeln!(line, "within {:.2}", answer.within).expect("text");
    writeln!(
        line,
        "gain {:.1} % [{:.1}, {:.1}] in {} rounds",
        percent(gain.mean),
        percent(low),
        percent(high),
        gain.rounds
    )
    .expect("text");
    for effect in &answer.effects {
        writeln!(
            line,
            "effect {} {:.1} % [{:.1}, {:.1}]",
            named(&space.factors[effect.factor], effect.level),
            percent(effect.mean),
            percent(effect.interval.0),
            percent(effect.interval.1)
        )
        .expect("text");
    }
    for tie in &answer.ties {
        writeln!(line, "tie {} {:.1} %", tie.candidate, percent(tie.difference)).expect("text");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/answer.txt");
    flashfit_test_support::golden(path, &text);
}

/// With too few trials to confirm a gain, what the model is sure of is used, and not the baseline.
#[test]
fn a_likely_gain_is_used_before_it_is_shown() {
    let seeds = 200..212;
    let (mut used, mut better) = (0, 0);
    for seed in seeds {
        let landscape = LandscapeKind::Small.make(seed);
        let (answer, history) = answered(&landscape, &settings(60.0, seed));
        let under = |workload: usize| {
            history.iter().any(|made| {
                (made.proposal.candidate, made.proposal.workload) == (answer.winner, workload)
            })
        };
        assert!((0..landscape.space.workloads.len()).all(under), "the choice ran under each");
        if let Some(likely) = answer.likely_gain {
            assert!(answer.shows_no_gain(&landscape.space) && likely.probability >= 0.99);
            let baseline = landscape.merit(landscape.space.baseline);
            used += 1;
            better += usize::from(landscape.merit(answer.recommended) > baseline);
        }
    }
    assert!(used >= 6 && better >= used - 1, "{better} of {used}");
}
