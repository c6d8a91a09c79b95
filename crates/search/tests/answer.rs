//! What is answered: effects that are there, gains that are not, ties and what is recommended of
//! them, and a golden file of a whole answer.

use std::fmt::Write as _;

use flashfit_search::landscape::{Landscape, LandscapeKind, run};
use flashfit_search::model::{Coding, MeritEstimate, MeritSurface, Model, Scales, Variances};
use flashfit_search::{
    Adaptive, Answer, Exhaustive, Factor, Limits, Observation, Strategy, TrialOutcome, answer,
};

fn limits(trials: f64, seed: u64) -> Limits {
    Limits { trials: Some(trials), seed, ..Limits::default() }
}

fn answered(landscape: &Landscape, limits: &Limits) -> (Answer, Vec<Observation>) {
    let trace = run(&Adaptive::default(), landscape, limits).expect("a search");
    let winner = trace.choice.expect("something was measured");
    (answer(&landscape.space, &trace.history, limits, winner, &[]), trace.history)
}

#[test]
fn where_all_are_equal_a_gain_is_hardly_ever_claimed() {
    let claims = (100..160).filter(|&seed| {
        let landscape = LandscapeKind::TinyFlat.make(seed);
        let (answer, _) = answered(&landscape, &limits(40.0, seed));
        !answer.nothing_gained(&landscape.space)
    });
    // Of 60 searches at 5 % each, 8 or more would be a chance of one in a hundred.
    let claims = claims.count();
    assert!(claims < 8, "{claims}");
}

#[test]
fn the_one_effect_is_found_and_the_others_are_not() {
    let mut landscape = LandscapeKind::OneEffect.make(170);
    landscape.noise.drift = 0.0;
    let (answer, history) = answered(&landscape, &limits(400.0, 170));
    let of = |factor: usize, level: u16| {
        let wanted =
            |effect: &&flashfit_search::Effect| effect.factor == factor && effect.level == level;
        *answer.effects.iter().find(wanted).expect("every level has an effect")
    };
    let real = of(2, 1);
    assert!(real.interval.0 > 0.1 && real.interval.1 < 0.4, "{real:?}");
    let sure = answer.effects.iter().filter(|effect| {
        (effect.factor, effect.level) != (2, 1)
            && (effect.interval.0 > 0.0 || effect.interval.1 < 0.0)
    });
    assert!(sure.count() <= 4, "hardly any of some forty");
    assert!(!answer.nothing_gained(&landscape.space), "{:?}", answer.gain);
    assert_eq!(landscape.space.candidates[answer.winner].levels[2], Some(1));
    assert!(history.len() <= 400);
}

#[test]
fn of_what_cannot_be_told_apart_the_safest_is_recommended() {
    let mut landscape = LandscapeKind::TinyFlat.make(171);
    for (index, candidate) in landscape.space.candidates.iter_mut().enumerate() {
        candidate.safety = u8::from(index != 6);
    }
    landscape.noise.sigma = vec![0.002];
    landscape.noise.visit = 0.0;
    let (answer, _) = answered(&landscape, &limits(120.0, 171));
    assert!(answer.ties.iter().any(|tie| tie.candidate == answer.winner));
    let recommended = answer.ties.iter().find(|tie| tie.candidate == answer.recommended);
    assert!(recommended.is_some_and(|tie| tie.measured && tie.within >= 0.5));
    assert_eq!(answer.recommended, 6, "{:?}", answer.ties);
}

#[test]
fn a_failing_candidate_is_told_of() {
    let mut landscape = LandscapeKind::Tiny.make(172);
    let failing = usize::from(landscape.space.reference == 0);
    landscape.failing = vec![failing];
    let limits = limits(50.0, 172);
    let trace = run(&Exhaustive, &landscape, &limits).expect("a search");
    let winner = Exhaustive.choice(&landscape.space, &trace.history, &limits).expect("a choice");
    let answer = answer(&landscape.space, &trace.history, &limits, winner, &[]);
    assert_eq!(answer.out, vec![(failing, TrialOutcome::Failed)]);
    assert_eq!(answer.gain, None, "nothing was confirmed");
}

#[test]
fn drift_is_found_where_it_is_and_only_there() {
    let of = |drift: f64| {
        let mut landscape = LandscapeKind::Tiny.make(173);
        landscape.noise.drift = drift;
        landscape.noise.sigma = vec![0.03];
        let limits = Limits { repeats: 12, ..limits(150.0, 173) };
        let trace = run(&Exhaustive, &landscape, &limits).expect("a search");
        let all: Vec<usize> = (0..landscape.space.candidates.len()).collect();
        let coding = Coding::of(&landscape.space, &all);
        1000.0 * Model::fit(&landscape.space, &coding, &trace.history, Variances::Learned).drift()
    };
    assert!(of(0.0).abs() < 1e-9);
    let found = of(-2.0);
    assert!((-2.4..-1.6).contains(&found), "{found}");
}

#[test]
fn the_posterior_is_the_one_of_the_textbook() {
    let space = LandscapeKind::Tiny.make(174).space;
    let all: Vec<usize> = (0..space.candidates.len()).collect();
    let coding = Coding::of(&space, &all);
    let scales = Scales::guess(&coding, 0.05);
    let asked = [0, 3, 7];
    let (_, prior) = MeritSurface::of(&coding, Vec::new(), scales.clone()).joint(&asked);
    let k = |a: usize, b: usize| prior.row(a.max(b))[a.min(b)];
    let point = |candidate: usize, value: f64, variance: f64| MeritEstimate {
        candidate,
        short: false,
        value,
        variance,
    };
    let points = vec![point(0, 0.3, 0.01), point(3, -0.1, 0.02)];
    let surface = MeritSurface::of(&coding, points, scales);
    let (means, covariance) = surface.joint(&asked);
    // K* (K + V)^-1 y by the inverse of a matrix of two rows.
    let (a, b, d) = (k(0, 0) + 0.01, k(0, 1), k(1, 1) + 0.02);
    let determinant = a * d - b * b;
    let solved = |x: f64, y: f64| ((d * x - b * y) / determinant, (a * y - b * x) / determinant);
    let (first, second) = solved(0.3, -0.1);
    for (row, mean) in means.iter().enumerate() {
        let wanted = k(row, 0) * first + k(row, 1) * second;
        assert!((mean - wanted).abs() < 1e-9);
        assert!((surface.mean(asked[row]) - wanted).abs() < 1e-9);
        let (one, other) = solved(k(row, 0), k(row, 1));
        let left = k(row, row) - k(row, 0) * one - k(row, 1) * other;
        assert!((covariance.row(row)[row] - left).abs() < 1e-9);
    }
}

/// A factor's level by name.
fn named(factor: &Factor, level: u16) -> String {
    format!("{}={}", factor.name, factor.levels[usize::from(level)])
}

#[test]
fn a_whole_answer_is_as_it_was() {
    let landscape = LandscapeKind::Tiny.make(175);
    let limits = limits(60.0, 175);
    let (answer, history) = answered(&landscape, &limits);
    let space = &landscape.space;
    let percent = |log: f64| 100.0 * log.exp_m1();
    let mut text = String::new();
    let line = &mut text;
    let gain = answer.gain.expect("there was a race");
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
    if std::env::var_os("FLASHFIT_BLESS").is_some() {
        std::fs::write(path, &text).expect("the golden file can be written");
    }
    assert_eq!(text, std::fs::read_to_string(path).expect("the golden file"));
}
