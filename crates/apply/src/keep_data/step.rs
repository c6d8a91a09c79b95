//! One change, with what it takes to make it and to take it back.

use std::path::{Path, PathBuf};

use flashfit_filesystem::Scheduler;
use flashfit_filesystem::improvement::{ExpectedFacts, ImprovedVolume, remount_words};
use flashfit_host::path_text;
use flashfit_host::program::{quote, quote_path};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ApplyError;
use crate::install::{FSTAB, RULES};
use crate::steps::ApplyTools;
use crate::sysfs_queue::SysfsQueue;

use super::superblock::{self, SuperblockChange};
use super::{DeviceAccess, mounts, system_files};

/// A change, in the order of the work, with what was there before.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum ImprovementStep {
    /// A program changes the superblock of a file system that is not mounted.
    Superblock {
        volume: ImprovedVolume,
        /// What a person types as the node: a partition within an image has none. Journals of
        /// earlier versions lack it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shown_node: Option<String>,
        program: String,
        args: Vec<String>,
        restore_args: Vec<String>,
        expected: ExpectedFacts,
    },
    /// A mount that nobody sees shows whether the kernel takes the options that fstab will have.
    TryOptions { volume: ImprovedVolume, options: Vec<String> },
    /// A mounted file system gets other options.
    Remount { volume: ImprovedVolume, point: String, options: Vec<String>, before: Vec<String> },
    /// An attribute of the queue.
    Queue { disk: String, attribute: String, before: String, value: String },
    /// A file of the system is replaced; `before` is null if it is new.
    SystemFile {
        #[serde(with = "flashfit_host::path_text::document")]
        #[schemars(with = "String")]
        path: PathBuf,
        before: Option<String>,
        after: String,
    },
    /// Free blocks are discarded.
    Trim { volume: ImprovedVolume },
}

impl std::fmt::Display for ImprovementStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Superblock { volume, shown_node, program, args, .. } => {
                let node = shown_node.as_ref().unwrap_or(&volume.name);
                let node = quote_path(&path_text::from_text(node));
                write!(f, "{program} {} {node}", args.join(" "))
            }
            Self::TryOptions { volume, options } => {
                write!(f, "a test mount of {} with {}", volume.name, options.join(","))
            }
            Self::Remount { point, options, .. } => {
                write!(f, "mount -o {} {}", remount_words(options), quote(point))
            }
            Self::Queue { disk, attribute, value, .. } => {
                write!(f, "echo {value} > /sys/block/{disk}/queue/{attribute}")
            }
            Self::SystemFile { path, .. } => write!(f, "change {}", path.display()),
            Self::Trim { volume } => match volume.mount_points.first() {
                Some(point) => write!(f, "fstrim {}", quote(point)),
                None => write!(f, "fstrim of {}", volume.name),
            },
        }
    }
}

/// The only programs, attributes and files that a journal may name: it is data, and can be forged.
const PROGRAMS: [&str; 1] = ["tune2fs"];
const FLAGS: [&str; 4] = ["-O", "-E", "-c", "-i"];
const ATTRIBUTES: [&str; 3] = ["scheduler", "read_ahead_kb", "rotational"];

