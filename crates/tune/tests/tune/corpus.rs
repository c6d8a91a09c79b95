//! Recorded runs of every released format, also with unknown keys in every object, as a newer
//! flashfit would write them.
//!
//! `runs/VERSION-NAME` are the files of real runs without fio's raw output. `v1-early` has none of
//! the keys that were added later; `v1-written-by-others` has only what docs/run-format.md needs.

use std::path::{Path, PathBuf};

use flashfit_filesystem::FileSystemCatalog;
use flashfit_test_support::{AttemptKind, attempted};
use flashfit_tune::replay::Recording;
use flashfit_tune::{RunDir, Space, StoredRun};
use serde_json::Value;

const FOREIGN: &str = "v1-written-by-others";
const NEW_KEY: &str = "from_a_newer_flashfit";

/// Objects whose keys are names or the variant of a value. They do not grow by new keys.
const BY_NAME: [&str; 8] = [
    "spec.options",
    "spec.weights_thousandths",
    "facts.programs",
    "facts.planned",
    "facts.conditions.planned",
    "facts.layout.layout",
    "outcome",
    "point",
];

fn runs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs");
    let mut runs: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    runs.sort();
    assert!(runs.len() >= 5, "{runs:?}");
    runs
}

fn is_ours(run: &Path) -> bool {
    !run.ends_with(FOREIGN)
}

/// A copy of a run that a test may change.
fn copy(run: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["run.json", "trials.jsonl"] {
        std::fs::copy(run.join(file), folder.path().join(file)).unwrap();
    }
    folder
}

/// What is read, as text: of a run of ours all of it.
fn read(run: &Path, ours: bool) -> String {
    let recording = Recording::read(&[run.to_owned()]).unwrap_or_else(|e| panic!("{run:?}: {e}"));
    let recording = Recording { paths: Vec::new(), catalogs: Vec::new(), ..recording };
    if !ours {
        return format!("{recording:?}");
    }
    let read = StoredRun::read(run).unwrap_or_else(|error| panic!("{}: {error}", run.display()));
    format!("{recording:?} {read:?}")
}

/// The paths of all objects that can grow by a key, as JSON pointers.
fn objects(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let dotted: Vec<&str> =
        pointer.split('/').filter(|part| !part.is_empty() && part.parse::<u8>().is_err()).collect();
    let dotted = dotted.join(".");
    let by_name = BY_NAME.iter().any(|name| {
        dotted == *name || (!name.contains('.') && dotted.ends_with(&format!(".{name}")))
    });
    // The inner maps of `planned` are from names to numbers.
    let by_name = by_name || dotted.starts_with("facts.planned.");
    match value {
        Value::Object(map) => {
            if !by_name {
                found.push(pointer.to_owned());
            }
            for (key, inner) in map {
                objects(inner, &format!("{pointer}/{}", key.replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (number, inner) in items.iter().enumerate() {
                objects(inner, &format!("{pointer}/{number}"), found);
            }
        }
        _ => {}
    }
}

fn grown(value: &Value, pointer: &str) -> Value {
    let mut value = value.clone();
    let object = value.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
    object.insert(NEW_KEY.into(), serde_json::json!({"why": [1, null, "x"]}));
    value
}

#[test]
fn every_run_can_be_read_replayed_and_resumed() {
    let catalog = FileSystemCatalog::load(None).unwrap();
    for run in runs() {
        let lines = std::fs::read_to_string(run.join("trials.jsonl")).unwrap().lines().count();
        assert!(lines > 1);
        read(&run, is_ours(&run));
        if !is_ours(&run) {
            continue;
        }
        let whole = StoredRun::read(&run).unwrap();
        assert_eq!(whole.trials.len(), lines);
        Space::of_run(&whole.header, &catalog).unwrap_or_else(|e| panic!("{run:?}: {e}"));
        let folder = copy(&run);
        let (mut resumed, again) = RunDir::resume(folder.path()).unwrap();
        assert_eq!(again.trials.len(), lines);
        let mut next = again.trials[0].clone();
        (next.number, next.key.repeat) = (99, 99);
        resumed.append(&next, &[], &[]).unwrap();
        assert_eq!(StoredRun::read(folder.path()).unwrap().trials.len(), lines + 1);
    }
}

#[test]
fn unknown_keys_are_ignored_everywhere() {
    let mut tried = 0;
    for run in runs() {
        let ours = is_ours(&run);
        let before = read(&run, ours);
        let folder = copy(&run);
        let header_text = std::fs::read_to_string(run.join("run.json")).unwrap();
        let header: Value = serde_json::from_str(&header_text).unwrap();
        let mut pointers = Vec::new();
        objects(&header, "", &mut pointers);
        for pointer in &pointers {
            let file = folder.path().join("run.json");
            std::fs::write(&file, grown(&header, pointer).to_string()).unwrap();
            assert_eq!(read(folder.path(), ours), before, "{} in {}", pointer, run.display());
        }
        std::fs::write(folder.path().join("run.json"), header_text).unwrap();
        tried += pointers.len();

        let text = std::fs::read_to_string(run.join("trials.jsonl")).unwrap();
        let trials: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        // The others have the same keys.
        for (number, trial) in trials.iter().enumerate().take(3) {
            let mut pointers = Vec::new();
            objects(trial, "", &mut pointers);
            for pointer in &pointers {
                let mut trials = trials.clone();
                trials[number] = grown(trial, pointer);
                let lines: String = trials.iter().map(|trial| format!("{trial}\n")).collect();
                std::fs::write(folder.path().join("trials.jsonl"), lines).unwrap();
                assert_eq!(read(folder.path(), ours), before, "{pointer} in {}", run.display());
            }
            tried += pointers.len();
        }
    }
    attempted(AttemptKind::ForeignRunDir, tried);
    assert!(tried > 150, "{tried} places were tried");
}

#[test]
fn a_trial_may_record_only_its_cost() {
    let run = runs().into_iter().find(|run| run.ends_with(FOREIGN)).unwrap();
    let recording = Recording::read(&[run]).unwrap();
    let short = recording.trials.iter().find(|trial| trial.phases.total_ns > 0).unwrap();
    assert_eq!((short.phases.total_ns, short.phases.mkfs_ns), (1_500_000_000, 0));
}
