//! A board whose power this machine can switch: reached by ssh, switched by commands of the user or
//! by the switch of a lab.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flashfit_crash::board::{BoardConnection, BoardError, BoardLink, CommandSwitch, PowerSwitch};
use flashfit_device::Device;
use flashfit_host::program::quote;
use flashfit_host::{SshAddress, SystemRunner};
use flashfit_lab::Lab;
use flashfit_testbed::remote::{LinkError, SshLink};
use flashfit_testbed::{Host, RemoteHost, TestBedSpec, TrialError};
use flashfit_user_error::{ExitClass, HintPart, UserError, UserSetting};

use super::lab::{self, LabSwitch, OwnSwitch};
use super::{BUILD, ssh};
use crate::command_error::CommandError;
use crate::crash::cuts_args::CutsArgs;
use crate::output::note;
use crate::timeouts::shortened;

/// What must be kept while the board is used.
pub struct Switched<'a> {
    address: SshAddress,
    token: String,
    name: String,
    /// The name of a lab's board.
    place: Option<String>,
    /// The name of its device, if the user agreed to lose that.
    agreed: Option<String>,
    /// Whether it was switched on just now.
    is_starting: bool,
    runner: &'a SystemRunner,
    power: Arc<dyn PowerSwitch>,
    _lab: Option<Lab>,
}

/// The board of a command line. That of a lab is locked until this is dropped; if it was off, it is
/// switched on for that time.
pub fn open<'a>(args: &CutsArgs, runner: &'a SystemRunner) -> Result<Switched<'a>, CommandError> {
    let name = args.on.to_string();
    let given = args.board.power_off.clone().zip(args.board.power_on.clone());
    let commands = given.map(|(off, on)| CommandSwitch { off, on });
    let token = ssh::token(&PathBuf::from(format!("{name}:cuts")));
    match &args.on {
        TestBedSpec::Ssh { host } => {
            let Some(commands) = commands else {
                let message = "how the power of the board is switched is missing";
                let hint = "add --power-off 'COMMAND' --power-on 'COMMAND'";
                return Err(CommandError::new(ExitClass::Usage, message, Some(hint)));
            };
            let address = SshAddress { host: host.clone(), options: ssh::configured() };
            let (place, agreed, power) = (None, args.board.confirm.clone(), Arc::new(commands));
            let (is_starting, _lab) = (false, None);
            Ok(Switched { address, token, name, place, agreed, is_starting, runner, power, _lab })
        }
        TestBedSpec::Lab { tags } => {
            let confirmed = lab::names_by_board(args.board.confirm.as_slice())?;
            let lab = lab::open(runner)?;
            let wait = Duration::from_nanos(lab::USUAL_WAIT.0);
            let mut lease = lab::lock_one(&lab, &tags.parse()?, wait)?;
            let place = lease.place().name().to_owned();
            note(&format!("board: {place}"));
            let agreed = lab::name_on_board(&confirmed, &place)?;
            let found = lease.place().ssh()?;
            let options = [ssh::configured(), found.options].concat();
            let address = SshAddress { host: found.host, options };
            let is_starting = commands.is_none() && lease.power_on()?;
            let power: Arc<dyn PowerSwitch> = match commands {
                Some(commands) => Arc::new(OwnSwitch { commands, _lease: lease }),
                None => Arc::new(LabSwitch(lease)),
            };
            let (place, _lab) = (Some(place), Some(lab));
            Ok(Switched { address, token, name, place, agreed, is_starting, runner, power, _lab })
        }
        TestBedSpec::Here | TestBedSpec::Vm(_) => unreachable!("they have no switch"),
    }
}

impl Switched<'_> {
    pub fn board(&self) -> SwitchedBoard<'_> {
        SwitchedBoard { switched: self, switch: &self.power }
    }

    pub fn place(&self) -> Option<String> {
        self.place.clone()
    }

    /// The name of the device, if the user agreed to lose its data.
    pub fn agreed(&self) -> Option<&str> {
        self.agreed.as_deref()
    }

    /// An error of the board with its name, which must be given with that of the device.
    pub fn error(&self, error: TrialError, device: &Device) -> CommandError {
        let Some(place) = &self.place else { return error.into() };
        let confirm = HintPart::Setting(UserSetting::Confirm);
        let needs_name = error.hint().is_some_and(|hint| hint.parts().contains(&confirm));
        let error = CommandError::from(error).at(place);
        let names = quote(&format!("{place}:{}", device.short_name()));
        if needs_name { error.with_hint(&format!("add --confirm {names}")) } else { error }
    }

    fn link(&self) -> Result<SshLink, LinkError> {
        let link = ssh::link(self.address.clone(), &self.token, self.runner);
        let Some(place) = &self.place else { return link };
        let named = |mut error: LinkError| {
            error.message = format!("{place}: {}", error.message);
            error
        };
        Ok(link.map_err(named)?.one_of_several(place, shortened(lab::LOST_PATIENCE)))
    }
}

/// A board that can be reached and switched.
pub struct SwitchedBoard<'a> {
    switched: &'a Switched<'a>,
    pub switch: &'a Arc<dyn PowerSwitch>,
}

impl SwitchedBoard<'_> {
    pub fn is_starting(&self) -> bool {
        self.switched.is_starting
    }

    /// An agent there.
    pub fn host(&self, catalog: Option<&Path>) -> Result<Box<dyn Host>, CommandError> {
        let Switched { name, runner, .. } = self.switched;
        let link = self.switched.link()?;
        Ok(Box::new(RemoteHost::new(link, name, runner.interrupt(), BUILD, catalog)?))
    }
}

impl BoardLink for SwitchedBoard<'_> {
    fn start(&self) -> Result<BoardConnection, BoardError> {
        let interrupt = self.switched.runner.interrupt();
        let link = self.switched.link();
        let started = link.and_then(|link| link.start("crash board", interrupt));
        let (process, (output, input)) = started.map_err(|error| BoardError {
            message: error.message,
            hint: error.hint,
            class: error.class,
            is_transient: error.is_transient,
        })?;
        Ok(BoardConnection { process, output, input })
    }
}
