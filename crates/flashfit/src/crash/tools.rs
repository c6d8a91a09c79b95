//! What all subcommands of `flashfit crash` begin with: rights, signals, the conditions of a
//! device.

use std::path::Path;

use flashfit_crash::CrashError;
use flashfit_crash::campaign::{CampaignPlan, MountPoints};
use flashfit_crash::cuts::MachineChoice;
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::workload::CrashWorkload;
use flashfit_filesystem::{Conditions, FileSystemCatalog};
use flashfit_host::SystemRunner;
use flashfit_host::capability::missing_for_simulated_cards;
use flashfit_user_error::ExitClass;

use super::args::TestedArgs;
use crate::command_error::CommandError;
use crate::signals;

/// Has a volatile cache, and may reorder what is in it.
pub const DEFAULT_CARD: &str = "usd-a2-cq";

impl TestedArgs {
    /// The work that was asked for.
    pub fn workload(&self) -> Result<CrashWorkload, CommandError> {
        Ok(self.workload.as_deref().map_or(Ok(CrashWorkload::Files), CrashWorkload::parse)?)
    }
}

/// Refuses where nothing can be mounted.
pub fn check_rights() -> Result<(), CommandError> {
    let Some(reason) = missing_for_simulated_cards() else { return Ok(()) };
    let message = format!("crash states cannot be mounted: {reason}");
    Err(CommandError::from(CrashError::Unprivileged(message)))
}

/// Where states are mounted. Before any thread: the namespace is one thread's.
pub fn mount_points(dir: &Path, kernel: Option<&Path>) -> Result<MountPoints, CommandError> {
    let used: Vec<&Path> =
        [Some(dir), Some(Path::new(".")), kernel].into_iter().flatten().collect();
    Ok(MountPoints::take(&used)?)
}

/// Refuses to run commands that only a directory names: whoever wrote it could have put any there.
pub fn check_workload(plan: &CampaignPlan, given: Option<&str>) -> Result<(), CommandError> {
    if !matches!(plan.workload, CrashWorkload::Program(_)) {
        return Ok(());
    }
    let given = given.map(CrashWorkload::parse).transpose()?;
    let message = match given {
        Some(given) if given == plan.workload => return Ok(()),
        Some(_) => "the commands of this workload are not those that the directory recorded",
        None => "the directory names commands that would run again",
    };
    let hint = "name the file of the recorded workload: --workload FILE";
    Err(CommandError::new(ExitClass::Refused, message, Some(hint)))
}

/// Runs programs until the user interrupts.
pub fn runner() -> Result<SystemRunner, CommandError> {
    Ok(SystemRunner::new(signals::interrupt()?))
}

/// A virtual machine with this program in it.
pub fn machine(vm_kernel: Option<&Path>, seed: u64) -> Result<MachineChoice<'_>, CommandError> {
    let program = std::env::current_exe().map_err(|error| {
        let message = format!("cannot find this program's own file: {error}");
        CommandError::new(ExitClass::Environment, message, None)
    })?;
    let arguments = ["crash", "guest"].map(str::to_owned).to_vec();
    Ok(MachineChoice { kernel: vm_kernel, program, arguments, seed })
}

/// The release of this system's kernel.
pub fn host_kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Refuses another kernel than the one that a campaign began with.
pub fn check_release(found: &str, release: &str) -> Result<(), CommandError> {
    if found == release {
        return Ok(());
    }
    let message = format!("the campaign began with Linux {release}, and this is {found}");
    let hint = "name that kernel with --vm-kernel FILE, or begin another campaign";
    Err(CommandError::new(ExitClass::Usage, message, Some(hint)))
}

/// The setups that were named, each once.
pub fn setups(
    args: &TestedArgs,
    catalog: Option<&Path>,
    conditions: &Conditions,
) -> Result<Vec<CrashSetup>, CommandError> {
    let known = FileSystemCatalog::load(catalog)?;
    let mut setups: Vec<CrashSetup> = Vec::new();
    for text in args.filesystems.iter().chain(&args.with) {
        let setup = CrashSetup::parse(text, &known, conditions)?;
        if !setups.iter().any(|other| other.label == setup.label) {
            setups.push(setup);
        }
    }
    Ok(setups)
}
