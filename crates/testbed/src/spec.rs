//! The name by which a user chooses a test bed: `here`, `vm`, `ssh:HOST` or `lab:TAGS`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestBedSpec {
    #[default]
    Here,
    /// A virtual machine on this machine.
    Vm(VmChoice),
    /// A machine reached by SSH.
    Ssh {
        /// A destination for ssh(1): `HOST` or `USER@HOST`.
        host: String,
    },
    /// All free boards of a lab with these tags.
    Lab {
        /// Comma-separated `KEY=VALUE`.
        tags: String,
    },
}

/// Options of a virtual machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmChoice {
    /// Kernel image; `None` means the first one found, or the distribution's.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "flashfit_host::path_text::optional"
    )]
    pub kernel: Option<PathBuf>,
    /// Processor speed in millions of counted instructions per second; `None` means real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mips: Option<u32>,
    /// How the guest sees the device.
    #[serde(default, skip_serializing_if = "VmDisk::is_default")]
    pub disk: VmDisk,
}

/// How a guest sees the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VmDisk {
    /// `/dev/vda`, which passes requests through unchanged.
    #[default]
    Virtio,
    /// `/dev/mmcblk0` with the registers of an SD card; its timing means little.
    Sd,
    /// `/dev/mmcblk0` with the registers of an eMMC; its timing means little.
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
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Why measurements through this disk say little about the device, if that is so.
    pub fn warning(self) -> Option<&'static str> {
        matches!(self, Self::Sd | Self::Emmc).then_some(
            "QEMU's SD cards and eMMCs split requests into 512 bytes and drop flushes and discards: \
             use them to test registers; measurements with them say little about the device",
        )
    }
}

impl fmt::Display for VmDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = VM_DISKS.iter().find(|(disk, _)| disk == self);
        f.write_str(found.map_or("", |(_, name)| name))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown disk `{0}` of a virtual machine; expected virtio, sd, emmc, nvme or usb")]
pub struct UnknownVmDisk(String);

impl FromStr for VmDisk {
    type Err = UnknownVmDisk;

    fn from_str(text: &str) -> Result<Self, UnknownVmDisk> {
        let found = VM_DISKS.iter().find(|(_, name)| *name == text);
        found.map(|(disk, _)| *disk).ok_or_else(|| UnknownVmDisk(text.to_owned()))
    }
}

impl TestBedSpec {
    /// Where it is, as part of a sentence.
    pub fn whereabouts(&self) -> String {
        match self {
            Self::Here => "here".to_owned(),
            Self::Vm(_) => "in a virtual machine".to_owned(),
            Self::Ssh { host } => format!("on {host}"),
            Self::Lab { .. } => "on that board".to_owned(),
        }
    }

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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", why(.0))]
pub struct UnknownTestBed(String);

fn why(text: &str) -> String {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    match kind {
        "lab" => {
            format!("`{text}` names no tags; name boards of a lab by KEY=VALUE: lab:board=imx8")
        }
        "ssh" if rest.starts_with('-') => format!("`{text}`: a host does not begin with a dash"),
        "ssh" => format!("`{text}` names no host; name it as for ssh: ssh:root@board"),
        _ => format!("unknown test bed `{text}`; expected here, vm, ssh:HOST or lab:KEY=VALUE"),
    }
}

impl FromStr for TestBedSpec {
    type Err = UnknownTestBed;

    fn from_str(text: &str) -> Result<Self, UnknownTestBed> {
        match text.split_once(':') {
            None if text == "here" => Ok(Self::Here),
            None if text == "vm" => Ok(Self::Vm(VmChoice::default())),
            // ssh would take a leading dash as an option.
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
    fn test_beds_have_names() {
        for name in ["here", "vm", "ssh:pi@board.local", "lab:board=imx8,media=sd"] {
            assert_eq!(name.parse::<TestBedSpec>().expect("a test bed").to_string(), name);
        }
        for name in ["", "ssh", "ssh:", "ssh:-oProxyCommand=x", "vm:big", "Here", "lab:", "lab:x"] {
            assert!(name.parse::<TestBedSpec>().is_err(), "{name}");
        }
        for (name, said) in [
            ("lab:x", "`lab:x` names no tags; name boards of a lab by KEY=VALUE: lab:board=imx8"),
            ("ssh", "`ssh` names no host; name it as for ssh: ssh:root@board"),
            ("ssh:-o", "`ssh:-o`: a host does not begin with a dash"),
            ("vm:x", "unknown test bed `vm:x`; expected here, vm, ssh:HOST or lab:KEY=VALUE"),
        ] {
            let error = name.parse::<TestBedSpec>().expect_err("not a test bed");
            assert_eq!(error.to_string(), said);
        }
    }
}
