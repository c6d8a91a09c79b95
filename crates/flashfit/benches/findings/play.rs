//! One case of a finding: a fresh simulated card behind the kernel, a partition, a file system, and
//! the work on it.
//!
//! Limits: wall-clock time on this machine; the part of it that is the card's own is printed too,
//! from its counters.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_card::{Card, CardRequest};
use flashfit_card_client::CardProcess;
use flashfit_device::random::Random;
use flashfit_host::mount::Mounted;
use flashfit_host::{Program, Runner, SystemRunner};

use crate::finding::{Case, Finding, Work};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// dd's block in the Dreamplug's test.
const PIECE_BYTES: u64 = 16 << 10;
const RANDOM_FILE_BYTES: u64 = 64 << 20;
const DIRECT_ALIGNMENT: usize = 4096;

/// What a case gave.
#[derive(Debug)]
pub struct Outcome {
    /// In thousandths of the finding's unit.
    pub rate_thousandths: u64,
    /// How long the work took.
    pub elapsed: Duration,
    /// How long the card was busy in that time.
    pub card_busy: Duration,
    /// Programmed by written, in thousandths.
    pub write_amplification_thousandths: Option<u64>,
}

pub fn play(runner: &SystemRunner, finding: &Finding, case: &Case) -> Fallible<Outcome> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_flashfit"));
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("card");
    used(finding)?.save_to(&state)?;
    let args = ["card-server", &finding.card, "--state"].map(Into::into);
    let args = [&args[..], &[state.into_os_string()]].concat();
    let card = CardProcess::start(&program, &args)?;
    let node = partition(runner, card.device(), case.start_sector)?;
    let mkfs = Program::new(&case.mkfs[0]).args(&case.mkfs[1..]);
    runner.run_checked(&mkfs.arg(&node))?;
    let point = tempfile::tempdir()?;
    // Which driver mounts ext2 depends on the kernel; the type is the program's ending.
    let kind = case.mkfs[0].trim_start_matches("mkfs.");
    let mounted = Mounted::new(runner, &node, kind, point.path(), &case.mount)?;
    prepare(case, mounted.point())?;
    rustix::fs::syncfs(File::open(mounted.point())?.as_fd())?;
    card.reset_counters()?;
    let begin = Instant::now();
    work(case, mounted.point())?;
    let elapsed = begin.elapsed();
    let counters = card.counters()?;
    mounted.unmount()?;
    card.stop()?;
    let amount = u128::from(case.work.amount_thousandths(case.count, case.bytes));
    let rate = amount * 1_000_000_000 / elapsed.as_nanos().max(1);
    Ok(Outcome {
        rate_thousandths: u64::try_from(rate)?,
        elapsed,
        card_busy: Duration::from_nanos(counters.busy_ns),
        write_amplification_thousandths: counters.write_amplification_thousandths,
    })
}

/// Nobody formats a card that was never written; in the process it is done in no time.
fn used(finding: &Finding) -> Fallible<Card> {
    let model = flashfit_card::catalog::load(&finding.card, None)?;
    let mut card = Card::new(&model);
    let zeros = vec![0; 1 << 20];
    for offset in (0..model.capacity.0).step_by(zeros.len()) {
        card.serve(CardRequest::Write { offset, data: &zeros })?;
    }
    card.serve(CardRequest::Flush)?;
    Ok(card)
}

fn libc_o_direct() -> i32 {
    i32::try_from(rustix::fs::OFlags::DIRECT.bits()).expect("a flag of open(2) is an int")
}

/// Memory that O_DIRECT takes.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

fn aligned(length: usize, byte: u8) -> Aligned {
    let memory = vec![byte; length + DIRECT_ALIGNMENT];
    let start = memory.as_ptr().align_offset(DIRECT_ALIGNMENT);
    Aligned { memory, start, length }
}

impl Aligned {
    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
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

fn prepare(case: &Case, folder: &Path) -> Fallible<()> {
    if case.work == Work::RandomDirectWrites {
        let mut file = File::create(folder.join("file"))?;
        let piece = vec![0x5a; 1 << 20];
        for _ in 0..RANDOM_FILE_BYTES >> 20 {
            file.write_all(&piece)?;
        }
        file.sync_all()?;
    }
    Ok(())
}

fn work(case: &Case, folder: &Path) -> Fallible<()> {
    let data = aligned(usize::try_from(case.bytes)?, 0xa5);
    match case.work {
        Work::SyncedFiles => {
            for number in 0..case.count {
                let mut file = File::create(folder.join(format!("file{number}")))?;
                file.write_all(data.bytes())?;
                file.sync_all()?;
            }
        }
        Work::FilesAndSync => {
            let root = File::open(folder)?;
            for number in 0..case.count {
                let mut file = File::create(folder.join(format!("testing.{number}")))?;
                for piece in data.bytes().chunks(usize::try_from(PIECE_BYTES)?) {
                    file.write_all(piece)?;
                }
                rustix::fs::syncfs(root.as_fd())?;
            }
        }
        Work::LargeFile => {
            let mut file = File::create(folder.join("test"))?;
            for _ in 0..case.count {
                file.write_all(data.bytes())?;
            }
        }
        Work::RandomDirectWrites => {
            let mut options = OpenOptions::new();
            let file =
                options.write(true).custom_flags(libc_o_direct()).open(folder.join("file"))?;
            let mut random = Random::new(case.bytes);
            for _ in 0..case.count {
                let place = random.below(RANDOM_FILE_BYTES / case.bytes) * case.bytes;
                rustix::io::pwrite(&file, data.bytes(), place)?;
            }
            file.sync_all()?;
        }
    }
    Ok(())
}
