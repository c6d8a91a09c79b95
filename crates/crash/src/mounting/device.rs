//! A device that shows crash states, with the kernel that mounts them.

use std::path::PathBuf;

use flashfit_host::SystemRunner;

use super::{MachineKernel, Mounting, StateMachine};
use crate::CrashError;
use crate::campaign::MountPoints;
use crate::device::{CrashDevice, OverlayDisk};
use crate::workload::CrashWorkload;

/// Which device, and who mounts it.
#[derive(Clone, Copy)]
pub struct StateDevicePlan<'a> {
    pub bytes: u64,
    /// Whether discards reach it.
    pub discards: bool,
    pub workload: &'a CrashWorkload,
    /// A virtual machine's kernel; without it, this one.
    pub kernel: Option<&'a MachineKernel<'a>>,
}

/// An attached device and its kernel.
pub struct StateDevice<'a> {
    // Ends before the device is detached.
    machine: Option<StateMachine<'a>>,
    point: PathBuf,
    device: CrashDevice,
}

impl<'a> StateDevice<'a> {
    /// Attaches a device of which nothing was written. `name` distinguishes its folders from those
    /// of others.
    ///
    /// # Errors
    /// See [`CrashDevice::attach`].
    pub fn attach(
        plan: StateDevicePlan<'a>,
        points: &MountPoints,
        name: &str,
        runner: &'a SystemRunner,
    ) -> Result<Self, CrashError> {
        let point = points.folder(&format!("mounted-{name}"))?;
        let shown = points.folder(&format!("device-{name}-{}-{}", plan.bytes, plan.discards))?;
        let device =
            CrashDevice::attach(OverlayDisk::unwritten(plan.bytes), &shown, plan.discards)?;
        let machine = |kernel| StateMachine::new(kernel, &device, plan.workload, runner);
        Ok(Self { machine: plan.kernel.map(machine), point, device })
    }

    pub fn device(&self) -> &CrashDevice {
        &self.device
    }

    pub fn mounting(&self) -> Mounting<'_> {
        match &self.machine {
            None => Mounting::Here(self.point.clone()),
            Some(machine) => Mounting::Machine(machine),
        }
    }
}
