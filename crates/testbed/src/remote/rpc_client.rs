//! Sends requests to an agent, one at a time, and receives the replies. After a lost connection it
//! reconnects if possible and repeats the request under its number, which the agent does not
//! execute twice.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use flashfit_host::interrupt::Interrupt;
use flashfit_user_error::{ExitClass, Hint, Task, UserError};

use super::link::{Link, LinkEnds, LinkError};
use crate::TrialError;
use crate::protocol::{AgentRequest, FromAgent, LineError, MessageReader, Reply, ToAgent, line};

/// Interval of checks for interrupts and timeouts; long, to disturb measurements little.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long the agent may take to clean up.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For any message.
    pub silence: Duration,
    /// For the reply, also while heartbeats arrive. `None` for requests that take as long as their
    /// programs, which have time limits there.
    pub answer: Option<Duration>,
}

pub struct RpcClient<L> {
    link: L,
    interrupt: Interrupt,
    connection: Option<Connection>,
    last: u64,
    /// Whether the agent was asked to end or is lost.
    is_closed: bool,
    /// Whether the agent ended without being asked to.
    agent_ended: bool,
}

struct Connection {
    output: Box<dyn Write + Send>,
    messages: Receiver<Result<FromAgent, LineError>>,
}

/// What a received message means for the current request.
enum Event {
    Answer(Reply),
    Alive,
    Lost(String),
    /// The two do not understand each other, which a new connection does not change.
    Invalid(String),
    Ended,
}

impl<L: Link> RpcClient<L> {
    /// Does not connect yet.
    pub fn new(link: L, interrupt: &Interrupt) -> Self {
        Self {
            link,
            interrupt: interrupt.clone(),
            connection: None,
            last: 0,
            is_closed: false,
            agent_ended: false,
        }
    }

    pub fn link(&mut self) -> &mut L {
        &mut self.link
    }

    /// Prepares to start a new agent after the old one died; `false` if the old one did not die or
    /// the link cannot restart it.
    pub fn restart(&mut self) -> bool {
        if !self.agent_ended || self.interrupt.is_raised() || !self.link.restart() {
            return false;
        }
        (self.connection, self.is_closed, self.agent_ended) = (None, false, false);
        true
    }

    /// Sends a request and waits for the reply. Calls `on_initial_state` when a trial reports its
    /// initial state.
    ///
    /// # Errors
    /// The agent's error, or [`TrialError::Stopped`] if the agent is lost or the user interrupts.
    pub fn request(
        &mut self,
        request: AgentRequest,
        timeouts: Timeouts,
        on_initial_state: &mut dyn FnMut(),
    ) -> Result<Reply, TrialError> {
        if self.is_closed {
            return Err(self.lost_error("it was told to end or was lost earlier"));
        }
        self.last += 1;
        let id = self.last;
        // What a greeting refuses is the version and the catalog of this machine.
        let is_greeting = matches!(request, AgentRequest::Hello(_));
        let text = line(&ToAgent::Ask { id, request: Box::new(request) });
        let sent_at = Instant::now();
        let mut lost_since: Option<Instant> = None;
        let mut why = String::new();
        loop {
            if self.connection.is_none() {
                self.reconnect(&why)?;
            }
            let (reply, received) = self.attempt(id, &text, sent_at, timeouts, on_initial_state)?;
            match reply {
                Ok(Reply::Failed(failure)) => {
                    let error = TrialError::from(*failure);
                    let error = if is_greeting { error } else { self.translated(error) };
                    return Err(self.with_link_hint(error));
                }
                Ok(reply) => return Ok(reply),
                Err(reason) => why = self.loss_reason(reason),
            }
            if received {
                lost_since = None;
            }
            let lost_for = lost_since.get_or_insert_with(Instant::now).elapsed();
            if lost_for >= self.link.reconnect_timeout() {
                return Err(self.lost_error(&why));
            }
            if !received {
                self.pause()?;
            }
        }
    }

    /// Sends the request and waits for the reply, or for why the connection was lost. Also returns
    /// whether any message was received.
    fn attempt(
        &mut self,
        id: u64,
        text: &str,
        sent_at: Instant,
        timeouts: Timeouts,
        on_initial_state: &mut dyn FnMut(),
    ) -> Result<(Result<Reply, String>, bool), TrialError> {
        self.send(text);
        let mut received = false;
        let mut last_message = Instant::now();
        let mut canceled_at = None;
        loop {
            match self.receive(id, on_initial_state) {
                Some(Event::Answer(reply)) => return Ok((Ok(reply), true)),
                Some(Event::Alive) => (received, last_message) = (true, Instant::now()),
                Some(Event::Lost(why) | Event::Invalid(why)) if canceled_at.is_some() => {
                    self.connection = None;
                    return Err(self.interrupted(&why));
                }
                Some(Event::Lost(why)) => return Ok((Err(why), received)),
                Some(Event::Invalid(why)) => {
                    self.connection = None;
                    return Err(self.misunderstood(&why));
                }
                Some(Event::Ended) if canceled_at.is_some() => {
                    return Err(self.interrupted("it ended"));
                }
                Some(Event::Ended) => {
                    self.agent_ended = true;
                    return Err(self.lost_error("it has ended"));
                }
                None => {}
            }
            if self.interrupt.is_raised() && canceled_at.is_none() {
                self.is_closed = true;
                self.send(&line(&ToAgent::End {}));
                canceled_at = Some(Instant::now());
            }
            if canceled_at.is_some_and(|since| since.elapsed() > CLEANUP_TIMEOUT) {
                return Err(self.interrupted("it did not stop the current request"));
            }
            let (silent, late) = (last_message.elapsed(), sent_at.elapsed());
            let is_late = timeouts.answer.is_some_and(|limit| late > limit);
            if silent > timeouts.silence || is_late {
                let (what, span) =
                    if is_late { ("did not answer", late) } else { ("was silent", silent) };
                self.connection = None;
                return Err(self.lost_error(&format!("it {what} for {} s", span.as_secs())));
            }
        }
    }

