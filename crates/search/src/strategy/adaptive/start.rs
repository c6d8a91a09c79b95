//! The first batch: something of every family, then candidates spread over the space, half of them
//! where the model would know least (which makes them differ in many levels), half at random (so
//! that no two searches start from the same corner); and the reference again for the noise.

use crate::history::{Purpose, TrialLength};
use crate::model::{Coding, MeritEstimate, MeritSurface, Scales, highest};
use crate::space::CandidateIndex;
use crate::strategy::Request;

use super::Situation;

/// The share of the search that the start takes at the most.
const START_SHARE: f64 = 0.35;
/// The share of the search that the reference is tried again with at the start, for the noise; not
/// less than a few trials, and not more often than so many times under each workload.
const SENTINEL_SHARE: f64 = 0.1;
const LEAST_SENTINELS: usize = 3;
const SENTINELS_A_WORKLOAD: usize = 3;
/// How many candidates are compared when one is sought that is unlike those before.
const COMPARED: usize = 40;
/// What merits are taken to vary, and a trial to be noisy, before anything is known.
const GUESSED_VARIANCE: f64 = 0.04;
const GUESSED_NOISE: f64 = 0.003;
/// So many visits a search should have room for: with fewer, each is under fewer workloads. Single
/// workloads tell as much, as all are fitted at once, and fewer trials share what a visit has in
/// common.
const VISITS: f64 = 400.0;

impl Situation<'_> {
    /// How many workloads a candidate is tried under when it is visited: half of them at the most,
    /// so that more candidates are seen; others when it is visited again.
    pub(super) fn per_visit(&self) -> usize {
        let workloads = self.workloads();
        let length =
            if self.limits.short.is_some() { TrialLength::Short } else { TrialLength::Full };
        let most = self.search_share() / self.limits.cost(length) / VISITS;
        workloads.div_ceil(2).min(most.round() as usize).max(1)
    }

    /// The first batch.
    pub(super) fn start(&mut self, coding: &Coding) -> Vec<Request> {
        let length =
            if self.limits.short.is_some() { TrialLength::Short } else { TrialLength::Full };
        let workloads = self.workloads();
        let per_visit = self.per_visit();
        let trials = self.search_share() / self.limits.cost(length);
        let mut visited = self.of_each_family();
        let most = (START_SHARE * trials / per_visit as f64) as usize;
        let wanted = coding.mains().min(most).min(self.eligible.len() / 2).max(visited.len());
        self.spread(coding, &mut visited, wanted);
        let mut wishes = Vec::new();
        let mut counts = vec![0usize; workloads];
        for &candidate in &visited {
            let mut order: Vec<usize> = (0..workloads).collect();
            self.random.shuffle(&mut order);
            order.sort_by_key(|&workload| counts[workload]);
            for &workload in order.iter().take(per_visit) {
                counts[workload] += 1;
                wishes.push(Self::wish(candidate, workload, length));
            }
        }
        // A budget that is spent within the start has then tried something of each family.
        let families = self.space.families().len().min(visited.len());
        let mut first: Vec<Request> = Vec::new();
        for candidate in &visited[..families] {
            let at = wishes.iter().position(|wish| wish.candidate == *candidate);
            first.extend(at.map(|at| wishes.remove(at)));
        }
        first.extend(wishes);
        // Those workloads first under which the reference is tried anyway.
        let reference = self.space.reference;
        let mut order: Vec<usize> = (0..workloads).collect();
        order.sort_by_key(|workload| {
            !first.iter().any(|wish| wish.candidate == reference && wish.workload == *workload)
        });
        let repeats = ((SENTINEL_SHARE * trials) as usize)
            .max(LEAST_SENTINELS)
            .min(SENTINELS_A_WORKLOAD * workloads);
        first.extend(order.iter().cycle().take(repeats).map(|&workload| Request {
            purpose: Purpose::Sentinel,
            ..Self::wish(reference, workload, length)
        }));
        first
    }

    /// Of each family the candidate that is nearest to its defaults, the reference first.
    fn of_each_family(&self) -> Vec<CandidateIndex> {
        let reference = self.space.reference;
        let nearest = |family: &Vec<CandidateIndex>| {
            if family.contains(&reference) && self.table.out(reference).is_none() {
                return Some(reference);
            }
            let eligible = family.iter().filter(|index| self.eligible.binary_search(index).is_ok());
            eligible.min_by_key(|index| self.space.candidates[**index].distance).copied()
        };
        let mut found: Vec<CandidateIndex> =
            self.space.families().iter().filter_map(nearest).collect();
        found.sort_by_key(|index| *index != reference);
        found
    }

    /// Adds candidates until there are `wanted`.
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
