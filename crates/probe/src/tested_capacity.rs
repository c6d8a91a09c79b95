//! What a probe's document says about the capacity: whether the device keeps what is written to
//! all of it.

use flashfit_device::Bytes;
use flashfit_geometry::probed::FailedRequest;
use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::document::{ProbeDocument, found_bytes};

/// The result of a test of the capacity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TestedCapacity {
    /// Not tested, or only in a region.
    #[default]
    Unknown,
    /// Marks all over the device were read back.
    Complete(Bytes),
    Faulty(CapacityFault),
}

/// A device that does not keep all that is written to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapacityFault {
    #[error("{target} has {real}, not {announced}: it is a fake")]
    Fake { target: String, real: Bytes, announced: Bytes },
    /// No smaller capacity explains what was lost.
    #[error("{target}: {reason}")]
    LosesData { target: String, reason: String },
}

impl UserError for CapacityFault {
    fn class(&self) -> ExitClass {
        ExitClass::BadVerdict
    }

    fn hint(&self) -> Option<Hint> {
        let text = match self {
            Self::Fake { .. } => "return it; data beyond its real size is lost",
            Self::LosesData { .. } => {
                "try another card reader; if it happens again, stop using the device"
            }
        };
        Some(text.into())
    }
}

impl TestedCapacity {
    pub fn fault(self) -> Option<CapacityFault> {
        match self {
            Self::Faulty(fault) => Some(fault),
            Self::Unknown | Self::Complete(_) => None,
        }
    }
}

impl ProbeDocument {
    pub fn tested_capacity(&self) -> TestedCapacity {
        let Some(device) = &self.device else { return TestedCapacity::Unknown };
        let (finding, target) = (&self.findings.capacity, self.target.clone());
        let announced = Bytes(device.capacity_bytes);
        match found_bytes(finding) {
            // An image can end within a sector, which cannot be read.
            Some(real) if announced.0.saturating_sub(real.0) >= device.sector_bytes => {
                TestedCapacity::Faulty(CapacityFault::Fake { target, real, announced })
            }
            Some(real) => TestedCapacity::Complete(real),
            None if self.errors.iter().any(FailedRequest::is_lost_data) => {
                let reason = finding.reason.clone();
                TestedCapacity::Faulty(CapacityFault::LosesData { target, reason })
            }
            None => TestedCapacity::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use flashfit_device::{DeclaredFacts, DeviceKind};
    use flashfit_geometry::{GeometryFinding, Probed, QuantityValue};

    use super::*;
    use crate::document::{ProbeMode, ProbeSettings, ProbedDevice};

    fn tested(probed: Probed) -> TestedCapacity {
        let device = ProbedDevice {
            kind: DeviceKind::Usb,
            identity: Default::default(),
            capacity_bytes: 32 << 30,
            sector_bytes: 512,
            partition_start_bytes: None,
        };
        let asked = ProbeSettings {
            target: "/dev/sdz".into(),
            mode: ProbeMode::Write,
            simulated: false,
            seed: 1,
            region: Some([0, 32 << 30]),
            device: Some(device),
            declared: DeclaredFacts::default(),
            created_unix_s: None,
        };
        ProbeDocument::new(asked, probed, false).tested_capacity()
    }

    fn found(bytes: u64) -> TestedCapacity {
        let mut probed = Probed::default();
        let value = QuantityValue::Bytes(bytes);
        probed.findings.capacity = GeometryFinding::found(value, 0.999, "marks were read");
        tested(probed)
    }

    #[test]
    fn capacity_that_is_not_there_is_a_bad_verdict() {
        let fault = found(4 << 30).fault().unwrap();
        assert_eq!(fault.class(), ExitClass::BadVerdict);
        assert_eq!(fault.to_string(), "/dev/sdz has 4 GiB, not 32 GiB: it is a fake");
        assert_eq!(found(32 << 30), TestedCapacity::Complete(Bytes(32 << 30)));
        assert_eq!(found((32 << 30) - 511).fault(), None, "less than a sector");
        assert_eq!(tested(Probed::default()), TestedCapacity::Unknown);
    }

    #[test]
    fn lost_marks_are_a_bad_verdict_with_the_reason() {
        let mut probed = Probed::default();
        let reason = "the device does not keep what is written at offset 4096";
        probed.findings.capacity = GeometryFinding::inconclusive(reason, Vec::new());
        probed.errors.push(FailedRequest::lost_data(4096, 4096));
        let fault = tested(probed).fault().unwrap();
        assert_eq!(fault.to_string(), format!("/dev/sdz: {reason}"));
        assert!(fault.hint().unwrap().contains("stop using the device"));
    }
}
