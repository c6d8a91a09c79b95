//! The transport to an agent: a pair of pipes, which some implementations can reconnect.

use std::io::{Read, Write};
use std::time::Duration;

use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::TrialError;

/// Default of [`Link::silence_timeout`].
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// Default of [`Link::retry_interval`].
pub const RETRY_INTERVAL: Duration = Duration::from_secs(1);

pub struct LinkEnds {
    /// From the agent.
    pub input: Box<dyn Read + Send>,
    /// To the agent. Dropping it closes the connection.
    pub output: Box<dyn Write + Send>,
}

pub trait Link {
    /// Connects or reconnects.
    ///
    /// # Errors
    /// [`LinkError`].
    fn connect(&mut self) -> Result<LinkEnds, LinkError>;

    /// How long to try to reconnect; zero if the link cannot reconnect.
    fn reconnect_timeout(&self) -> Duration;

    /// Time between two attempts to reconnect.
    fn retry_interval(&self) -> Duration {
        RETRY_INTERVAL
    }

    /// How long to wait for a message. A busy agent sends a heartbeat every two seconds.
    fn silence_timeout(&self) -> Duration {
        SILENCE_TIMEOUT
    }

    /// Makes the next connection start a new agent; `false` if that is not possible.
    fn restart(&mut self) -> bool {
        false
    }

    /// The last output of the agent's machine, which may explain why it does not answer.
    fn last_error_line(&mut self) -> Option<String>;

    /// A hint that replaces the usual one for errors on this machine.
    fn hint_for(&self, error: &TrialError) -> Option<Hint> {
        let _ = error;
        None
    }

    /// A hint of the agent, which is meant for its machine, as it is to be read on this one.
    fn translate_hint(&self, hint: Hint) -> Hint {
        hint
    }

    /// Names the agent's machine in messages.
    fn label(&self) -> String;
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct LinkError {
    pub message: String,
    pub hint: Option<Hint>,
    pub class: ExitClass,
    /// Whether a retry may succeed.
    pub is_transient: bool,
}

impl UserError for LinkError {
    fn class(&self) -> ExitClass {
        self.class
    }

    fn hint(&self) -> Option<Hint> {
        self.hint.clone()
    }
}
