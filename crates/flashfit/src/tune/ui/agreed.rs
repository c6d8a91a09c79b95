//! The names by which the user agreed to lose the data of devices, before being asked.

use std::collections::BTreeMap;

use flashfit_testbed::TestBedSpec;
use flashfit_user_error::ExitClass;

use super::super::args::TuneArgs;
use crate::command_error::CommandError;

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
            TestBedSpec::Lab { .. } => Self::Boards(by_board(&args.confirm)?),
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

/// `BOARD:NAME` by board.
fn by_board(confirmed: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    let parts = confirmed.iter().flat_map(|text| text.split(','));
    parts
        .map(|part| match part.split_once(':') {
            Some((board, name)) if !board.is_empty() && !name.is_empty() => {
                Ok((board.to_owned(), name.to_owned()))
            }
            _ => Err(CommandError::new(
                ExitClass::Usage,
                format!("`{part}` does not name a board"),
                Some("in a lab: --confirm BOARD:NAME,BOARD:NAME"),
            )),
        })
        .collect()
}
