//! The catalog in the whole program: the user's files, plan-only file systems, and options of the
//! machine.

use flashfit_test_support::{programs, skip_part};
use serde_json::Value;

use crate::fixture::{Place, skip_without_block_devices, skip_without_cards};
use crate::machine::wait_for_no_traces;

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

fn place_with_own_catalog() -> Place {
    let place = Place::new();
    for folder in ["own/filesystems", "own/knobs"] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
    }
    place.file("own/filesystems/mine.toml", OWN_FILE_SYSTEM);
    place.file("own/knobs/mine.toml", OWN_KNOB);
    place
}

#[test]
fn the_users_entries_are_marked() {
    let place = place_with_own_catalog();
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
fn errors_in_the_users_catalog_are_reported_with_location() {
    let place = place_with_own_catalog();
    place.file("own/knobs/mine.toml", &OWN_KNOB.replace("safe", "save"));
    let ended = place.flashfit(&["catalog", "--catalog", "own"]);
    ended.said(2, &["own/knobs/mine.toml:5: ", "unknown variant `save`"]);
}

/// Whatever is the user's mistake ends with 2, and names the user's file.
#[test]
fn what_is_never_read_or_has_a_taken_name_is_the_users_mistake() {
    let place = place_with_own_catalog();
    let refused = |file: &str, text: &str, said: &[&str]| {
        let folder = place.path(file).parent().unwrap().to_owned();
        let is_new = !folder.exists();
        std::fs::create_dir_all(&folder).unwrap();
        place.file(file, text);
        for command in [&["catalog"][..], &["card", "list"], &["plan", "sim:sd-c4-block"]] {
            // A command reads only what it needs, but everything is looked for.
            if said[0].contains("nothing reads") || command[0] == "catalog" {
                place.flashfit(&[command, &["--catalog", "own"]].concat()).said(2, said);
            }
        }
        std::fs::remove_file(place.path(file)).unwrap();
        if is_new {
            std::fs::remove_dir(folder).unwrap();
        }
    };
    refused(
        "own/card/mine.toml",
        "",
        &["own/card: nothing reads this", "hint: mv own/card own/cards"],
    );
    let unread = "own/knobs/mine.tml: nothing reads this file";
    refused("own/knobs/mine.tml", "", &[unread, "hint: move own/knobs/mine.tml out of"]);
    let unread = "own/knobs/other.tml: nothing reads this file";
    refused(
        "own/knobs/other.tml",
        "",
        &[unread, "hint: mv own/knobs/other.tml own/knobs/other.toml"],
    );
    let clash = OWN_KNOB.replace("swappy", "dirty-16m");
    let told = "own/knobs/a.toml:2: btrfs has two options `dirty-16m`";
    refused("own/knobs/a.toml", &clash, &[told, "hint: ${EDITOR:-vi} +2 own/knobs/a.toml"]);
    let option = "[[option]]\nname = \"x\"\ntitle = \"x\"\nmount = [\"a b\"]\n\
                  durability = \"safe\"\nsource = \"me\"\n";
    let bad = OWN_FILE_SYSTEM.replace("\"mine\"", "\"bad\"") + option;
    refused("own/filesystems/bad.toml", &bad, &["bad.toml:16: mount: `a b` is not a mount option"]);
    let card = place.flashfit(&["card", "show", "sd-c4-block", "--file"]).stdout;
    refused("own/cards/mine.toml", &card, &["`sd-c4-block` is not the name of the file, `mine`"]);
    place.flashfit(&["catalog", "--catalog", "own"]).said(0, &[]);
}

#[test]
fn all_mistakes_of_all_files_are_reported_at_once() {
    let place = place_with_own_catalog();
    for folder in ["own/workloads", "own/cards"] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
    }
    let broken = OWN_FILE_SYSTEM.replace("title", "titel").replace("pass = 0", "pass = \"0\"");
    place.file("own/filesystems/mine.toml", &broken);
    place.file("own/knobs/mine.toml", &OWN_KNOB.replace("safe", "save"));
    let template = place.flashfit(&["catalog", "new-workload", "mine"]).stdout;
    let broken = template.replace("rw=randwrite", "rw=randwrit").replace("#: yields", "#: yield");
    place.file("own/workloads/mine.fio", &broken);
    let card = place.flashfit(&["card", "show", "sd-c4-block", "--file"]).stdout;
    place.file("own/cards/mine.toml", &card.replace("sector_bytes = 512", "sector_bytes = 500"));
    let ended = place.flashfit(&["catalog", "--catalog", "own"]);
    ended.said(
        2,
        &[
            "own/filesystems/mine.toml:1: missing field `title`",
            "own/filesystems/mine.toml:2: unknown field `titel`",
            "did you mean `title`?",
            "own/filesystems/mine.toml:12: invalid type",
            "own/knobs/mine.toml:5: unknown variant `save`",
            "own/workloads/mine.fio:20: missing field `yields`",
            "unknown field `yield`",
            "`randwrit` is not a valid value of `rw`",
            "sector_bytes: a sector is 512 or 4096 bytes, not 500",
            "hint: ${EDITOR:-vi} +1 own/filesystems/mine.toml",
        ],
    );
}

