//! The configuration of a run: what the methodology's `config` file says, in TOML.
//!
//! Every key can also be given on the command line, which goes before the file. Unknown keys are
//! errors, because a misspelt one would silently measure something else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flashfit_bench::PointProfile;
use flashfit_catalog::nearest;
use flashfit_device::Bytes;
use flashfit_filesystem::plan::SecondPartition;
use flashfit_filesystem::{FileSystemCatalog, PartitionEnd, PartitionTable, Scheduler};
use flashfit_host::input_file::{TEXT_BYTES, read_text};
use flashfit_testbed::{TestBedSpec, VmChoice, VmDisk};
use flashfit_user_error::{ExitClass, Hint, UserError};
use serde::{Deserialize, Serialize};

use crate::choice::{Criterion, OptionChoice, StrategyKind};
use crate::prior::Likeness;
use crate::quantity::{Percent, TimeSpan, Weight, Years};
use crate::shell_config::{self, ShellConfigMistake};
use crate::spec::RunSpec;

/// The keys of a configuration, for the message about an unknown one.
const KEYS: [&str; 44] = [
    "on",
    "vm_kernel",
    "vm_speed_mips",
    "vm_disk",
    "device",
    "mount_dir",
    "result_dir",
    "catalog_dir",
    "media_page_size",
    "media_erase_block_size",
    "filesystems",
    "workloads",
    "schedulers",
    "strategy",
    "profile",
    "by",
    "repeats",
    "confirm_rounds",
    "seed",
    "start",
    "table",
    "align_end",
    "label",
    "second",
    "allow",
    "data_size",
    "memory",
    "runtime_ms",
    "require",
    "p99_write_max",
    "usage",
    "min_years",
    "endurance",
    "capacity",
    "class",
    "budget",
    "max_write",
    "trials",
    "within",
    "fill",
    "age",
    "fresh",
    "weights",
    "options",
];

/// A configuration file. Nothing in it is required.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where trials are made: `here`, `vm` or `ssh:HOST`.
    pub on: Option<String>,
    /// The kernel of a virtual machine.
    #[serde(default, with = "flashfit_host::path_text::optional")]
    pub vm_kernel: Option<PathBuf>,
    /// The speed of a virtual machine's processor, in millions of instructions a second.
    pub vm_speed_mips: Option<u32>,
    /// As what a virtual machine sees the device.
    pub vm_disk: Option<VmDisk>,
    /// The device: a device node, an image file or `sim:NAME`.
    pub device: Option<String>,
    /// Where file systems are mounted during a trial.
    #[serde(default, with = "flashfit_host::path_text::optional")]
    pub mount_dir: Option<PathBuf>,
    #[serde(default, with = "flashfit_host::path_text::optional")]
    pub result_dir: Option<PathBuf>,
    /// A folder with the user's own catalog files.
    #[serde(default, with = "flashfit_host::path_text::optional")]
    pub catalog_dir: Option<PathBuf>,
    /// The device's page, the unit written together.
    pub media_page_size: Option<Bytes>,
    /// The device's erase block.
    pub media_erase_block_size: Option<Bytes>,
    /// File systems to try; all of the catalog unless given.
    pub filesystems: Option<Vec<String>>,
    /// Workloads to measure; those of the profile unless given.
    pub workloads: Option<Vec<String>>,
    /// I/O schedulers to try, by today's or the methodology's names; all of the kernel's unless
    /// given.
    pub schedulers: Option<Vec<String>>,
    /// How the next setup is chosen.
    pub strategy: Option<StrategyKind>,
    /// How long each trial measures.
    pub profile: Option<PointProfile>,
    /// What is ranked by.
    pub by: Option<Criterion>,
    /// Trials of each setup under each workload.
    pub repeats: Option<u32>,
    /// Rounds of fresh trials of the winner against the baseline.
    pub confirm_rounds: Option<u32>,
    /// The seed of everything random.
    pub seed: Option<u64>,
    /// Where the file system starts: `auto`, `whole` or a position.
    pub start: Option<String>,
    /// The partition table: `gpt`, `mbr` or `none`.
    pub table: Option<PartitionTable>,
    /// Whether the partition ends on a multiple of the erase block.
    pub align_end: Option<bool>,
    /// The label that the recommended setup gets.
    pub label: Option<String>,
    /// The second partition, as `swap:512MiB`.
    #[serde(default, with = "second_text")]
    pub second: Option<SecondPartition>,
    /// The least safety of a recommended setup.
    pub allow: Option<flashfit_filesystem::Durability>,
    /// How much data a workload uses.
    pub data_size: Option<Bytes>,
    /// How much memory a workload's programs and their page cache may use.
    pub memory: Option<Bytes>,
    /// When a stage of a workload ends although not all its data was moved, in milliseconds.
    pub runtime_ms: Option<u64>,
    /// The same as `allow`, seen from the other side: what a recommended setup must be at least.
    pub require: Option<flashfit_filesystem::Durability>,
    /// The longest that 99 of 100 writes may take under a recommended setup.
    pub p99_write_max: Option<TimeSpan>,
    /// The usage model by which setups are estimated to last.
    pub usage: Option<String>,
    /// How many years a recommended setup must last under it.
    pub min_years: Option<Years>,
    /// Rated erase cycles of the device.
    pub endurance: Option<u64>,
    /// The capacity of the device in use, where a reduced model of it is measured.
    pub capacity: Option<Bytes>,
    /// The card that the device is modeled as.
    pub class: Option<String>,
    /// How long the trials may take together, or `unlimited`.
    pub budget: Option<TimeSpan>,
    /// How much may be written to the device.
    pub max_write: Option<Bytes>,
    /// How many trials may be made.
    pub trials: Option<u32>,
    /// How far below the best the answer may be.
    pub within: Option<Percent>,
    /// How full the file system is when a workload begins.
    pub fill: Option<Percent>,
    /// Rounds of ageing before a workload begins.
    pub age: Option<u32>,
    /// Whether every workload begins on a file system as mkfs left it.
    pub fresh: Option<bool>,
    /// How much workloads count that do not count once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, Weight>,
    /// By file system: options always on, and options left out.
    #[serde(default)]
    pub options: BTreeMap<String, OptionChoice>,
    /// The lines of the lists of options, such as `ext4_default`, of a file as the methodology
    /// writes it.
    #[serde(skip)]
    pub option_lines: BTreeMap<String, usize>,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The file does not say what a configuration says.
    #[error("{}:{line}: {reason}", path.display())]
    Invalid {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
        /// The key that may have been meant.
        nearest: Option<String>,
    },
}

