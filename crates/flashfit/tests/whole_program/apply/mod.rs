//! `apply` and `restore`: refusals, results on the device and in the system's files, and
//! interruptions.

mod cut_short;
mod image;
mod installed;
mod keep_continued;
mod keep_data;
mod keep_run;
mod loops;
mod made;
mod mounting;
mod odd_sizes;
mod partitions;
mod refused;
mod system_files;

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Child;

use crate::fixture::{Ended, Place};

pub const END: usize = 4 << 20;
const GEOMETRY: [&str; 4] = ["--erase-block", "1MiB", "--write-unit", "16KiB"];

/// The command with its own directory for records of unfinished devices.
pub fn flashfit(place: &Place, args: &[&str]) -> Ended {
    Ended::new(command(place, args).output().unwrap())
}

pub fn command(place: &Place, args: &[&str]) -> std::process::Command {
    let mut command = place.command(args);
    command.env("FLASHFIT_STATE_DIR", place.path("state"));
    command
}

pub fn start(place: &Place, args: &[&str]) -> Child {
    command(place, args).spawn().unwrap()
}

/// Writes `plan.json` for `target`.
pub fn plan(place: &Place, target: &str, more: &[&str]) {
    let args = [&["plan", target, "--output", "plan.json"][..], &GEOMETRY, more].concat();
    flashfit(place, &args).said(0, &[]);
}

pub fn apply(place: &Place, more: &[&str]) -> Ended {
    let args = [&["apply", "plan.json", "image", "--confirm", "image", "--backup", "saved"], more];
    flashfit(place, &args.concat())
}

/// The first and the last 4 MiB.
pub fn ends(file: &Path) -> (Vec<u8>, Vec<u8>) {
    let mut open = std::fs::File::open(file).unwrap();
    let (mut first, mut last) = (vec![0; END], vec![0; END]);
    open.read_exact(&mut first).unwrap();
    open.seek(SeekFrom::End(-i64::try_from(END).unwrap())).unwrap();
    open.read_exact(&mut last).unwrap();
    (first, last)
}

pub fn read(path: PathBuf) -> String {
    std::fs::read_to_string(path).unwrap()
}