#[test]
fn mistakes_of_every_directory_are_noticed_with_line_and_hint() {
    let place = Place::new();
    let catalog = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog");
    for (file, from, to, said) in [
        ("usage/router.toml", "hours_a_day", "minutes_a_day", "wrong unit; expected `hours_a_day`"),
        ("counters/ata.toml", "unit = \"sector\"", "unit = \"percent\"", "unit: that of `"),
        ("life/options.toml", "\nlow = ", "\nlow = 9", "are not in order"),
        ("patterns/twin.toml", "count = 96", "count = 0", "has 0 requests, not 1 to"),
        ("traces/ext4-logs.toml", "\nseed = ", "\nsed = ", "did you mean `seed`?"),
        ("published/usb-cheap.toml", "\nleast = ", "\nlest = ", "did you mean `least`?"),
    ] {
        let text = std::fs::read_to_string(catalog.join(file)).unwrap();
        let wrong = text.replacen(from, to, 1);
        assert_ne!(wrong, text, "{file}");
        let own = place.path("own").join(file);
        std::fs::create_dir_all(own.parent().unwrap()).unwrap();
        std::fs::write(&own, wrong).unwrap();
        for command in ["catalog", "list", "doctor"] {
            let ended = place.flashfit(&[command, "--catalog", "own"]);
            ended.said(2, &[&format!("own/{file}:"), said, &format!(" own/{file}\n")]);
            let place = ended.stderr.lines().find(|line| line.contains(said)).unwrap();
            let line = place.split(&format!("{file}:")).nth(1).unwrap();
            let line: usize = line.split(':').next().unwrap().parse().unwrap();
            assert!(line > 1, "{file} {command}: {place}");
        }
        std::fs::remove_dir_all(place.path("own")).unwrap();
    }
}

#[test]
fn a_card_file_that_cannot_be_read_has_a_hint() {
    let place = Place::new();
    std::fs::create_dir(place.path("folder.toml")).unwrap();
    std::fs::write(place.path("latin.toml"), [0xff]).unwrap();
    for (card, why, hint) in [
        ("./folder.toml", "it is a directory", "hint: name a file in it: ls ./folder.toml"),
        ("./latin.toml", "it is not UTF-8 text", "hint: check its type: file ./latin.toml"),
        ("./none.toml", "No such file", "hint: see what is there: ls ."),
        ("/dev/zero", "it is a character device", "hint: check its type: file /dev/zero"),
    ] {
        for command in [&["card", "show"][..], &["card", "bench"], &["card", "serve"]] {
            place.flashfit(&[command, &[card]].concat()).said(2, &[why, hint]);
        }
    }
}

