//! What each mkfs discards by itself, and that it discards nothing where trials ask for that.

use std::io::Write;
use std::os::unix::fs::MetadataExt;

use flashfit_device::Bytes;
use flashfit_filesystem::{FileSystem, FileSystemCatalog, Recipe, Scheduler, Setup, TrialOptions};
use flashfit_host::Program;

use crate::card::{Card, conditions, installed, run};

/// The share of a full device that is still there after mkfs.
fn kept(filesystem: &FileSystem, options: &TrialOptions) -> Option<f64> {
    let size = filesystem.min_device_size.max(Bytes::mib(64));
    let card = Card::new(Bytes(size.0 + (16 << 20)))?;
    let mut node = std::fs::OpenOptions::new().write(true).open(card.node()).unwrap();
    let data = vec![0xa5; 1 << 20];
    while node.write_all(&data).is_ok() {}
    node.sync_all().unwrap();
    drop(node);
    let image = card.folder().join("image");
    let full = image.metadata().unwrap().blocks();
    let none = std::iter::empty::<&str>();
    let setup = Setup::new(filesystem, none, Scheduler::new("none"), &conditions()).unwrap();
    let recipe = Recipe::with(filesystem, &setup, &conditions(), options).unwrap();
    card.make(&recipe).unwrap();
    run(&Program::new("sync").arg(&image));
    Some(image.metadata().unwrap().blocks() as f64 / full as f64)
}

#[test]
fn trials_after_the_first_discard_nothing() {
    for filesystem in FileSystemCatalog::load(None).unwrap().filesystems() {
        if filesystem.mkfs.from_folder || !installed(&[&filesystem.mkfs.tool.program]) {
            continue;
        }
        let name = &filesystem.name;
        for options in [&filesystem.trial, &filesystem.crash, &TrialOptions::default()] {
            let options = options.clone().without_discard(filesystem);
            let Some(kept) = kept(filesystem, &options) else { return };
            assert!(kept > 0.95, "{name} discards: {kept} is left after {options:?}");
        }
        if !filesystem.mkfs.no_discard.is_empty() {
            let Some(kept) = kept(filesystem, &TrialOptions::default()) else { return };
            assert!(kept < 0.9, "{name} keeps {kept} without the flags, so they do nothing");
        }
    }
}
