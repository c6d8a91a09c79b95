//! Which steps make a list of changes true on a device, and which changes have to wait.

use std::path::Path;

use flashfit_filesystem::check::{CheckFinding, ExaminedDevice, Repair};
use flashfit_filesystem::improvement::{ImprovedVolume, Improvement, is_of_file_system};
use flashfit_host::mountinfo;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ApplyError;
use crate::install::is_own_system;

use super::system_files::FileDraft;
use super::{ImprovementStep, mounts, shown_words};

/// A change that cannot be made now.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SkippedImprovement {
    pub improvement: Improvement,
    pub reason: String,
}

/// What the user should know of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImprovementNote {
    /// As a sentence.
    pub text: String,
    /// A line for a file of the system, for the user to add.
    pub line: Option<String>,
}

impl std::fmt::Display for ImprovementNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)?;
        self.line.iter().try_for_each(|line| write!(f, " {line}"))
    }
}

/// The steps, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImprovementPlan {
    pub steps: Vec<ImprovementStep>,
    pub skipped: Vec<SkippedImprovement>,
    /// The changes that the steps make.
    pub improvements: Vec<Improvement>,
    /// What the user should know.
    pub notes: Vec<ImprovementNote>,
    /// Whether a file of the running system changes, so that the next start uses it.
    pub changes_own_system: bool,
}

/// Everything that a plan depends on.
pub struct PlanContext<'a> {
    pub examined: &'a ExaminedDevice,
    /// Whether nobody else uses the device.
    pub is_exclusive: bool,
    /// The system whose fstab and udev rules change.
    pub root: &'a Path,
}

impl ImprovementPlan {
    /// What the checks propose, then what the user asks for.
    ///
    /// # Errors
    /// When a file of the system cannot be read or changed, or has a damaged block of ours.
    pub fn of(
        context: &PlanContext<'_>,
        findings: &[CheckFinding],
        requested: Vec<Improvement>,
    ) -> Result<Self, ApplyError> {
        let mut all: Vec<Improvement> = Vec::new();
        for finding in findings {
            if let Some(Repair::Improvement(improvement)) = &finding.repair {
                all.push((**improvement).clone());
            }
        }
        all.extend(unmounted(context));
        all.extend(requested);
        let mut plan = Self::default();
        all.retain(|improvement| {
            let reason = why_fixed(improvement);
            let skipped = |reason| SkippedImprovement { improvement: improvement.clone(), reason };
            let is_possible = reason.is_none();
            plan.skipped.extend(reason.map(skipped));
            is_possible
        });
        let mut fstab = FileDraft::fstab(context.root)?;
        let mut rules = FileDraft::rules(context.root)?;
        let (mut tuning, mut live, mut trims) = (Vec::new(), Vec::new(), Vec::new());
        for improvement in merge(all) {
            let made = match &improvement {
                Improvement::Superblock { .. } => superblock(context, &improvement, &mut tuning),
                Improvement::MountOptions { volume, options, .. } => {
                    let mut draft = fstab.clone();
                    let lines = draft.add_options(volume, context.root, options);
                    let made =
                        mount_options(context, volume, options, lines, (&mut tuning, &mut live));
                    if made.is_ok() && lines.is_none() {
                        plan.notes.push(draft.why_temporary(volume, context.root, options));
                    }
                    made.map(|()| fstab = draft)
                }
                Improvement::QueueAttribute { disk, attribute, before, value, .. } => {
                    match is_own_system(context.root) {
                        true => rules.add_rule(disk, attribute, value)?,
                        false => plan.notes.push(rules.why_no_rule(attribute, value)),
                    }
                    live.push(ImprovementStep::Queue {
                        disk: disk.clone(),
                        attribute: attribute.clone(),
                        before: before.clone(),
                        value: value.clone(),
                    });
                    Ok(())
                }
                Improvement::Trim { volume, .. } => {
                    trims.push(ImprovementStep::Trim { volume: volume.clone() });
                    Ok(())
                }
            };
            match made {
                Ok(()) => plan.improvements.push(improvement),
                Err(reason) => plan.skipped.push(SkippedImprovement { improvement, reason }),
            }
        }
        let files: Vec<ImprovementStep> =
            [fstab.step()?, rules.step()?].into_iter().flatten().collect();
        plan.changes_own_system = !files.is_empty() && is_own_system(context.root);
        plan.steps = [tuning, live, files, trims].concat();
        Ok(plan)
    }
}

/// What can be said of file systems that are not mounted: fstab may lack an option, and free blocks
/// can be discarded.
fn unmounted(context: &PlanContext<'_>) -> Vec<Improvement> {
    let mut found = Vec::new();
    let discards = context.examined.queue.as_ref().is_some_and(|queue| queue.discards);
    for volume in context.examined.volumes.iter().filter(|volume| volume.mounts.is_empty()) {
        let Some(facts) = volume.facts.as_ref() else { continue };
        let Some(improved) = ImprovedVolume::of(volume) else { continue };
        if ["squashfs", "exfat", "swap"].contains(&facts.kind.as_str()) {
            continue;
        }
        let noatime = vec!["noatime".to_owned()];
        let draft = FileDraft::fstab(context.root);
        let changes = |mut draft: FileDraft| draft.add_options(&improved, context.root, &noatime);
        if draft.ok().and_then(changes) == Some(true) {
            found.push(Improvement::MountOptions {
                volume: improved.clone(),
                options: noatime,
                why: "reading a file for the first time in a day writes to the device".to_owned(),
                risk: String::new(),
            });
        }
        if discards && context.is_exclusive {
            let why =
                "freed blocks are discarded once, so the device does not copy them".to_owned();
            found.push(Improvement::Trim { volume: improved, why });
        }
    }
    found
}

