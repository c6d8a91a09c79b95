//! `flashfit plan`: the examples of the published recipes, and that a plan changes nothing.
//!
//! After an intended change, `FLASHFIT_BLESS=1 cargo test -p flashfit --test plan` rewrites the
//! golden files.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::path::Path;
use std::process::{Command, Output};

use flashfit_filesystem::plan::file;
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_test_support::{block_devices, skip};
use serde_json::Value;

/// Capacities of the cards in the recipes; typical ones for Gentoo's and Linutop's.
const DREAMPLUG: u64 = 8_068_792_320;
const CLASS_32: u64 = 31_914_983_424;
const PANDORA: u64 = 66_436_726_784;

fn flashfit(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flashfit"));
    command.args(args).current_dir(folder).output().expect("the binary was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn good(folder: &Path, args: &[&str]) -> String {
    let output = flashfit(folder, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn image(folder: &Path, size: u64) {
    let file = std::fs::File::create(folder.join("card.img")).unwrap();
    file.set_len(size).unwrap();
}

fn golden(name: &str, rendered: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    flashfit_test_support::golden(folder.join(name), rendered);
}

/// The text of a plan. Asserts that lines fit into 80 columns, except for long words and fstab(5)
/// lines.
fn planned(size: u64, args: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    image(folder.path(), size);
    let text = good(folder.path(), &[&["plan", "card.img"], args].concat());
    for line in text.lines().filter(|line| line.chars().count() > 80) {
        assert!(line.trim_start().starts_with('\'') || line.ends_with(" 0 0"), "{line}");
    }
    text
}

#[test]
fn the_dreamplug_example_matches() {
    let text = planned(DREAMPLUG, &["--recipe", "dreamplug", "--allow", "may-corrupt"]);
    assert!(text.contains("start=16384,"), "{text}");
    assert!(text.contains("-b 4096 -O ^has_journal -E stride=2,stripe-width=1024"), "{text}");
    golden("plan-dreamplug.txt", &text);
    let geometry = ["--erase-block", "8MiB", "--write-unit", "8KiB", "--fs", "ext4"];
    let ours = planned(DREAMPLUG, &geometry);
    assert!(ours.contains("start=16384,"), "{ours}");
    assert!(ours.contains("-b 4096 -E stride=2,stripe-width=2048"), "{ours}");
    assert!(ours.contains("The recipe `dreamplug`"), "{ours}");
    golden("plan-dreamplug-by-rule.txt", &ours);
}

#[test]
fn without_permission_the_dreamplug_keeps_its_journal() {
    let text = planned(DREAMPLUG, &["--recipe", "dreamplug"]);
    assert!(text.contains("-b 4096 -E stride=2,stripe-width=1024"), "{text}");
    assert!(text.contains("--allow may-corrupt"), "{text}");
}

#[test]
fn the_gentoo_wiki_example_matches() {
    let geometry = ["--erase-block", "4MiB", "--write-unit", "16KiB", "--fs", "ext4"];
    let text = planned(CLASS_32, &geometry);
    assert!(text.contains("-b 4096 -E stride=4,stripe-width=1024"), "{text}");
    golden("plan-gentoo.txt", &text);
    let by_recipe = planned(CLASS_32, &["--recipe", "gentoo"]);
    assert!(by_recipe.contains("-E stride=4,stripe-width=1024"), "{by_recipe}");
}

#[test]
fn the_linutop_example_matches() {
    let text = planned(CLASS_32, &["--recipe", "linutop", "--allow", "may-corrupt"]);
    assert!(text.contains("-E stride=128,stripe-width=128"), "{text}");
    assert!(!text.contains("sfdisk"), "{text}");
    golden("plan-linutop.txt", &text);
}

#[test]
fn the_pandora_example_matches() {
    let text = planned(PANDORA, &["--recipe", "pandora"]);
    assert!(text.contains("start=16384,"), "{text}");
    golden("plan-pandora.txt", &text);
}

#[test]
fn an_image_with_a_writable_layer_is_planned() {
    let geometry = ["--erase-block", "4MiB", "--write-unit", "16KiB"];
    let text = planned(CLASS_32, &[&geometry[..], &["--fs", "squashfs"]].concat());
    assert!(text.contains("-b 4096 -E stride=4,stripe-width=1024"), "{text}");
    assert!(text.contains("mksquashfs FOLDER /mnt/flash/system.squashfs"), "{text}");
    assert!(text.contains("Only you know which directory is packed"), "{text}");
    let fstab = "\n    overlay /mnt/flash/merged overlay lowerdir=/mnt/flash/lower,";
    assert!(text.contains(fstab), "{text}");
    assert!(text.contains("flashfit plan card.img --fs squashfs"), "{text}");
    golden("plan-squashfs.txt", &text);
    let options = ["--host", "f2fs", "--options", "xz,block-256k,noatime"];
    let own = planned(CLASS_32, &[&["--fs", "squashfs"][..], &geometry, &options].concat());
    assert!(own.contains("squashfs block-256k+xz on f2fs noatime"), "{own}");
    assert!(own.contains("-b 262144"), "{own}");
    let both = planned(CLASS_32, &[&geometry[..], &["--fs", "btrfs,squashfs", "--all"]].concat());
    assert!(both.contains("=== squashfs block-16k+zstd on btrfs "), "{both}");
}

#[test]
fn a_plan_for_a_simulated_card_uses_its_model() {
    let folder = tempfile::tempdir().unwrap();
    golden("plan-simulated.txt", &good(folder.path(), &["plan", "--all", "sim:sd-c4-block"]));
}

#[test]
fn without_a_name_one_plan_is_suggested_and_the_others_have_a_line() {
    let folder = tempfile::tempdir().unwrap();
    image(folder.path(), DREAMPLUG);
    let short = good(folder.path(), &["plan", "card.img"]);
    assert!(short.contains("Suggested: ext4"), "{short}");
    assert_eq!(short.matches("\n=== ").count(), 1, "{short}");
    assert!(short.contains("Other plans:") && short.contains("--fs"), "{short}");
    let all = good(folder.path(), &["plan", "card.img", "--all"]);
    assert!(all.matches("\n=== ").count() > 3 && all.contains("Not planned:"), "{all}");
    let json: Value =
        serde_json::from_str(&good(folder.path(), &["plan", "card.img", "--json"])).unwrap();
    let standings = json["data"]["standings"].as_array().unwrap();
    assert_eq!(standings[0]["filesystem"], "ext4");
    let in_kernel: Vec<bool> =
        standings.iter().map(|one| one["in_kernel"].as_bool().unwrap()).collect();
    assert!(in_kernel.is_sorted_by_key(|has| !has), "those of another kernel are last");
}

#[test]
fn a_plan_does_not_change_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let before: Vec<u8> = (0..96u32 << 20).map(|n| (n >> 9) as u8 ^ (n % 251) as u8).collect();
    let path = folder.path().join("card.img");
    std::fs::write(&path, &before).unwrap();
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    good(folder.path(), &["plan", "card.img", "--erase-block", "1MiB"]);
    good(folder.path(), &["plan", "card.img", "--erase-block", "1MiB", "--fs", "fat32", "--json"]);
    assert!(std::fs::read(&path).unwrap() == before);
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), modified);
}

