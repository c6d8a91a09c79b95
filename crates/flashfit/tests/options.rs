//! `flashfit options`: verdicts on this machine, the cache, and cleanup after a kill or a full
//! disk; and `flashfit tune`, which omits options without effect.
//!
//! Tests are skipped without root, loop devices or the needed programs.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{self as test_support, TestNeed, block_devices, programs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const FLASHFIT: &str = env!("CARGO_BIN_EXE_flashfit");
/// A command that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

const EXT4: &str = r#"name = "ext4"
title = "mine"
kind = "ext4"
least_medium_bytes = "8 MiB"
block_bytes = 4096
[mkfs]
program = "MKFS"
version_args = ["-V"]
args = ["-q", "-b", "{block_bytes}"]
joined = ["-E", "-O"]
[fsck]
program = "e2fsck"
args = ["-f", "-n"]
pass = 2
"#;

const OPTIONS: &[(&str, &str)] = &[
    ("noatime", "mount = [\"noatime\"]"),
    ("ordered", "mount = [\"data=ordered\"]"),
    ("orlov", "mount = [\"orlov\"]"),
    ("extents", "mount = [\"extents\"]"),
    ("nojournal", "mkfs = { \"-O\" = [\"^has_journal\"] }"),
    ("device", "mount = [\"journal_dev=0x801\"]"),
];

/// A directory with a user's catalog, a cache and temporary files.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new(mkfs: &str) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["mine/filesystems", "cache", "tmp"] {
            std::fs::create_dir_all(place.path(folder)).unwrap();
        }
        let mut text = EXT4.replace("MKFS", mkfs);
        for (name, sets) in OPTIONS {
            text.push_str(&format!(
                "[[option]]\nname = \"{name}\"\ntitle = \"x\"\n{sets}\ndurability = \"safe\"\n\
                 source = \"none\"\n"
            ));
        }
        std::fs::write(place.path("mine/filesystems/ext4.toml"), text).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(FLASHFIT);
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("FLASHFIT_CATALOG", self.path("mine"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("TMPDIR", self.path("tmp"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// An empty image of 64 MiB that is not open.
    fn image(&self) {
        std::fs::File::create(self.path("image")).unwrap().set_len(64 << 20).unwrap();
    }

    /// Exit code, standard output and standard error.
    fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        ended(self.command(args).spawn().unwrap())
    }

    /// The only file system in a JSON document.
    fn ext4(&self, more: &[&str]) -> Value {
        let args = [&["options", "--fs", "ext4", "--json"], more].concat();
        let (code, stdout, stderr) = self.run(&args);
        assert_eq!(code, Some(0), "{stderr}");
        let mut document: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(document["schema"], "flashfit.options");
        document["data"]["filesystems"][0].take()
    }

    fn left(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.path("tmp")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path.clone());
                }
                found.push(path);
            }
        }
        found
    }
}