impl UserError for ConfigError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Invalid { nearest: Some(nearest), .. } => {
                Some(format!("did you mean `{nearest}`?").into())
            }
            Self::Invalid { .. } => Some("docs/tuning.md lists the keys of a configuration".into()),
            Self::Unreadable { .. } => None,
        }
    }
}

impl From<&RunSpec> for Config {
    /// The configuration that resolves to this specification.
    fn from(spec: &RunSpec) -> Self {
        let spec = spec.clone();
        let names = |schedulers: Vec<Scheduler>| {
            let names: Vec<String> = schedulers.iter().map(|s| s.name().to_owned()).collect();
            (!names.is_empty()).then_some(names)
        };
        let vm = match &spec.on {
            TestBedSpec::Vm(choice) => choice.clone(),
            TestBedSpec::Here | TestBedSpec::Ssh { .. } | TestBedSpec::Lab { .. } => {
                VmChoice::default()
            }
        };
        let given = spec.life.as_ref().map(|life| life.given.clone()).unwrap_or_default();
        Self {
            on: Some(spec.on.to_string()),
            vm_kernel: vm.kernel,
            vm_speed_mips: vm.speed_mips,
            vm_disk: (!vm.disk.is_default()).then_some(vm.disk),
            device: Some(spec.target),
            mount_dir: spec.mount_dir,
            result_dir: None,
            catalog_dir: spec.catalog_dir,
            media_page_size: spec.write_unit,
            media_erase_block_size: spec.erase_block,
            filesystems: Some(spec.filesystems),
            workloads: Some(spec.workloads),
            schedulers: names(spec.schedulers),
            strategy: Some(spec.strategy),
            profile: Some(spec.profile),
            by: Some(spec.by),
            repeats: Some(spec.repeats),
            confirm_rounds: Some(spec.confirm_rounds),
            seed: Some(spec.seed),
            start: Some(spec.start),
            table: spec.table,
            align_end: spec.end.map(|end| end == PartitionEnd::Grid),
            label: spec.label,
            second: spec.second,
            allow: Some(spec.allow),
            data_size: Some(spec.data_size),
            memory: Some(spec.memory),
            runtime_ms: Some(spec.runtime_ms),
            require: None,
            p99_write_max: spec.p99_write_max_ns.map(TimeSpan),
            usage: spec.life.map(|life| life.usage),
            min_years: given.min_years_thousandths.map(Years),
            endurance: given.endurance_cycles,
            capacity: given.capacity_bytes,
            class: given.class,
            budget: budget(&spec.limits),
            max_write: spec.limits.max_write_bytes.map(Bytes),
            trials: spec.limits.trials,
            within: Some(Percent(spec.limits.within_hundredths)),
            fill: Some(Percent(spec.state.fill_hundredths)),
            age: Some(spec.state.age_rounds),
            fresh: Some(!spec.state.varied),
            weights: spec.weights_thousandths.into_iter().map(|(k, w)| (k, Weight(w))).collect(),
            options: spec.options,
            option_lines: BTreeMap::new(),
        }
    }
}

/// Without any limit, this is said: a missing budget would mean the default one.
fn budget(limits: &crate::Budget) -> Option<TimeSpan> {
    let unlimited = limits.max_write_bytes.is_none() && limits.trials.is_none();
    limits.budget_ns.map(TimeSpan).or(unlimited.then_some(TimeSpan::UNLIMITED))
}

