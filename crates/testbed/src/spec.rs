//! Which stand: the name by which a user chooses one.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where trials are to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestBedSpec {
    /// This machine.
    #[default]
    Here,
    /// A virtual machine on this machine.
    Vm(VmChoice),
    /// A machine that is reached by SSH.
    Ssh {
        /// Its name, as ssh(1) takes it: `HOST`, `USER@HOST`.
        host: String,
    },
    /// All boards of a lab that are free and have these tags.
    Lab {
        /// The tags, `KEY=VALUE` with commas between them.
        tags: String,
    },
}

/// What can be chosen of a virtual machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmChoice {
    /// The kernel's image; one that is found, or the distribution's, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<PathBuf>,
    /// The speed of its processor in millions of instructions a second, counted; as fast as it goes
    /// unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mips: Option<u32>,
    /// As what the guest sees the device.
    #[serde(default, skip_serializing_if = "VmDisk::is_usual")]
    pub disk: VmDisk,
}

/// As what a guest sees the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VmDisk {
    /// `/dev/vda`, which passes requests on as they are.
    #[default]
    Virtio,
    /// `/dev/mmcblk0` with an SD card's registers: for these, not for figures.
    Sd,
    /// `/dev/mmcblk0` with an eMMC's registers: for these, not for figures.
    Emmc,
    /// `/dev/nvme0n1`.
    Nvme,
    /// `/dev/sda` on a USB reader.
    Usb,
}

const VM_DISKS: [(VmDisk, &str); 5] = [
    (VmDisk::Virtio, "virtio"),
    (VmDisk::Sd, "sd"),
    (VmDisk::Emmc, "emmc"),
    (VmDisk::Nvme, "nvme"),
    (VmDisk::Usb, "usb"),
];

impl VmDisk {
    /// Whether it is the one that is taken unless another is asked for.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Why figures of it say little of the device behind it, where that is so.
    pub fn caution(self) -> Option<&'static str> {
        matches!(self, Self::Sd | Self::Emmc).then_some(
            "QEMU's SD cards and eMMCs pass on 512 bytes at a time, never a flush and never a \
             discard: they are for registers, and their figures say little of the medium behind",
        )
    }
}

impl fmt::Display for VmDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = VM_DISKS.iter().find(|(disk, _)| disk == self);
        f.write_str(found.map_or("", |(_, name)| name))
    }
}

/// A text that names no disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no disk of a virtual machine: virtio, sd, emmc, nvme or usb")]
pub struct UnknownVmDisk(String);

impl FromStr for VmDisk {
    type Err = UnknownVmDisk;

    fn from_str(text: &str) -> Result<Self, UnknownVmDisk> {
        let found = VM_DISKS.iter().find(|(_, name)| *name == text);
        found.map(|(disk, _)| *disk).ok_or_else(|| UnknownVmDisk(text.to_owned()))
    }
}

impl TestBedSpec {
    /// Whether it is this very machine's kernel.
    pub fn is_here(&self) -> bool {
        *self == Self::Here
    }
}

impl fmt::Display for TestBedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("here"),
            Self::Vm(_) => f.write_str("vm"),
            Self::Ssh { host } => write!(f, "ssh:{host}"),
            Self::Lab { tags } => write!(f, "lab:{tags}"),
        }
    }
}

/// A text that names no stand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no stand: here, vm, ssh:HOST or lab:TAGS")]
pub struct UnknownTestBed(String);

impl FromStr for TestBedSpec {
    type Err = UnknownTestBed;

    fn from_str(text: &str) -> Result<Self, UnknownTestBed> {
        match text.split_once(':') {
            None if text == "here" => Ok(Self::Here),
            None if text == "vm" => Ok(Self::Vm(VmChoice::default())),
            // What begins with a dash would be an option of ssh.
            Some(("ssh", host)) if !host.is_empty() && !host.starts_with('-') => {
                Ok(Self::Ssh { host: host.to_owned() })
            }
            Some(("lab", tags)) if tags.contains('=') => Ok(Self::Lab { tags: tags.to_owned() }),
            _ => Err(UnknownTestBed(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_have_the_same_names_everywhere() {
        for (disk, name) in VM_DISKS {
            assert_eq!(name.parse(), Ok(disk));
            assert_eq!(serde_json::to_value(disk).expect("a name"), disk.to_string());
        }
        assert!("mmc".parse::<VmDisk>().is_err());
    }

    #[test]
    fn stands_have_names() {
        for name in ["here", "vm", "ssh:pi@board.local", "lab:board=imx8,media=sd"] {
            assert_eq!(name.parse::<TestBedSpec>().expect("a stand").to_string(), name);
        }
        for name in ["", "ssh", "ssh:", "ssh:-oProxyCommand=x", "vm:big", "Here", "lab:", "lab:x"] {
            assert!(name.parse::<TestBedSpec>().is_err(), "{name}");
        }
    }
}
