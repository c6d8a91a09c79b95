//! Checks whether a step in read times comes from the controller's mapping table.
//!
//! Such a step disappears at a place that was read before ([`confirm`]); that of an erase block
//! remains.

use super::Search;
use super::confirm::{self, BoundaryDifference, SuspectedStep};
use super::session::ReadSession;
use crate::probed::ProbeError;

/// A check whether a step comes from the mapping table.
pub(super) struct MapCacheCheck {
    unit: u64,
    /// Remaining extra times of reads across boundaries.
    differences: Vec<BoundaryDifference>,
    /// Probability that the step does not come from the mapping table.
    pub(super) remains: f64,
    /// Whether it needs no more reads.
    is_done: bool,
}

impl MapCacheCheck {
    fn new(unit: u64) -> Self {
        Self { unit, differences: Vec::new(), remains: confirm::USUAL, is_done: false }
    }
}

impl Search {
    /// The probability that the step of a unit does not come from the mapping table, if that was
    /// checked.
    pub(super) fn map_check_result(&self, unit: u64) -> Option<f64> {
        self.map_checks.iter().find(|check| check.unit == unit).map(|check| check.remains)
    }

    /// Whether more reads would hardly change the result of that check.
    pub(super) fn is_clear(&self, unit: u64) -> bool {
        self.map_checks.iter().any(|check| check.unit == unit && check.is_done)
    }

    /// Checks whether the step of a unit comes from the mapping table. The height of the step must
    /// be known from reads across and adjacent in the same group.
    pub(super) fn check_map_cache(
        &mut self,
        session: &mut ReadSession<'_>,
        unit: u64,
    ) -> Result<(), ProbeError> {
        let (kind, step) = self.step(unit);
        if step.ns.is_nan() {
            return Ok(());
        }
        if step.is_surely_none() {
            self.disproved.insert(unit);
            self.map_checks.retain(|check| check.unit != unit);
            self.map_checks.push(MapCacheCheck {
                remains: 0.0,
                is_done: true,
                ..MapCacheCheck::new(unit)
            });
            return Ok(());
        }
        let mut others = self.levels.clone();
        others.retain(|&level| level != unit);
        let suspect = SuspectedStep { unit, step_ns: step.ns, spread_ns: step.spread_ns, others };
        let (places, random) = (&mut self.places, &mut self.random);
        let is_like = |place: u64| self.regions.kind(place) == kind;
        let earlier = self.map_checks.iter().position(|check| check.unit == unit);
        let mut check =
            earlier.map_or_else(|| MapCacheCheck::new(unit), |at| self.map_checks.swap_remove(at));
        let before = check.differences.len();
        let differences = &mut check.differences;
        check.remains = confirm::remains(session, places, random, &suspect, &is_like, differences)?;
        let has_enough_pairs = confirm::has_enough_pairs(&check.differences, check.remains);
        check.is_done = has_enough_pairs || check.differences.len() == before;
        if confirm::disproves(check.remains, &check.differences, &suspect) {
            self.disproved.insert(unit);
        }
        self.map_checks.push(check);
        Ok(())
    }
}
