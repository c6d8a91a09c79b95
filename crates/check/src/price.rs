//! What the commands that write would cost, before anything is written.
//!
//! Times are extrapolated from a few reads, as `probe --write` does before it asks.

use flashfit_device::Bytes;
use flashfit_probe::{ProbeRun, ProbeRunOptions, WriteEstimate};
use flashfit_target::InspectedTarget;
use serde::Serialize;

/// The price of `probe --write`, which tests the capacity first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TestPrice {
    pub usual_bytes: u64,
    pub usual_ns: u64,
    pub most_bytes: u64,
    pub most_ns: u64,
}

/// From a few reads; `None` if they fail.
pub fn of(target: &InspectedTarget) -> Option<TestPrice> {
    let options = ProbeRunOptions {
        name: String::new(),
        write: true,
        region: None,
        max_write: None,
        max_read_ns: None,
        with_twin: false,
        seed: 1,
        expected: None,
    };
    let WriteEstimate { probe, .. } = ProbeRun::new(target, options).ok()?.estimate().ok()?;
    Some(TestPrice {
        usual_bytes: probe.usual_bytes,
        usual_ns: probe.usual_ns,
        most_bytes: probe.most_bytes,
        most_ns: probe.most_ns,
    })
}

/// The most that `tune` writes in this time, in bytes, at the rate that the price assumes.
pub fn tuning_bytes(price: &TestPrice, time_ns: u64) -> Bytes {
    let bytes =
        u128::from(price.most_bytes) * u128::from(time_ns) / u128::from(price.most_ns.max(1));
    Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
}
