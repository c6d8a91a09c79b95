//! Usage errors in arguments and files: exit code 2, the location, and a suggestion.

use std::path::Path;

use serde_json::Value;

use crate::fixture::{FAST_CARD, Place};

/// Asserts that a refusal creates nothing.
#[track_caller]
fn refuses(place: &Place, args: &[&str], texts: &[&str]) {
    let ended = place.flashfit(args);
    ended.said(2, texts);
    assert_eq!(ended.stdout, "", "standard output is for answers");
    assert!(!place.path("run").exists(), "a run directory was made");
}

#[test]
fn invalid_targets_are_reported() {
    let place = Place::new();
    for target in ["/dev/no_such_medium", "no-such-image"] {
        refuses(&place, &["tune", target, "--dir", "run"], &["there is no", "flashfit list"]);
        refuses(&place, &["inspect", target], &["there is no", "flashfit list"]);
    }
    let folder = place.folder().display().to_string();
    refuses(&place, &["tune", &folder, "--dir", "run"], &["is a folder", "findmnt"]);
    refuses(&place, &["tune", "/dev/null", "--dir", "run"], &["/dev/null is a character device"]);
    refuses(&place, &["tune"], &["no device is named", "flashfit list"]);
    for command in ["check", "inspect", "plan", "probe"] {
        refuses(&place, &[command, ""], &["it is empty"]);
    }
}

#[test]
fn a_budget_too_small_for_a_sure_answer_is_reported_before_the_trials() {
    let place = Place::new();
    let dry = ["tune", "sim:sd-c4-block", "--dir", "run", "--dry-run", "--workload", "sync-files"];
    let said = |more: &[&str]| {
        let ended = place.flashfit(&[&dry[..], more].concat());
        ended.said(0, &[]);
        ended.stdout.replace('\n', " ")
    };
    let text = said(&["--budget", "10s"]);
    assert!(text.contains("are too small to confirm an answer"), "{text}");
    let enough = text.split("enough for that: --budget ").nth(1).unwrap();
    let enough = enough.split(' ').next().unwrap();
    let text = said(&["--budget", enough]);
    assert!(!text.contains("too small"), "{enough}: {text}");
    let text = said(&["--trials", "3"]);
    assert!(text.contains("enough for that: --trials "), "{text}");
    let json = [&dry[..], &["--trials", "3", "--json"]].concat();
    let would = place.flashfit(&json).document("flashfit.would-tune");
    let shortfall = &would["forecast"]["shortfall"];
    assert!(shortfall["is_certain"] == true && shortfall["budget_ns"].is_null(), "{would}");
    assert_eq!(shortfall["max_trials"], shortfall["trials"], "{would}");
}

#[test]
fn a_device_that_is_too_small_is_refused() {
    let place = Place::new();
    place.image("small", 1);
    let tune = ["tune", "small", "--dir", "run", "--confirm", "small", "--fs", "ext4"];
    refuses(&place, &tune, &["the device of 1 MiB has no space"]);
    let whole = [&tune[..], &["--start", "whole"]].concat();
    refuses(&place, &whole, &["ext4 cannot be used here: it needs", "use a larger device"]);
    place.file("empty", "");
    refuses(&place, &["tune", "empty", "--dir", "run"], &["has no size", "truncate"]);
}

/// F2FS is tried by default, and chooses where a partition ends.
#[test]
fn default_file_systems_can_fill_a_device() {
    let place = Place::new();
    let whole = ["tune", "sim:sd-c4-block", "--dir", "run", "--dry-run", "--start", "whole"];
    place.flashfit(&whole).said(0, &[]);
    let end = [&whole[..], &["--align-end"]].concat();
    refuses(&place, &end, &["without a partition table there is no partition that ends"]);
}

#[test]
fn unknown_names_are_refused_with_a_suggestion() {
    let place = Place::new();
    place.image("image", 64);
    let unknown = [
        ("--fs", "ext5", "ext4"),
        ("--workload", "sync-file", "sync-files"),
        ("--scheduler", "mq-deadlin", "mq-deadline"),
    ];
    for (flag, name, meant) in unknown {
        let args = ["tune", "image", "--dir", "run", flag, name];
        refuses(&place, &args, &[name, &format!("did you mean `{meant}`?")]);
    }
    let card = ["`sd-c4-blok`", "did you mean `sd-c4-block`?"];
    refuses(&place, &["tune", "sim:sd-c4-blok", "--dir", "run"], &card);
    refuses(&place, &["inspect", "sim:sd-c4-blok"], &card);
    refuses(&place, &["card", "show", "sd-c4-blok"], &card);
    refuses(&place, &["card", "serve", "sd-c4-blok"], &card);
    place.file("options.toml", "[options.ext4]\nalways = [\"discrd\"]\n");
    let args = ["tune", "image", "--dir", "run", "--config", "options.toml"];
    refuses(&place, &args, &["`discrd`", "did you mean `discard`?"]);
}

