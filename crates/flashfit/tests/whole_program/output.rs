//! Output: JSON documents with a schema, data only on standard output, help texts.

use std::io::Read;

use crate::fixture::{Ended, Place, skip_without_cards};
use crate::machine::PlainLoop;

#[test]
fn every_json_document_has_a_schema() {
    let place = Place::new();
    place.image("image", 64);
    let commands: [(&[&str], &str); 6] = [
        (&["list", "--json"], "flashfit.media"),
        (&["inspect", "image", "--json"], "flashfit.medium"),
        (&["inspect", "sim:sd-c4-block", "--json"], "flashfit.card"),
        (&["catalog", "--json"], "flashfit.catalog"),
        (&["card", "list", "--json"], "flashfit.cards"),
        (&["card", "show", "sd-c4-block", "--json"], "flashfit.card"),
    ];
    for (args, schema) in commands {
        place.flashfit(args).document(schema);
    }
    let device = place.flashfit(&["inspect", "image", "--json"]).document("flashfit.medium");
    assert_eq!(device["capacity"], 64 << 20);
    let card = place.flashfit(&["inspect", &place.card(), "--json"]).document("flashfit.card");
    assert_eq!(card["capacity"], 160 << 20);
}

#[test]
fn numbers_are_integers() {
    fn check(value: &serde_json::Value) {
        match value {
            serde_json::Value::Number(number) => assert!(!number.is_f64(), "{number}"),
            serde_json::Value::Array(values) => values.iter().for_each(check),
            serde_json::Value::Object(fields) => fields.values().for_each(check),
            _ => {}
        }
    }
    let place = Place::new();
    for args in [&["list", "--json"][..], &["card", "list", "--json"], &["catalog", "--json"]] {
        check(&serde_json::from_str(&place.flashfit(args).stdout).unwrap());
    }
}

#[test]
fn a_recommendation_is_one_document() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let ended = place.tune(&place.card(), &["--json"]);
    let answer = ended.document("flashfit.recommendation");
    assert_eq!(answer["simulated"], true);
    assert_eq!(answer["trials"], place.recorded().len());
    assert_eq!(answer["report"], "run/report.html");
    assert!(answer["commands"].is_array());
    let answer = place.flashfit(&["tune", "--resume", "run", "--json"]);
    answer.document("flashfit.recommendation");
}

#[test]
fn counters_of_a_served_card_are_printed() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let mut served = place.command(&["card", "serve", &place.arg("card.toml")]).spawn().unwrap();
    let mut line = Vec::new();
    let mut out = served.stdout.take().unwrap();
    let mut byte = [0];
    while out.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    let device = String::from_utf8(line).unwrap();
    let counters = place.flashfit(&["card", "stats", &device, "--json"]);
    let counters = counters.document("flashfit.card-counters");
    assert!(counters["host_read_requests"].is_u64());
    crate::machine::signal(served.id(), rustix::process::Signal::INT);
    Ended::of(served).said(0, &["simulated card attached", "host writes"]);
    crate::machine::wait_for_no_traces(&place, None);
    // Not the device that the card had, whose number another card may have by now.
    let image = PlainLoop::attach(&place.image("image", 1), 512, &[]);
    let refused = ["card", "stats", &image.node];
    place.flashfit(&refused).said(2, &["is not a simulated card"]);
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let place = Place::new();
    let commands: [&[&str]; 6] = [
        &["catalog"],
        &["catalog", "--json"],
        &["list"],
        &["card", "list"],
        &["tune", "sim:sd-c4-block", "--dry-run"],
        &["tune", "--help"],
    ];
    for args in commands {
        let mut child = place.command(args).spawn().unwrap();
        drop(child.stdout.take());
        let ended = Ended::of(child);
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        assert_eq!(ended.stderr, "", "{args:?}");
    }
}

#[test]
fn a_full_standard_output_is_an_error() {
    let place = Place::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let ended = Ended::new(place.command(&["catalog"]).stdout(full).output().unwrap());
    ended.said(4, &["cannot write to standard output"]);
}

#[test]
fn output_to_a_file_has_no_color() {
    let place = Place::new();
    for args in [&["catalog"][..], &["list"], &["tune", "--help"], &["tune", "nothing"]] {
        let ended = place.flashfit(args);
        assert!(!ended.stdout.contains('\u{1b}') && !ended.stderr.contains('\u{1b}'), "{args:?}");
    }
}

#[test]
fn every_subcommand_has_help() {
    let place = Place::new();
    let commands: [(&[&str], bool); 11] = [
        (&[], true),
        (&["list"], false),
        (&["inspect"], true),
        (&["tune"], true),
        (&["analyze"], true),
        (&["report"], true),
        (&["catalog"], false),
        (&["card"], true),
        (&["card", "list"], false),
        (&["card", "serve"], false),
        (&["card", "stats"], false),
    ];
    for (command, has_examples) in commands {
        let ended = place.flashfit(&[command, &["--help"]].concat());
        assert_eq!(ended.code, Some(0), "{command:?}");
        assert!(ended.stdout.contains("Usage: flashfit"), "{command:?}");
        assert!(!has_examples || ended.stdout.contains("Examples:\n  flashfit"), "{command:?}");
        assert!(!ended.stdout.contains("card-server"), "what is hidden is shown: {command:?}");
    }
    place.flashfit(&["--version"]).said(0, &[]);
}

#[test]
fn the_help_names_the_exit_codes() {
    let help = Place::new().flashfit(&["--help"]).stdout;
    for code in [
        "0 done",
        "1 it ran",
        "2 wrong",
        "3 refused",
        "4 the machine",
        "5 the device",
        "6 interrupted",
        "70 a bug",
    ] {
        assert!(help.contains(code), "{code}");
    }
}
