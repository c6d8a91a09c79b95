//! What a probe does with image files, small devices, and a small write budget.

use std::ops::ControlFlow;
use std::path::Path;

use flashfit_card::catalog;
use flashfit_device::{Bytes, ConsentMethod, SystemRoots, Target, WriteConsent};
use flashfit_geometry::findings::QuantityVerdict;
use flashfit_geometry::probed::{NoObserver, ProbeError, ProbeObserver};
use flashfit_host::SystemRunner;
use flashfit_probe::{
    DeviceRegion, ProbeOutcome, ProbeRun, ProbeRunError, ProbeRunOptions, Remapped, fit_twin,
};
use flashfit_target::{InspectedTarget, TargetSource};
use flashfit_twin::pattern::file::PatternSet;
use flashfit_user_error::UserError;

const MIB: u64 = 1 << 20;

fn options(write: bool) -> ProbeRunOptions {
    ProbeRunOptions { max_read_ns: Some(100_000_000), ..ProbeRunOptions::usual("card.img", write) }
}

fn image(folder: &Path, bytes: u64) -> InspectedTarget {
    let path = folder.join("card.img");
    let file = std::fs::File::create(&path).expect("a directory for tests");
    file.set_len(bytes).expect("a sparse file");
    let name = path.to_str().expect("a path of a test");
    InspectedTarget::inspect(name, &SystemRunner::default(), None).expect("an image")
}

fn card(name: &str) -> InspectedTarget {
    let model = catalog::load(name, None).expect("a built-in card");
    let target = Target::Simulated(model.name.clone());
    InspectedTarget { target, source: TargetSource::Card(Box::new(model)) }
}

/// Makes the probe longer twice.
struct Twice(u32);

impl ProbeObserver for Twice {
    fn step(&mut self, _done: f64, _what: &str) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn extend(&mut self, elapsed_ns: u64) -> Option<u64> {
        self.0 = self.0.checked_sub(1)?;
        Some(elapsed_ns)
    }
}

#[test]
fn more_time_for_the_probe_leaves_the_twin_its_share() {
    let target = card("sd-c4-block");
    let patterns = PatternSet { span: Bytes(MIB), patterns: Vec::new() };
    let options = ProbeRunOptions {
        max_time_ns: Some(600_000_000_000),
        twin: Some(patterns),
        ..ProbeRunOptions::usual("card.img", true)
    };
    let run = ProbeRun::new(&target, options).unwrap();
    let mut observer = Twice(2);
    let mut agree = |_: &_, _: &_| unreachable!("a card is not asked for");
    let outcome = run.run(&mut agree, &mut observer).unwrap();
    assert_eq!(observer.0, 0, "the time was over twice");
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let cells = outcome.twin.tables[0].cells.len();
    assert!(cells >= 12, "{cells} rates are too few for a twin");
}

fn probe(run: &ProbeRun<'_>) -> ProbeOutcome {
    let runner = SystemRunner::default();
    let mut agree = |shown: &_, _: &_| {
        let named = ConsentMethod::Named("card.img".to_owned());
        WriteConsent::ask(&SystemRoots::default(), &runner, shown, &named)
    };
    run.run(&mut agree, &mut NoObserver).expect("an image that does not fail")
}

#[test]
fn an_image_that_ends_within_a_sector_is_probed_up_to_its_last_sector() {
    let folder = tempfile::tempdir().unwrap();
    let target = image(folder.path(), 20_000_001);
    let run = ProbeRun::new(&target, options(false)).unwrap();
    assert_eq!(run.region(), [0, 20_000_001 / 512 * 512]);
    assert!(probe(&run).probed.reads > 0);
    let run = ProbeRun::new(&target, options(true)).unwrap();
    let capacity = probe(&run).probed.findings.capacity;
    assert_eq!(capacity.verdict, QuantityVerdict::Found, "{capacity:?}");
}

#[test]
fn what_is_too_small_is_refused_before_the_user_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let target = image(folder.path(), 15 * MIB);
    assert!(ProbeRun::new(&target, options(false)).is_ok());
    let refused = |options| {
        let error = ProbeRun::new(&target, options).unwrap_err();
        assert!(
            matches!(error, ProbeRunError::Probe(ProbeError::TooSmall { .. })),
            "{error}: {:?}",
            error.hint()
        );
    };
    refused(options(true));
    let region = DeviceRegion { start: Bytes(0), length: Bytes::kib(512) };
    refused(ProbeRunOptions { region: Some(region), ..options(false) });
}

