//! `flashfit survey export`: DuckDB answers as `survey list` does.

use std::path::{Path, PathBuf};

use flashfit_host::{Program, Runner, SystemRunner};
use serde_json::{Value, json};

use crate::fixture::{Place, skip};
use crate::survey::{cid, run};

/// Reads queries as a list of JSON, writes the rows of each.
const ASK: &str = "\
import duckdb, json, sys
ask = json.load(sys.stdin)
for name in ('cards', 'results'):
    duckdb.execute(f\"CREATE VIEW {name} AS SELECT * FROM read_parquet('{ask['dir']}/{name}/*/*.parquet', \"
        \"hive_partitioning = true, hive_types = {'product': VARCHAR})\")
print(json.dumps([duckdb.execute(query).fetchall() for query in ask['queries']]))
";

/// Conditions for `--where`, and the same in SQL.
const ASKED: [(&str, &str); 10] = [
    ("kind=sd-card", "kind = 'sd-card'"),
    ("product=SL32G", "product = 'SL32G'"),
    ("product!=SL32G", "product IS DISTINCT FROM 'SL32G'"),
    ("simulated=true", "simulated"),
    ("capacity_bytes>=32GiB", "capacity_bytes >= 34359738368"),
    ("individual=true", "individual"),
    ("manufacturer~3", "contains(lower(manufacturer), '3')"),
    ("runs>=2", "runs >= 2"),
    ("probes=1", "probes = 1"),
    ("oem!=XX", "oem IS DISTINCT FROM 'XX'"),
];

fn python() -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let python = target.join("duckdb/bin/python");
    let missing = "DuckDB is not installed (sh scripts/duckdb-for-tests.sh)".to_owned();
    if python.exists() { Ok(python) } else { Err(missing) }
}

/// Three cards of one product, one of them with two runs, and a simulated one that was probed.
fn surveyed() -> Place {
    let place = Place::new();
    for (name, serial, seed) in
        [("a", 0x7654_3210, 1), ("b", 0x7654_3210, 2), ("c", 0x7654_3211, 3), ("d", 0x7654_3212, 4)]
    {
        run(&place, &format!("runs/{name}"), &cid(serial), seed, 1.0);
    }
    let card = place.card();
    place.flashfit(&["probe", &card, "--output", "runs/probe.json"]).said(0, &[]);
    place.flashfit(&["survey", "add", "runs"]).said(0, &[]);
    place
}

#[test]
fn an_export_is_complete_or_absent_and_replaces_nothing() {
    let place = surveyed();
    let export = ["survey", "export", "--parquet", "out"];
    let document = place.flashfit(&[&export[..], &["--json"]].concat());
    let document = document.document("flashfit.survey-exported");
    assert_eq!((&document["cards"], &document["products"]), (&json!(4), &json!(2)), "{document}");
    assert!(document["results"].as_u64().unwrap() > 8, "{document}");
    let file = place.path("out/results/product=SL32G/part-0.parquet");
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    place.flashfit(&export).said(3, &["out exists", "does not exist"]);
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    // Somebody's directory is not removed.
    std::fs::create_dir(place.path("other.unfinished")).unwrap();
    place.file("other.unfinished/notes.txt", "mine");
    let other = ["survey", "export", "--parquet", "other"];
    place.flashfit(&other).said(3, &["other.unfinished exists"]);
    assert!(place.path("other.unfinished/notes.txt").exists() && !place.path("other").exists());
    let nowhere = ["survey", "export", "--parquet", "no/such/folder"];
    place.flashfit(&nowhere).said(4, &["cannot write no/such/folder.unfinished"]);
}

#[test]
#[ignore = "full: needs DuckDB from Python's package index"]
fn duckdb_answers_as_the_command_does() {
    let python = python();
    if skip(python.clone().err()) {
        return;
    }
    let place = surveyed();
    let exported = place.flashfit(&["survey", "export", "--parquet", "out", "--json"]);
    let exported = exported.document("flashfit.survey-exported");
    let columns = "left(card, 10), kind, product, capacity_bytes, individual, runs, probes";
    let query = |(_, sql): &(&str, &str)| format!("SELECT {columns} FROM cards WHERE {sql}");
    let mut queries: Vec<String> = ASKED.iter().map(query).collect();
    queries.push("SELECT count(*), count(DISTINCT card) FROM results".to_owned());
    let ask = json!({ "dir": place.arg("out"), "queries": queries });
    let program = Program::new(python.unwrap().display().to_string())
        .args(["-c", ASK])
        .stdin(ask.to_string());
    let answer = SystemRunner::default().run(&program).unwrap();
    assert!(answer.success(), "{answer:?}");
    let answers: Vec<Vec<Value>> = serde_json::from_str(&answer.stdout).unwrap();
    for ((filter, _), rows) in ASKED.iter().zip(&answers) {
        let listed = place.flashfit(&["survey", "list", "--json", "--where", filter]);
        let listed = listed.document("flashfit.survey-cards")["results"].clone();
        let row = |card: &Value| {
            let of = |name: &str| card[name].clone();
            let names =
                ["card", "kind", "product", "capacity_bytes", "individual", "runs", "probes"];
            Value::Array(names.iter().map(|name| of(name)).collect())
        };
        let mut wanted: Vec<Value> = listed.as_array().unwrap().iter().map(row).collect();
        let mut found = rows.clone();
        let order = |row: &Value| row[0].as_str().unwrap().to_owned();
        wanted.sort_by_key(order);
        found.sort_by_key(order);
        assert!(!wanted.is_empty(), "{filter} finds something");
        assert_eq!(found, wanted, "{filter}");
    }
    // The simulated card was probed without a result.
    assert_eq!(answers[10][0], json!([exported["results"], 3]));
}
