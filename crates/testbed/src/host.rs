//! A place where trials can be made, seen before a device is taken: what its kernel and its
//! programs offer, which devices it has, and the way to a [`TestBed`] there.
//!
//! This machine is one ([`LocalHost`]); another is reached through an agent
//! ([`crate::RemoteHost`]). Whoever tunes does not know which it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use flashfit_card::CardModel;
use flashfit_device::{Bytes, ConsentMethod, Device};
use flashfit_filesystem::{Conditions, FileSystemCatalog, LayoutPlan};
use flashfit_geometry::Geometry;
use flashfit_option_probe::OptionFindings;
use serde::{Deserialize, Serialize};

use crate::{TestBed, TrialError};

pub use crate::local::{CardProgram, LocalHost};

/// What a trial needs besides the programs of its file system.
const TRIAL_PROGRAMS: [&str; 4] = ["fio", "mount", "blkdiscard", "sfdisk"];

/// What is asked of a place: whether it has these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirements {
    /// Programs by name.
    pub programs: BTreeSet<String>,
    /// File systems as mount(8) calls them.
    pub kinds: BTreeSet<String>,
}

impl Requirements {
    /// All that trials with the file systems of a catalog need.
    pub fn of(catalogue: &FileSystemCatalog) -> Self {
        let filesystems = || catalogue.filesystems().iter();
        let mkfs = filesystems().map(|found| found.mkfs.tool.program.clone());
        Self {
            programs: TRIAL_PROGRAMS.map(str::to_owned).into_iter().chain(mkfs).collect(),
            kinds: filesystems().map(|found| found.kind.clone()).collect(),
        }
    }
}

/// What a place offers of what was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// The kernel's release.
    pub kernel: String,
    /// The machine's architecture.
    pub machine: String,
    /// Why block devices are out of reach there; `None` where they are not.
    pub lacks_devices: Option<String>,
    /// Why simulated cards cannot be attached there; `None` where they can.
    pub lacks_cards: Option<String>,
    /// The programs that are there.
    pub programs: BTreeSet<String>,
    /// The file systems that its kernel has.
    pub kinds: BTreeSet<String>,
    /// The devices there.
    #[serde(default)]
    pub media: Vec<Device>,
}

impl Capabilities {
    /// Whether a program is there.
    pub fn has_program(&self, name: &str) -> bool {
        self.programs.contains(name)
    }

    /// Whether the kernel has a file system.
    pub fn has_kind(&self, kind: &str) -> bool {
        self.kinds.contains(kind)
    }
}

/// Leave to write to a device, on its way to where the device is; the guard there looks again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum WriteGrant {
    /// The user saw this device and agreed to lose what is on it.
    Named {
        /// As it was shown.
        shown: Box<Device>,
        /// The name that the user gave.
        named: String,
    },
    /// A disk that whoever asks has attached under this serial number, with leave for what is
    /// behind it.
    Attached {
        /// The serial number, which nobody could guess.
        serial: String,
        /// Its size.
        capacity: Bytes,
    },
    /// A simulated card that the place serves to itself. Nothing can be lost.
    Card {
        /// Its name in the catalog, or its file.
        name: String,
        /// Its model.
        model: Box<CardModel>,
    },
}

/// What is asked of a place to become a test bed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRequest {
    /// The device, with leave to write to it.
    pub leave: WriteGrant,
    /// Geometry that goes before what the device declares.
    pub given: Geometry,
    /// Where on the device the file systems go.
    pub layout: LayoutPlan,
    /// How much memory a workload may use, in bytes.
    pub memory_bytes: u64,
    /// Where file systems are mounted, where that matters to the user.
    pub mount_dir: Option<PathBuf>,
}

/// A probe to be made: `flashfit probe` with these arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeRequest {
    /// The arguments behind `probe`, leave to write among them, which the guard there looks at.
    pub args: Vec<String>,
    /// Those of them that are the names of files to be written, and brought back.
    pub files: BTreeSet<String>,
}

/// A probe that was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeResult {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it told beside.
    pub stderr: String,
    /// The files that it wrote, by the names that were asked for.
    pub files: BTreeMap<String, String>,
}

/// A place where trials can be made.
pub trait Host {
    /// What it has of what is wanted.
    ///
    /// # Errors
    /// When it cannot be asked.
    fn describe(&mut self, wanted: &Requirements) -> Result<Capabilities, TrialError>;

    /// A device there, by its node or image file.
    ///
    /// # Errors
    /// When there is none.
    fn look(&mut self, target: &str) -> Result<Device, TrialError>;

    /// Asks the guard there whether the device may be written to.
    ///
    /// # Errors
    /// [`TrialError::NotAgreed`] when only the user's word is missing; the guard's refusal
    /// otherwise.
    fn ask(&mut self, shown: &Device, agreement: &ConsentMethod) -> Result<(), TrialError>;

    /// What is found there of a file system's options.
    ///
    /// # Errors
    /// When it cannot be found out.
    fn findings(
        &mut self,
        filesystem: &str,
        conditions: &Conditions,
        rotational: Option<bool>,
    ) -> Result<OptionFindings, TrialError>;

    /// Probes a device there.
    ///
    /// # Errors
    /// When it cannot be begun there.
    fn probe(&mut self, wanted: &ProbeRequest) -> Result<ProbeResult, TrialError>;

    /// Makes ready for what will be asked, where the place has to be made for it first. Nothing is
    /// written yet.
    ///
    /// # Errors
    /// When the place cannot be made.
    fn prepare(&mut self, leave: &WriteGrant) -> Result<(), TrialError> {
        let _ = leave;
        Ok(())
    }

    /// Takes the device over.
    ///
    /// # Errors
    /// As [`TrialError`] tells; [`TrialError::Setup`] does not occur.
    fn open<'a>(&'a mut self, opening: &OpenRequest) -> Result<Box<dyn TestBed + 'a>, TrialError>;
}
