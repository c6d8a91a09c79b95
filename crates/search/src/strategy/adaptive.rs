//! The adaptive search: a designed start, then trials where they may matter, then a race of the
//! finalists with fresh full-length trials beside the untuned reference.

use std::sync::Mutex;

use crate::history::{Length, Purpose, Table, Told};
use crate::limits::Limits;
use crate::model::{Belief, Coding, Model, Point, Scales, Surface, highest};
use crate::random::Random;
use crate::space::{CandidateIndex, SearchSpace};

use super::{Plan, Stop, Strategy, Wish};

/// The adaptive search.
#[derive(Debug, Default)]
pub struct Adaptive {
    /// The variances that were learned last, with what they were learned from: thinking that need
    /// not be done again. What is in here never changes an answer.
    learned: Mutex<Option<(usize, u64, Scales)>>,
    /// Scratch tuning.
    pub t: Tuning,
}

/// scratch
#[derive(Debug, Clone)]
pub struct Tuning {
    /// share for race
    pub race: f64,
    /// visits per batch
    pub batch: usize,
    /// share of workloads per visit
    pub share: f64,
    /// start visits per main column
    pub start: f64,
    /// Search full-length part
    pub full_late: f64,
    /// finalists
    pub finalists: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { race: 0.3, batch: 6, share: 0.5, start: 1.0, full_late: 0.6, finalists: 6 }
    }
}

/// What a plan is made with.
struct Thought<'a> {
    space: &'a SearchSpace,
    limits: &'a Limits,
    history: &'a [Told],
    table: Table,
    eligible: Vec<CandidateIndex>,
    random: Random,
    t: &'a Tuning,
}

impl Strategy for Adaptive {
    fn plan(&self, space: &SearchSpace, history: &[Told], limits: &Limits) -> Plan {
        let mut thought = Thought::new(space, history, limits, &self.t);
        if thought.eligible.is_empty() {
            return Plan::Done(Stop::Exhausted);
        }
        let interest = thought.interest();
        let coding = Coding::of(space, &interest);
        if !history.iter().any(|told| told.log_merit().is_some()) {
            return Plan::Try(thought.start(&coding));
        }
        let scales = self.scales(&thought, &coding);
        let model = Model::fit(space, &coding, history, Some(scales));
        let belief = Belief::of(&model, &thought.eligible, limits.goal.within, &mut thought.random);
        let racing = history.iter().any(|told| told.ask.purpose == Purpose::Confirm);
        let search_spent: f64 = history
            .iter()
            .filter(|told| told.ask.purpose != Purpose::Confirm)
            .map(|told| limits.cost(told.ask.length))
            .sum();
        let (_, probability) = belief.choice().unwrap_or((0, 0.0));
        let share = thought.search_share();
        let sure = probability >= limits.goal.probability + 0.05;
        if !racing && !sure && search_spent + 1.0 <= share {
            return Plan::Try(thought.explore(&coding, &model, &belief, share - search_spent));
        }
        thought.race(&belief, probability)
    }

    fn most_trials(&self, space: &SearchSpace, limits: &Limits) -> f64 {
        let _ = space;
        limits.trials.unwrap_or(2000.0)
    }

    fn choice(
        &self,
        space: &SearchSpace,
        history: &[Told],
        limits: &Limits,
    ) -> Option<CandidateIndex> {
        let mut thought = Thought::new(space, history, limits, &self.t);
        if thought.eligible.is_empty() || !history.iter().any(|told| told.log_merit().is_some()) {
            return None;
        }
        let coding = Coding::of(space, &thought.interest());
        let scales = self.scales(&thought, &coding);
        let model = Model::fit(space, &coding, history, Some(scales));
        let raced = thought.raced();
        let among = if raced.is_empty() { thought.eligible.clone() } else { raced };
        let belief = Belief::of(&model, &among, limits.goal.within, &mut thought.random);
        highest(&belief.means).map(|(at, _)| belief.candidates[at])
    }
}

impl Adaptive {
    /// The variances, learned from the history up to the last size at which they are.
    fn scales(&self, thought: &Thought, coding: &Coding) -> Scales {
        let known = learning_size(thought.history.len());
        let prefix = &thought.history[..known];
        let mark = fingerprint(prefix);
        let mut learned = self.learned.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((size, other, scales)) = &*learned {
            if *size == known && *other == mark {
                return scales.clone();
            }
        }
        let scales = Model::fit(thought.space, coding, prefix, None).surface().scales().clone();
        *learned = Some((known, mark, scales.clone()));
        scales
    }
}

/// The sizes at which variances are learned grow by a fifth.
fn learning_size(trials: usize) -> usize {
    let mut size: usize = 8;
    while size + size.div_ceil(5) <= trials {
        size += size.div_ceil(5);
    }
    size.min(trials)
}

/// A number that tells histories apart (FNV-1a).
fn fingerprint(history: &[Told]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for told in history {
        let merit = told.log_merit().unwrap_or(f64::NAN).to_bits();
        for part in [told.ask.candidate as u64, told.ask.workload as u64, merit] {
            hash = (hash ^ part).wrapping_mul(0x0100_0000_01b3);
            hash ^= hash >> 29;
        }
    }
    hash
}

