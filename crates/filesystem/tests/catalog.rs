//! The catalog as a user meets it: the built-in file systems, files with mistakes, setups and
//! the text of their commands.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::path::Path;

use flashfit_catalog::CatalogEntryError;
use flashfit_device::Bytes;
use flashfit_filesystem::{
    Conditions, Durability, FileSystem, FileSystemCatalog, FileSystemCatalogError, Recipe,
    Scheduler, Setup, SetupError,
};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use flashfit_user_error::{ExitClass, UserError};

fn built_in(name: &str) -> FileSystem {
    FileSystemCatalog::load(None).unwrap().filesystem(name).unwrap().clone()
}

fn conditions(erase_block: Bytes, write_unit: Bytes) -> Conditions {
    let known = |bytes| Some(Sourced::new(bytes, QuantitySource::Given));
    Conditions {
        geometry: Geometry { erase_block: known(erase_block), ..Geometry::default() }
            .or(Geometry { write_unit: known(write_unit), ..Geometry::default() }),
        discard: true,
        volatile_cache: true,
        ..Conditions::default()
    }
}

/// The card of the Dreamplug: 8 MiB and 8 KiB.
fn dreamplug() -> Conditions {
    conditions(Bytes::mib(8), Bytes::kib(8))
}

fn none() -> Scheduler {
    Scheduler::new("none")
}

fn recipe(filesystem: &FileSystem, options: &[&str], conditions: &Conditions) -> Recipe {
    let setup = Setup::new(filesystem, options, none(), conditions).unwrap();
    Recipe::new(filesystem, &setup, conditions).unwrap()
}

fn mkfs(filesystem: &str, options: &[&str], conditions: &Conditions) -> String {
    let node = Path::new("/dev/mmcblk0p1");
    recipe(&built_in(filesystem), options, conditions).mkfs(node).command_line()
}

#[test]
fn the_commands_for_ext4() {
    let base = "mkfs.ext4 -q -b 4096";
    for (options, conditions, rest) in [
        (vec![], Conditions::default(), ""),
        (vec!["base"], dreamplug(), ""),
        (vec!["noatime", "writeback", "discard"], dreamplug(), ""),
        (vec!["geometry"], dreamplug(), " -E stride=2,stripe-width=2048"),
        (
            vec!["geometry", "nojournal"],
            dreamplug(),
            " -O ^has_journal -E stride=2,stripe-width=2048",
        ),
        // The Gentoo wiki's card: its own numbers.
        (
            vec!["geometry"],
            conditions(Bytes::mib(4), Bytes::kib(16)),
            " -E stride=4,stripe-width=1024",
        ),
        (
            vec!["geometry"],
            conditions(Bytes::mib(24), Bytes::kib(96)),
            " -E stride=24,stripe-width=6144",
        ),
    ] {
        let expected = format!("{base}{rest} /dev/mmcblk0p1");
        assert_eq!(mkfs("ext4", &options, &conditions), expected, "{options:?}");
    }
}

#[test]
fn trials_of_ext4_keep_its_late_initialisation_out() {
    let (filesystem, conditions) = (built_in("ext4"), dreamplug());
    let setup = Setup::new(&filesystem, ["geometry", "noatime"], none(), &conditions).unwrap();
    let recipe = Recipe::for_trial(&filesystem, &setup, &conditions).unwrap();
    let mkfs = recipe.mkfs(Path::new("/dev/x")).command_line();
    let joined = "-E lazy_itable_init=1,lazy_journal_init=1,stride=2,stripe-width=2048";
    let joined_other = "-E lazy_itable_init=1,lazy_journal_init=1,stripe-width=2048,stride=2";
    assert!(mkfs.contains(joined) || mkfs.contains(joined_other), "{mkfs}");
    assert_eq!(recipe.mount_options(), ["noinit_itable", "noatime"]);
}

#[test]
fn the_commands_for_btrfs() {
    for (options, rest) in [
        (vec![], ""),
        (vec!["geometry", "ssd", "noatime"], " -n 8192"),
        (vec!["nodesize-4k"], " -n 4096"),
        (vec!["nodesize-64k", "ssd_spread"], " -n 65536"),
    ] {
        let expected = format!("mkfs.btrfs -q -f{rest} /dev/mmcblk0p1");
        assert_eq!(mkfs("btrfs", &options, &dreamplug()), expected, "{options:?}");
    }
}

#[test]
fn without_a_write_unit_ext4_gets_a_stride_as_wide_as_the_stripe() {
    let mut conditions = dreamplug();
    conditions.geometry.write_unit = None;
    let line = mkfs("ext4", &["geometry"], &conditions);
    assert!(line.contains(" -E stride=2048,stripe-width=2048 "), "{line}");
}

