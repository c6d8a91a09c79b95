//! Whether the quantities of a probe's document can be what a probe writes: each is there, has a
//! value exactly if it was found, and one of the right kind.

use std::collections::BTreeMap;

use flashfit_device::Bytes;
use flashfit_geometry::{GeometryFinding, GeometryFindings, QuantityValue};
use serde::de::IgnoredAny;

use crate::document::{ProbeDocument, found_bytes};

/// A quantity that no probe writes like that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}`: {reason}")]
pub struct WrongQuantity {
    /// As in the document.
    pub key: &'static str,
    pub reason: String,
}

/// The kind of a quantity's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Bytes, more than 0.
    Size,
    /// Bytes.
    Bytes,
    Count,
    Is,
}

/// The quantities of every version.
const QUANTITIES: [(&str, Kind); 11] = [
    ("capacity", Kind::Bytes),
    ("page", Kind::Size),
    ("write_unit", Kind::Size),
    ("erase_unit", Kind::Size),
    ("erase_unit_offset", Kind::Bytes),
    ("open_units_linear", Kind::Count),
    ("open_units_random", Kind::Count),
    ("small_write_log", Kind::Bytes),
    ("special_zone", Kind::Bytes),
    ("pslc_cache", Kind::Bytes),
    ("unwritten_is_faster", Kind::Is),
];

impl Kind {
    fn why_not(self, value: QuantityValue) -> Option<String> {
        let expected = match (self, value) {
            (Self::Size, QuantityValue::Bytes(0)) => return Some("it has 0 bytes".to_owned()),
            (Self::Size | Self::Bytes, QuantityValue::Bytes(_))
            | (Self::Count, QuantityValue::Count(_))
            | (Self::Is, QuantityValue::Is(_)) => return None,
            (Self::Size | Self::Bytes, _) => "bytes",
            (Self::Count, _) => "count",
            (Self::Is, _) => "is",
        };
        Some(format!("expected `{expected}`"))
    }
}

impl WrongQuantity {
    /// The first one of a document.
    pub fn of(document: &ProbeDocument) -> Option<Self> {
        let findings = in_order(&document.findings);
        let wrong = QUANTITIES.iter().zip(findings).find_map(|(&(key, kind), finding)| {
            let likely = finding.candidates.iter().map(|candidate| candidate.value);
            let reason = finding.value.into_iter().chain(likely).find_map(|of| kind.why_not(of))?;
            Some(Self { key, reason })
        });
        wrong.or_else(|| {
            Some(Self { key: "erase_unit_offset", reason: why_not_an_offset(document)? })
        })
    }

    /// The first one in a text that is not a document.
    pub(crate) fn in_text(text: &str) -> Option<Self> {
        let mut all: BTreeMap<String, serde_json::Value> = serde_json::from_str(text).ok()?;
        QUANTITIES.iter().find_map(|&(key, _)| {
            let read = serde_json::from_value::<GeometryFinding>(all.remove(key)?);
            Some(Self { key, reason: read.err()?.to_string() })
        })
    }

    /// The first one that a document lacks.
    pub(crate) fn absent(text: &str) -> Option<Self> {
        let all: BTreeMap<String, IgnoredAny> = serde_json::from_str(text).ok()?;
        let (key, _) = QUANTITIES.iter().find(|(key, _)| !all.contains_key(*key))?;
        Some(Self { key, reason: "it is missing".to_owned() })
    }
}

/// In the order of [`QUANTITIES`].
fn in_order(findings: &GeometryFindings) -> [&GeometryFinding; 11] {
    [
        &findings.capacity,
        &findings.page,
        &findings.write_unit,
        &findings.erase_block,
        &findings.erase_block_offset,
        &findings.open_erase_blocks_linear,
        &findings.open_erase_blocks_random,
        &findings.small_write_log,
        &findings.special_zone,
        &findings.pslc_cache,
        &findings.unwritten_is_faster,
    ]
}

fn why_not_an_offset(document: &ProbeDocument) -> Option<String> {
    let offset = found_bytes(&document.findings.erase_block_offset)?.0;
    let device = document.device.as_ref()?;
    let (sector, capacity) = (device.sector_bytes, device.capacity_bytes);
    if offset.checked_rem(sector).is_some_and(|rest| rest != 0) {
        return Some(format!("{offset} bytes are not whole sectors of {sector} bytes"));
    }
    let is_beyond = offset >= capacity && offset > 0;
    is_beyond
        .then(|| format!("{offset} bytes are beyond the end of the device of {}", Bytes(capacity)))
}

#[cfg(test)]
mod tests {
    use flashfit_device::DeclaredFacts;
    use flashfit_device::describe::DeviceKind;
    use flashfit_device::identity::DeviceIdentity;
    use flashfit_geometry::Probed;
    use serde_json::{Value, json};

