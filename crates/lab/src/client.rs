//! Calls `labgrid-client` and interprets its errors.
//!
//! Most errors have exit code 1, so they are distinguished by their text (labgrid 26.0.1).

use std::time::{Duration, Instant};

use flashfit_host::program::failed;
use flashfit_host::{Program, ProgramError, Runner};

use crate::error::LabError;
use crate::owner::Owner;
use crate::settings::LabSettings;

/// Longer than a working coordinator takes; its calls to exporters time out after 10 s.
const CALL_LIMIT: Duration = Duration::from_secs(45);
/// Time between attempts to reach a coordinator.
const PAUSE: Duration = Duration::from_millis(500);

/// A connection to one lab under one client name.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) settings: LabSettings,
    pub(crate) owner: Owner,
}

#[derive(Debug, Clone)]
pub(crate) enum RpcReply {
    /// Success, with the output.
    Done(String),
    No(RefusedCall),
}

#[derive(Debug, Clone)]
pub(crate) struct RefusedCall {
    pub(crate) reason: RefusalReason,
    output: String,
    command_line: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// There is no connection to the coordinator, or it was lost.
    Unreachable,
    /// The place is locked under our client name.
    LockedByUs,
    LockedByOther,
    NotLocked,
    ReservedForOther,
    NoSuchPlace,
    NoSuchReservation,
    ExporterAway,
    /// There is no resource or driver for its power.
    NoPower,
    /// The switch cannot report its state.
    PowerUnknown,
    /// The environment file does not contain the place.
    NotInEnvironment,
    /// The program does not know these arguments.
    TooOld,
    Other,
}

/// Parts of error messages; the first match applies.
const REASONS: [(&str, RefusalReason); 18] = [
    ("Could not connect to coordinator", RefusalReason::Unreachable),
    ("coordinator is unavailable", RefusalReason::Unreachable),
    ("coordinator became unavailable", RefusalReason::Unreachable),
    ("failed to connect to all addresses", RefusalReason::Unreachable),
    ("Cancelling all calls", RefusalReason::Unreachable),
    ("Socket closed", RefusalReason::Unreachable),
    ("not acquired by your user", RefusalReason::LockedByOther),
    ("not acquired on this computer", RefusalReason::LockedByOther),
    ("is already acquired", RefusalReason::LockedByOther),
    ("is not acquired", RefusalReason::NotLocked),
    ("was not reserved for", RefusalReason::ReservedForOther),
    ("matches nothing", RefusalReason::NoSuchPlace),
    ("has no matching remote resource", RefusalReason::ExporterAway),
    ("orphaned resource", RefusalReason::ExporterAway),
    ("no compatible resource available", RefusalReason::NoPower),
    ("has no attribute 'get'", RefusalReason::PowerUnknown),
    // PDUDaemon's.
    ("does not support retrieving the port's state", RefusalReason::PowerUnknown),
    ("not found in configuration file", RefusalReason::NotInEnvironment),
];

fn reason_of(output: &str) -> RefusalReason {
    if output.starts_with("usage: ") {
        return RefusalReason::TooOld;
    }
    if let Some((_, place)) = output.split_once("You have already acquired place ") {
        // A message with ` on ` names another host.
        let ours = !place.lines().next().unwrap_or_default().contains(" on ");
        return if ours { RefusalReason::LockedByUs } else { RefusalReason::LockedByOther };
    }
    if output.contains("Reservation ") && output.contains(" does not exist") {
        return RefusalReason::NoSuchReservation;
    }
    let found = REASONS.iter().find(|(text, _)| output.contains(text));
    found.map_or(RefusalReason::Other, |(_, reason)| *reason)
}

impl RefusedCall {
    /// The error without further context.
    pub(crate) fn into_error(self, client: &Client) -> LabError {
        match self.reason {
            RefusalReason::TooOld => LabError::ClientTooOld {
                client: client.settings.client.clone(),
                output: self.output,
            },
            RefusalReason::Unreachable => client.unreachable(Duration::ZERO, self.output),
            _ => LabError::Refused { command_line: self.command_line, output: self.output },
        }
    }
}

