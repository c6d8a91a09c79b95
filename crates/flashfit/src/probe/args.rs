//! Arguments of `flashfit probe`.

use std::path::{Path, PathBuf};

use clap::Args;
use flashfit_device::Bytes;
use flashfit_probe::{DeviceRegion, ProbeRunOptions};
use flashfit_testbed::TestBedSpec;
use flashfit_tune::TimeSpan;
use flashfit_twin::pattern::file::PatternSet;

use super::client::ProbeClientArgs;
use super::region::region;
use crate::cli::{confirmed_name, size, target_name};
use crate::command_error::CommandError;
use crate::output_file::{OutputFile, OutputKind};
use crate::survey::SurveyMentionArgs;

const EXAMPLES: &str = "\
Examples:
  flashfit probe /dev/mmcblk0
  flashfit probe /dev/mmcblk0 --write --region 1GiB+2GiB --max-write 4GiB
  flashfit probe /dev/mmcblk0 --capacity --keep-data
  flashfit probe sim:sd-c4-block --write --twin twin.toml
  flashfit probe --import flashbench-a.txt --import open-au.txt --json
  flashfit probe /dev/mmcblk0 --output geometry.json
  flashfit probe /dev/mmcblk0 --on ssh:root@board
  flashfit plan /dev/mmcblk0 --geometry geometry.json

Without --write, the device is opened read-only. With --write, the data in the \
region is lost. The region is the whole device unless --region is given. \
--capacity --keep-data fills the free space of mounted file systems and keeps \
all files.

Exit codes: 0 done, even if nothing could be determined; 1 the device has less \
capacity than it claims, or loses what is written to it; 2 wrong usage, or a \
file without a usable table; 3 refused; 4 the machine lacks something; 5 the \
device failed or vanished; 6 interrupted.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ProbeArgs {
    /// Device node, image file or sim:NAME (a simulated card).
    #[arg(required_unless_present = "import", conflicts_with = "import", value_parser = target_name())]
    pub target: Option<String>,
    /// Read tables printed by flashbench (-a, --open-au, --find-fat) instead of probing. Repeat the
    /// option for several tables of one device.
    #[arg(long, value_name = "FILE")]
    pub import: Vec<PathBuf>,
    /// Probe by writing too: finds more, with higher confidence. All data in the region will be
    /// lost.
    #[arg(long, group = "writing", conflicts_with = "import")]
    pub write: bool,
    /// Test only the capacity, on the free space of the mounted file systems: fill it, read it
    /// back, free it.
    #[arg(
        long,
        group = "writing",
        requires = "keep_data",
        conflicts_with_all = ["import", "region", "twin", "svg", "output"]
    )]
    pub capacity: bool,
    /// Keep the files on the device; with --capacity.
    #[arg(long, requires = "capacity")]
    pub keep_data: bool,
    /// Agree to what is written, for the device with this name or serial number.
    #[arg(long, value_name = "NAME", requires = "writing", value_parser = confirmed_name())]
    pub confirm: Option<String>,
    /// Probe only this part of the device, such as 1GiB+512MiB.
    #[arg(long, value_name = "START+LENGTH", value_parser = region, conflicts_with = "import")]
    pub region: Option<DeviceRegion>,
    /// Most bytes to write [default: 2.25 times the region, plus 2 GiB].
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "write")]
    pub max_write: Option<Bytes>,
    /// Longest time for a probe that writes; it then ends with what is known, or asks at a terminal
    /// [default: 15min, 25min with --twin, no limit for simulated cards].
    #[arg(long, value_name = "TIME", requires = "write")]
    pub max_time: Option<TimeSpan>,
    /// Fit a model of a simulated card to the measurements and write it to this file, for sim:FILE.
    #[arg(long, value_name = "FILE")]
    pub twin: Option<PathBuf>,
    /// Write a chart of the measurements to this SVG file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the result as JSON to this file, for `flashfit plan --geometry`.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace files even if flashfit did not write them.
    #[arg(long)]
    pub force: bool,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Show what would be done and change nothing.
    #[arg(short = 'n', long, conflicts_with = "import")]
    pub dry_run: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    /// Machine with the device: here or ssh:HOST.
    #[arg(long, value_name = "TEST-BED", default_value_t = TestBedSpec::Here, conflicts_with = "import")]
    pub on: TestBedSpec,
    #[command(flatten)]
    pub survey: SurveyMentionArgs,
    #[command(flatten)]
    pub client: ProbeClientArgs,
}

impl ProbeArgs {
    /// The files that are to be written.
    pub fn outputs(&self) -> impl Iterator<Item = (&Path, OutputKind)> {
        let files = [
            (&self.twin, OutputKind::CardModel),
            (&self.svg, OutputKind::Drawing),
            (&self.output, OutputKind::Geometry),
        ];
        files.into_iter().filter_map(|(path, kind)| Some((path.as_deref()?, kind)))
    }

    /// The probe of `name` that is asked for.
    ///
    /// # Errors
    /// If the patterns of the catalog are wrong.
    pub fn options(
        &self,
        name: &str,
        catalog: Option<&Path>,
    ) -> Result<ProbeRunOptions, CommandError> {
        let twin = self.twin.as_ref().map(|_| PatternSet::load(catalog)).transpose()?;
        Ok(ProbeRunOptions {
            name: name.to_owned(),
            write: self.write,
            region: self.region,
            max_write: self.max_write,
            max_read_ns: None,
            max_time_ns: self.max_time.map(|most| most.0),
            twin,
            seed: self.seed,
            expected: self.client.shown.clone(),
        })
    }

    /// Writes one of them.
    pub fn write(&self, path: &Path, kind: OutputKind, text: &str) -> Result<(), CommandError> {
        OutputFile::check(path, kind, self.force)?.write(text)
    }
}
