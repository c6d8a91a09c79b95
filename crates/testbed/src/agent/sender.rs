//! The way out of an agent: the connection that there is at the moment, if there is one. While a
//! request is under way, who asked is told so, that a slow trial can be told from a dead agent.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::protocol::{FromAgent, line};

/// How often who asked is told that the agent is at it.
pub const WORKING_INTERVAL: Duration = Duration::from_secs(2);
/// No request has this number.
const NONE: u64 = 0;

/// The way out.
pub struct MessageSender {
    connection: Mutex<Connection>,
    under_way: AtomicU64,
}

struct Connection {
    output: Option<Box<dyn Write + Send>>,
    /// Counts connections, so that the end of an old one is not taken for that of its successor.
    number: u64,
    /// When the last one was lost, or since when there is none.
    lost: Instant,
}

impl MessageSender {
    /// Without a connection. A thread of its own tells what is under way, until the value goes.
    pub fn new() -> Arc<Self> {
        let connection = Connection { output: None, number: 0, lost: Instant::now() };
        let outlet =
            Arc::new(Self { connection: Mutex::new(connection), under_way: AtomicU64::new(NONE) });
        let weak = Arc::downgrade(&outlet);
        std::thread::spawn(move || tell_working(&weak));
        outlet
    }

    /// A new connection takes the place of the one before; its number.
    pub fn connect(&self, output: Box<dyn Write + Send>) -> u64 {
        let mut connection = self.connection();
        connection.output = Some(output);
        connection.number += 1;
        connection.number
    }

    /// The connection of that number is at its end.
    pub fn disconnect(&self, number: u64) {
        let mut connection = self.connection();
        if connection.number == number {
            connection.output = None;
            connection.lost = Instant::now();
        }
    }

    /// Ends the connection that there is.
    pub fn close(&self) {
        self.connection().output = None;
    }

    /// For how long there has been nobody; `None` while there is somebody.
    pub fn alone_for(&self) -> Option<Duration> {
        let connection = self.connection();
        connection.output.is_none().then(|| connection.lost.elapsed())
    }

    /// Sends a message, if there is anybody; an answer is kept by who sends it.
    pub fn send(&self, message: &FromAgent) {
        self.send_line(&line(message));
    }

    /// Sends what is a line already.
    pub fn send_line(&self, text: &str) {
        let mut connection = self.connection();
        let Some(output) = &mut connection.output else { return };
        if output.write_all(text.as_bytes()).and_then(|()| output.flush()).is_err() {
            connection.output = None;
            connection.lost = Instant::now();
        }
    }

    /// A request begins.
    pub fn begins(&self, id: u64) {
        self.under_way.store(id, Ordering::SeqCst);
    }

    /// None is under way any more. Being alone counts from here.
    pub fn is_idle(&self) {
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

fn tell_working(outlet: &Weak<MessageSender>) {
    loop {
        std::thread::sleep(WORKING_INTERVAL);
        let Some(outlet) = outlet.upgrade() else { return };
        let id = outlet.under_way.load(Ordering::SeqCst);
        if id != NONE {
            outlet.send(&FromAgent::Working { id });
        }
    }
}