impl Client {
    /// Calls the client once, with a time limit.
    pub(crate) fn once(
        &self,
        runner: &dyn Runner,
        args: &[&str],
        limit: Duration,
    ) -> Result<RpcReply, LabError> {
        let outcome =
            runner.run(&self.program(args).timeout(limit)).map_err(|error| match error {
                ProgramError::Missing { name } => LabError::ClientMissing { client: name },
                error => LabError::Program(error),
            })?;
        if outcome.success() {
            return Ok(RpcReply::Done(outcome.stdout));
        }
        let output = match failed(&outcome) {
            // Only the last line of a Python traceback is informative.
            _ if outcome.stderr.contains("Traceback (most recent call last)") => {
                outcome.stderr.lines().last().unwrap_or_default().to_owned()
            }
            ProgramError::Failed { message, .. } => message,
            error => error.to_string(),
        };
        let reason = reason_of(&outcome.stderr);
        Ok(RpcReply::No(RefusedCall { reason, output, command_line: outcome.command_line }))
    }

    /// Calls the client; retries for `patience` while the coordinator cannot be reached.
    pub(crate) fn call(
        &self,
        runner: &dyn Runner,
        args: &[&str],
        patience: Duration,
    ) -> Result<RpcReply, LabError> {
        let started = Instant::now();
        loop {
            let output = match self.once(runner, args, CALL_LIMIT) {
                Ok(RpcReply::No(no)) if no.reason == RefusalReason::Unreachable => no.output,
                Err(LabError::Program(ProgramError::TimedOut { limit, .. })) => {
                    format!("no answer in {} s", limit.as_secs())
                }
                other => return other,
            };
            if started.elapsed() + PAUSE > patience {
                return Err(self.unreachable(started.elapsed(), output));
            }
            std::thread::sleep(PAUSE);
        }
    }

    pub(crate) fn unreachable(&self, tried: Duration, output: String) -> LabError {
        LabError::Unreachable { coordinator: self.settings.coordinator.clone(), tried, output }
    }

    /// Clears environment variables that would change what a call does.
    fn program(&self, args: &[&str]) -> Program {
        let mut program = Program::new(&self.settings.client)
            .args(["--coordinator", &self.settings.coordinator])
            .args(args.iter().copied())
            .env("LG_HOSTNAME", &self.owner.host)
            .env("LG_USERNAME", &self.owner.user)
            .env("LG_PROXY", self.settings.proxy.as_deref().unwrap_or_default())
            .env("PYTHONUTF8", "1");
        for unwanted in ["LG_ENV", "LG_PLACE", "LG_STATE", "LG_INITIAL_STATE", "LG_TOKEN"] {
            program = program.env(unwanted, "");
        }
        program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_distinguished() {
        let cases = [
            (
                "labgrid-client: Error: You have already acquired place b.",
                RefusalReason::LockedByUs,
            ),
            (
                "labgrid-client: Error: You have already acquired place b on h. To work",
                RefusalReason::LockedByOther,
            ),
            (
                "labgrid-client: Error: Place b is already acquired by h/u. To work",
                RefusalReason::LockedByOther,
            ),
            ("labgrid-client: Error: place b is not acquired", RefusalReason::NotLocked),
            (
                "labgrid-client: Error: place b is not acquired by your user, acquired by u.",
                RefusalReason::LockedByOther,
            ),
            (
                "Server error: Error: Place b was not reserved for h/u",
                RefusalReason::ReservedForOther,
            ),
            ("labgrid-client: Error: place pattern b matches nothing", RefusalReason::NoSuchPlace),
            ("Server error: Error: Reservation A does not exist", RefusalReason::NoSuchReservation),
            ("Server error: Error: Could not connect to coordinator", RefusalReason::Unreachable),
            ("RemotePlace b not found in configuration file", RefusalReason::NotInEnvironment),
            ("usage: labgrid-client [-h]", RefusalReason::TooOld),
            ("KeyError: 7", RefusalReason::Other),
        ];
        for (output, reason) in cases {
            assert_eq!(reason_of(output), reason, "{output}");
        }
    }
}
