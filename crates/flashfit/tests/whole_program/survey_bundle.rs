//! `flashfit survey bundle`, and such a file that is added to another survey.

use serde_json::{Value, json};

use crate::fixture::{Ended, FLASHFIT, Place, skip_without_cards};
use crate::schemas;
use crate::survey::{cid, run};

use flashfit_host::{Program, Runner, SystemRunner};

fn survey(place: &Place, more: &[&str]) -> Ended {
    place.flashfit(&[&["survey"], more].concat())
}

fn rows(place: &Place, more: &[&str]) -> Vec<Value> {
    let listed = survey(place, &[&["list", "--json"], more].concat());
    listed.document("flashfit.survey-cards")["results"].as_array().unwrap().clone()
}

/// A row, apart from who measured it, with nine digits of its numbers: sums in another order
/// differ in the last ones.
fn rounded(row: &Value) -> String {
    let cell = |(key, value): (&String, &Value)| match value.as_f64() {
        Some(number) => format!("{key}={number:.9e}"),
        None => format!("{key}={value}"),
    };
    let cells = row.as_object().unwrap().iter().filter(|(key, _)| !key.starts_with("bundled"));
    cells.map(cell).collect::<Vec<_>>().join(" ")
}

/// Five cards in `runs`, one of which has a name, and a simulated one.
fn filled(place: &Place) {
    for number in 0..5u32 {
        let factor = if number == 4 { 0.5 } else { 1.0 };
        let name = format!("runs/{number}");
        run(place, &name, &cid(0x7654_3210 + number), u64::from(number), factor);
    }
    let card = place.card();
    place.flashfit(&["probe", &card, "--output", "probe.json"]).said(0, &[]);
    survey(place, &["add", "runs", "probe.json"]).said(0, &[]);
    survey(place, &["add", "runs/0", "--card", "red card", "--with-serial"]).said(0, &[]);
}

#[test]
fn a_bundle_is_anonymous_and_compares_like_its_survey() {
    let place = Place::new();
    filled(&place);
    let made = survey(&place, &["bundle", "cards.json", "--json"]);
    let made = made.document("flashfit.survey-bundled");
    assert_eq!((&made["cards"], &made["simulated_left_out"]), (&json!(5), &json!(1)), "{made:#}");
    let text = std::fs::read_to_string(place.path("cards.json")).unwrap();
    schemas::check(&text);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], "flashfit.survey-bundle");
    let folder = place.folder().display().to_string();
    let mut private = vec!["red card".to_owned(), folder];
    for number in 0..5u32 {
        private.extend([cid(0x7654_3210 + number), format!("{:x}", 0x7654_3210 + number)]);
    }
    for card in rows(&place, &[]) {
        let key = card["card"].as_str().unwrap().to_owned();
        let shown = survey(&place, &["show", &key, "--json"]).document("flashfit.survey-card");
        for source in shown["sources"].as_array().unwrap() {
            private.push(source["address"].as_str().unwrap().to_owned());
        }
        private.push(key);
    }
    for word in private {
        assert!(!text.contains(&word), "{word}: {text}");
    }

    let other = ["--db", "other.db"];
    let add = |text: &str| {
        let ended = survey(&place, &[&["add", "cards.json"], &other[..]].concat());
        ended.said(0, &[]);
        assert!(ended.stdout.contains(text), "{}", ended.stdout);
    };
    add("measured by others: 5 new sources of 5 cards");
    add("0 added, 1 there already");
    let compare = |more: &[&str]| -> Vec<String> {
        let ended = survey(&place, &[&["compare", "--json"], more].concat());
        let rows = ended.document("flashfit.survey-products")["results"].clone();
        rows.as_array().unwrap().iter().map(rounded).collect()
    };
    let own = compare(&["--where", "simulated=false"]);
    assert_eq!(compare(&other), own);
    assert_eq!(own.len(), 2, "{own:#?}");
    assert!(rows(&place, &other).iter().all(|card| card["bundled"] == true));
    // Others' cards are never marked as odd among one's own.
    assert!(rows(&place, &other).iter().all(|card| card["doubts"] == ""));
    let none = rows(&place, &[&other[..], &["--where", "bundled=false"]].concat());
    assert_eq!(none, Vec::<Value>::new());
    let text = survey(&place, &[&["list"], &other[..]].concat()).stdout;
    assert!(text.contains("+ measured by others, from a bundle"), "{text}");
    // One card of this survey, and five of others.
    run(&place, "own", &cid(0x7654_3299), 9, 1.0);
    survey(&place, &[&["add", "own"], &other[..]].concat()).said(0, &[]);
    let text = survey(&place, &[&["compare"], &other[..]].concat()).stdout;
    for part in ["SL32G 32 GiB +", " 6 (5+) ", "+ measured by others, from a bundle; --where"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let ended = survey(&place, &[&["compare", "--json"], &other[..]].concat());
    let row = &ended.document("flashfit.survey-products")["results"][0];
    let found = ["cards", "bundled", "bundled_cards"].map(|key| row[key].clone());
    assert_eq!(found, [json!(6), json!(true), json!(5)]);
    let csv = survey(&place, &["compare", "--csv"]).stdout;
    assert!(csv.lines().next().unwrap().contains(",simulated,bundled,individual,"), "{csv}");
    // The survey that made it has all of it.
    let before = rows(&place, &[]);
    survey(&place, &["add", "cards.json"]).said(0, &[]);
    assert_eq!(rows(&place, &[]), before);
}

