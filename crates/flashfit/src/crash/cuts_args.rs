//! Arguments of `flashfit crash cuts`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use flashfit_card::EnabledFault;
use flashfit_crash::campaign::{CampaignStart, definitions};
use flashfit_crash::cuts::CutLimits;
use flashfit_crash::setup::CrashSetup;
use flashfit_testbed::TestBedSpec;
use flashfit_tune::TimeSpan;

use super::args::TestedArgs;

const EXAMPLES: &str = "\
Examples:
  flashfit crash cuts --fs ext4,f2fs --cuts 1000
  flashfit crash cuts sim:emmc-5.1 --with ext4:nobarrier --for 1h
  flashfit crash cuts --card-fault rollback=200 --cuts 100
  flashfit crash cuts /dev/mmcblk0 --on ssh:board --power-off 'relay 2 off' \\
      --power-on 'relay 2 on' --for 24h --max-broken 5
  flashfit crash cuts /dev/mmcblk0 --on lab:board=imx8 --confirm b1:mmcblk0
  flashfit crash cuts --resume crash-run

In a virtual machine, nothing is written to a device: the card is simulated, \
with its volatile cache. Needs QEMU and busybox, and no root.

On a board, ALL DATA on the device is lost. The board must start by itself when \
it gets power, from another device, and accept ssh. The same command with the \
same --dir continues.

Exit codes: 0 all promises were kept; 1 a promise was broken; 2 wrong usage, \
work or a check that fails by itself, or no power cut was made; 3 the device or \
the directory is in use, you did not agree, or the directory has another \
campaign; 4 the machine does not start, or the power is not cut; 5 a device \
fails; 6 interrupted.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CutsArgs {
    /// Simulated card whose power is cut [default: usd-a2-cq, which has a volatile cache], or the
    /// device of a board.
    #[arg(value_name = "CARD|DEVICE")]
    pub card: Option<String>,
    #[command(flatten)]
    pub what: TestedArgs,
    /// Where the power is cut: vm (a virtual machine with a simulated card), ssh:HOST, or lab:TAGS
    /// (one board of a labgrid lab, by the lab's switch).
    #[arg(long, value_name = "TEST-BED", default_value = "vm", value_parser = place)]
    pub on: TestBedSpec,
    #[command(flatten)]
    pub board: BoardArgs,
    /// Power cuts for each setup [default: 100 without --for].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub cuts: Option<u64>,
    /// Time for the whole campaign, such as 1h; if it continues, earlier commands count, and pauses
    /// do not.
    #[arg(long = "for", value_name = "TIME")]
    pub time: Option<TimeSpan>,
    /// Stop after this many power cuts that broke a promise, those of earlier commands included.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_broken: Option<u64>,
    /// Let the card do this at every power cut, where it can: a name of `card cut --help`, such as
    /// torn-sector or rollback=200. Repeat for several.
    #[arg(long, value_name = "CLASS")]
    pub card_fault: Vec<EnabledFault>,
    /// Kernel for the virtual machine [default: this system's, or the one of the distribution].
    #[arg(long, value_name = "FILE")]
    pub vm_kernel: Option<PathBuf>,
    /// Directory for records and images [default: crash-run, or the next that does not exist].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Continue the campaign of a virtual machine in this directory, with its --for and its
    /// --max-broken, unless others are named.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["dir", "card", "card_fault", "cuts", "TestedArgs"]
    )]
    pub resume: Option<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

impl CutsArgs {
    pub fn limits(&self) -> CutLimits {
        let time = self.time.map(|time| Duration::from_nanos(time.0));
        CutLimits { time, broken: self.max_broken }
    }

    /// What a campaign that begins records of its limits and its setups.
    pub fn start(&self, setups: &[CrashSetup]) -> CampaignStart {
        CampaignStart {
            time_ns: self.time.map(|time| time.0),
            max_broken: self.max_broken,
            definitions: definitions(setups),
            ..CampaignStart::default()
        }
    }

    /// Those that are named here, and else those that the campaign began with.
    pub fn limits_to_continue(&self, began: &CampaignStart) -> CutLimits {
        let CutLimits { time, broken } = self.limits();
        let began_time = began.time_ns.map(Duration::from_nanos);
        CutLimits { time: time.or(began_time), broken: broken.or(began.max_broken) }
    }
}

/// How the power of a board is cut.
#[derive(Debug, Args)]
pub struct BoardArgs {
    /// Shell command that cuts the power of the board.
    #[arg(long, value_name = "CMD", requires = "power_on")]
    pub power_off: Option<String>,
    /// Shell command that gives the board power again.
    #[arg(long, value_name = "CMD", requires = "power_off")]
    pub power_on: Option<String>,
    /// How long the power of a board stays off.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub off_time: TimeSpan,
    /// How long a board may take to start.
    #[arg(long, value_name = "TIME", default_value = "3min")]
    pub start_time: TimeSpan,
    /// Agree that all data on the device of the board is lost, by its name. For a board of a lab:
    /// BOARD:NAME; for any of several boards, separated by commas.
    #[arg(long, value_name = "NAME")]
    pub confirm: Option<String>,
}

/// A test bed that can lose its power while this machine goes on.
fn place(text: &str) -> Result<TestBedSpec, String> {
    match text.parse::<TestBedSpec>() {
        Ok(TestBedSpec::Here) => {
            Err("this machine would lose its power; expected vm, ssh:HOST or lab:TAGS".to_owned())
        }
        Ok(spec) => Ok(spec),
        Err(_) => Err("expected vm, ssh:HOST or lab:TAGS".to_owned()),
    }
}
