//! Lack of space with a virtual machine: its device, the disk under its image, its memory, and the
//! disks of this machine.

use flashfit_host::{Program, ProgramOutcome, Runner, SystemRunner};

use super::vm::{start, wait_for_nothing_left, with_machine};
use crate::fixture::{Ended, FLASHFIT, Place, skip_without_block_devices};
use crate::machine::wait_for_no_traces;

/// The data size for an image of 32 MiB.
const TOO_MUCH: [&str; 6] =
    ["--workload", "linear-write", "--data-size", "48MiB", "--runtime-ms", "60000"];

/// Runs a script in the test directory, in its own mount namespace.
fn script(place: &Place, text: &str) -> ProgramOutcome {
    let text = format!("cd {} && {text}", place.folder().display());
    let program = Program::new("unshare")
        .args(["--mount", "sh", "-c", &text])
        .env("FLASHFIT", FLASHFIT)
        .timeout(std::time::Duration::from_secs(600));
    SystemRunner::default().run(&program).unwrap()
}

#[test]
#[ignore = "full: boots virtual machines"]
fn a_full_device_fails_the_setup_only() {
    with_machine(|place| {
        let image = place.image("card.img", 32).display().to_string();
        let few = ["--on", "vm", "--confirm", "card.img", "--strategy", "random", "--trials", "1"];
        let ended = place.tune(&image, &[&few[..], &TOO_MUCH].concat());
        ended.said(1, &["no setup worked", "the device is full"]);
        // Earlier content takes space too.
        std::fs::remove_dir_all(place.path("run")).unwrap();
        let filled = [&few[..], &TOO_MUCH, &["--fill", "90%"]].concat();
        let ended = place.tune(&image, &filled);
        ended.said(1, &["no setup worked", "full"]);
        wait_for_nothing_left(&place);
    });
}

/// An empty sparse image on a disk that is too small for it.
const FULL_BELOW: &str = r#"
mkdir disk && mount -t tmpfs -o size=24m tmpfs disk && truncate -s 256M disk/card.img || exit 99
"$FLASHFIT" tune disk/card.img --config short.toml --dir run --progress never --confirm card.img \
    --on $ON --workload linear-write --data-size 64MiB --runtime-ms 60000
echo "first $?"
mount -o remount,size=300m disk
"$FLASHFIT" tune --resume run --progress never --confirm card.img > resumed 2>&1
echo "second $?"
"#;

fn the_disk_under_an_image_is_full(place: &Place, on: &str) {
    let outcome = script(place, &format!("ON={on}\n{FULL_BELOW}"));
    assert!(outcome.stdout.contains("first 4\n"), "{outcome:#?}");
    let said = ["no space left on the disk under the image", "hint: make room", "--resume run"];
    assert!(said.iter().all(|text| outcome.stderr.contains(text)), "{outcome:#?}");
    let resumed = std::fs::read_to_string(place.path("resumed")).unwrap();
    assert!(outcome.stdout.contains("second 0\n"), "{outcome:#?}\n{resumed}");
}

#[test]
#[ignore = "full: boots virtual machines"]
fn a_full_disk_under_the_image_of_a_machine_is_reported() {
    with_machine(|place| {
        the_disk_under_an_image_is_full(&place, "vm");
        wait_for_nothing_left(&place);
    });
}

#[test]
fn a_full_disk_under_a_local_image_is_reported() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    the_disk_under_an_image_is_full(&place, "here");
    wait_for_no_traces(&place, None);
}

#[test]
#[ignore = "full: boots virtual machines"]
fn missing_memory_is_reported() {
    with_machine(|place| {
        // More than any processor can address.
        let ended = Ended::of(start(&place, &["--memory", "500TiB"]));
        ended.said(4, &["not enough memory for a virtual machine", "hint: use less memory"]);
        let args = ["--vm-speed-mips", "500", "--data-size", "20GiB"];
        let large = place.file("large.toml", &crate::fixture::FAST_CARD.replace("160MiB", "32GiB"));
        let large = format!("sim:{}", large.display());
        let all = [&["--on", "vm"], &args[..]].concat();
        place.tune(&large, &all).said(2, &["does not fit into the memory", "hint: write less"]);
        assert!(!place.path("run").exists());
        wait_for_nothing_left(&place);
    });
}

/// A workload whose buffers exceed the memory limit of a trial.
const HOG: &str = r#"#: title = "large buffers"
#: explanation = "More memory than a trial has."
#: source = "none"
#: parameter = "none"
#: fresh-files = true
#: [[stage]]
#: name = "write"
#: sections = ["write"]
#: kind = "throughput"
#: yields = ["write"]

[global]
directory=${DIRECTORY}
runtime=${RUNTIME}
randseed=${SEED}
ioengine=psync
thread=1
group_reporting=1

[write]
size=${SIZE}
rw=write
bs=96m
refill_buffers=1
"#;

#[test]
#[ignore = "full: boots virtual machines"]
fn a_workload_that_runs_out_of_memory_is_reported() {
    with_machine(|place| {
        std::fs::create_dir_all(place.path("mine/workloads")).unwrap();
        place.file("mine/workloads/hog.fio", HOG);
        let mine = place.arg("mine");
        let args = ["--catalog", &mine, "--workload", "hog", "--data-size", "96MiB"];
        let ended = Ended::of(start(&place, &args));
        ended.said(4, &["ran out of memory", "hint: give the trials more memory (--memory SIZE)"]);
        wait_for_nothing_left(&place);
    });
}

/// Fills the disk of the run, then of the cache, then of temporary files.
const FULL_HERE: &str = r#"
mkdir disk cache tmp && mount -t tmpfs -o size=60k tmpfs disk || exit 99
tune() {
    "$FLASHFIT" tune sim:$PWD/card.toml --config short.toml --progress never --on vm \
        --strategy random --trials 2 "$@"
}
tune --dir disk/run --repeats 4
echo "run $?"
mount -o remount,size=16m disk
"$FLASHFIT" tune --resume disk/run --progress never > resumed 2>&1
echo "resumed $?"
mount -t tmpfs -o size=8m tmpfs cache
cp -r "$CACHE/kernels" elsewhere
mkdir cache/flashfit && ln -s $PWD/elsewhere cache/flashfit/kernels
export XDG_CACHE_HOME=$PWD/cache
tune --dir second
echo "cache $?"
mount -t tmpfs -o size=64k tmpfs tmp
dd if=/dev/zero of=tmp/all bs=4k 2>/dev/null
export TMPDIR=$PWD/tmp
tune --dir third
echo "both $?"
rm tmp/all
ls -A tmp | wc -l
"#;

#[test]
#[ignore = "full: boots virtual machines"]
fn full_disks_of_the_host_are_avoided_or_reported() {
    with_machine(|place| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(std::path::PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| std::path::Path::new(&home).join(".cache"));
        let kernels = cache.or(home).unwrap().join("flashfit");
        let outcome = script(&place, &format!("CACHE={}\n{FULL_HERE}", kernels.display()));
        let shown = format!("{outcome:#?}");
        assert!(outcome.stdout.contains("run 4\n") && shown.contains("no space left"), "{shown}");
        assert!(outcome.stdout.contains("resumed 0\n"), "{shown}");
        assert!(outcome.stdout.contains("cache 0\n"), "an initramfs need not be kept: {shown}");
        assert!(outcome.stdout.contains("both 4\n0\n"), "nothing is left: {shown}");
        assert!(
            outcome.stderr.contains("hint: make room there, or use other directories"),
            "{shown}"
        );
        wait_for_nothing_left(&place);
    });
}
