//! Questions to an agent, one at a time, and their answers. A lost connection is made again where
//! that can be, and the question is asked again under its number: the agent does not carry it out
//! twice.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use flashfit_host::interrupt::Interrupt;
use flashfit_user_error::{ExitClass, UserError};

use super::link::{Link, LinkEnds, LinkError};
use crate::TrialError;
use crate::protocol::{AgentRequest, FromAgent, MessageReader, Reply, ToAgent, line};

/// Interval of checks for interrupts and limits; long, because fio is measuring meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// What it may take to undo what is under way.
const UNDO_WAIT: Duration = Duration::from_secs(30);

/// How long answers are waited for.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For a sign of life.
    pub silence: Duration,
    /// For the answer itself.
    pub answer: Duration,
}

/// A conversation with an agent.
pub struct RpcClient<L> {
    link: L,
    interrupt: Interrupt,
    connection: Option<Connection>,
    last: u64,
    /// Whether the agent was told to end, or is given up.
    over: bool,
    /// Whether the agent ended, although nobody told it to, where it can be reached.
    died: bool,
}

struct Connection {
    output: Box<dyn Write + Send>,
    received: Receiver<Result<FromAgent, String>>,
}

/// What a received message means for the question that waits.
enum Heard {
    Answer(Reply),
    Life,
    Lost(String),
    Ended,
}

impl<L: Link> RpcClient<L> {
    /// Over this link; nothing is sent yet.
    pub fn new(link: L, interrupt: &Interrupt) -> Self {
        Self {
            link,
            interrupt: interrupt.clone(),
            connection: None,
            last: 0,
            over: false,
            died: false,
        }
    }

    /// The way to the agent.
    pub fn link(&mut self) -> &mut L {
        &mut self.link
    }

    /// Makes ready to talk to another agent in the place of one that died; `false` where this one
    /// did not, or there can be no other. It has to be told everything again.
    pub fn renew(&mut self) -> bool {
        if !self.died || self.interrupt.is_raised() || !self.link.renew() {
            return false;
        }
        (self.connection, self.over, self.died) = (None, false, false);
        true
    }

    /// Asks and waits. `in_state` is called when a trial that was asked to wait is ready to begin.
    ///
    /// # Errors
    /// What the agent says went wrong, or [`TrialError::Stopped`] when it is lost or the user
    /// interrupts.
    pub fn ask(
        &mut self,
        request: AgentRequest,
        waits: Timeouts,
        in_state: &mut dyn FnMut(),
    ) -> Result<Reply, TrialError> {
        if self.over {
            return Err(self.gone("it was told to end, or is lost"));
        }
        self.last += 1;
        let id = self.last;
        let text = line(&ToAgent::Ask { id, request: Box::new(request) });
        let asked = Instant::now();
        let mut lost_since: Option<Instant> = None;
        let mut why = String::new();
        loop {
            if self.connection.is_none() {
                self.reconnect(&why)?;
            }
            let (told, heard) = self.once(id, &text, asked, waits, in_state)?;
            match told {
                Some(Reply::Failed(failure)) => return Err(self.advised((*failure).into())),
                Some(reply) => return Ok(reply),
                None => why = self.lost_words(),
            }
            if heard {
                lost_since = None;
            }
            let lost_for = lost_since.get_or_insert_with(Instant::now).elapsed();
            if lost_for >= self.link.patience() {
                return Err(self.gone(&why));
            }
            if !heard {
                self.pause()?;
            }
        }
    }

    /// Sends the question and waits for its answer, which is `None` when the connection was lost;
    /// and whether anything was heard.
    fn once(
        &mut self,
        id: u64,
        text: &str,
        asked: Instant,
        waits: Timeouts,
        in_state: &mut dyn FnMut(),
    ) -> Result<(Option<Reply>, bool), TrialError> {
        self.send(text);
        let mut heard = false;
        let mut heard_last = Instant::now();
        let mut cancelled = None;
        loop {
            match self.hear(id, in_state) {
                Some(Heard::Answer(reply)) => return Ok((Some(reply), true)),
                Some(Heard::Life) => (heard, heard_last) = (true, Instant::now()),
                Some(Heard::Lost(why)) if cancelled.is_some() => {
                    self.connection = None;
                    return Err(self.interrupted(&why));
                }
                Some(Heard::Lost(_)) => return Ok((None, heard)),
                Some(Heard::Ended) if cancelled.is_some() => {
                    return Err(self.interrupted("it ended"));
                }
                Some(Heard::Ended) => {
                    self.died = true;
                    return Err(self.gone("it has ended"));
                }
                None => {}
            }
            if self.interrupt.is_raised() && cancelled.is_none() {
                self.over = true;
                self.send(&line(&ToAgent::End {}));
                cancelled = Some(Instant::now());
            }
            if cancelled.is_some_and(|since| since.elapsed() > UNDO_WAIT) {
                return Err(self.interrupted("it does not end what is under way"));
            }
            let (silent, late) = (heard_last.elapsed(), asked.elapsed());
            if silent > waits.silence || late > waits.answer {
                let (what, span) = if late > waits.answer {
                    ("did not answer", late)
                } else {
                    ("was silent", silent)
                };
                self.connection = None;
                return Err(self.gone(&format!("it {what} for {} s", span.as_secs())));
            }
        }
    }