impl<'a> Thought<'a> {
    fn new(space: &'a SearchSpace, history: &'a [Told], limits: &'a Limits, t: &'a Tuning) -> Self {
        let table = Table::of(history, |_| true);
        let eligible = (0..space.candidates.len())
            .filter(|&index| space.candidates[index].allowed && table.out(index).is_none())
            .collect();
        let random = Random::stream(limits.seed, history.len() as u64 + 1);
        Self { space, limits, history, table, eligible, random, t }
    }

    fn interest(&self) -> Vec<CandidateIndex> {
        let space = self.space;
        (0..space.candidates.len())
            .filter(|&index| space.candidates[index].allowed || index == space.reference)
            .collect()
    }

    fn workloads(&self) -> usize {
        self.space.workloads.len()
    }

    fn length(&self) -> Length {
        if self.limits.short.is_some() { Length::Short } else { Length::Full }
    }

    /// How much may be spent before the race.
    fn search_share(&self) -> f64 {
        let Some(total) = self.limits.trials else { return 2000.0 };
        let pair = 2.0 * 2.0 * self.workloads() as f64;
        let race = (self.t.race * total).max(pair);
        if race > 0.5 * total { total } else { total - race }
    }

    fn per_visit(&self) -> usize {
        let workloads = self.workloads();
        let mut few = (workloads as f64 * self.t.share).round() as usize;
        if let Some(total) = self.limits.trials {
            let trials = self.search_share() / self.limits.cost(self.length());
            let _ = total;
            few = few.min((trials / 60.0).round() as usize);
        }
        few.clamp(1.min(workloads), workloads).max(if workloads > 3 { 2 } else { 1 })
    }

    fn wish(&self, candidate: CandidateIndex, workload: usize, length: Length) -> Wish {
        Wish { candidate, workload, length, purpose: Purpose::Search }
    }

    /// The first batch.
    fn start(&mut self, coding: &Coding) -> Vec<Wish> {
        let length = self.length();
        let per_visit = self.per_visit();
        let share = self.search_share() / self.limits.cost(length);
        let mut wishes = Vec::new();
        let families = self.space.families();
        // Something of each family first.
        let mut visited: Vec<CandidateIndex> = Vec::new();
        for family in &families {
            let nearest = family
                .iter()
                .filter(|index| self.eligible.contains(index))
                .min_by_key(|index| self.space.candidates[**index].distance);
            visited.extend(nearest);
        }
        let reference = self.space.reference;
        visited.retain(|&index| index != reference);
        if self.table.out(reference).is_none() {
            visited.insert(0, reference);
        }
        let most = (0.35 * share / per_visit as f64) as usize;
        let wanted = ((coding.mains() as f64 * self.t.start) as usize)
            .min(most)
            .min(self.eligible.len() / 2)
            .max(visited.len().min(most.max(families.len())));
        // Half of it where the model would know least, half at random.
        let scales = Scales::guess(coding, 0.04);
        let mut points: Vec<Point> = visited.iter().map(|&c| prior_point(c)).collect();
        while visited.len() < wanted {
            let draws: Vec<CandidateIndex> =
                (0..40).map(|_| self.eligible[self.random.below(self.eligible.len())]).collect();
            let next = if visited.len() % 2 == 0 {
                draws[0]
            } else {
                let surface = Surface::of(coding, points.clone(), scales.clone());
                let (_, covariance) = surface.joint(&draws);
                let doubts: Vec<f64> = (0..draws.len()).map(|at| covariance.row(at)[at]).collect();
                highest(&doubts).map_or(draws[0], |(at, _)| draws[at])
            };
            if visited.contains(&next) {
                if visited.len() >= self.eligible.len() {
                    break;
                }
                points.push(prior_point(next));
                continue;
            }
            visited.push(next);
            points.push(prior_point(next));
        }
        let mut counts = vec![0usize; self.workloads()];
        for (at, &candidate) in visited.iter().enumerate() {
            let few = if at == 0 { self.workloads() } else { per_visit };
            let mut order: Vec<usize> = (0..self.workloads()).collect();
            self.random.shuffle(&mut order);
            order.sort_by_key(|&workload| counts[workload]);
            for &workload in order.iter().take(few) {
                counts[workload] += 1;
                wishes.push(self.wish(candidate, workload, length));
            }
        }
        // The reference again, for the noise.
        let repeats = if share > 12.0 * self.workloads() as f64 { 2 } else { 1 };
        if share > 4.0 * self.workloads() as f64 || self.workloads() == 1 {
            for _ in 0..repeats {
                for workload in 0..self.workloads() {
                    wishes.push(Wish {
                        purpose: Purpose::Sentinel,
                        ..self.wish(reference, workload, length)
                    });
                }
            }
        }
        wishes
    }

