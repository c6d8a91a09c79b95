//! The interface to a machine that can run trials: what its kernel and programs support, which
//! devices it has, and how to open a [`TestBed`] there.
//!
//! Implementations: [`LocalHost`], [`crate::RemoteHost`] and [`crate::vm::VmHost`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use flashfit_card::CardModel;
use flashfit_device::{Bytes, ConsentMethod, Device};
use flashfit_filesystem::{Conditions, FileSystemCatalog, LayoutPlan};
use flashfit_geometry::Geometry;
use flashfit_option_probe::OptionFindings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{TestBed, TrialError};

pub use crate::local::{CardProgram, LocalHost};

/// Programs that every trial needs, in addition to those of its file system.
const TRIAL_PROGRAMS: [&str; 4] = ["fio", "mount", "blkdiscard", "sfdisk"];

/// What trials need from a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirements {
    pub programs: BTreeSet<String>,
    /// File system types as in mount(8).
    pub kinds: BTreeSet<String>,
}

impl Requirements {
    /// The requirements of trials with all file systems of a catalog.
    pub fn of(catalog: &FileSystemCatalog) -> Self {
        let filesystems = || catalog.filesystems().iter();
        let mkfs = filesystems().map(|found| found.mkfs.tool.program.clone());
        Self {
            programs: TRIAL_PROGRAMS.map(str::to_owned).into_iter().chain(mkfs).collect(),
            kinds: filesystems().map(|found| found.kind.clone()).collect(),
        }
    }
}

/// Why no trial can run with these of the required programs, if so.
pub fn lacks_programs(installed: &BTreeSet<String>) -> Option<String> {
    let missing: Vec<&str> =
        TRIAL_PROGRAMS.into_iter().filter(|name| !installed.contains(*name)).collect();
    match missing[..] {
        [] if installed.len() > TRIAL_PROGRAMS.len() => None,
        [] => Some("no program that makes a file system is installed".to_owned()),
        [one] => Some(format!("{one} is not installed")),
        _ => Some(format!("{} are not installed", missing.join(", "))),
    }
}

/// Which [`Requirements`] a host meets, and its devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Capabilities {
    pub kernel: String,
    pub machine: String,
    /// Why block devices cannot be used there, if so.
    pub lacks_devices: Option<String>,
    /// Why simulated cards cannot be attached there, if so.
    pub lacks_cards: Option<String>,
    /// The installed ones of the required programs.
    pub programs: BTreeSet<String>,
    /// The required file systems that its kernel supports.
    pub kinds: BTreeSet<String>,
    /// The size of a page of its memory.
    pub page_bytes: u64,
    #[serde(default, rename = "media")]
    pub devices: Vec<Device>,
}

impl Capabilities {
    pub fn has_program(&self, name: &str) -> bool {
        self.programs.contains(name)
    }

    /// Whether the kernel supports this file system.
    pub fn has_kind(&self, kind: &str) -> bool {
        self.kinds.contains(kind)
    }
}

/// Permission to write to a device, sent to its host, where the guard checks it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum WriteGrant {
    /// The user saw this device and agreed to lose its content.
    Named {
        #[serde(rename = "shown")]
        device: Box<Device>,
        /// The name that the user entered.
        #[serde(rename = "named")]
        name: String,
    },
    /// A disk that the client attached to the host and has permission to overwrite.
    Attached {
        /// An unguessable serial number.
        serial: String,
        capacity: Bytes,
    },
    /// A simulated card that the host serves to itself. No data can be lost.
    Card {
        /// Name in the catalog, or a file.
        name: String,
        model: Box<CardModel>,
    },
}

/// A request to take over a device for trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRequest {
    #[serde(rename = "leave")]
    pub grant: WriteGrant,
    /// Takes precedence over what the device declares.
    #[serde(rename = "given")]
    pub geometry_override: Geometry,
    /// Where on the device file systems are created.
    pub layout: LayoutPlan,
    /// Memory limit of a workload.
    pub memory_bytes: u64,
    /// Mount point, if the user chose one.
    #[serde(default, with = "flashfit_host::path_text::optional")]
    pub mount_dir: Option<PathBuf>,
}

/// A request to run `flashfit probe` with these arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeRequest {
    /// Arguments after `probe`, including the confirmation that the guard there checks.
    pub args: Vec<String>,
    /// Which of the arguments name output files, whose content is returned.
    pub files: BTreeSet<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeResult {
    /// Exit code; `None` if a signal killed it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Content of the written files, by the requested name.
    pub files: BTreeMap<String, String>,
}

/// A machine that can run trials.
pub trait Host {
    /// Finds out which requirements are met.
    ///
    /// # Errors
    /// If the host cannot be reached.
    fn describe(&mut self, requirements: &Requirements) -> Result<Capabilities, TrialError>;

    /// Describes a device of the host, given by its node or image file.
    ///
    /// # Errors
    /// If it does not exist.
    fn inspect(&mut self, target: &str) -> Result<Device, TrialError>;

    /// Checks with the guard there whether the device may be overwritten.
    ///
    /// # Errors
    /// [`TrialError::NotAgreed`] if only the user's confirmation is missing; otherwise the guard's
    /// refusal.
    fn check_consent(
        &mut self,
        device: &Device,
        consent_method: &ConsentMethod,
    ) -> Result<(), TrialError>;

    /// Tests which options of a file system work there.
    ///
    /// # Errors
    /// If the test cannot run.
    fn option_findings(
        &mut self,
        filesystem: &str,
        conditions: &Conditions,
        rotational: Option<bool>,
    ) -> Result<OptionFindings, TrialError>;

    /// Probes a device there.
    ///
    /// # Errors
    /// If the probe cannot be started.
    fn probe(&mut self, request: &ProbeRequest) -> Result<ProbeResult, TrialError>;

    /// Starts the host if needed. Nothing is written yet.
    ///
    /// # Errors
    /// If the host cannot be started.
    fn prepare(&mut self, grant: &WriteGrant) -> Result<(), TrialError> {
        let _ = grant;
        Ok(())
    }

    /// Takes over the device.
    ///
    /// # Errors
    /// Any [`TrialError`] except [`TrialError::Setup`].
    fn open<'a>(&'a mut self, request: &OpenRequest) -> Result<Box<dyn TestBed + 'a>, TrialError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_need_fio_and_one_file_system() {
        let lacks = |names: &[&str]| {
            let all = names.iter().map(|name| (*name).to_owned()).collect();
            lacks_programs(&all).unwrap_or_default()
        };
        let mut names = TRIAL_PROGRAMS.to_vec();
        assert_eq!(lacks(&names), "no program that makes a file system is installed");
        names.push("mkfs.ext4");
        assert_eq!(lacks(&names), "");
        assert_eq!(lacks(&names[1..]), "fio is not installed");
        assert_eq!(lacks(&names[2..]), "fio, mount are not installed");
    }
}
