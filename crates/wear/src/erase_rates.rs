//! How fast the erase blocks of a device wear, and when they have used a share of their rating.
//!
//! Rates are shares of the rating that a block uses while programs write one GiB. Blocks with the
//! same rating are one area: the ordinary ones, and those of a pSLC area. They are continued as
//! straight lines, except that static wear leveling bounds how far a block runs ahead of the mean
//! of its area or lags behind it, which a short simulation cannot show. A used device reports the
//! mean of its blocks; what each block has used follows from the same rates.
//!
//! Limits: the erases that leveling costs in addition are left out, and so is the amplification
//! that grows when few spare blocks are left; a failed block of a pSLC area counts as a spare block
//! used up, where a simulated card becomes read-only at once.

/// The rates of all good blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct EraseRates {
    areas: Vec<WearArea>,
    mean: f64,
}

/// What a device has used before now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PastWear {
    /// The share of its rating that the mean of all blocks has used.
    pub mean: f64,
    /// 0 if the same use wore it as from now on, 1 if every block has used as much as the mean.
    pub evenness: f64,
}

impl PastWear {
    pub(crate) const NEW: Self = Self { mean: 0.0, evenness: 0.0 };

    /// A share that the same use would have taken, nearer to the mean by the evenness.
    fn evened(self, share: f64) -> f64 {
        share + self.evenness * (self.mean - share)
    }
}

/// The shares of the rating that a block has used, and the mean of its area.
#[derive(Debug, Clone, Copy)]
struct UsedShares {
    block: f64,
    area: f64,
}

/// Blocks that share their load.
#[derive(Debug, Clone, PartialEq)]
struct WearArea {
    /// In descending order.
    by_block: Vec<f64>,
    mean: f64,
    /// How far a block is ahead of the mean or behind it at most; infinite without static wear
    /// leveling.
    lead: f64,
}

impl EraseRates {
    /// One area without static wear leveling, from shares of the rating that each block used while
    /// programs wrote one GiB.
    ///
    /// # Panics
    /// Without a block.
    pub fn new(by_block: Vec<f64>) -> Self {
        Self::of_areas([(by_block, f64::INFINITY)])
    }

    /// From the rates of each area and the lead, as a share of the rating, that static wear
    /// leveling allows a block in it.
    ///
    /// # Panics
    /// Without a block.
    pub fn of_areas(areas: impl IntoIterator<Item = (Vec<f64>, f64)>) -> Self {
        let areas = areas.into_iter().filter(|(by_block, _)| !by_block.is_empty());
        let areas: Vec<WearArea> =
            areas.map(|(by_block, lead)| WearArea::new(by_block, lead)).collect();
        assert!(!areas.is_empty(), "a card has blocks");
        let blocks: usize = areas.iter().map(|area| area.by_block.len()).sum();
        let sum: f64 = areas.iter().flat_map(|area| &area.by_block).sum();
        Self { areas, mean: sum / blocks as f64 }
    }

    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The share that the most worn block has used after `gib`.
    pub fn most_after(&self, gib: f64) -> f64 {
        let most = |area: &WearArea| (area.by_block[0] * gib).min(area.mean * gib + area.lead);
        self.areas.iter().map(most).fold(0.0, f64::max)
    }

    /// GiB until the mean has used `end`.
    pub(crate) fn mean_until(&self, end: f64, past: PastWear) -> f64 {
        let rest = end - past.mean;
        if rest > 0.0 { rest / self.mean } else { 0.0 }
    }

    /// GiB until the most worn block has used `end`.
    pub(crate) fn most_until(&self, end: f64, past: PastWear) -> f64 {
        let first = |area: &WearArea| {
            let rate = area.by_block[0];
            area.until(rate, end, area.used(rate, self.written(past), past))
        };
        self.areas.iter().map(first).fold(f64::INFINITY, f64::min)
    }

