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
pub(crate) enum Answer {
    /// It did it, and printed this.
    Done(String),
    /// It did not.
    No(No),
}

/// A refusal.
#[derive(Debug, Clone)]
pub(crate) struct No {
    pub(crate) reason: Reason,
    said: String,
    command_line: String,
}

/// Why a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
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
const REASONS: [(&str, Reason); 17] = [
    ("Could not connect to coordinator", Reason::Unreachable),
    ("coordinator is unavailable", Reason::Unreachable),
    ("coordinator became unavailable", Reason::Unreachable),
    ("failed to connect to all addresses", Reason::Unreachable),
    ("Cancelling all calls", Reason::Unreachable),
    ("Socket closed", Reason::Unreachable),
    ("not acquired by your user", Reason::LockedByOther),
    ("not acquired on this computer", Reason::LockedByOther),
    ("is already acquired", Reason::LockedByOther),
    ("is not acquired", Reason::NotLocked),
    ("was not reserved for", Reason::ReservedForOther),
    ("matches nothing", Reason::NoSuchPlace),
    ("has no matching remote resource", Reason::ExporterAway),
    ("orphaned resource", Reason::ExporterAway),
    ("no compatible resource available", Reason::NoPower),
    ("has no attribute 'get'", Reason::PowerUnknown),
    ("not found in configuration file", Reason::NotInEnvironment),
];

fn reason_of(said: &str) -> Reason {
    if said.starts_with("usage: ") {
        return Reason::TooOld;
    }
    if let Some((_, place)) = said.split_once("You have already acquired place ") {
        // With more than the place, it names another host.
        let ours = !place.lines().next().unwrap_or_default().contains(" on ");
        return if ours { Reason::LockedByUs } else { Reason::LockedByOther };
    }
    if said.contains("Reservation ") && said.contains(" does not exist") {
        return Reason::NoSuchReservation;
    }
    let found = REASONS.iter().find(|(text, _)| said.contains(text));
    found.map_or(Reason::Other, |(_, reason)| *reason)
}

impl No {
    /// The error where nothing better is known.
    pub(crate) fn into_error(self, client: &Client) -> LabError {
        match self.reason {
            Reason::TooOld => {
                LabError::ClientTooOld { client: client.settings.client.clone(), said: self.said }
            }
            Reason::Unreachable => client.unreachable(Duration::ZERO, self.said),
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
    ) -> Result<Answer, LabError> {
        let outcome =
            runner.run(&self.program(args).timeout(limit)).map_err(|error| match error {
                ProgramError::Missing { name } => LabError::ClientMissing { client: name },
                error => LabError::Program(error),
            })?;
        if outcome.success() {
            return Ok(Answer::Done(outcome.stdout));
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
        Ok(Answer::No(No { reason, said, command_line: outcome.command_line }))
    }

    /// Calls, and for `patience` again and again while the coordinator cannot be reached.
    pub(crate) fn call(
        &self,
        runner: &dyn Runner,
        args: &[&str],
        patience: Duration,
    ) -> Result<Answer, LabError> {
        let started = Instant::now();
        loop {
            let said = match self.once(runner, args, CALL_LIMIT) {
                Ok(Answer::No(no)) if no.reason == Reason::Unreachable => no.said,
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
            ("labgrid-client: Error: You have already acquired place b.", Reason::LockedByUs),
            (
                "labgrid-client: Error: You have already acquired place b on h. To work",
                Reason::LockedByOther,
            ),
            (
                "labgrid-client: Error: Place b is already acquired by h/u. To work",
                Reason::LockedByOther,
            ),
            ("labgrid-client: Error: place b is not acquired", Reason::NotLocked),
            (
                "labgrid-client: Error: place b is not acquired by your user, acquired by u.",
                Reason::LockedByOther,
            ),
            ("Server error: Error: Place b was not reserved for h/u", Reason::ReservedForOther),
            ("labgrid-client: Error: place pattern b matches nothing", Reason::NoSuchPlace),
            ("Server error: Error: Reservation A does not exist", Reason::NoSuchReservation),
            ("Server error: Error: Could not connect to coordinator", Reason::Unreachable),
            ("RemotePlace b not found in configuration file", Reason::NotInEnvironment),
            ("usage: labgrid-client [-h]", Reason::TooOld),
            ("KeyError: 7", Reason::Other),
        ];
        for (said, reason) in cases {
            assert_eq!(reason_of(said), reason, "{said}");
        }
    }
}
