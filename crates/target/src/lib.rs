//! A target before anything is written to it: a device, an image or a simulated card, and what is
//! declared about it.
//!
//! `plan`, `probe` and `tune` start from the same [`InspectedTarget`]. Limit: nothing here opens a
//! device for writing or checks whether it is in use; the guard in `device` does.

mod declared;
mod error;

use std::path::Path;

use flashfit_card::CardModel;
use flashfit_device::{Bytes, Device, DeviceKind, SystemRoots, Target};
use flashfit_filesystem::plan::PlannedDevice;
use flashfit_host::Runner;

pub use declared::{device_geometry, model_geometry};
pub use error::InspectError;

/// How the name of a simulated card begins.
pub const SIMULATED: &str = "sim:";

const LEAST_SECTOR_BYTES: u64 = 512;

/// What the user named, and what was found there.
#[derive(Debug, Clone)]
pub struct InspectedTarget {
    pub target: Target,
    pub source: TargetSource,
}

/// What a target is described by.
#[derive(Debug, Clone)]
pub enum TargetSource {
    /// A device or an image, as the kernel and its registers describe it.
    Device(Box<Device>),
    /// A simulated card, as its model describes it.
    Card(Box<CardModel>),
}

impl InspectedTarget {
    /// Inspects `name`: a device node, an image file or `sim:NAME`.
    ///
    /// # Errors
    /// If there is no such target, or it cannot be read.
    pub fn inspect(
        name: &str,
        runner: &dyn Runner,
        catalog: Option<&Path>,
    ) -> Result<Self, InspectError> {
        let target = Target::parse(name)?;
        let device = match &target {
            Target::Simulated(name) => return Self::card(name, catalog),
            Target::Node(path) => Device::from_node(&SystemRoots::default(), runner, path)?,
            Target::Image(path) => Device::from_image(runner, path)?,
        };
        Ok(Self { target, source: TargetSource::Device(Box::new(device)) })
    }

    /// A simulated card of the catalog, or the one in the file of that name.
    ///
    /// # Errors
    /// If there is no such card, or its file is not valid.
    pub fn card(name: &str, catalog: Option<&Path>) -> Result<Self, InspectError> {
        let model = flashfit_card::catalog::load(name, catalog)?;
        let target = Target::Simulated(name.to_owned());
        Ok(Self { target, source: TargetSource::Card(Box::new(model)) })
    }

    /// A device that was already inspected, perhaps on another machine.
    pub fn of_device(device: Device) -> Self {
        let path = device.path.clone();
        let target = match device.kind {
            DeviceKind::Image => Target::Image(path),
            _ => Target::Node(path),
        };
        Self { target, source: TargetSource::Device(Box::new(device)) }
    }

    /// The device or image; `None` for a simulated card.
    pub fn device(&self) -> Option<&Device> {
        match &self.source {
            TargetSource::Device(device) => Some(device),
            TargetSource::Card(_) => None,
        }
    }

    /// Whether measurements on it are simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self.source, TargetSource::Card(_))
    }

    pub fn capacity(&self) -> Bytes {
        match &self.source {
            TargetSource::Device(device) => device.capacity,
            TargetSource::Card(model) => model.capacity,
        }
    }

    pub fn sector_bytes(&self) -> u64 {
        match &self.source {
            TargetSource::Device(device) => {
                device.queue.logical_sector_bytes.max(LEAST_SECTOR_BYTES)
            }
            TargetSource::Card(model) => u64::from(model.sector_bytes),
        }
    }

    /// Where it starts on its disk, if it is a partition.
    pub fn partition_start(&self) -> Option<Bytes> {
        self.device().and_then(|device| device.partition_start)
    }

    /// The I/O scheduler in use; `None` if it is not attached.
    pub fn scheduler(&self) -> Option<&str> {
        self.device().and_then(|device| device.queue.scheduler.as_deref())
    }

    /// The target as a plan describes it.
    pub fn planned(&self) -> PlannedDevice {
        match (&self.source, &self.target) {
            (TargetSource::Device(device), _) => PlannedDevice::of(device),
            (TargetSource::Card(model), target) => PlannedDevice::simulated(
                match target {
                    Target::Simulated(name) => name,
                    Target::Node(_) | Target::Image(_) => &model.name,
                },
                model.capacity.0,
                u64::from(model.sector_bytes),
                model.discard.is_some(),
                model.cache.is_some(),
            ),
        }
    }
}
