//! What a twin is fitted to does not depend on when a card happens to stall.

use flashfit_card::catalog;
use flashfit_card::model::NoiseModel;
use flashfit_device::{Bytes, Target};
use flashfit_geometry::probed::NoObserver;
use flashfit_probe::{DeviceRegion, ProbeOutcome, ProbeRun, ProbeRunOptions};
use flashfit_target::{InspectedTarget, TargetSource};
use flashfit_twin::pattern::file::PatternSet;

const SECOND_NS: u64 = 1_000_000_000;
const STALL_NS: u64 = 60_000_000;
const EVERY: u32 = 20;

/// Of a card with stalls, or with their time in every request.
fn probed(noise: Option<NoiseModel>) -> ProbeOutcome {
    let mut model = catalog::load("usd-a1-pagemap", None).expect("a built-in card");
    if noise.is_none() {
        model.bus.command_ns += STALL_NS / u64::from(EVERY);
    }
    model.noise = noise;
    let target = InspectedTarget {
        target: Target::Simulated(model.name.clone()),
        source: TargetSource::Card(Box::new(model)),
    };
    let options = ProbeRunOptions {
        region: Some(DeviceRegion { start: Bytes(0), length: Bytes::mib(512) }),
        max_read_ns: Some(2 * SECOND_NS),
        max_time_ns: Some(1200 * SECOND_NS),
        twin: Some(PatternSet::load(None).expect("built-in patterns")),
        ..ProbeRunOptions::usual("sim:stalls", true)
    };
    let run = ProbeRun::new(&target, options).expect("a region of the card");
    run.run(&mut |_, _| unreachable!("nobody is asked about a simulated card"), &mut NoObserver)
        .expect("a card that does not fail")
}

/// How long each pattern took.
fn seconds(outcome: &ProbeOutcome) -> Vec<(String, f64)> {
    let patterns = &outcome.twin.patterns.as_ref().expect("patterns were measured").measured;
    let of = |parts_ns: &[u64]| parts_ns.iter().sum::<u64>() as f64 / SECOND_NS as f64;
    patterns.iter().map(|one| (one.pattern.name.clone(), of(&one.parts_ns))).collect()
}

#[test]
fn stalls_count_as_if_all_requests_had_the_same_part_of_them() {
    let noise =
        NoiseModel { seed: 3, jitter_thousandths: 0, stall_every: EVERY, stall_ns: STALL_NS };
    let (stalling, even) = (probed(Some(noise)), probed(None));
    let note = |outcome: &ProbeOutcome| {
        outcome.probed.notes.iter().find(|note| note.contains("longer than others")).cloned()
    };
    let said = note(&stalling).expect("the user is told");
    assert!(said.contains(" takes 60 ms longer than others like it"), "{said}");
    assert_eq!(note(&even), None);
    let comment = stalling.twin.stalls.as_ref().expect("they were seen").comment();
    assert!(comment.contains("takes 60 ms longer") && even.twin.stalls.is_none(), "{comment}");
    let (stalling, even) = (seconds(&stalling), seconds(&even));
    let mut errors: Vec<f64> = stalling
        .iter()
        .filter_map(|(name, one)| {
            let (_, other) = even.iter().find(|(other, _)| other == name)?;
            Some((one / other).ln().abs())
        })
        .collect();
    assert_eq!(errors.len(), even.len(), "each pattern was measured on both");
    errors.sort_by(f64::total_cmp);
    // What the card collects, and when, depends on all before, so that some differ more.
    assert!(errors[errors.len() / 2] < 0.06, "{errors:?}");
}
