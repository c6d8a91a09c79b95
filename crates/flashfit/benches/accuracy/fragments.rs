//! Section 9: files whose extents are in turn with those of another file.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flashfit_host::SystemRunner;
use flashfit_host::capability;
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::mount::Mounted;

use crate::nothing::is_silent_command;
use crate::share::Share;

/// Trials of each of the two files, and of a loop device over each.
const FILE_TRIALS: u64 = 100;
const LOOP_TRIALS: u64 = 10;
/// Pieces of each file, and their size in bytes.
const PIECES: usize = 64;
const PIECE: usize = 4 << 20;
const IMAGE_BYTES: u64 = 800 << 20;

/// The section, as Markdown.
pub fn section() -> String {
    let mut text = format!(
        "\n## 9. Fragmented files\n\nTwo files on ext4 on a loop device are written in turn: \
         {} MiB and an fsync each, {PIECES} times. Then each is probed by reading, and so is a loop \
         device over each. Goal: no erase block, write unit or page in any trial.\n\n",
        PIECE >> 20
    );
    if let Some(reason) = capability::missing_for_block_devices() {
        return text + &format!("Not measured: {reason}.\n");
    }
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
    let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
    let device = LoopDevice::attach(&image, options).unwrap();
    let made = Command::new("mkfs.ext4").arg("-q").arg(device.node()).status().unwrap();
    assert!(made.success(), "mkfs.ext4 failed");
    let point = folder.path().join("point");
    std::fs::create_dir(&point).unwrap();
    let runner = SystemRunner::default();
    let mounted = Mounted::new(&runner, device.node(), "ext4", &point, &[]).unwrap();
    let files = written_in_turn(&point);
    text += "| device | trials without an answer |\n|---|---|\n";
    let of_files = Share::sum(files.iter().map(|file| silent(file, FILE_TRIALS)));
    text += &format!("| the files | {of_files} |\n");
    let of_loops = files.iter().map(|file| {
        let options = LoopOptions { direct_io: false, read_only: true, ..LoopOptions::default() };
        let over = LoopDevice::attach(file, options).unwrap();
        silent(over.node(), LOOP_TRIALS)
    });
    text += &format!("| loop devices over the files | {} |\n", Share::sum(of_loops));
    mounted.unmount().unwrap();
    text
}

fn silent(target: &Path, trials: u64) -> Share {
    Share::of((1..=trials).map(|seed| is_silent_command(target, seed)))
}

fn written_in_turn(folder: &Path) -> Vec<PathBuf> {
    let paths: Vec<PathBuf> = ["one", "other"].map(|name| folder.join(name)).to_vec();
    let mut files: Vec<File> = paths.iter().map(|path| File::create(path).unwrap()).collect();
    let piece = vec![0x5a; PIECE];
    for _ in 0..PIECES {
        for file in &mut files {
            file.write_all(&piece).unwrap();
            file.sync_all().unwrap();
        }
    }
    paths
}
