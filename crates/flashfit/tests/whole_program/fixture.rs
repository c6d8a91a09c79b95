//! A folder of its own for each test, with a fast card, images and a short configuration in it; and
//! the command run there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use flashfit_host::capability;
use serde_json::Value;
use tempfile::TempDir;

/// The built command.
pub const FLASHFIT: &str = env!("CARGO_BIN_EXE_flashfit");

/// Beyond this something hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A card whose own delays do not count, so that a trial is short.
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

/// A folder, removed at the end of its test.
pub struct Place {
    folder: TempDir,
}

impl Place {
    /// An empty folder with `card.toml` (fast) and `short.toml` (a run of few trials) in it.
    pub fn new() -> Self {
        Self::filled(tempfile::tempdir().unwrap())
    }

    /// The same in memory, where syncing costs nothing; where there is none, on the disk.
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

    /// The folder.
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

    /// Writes a file.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// An image file of that size with a pattern in its beginning, so that a write to it shows.
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

    /// The same of a copy of the command.
    pub fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.folder())
            .env_remove("FLASHFIT_CATALOG")
            .env("XDG_CACHE_HOME", cache())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the command to its end.
    pub fn flashfit(&self, args: &[&str]) -> Ended {
        Ended::new(self.command(args).output().unwrap())
    }

    /// A short run in the folder `run`, to its end.
    pub fn tune(&self, target: &str, more: &[&str]) -> Ended {
        self.flashfit(&self.tune_args(target, more))
    }

    /// The arguments of a short run in the folder `run`.
    pub fn tune_args<'a>(&self, target: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let run = ["tune", target, "--config", "short.toml", "--dir", "run", "--progress", "never"];
        run.iter().chain(more).copied().collect()
    }

    /// Starts a run on the fast card in the folder `run`, long enough to be cut short.
    pub fn start_long_run(&self) -> Child {
        let card = self.card();
        self.command(&self.tune_args(&card, &["--repeats", "20"])).spawn().unwrap()
    }

    /// The whole lines of `run/trials.jsonl` so far.
    pub fn recorded(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("run/trials.jsonl")).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| line.trim_end().to_owned()).collect()
    }

    /// Waits until so many trials are recorded.
    pub fn wait_for_trials(&self, count: usize) {
        wait_until("trials are recorded", || self.recorded().len() >= count);
    }

    /// Makes a long run short, so that its resumption ends soon.
    pub fn shorten_run(&self, repeats: u32) {
        let path = self.path("run/run.json");
        let mut run: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        run["spec"]["repeats"] = repeats.into();
        std::fs::write(&path, serde_json::to_string_pretty(&run).unwrap()).unwrap();
    }
}

/// What is found out of options is kept here: by the first test for the others, and not from one
/// build to the next.
fn cache() -> &'static Path {
    static CACHE: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("whole-program-cache");
        // There is none before the first time.
        let _ = std::fs::remove_dir_all(&folder);
        folder
    });
    &CACHE
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Ended {
    /// From the standard library's.
    pub fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Waits for a started command.
    pub fn of(child: Child) -> Self {
        Self::new(child.wait_with_output().unwrap())
    }

    /// Fails unless it ended with `code` and said each of `texts` on standard error.
    #[track_caller]
    pub fn said(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for text in texts {
            assert!(self.stderr.contains(text), "no `{text}` in {}", self.stderr);
        }
    }

    /// Its standard output as one JSON document of this schema; gives the data.
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

/// Whether block devices are out of reach, which is then printed.
#[must_use]
pub fn skip_without_block_devices() -> bool {
    skip(capability::missing_for_block_devices().or_else(missing_programs))
}

/// Whether simulated cards are out of reach, which is then printed.
#[must_use]
pub fn skip_without_cards() -> bool {
    skip(capability::missing_for_simulated_cards().or_else(missing_programs))
}

fn missing_programs() -> Option<String> {
    let needed = ["fio", "mkfs.ext4", "sfdisk", "blkdiscard", "mount"];
    let missing = needed.into_iter().find(|name| flashfit_host::program::find(name).is_none());
    missing.map(|name| format!("there is no {name}"))
}

/// Prints why a test is skipped, where there is a reason.
#[must_use]
#[expect(clippy::print_stdout, reason = "the reader of the test's output is to see it")]
pub fn skip(reason: Option<String>) -> bool {
    if let Some(reason) = &reason {
        println!("skipped: {reason}");
    }
    reason.is_some()
}

/// Waits for something that must come.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}
