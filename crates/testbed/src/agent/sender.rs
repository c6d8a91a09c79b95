//! Sends messages over the current connection, if there is one. During a request it sends a
//! heartbeat, which distinguishes a slow trial from a dead agent.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::protocol::{FromAgent, line};

/// Interval of heartbeats during a request.
pub const WORKING_INTERVAL: Duration = Duration::from_secs(2);
/// Not a valid request number.
const NONE: u64 = 0;

pub struct MessageSender {
    connection: Mutex<Connection>,
    under_way: AtomicU64,
}

struct Connection {
    output: Option<Box<dyn Write + Send>>,
    /// Counts connections, so that closing an old one does not affect its successor.
    number: u64,
    /// Start of the time without a connection.
    lost: Instant,
}

impl Connection {
    fn send_line(&mut self, text: &str) {
        let Some(output) = &mut self.output else { return };
        if output.write_all(text.as_bytes()).and_then(|()| output.flush()).is_err() {
            self.output = None;
            self.lost = Instant::now();
        }
    }
}

impl MessageSender {
    /// A sender without a connection. A thread sends heartbeats until the sender is dropped.
    pub fn new() -> Arc<Self> {
        let connection = Connection { output: None, number: 0, lost: Instant::now() };
        let sender =
            Arc::new(Self { connection: Mutex::new(connection), under_way: AtomicU64::new(NONE) });
        let weak = Arc::downgrade(&sender);
        std::thread::spawn(move || report_working(&weak));
        sender
    }

    /// Replaces the connection and returns the number of the new one.
    pub fn connect(&self, output: Box<dyn Write + Send>) -> u64 {
        let mut connection = self.connection();
        connection.output = Some(output);
        connection.number += 1;
        connection.number
    }

    /// Drops the connection with that number if it is the current one.
    pub fn disconnect(&self, number: u64) {
        let mut connection = self.connection();
        if connection.number == number {
            connection.output = None;
            connection.lost = Instant::now();
        }
    }

    pub fn close(&self) {
        self.connection().output = None;
    }

    /// Time without a connection; `None` while connected.
    pub fn disconnected_for(&self) -> Option<Duration> {
        let connection = self.connection();
        connection.output.is_none().then(|| connection.lost.elapsed())
    }

    /// Sends a message if connected.
    pub fn send(&self, message: &FromAgent) {
        self.send_line(&line(message));
    }

    /// Sends a message if the connection with that number is the current one.
    pub fn send_to(&self, number: u64, message: &FromAgent) {
        let mut connection = self.connection();
        if connection.number == number {
            connection.send_line(&line(message));
        }
    }

    /// Sends a serialized message if connected.
    pub fn send_line(&self, text: &str) {
        self.connection().send_line(text);
    }

    pub fn start_request(&self, id: u64) {
        self.under_way.store(id, Ordering::SeqCst);
    }

    /// Stops the heartbeats. The time without a connection restarts here.
    pub fn end_request(&self) {
        self.under_way.store(NONE, Ordering::SeqCst);
        let mut connection = self.connection();
        if connection.output.is_none() {
            connection.lost = Instant::now();
        }
    }

    fn connection(&self) -> std::sync::MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn report_working(sender: &Weak<MessageSender>) {
    loop {
        std::thread::sleep(WORKING_INTERVAL);
        let Some(sender) = sender.upgrade() else { return };
        let id = sender.under_way.load(Ordering::SeqCst);
        if id != NONE {
            sender.send(&FromAgent::Working { id });
        }
    }
}
