//! Answering the lines that come in on a pipe or a socket.

use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use flashfit_card_client::protocol::{
    CardFailure, CardQuery, CardReply, RequestKind, VERSION, line,
};
use flashfit_user_error::{ExitClass, Hint, Task, UserError, UserSetting};

use crate::live::LiveCard;
use crate::state;

/// Longer than any question; a peer cannot make the card hold more than this.
const MAX_LINE_BYTES: u64 = 16_384;

/// What answers questions, in as many threads as there are askers.
#[derive(Debug, Clone)]
pub struct ControlServer {
    /// The card in question.
    pub card: LiveCard,
    /// Its device or its NBD socket.
    pub place: PathBuf,
    /// Where to say that the card is to stop.
    pub stop: Sender<()>,
}

impl ControlServer {
    /// Answers every line until the input ends, the peer has gone, or the card is to stop.
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
            if answer == (CardReply::Stopping {}) {
                // The receiver has gone only when the card is stopping already.
                let _ = self.stop.send(());
                return;
            }
            if sent.is_err() {
                return;
            }
        }
    }

    fn answer(&self, text: &str) -> CardReply {
        match serde_json::from_slice::<CardQuery>(text.as_bytes()) {
            Ok(question) if question.version == VERSION => self.grant(&question.request),
            Ok(question) => {
                let asked = question.version;
                let message = format!("this card answers version {VERSION}, not {asked}");
                CardReply::Refused { message }
            }
            Err(error) => CardReply::Refused { message: error.to_string() },
        }
    }

    fn grant(&self, request: &RequestKind) -> CardReply {
        match request {
            RequestKind::Counters => {
                let mut timed = self.card.lock();
                timed.mark();
                CardReply::Counters(timed.card.counters())
            }
            RequestKind::SpareBlocks => {
                CardReply::SpareBlocks(self.card.lock().card.spare_blocks())
            }
            RequestKind::ResetCounters => {
                let card = &mut self.card.lock().card;
                let counters = card.counters();
                card.reset_counters();
                CardReply::Counters(counters)
            }
            RequestKind::Idle { duration_ns } => {
                self.card.lock().pass_time(*duration_ns);
                self.done()
            }
            RequestKind::Cut { .. } | RequestKind::PowerOn
                if self.card.lock().card.is_bricked() =>
            {
                CardReply::Failed(CardFailure {
                    message: "a power cut has bricked the card: it never answers again".to_owned(),
                    hint: Some(
                        Hint::from("end it and serve a new card; one that is loaded with ")
                            .and(UserSetting::State)
                            .and(" stays bricked"),
                    ),
                    class: ExitClass::Io.code(),
                })
            }
            RequestKind::Cut { .. } if !self.card.lock().card.is_powered() => {
                let on = Task::PowerOn(self.place.clone());
                CardReply::Failed(CardFailure {
                    message: "the card has no power that could be cut".to_owned(),
                    hint: Some(Hint::from("switch it on first: ").and(on)),
                    class: ExitClass::Usage.code(),
                })
            }
            RequestKind::Cut { faults, seed } => {
                CardReply::Cut(self.card.cut(*seed, faults.clone()))
            }
            RequestKind::PowerOn => {
                let powered = self.card.lock().card.power_on();
                self.done_if(powered)
            }
            RequestKind::Image { file } => match state::write_image(&self.card, file) {
                Ok(unreadable_bytes) => CardReply::Image { unreadable_bytes },
                Err(error) => CardReply::Failed(CardFailure::of(&error)),
            },
            RequestKind::Save { file } => self.done_if(state::save(&self.card, file)),
            RequestKind::Stop => CardReply::Stopping {},
        }
    }

    fn done_if<E: UserError>(&self, result: Result<(), E>) -> CardReply {
        match result {
            Ok(()) => self.done(),
            Err(error) => CardReply::Failed(CardFailure::of(&error)),
        }
    }

    fn done(&self) -> CardReply {
        CardReply::Done { now_ns: self.card.lock().card.done_ns() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use flashfit_card::CardRequest;
    use flashfit_user_error::HintPart;

    use super::*;
    use crate::live::tests::serving;

    fn ask(requests: &[&str]) -> (Vec<CardReply>, Receiver<()>) {
        let card = serving(&[]);
        card.lock().card.serve(CardRequest::Write { offset: 0, data: &[1; 512] }).unwrap();
        let (stop, stopped) = channel();
        let mut output = Vec::new();
        let control = ControlServer { card, place: "/dev/loop7".into(), stop };
        let lines: String = requests
            .iter()
            .map(|request| format!("{{\"version\":1,\"request\":{request}}}\n"))
            .collect();
        control.answer_all(lines.as_bytes(), &mut output);
        let text = String::from_utf8(output).unwrap();
        (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), stopped)
    }

    #[test]
    fn counters_are_told_and_reset() {
        let (answers, stopped) = ask(&["\"reset_counters\"", "\"counters\""]);
        let written: Vec<u64> = answers
            .iter()
            .map(|answer| match answer {
                CardReply::Counters(counters) => counters.host_written_bytes,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(written, [512, 0]);
        assert!(stopped.try_recv().is_err());
    }

    #[test]
    fn nothing_is_answered_after_stop() {
        let (answers, stopped) = ask(&["\"stop\"", "\"counters\""]);
        assert_eq!(answers, [CardReply::Stopping {}]);
        assert!(stopped.try_recv().is_ok());
    }

    #[test]
    fn nonsense_is_refused_and_the_next_line_answered() {
        let (answers, _) = ask(&["\"explode\"", "not json", "\"counters\"", "{\"idle\":{}}"]);
        assert!(matches!(answers[0], CardReply::Refused { .. }));
        assert!(matches!(answers[1], CardReply::Refused { .. }));
        assert!(matches!(answers[2], CardReply::Counters(_)));
        assert!(matches!(answers[3], CardReply::Refused { .. }));
        let (answers, _) = ask(&["\"explode\"}\n{\"version\":2,\"request\":\"counters\""]);
        let CardReply::Refused { message } = &answers[1] else { panic!("{answers:?}") };
        assert_eq!(message, "this card answers version 1, not 2");
    }

    #[test]
    fn time_passes_without_requests() {
        let hour = 3_600_000_000_000_u64;
        let (answers, _) = ask(&[&format!("{{\"idle\":{{\"duration_ns\":{hour}}}}}")]);
        assert!(matches!(answers[0], CardReply::Done { .. }));
    }

    #[test]
    fn a_cut_is_reported_and_power_given_back() {
        let cut = "{\"cut\":{\"faults\":[],\"seed\":1}}";
        let unknown = "{\"cut\":{\"faults\":[{\"class\":\"gnomes\"}],\"seed\":1}}";
        let (twice, _) = ask(&[cut, cut]);
        let CardReply::Failed(nothing_to_cut) = &twice[1] else { panic!("{twice:?}") };
        let on = HintPart::Task(Task::PowerOn("/dev/loop7".into()));
        assert!(nothing_to_cut.hint.as_ref().unwrap().parts().contains(&on));
        let (answers, _) = ask(&[unknown, cut, "\"power_on\"", "\"counters\""]);
        assert!(matches!(answers[0], CardReply::Refused { .. }));
        assert!(matches!(answers[1], CardReply::Cut(_)));
        assert!(matches!(answers[2], CardReply::Done { .. }));
        assert!(matches!(&answers[3], CardReply::Counters(counters) if counters.power_cuts == 1));
    }

    #[test]
    fn a_bricked_card_is_not_to_be_switched_on() {
        let brick = "{\"cut\":{\"faults\":[{\"class\":\"brick\",\"value\":0}],\"seed\":1}}";
        let (answers, _) = ask(&[brick, "\"power_on\"", brick]);
        assert!(matches!(answers[0], CardReply::Cut(_)), "{answers:?}");
        for answer in &answers[1..] {
            let CardReply::Failed(failure) = answer else { panic!("{answers:?}") };
            assert!(failure.message.contains("bricked"), "{failure:?}");
            let parts = failure.hint.as_ref().unwrap().parts();
            assert!(!parts.iter().any(|part| matches!(part, HintPart::Task(_))), "{parts:?}");
        }
    }
}