    use super::*;
    use crate::document::{ProbeMode, ProbeSettings, ProbedDevice};

    fn written() -> Value {
        let device = ProbedDevice {
            kind: DeviceKind::SdCard,
            identity: DeviceIdentity::default(),
            capacity_bytes: 1 << 30,
            sector_bytes: 512,
            partition_start_bytes: None,
        };
        let asked = ProbeSettings {
            target: "/dev/sdz".into(),
            mode: ProbeMode::Write,
            simulated: false,
            seed: 7,
            region: Some([0, 1 << 30]),
            device: Some(device),
            declared: DeclaredFacts::default(),
            created_unix_s: None,
        };
        let mut probed = Probed::default();
        probed.findings.erase_block =
            GeometryFinding::found(QuantityValue::Bytes(4 << 20), 0.99, "a step");
        serde_json::to_value(ProbeDocument::new(asked, probed, false)).unwrap()
    }

    /// What is wrong with the document that has this in place of a quantity.
    fn wrong(key: &str, finding: Value) -> String {
        let mut document = written();
        document[key] = finding;
        error(&document)
    }

    fn error(document: &Value) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), document.to_string()).unwrap();
        let path = file.path().display().to_string();
        let read = ProbeDocument::read(file.path()).map(drop);
        read.map_or_else(|error| error.to_string().replace(&path, "FILE"), |()| String::new())
    }

    #[test]
    fn a_document_as_a_probe_writes_it_is_read() {
        assert_eq!(error(&written()), "");
        for (key, kind, value) in [
            ("erase_unit_offset", "bytes", json!(0)),
            ("erase_unit_offset", "bytes", json!(3 << 20)),
            ("open_units_random", "count", json!(0)),
            ("unwritten_is_faster", "is", json!(true)),
        ] {
            let mut finding = json!({"verdict": "found", "confidence": 0.99, "reason": "seen"});
            finding[kind] = value;
            assert_eq!(wrong(key, finding), "");
        }
        let candidates = json!([{"bytes": 4 << 20, "probability": 0.6}]);
        let inconclusive = json!({
            "verdict": "inconclusive", "confidence": 0.6, "reason": "noise", "candidates": candidates,
        });
        assert_eq!(wrong("erase_unit", inconclusive), "");
    }

    #[test]
    fn what_no_probe_writes_is_refused_by_its_key() {
        let found = |value: Value| json!({"verdict": "found", "bytes": value, "confidence": 0.99, "reason": "seen"});
        for value in [json!("4MiB"), json!(-1), json!(4194304.0), json!(true)] {
            let text = wrong("erase_unit", found(value.clone()));
            assert!(text.starts_with("FILE: `erase_unit`: invalid "), "{value}: {text}");
        }
        let text = wrong("erase_unit", found(json!(0)));
        assert_eq!(text, "FILE: `erase_unit`: it has 0 bytes");
        let count = json!({"verdict": "found", "count": 4, "confidence": 0.99, "reason": "seen"});
        assert_eq!(wrong("erase_unit", count.clone()), "FILE: `erase_unit`: expected `bytes`");
        let misspelled = json!({"verdict": "found", "byte": 4, "confidence": 1, "reason": "seen"});
        let text = wrong("write_unit", misspelled);
        assert!(text.contains("`write_unit`: it was found, but has no `bytes`"), "{text}");
        let mut both = count;
        both["bytes"] = json!(4);
        let text = wrong("open_units_linear", both);
        assert!(text.contains("`open_units_linear`: it has several values"), "{text}");
        let undecided = json!({"verdict": "inconclusive", "bytes": 8 << 20, "reason": "noise"});
        let text = wrong("erase_unit", undecided);
        assert!(text.contains("`erase_unit`: it has a value, but was not found"), "{text}");
        let certain = json!({"verdict": "found", "bytes": 4096, "confidence": 2, "reason": "seen"});
        let text = wrong("page", certain);
        assert!(text.contains("`page`: the probability 2 is not from 0 to 1"), "{text}");
        let candidates = json!([{"count": 4, "probability": 0.9}]);
        let likely = json!({"verdict": "inconclusive", "reason": "", "candidates": candidates});
        assert_eq!(wrong("erase_unit", likely), "FILE: `erase_unit`: expected `bytes`");
        let text = wrong("erase_unit_offset", found(json!(513)));
        assert_eq!(text, "FILE: `erase_unit_offset`: 513 bytes are not whole sectors of 512 bytes");
        let text = wrong("erase_unit_offset", found(json!(u64::MAX - 511)));
        assert!(text.contains("are beyond the end of the device of 1 GiB"), "{text}");
        let mut misspelled = written();
        let erase_unit = misspelled.as_object_mut().unwrap().remove("erase_unit").unwrap();
        misspelled["erase_unti"] = erase_unit;
        assert_eq!(error(&misspelled), "FILE: `erase_unit`: it is missing");
    }
}
