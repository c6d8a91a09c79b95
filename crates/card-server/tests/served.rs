//! A served card under the real kernel: file systems on it, its end, and its sudden end.
//!
//! This test has its own main function, because it also is the program that serves the card:
//! started with `serve CARD` it does that and nothing else. Needs root, FUSE and loop devices.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/device.rs"]
mod device;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::BufReader;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flashfit_card_client::{CardProcess, ProcessError, cut, power_on, stats};
use flashfit_card_server::{ServeOptions, refuse, run};
use flashfit_device::guard::SIMULATED_CARD_FILE;
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::mount::{Mounted, enter_private_namespace};
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{HarnessTest, MissingNeed, TestNeed, run_tests, simulated_cards};
use flashfit_user_error::UserError;

use device::DirectDevice;

/// A fast small card, so that the tests are about the way through the kernel.
const FAST: &str = r#"
name = "fast"
title = "a card for tests"
source = "none"
capacity = "48MiB"
sector_bytes = 512
[nand]
page = "16KiB"
erase_unit = "3MiB"
read_ns = 1000
program_ns = 2000
erase_ns = 10000
endurance_cycles = 1000
spare_units = 4
[bus]
command_ns = 1000
bytes_per_second = 1_000_000_000
[layer]
kind = "page-mapped"
"#;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, card] = args.as_slice() {
        if serve == "serve" {
            return serve_card(card);
        }
    }
    let tests: [(&str, fn()); 10] = [
        ("a_file_system_on_a_card_is_clean_and_counted", a_file_system_on_a_card),
        ("the_queue_shows_cache_and_discard_as_modelled", the_queue_shows_the_model),
        ("discards_and_zeros_read_as_zeros", discards_and_zeros),
        ("the_counters_of_a_card_in_use_can_be_asked_for", stats_of_a_card_in_use),
        ("requests_overlap_only_on_a_card_with_a_queue", requests_overlap),
        ("a_cut_fails_what_is_under_way_until_power_on", a_cut_under_way),
        ("a_killed_card_leaves_nothing", a_killed_card_leaves_nothing),
        ("a_card_killed_while_starting_leaves_nothing", killed_while_starting),
        ("a_dropped_card_leaves_nothing_and_one_in_use_says_so", dropped_and_in_use),
        ("a_card_that_cannot_be_is_refused_with_its_reason", a_card_that_cannot_be),
    ];
    let tests = tests.map(|(name, test)| HarnessTest::new(name, test)).into();
    run_tests(tests, 1, || {
        let missing = lacking();
        if missing.is_none() {
            enter_private_namespace().unwrap();
        }
        missing
    })
}

/// What the hidden subcommand of a program does.
fn serve_card(card: &str) -> ExitCode {
    let model = match flashfit_card::catalog::load(card, None) {
        Ok(model) => model,
        Err(error) => {
            refuse(&mut std::io::stdout(), &error);
            return ExitCode::from(error.class().code());
        }
    };
    let options = ServeOptions { stop_wait: Duration::from_secs(1), ..ServeOptions::default() };
    let control = BufReader::new(std::io::stdin());
    match run(&model, &options, control, std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(error.class().code()),
    }
}

fn lacking() -> Option<MissingNeed> {
    let unusable = |node: &str| OpenOptions::new().read(true).write(true).open(node).is_err();
    let nodes = [(TestNeed::Fuse, "/dev/fuse"), (TestNeed::Loop, "/dev/loop-control")];
    let missing = nodes.into_iter().find(|(_, node)| unusable(node));
    simulated_cards()
        .or_else(|| missing.map(|(need, node)| need.missing(format!("{node} cannot be opened"))))
}

struct Fixture {
    folder: tempfile::TempDir,
    card: CardProcess,
}

impl Fixture {
    fn new(changes: &[(&str, &str)]) -> Self {
        let (folder, arguments) = card_file(changes);
        let program = std::env::current_exe().unwrap();
        Self { folder, card: CardProcess::start(&program, &arguments).unwrap() }
    }

    fn queue(&self, attribute: &str) -> String {
        let name = self.card.device().file_name().unwrap();
        let path = Path::new("/sys/block").join(name).join(attribute);
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    }

