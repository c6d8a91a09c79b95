//! `flashfit doctor`: which test beds work on this machine, and what is missing for the others,
//! with the command that installs it.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use flashfit_filesystem::FileSystemCatalog;
use flashfit_host::program::find;
use flashfit_host::{ProgramError, SystemRunner, capability};
use flashfit_testbed::{Requirements, TestBedSpec, VmChoice, lacks_programs, vm};
use flashfit_user_error::ExitClass;
use flashfit_vm::doctor::{self, DoctorFinding};

use crate::command_error::CommandError;
use crate::commands::{board, catalog_mistakes};
use crate::hints;
use crate::output;
use crate::rendering::doctor::{DoctorDocument, HereDocument, VmDocument, text};
use crate::signals;
use crate::test_beds::lab;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit doctor\n  flashfit doctor --on ssh:root@board\n  flashfit \
                  doctor --vm-kernel /boot/vmlinuz-6.1.0-18-amd64 --json"
)]
pub struct DoctorArgs {
    /// Kernel for the virtual machine, as for `flashfit tune`.
    #[arg(long, value_name = "FILE")]
    pub vm_kernel: Option<PathBuf>,
    /// Show a board instead (ssh:HOST): its kernel, programs, file systems and devices. here and vm
    /// are always shown.
    #[arg(long, value_name = "TEST-BED")]
    pub on: Option<TestBedSpec>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// The former `flashfit stand doctor`, kept for scripts.
#[derive(Debug, Args)]
pub struct LegacyStandArgs {
    #[command(subcommand)]
    pub command: LegacyStandCommand,
}

#[derive(Debug, Subcommand)]
pub enum LegacyStandCommand {
    /// The former name of `flashfit doctor`.
    Doctor(DoctorArgs),
}

pub fn run(args: &DoctorArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let DoctorArgs { vm_kernel, on, json } = args;
    catalog_mistakes::check(catalog)?;
    let interrupt = signals::interrupt()?;
    let runner = SystemRunner::new(interrupt);
    let fs_catalog = FileSystemCatalog::load(catalog)?;
    match on {
        Some(TestBedSpec::Ssh { .. } | TestBedSpec::Lab { .. }) if vm_kernel.is_some() => {
            return Err(CommandError::new(
                ExitClass::Usage,
                "--vm-kernel names a kernel for the virtual machine of this machine",
                Some("leave --vm-kernel out, or use --on vm"),
            ));
        }
        Some(TestBedSpec::Ssh { host }) => {
            return board::run(host, &fs_catalog, &runner, catalog, *json);
        }
        Some(TestBedSpec::Lab { .. }) => {
            return Err(CommandError::new(
                ExitClass::Usage,
                "doctor examines one machine, and a lab has several boards",
                Some(
                    "whether the lab answers: flashfit doctor; a board with an address of \
                     `labgrid-client -v resources`: flashfit doctor --on ssh:HOST",
                ),
            ));
        }
        Some(TestBedSpec::Here | TestBedSpec::Vm(_)) | None => {}
    }
    let choice = VmChoice { kernel: vm_kernel.clone(), ..VmChoice::default() };
    let examination = vm::examine(&runner, &fs_catalog, &choice)?;
    let document = DoctorDocument {
        here: here(&fs_catalog),
        vm: VmDocument {
            can_start: examination.can_start(),
            install: examination.install_command(),
            examination,
        },
        ssh: match find("ssh") {
            Some(path) => DoctorFinding::Here { what: path.display().to_string() },
            None => {
                let error = ProgramError::Missing { name: "ssh".to_owned() };
                let install = || "apt-get install openssh-client".to_owned();
                DoctorFinding::Missing {
                    why: error.to_string(),
                    hint: Some(hints::hint(&error).unwrap_or_else(install)),
                }
            }
        },
        lab: lab(&runner),
    };
    if *json {
        return output::json(document);
    }
    output::print_with_commands(&text(&document))
}

fn here(fs_catalog: &FileSystemCatalog) -> HereDocument {
    let programs = doctor::programs(&Requirements::of(fs_catalog).programs);
    let installed = programs.iter().filter(|(_, finding)| finding.is_here());
    HereDocument {
        lacks_for_media: capability::missing_for_block_devices(),
        lacks_for_simulated_cards: capability::missing_for_simulated_cards(),
        lacks_programs: lacks_programs(&installed.map(|(name, _)| name.clone()).collect()),
        install: doctor::install_command(programs.iter().map(|(_, finding)| finding)),
        programs,
    }
}

/// Whether labgrid's client is there, and its coordinator answers.
fn lab(runner: &SystemRunner) -> DoctorFinding {
    match lab::look(runner) {
        Ok(what) => DoctorFinding::Here { what },
        Err(error) => DoctorFinding::Missing { why: error.to_string(), hint: hints::hint(&error) },
    }
}
