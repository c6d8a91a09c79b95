//! `--install` keeps existing content of the system's files.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{flashfit, plan, read};
use crate::fixture::{Place, skip_without_block_devices};
use crate::machine::PlainLoop;

#[test]
fn the_systems_files_keep_their_content() {
    if skip_without_block_devices() {
        return;
    }
    let place = Place::in_memory();
    let image = place.image("image", 64);
    std::fs::create_dir_all(place.path("root/etc")).unwrap();
    let theirs = "# static\nproc /proc proc defaults 0 0\nUUID=1 / ext4 errors=remount-ro 0 1";
    let fstab = place.file("root/etc/fstab", theirs);
    std::fs::set_permissions(&fstab, std::fs::Permissions::from_mode(0o640)).unwrap();
    let PlainLoop { node, name } = &PlainLoop::attach(&image, 512, &[]);
    plan(&place, node, &["--fs", "ext4", "--scheduler", "none"]);
    let install = |backup: &str| {
        let args = ["apply", "plan.json", node, "--confirm", name, "--backup", backup];
        flashfit(&place, &[&args[..], &["--install", "--root", "root", "--json"]].concat())
            .document("flashfit.applied")
    };
    let done = install("one");
    let uuid = done["verified"]["uuid"].as_str().unwrap().to_owned();
    let text = read(fstab.clone());
    assert!(text.starts_with(theirs), "{text}");
    let line = format!("\nUUID={uuid} /mnt/flash ext4 noatime,nofail 0 2\n");
    assert!(text.contains(&line) && text.contains(&format!("# flashfit begin {uuid}")), "{text}");
    assert_eq!(fstab.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let kept = Path::new(done["installed"]["kept"][0].as_str().unwrap()).to_owned();
    assert_eq!(read(kept), theirs);
    // The second time with another file system; there is still one block.
    let args = ["apply", "plan.json", node, "--dry-run", "--install", "--root", "root"];
    let shown = flashfit(&place, &args).stdout;
    let removed = format!("which are removed:\n  {}\n", line.trim());
    assert!(shown.contains(&removed), "{shown}");
    let again = install("two")["verified"]["uuid"].as_str().unwrap().to_owned();
    assert_ne!(again, uuid);
    let text = read(fstab.clone());
    assert!(text.contains(&again) && !text.contains(&uuid), "{text}");
    assert_eq!(text.matches("# flashfit begin").count(), 1, "{text}");
    // An existing line for the same mount point is refused before anything is written.
    place.file("root/etc/fstab", "LABEL=x /mnt/flash/ ext4 defaults 0 0\n");
    let before = std::fs::read(&image).unwrap();
    let args = ["apply", "plan.json", node, "--confirm", name, "--backup", "three", "--install"];
    let ended = flashfit(&place, &[&args[..], &["--root", "root"]].concat());
    ended.said(2, &["it already has a line for /mnt/flash"]);
    assert!(std::fs::read(&image).unwrap() == before, "the device was written to");
}
