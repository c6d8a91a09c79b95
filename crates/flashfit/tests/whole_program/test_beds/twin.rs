//! `flashfit tune --twin FILE`: a simulated twin is tuned before the device.

use serde_json::Value;

use super::vm::with_machine;
use crate::fixture::{Ended, FAST_CARD, Place, skip_without_cards};

/// One workload and a few setups of ext4, and f2fs where this kernel has it.
const FEW: &str = "\
filesystems = [\"ext4\", \"f2fs\"]
schedulers = [\"none\"]
workloads = [\"random-write\"]
data_size = \"4MiB\"
memory = \"32MiB\"
runtime_ms = 100
fresh = true
allow = \"may-corrupt\"

[options.ext4]
exclude = [\"noatime\", \"discard\", \"nobarrier\", \"writeback\", \"fast_commit\"]
";

/// Standard error without the breaks of its lines.
fn one_line(ended: &Ended) -> String {
    ended.said(0, &[]);
    ended.stderr.replace('\n', " ")
}

#[test]
fn a_twin_that_cannot_be_used_is_refused_at_once() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let card = place.card();
    std::fs::write(place.path("few.toml"), FEW).unwrap();
    let tune = |more: &[&str]| {
        let few = ["tune", &card, "--config", "few.toml", "--dir", "run"];
        place.flashfit(&[&few[..], more].concat())
    };
    tune(&["--twin", "none.toml"]).said(2, &["none.toml"]);
    assert!(!place.path("run").exists());
    let random = ["--twin", "card.toml", "--strategy", "random"];
    let text = "only the adaptive strategy learns from a twin";
    tune(&random).said(2, &[text, "or leave --twin out"]);
    let first = ["--twin-first", "--strategy", "greedy"];
    tune(&first).said(2, &[text, "or leave --twin-first out"]);
    tune(&["--twin", "card.toml", "--twin-first"]).said(2, &["cannot be used with"]);
    tune(&["--vm-guests", "2"]).said(2, &["--vm-speed-mips"]);
    place.flashfit(&["tune", &card, "--twin-trials", "9"]).said(2, &["--twin"]);
    let replay = ["tune", "--replay", "run", "--twin", "card.toml"];
    place.flashfit(&replay).said(2, &["--twin", "cannot be used with"]);
    // What the twin will take is shown before anybody agrees.
    let dry = tune(&["--twin", "card.toml", "--twin-trials", "30", "--dry-run"]);
    assert!(one_line(&dry).contains("up to 30 trials (a short one counts as a fraction)"));
    assert!(!one_line(&dry).contains("another device"), "{}", dry.stderr);
    place.file("larger.toml", &FAST_CARD.replace("160MiB", "192MiB"));
    let other = tune(&["--twin", "larger.toml", "--dry-run"]);
    assert!(one_line(&other).contains("larger.toml is a twin of another device: it has 192 MiB"));
    let fitted = FAST_CARD
        .replace("a card for tests", "Twin of /dev/sdz")
        .replace("\"none\"", "\"fitted by flashfit to 9 rates of /dev/sdz\"");
    place.file("fitted.toml", &fitted);
    let maybe = tune(&["--twin", "fitted.toml", "--dry-run"]);
    assert!(one_line(&maybe).contains("fitted.toml was fitted to /dev/sdz: check that"));
    tune(&["--twin-first", "--dry-run"]).said(0, &["price of probing", "up to 200 trials"]);
    assert!(!place.path("run").exists());
}

#[test]
#[ignore = "full: boots virtual machines"]
fn a_twin_is_tuned_first_and_the_device_decides() {
    with_machine(|place| {
        let card = place.card();
        std::fs::write(place.path("few.toml"), FEW).unwrap();
        let probe = ["probe", &card, "--write", "--twin", "twin.toml"];
        place.flashfit(&probe).said(0, &[]);
        let tune = |more: &[&str]| {
            let few =
                ["tune", &card, "--config", "few.toml", "--dir", "run", "--progress", "never"];
            let twin = ["--twin", "twin.toml", "--twin-trials", "6", "--trials", "9"];
            place.flashfit(&[&few[..], &twin[..], more].concat())
        };
        let answer: Value = serde_json::from_str(&tune(&["--json"]).stdout).unwrap();
        let of = &answer["data"]["twin"];
        assert!(of["results"].as_u64().unwrap() > 0, "{answer}");
        assert!(of["text"].as_str().unwrap().contains("(simulated)"), "{answer}");
        assert!(place.path("run/twin/report.html").exists());
        let text = std::fs::read_to_string(place.path("run/run.json")).unwrap();
        let header: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(header["spec"]["prior"]["sources"][0]["likeness"], "twin");
        let config = std::fs::read_to_string(place.path("run/config.toml")).unwrap();
        assert!(config.contains("twin.toml.\n# To repeat that"), "{config}");
        let text = std::fs::read_to_string(place.path("run/twin/run.json")).unwrap();
        let header: Value = serde_json::from_str(&text).unwrap();
        assert!(header["spec"]["on"]["vm"]["speed_mips"] == 1000, "{header}");
        // The machine has f2fs; the twin tries it only for a device that may have it.
        let kinds = std::fs::read_to_string("/proc/filesystems").unwrap();
        let here = ["ext4", "f2fs"].map(|name| kinds.lines().any(|line| line.ends_with(name)));
        let tried = header["spec"]["filesystems"].to_string();
        let tried = ["ext4", "f2fs"].map(|name| tried.contains(name));
        assert_eq!(tried, here, "{header}");
        // The first trials on the device are those of the finalists, next to the baseline.
        let first: Value = serde_json::from_str(&place.recorded()[0]).unwrap();
        assert_eq!(first["key"]["purpose"], "confirm", "{first}");
        let report = std::fs::read_to_string(place.path("run/report.html")).unwrap();
        assert!(report.contains("of a simulated twin of this device"));
        // A finished run on the twin is not repeated.
        std::fs::remove_file(place.path("run/run.json")).unwrap();
        std::fs::remove_file(place.path("run/trials.jsonl")).unwrap();
        std::fs::remove_file(place.path("run/report.html")).unwrap();
        let trials = std::fs::read(place.path("run/twin/trials.jsonl")).unwrap();
        tune(&["--twin-trials", "6"]).said(2, &["--twin-trials"]);
        let raw = place.path("run/raw.json");
        let _ = std::fs::remove_file(raw);
        tune(&[]).said(0, &["gains come from trials on the device only"]);
        assert_eq!(std::fs::read(place.path("run/twin/trials.jsonl")).unwrap(), trials);
    });
}

/// The probe finds it before anything is tuned.
#[test]
fn a_fake_capacity_ends_a_run_that_probes_first() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let fake = format!("{FAST_CARD}[fake]\nreal_capacity = \"96MiB\"\nbeyond = \"lost\"\n");
    place.file("fake.toml", &fake);
    std::fs::write(place.path("few.toml"), FEW).unwrap();
    let card = format!("sim:{}", place.arg("fake.toml"));
    let tune = ["tune", &card, "--config", "few.toml", "--dir", "run", "--progress", "never"];
    let ended = place.flashfit(&[&tune[..], &["--twin-first", "--fs", "ext4"]].concat());
    ended.said(1, &["it is a fake"]);
    assert!(!place.path("run").exists(), "nothing is left of a run that did not begin");
}

#[track_caller]
fn assert_all_guests_work(ended: &Ended) {
    let is_left_out = |line: &str| line.trim_start_matches("twin: ").starts_with("left out: ");
    assert!(!ended.stderr.lines().any(is_left_out), "{ended:#?}");
}

/// A guest that is asked what its kernel knows, because nobody has asked before, boots before it
/// has the card. Linux 6.1.192 shows a btrfs under the name by which mkfs was given the device.
#[test]
#[ignore = "full: boots virtual machines"]
fn guests_of_an_unknown_kernel_have_their_card_and_mount_btrfs() {
    with_machine(|place| {
        let card = place.card();
        std::fs::write(place.path("few.toml"), FEW).unwrap();
        let few = ["tune", &card, "--config", "few.toml", "--dir", "run", "--fs", "btrfs"];
        let guests = ["--on", "vm", "--vm-speed-mips", "1000", "--vm-guests", "2", "--trials", "3"];
        let mut command = place.command(&[&few[..], &guests[..]].concat());
        let ended =
            Ended::new(command.env("XDG_CACHE_HOME", place.empty_cache()).output().unwrap());
        ended.said(0, &[]);
        assert_all_guests_work(&ended);
        assert!(place.recorded().iter().all(|trial| trial.contains("completed")));
    });
}

#[test]
#[ignore = "full: boots virtual machines"]
fn a_probe_and_its_twin_come_first() {
    with_machine(|place| {
        // Erase blocks show where writes cross their boundaries.
        let card = FAST_CARD.replace("\"page-mapped\"", "\"block-mapped\"\nopen_units = 4");
        let card = card.replace("program_ns = 2000", "program_ns = 100000");
        let card = card.replace("erase_ns = 10000", "erase_ns = 1000000");
        place.file("blocks.toml", &card);
        let card = format!("sim:{}", place.arg("blocks.toml"));
        std::fs::write(place.path("few.toml"), FEW).unwrap();
        let few = ["tune", &card, "--config", "few.toml", "--dir", "run", "--progress", "never"];
        let twin = ["--twin-first", "--twin-trials", "6", "--trials", "9"];
        let ended = place.flashfit(&[&few[..], &twin[..]].concat());
        ended.said(0, &["price of probing", "the twin is in"]);
        assert_all_guests_work(&ended);
        assert!(ended.stdout.contains("The twin (simulated)"), "{ended:#?}");
        let fitted = std::fs::read_to_string(place.path("run/twin.toml")).unwrap();
        assert!(fitted.contains("fitted"), "{fitted}");
        // The run uses what the probe found, not only the trials on the twin.
        let read = |name: &str| -> Value {
            serde_json::from_str(&std::fs::read_to_string(place.path(name)).unwrap()).unwrap()
        };
        let found = &read("run/probe.json")["erase_unit"]["bytes"];
        let is_used = |run: &str| &read(run)["spec"]["probed"]["erase_unit"]["bytes"] == found;
        assert!(found == 1 << 20 && is_used("run/run.json") && is_used("run/twin/run.json"));
        assert!(place.path("run/twin/report.html").exists());
    });
}
