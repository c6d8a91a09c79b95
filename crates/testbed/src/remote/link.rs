//! The way to an agent: a pair of pipes that can break, and that some can make again.

use std::io::{Read, Write};
use std::time::Duration;

use flashfit_user_error::{ExitClass, UserError};

use crate::TrialError;

/// How long an agent may say nothing.
pub const SILENCE: Duration = Duration::from_secs(60);
/// The usual time between two tries to connect again.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Two ends of a connection.
pub struct LinkEnds {
    /// What the agent says.
    pub input: Box<dyn Read + Send>,
    /// What it is told. Its end is the end of the connection.
    pub output: Box<dyn Write + Send>,
}

/// A way to one agent.
pub trait Link {
    /// Connects, for the first time or again.
    ///
    /// # Errors
    /// As [`LinkError`] tells.
    fn connect(&mut self) -> Result<LinkEnds, LinkError>;

    /// For how long connecting again is tried after a loss; zero where a loss is the end.
    fn patience(&self) -> Duration;

    /// The time between two tries to connect again.
    fn retry_interval(&self) -> Duration {
        RETRY_INTERVAL
    }

    /// How long it may say nothing: an agent that is at it says so every two seconds.
    fn silence(&self) -> Duration {
        SILENCE
    }

    /// Lets the next connection begin another agent, the one before being gone; `false` where there
    /// can be none, or none any more.
    fn renew(&mut self) -> bool {
        false
    }

    /// What is known of why the agent does not answer: the last words of its machine.
    fn last_error_line(&mut self) -> Option<String>;

    /// What helps against an error there, where that is something else than on other machines.
    fn advice(&self, error: &TrialError) -> Option<String> {
        let _ = error;
        None
    }

    /// Where the agent is, for people.
    fn place(&self) -> String;
}

/// Why there is no connection.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct LinkError {
    /// What happened, and where.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// The exit class.
    pub class: ExitClass,
    /// Whether trying again may help.
    pub may_pass: bool,
}

impl UserError for LinkError {
    fn class(&self) -> ExitClass {
        self.class
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}
