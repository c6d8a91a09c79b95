//! `flashfit doctor`: which test beds work on this machine, and what is missing for the others,
//! with the command that installs it.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use flashfit_filesystem::FileSystemCatalog;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::program::find;
use flashfit_host::{SystemRunner, capability};
use flashfit_report::text::wrap;
use flashfit_testbed::{TestBedSpec, VmChoice, vm};
use flashfit_user_error::{ExitClass, UserError};
use flashfit_vm::doctor::{DoctorFinding, Examination};
use flashfit_vm::modules::ModulePresence;
use serde::Serialize;

use crate::command_error::CommandError;
use crate::commands::board;
use crate::output;
use crate::test_beds::lab;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit doctor\n  flashfit doctor --on ssh:root@board\n  flashfit doctor --vm-kernel /boot/vmlinuz-6.1.0-18-amd64 --json"
)]
pub struct DoctorArgs {
    /// Kernel for the virtual machine, as for `flashfit tune`.
    #[arg(long, value_name = "FILE")]
    pub vm_kernel: Option<PathBuf>,
    /// Show a board instead (ssh:HOST): its kernel, programs, file systems and devices.
    #[arg(long, value_name = "TEST-BED", conflicts_with = "vm_kernel")]
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

#[derive(Serialize)]
struct Document {
    here: HereDocument,
    vm: VmDocument,
    ssh: DoctorFinding,
    lab: DoctorFinding,
}

#[derive(Serialize)]
struct HereDocument {
    /// Why devices cannot be mounted; nothing where they can.
    lacks_for_media: Option<String>,
    /// Why simulated cards cannot be attached; nothing where they can.
    lacks_for_simulated_cards: Option<String>,
}

#[derive(Serialize)]
struct VmDocument {
    can_start: bool,
    install: Option<String>,
    #[serde(flatten)]
    examination: Examination,
}

pub fn run(args: &DoctorArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let DoctorArgs { vm_kernel, on, json } = args;
    let interrupt = Interrupt::on_signals().map_err(|error| {
        CommandError::new(ExitClass::Environment, format!("cannot catch signals: {error}"), None)
    })?;
    let runner = SystemRunner::new(interrupt);
    let catalogue = FileSystemCatalog::load(catalog)?;
    match on {
        Some(TestBedSpec::Ssh { host }) => {
            return board::run(host, &catalogue, &runner, catalog, *json);
        }
        Some(TestBedSpec::Lab { .. }) => {
            return Err(CommandError::new(
                ExitClass::Usage,
                "a lab has several boards, and one is looked at",
                Some("name the board: --on ssh:HOST"),
            ));
        }
        Some(TestBedSpec::Here | TestBedSpec::Vm(_)) | None => {}
    }
    let choice = VmChoice { kernel: vm_kernel.clone(), ..VmChoice::default() };
    let examination = vm::examine(&runner, &catalogue, &choice)?;
    let document = Document {
        here: HereDocument {
            lacks_for_media: capability::missing_for_block_devices(),
            lacks_for_simulated_cards: capability::missing_for_simulated_cards(),
        },
        vm: VmDocument {
            can_start: examination.can_start(),
            install: examination.install_command(),
            examination,
        },
        ssh: match find("ssh") {
            Some(path) => DoctorFinding::Here { what: path.display().to_string() },
            None => DoctorFinding::Missing {
                why: "the program `ssh` was not found".to_owned(),
                hint: Some("apt-get install openssh-client".to_owned()),
            },
        },
        lab: lab(&runner),
    };
    if *json {
        return output::json("stands", document);
    }
    output::print_with_commands(&text(&document))
}

/// Whether labgrid's client is there, and its coordinator answers.
fn lab(runner: &SystemRunner) -> DoctorFinding {
    match lab::look(runner) {
        Ok(what) => DoctorFinding::Here { what },
        Err(error) => DoctorFinding::Missing { why: error.to_string(), hint: error.hint() },
    }
}

fn text(document: &Document) -> String {
    let mut lines = Vec::new();
    here(&document.here, &mut lines);
    machine(&document.vm, &mut lines);
    lines.push(match &document.ssh {
        DoctorFinding::Here { what } => {
            format!(
                "ssh:HOST (a board): there is {what}; the board needs fio and its mkfs programs."
            )
        }
        DoctorFinding::Missing { why, .. } => format!("ssh:HOST (a board): no, {why}."),
    });
    lines.extend(hint(&document.ssh));
    lines.push(match &document.lab {
        DoctorFinding::Here { what } => format!("lab:TAGS (boards of a lab): {what}."),
        DoctorFinding::Missing { why, .. } => {
            format!("lab:TAGS (boards of a lab): no, {}.", brief(why))
        }
    });
    lines.extend(hint(&document.lab));
    lines.join("\n")
}

fn here(here: &HereDocument, lines: &mut Vec<String>) {
    lines.push(match (&here.lacks_for_media, &here.lacks_for_simulated_cards) {
        (None, None) => "here (this kernel): yes.".to_owned(),
        (Some(reason), _) => format!("here (this kernel): no, {reason}."),
        (None, Some(reason)) => {
            format!("here (this kernel): yes, but without simulated cards: {reason}.")
        }
    });
    if here.lacks_for_media.is_some() {
        lines.push("  run flashfit as root".to_owned());
    }
}

fn machine(vm: &VmDocument, lines: &mut Vec<String>) {
    let found = &vm.examination;
    lines.push(if vm.can_start {
        "vm (a virtual machine; nobody needs to be root): yes.".to_owned()
    } else {
        "vm (a virtual machine; nobody needs to be root): not yet.".to_owned()
    });
    let parts = [
        ("QEMU", &found.qemu),
        ("busybox", &found.busybox),
        ("kernel", &found.kernel),
        ("KVM", &found.kvm),
    ];
    for (name, finding) in parts {
        let text = match finding {
            DoctorFinding::Here { what } => what.clone(),
            DoctorFinding::Missing { why, .. } if name == "KVM" => {
                format!("not used, guests are emulated: {}", brief(why))
            }
            DoctorFinding::Missing { why, .. } => format!("missing: {}", brief(why)),
        };
        push_fact(lines, name, &text);
    }
    let lacking: Vec<&str> = found
        .modules
        .iter()
        .filter(|(_, presence)| *presence == ModulePresence::Lacking)
        .map(|(name, _)| name.as_str())
        .collect();
    if !lacking.is_empty() {
        push_fact(lines, "lacking", &format!("in that kernel: {}", lacking.join(", ")));
    }
    let missing: Vec<&str> = found
        .programs
        .iter()
        .filter(|(_, finding)| !finding.is_here())
        .map(|(name, _)| name.as_str())
        .collect();
    if !missing.is_empty() {
        push_fact(lines, "programs", &format!("missing: {}", missing.join(", ")));
    }
    lines.extend(vm.install.as_ref().map(|line| format!("  {line}")));
}

/// A name and what was found, which is wrapped within its column.
fn push_fact(lines: &mut Vec<String>, name: &str, text: &str) {
    let mut name = name;
    for part in wrap(text, output::width().saturating_sub(11)) {
        lines.push(format!("  {name:<8} {part}"));
        name = "";
    }
}

fn hint(finding: &DoctorFinding) -> Option<String> {
    match finding {
        DoctorFinding::Missing { hint: Some(hint), .. } => Some(format!("  {hint}")),
        _ => None,
    }
}

/// The first line of a reason.
fn brief(why: &str) -> &str {
    why.lines().next().unwrap_or_default()
}
