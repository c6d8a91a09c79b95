//! What all subcommands of `flashfit crash` begin with: rights, signals, the conditions of a
//! device.

use std::path::Path;

use flashfit_card::CardModel;
use flashfit_crash::CrashError;
use flashfit_crash::campaign::{CampaignPlan, SetupResult};
use flashfit_crash::cuts::MachineChoice;
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::workload::CrashWorkload;
use flashfit_device::Bytes;
use flashfit_filesystem::{Conditions, FileSystemCatalog};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use flashfit_host::SystemRunner;
use flashfit_host::capability::missing_for_simulated_cards;
use flashfit_host::interrupt::Interrupt;
use flashfit_user_error::ExitClass;

use super::args::TestedArgs;
use crate::command_error::CommandError;

/// Has a volatile cache, and may reorder what is in it.
pub const DEFAULT_CARD: &str = "usd-a2-cq";
/// Without a card: what any flash device writes at once.
const WRITE_UNIT: Bytes = Bytes::kib(4);
/// For options that need an erase block, where no card has one.
const ERASE_BLOCK: Bytes = Bytes::mib(4);

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
    let interrupt = Interrupt::on_signals().map_err(|error| {
        CommandError::new(ExitClass::Environment, format!("cannot catch signals: {error}"), None)
    })?;
    Ok(SystemRunner::new(interrupt))
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

/// Refuses another kernel than the one that a campaign began with.
pub fn check_release(found: &str, release: &str) -> Result<(), CommandError> {
    if found == release {
        return Ok(());
    }
    let message = format!("the campaign began with Linux {release}, and this is {found}");
    let hint = "name that kernel with --vm-kernel FILE, or begin another campaign";
    Err(CommandError::new(ExitClass::Usage, message, Some(hint)))
}

/// The conditions for options, and the write unit.
pub fn device(
    card: Option<&str>,
    catalog: Option<&Path>,
) -> Result<(Conditions, Bytes), CommandError> {
    Ok(match card {
        None => (of_units(WRITE_UNIT, ERASE_BLOCK), WRITE_UNIT),
        Some(name) => {
            let model = model(name, catalog)?;
            (conditions(&model), Bytes(model.write_unit_bytes()))
        }
    })
}

/// The simulated card of this name, with or without `sim:`.
pub fn model(name: &str, catalog: Option<&Path>) -> Result<CardModel, CommandError> {
    let name = name.strip_prefix(flashfit_target::SIMULATED).unwrap_or(name);
    Ok(flashfit_card::catalog::load(name, catalog)?)
}

/// The conditions that a card sets for options.
pub fn conditions(model: &CardModel) -> Conditions {
    of_units(Bytes(model.write_unit_bytes()), Bytes(model.erase_block_bytes()))
}

fn of_units(write_unit: Bytes, erase_block: Bytes) -> Conditions {
    let known = |bytes| Some(Sourced::new(bytes, QuantitySource::Given));
    let geometry = Geometry { erase_block: known(erase_block), write_unit: known(write_unit) };
    Conditions { geometry, discard: true, volatile_cache: true, ..Conditions::default() }
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

/// A bad verdict where a promise was broken.
pub fn verdict(results: &[SetupResult]) -> Result<(), CommandError> {
    let broken: Vec<&str> = results
        .iter()
        .filter(|result| result.counts.broken > 0)
        .map(|result| result.label.as_str())
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    let message = format!("power cuts broke promises of {}", broken.join(", "));
    Err(CommandError::new(ExitClass::BadVerdict, message, None))
}