#[test]
fn the_commands_for_mount_check_and_fstab() {
    let ext4 = recipe(&built_in("ext4"), &["writeback", "noatime"], &dreamplug());
    let (node, point) = (Path::new("/dev/sda1"), Path::new("/media/my card"));
    assert_eq!(ext4.mount_options(), ["noatime", "data=writeback"]);
    assert_eq!(
        ext4.mount(node, point).command_line(),
        "mount -t ext4 -o noatime,data=writeback /dev/sda1 '/media/my card'"
    );
    assert_eq!(ext4.fsck(node).command_line(), "e2fsck -f -n /dev/sda1");
    assert_eq!(
        ext4.fstab_line("UUID=1-2", point),
        "UUID=1-2 /media/my\\040card ext4 noatime,data=writeback 0 2"
    );
    assert!(ext4.tune(node).is_empty());
    let btrfs = recipe(&built_in("btrfs"), &[], &dreamplug());
    assert_eq!(
        btrfs.mount(node, point).command_line(),
        "mount -t btrfs /dev/sda1 '/media/my card'"
    );
    assert_eq!(btrfs.fsck(node).command_line(), "btrfs check --readonly /dev/sda1");
    assert_eq!(btrfs.fstab_line("/dev/sda1", Path::new("/m")), "/dev/sda1 /m btrfs defaults 0 0");
    let root = Path::new("/");
    assert_eq!(btrfs.installed_line("UUID=1", root), "UUID=1 / btrfs defaults 0 0");
    assert!(ext4.installed_line("UUID=1", root).ends_with(" 0 1"));
    assert!(!ext4.installed_line("UUID=1", root).contains("nofail"));
    assert!(ext4.installed_line("UUID=1", point).ends_with(",nofail 0 2"));
}

#[test]
fn a_setup_is_in_catalog_order_and_has_a_label() {
    let ext4 = built_in("ext4");
    let deadline = Scheduler::new("mq-deadline");
    let options = ["nojournal", "noatime", "nojournal"];
    let setup = Setup::new(&ext4, options, deadline, &dreamplug()).unwrap();
    assert_eq!(setup.label(), "ext4 noatime+nojournal mq-deadline");
    assert_eq!(Setup::base(&ext4, none()).label(), "ext4 base none");
    let json = serde_json::to_string(&setup).unwrap();
    assert_eq!(
        json,
        r#"{"filesystem":"ext4","options":["noatime","nojournal"],"scheduler":"mq-deadline"}"#
    );
    assert_eq!(serde_json::from_str::<Setup>(&json).unwrap(), setup);
}

#[test]
fn what_cannot_be_combined_or_used_is_refused_with_the_reason() {
    let (ext4, btrfs) = (built_in("ext4"), built_in("btrfs"));
    let refused = |filesystem, options: &[&str], conditions: &Conditions| {
        let error = Setup::new(filesystem, options, none(), conditions).unwrap_err();
        assert_eq!(error.class(), ExitClass::Usage);
        assert!(error.hint().is_some(), "{error}");
        error.to_string()
    };
    let conflict = refused(&ext4, &["nojournal", "writeback"], &dreamplug());
    assert_eq!(conflict, "ext4: `nojournal` and `writeback` cannot be combined");
    refused(&btrfs, &["nodesize-64k", "geometry"], &dreamplug());
    refused(&btrfs, &["ssd", "ssd_spread"], &dreamplug());
    let unknown = Conditions::default();
    assert!(
        refused(&ext4, &["geometry"], &unknown)
            .contains("the erase block of the device is unknown")
    );
    assert!(
        refused(&btrfs, &["geometry"], &unknown)
            .contains("the write unit of the device is unknown")
    );
    assert!(refused(&ext4, &["discard"], &unknown).contains("does not support discard"));
    assert!(refused(&ext4, &["nobarrier"], &unknown).contains("no volatile cache"));
    let odd = conditions(Bytes(1_000_000), Bytes::kib(4));
    assert!(refused(&ext4, &["geometry"], &odd).contains("not a multiple"));
    let nearest = Setup::new(&ext4, ["noatme"], none(), &dreamplug()).unwrap_err();
    assert_eq!(nearest.to_string(), "unknown option of ext4 `noatme`");
    assert_eq!(nearest.hint(), Some("did you mean `noatime`?".into()));
}

#[test]
fn a_conflict_names_the_options_that_were_named() {
    let btrfs = built_in("btrfs");
    let known = dreamplug();
    let error = Setup::new(&btrfs, ["nodatacow", "compress-lzo"], none(), &known).unwrap_err();
    let SetupError::Conflict { first, second, .. } = &error else { panic!("{error}") };
    let mut named = [first.as_str(), second.as_str()];
    named.sort_unstable();
    assert_eq!(named, ["compress-lzo", "nodatacow"], "{error}");
}

#[test]
fn a_setup_from_a_file_is_checked_again_before_it_becomes_commands() {
    let ext4 = built_in("ext4");
    let mut setup = Setup::base(&ext4, none());
    setup.options = vec!["nojournal".into(), "writeback".into()];
    let error = Recipe::new(&ext4, &setup, &dreamplug()).unwrap_err();
    assert!(matches!(error, SetupError::Conflict { .. }), "{error}");
    setup.filesystem = "btrfs".into();
    let error = Recipe::new(&ext4, &setup, &dreamplug()).unwrap_err();
    assert!(matches!(error, SetupError::OtherFileSystem { .. }), "{error}");
}

