//! Options found out on this kernel with the installed programs.
//!
//! What needs root and loop devices, or a program, says so where it is lacking, and ends.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::path::Path;
use std::time::Duration;

use flashfit_catalog::{CatalogEntry, Origin};
use flashfit_device::Bytes;
use flashfit_filesystem::{Conditions, FileSystem, FileSystemCatalog};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::program::ScriptedRunner;
use flashfit_host::{Program, ProgramError, ProgramOutcome, Runner, SystemRunner};
use flashfit_option_probe::{
    Cache, EvidenceSource, OptionFinding, OptionFindings, OptionProbeError, OptionProbeTools,
    OptionVerdict, find_out, kernel, measure,
};
use flashfit_test_support::{self as test_support, TestNeed, block_devices, skip, skip_part};
use flashfit_user_error::{ExitClass, UserError};

const EXT4: &str = r#"name = "ext4"
title = "ext4"
kind = "ext4"
least_medium_bytes = "8 MiB"
block_bytes = 4096
[mkfs]
program = "mkfs.ext4"
version_args = ["-V"]
args = ["-q", "-b", "{block_bytes}"]
joined = ["-E", "-O"]
[trial]
flags = { "-E" = ["lazy_itable_init=1", "lazy_journal_init=1"] }
mount = ["noinit_itable"]
[tune]
program = "tune2fs"
[fsck]
program = "e2fsck"
args = ["-f", "-n"]
pass = 2
"#;

const BTRFS: &str = r#"name = "btrfs"
title = "Btrfs"
kind = "btrfs"
least_medium_bytes = "128 MiB"
block_bytes = 4096
[mkfs]
program = "mkfs.btrfs"
version_args = ["--version"]
args = ["-q", "-f"]
[fsck]
program = "btrfs"
args = ["check", "--readonly"]
pass = 0
"#;

const XFS: &str = r#"name = "xfs"
title = "XFS"
kind = "xfs"
least_medium_bytes = "300 MiB"
block_bytes = 4096
[mkfs]
program = "mkfs.xfs"
version_args = ["-V"]
args = ["-q", "-f"]
joined = ["-d"]
[fsck]
program = "xfs_repair"
args = ["-n"]
pass = 0
"#;

/// A user's catalog file: a head and options, each with its name and what it sets.
fn file_system(head: &str, options: &[(&str, &str)]) -> FileSystem {
    let mut text = head.to_owned();
    for (name, sets) in options {
        text.push_str(&format!(
            "[[option]]\nname = \"{name}\"\ntitle = \"x\"\n{sets}\ndurability = \"safe\"\n\
             source = \"none\"\n"
        ));
    }
    let name = head.split('"').nth(1).unwrap().to_owned();
    let origin = Origin::File(format!("{name}.toml").into());
    let fs_catalog =
        FileSystemCatalog::from_entries(&[CatalogEntry { name: name.clone(), text, origin }])
            .unwrap();
    fs_catalog.filesystem(&name).unwrap().clone()
}

fn conditions(write_unit: Bytes) -> Conditions {
    let known = |bytes| Some(Sourced::new(bytes, QuantitySource::Given));
    let geometry = Geometry { erase_block: known(Bytes::mib(4)), ..Geometry::default() };
    let geometry = geometry.or(Geometry { write_unit: known(write_unit), ..Geometry::default() });
    Conditions { geometry, discard: true, volatile_cache: true, ..Conditions::default() }
}

/// What mounting is done with; `None`, with a message, where this machine lacks something.
fn means(filesystem: &FileSystem) -> Option<OptionProbeTools> {
    let program = &filesystem.mkfs.tool.program;
    let missing = block_devices().or_else(|| test_support::program(program)).or_else(|| {
        let kind = &filesystem.kind;
        let reason = || TestNeed::Kernel.missing(format!("this kernel has no {kind}"));
        (!kernel::has(kind)).then(reason)
    });
    if skip(missing) {
        return None;
    }
    let means = OptionProbeTools::take();
    assert_eq!(means.cannot_mount(), None);
    Some(means)
}

