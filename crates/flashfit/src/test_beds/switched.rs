//! A board whose power this machine can switch: reached by ssh, switched by commands of the user or
//! by the switch of a lab.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flashfit_crash::CrashError;
use flashfit_crash::board::{BoardConnection, BoardError, BoardLink, CommandSwitch, PowerSwitch};
use flashfit_host::{SshAddress, SystemRunner};
use flashfit_lab::{Lab, LabError, LockedPlace, Tags};
use flashfit_testbed::{Host, RemoteHost, TestBedSpec};
use flashfit_user_error::{ExitClass, UserError};

use super::{BUILD, lab, ssh};
use crate::command_error::CommandError;
use crate::crash::cuts_args::CutsArgs;

/// What must be kept while the board is used.
pub struct Switched<'a> {
    address: SshAddress,
    token: String,
    name: String,
    runner: &'a SystemRunner,
    power: Arc<dyn PowerSwitch>,
    _lab: Option<Lab>,
}

/// The board of a command line. That of a lab is locked until this is dropped.
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
            Ok(Switched { address, token, name, runner, power: Arc::new(commands), _lab: None })
        }
        TestBedSpec::Lab { tags } => {
            let tags: Tags = tags.parse()?;
            let lab = lab::open(runner)?;
            let place =
                lab.reserve(&tags)?.lock(std::time::Duration::from_nanos(lab::USUAL_WAIT.0))?;
            let found = place.ssh()?;
            let options = [ssh::configured(), found.options].concat();
            let address = SshAddress { host: found.host, options };
            let power: Arc<dyn PowerSwitch> = match commands {
                Some(commands) => Arc::new(Both { commands, _place: place }),
                None => Arc::new(LabSwitch(place)),
            };
            Ok(Switched { address, token, name, runner, power, _lab: Some(lab) })
        }
        TestBedSpec::Here | TestBedSpec::Vm(_) => unreachable!("they have no switch"),
    }
}

impl Switched<'_> {
    pub fn board(&self) -> SwitchedBoard<'_> {
        SwitchedBoard { switched: self, switch: &self.power }
    }
}

/// A board that can be reached and switched.
pub struct SwitchedBoard<'a> {
    switched: &'a Switched<'a>,
    pub switch: &'a Arc<dyn PowerSwitch>,
}

impl SwitchedBoard<'_> {
    /// An agent there.
    pub fn host(&self, catalog: Option<&Path>) -> Result<Box<dyn Host>, CommandError> {
        let Switched { address, token, name, runner, .. } = self.switched;
        let link = ssh::link(address.clone(), token, runner)?;
        Ok(Box::new(RemoteHost::new(link, name, runner.interrupt(), BUILD, catalog)?))
    }
}

impl BoardLink for SwitchedBoard<'_> {
    fn start(&self) -> Result<BoardConnection, BoardError> {
        let Switched { address, token, runner, .. } = self.switched;
        let link = ssh::link(address.clone(), token, runner);
        let started = link.and_then(|link| link.start("crash board", runner.interrupt()));
        let (process, (output, input)) = started.map_err(|error| BoardError {
            message: error.message,
            hint: error.hint,
            class: error.class,
            is_transient: error.is_transient,
        })?;
        Ok(BoardConnection { process, output, input })
    }
}

/// The switch of a lab.
struct LabSwitch(LockedPlace);

impl PowerSwitch for LabSwitch {
    fn switch(&self, on: bool) -> Result<(), CrashError> {
        let switched = if on { self.0.power_on() } else { self.0.power_off() };
        switched.map_err(|error: LabError| {
            CrashError::Board(BoardError {
                message: error.to_string(),
                hint: error.hint(),
                class: error.class(),
                is_transient: false,
            })
        })
    }
}

/// Commands of the user for a board of a lab.
struct Both {
    commands: CommandSwitch,
    _place: LockedPlace,
}

impl PowerSwitch for Both {
    fn switch(&self, on: bool) -> Result<(), CrashError> {
        self.commands.switch(on)
    }
}