#[test]
fn a_device_that_refuses_writes_can_be_planned_for() {
    if skip(block_devices()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    image(folder.path(), 1 << 30);
    let options = LoopOptions { read_only: true, direct_io: false, ..LoopOptions::default() };
    let device = LoopDevice::attach(&folder.path().join("card.img"), options).unwrap();
    let node = device.node().display().to_string();
    let text = good(folder.path(), &["plan", &node, "--erase-block", "4MiB", "--fs", "ext4"]);
    assert!(text.contains(&format!("{node}p1")), "{text}");
}

#[test]
fn a_plan_in_a_file_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    image(folder.path(), DREAMPLUG);
    let unit = ["--erase-block", "8MiB", "--fs", "f2fs"];
    let args = [&["plan", "card.img", "--output", "plan.json", "--json"][..], &unit].concat();
    let printed: Value = serde_json::from_str(&good(folder.path(), &args)).unwrap();
    assert_eq!(printed["schema"], "flashfit.plans");
    let written = std::fs::read_to_string(folder.path().join("plan.json")).unwrap();
    let plan = file::read(&written).unwrap();
    assert_eq!(serde_json::to_value(&plan).unwrap(), printed["data"]["plans"][0]);
    assert_eq!(plan.number("section_bytes"), Some(8 << 20));
    let other = written.replace("flashfit.plan\"", "flashfit.run\"");
    assert!(file::read(&other).unwrap_err().to_string().contains("flashfit.run"));
}

