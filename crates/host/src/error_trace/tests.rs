//! Parses recorded tracepoint lines, and traces failing loop devices.

use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use flashfit_test_support::{TestNeed, block_devices, skip};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::*;
use crate::kernel_log::KernelLog;
use crate::loop_device::{LoopDevice, LoopOptions};
use crate::{Program, Runner, SystemRunner};

const BLOCK_BYTES: u64 = 4096;
/// Ten times the kernel log's limit within five seconds.
const MANY: u64 = 100;

#[test]
fn recorded_lines_are_parsed() {
    let error = |operation: &str, sector, errno| {
        Some(BlockError { operation: operation.into(), sector, errno })
    };
    for (line, expected) in [
        (
            "     ksoftirqd/1-22      [001] ..s..  8704.568304: block_rq_error: 7,4 WS () 8 + 8 \
             be,0,4 [-5]",
            error("WS", 8, 5),
        ),
        // An older kernel, without the priority.
        (
            "  fio-77  [000] d..1.  12.5: block_rq_error: 179,0 R () 0 + 256 [-110]",
            error("R", 0, 110),
        ),
        // A program with the event's name.
        (
            "block_rq_error:-9 [000] ..... 1.0: block_rq_error: 8,16 FF () \
             18446744073709551615 + 0 none,0,0 [-28]",
            error("FF", u64::MAX, 28),
        ),
        ("  fio-77  [000] d..1.  12.5: block_rq_error: 179,0 R () x + 256 [-110]", None),
        ("  fio-77  [000] d..1.  12.5: block_rq_error: 179,0 R", None),
        ("  fio-77  [000] d..1.  12.5: block_rq_issue: 179,0 R 4096 () 0 + 8 [fio]", None),
        ("CPU:1 [LOST 12 EVENTS]", None),
        ("", None),
    ] {
        assert_eq!(parse_error(line), expected, "{line}");
    }
}

#[test]
fn errors_without_details_are_counted() {
    let mut errors = BlockErrors::default();
    for line in [
        "CPU:0 [LOST 12 EVENTS]",
        "CPU:1 [LOST EVENTS]",
        "  fio-77  [000] d..1.  12.5: block_rq_error: 179,0 R",
        "# tracer: nop",
        "",
    ] {
        errors.add(line);
    }
    assert_eq!(errors, BlockErrors { count: 12 + 1 + 1, first: None });
}

#[test]
fn concurrent_traces_have_different_instances() {
    if skip_without_tracepoint() {
        return;
    }
    // Each start removes instances that another thread created but has not opened yet.
    for _ in 0..5 {
        let names: Vec<String> = std::thread::scope(|scope| {
            let start = || ErrorTrace::of_disk((7, 0)).unwrap();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
            let traces: Vec<_> = threads.into_iter().map(|one| one.join().unwrap()).collect();
            traces.iter().map(|trace| trace.instance.clone()).collect()
        });
        assert!((1..names.len()).all(|at| !names[..at].contains(&names[at])), "{names:?}");
    }
}

/// A loop device on which writes and discards fail, because its backing memfd is sealed.
struct Failing {
    device: LoopDevice,
    number: (u32, u32),
}

impl Failing {
    fn new() -> Self {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let file = File::from(memfd_create("failing", flags).unwrap());
        file.set_len(MANY * BLOCK_BYTES).unwrap();
        let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
        let device = LoopDevice::attach_file(&file, &PathBuf::from("failing"), options).unwrap();
        fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
        let rdev = device.node().metadata().unwrap().rdev();
        Self { device, number: (rustix::fs::major(rdev), rustix::fs::minor(rdev)) }
    }

    /// Writes each block with a separate request.
    fn fail(&self, blocks: u64) {
        #[repr(align(4096))]
        struct Aligned([u8; BLOCK_BYTES as usize]);
        let data = Aligned([1; BLOCK_BYTES as usize]);
        let direct = libc::O_DIRECT;
        let node = File::options().write(true).custom_flags(direct).open(self.device.node());
        let node = node.unwrap();
        for block in 0..blocks {
            node.write_at(&data.0, block * BLOCK_BYTES).unwrap_err();
        }
    }

