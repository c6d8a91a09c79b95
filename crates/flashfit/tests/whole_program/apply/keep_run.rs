//! `apply --keep-data --run`: what a run recommends and needs no mkfs is made, the rest is named.

use flashfit_host::{Program, Runner, SystemRunner};

use super::{flashfit, read};
use crate::fixture::{Place, skip_without_block_devices};
use crate::machine::{PlainLoop, wait_for_no_traces};

fn run(name: &str, args: &[&str]) -> String {
    SystemRunner::default().run_checked(&Program::new(name).args(args.to_vec())).unwrap().stdout
}

#[test]
fn a_runs_recommendation_is_made_as_far_as_it_needs_no_mkfs() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 64);
    let short = read(place.path("short.toml"));
    let always = "always = [\"noatime\", \"bigalloc\", \"readahead-1m\"]";
    place.file("short.toml", &format!("{short}{always}\n"));
    place.tune("image", &["--confirm", "image"]).said(0, &[]);
    let card = place.image("card", 64);
    let node = PlainLoop::attach(&card, 512, &[]);
    run("mkfs.ext4", &["-q", &node.node]);
    let uuid = run("blkid", &["-p", "-s", "UUID", "-o", "value", &node.node]);
    // A loop device keeps the read-ahead of its last user.
    let ahead = format!("/sys/block/{}/queue/read_ahead_kb", node.name);
    std::fs::write(&ahead, "128").unwrap();
    std::fs::create_dir_all(place.path("root/etc")).unwrap();
    let line = format!("UUID={} /data ext4 defaults 0 2\n", uuid.trim());
    let fstab = place.file("root/etc/fstab", &line);
    let call = ["apply", "--keep-data", &node.node, "--run", "run", "--root", "root"];
    let agreed = ["--confirm", &node.name, "--backup", "saved"];
    let done = flashfit(&place, &[&call[..], &agreed].concat());
    done.said(0, &["the run recommends ext4", "left out: ext4:bigalloc", "mkfs decides"]);
    let attribute = |name: &str| read(format!("/sys/block/{}/queue/{name}", node.name).into());
    assert_eq!(attribute("read_ahead_kb"), "1024\n");
    assert!(attribute("scheduler").contains("[none]"), "{}", attribute("scheduler"));
    assert!(read(fstab.clone()).contains("/data ext4 defaults,noatime 0 2"));
    flashfit(&place, &["restore", "saved", &node.node, "--confirm", &node.name]).said(0, &[]);
    assert_eq!(attribute("read_ahead_kb"), "128\n");
    assert_eq!(read(fstab), line);
    // Another file system would need mkfs.
    run("wipefs", &["--all", &node.node]);
    run("mkfs.ext2", &["-q", &node.node]);
    flashfit(&place, &[&call[..], &agreed].concat()).said(2, &["has no ext4", "needs mkfs"]);
    let both = ["apply", "run", &node.node, "--run", "run"];
    flashfit(&place, &both).said(2, &["cannot be used with"]);
    drop(node);
    wait_for_no_traces(&place, None);
}
