//! Describes a test bed: machine, programs, device and geometry. Stored with every run.

use std::collections::BTreeMap;

use flashfit_card::CardModel;
use flashfit_device::Device;
use flashfit_filesystem::plan::PlannedPlacement;
use flashfit_filesystem::{Conditions, LayoutPlan, PartitionLayout, Scheduler};
use flashfit_geometry::Geometry;
use flashfit_host::known_keys::known_keys;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardFacts {
    /// Name in the catalog.
    pub name: String,
    pub title: String,
    /// Where the block device on this kernel differs from the model.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Endurance of an erase block, in erases.
    pub endurance_cycles: u64,
    /// Missing in runs of earlier versions.
    #[serde(default, deserialize_with = "known_keys")]
    pub model: Option<CardModel>,
}

/// How the memory of a workload is limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryFacts {
    /// By a control group.
    Limited,
    /// Not limited, with the reason. Page-cache workloads may then measure memory.
    Unlimited(String),
}

/// Describes where trials run and on which device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestBedFacts {
    /// The kind of test bed, as reports show it.
    #[serde(rename = "stand")]
    pub test_bed: String,
    pub kernel: String,
    pub machine: String,
    pub processors: u32,
    /// Program names and their versions.
    pub programs: BTreeMap<String, String>,
    /// The device before the run.
    #[serde(rename = "medium")]
    pub device: Device,
    /// Set if the device is a simulated card.
    pub card: Option<CardFacts>,
    pub geometry: Geometry,
    /// Where on the device file systems are created.
    pub layout: LayoutPlan,
    /// What the device and its queue support.
    pub conditions: Conditions,
    /// Computed option values by file system, for this layout; `conditions` has none.
    #[serde(default)]
    pub planned: BTreeMap<String, BTreeMap<String, u64>>,
    pub schedulers: Vec<Scheduler>,
    /// The scheduler that the kernel selected.
    pub default_scheduler: Scheduler,
    pub memory: MemoryFacts,
}

impl TestBedFacts {
    /// The conditions for one file system. Runs of earlier versions have no computed option values:
    /// theirs follow from the geometry alone.
    pub fn conditions_for(&self, filesystem: &str) -> Conditions {
        let planned = self.planned.get(filesystem).cloned();
        Conditions { planned: planned.unwrap_or_default(), ..self.conditions.clone() }
    }

    pub fn placement(&self) -> PlannedPlacement {
        match self.layout.layout {
            PartitionLayout::Partition { start_bytes, size_bytes, .. } => {
                PlannedPlacement { start_bytes, size_bytes }
            }
            PartitionLayout::WholeDevice => PlannedPlacement {
                start_bytes: self.device.partition_start.map_or(0, |start| start.0),
                size_bytes: self.device.capacity.0,
            },
        }
    }
}
