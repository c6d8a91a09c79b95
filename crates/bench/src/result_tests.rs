//! Tests with recorded outputs of fio.

use flashfit_user_error::{ExitClass, UserError};

use super::*;
use crate::stage::FigureKind;

const SYNC: &str = include_str!("../tests/data/sync.json");
const MIXED: &str = include_str!("../tests/data/mixed.json");
const REFUSED: &str = include_str!("../tests/data/refused.json");
const STOPPED: &str = include_str!("../tests/data/stopped.json");
const SECOND_NS: u64 = 1_000_000_000;

fn stage(yields: &[Direction]) -> StageSpec {
    StageSpec::of_jobs("stage", "a", FigureKind::Throughput, yields.to_vec())
}

fn outcome(code: i32, stderr: &str) -> ProgramOutcome {
    ProgramOutcome { code: Some(code), stderr: stderr.to_owned(), ..ProgramOutcome::default() }
}

fn read_all(
    outcome: &ProgramOutcome,
    output: &str,
    yields: &[Direction],
    bytes: u64,
) -> Result<FioResult, BenchError> {
    read(outcome, output, ExpectedRun { stage: &stage(yields), bytes, runtime_ns: 5 * SECOND_NS })
}

#[test]
fn reads_and_writes_of_concurrent_jobs_are_summed_separately() {
    let both = [Direction::Read, Direction::Write];
    let result = read_all(&outcome(0, ""), MIXED, &both, 4 << 20).unwrap();
    let (read, write) = (result.read.unwrap(), result.write.unwrap());
    assert_eq!((read.bytes, read.operations), (2 << 20, 128));
    assert_eq!((write.bytes, write.operations), (2 << 20, 64));
    assert!(read.latency.p50_ns <= read.latency.p99_ns);
    assert!(read.latency.p999_ns <= read.latency.max_ns);
    assert_eq!(result.version, "fio-3.33");
    assert_eq!(write.sync, None);
}

#[test]
fn syncs_have_their_own_latency() {
    let result = read_all(&outcome(0, ""), SYNC, &[Direction::Write], 1_638_400).unwrap();
    let write = result.write.unwrap();
    assert_eq!((write.bytes, write.operations), (1_638_400, 100));
    assert!(write.sync.unwrap().max_ns > 0);
    assert_eq!(result.read, None);
}

#[test]
fn the_runtime_of_a_short_job_is_exact() {
    // Milliseconds of fio, the sum of its latencies, and the time that is used.
    for (runtime_ms, busy_ns, expected) in [
        (3, 2_400_000, 2_400_000),
        (3, 3_000_000, 3_000_000),
        (3, 1_900_000, 2_000_000),
        // Operations with pauses between them, and concurrent ones.
        (3, 900_000, 3_000_000),
        (3, 3_000_001, 3_000_000),
        (0, 0, 1),
        (5000, 4_999_100_000, 4_999_100_000),
    ] {
        assert_eq!(exact_runtime_ns(runtime_ms, busy_ns), expected, "{runtime_ms} {busy_ns}");
    }
    let all = |output, yields: &[Direction]| read_all(&outcome(0, ""), output, yields, 1).unwrap();
    let mixed = all(MIXED, &[Direction::Read, Direction::Write]);
    assert_eq!(mixed.read.unwrap().runtime_ns, 6_000_000, "two jobs at a time");
}

#[test]
fn text_before_the_document_is_ignored() {
    let output = format!("note: a {{ }} remark\n {{ not alone\n{SYNC}");
    let result = read_all(&outcome(0, ""), &output, &[Direction::Write], 1).unwrap();
    assert_eq!(result.json, SYNC);
}

#[test]
fn a_refusal_with_exit_code_0_is_an_error() {
    let message =
        "fio: /dev/loop0 appears mounted, and 'allow_mounted_write' isn't set. Aborting.\n";
    let error = read_all(&outcome(0, message), REFUSED, &[Direction::Write], 1).unwrap_err();
    assert_eq!(error.class(), ExitClass::Refused);
    let document = &REFUSED[REFUSED.find('{').unwrap()..];
    let silent = read_all(&outcome(0, ""), document, &[Direction::Write], 1).unwrap_err();
    assert!(silent.to_string().contains("nothing was written"), "{silent}");
}