#[test]
fn only_the_capacity_of_a_file_is_tested_unless_a_twin_is_fitted() {
    let folder = tempfile::tempdir().unwrap();
    let target = image(folder.path(), 64 * MIB);
    let run = ProbeRun::new(&target, options(true)).unwrap();
    assert_eq!(run.only_capacity(), Some(Remapped::ByFileSystem));
    let estimate = run.estimate().unwrap().probe;
    assert!(estimate.most_bytes < 16 * MIB, "{estimate:?}");
    let probed = probe(&run).probed;
    assert_eq!(probed.findings.capacity.verdict, QuantityVerdict::Found);
    assert!(probed.findings.erase_block.reason.contains("this is a file"));
    let written = probed.written_bytes;
    assert!(estimate.least_bytes <= written && written <= estimate.most_bytes, "{written}");
    let twin = Some(PatternSet::load(None).unwrap());
    let run = ProbeRun::new(&target, ProbeRunOptions { twin, ..options(true) }).unwrap();
    assert_eq!(run.only_capacity(), None);
    assert!(run.estimate().unwrap().probe.most_bytes > 1 << 30);
    // A card's own addresses lead to flash.
    let target = card("sd-c4-block");
    assert_eq!(ProbeRun::new(&target, options(true)).unwrap().only_capacity(), None);
}

/// The block at 16 MiB is one of those that are read back.
#[test]
fn each_probe_of_a_real_device_writes_other_stamps() {
    let folder = tempfile::tempdir().unwrap();
    let target = image(folder.path(), 64 * MIB);
    let stamp = || {
        probe(&ProbeRun::new(&target, options(true)).unwrap());
        let image = std::fs::read(folder.path().join("card.img")).unwrap();
        let at = 16 << 20;
        (image[at..at + 8].to_vec(), image[at + 8..at + 16].to_vec())
    };
    let ((mark, first), (again, second)) = (stamp(), stamp());
    assert_eq!((mark.as_slice(), again.as_slice()), (&b"flashfit"[..], &b"flashfit"[..]));
    assert_ne!(first, second);
}

#[test]
fn a_write_budget_too_small_for_a_twin_is_named_in_both_parts() {
    let target = card("sd-c10-log");
    let options = ProbeRunOptions {
        max_write: Some(Bytes::mib(20)),
        twin: Some(PatternSet::load(None).unwrap()),
        ..options(true)
    };
    let run = ProbeRun::new(&target, options).unwrap();
    let outcome = probe(&run);
    let notes = outcome.probed.notes.join("\n");
    for part in ["of the 20 MiB", "10 MiB are for the probe and 10 MiB for the twin"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let error = fit_twin(&outcome.twin, "card", Path::new("t.toml"), &mut NoObserver).unwrap_err();
    assert!(error.to_string().contains("the 10 MiB that may be written for the twin"), "{error}");
    // More time, as its cause has it, would not help.
    assert!(error.hint().is_none(), "{error}");
}

/// Reading ends in time for the writes that the user agreed to.
#[test]
fn the_time_limit_is_kept_on_a_slow_device_and_something_is_written() {
    const COMMAND_NS: u64 = 20_000_000;
    let mut target = card("sd-c4-block");
    let TargetSource::Card(model) = &mut target.source else { panic!("a card") };
    model.bus.command_ns = COMMAND_NS;
    for limit_ns in [2_000_000_000, 20_000_000_000] {
        let usual = ProbeRunOptions::usual("sim:slow", true);
        let options = ProbeRunOptions { max_time_ns: Some(limit_ns), ..usual };
        let run = ProbeRun::new(&target, options).unwrap();
        let mut agree = |_: &_, _: &_| unreachable!("a simulated card needs no consent");
        let probed = run.run(&mut agree, &mut NoObserver).unwrap().probed;
        // A request that has begun is awaited, and can merge erase blocks.
        let longest_ns = probed.evidence.samples.iter().map(|of| of.elapsed_ns).max().unwrap();
        let most_ns = limit_ns + longest_ns + COMMAND_NS;
        assert!(probed.elapsed_ns <= most_ns, "{} of {limit_ns}", probed.elapsed_ns);
        assert!(probed.written_bytes > 0);
    }
}