    /// Its end, after which the device must be free.
    fn stop(self) {
        let device = self.card.device().to_owned();
        self.card.stop().unwrap();
        assert!(!is_attached(&device), "{} is still attached", device.display());
        assert_renewed(&device);
    }
}

fn card_file(changes: &[(&str, &str)]) -> (tempfile::TempDir, [OsString; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fast.toml");
    let mut text = FAST.to_owned();
    for (from, to) in changes {
        text = text.replace(from, to);
    }
    std::fs::write(&path, text).unwrap();
    (folder, ["serve".into(), path.into_os_string()])
}

const WITH_CACHE: (&str, &str) = ("[layer]", "[cache]\nbytes = \"1MiB\"\n[layer]");
const WITH_DISCARD: (&str, &str) =
    ("[layer]", "[discard]\ngranularity = \"3MiB\"\n[cache]\nbytes = \"1MiB\"\n[layer]");

fn is_attached(device: &Path) -> bool {
    let listed = Program::new("losetup").args(["-l", "-n", "-O", "NAME"]);
    let listed = SystemRunner::default().run_checked(&listed).unwrap().stdout;
    listed.lines().any(|line| line.trim() == device.to_str().unwrap())
}

/// The device, attached to something else, must be as if no card had ever been there.
fn assert_renewed(device: &Path) {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let other = LoopDevice::attach(file.path(), LoopOptions::default()).unwrap();
    if other.node() == device {
        let read = |name| std::fs::read_to_string(other.queue().join(name)).unwrap();
        assert_eq!(read("write_cache").trim(), "write back");
        assert_ne!(read("discard_max_bytes").trim(), "0");
    }
}

/// Loop devices over a card's file without a process that answers for them.
fn orphaned_cards() -> Vec<PathBuf> {
    let blocks = std::fs::read_dir("/sys/block").unwrap().map(|entry| entry.unwrap().path());
    blocks
        .filter(|block| {
            let backing = std::fs::read_to_string(block.join("loop/backing_file"));
            backing.is_ok_and(|file| file.contains(SIMULATED_CARD_FILE))
        })
        .map(|block| Path::new("/dev").join(block.file_name().unwrap()))
        .filter(|device| stats(device).is_err())
        .collect()
}

/// Waits for what must come true soon; not for luck: it fails when it does not.
fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn run_program(name: &str, args: &[&str]) {
    let program = Program::new(name).args(args.iter().copied());
    SystemRunner::default().run_checked(&program).unwrap();
}

fn open(device: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(device).unwrap()
}

fn mount(fixture: &Fixture) -> Mounted {
    let point = fixture.folder.path().join("m");
    std::fs::create_dir_all(&point).unwrap();
    let runner = SystemRunner::default();
    Mounted::new(&runner, fixture.card.device(), "ext4", &point, &[]).unwrap()
}

fn a_file_system_on_a_card() {
    let fixture = Fixture::new(&[WITH_DISCARD]);
    let device = fixture.card.device().to_str().unwrap().to_owned();
    assert_eq!(fixture.card.counters().unwrap(), fixture.card.reset_counters().unwrap());
    run_program("mkfs.ext4", &["-q", "-F", &device]);
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let mounted = mount(&fixture);
    let path = mounted.point().join("file");
    std::fs::write(&path, &content).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    mounted.unmount().unwrap();
    run_program("e2fsck", &["-fn", &device]);
    let mounted = mount(&fixture);
    assert!(std::fs::read(mounted.point().join("file")).unwrap() == content, "other bytes");
    mounted.unmount().unwrap();
    let counters = fixture.card.counters().unwrap();
    assert!(counters.host_written_bytes > 3_000_000, "{counters:?}");
    assert!(counters.nand_programmed_bytes > 3_000_000 && counters.busy_ns > 0, "{counters:?}");
    assert!(counters.host_flushes > 0 && counters.host_discarded_bytes > 0, "{counters:?}");
    fixture.stop();
}

fn the_queue_shows_the_model() {
    let plain = Fixture::new(&[]);
    assert_eq!(plain.queue("queue/write_cache"), "write through");
    assert_eq!(plain.queue("queue/discard_max_bytes"), "0");
    assert_eq!(plain.queue("queue/logical_block_size"), "512");
    assert_eq!(plain.queue("loop/dio"), "1");
    assert_eq!(plain.queue("size"), (48 << 11).to_string());
    assert_eq!(plain.card.notes(), &[] as &[String]);
    open(plain.card.device()).sync_all().unwrap();
    assert_eq!(plain.card.counters().unwrap().host_flushes, 0);
    plain.stop();

    let full = Fixture::new(&[WITH_DISCARD, ("sector_bytes = 512", "sector_bytes = 4096")]);
    assert_eq!(full.queue("queue/write_cache"), "write back");
    assert_ne!(full.queue("queue/discard_max_bytes"), "0");
    assert_eq!(full.queue("queue/logical_block_size"), "4096");
    if full.card.notes().is_empty() {
        assert_eq!(full.queue("queue/discard_granularity"), (3 << 20).to_string());
    }
    full.stop();
}

fn discards_and_zeros() {
    let unit = 3 << 20;
    for changes in [&[][..], &[WITH_DISCARD]] {
        let fixture = Fixture::new(changes);
        let file = open(fixture.card.device());
        file.write_all_at(&vec![7; 3 * unit], 0).unwrap();
        file.sync_all().unwrap();
        drop(file);
        let device = DirectDevice::open(fixture.card.device());
        device.write_zeros(4096, 8192).unwrap();
        let discards = !changes.is_empty();
        assert_eq!(device.discard(unit as u64, unit as u64).is_ok(), discards);
        drop(device);
        let counters = fixture.card.counters().unwrap();
        assert_eq!(counters.host_discarded_bytes, if discards { unit as u64 } else { 0 });
        let mut bytes = vec![0; 3 * unit];
        open(fixture.card.device()).read_exact_at(&mut bytes, 0).unwrap();
        let zero = |at: usize| {
            (4096..4096 + 8192).contains(&at) || (discards && (unit..2 * unit).contains(&at))
        };
        let wrong = (0..bytes.len()).find(|&at| bytes[at] != if zero(at) { 0 } else { 7 });
        assert_eq!(wrong, None);
        fixture.stop();
    }
}

fn stats_of_a_card_in_use() {
    let fixture = Fixture::new(&[]);
    let file = open(fixture.card.device());
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let asked = stats(fixture.card.device()).unwrap();
    assert_eq!(asked, fixture.card.counters().unwrap());
    assert!(asked.host_written_bytes >= 4096);
    let device = fixture.card.device().to_owned();
    fixture.stop();
    assert!(stats(&device).is_err());
}

const QUEUE: (&str, &str) = ("[layer]", "[queue]\ndepth = 32\n[layer]");
/// So slow that whatever does not wait for a write is done long before it.
const SLOW: (&str, &str) = ("program_ns = 2000", "program_ns = 500000000");

/// A write under way in its own thread.
fn write_under_way(fixture: &Fixture) -> std::thread::JoinHandle<std::io::Result<()>> {
    let mut device = DirectDevice::open(fixture.card.device());
    let writer = std::thread::spawn(move || device.write(0, &[1; 4096]));
    soon("the write", || fixture.card.counters().unwrap().host_write_requests == 1);
    writer
}

fn requests_overlap() {
    for (changes, overlap) in [(&[SLOW][..], false), (&[SLOW, QUEUE], true)] {
        let fixture = Fixture::new(changes);
        let requests = fixture.queue("queue/nr_requests");
        assert_eq!(requests == "32", overlap, "{requests}");
        let writer = write_under_way(&fixture);
        // What was never written is read without the NAND.
        let read = DirectDevice::open(fixture.card.device()).read(1 << 20, 4096).unwrap();
        assert_eq!(read, [0; 4096]);
        if overlap {
            assert!(!writer.is_finished());
        } else {
            // Its thread may be a moment behind the card's answer, and far less than a write takes.
            std::thread::sleep(Duration::from_millis(200));
            assert!(writer.is_finished());
        }
        writer.join().unwrap().unwrap();
        fixture.stop();
    }
}

fn a_cut_under_way() {
    for changes in [&[SLOW, WITH_CACHE][..], &[SLOW, QUEUE]] {
        let fixture = Fixture::new(changes);
        let place = fixture.card.device();
        let mut device = DirectDevice::open(place);
        if changes.contains(&QUEUE) {
            let writer = write_under_way(&fixture);
            cut(place, &[], 1).unwrap();
            assert!(writer.join().unwrap().is_err(), "a write without power was done");
        } else {
            device.write(0, &[1; 4096]).unwrap();
            let flusher = std::thread::spawn({
                let place = place.to_owned();
                move || DirectDevice::open(&place).flush()
            });
            soon("the flush", || fixture.card.counters().unwrap().host_flushes == 1);
            cut(place, &[], 1).unwrap();
            assert!(flusher.join().unwrap().is_err(), "a flush without power was done");
        }
        assert!(device.read(0, 4096).is_err() && device.write(0, &[2; 4096]).is_err());
        power_on(place).unwrap();
        device.write(8192, &[3; 4096]).unwrap();
        assert_eq!(device.read(8192, 4096).unwrap(), [3; 4096]);
        drop(device);
        fixture.stop();
    }
}

fn a_killed_card_leaves_nothing() {
    let fixture = Fixture::new(&[("program_ns = 2000", "program_ns = 2000000")]);
    let device = fixture.card.device().to_owned();
    // Dirty pages and writes under way, when the card goes.
    let writer = std::thread::spawn({
        let device = device.clone();
        move || {
            let file = open(&device);
            let written = (0..).try_for_each(|unit: u64| {
                file.write_all_at(&[unit as u8; 65536], unit % 700 * 65536)?;
                file.sync_all()
            });
            assert!(written.is_err(), "the device went on without its card");
        }
    });
    soon("a write", || fixture.card.counters().unwrap().host_written_bytes > 1 << 20);
    kill(fixture.card.id());
    writer.join().unwrap();
    assert!(matches!(fixture.card.counters(), Err(ProcessError::Lost { .. })));
    soon("the end of the loop device", || !is_attached(&device));
    assert!(fixture.card.stop().is_err());
    assert_renewed(&device);
}

fn killed_while_starting() {
    let slow =
        [("read_ns = 1000", "read_ns = 3000000"), ("command_ns = 1000", "command_ns = 5000000")];
    let (_folder, arguments) = card_file(&slow);
    let program = std::env::current_exe().unwrap();
    for delay_ms in [0, 5, 10, 20, 30, 40, 60, 80] {
        let mut child = std::process::Command::new(&program)
            .args(&arguments)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(delay_ms));
        child.kill().unwrap();
        soon("the end of the process", || child.try_wait().unwrap().is_some());
        soon("the end of its loop device", || orphaned_cards().is_empty());
    }
    // The next card takes the same device and makes it again when it goes.
    Fixture::new(&[]).stop();
}