impl ImprovementStep {
    /// Why a step that was read from a journal is not one that flashfit writes.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let is_plain =
            |word: &String| word.chars().all(|c| c.is_ascii_alphanumeric() || "=_,^.-".contains(c));
        match self {
            Self::Superblock { program, args, restore_args, .. } => {
                let are_known = |args: &[String]| {
                    args.chunks(2).all(|pair| match pair {
                        [flag, value] => FLAGS.contains(&flag.as_str()) && is_plain(value),
                        _ => false,
                    })
                };
                let is_known = PROGRAMS.contains(&program.as_str())
                    && are_known(args)
                    && are_known(restore_args);
                (!is_known).then_some("it names an unknown program or argument")
            }
            Self::TryOptions { options, .. } | Self::Remount { options, .. } => {
                let is_known = options.iter().all(is_plain);
                (!is_known).then_some("it has mount options that are not valid")
            }
            Self::Queue { attribute, .. } => (!ATTRIBUTES.contains(&attribute.as_str()))
                .then_some("it names an unknown attribute of the queue"),
            Self::SystemFile { path, .. } => (!path.ends_with(FSTAB) && !path.ends_with(RULES))
                .then_some("it names a file that flashfit does not change"),
            Self::Trim { .. } => None,
        }
    }

    /// Whether the device still has the file system that the step was planned for. Another card of
    /// the same size in one reader, or another image, differs in this only.
    ///
    /// # Errors
    /// When it is another one, or cannot be read.
    pub(super) fn expect_same(
        &self,
        tools: &ApplyTools<'_>,
        access: &DeviceAccess,
    ) -> Result<(), ApplyError> {
        let (Self::Superblock { volume, .. }
        | Self::TryOptions { volume, .. }
        | Self::Trim { volume }) = self
        else {
            return Ok(());
        };
        if !access.is_exclusive() {
            return Ok(());
        }
        superblock::expect_same(tools, &access.place(tools, volume)?, volume).map(drop)
    }

    /// Makes the change; what the user should know of it. `begin` is called before the first thing
    /// is changed.
    pub(super) fn make(
        &self,
        tools: &ApplyTools<'_>,
        access: &DeviceAccess,
        was_begun: bool,
        begin: &mut dyn FnMut() -> Result<(), ApplyError>,
    ) -> Result<Option<String>, ApplyError> {
        if !matches!(self, Self::Superblock { .. }) {
            begin()?;
        }
        match self {
            Self::Superblock { volume, program, args, expected, .. } => {
                let place = access.place(tools, volume)?;
                let is_made = |facts: &_| superblock::difference(expected, facts);
                let change = SuperblockChange {
                    volume,
                    program,
                    args,
                    is_made: &is_made,
                    was_begun,
                    image: access.image_file(),
                    begin,
                };
                superblock::change(tools, &place, change).map(|()| None)
            }
            Self::TryOptions { volume, options } => {
                let place = access.place(tools, volume)?;
                mounts::try_options(tools, &place, &volume.kind, options).map(|()| None)
            }
            Self::Remount { point, options, .. } => {
                mounts::remount(tools, access, Path::new(point), options)
            }
            Self::Queue { attribute, value, .. } => {
                set_queue(tools, access, attribute, value).map(|()| None)
            }
            Self::SystemFile { path, before, after } => {
                system_files::write(tools, path, before.as_deref(), after)
            }
            Self::Trim { volume } => {
                let said = mounts::trim(tools, access, volume)?;
                Ok(Some(format!("{}: {said}", volume.name)))
            }
        }
    }

    /// Takes the change back; what stays of it. `begin` is called before the first thing is
    /// changed.
    pub(super) fn take_back(
        &self,
        tools: &ApplyTools<'_>,
        access: &DeviceAccess,
        was_begun: bool,
        begin: &mut dyn FnMut() -> Result<(), ApplyError>,
    ) -> Result<Option<String>, ApplyError> {
        if !matches!(self, Self::Superblock { .. }) {
            begin()?;
        }
        match self {
            Self::Superblock { volume, program, restore_args, expected, .. } => {
                let place = access.place(tools, volume)?;
                // As long as the facts are those of the change, it is not taken back.
                let is_made = |facts: &_| match superblock::difference(expected, facts) {
                    same if same.is_empty() => vec!["the change is still in effect".to_owned()],
                    _ => Vec::new(),
                };
                let change = SuperblockChange {
                    volume,
                    program,
                    args: restore_args,
                    is_made: &is_made,
                    was_begun,
                    image: access.image_file(),
                    begin,
                };
                superblock::change(tools, &place, change).map(|()| None)
            }
            Self::Remount { point, options, before, .. } => {
                mounts::take_back(tools, access, Path::new(point), options, before)
            }
            Self::Queue { attribute, before, .. } => {
                set_queue(tools, access, attribute, before).map(|()| None)
            }
            Self::SystemFile { path, before, after } => {
                system_files::write_back(tools, path, before.as_deref(), after)
            }
            Self::TryOptions { .. } | Self::Trim { .. } => Ok(None),
        }
    }

    /// Whether there is something to take back.
    pub(super) fn can_be_taken_back(&self) -> bool {
        !matches!(self, Self::TryOptions { .. } | Self::Trim { .. })
    }

    /// Whether it writes to the device itself, which must not be in use then.
    pub(super) fn needs_exclusive(&self) -> bool {
        matches!(self, Self::Superblock { .. } | Self::TryOptions { .. })
    }
}

