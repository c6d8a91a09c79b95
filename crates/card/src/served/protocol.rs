//! The lines between a served card and whoever asks it: one JSON document a line.

use std::path::PathBuf;

use flashfit_host::{ExitClass, Explain};
use serde::{Deserialize, Serialize};

use crate::counters::Counters;

/// A line to the card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What is asked.
    pub request: RequestKind,
}

/// What can be asked of a served card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// Its counters.
    Counters,
    /// Its counters, which begin at 0 again afterwards.
    ResetCounters,
    /// To end.
    Stop,
}

/// A line from the card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The first line: the device can be used.
    Ready {
        /// Its node, `/dev/loopN`.
        device: PathBuf,
        /// Where this kernel does not show the device as the model has it.
        notes: Vec<String>,
    },
    /// The first line: there is no device.
    Failed(Failure),
    /// The counters.
    Counters(Counters),
    /// It ends.
    Stopping {},
    /// The line was not understood.
    Refused {
        /// Why.
        message: String,
    },
}

/// An error as it passes from one process to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What and where.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// The exit code of its class.
    pub class: u8,
}

impl Failure {
    /// What an error presents to a user.
    pub fn of(error: &dyn Explain) -> Self {
        Self { message: error.to_string(), hint: error.hint(), class: error.class().code() }
    }
}

impl Explain for Failure {
    fn class(&self) -> ExitClass {
        use ExitClass::{BadVerdict, Bug, Environment, Interrupted, Io, Refused, Usage};
        let classes = [BadVerdict, Usage, Refused, Environment, Io, Interrupted];
        classes.into_iter().find(|class| class.code() == self.class).unwrap_or(Bug)
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// A line, with its end.
pub fn line<T: Serialize>(message: &T) -> String {
    let mut line = serde_json::to_string(message).expect("messages have only plain fields");
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_as_documented() {
        for (text, request) in [
            ("counters", RequestKind::Counters),
            ("reset_counters", RequestKind::ResetCounters),
            ("stop", RequestKind::Stop),
        ] {
            let wanted = format!("{{\"request\":\"{text}\"}}\n");
            assert_eq!(line(&Question { request }), wanted);
            assert_eq!(serde_json::from_str::<Question>(&wanted).unwrap().request, request);
        }
    }

    #[test]
    fn the_first_line_is_ready_or_failed() {
        let ready = Answer::Ready { device: "/dev/loop7".into(), notes: Vec::new() };
        assert_eq!(line(&ready), "{\"ready\":{\"device\":\"/dev/loop7\",\"notes\":[]}}\n");
        let failure = Failure { message: "no".into(), hint: None, class: 4 };
        assert_eq!(failure.class(), ExitClass::Environment);
        let text = line(&Answer::Failed(failure));
        assert_eq!(text, "{\"failed\":{\"message\":\"no\",\"hint\":null,\"class\":4}}\n");
    }
}
