//! Locking: one process per run, and one run per device.

use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{programs, skip};
use rustix::process::Signal;

use crate::fixture::{Ended, FAST_CARD, Place, skip_without_block_devices, skip_without_cards};
use crate::machine::{PlainLoop, signal, wait_for_no_traces};

#[test]
fn a_second_process_in_the_same_run_is_refused() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let mut first = place.start_long_run();
    place.wait_for_trials(1);
    let pid = first.id();
    let until = format!("wait until process {pid} ends, or run kill {pid}");
    let at_work = ["another flashfit process uses run", &until];
    place.flashfit(&["tune", "--resume", "run"]).said(2, &at_work);
    place.tune(&place.card(), &[]).said(2, &["run"]);
    // Reading is allowed.
    place.flashfit(&["analyze", "run"]).said(0, &[]);
    let report = ["report", "run", "-o", "so-far.html"];
    place.flashfit(&report).said(0, &[]);
    assert!(first.try_wait().unwrap().is_none(), "the first one was disturbed");
    let recorded = place.recorded().len();
    place.wait_for_trials(recorded + 1);
    signal(first.id(), Signal::INT);
    Ended::of(first).said(6, &[]);
    wait_for_no_traces(&place, None);
}

#[test]
fn an_image_of_a_run_is_refused_to_another_run() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    place.image("image", 64);
    let args = place.tune_args("image", &["--repeats", "20", "--confirm", "image"]);
    let first = place.command(&args).spawn().unwrap();
    place.wait_for_trials(1);
    let second = ["tune", "image", "--dir", "other", "--confirm", "image", "--fs", "ext4"];
    let hint = format!("wait until process {} ends, or run kill", first.id());
    let refused = place.flashfit(&second);
    refused.said(3, &["in use", &hint]);
    assert!(!refused.stderr.contains("losetup"), "{}", refused.stderr);
    assert!(!place.path("other").exists());
    // The run itself is named before the image that it has in use.
    let again = ["tune", "--resume", "run", "--confirm", "image"];
    place.flashfit(&again).said(2, &["another flashfit process uses run", &hint]);
    signal(first.id(), Signal::TERM);
    Ended::of(first).said(6, &[]);
    wait_for_no_traces(&place, None);
}

#[test]
fn a_device_of_a_run_is_locked_between_trials_too() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    let device = PlainLoop::attach(&image, 512, &[]);
    let args = place.tune_args(&device.node, &["--repeats", "20", "--confirm", &device.name]);
    let first = place.command(&args).spawn().unwrap();
    place.wait_for_trials(1);
    let held = format!("/proc/{}/fd", first.id());
    let holds = |entry: std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|path| path.to_str() == Some(&device.node))
    };
    let open = std::fs::read_dir(held).unwrap().filter_map(Result::ok).any(holds);
    assert!(open, "the device is not held");
    let second = ["tune", &device.node, "--dir", "other", "--confirm", &device.name];
    place.flashfit(&second).said(3, &["in use"]);
    assert!(!place.path("other").exists());
    signal(first.id(), Signal::INT);
    Ended::of(first).said(6, &[]);
    drop(device);
    wait_for_no_traces(&place, None);
}

/// They have one queue, and thus one I/O scheduler.
#[test]
fn a_second_partition_of_the_disk_of_a_run_is_refused() {
    if skip_without_block_devices() || skip(programs(&["sfdisk", "partx"])) {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 256);
    let script = "label: gpt\nsize=100MiB\nsize=100MiB\n";
    let sfdisk = Program::new("sfdisk").arg("--quiet").arg(&image).stdin(script);
    SystemRunner::default().run_checked(&sfdisk).unwrap();
    let device = PlainLoop::attach(&image, 512, &[]);
    let partx = Program::new("partx").arg("--update").arg(&device.node);
    SystemRunner::default().run_checked(&partx).unwrap();
    let part = |number| (format!("{}p{number}", device.node), format!("{}p{number}", device.name));
    let (node, name) = part(1);
    let args = place.tune_args(&node, &["--repeats", "20", "--confirm", &name]);
    let first = place.command(&args).spawn().unwrap();
    place.wait_for_trials(1);
    let (node, name) = part(2);
    let second = ["tune", &node, "--dir", "other", "--confirm", &name, "--fs", "ext4"];
    let one_run = format!("{} is open in process {}", device.node, first.id());
    place.flashfit(&second).said(3, &["in use", &one_run, "only one run at a time can use a disk"]);
    assert!(!place.path("other").exists());
    let probe = ["probe", &node, "--write", "--confirm", &name, "--max-write", "1MiB"];
    place.flashfit(&probe).said(3, &["in use"]);
    signal(first.id(), Signal::INT);
    Ended::of(first).said(6, &[]);
    drop(device);
    wait_for_no_traces(&place, None);
}

