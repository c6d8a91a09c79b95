//! Where a plan comes from: a file, or the recommended setup of a run. Either is made again for the
//! device that is here now, and refused where that gives anything else.

use std::path::Path;

use flashfit_device::Device;
use flashfit_device::identity::DeviceIdentity;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_filesystem::plan::{
    Plan, PlanInputs, PlannedDevice, SECOND_COMMANDS, differences, file,
};
use flashfit_host::input_file::{DOCUMENT_BYTES, read_text};
use flashfit_host::path_text::to_text;
use flashfit_user_error::ExitClass;

use super::additions::{AdditionArgs, refuse_additions};
use super::run_source::of_run;
use crate::command_error::CommandError;

pub const NEW_PLAN_HINT: &str =
    "make one for this device: flashfit plan TARGET --fs NAME --output FILE";
/// Parts of a plan that name the device's node, which may be another today.
const BY_NODE: [&str; 4] = ["medium", "commands", "udev_rule", SECOND_COMMANDS];

/// A plan that is valid for the device, and the catalog that it was made of.
pub struct PlanSource {
    pub plan: Plan,
    pub fs_catalog: FileSystemCatalog,
}

impl PlanSource {
    /// Reads the plan or the run at `path` for `device`, to be mounted at `mount_point` where that
    /// is given. Only a run takes additions.
    pub fn read(
        path: &Path,
        device: &Device,
        (mount_point, additions): (Option<&Path>, &AdditionArgs),
        catalog: Option<&Path>,
    ) -> Result<Self, CommandError> {
        let (fs_catalog, inputs, earlier) = if path.is_dir() {
            let (fs_catalog, mut inputs) = of_run(path, device, catalog)?;
            let choices = &mut inputs.choices;
            choices.label = additions.label.clone().or(choices.label.take());
            choices.second = additions.second.clone().or(choices.second.take());
            (fs_catalog, inputs, None)
        } else {
            refuse_additions(path, additions)?;
            let fs_catalog = FileSystemCatalog::load(catalog)?;
            let plan = of_file(path, &fs_catalog)?;
            (fs_catalog, plan.inputs(), Some(plan))
        };
        let now = PlannedDevice::of(device);
        same_device(&inputs.device, &now)?;
        let mut inputs = PlanInputs { device: now, ..inputs };
        let resume_command = Plan::of(&fs_catalog, &inputs)?;
        if let Some(earlier) = earlier {
            let differs = differences(&earlier, &resume_command);
            refuse(differs.into_iter().filter(|part| !BY_NODE.contains(part)).collect(), path)?;
        }
        let plan = match mount_point {
            None => resume_command,
            Some(point) => {
                point.clone_into(&mut inputs.choices.mount_point);
                Plan::of(&fs_catalog, &inputs)?
            }
        };
        Ok(Self { plan, fs_catalog })
    }
}

/// A plan as it is written, once it is sure that it follows from its own choices.
fn of_file(path: &Path, fs_catalog: &FileSystemCatalog) -> Result<Plan, CommandError> {
    let text = read_text(path, DOCUMENT_BYTES)
        .map_err(|error| CommandError::from(error).or_hint(NEW_PLAN_HINT))?;
    let plan = file::read(&text).map_err(|error| CommandError::from(error).at(&to_text(path)))?;
    let rebuilt = plan.rebuild(fs_catalog)?;
    refuse(differences(&plan, &rebuilt), path)?;
    Ok(plan)
}

fn refuse(differs: Vec<&'static str>, path: &Path) -> Result<(), CommandError> {
    if differs.is_empty() {
        return Ok(());
    }
    Err(CommandError::new(
        ExitClass::Refused,
        format!(
            "{} does not match its own choices: {} would be different. It was edited, or made with \
             another version of flashfit or of the catalog",
            to_text(path),
            differs.join(", ")
        ),
        Some(NEW_PLAN_HINT),
    ))
}

/// Whether the device is the one that the plan was made for. Its node may have another name today,
/// and the kernel may have counted it again.
fn same_device(planned: &PlannedDevice, now: &PlannedDevice) -> Result<(), CommandError> {
    let known =
        |identity: &DeviceIdentity| DeviceIdentity { disk_sequence: None, ..identity.clone() };
    let (before, after) = (known(&planned.identity), known(&now.identity));
    let what = if planned.capacity_bytes != now.capacity_bytes {
        format!("it has {} bytes, not {}", now.capacity_bytes, planned.capacity_bytes)
    } else if planned.sector_bytes != now.sector_bytes {
        format!("its sectors have {} bytes, not {}", now.sector_bytes, planned.sector_bytes)
    } else if planned.partition_start_bytes != now.partition_start_bytes {
        "it starts elsewhere on its disk".to_owned()
    } else if planned.kind != now.kind {
        format!("it is a device of the kind `{}`, not `{}`", now.kind, planned.kind)
    } else if before != after {
        let shown = |identity: &DeviceIdentity| {
            let number = identity.cid.as_ref().or(identity.serial.as_ref());
            format!("{} {}", identity.summary(), number.map_or("", String::as_str))
        };
        format!("it is `{}`, not `{}`", shown(&after).trim(), shown(&before).trim())
    } else {
        return Ok(());
    };
    let path = to_text(&now.path);
    Err(CommandError::new(
        ExitClass::Refused,
        format!("{path} is not the device of the plan: {what}"),
        Some(NEW_PLAN_HINT),
    ))
}
