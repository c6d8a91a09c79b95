//! A directory for each test, with a fast card, images and a short configuration, and helpers that
//! run the command there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant, UNIX_EPOCH};

use flashfit_test_support::{self as test_support, MissingNeed, TestNeed};
use serde_json::Value;
use tempfile::TempDir;

pub const FLASHFIT: &str = env!("CARGO_BIN_EXE_flashfit");

/// A command that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A card with negligible delays, so that trials are short.
pub const FAST_CARD: &str = r#"name = "fast"
title = "a card for tests"
source = "none"
capacity = "160MiB"
sector_bytes = 512
[nand]
page = "16KiB"
erase_unit = "1MiB"
read_ns = 1000
program_ns = 2000
erase_ns = 10000
endurance_cycles = 1000
spare_units = 8
[bus]
command_ns = 1000
bytes_per_second = 1_000_000_000
[layer]
kind = "page-mapped"
[discard]
granularity = "16KiB"
"#;

/// At most three trials of about half a second.
const SHORT: &str = r#"filesystems = ["ext4"]
workloads = ["sync-files"]
schedulers = ["none"]
strategy = "greedy"
repeats = 1
confirm_rounds = 0
data_size = "4MiB"
runtime_ms = 200
[options.ext4]
exclude = ["discard", "nojournal", "fast_commit", "writeback", "nobarrier", "geometry"]
"#;

/// A directory, removed at the end of its test.
pub struct Place {
    folder: TempDir,
}

impl Place {
    /// A directory with `card.toml` (fast) and `short.toml` (a run of few trials).
    pub fn new() -> Self {
        Self::filled(tempfile::tempdir().unwrap())
    }

    /// The same in memory, where syncs are free, or on disk if that is not available.
    pub fn in_memory() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::filled(folder.unwrap())
    }

    fn filled(folder: TempDir) -> Self {
        let place = Self { folder };
        place.file("card.toml", FAST_CARD);
        place.file("short.toml", SHORT);
        place
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// A path in the folder as an argument.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// An image of that size with a pattern at its start, so that writes are noticed.
    pub fn image(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.file(name, &"a user's data\n".repeat(20_000));
        std::fs::File::options().write(true).open(&path).unwrap().set_len(mib << 20).unwrap();
        path
    }

    /// The fast card as a target.
    pub fn card(&self) -> String {
        format!("sim:{}", self.arg("card.toml"))
    }

    /// The command with these arguments, not yet run.
    pub fn command(&self, args: &[&str]) -> Command {
        self.command_of(Path::new(FLASHFIT), args)
    }

    /// The same for a copy of the command.
    pub fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.folder())
            .env_remove("FLASHFIT_CATALOG")
            .env_remove("FLASHFIT_SURVEY")
            .env("XDG_DATA_HOME", self.path("data"))
            .env("XDG_CACHE_HOME", cache())
            .env("FLASHFIT_TEST_WAIT_DIVISOR", "10")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A cache directory of its own, in which there is nothing but kernels.
    pub fn empty_cache(&self) -> PathBuf {
        let folder = self.path("cache/flashfit");
        std::fs::create_dir_all(&folder).unwrap();
        if let Ok(kernels) = std::fs::read_link(cache().join("flashfit/kernels")) {
            std::os::unix::fs::symlink(kernels, folder.join("kernels")).unwrap();
        }
        self.path("cache")
    }

    /// Runs the command and waits.
    pub fn flashfit(&self, args: &[&str]) -> Ended {
        Ended::new(self.command(args).output().unwrap())
    }

    /// A short run in the directory `run`.
    pub fn tune(&self, target: &str, more: &[&str]) -> Ended {
        self.flashfit(&self.tune_args(target, more))
    }

    /// The arguments of a short run in the directory `run`.
    pub fn tune_args<'a>(&self, target: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let run = ["tune", target, "--config", "short.toml", "--dir", "run", "--progress", "never"];
        run.iter().chain(more).copied().collect()
    }

    /// Starts a run on the fast card in the directory `run` that takes long enough to be killed.
    pub fn start_long_run(&self) -> Child {
        let card = self.card();
        self.command(&self.tune_args(&card, &["--repeats", "20"])).spawn().unwrap()
    }

    /// The complete lines of `run/trials.jsonl`.
    pub fn recorded(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("run/trials.jsonl")).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| line.trim_end().to_owned()).collect()
    }

    /// Waits until so many trials are recorded.
    pub fn wait_for_trials(&self, count: usize) {
        wait_until("trials are recorded", || self.recorded().len() >= count);
    }

    /// Shortens a run, so that resuming it takes little time.
    pub fn shorten_run(&self, repeats: u32) {
        let path = self.path("run/run.json");
        let mut run: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        run["spec"]["repeats"] = repeats.into();
        std::fs::write(&path, serde_json::to_string_pretty(&run).unwrap()).unwrap();
    }
}

