//! Catalog files with mistakes: each is reported with its file, its line and the reason; and what
//! options of the user's own, and those of the machine, come to.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::path::Path;

use flashfit_catalog::Origin;
use flashfit_filesystem::{
    Conditions, Durability, FileSystemCatalog, FileSystemCatalogError, Recipe, Scheduler, Setup,
    SetupError, Variable,
};
use flashfit_user_error::{ExitClass, UserError};

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
    load_file("filesystems/tiny.toml", text)
}

fn load_file(name: &str, text: &str) -> Result<FileSystemCatalog, FileSystemCatalogError> {
    let user = tempfile::tempdir().unwrap();
    let file = user.path().join(name);
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
    FileSystemCatalog::load(Some(user.path()))
}

fn none() -> Scheduler {
    Scheduler::new("none")
}

#[test]
fn a_mistake_is_told_with_its_file_and_line() {
    let geometry = "mkfs = { \"-n\" = [\"{stride_blocks}\"] }";
    for (from, to, line, reason) in [
        ("title = \"Tiny\"", "titel = \"Tiny\"", 2, "unknown field `titel`"),
        ("title = \"Tiny\"", "title = Tiny", 2, ""),
        ("name = \"tiny\"", "name = \"other\"", 1, "not that of the file"),
        ("block_bytes = 4096", "block_bytes = 1000", 5, "power of two"),
        ("least_medium_bytes = \"1 MiB\"", "least_medium_bytes = \"1 mile\"", 4, "not a size"),
        ("program = \"mkfs.minix\"\n", "program = \"mkfs.minix\"\nforce = true\n", 8, "`force`"),
        ("name = \"b\"", "name = \"a\"", 23, "defined twice"),
        ("name = \"b\"", "name = \"base\"", 23, "without options"),
        ("name = \"b\"", "name = \"b c\"", 23, "is not a valid name"),
        (
            "durability = \"safe\"\nsource = \"me\"\n[[",
            "durability = \"save\"\nsource = \"me\"\n[[",
            20,
            "unknown variant `save`",
        ),
        (
            "durability = \"safe\"\nsource = \"me\"\n[[",
            "durability = \"may-corrupt\"\nsource = \"me\"\n[[",
            20,
            "no `risk`",
        ),
        (
            "title = \"B\"",
            "title = \"B\"\nexcludes = [\"aa\"]",
            25,
            "the unknown `aa`; did you mean `a`?",
        ),
        ("title = \"B\"", "title = \"B\"\nexcludes = [\"b\"]", 25, "excludes itself"),
        ("[tune]\n", "[promises]\nkeeps = []\nexceptions = [\"synced\"]\n[tune]\n", 1, "`keeps`"),
        ("title = \"B\"", "title = \"B\"\nneeds = [\"luck\"]", 25, "unknown variant `luck`"),
        ("title = \"A\"\n", "title = \"A\"\nmkfs = { \"-n\" = [\"1\"] }\n", 26, "both set `-n`"),
        ("mkfs = { \"-n\" = [\"2\"], \"-M\" = [] }", "", 23, "sets nothing"),
        (
            "mkfs = { \"-n\" = [\"2\"], \"-M\" = [] }",
            "mkfs = { \"-n\" = [\"{strid}\"] }",
            25,
            "unknown quantity `{strid}`",
        ),
        ("mkfs = { \"-n\" = [\"2\"], \"-M\" = [] }", geometry, 25, "which `needs` lacks"),
        (
            "version_args = []",
            "version_args = []\nargs = [\"{stride_blocks}\"]",
            9,
            "only an option",
        ),
        ("version_args = []", "version_args = []\nflags = { \"-n\" = [] }", 26, "always set"),
        ("[tune]\nprogram = \"tune2fs\"\nargs = [\"-c\"]\n", "", 14, "there is no [tune]"),
    ] {
        assert_eq!(TINY.matches(from).count(), 1, "{from}");
        let error = load(&TINY.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.class(), ExitClass::Usage);
        let text = error.to_string();
        assert!(text.contains(&format!("tiny.toml:{line}: ")), "{from}: {text}");
        assert!(text.contains(reason), "{reason}: {text}");
    }
}

