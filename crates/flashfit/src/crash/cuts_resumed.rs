//! `flashfit crash cuts --resume`: the campaign of a directory, with what it began with.

use std::path::Path;

use flashfit_crash::CrashError;
use flashfit_crash::campaign::{CampaignPlan, CampaignStart, definitions};
use flashfit_crash::cuts::{MachineChoice, kernel};
use flashfit_crash::setup::CrashSetup;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_host::SystemRunner;
use flashfit_host::program::quote_path;
use flashfit_user_error::ExitClass;

use super::cuts::BegunCampaign;
use super::cuts_args::CutsArgs;
use super::{conditions, folder, tools};
use crate::command_error::CommandError;

/// On a board, the command that began is what continues: it names the device that is erased.
pub fn check_not_resumed(args: &CutsArgs) -> Result<(), CommandError> {
    let Some(dir) = &args.resume else { return Ok(()) };
    let message = "--resume is for campaigns of a virtual machine";
    let hint = format!(
        "a campaign of a board continues with the command that began it and --dir {}",
        quote_path(dir)
    );
    Err(CommandError::new(ExitClass::Usage, message, Some(&hint)))
}

/// The campaign of a directory, if this kernel is the one that it began with.
pub fn resumed(
    dir: &Path,
    catalog: Option<&Path>,
    choice: &MachineChoice<'_>,
    runner: &SystemRunner,
) -> Result<BegunCampaign, CommandError> {
    let (folder, plan) = folder::existing(dir)?;
    drop(folder);
    // One of states can have both, too, and is of a certain enumeration.
    let machine = plan.card.as_ref().zip(plan.kernel.as_ref());
    let Some((card, release)) = machine.filter(|_| plan.start.enumeration.is_none()) else {
        let how = "it is not one of power cuts of a virtual machine".to_owned();
        return Err(CrashError::OtherCampaign { path: dir.to_owned(), how }.into());
    };
    let conditions = conditions::of_card(&card.model);
    let known = FileSystemCatalog::load(catalog)?;
    let setups: Vec<CrashSetup> = plan
        .setups
        .iter()
        .map(|label| CrashSetup::parse(label, &known, &conditions))
        .collect::<Result<_, _>>()?;
    let today = CampaignStart { definitions: definitions(&setups), ..plan.start.clone() };
    CampaignPlan { start: today, ..plan.clone() }.check_continues(&plan, dir)?;
    tools::check_release(&kernel(choice, &setups, runner)?.release, release)?;
    Ok((dir.to_owned(), plan, setups))
}