fn dropped_and_in_use() {
    let fixture = Fixture::new(&[]);
    let device = fixture.card.device().to_owned();
    drop(fixture);
    assert!(!is_attached(&device));

    let fixture = Fixture::new(&[]);
    let device = fixture.card.device().to_owned();
    let user = open(&device);
    let error = fixture.card.stop().unwrap_err();
    assert!(matches!(error, ProcessError::Failed(_)), "{error}");
    assert!(error.to_string().contains("still in use"), "{error}");
    assert_eq!((error.class().code(), error.hint().is_some()), (5, true));
    drop(user);
    soon("the end of the loop device", || !is_attached(&device));

    // Nobody could make that device again, so a card that wants more of its queue has to.
    let next = Fixture::new(&[WITH_DISCARD]);
    assert_ne!(next.queue("queue/discard_max_bytes"), "0");
    next.stop();
}

fn a_card_that_cannot_be() {
    let (_folder, arguments) = card_file(&[("spare_units = 4", "spare_units = 0")]);
    let error = CardProcess::start(&std::env::current_exe().unwrap(), &arguments).unwrap_err();
    assert!(error.to_string().contains("nand.spare_units"), "{error}");
    assert_eq!(error.class().code(), 2);
    let error = CardProcess::start(Path::new("/nonexistent"), &[]).unwrap_err();
    assert_eq!(error.class().code(), 4);
    let error = CardProcess::start(Path::new("/bin/false"), &[]).unwrap_err();
    assert!(matches!(error, ProcessError::Lost { .. }), "{error}");
}

fn kill(process: u32) {
    run_program("sh", &["-c", &format!("kill -9 {process}")]);
}
