//! `flashfit wear estimate`, `wear age` and `wear record` in the whole program.

use rustix::process::Signal;

use crate::card::Serving;
use crate::fixture::{Place, skip_without_cards};

const ESTIMATE: [&str; 7] =
    ["wear", "estimate", "sim:usd-a1-pagemap", "--fs", "ext4,f2fs", "--usage", "raspberry-pi"];

#[test]
fn an_estimate_has_an_interval_for_each_setup_and_a_ratio() {
    let place = Place::new();
    let estimate = [&ESTIMATE[..], &["--compare", "--years", "5", "--json"]].concat();
    let first = place.flashfit(&estimate);
    let document = first.document("flashfit.wear-estimate");
    let setups = document["setups"].as_array().unwrap();
    assert_eq!(setups.len(), 2);
    for setup in setups {
        let years = &setup["years"];
        let [low, median, high] = ["low", "median", "high"].map(|key| years[key].as_f64().unwrap());
        assert!(0.0 < low && low < median && median < high, "{setup}");
        assert!(setup["write_amplification"].as_f64().unwrap() >= 1.0);
        assert!(setup["erases"]["most"].as_f64() >= setup["erases"]["mean"].as_f64());
        assert_eq!(setup["simulated"], true);
        assert!(setup["limit"].is_string());
        assert_eq!(setup["assumptions"].as_array().unwrap().len(), 6);
    }
    let ratio = &setups[1]["ratio_to_first"];
    let widths = [ratio, &setups[1]["years"]]
        .map(|of| of["high"].as_f64().unwrap() / of["low"].as_f64().unwrap());
    assert!(widths[0] < widths[1], "the ratio is surer than the years: {widths:?}");
    assert_eq!(place.flashfit(&estimate).stdout, first.stdout, "the same seed, the same answer");
}

