//! The header of a run on an image file that does not exist.

use std::collections::BTreeMap;

use flashfit_bench::{PointProfile, StartingState};
use flashfit_device::identity::DeviceIdentity;
use flashfit_device::queue::QueueAttributes;
use flashfit_device::{Bytes, Device, DeviceKind};
use flashfit_filesystem::{Conditions, LayoutPlan, PartitionLayout, Scheduler};
use flashfit_geometry::Geometry;
use flashfit_testbed::{MemoryFacts, TestBedFacts};
use flashfit_tune::{Budget, Criterion, RunHeader, RunSpec, Space, StrategyKind};

/// A greedy run of these workloads with two repeats and two confirming rounds.
pub fn spec(space: &Space, workloads: &[&str]) -> RunSpec {
    RunSpec {
        on: flashfit_testbed::TestBedSpec::Here,
        target: "card.img".into(),
        filesystems: space.choices.iter().map(|choices| choices.filesystem.name.clone()).collect(),
        options: BTreeMap::new(),
        workloads: workloads.iter().map(|&name| name.to_owned()).collect(),
        schedulers: Vec::new(),
        strategy: StrategyKind::Greedy,
        profile: PointProfile::Quick,
        by: Criterion::Throughput,
        repeats: 2,
        confirm_rounds: 4,
        seed: 7,
        start: "auto".into(),
        table: None,
        end: None,
        label: None,
        second: None,
        allow: space.allow,
        data_size: Bytes::mib(16),
        memory: Bytes::mib(64),
        runtime_ms: 2000,
        erase_block: None,
        write_unit: None,
        probed: flashfit_geometry::Geometry::default(),
        mount_dir: None,
        catalog_dir: None,
        weights_thousandths: BTreeMap::new(),
        p99_write_max_ns: None,
        life: None,
        prior: None,
        limits: Budget::default(),
        state: StartingState::default(),
        starts: Vec::new(),
        crash_states: None,
        phase: flashfit_tune::SearchPhase::default(),
    }
}

/// A machine and a device.
pub fn facts() -> TestBedFacts {
    TestBedFacts {
        test_bed: "pretended".into(),
        kernel: "6.1.0".into(),
        machine: "x86_64".into(),
        processors: 2,
        programs: BTreeMap::new(),
        device: Device {
            path: "card.img".into(),
            disk: String::new(),
            kind: DeviceKind::Image,
            capacity: Bytes::mib(64),
            partition_start: None,
            identity: DeviceIdentity::default(),
            queue: QueueAttributes::default(),
            declared_erase_block: None,
            declared: flashfit_device::DeclaredFacts::default(),
            partitions: Vec::new(),
            mounts: Vec::new(),
            read_only: false,
            removable: false,
            object: None,
            backing: None,
            backing_offset: None,
            target: None,
        },
        card: None,
        geometry: Geometry::default(),
        layout: LayoutPlan {
            layout: PartitionLayout::WholeDevice,
            unit: Bytes::mib(1),
            first_unit_bytes: 0,
            reason: "it is a test".into(),
            second: None,
        },
        conditions: Conditions::default(),
        planned: Default::default(),
        schedulers: vec![Scheduler::new("none")],
        default_scheduler: Scheduler::new("none"),
        memory: MemoryFacts::Limited,
    }
}

/// The header of such a run.
pub fn header(space: &Space, spec: &RunSpec) -> RunHeader {
    RunHeader::new("0.0.0", spec.clone(), facts(), space.names(), vec!["a warning".into()])
}