#[test]
fn what_changes_an_existing_file_system_needs_a_program_for_it() {
    let change = r#"mount = ["a"]
existing = { apply = ["-O", "a"], restore = ["-O", "^a"] }"#;
    let with_tune = TINY.replacen("tune = [\"-O\", \"a\"]", change, 1);
    assert_ne!(with_tune, TINY);
    load(&with_tune).unwrap();
    let without = with_tune.replacen("[tune]\nprogram = \"tune2fs\"\nargs = [\"-c\"]\n", "", 1);
    assert_ne!(without, with_tune);
    let error = load(&without).unwrap_err();
    assert_eq!(error.class(), ExitClass::Usage);
    assert!(error.to_string().contains("has `existing`, but there is no [tune]"), "{error}");
}

#[test]
fn a_definition_names_known_programs_and_no_files() {
    for (from, to, line, reason) in [
        ("\"mkfs.minix\"", "\"/tmp/mkfs.minix\"", 7, "mkfs.program: `/tmp/mkfs.minix` is not"),
        ("\"mkfs.minix\"", "\"sh\"", 7, "mkfs.program: `sh` is not a known program"),
        ("\"tune2fs\"", "\"mkfs.minix\"", 10, "tune.program: `mkfs.minix` is not a known"),
        ("\"fsck.minix\"", "\"rm\"", 13, "fsck.program: `rm` is not a known program"),
        ("version_args = []", "version_args = [\"/etc/passwd\"]", 8, "could name a file"),
        ("args = [\"-c\"]", "args = [\"-z/etc/passwd\"]", 11, "could name a file"),
        ("tune = [\"-O\", \"a\"]", "mount = [\"device=/dev/sda\"]", 19, "could name a file"),
        ("tune = [\"-O\", \"a\"]", "mount = [\"ro,helper=sh\"]", 19, "is for mount(8)"),
        ("[\"2\"]", "[\"../2\"]", 25, "could name a file"),
        ("tune = [\"-O\", \"a\"]", "mount = [\"ro noatime\"]", 19, "is not a mount option"),
        ("tune = [\"-O\", \"a\"]", "mount = [\"ro,,noatime\"]", 19, "is not a mount option"),
        ("tune = [\"-O\", \"a\"]", "mount = [\"\"]", 19, "is not a mount option"),
        ("tune = [\"-O\", \"a\"]", "mount = [\"commit=\"]", 19, "is not a mount option"),
        ("tune = [\"-O\", \"a\"]", "mount = [\"-o\"]", 19, "is not a mount option"),
        ("tune = [\"-O\", \"a\"]", "mount = [\"remount\"]", 19, "is for mount(8)"),
        ("[tune]", "[crash]\nmount = [\"a b\"]\n[tune]", 10, "is not a mount option"),
        ("[tune]", "[crash]\nflags = { \"-n\" = [\"/x\"] }\n[tune]", 10, "could name a file"),
        ("kind = \"tiny\"", "kind = \"fuse.sh\"", 3, "kind: `fuse.sh` is not the name"),
        ("kind = \"tiny\"", "kind = \"fuseblk\"", 3, "kind: `fuseblk` is not the name"),
    ] {
        assert_eq!(TINY.matches(from).count(), 1, "{from}");
        let error = load(&TINY.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.class(), ExitClass::Usage);
        let text = error.to_string();
        assert!(text.contains(&format!("tiny.toml:{line}: ")), "{from}: {text}");
        assert!(text.contains(reason), "{reason}: {text}");
    }
}