    /// GiB after which the mean has used as much as it has; `None` if nothing wears the device, so
    /// that something else must have.
    fn written(&self, past: PastWear) -> Option<f64> {
        (self.mean > 0.0).then(|| past.mean / self.mean)
    }

    /// How many times as much of its rating as the mean the most worn block has used when it
    /// reaches it.
    pub fn skew(&self) -> f64 {
        if self.mean > 0.0 {
            self.mean_until(1.0, PastWear::NEW) / self.most_until(1.0, PastWear::NEW)
        } else {
            1.0
        }
    }

    /// GiB until each block fails, in no order; `end` draws the share of its rating at which a
    /// block fails.
    pub(crate) fn failures(&self, past: PastWear, mut end: impl FnMut() -> f64) -> Vec<f64> {
        let written = self.written(past);
        self.areas.iter().flat_map(|area| area.failures(written, past, &mut end)).collect()
    }
}

impl WearArea {
    fn new(mut by_block: Vec<f64>, lead: f64) -> Self {
        by_block.sort_by(|a, b| b.total_cmp(a));
        let mean = by_block.iter().sum::<f64>() / by_block.len() as f64;
        Self { by_block, mean, lead }
    }

    /// What a block with this rate has used.
    fn used(&self, rate: f64, written_gib: Option<f64>, past: PastWear) -> UsedShares {
        let Some(gib) = written_gib else {
            return UsedShares { block: past.mean, area: past.mean };
        };
        let area = self.mean * gib;
        let block = if rate > self.mean {
            (rate * gib).min(area + self.lead)
        } else {
            (rate * gib).max(area - self.lead)
        };
        UsedShares { block: past.evened(block), area: past.evened(area) }
    }

    /// GiB until a block with this rate has used `end`, if no block fails.
    fn until(&self, rate: f64, end: f64, used: UsedShares) -> f64 {
        let rest = end - used.block;
        if rest <= 0.0 {
            return 0.0;
        }
        let alone = rest / rate;
        let rest_of_area = end - used.area;
        if rate > self.mean {
            alone.max((rest_of_area - self.lead) / self.mean)
        } else {
            alone.min((rest_of_area + self.lead) / self.mean)
        }
    }

