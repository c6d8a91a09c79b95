//! Which setups of a twin run first on the device.
//!
//! A twin errs alike on setups that are alike: on all of a file system, and on all with an option.
//! So the best few on the twin, which often differ by an option without effect, are all wrong
//! together. Chosen are those that most likely include a very good one: the errors of file systems
//! and of options are drawn many times, and each next finalist is the one that increases the mean
//! of the best finalist most.
//!
//! Limits: errors of all file systems, and of all options, are assumed to be as large, and
//! independent.

use crate::random::RandomStream;
use crate::space::{CandidateIndex, Factor, FactorRole, SearchSpace};

/// The standard deviations of a twin's error for a file system and for an option, as logarithms. On
/// four drawn cards, half of the setups were off by 0.01 to 0.11 from the median setup.
const FAMILY_ERROR_SD: f64 = 0.08;
const OPTION_ERROR_SD: f64 = 0.05;
/// The errors that are drawn, and the best setups on the twin that are considered.
const DRAWS: usize = 400;
const CONSIDERED: usize = 60;
const SEED: u64 = 0x6669_6e61_6c69_7374;

/// At most `count` of these candidates, the best on the twin first.
pub fn finalists(
    space: &SearchSpace,
    candidates: &[CandidateIndex],
    merit: impl Fn(CandidateIndex) -> f64,
    count: usize,
) -> Vec<CandidateIndex> {
    let mut rest = candidates.to_vec();
    rest.sort_by(|a, b| merit(*b).total_cmp(&merit(*a)).then(a.cmp(b)));
    rest.truncate(CONSIDERED);
    let mut random = RandomStream::new(SEED);
    let draws: Vec<Errors> = (0..DRAWS).map(|_| Errors::draw(space, &mut random)).collect();
    let merits = |candidate: CandidateIndex| -> Vec<f64> {
        draws.iter().map(|errors| merit(candidate) + errors.of(space, candidate)).collect()
    };
    let mut rest: Vec<(CandidateIndex, Vec<f64>)> =
        rest.into_iter().map(|candidate| (candidate, merits(candidate))).collect();
    if rest.is_empty() || count == 0 {
        return Vec::new();
    }
    let (first, mut best) = rest.remove(0);
    let mut chosen = vec![first];
    while chosen.len() < count && !rest.is_empty() {
        let with = |merits: &[f64]| -> f64 {
            best.iter().zip(merits).map(|(best, merit)| best.max(*merit)).sum()
        };
        let better = |one: &usize, other: &usize| {
            with(&rest[*one].1).total_cmp(&with(&rest[*other].1)).then(other.cmp(one))
        };
        let next = (0..rest.len()).max_by(better).expect("some are left");
        let (candidate, merits) = rest.remove(next);
        best = best.iter().zip(&merits).map(|(best, merit)| best.max(*merit)).collect();
        chosen.push(candidate);
    }
    chosen
}

/// The errors of a twin, by factor and level.
struct Errors(Vec<Vec<f64>>);

impl Errors {
    fn draw(space: &SearchSpace, random: &mut RandomStream) -> Self {
        let of = |factor: &Factor| {
            let is_family = factor.role == FactorRole::Family;
            let sd = if is_family { FAMILY_ERROR_SD } else { OPTION_ERROR_SD };
            (0..factor.levels.len()).map(|_| sd * random.normal()).collect()
        };
        Self(space.factors.iter().map(of).collect())
    }

    fn of(&self, space: &SearchSpace, candidate: CandidateIndex) -> f64 {
        let levels = space.factors.iter().zip(&space.candidates[candidate].levels).zip(&self.0);
        let errors = levels.filter_map(|((factor, level), errors)| {
            let level = (*level)?;
            // A default option is the file system itself.
            let is_itself = factor.role != FactorRole::Family && level == factor.default;
            (!is_itself).then(|| errors[usize::from(level)])
        });
        errors.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{Candidate, Weighted};

    /// Three file systems; the first has an option without effect on the twin, `sync`.
    fn space() -> SearchSpace {
        let factor = |name: &str, levels: &[&str], role| Factor {
            name: name.to_owned(),
            levels: levels.iter().map(|&level| level.to_owned()).collect(),
            role,
            default: 0,
        };
        let on_or_off = ["off", "on"];
        let candidate = |levels: &[Option<u16>]| Candidate {
            levels: levels.to_vec(),
            allowed: true,
            safety: 0,
            distance: 0,
        };
        SearchSpace {
            factors: vec![
                factor("file system", &["xfs", "ext4", "f2fs"], FactorRole::Family),
                factor("sync", &on_or_off, FactorRole::Choice),
                factor("journal", &on_or_off, FactorRole::Choice),
            ],
            candidates: vec![
                candidate(&[Some(0), Some(0), None]),
                candidate(&[Some(0), Some(1), None]),
                candidate(&[Some(1), None, Some(0)]),
                candidate(&[Some(1), None, Some(1)]),
                candidate(&[Some(2), None, None]),
            ],
            workloads: vec![Weighted { name: "one".to_owned(), weight: 1.0 }],
            baseline: 2,
        }
    }

    #[test]
    fn finalists_differ_where_the_twin_hardly_does() {
        let (space, all) = (space(), [0, 1, 2, 3, 4]);
        let near = [0.03, 0.029, 0.01, -0.5, 0.02];
        let chosen = finalists(&space, &all, |candidate| near[candidate], 3);
        assert_eq!(chosen[0], 0, "the best on the twin");
        assert!(chosen.contains(&4) && chosen.contains(&2), "{chosen:?}");
    }

    #[test]
    fn finalists_are_the_best_where_the_twin_tells_them_apart() {
        let (space, all) = (space(), [0, 1, 2, 3, 4]);
        let far = [1.0, 0.95, -1.0, -2.0, -0.5];
        assert_eq!(finalists(&space, &all, |candidate| far[candidate], 2), [0, 1]);
        assert_eq!(finalists(&space, &all, |candidate| far[candidate], 9).len(), 5);
        assert!(finalists(&space, &[], |candidate| far[candidate], 2).is_empty());
    }
}
