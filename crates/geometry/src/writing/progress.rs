//! How far a writing probe is, by time.
//!
//! Each measurement has a usual share of the whole time. How long the current one takes is not
//! known, so it approaches its end: after the time that it should take at the speed so far, half of
//! its share is done. Limit: the shares are those of usual cards.

/// The measurements in order, with the share of the time at which each usually begins.
const BEGINS: [(&str, f64); 12] = [
    ("checking the capacity", 0.0),
    ("measuring sequential writes", 0.05),
    ("looking for merges", 0.15),
    ("locating erase blocks", 0.2),
    ("observing erasures", 0.2),
    ("measuring the write unit", 0.6),
    ("looking for a log for small writes", 0.65),
    ("testing the first erase blocks", 0.7),
    ("looking for a fast area", 0.7),
    ("counting open erase blocks", 0.8),
    ("done", 1.0),
    ("", 1.0),
];

#[derive(Debug, Default)]
pub struct TimeShare {
    /// The share at which the current measurement begins and the next one does.
    begin: f64,
    end: f64,
    begin_ns: u64,
}

impl TimeShare {
    /// Begins a measurement; one that was made before does not go back.
    pub fn begin(&mut self, what: &str, elapsed_ns: u64) {
        let Some(at) = BEGINS.iter().position(|(name, _)| *name == what) else { return };
        let begin = BEGINS[at].1;
        let end = BEGINS[at..].iter().map(|of| of.1).find(|other| *other > begin).unwrap_or(1.0);
        if begin >= self.begin {
            *self = Self { begin, end, begin_ns: elapsed_ns };
        }
    }

    /// The share that is done, at least that of the time limit that is used up.
    pub fn done(&self, elapsed_ns: u64, limit_ns: Option<u64>) -> f64 {
        let within_ns = elapsed_ns.saturating_sub(self.begin_ns) as f64;
        let share = self.end - self.begin;
        let usual_ns = if self.begin > 0.0 {
            self.begin_ns as f64 * share / self.begin
        } else {
            within_ns.max(1e9)
        };
        let part = within_ns / (within_ns + usual_ns.max(1.0));
        let of_limit = limit_ns.map_or(0.0, |limit| elapsed_ns as f64 / limit.max(1) as f64);
        (self.begin + share * part).max(of_limit).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_follows_the_time_and_never_goes_back() {
        let mut progress = TimeShare::default();
        let mut last = 0.0;
        let mut at_least = |done: f64| {
            assert!(done >= last && done <= 1.0, "{done} after {last}");
            last = done;
        };
        let mut elapsed_ns = 0;
        for what in [
            "checking the capacity",
            "looking for merges",
            "observing erasures",
            "looking for merges",
            "measuring the write unit",
            "counting open erase blocks",
        ] {
            progress.begin(what, elapsed_ns);
            for _ in 0..50 {
                elapsed_ns += 1_000_000_000;
                at_least(progress.done(elapsed_ns, None));
            }
        }
        assert!(last > 0.85, "{last}");
        assert_eq!(TimeShare::default().done(900, Some(1000)), 0.9);
    }
}