#[test]
fn a_new_workload_is_valid_as_it_stands_and_never_replaces_a_file() {
    let place = Place::new();
    let output = "own/workloads/mine.fio";
    let command = ["catalog", "new-workload", "mine", "--output", output];
    place.flashfit(&command).said(0, &[]);
    let names = place.flashfit(&["catalog", "--catalog", "own", "--json"]);
    let names = names.document("flashfit.catalog");
    let workloads = names["workloads"].as_array().unwrap();
    assert!(workloads.iter().any(|workload| workload["name"] == "mine"), "{workloads:?}");
    place.flashfit(&command).said(3, &["mine.fio exists; it was not changed"]);
    let below_a_file = ["catalog", "new-workload", "more", "--output", "own/workloads/mine.fio/x"];
    place.flashfit(&below_a_file).said(2, &["own/workloads/mine.fio", "hint: "]);
    place.flashfit(&["catalog", "new-workload", "../x"]).said(2, &["letters, digits"]);
}

#[test]
fn the_methodologys_configuration_is_read_and_a_mistake_names_its_line() {
    let place = Place::new();
    place.image("image", 256);
    let text = "device=image # used for testing\nresult_dir=result\n\next4_default=\"noatime\"\n";
    place.file("config", &format!("{text}ext4_exclude='geometry'\n"));
    let args = ["tune", "--config", "config", "--fs", "ext4", "--dry-run"];
    let ended = place.flashfit(&args);
    ended.said(0, &[]);
    let shown = format!("{}{}", ended.stdout, ended.stderr);
    assert!(shown.contains("kept in result") && shown.contains("noatime"), "{shown}");
    place.file("config", &format!("{text}media_pagesize=16384\n"));
    let mistake = ["config:5: unknown key `media_pagesize`", "did you mean `media_page_size`?"];
    place.flashfit(&args).said(2, &mistake);
    for (line, mistake) in [
        ("ext5_default=noatime", "config:5: ext5_default: unknown file system `ext5`"),
        (
            "btrfs_exclude=\"geometri\"",
            "config:5: btrfs_exclude: unknown option of btrfs `geometri`",
        ),
    ] {
        place.file("config", &format!("{text}{line}\nmedia_page_size=16384\n"));
        place.flashfit(&args).said(2, &[mistake, "did you mean"]);
    }
}

/// As where a kernel has pages of 16 KiB and a file system blocks of 4 KiB.
#[test]
fn a_file_system_that_does_not_fit_the_pages_is_refused_before_the_device_is_touched() {
    let place = place_with_own_catalog();
    let small = OWN_FILE_SYSTEM.replace("block_bytes = 4096", "block_bytes = 1024")
        + "[promises]\nkeeps = [\"consistent\"]\n";
    let small = small.replace("[mkfs]", "most_page_bytes = 1024\n[mkfs]");
    place.file("own/filesystems/mine.toml", &small);
    let image = place.image("image", 64);
    let before = std::fs::read(&image).unwrap();
    let reason = "only with blocks as large; here it is made with blocks of 1 KiB";
    let mine = ["--catalog", "own", "--fs", "mine"];
    let planned = [&["plan", "image", "--output", "plan.json"], &mine[..]].concat();
    let planned = place.flashfit(&planned);
    planned.said(0, &[]);
    assert!(planned.stdout.contains("mine: this kernel has pages of"), "{planned:?}");
    let apply = ["apply", "plan.json", "image", "--confirm", "image", "--catalog", "own"];
    place.flashfit(&apply).said(4, &[reason, "name another file system"]);
    let tune = [&["tune", "image", "--dir", "run", "--confirm", "image"], &mine[..]].concat();
    place.flashfit(&tune).said(4, &[reason, "--fs"]);
    assert_eq!(std::fs::read(&image).unwrap(), before);
}

#[test]
fn a_plan_only_file_system_is_refused_before_the_device_is_touched() {
    let place = place_with_own_catalog();
    let planned = OWN_FILE_SYSTEM.replace("[mkfs]", "plan_only = \"nobody can\"\n[mkfs]");
    place.file("own/filesystems/mine.toml", &planned);
    let image = place.image("image", 64);
    let before = std::fs::read(&image).unwrap();
    let arguments = ["tune", "image", "--catalog", "own", "--fs", "mine", "--dir", "run"];
    let ended = place.flashfit(&[&arguments[..], &["--confirm", "image"]].concat());
    ended.said(2, &["mine cannot be tried: nobody can", "--fs"]);
    assert_eq!(std::fs::read(&image).unwrap(), before);
    assert!(!place.path("run").exists());
}

