//! Tests that failures which fio hides are detected.

use std::path::Path;
use std::time::Duration;

use flashfit_bench::fio::{FioAccess, FioRun, run};
use flashfit_bench::result::{ExpectedRun, read};
use flashfit_bench::{
    BenchError, Direction, FigureKind, StageSpec, WorkloadTarget, Workloads, run_workload,
};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::{Program, ProgramOutcome, Runner, SystemRunner};
use flashfit_user_error::{ExitClass, UserError};

use crate::Test;
use crate::bed::{Around, Bed, plan};

pub const TESTS: &[Test] = &[
    ("a_mounted_target_is_refused_although_fio_exits_with_0", refusal),
    ("a_mistyped_device_does_not_become_a_file", mistyped_device),
    ("text_before_the_result_is_ignored", text_before_the_result),
    ("a_run_stopped_by_a_signal_is_rejected", shortened),
    ("a_full_device_is_a_usage_error", full),
    ("an_error_of_the_device_is_reported", device_error),
    ("an_interrupt_leaves_no_files", interrupted),
    ("a_vanished_mount_is_detected", vanished_mount),
    ("a_covered_mount_is_detected", covered_mount),
];

const MIB: u64 = 1 << 20;

fn stage(direction: Direction) -> StageSpec {
    StageSpec::of_jobs("stage", "a", FigureKind::Throughput, vec![direction])
}

/// Evaluates the outcome of a run with an expected volume of `bytes` within a minute.
fn evaluate(
    outcome: &ProgramOutcome,
    output: &str,
    direction: Direction,
    bytes: u64,
) -> Option<BenchError> {
    let expected = ExpectedRun { stage: &stage(direction), bytes, runtime_ns: 60_000_000_000 };
    read(outcome, output, expected).err()
}

fn run_text(text: &str, access: FioAccess, scratch: &Path) -> (ProgramOutcome, String) {
    let invocation = FioRun {
        text,
        sections: &[],
        variables: &[],
        scratch,
        timeout: Duration::from_secs(60),
        memory_limit: None,
        access,
    };
    run(&SystemRunner::default(), &invocation).unwrap()
}

fn refusal() {
    let bed = Bed::new(32);
    let node = bed.node().display();
    let text = format!("[w]\nfilename={node}\nrw=write\nsize=1m\ngroup_reporting=1\n");
    let (outcome, output) = run_text(&text, FioAccess::Files, &bed.plan.scratch);
    assert!(outcome.success(), "this fio reports the refusal: {outcome:?}");
    let error = evaluate(&outcome, &output, Direction::Write, MIB).unwrap();
    assert_eq!(error.class(), ExitClass::Refused, "{error}");
}

fn mistyped_device() {
    let folder = tempfile::tempdir().unwrap();
    let mistyped = folder.path().join("zz_not_a_card");
    let text =
        format!("[r]\nfilename={}\nrw=read\nsize=1m\ngroup_reporting=1\n", mistyped.display());
    let (outcome, output) = run_text(&text, FioAccess::ReadDevice, folder.path());
    assert!(evaluate(&outcome, &output, Direction::Read, MIB).is_some());
    assert!(!mistyped.exists());
    let mistyped = Path::new("/dev/zz_not_a_card");
    let workloads = Workloads::load(None).unwrap();
    let error = run_workload(
        &SystemRunner::default(),
        workloads.find("linear-read").unwrap(),
        &plan(folder.path().to_owned()),
        WorkloadTarget::BlockDevice(mistyped),
        None,
    )
    .unwrap_err();
    assert_eq!(error.class(), ExitClass::Usage, "{error}");
    assert!(!mistyped.exists());
}

fn text_before_the_result() {
    let fio = Program::new("fio").args([
        "--output-format=json",
        "--eta=never",
        "--name=r",
        "--ioengine=psync",
        "--iodepth=8",
        "--filename=/dev/zero",
        "--rw=read",
        "--size=1m",
        "--group_reporting",
    ]);
    let outcome = SystemRunner::default().run(&fio).unwrap();
    assert!(
        outcome.stdout.starts_with("note: "),
        "this fio writes notes elsewhere: {}",
        outcome.stdout
    );
    let error = evaluate(&outcome, &outcome.stdout, Direction::Read, MIB);
    assert!(error.is_none(), "{error:?}");
}