fn set_queue(
    tools: &ApplyTools<'_>,
    access: &DeviceAccess,
    attribute: &str,
    value: &str,
) -> Result<(), ApplyError> {
    let device = access.device();
    if attribute == "scheduler" {
        return SysfsQueue::of(tools.system, device).set(Scheduler::new(value).name());
    }
    let path = tools.system.block(&device.disk).join("queue").join(attribute);
    std::fs::write(&path, value).map_err(ApplyError::file(&path))?;
    let now = std::fs::read_to_string(&path).map_err(ApplyError::file(&path))?;
    if now.trim() == value {
        return Ok(());
    }
    let what = format!("{} is {}, not {value}", path.display(), now.trim());
    Err(ApplyError::NotAsPlanned { what: vec![what] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_journal_runs_no_program_and_writes_no_other_file() {
        let volume = ImprovedVolume {
            name: "/dev/sdx1".to_owned(),
            start_bytes: 0,
            kind: "ext4".to_owned(),
            uuid: None,
            label: None,
            partition_uuid: None,
            mount_points: Vec::new(),
        };
        let superblock = |program: &str, args: [&str; 2]| ImprovementStep::Superblock {
            volume: volume.clone(),
            shown_node: None,
            program: program.to_owned(),
            args: args.map(str::to_owned).to_vec(),
            restore_args: Vec::new(),
            expected: ExpectedFacts::default(),
        };
        let file = |path: &str| ImprovementStep::SystemFile {
            path: path.into(),
            before: None,
            after: String::new(),
        };
        let plain = superblock("tune2fs", ["-O", "^has_journal"]);
        assert_eq!(plain.problem(), None);
        assert_eq!(plain.to_string(), "tune2fs -O ^has_journal /dev/sdx1");
        assert!(superblock("sh", ["-O", "x"]).problem().is_some());
        assert!(superblock("tune2fs", ["-z", "/etc/shadow"]).problem().is_some());
        assert!(superblock("tune2fs", ["-E", "/etc/shadow"]).problem().is_some());
        assert_eq!(file("/etc/fstab").problem(), None);
        assert!(file("/etc/passwd").problem().is_some());
    }

    #[test]
    fn commands_are_shown_as_they_can_be_typed() {
        let point = "/tmp/m nt's";
        let volume = ImprovedVolume {
            name: "/dev/sdx1".to_owned(),
            start_bytes: 0,
            kind: "ext4".to_owned(),
            uuid: None,
            label: None,
            partition_uuid: None,
            mount_points: vec![point.to_owned()],
        };
        let trim = ImprovementStep::Trim { volume: volume.clone() };
        assert_eq!(trim.to_string(), format!("fstrim {}", quote(point)));
        let remount = ImprovementStep::Remount {
            volume,
            point: point.to_owned(),
            options: vec!["noatime".to_owned()],
            before: Vec::new(),
        };
        assert_eq!(remount.to_string(), format!("mount -o remount,bind,noatime {}", quote(point)));
        assert_ne!(quote(point), point);
    }

    #[test]
    fn a_partition_in_an_image_is_shown_as_it_can_be_typed() {
        let step = r#"{ "step": "superblock", "volume": { "name": "/tmp/k.img1", "start_bytes": 1048576,
            "kind": "ext4", "uuid": null, "label": null, "partition_uuid": null,
            "mount_points": [] }, "shown_node": "/tmp/k.img?offset=1048576",
            "program": "tune2fs", "args": ["-O", "^has_journal"], "restore_args": [],
            "expected": { "absent_feature": null, "numbers": [] } }"#;
        let step: ImprovementStep = serde_json::from_str(step).unwrap();
        let command = "tune2fs -O ^has_journal '/tmp/k.img?offset=1048576'";
        assert_eq!(step.to_string(), command);
    }
}