#[test]
fn an_image_under_a_writable_layer_is_tried_with_its_options() {
    if skip_without_block_devices() || skip_part(programs(&["mksquashfs"])) {
        return;
    }
    let place = Place::in_memory();
    place.image("image", 128);
    place.file(
        "short.toml",
        "filesystems = [\"ext4\", \"squashfs\"]\nworkloads = [\"program-start\", \"sync-files\"]\n\
         schedulers = [\"none\"]\nstrategy = \"greedy\"\nrepeats = 1\nconfirm_rounds = 0\n\
         data_size = \"4MiB\"\nruntime_ms = 200\n\
         [options.ext4]\nexclude = [\"noatime\", \"discard\", \"geometry\", \"fast_commit\", \"nobarrier\", \"nojournal\", \"writeback\"]\n\
         [options.squashfs]\nexclude = [\"block-4k\", \"block-256k\", \"block-1m\", \"lz4\", \"lzo\"]\n",
    );
    let preview = place.tune("image", &["--dry-run"]).stdout;
    assert!(preview.contains("mksquashfs FOLDER MOUNT_DIR/system.squashfs"), "{preview}");
    place.tune("image", &["--confirm", "image"]).said(0, &[]);
    let records: Vec<Value> =
        place.recorded().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let options = |record: &Value| record["key"]["setup"]["options"].to_string();
    let of_image = |one: &&Value| one["key"]["setup"]["filesystem"] == "squashfs";
    for wanted in ["[]", "block-16k", "xz", "zstd"] {
        let mut tried = records.iter().filter(of_image).filter(|one| options(one).contains(wanted));
        let trial = tried.next().unwrap_or_else(|| panic!("{wanted}: {records:?}"));
        assert!(!trial["outcome"]["completed"].is_null(), "{trial}");
    }
    let read = |record: &Value| {
        let stage = &record["outcome"]["completed"]["points"][0]["stages"][0];
        stage["read"]["bytes"].as_u64().unwrap_or(0)
    };
    let starts = records.iter().filter(|one| one["key"]["workload"] == "program-start");
    assert!(starts.map(read).all(|bytes| bytes > 256 << 10), "{records:?}");
    wait_for_no_traces(&place, None);
}

#[test]
fn a_plan_with_an_image_is_not_applied_and_changes_nothing() {
    let place = Place::new();
    let image = place.image("image", 64);
    let before = std::fs::read(&image).unwrap();
    let plan = ["plan", "image", "--fs", "squashfs", "--erase-block", "1MiB", "-o", "plan.json"];
    place.flashfit(&plan).said(0, &[]);
    let apply = ["apply", "plan.json", "image", "--confirm", "image"];
    place.flashfit(&apply).said(2, &["packed from one of your directories", "--from DIRECTORY"]);
    let edited = std::fs::read_to_string(place.path("plan.json")).unwrap();
    place.file("plan.json", &edited.replace("system.squashfs.new", "system.squashfs"));
    place.flashfit(&apply).said(3, &["layers would be different"]);
    assert_eq!(std::fs::read(&image).unwrap(), before);
}

