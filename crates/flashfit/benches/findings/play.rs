//! One case of a finding: a fresh simulated card behind the kernel, a partition, a file system, and
//! the work on it.
//!
//! Limits: wall-clock time on this machine; the part of it that is the card's own is printed too,
//! from its counters.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_card::{Card, CardRequest};
use flashfit_card_client::CardProcess;
use flashfit_host::mount::Mounted;
use flashfit_host::{Program, Runner, SystemRunner};

use crate::finding::Case;
use crate::work::Prepared;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// What a case gave.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// In the finding's unit.
    pub rate: f64,
    /// The share of the time in which the card was busy.
    pub busy: f64,
    /// Programmed by written, in thousandths.
    pub write_amplification_thousandths: Option<u64>,
}

pub fn play(runner: &SystemRunner, card_name: &str, case: &Case) -> Fallible<Outcome> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_flashfit"));
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("card");
    used(card_name)?.save_to(&state)?;
    let args = ["card-server", card_name, "--state"].map(Into::into);
    let args = [&args[..], &[state.into_os_string()]].concat();
    let card = CardProcess::start(&program, &args)?;
    if let Some(scheduler) = &case.scheduler {
        let name = card.device().file_name().ok_or("a node has a name")?;
        let queue = Path::new("/sys/block").join(name).join("queue/scheduler");
        std::fs::write(queue, scheduler)?;
    }
    let node = partition(runner, card.device(), case.start_sector)?;
    let mkfs = Program::new(&case.mkfs[0]).args(&case.mkfs[1..]);
    runner.run_checked(&mkfs.arg(&node))?;
    let point = tempfile::tempdir()?;
    let mounted = Mounted::new(runner, &node, case.filesystem(), point.path(), &case.mount)?;
    let prepared = Prepared::new(runner, &case.work, &mounted, &node)?;
    card.reset_counters()?;
    let begin = Instant::now();
    let done = prepared.run()?;
    let whole = begin.elapsed();
    let counters = card.counters()?;
    prepared.unmount()?;
    mounted.unmount()?;
    card.stop()?;
    Ok(Outcome {
        rate: done.amount / done.elapsed.as_secs_f64().max(1e-9),
        busy: Duration::from_nanos(counters.busy_ns).as_secs_f64() / whole.as_secs_f64().max(1e-9),
        write_amplification_thousandths: counters.write_amplification_thousandths,
    })
}

/// Nobody formats a card that was never written; in the process it is done in no time.
fn used(card_name: &str) -> Fallible<Card> {
    let model = flashfit_card::catalog::load(card_name, None)?;
    let mut card = Card::new(&model);
    let zeros = vec![0; 1 << 20];
    for offset in (0..model.capacity.0).step_by(zeros.len()) {
        card.serve(CardRequest::Write { offset, data: &zeros })?;
    }
    card.serve(CardRequest::Flush)?;
    Ok(card)
}

fn partition(runner: &SystemRunner, device: &Path, start_sector: u64) -> Fallible<PathBuf> {
    if start_sector == 0 {
        return Ok(device.to_owned());
    }
    let script =
        format!("label: dos\nunit: sectors\nfirst-lba: 1\nstart={start_sector}, type=83\n");
    let name = device.display().to_string();
    let sfdisk = Program::new("sfdisk").args(["--quiet", "--no-reread", "--no-tell-kernel"]);
    runner.run_checked(&sfdisk.arg(&name).stdin(script))?;
    runner.run_checked(&Program::new("partx").args(["--update", &name]))?;
    let node = PathBuf::from(format!("{name}p1"));
    let begin = Instant::now();
    while !node.exists() {
        if begin.elapsed() > Duration::from_secs(5) {
            return Err(format!("{} did not appear", node.display()).into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(node)
}