fn found(filesystem: &FileSystem, conditions: &Conditions) -> Option<OptionFindings> {
    let means = means(filesystem)?;
    Some(measure(&SystemRunner::default(), filesystem, conditions, &means).unwrap())
}

#[track_caller]
fn expect<'a>(
    findings: &'a OptionFindings,
    option: &str,
    verdict: OptionVerdict,
) -> &'a OptionFinding {
    let finding = findings.of(option).unwrap();
    assert_eq!(finding.verdict, verdict, "{finding:#?}");
    assert!(!finding.evidence.is_empty(), "{finding:#?}");
    finding
}

#[test]
fn ext4_effective_default_ignored_accepted_and_refused() {
    let ext4 = file_system(
        EXT4,
        &[
            ("noatime", "mount = [\"noatime\"]"),
            ("commit", "mount = [\"commit=30\"]"),
            ("ordered", "mount = [\"data=ordered\"]"),
            ("orlov", "mount = [\"orlov\"]"),
            ("ioprio", "mount = [\"journal_ioprio=3\"]"),
            ("extents", "mount = [\"extents\"]"),
            ("async", "mount = [\"journal_async_commit,data=ordered\"]"),
            ("nojournal", "mkfs = { \"-O\" = [\"^has_journal\"] }"),
            ("extra_isize", "mkfs = { \"-O\" = [\"extra_isize\"] }"),
            ("nonsense", "mkfs = { \"-O\" = [\"no_such_feature\"] }"),
            ("reserved", "tune = [\"-m\", \"1\"]"),
            ("bad_tune", "tune = [\"-m\", \"101\"]"),
        ],
    );
    let Some(findings) = found(&ext4, &conditions(Bytes::kib(16))) else { return };
    expect(&findings, "noatime", OptionVerdict::Effective);
    expect(&findings, "commit", OptionVerdict::Effective);
    expect(&findings, "ordered", OptionVerdict::Default);
    let orlov = expect(&findings, "orlov", OptionVerdict::Ignored);
    assert_eq!(orlov.evidence[0].place, EvidenceSource::KernelLog);
    assert!(orlov.evidence[0].text.contains("orlov"), "{orlov:?}");
    expect(&findings, "ioprio", OptionVerdict::Accepted);
    let extents = expect(&findings, "extents", OptionVerdict::Refused);
    assert!(extents.evidence.iter().any(|seen| seen.text.contains("extents")), "{extents:?}");
    expect(&findings, "async", OptionVerdict::Refused);
    let nojournal = expect(&findings, "nojournal", OptionVerdict::Effective);
    assert!(nojournal.evidence[0].text.contains("has_journal"), "{nojournal:?}");
    expect(&findings, "extra_isize", OptionVerdict::Default);
    let nonsense = expect(&findings, "nonsense", OptionVerdict::Refused);
    assert!(nonsense.evidence[0].text.contains("no_such_feature"), "{nonsense:?}");
    expect(&findings, "reserved", OptionVerdict::Effective);
    expect(&findings, "bad_tune", OptionVerdict::Refused);
}

