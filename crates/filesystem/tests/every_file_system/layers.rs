//! squashfs: every option packs, and an image under a writable layer is written to on its host.

use std::path::{Path, PathBuf};

use flashfit_device::Bytes;
use flashfit_filesystem::{Layers, facts};
use flashfit_host::{Program, Runner, SystemRunner, mountinfo};
use flashfit_test_support::{TestNeed, skip};

use crate::card::{Card, built_in, installed, mountable, read, recipe, run, write};

fn packed_folder(parent: &Path) -> PathBuf {
    let folder = parent.join("system");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("file"), "packed".repeat(1000)).unwrap();
    folder
}

#[test]
fn every_option_of_squashfs_is_in_the_image() {
    let squashfs = built_in("squashfs");
    if !installed(&["mksquashfs", "unsquashfs", "blkid"]) {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let folder = packed_folder(parent.path());
    for (option, block_bytes, compressor) in [
        ("base", 128 << 10, "gzip"),
        ("block-4k", 4 << 10, "gzip"),
        ("block-16k", 16 << 10, "gzip"),
        ("block-256k", 256 << 10, "gzip"),
        ("block-1m", 1 << 20, "gzip"),
        ("xz", 128 << 10, "xz"),
        ("zstd", 128 << 10, "zstd"),
        ("lz4", 128 << 10, "lz4"),
        ("lzo", 128 << 10, "lzo"),
    ] {
        let (recipe, image) = (recipe(&squashfs, &[option]), parent.path().join(option));
        run(&recipe.pack(&folder, &image));
        run(&recipe.fsck(&image));
        let facts = facts::read(&SystemRunner::default(), &image).unwrap().unwrap();
        assert_eq!(facts.number("block_bytes"), Some(block_bytes), "{option}");
        assert_eq!(facts.word("compressor"), Some(compressor), "{option}");
    }
}

/// Unmounts what is below a folder, the newest first, however the test ends.
struct Below(PathBuf);

impl Drop for Below {
    fn drop(&mut self) {
        let mounts = mountinfo::read().unwrap_or_default();
        for entry in mounts.iter().rev().filter(|entry| entry.point.starts_with(&self.0)) {
            let program = Program::new("umount").arg(&entry.point);
            let _ = SystemRunner::default().run(&program);
        }
    }
}

#[test]
fn an_image_under_a_writable_layer_is_written_to_on_its_host() {
    let (squashfs, overlay) = (built_in("squashfs"), "\toverlay");
    let listed = std::fs::read_to_string("/proc/filesystems").unwrap();
    if !listed.contains(overlay) {
        assert!(skip(Some(TestNeed::Kernel.missing("this kernel does not list overlay"))));
        return;
    }
    if !installed(&["mksquashfs"]) || !mountable(&squashfs) {
        return;
    }
    for host in &squashfs.layered.as_ref().unwrap().hosts {
        let filesystem = built_in(host);
        if installed(&[&filesystem.mkfs.tool.program]) && mountable(&filesystem) {
            let Some(card) = Card::new(Bytes::mib(320)) else { return };
            on_host(&card, host);
        }
    }
}

fn on_host(card: &Card, host: &str) {
    let (squashfs, host) = (built_in("squashfs"), recipe(&built_in(host), &[]));
    card.make(&host).unwrap();
    let mounted = card.mount(&host).unwrap();
    let layers = Layers::new(&squashfs, mounted.point()).unwrap();
    let (folder, whole) = (packed_folder(card.folder()), card.folder().join("whole"));
    std::fs::create_dir(&whole).unwrap();
    {
        let _below = Below(card.folder().canonicalize().unwrap());
        for program in layers.commands(&recipe(&squashfs, &["zstd"]), &folder, &whole) {
            run(&program);
        }
        let packed = "packed".repeat(1000);
        assert_eq!(read(&whole.join("file")), packed);
        write(&whole.join("file"), "changed");
        write(&whole.join("new"), "new");
        assert_eq!(read(&mounted.point().join("upper/new")), "new");
        assert_eq!(read(&layers.lower().join("file")), packed, "the image is not written to");
        assert_eq!(read(&whole.join("file")), "changed");
    }
    // The guard has taken the host's mount with the rest, so there is none left to take away.
    std::mem::forget(mounted);
    run(&host.fsck(card.node()));
}