    fn hear(&mut self, id: u64, in_state: &mut dyn FnMut()) -> Option<Heard> {
        let Some(connection) = &self.connection else {
            return Some(Heard::Lost("the connection was lost".to_owned()));
        };
        let message = match connection.received.recv_timeout(POLL_INTERVAL) {
            Ok(Ok(message)) => message,
            Ok(Err(why)) => return Some(Heard::Lost(why)),
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => {
                self.connection = None;
                return Some(Heard::Lost("the connection was lost".to_owned()));
            }
        };
        Some(match message {
            FromAgent::Answer { id: answered, reply } if answered == id => Heard::Answer(*reply),
            FromAgent::InState { id: trial } if trial == id => {
                in_state();
                self.send(&line(&ToAgent::GoOn { id }));
                Heard::Life
            }
            FromAgent::Ended {} => {
                self.connection = None;
                Heard::Ended
            }
            FromAgent::Unreadable { reason } => Heard::Lost(format!("it says that we {reason}")),
            // Of a question whose answer was not waited for.
            FromAgent::Answer { .. } | FromAgent::InState { .. } | FromAgent::Working { .. } => {
                Heard::Life
            }
        })
    }

    fn reconnect(&mut self, why: &str) -> Result<(), TrialError> {
        let (began, patience) = (Instant::now(), self.link.patience());
        loop {
            match self.link.connect() {
                Ok(ends) => {
                    self.connection = Some(Connection::new(ends));
                    return Ok(());
                }
                Err(error) if !error.may_pass || began.elapsed() > patience => {
                    self.over = true;
                    return Err(unreachable_place(&error, why));
                }
                Err(_) => {}
            }
            self.pause()?;
        }
    }

    /// Waits a moment before the next try.
    fn pause(&mut self) -> Result<(), TrialError> {
        if self.interrupt.sleep(self.link.retry_interval()) {
            self.over = true;
            return Err(self.interrupted("it cannot be reached"));
        }
        Ok(())
    }

    fn lost_words(&mut self) -> String {
        self.connection = None;
        self.link.last_error_line().unwrap_or_else(|| "the connection was lost".to_owned())
    }

    /// With the hint that helps there, for errors that are the machine's.
    fn advised(&self, error: TrialError) -> TrialError {
        let advice = self.link.advice(&error);
        match (error, advice) {
            (TrialError::Stopped { message, class, .. }, Some(advice)) => {
                TrialError::Stopped { message, class, hint: Some(advice) }
            }
            (error, _) => error,
        }
    }

    fn gone(&mut self, why: &str) -> TrialError {
        self.over = true;
        let place = self.link.place();
        self.advised(TrialError::Stopped {
            message: format!("the agent on {place} is gone: {why}"),
            class: ExitClass::Io,
            hint: Some("go on when it is back: flashfit tune --resume DIR".to_owned()),
        })
    }

    fn interrupted(&mut self, why: &str) -> TrialError {
        let place = self.link.place();
        TrialError::Stopped {
            message: format!("interrupted; of {place} it is not known what is left there: {why}"),
            class: ExitClass::Interrupted,
            hint: None,
        }
    }
}

impl<L> RpcClient<L> {
    /// Tells the agent to end, and waits until it has undone what is under way.
    fn end(&mut self) {
        self.over = true;
        self.send(&line(&ToAgent::End {}));
        let asked = Instant::now();
        while asked.elapsed() < UNDO_WAIT {
            let Some(connection) = &self.connection else { return };
            match connection.received.recv_timeout(POLL_INTERVAL) {
                Err(RecvTimeoutError::Disconnected) | Ok(Err(_) | Ok(FromAgent::Ended {})) => break,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.connection = None;
    }

    fn send(&mut self, text: &str) {
        let Some(connection) = &mut self.connection else { return };
        let sent = connection.output.write_all(text.as_bytes());
        if sent.and_then(|()| connection.output.flush()).is_err() {
            self.connection = None;
        }
    }
}

impl<L> Drop for RpcClient<L> {
    fn drop(&mut self) {
        self.end();
    }
}

fn unreachable_place(error: &LinkError, why: &str) -> TrialError {
    let message = if why.is_empty() {
        error.to_string()
    } else {
        format!("{why}; and there is no way back: {error}")
    };
    TrialError::Stopped { message, class: error.class(), hint: error.hint() }
}

impl Connection {
    fn new(ends: LinkEnds) -> Self {
        let LinkEnds { input, output } = ends;
        let (sender, received) = channel();
        std::thread::spawn(move || {
            let mut lines = MessageReader::new(input);
            loop {
                let message = match lines.message::<FromAgent>() {
                    Ok(Some(message)) => Ok(message),
                    Ok(None) => return,
                    Err(error) => Err(format!("it {error}")),
                };
                let is_last = message.is_err();
                if sender.send(message).is_err() || is_last {
                    return;
                }
            }
        });
        Self { output, received }
    }
}