#[test]
fn btrfs_nodes_as_large_as_the_default_are_the_default() {
    let btrfs = file_system(
        BTRFS,
        &[
            ("geometry", "mkfs = { \"-n\" = [\"{node_size_bytes}\"] }\nneeds = [\"write_unit\"]"),
            ("ssd", "mount = [\"ssd\"]"),
            ("ssd_spread", "mount = [\"ssd_spread\"]"),
            ("inode_cache", "mount = [\"inode_cache\"]"),
            ("space_cache", "mount = [\"space_cache=v2\"]"),
            ("odd", "mkfs = { \"-s\" = [\"4095\"] }"),
        ],
    );
    let Some(findings) = found(&btrfs, &conditions(Bytes::kib(16))) else { return };
    expect(&findings, "geometry", OptionVerdict::Default);
    expect(&findings, "ssd", OptionVerdict::Default);
    expect(&findings, "ssd_spread", OptionVerdict::Effective);
    expect(&findings, "inode_cache", OptionVerdict::Refused);
    expect(&findings, "space_cache", OptionVerdict::Default);
    expect(&findings, "odd", OptionVerdict::Refused);
    let conditions = conditions(Bytes::kib(8));
    let means = means(&btrfs).unwrap().rotational(Some(true));
    let findings = measure(&SystemRunner::default(), &btrfs, &conditions, &means).unwrap();
    expect(&findings, "geometry", OptionVerdict::Effective);
    expect(&findings, "ssd", OptionVerdict::Effective);
}

#[test]
fn xfs_effective_default_and_refused() {
    let xfs = file_system(
        XFS,
        &[
            ("large-log", "mount = [\"logbsize=256k\"]"),
            ("logbufs", "mount = [\"logbufs=8\"]"),
            ("nobarrier", "mount = [\"nobarrier\"]"),
            ("stripe", "mkfs = { \"-d\" = [\"su=16k\", \"sw=64\"] }"),
        ],
    );
    let Some(findings) = found(&xfs, &conditions(Bytes::kib(16))) else { return };
    expect(&findings, "large-log", OptionVerdict::Effective);
    expect(&findings, "logbufs", OptionVerdict::Default);
    expect(&findings, "nobarrier", OptionVerdict::Refused);
    expect(&findings, "stripe", OptionVerdict::Effective);
}

#[test]
fn what_an_option_implies_is_not_taken_for_its_own_effect() {
    let ext4 = file_system(
        EXT4,
        &[
            ("noatime", "mount = [\"noatime\"]"),
            ("both", "mount = [\"data=ordered\"]\nimplies = [\"noatime\"]"),
        ],
    );
    let Some(findings) = found(&ext4, &conditions(Bytes::kib(16))) else { return };
    expect(&findings, "both", OptionVerdict::Default);
}

#[test]
fn nothing_that_reaches_beyond_the_image_is_run() {
    let ext4 = file_system(EXT4, &[("device", "mount = [\"journal_dev=0x801\"]")]);
    if skip(test_support::program("mkfs.ext4")) {
        return;
    }
    let means = OptionProbeTools::without_mounting("a test");
    let findings = measure(&Watching, &ext4, &conditions(Bytes::kib(16)), &means).unwrap();
    let finding = expect(&findings, "device", OptionVerdict::Refused);
    assert_eq!(finding.evidence[0].place, EvidenceSource::Flashfit);
    assert!(finding.why_no_choice().is_some());
}

#[test]
fn a_definition_that_names_another_file_is_refused_as_a_whole() {
    for sets in [r#"mkfs = { "-J" = ["device=/dev/loop7"] }"#, r#"tune = ["-M", "/home"]"#] {
        let text = format!(
            "{EXT4}[[option]]\nname = \"elsewhere\"\ntitle = \"x\"\n{sets}\n\
             durability = \"safe\"\nsource = \"none\"\n"
        );
        let origin = Origin::File("ext4.toml".into());
        let entry = CatalogEntry { name: "ext4".to_owned(), text, origin };
        let refused = FileSystemCatalog::from_entries(&[entry]).unwrap_err().to_string();
        assert!(refused.contains("could name a file"), "{refused}");
    }
}

/// Runs everything but what it must not.
struct Watching;

impl Runner for Watching {
    fn run(&self, program: &Program) -> Result<ProgramOutcome, ProgramError> {
        let line = program.command_line();
        for forbidden in ["remount", "loop7", "/home", "0x801"] {
            assert!(!line.contains(forbidden), "{line}");
        }
        SystemRunner::default().run(program)
    }
}

