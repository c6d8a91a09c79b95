//! The nodes through which the file systems of a device are read.
//!
//! The partitions of an image are read through a loop device that refuses writes. Without one they
//! are not read, and a warning says so.

use flashfit_device::{Device, DeviceKind};
use flashfit_filesystem::check::ExaminedNodes;
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::{Program, Runner};

/// Where file systems are read, for as long as this value lives.
#[derive(Debug)]
pub struct VolumeNodes {
    pub nodes: ExaminedNodes,
    /// Why something cannot be read, a sentence each.
    pub warnings: Vec<String>,
    _attached: Option<LoopDevice>,
}

impl VolumeNodes {
    pub fn attach(runner: &dyn Runner, device: &Device) -> Self {
        let own = ExaminedNodes { disk: Some(device.path.clone()) };
        if device.kind != DeviceKind::Image || device.partitions.is_empty() {
            return Self { nodes: own, warnings: Vec::new(), _attached: None };
        }
        let options = LoopOptions { read_only: true, direct_io: false, ..LoopOptions::default() };
        match LoopDevice::attach(&device.path, options) {
            Ok(attached) => {
                // A kernel without support for the table's format is given each partition.
                let node = attached.node().display().to_string();
                let partitions = Program::new("partx").args(["--update", &node]);
                let warning = runner.run(&partitions).err().map(|error| error.to_string());
                let nodes = ExaminedNodes { disk: Some(attached.node().to_owned()) };
                let warnings = warning.into_iter().collect();
                Self { nodes, warnings, _attached: Some(attached) }
            }
            Err(error) => Self {
                nodes: ExaminedNodes { disk: None },
                warnings: vec![format!("{error}; its file systems are not read")],
                _attached: None,
            },
        }
    }
}