    /// A batch of the search.
    fn explore(&mut self, coding: &Coding, model: &Model, belief: &Belief, left: f64) -> Vec<Wish> {
        let _ = (coding, model);
        let mut visits: Vec<CandidateIndex> = Vec::new();
        let batch = self.t.batch.max(model.measured().count() / 12);
        let mut tries = 0;
        while visits.len() < batch && tries < 200 {
            tries += 1;
            let slot = visits.len() % 6;
            let next = match slot {
                0..=3 => self.top_two(belief),
                4 => self.neighbour(belief),
                _ => self.plausible(belief),
            };
            if let Some(next) = next {
                if !visits.contains(&next) || tries > 50 {
                    visits.push(next);
                }
            }
        }
        let late = self.limits.trials.is_some() && left < self.t.full_late * self.search_share();
        let length = if late { Length::Full } else { self.length() };
        let per_visit = self.per_visit();
        let mut wishes = Vec::new();
        for candidate in visits {
            let mut order: Vec<usize> = (0..self.workloads()).collect();
            self.random.shuffle(&mut order);
            order.sort_by_key(|&workload| self.table.cell(candidate, workload).len());
            for &workload in order.iter().take(per_visit) {
                wishes.push(self.wish(candidate, workload, length));
            }
        }
        let mut left = left;
        wishes.retain(|wish| {
            left -= self.limits.cost(wish.length);
            left >= 0.0
        });
        wishes
    }

    fn top_two(&mut self, belief: &Belief) -> Option<CandidateIndex> {
        let first = &belief.draws[self.random.below(belief.draws.len())];
        let (leader, _) = highest(first)?;
        if self.random.unit() < 0.5 {
            return Some(belief.candidates[leader]);
        }
        for _ in 0..20 {
            let other = &belief.draws[self.random.below(belief.draws.len())];
            let (challenger, _) = highest(other)?;
            if challenger != leader {
                return Some(belief.candidates[challenger]);
            }
        }
        Some(belief.candidates[leader])
    }

    fn neighbour(&mut self, belief: &Belief) -> Option<CandidateIndex> {
        let near = belief.candidates.len().min(4);
        let of = belief.candidates[self.random.below(near)];
        let levels = &self.space.candidates[of].levels;
        let differences = |index: CandidateIndex| {
            let other = &self.space.candidates[index].levels;
            levels.iter().zip(other).filter(|(a, b)| a != b).count()
        };
        let neighbours: Vec<CandidateIndex> = self
            .eligible
            .iter()
            .copied()
            .filter(|&index| (1..=2).contains(&differences(index)))
            .collect();
        (!neighbours.is_empty()).then(|| neighbours[self.random.below(neighbours.len())])
    }

    fn plausible(&mut self, belief: &Belief) -> Option<CandidateIndex> {
        let count = belief.candidates.len();
        (count > 0).then(|| belief.candidates[self.random.below(count)])
    }

    fn raced(&self) -> Vec<CandidateIndex> {
        let mut raced: Vec<CandidateIndex> = self
            .history
            .iter()
            .filter(|told| told.ask.purpose == Purpose::Confirm)
            .map(|told| told.ask.candidate)
            .filter(|&index| self.space.candidates[index].allowed)
            .filter(|&index| self.table.out(index).is_none())
            .collect();
        raced.sort_unstable();
        raced.dedup();
        raced
    }

    /// A round of the race.
    fn race(&mut self, belief: &Belief, probability: f64) -> Plan {
        let raced = self.raced();
        let reference = self.space.reference;
        let per_round = self.workloads() as f64;
        let left = self.limits.left(self.history);
        let rounds = self
            .history
            .iter()
            .filter(|told| {
                told.ask.purpose == Purpose::Confirm
                    && told.ask.candidate == reference
                    && told.ask.workload == 0
            })
            .count();
        if rounds >= 3 && probability >= self.limits.goal.probability {
            return Plan::Done(Stop::SureEnough { probability });
        }
        let mut order: Vec<usize> = (0..belief.candidates.len()).collect();
        order.sort_by(|&a, &b| {
            belief.best[b]
                .total_cmp(&belief.best[a])
                .then(belief.means[b].total_cmp(&belief.means[a]))
        });
        let affordable = (left / per_round + 1e-9).floor() as usize;
        let finalists: Vec<CandidateIndex> = if raced.is_empty() {
            let most = self.t.finalists.min((affordable / 2).saturating_sub(1)).max(1);
            order
                .iter()
                .filter(|&&at| belief.candidates[at] != reference)
                .take(most)
                .map(|&at| belief.candidates[at])
                .collect()
        } else {
            let started = raced.len();
            let keep = (started >> (rounds / 2)).max(2);
            order
                .iter()
                .map(|&at| belief.candidates[at])
                .filter(|index| raced.contains(index) && *index != reference)
                .take(keep)
                .collect()
        };
        let mut wishes = Vec::new();
        for candidate in [reference].into_iter().chain(finalists) {
            for workload in 0..self.workloads() {
                wishes.push(Wish {
                    purpose: Purpose::Confirm,
                    ..self.wish(candidate, workload, Length::Full)
                });
            }
        }
        if left < 1.0 || (rounds > 40) {
            return Plan::Done(Stop::Budget);
        }
        Plan::Try(wishes)
    }
}

fn prior_point(candidate: CandidateIndex) -> Point {
    Point { candidate, short: false, value: 0.0, variance: 0.003 }
}