#[test]
fn a_run_is_only_resumed_on_its_own_device() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    place.tune("image", &["--confirm", "image"]).said(0, &[]);
    place.image("image", 65);
    let before = std::fs::read(&image).unwrap();
    let resume = ["tune", "--resume", "run", "--confirm", "image"];
    place.flashfit(&resume).said(3, &["begun on another device", "without --resume"]);
    assert!(std::fs::read(&image).unwrap() == before, "the image was written to");
    std::fs::remove_file(&image).unwrap();
    place.flashfit(&resume).said(2, &["there is no"]);
}

#[test]
fn a_node_of_another_device_is_refused() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let (first, second) = (place.image("first", 64), place.image("second", 65));
    let device = PlainLoop::attach(&first, 512, &[]);
    place.tune(&device.node, &["--confirm", &device.name]).said(0, &[]);
    let other = PlainLoop::attach(&second, 512, &[]);
    // The same run, as if the other device had the first one's node.
    let run = std::fs::read_to_string(place.path("run/run.json")).unwrap();
    place.file("run/run.json", &run.replace(&device.node, &other.node));
    let before = std::fs::read(&second).unwrap();
    let resumed = place.flashfit(&["tune", "--resume", "run", "--confirm", &other.name]);
    resumed.said(3, &["begun on another device"]);
    assert!(std::fs::read(&second).unwrap() == before, "the second image was written to");
}

#[test]
fn a_changed_simulated_card_is_another_device() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.tune(&place.card(), &[]).said(0, &[]);
    let resume = ["tune", "--resume", "run", "--progress", "never"];
    place.file("card.toml", &FAST_CARD.replace("160MiB", "192MiB"));
    place.flashfit(&resume).said(3, &["begun on another device"]);
    place.file("card.toml", &FAST_CARD.replace("program_ns = 2000", "program_ns = 9000"));
    place.flashfit(&resume).said(3, &["begun on another device"]);
    place.file("card.toml", FAST_CARD);
    place.flashfit(&resume).said(0, &[]);
}

#[test]
fn a_loop_device_over_another_file_is_refused_on_resume() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let (first, second) = (place.image("first", 64), place.image("second", 64));
    let device = PlainLoop::attach_far(302, &first);
    place.tune(&device.node, &["--confirm", &device.name]).said(0, &[]);
    let (node, name) = (device.node.clone(), device.name.clone());
    drop(device);
    let again = PlainLoop::attach_to(&node, &second);
    let before = std::fs::read(&second).unwrap();
    let resume = ["tune", "--resume", "run", "--progress", "never", "--confirm", &name];
    place.flashfit(&resume).said(3, &["begun on another device", "on another file"]);
    assert!(std::fs::read(&second).unwrap() == before, "the second image was written to");
    drop(again);
    // The same file is accepted, even if it was attached again.
    let again = PlainLoop::attach_to(&node, &first);
    place.flashfit(&resume).said(0, &[]);
    drop(again);
}

#[test]
fn another_image_of_the_same_name_is_refused_on_resume() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::new();
    let image = place.image("image", 64);
    place.tune("image", &["--confirm", "image"]).said(0, &[]);
    let other = place.image("other", 64);
    std::fs::rename(&other, &image).unwrap();
    let before = std::fs::read(&image).unwrap();
    let resume = ["tune", "--resume", "run", "--progress", "never", "--confirm", "image"];
    place.flashfit(&resume).said(3, &["begun on another device", "on another file"]);
    assert!(std::fs::read(&image).unwrap() == before, "the other image was written to");
}
