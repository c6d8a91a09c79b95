//! Arguments that choose the test bed.

use std::path::{Path, PathBuf};

use clap::Args;
use flashfit_host::capability;
use flashfit_host::program::{quote, quote_path};
use flashfit_lab::Tags;
use flashfit_testbed::{TestBedSpec, VmChoice, VmDisk};
use flashfit_tune::{Config, TimeSpan};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output::note;
use crate::test_beds::description;
use flashfit_target::SIMULATED;

/// Test bed: where trials run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Test bed")]
pub struct TestBedArgs {
    /// Where trials run: here, vm (a virtual machine), ssh:HOST or lab:TAGS (boards of a lab, see
    /// docs/lab.md) [default: here if possible, else vm].
    #[arg(long, value_name = "TEST-BED")]
    pub on: Option<TestBedSpec>,
    /// Kernel for the virtual machine [default: this system's, or the one of the distribution].
    #[arg(long, value_name = "FILE")]
    pub vm_kernel: Option<PathBuf>,
    /// Speed of the virtual machine in millions of instructions per second. Its clock then counts
    /// instructions, so results do not depend on the load of this machine.
    #[arg(long, value_name = "MIPS", value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub vm_speed_mips: Option<u32>,
    /// How the device appears in the virtual machine: virtio, sd, emmc (QEMU 10.2 or later), nvme
    /// or usb [default: virtio]. sd and emmc show a card's registers; do not trust their timings.
    #[arg(long, value_name = "DISK")]
    pub vm_disk: Option<VmDisk>,
    /// Virtual machines at once, for a simulated card with counted instructions; each has its own
    /// card [default: 1, and one for each processor for a twin].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub vm_guests: Option<u32>,
    /// How long to wait if no board of the lab is free [default: 10min].
    #[arg(long, value_name = "TIME")]
    pub lab_wait: Option<TimeSpan>,
}

impl TestBedArgs {
    /// The test bed of a run that goes on: the recorded one. What lies outside the run directory,
    /// another machine and a kernel's file, must be named again; nothing else may be.
    pub fn again(&self, recorded: &TestBedSpec, dir: &Path) -> Result<TestBedSpec, CommandError> {
        let dir = quote_path(dir);
        let lacks = |what: &str, flag: String| {
            CommandError::new(
                ExitClass::Usage,
                format!("the run was made {what}, which needs your consent"),
                Some(&format!("if you trust it: flashfit tune --resume {dir} {flag}")),
            )
        };
        let other = || {
            CommandError::new(
                ExitClass::Usage,
                format!("the run was made {}, and can only continue there", description(recorded)),
                Some("start a new run without --resume"),
            )
        };
        let same_on = match (&self.on, recorded) {
            (None, TestBedSpec::Ssh { host }) => {
                let on = format!("ssh:{host}");
                return Err(lacks(&format!("on {on}"), format!("--on {}", quote(&on))));
            }
            (None, _) | (Some(TestBedSpec::Vm(_)), TestBedSpec::Vm(_)) => true,
            (Some(on), _) => on == recorded,
        };
        let VmChoice { kernel, speed_mips, disk } = match recorded {
            TestBedSpec::Vm(choice) => choice.clone(),
            TestBedSpec::Here | TestBedSpec::Ssh { .. } | TestBedSpec::Lab { .. } => {
                VmChoice::default()
            }
        };
        if let (Some(kernel), None) = (&kernel, &self.vm_kernel) {
            let kernel = kernel.display().to_string();
            let flag = format!("--vm-kernel {}", quote(&kernel));
            return Err(lacks(&format!("with the kernel {kernel}"), flag));
        }
        let same_vm = self.vm_kernel == kernel
            && (self.vm_speed_mips.is_none() || self.vm_speed_mips == speed_mips)
            && self.vm_disk.is_none_or(|chosen| chosen == disk);
        if same_on && same_vm { Ok(recorded.clone()) } else { Err(other()) }
    }

    /// The stand for `target`: the one that was named, or the first that can be.
    pub fn choose(
        &self,
        config: &Config,
        target: &str,
        dry_run: bool,
    ) -> Result<TestBedSpec, CommandError> {
        let kernel = self.vm_kernel.clone().or_else(|| config.vm_kernel.clone());
        let speed_mips = self.vm_speed_mips.or(config.vm_speed_mips);
        let disk = self.vm_disk.or(config.vm_disk);
        let of_vm = kernel.is_some() || speed_mips.is_some() || disk.is_some();
        let asks_for_vm =
            self.vm_kernel.is_some() || self.vm_speed_mips.is_some() || self.vm_disk.is_some();
        let vm = TestBedSpec::Vm(VmChoice { kernel, speed_mips, disk: disk.unwrap_or_default() });
        let configured = config.on.as_deref().map(str::parse).transpose().map_err(|error| {
            CommandError::new(ExitClass::Usage, format!("the configuration: {error}"), None)
        })?;
        match self.on.clone().or(configured) {
            Some(TestBedSpec::Vm(_)) => Ok(vm),
            Some(_) if asks_for_vm || of_vm && self.on.is_some() => Err(CommandError::new(
                ExitClass::Usage,
                "a kernel, a speed and a disk can be chosen for a virtual machine only",
                Some("add --on vm, or leave them out"),
            )),
            Some(TestBedSpec::Lab { tags }) => {
                tags.parse::<Tags>()?;
                Ok(TestBedSpec::Lab { tags })
            }
            Some(other) => Ok(other),
            None if of_vm => Ok(vm),
            // What is only shown needs no rights; the preview says where the trials would be.
            None if dry_run => Ok(TestBedSpec::Here),
            None => Ok(usual(target, vm)),
        }
    }
}

/// Why this machine cannot make trials on `target`; `None` if it can.
pub fn lacking_here(target: &str) -> Option<String> {
    match target.starts_with(SIMULATED) {
        true => capability::missing_for_simulated_cards(),
        false => capability::missing_for_block_devices(),
    }
}

/// This machine where it can make trials on `target`, else a virtual one.
fn usual(target: &str, vm: TestBedSpec) -> TestBedSpec {
    match lacking_here(target) {
        None => TestBedSpec::Here,
        Some(reason) => {
            note(&format!("trials are made in a virtual machine: {reason} (--on here insists)"));
            vm
        }
    }
}
