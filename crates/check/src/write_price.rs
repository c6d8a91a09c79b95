//! What a command that writes costs: time, bytes, erases and their share of the device's life.
//!
//! Limit: hardly any device reports its rated life, so it is assumed.

use flashfit_probe::WriteEstimate;
use flashfit_target::{InspectedTarget, TargetSource};
use flashfit_wear::device_life::{
    ASSUMED_AMPLIFICATION, ASSUMED_ERASES, erases_of_each_block, life_thousandths,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::price::{MakingPrice, TestPrice};
use crate::reading::is_file;

/// Ranges, least and most each.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Price {
    /// `None` if the device could not be read.
    pub time_ns: Option<[u64; 2]>,
    /// Whether no longest time is known: the second time is an extrapolation, and it may take
    /// several times as long.
    pub is_time_open: bool,
    pub written_bytes: [u64; 2],
    /// `None` for a file, which has no erase blocks.
    pub wear: Option<WearPrice>,
}

#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WearPrice {
    /// Of each erase block on average, in thousandths.
    pub erases_thousandths: [u64; 2],
    /// Share of the device's life, in thousandths of a percent.
    pub life_percent_thousandths: [u64; 2],
    /// The erases that each erase block bears.
    pub rated_erases: u64,
    /// Whether `rated_erases` is an assumption.
    pub rated_is_assumed: bool,
}

impl Price {
    /// The price of a probe that writes. How long merges take is not known before, so the most is
    /// the time limit, even if the estimate is less; without a limit, it is not known. With a limit
    /// below the least time, the least bytes are 0.
    pub fn of_probe(target: &InspectedTarget, estimate: &WriteEstimate) -> Self {
        let WriteEstimate { probe, budget, max_time_ns } = estimate;
        let most = probe.most_bytes.saturating_add(budget.twin_bytes);
        // Rates for a twin are written as fast as the rest.
        let most_ns =
            u128::from(probe.most_ns) * u128::from(most) / u128::from(probe.most_bytes.max(1));
        let most_ns = max_time_ns.unwrap_or(u64::try_from(most_ns).unwrap_or(u64::MAX));
        // What ends early writes any part of it.
        let is_cut_short = max_time_ns.is_some_and(|most_ns| most_ns < probe.least_ns);
        let least = if is_cut_short { 0 } else { probe.least_bytes };
        Self {
            time_ns: Some([probe.least_ns.min(most_ns), most_ns]),
            is_time_open: max_time_ns.is_none(),
            written_bytes: [least, most],
            wear: wear(target, [least, most], 0),
        }
    }

    /// The price of writing so much and reading it back, at rates that were extrapolated from
    /// reads: at least at the better one, at most twice as long as at the worse one.
    pub fn of_free_space(target: &InspectedTarget, rates: Option<TestPrice>, bytes: u64) -> Self {
        let time_ns = rates.map(|rates| of_written_and_read(&rates, bytes));
        let wear = wear(target, [bytes, bytes], 0);
        Self { time_ns, is_time_open: false, written_bytes: [bytes, bytes], wear }
    }

    /// The price of partitioning and making a file system.
    pub fn of_making(target: &InspectedTarget, price: &MakingPrice) -> Self {
        // mkfs discards, which may erase everything once.
        let discards = target.device().is_some_and(|device| device.queue.discards);
        Self {
            time_ns: price.time_ns,
            is_time_open: false,
            written_bytes: price.written_bytes,
            wear: wear(target, price.written_bytes, u64::from(discards)),
        }
    }
}

/// The time of writing so much and reading it back.
pub fn of_written_and_read(rates: &TestPrice, bytes: u64) -> [u64; 2] {
    let ns = |rate_ns: u64, rate_bytes: u64| {
        let ns = u128::from(rate_ns) * u128::from(bytes) / u128::from(rate_bytes.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    };
    let usual = ns(rates.usual_ns, rates.usual_bytes);
    let most = ns(rates.most_ns, rates.most_bytes);
    [usual.min(most), usual.max(most).saturating_mul(2)]
}

impl WearPrice {
    /// Of so many erases of each erase block; `rated` is as for [`rated_erases`].
    pub fn of(erases: [f64; 2], (rated_erases, rated_is_assumed): (u64, bool)) -> Self {
        Self {
            erases_thousandths: erases.map(|erases| (erases * 1000.0).ceil() as u64),
            life_percent_thousandths: erases.map(|erases| life_thousandths(erases, rated_erases)),
            rated_erases,
            rated_is_assumed,
        }
    }
}

/// At least what is written is programmed.
fn wear(target: &InspectedTarget, written: [u64; 2], more_erases: u64) -> Option<WearPrice> {
    let rated = rated_erases(target)?;
    let capacity = target.capacity().0;
    let [least, most] = written;
    let most = most.saturating_mul(ASSUMED_AMPLIFICATION);
    let erases = [
        erases_of_each_block(least, capacity),
        erases_of_each_block(most, capacity) + more_erases as f64,
    ];
    Some(WearPrice::of(erases, rated))
}

/// The erases that each erase block bears, and whether that is assumed; `None` for a file, which
/// has no erase blocks.
pub fn rated_erases(target: &InspectedTarget) -> Option<(u64, bool)> {
    match &target.source {
        TargetSource::Card(model) => Some((model.nand.endurance_cycles, false)),
        TargetSource::Device(device) if is_file(device) => None,
        TargetSource::Device(_) => Some((ASSUMED_ERASES, true)),
    }
}

/// The same as [`rated_erases`], and for a file as if it were a device.
pub fn rated_or_assumed_erases(target: &InspectedTarget) -> (u64, bool) {
    rated_erases(target).unwrap_or((ASSUMED_ERASES, true))
}

#[cfg(test)]
mod tests {
    use flashfit_probe::{ProbeRun, ProbeRunOptions};

    use super::*;

    /// As measured, a probe of this card takes longer than the extrapolated time.
    #[test]
    fn a_price_without_a_limit_has_no_longest_time() {
        let target = InspectedTarget::card("sd-c4-block", None).unwrap();
        let options = ProbeRunOptions::usual("sim:sd-c4-block", true);
        let price = |max_time_ns| {
            let options = ProbeRunOptions { max_time_ns, ..options.clone() };
            let run = ProbeRun::new(&target, options).unwrap();
            Price::of_probe(&target, &run.estimate().unwrap())
        };
        let open = price(None);
        assert!(open.is_time_open && open.written_bytes[0] <= 437 << 20, "{open:?}");
        let hour_ns = 3_600_000_000_000;
        let limited = price(Some(hour_ns));
        assert!(!limited.is_time_open && limited.time_ns.unwrap()[1] == hour_ns, "{limited:?}");
        assert_eq!(limited.written_bytes[0], open.written_bytes[0]);
        assert_eq!(price(Some(1_000_000_000)).written_bytes[0], 0);
    }

    #[test]
    fn erases_and_life_are_those_of_the_card() {
        let target = InspectedTarget::card("sd-c4-block", None).unwrap();
        let capacity = target.capacity().0;
        let making = MakingPrice {
            written_bytes: [capacity / 2, capacity],
            time_ns: Some([1_000_000_000, 120_000_000_000]),
        };
        let wear = Price::of_making(&target, &making).wear.unwrap();
        assert_eq!(wear.erases_thousandths, [500, 4000]);
        assert!(!wear.rated_is_assumed);
        assert_eq!(wear.life_percent_thousandths[1], 400_000_u64.div_ceil(wear.rated_erases));
    }
}
