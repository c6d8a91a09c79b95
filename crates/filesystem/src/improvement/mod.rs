//! Changes that make a device faster or spare it, and need no mkfs: its files stay.
//!
//! The checks propose them, and `flashfit-apply` makes them; both use the same list. Limits: what a
//! change gains on this device is not known before it is measured.

mod mount_words;
mod requested;

use flashfit_host::path_text;
use flashfit_host::program::{quote, quote_path};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::Volume;

pub use mount_words::{contradicts, inverse, is_of_file_system, merged, remount_words};
pub use requested::{RequestError, RequestedImprovements, requested};

/// The file system that a change is about, as it was when the change was proposed.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ImprovedVolume {
    /// Its node or name.
    pub name: String,
    /// From the start of the device, in bytes.
    pub start_bytes: u64,
    /// What mount(8) calls the file system.
    pub kind: String,
    pub uuid: Option<String>,
    pub label: Option<String>,
    /// The UUID of its entry in the partition table.
    pub partition_uuid: Option<String>,
    /// Where it is mounted.
    pub mount_points: Vec<String>,
}

impl ImprovedVolume {
    /// `None` where its file system is not known.
    pub fn of(volume: &Volume) -> Option<Self> {
        let facts = volume.facts.as_ref();
        let mounted = volume.mounts.first().map(|mount| mount.kind.as_str());
        let kind = facts.map(|facts| facts.kind.as_str()).or(mounted)?;
        Some(Self {
            name: volume.name.clone(),
            start_bytes: volume.start_bytes,
            kind: kind.to_owned(),
            uuid: facts.and_then(|facts| facts.uuid.clone()),
            label: facts.and_then(|facts| facts.label.clone()),
            partition_uuid: facts.and_then(|facts| facts.partition_uuid.clone()),
            mount_points: volume.mounts.iter().map(|mount| mount.point.clone()).collect(),
        })
    }
}

/// What the file system's own tools must report after its superblock was changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ExpectedFacts {
    /// A feature that it no longer has.
    pub absent_feature: Option<String>,
    /// Numbers by their names in [`crate::FileSystemFacts`]; 0 is also met by none.
    pub numbers: Vec<(String, u64)>,
}

/// A change that needs no mkfs.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Improvement {
    /// Options of mount(8).
    MountOptions { volume: ImprovedVolume, options: Vec<String>, why: String, risk: String },
    /// An attribute of the disk's queue in sysfs.
    QueueAttribute { disk: String, attribute: String, before: String, value: String, why: String },
    /// The superblock, changed by a program while the file system is not mounted.
    Superblock {
        volume: ImprovedVolume,
        /// What the program takes as its node when a person types the command.
        shown_node: String,
        program: String,
        args: Vec<String>,
        /// The arguments that take it back.
        restore_args: Vec<String>,
        expected: ExpectedFacts,
        why: String,
        risk: String,
    },
    /// Free blocks are discarded once.
    Trim { volume: ImprovedVolume, why: String },
}

impl Improvement {
    /// The command of the system that does the same until the next restart.
    pub fn command_line(&self) -> String {
        match self {
            Self::MountOptions { volume, options, .. } => {
                let point = volume.mount_points.first().map_or("MOUNT-POINT", String::as_str);
                format!("mount -o {} {}", remount_words(options), quote(point))
            }
            Self::QueueAttribute { disk, attribute, value, .. } => {
                format!("echo {} > /sys/block/{disk}/queue/{attribute}", quote(value))
            }
            Self::Superblock { shown_node, program, args, .. } => {
                let node = quote_path(&path_text::from_text(shown_node));
                format!("{program} {} {node}", args.join(" "))
            }
            Self::Trim { volume, .. } => {
                let point = volume.mount_points.first().map_or("MOUNT-POINT", String::as_str);
                format!("fstrim -v {}", quote(point))
            }
        }
    }

    /// What it is good for, as the end of a sentence.
    pub fn why(&self) -> &str {
        match self {
            Self::MountOptions { why, .. }
            | Self::QueueAttribute { why, .. }
            | Self::Superblock { why, .. }
            | Self::Trim { why, .. } => why,
        }
    }

    /// What a power cut can do after it, as a sentence; empty where it is safe.
    pub fn risk(&self) -> &str {
        match self {
            Self::MountOptions { risk, .. } | Self::Superblock { risk, .. } => risk,
            Self::QueueAttribute { .. } | Self::Trim { .. } => "",
        }
    }

    pub fn volume(&self) -> Option<&ImprovedVolume> {
        match self {
            Self::MountOptions { volume, .. }
            | Self::Superblock { volume, .. }
            | Self::Trim { volume, .. } => Some(volume),
            Self::QueueAttribute { .. } => None,
        }
    }
}
