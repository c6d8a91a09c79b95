//! The bare device under the jobs of a run.

use serde_json::Value;

use crate::fixture::{Place, skip_without_cards};

fn raw(place: &Place) -> Option<Value> {
    let text = std::fs::read_to_string(place.path("run/raw.json")).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn the_bare_device_is_measured_once_a_run_and_drawn() {
    if skip_without_cards() {
        return;
    }
    let place = Place::new();
    let workloads = ["--workload", "random-write,sync-files", "--trials", "20"];
    place.tune(&place.card(), &workloads).said(0, &[]);
    let measured = raw(&place).expect("a run of twenty trials affords it");
    let of = measured["workloads"].as_array().unwrap();
    let names: Vec<&str> = of.iter().map(|one| one["workload"].as_str().unwrap()).collect();
    assert_eq!(names, ["random-write"], "files need a file system");
    let stage = &of[0]["points"][0]["stages"][0];
    assert!(stage["write"]["bytes_per_second"].as_u64().unwrap() > 0, "{stage:#}");
    let report = std::fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(report.contains("bare device, no file system"));

    let resume = ["tune", "--resume", "run", "--workload", "linear-write", "--progress", "never"];
    place.flashfit(&resume).said(0, &[]);
    let extended = raw(&place).unwrap();
    assert_eq!(extended["workloads"][0], measured["workloads"][0], "nothing is measured twice");
    assert_eq!(extended["workloads"][1]["workload"], "linear-write");
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
