//! The lines between a served card and whoever asks it: one JSON document a line.
//!
//! Each question bears the protocol's version, so that a card that was started by another version
//! of flashfit refuses what it may understand differently.

use std::path::PathBuf;
use std::time::Duration;

use flashfit_card::cut::{CutReport, EnabledFault};
use flashfit_card::{Counters, SpareBlocks};
use flashfit_user_error::{ExitClass, Hint, UserError};
use serde::{Deserialize, Serialize};

/// How long a server that is told to stop waits for the last user of its device, unless its options
/// say otherwise.
pub const STOP_WAIT: Duration = Duration::from_secs(10);
/// The version of questions and answers.
pub const VERSION: u32 = 1;

/// A line to the card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardQuery {
    /// [`VERSION`].
    pub version: u32,
    pub request: RequestKind,
}

impl CardQuery {
    /// A question of this version.
    pub fn new(request: RequestKind) -> Self {
        Self { version: VERSION, request }
    }
}

/// What can be asked of a served card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RequestKind {
    Counters,
    /// The state of its spare erase blocks.
    SpareBlocks,
    /// Its counters, which begin at 0 again afterwards.
    ResetCounters,
    /// To let its time pass as if no request came for so long.
    Idle {
        /// How long, in nanoseconds.
        duration_ns: u64,
    },
    /// To lose its power.
    Cut {
        /// What happens beyond what an honest card does.
        faults: Vec<EnabledFault>,
        /// Decides whatever is left to chance.
        seed: u64,
    },
    /// To be given its power back.
    PowerOn,
    /// To write what a host would read to a file, with or without power.
    Image {
        /// The file, by its absolute path; it must not be there.
        #[serde(with = "flashfit_host::path_text::document")]
        file: PathBuf,
    },
    /// To write its state to a file.
    Save {
        /// The file, by its absolute path.
        #[serde(with = "flashfit_host::path_text::document")]
        file: PathBuf,
    },
    Stop,
}

/// A line from the card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CardReply {
    /// The first line: the device can be used.
    Ready {
        /// Its node, `/dev/loopN`, or its socket.
        #[serde(with = "flashfit_host::path_text::document")]
        device: PathBuf,
        /// Where this kernel does not show the device as the model has it.
        notes: Vec<String>,
    },
    /// What was asked failed. The first line: there is no device. The last one: the card ended
    /// otherwise than it should.
    Failed(CardFailure),
    Counters(Counters),
    /// `None` if blocks of the model never fail.
    SpareBlocks(Option<SpareBlocks>),
    /// What the loss of power did.
    Cut(CutReport),
    /// The image is written.
    Image {
        /// What could not be read, and is zeros in the image.
        unreadable_bytes: u64,
    },
    /// It is done; the card's time afterwards.
    Done {
        /// In nanoseconds since the card was made.
        now_ns: u64,
    },
    Stopping {},
    /// The device has gone, and the state is being written to its file. Sent without being asked.
    Saving {},
    /// The line was not understood.
    Refused {
        message: String,
    },
}

/// An error as it passes from one process to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct CardFailure {
    pub message: String,
    pub hint: Option<Hint>,
    /// The exit code of its class.
    pub class: u8,
}

impl CardFailure {
    /// What an error presents to a user.
    pub fn of(error: &dyn UserError) -> Self {
        Self { message: error.to_string(), hint: error.hint(), class: error.class().code() }
    }
}

impl UserError for CardFailure {
    fn class(&self) -> ExitClass {
        use ExitClass::{BadVerdict, Bug, Environment, Interrupted, Io, Refused, Usage};
        let classes = [BadVerdict, Usage, Refused, Environment, Io, Interrupted];
        classes.into_iter().find(|class| class.code() == self.class).unwrap_or(Bug)
    }

    fn hint(&self) -> Option<Hint> {
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
        let cut = RequestKind::Cut { faults: vec!["weak-page=3".parse().unwrap()], seed: 7 };
        for (text, request) in [
            ("\"counters\"", RequestKind::Counters),
            ("\"reset_counters\"", RequestKind::ResetCounters),
            ("{\"idle\":{\"duration_ns\":5}}", RequestKind::Idle { duration_ns: 5 }),
            ("{\"cut\":{\"faults\":[{\"class\":\"weak-page\",\"value\":3}],\"seed\":7}}", cut),
            ("{\"image\":{\"file\":\"/x\"}}", RequestKind::Image { file: "/x".into() }),
            ("\"power_on\"", RequestKind::PowerOn),
            ("{\"save\":{\"file\":\"/x\"}}", RequestKind::Save { file: "/x".into() }),
            ("\"stop\"", RequestKind::Stop),
        ] {
            let wanted = format!("{{\"version\":1,\"request\":{text}}}\n");
            let question = CardQuery::new(request);
            assert_eq!(line(&question), wanted);
            assert_eq!(serde_json::from_str::<CardQuery>(&wanted).unwrap(), question);
        }
    }

    #[test]
    fn the_first_line_is_ready_or_failed() {
        let ready = CardReply::Ready { device: "/dev/loop7".into(), notes: Vec::new() };
        assert_eq!(line(&ready), "{\"ready\":{\"device\":\"/dev/loop7\",\"notes\":[]}}\n");
        let failure = CardFailure { message: "no".into(), hint: None, class: 4 };
        assert_eq!(failure.class(), ExitClass::Environment);
        let text = line(&CardReply::Failed(failure));
        assert_eq!(text, "{\"failed\":{\"message\":\"no\",\"hint\":null,\"class\":4}}\n");
    }
}
