//! Whether two looks, possibly on different days or machines, were at the same device.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use flashfit_device::identity::DeviceIdentity;
use flashfit_device::units::SECTOR_BYTES;
use flashfit_device::{Bytes, Device, DeviceKind, ObjectId, SystemRoots};
use serde::{Deserialize, Serialize};

/// What is kept of a device to know it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFingerprint {
    /// Its node or image file, as it was called.
    #[serde(with = "flashfit_host::path_text::document")]
    pub path: PathBuf,
    /// What kind it is; an image also behind a loop device.
    pub kind: DeviceKind,
    /// Its size, or that of the partition.
    pub capacity: Bytes,
    /// Where it starts, where it is a partition.
    pub partition_start: Option<Bytes>,
    pub identity: DeviceIdentity,
    /// Device and inode number of an image file, and when it was made, in nanoseconds since 1970
    /// (0 where its file system does not tell): the number of a removed file is soon another's.
    pub file: Option<(u64, u64, u64)>,
    /// Where a loop device starts in the file or disk behind it.
    #[serde(default, skip_serializing_if = "is_start")]
    pub offset: Bytes,
}

fn is_start(offset: &Bytes) -> bool {
    offset.0 == 0
}

impl DeviceFingerprint {
    /// Who a device is. A loop device is a part of the file behind it, and an image is what a loop
    /// device over it has: whole sectors.
    pub fn of(system: &SystemRoots, device: &Device) -> Self {
        let behind = match device.kind {
            DeviceKind::Loop => {
                let attribute = system.block(&device.disk).join("loop/backing_file");
                system.path_attribute(&attribute).filter(|path| path.exists())
            }
            DeviceKind::Image => Some(device.path.clone()),
            _ => None,
        };
        let file = behind.as_deref().and_then(file_number);
        let is_file = file.is_some();
        let shown = behind.filter(|_| device.partition_start.is_none());
        Self {
            path: shown.unwrap_or_else(|| device.path.clone()),
            kind: if is_file { DeviceKind::Image } else { device.kind },
            capacity: Bytes(device.capacity.0 / SECTOR_BYTES * SECTOR_BYTES),
            partition_start: device.partition_start,
            identity: if is_file { DeviceIdentity::default() } else { device.identity.clone() },
            file,
            offset: device.backing_offset.unwrap_or_default(),
        }
    }

    /// The difference between `now` and this one, if anything does. The kernel's count of disks
    /// does not: it differs after the device was out, or the machine off.
    pub fn difference(&self, now: &Self) -> Option<String> {
        if self.capacity != now.capacity {
            let (before, after) = (self.capacity.0, now.capacity.0);
            return Some(format!("it has {after} bytes, not {before}"));
        }
        if self.partition_start != now.partition_start {
            return Some("it starts elsewhere".to_owned());
        }
        if self.kind == DeviceKind::Image || now.kind == DeviceKind::Image {
            return None;
        }
        let (before, after) = (known(&self.identity), known(&now.identity));
        (before != after).then(|| {
            let number =
                |identity: &DeviceIdentity| identity.cid.clone().or(identity.serial.clone());
            let show = |identity: &DeviceIdentity| match number(identity) {
                Some(number) => format!("{} {number}", identity.summary()),
                None => identity.summary(),
            };
            format!("it is `{}`, not `{}`", show(&now.identity), show(&self.identity))
        })
    }

    /// Whether they are other files, other places in one file, or only one of them is a file. A
    /// copy is another file.
    pub fn is_other_file(&self, now: &Self) -> bool {
        let id = |file: &(u64, u64, u64)| {
            let (device, inode, created_ns) = *file;
            ObjectId { device, inode, node: 0, created_ns }
        };
        if self.offset != now.offset {
            return true;
        }
        match (&self.file, &now.file) {
            (Some(before), Some(now)) => !id(before).is_same_file(&id(now)),
            (before, now) => before.is_some() != now.is_some(),
        }
    }

    /// Whether `now` is this one for sure enough to say that its work was left unfinished: images
    /// have no name but their number.
    pub(crate) fn is(&self, now: &Self) -> bool {
        self.difference(now).is_none() && self.file == now.file && self.offset == now.offset
    }

    /// Whether `other` is this device or one of its partitions.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        if self.partition_start.is_some() {
            return self.is(other);
        }
        let (partition_start, capacity) = (other.partition_start, other.capacity);
        match partition_start {
            None => self.is(other),
            Some(_) => Self { partition_start, capacity, ..self.clone() }.is(other),
        }
    }

    /// The same, and surely not another card in the same reader.
    pub(crate) fn surely_includes(&self, other: &Self) -> bool {
        self.includes(other) && other.is_surely(other, false)
    }

    /// Whether `now` is the very same device: many a card reader names itself and not the card in
    /// it, and then only a device that stayed in place since is sure. `same_boot` says whether the
    /// kernel has counted its disks on since.
    pub(crate) fn is_surely(&self, now: &Self, same_boot: bool) -> bool {
        let counted = self.identity.disk_sequence;
        let stayed = same_boot && counted.is_some() && counted == now.identity.disk_sequence;
        let is_named = match self.kind {
            DeviceKind::SdCard | DeviceKind::Emmc => self.identity.cid.is_some(),
            DeviceKind::Nvme | DeviceKind::Ssd | DeviceKind::Disk => self.identity.serial.is_some(),
            DeviceKind::Image => self.file.is_some(),
            DeviceKind::Usb | DeviceKind::Loop | DeviceKind::Simulated | DeviceKind::Other => false,
        };
        self.is(now) && (stayed || is_named)
    }

    /// A name for a file about this device.
    pub(crate) fn key(&self) -> String {
        let number = self.identity.cid.as_ref().or(self.identity.serial.as_ref());
        let mut text = match (&self.file, number) {
            (Some((device, inode, _)), _) => format!("image {device} {inode}"),
            (None, Some(number)) => format!("{number} {}", self.start()),
            (None, None) => format!("{} {} {}", self.path.display(), self.capacity.0, self.start()),
        };
        // Whole files keep the names that they had in earlier versions.
        if self.file.is_some() && self.partition_start.is_some() {
            text.push_str(&format!(" partition at {}", self.start()));
        }
        if !is_start(&self.offset) {
            text.push_str(&format!(" from {}", self.offset.0));
        }
        crate::checksum::fnv1a(text.as_bytes())
    }

    fn start(&self) -> u64 {
        self.partition_start.unwrap_or_default().0
    }
}