/// The cache directory of the tests: new for each build, with the user's kernels for virtual
/// machines, so that none is downloaded.
fn cache() -> &'static Path {
    static CACHE: LazyLock<PathBuf> = LazyLock::new(|| {
        once_for_this_build("whole-program-cache", |folder| {
            let own = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
            let users = own("XDG_CACHE_HOME").or_else(|| Some(own("HOME")?.join(".cache")));
            let Some(kernels) = users.map(|users| users.join("flashfit/kernels")) else { return };
            // Without a user's cache, kernels are kept in this directory.
            if std::fs::create_dir_all(&kernels).is_ok() {
                std::fs::create_dir(folder.join("flashfit")).unwrap();
                std::os::unix::fs::symlink(&kernels, folder.join("flashfit/kernels")).unwrap();
            }
        })
    });
    &CACHE
}

/// A directory shared by all tests of this build, in all processes. The first user fills it with
/// `make`. Directories of earlier builds are removed.
pub fn once_for_this_build(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let command = std::fs::metadata(FLASHFIT).unwrap();
    let build = command.modified().unwrap().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let folder = all.join(format!("{name}-{build:x}"));
    if folder.exists() {
        return folder;
    }
    for entry in std::fs::read_dir(all).unwrap().flatten() {
        let entry_name = entry.file_name().to_string_lossy().into_owned();
        let old = entry_name.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        if old.is_some_and(|build| build.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let made = tempfile::Builder::new().prefix(".new-").tempdir_in(all).unwrap();
    make(made.path());
    match std::fs::rename(made.path(), &folder) {
        // Another process created it first.
        Err(_) if folder.exists() => {}
        renamed => renamed.unwrap(),
    }
    folder
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// `None` if a signal killed it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// From the standard library's. Documents must match their schemas.
    #[track_caller]
    pub fn new(output: Output) -> Self {
        let stdout = String::from_utf8(output.stdout).unwrap();
        crate::schemas::check(&stdout);
        let stderr = String::from_utf8(output.stderr).unwrap();
        Self { code: output.status.code(), stdout, stderr }
    }

    /// Waits for a started command.
    pub fn of(child: Child) -> Self {
        Self::new(child.wait_with_output().unwrap())
    }

    /// Asserts the exit code and that standard error contains each of `texts`.
    #[track_caller]
    pub fn said(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for text in texts {
            assert!(self.stderr.contains(text), "no `{text}` in {}", self.stderr);
        }
    }

    /// The data of the JSON document with this schema on standard output.
    #[track_caller]
    pub fn document(&self, schema: &str) -> Value {
        assert_eq!(self.code, Some(0), "{self:#?}");
        let mut document: Value = serde_json::from_str(&self.stdout).unwrap();
        assert_eq!(document["schema"], schema);
        assert_eq!(document["schema_version"], 1);
        assert_eq!(document["tool_version"], env!("CARGO_PKG_VERSION"));
        document["data"].take()
    }
}

/// Records a skip and returns true without block devices.
#[must_use]
pub fn skip_without_block_devices() -> bool {
    test_support::skip(test_support::block_devices().or_else(missing_programs))
}

/// Records a skip and returns true without simulated cards.
#[must_use]
pub fn skip_without_cards() -> bool {
    test_support::skip(test_support::simulated_cards().or_else(missing_programs))
}

fn missing_programs() -> Option<MissingNeed> {
    test_support::programs(&["fio", "mkfs.ext4", "sfdisk", "blkdiscard", "mount"])
}

/// Records a skip and returns true if a test bed is missing for this reason.
#[must_use]
pub fn skip(reason: Option<String>) -> bool {
    test_support::skip(reason.map(|reason| TestNeed::TestBed.missing(reason)))
}

/// Waits until a condition is true; panics after a while.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}
