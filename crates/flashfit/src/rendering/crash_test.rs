//! What crash states of the recommended setup showed, from the file in the run directory.

use std::path::Path;

use flashfit_filesystem::Setup;
use flashfit_host::input_file;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rendering::two_digits;

/// Its name in the run directory.
pub const FILE: &str = "crash.json";
const MOST_BYTES: u64 = 64 << 10;

/// The result of crash states of one setup.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CrashTest {
    /// As `flashfit crash` writes it: `ext4:noatime`.
    pub setup: String,
    pub states: u64,
    /// States in which a promise was broken.
    pub broken: u64,
    /// Of the share of such states among all states of the recorded logs, at 95 %, rounded up.
    pub upper_bound_millionths: u64,
    /// Recorded runs of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<u64>,
    /// Of the share of further runs in which a check of as many states, drawn at random, finds such
    /// a state, at 95 %, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_upper_bound_millionths: Option<u64>,
    pub workload: String,
    pub kernel: String,
    /// Why nothing was tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_tested: Option<String>,
}

/// A setup as `flashfit crash` writes it.
pub fn label(setup: &Setup) -> String {
    match setup.options.is_empty() {
        true => setup.filesystem.clone(),
        false => format!("{}:{}", setup.filesystem, setup.options.join("+")),
    }
}

impl CrashTest {
    /// The result for this setup, if there is one.
    pub fn read(dir: &Path, setup: &Setup) -> Option<Self> {
        let text = input_file::read_text(&dir.join(FILE), MOST_BYTES).ok()?;
        let tested: Self = serde_json::from_slice(text.as_bytes()).ok()?;
        (tested.setup == label(setup)).then_some(tested)
    }

    /// In one sentence.
    pub fn sentence(&self) -> String {
        let Self { setup, states, broken, workload, kernel, .. } = self;
        if let Some(why) = &self.not_tested {
            return format!("Power cuts were not tested: {why}.");
        }
        let count = if *broken == 1 { "state" } else { "states" };
        let percent = |millionths: u64| two_digits(millionths as f64 / 1e4);
        let here = percent(self.upper_bound_millionths);
        let (of, limits) = match (self.logs, self.runs_upper_bound_millionths) {
            (Some(logs), Some(runs)) => (
                format!(" of {logs} runs of it"),
                format!(
                    "at most {here} % of all states of these runs; such a state would be found in at \
                     most {} % of further runs by checking as many states",
                    percent(runs)
                ),
            ),
            _ => (String::new(), format!("at most {here} % of all states of these runs")),
        };
        format!(
            "Tested {setup} at simulated power cuts (Linux {kernel}, workload {workload}): {states} \
             states{of}; {broken} {count} broke a promise ({limits}, 95 %)."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_has_the_bound_and_belongs_to_its_setup() {
        let mut tested = CrashTest {
            setup: "ext4:noatime".to_owned(),
            states: 1000,
            upper_bound_millionths: 2992,
            workload: "files".to_owned(),
            kernel: "6.1".to_owned(),
            ..CrashTest::default()
        };
        let sentence = tested.sentence();
        let here = "1000 states; 0 states broke a promise (at most 0.30 % of all states of these \
                    runs, 95 %).";
        assert!(sentence.ends_with(here), "{sentence}");
        let one = CrashTest { broken: 1, ..tested.clone() }.sentence();
        assert!(one.contains("; 1 state broke a promise ("), "{one}");
        (tested.logs, tested.runs_upper_bound_millionths) = (Some(60), Some(48_704));
        let sentence = tested.sentence();
        assert!(sentence.contains("1000 states of 60 runs of it; 0 states broke"), "{sentence}");
        assert!(sentence.contains("found in at most 4.9 % of further runs by"), "{sentence}");
        tested.upper_bound_millionths = 30;
        assert!(tested.sentence().contains("at most 0.0030 %"), "{}", tested.sentence());
        tested.upper_bound_millionths = 250_000;
        assert!(tested.sentence().contains("at most 25 %"), "{}", tested.sentence());
        let dir = tempfile::tempdir().unwrap();
        let text = serde_json::to_string(&tested).unwrap();
        std::fs::write(dir.path().join(FILE), text).unwrap();
        let scheduler = flashfit_filesystem::Scheduler::new("none");
        let setup = |options: &[&str]| Setup {
            filesystem: "ext4".to_owned(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            scheduler: scheduler.clone(),
        };
        assert_eq!(CrashTest::read(dir.path(), &setup(&["noatime"])), Some(tested));
        assert_eq!(CrashTest::read(dir.path(), &setup(&[])), None);
    }
}