/// What is wrong in the methodology's file at `path`.
fn in_file(path: &Path, mistake: ShellConfigMistake) -> ConfigError {
    let ShellConfigMistake { line, reason, nearest } = mistake;
    ConfigError::Invalid { path: path.to_owned(), line, reason, nearest }
}

impl Config {
    /// The configuration file of a run. Comments name the twin, which is not a key.
    pub fn text_of_run(spec: &RunSpec) -> String {
        let sources = spec.prior.iter().flat_map(|prior| &prior.sources);
        let twins = sources.filter(|source| source.likeness == Likeness::Twin);
        let comments = twins.map(|twin| {
            // A line break in a name would end the comment.
            let name = twin.device.replace(char::is_control, " ");
            format!(
                "# The search began with the results of a simulated twin of the device, {name}.\n\
                 # To repeat that, name the twin again on the command line: no key of this file does.\n"
            )
        });
        comments.collect::<String>() + &Self::from(spec).to_text()
    }

    /// As the text of a configuration file.
    pub fn to_text(&self) -> String {
        toml::to_string(self).expect("a configuration is plain data")
    }

    /// Whether `catalog` knows the names in the methodology's file at `path`; of other files, names
    /// are looked up where they are used.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with the line.
    pub fn check_names(&self, path: &Path, catalog: &FileSystemCatalog) -> Result<(), ConfigError> {
        shell_config::check_names(self, catalog).map_err(|mistake| in_file(path, mistake))
    }

    /// Reads a configuration file, in TOML or as the methodology writes it.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = read_text(path, TEXT_BYTES).map_err(|error| ConfigError::Unreadable {
            path: path.to_owned(),
            source: error.into_io(),
        })?;
        if shell_config::is_shell_config(&text) {
            return shell_config::read(&text).map_err(|mistake| in_file(path, mistake));
        }
        flashfit_catalog::from_toml(&text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = text.get(..start).unwrap_or_default().matches('\n').count() + 1;
            let reason = error.message().to_owned();
            let unknown =
                reason.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
            let nearest = unknown.and_then(|(key, rest)| nearest(key, expected(rest)));
            ConfigError::Invalid { path: path.to_owned(), line, reason, nearest }
        })
    }
}

/// The keys that a message names as those of the table, or else those of the whole file.
fn expected(message: &str) -> Vec<&str> {
    let named: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if named.is_empty() { KEYS.to_vec() } else { named }
}

/// A second partition as the command line takes it.
mod second_text {
    use flashfit_filesystem::plan::SecondPartition;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    pub fn serialize<S: Serializer>(
        second: &Option<SecondPartition>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        second.as_ref().map(ToString::to_string).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SecondPartition>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::read(file.path())
    }

    #[test]
    fn the_methodologys_example() {
        let config = read(
            "device = \"/dev/mmcblk0p3\"\nmount_dir = \"/media/mmc\"\nresult_dir = \"r\"\n\
             media_page_size = 16384\nmedia_erase_block_size = \"4MiB\"\n\
             [options.ext4]\nalways = [\"nobarrier\"]\nexclude = [\"geometry\"]\n",
        )
        .unwrap();
        assert_eq!(config.media_erase_block_size, Some(Bytes::mib(4)));
        assert_eq!(config.options["ext4"].always, ["nobarrier"]);
    }

    #[test]
    fn a_second_partition_is_written_as_on_the_command_line() {
        let config = read("label = \"data\"\nsecond = \"swap:512MiB\"\n").unwrap();
        assert_eq!(config.second.as_ref().map(|found| found.size_bytes), Some(512 << 20));
        assert_eq!(read(&config.to_text()).unwrap(), config);
        let error = read("seed = 1\nsecond = \"ext4:1GiB:/srv\"\n").unwrap_err().to_string();
        assert!(error.contains(":2: ") && error.contains("apply takes one"), "{error}");
    }

    #[test]
    fn an_unknown_key_names_its_line_and_the_nearest() {
        let error = read("seed = 1\nrepeat = 3\n").unwrap_err();
        assert!(error.to_string().contains(":2: unknown field `repeat`"), "{error}");
        assert_eq!(error.hint(), Some("did you mean `repeats`?".into()));
        assert_eq!(error.class(), ExitClass::Usage);
        let error = read("[options.ext4]\nalwais = [\"noatime\"]\n").unwrap_err();
        assert_eq!(error.hint(), Some("did you mean `always`?".into()));
    }

    #[test]
    fn every_key_is_in_the_list_of_keys() {
        let all = toml::Value::try_from(Config::default()).unwrap();
        let listed = |key: &String| KEYS.contains(&key.as_str());
        assert!(all.as_table().unwrap().keys().all(listed));
        for key in KEYS {
            let error = read(&format!("{key} = [[]]\n")).unwrap_err();
            assert!(!error.to_string().contains("unknown field"), "{key}: {error}");
        }
    }
}