fn known(identity: &DeviceIdentity) -> DeviceIdentity {
    DeviceIdentity { disk_sequence: None, ..identity.clone() }
}

fn file_number(path: &Path) -> Option<(u64, u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let created_ns = born.and_then(|born| u64::try_from(born.as_nanos()).ok());
    found.is_file().then(|| (found.dev(), found.ino(), created_ns.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(serial: &str, sequence: u64) -> DeviceFingerprint {
        DeviceFingerprint {
            path: "/dev/mmcblk0".into(),
            kind: DeviceKind::SdCard,
            capacity: Bytes::mib(64),
            partition_start: None,
            identity: DeviceIdentity {
                serial: Some(serial.into()),
                disk_sequence: Some(sequence),
                ..DeviceIdentity::default()
            },
            file: None,
            offset: Bytes(0),
        }
    }

    #[test]
    fn a_card_is_known_again_after_it_was_out() {
        assert_eq!(card("a", 1).difference(&card("a", 7)), None);
        assert_eq!(card("a", 1).key(), card("a", 7).key());
        assert!(card("a", 1).difference(&card("b", 1)).unwrap().contains("not `unnamed a`"));
        let larger = DeviceFingerprint { capacity: Bytes::mib(65), ..card("a", 1) };
        assert!(card("a", 1).difference(&larger).unwrap().contains("68157440 bytes"));
    }

    #[test]
    fn another_card_in_the_same_reader_is_not_taken_for_the_unfinished_one() {
        let reader =
            |sequence| DeviceFingerprint { kind: DeviceKind::Usb, ..card("reader", sequence) };
        assert!(reader(1).is_surely(&reader(1), true), "it stayed in");
        assert!(!reader(1).is_surely(&reader(2), true), "something was put in");
        assert!(!reader(1).is_surely(&reader(1), false), "counted by another kernel");
        let mut named = card("a", 1);
        assert!(!named.is_surely(&card("a", 2), true));
        named.identity.cid = Some("03".into());
        let mut later = card("a", 2);
        later.identity.cid = Some("03".into());
        assert!(named.is_surely(&later, false), "a card that says who it is");
    }

    #[test]
    fn another_file_of_the_same_size_is_not_the_unfinished_one() {
        let image = |inode| DeviceFingerprint {
            kind: DeviceKind::Image,
            file: Some((1, inode, 0)),
            identity: DeviceIdentity::default(),
            ..card("", 0)
        };
        assert!(image(1).is(&image(1)));
        assert!(!image(1).is(&image(2)));
        assert_eq!(image(1).difference(&image(2)), None, "a backup fits a copy of its image");
        assert!(image(1).is_other_file(&image(2)) && !image(1).is_other_file(&image(1)));
        let moved = DeviceFingerprint { file: Some((2, 1, 7)), ..image(1) };
        let before = DeviceFingerprint { file: Some((1, 1, 7)), ..image(1) };
        assert!(!before.is_other_file(&moved), "the device's number changed with a boot");
    }

    #[test]
    fn another_part_of_the_same_file_is_another_device() {
        let part = |offset, partition_start| DeviceFingerprint {
            kind: DeviceKind::Image,
            file: Some((1, 2, 3)),
            identity: DeviceIdentity::default(),
            offset,
            partition_start,
            ..card("", 0)
        };
        let first = part(Bytes::mib(1), None);
        for (other, is_copy) in [
            (part(Bytes::mib(110), None), true),
            (part(Bytes(0), None), true),
            (part(Bytes(0), Some(Bytes::mib(1))), false),
        ] {
            assert!(!first.is(&other) && first.is_other_file(&other), "{other:?}");
            assert_eq!(first.difference(&other).is_none(), is_copy, "{other:?}");
            assert_ne!(first.key(), other.key());
        }
        assert!(first.is(&first) && !first.is_other_file(&first));
        let text = serde_json::to_string(&first).unwrap();
        assert_eq!(serde_json::from_str::<DeviceFingerprint>(&text).unwrap(), first);
        let whole = serde_json::to_string(&part(Bytes(0), None)).unwrap();
        assert!(!whole.contains("offset"), "as in earlier versions: {whole}");
    }

    #[test]
    fn an_image_is_what_a_loop_device_over_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, vec![0; 20_100]).unwrap();
        let runner = flashfit_host::program::ScriptedRunner::new();
        let image = Device::from_image(&runner, &path).unwrap();
        assert_eq!(DeviceFingerprint::of(&SystemRoots::default(), &image).capacity, Bytes(19_968));
    }

    #[test]
    fn an_image_and_a_card_of_the_same_size_are_not_the_same() {
        let image = DeviceFingerprint {
            kind: DeviceKind::Image,
            file: Some((1, 1, 7)),
            identity: DeviceIdentity::default(),
            ..card("", 0)
        };
        assert!(image.is_other_file(&card("a", 1)) && card("a", 1).is_other_file(&image));
        assert!(!card("a", 1).is_other_file(&card("a", 2)));
    }
}
