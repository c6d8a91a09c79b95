//! One call of `labgrid-client`, and what it says when it refuses.
//!
//! The exit code is 1 for most refusals, so their text tells them apart (labgrid 26.0.1).

use std::time::{Duration, Instant};

use flashfit_host::program::failed;
use flashfit_host::{Program, ProgramError, Runner};

use crate::error::LabError;
use crate::owner::Owner;
use crate::settings::LabSettings;

/// Longer than a coordinator that works ever takes; its own calls to exporters end after 10 s.
const CALL_LIMIT: Duration = Duration::from_secs(45);
/// Between attempts to reach a coordinator.
const PAUSE: Duration = Duration::from_millis(500);

/// Talks to one lab under one name.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) settings: LabSettings,
    pub(crate) owner: Owner,
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) enum RpcReply {
    /// It did it, and printed this.
    Done(String),
    /// It did not.
    No(RefusedCall),
}

/// A refusal.
#[derive(Debug, Clone)]
pub(crate) struct RefusedCall {
    pub(crate) reason: RefusalReason,
    said: String,
    command_line: String,
}

/// Why a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// No connection to the coordinator, or it broke.
    Unreachable,
    /// The place is locked under our own name.
    LockedByUs,
    /// It is locked by somebody else.
    LockedByOther,
    /// It is not locked.
    NotLocked,
    /// It is kept for a reservation of somebody else.
    ReservedForOther,
    /// There is no such place.
    NoSuchPlace,
    /// There is no such reservation (any more).
    NoSuchReservation,
    /// A resource of the place has no exporter.
    ExporterAway,
    /// No resource or driver switches its power.
    NoPower,
    /// The switch cannot tell whether it is on.
    PowerUnknown,
    /// The environment file does not have the place.
    NotInEnvironment,
    /// The program does not know these arguments.
    TooOld,
    /// Anything else.
    Other,
}

/// The first that is found in what was said is the reason.
const REASONS: [(&str, RefusalReason); 17] = [
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
    ("not found in configuration file", RefusalReason::NotInEnvironment),
];

fn reason_of(said: &str) -> RefusalReason {
    if said.starts_with("usage: ") {
        return RefusalReason::TooOld;
    }
    if let Some((_, place)) = said.split_once("You have already acquired place ") {
        // With more than the place, it names another host.
        let ours = !place.lines().next().unwrap_or_default().contains(" on ");
        return if ours { RefusalReason::LockedByUs } else { RefusalReason::LockedByOther };
    }
    if said.contains("Reservation ") && said.contains(" does not exist") {
        return RefusalReason::NoSuchReservation;
    }
    let found = REASONS.iter().find(|(text, _)| said.contains(text));
    found.map_or(RefusalReason::Other, |(_, reason)| *reason)
}

impl RefusedCall {
    /// The error where nothing better is known.
    pub(crate) fn into_error(self, client: &Client) -> LabError {
        match self.reason {
            RefusalReason::TooOld => {
                LabError::ClientTooOld { client: client.settings.client.clone(), said: self.said }
            }
            RefusalReason::Unreachable => client.unreachable(Duration::ZERO, self.said),
            _ => LabError::Refused { command_line: self.command_line, said: self.said },
        }
    }
}

impl Client {
    /// Calls once, for at most `limit`.
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
        let said = match failed(&outcome) {
            // Only the end of a Python traceback is about the lab.
            _ if outcome.stderr.contains("Traceback (most recent call last)") => {
                outcome.stderr.lines().last().unwrap_or_default().to_owned()
            }
            ProgramError::Failed { message, .. } => message,
            error => error.to_string(),
        };
        let reason = reason_of(&outcome.stderr);
        Ok(RpcReply::No(RefusedCall { reason, said, command_line: outcome.command_line }))
    }

    /// Calls, and for `patience` again and again while the coordinator cannot be reached.
    pub(crate) fn call(
        &self,
        runner: &dyn Runner,
        args: &[&str],
        patience: Duration,
    ) -> Result<RpcReply, LabError> {
        let started = Instant::now();
        loop {
            let said = match self.once(runner, args, CALL_LIMIT) {
                Ok(RpcReply::No(no)) if no.reason == RefusalReason::Unreachable => no.said,
                Err(LabError::Program(ProgramError::TimedOut { limit, .. })) => {
                    format!("no answer in {} s", limit.as_secs())
                }
                other => return other,
            };
            if started.elapsed() + PAUSE > patience {
                return Err(self.unreachable(started.elapsed(), said));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The error for a coordinator that was `tried` for so long.
    pub(crate) fn unreachable(&self, tried: Duration, said: String) -> LabError {
        LabError::Unreachable { coordinator: self.settings.coordinator.clone(), tried, said }
    }

    /// What the user's own variables would change (a place, a state to go to first) is emptied.
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
    fn refusals_are_told_apart() {
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
        for (said, reason) in cases {
            assert_eq!(reason_of(said), reason, "{said}");
        }
    }
}
