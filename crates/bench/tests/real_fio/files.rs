//! Tests the files that workloads write, and that the measured time includes waiting for the
//! device.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use flashfit_bench::plan::Points;
use flashfit_bench::{BenchError, WorkloadPoint, WorkloadTarget, Workloads, run_workload};
use flashfit_host::SystemRunner;

use crate::Test;
use crate::bed::{Around, Bed, Traced, plan};

pub const TESTS: &[Test] = &[
    ("each_small_file_is_created_and_synced_in_turn", small_files_in_turn),
    ("files_are_created_written_read_and_deleted_in_their_stages", files_in_stages),
    ("files_are_laid_out_once_unless_they_changed", files_laid_out_once),
    ("waiting_for_the_device_is_in_the_time", waiting_is_in_the_time),
    ("data_is_neither_compressible_nor_repetitive", data_does_not_compress),
    ("the_seed_determines_the_data", the_seed_decides),
    ("a_hostile_directory_name_is_used_literally", hostile_name),
    ("other_files_are_not_changed", other_files_are_left_alone),
];

/// Name and text of the traced calls on the files of the workload.
fn calls(lines: &[String]) -> Vec<(&str, &str)> {
    lines
        .iter()
        .filter_map(|line| {
            let (_, call) = line.split_once(' ')?;
            let call = call.trim_start();
            Some((call.split_once('(')?.0, call))
        })
        .filter(|(_, call)| call.contains("/flashfit-bench/"))
        .collect()
}

fn small_files_in_turn() {
    let mut bed = Bed::new(64);
    // strace is slow on a busy computer.
    bed.plan.runtime_ns = 60_000_000_000;
    let options = "-y -e trace=openat,pwrite64,fsync,close";
    let Some(traced) = Traced::new(&bed, options) else { return };
    bed.run_with(&traced, "sync-files").unwrap();
    let lines = traced.lines();
    let made: Vec<&str> = calls(&lines)
        .into_iter()
        .filter(|(name, call)| *name != "openat" || call.contains("O_CREAT"))
        .map(|(name, _)| name)
        .collect();
    let one = [&["openat"][..], &["pwrite64"; 10], &["fsync", "close"]].concat();
    let count = (16 << 20) / (160 << 10);
    let files: Vec<_> = made.chunks(one.len()).collect();
    assert_eq!(files.len(), count);
    for (number, file) in files[..count - 1].iter().enumerate() {
        assert_eq!(*file, one, "file {number}");
    }
    // fio omits the fsync after the very last block; flashfit's syncfs replaces it.
    assert!(made.last() == Some(&"close") && files[count - 1].len() >= one.len() - 1);
}

fn files_in_stages() {
    let mut bed = Bed::new(64);
    bed.plan.data_size_bytes = 4 << 20;
    let folder = bed.mounted.point().join("flashfit-bench");
    let seen = Mutex::new(Vec::new());
    let record = || {
        let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().metadata());
        let sizes: Vec<u64> = files.map(|file| file.unwrap().len()).collect();
        seen.lock().unwrap().push((sizes.len(), sizes.iter().sum::<u64>()));
    };
    let result = bed.run_with(&Around { before: &|| (), after: &record }, "create-read-delete");
    let stages = result.unwrap().points.remove(0).stages;
    let all = 4 << 20;
    assert_eq!(*seen.lock().unwrap(), [(1024, 0), (1024, all), (1024, all), (0, 0)]);
    for stage in &stages {
        assert_eq!(stage.read.or(stage.write).unwrap().operations, 1024, "{}", stage.name);
    }
}

/// Neither the layout of a single file nor finding it unchanged at the next point starts fio, and
/// fio takes the file as it is.
fn files_laid_out_once() {
    for is_cut in [false, true] {
        let mut bed = Bed::new(64);
        bed.plan.data_size_bytes = 4 << 20;
        let folder = bed.mounted.point().join("flashfit-bench");
        let count = Mutex::new(0);
        let after = || {
            let mut count = count.lock().unwrap();
            *count += 1;
            if is_cut && *count == 1 {
                let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
                std::fs::File::options().write(true).open(file).unwrap().set_len(4096).unwrap();
            }
        };
        let result = bed.run_with(&Around { before: &|| (), after: &after }, "random-write");
        let result = result.unwrap();
        assert_eq!((*count.lock().unwrap(), result.points.len()), (3, 3));
        assert_eq!(result.fill_bytes, if is_cut { 8 << 20 } else { 4 << 20 });
        for point in &result.points {
            assert_eq!(point.stages[0].write.unwrap().bytes, 4 << 20);
        }
    }
}

