//! Commands of the user as workloads: what they may do, and how they end.

use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{Ended, Place, skip_without_block_devices, wait_until};
use crate::machine::{processes, signal, wait_for_no_traces, words};

const RUN: [&str; 11] = [
    "tune",
    "image",
    "--catalog",
    "own",
    "--config",
    "short.toml",
    "--dir",
    "run",
    "--confirm",
    "image",
    "--workload",
];

/// A place with an image and a workload `mine` of this stage.
fn place(stage: &str) -> Place {
    let place = Place::in_memory();
    place.image("image", 64);
    own_workload(&place, stage);
    place
}

/// Writes the workload into the catalog `own`.
pub fn own_workload(place: &Place, stage: &str) {
    std::fs::create_dir_all(place.path("own/workloads")).unwrap();
    let text = format!(
        "title = \"mine\"\nexplanation = \"my command\"\nsource = \"me\"\nparameter = \"none\"\n\
         [[stage]]\nname = \"work\"\nkind = \"time\"\nyields = [\"write\"]\n{stage}\n"
    );
    place.file("own/workloads/mine.toml", &text);
}

fn run(place: &Place) -> Ended {
    place.flashfit(&[&RUN[..], &["mine"]].concat())
}

#[test]
fn a_command_is_prepared_run_and_cleaned_up_and_its_time_is_the_figure() {
    if skip_without_block_devices() {
        return;
    }
    let place = place(
        "prepare = \"seq 1000 > numbers; test ! -e sorted\"\n\
         command = \"sleep 0.2; sort -r numbers > sorted; id -u > user\"\n\
         cleanup = \"test $(cat user) = 65534 && rm sorted\"\n\
         cache = \"warm\"\nuser = \"65534:65534\"\nsync = true",
    );
    let preview = place.flashfit(&[&RUN[..], &["mine", "--dry-run"]].concat());
    assert!(preview.stdout.contains("mine runs, from own/workloads/mine.toml:"), "{preview:?}");
    let ended = run(&place);
    ended.said(0, &["mine runs, from own/workloads/mine.toml:", "sort -r numbers"]);
    for line in place.recorded() {
        let record: Value = serde_json::from_str(&line).unwrap();
        let stage = &record["outcome"]["completed"]["points"][0]["stages"][0];
        assert_eq!(stage["kind"], "time", "{line}");
        let ns = stage["write"]["runtime_ns"].as_u64().unwrap();
        assert!((200_000_000..20_000_000_000).contains(&ns), "{ns}");
    }
    let report = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(report.contains("my command"));
    wait_for_no_traces(&place, None);
}

#[test]
fn a_command_that_fails_is_named_with_its_output_and_writes_nowhere_else() {
    if skip_without_block_devices() {
        return;
    }
    let place = place("");
    let victim = place.arg("victim");
    let stage = format!("command = \"echo trying >&2; echo x > '{victim}'\"");
    let text = std::fs::read_to_string(place.path("own/workloads/mine.toml")).unwrap();
    place.file("own/workloads/mine.toml", &format!("{text}{stage}\n"));
    let ended = run(&place);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let records = place.recorded().join("\n");
    assert!(records.contains("trying") && records.contains("Read-only file system"), "{records}");
    assert!(!place.path("victim").exists());
    wait_for_no_traces(&place, None);
}

/// Two children that ignore signals, one of them in another session.
pub fn hangs(marker: &str, limit_s: u32) -> String {
    format!(
        "command = \"trap '' TERM INT; setsid sleep {marker} & sleep {marker}\"\n\
         limit-s = {limit_s}"
    )
}

pub fn is_running(marker: &str) -> bool {
    processes().into_iter().any(|process| words(process).iter().any(|word| word == marker))
}

#[test]
fn a_command_that_hangs_ends_at_its_limit_with_all_its_children() {
    if skip_without_block_devices() {
        return;
    }
    let marker = format!("{}.625", 83_000 + std::process::id() % 1000);
    let place = place(&hangs(&marker, 1));
    let ended = run(&place);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let records = place.recorded().join("\n");
    assert!(records.contains("ran longer than 1 s"), "{records}");
    assert!(!is_running(&marker));
    wait_for_no_traces(&place, None);
}

#[test]
fn an_interrupt_ends_a_command_with_all_its_children() {
    if skip_without_block_devices() {
        return;
    }
    let marker = format!("{}.375", 82_000 + std::process::id() % 1000);
    let place = place(&hangs(&marker, 600));
    let child = place.command(&[&RUN[..], &["mine"]].concat()).spawn().unwrap();
    wait_until("the command runs", || is_running(&marker));
    signal(child.id(), Signal::INT);
    let ended = Ended::of(child);
    ended.said(6, &["interrupted", "tune --resume run --catalog own"]);
    assert!(!is_running(&marker));
    wait_for_no_traces(&place, None);
}

#[test]
fn commands_run_only_if_their_workload_is_named_and_well_formed() {
    let place = place("command = \"true\"");
    let all = place.flashfit(&[&RUN[..], &["all", "--dry-run"]].concat());
    assert!(!all.stdout.contains("mine"), "{all:?}");
    let listed = place.flashfit(&["catalog", "--catalog", "own"]).stdout;
    assert!(listed.contains("\nmine**") && listed.contains("\nbonnie*"), "{listed}");
    let listed = place.flashfit(&["catalog", "--catalog", "own", "--json"]);
    let listed = listed.document("flashfit.catalog");
    let mine = |one: &&Value| one["name"] == "mine";
    let mine = listed["workloads"].as_array().unwrap().iter().find(mine).unwrap().clone();
    assert_eq!(mine["commands"], serde_json::json!(["true"]));
    place.file(
        "own/workloads/mine.toml",
        "title = \"mine\"\nexplanation = \"e\"\nsource = \"me\"\nparameter = \"none\"\n\
         [[stage]]\nname = \"work\"\nkind = \"operations\"\nyields = [\"write\"]\n\
         command = \"true\"\nlimit-s = 0\n",
    );
    let ended = place.flashfit(&["catalog", "--catalog", "own"]);
    ended.said(2, &["mine.toml:5: stage `work`: `kind` is `time`", "`limit-s` must be 1 to"]);
}