fn ended(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn verdict(ext4: &Value, option: &str) -> String {
    let options = ext4["options"].as_array().unwrap();
    let found = options.iter().find(|found| found["option"] == option).unwrap();
    found["verdict"].as_str().unwrap().to_owned()
}

fn skip() -> bool {
    test_support::skip(block_devices().or_else(|| programs(&["mkfs.ext4", "mount"])))
}

#[test]
fn verdicts_are_cached_and_refreshed() {
    if skip() {
        return;
    }
    let place = Place::new("mkfs.ext4");
    let ext4 = place.ext4(&[]);
    assert_eq!(ext4["cached"], false);
    for (option, expected) in [
        ("noatime", "effective"),
        ("ordered", "default"),
        ("orlov", "ignored"),
        ("extents", "refused"),
        ("nojournal", "effective"),
        ("device", "refused"),
    ] {
        assert_eq!(verdict(&ext4, option), expected, "{option}: {ext4:#}");
    }
    assert!(place.left().is_empty(), "{:?}", place.left());
    let again = place.ext4(&[]);
    assert_eq!(again["cached"], true);
    // Other tests may change settings of the machine in between.
    let of_the_file_system = |found: &Value| -> Vec<Value> {
        let options = found["options"].as_array().unwrap().iter();
        options.filter(|option| !option.to_string().contains("vm.dirty_")).cloned().collect()
    };
    assert!(of_the_file_system(&ext4).len() >= 6, "{ext4:#}");
    assert_eq!(of_the_file_system(&again), of_the_file_system(&ext4));
    assert_eq!(place.ext4(&["--refresh"])["cached"], false);
    std::fs::write(place.path("cache/flashfit/options.json"), "{ damaged").unwrap();
    assert_eq!(place.ext4(&[])["cached"], false);
    assert_eq!(place.ext4(&[])["cached"], true);
    let (code, stdout, _) = place.run(&["options", "--fs", "ext4,ext4"]);
    assert_eq!(code, Some(0));
    assert_eq!(stdout.matches("ext4 (mine)").count(), 1);
    assert!(stdout.contains("Ignoring removed orlov"), "{stdout}");
}

const NOBODY: u32 = 65_534;

#[test]
fn without_root_only_mkfs_options_are_tested() {
    if skip() {
        return;
    }
    let place = Place::new("mkfs.ext4");
    for folder in ["", "tmp"] {
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(place.path(folder), all).unwrap();
    }
    let mut command = place.command(&["options", "--fs", "ext4", "--json"]);
    let child = match command.uid(NOBODY).spawn() {
        Ok(child) => child,
        Err(error) => {
            let reason = format!("another user cannot run this program: {error}");
            assert!(test_support::skip(Some(TestNeed::User.missing(reason))));
            return;
        }
    };
    let (code, stdout, stderr) = ended(child);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("not running as root"), "{stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    let ext4 = &document["data"]["filesystems"][0];
    assert_eq!(verdict(ext4, "noatime"), "not-measured");
    assert_eq!(ext4["options"][0]["hint"], "run it as root");
    assert_eq!(verdict(ext4, "nojournal"), "effective");
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn a_missing_cache_and_unknown_names_are_reported() {
    if skip() {
        return;
    }
    let place = Place::new("mkfs.ext4");
    std::fs::write(place.path("cache/flashfit"), "a file in the folder's place").unwrap();
    let (code, stdout, stderr) = place.run(&["options", "--fs", "ext4"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("noatime"), "{stdout}");
    assert!(stderr.contains("not cached"), "{stderr}");
    let (code, _, stderr) = place.run(&["options", "--fs", "ext5"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("did you mean `ext4`?"), "{stderr}");
}

#[test]
fn a_full_disk_is_reported() {
    if skip() {
        return;
    }
    // Its journal does not fit.
    let place = Place::new("mkfs.ext4");
    let script = format!(
        "mount -t tmpfs -o size=1m tmpfs {tmp} && \
         TMPDIR={tmp} XDG_CACHE_HOME={cache} {FLASHFIT} options --fs ext4 --catalog {mine}",
        tmp = place.path("tmp").display(),
        cache = place.path("cache").display(),
        mine = place.path("mine").display(),
    );
    let program = Program::new("unshare").args(["--mount", "sh", "-c", &script]);
    let outcome = SystemRunner::default().run(&program).unwrap();
    assert_eq!(outcome.code, Some(4), "{outcome:#?}");
    assert!(outcome.stderr.contains("no space left for a scratch image"), "{outcome:#?}");
    assert!(outcome.stderr.contains("TMPDIR="), "{outcome:#?}");
    assert!(!place.path("cache/flashfit").exists(), "it was kept as a verdict");
}

/// Starts the command with an mkfs that does not end, and waits until that has opened its image.
fn stuck() -> (Place, Child, u32) {
    let place = Place::new("mkfs.ext4");
    std::fs::create_dir(place.path("bin")).unwrap();
    let (marker, mkfs) = (place.path("marker"), place.path("bin/mkfs.ext4"));
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = -V ] && exit 0\necho $$ > {0}.part; mv {0}.part {0}\n\
         exec sleep 600\n",
        marker.display()
    );
    std::fs::write(&mkfs, text).unwrap();
    std::fs::set_permissions(&mkfs, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", place.path("bin").display());
    let mut command = place.command(&["options", "--fs", "ext4"]);
    let child = command.env("FLASHFIT_PATH", path).spawn().unwrap();
    wait_until("mkfs is under way", || marker.exists());
    let mkfs = std::fs::read_to_string(&marker).unwrap().trim().parse().unwrap();
    (place, child, mkfs)
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_running(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Whether a loop device uses a file in this directory, even a deleted one.
fn is_attached(folder: &Path) -> bool {
    let disks = std::fs::read_dir("/sys/block").unwrap().flatten();
    let mut files = disks.map(|disk| {
        std::fs::read_to_string(disk.path().join("loop/backing_file")).unwrap_or_default()
    });
    files.any(|file| file.contains(folder.to_str().unwrap()))
}

fn send(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    if skip() {
        return;
    }
    let (place, child, mkfs) = stuck();
    assert!(is_attached(&place.path("tmp")), "the image is on a loop device");
    send(&child, Signal::INT);
    let (code, _, stderr) = ended(child);
    assert_eq!(code, Some(6), "{stderr}");
    assert!(place.left().is_empty(), "{:?}", place.left());
    wait_until("mkfs has ended", || !is_running(mkfs));
    wait_until("the image is detached", || !is_attached(&place.path("tmp")));
}

#[test]
fn a_kill_leaves_at_most_an_empty_directory() {
    if skip() {
        return;
    }
    let (place, child, mkfs) = stuck();
    send(&child, Signal::KILL);
    let (code, _, _) = ended(child);
    assert_eq!(code, None);
    wait_until("mkfs has ended", || !is_running(mkfs));
    wait_until("the image is detached", || !is_attached(&place.path("tmp")));
    assert!(place.left().iter().all(|path| path.is_dir()), "{:?}", place.left());
}

#[test]
fn tune_omits_options_without_effect_and_refuses_them_if_named() {
    if skip() {
        return;
    }
    let place = Place::new("mkfs.ext4");
    place.image();
    let dry_run = ["tune", "image", "--dry-run", "--fs", "ext4"];
    let (code, stdout, stderr) = place.run(&dry_run);
    assert_eq!(code, Some(0), "{stderr}");
    let one_line = stdout.replace('\n', " ");
    for left_out in [
        "ext4 orlov is left out: it is taken here and does nothing",
        "ext4 ordered is left out: on this machine it is the same as without it",
        "ext4 extents is left out: it is refused here",
        "ext4 device is left out: it is refused here",
    ] {
        assert!(one_line.contains(left_out), "no `{left_out}` in {stdout}");
    }
    assert!(!one_line.contains("noatime is left out"), "{stdout}");
    for (list, option) in [("always", "orlov"), ("include", "orlov"), ("always", "extents")] {
        let config = format!("[options.ext4]\n{list} = [\"{option}\"]\n");
        std::fs::write(place.path("my.toml"), config).unwrap();
        let (code, _, stderr) = place.run(&[&dry_run[..], &["--config", "my.toml"]].concat());
        assert_eq!(code, Some(2), "{list} {option}: {stderr}");
        let stderr = stderr.replace('\n', " ");
        assert!(stderr.contains(&format!("ext4 {option} cannot be tried")), "{stderr}");
        assert!(stderr.contains("flashfit options --fs ext4"), "{stderr}");
    }
}

#[test]
fn a_run_records_the_omitted_options() {
    if skip() || test_support::skip(programs(&["fio", "sfdisk"])) {
        return;
    }
    let place = Place::new("mkfs.ext4");
    place.image();
    let (code, _, stderr) = place.run(&[
        "tune",
        "image",
        "--confirm",
        "image",
        "--dir",
        "run",
        "--fs",
        "ext4",
        "--workload",
        "sync-files",
        "--scheduler",
        "none",
        "--strategy",
        "greedy",
        "--repeats",
        "1",
        "--confirm-rounds",
        "0",
        "--runtime-ms",
        "200",
        "--data-size",
        "4MiB",
        "--progress",
        "never",
    ]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.replace('\n', " ").contains("ext4 orlov is left out"), "{stderr}");
    let run = std::fs::read_to_string(place.path("run/run.json")).unwrap();
    let run: Value = serde_json::from_str(&run).unwrap();
    assert_eq!(run["choices"][0]["free"], serde_json::json!(["noatime", "nojournal"]));
    let left_out = run["left_out"].as_array().unwrap();
    let orlov = left_out.iter().find(|text| text.as_str().unwrap().contains("orlov")).unwrap();
    assert!(orlov.as_str().unwrap().contains("Ignoring removed orlov"), "{orlov}");
    assert!(place.left().is_empty(), "{:?}", place.left());
}