#[test]
fn what_cannot_be_used_is_told_and_the_rest_is_offered_in_order() {
    let ext4 = built_in("ext4");
    let (usable, others) = ext4.usable_options(&dreamplug());
    assert_eq!(usable.len(), ext4.options.len());
    assert!(others.is_empty());
    let (usable, others) = ext4.usable_options(&Conditions::default());
    let tried = usable.iter().filter(|option| option.tried);
    let tried: Vec<&str> = tried.map(|option| option.name.as_str()).collect();
    assert_eq!(tried, ["noatime", "nojournal", "fast_commit", "writeback"]);
    assert!(others.iter().all(|(_, reason)| !reason.is_empty()));
    let others: Vec<&str> = others.iter().map(|(option, _)| option.name.as_str()).collect();
    assert_eq!(others, ["discard", "nobarrier", "geometry", "stripe-mount", "fstrim"]);
}

#[test]
fn a_setup_is_as_durable_as_its_worst_option() {
    let ext4 = built_in("ext4");
    let verdict = |options: &[&str]| {
        let setup = Setup::new(&ext4, options, none(), &dreamplug()).unwrap();
        setup.durability(&ext4).unwrap()
    };
    assert_eq!(verdict(&["noatime", "geometry"]).durability, Durability::Safe);
    assert_eq!(verdict(&["writeback"]).durability, Durability::LosesRecent);
    let worst = verdict(&["writeback", "nobarrier", "noatime"]);
    assert_eq!(worst.durability, Durability::MayCorrupt);
    let names: Vec<&str> = worst.risks.iter().map(|risk| risk.option.as_str()).collect();
    assert_eq!(names, ["writeback", "nobarrier"]);
    assert!(worst.risks.iter().all(|risk| risk.risk.ends_with('.')));
}

#[test]
fn an_exception_is_named_where_a_file_system_is_safe() {
    let verdict = |name: &str| {
        let filesystem = built_in(name);
        let setup = Setup::new(&filesystem, ["noatime"], none(), &dreamplug()).unwrap();
        setup.durability(&filesystem).unwrap()
    };
    assert_eq!(verdict("btrfs").durability, Durability::Safe);
    assert!(verdict("btrfs").risks[0].risk.contains("replaced by a rename"));
    assert!(verdict("ext4").risks.is_empty());
}

#[test]
fn names_are_looked_up_with_the_nearest_one() {
    let catalog = FileSystemCatalog::load(None).unwrap();
    let error = catalog.filesystem("etx4").unwrap_err();
    let CatalogEntryError::Unknown { nearest, .. } = &error else { panic!("{error}") };
    assert_eq!(nearest.as_deref(), Some("ext4"));
    let ext4 = catalog.filesystem("ext4").unwrap();
    assert!(ext4.is_listed_in("nodev\tsysfs\n\text4\n"));
    assert!(!ext4.is_listed_in("nodev\tsysfs\n\text3\n"));
}

/// A catalog file of the user's that is valid.
const TINY: &str = r#"name = "tiny"
title = "Tiny"
kind = "tiny"
least_medium_bytes = "1 MiB"
block_bytes = 4096
[mkfs]
program = "mkfs.minix"
version_args = []
[tune]
program = "tune2fs"
args = ["-c"]
[fsck]
program = "fsck.minix"
args = []
pass = 0
[[option]]
name = "a"
title = "A"
tune = ["-O", "a"]
durability = "safe"
source = "me"
[[option]]
name = "b"
title = "B"
mkfs = { "-n" = ["2"], "-M" = [] }
durability = "safe"
source = "me"
"#;

fn load(text: &str) -> Result<FileSystemCatalog, FileSystemCatalogError> {
    let user = tempfile::tempdir().unwrap();
    std::fs::create_dir(user.path().join("filesystems")).unwrap();
    std::fs::write(user.path().join("filesystems/tiny.toml"), text).unwrap();
    FileSystemCatalog::load(Some(user.path()))
}

#[test]
fn the_users_file_system_needs_no_code() {
    let catalog = load(TINY).unwrap();
    let names: Vec<&str> = catalog.filesystems().iter().map(|fs| fs.name.as_str()).collect();
    assert!(names.is_sorted() && names.contains(&"tiny") && names.contains(&"ext4"), "{names:?}");
    let tiny = catalog.filesystem("tiny").unwrap();
    let recipe = recipe(tiny, &["b", "a"], &Conditions::default());
    let node = Path::new("/dev/x");
    assert_eq!(recipe.mkfs(node).command_line(), "mkfs.minix -M -n 2 /dev/x");
    let tune: Vec<String> = recipe.tune(node).iter().map(|p| p.command_line()).collect();
    assert_eq!(tune, ["tune2fs -c -O a /dev/x"]);
}
