//! Arguments of `flashfit wear`.

use clap::{Args, Subcommand};
use flashfit_device::{Device, SystemRoots, Target};
use flashfit_host::Runner;
use flashfit_user_error::ExitClass;
use flashfit_wear_counters::{AtaAttributes, WearSources};

use crate::command_error::CommandError;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit wear show /dev/mmcblk0\n  flashfit wear show /dev/sda --smartctl-type sntjmicron"
)]
pub struct WearArgs {
    #[command(subcommand)]
    pub command: WearCommand,
}

#[derive(Debug, Subcommand)]
pub enum WearCommand {
    /// Show what a device reports about its wear. Reads only.
    Show(WearShowArgs),
}

#[derive(Debug, Args)]
pub struct WearShowArgs {
    /// Device node, or loop device of a served card.
    pub device: String,
    #[command(flatten)]
    pub how: WearSourceArgs,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// How a device is asked.
#[derive(Debug, Args)]
pub struct WearSourceArgs {
    /// Type for `smartctl -d`, if smartctl does not recognize a USB bridge: sat, sntasmedia,
    /// sntjmicron or sntrealtek. A wrong type can confuse the bridge.
    #[arg(long, value_name = "TYPE", value_parser = smartctl_type)]
    pub smartctl_type: Option<String>,
    /// Ask an NVMe drive for the OCP log page even if it does not list it. The drive may count
    /// that as an error.
    #[arg(long)]
    pub unlisted_logs: bool,
}

impl WearSourceArgs {
    pub fn sources<'a>(
        &'a self,
        system: &'a SystemRoots,
        runner: &'a dyn Runner,
        attributes: &'a AtaAttributes,
    ) -> WearSources<'a> {
        WearSources {
            system,
            runner,
            attributes,
            is_root: rustix::process::geteuid().is_root(),
            smartctl_type: self.smartctl_type.as_deref(),
            unlisted_logs: self.unlisted_logs,
        }
    }
}

/// Describes the device whose counters are read.
pub fn device(
    text: &str,
    system: &SystemRoots,
    runner: &dyn Runner,
) -> Result<Device, CommandError> {
    match Target::parse(text)? {
        Target::Node(path) => Ok(Device::from_node(system, runner, &path)?),
        Target::Image(path) => Err(CommandError::new(
            ExitClass::Usage,
            format!("{} is an image file, which has no counters", path.display()),
            Some("flashfit list shows the devices"),
        )),
        Target::Simulated(name) => Err(CommandError::new(
            ExitClass::Usage,
            format!("sim:{name} is a model; only a card that is being served counts"),
            Some(&format!("serve it: flashfit card serve {name}")),
        )),
    }
}

/// Parses a type that smartctl(8) knows for bridges and drives.
fn smartctl_type(text: &str) -> Result<String, String> {
    let is_type = |c: char| c.is_ascii_alphanumeric() || ",/_.:+".contains(c);
    if !text.is_empty()
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_type)
    {
        Ok(text.to_owned())
    } else {
        Err("not a device type of smartctl, see smartctl -h".to_owned())
    }
}
