//! The command that repeats a run in a directory next to it.

use std::path::{Path, PathBuf};

use flashfit_host::path_text;
use flashfit_host::program::quote_path;
use flashfit_target::SIMULATED;
use flashfit_testbed::{TestBedSpec, VmChoice};
use flashfit_tune::{RunSpec, StoredRun};

/// The directory of the run on the twin, in that of the run on the device.
pub const TWIN_DIR: &str = "twin";

pub fn reproduce(dir: &Path) -> String {
    let [config, again] = [dir.join("config.toml"), again(dir)].map(|path| quote_path(&path));
    let twin = StoredRun::read(&dir.join(TWIN_DIR)).ok();
    let twin = twin.map_or_else(String::new, |run| twin_words(&run.header.spec));
    format!("flashfit tune --config {config}{twin} --dir {again}")
}

/// The configuration file does not name the twin.
fn twin_words(spec: &RunSpec) -> String {
    let Some(file) = spec.target.strip_prefix(SIMULATED) else { return String::new() };
    let mut words = format!(" --twin {}", quote_path(&path_text::from_text(file)));
    if let Some(trials) = spec.limits.trials {
        words.push_str(&format!(" --twin-trials {trials}"));
    }
    if let TestBedSpec::Vm(VmChoice { speed_mips: Some(mips), .. }) = spec.on {
        words.push_str(&format!(" --twin-speed-mips {mips}"));
    }
    words
}

/// Names such as `.` have no last part.
fn again(dir: &Path) -> PathBuf {
    let real = if dir.file_name().is_none() { dir.canonicalize().ok() } else { None };
    let dir = real.as_deref().unwrap_or(dir);
    let mut name = dir.file_name().unwrap_or_else(|| "run".as_ref()).to_owned();
    name.push("-again");
    dir.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twin_of_a_run_is_named() {
        let run = tempfile::tempdir().unwrap();
        let recorded =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../tune/tests/runs/v1-sim-adaptive");
        assert!(!reproduce(run.path()).contains("--twin"));
        let twin = run.path().join(TWIN_DIR);
        std::fs::create_dir(&twin).unwrap();
        for name in ["run.json", "trials.jsonl"] {
            std::fs::copy(recorded.join(name), twin.join(name)).unwrap();
        }
        let spec = StoredRun::read(&twin).unwrap().header.spec;
        let card = spec.target.strip_prefix(SIMULATED).unwrap();
        let command = reproduce(run.path());
        assert!(command.contains(&format!("config.toml --twin {card} ")), "{command}");
        let trials = spec.limits.trials.map(|trials| format!(" --twin-trials {trials} "));
        assert!(trials.is_none_or(|words| command.contains(&words)), "{command}");
    }

    #[test]
    fn the_repeated_run_is_next_to_the_first() {
        for dir in ["runs/card", "runs/card/", "runs/card/."] {
            assert_eq!(again(Path::new(dir)), Path::new("runs/card-again"), "{dir}");
        }
        assert_eq!(reproduce(Path::new("a b/")).matches("'a b").count(), 2);
        let here = std::env::current_dir().unwrap();
        let name = here.file_name().unwrap().to_str().unwrap();
        assert_eq!(again(Path::new(".")), here.with_file_name(format!("{name}-again")));
    }
}