#[test]
fn unknown_and_contradicting_flags_are_refused() {
    let place = Place::new();
    place.image("image", 64);
    refuses(&place, &["tune", "image", "--confrim", "image"], &["--confrim", "--confirm"]);
    refuses(&place, &["tnue", "image"], &["tnue", "tune"]);
    let wrong = [
        ("--start", "3x", "auto, whole"),
        ("--data-size", "4 apples", "is not a size"),
        ("--repeats", "0", "0 is not in"),
        ("--strategy", "genetic", "greedy"),
        ("--table", "apm", "mbr"),
        ("--allow", "anything", "may-corrupt"),
        ("--runtime-ms", "-1", "-1"),
    ];
    for (flag, value, text) in wrong {
        let args = ["tune", "image", "--dir", "run", "--confirm", "image", flag, value];
        refuses(&place, &args, &[text]);
    }
}

#[test]
fn impossible_values_are_refused_before_the_device_is_touched() {
    let place = Place::new();
    let image = place.image("image", 64);
    let before = std::fs::read(&image).unwrap();
    let impossible = [
        ("--runtime-ms", "0"),
        ("--runtime-ms", "18446744073709551615"),
        ("--data-size", "0"),
        ("--memory", "0"),
    ];
    for (flag, value) in impossible {
        let args = ["tune", "image", "--dir", "run", "--confirm", "image", flag, value];
        refuses(&place, &args, &["error: "]);
    }
    assert!(std::fs::read(&image).unwrap() == before, "the image was written to");
    let nothing = ["--workload", "database", "--volume", "0", "--output", "trace"];
    let record = ["wear", "record", "sim:usd-a1-pagemap", "--fs", "ext4"];
    refuses(&place, &[&record[..], &nothing].concat(), &["--volume 0", "write nothing"]);
    assert!(!place.path("trace").exists());
}

#[test]
fn a_name_given_twice_counts_once() {
    let place = Place::new();
    place.image("image", 64);
    let tune = ["tune", "image", "--dry-run", "--scheduler", "none", "--confirm-rounds", "0"];
    let once = [&tune[..], &["--fs", "ext4", "--workload", "grep"]].concat();
    let twice = [&tune[..], &["--fs", "ext4,ext4", "--workload", "grep,grep"]].concat();
    assert_eq!(place.flashfit(&once).stdout, place.flashfit(&twice).stdout);
}

#[test]
fn a_configuration_is_refused_with_file_and_line() {
    let place = Place::new();
    place.image("image", 64);
    let with = ["tune", "image", "--dir", "run", "--config", "my.toml"];
    place.file("my.toml", "seed = 1\nrepeat = 3\n");
    refuses(&place, &with, &["my.toml:2: unknown field `repeat`", "did you mean `repeats`?"]);
    place.file("my.toml", "seed = 1\n\nrepeats = \"three\"\n");
    refuses(&place, &with, &["my.toml:3: "]);
    place.file("my.toml", "seed = 1\n[options.ext4]\nalway = []\n");
    refuses(&place, &with, &["my.toml:3: unknown field `alway`"]);
    place.file("my.toml", "seed = \n");
    refuses(&place, &with, &["my.toml:1: "]);
    let absent = ["tune", "image", "--dir", "run", "--config", "no.toml"];
    refuses(&place, &absent, &["cannot read no.toml"]);
}

#[test]
fn a_missing_catalog_directory_is_refused() {
    let place = Place::new();
    place.image("image", 64);
    refuses(&place, &["catalog", "--catalog", "no-folder"], &["no-folder"]);
    refuses(&place, &["tune", "image", "--dry-run", "--catalog", "no-folder"], &["no-folder"]);
    place.file("my.toml", "catalog_dir = \"no-folder\"\n");
    refuses(&place, &["tune", "image", "--dry-run", "--config", "my.toml"], &["no-folder"]);
}

