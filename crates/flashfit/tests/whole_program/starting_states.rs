//! A gain holds for file systems that were used before: a run on a card where ext4 is fast right
//! after mkfs only, compared with measurements that use nothing of flashfit.

use std::path::Path;
use std::process::Command;

use flashfit_test_support::{TestNeed, programs, skip, skip_part};
use serde_json::Value;

use crate::card::Serving;
use crate::fixture::{Place, skip_without_cards};

const CARD: &str = "sd-sandisk-c4";
const CONFIG: &str = r#"workloads = ["sync-files"]
schedulers = ["none"]
budget = "150s"
"#;
/// Makes `$1` on the device `$2`, mounts it, mounts it again, and prints the bytes per second of
/// sync-files with the volume that trials use. `$3` is a folder, `$4` the job file.
const BY_HAND: &str = r#"
set -eu
case $1 in ext4) force=-F ;; *) force=-f ;; esac
"mkfs.$1" -q $force "$2" > "$3/mkfs.log" 2>&1
mkdir -p "$3/mnt"
mount "$2" "$3/mnt"
umount "$3/mnt"
mount "$2" "$3/mnt"
mkdir "$3/mnt/work"
DIRECTORY="$3/mnt/work" SIZE=16711680 FILES=102 RUNTIME=2000ms SEED="$5" \
    fio --output-format=json --output="$3/fio.json" --section=write "$4"
umount "$3/mnt"
"#;
const REPEATS: usize = 3;

/// The logarithm of the speed of a remounted file system.
fn remounted(place: &Place, filesystem: &str, device: &Path, repeat: usize) -> f64 {
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/workloads/sync-files.fio");
    let made = Command::new("unshare")
        .args(["--mount", "sh", "-c", BY_HAND, "by-hand", filesystem])
        .args([device, place.folder(), &job])
        .arg(repeat.to_string())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = std::fs::read_to_string(place.path("fio.json")).unwrap();
    let document = &text[text.find('{').unwrap()..];
    let found: Value = serde_json::from_str(document).unwrap();
    let write = &found["jobs"][0]["write"];
    let (bytes, ms) = (write["io_bytes"].as_f64().unwrap(), write["runtime"].as_f64().unwrap());
    (bytes * 1000.0 / ms).ln()
}

fn options_of(place: &Place, filesystem: &str) -> Vec<String> {
    let listed = place.flashfit(&["catalog", "--json"]).document("flashfit.catalog");
    let mut of = listed["filesystems"].as_array().unwrap().iter();
    let options = of.find(|found| found["name"] == filesystem).unwrap()["options"].clone();
    let names = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|option| option["name"].as_str().unwrap().to_owned()).collect()
    };
    [names(&options), names(&listed["knobs"])].concat()
}

#[test]
#[ignore = "full: measures on a slow card for minutes"]
fn a_claimed_gain_contains_what_a_user_measures_after_a_remount() {
    if skip_without_cards() || skip(programs(&["mkfs.btrfs", "unshare"])) {
        return;
    }
    let place = Place::new();
    let serving = Serving::of(place.command(&["card", "serve", CARD]));
    let name = serving.at.file_name().unwrap().to_str().unwrap();
    let mut claims = Vec::new();
    for (baseline, other) in [("ext4", "btrfs"), ("btrfs", "ext4")] {
        let mut config = format!("filesystems = [\"{baseline}\", \"{other}\"]\n{CONFIG}");
        for filesystem in [baseline, other] {
            let names = options_of(&place, filesystem).join("\", \"");
            config += &format!("[options.{filesystem}]\nexclude = [\"{names}\"]\n");
        }
        place.file("run.toml", &config);
        let run = ["tune", serving.arg(), "--confirm", name, "--config", "run.toml"];
        let more = ["--dir", baseline, "--json", "--progress", "never"];
        let answer =
            place.flashfit(&[&run[..], &more[..]].concat()).document("flashfit.recommendation");
        let gain = &answer["gain"];
        if answer["gain_of"]["filesystem"] == other {
            let end = |key: &str| (1.0 + gain[key].as_f64().unwrap() / 10_000.0).ln();
            let sign = if other == "btrfs" { 1.0 } else { -1.0 };
            let ends = ["low_percent_hundredths", "high_percent_hundredths"].map(end);
            let (one, two) = (sign * ends[0], sign * ends[1]);
            claims.push((one.min(two), one.max(two)));
        }
    }
    // On a machine that is busy, both answers can be "cannot tell", and then nothing is wrong.
    if claims.is_empty() {
        assert!(skip_part(Some(TestNeed::Tool.missing("no gain was claimed in 150 s".to_owned()))));
        return;
    }
    let measure = |filesystem| -> Vec<f64> {
        (0..REPEATS).map(|repeat| remounted(&place, filesystem, &serving.at, repeat)).collect()
    };
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[REPEATS / 2]
    };
    let gain = middle(measure("btrfs")) - middle(measure("ext4"));
    for (low, high) in claims {
        // An interval of 95 % may miss a value by a little, above all on a busy machine; a narrow
        // one must not miss it by far. `make starting-states` counts how many contain it.
        let margin = (high - low) / 2.0;
        let near = low - margin..=high + margin;
        assert!(near.contains(&gain), "by hand {gain}, claimed {low} to {high}");
    }
}
