//! How often the interval of an effect contains the true effect.

use flashfit_search::landscape::{Landscape, LandscapeKind, run};
use flashfit_search::{Adaptive, Effect, SearchSettings, answer};

/// The true effect of a level, averaged over the other factors.
fn truth(landscape: &Landscape, effect: &Effect) -> Option<f64> {
    let candidates = &landscape.space.candidates;
    let default = landscape.space.factors[effect.factor].default;
    let mut differences = Vec::new();
    for (at, candidate) in candidates.iter().enumerate() {
        if candidate.levels[effect.factor] == Some(effect.level) {
            let mut wanted = candidate.levels.clone();
            wanted[effect.factor] = Some(default);
            let without = candidates.iter().position(|other| other.levels == wanted)?;
            differences.push(landscape.merit(at) - landscape.merit(without));
        }
    }
    let count = differences.len() as f64;
    (count > 0.0).then(|| differences.iter().sum::<f64>() / count)
}

/// Effects listed with so many trials for each workload, and how many intervals contain the truth.
fn coverage(workloads: usize, trials_per_workload: usize) -> (usize, usize) {
    let (mut listed, mut right) = (0, 0);
    for seed in 500..515 {
        let mut landscape = LandscapeKind::Small.make(seed);
        landscape.space.workloads.truncate(workloads);
        landscape.truth.iter_mut().for_each(|row| row.truncate(workloads));
        let trials = Some((workloads * trials_per_workload) as f64);
        let settings = SearchSettings { trials, seed, ..SearchSettings::default() };
        let trace = run(&Adaptive::default(), &landscape, &settings).expect("a search");
        let winner = trace.choice.expect("something was measured");
        let found = answer(&landscape.space, &trace.history, &settings, winner, &[]);
        // The effect of the family is that of its default setup, not a mean.
        for effect in found.effects.iter().filter(|effect| effect.factor > 0) {
            let Some(truth) = truth(&landscape, effect) else { continue };
            listed += 1;
            right += usize::from((effect.interval.0..=effect.interval.1).contains(&truth));
        }
    }
    (listed, right)
}

#[test]
fn intervals_of_effects_contain_the_truth() {
    for (workloads, trials_per_workload, is_listed) in
        [(2, 4, false), (6, 2, false), (2, 16, true), (6, 20, true)]
    {
        let (listed, right) = coverage(workloads, trials_per_workload);
        assert_eq!(listed > 50, is_listed, "{workloads} x {trials_per_workload}: {listed}");
        let share = right as f64 / listed.max(1) as f64;
        assert!(listed == 0 || share > 0.9, "{workloads} x {trials_per_workload}: {share}");
    }
}