#[test]
fn without_mounting_mkfs_options_are_judged_and_the_rest_says_what_it_needs() {
    let ext4 = file_system(
        EXT4,
        &[
            ("noatime", "mount = [\"noatime\"]"),
            ("nojournal", "mkfs = { \"-O\" = [\"^has_journal\"] }"),
            ("nonsense", "mkfs = { \"-O\" = [\"no_such_feature\"] }"),
        ],
    );
    if skip(test_support::program("mkfs.ext4")) {
        return;
    }
    let means = OptionProbeTools::without_mounting("not running as root");
    let conditions = conditions(Bytes::kib(16));
    let findings = measure(&SystemRunner::default(), &ext4, &conditions, &means).unwrap();
    assert_eq!(findings.not_mounted.as_deref(), Some("not running as root"));
    if kernel::has("ext4") {
        let noatime = expect(&findings, "noatime", OptionVerdict::NotMeasured);
        assert!(noatime.evidence.iter().any(|seen| seen.text.contains("not running as root")));
    }
    expect(&findings, "nojournal", OptionVerdict::Effective);
    expect(&findings, "nonsense", OptionVerdict::Refused);
}

#[test]
fn a_file_system_that_this_kernel_lacks_is_still_made() {
    let head = EXT4
        .replace("name = \"ext4\"", "name = \"ext7\"")
        .replace("kind = \"ext4\"", "kind = \"ext7\"");
    let ext7 = file_system(
        &head,
        &[
            ("noatime", "mount = [\"noatime\"]"),
            ("nonsense", "mkfs = { \"-O\" = [\"no_such_feature\"] }"),
        ],
    );
    if skip(test_support::program("mkfs.ext4")) {
        return;
    }
    let means = OptionProbeTools::without_mounting("a test");
    let conditions = conditions(Bytes::kib(16));
    let findings = measure(&SystemRunner::default(), &ext7, &conditions, &means).unwrap();
    expect(&findings, "noatime", OptionVerdict::NotInKernel);
    expect(&findings, "nonsense", OptionVerdict::Refused);
}

#[test]
fn a_missing_program_names_its_package() {
    // A known program that no system of today has.
    let head = EXT4.replace("mkfs.ext4", "mkfs.reiserfs");
    let ext4 = file_system(&head, &[("noatime", "mount = [\"noatime\"]")]);
    let means = OptionProbeTools::without_mounting("a test");
    let runner = ScriptedRunner::new();
    let findings = measure(&runner, &ext4, &conditions(Bytes::kib(16)), &means).unwrap();
    let finding = expect(&findings, "noatime", OptionVerdict::ToolMissing);
    assert!(finding.evidence[0].text.contains("mkfs.reiserfs"), "{finding:?}");
    assert!(runner.calls().is_empty());
}

/// Makes a file system that cannot be written to for want of room.
struct Full;

impl Runner for Full {
    fn run(&self, program: &Program) -> Result<ProgramOutcome, ProgramError> {
        let stderr = "mke2fs: No space left on device while writing superblock\n".to_owned();
        let command_line = program.command_line();
        Ok(ProgramOutcome { code: Some(1), stderr, command_line, ..ProgramOutcome::default() })
    }
}

/// A tmpfs of that size, on the mounts of this thread only.
fn small_folder(bytes: &str) -> Option<tempfile::TempDir> {
    if skip(block_devices().or_else(|| test_support::program("mkfs.ext4"))) {
        return None;
    }
    flashfit_host::mount::enter_private_namespace().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mount = Program::new("mount")
        .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
        .arg(folder.path());
    SystemRunner::default().run_checked(&mount).unwrap();
    Some(folder)
}

