//! Every option of every file system is taken by the real mkfs and the real kernel, or the
//! catalog says why not.

use flashfit_device::Bytes;
use flashfit_filesystem::{FileSystem, FsOption, Version, Versions};
use flashfit_host::{Program, Runner, SystemRunner};
use flashfit_test_support::{TestNeed, skip_part};

use crate::card::{Card, built_in, installed, mountable, recipe, run};

fn versions(filesystem: &FileSystem) -> Versions {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mkfs = &filesystem.mkfs;
    let program = Program::new(&mkfs.tool.program).args(mkfs.version_args.clone());
    let said = SystemRunner::default().run(&program).unwrap();
    Versions {
        kernel: Version::find_in(&kernel),
        tool: Version::find_in(&format!("{} {}", said.stdout, said.stderr)),
    }
}

/// Tries each option alone; on a kernel without the file system those that mkfs takes.
fn every_option_of(name: &str, size: Bytes) {
    let filesystem = built_in(name);
    if !installed(&[&filesystem.mkfs.tool.program, &filesystem.fsck.tool.program]) {
        return;
    }
    let Some(card) = Card::new(size) else { return };
    let (here, mountable) = (versions(&filesystem), mountable(&filesystem));
    let own = |option: &&FsOption| option.origin == filesystem.origin;
    let mut taken = 0;
    for option in filesystem.options.iter().filter(own) {
        if !mountable && option.mkfs.is_empty() && option.tune.is_empty() {
            continue;
        }
        let recipe = recipe(&filesystem, &[&option.name]);
        let made = card
            .make(&recipe)
            .and_then(|()| if mountable { card.write_and_read(&recipe) } else { Ok(()) });
        match (made, option.why_absent(&here)) {
            (Ok(()), None) => {
                run(&recipe.fsck(card.node()));
                taken += 1;
            }
            (Err(refusal), Some(reason)) => {
                let reason = format!("{name} {}: {reason}: {refusal}", option.name);
                assert!(skip_part(Some(TestNeed::Kernel.missing(reason))));
            }
            (Err(refusal), None) => panic!("{name} {}: {refusal}", option.name),
            (Ok(()), Some(reason)) => panic!("{name} {} is taken, but {reason}", option.name),
        }
    }
    assert!(taken > 0, "{name} has options that are taken");
}

#[test]
fn ext2() {
    every_option_of("ext2", Bytes::mib(64));
}

#[test]
fn ext3() {
    every_option_of("ext3", Bytes::mib(64));
}

#[test]
fn ext4() {
    every_option_of("ext4", Bytes::mib(64));
}

#[test]
fn btrfs() {
    every_option_of("btrfs", Bytes::mib(256));
}

#[test]
fn xfs() {
    every_option_of("xfs", Bytes::mib(1024));
}

#[test]
fn f2fs() {
    every_option_of("f2fs", Bytes::mib(256));
}

#[test]
fn fat32() {
    every_option_of("fat32", Bytes::mib(2304));
}

#[test]
fn exfat() {
    every_option_of("exfat", Bytes::mib(128));
}

#[test]
fn nilfs2() {
    every_option_of("nilfs2", Bytes::mib(160));
}
