//! The names by which the user agreed to lose the data of devices, before being asked.

use std::collections::BTreeMap;

use flashfit_testbed::TestBedSpec;
use flashfit_user_error::ExitClass;

use super::super::args::TuneArgs;
use crate::command_error::CommandError;
use crate::test_beds::lab::names_by_board;

/// The names of `--confirm`.
pub enum Agreed {
    Device(Option<String>),
    /// By board.
    Boards(BTreeMap<String, String>),
}

impl Agreed {
    /// A dry run asks for nothing.
    pub fn of(args: &TuneArgs, on: &TestBedSpec) -> Result<Self, CommandError> {
        Ok(match on {
            _ if args.dry_run => Self::Device(None),
            TestBedSpec::Lab { .. } => Self::Boards(names_by_board(&args.confirm)?),
            _ => Self::Device(of_device(&args.confirm)?),
        })
    }

    /// The name of the device, or of that of a board in a lab.
    pub fn name(&self, board: Option<&str>) -> Option<&str> {
        match (self, board) {
            (Self::Boards(names), Some(board)) => names.get(board).map(String::as_str),
            (Self::Device(name), _) => name.as_deref(),
            (Self::Boards(_), None) => None,
        }
    }
}

fn of_device(confirmed: &[String]) -> Result<Option<String>, CommandError> {
    match confirmed {
        [] => Ok(None),
        [name] => Ok(Some(name.clone())),
        _ => Err(CommandError::new(
            ExitClass::Usage,
            "one device is tuned, but several are confirmed",
            Some("give --confirm once"),
        )),
    }
}