#[test]
fn what_is_said_of_an_option_is_checked() {
    let b = "mkfs = { \"-n\" = [\"2\"], \"-M\" = [] }";
    for (line, text, reason) in [
        (25, "implies = [\"b\"]", "`b` implies itself"),
        (25, "implies = [\"bb\"]", "implies the unknown `bb`; did you mean `b`?"),
        (25, "implies = [\"a\"]\nexcludes = [\"a\"]", "`b` implies `a`, which it cannot be"),
        (25, "since = { kernel = \"new\" }", "`new` is not a version"),
        (25, "since = { kernels = \"5.10\" }", "unknown field `kernels`"),
        (25, "try = \"no\"", "expected a boolean"),
        (25, "sysctl = { \"vm/../../etc\" = \"1\" }", "is not a sysctl"),
        (25, "sysctl = { \"vm..dirty\" = \"1\" }", "is not a sysctl"),
        (25, "sysctl = { \"kernel.panic\" = \"1\" }", "is not a sysctl"),
        (25, "sysfs = { \"../../etc/passwd\" = \"1\" }", "is not an attribute of a queue"),
        (25, "sysfs = { \"queue/../device/delete\" = \"1\" }", "is not an attribute of a queue"),
        (25, "timer = \"fstrim.timer; reboot\"", "is not a valid name of a timer"),
        (25, "mount = [\"size={cluster_sectors}\"]", "needs plan, which `needs` lacks"),
    ] {
        let error = load(&TINY.replacen(b, text, 1)).unwrap_err();
        let told = error.to_string();
        assert!(told.contains(&format!("tiny.toml:{line}: ")), "{text}: {told}");
        assert!(told.contains(reason), "{reason}: {told}");
    }
}

/// Options `c` to `e` behind those of the valid file, with the message for each.
fn with_more(says: [&str; 3]) -> String {
    let option = |(name, says)| {
        format!(
            "[[option]]\nname = \"{name}\"\ntitle = \"T\"\n{says}\nmount = [\"{name}\"]\n\
             durability = \"safe\"\nsource = \"me\"\n"
        )
    };
    let more: String = ["c", "d", "e"].into_iter().zip(says).map(option).collect();
    format!("{TINY}{more}")
}

#[test]
fn a_circle_of_implications_is_refused_wherever_it_is_entered() {
    let circle = with_more(["implies = [\"d\"]", "implies = [\"e\"]", "implies = [\"d\"]"]);
    let error = load(&circle).unwrap_err();
    assert_eq!(error.class(), ExitClass::Usage);
    let told = error.to_string();
    assert!(told.contains("tiny.toml:45: a circle: `d` implies `e` implies `d`"), "{told}");
    let far = with_more(["implies = [\"d\"]", "implies = [\"e\"]", "excludes = [\"c\"]"]);
    let told = load(&far).unwrap_err().to_string();
    assert!(told.contains(":31: `c` implies `e`, which it cannot be combined"), "{told}");
    let two = with_more(["implies = [\"d\", \"e\"]", "", "excludes = [\"d\"]"]);
    let told = load(&two).unwrap_err().to_string();
    assert!(told.contains(":31: `c` implies `d` and `e`, which cannot"), "{told}");
}

#[test]
fn a_setup_has_all_that_its_options_imply() {
    let catalog =
        load(&with_more(["implies = [\"e\"]", "", "implies = [\"b\"]\nneeds = [\"discard\"]"]));
    let tiny = catalog.unwrap().filesystem("tiny").unwrap().clone();
    let conditions = Conditions { discard: true, ..Conditions::default() };
    let setup = Setup::new(&tiny, ["c"], none(), &conditions).unwrap();
    assert_eq!(setup.options, ["b", "c", "e"]);
    let recipe = Recipe::new(&tiny, &setup, &conditions).unwrap();
    assert_eq!(recipe.mkfs(Path::new("/dev/x")).command_line(), "mkfs.minix -M -n 2 /dev/x");
    assert_eq!(recipe.mount_options(), ["c", "e"]);
    let why = tiny.why_not(tiny.option("c").unwrap(), &Conditions::default()).unwrap();
    assert_eq!(why, "it implies `e`, and the device does not support discard");
    let mut torn = setup;
    torn.options.retain(|name| name != "b");
    let error = Recipe::new(&tiny, &torn, &conditions).unwrap_err();
    assert!(matches!(error, SetupError::Lacks { .. }), "{error}");
    assert_eq!(error.hint(), Some("add `b`".into()));
}