#[test]
fn an_invalid_card_file_is_refused_with_the_reason() {
    let place = Place::new();
    place.file("card.toml", &FAST_CARD.replace("\"160MiB\"", "\"160MiB\"\ncolour = 3"));
    let unknown = ["card.toml", "card.toml:5: ", "unknown field `colour`"];
    refuses(&place, &["tune", &place.card(), "--dir", "run"], &unknown);
    refuses(&place, &["card", "show", "./card.toml"], &unknown);
    place.file("card.toml", &FAST_CARD.replace("\"1MiB\"", "\"3MiB\""));
    let impossible = ["card.toml", "capacity", "not a whole number of erase blocks"];
    refuses(&place, &["tune", &place.card(), "--dir", "run"], &impossible);
    refuses(&place, &["card", "serve", "./card.toml"], &impossible);
    place.file("card.toml", &FAST_CARD.replace("spare_units = 8", "spare_units = 0"));
    refuses(&place, &["inspect", &place.card()], &["card.toml", "spare_units"]);
}

#[test]
fn a_directory_without_a_run_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).unwrap();
    for folder in ["empty", "no-folder"] {
        for args in [["analyze", folder], ["report", folder]] {
            refuses(&place, &args, &["does not contain a run", "flashfit tune printed"]);
        }
        refuses(&place, &["tune", "--resume", folder], &["does not contain a run"]);
    }
}

/// A run with a handwritten header, of which only the schema matters.
fn header(place: &Place, schema_version: u64) {
    std::fs::create_dir_all(place.path("old")).unwrap();
    let header = serde_json::json!({"schema": "flashfit.run", "schema_version": schema_version});
    place.file("old/run.json", &Value::to_string(&header));
}

#[test]
fn a_run_of_another_format_is_refused() {
    let place = Place::new();
    header(&place, 999);
    for args in [&["analyze", "old"][..], &["report", "old"], &["tune", "--resume", "old"]] {
        refuses(
            &place,
            args,
            &[
                "is a run of format 999",
                "use the version of flashfit that wrote \
                                                           it",
            ],
        );
    }
}

#[test]
fn a_damaged_header_is_refused_with_its_line() {
    let place = Place::new();
    header(&place, 1);
    let torn = "{\n \"schema\": \"flashfit.run\",\n \"schema_version\": oops";
    for (text, what) in [(torn, "3: damaged"), ("\u{0}", "1: damaged"), ("[]", "1: invalid length")]
    {
        place.file("old/run.json", text);
        for args in [&["analyze", "old"][..], &["report", "old"], &["tune", "--resume", "old"]] {
            refuses(&place, args, &[&format!("old/run.json:{what}")]);
        }
    }
    assert!(Path::new(&place.path("old/run.json")).exists(), "it was left for the user to see");
}

#[test]
fn an_option_that_is_always_on_must_be_safe_enough() {
    let place = Place::new();
    place.file("risky.toml", "[options.ext4]\nalways = [\"nojournal\"]\n");
    let args = ["tune", "sim:sd-c4-block", "--config", "risky.toml", "--fs", "ext4", "--dry-run"];
    place.flashfit(&args).said(2, &["nojournal", "may-corrupt", "--allow may-corrupt"]);
    let allowed = [&args[..], &["--allow", "may-corrupt"]].concat();
    place.flashfit(&allowed).said(0, &[]);
}

#[test]
fn a_run_directory_that_would_be_overwritten_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path("mine")).unwrap();
    place.file("mine/config.toml", "mine");
    let image = place.image("image", 64);
    let before = std::fs::read(&image).unwrap();
    let args = ["tune", "image", "--dir", "mine", "--confirm", "image", "--fs", "ext4"];
    let ended = place.flashfit(&args);
    if rustix::process::geteuid().is_root() {
        ended.said(2, &["mine contains config.toml", "--dir"]);
    }
    assert_eq!(std::fs::read_to_string(place.path("mine/config.toml")).unwrap(), "mine");
    assert!(std::fs::read(&image).unwrap() == before, "the image was written to");
}

#[test]
fn invalid_constraints_and_budgets_are_refused() {
    let place = Place::new();
    place.image("image", 64);
    let wrong: [(&[&str], &str); 16] = [
        (&["--budget", "2"], "`2` is not a duration: its unit is missing"),
        (&["--budget", "2 fortnights"], "the unit is unknown"),
        (&["--p99-write-max", "5 parsecs"], "the unit is unknown"),
        (&["--within", "120%"], "it is more than the whole"),
        (&["--within", "0%"], "nothing can be shown to be within 0%"),
        (&["--max-write", "40 apples"], "is not a size"),
        (&["--max-write", "0"], "no trial is possible without writing"),
        (&["--trials", "0"], "0 is not in"),
        (&["--weight", "sync-files"], "write database=3"),
        (&["--weight", "sync-files=0"], "omit it instead"),
        (&["--weight", "database=3"], "names a workload that is not measured"),
        (&["--weight", "databsae=3"], "did you mean `database`?"),
        (&["--with", "noatime"], "write ext4:noatime"),
        (&["--fill", "95%"], "has no room for a workload"),
        (&["--fill", "0%", "--age", "2"], "an empty file system cannot be aged"),
        (&["--age", "100000"], "are too many"),
    ];
    for (flags, text) in wrong {
        let tune = ["tune", "image", "--dir", "run", "--confirm", "image"];
        let which = ["--fs", "ext4", "--workload", "sync-files"];
        refuses(&place, &[&tune[..], &which, flags].concat(), &[text]);
    }
}