#[test]
fn a_written_plan_is_named_in_the_next_command() {
    let folder = tempfile::tempdir().unwrap();
    image(folder.path(), 64 << 20);
    let plan = ["plan", "card.img", "--fs", "ext4", "--no-probe"];
    let text = good(folder.path(), &[&plan[..], &["--output", "plan2.json"]].concat());
    assert!(text.contains("Written: plan2.json\n"), "{text}");
    assert!(text.contains("    flashfit apply plan2.json card.img\n"), "{text}");
    assert!(!text.contains("Nothing was written") && !text.contains("plan.json"), "{text}");
    let text = good(folder.path(), &plan);
    assert!(text.contains("--output plan.json\n    flashfit apply plan.json card.img\n"), "{text}");
    assert!(text.contains("Nothing was written: these are plans."), "{text}");
}

#[test]
fn impossible_plans_are_reported_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    image(folder.path(), 1 << 30);
    let squashfs = |args: &[&'static str]| [&["--fs", "squashfs"][..], args].concat();
    let cases: [(&[&str], i32, &str); 13] = [
        (&["--fs", "ext5"], 2, "did you mean"),
        (&["--recipe", "dreamplugs"], 2, "did you mean `dreamplug`"),
        (&["--fs", "ext4", "--options", "noatme"], 2, "did you mean `noatime`"),
        (&["--fs", "ext4", "--options", "nojournal"], 3, "--allow may-corrupt"),
        (&["--fs", "ext4", "--options", "geometry"], 2, "the erase block of the device is unknown"),
        (&["--fs", "btrfs", "--options", "geometry"], 2, "--write-unit"),
        (&["--start", "whole", "--table", "gpt"], 2, "leave out --table or --start"),
        (&["--output", "plan.json", "--erase-block", "4MiB"], 2, "--fs ext4"),
        (&squashfs(&["--host", "fat32"]), 2, "one of ext4, btrfs"),
        (&squashfs(&["--host", "ext2"]), 0, ""),
        (&squashfs(&["--options", "zst"]), 2, "did you mean"),
        (&squashfs(&["--mount-point", "/mnt/a,b"]), 2, "--mount-point"),
        (&["--fs", "ext4", "--host", "ext4"], 2, "leave --host out"),
    ];
    for (args, code, part) in cases {
        let output = flashfit(folder.path(), &[&["plan", "card.img"], args].concat());
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(part), "{args:?}: {errors}");
    }
    assert!(!folder.path().join("plan.json").exists());
}

#[test]
fn a_flag_that_is_wrong_for_every_file_system_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    image(folder.path(), 64 << 20);
    for (flag, value, said) in [
        ("--erase-block", "4MB", "4000000 bytes is not made of sectors of 512"),
        ("--erase-block", "0", "0 bytes is not made of sectors of 512"),
        ("--write-unit", "0", "a write unit of 0 bytes is not made of sectors of 512"),
        ("--write-unit", "3000", "a write unit of 3000 bytes is not made of sectors"),
        ("--write-unit", "3KiB", "neither a power of two nor a multiple of 4 KiB"),
        ("--erase-block", "128MiB", "is larger than the device of 64 MiB"),
        ("--mount-point", "mnt", "does not begin with /"),
    ] {
        let output = flashfit(folder.path(), &["plan", "card.img", flag, value]);
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
    let output = flashfit(folder.path(), &["plan", ""]);
    assert_eq!(output.status.code(), Some(2), "an empty name: {}", text(&output.stderr));
    let sizes = ["--erase-block", "4MiB", "--write-unit", "8MiB"];
    let output = flashfit(folder.path(), &[&["plan", "card.img"], &sizes[..]].concat());
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("a write unit of 8 MiB is larger than the erase block"), "{errors}");
    let whole = ["--erase-block", "4MiB", "--write-unit", "4MiB"];
    good(folder.path(), &[&["plan", "card.img"], &whole[..]].concat());
}

