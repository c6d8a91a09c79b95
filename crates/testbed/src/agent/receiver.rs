//! Receives messages. One thread per connection queues requests and interrupts the current one when
//! the client says so, even while the agent is busy.

use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use flashfit_host::interrupt::Interrupt;

use super::sender::MessageSender;
use crate::protocol::{AgentRequest, FromAgent, LineError, MessageReader, ToAgent};

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a trial waits for the client before it starts the workload.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads one connection and dispatches its messages.
#[derive(Clone)]
pub struct ConnectionReader {
    requests: Sender<(u64, AgentRequest)>,
    gate: Sender<u64>,
    interrupt: Interrupt,
    sender: Arc<MessageSender>,
    ends_with_connection: bool,
}

pub struct MessageReceiver {
    requests: Receiver<(u64, AgentRequest)>,
    interrupt: Interrupt,
    sender: Arc<MessageSender>,
    linger: Option<Duration>,
}

/// Holds a trial until the client lets it continue.
pub struct TrialGate {
    gate: Receiver<u64>,
    interrupt: Interrupt,
    sender: Arc<MessageSender>,
}

/// The ends of a new message queue. The agent ends with its connection if `linger` is `None`, else
/// after being without a connection for that long.
pub fn channels(
    sender: &Arc<MessageSender>,
    interrupt: &Interrupt,
    linger: Option<Duration>,
) -> (ConnectionReader, MessageReceiver, TrialGate) {
    let (requests, received) = channel();
    let (gate, received_go_on) = channel();
    let (interrupt, sender) = (interrupt.clone(), Arc::clone(sender));
    let reader = ConnectionReader {
        requests,
        gate,
        interrupt: interrupt.clone(),
        sender: Arc::clone(&sender),
        ends_with_connection: linger.is_none(),
    };
    let waiting = TrialGate {
        gate: received_go_on,
        interrupt: interrupt.clone(),
        sender: Arc::clone(&sender),
    };
    (reader, MessageReceiver { requests: received, interrupt, sender, linger }, waiting)
}

impl ConnectionReader {
    /// Reads a connection until it is closed; `number` is from [`MessageSender::connect`].
    pub fn read(&self, input: impl Read, number: u64) {
        let mut lines = MessageReader::new(input);
        loop {
            match lines.message::<ToAgent>() {
                Ok(Some(message)) => self.take(message),
                Ok(None) => break,
                // The client notices by itself that its connection is lost, and makes another.
                Err(LineError::Read(_)) => break,
                Err(error) => {
                    let reason = error.to_string();
                    self.sender.send_to(number, &FromAgent::Unreadable { reason });
                    if !error.is_recoverable() {
                        break;
                    }
                }
            }
        }
        self.sender.disconnect(number);
        if self.ends_with_connection {
            self.interrupt.raise();
        }
    }

    fn take(&self, message: ToAgent) {
        // If the receiver has gone, the process is about to end.
        let _ = match message {
            ToAgent::Ask { id, request } => self.requests.send((id, *request)).is_ok(),
            ToAgent::Continue { id } => self.gate.send(id).is_ok(),
            ToAgent::End {} => {
                self.interrupt.raise();
                true
            }
        };
    }
}

impl MessageReceiver {
    /// The next request, or `None` when it is time to end.
    pub fn next(&self) -> Option<(u64, AgentRequest)> {
        loop {
            match self.requests.recv_timeout(POLL_INTERVAL) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let is_abandoned = match (self.linger, self.sender.disconnected_for()) {
                (Some(linger), Some(alone)) => alone > linger,
                _ => false,
            };
            if is_abandoned || self.interrupt.is_raised() {
                return None;
            }
        }
    }
}

impl TrialGate {
    /// Reports that trial `id` reached its initial state and waits for the client to continue it,
    /// for a bounded time.
    pub fn wait(&self, id: u64) {
        self.sender.send(&FromAgent::InState { id });
        let asked = Instant::now();
        while asked.elapsed() < CONTINUE_TIMEOUT && !self.interrupt.is_raised() {
            if self.gate.recv_timeout(POLL_INTERVAL) == Ok(id) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Ends with an error, as a connection does that was reset.
    struct Reset<'a>(&'a [u8]);

    impl Read for Reset<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(std::io::ErrorKind::ConnectionReset.into()),
                count => Ok(count),
            }
        }
    }

    /// What the agent sends to the client while it reads these bytes, from the client's connection
    /// or from the one that the client had before.
    fn sent(input: &[u8], from_earlier: bool) -> String {
        let sender = MessageSender::new();
        let (reader, _receiver, _gate) = channels(&sender, &Interrupt::new(), Some(Duration::MAX));
        let (mut client, agent) = UnixStream::pair().unwrap();
        let earlier = sender.connect(Box::new(std::io::sink()));
        let current = sender.connect(Box::new(agent));
        reader.read(Reset(input), if from_earlier { earlier } else { current });
        sender.close();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn only_a_message_of_the_current_client_is_reported_as_unreadable() {
        assert!(sent(b"nonsense\n", false).contains("`nonsense`"));
        assert_eq!(sent(b"nonsense\n", true), "", "of an earlier connection");
        assert_eq!(sent(b"{\"end\":{}}\n", false), "", "a lost connection");
        assert_eq!(sent(b"{\"en", true), "");
    }
}
