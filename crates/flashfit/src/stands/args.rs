//! What can be typed to choose a stand.

use std::path::PathBuf;

use clap::Args;
use flashfit_host::{ExitClass, capability};
use flashfit_lab::Tags;
use flashfit_stand::{On, VmChoice, VmDisk};
use flashfit_tune::{Config, Span};

use crate::failure::Failure;
use crate::output::note;
use crate::tune::subject::SIMULATED;

/// Where trials are made.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where trials are made")]
pub struct StandArgs {
    /// here, vm (a virtual machine), ssh:HOST or lab:TAGS (boards of a lab, see docs/lab.md); here
    /// where that can be, else vm.
    #[arg(long, value_name = "STAND")]
    pub on: Option<On>,
    /// The kernel of the virtual machine; one that is found, or the distribution's, unless given.
    #[arg(long, value_name = "FILE")]
    pub vm_kernel: Option<PathBuf>,
    /// Count the instructions of the virtual machine's processor and let that many millions take a
    /// second, however busy this machine is.
    #[arg(long, value_name = "MIPS", value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub vm_speed_mips: Option<u32>,
    /// As what the virtual machine sees the medium: virtio, sd, emmc (QEMU 10.2 or later), nvme or
    /// usb; virtio unless given. sd and emmc are for their registers, not for figures.
    #[arg(long, value_name = "DISK")]
    pub vm_disk: Option<VmDisk>,
    /// How long to wait where no board of the lab is free; 10min unless given.
    #[arg(long, value_name = "TIME")]
    pub lab_wait: Option<Span>,
}

impl StandArgs {
    /// The stand for `target`: the one that was named, or the first that can be.
    pub fn choose(&self, config: &Config, target: &str, dry_run: bool) -> Result<On, Failure> {
        let kernel = self.vm_kernel.clone().or_else(|| config.vm_kernel.clone());
        let speed_mips = self.vm_speed_mips.or(config.vm_speed_mips);
        let disk = self.vm_disk.or(config.vm_disk);
        let of_vm = kernel.is_some() || speed_mips.is_some() || disk.is_some();
        let vm = On::Vm(VmChoice { kernel, speed_mips, disk: disk.unwrap_or_default() });
        let configured = config.on.as_deref().map(str::parse).transpose().map_err(|error| {
            Failure::new(ExitClass::Usage, format!("the configuration: {error}"), None)
        })?;
        match self.on.clone().or(configured) {
            Some(On::Vm(_)) => Ok(vm),
            Some(_) if of_vm && self.on.is_some() => Err(Failure::new(
                ExitClass::Usage,
                "a kernel, a speed and a disk can be chosen for a virtual machine only",
                Some("add --on vm, or leave them out"),
            )),
            Some(On::Lab { tags }) => {
                tags.parse::<Tags>()?;
                Ok(On::Lab { tags })
            }
            Some(other) => Ok(other),
            None if of_vm => Ok(vm),
            // What is only shown needs no rights.
            None if dry_run => Ok(On::Here),
            None => Ok(usual(target, vm)),
        }
    }
}

/// This machine where it can make trials on `target`, else a virtual one.
fn usual(target: &str, vm: On) -> On {
    let lacking = if target.starts_with(SIMULATED) {
        capability::missing_for_simulated_cards()
    } else {
        capability::missing_for_block_devices()
    };
    match lacking {
        None => On::Here,
        Some(reason) => {
            note(&format!("trials are made in a virtual machine: {reason} (--on here insists)"));
            vm
        }
    }
}