/// Changes of the same options, put together; each other change once.
fn merge(all: Vec<Improvement>) -> Vec<Improvement> {
    let mut merged: Vec<Improvement> = Vec::new();
    for improvement in all {
        if let Improvement::MountOptions { volume, options, why, risk } = &improvement {
            let same = merged.iter_mut().find_map(|known| match known {
                Improvement::MountOptions { volume: other, options, why, risk }
                    if other == volume =>
                {
                    Some((options, why, risk))
                }
                _ => None,
            });
            if let Some((known_options, known_why, known_risk)) = same {
                let new: Vec<&String> =
                    options.iter().filter(|option| !known_options.contains(option)).collect();
                if new.is_empty() {
                    continue;
                }
                known_options.extend(new.into_iter().cloned());
                known_why.push_str(&format!("; {why}"));
                let space = if known_risk.is_empty() || risk.is_empty() { "" } else { " " };
                known_risk.push_str(&format!("{space}{risk}"));
                continue;
            }
        }
        let is_known = merged.iter().any(|known| match (known, &improvement) {
            (
                Improvement::QueueAttribute { disk, attribute, .. },
                Improvement::QueueAttribute { disk: disk_2, attribute: attribute_2, .. },
            ) => (disk, attribute) == (disk_2, attribute_2),
            (Improvement::Trim { volume, .. }, Improvement::Trim { volume: other, .. }) => {
                volume == other
            }
            (known, other) => known == other,
        });
        if is_known {
            // What the user asks for comes later, and counts.
            if let Improvement::QueueAttribute { disk, attribute, .. } = &improvement {
                let other = |known: &Improvement| {
                    !matches!(known, Improvement::QueueAttribute { disk: d, attribute: a, .. }
                        if (d, a) == (disk, attribute))
                };
                merged.retain(other);
                merged.push(improvement);
            }
            continue;
        }
        merged.push(improvement);
    }
    merged
}

/// Why none of the mounts of a file system can change its options; `None` where one can, or where
/// it is not mounted.
fn why_fixed(improvement: &Improvement) -> Option<String> {
    let Improvement::MountOptions { volume, options, .. } = improvement else { return None };
    if !options.iter().any(|option| is_of_file_system(option)) {
        return None;
    }
    let reason = |point: &String| {
        let entry = mountinfo::at(Path::new(point)).ok().flatten();
        entry.as_ref().and_then(mounts::why_fixed)
    };
    let reasons: Option<Vec<String>> = volume.mount_points.iter().map(reason).collect();
    reasons?.into_iter().next()
}

fn superblock(
    context: &PlanContext<'_>,
    improvement: &Improvement,
    steps: &mut Vec<ImprovementStep>,
) -> Result<(), String> {
    let Improvement::Superblock {
        volume, shown_node, program, args, restore_args, expected, ..
    } = improvement
    else {
        unreachable!("the caller matched it");
    };
    if !context.is_exclusive {
        let user = match volume.mount_points.first() {
            Some(point) if point == "/" => {
                "it is the running system; start another system, and do it there".to_owned()
            }
            Some(point) => format!("it is mounted on {point}; unmount it, and repeat the command"),
            None => "the device is in use".to_owned(),
        };
        return Err(user);
    }
    steps.push(ImprovementStep::Superblock {
        volume: volume.clone(),
        shown_node: Some(shown_node.clone()),
        program: program.clone(),
        args: args.clone(),
        restore_args: restore_args.clone(),
        expected: expected.clone(),
    });
    Ok(())
}

fn mount_options(
    context: &PlanContext<'_>,
    volume: &ImprovedVolume,
    options: &[String],
    in_fstab: Option<bool>,
    (tuning, live): (&mut Vec<ImprovementStep>, &mut Vec<ImprovementStep>),
) -> Result<(), String> {
    for point in &volume.mount_points {
        let entry = mountinfo::at(Path::new(point)).ok().flatten();
        let mut before = entry.as_ref().map(shown_words).unwrap_or_default();
        let is_fixed = entry.as_ref().and_then(mounts::why_fixed).is_some();
        if let Some(entry) = entry.as_ref().filter(|_| is_fixed) {
            // Those of the file system change, and are taken back, through another mount.
            before = entry.options.split(',').map(str::to_owned).collect();
        }
        let options: Vec<String> = options
            .iter()
            .filter(|option| !(is_fixed && is_of_file_system(option)))
            .cloned()
            .collect();
        if options.iter().all(|option| before.contains(option)) {
            continue;
        }
        live.push(ImprovementStep::Remount {
            volume: volume.clone(),
            point: point.clone(),
            options,
            before,
        });
    }
    if !volume.mount_points.is_empty() {
        return Ok(());
    }
    if in_fstab.is_none() {
        let fstab = context.root.join("etc/fstab");
        return Err(format!("it is not mounted, and {} has no line for it", fstab.display()));
    }
    if !context.is_exclusive {
        return Err("it is not mounted, and another part of the device is in use".to_owned());
    }
    if in_fstab == Some(false) {
        return Ok(());
    }
    tuning.push(ImprovementStep::TryOptions { volume: volume.clone(), options: options.to_vec() });
    Ok(())
}
