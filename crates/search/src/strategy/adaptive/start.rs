//! The first batch: the candidate closest to the defaults of each family, then candidates spread
//! over the space, and repeats of the baseline to estimate the noise.
//!
//! Half of the spread candidates are those about which the model would know least, so they differ
//! in many levels. The other half is random, so different seeds start differently.

use crate::history::{Purpose, TrialLength};
use crate::model::{Coding, MeritEstimate, MeritSurface, Scales, highest};
use crate::prior::PriorMean;
use crate::space::CandidateIndex;
use crate::strategy::Request;

use super::PlanContext;

/// The largest share of the search budget that the first batch takes.
const START_SHARE: f64 = 0.35;
/// The share of the search budget for repeats of the baseline in the first batch, with its bounds.
const BASELINE_SHARE: f64 = 0.1;
const MIN_BASELINE_TRIALS: usize = 3;
const MAX_BASELINE_TRIALS_PER_WORKLOAD: usize = 3;
/// Candidates compared when looking for one that differs from those already chosen.
const COMPARED: usize = 40;
/// The variance of merits and of a trial's noise assumed before anything is measured.
const GUESSED_VARIANCE: f64 = 0.04;
const GUESSED_NOISE: f64 = 0.003;
/// The number of visits that a search should have room for. With fewer, each visit covers fewer
/// workloads. Single workloads are as informative, because all are fitted together, and fewer
/// trials then share the effect of a visit.
const VISITS: f64 = 400.0;
/// With a prior, the first batch is smaller by this factor.
const LESS_WITH_PRIOR: usize = 2;

impl PlanContext<'_> {
    /// Workloads per visit: half of them at most, so that more candidates are seen. The next visit
    /// to the candidate covers others.
    pub(super) fn per_visit(&self) -> usize {
        let workloads = self.workloads();
        let length =
            if self.settings.short.is_some() { TrialLength::Short } else { TrialLength::Full };
        let most = self.search_share() / self.settings.cost(length) / VISITS;
        workloads.div_ceil(2).min(most.round() as usize).max(1)
    }

    pub(super) fn start(&mut self, coding: &Coding, prior: Option<&PriorMean>) -> Vec<Request> {
        let length =
            if self.settings.short.is_some() { TrialLength::Short } else { TrialLength::Full };
        let workloads = self.workloads();
        let per_visit = self.per_visit();
        let trials = self.search_share() / self.settings.cost(length);
        let mut visited = self.of_each_family();
        let most = (START_SHARE * trials / per_visit as f64) as usize;
        let wanted = coding.mains().min(most).min(self.eligible.len() / 2).max(visited.len());
        let wanted = match prior {
            Some(prior) => self.add_promising(prior, &mut visited, wanted),
            None => wanted,
        };
        self.spread(coding, &mut visited, wanted);
        let mut requests = Vec::new();
        let mut counts = vec![0usize; workloads];
        for &candidate in &visited {
            let mut order: Vec<usize> = (0..workloads).collect();
            self.random.shuffle(&mut order);
            order.sort_by_key(|&workload| counts[workload]);
            for &workload in order.iter().take(per_visit) {
                counts[workload] += 1;
                requests.push(Self::request(candidate, workload, length));
            }
        }
        // One trial of each family comes first, in case the budget ends within this batch.
        let families = self.space.families().len().min(visited.len());
        let mut first: Vec<Request> = Vec::new();
        for candidate in &visited[..families] {
            let at = requests.iter().position(|request| request.candidate == *candidate);
            first.extend(at.map(|at| requests.remove(at)));
        }
        first.extend(requests);
        let table = &self.table;
        first.retain(|request| {
            let made = table.cell(request.candidate, request.workload);
            !made.iter().any(|made| made.proposal.length == request.length)
        });
        // Start with the workloads under which the baseline is measured anyway.
        let baseline = self.space.baseline;
        let mut order: Vec<usize> = (0..workloads).collect();
        order.sort_by_key(|workload| {
            !first
                .iter()
                .any(|request| request.candidate == baseline && request.workload == *workload)
        });
        let repeats = ((BASELINE_SHARE * trials) as usize)
            .max(MIN_BASELINE_TRIALS)
            .min(MAX_BASELINE_TRIALS_PER_WORKLOAD * workloads);
        // What else is in the budget is needed to confirm a setup.
        let repeats = repeats.min((trials as usize).saturating_sub(first.len())).max(1);
        first.extend(order.iter().cycle().take(repeats).map(|&workload| Request {
            purpose: Purpose::Baseline,
            ..Self::request(baseline, workload, length)
        }));
        first
    }

    /// The candidate closest to the defaults of each family, the baseline first.
    fn of_each_family(&self) -> Vec<CandidateIndex> {
        let baseline = self.space.baseline;
        let nearest = |family: &Vec<CandidateIndex>| {
            if family.contains(&baseline) && self.table.excluded(baseline).is_none() {
                return Some(baseline);
            }
            let eligible = family.iter().filter(|index| self.eligible.binary_search(index).is_ok());
            eligible.min_by_key(|index| self.space.candidates[**index].distance).copied()
        };
        let mut found: Vec<CandidateIndex> =
            self.space.families().iter().filter_map(nearest).collect();
        found.sort_by_key(|index| *index != baseline);
        found
    }

    /// Adds the best candidates by the prior, and returns how many candidates there should be in
    /// all: some that are spread show whether the prior holds.
    fn add_promising(
        &self,
        prior: &PriorMean,
        visited: &mut Vec<CandidateIndex>,
        wanted: usize,
    ) -> usize {
        let wanted = (wanted / LESS_WITH_PRIOR).max(visited.len());
        let mut best: Vec<CandidateIndex> =
            self.eligible.iter().copied().filter(|index| !visited.contains(index)).collect();
        best.sort_by(|a, b| prior.merit(*b).total_cmp(&prior.merit(*a)).then(a.cmp(b)));
        let count = wanted.div_ceil(2);
        visited.extend(best.into_iter().take(count));
        wanted.max(visited.len() + wanted / 4).min(self.eligible.len() / 2).max(visited.len())
    }

    /// Adds candidates until there are `wanted` of them.
    fn spread(&mut self, coding: &Coding, visited: &mut Vec<CandidateIndex>, wanted: usize) {
        let scales = Scales::guess(coding, GUESSED_VARIANCE);
        while visited.len() < wanted {
            let fresh: Vec<CandidateIndex> = (0..COMPARED)
                .map(|_| self.eligible[self.random.below(self.eligible.len())])
                .filter(|index| !visited.contains(index))
                .collect();
            let Some(&any) = fresh.first() else { continue };
            if visited.len() % 2 == 0 {
                visited.push(any);
                continue;
            }
            let points = visited
                .iter()
                .map(|&candidate| MeritEstimate {
                    candidate,
                    short: false,
                    value: 0.0,
                    variance: GUESSED_NOISE,
                })
                .collect();
            let (_, covariance) = MeritSurface::of(coding, points, scales.clone()).joint(&fresh);
            let doubts: Vec<f64> = (0..fresh.len()).map(|at| covariance.row(at)[at]).collect();
            visited.push(highest(&doubts).map_or(any, |(at, _)| fresh[at]));
        }
    }
}