    fn receive(&mut self, id: u64, on_initial_state: &mut dyn FnMut()) -> Option<Event> {
        let Some(connection) = &self.connection else {
            return Some(Event::Lost("the connection was lost".to_owned()));
        };
        let message = match connection.messages.recv_timeout(POLL_INTERVAL) {
            Ok(Ok(message)) => message,
            Ok(Err(error @ LineError::Read(_))) => return Some(Event::Lost(format!("it {error}"))),
            Ok(Err(error)) => return Some(Event::Invalid(format!("it {error}"))),
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => {
                self.connection = None;
                return Some(Event::Lost("the connection was lost".to_owned()));
            }
        };
        Some(match message {
            FromAgent::Answer { id: answered, reply } if answered == id => Event::Answer(*reply),
            FromAgent::InState { id: trial } if trial == id => {
                on_initial_state();
                self.send(&line(&ToAgent::Continue { id }));
                Event::Alive
            }
            FromAgent::Ended {} => {
                self.connection = None;
                Event::Ended
            }
            FromAgent::Unreadable { reason } => {
                Event::Invalid(format!("it reports that the client {reason}"))
            }
            // Late messages of an earlier request still show that the agent is alive.
            FromAgent::Answer { .. } | FromAgent::InState { .. } | FromAgent::Working { .. } => {
                Event::Alive
            }
        })
    }

    fn reconnect(&mut self, why: &str) -> Result<(), TrialError> {
        let (start, reconnect_timeout) = (Instant::now(), self.link.reconnect_timeout());
        loop {
            match self.link.connect() {
                Ok(ends) => {
                    self.connection = Some(Connection::new(ends));
                    return Ok(());
                }
                Err(error) if !error.is_transient || start.elapsed() > reconnect_timeout => {
                    self.is_closed = true;
                    return Err(unreachable_host(&error, why));
                }
                Err(_) => {}
            }
            self.pause()?;
        }
    }

    fn pause(&mut self) -> Result<(), TrialError> {
        if self.interrupt.sleep(self.link.retry_interval()) {
            self.is_closed = true;
            return Err(self.interrupted("it cannot be reached"));
        }
        Ok(())
    }

    fn loss_reason(&mut self, reason: String) -> String {
        self.connection = None;
        self.link.last_error_line().unwrap_or(reason)
    }

    /// An error of the agent, with a hint for this machine.
    fn translated(&self, error: TrialError) -> TrialError {
        let translate = |hint: Option<Hint>| hint.map(|hint| self.link.translate_hint(hint));
        match error {
            TrialError::NotAgreed { message, hint } => {
                TrialError::NotAgreed { message, hint: translate(hint) }
            }
            TrialError::Stopped { message, class, hint } => {
                TrialError::Stopped { message, class, hint: translate(hint) }
            }
            other => other,
        }
    }

    /// Replaces the hint of an error if the link has a better one.
    fn with_link_hint(&self, error: TrialError) -> TrialError {
        let hint = self.link.hint_for(&error);
        match (error, hint) {
            (TrialError::Stopped { message, class, .. }, Some(hint)) => {
                TrialError::Stopped { message, class, hint: Some(hint) }
            }
            (error, _) => error,
        }
    }

    fn lost_error(&mut self, why: &str) -> TrialError {
        self.is_closed = true;
        let host = self.link.label();
        self.with_link_hint(TrialError::Stopped {
            message: format!("the agent on {host} was lost: {why}"),
            class: ExitClass::Io,
            hint: Some(Hint::from("when it is reachable again: ").and(Task::Resume)),
        })
    }

    fn misunderstood(&mut self, why: &str) -> TrialError {
        self.is_closed = true;
        let host = self.link.label();
        self.with_link_hint(TrialError::Stopped {
            message: format!("the agent on {host} cannot be understood: {why}"),
            class: ExitClass::Io,
            hint: Some(Hint::from("find out what else writes there, then: ").and(Task::Resume)),
        })
    }

    fn interrupted(&mut self, why: &str) -> TrialError {
        let host = self.link.label();
        TrialError::Stopped {
            message: format!("interrupted; {host} may not be cleaned up: {why}"),
            class: ExitClass::Interrupted,
            hint: None,
        }
    }
}

impl<L> RpcClient<L> {
    /// Asks the agent to end and waits until it has cleaned up.
    fn end(&mut self) {
        self.is_closed = true;
        self.send(&line(&ToAgent::End {}));
        let sent_at = Instant::now();
        while sent_at.elapsed() < CLEANUP_TIMEOUT {
            let Some(connection) = &self.connection else { return };
            match connection.messages.recv_timeout(POLL_INTERVAL) {
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

fn unreachable_host(error: &LinkError, why: &str) -> TrialError {
    let message = if why.is_empty() {
        error.to_string()
    } else {
        format!("{why}; reconnecting failed: {error}")
    };
    TrialError::Stopped { message, class: error.class(), hint: error.hint() }
}

impl Connection {
    fn new(ends: LinkEnds) -> Self {
        let LinkEnds { input, output } = ends;
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut lines = MessageReader::new(input);
            loop {
                let Some(message) = lines.message::<FromAgent>().transpose() else { return };
                let is_last = message.is_err();
                if sender.send(message).is_err() || is_last {
                    return;
                }
            }
        });
        Self { output, messages }
    }
}
