//! Checks again, while a probe writes, that the device is still the one that the user agreed to
//! lose and that nobody else uses it.
//!
//! Limit: what happens between two checks is noticed at the next one.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use flashfit_device::{Refusal, WriteConsent};
use flashfit_geometry::probed::ProbeObserver;

/// A check reads the open files of all processes, so it is not made more often than this...
const LEAST_INTERVAL: Duration = Duration::from_secs(1);
/// ...and within a measurement, whose rest it may disturb, not more often than this.
const MEASUREMENT_INTERVAL: Duration = Duration::from_secs(10);

/// An observer that also ends the probe when the guard refuses.
pub struct GuardedObserver<'a> {
    observer: &'a mut dyn ProbeObserver,
    /// `None` for a simulated card.
    consent: Option<&'a WriteConsent>,
    /// The measurement at the last check.
    what: String,
    checked: Option<Instant>,
    refusal: Option<Refusal>,
    has_asked: bool,
}

impl<'a> GuardedObserver<'a> {
    pub fn new(observer: &'a mut dyn ProbeObserver, consent: Option<&'a WriteConsent>) -> Self {
        Self {
            observer,
            consent,
            what: String::new(),
            checked: None,
            refusal: None,
            has_asked: false,
        }
    }

    /// Why the guard ended the probe, if it did.
    pub fn into_refusal(self) -> Option<Refusal> {
        self.refusal
    }

    /// Whether the time was over, and the observer was asked for more.
    pub fn has_asked(&self) -> bool {
        self.has_asked
    }

    /// Whether the probe may go on writing. A refusal is final.
    pub fn check(&mut self) -> bool {
        if let (Some(consent), None) = (self.consent, &self.refusal) {
            self.refusal = consent.check_while_open().err();
            self.checked = Some(Instant::now());
        }
        self.refusal.is_none()
    }

    fn is_due(&self, what: &str) -> bool {
        let interval = if what == self.what { MEASUREMENT_INTERVAL } else { LEAST_INTERVAL };
        self.checked.is_none_or(|checked| checked.elapsed() >= interval)
    }
}

impl ProbeObserver for GuardedObserver<'_> {
    fn step(&mut self, done: f64, what: &str) -> ControlFlow<()> {
        let goes_on = self.observer.step(done, what);
        if goes_on.is_continue() && self.is_due(what) {
            what.clone_into(&mut self.what);
            self.check();
        }
        if self.refusal.is_some() { ControlFlow::Break(()) } else { goes_on }
    }

    /// The user may have taken any time to answer.
    fn extend(&mut self, elapsed_ns: u64) -> Option<u64> {
        if self.refusal.is_some() {
            return None;
        }
        self.has_asked = true;
        let more_ns = self.observer.extend(elapsed_ns)?;
        self.check().then_some(more_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use flashfit_device::{ConsentMethod, Device, SystemRoots};
    use flashfit_host::SystemRunner;

    use super::*;

    /// Agrees to everything.
    struct Generous;

    impl ProbeObserver for Generous {
        fn step(&mut self, _done: f64, _what: &str) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }

        fn extend(&mut self, elapsed_ns: u64) -> Option<u64> {
            Some(elapsed_ns)
        }
    }

    struct Image {
        folder: tempfile::TempDir,
        path: PathBuf,
        consent: WriteConsent,
    }

    impl Image {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("card.img");
            sparse(&path);
            let (runner, name) = (SystemRunner::default(), ConsentMethod::Named("card.img".into()));
            let shown = Device::from_image(&runner, &path).unwrap();
            let system = SystemRoots::default();
            let consent = WriteConsent::ask(&system, &runner, &shown, &name).unwrap();
            Self { folder, path, consent }
        }

        fn replace(&self) {
            std::fs::rename(&self.path, self.folder.path().join("aside")).unwrap();
            sparse(&self.path);
        }
    }

    fn sparse(path: &Path) {
        std::fs::File::create(path).unwrap().set_len(1 << 20).unwrap();
    }

    fn refused(guarded: GuardedObserver<'_>) -> bool {
        matches!(guarded.into_refusal(), Some(Refusal::Changed { .. }))
    }

    #[test]
    fn a_replaced_image_gets_no_more_time() {
        let (image, mut generous) = (Image::new(), Generous);
        let mut guarded = GuardedObserver::new(&mut generous, Some(&image.consent));
        assert_eq!(guarded.extend(7), Some(7));
        image.replace();
        assert_eq!(guarded.extend(7), None);
        assert!(guarded.step(0.5, "times").is_break(), "a refusal is final");
        assert!(refused(guarded));
    }

    #[test]
    fn a_replaced_image_ends_the_next_measurement() {
        let (image, mut generous) = (Image::new(), Generous);
        let mut guarded = GuardedObserver::new(&mut generous, Some(&image.consent));
        assert!(guarded.step(0.1, "times").is_continue());
        image.replace();
        assert!(guarded.step(0.2, "times").is_continue(), "not checked at every step");
        guarded.checked = guarded.checked.map(|checked| checked - LEAST_INTERVAL);
        assert!(guarded.step(0.3, "times").is_continue(), "still the same measurement");
        assert!(guarded.step(0.4, "capacity").is_break());
        assert!(refused(guarded));
    }

    #[test]
    fn a_long_measurement_is_checked_too_and_a_simulated_card_never() {
        let (image, mut generous) = (Image::new(), Generous);
        let mut guarded = GuardedObserver::new(&mut generous, Some(&image.consent));
        assert!(guarded.step(0.1, "times").is_continue());
        image.replace();
        guarded.checked = guarded.checked.map(|checked| checked - MEASUREMENT_INTERVAL);
        assert!(guarded.step(0.2, "times").is_break());
        let mut guarded = GuardedObserver::new(&mut generous, None);
        assert_eq!((guarded.check(), guarded.extend(7)), (true, Some(7)));
        assert!(guarded.into_refusal().is_none());
    }
}