fn waiting_is_in_the_time() {
    const DELAY_NS: u64 = 300_000_000;
    for (name, options) in [
        ("linear-write", "-e trace=fsync -e inject=fsync:delay_enter=300000:when=1"),
        ("random-write", "-e trace=fsync -e inject=fsync:delay_enter=300000:when=1"),
        ("compile", "-e trace=fsync -e inject=fsync:delay_enter=300000:when=1"),
        ("database", "-e trace=msync -e inject=msync:delay_enter=300000:when=1"),
    ] {
        let mut bed = Bed::new(128);
        let point = if name.ends_with("write") {
            WorkloadPoint::BlockSize(1 << 20)
        } else {
            WorkloadPoint::WorkSet(25)
        };
        bed.plan.points = Points::Explicit(vec![point]);
        bed.plan.runtime_ns = 60_000_000_000;
        let Some(traced) = Traced::new(&bed, options) else { return };
        let result = bed.run_with(&traced, name).unwrap();
        let write = result.points[0].stages[0].write.unwrap();
        assert!(write.runtime_ns >= DELAY_NS, "{name}: {write:?}");
        if name == "database" {
            assert!(write.sync.unwrap().max_ns >= DELAY_NS, "{write:?}");
        }
    }
}

/// Runs a workload and returns the contents of its files after the last run of fio.
fn data_of(name: &str, seed: u64) -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let (point, scratch) = (folder.path().join("point"), folder.path().join("scratch"));
    std::fs::create_dir(&point).unwrap();
    std::fs::create_dir(&scratch).unwrap();
    let mut plan = plan(scratch);
    plan.seed = seed;
    plan.memory_bytes = 32 << 20;
    let workloads = Workloads::load(None).unwrap();
    let files = Mutex::new(BTreeMap::new());
    let record = || *files.lock().unwrap() = contents(&point.join("flashfit-bench"));
    let around = Around { before: &|| (), after: &record };
    let workload = workloads.find(name).unwrap();
    run_workload(&around, workload, &plan, WorkloadTarget::Directory(&point), None).unwrap();
    files.into_inner().unwrap()
}

fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.file_name().unwrap().into(), std::fs::read(path).unwrap())).collect()
}

fn data_does_not_compress() {
    for name in ["sync-files", "linear-read", "linear-write", "fileserver"] {
        let data: Vec<u8> = data_of(name, 1).into_values().flatten().collect();
        assert!(data.len() >= 8 << 20, "{name}: {} bytes", data.len());
        let entropy = bits_per_byte(&data);
        assert!(entropy > 7.9, "{name}: {entropy} bits in a byte");
        let blocks: Vec<&[u8]> = data.chunks(4096).collect();
        let distinct: HashSet<&[u8]> = blocks.iter().copied().collect();
        assert_eq!(distinct.len(), blocks.len(), "{name}: blocks repeat");
    }
}

fn bits_per_byte(data: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    data.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let length = f64::from(u32::try_from(data.len()).unwrap());
    let shares = counts.iter().filter(|count| **count > 0).map(|c| f64::from(*c) / length);
    -shares.map(|share| share * share.log2()).sum::<f64>()
}

fn the_seed_decides() {
    let first = data_of("sync-files", 1);
    assert_eq!(first, data_of("sync-files", 1));
    let second = data_of("sync-files", 2);
    assert!(first.iter().zip(&second).all(|(a, b)| a.0 == b.0 && a.1 != b.1));
}

fn hostile_name() {
    for name in [" a b%s:c,d\\e ${SEED} #;[x]='\"", "-100%ü"] {
        let bed = Bed::named(64, name);
        let result = bed.run("sync-files").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(result.points[0].stages[0].write.unwrap().operations, 1020);
        assert_eq!(
            std::fs::read_dir(bed.folder.path()).unwrap().count(),
            3,
            "image, point, scratch"
        );
    }
}

fn other_files_are_left_alone() {
    let bed = Bed::new(64);
    let existing = bed.mounted.point().join("existing");
    std::fs::write(&existing, "data").unwrap();
    bed.run("sync-files").unwrap();
    let target = WorkloadTarget::Directory(bed.mounted.point());
    let workloads = Workloads::load(None).unwrap();
    let workload = workloads.find("grep").unwrap();
    run_workload(&SystemRunner::default(), workload, &bed.plan, target, None).unwrap();
    assert_eq!(std::fs::read_to_string(&existing).unwrap(), "data");
    let foreign = bed.mounted.point().join("flashfit-bench");
    std::fs::create_dir(&foreign).unwrap();
    let error = bed.run("sync-files").unwrap_err();
    assert!(matches!(error, BenchError::BadTarget { .. }) && foreign.exists(), "{error}");
}
