//! Tests every workload of the catalog.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use flashfit_bench::plan::Points;
use flashfit_bench::{
    Direction, PointProfile, PointResult, RunPlan, Workload, WorkloadPoint, WorkloadResult,
    WorkloadTarget, Workloads, estimate_ns, run_workload,
};
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::memory_limit::MemoryLimit;
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{TestNeed, skip};
use flashfit_user_error::{ExitClass, UserError};

use crate::Test;
use crate::bed::{Bed, plan};

pub const TESTS: &[Test] = &[
    ("every_workload_measures_what_it_declares", every_workload_measures_what_it_declares),
    ("every_workload_can_be_run_by_hand", every_workload_can_be_run_by_hand),
    ("workloads_run_within_a_memory_limit", workloads_run_within_a_memory_limit),
    ("a_run_ends_at_its_time_limit", a_run_ends_at_its_time_limit),
    ("a_bare_device_is_read_only", a_bare_device_is_read_only),
    ("a_device_that_was_given_up_is_written", a_device_that_was_given_up_is_written),
];

fn every_workload_measures_what_it_declares() {
    let bed = Bed::new(320);
    for workload in Workloads::load(None).unwrap().all() {
        let started = Instant::now();
        let result = bed.run(&workload.name).unwrap_or_else(|e| panic!("{}: {e}", workload.name));
        let took_ns = started.elapsed().as_nanos();
        let estimate_ns = estimate_ns(workload, &bed.plan).unwrap();
        assert!(took_ns < u128::from(estimate_ns), "{}: {took_ns} ns", workload.name);
        check(workload, &result);
        let left: Vec<_> = std::fs::read_dir(bed.mounted.point()).unwrap().collect();
        assert_eq!(left.len(), 1, "only lost+found is left by {}: {left:?}", workload.name);
    }
    assert_eq!(std::fs::read_dir(&bed.plan.scratch).unwrap().count(), 2, "job and result");
}

/// Runs the command in the header of the file.
fn every_workload_can_be_run_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let workloads = Workloads::load(None).unwrap();
    let jobs = |one: &&Workload| one.stages.iter().any(|stage| !stage.sections.is_empty());
    for workload in workloads.all().iter().filter(jobs) {
        let file = folder.path().join(format!("{}.fio", workload.name));
        std::fs::write(&file, &workload.text).unwrap();
        let lines = workload.text.lines().skip_while(|line| !line.starts_with("# By hand"));
        let command: Vec<&str> = lines.skip(1).take(2).map(|line| &line[4..]).collect();
        let command = command
            .join("\n")
            .replace("/mnt", &folder.path().display().to_string())
            .replace("fio --section", "exec fio --parse-only --section");
        let script = format!("cd {} && {command}", folder.path().display());
        let outcome =
            SystemRunner::default().run_checked(&Program::new("sh").args(["-c", &script]));
        assert_eq!(outcome.unwrap().stderr, "", "{script}");
    }
}

fn check(workload: &Workload, result: &WorkloadResult) {
    assert_eq!(result.points.len(), workload.points(PointProfile::Quick).len());
    assert_eq!(result.fill_ns > 0, workload.lays_out());
    assert!(result.fio_ns > 0 && result.notes.is_empty(), "{:?}", result.notes);
    result.points.iter().for_each(|point| check_point(workload, point));
}

fn check_point(workload: &Workload, point: &PointResult) {
    let has_jobs = workload.stages.iter().any(|stage| !stage.sections.is_empty());
    assert!(point.runtime_ns > 0);
    assert_eq!(point.fio_version.starts_with("fio-"), has_jobs);
    for (stage, spec) in point.stages.iter().zip(&workload.stages) {
        println!(
            "  {} {} {}: {:?} {:?}",
            workload.name, point.point, stage.name, stage.read, stage.write
        );
        assert_eq!(stage.read.is_some(), spec.measures(Direction::Read));
        assert_eq!(stage.write.is_some(), spec.measures(Direction::Write));
        for figures in [stage.read, stage.write].iter().flatten() {
            assert!(figures.rate(stage.kind) > 0 && figures.latency.max_ns > 0);
        }
    }
    let raw: serde_json::Value = serde_json::from_str(&point.raw_json).unwrap();
    assert_eq!(raw.as_array().unwrap().len(), workload.stages.len());
}