#[test]
fn an_option_of_the_machine_is_one_of_every_file_system() {
    let knob = "[[option]]\nname = \"swappy\"\ntitle = \"T\"\nsysctl = { \"vm.swappiness\" = \"1\" }\n\
                durability = \"safe\"\nsource = \"me\"\n";
    let catalog = load_file("knobs/mine.toml", knob).unwrap();
    for filesystem in catalog.filesystems() {
        let found = filesystem.option("swappy").unwrap();
        assert!(matches!(found.origin, Origin::File(_)));
        let built_in = filesystem.option("dirty-16m").unwrap();
        assert!(matches!(built_in.origin, Origin::BuiltIn(_)) && !built_in.tried);
    }
    let ext4 = catalog.filesystem("ext4").unwrap();
    let conditions = Conditions::default();
    let options = ["swappy", "dirty-16m", "readahead-1m"];
    let setup = Setup::new(ext4, options, none(), &conditions).unwrap();
    let recipe = Recipe::new(ext4, &setup, &conditions).unwrap();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(recipe.sysctl()[2], pair("vm.swappiness", "1"));
    assert!(recipe.sysctl().contains(&pair("vm.dirty_bytes", "16777216")));
    assert_eq!(recipe.sysfs(), [pair("queue/read_ahead_kb", "1024")]);
    for (from, to, line, reason) in [
        ("swappy", "noatime", 2, "btrfs has two options `noatime`; the other one is from built-in"),
        ("swappy", "dirty-16m", 2, "two options `dirty-16m`; the other one is from built-in"),
        ("sysctl = { \"vm.swappiness\" = \"1\" }", "mount = [\"x\"]", 2, "sysctl, sysfs or timer"),
        ("sysctl", "sysctls", 4, "unknown field `sysctls`"),
    ] {
        let told = load_file("knobs/mine.toml", &knob.replacen(from, to, 1)).unwrap_err();
        let told = told.to_string();
        assert!(told.contains(&format!("knobs/mine.toml:{line}: ")), "{told}");
        assert!(told.contains(reason), "{told}");
    }
}

/// Whichever of the two files is the user's is the one with the mistake.
#[test]
fn an_option_with_the_name_of_a_built_in_one_is_the_users_mistake() {
    let knob = "[[option]]\nname = \"dirty-16m\"\ntitle = \"T\"\n\
                sysctl = { \"vm.swappiness\" = \"1\" }\ndurability = \"safe\"\nsource = \"me\"\n";
    let with_option = TINY.replacen("name = \"b\"", "name = \"dirty-16m\"", 1);
    for (file, text, place) in [
        // The names before and behind that of the built-in file.
        ("knobs/a.toml", knob, "knobs/a.toml:2: "),
        ("knobs/z.toml", knob, "knobs/z.toml:2: "),
        ("filesystems/tiny.toml", with_option.as_str(), "filesystems/tiny.toml:23: "),
    ] {
        let error = load_file(file, text).unwrap_err();
        let told = error.to_string();
        assert_eq!(error.class(), ExitClass::Usage, "{told}");
        assert!(told.contains(place) && told.contains("two options `dirty-16m`"), "{told}");
        assert!(told.contains("built-in catalog/knobs/memory.toml"), "{told}");
        assert!(error.hint().unwrap().text().unwrap().contains("EDITOR"), "{told}");
    }
}

#[test]
fn an_image_needs_hosts_of_the_catalog() {
    let image = |hosts: &str| {
        let layered = format!("[layered]\nimage = \"i\"\nhosts = {hosts}\n[tune]");
        let packed = TINY.replacen("[tune]", &layered, 1);
        packed.replacen("version_args = []", "version_args = []\nfrom_folder = true", 1)
    };
    load(&image("[\"ext4\"]")).unwrap();
    let error = load(&image("[\"ext4\", \"ext5\"]")).unwrap_err();
    assert_eq!(error.class(), ExitClass::Usage);
    let text = error.to_string();
    assert!(text.contains("tiny.toml:12: [layered] hosts: unknown file system `ext5`"), "{text}");
    assert!(text.contains("did you mean `ext"), "{text}");
}