#[test]
fn knobs_of_the_machine_are_restored_after_trials() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.file(
        "short.toml",
        "filesystems = [\"ext3\"]\nworkloads = [\"sync-files\"]\nschedulers = [\"none\"]\n\
         strategy = \"greedy\"\nrepeats = 1\nconfirm_rounds = 0\ndata_size = \"4MiB\"\n\
         runtime_ms = 200\nallow = \"loses-recent\"\n[options.ext3]\nalways = [\"dirty-16m\", \"readahead-1m\"]\n\
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
fn options_without_effect_in_trials_are_refused() {
    let place = Place::new();
    place.file("my.toml", "filesystems = [\"ext4\"]\n[options.ext4]\nalways = [\"fstrim\"]\n");
    let arguments = ["tune", &place.card(), "--config", "my.toml", "--dry-run", "--dir", "run"];
    place.flashfit(&arguments).said(2, &["fstrim.timer", "take `fstrim` out"]);
}

/// The value of `flag` in the first line of a program.
fn argument(text: &str, program: &str, flag: &str) -> Option<String> {
    let line = text.lines().find(|line| line.trim_start().starts_with(program))?;
    line.split(flag).nth(1)?.split([' ', ',']).next().map(str::to_owned)
}

#[test]
fn trials_use_the_options_that_a_plan_prints() {
    let place = Place::new();
    place.image("image", 512);
    let filesystems = ["ext2", "ext3", "ext4", "btrfs", "xfs"];
    let mut config =
        String::from("filesystems = [\"ext2\", \"ext3\", \"ext4\", \"btrfs\", \"xfs\"]\n");
    for name in filesystems {
        config.push_str(&format!("[options.{name}]\nalways = [\"geometry\"]\n"));
    }
    place.file("my.toml", &config);
    let units = ["--erase-block", "3MiB", "--write-unit", "96KiB"];
    let dry = ["tune", "image", "--config", "my.toml", "--allow", "may-corrupt", "--dry-run"];
    let tried = place.flashfit(&[&dry[..], &units].concat()).stdout;
    let wish = ["plan", "image", "--fs", "ext2,ext3,ext4,btrfs,xfs", "--table", "gpt", "--all"];
    let planned = place.flashfit(&[&wish[..], &units].concat()).stdout;
    for (program, flag, expected) in [
        ("mkfs.ext2", "stride=", "24"),
        ("mkfs.ext2", "stripe-width=", "768"),
        ("mkfs.ext3", "stride=", "24"),
        ("mkfs.ext4", "stripe-width=", "768"),
        ("mkfs.btrfs", " -n ", "32768"),
        ("mkfs.xfs", "su=", "98304"),
        ("mkfs.xfs", "sw=", "32"),
    ] {
        if !tried.contains(program) {
            assert!(skip_part(flashfit_test_support::program(program)), "{program}: {tried}");
            continue;
        }
        // Commands are folded at 80 columns.
        let [tried, planned] = [&tried, &planned].map(|text| {
            let unfolded = text.replace(" \\\n      ", " ").replace(" \\\n    ", " ");
            argument(&unfolded, program, flag)
        });
        assert_eq!(tried.as_deref(), Some(expected), "{program} {flag}");
        assert_eq!(planned, tried, "{program} {flag}");
    }
}

#[test]
fn a_resumed_run_keeps_its_computed_values() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    place.tune(&place.card(), &[]).said(0, &[]);
    let path = place.path("run/run.json");
    let mut run: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let numbers = &mut run["facts"]["planned"]["ext4"];
    assert_eq!(numbers["stripe_width_blocks"], 256, "{numbers}");
    numbers["stripe_width_blocks"] = 512.into();
    place.file("run/run.json", &run.to_string());
    place.flashfit(&["tune", "--resume", "run"]).said(3, &["ext4", "with other numbers"]);
}

#[test]
fn an_exception_is_one_of_crash_tests_only_if_the_catalog_says_so() {
    let place = place_with_own_catalog();
    let own = OWN_FILE_SYSTEM.replace("[mkfs]", "risk = \"Names can be lost.\"\n[mkfs]");
    assert_ne!(own, OWN_FILE_SYSTEM);
    place.file("own/filesystems/mine.toml", &own);
    place.image("image", 512);
    let listed = place.flashfit(&["catalog", "--catalog", "own"]);
    listed.said(0, &[]);
    let text = listed.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("safe at a power cut, with an exception: Names can"), "{text}");
    assert!(
        text.contains("safe at a power cut, but for an exception that crash tests found: A file")
    );
    let plan = place.flashfit(&["plan", "image", "--fs", "mine", "--catalog", "own"]);
    plan.said(0, &[]);
    let text = plan.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("safe, with an exception. mine: Names can be lost."), "{text}");
}
