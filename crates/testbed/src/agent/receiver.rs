//! What comes in: each connection is read by a thread of its own, which hands requests on and ends
//! what is under way when it is told to, also while the agent is busy.

use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use flashfit_host::interrupt::Interrupt;

use super::sender::MessageSender;
use crate::protocol::{AgentRequest, FromAgent, MessageReader, ToAgent};

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long whoever asked may take to say that the workload can begin.
const GO_ON_WAIT: Duration = Duration::from_secs(30);

/// What the readers of connections hand on.
#[derive(Clone)]
pub struct ConnectionEvent {
    requests: Sender<(u64, AgentRequest)>,
    go_on: Sender<u64>,
    interrupt: Interrupt,
    outlet: Arc<MessageSender>,
    /// Whether the end of a connection is the end of all.
    only_one: bool,
}

/// What came in.
pub struct MessageReceiver {
    requests: Receiver<(u64, AgentRequest)>,
    interrupt: Interrupt,
    outlet: Arc<MessageSender>,
    linger: Option<Duration>,
}

/// Who waits in a trial for leave to go on.
pub struct TrialGate {
    go_on: Receiver<u64>,
    interrupt: Interrupt,
    outlet: Arc<MessageSender>,
}

/// An inbox whose connections end with the process (`linger` is `None`), or one that waits that
/// long for somebody to come back.
pub fn inbox(
    outlet: &Arc<MessageSender>,
    interrupt: &Interrupt,
    linger: Option<Duration>,
) -> (ConnectionEvent, MessageReceiver, TrialGate) {
    let (requests, received) = channel();
    let (go_on, told) = channel();
    let (interrupt, outlet) = (interrupt.clone(), Arc::clone(outlet));
    let slot = ConnectionEvent {
        requests,
        go_on,
        interrupt: interrupt.clone(),
        outlet: Arc::clone(&outlet),
        only_one: linger.is_none(),
    };
    let waiting =
        TrialGate { go_on: told, interrupt: interrupt.clone(), outlet: Arc::clone(&outlet) };
    (slot, MessageReceiver { requests: received, interrupt, outlet, linger }, waiting)
}

impl ConnectionEvent {
    /// Reads a connection to its end; `number` is what the outlet calls it.
    pub fn read(&self, input: impl Read, number: u64) {
        let mut lines = MessageReader::new(input);
        loop {
            match lines.message::<ToAgent>() {
                Ok(Some(message)) => self.take(message),
                Ok(None) => break,
                Err(error) => {
                    let reason = error.to_string();
                    self.outlet.send(&FromAgent::Unreadable { reason });
                    if !error.can_go_on() {
                        break;
                    }
                }
            }
        }
        self.outlet.disconnect(number);
        if self.only_one {
            self.interrupt.raise();
        }
    }

    fn take(&self, message: ToAgent) {
        // Whoever would receive it has ended, and the process is about to.
        let _ = match message {
            ToAgent::Ask { id, request } => self.requests.send((id, *request)).is_ok(),
            ToAgent::GoOn { id } => self.go_on.send(id).is_ok(),
            ToAgent::End {} => {
                self.interrupt.raise();
                true
            }
        };
    }
}

impl MessageReceiver {
    /// The next request; `None` when it is time to end.
    pub fn next(&self) -> Option<(u64, AgentRequest)> {
        loop {
            match self.requests.recv_timeout(POLL_INTERVAL) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let forsaken = match (self.linger, self.outlet.alone_for()) {
                (Some(linger), Some(alone)) => alone > linger,
                _ => false,
            };
            if forsaken || self.interrupt.is_raised() {
                return None;
            }
        }
    }
}

impl TrialGate {
    /// Tells that trial `id` is in its state and waits until it may go on, for a bounded time.
    pub fn wait(&self, id: u64) {
        self.outlet.send(&FromAgent::InState { id });
        let asked = Instant::now();
        while asked.elapsed() < GO_ON_WAIT && !self.interrupt.is_raised() {
            if self.go_on.recv_timeout(POLL_INTERVAL) == Ok(id) {
                return;
            }
        }
    }
}
