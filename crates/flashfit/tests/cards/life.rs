//! One test case: a file system on a card, from mkfs over a power cut to the final check.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_bench::plan::Points;
use flashfit_bench::{
    BenchError, PointProfile, RunPlan, WorkloadPoint, WorkloadTarget, Workloads, run_workload,
};
use flashfit_card_client::CardProcess;
use flashfit_device::Bytes;
use flashfit_host::mount::Mounted;
use flashfit_host::{Program, SystemRunner};

use crate::repair::{check, make, mount, repair, run, unmount};
use crate::witness::Witness;

/// Divides all delays of the model, so that even a card that merges for a second at each write
/// finishes the test within seconds.
const TIMES_AS_FAST: u64 = 16;
/// The power is cut after this many synced generations.
const GENERATIONS_BEFORE_THE_CUT: u64 = 14;
/// The test fails if a card takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the test case; returns the outcome of the power cut.
pub fn of(card: &str, filesystem: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let process = serve(card, folder.path())?;
    let node = process.device().to_owned();
    let point = folder.path().join("point");
    std::fs::create_dir(&point).unwrap();
    make(filesystem, &node)?;
    let mounted = mount(filesystem, &node, &point)?;
    fio(
        &mounted,
        &node,
        "sync-files",
        Points::Profile(PointProfile::Quick),
        &folder.path().join("1"),
    )
    .map_err(|error| format!("fio: {error}"))?;
    let witness = Witness::new(&point);
    let report = cut_in_the_middle(&witness, &mounted, &node, folder.path())?;
    // Dirty data is dropped, and the kernel's cache of the device must not survive the power cut,
    // as on a real machine.
    unmount(mounted)?;
    run(&Program::new("blockdev").arg("--flushbufs").arg(&node))?;
    flashfit_card_client::power_on(&node).map_err(|error| error.to_string())?;
    repair(filesystem, &node, &point).map_err(|error| format!("repair: {error}"))?;
    check(filesystem, &node).map_err(|error| format!("after the repair: {error}"))?;
    let mounted = mount(filesystem, &node, &point)?;
    witness.check()?;
    let more = Witness::new(&point.join("witness"));
    more.write_up_to(8).map_err(|error| format!("written again: {error}"))?;
    unmount(mounted)?;
    check(filesystem, &node).map_err(|error| format!("in the end: {error}"))?;
    process.stop().map_err(|error| error.to_string())?;
    Ok(report)
}

fn serve(card: &str, folder: &Path) -> Result<CardProcess, String> {
    let mut model = flashfit_card::catalog::load(card, None).unwrap();
    let nand = &mut model.nand;
    let times = [&mut nand.read_ns, &mut nand.program_ns, &mut nand.erase_ns, &mut nand.copy_ns];
    times.into_iter().for_each(|time_ns| *time_ns /= TIMES_AS_FAST);
    model.bus.command_ns /= TIMES_AS_FAST;
    model.bus.bytes_per_second *= TIMES_AS_FAST;
    model.layer.log_ns = model.layer.log_ns.map(|time_ns| time_ns / TIMES_AS_FAST);
    let path = folder.join(format!("{card}.toml"));
    std::fs::write(&path, toml::to_string(&model).unwrap()).unwrap();
    let args = ["card-server".into(), path.into_os_string()];
    CardProcess::start(Path::new(env!("CARGO_BIN_EXE_flashfit")), &args)
        .map_err(|error| error.to_string())
}

fn fio(
    mounted: &Mounted,
    node: &Path,
    workload: &str,
    points: Points,
    scratch: &Path,
) -> Result<(), BenchError> {
    std::fs::create_dir_all(scratch).unwrap();
    let plan = RunPlan {
        points,
        data_size_bytes: 4 << 20,
        memory_bytes: 64 << 20,
        runtime_ns: 3_000_000_000,
        seed: 7,
        scratch: PathBuf::from(scratch),
    };
    let workloads = Workloads::load(None)?;
    let target = WorkloadTarget::Mounted(mounted, node);
    run_workload(&SystemRunner::default(), workloads.find(workload)?, &plan, target, None)?;
    Ok(())
}

/// Random writes by fio and synced files, until the power cut causes an error.
fn cut_in_the_middle(
    witness: &Witness,
    mounted: &Mounted,
    node: &Path,
    folder: &Path,
) -> Result<String, String> {
    std::thread::scope(|scope| {
        let random = scope.spawn(|| {
            let points = || Points::Explicit(vec![WorkloadPoint::BlockSize(4096)]);
            while fio(mounted, node, "random-write", points(), &folder.join("2")).is_ok() {}
        });
        let writing = scope.spawn(|| witness.write_up_to(u64::MAX));
        let deadline = Instant::now() + PATIENCE;
        while witness.synced() < GENERATIONS_BEFORE_THE_CUT
            && Instant::now() < deadline
            && !random.is_finished()
            && !writing.is_finished()
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        let (early, synced) = (random.is_finished() || writing.is_finished(), witness.synced());
        let report =
            flashfit_card_client::cut(node, &[], synced).map_err(|error| error.to_string())?;
        random.join().unwrap();
        let error = writing.join().unwrap().expect_err("a card without power takes nothing");
        if early || synced < GENERATIONS_BEFORE_THE_CUT {
            return Err(format!("only {synced} generations were synced: {error}"));
        }
        if !report.is_honest() {
            return Err(format!("no honest cut: {report:?}"));
        }
        Ok(format!("{synced} synced, {} of its cache lost", Bytes(report.lost_cache_bytes)))
    })
}
