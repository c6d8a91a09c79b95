//! The health descriptor of a UFS device.
//!
//! Source: `health_descriptor` in Documentation/ABI/testing/sysfs-driver-ufs; JESD220 codes the
//! values as eMMC does. Limit: steps of 10 %.

use flashfit_device::SystemRoots;
use flashfit_device::registers::ext_csd::PreEol;

use crate::mmc::{LifeTenths, life_counters, life_tenth};
use crate::reading::{Answer, NoAnswer, SourceReport};

const DESCRIPTOR: &str = "health_descriptor";

/// The descriptor of the UFS device that a disk is on; `None` if it is on another bus.
pub(crate) fn read(system: &SystemRoots, disk: &str) -> Option<Answer> {
    let device = system.block(disk).join("device").canonicalize().ok()?;
    let folder = device.ancestors().map(|folder| folder.join(DESCRIPTOR)).find(|at| at.is_dir())?;
    let attribute = |name: &str| system.attribute(&folder.join(name));
    let life = |name: &str| attribute(name).as_deref().and_then(life_tenth);
    let tenths =
        LifeTenths { a: life("life_time_estimation_a"), b: life("life_time_estimation_b") };
    let sources = [
        "UFS health descriptor, life_time_estimation_a",
        "UFS health descriptor, life_time_estimation_b",
    ];
    let mut report =
        SourceReport { counters: life_counters(tenths, "ufs", sources), ..SourceReport::default() };
    let eol = attribute("eol_info").as_deref().and_then(life_tenth).and_then(PreEol::from_code);
    if let Some(eol) = eol {
        report.add_fact("spare blocks", eol.text(), "UFS health descriptor, eol_info");
    }
    Some(if report.counters.is_empty() && report.facts.is_empty() {
        Err(NoAnswer::nothing("its estimates are not defined"))
    } else {
        Ok(report)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptor_is_above_the_disk() {
        let root = tempfile::tempdir().unwrap();
        let system = SystemRoots { sys: root.path().to_owned(), ..SystemRoots::default() };
        let controller = root.path().join("devices/platform/1d84000.ufshc");
        let disk = controller.join("host0/target0:0:0/0:0:0:0");
        let block = system.block("sda");
        for folder in [&disk, &block, &controller.join(DESCRIPTOR)] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::os::unix::fs::symlink(&disk, block.join("device")).unwrap();
        assert!(read(&system, "sda").unwrap().is_err(), "an empty descriptor");
        for (name, text) in [("eol_info", "0x01"), ("life_time_estimation_a", "0x03")] {
            std::fs::write(controller.join(DESCRIPTOR).join(name), text).unwrap();
        }
        let report = read(&system, "sda").unwrap().unwrap();
        assert_eq!(report.counters[0].value, 20);
        assert_eq!(report.facts[0].text, "less than 80 % used");
        assert!(read(&system, "sdb").is_none());
    }
}