#[test]
fn contradicting_constraints_are_refused() {
    let place = Place::new();
    place.image("image", 64);
    let tune = ["tune", "image", "--dir", "run", "--confirm", "image", "--fs", "ext4"];
    let contradictions: [(&[&str], &str); 6] = [
        (&["--allow", "safe", "--require", "may-corrupt"], "contradict each other"),
        (&["--with", "ext4:noatime", "--without", "ext4:noatime"], "contradict each other"),
        (&["--with", "btrfs:noatime"], "a file system that is not tried"),
        (&["--with", "ext4:nojournal"], "only `safe` is allowed"),
        (&["--with", "ext4:noatme"], "did you mean `noatime`?"),
        (&["--weight", "sync-files=1,sync-files=2"], "is given twice"),
    ];
    for (flags, text) in contradictions {
        refuses(&place, &[&tune[..], flags].concat(), &[text]);
    }
    let file = |text: &str| {
        place.file("my.toml", text);
        [&tune[..], &["--config", "my.toml"]].concat()
    };
    let both = "allow = \"safe\"\nrequire = \"loses-recent\"\n";
    refuses(&place, &file(both), &["allow safe and require loses-recent contradict"]);
    let both = "[options.ext4]\nalways = [\"noatime\"]\nexclude = [\"noatime\"]\n";
    refuses(&place, &file(both), &["ext4 noatime is both always on and excluded"]);
    refuses(&place, &file("budget = 7200\n"), &["my.toml:1: ", "its unit is missing"]);
    refuses(&place, &file("fill = \"half\"\n"), &["my.toml:1: ", "is not a percent"]);
    refuses(&place, &file("[weights]\ndatabase = -3\n"), &["my.toml:2: ", "is not a weight"]);
    refuses(&place, &file("budgets = \"2h\"\n"), &["did you mean `budget`?"]);
}

#[test]
fn the_request_is_shown_before_a_run_starts() {
    let place = Place::new();
    place.image("image", 64);
    let tune = ["tune", "image", "--dry-run", "--fs", "ext4", "--workload", "sync-files"];
    let limits = ["--budget", "2h", "--max-write", "40GiB", "--trials", "99", "--within", "1.5%"];
    let shown = place.flashfit(&[&tune[..], &limits].concat());
    shown.said(0, &[]);
    for text in ["within 1.5% of the best", "2h in trials", "40 GiB", "99 trials"] {
        let words: Vec<&str> = shown.stdout.split_whitespace().collect();
        assert!(words.join(" ").contains(text), "no `{text}` in {}", shown.stdout);
    }
    let fewer = place.flashfit(&[&tune[..], &["--without", "ext4:noatime"]].concat());
    assert_ne!(shown.stdout, fewer.stdout);
}

#[test]
fn completions_and_man_pages_cover_all_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.flashfit(&["completions", shell]);
        script.said(0, &[]);
        assert!(script.stdout.contains("tune") && script.stdout.contains("dry-run"), "{shell}");
        for hidden in ["card-server", "card_server", "agent"] {
            assert!(!script.stdout.contains(hidden), "{shell}: {hidden}");
        }
    }
    std::fs::create_dir(place.path("man")).unwrap();
    place.flashfit(&["man", "--dir", "man"]).said(0, &[]);
    for page in ["flashfit.1", "flashfit-tune.1", "flashfit-crash-states.1"] {
        let text = std::fs::read_to_string(place.path("man").join(page)).unwrap();
        assert!(text.contains(".SH NAME") && text.contains("flashfit"), "{page}: {text}");
    }
    let hidden = place.path("man").join("flashfit-card-server.1");
    assert!(!hidden.exists(), "commands for other processes have no page");
    place.flashfit(&["man", "--dir", "missing"]).said(4, &["missing"]);
}