#[test]
fn a_disk_that_is_full_is_the_machines_fault_and_not_the_options() {
    let Some(folder) = small_folder("4m") else { return };
    let ext4 = file_system(EXT4, &[("noatime", "mount = [\"noatime\"]")]);
    let conditions = conditions(Bytes::kib(16));
    let means = OptionProbeTools::take().in_folder(folder.path());
    for runner in [&Full as &dyn Runner, &SystemRunner::default()] {
        match measure(runner, &ext4, &conditions, &means) {
            Err(error) => {
                assert!(matches!(error, OptionProbeError::Full { .. }), "{error}");
                assert_eq!(error.class(), ExitClass::Environment);
                assert!(error.hint().unwrap().contains("TMPDIR="), "{error}");
            }
            // A sparse file system may fit after all; then nothing is blamed on an option.
            Ok(findings) => {
                expect(&findings, "noatime", OptionVerdict::Effective);
            }
        }
    }
    unmount(folder.path());
}

fn unmount(folder: &Path) {
    // The kernel detaches a loop device a moment after its last user has gone.
    for _ in 0..100 {
        match rustix::mount::unmount(folder, rustix::mount::UnmountFlags::empty()) {
            Err(rustix::io::Errno::BUSY) => std::thread::sleep(Duration::from_millis(50)),
            unmounted => return unmounted.unwrap(),
        }
    }
    panic!("{} is still in use", folder.display());
}

#[test]
fn an_interrupt_ends_it_and_leaves_nothing() {
    let ext4 = file_system(EXT4, &[("noatime", "mount = [\"noatime\"]")]);
    if skip(test_support::program("mkfs.ext4")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::new();
    interrupt.raise();
    let runner = SystemRunner::new(interrupt);
    let means = OptionProbeTools::without_mounting("a test").in_folder(folder.path());
    let error = measure(&runner, &ext4, &conditions(Bytes::kib(16)), &means).unwrap_err();
    assert_eq!(error.class(), ExitClass::Interrupted);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_was_found_is_kept_until_something_changes_or_it_is_refreshed() {
    let options = [("nojournal", "mkfs = { \"-O\" = [\"^has_journal\"] }")];
    let ext4 = file_system(EXT4, &options);
    if skip(test_support::program("mkfs.ext4")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(&folder.path().join("options.json"));
    let means = OptionProbeTools::without_mounting("a test");
    let runner = SystemRunner::default();
    let find = |filesystem: &FileSystem, conditions: &Conditions, refresh| {
        find_out(&runner, filesystem, conditions, &means, &cache, refresh).unwrap()
    };
    let (here, there) = (conditions(Bytes::kib(16)), conditions(Bytes::kib(8)));
    let first = find(&ext4, &here, false);
    assert!(!first.cached && first.not_kept.is_none());
    let second = find(&ext4, &here, false);
    assert!(second.cached);
    assert_eq!(first.findings, second.findings);
    assert!(!find(&ext4, &here, true).cached);
    assert!(!find(&ext4, &there, false).cached, "another geometry");
    let changed = file_system(&EXT4.replace("title = \"ext4\"", "title = \"mine\""), &options);
    assert!(!find(&changed, &here, false).cached, "another catalog");
    assert!(find(&ext4, &here, false).cached, "the first is still kept");
}

#[test]
fn options_that_take_the_numbers_of_a_plan_have_those_of_the_image() {
    for (name, options) in [("fat32", &["geometry", "vendor"][..]), ("exfat", &["geometry"])] {
        let filesystem = FileSystemCatalog::load(None).unwrap().filesystem(name).unwrap().clone();
        let (conditions, means) = (conditions(Bytes::kib(16)), OptionProbeTools::take());
        let findings = measure(&SystemRunner::default(), &filesystem, &conditions, &means).unwrap();
        for option in options {
            match findings.of(option).unwrap().verdict {
                OptionVerdict::ToolMissing => {
                    let reason = format!("{name}: its mkfs is not installed");
                    assert!(skip_part(Some(TestNeed::Tool.missing(reason))));
                }
                verdict => assert_eq!(verdict, OptionVerdict::Effective, "{name} {option}"),
            }
        }
    }
}
