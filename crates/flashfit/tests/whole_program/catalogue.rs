//! The catalogue as the whole program uses it: the user's own files, file systems that are only
//! planned, and options of the machine.

use crate::fixture::{Place, skip_without_cards};

const OWN_FILE_SYSTEM: &str = r#"name = "mine"
title = "My own"
kind = "ext4"
least_medium_bytes = "8 MiB"
block_bytes = 4096
[mkfs]
program = "mkfs.ext4"
version_args = ["-V"]
[fsck]
program = "e2fsck"
args = ["-n"]
pass = 0
"#;

const OWN_KNOB: &str = r#"[[option]]
name = "swappy"
title = "swaps late"
sysctl = { "vm.swappiness" = "1" }
durability = "safe"
source = "me"
"#;

fn place_with_own_catalogue() -> Place {
    let place = Place::new();
    for folder in ["own/filesystems", "own/knobs"] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
    }
    place.file("own/filesystems/mine.toml", OWN_FILE_SYSTEM);
    place.file("own/knobs/mine.toml", OWN_KNOB);
    place
}

#[test]
fn the_users_own_entries_are_shown_as_such() {
    let place = place_with_own_catalogue();
    let text = place.flashfit(&["catalog", "--catalog", "own"]).stdout;
    assert!(text.contains("file system mine (My own), from own/filesystems/mine.toml"), "{text}");
    assert!(text.contains("any file system, from own/knobs/mine.toml"), "{text}");
    assert!(text.contains("\nfile system ext4 (ext4)\n"), "{text}");
    let names = place.flashfit(&["catalog", "--catalog", "own", "--json"]);
    let names = names.document("flashfit.catalog");
    let own = |list: &str, name: &str| {
        let entries = names[list].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["name"] == name).unwrap();
        entry["own"].as_bool().unwrap()
    };
    assert!(own("filesystems", "mine") && own("knobs", "swappy"));
    assert!(!own("filesystems", "ext4") && !own("knobs", "dirty-16m"));
}

#[test]
fn a_mistake_in_the_users_catalogue_is_told_with_its_place() {
    let place = place_with_own_catalogue();
    place.file("own/knobs/mine.toml", &OWN_KNOB.replace("safe", "save"));
    let ended = place.flashfit(&["catalog", "--catalog", "own"]);
    ended.said(2, &["own/knobs/mine.toml, line 5: ", "unknown variant `save`"]);
}

#[test]
fn a_file_system_that_is_only_planned_is_refused_before_the_medium_is_touched() {
    let place = Place::new();
    let image = place.image("image", 64);
    let before = std::fs::read(&image).unwrap();
    let arguments = ["tune", "image", "--fs", "squashfs", "--dir", "run", "--confirm", "image"];
    place.flashfit(&arguments).said(2, &["squashfs cannot be tried", "--fs"]);
    assert_eq!(std::fs::read(&image).unwrap(), before);
    assert!(!place.path("run").exists());
}

#[test]
fn knobs_of_the_machine_are_as_they_were_after_the_trials() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.file(
        "short.toml",
        "filesystems = [\"ext3\"]\nworkloads = [\"sync-files\"]\nschedulers = [\"none\"]\n\
         repeats = 1\nconfirm_rounds = 0\ndata_size = \"4MiB\"\nruntime_ms = 200\n\
         allow = \"loses-recent\"\n[options.ext3]\nalways = [\"dirty-16m\", \"readahead-1m\"]\n\
         include = [\"commit-60\"]\n\
         exclude = [\"noatime\", \"discard\", \"writeback\", \"nobarrier\", \"geometry\"]\n",
    );
    let names = ["dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio"];
    let knobs =
        || names.map(|name| std::fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap());
    let before = knobs();
    place.tune(&place.card(), &[]).said(0, &[]);
    assert_eq!(knobs(), before, "{names:?}");
    let records = place.recorded();
    assert_eq!(records.len(), 2, "{records:?}");
    let with = |text: &str| records.iter().filter(|record| record.contains(text)).count();
    assert_eq!(with("\"dirty-16m\",\"readahead-1m\""), 2, "{records:?}");
    assert_eq!(with("\"commit-60\""), 1, "{records:?}");
    let ended = records.iter().filter(|record| record.contains("\"completed\"")).count();
    assert_eq!(ended, 2, "{records:?}");
}

#[test]
fn what_no_trial_can_show_is_refused_where_it_would_be_in_every_one() {
    let place = Place::new();
    place.file("my.toml", "filesystems = [\"ext4\"]\n[options.ext4]\nalways = [\"fstrim\"]\n");
    let arguments = ["tune", &place.card(), "--config", "my.toml", "--dry-run", "--dir", "run"];
    place.flashfit(&arguments).said(2, &["fstrim.timer", "take `fstrim` out"]);
}
