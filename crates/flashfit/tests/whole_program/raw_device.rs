//! The bare device under the jobs of a run.

use serde_json::Value;

use crate::fixture::{Place, skip_without_cards};

fn raw(place: &Place) -> Option<Value> {
    let text = std::fs::read_to_string(place.path("run/raw.json")).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn the_bare_device_is_measured_thrice_drawn_and_shown() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let workloads = ["--workload", "random-write,sync-files", "--trials", "20"];
    let ended = place.tune(&place.card(), &workloads);
    ended.said(0, &[]);
    assert!(ended.stdout.contains("The bare device, no file system"), "{ended:?}");
    let measured = raw(&place).expect("a run of twenty trials affords it");
    let of = measured["workloads"].as_array().unwrap();
    let names: Vec<&str> = of.iter().map(|one| one["workload"].as_str().unwrap()).collect();
    assert_eq!(names, ["random-write"; 3], "files need a file system");
    let stage = &of[0]["points"][0]["stages"][0];
    assert!(stage["write"]["bytes_per_second"].as_u64().unwrap() > 0, "{stage:#}");
    let report = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(report.contains("bare device, no file system"));

    let resume = ["tune", "--resume", "run", "--workload", "linear-write", "--progress", "never"];
    place.flashfit(&resume).said(0, &[]);
    let extended = raw(&place).unwrap();
    for known in 0..3 {
        let [before, after] = [&measured, &extended].map(|raw| &raw["workloads"][known]);
        assert_eq!(before, after, "what is known is not measured again");
    }
    let added = extended["workloads"].as_array().unwrap()[3..].iter();
    assert!(
        added.clone().count() == 3 && added.clone().all(|one| one["workload"] == "linear-write")
    );
    let analyzed = place.flashfit(&["analyze", "run"]);
    let text = analyzed.stdout;
    assert!(text.contains("The bare device, no file system"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("random-write ")).collect();
    assert!(rows.iter().any(|row| row.matches("iB/s").count() == 4), "{text}");
}

#[test]
fn a_quick_look_leaves_it_out() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let few = ["--workload", "random-write", "--trials", "4"];
    place.tune(&place.card(), &few).said(0, &[]);
    assert_eq!(raw(&place), None);
}
