//! Detects periodic delays in a series of requests and their period.
//!
//! Under a hypothesis of a period and a phase in bytes, the requests that contain a multiple are
//! marked. If it is correct, marked and unmarked requests take their times from two different
//! distributions, otherwise from one. The distributions are nonparametric: times are sorted into
//! classes by rank, and each distribution over the classes has a Dirichlet prior, which makes the
//! evidence exact and limits the weight of a single stall. A multiple of the true period marks only
//! some of the slow requests, a divisor marks additional ones, and both explain less. Limits:
//! requests of one size, adjacent in the bytes that are counted. Source: Minka, "Estimating a
//! Dirichlet distribution" (2000), for the evidence.

/// Borders of the classes, as shares of faster requests.
const BORDERS: [f64; 9] = [0.5, 0.75, 0.88, 0.94, 0.97, 0.985, 0.992, 0.996, 0.998];
const CLASSES: usize = BORDERS.len() + 1;
/// Prior weight of each class (Jeffreys).
const WEIGHT: f64 = 0.5;
/// The fewest marks of a valid period.
const MIN_MARKS: usize = 4;

/// The class of each request's time.
#[derive(Debug)]
pub struct TimeClasses {
    classes: Vec<u8>,
    totals: [u32; CLASSES],
    rising: RisingFactorials,
}

impl TimeClasses {
    /// Classifies times given in time order.
    pub fn of(times: &[f32]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_by(f32::total_cmp);
        let borders = BORDERS.map(|share| {
            let at = (share * sorted.len() as f64) as usize;
            sorted.get(at).copied().unwrap_or(f32::INFINITY)
        });
        let mut totals = [0; CLASSES];
        let classes = times
            .iter()
            .map(|time| {
                let class = borders.iter().filter(|border| time > border).count();
                totals[class] += 1;
                u8::try_from(class).expect("there are few classes")
            })
            .collect();
        Self { classes, totals, rising: RisingFactorials::up_to(times.len()) }
    }

    /// The log-evidence of no regularity.
    pub fn log_nothing(&self) -> f64 {
        self.rising.log_evidence(&self.totals)
    }

    /// The log-evidence of a period in requests, averaged over phases. A period need not be a whole
    /// number of requests. `None` if there would be too few marks.
    pub fn log_of(&self, distance: f64) -> Option<f64> {
        if distance < 2.0 || (self.classes.len() as f64) < distance * MIN_MARKS as f64 {
            return None;
        }
        let whole = (distance - distance.round()).abs() < 1e-9;
        // Only such phases cover marks at thirds or sixths of a request.
        let phases = if whole { distance.round() } else { (6.0 * distance).ceil() };
        let step = distance / phases;
        let count = phases as usize;
        let logs: Vec<f64> =
            (0..count).map(|at| self.of_phase(at as f64 * step, distance)).collect();
        Some(crate::belief::log_sum_exp(logs.iter().copied()) - phases.ln())
    }

    fn of_phase(&self, phase: f64, distance: f64) -> f64 {
        let mut marked = [0; CLASSES];
        let mut number = 0_u32;
        loop {
            let at = (phase + f64::from(number) * distance + 1e-6) as usize;
            let Some(&class) = self.classes.get(at) else { break };
            marked[usize::from(class)] += 1;
            number += 1;
        }
        let mut rest = self.totals;
        for (rest, marked) in rest.iter_mut().zip(&marked) {
            *rest -= marked;
        }
        self.rising.log_evidence(&marked) + self.rising.log_evidence(&rest)
    }
}

/// Logarithms of w (w + 1) ... (w + n - 1) for each number n of requests: there are many phases,
/// and a table makes each of them cheap.
#[derive(Debug)]
struct RisingFactorials {
    /// For the weight of one class.
    of_class: Vec<f64>,
    /// For the weight of all classes.
    of_all: Vec<f64>,
}

impl RisingFactorials {
    fn up_to(most: usize) -> Self {
        let of = |weight: f64| {
            let mut sum = 0.0;
            let further = (0..most).map(|number| {
                sum += (weight + number as f64).ln();
                sum
            });
            std::iter::once(0.0).chain(further).collect()
        };
        Self { of_class: of(WEIGHT), of_all: of(WEIGHT * CLASSES as f64) }
    }

    /// The log-probability of this sequence of classes, integrated over distributions.
    fn log_evidence(&self, counts: &[u32; CLASSES]) -> f64 {
        let total: u32 = counts.iter().sum();
        let each: f64 = counts.iter().map(|&count| self.of_class[count as usize]).sum();
        each - self.of_all[total as usize]
    }
}

#[cfg(test)]
mod tests {
    use flashfit_device::random::Random;

    use super::*;

    fn best(times: &[f32]) -> (u32, f64) {
        let classes = TimeClasses::of(times);
        let gain = |distance: u32| {
            let log = classes.log_of(f64::from(distance));
            log.unwrap_or(f64::NEG_INFINITY) - classes.log_nothing()
        };
        let distances = [8, 12, 16, 24, 32, 48, 64, 96, 128];
        let best = distances.into_iter().max_by(|&a, &b| gain(a).total_cmp(&gain(b))).unwrap();
        (best, gain(best))
    }

    fn noisy(count: usize, stall: impl Fn(usize) -> f32) -> Vec<f32> {
        let mut random = Random::new(3);
        (0..count)
            .map(|at| {
                let jitter = random.below(500) as f32 / 1000.0;
                let rare = if random.below(20) == 0 { 100.0 } else { 0.0 };
                (1.0 + stall(at)) * (1.0 + jitter) + rare
            })
            .collect()
    }

    #[test]
    fn the_period_is_found_rather_than_its_multiples_or_divisors() {
        for distance in [12, 32, 64] {
            let times = noisy(2000, |at| if at % distance == 5 { 2.0 } else { 0.0 });
            let (found, gain) = best(&times);
            assert_eq!(found as usize, distance);
            assert!(gain > 20.0, "{gain}");
        }
    }

    #[test]
    fn two_periods_do_not_hide_each_other_and_noise_has_none() {
        let (_, gain) = best(&noisy(4000, |_| 0.0));
        assert!(gain < 3.0, "{gain}");
        let (_, gain) = best(&noisy(4000, |at| (at % 32 == 0) as u8 as f32 * 3.0));
        assert!(gain > 20.0, "{gain}");
    }

    #[test]
    fn a_period_need_not_be_a_whole_number_of_requests() {
        let distance = 85.0 / 4.0;
        let times = noisy(3000, |at| {
            let next = ((at + 1) as f64 / distance).floor();
            if next > (at as f64 / distance).floor() { 3.0 } else { 0.0 }
        });
        let classes = TimeClasses::of(&times);
        let right = classes.log_of(distance).unwrap();
        assert!(right > classes.log_of(21.0).unwrap() + 10.0);
        assert!(right > classes.log_of(2.0 * distance).unwrap() + 10.0);
    }

    #[test]
    fn the_evidence_is_that_of_a_dirichlet_prior() {
        let rising = RisingFactorials::up_to(8);
        // Of one request, all classes are equally likely; a second one is likelier the same.
        let once = rising.log_evidence(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]).exp();
        assert!((once - 0.1).abs() < 1e-12, "{once}");
        let twice = rising.log_evidence(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0]).exp();
        assert!((twice - 0.1 * 1.5 / 6.0).abs() < 1e-12, "{twice}");
    }
}