fn workloads_run_within_a_memory_limit() {
    let mut bed = Bed::new(320);
    let limit = match MemoryLimit::new(32 << 20) {
        Ok(limit) => limit,
        Err(reason) => {
            assert!(skip(Some(TestNeed::Isolation.missing(reason.to_string()))));
            return;
        }
    };
    bed.plan.memory_bytes = limit.limit_bytes();
    bed.plan.points = Points::Explicit(vec![WorkloadPoint::WorkSet(200)]);
    let workloads = Workloads::load(None).unwrap();
    for name in ["fileserver", "database", "untar"] {
        let target = WorkloadTarget::Mounted(&bed.mounted, bed.node());
        let workload = workloads.find(name).unwrap();
        let runner = SystemRunner::default();
        let result = run_workload(&runner, workload, &bed.plan, target, Some(&limit)).unwrap();
        check_point(workload, &result.points[0]);
    }
    let folder = limit.procs()[0].parent().unwrap().to_owned();
    let peak = ["memory.max_usage_in_bytes", "memory.peak"]
        .iter()
        .find_map(|name| std::fs::read_to_string(folder.join(name)).ok());
    // Kernels before 5.19 with cgroups v2 do not report the peak.
    let Some(peak) = peak else { return };
    let peak: u64 = peak.trim().parse().unwrap();
    assert!((limit.limit_bytes() / 2..=limit.limit_bytes()).contains(&peak), "{peak} bytes");
}

fn a_run_ends_at_its_time_limit() {
    let mut bed = Bed::new(320);
    bed.plan.points = Points::Explicit(vec![WorkloadPoint::BlockSize(512)]);
    bed.plan.data_size_bytes = 256 << 20;
    bed.plan.runtime_ns = 200_000_000;
    let workloads = Workloads::load(None).unwrap();
    let workload = workloads.find("random-read").unwrap();
    let target = WorkloadTarget::BlockDevice(bed.node());
    let runner = SystemRunner::default();
    let result = run_workload(&runner, workload, &bed.plan, target, None).unwrap();
    let read = result.points[0].stages[0].read.unwrap();
    assert!(read.bytes < 256 << 20 && read.bytes > 0, "{read:?}");
    assert!((190_000_000..2_000_000_000).contains(&read.runtime_ns), "{read:?}");
}

fn a_device_that_was_given_up_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let device = LoopDevice::attach(&image, LoopOptions::default()).unwrap();
    let workloads = Workloads::load(None).unwrap();
    let points = Points::Explicit(vec![WorkloadPoint::BlockSize(65536)]);
    let plan = RunPlan { points, ..plan(folder.path().to_owned()) };
    for name in ["linear-read", "linear-write", "random-read", "random-write"] {
        let workload = workloads.find(name).unwrap();
        let target = WorkloadTarget::GivenUpDevice(device.node());
        let result = run_workload(&SystemRunner::default(), workload, &plan, target, None).unwrap();
        assert_eq!(result.fill_bytes, 16 << 20, "what is read was written before");
        let stage = &result.points[0].stages[0];
        let figures = stage.read.or(stage.write).unwrap();
        assert_eq!(figures.bytes, 16 << 20, "{name}");
    }
    let mut start = [0; 4096];
    File::open(device.node()).and_then(|mut device| device.read_exact(&mut start)).unwrap();
    assert!(start.iter().any(|byte| *byte != 0), "the device was written");

    let run = |name: &str, node: &Path| {
        let plan = RunPlan { points: Points::Profile(PointProfile::Quick), ..plan.clone() };
        let target = WorkloadTarget::GivenUpDevice(node);
        run_workload(&SystemRunner::default(), workloads.find(name).unwrap(), &plan, target, None)
    };
    let error = run("sync-files", device.node()).unwrap_err();
    assert!(error.to_string().contains("needs a file system"), "{error}");
    let bed = Bed::new(64);
    let error = run("linear-write", bed.node()).unwrap_err();
    assert_eq!(error.class(), ExitClass::Refused, "a mounted device is not given up: {error}");
}

fn a_bare_device_is_read_only() {
    let bed = Bed::new(64);
    let workloads = Workloads::load(None).unwrap();
    let plan = RunPlan {
        points: Points::Explicit(vec![WorkloadPoint::BlockSize(65536)]),
        ..bed.plan.clone()
    };
    let run = |name: &str| {
        let target = WorkloadTarget::BlockDevice(bed.node());
        run_workload(&SystemRunner::default(), workloads.find(name).unwrap(), &plan, target, None)
    };
    for name in ["linear-read", "random-read"] {
        let result = run(name).unwrap();
        assert_eq!(result.fill_ns, 0);
        assert_eq!(result.points[0].stages[0].read.unwrap().bytes, 16 << 20);
    }
    for workload in workloads.all().iter().filter(|workload| !workload.raw || workload.writes()) {
        let error = run_workload(
            &SystemRunner::default(),
            workload,
            &RunPlan { points: Points::Profile(PointProfile::Quick), ..plan.clone() },
            WorkloadTarget::BlockDevice(bed.node()),
            None,
        )
        .unwrap_err();
        assert!(error.to_string().contains("writes and needs a file system"), "{error}");
    }
}