#[test]
fn a_run_stopped_by_a_signal_is_rejected() {
    let yields = [Direction::Read];
    let error = read_all(&outcome(128, ""), STOPPED, &yields, 1 << 40).unwrap_err();
    assert_eq!(error.class(), ExitClass::Interrupted);
    let message = read_all(&outcome(0, ""), STOPPED, &yields, 1 << 40).unwrap_err();
    assert_eq!(message.class(), ExitClass::Interrupted);
    let document = &STOPPED[STOPPED.find('{').unwrap()..];
    let silent = read_all(&outcome(0, ""), document, &yields, 1 << 40).unwrap_err();
    assert!(matches!(silent, BenchError::CutShort { .. }), "{silent}");
}

#[test]
fn reaching_the_time_limit_is_a_complete_run() {
    let both = [Direction::Read, Direction::Write];
    let runtime_ns = 1_000_000;
    let expected = ExpectedRun { stage: &stage(&both), bytes: 1 << 40, runtime_ns };
    read(&outcome(0, ""), MIXED, expected).unwrap();
}

#[test]
fn errors_of_device_space_and_memory_are_distinguished() {
    for (message, class) in [
        (
            "fio: io_u error on file x: Input/output error: read offset=0, buflen=4096",
            ExitClass::Io,
        ),
        ("fio: pid=0, err=5/file:io_u.c:1876, func=io_u error", ExitClass::Io),
        ("fio: pid=0, err=30/file:filesetup.c:1, func=open", ExitClass::Io),
        ("fio: pid=0, err=28/file:filesetup.c:240, func=write", ExitClass::Usage),
        ("fio: pid=0, err=12/file:x.c:1, func=malloc", ExitClass::Environment),
        ("fio: pid=0, err=55/file:x.c:1, func=x", ExitClass::Environment),
    ] {
        let error = read_all(&outcome(1, message), "", &[Direction::Read], 1).unwrap_err();
        assert_eq!(error.class(), class, "{error}");
    }
    let error = read_all(&outcome(1, "x: err=28"), "", &[Direction::Read], 1).unwrap_err();
    assert!(error.hint().unwrap().contains("less data"));
}

#[test]
fn an_error_in_the_document_alone_is_an_error() {
    let output = SYNC.replacen("\"error\" : 0", "\"error\" : 5", 1);
    assert_ne!(output, SYNC);
    let error = read_all(&outcome(0, ""), &output, &[Direction::Write], 1).unwrap_err();
    assert!(matches!(error, BenchError::Device { .. }), "{error}");
}

#[test]
fn a_killed_fio_ran_out_of_memory() {
    let outcome = ProgramOutcome { code: None, signal: Some(9), ..ProgramOutcome::default() };
    let error = read_all(&outcome, "", &[Direction::Read], 1).unwrap_err();
    assert!(error.hint().unwrap().contains("memory"));
}

#[test]
fn missing_fields_are_an_error() {
    for broken in ["", "{\n}", "{\n\"fio version\": \"fio-3.33\", \"jobs\": []}"] {
        let error = read_all(&outcome(0, ""), broken, &[Direction::Read], 1).unwrap_err();
        assert!(matches!(error, BenchError::BadResult { .. }), "{error}");
    }
    let renamed = SYNC.replace("99.900000", "99.900001");
    let error = read_all(&outcome(0, ""), &renamed, &[Direction::Write], 1).unwrap_err();
    assert!(error.to_string().contains("99.9"), "{error}");
    let added = SYNC.replacen("\"jobs\"", "\"new\" : [1.5], \"jobs\"", 1);
    read_all(&outcome(0, ""), &added, &[Direction::Write], 1).unwrap();
}
