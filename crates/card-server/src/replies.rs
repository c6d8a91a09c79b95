//! Sending each reply when it is due.
//!
//! A card without a command queue has one request under way, so whoever took the request waits. A
//! card with one has several, whose replies a separate thread sends in the order in which they
//! are due; that need not be the order of arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flashfit_device::BlockDevError;

use crate::delay;
use crate::live::{CompletionTime, LiveCard, QueueSlot, lost_power};

/// How late it may be seen that the power was cut.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);

type Send = Box<dyn FnOnce(Result<(), BlockDevError>) + std::marker::Send>;

/// What sends the replies of one way to a card.
#[derive(Debug)]
pub struct Replies {
    card: LiveCard,
    later: Option<Arc<Later>>,
}

impl Replies {
    /// For that card. A card with a command queue gets a thread, which shares the open files of
    /// the thread that calls this.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn new(card: LiveCard) -> std::io::Result<Self> {
        delay::wake_exactly();
        let later = if card.depth() > 1 {
            let later = Arc::new(Later::default());
            let (theirs, card) = (later.clone(), card.clone());
            let thread = std::thread::Builder::new().name("replies".to_owned());
            thread.spawn(move || theirs.send_all(&card))?;
            Some(later)
        } else {
            None
        };
        Ok(Self { card, later })
    }

    /// Has `send` called when the request that took `place` is done: at once when it failed, at
    /// the latest a moment after a cut. Waits for it if the card has no command queue.
    pub fn when(
        &self,
        place: QueueSlot,
        due: Result<CompletionTime, BlockDevError>,
        send: impl FnOnce(Result<(), BlockDevError>) + std::marker::Send + 'static,
    ) {
        let due = match due {
            Ok(due) => due,
            Err(error) => return send(Err(error)),
        };
        match &self.later {
            Some(later) if due.moment > Instant::now() => {
                let send = Box::new(send);
                later.push(Pending { moment: due.moment, number: 0, due, send, place });
            }
            _ => {
                let came = delay::until(due.moment, || self.card.is_cut(due));
                drop(place);
                send(if came { Ok(()) } else { Err(lost_power()) });
            }
        }
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        if let Some(later) = &self.later {
            later.lock().ended = true;
            later.changed.notify_all();
        }
    }
}

/// A reply that is not yet due.
struct Pending {
    moment: Instant,
    /// Of those due at the same moment, the one that came first goes first.
    number: u64,
    due: CompletionTime,
    send: Send,
    place: QueueSlot,
}

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.moment, self.number).cmp(&(other.moment, other.number))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pending {}

#[derive(Default)]
struct Waiting {
    heap: BinaryHeap<Reverse<Pending>>,
    pushed: u64,
    ended: bool,
}

/// What is to be sent later.
#[derive(Default)]
struct Later {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// Whether one is due earlier than the one that the thread is spinning for.
    overtaken: AtomicBool,
}

impl std::fmt::Debug for Later {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Later").finish_non_exhaustive()
    }
}

impl Later {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, mut pending: Pending) {
        let mut waiting = self.lock();
        waiting.pushed += 1;
        pending.number = waiting.pushed;
        let first = waiting.heap.peek();
        let overtakes = first.is_none_or(|Reverse(first)| pending.moment < first.moment);
        waiting.heap.push(Reverse(pending));
        drop(waiting);
        if overtakes {
            self.overtaken.store(true, Ordering::Release);
            self.changed.notify_one();
        }
    }

    /// Sends replies until there is nobody left to ask for any.
    fn send_all(&self, card: &LiveCard) {
        delay::wake_exactly();
        let mut ready = Vec::new();
        while self.wait(card, &mut ready) {
            for pending in ready.drain(..) {
                let Pending { due, send, place, .. } = pending;
                drop(place);
                send(if card.is_cut(due) { Err(lost_power()) } else { Ok(()) });
            }
        }
    }

    /// Waits until replies are due and moves them to `ready`; `false` at the end.
    fn wait(&self, card: &LiveCard, ready: &mut Vec<Pending>) -> bool {
        let mut waiting = self.lock();
        loop {
            self.overtaken.store(false, Ordering::Release);
            let now = Instant::now();
            let is_ready =
                |Reverse(first): &Reverse<Pending>| first.moment <= now || card.is_cut(first.due);
            while waiting.heap.peek().is_some_and(is_ready) {
                ready.extend(waiting.heap.pop().map(|Reverse(pending)| pending));
            }
            if !ready.is_empty() {
                return true;
            }
            let first = waiting.heap.peek().map(|Reverse(first)| first.moment);
            waiting = match first {
                None if waiting.ended => return false,
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(moment) => self.wait_for(moment, now, waiting),
            };
        }
    }

    fn wait_for<'a>(
        &'a self,
        moment: Instant,
        now: Instant,
        waiting: MutexGuard<'a, Waiting>,
    ) -> MutexGuard<'a, Waiting> {
        let left = moment - now;
        if let Some(sleep) = delay::to_sleep(left) {
            let woken = self.changed.wait_timeout(waiting, sleep.min(LONGEST_SLEEP));
            return woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(waiting);
        while Instant::now() < moment && !self.overtaken.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        self.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use flashfit_card::CardRequest;

    use super::*;
    use crate::live::tests::serving;

    const QUEUED: (&str, &str) = ("[layer]", "[queue]\ndepth = 4\n[layer]");
    const SLOW: (&str, &str) = ("program_ns = 700", "program_ns = 1000000000");

    fn write(live: &LiveCard, offset: u64) -> Result<CompletionTime, BlockDevError> {
        live.submit(Instant::now(), CardRequest::Write { offset, data: &[1; 4096] })
    }

    #[test]
    fn replies_of_a_queue_are_sent_in_the_order_in_which_they_are_due() {
        let live = serving(&[QUEUED, ("program_ns = 700", "program_ns = 3000000")]);
        let replies = Replies::new(live.clone()).unwrap();
        let (sender, sent) = channel();
        for name in ["write", "read"] {
            let place = live.place();
            let due = match name {
                "write" => write(&live, 0),
                _ => {
                    let mut due = write(&live, 4096).unwrap();
                    due.moment = Instant::now() + Duration::from_micros(500);
                    Ok(due)
                }
            };
            let sender = sender.clone();
            let moment = due.as_ref().unwrap().moment;
            replies.when(place, due, move |result| {
                assert!(Instant::now() >= moment);
                sender.send((name, result.is_ok())).unwrap();
            });
        }
        let wait = Duration::from_secs(10);
        assert_eq!(sent.recv_timeout(wait).unwrap(), ("read", true));
        assert_eq!(sent.recv_timeout(wait).unwrap(), ("write", true));
    }

    #[test]
    fn a_cut_fails_waiting_replies_of_both_kinds_of_card() {
        for changes in [&[SLOW][..], &[SLOW, QUEUED]] {
            let live = serving(changes);
            let replies = Replies::new(live.clone()).unwrap();
            let (sender, sent) = channel();
            let place = live.place();
            let due = write(&live, 0);
            let other = live.clone();
            let cutter = std::thread::spawn(move || other.cut(0, Vec::new()));
            replies.when(place, due, move |result| sender.send(result.is_err()).unwrap());
            assert!(sent.recv_timeout(Duration::from_secs(10)).unwrap());
            cutter.join().unwrap();
        }
    }
}
