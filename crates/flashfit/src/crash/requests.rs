//! `--log` of `flashfit crash states`: requests that were recorded elsewhere.

use flashfit_crash::CrashError;
use flashfit_crash::import::{RequestFiles, RequestsPlan};
use flashfit_crash::log::{CrashLog, DmLogError};
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::workload::CrashWorkload;
use flashfit_user_error::ExitClass;

use super::args::StatesArgs;
use crate::command_error::CommandError;

/// What the requests are checked by: for names and contents, only the user's own program knows.
pub fn workload(args: &StatesArgs) -> Result<CrashWorkload, CommandError> {
    let Some(name) = &args.what.workload else { return Ok(CrashWorkload::Requests) };
    match CrashWorkload::parse(name)? {
        program @ CrashWorkload::Program(_) => Ok(program),
        _ => {
            let message = format!("--log is of other work than {name}");
            let hint = "leave out --workload, or name a file with your own check";
            Err(CommandError::new(ExitClass::Usage, message, Some(hint)))
        }
    }
}

/// Reads the requests, if there are any to be read, with what the plan says of them. Before signals
/// are caught, so that an interrupt ends the reading of a large file.
pub fn load(
    args: &StatesArgs,
    setups: &[CrashSetup],
    workload: &CrashWorkload,
) -> Result<Option<(CrashLog, RequestsPlan)>, CommandError> {
    let Some(log) = &args.log.log else { return Ok(None) };
    let [setup] = setups else {
        let message = "the requests of a log are those of one setup";
        let hint = "name one, with its options: --fs ext4:noatime";
        return Err(CommandError::new(ExitClass::Usage, message, Some(hint)));
    };
    let (mark, image) = (args.log.log_start.as_deref(), args.log.log_base.as_deref());
    let files = RequestFiles { log, mark, image };
    files.load(&setup.label, workload).map(Some).map_err(|error| match hint(&error, args) {
        Some(hint) => CommandError::from(error).with_hint(hint),
        None => error.into(),
    })
}

/// How to say where the work begins.
pub fn hint(error: &CrashError, args: &StatesArgs) -> Option<&'static str> {
    Some(match error {
        CrashError::Requests { source: DmLogError::NoStart { .. }, .. } => {
            "name the mark after which the work begins with --log-start MARK, or a copy of the \
             device from before the log with --log-base IMAGE"
        }
        CrashError::Requests { source: DmLogError::NoMark { .. }, .. } => {
            "name one of its marks with --log-start MARK"
        }
        CrashError::NotSoundBefore { .. } => {
            "name the file system with --fs, the mark after mkfs with --log-start MARK, and a copy \
             of the device from before the log with --log-base IMAGE"
        }
        CrashError::NothingAcknowledged if args.log.log.is_some() => {
            "the check gets the marks of the log after its start, and there are none"
        }
        _ => return None,
    })
}