#[test]
fn the_exit_code_shows_that_nothing_can_be_planned() {
    let folder = tempfile::tempdir().unwrap();
    image(folder.path(), 1 << 20);
    let output = flashfit(folder.path(), &["plan", "card.img", "--erase-block", "1MiB"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("Not planned:"), "{}", text(&output.stdout));
}

/// Plans for a card of which the author's table of `flashbench -a` is all that is known.
fn planned_from_table(size: u64, table: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    image(folder.path(), size);
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/published-tables");
    let table = tables.join(table);
    let table = table.to_str().expect("text");
    good(folder.path(), &["probe", "--import", table, "--output", "card.json"]);
    let known = ["--geometry", "card.json", "--fs", "ext4", "--table", "mbr"];
    good(folder.path(), &[&["plan", "card.img"], &known[..]].concat()).replace("\n  ", " ")
}

/// Each table leads to the numbers that its author printed, or the plan says what differs.
#[test]
fn published_tables_lead_to_published_numbers() {
    let dreamplug = planned_from_table(DREAMPLUG, "dreamplug.txt");
    assert!(dreamplug.contains("start=16384,"), "{dreamplug}");
    assert!(dreamplug.contains("-E stride=2,stripe-width=2048"), "{dreamplug}");
    assert!(dreamplug.contains("8 KiB, not certain, the likeliest by the probe"), "{dreamplug}");
    assert!(dreamplug.contains("counts the stripe width in strides"), "{dreamplug}");
    let gentoo = planned_from_table(CLASS_32, "gentoo.txt");
    assert!(gentoo.contains("start=8192,"), "{gentoo}");
    assert!(gentoo.contains("-E stride=4,stripe-width=1024"), "{gentoo}");
    assert!(gentoo.contains("4 MiB, not certain, the likeliest by the probe"), "{gentoo}");
    let pandora = planned_from_table(PANDORA, "pandora.txt");
    assert!(pandora.contains("start=16384,"), "{pandora}");
    let celf = planned_from_table(DREAMPLUG, "celf.txt");
    assert!(celf.contains("start=8192,"), "{celf}");
    // Their page is 16384 bytes, their erase block 4194304.
    assert!(celf.contains("-E stride=4,stripe-width=1024"), "{celf}");
}

#[test]
fn a_write_unit_that_nothing_shows_is_the_usual_one() {
    let text = planned(DREAMPLUG, &["--erase-block", "8MiB", "--fs", "ext4"]);
    assert!(text.contains("-E stride=4,stripe-width=2048"), "{text}");
    assert!(text.contains("not known, as usual: 11 of 13 published cards"), "{text}");
}

/// The catalog's counts are what `probe --import` finds in the tables.
#[test]
fn the_usual_write_units_are_those_of_published_tables() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cards = here.join("../geometry/tests/data/flashbench");
    let mut devices: Vec<Vec<std::path::PathBuf>> = Vec::new();
    for card in std::fs::read_dir(cards).unwrap().map(|card| card.unwrap().path()) {
        let Ok(files) = std::fs::read_dir(&card) else { continue };
        let is_align = |path: &std::path::PathBuf| path.to_string_lossy().contains("/align");
        devices.push(files.map(|file| file.unwrap().path()).filter(is_align).collect());
    }
    let others = std::fs::read_dir(here.join("tests/data/published-tables")).unwrap();
    devices.extend(others.map(|file| vec![file.unwrap().path()]));
    let mut found = std::collections::BTreeMap::new();
    for tables in &devices {
        let mut args = vec!["probe", "--json"];
        for table in tables {
            args.extend(["--import", table.to_str().expect("text")]);
        }
        let document: Value = serde_json::from_str(&good(here, &args)).unwrap();
        if let Some(bytes) = document["write_unit"]["bytes"].as_u64() {
            *found.entry(bytes).or_insert(0_u64) += 1;
        }
    }
    assert_eq!((devices.len(), &found), (20, &[(8 << 10, 2), (16 << 10, 11)].into()));
    let catalog = include_str!("../../../catalog/geometry/published.toml");
    assert!(catalog.contains("size = \"16 KiB\"\ncards = 11"), "{catalog}");
    assert!(catalog.contains("size = \"8 KiB\"\ncards = 2"), "{catalog}");
}