fn shortened() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("fio.json");
    let outcome = SystemRunner::default()
        .run(&Program::new("timeout").args(["-s", "INT", "--preserve-status", "4", "fio"]).args([
            &format!("--output={}", output.display()),
            "--output-format=json",
            "--name=r",
            "--filename=/dev/zero",
            "--rw=read",
            "--size=1t",
            "--runtime=60",
            "--group_reporting",
        ]))
        .unwrap();
    let output = std::fs::read_to_string(output).unwrap();
    assert!(output.contains("\"error\" : 0"), "{output}");
    let stopped = evaluate(&outcome, &output, Direction::Read, 1 << 40).unwrap();
    assert_eq!(stopped.class(), ExitClass::Interrupted, "{stopped}");
    let silent = ProgramOutcome { code: Some(0), ..outcome };
    let document = &output[output.find('{').unwrap()..];
    let short = evaluate(&silent, document, Direction::Read, 1 << 40).unwrap();
    assert!(matches!(short, BenchError::CutShort { .. }), "{short}");
}

fn full() {
    let mut bed = Bed::new(32);
    bed.plan.data_size_bytes = 64 * MIB;
    // A busy computer needs more than a second to fill the file system.
    bed.plan.runtime_ns = 60_000_000_000;
    for name in ["linear-read", "linear-write", "sync-files", "random-write"] {
        let error = bed.run(name).unwrap_err();
        assert!(matches!(error, BenchError::Full { .. }), "{name}: {error}");
        assert!(error.class() == ExitClass::Usage && error.hint().is_some());
        let left = std::fs::read_dir(bed.mounted.point()).unwrap().count();
        assert_eq!(left, 1, "only lost+found is left by {name}");
    }
}

fn device_error() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let file = std::fs::File::create(&image).unwrap();
    file.set_len(32 * MIB).unwrap();
    let device = LoopDevice::attach(&image, LoopOptions::default()).unwrap();
    // Reading beyond the end of the file is an error.
    file.set_len(8 * MIB).unwrap();
    let workloads = Workloads::load(None).unwrap();
    let error = run_workload(
        &SystemRunner::default(),
        workloads.find("linear-read").unwrap(),
        &plan(folder.path().to_owned()),
        WorkloadTarget::BlockDevice(device.node()),
        None,
    )
    .unwrap_err();
    assert!(matches!(error, BenchError::Device { .. }), "{error}");
    assert_eq!(error.class(), ExitClass::Io);
}

fn interrupted() {
    let bed = Bed::new(32);
    let interrupt = Interrupt::new();
    interrupt.raise();
    let error = bed.run_with(&SystemRunner::new(interrupt), "sync-files").unwrap_err();
    assert_eq!(error.class(), ExitClass::Interrupted, "{error}");
    assert_eq!(std::fs::read_dir(bed.mounted.point()).unwrap().count(), 1, "only lost+found");
}

fn vanished_mount() {
    let bed = Bed::new(32);
    let point = bed.mounted.point();
    let vanish = || {
        // fio finds the directory, but on the disk below.
        let umount = Program::new("umount").arg(point);
        if SystemRunner::default().run_checked(&umount).is_ok() {
            std::fs::create_dir(point.join("flashfit-bench")).unwrap();
        }
    };
    let error = bed.run_with(&Around { before: &vanish, after: &|| () }, "sync-files").unwrap_err();
    assert!(matches!(error, BenchError::TargetVanished { .. }), "{error}");
    assert_eq!(error.class(), ExitClass::Io);
    let again = bed.run("sync-files").unwrap_err();
    assert!(again.to_string().contains("is not mounted there"), "{again}");
}

fn covered_mount() {
    let bed = Bed::new(32);
    let point = bed.mounted.point().display().to_string();
    let run = |program: Program| SystemRunner::default().run_checked(&program).unwrap();
    let cover = || {
        run(Program::new("mount").args(["-t", "tmpfs", "none", &point]));
    };
    let error = bed.run_with(&Around { before: &|| (), after: &cover }, "sync-files").unwrap_err();
    run(Program::new("umount").arg(&point));
    assert!(matches!(error, BenchError::TargetVanished { .. }), "{error}");
}