    fn log_lines(&self, log: &mut KernelLog) -> u64 {
        let name = self.device.node().file_name().unwrap().to_string_lossy().into_owned();
        let about = format!(" error, dev {name},");
        log.take().iter().filter(|line| line.contains(&about)).count() as u64
    }
}

fn skip_without_tracepoint() -> bool {
    let tracepoint = || {
        let error = ErrorTrace::of_disk((7, 0)).err()?;
        Some(TestNeed::Kernel.missing(format!("no tracepoint block_rq_error: {error}")))
    };
    skip(block_devices().or_else(tracepoint))
}

fn exists(trace: &ErrorTrace) -> bool {
    is_there(&trace.tracefs, &trace.instance)
}

fn is_there(tracefs: &OwnedFd, instance: &str) -> bool {
    open(tracefs, &format!("instances/{instance}"), OFlags::RDONLY | OFlags::DIRECTORY).is_ok()
}

#[test]
fn errors_are_counted_beyond_the_rate_limit_of_the_log() {
    if skip_without_tracepoint() {
        return;
    }
    let (failing, other) = (Failing::new(), Failing::new());
    let mut trace = ErrorTrace::of_disk(failing.number).unwrap();
    let mut log = KernelLog::from_now();
    assert_eq!(trace.take().unwrap(), BlockErrors::default());
    other.fail(3);
    failing.fail(MANY);
    let errors = trace.take().unwrap();
    assert_eq!(errors.count, MANY, "{errors:?}");
    let first = errors.first.unwrap();
    assert_eq!((first.sector, first.errno), (0, libc::EIO), "{first}");
    assert!(first.operation.starts_with('W'), "{first}");
    if log.is_readable() {
        assert!(failing.log_lines(&mut log) < MANY, "the kernel log is not rate-limited");
    }
    assert_eq!(trace.take().unwrap(), BlockErrors::default(), "taken once");
    failing.fail(2);
    assert_eq!(trace.take().unwrap().count, 2);
}

#[test]
fn errors_beyond_the_buffer_are_counted() {
    if skip_without_tracepoint() {
        return;
    }
    let failing = Failing::new();
    let mut trace = ErrorTrace::of_disk(failing.number).unwrap();
    trace.set("buffer_size_kb", "4").unwrap();
    for _ in 0..10 {
        failing.fail(MANY);
    }
    assert_eq!(trace.take().unwrap().count, 10 * MANY);
}

#[test]
fn failed_discards_are_ignored() {
    if skip_without_tracepoint() {
        return;
    }
    let failing = Failing::new();
    let mut all = ErrorTrace::of_disk(failing.number).unwrap();
    let (major, minor) = failing.number;
    let of_disk = format!("dev == {}", (major << 20) | minor);
    all.set("events/block/block_rq_error/filter", &of_disk).unwrap();
    let mut trace = ErrorTrace::of_disk(failing.number).unwrap();
    let discard = Program::new("blkdiscard").arg(failing.device.node());
    let outcome = SystemRunner::default().run(&discard).unwrap();
    assert!(!outcome.success(), "{outcome:?}");
    let seen = all.take().unwrap();
    assert!(seen.first.is_some_and(|error| error.operation.contains('D')), "nothing failed");
    assert_eq!(trace.take().unwrap(), BlockErrors::default());
}

#[test]
fn instances_are_removed_with_their_owner_or_at_the_next_start() {
    if skip_without_tracepoint() {
        return;
    }
    let first = ErrorTrace::of_disk((7, 0)).unwrap();
    let mut killed = ErrorTrace::of_disk((7, 0)).unwrap();
    let (pipe, stale) = (killed.pipe.take(), killed.instance.clone());
    std::mem::forget(killed);
    assert!(is_there(&first.tracefs, &stale), "its pipe is open");
    drop(pipe);
    let second = ErrorTrace::of_disk((7, 0)).unwrap();
    assert!(!is_there(&first.tracefs, &stale), "nobody has it open");
    assert!(exists(&first) && exists(&second), "these are in use");
    let name = second.instance.clone();
    drop(second);
    assert!(!is_there(&first.tracefs, &name));
}