/// The user's file cannot exclude what is in another file.
#[test]
fn two_options_that_set_the_same_attribute_are_not_combined() {
    let knob = "[[option]]\nname = \"dirty-1m\"\ntitle = \"T\"\n\
                sysctl = { \"vm.dirty_bytes\" = \"1048576\" }\ndurability = \"safe\"\n\
                source = \"me\"\n";
    let catalog = load_file("knobs/mine.toml", knob).unwrap();
    let ext4 = catalog.filesystem("ext4").unwrap();
    let conditions = Conditions::default();
    let both = Setup::new(ext4, ["dirty-1m", "dirty-16m"], none(), &conditions);
    assert!(matches!(both, Err(SetupError::Conflict { .. })), "{both:?}");
    Setup::new(ext4, ["dirty-1m", "readahead-1m"], none(), &conditions).unwrap();
}

#[test]
fn a_file_system_without_a_journal_is_no_safer_than_it_is() {
    let catalog = FileSystemCatalog::load(None).unwrap();
    for name in ["ext2", "fat32", "exfat"] {
        let filesystem = catalog.filesystem(name).unwrap();
        let verdict = Setup::base(filesystem, none()).durability(filesystem).unwrap();
        assert_eq!(verdict.durability, Durability::MayCorrupt, "{name}");
        assert_eq!(verdict.risks[0].option, "base");
    }
    let told = load(&TINY.replacen(
        "block_bytes = 4096",
        "durability = \"may-corrupt\"\nblock_bytes = 4096",
        1,
    ));
    assert!(told.unwrap_err().to_string().contains(":1: the file system is not safe"));
}

#[test]
fn the_built_in_catalog_says_what_it_must() {
    let catalog = FileSystemCatalog::load(None).unwrap();
    let names: Vec<&str> = catalog.filesystems().iter().map(|found| found.name.as_str()).collect();
    let all =
        ["btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fat32", "nilfs2", "squashfs", "xfs"];
    assert_eq!(names, all);
    for filesystem in catalog.filesystems() {
        for option in &filesystem.options {
            let place = format!("{} {}", filesystem.name, option.name);
            assert!(!option.source.trim().is_empty() && !option.title.is_empty(), "{place}");
            let sentences = [Some(&option.risk), option.note.as_ref()];
            for text in sentences.into_iter().flatten().filter(|text| !text.is_empty()) {
                assert!(text.ends_with('.'), "{place}: {text}");
            }
        }
    }
    let durability = |filesystem: &str, option: &str| {
        catalog.filesystem(filesystem).unwrap().option(option).unwrap().durability
    };
    for (filesystem, option, expected) in [
        ("ext4", "commit-600", Durability::LosesRecent),
        ("ext4", "lazytime", Durability::LosesRecent),
        ("ext4", "nojournal", Durability::MayCorrupt),
        ("btrfs", "notreelog", Durability::Safe),
        ("btrfs", "compress-zstd-3", Durability::Safe),
        ("btrfs", "nodatacow", Durability::LosesRecent),
        ("f2fs", "strict", Durability::Safe),
        ("f2fs", "fsync-nobarrier", Durability::BreaksPromise),
        ("f2fs", "nobarrier", Durability::MayCorrupt),
        ("ext4", "dirty-16m", Durability::Safe),
    ] {
        assert_eq!(durability(filesystem, option), expected, "{filesystem} {option}");
    }
    let geometry = catalog.filesystem("ext4").unwrap().option("geometry").unwrap();
    assert_eq!(geometry.quantities(), [Variable::StripeWidthBlocks, Variable::StrideBlocks]);
}
