//! Whether a device's addresses lead to flash in another order.
//!
//! The file system places the extents of a file anywhere, and a device mapper or an array
//! translates addresses piece by piece. Reads and writes across such a border take longer for
//! reasons that have nothing to do with erase blocks, so a probe makes no claim about the structure
//! of these devices. A loop device over a simulated card is an exception: its file is the card.
//! Limits: what a virtual machine shows as a disk is taken for one; a loop device over a whole disk
//! counts as one over a file.

use std::path::Path;

use flashfit_device::{Device, DeviceKind, SystemRoots};
use flashfit_geometry::{GeometryFinding, GeometryFindings, Probed};

/// How the kernel names the unmounted file of a simulated card.
const SERVED_CARD: &str = "/flashfit-card-";

/// What translates the addresses of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remapped {
    /// The device is a file of a file system, such as an image or a swap file.
    ByFileSystem,
    /// The device consists of parts of others (device mapper, md, bcache).
    ByMapper,
}

impl Remapped {
    /// `None` for a device whose own flash is addressed.
    pub fn of(device: &Device) -> Option<Self> {
        Self::with(&SystemRoots::default(), device)
    }

    fn with(system: &SystemRoots, device: &Device) -> Option<Self> {
        let block = system.block(&device.disk);
        match device.kind {
            DeviceKind::Simulated => None,
            DeviceKind::Image => Some(Self::ByFileSystem),
            DeviceKind::Loop => {
                let file = system.path_attribute(&block.join("loop/backing_file"));
                let is_card = file.is_some_and(|file| is_served_card(&file));
                (!is_card).then_some(Self::ByFileSystem)
            }
            _ => {
                let slaves = std::fs::read_dir(block.join("slaves"));
                let has_parts = slaves.is_ok_and(|mut slaves| slaves.next().is_some());
                let is_mapper = ["dm", "md"].iter().any(|folder| block.join(folder).exists());
                (has_parts || is_mapper).then_some(Self::ByMapper)
            }
        }
    }

    /// Why nothing can be said about its structure.
    pub fn reason(self) -> &'static str {
        match self {
            Self::ByFileSystem => {
                "this is a file, and its extents may lie anywhere on its disk: probe that disk"
            }
            Self::ByMapper => {
                "this device is composed of parts of others, which may lie anywhere: probe those"
            }
        }
    }

    /// Removes what a probe concluded about the structure of flash; capacity and evidence stay.
    pub fn withhold(self, probed: &mut Probed) {
        let nothing = GeometryFinding::inconclusive(self.reason(), Vec::new());
        let found = std::mem::take(&mut probed.findings);
        probed.findings = GeometryFindings {
            capacity: found.capacity,
            unwritten_is_faster: found.unwritten_is_faster,
            ..GeometryFindings::uniform(&nothing)
        };
        probed.belief = None;
    }
}

/// The file of a simulated card is unmounted once the loop device has it, so only its name is left.
/// A path that still leads to a file is one of an ordinary file system.
fn is_served_card(file: &Path) -> bool {
    file.to_string_lossy().starts_with(SERVED_CARD) && !file.exists()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use flashfit_geometry::{QuantityValue, QuantityVerdict};

    use super::*;

    /// A device on a machine whose `/sys` has these files.
    fn remapped(kind: DeviceKind, files: &[(&str, &str)]) -> Option<Remapped> {
        let folder = tempfile::tempdir().unwrap();
        let system = SystemRoots { sys: folder.path().to_owned(), proc: PathBuf::from("/proc") };
        for (path, content) in files {
            let path = system.block("disk0").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let image = folder.path().join("image");
        std::fs::write(&image, [0; 512]).unwrap();
        let runner = flashfit_host::SystemRunner::default();
        let device = Device::from_image(&runner, &image).unwrap();
        Remapped::with(&system, &Device { kind, disk: "disk0".to_owned(), ..device })
    }

    #[test]
    fn files_and_composed_devices_have_no_flash_of_their_own() {
        let backing = |file: &'static str| [("loop/backing_file", file)];
        let by_files = Some(Remapped::ByFileSystem);
        assert_eq!(remapped(DeviceKind::Image, &[]), by_files);
        assert_eq!(remapped(DeviceKind::Loop, &backing("/home/user/card.img\n")), by_files);
        assert_eq!(remapped(DeviceKind::Loop, &backing("/home/card.img (deleted)\n")), by_files);
        assert_eq!(remapped(DeviceKind::Loop, &[]), by_files);
        assert_eq!(remapped(DeviceKind::Loop, &backing("/flashfit-card-2252\n")), None);
        let composed = Some(Remapped::ByMapper);
        assert_eq!(remapped(DeviceKind::Other, &[("slaves/sda", "")]), composed);
        assert_eq!(remapped(DeviceKind::Other, &[("dm/name", "vg-root")]), composed);
        assert_eq!(remapped(DeviceKind::SdCard, &[("queue/scheduler", "none")]), None);
    }

    #[test]
    fn only_the_structure_of_flash_is_withheld() {
        let found = || GeometryFinding::found(QuantityValue::Bytes(8 << 20), 0.99, "a step");
        let findings = GeometryFindings {
            erase_block: found(),
            write_unit: found(),
            capacity: found(),
            ..GeometryFindings::default()
        };
        let mut probed = Probed { findings, reads: 7, ..Probed::default() };
        Remapped::ByFileSystem.withhold(&mut probed);
        let GeometryFindings { erase_block, write_unit, capacity, .. } = &probed.findings;
        assert_eq!((erase_block.value, write_unit.value), (None, None));
        assert_eq!(capacity.verdict, QuantityVerdict::Found);
        assert!(erase_block.reason.contains("extents") && probed.reads == 7);
    }
}
