//! Answering the lines that come in on a pipe or a socket.

use std::io::{BufRead, Read, Write};
use std::sync::mpsc::Sender;

use super::file_system::SharedCard;
use super::protocol::{Answer, Question, RequestKind, line};

/// Longer than any question; a peer cannot make the card hold more than this.
const MAX_LINE_BYTES: u64 = 4096;

/// What answers questions, in as many threads as there are askers.
#[derive(Debug, Clone)]
pub struct Control {
    /// The card in question.
    pub card: SharedCard,
    /// Where to say that the card is to stop.
    pub stop: Sender<()>,
}

impl Control {
    /// Answers every line until the input ends, the peer is gone, or the card is to stop.
    pub fn answer_all(&self, mut input: impl BufRead, mut output: impl Write) {
        let mut text = String::new();
        loop {
            text.clear();
            let read = (&mut input).take(MAX_LINE_BYTES).read_line(&mut text);
            if !matches!(read, Ok(1..)) {
                return;
            }
            let answer = self.answer(&text);
            let sent = output.write_all(line(&answer).as_bytes()).and_then(|()| output.flush());
            if answer == (Answer::Stopping {}) {
                // The receiver is gone only when the card is stopping already.
                let _ = self.stop.send(());
                return;
            }
            if sent.is_err() {
                return;
            }
        }
    }

    fn answer(&self, text: &str) -> Answer {
        match serde_json::from_str::<Question>(text) {
            Ok(Question { request: RequestKind::Counters }) => {
                Answer::Counters(self.card.lock().counters())
            }
            Ok(Question { request: RequestKind::ResetCounters }) => {
                let mut card = self.card.lock();
                let counters = card.counters();
                card.reset_counters();
                Answer::Counters(counters)
            }
            Ok(Question { request: RequestKind::Stop }) => Answer::Stopping {},
            Err(error) => Answer::Refused { message: error.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::card::{Card, Request};
    use crate::model::tests::{SMALL, parse};

    fn ask(lines: &str) -> (Vec<Answer>, Receiver<()>) {
        let mut card = Card::new(&parse(SMALL).unwrap());
        card.serve(Request::Write { offset: 0, data: &[1; 512] }).unwrap();
        let (stop, stopped) = channel();
        let mut output = Vec::new();
        let control = Control { card: SharedCard::new(card), stop };
        control.answer_all(lines.as_bytes(), &mut output);
        let text = String::from_utf8(output).unwrap();
        (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), stopped)
    }

    #[test]
    fn counters_are_told_and_reset() {
        let question = "{\"request\":\"reset_counters\"}\n{\"request\":\"counters\"}\n";
        let (answers, stopped) = ask(question);
        let written: Vec<u64> = answers
            .iter()
            .map(|answer| match answer {
                Answer::Counters(counters) => counters.host_written_bytes,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(written, [512, 0]);
        assert!(stopped.try_recv().is_err());
    }

    #[test]
    fn nothing_is_answered_after_stop() {
        let (answers, stopped) = ask("{\"request\":\"stop\"}\n{\"request\":\"counters\"}\n");
        assert_eq!(answers, [Answer::Stopping {}]);
        assert!(stopped.try_recv().is_ok());
    }

    #[test]
    fn nonsense_is_refused_and_the_next_line_answered() {
        let (answers, _) = ask("{\"request\":\"explode\"}\nnot json\n{\"request\":\"counters\"}\n");
        assert!(matches!(answers[0], Answer::Refused { .. }));
        assert!(matches!(answers[1], Answer::Refused { .. }));
        assert!(matches!(answers[2], Answer::Counters(_)));
    }
}