    /// As [`EraseRates::failures`]. The others take over the erases of a block that failed, so that
    /// each failure brings the next one nearer.
    fn failures(
        &self,
        written_gib: Option<f64>,
        past: PastWear,
        mut end: impl FnMut() -> f64,
    ) -> Vec<f64> {
        // Until it fails, and its rate until then.
        let mut blocks: Vec<(f64, f64)> = (self.by_block.iter())
            .map(|&rate| {
                let (end, used) = (end(), self.used(rate, written_gib, past));
                let until = self.until(rate, end, used);
                (until, if until > 0.0 { (end - used.block) / until } else { rate })
            })
            .collect();
        blocks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = blocks.iter().map(|block| block.1).sum();
        let (mut left, mut before, mut now) = (total, 0.0, 0.0);
        let mut failures = Vec::with_capacity(blocks.len());
        for (until, rate) in blocks {
            // A block that was never erased takes over at the latest when all others have failed.
            if until.is_finite() {
                let share = if total > 0.0 { (left / total).clamp(0.0, 1.0) } else { 1.0 };
                now += (until - before) * share;
                before = until;
                left -= rate;
            } else if total <= 0.0 {
                now = f64::INFINITY;
            }
            failures.push(now);
        }
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: PastWear = PastWear::NEW;

    #[test]
    fn wear_leveling_bounds_the_lead_of_the_most_worn_block() {
        let rates = || (0..100).map(|block| if block < 30 { 0.003 } else { 0.0 }).collect();
        let free = EraseRates::new(rates());
        assert!((free.skew() - 1.0 / 0.3).abs() < 1e-9, "{}", free.skew());
        // A spread of 100 erases at 3000 rated cycles.
        let leveled = EraseRates::of_areas([(rates(), 100.0 / 3000.0)]);
        assert!((1.0..1.05).contains(&leveled.skew()), "{}", leveled.skew());
        let [leveled_mean, free_mean] = [&leveled, &free].map(|of| of.mean_until(1.0, NEW));
        assert!((leveled_mean - free_mean).abs() < 1e-9);
        // Before leveling begins, both are the same.
        assert!((leveled.most_after(1.0) - free.most_after(1.0)).abs() < 1e-12);
        assert!((leveled.most_after(1000.0) - (0.9 + 100.0 / 3000.0)).abs() < 1e-9);
        // Blocks that held static data fail as well, in the end.
        let last = |of: &EraseRates| of.failures(NEW, || 1.0).into_iter().fold(0.0, f64::max);
        assert!(last(&leveled) > 2.5 * last(&free), "{} {}", last(&leveled), last(&free));
    }

    #[test]
    fn an_area_is_leveled_within_itself() {
        let both = EraseRates::of_areas([(vec![0.1; 4], 0.01), (vec![0.01; 96], f64::INFINITY)]);
        assert!((both.most_until(1.0, NEW) - 10.0).abs() < 1e-9);
        assert!((both.mean() - 0.0136).abs() < 1e-9);
    }

    #[test]
    fn a_block_that_is_worn_out_ends_at_once_and_one_without_erases_is_not_the_first() {
        let rates = EraseRates::new(vec![0.01, 0.0]);
        assert_eq!((rates.most_until(0.0, NEW), rates.mean_until(-1.0, NEW)), (0.0, 0.0));
        assert_eq!(rates.failures(NEW, || -0.1), [0.0, 0.0]);
        assert!((rates.failures(NEW, || 1.0)[0] - 100.0).abs() < 1e-9);
        let unused = EraseRates::new(vec![0.0; 3]);
        assert_eq!(unused.failures(NEW, || 1.0), [f64::INFINITY; 3]);
        assert_eq!((unused.mean_until(1.0, NEW), unused.skew()), (f64::INFINITY, 1.0));
        assert_eq!(unused.failures(NEW, || 0.0), [0.0; 3]);
    }

    #[test]
    fn the_erases_of_all_blocks_are_the_life_of_the_device() {
        // Four shares are left, and one is used for each GiB.
        let mut rest = [1.0, 3.0].into_iter();
        let failures = EraseRates::new(vec![0.5, 0.5]).failures(NEW, || rest.next().unwrap());
        assert_eq!(failures, [2.0, 4.0]);
    }

    #[test]
    fn the_same_use_has_taken_from_each_block_in_proportion_to_its_rate() {
        let rates = || vec![0.004, 0.001, 0.001, 0.0];
        for lead in [f64::INFINITY, 0.05] {
            let rates = EraseRates::of_areas([(rates(), lead)]);
            // The mean uses 0.0015 for each GiB: 100 GiB have passed.
            let past = PastWear { mean: 0.15, evenness: 0.0 };
            let [before, after] = [NEW, past].map(|past| rates.most_until(1.0, past));
            assert!((before - after - 100.0).abs() < 1e-9, "{before} {after}");
            let [before, after] = [NEW, past].map(|past| rates.failures(past, || 1.0)[0]);
            assert!((before - after - 100.0).abs() < 1e-9, "{before} {after}");
            // A device that was worn evenly has used 0.15 of each block.
            let even = PastWear { evenness: 1.0, ..past };
            let rest = rates.most_until(1.0, even);
            assert!((rest - rates.most_until(0.85, NEW)).abs() < 1e-9, "{rest}");
        }
    }

    #[test]
    fn a_device_that_nothing_wears_was_worn_evenly() {
        let unused = EraseRates::new(vec![0.0; 3]);
        let past = PastWear { mean: 0.5, evenness: 0.0 };
        assert_eq!(unused.most_until(1.0, past), f64::INFINITY);
        assert_eq!(unused.most_until(0.4, past), 0.0);
    }
}
