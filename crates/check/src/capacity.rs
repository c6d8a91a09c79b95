//! The finding of an earlier test of the capacity.

use flashfit_filesystem::check::{CheckFinding, Severity};
use flashfit_probe::{CapacityFault, TestedCapacity};

pub const CHECK: &str = "capacity";

/// `None` if it was not tested.
pub fn finding(name: &str, tested: &TestedCapacity) -> Option<CheckFinding> {
    let (severity, evidence, cost) = match tested {
        TestedCapacity::Unknown => return None,
        TestedCapacity::Complete(bytes) => {
            let evidence = format!("the probe read back what it wrote all over its {bytes}");
            (Severity::Fine, evidence, "")
        }
        TestedCapacity::Faulty(CapacityFault::Fake { real, announced, .. }) => (
            Severity::Bad,
            format!("it has {real}, not {announced}: it is a fake"),
            "what is written beyond its real size is lost: save its files elsewhere, and return it",
        ),
        TestedCapacity::Faulty(CapacityFault::LosesData { reason, .. }) => (
            Severity::Bad,
            reason.clone(),
            "files are lost: save what is left elsewhere, and try another card reader",
        ),
    };
    Some(CheckFinding {
        check: CHECK,
        subject: name.to_owned(),
        severity,
        evidence,
        cost: cost.to_owned(),
        repair: None,
    })
}