#[test]
fn people_read_that_it_is_simulated_and_what_matters_most() {
    let text = Place::new().flashfit(&ESTIMATE).stdout;
    for expected in ["Simulated life of", "YEARS (90 % INTERVAL)", "What matters most is", "f2fs"] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_used_device_has_fewer_years_and_says_so() {
    let place = Place::new();
    let median = |document: &serde_json::Value| document["setups"][0]["years"]["median"].as_f64();
    let estimate = |more: &[&str]| place.flashfit(&[&ESTIMATE[..], more].concat());
    let fresh = estimate(&["--json"]).document("flashfit.wear-estimate");
    let used = estimate(&["--used", "10", "--json"]).document("flashfit.wear-estimate");
    let ratio = median(&used).unwrap() / median(&fresh).unwrap();
    // The worst block, which is the first limit, has used more than the mean.
    assert!((0.5..0.75).contains(&ratio), "{ratio}");
    assert_eq!(used["used_life"]["low"], 0.1);
    let text = estimate(&["--used", "50"]).stdout;
    let text = text.replace('\n', " ");
    for part in ["50 % of its life used, as given", "the cases in which it still accepts writes"] {
        assert!(text.contains(part), "{text}");
    }
    estimate(&["--used", "half"]).said(2, &["invalid value"]);
}

#[test]
fn a_nearly_worn_device_has_years_that_are_numbers() {
    let place = Place::new();
    let args = ["wear", "estimate", "sim:emmc-5.1", "--fs", "ext4", "--usage", "raspberry-pi"];
    let estimate = |more: &[&str]| place.flashfit(&[&args[..], more].concat());
    let json = estimate(&["--endurance", "1000", "--used", "90", "--json"]);
    let document = json.document("flashfit.wear-estimate");
    let setup = &document["setups"][0];
    for years in [&setup["years"], &setup["writable_years"]] {
        assert!(["low", "median", "high"].iter().all(|key| years[key].is_number()), "{years}");
    }
    assert!(setup["limits"].as_array().unwrap().iter().all(|limit| limit["years"].is_number()));
    assert_eq!(document["pslc_rated_cycles"], 10_000);
    estimate(&["--class", "usd-a1-pagemap"]).said(2, &["is a card model", "leave out --class"]);
}

#[test]
fn impossible_usage_is_refused() {
    let place = Place::new();
    let usage = |gib: &str, key: &str| {
        format!(
            "title = \"mine\"\n[writes.logs]\n{key} = {gib}\nsource = \"me\"\n[capacity]\ngib = 32\n\
             source = \"me\"\n[active]\nhours_a_day = 1\nsource = \"me\"\n[fill]\npercent = 50\n\
             source = \"me\"\n[changed]\npercent = 10\nsource = \"me\"\n[spare]\npercent = 0\n\
             source = \"me\"\n[volume]\nfactor = 1.5\nsource = \"me\"\n[trim]\n\
             interval = \"weekly\"\nsource = \"me\"\n"
        )
    };
    let estimate = |more: &[&str]| {
        let args = ["wear", "estimate", "sim:usd-a1-pagemap", "--fs", "ext4", "--usage", "u.toml"];
        place.flashfit(&[&args[..], more].concat())
    };
    place.file("u.toml", &usage("500", "gib_a_day"));
    let much = estimate(&[]);
    much.said(2, &["can write"]);
    place.file("u.toml", &usage("500", "mb_a_day"));
    let unit = estimate(&[]);
    unit.said(2, &["writes.logs.mb_a_day: wrong unit; expected `gib_a_day`"]);
    place.file("u.toml", &usage("0.1", "gib_a_day"));
    estimate(&["--endurance", "0"]).said(2, &["0 is not in"]);
    let missing = place.flashfit(&[
        "wear",
        "estimate",
        "sim:usd-a1-pagemap",
        "--fs",
        "nilfs2",
        "--usage",
        "u.toml",
    ]);
    missing.said(2, &["flashfit wear record"]);
}

#[test]
fn a_setup_that_the_device_is_too_slow_for_is_listed_with_the_others() {
    let place = Place::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalog/usage/router.toml");
    let router = std::fs::read_to_string(file).unwrap();
    place.file("u.toml", &router.replace("hours_a_day = 24", "hours_a_day = 0.8"));
    let estimate = |filesystems: &str, more: &[&str]| {
        let args = ["wear", "estimate", "sim:sd-c10-log", "--usage", "u.toml"];
        place.flashfit(&[&args[..], &["--fs", filesystems, "--compare"], more].concat())
    };
    let document = estimate("btrfs,f2fs,nilfs2", &["--json"]).document("flashfit.wear-estimate");
    let setups = document["setups"].as_array().unwrap();
    assert_eq!((setups.len(), &setups[0]["setup"]), (1, &"f2fs".into()), "{document:#}");
    let others = document["not_estimated"].as_array().unwrap();
    assert_eq!([&others[0]["setup"], &others[1]["setup"]], ["btrfs", "nilfs2"], "{document:#}");
    let text = estimate("f2fs,nilfs2", &[]);
    text.said(0, &[]);
    assert!(text.stdout.contains("Not estimated: no recorded trace"), "{}", text.stdout);
    let none = estimate("btrfs", &[]);
    none.said(2, &["btrfs: 123 MiB a day need", "can write", "another file system"]);
    assert!(!none.stderr.contains("0.1 GiB"), "{}", none.stderr);
}

#[test]
fn a_setup_that_does_not_exist_is_the_error() {
    let place = Place::new();
    let estimate = |filesystem: &str| {
        let args = ["wear", "estimate", "sim:usd-a1-pagemap", "--usage", "router", "--fs"];
        place.flashfit(&[&args[..], &[filesystem]].concat())
    };
    estimate("ext4,ext4:nope").said(2, &["unknown option of ext4 `nope`", "noatime"]);
    estimate("ext9").said(2, &["unknown file system `ext9`", "ext4"]);
    // Known, but not recorded.
    estimate("ext4:noatime").said(2, &["flashfit wear record"]);
}

#[test]
fn an_image_file_needs_a_class() {
    let place = Place::new();
    place.image("card.img", 64);
    let estimate = |target: &str, more: &[&str]| {
        let args = ["wear", "estimate", target, "--usage", "router", "--fs", "ext4"];
        place.flashfit(&[&args[..], more].concat())
    };
    estimate("card.img", &[]).said(2, &["it is an image file", "--class CARD"]);
    estimate("none.img", &[]).said(2, &["there is no none.img"]);
    let class = ["--class", "usd-a1-pagemap"];
    estimate("card.img", &class).said(2, &["need at least 1 GiB", "choose a larger capacity"]);
    estimate("card.img", &[&class[..], &["--capacity", "8GiB"]].concat()).said(0, &[]);
}

#[test]
fn a_recorded_trace_can_be_estimated_with() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    std::fs::create_dir_all(place.path("own/traces")).unwrap();
    let record = |options: &[&str]| {
        let args =
            ["wear", "record", "sim:usd-a1-pagemap", "--workload", "logs", "--volume", "1MiB"];
        place.flashfit(
            &[&args[..], &["--fill-percent", "5", "--data-size", "4MiB"], options].concat(),
        )
    };
    let output = "own/traces/ext4+noatime-logs.toml";
    let recorded = record(&["--fs", "ext4:noatime", "--output", output, "--json"]);
    let document = recorded.document("flashfit.wear-record");
    assert!(document["requests"].as_u64() > Some(100), "{document}");
    record(&["--fs", "ext4", "--output", "missing/x.toml"]).said(2, &["missing"]);
    std::fs::create_dir_all(place.path("own/usage")).unwrap();
    let router = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/usage/router.toml"),
    );
    let logs_only = router.unwrap().replace("gib_a_day = 0.02", "gib_a_day = 0");
    place.file("own/usage/mine.toml", &logs_only);
    let estimate = place.flashfit(&[
        "wear",
        "estimate",
        "usd-a1-pagemap",
        "--fs",
        "ext4:noatime",
        "--usage",
        "mine",
        "--catalog",
        "own",
        "--json",
    ]);
    assert_eq!(estimate.document("flashfit.wear-estimate")["setups"].as_array().unwrap().len(), 1);
}