#[test]
fn a_bundle_is_written_only_to_a_new_file() {
    let place = Place::new();
    survey(&place, &["bundle", "cards.json"]).said(2, &["no survey at"]);
    filled(&place);
    place.file("cards.json", "mine");
    survey(&place, &["bundle", "cards.json"]).said(3, &["cards.json exists", "hint: name another"]);
    assert_eq!(std::fs::read_to_string(place.path("cards.json")).unwrap(), "mine");
    survey(&place, &["bundle", "no/such/cards.json"]).said(2, &["no/such"]);
    survey(&place, &["bundle", "none.json", "--where", "product=x"])
        .said(2, &["nothing to bundle"]);
    assert!(!place.path("none.json").exists());
    let simulated = ["bundle", "sim.json", "--where", "simulated=true"];
    survey(&place, &simulated).said(2, &["hint: for simulated cards, add --with-simulated"]);
    survey(&place, &[&simulated[..], &["--with-simulated"]].concat()).said(0, &[]);
    survey(&place, &["bundle", "named.json", "--with-names"]).said(0, &[]);
    let text = std::fs::read_to_string(place.path("named.json")).unwrap();
    assert!(text.contains("red card"), "{text}");
}

#[test]
fn what_is_no_bundle_adds_nothing() {
    let place = Place::new();
    filled(&place);
    survey(&place, &["bundle", "cards.json"]).said(0, &[]);
    let good = std::fs::read_to_string(place.path("cards.json")).unwrap();
    let refused = |text: &str, part: &str| {
        place.file("bad.json", text);
        survey(&place, &["add", "bad.json", "--db", "other.db"]).said(2, &[part]);
        assert_eq!(rows(&place, &["--db", "other.db"]), Vec::<Value>::new());
    };
    refused(&good[..good.len() / 2], "not a bundle");
    refused(&good.replacen("\"count\":3", "\"count\":-3", 1), "not a bundle");
    refused(&good.replacen("SL32G", "SL\\u001b[31m", 1), "control characters");
    refused(&good.replacen("\"kind\":", "\"command\":\"rm\",\"kind\":", 1), "`command`");
    survey(&place, &["add", "cards.json", "--card", "mine", "--db", "other.db"])
        .said(2, &["a bundle has several cards", "hint: leave --card out"]);
    // Keys in another order, as another program writes them.
    let document: Value = serde_json::from_str(&good).unwrap();
    place.file("sorted.json", &document.to_string());
    survey(&place, &["add", "sorted.json", "--db", "other.db"]).said(0, &[]);
    assert_eq!(rows(&place, &["--db", "other.db"]).len(), 5);
}

#[test]
fn a_full_disk_leaves_no_file() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    filled(&place);
    let script = format!(
        "cd {} && mkdir disk && mount -t tmpfs -o size=4k tmpfs disk || exit 99\n\
         \"$FLASHFIT\" survey bundle disk/cards.json --db survey.db\n\
         echo \"code $?\"; ls -A disk",
        place.folder().display()
    );
    std::fs::copy(place.path("data/flashfit/survey.db"), place.path("survey.db")).unwrap();
    let program =
        Program::new("unshare").args(["--mount", "sh", "-c", &script]).env("FLASHFIT", FLASHFIT);
    let outcome = SystemRunner::default().run(&program).unwrap();
    assert_eq!(outcome.stdout, "code 4\n", "{outcome:#?}");
    assert!(outcome.stderr.contains("no space left"), "{outcome:#?}");
}