#[test]
fn a_card_ages_until_it_is_read_only_and_can_be_served_then() {
    let place = Place::new();
    let age = |more: &[&str]| {
        let card = ["wear", "age", "usd-a1-pagemap", "--fs", "ext4", "--usage", "kiosk"];
        let small = ["--capacity", "2GiB", "--endurance", "5", "--years", "3"];
        place.flashfit(&[&card[..], &small, more].concat())
    };
    let document = age(&["--json", "--save", "old.card", "--svg", "old.svg"]);
    let document = document.document("flashfit.wear-age");
    assert_eq!(document["end"], "read-only", "{document:#}");
    let years = document["years"].as_f64().unwrap();
    assert!(years > 0.0 && years < 3.0, "{years}");
    let last = document["points"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["spare_blocks"]["left"], 0, "{last}");
    assert!(last["spare_blocks"]["retired"].as_u64().unwrap() > 0, "{last}");
    assert!(std::fs::read_to_string(place.path("old.svg")).unwrap().contains("simulated card"));
    age(&["--save", "old.card"]).said(2, &["old.card exists", "--force"]);
    age(&["--save", "none/old.card"]).said(2, &["there is no directory none"]);
    age(&["--save", "x", "--svg", "./x"]).said(2, &["the same file", "name two files"]);
    if skip_without_cards() {
        return;
    }
    let serve = ["card", "serve", "usd-a1-pagemap", "--state", "old.card"];
    let serving = Serving::of(place.command(&serve));
    let stats = place.flashfit(&["card", "stats", serving.arg()]).stdout;
    assert!(stats.contains("worn out: the card is read-only"), "{stats}");
    let write = format!("of={}", serving.arg());
    let dd = std::process::Command::new("dd")
        .args(["if=/dev/zero", &write, "bs=64k", "count=1", "oflag=direct", "conv=notrunc"])
        .output()
        .unwrap();
    assert!(!dd.status.success(), "a worn-out card accepts no writes");
    // A card that is dropped would be saved after its directory was removed.
    serving.end(Signal::INT).said(0, &[]);
}
