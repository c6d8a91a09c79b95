//! A card in real time: its own time runs with the machine's clock, and several threads use it.
//!
//! A request is submitted with the moment of its arrival and answered when the card would have
//! done it. Of that moment is subtracted what the way to the client and back takes by itself
//! (measured when the card is attached), so that the client sees the card's time and not the sum of
//! both. A cut of the power fails what is under way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flashfit_card::cut::{CutMoment, CutOptions, CutReport, EnabledFault};
use flashfit_card::{Card, CardRequest};
use flashfit_device::{BlockDevError, BlockDevInfo};

use crate::recording::TraceRecorder;

/// How a card that cannot write zeros by itself is sent them; not in the binary.
static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; 512 << 10]);

/// The largest time that can be set for a card: half of what its time can express, so that what it
/// does afterwards has as much left, three centuries.
const LATEST_NS: u64 = u64::MAX / 2;

/// When a request is done.
#[derive(Debug, Clone, Copy)]
pub struct CompletionTime {
    /// The moment at which to reply.
    pub moment: Instant,
    /// How often the power had been cut when it arrived.
    cuts: u64,
}

impl CompletionTime {
    /// When both are done.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { moment: self.moment.max(other.moment), cuts: self.cuts.min(other.cuts) }
    }
}

/// A card that threads share. Clones are the same card.
#[derive(Debug, Clone)]
pub struct LiveCard(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    timed: Mutex<TimedCard>,
    description: BlockDevInfo,
    depth: u32,
    in_flight: Mutex<u32>,
    place_free: Condvar,
    cuts: AtomicU64,
    way_ns: AtomicU64,
}

/// The card and the relation of its time to the machine's.
#[derive(Debug)]
pub struct TimedCard {
    pub card: Card,
    epoch: Instant,
    /// The card's time at `epoch`.
    epoch_ns: u64,
    /// While it is being attached, the kernel looks for partitions; it is shown what the card
    /// holds, and the card does not see it.
    attaching: bool,
    recorder: Option<TraceRecorder>,
}

impl TimedCard {
    fn now_ns(&self, moment: Instant) -> u64 {
        let passed = moment.saturating_duration_since(self.epoch).as_nanos();
        self.epoch_ns.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn moment(&self, time_ns: u64) -> Instant {
        self.epoch + Duration::from_nanos(time_ns.saturating_sub(self.epoch_ns))
    }

    fn submit(
        &mut self,
        arrival: Instant,
        request: CardRequest<'_>,
    ) -> Result<Instant, BlockDevError> {
        if self.attaching {
            return match request {
                CardRequest::Read { offset, buffer } => self.card.peek(offset, buffer),
                CardRequest::Flush => Ok(()),
                other => self.card.serve(other).map(drop),
            }
            .map(|()| arrival);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.record(&request);
        }
        let done_ns = self.card.submit(self.now_ns(arrival), request)?;
        Ok(self.moment(done_ns))
    }

    /// Records all further requests.
    pub fn record_with(&mut self, recorder: TraceRecorder) {
        self.recorder = Some(recorder);
    }

    /// Marks this moment in the recording, if there is one.
    pub fn mark(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.mark();
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// Those of writing the recording.
    pub fn end_recording(&mut self) -> std::io::Result<()> {
        self.recorder.take().map_or(Ok(()), TraceRecorder::finish)
    }

    /// Lets the card's time be the present, and `more_ns` later, though at the latest in the middle
    /// of all the time there is; what it does in idle time is done.
    pub fn pass_time(&mut self, more_ns: u64) {
        let latest_ns = LATEST_NS.max(self.epoch_ns);
        self.epoch_ns = self.epoch_ns.saturating_add(more_ns).min(latest_ns);
        let now_ns = self.now_ns(Instant::now());
        self.card.idle_until(now_ns);
    }
}

impl LiveCard {
    /// A card that is being attached: until [`LiveCard::begin`] it takes no time to answer.
    pub fn new(card: Card) -> Self {
        Self(Arc::new(Shared {
            description: card.description(),
            depth: card.model().queue.depth.max(1),
            timed: Mutex::new(TimedCard {
                epoch: Instant::now(),
                epoch_ns: card.done_ns(),
                card,
                attaching: true,
                recorder: None,
            }),
            in_flight: Mutex::new(0),
            place_free: Condvar::new(),
            cuts: AtomicU64::new(0),
            way_ns: AtomicU64::new(0),
        }))
    }

    /// Begins to serve in the card's own time; `way` is what a request takes to the card and back
    /// by itself.
    pub fn begin(&self, way: Duration) {
        let way_ns = u64::try_from(way.as_nanos()).unwrap_or(u64::MAX);
        self.0.way_ns.store(way_ns, Ordering::Relaxed);
        let mut timed = self.lock();
        timed.attaching = false;
        timed.epoch = Instant::now();
        timed.epoch_ns = timed.card.done_ns();
    }

    pub fn description(&self) -> &BlockDevInfo {
        &self.0.description
    }

    /// How many requests it works on at once.
    pub fn depth(&self) -> u32 {
        self.0.depth
    }

    /// Waits for the card, never for the time that a request takes.
    pub fn lock(&self) -> MutexGuard<'_, TimedCard> {
        self.0.timed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the card takes another request.
    pub fn place(&self) -> QueueSlot {
        let mut in_flight = self.0.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        while *in_flight >= self.0.depth {
            in_flight = self.0.place_free.wait(in_flight).unwrap_or_else(PoisonError::into_inner);
        }
        *in_flight += 1;
        QueueSlot(self.clone())
    }

    /// Serves a request that arrived at `arrival`.
    ///
    /// # Errors
    /// As [`Card::submit`].
    pub fn submit(
        &self,
        arrival: Instant,
        request: CardRequest<'_>,
    ) -> Result<CompletionTime, BlockDevError> {
        let mut timed = self.lock();
        // Read under the lock, under which the power is cut.
        let cuts = self.0.cuts.load(Ordering::Relaxed);
        let done = timed.submit(arrival, request)?;
        drop(timed);
        let way = Duration::from_nanos(self.0.way_ns.load(Ordering::Relaxed));
        Ok(CompletionTime { moment: done.checked_sub(way).unwrap_or(done), cuts })
    }

    /// A request to write zeros is what a host does to a card that cannot: writes of zeros.
    ///
    /// # Errors
    /// As [`Card::submit`].
    pub fn write_zeros(
        &self,
        arrival: Instant,
        mut offset: u64,
        mut left: u64,
    ) -> Result<CompletionTime, BlockDevError> {
        let mut due = CompletionTime { moment: arrival, cuts: self.0.cuts.load(Ordering::Relaxed) };
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
            let request = CardRequest::Write { offset, data: &ZEROS[..part] };
            due = due.and(self.submit(arrival, request)?);
            offset += part as u64;
            left -= part as u64;
        }
        Ok(due)
    }

    /// Whether the power was cut after the request arrived.
    pub fn is_cut(&self, due: CompletionTime) -> bool {
        self.0.cuts.load(Ordering::Relaxed) != due.cuts
    }

    /// Cuts the power at the present moment; what is under way fails.
    pub fn cut(&self, seed: u64, faults: Vec<EnabledFault>) -> CutReport {
        let mut timed = self.lock();
        timed.pass_time(0);
        // What is due within the time of the way was answered already.
        let way_ns = self.0.way_ns.load(Ordering::Relaxed);
        let at_ns = timed.now_ns(Instant::now()).saturating_add(way_ns);
        self.0.cuts.fetch_add(1, Ordering::Relaxed);
        timed.card.power_cut(&CutOptions { seed, moment: CutMoment::At(at_ns), faults })
    }
}

/// A place among the requests that a card works on at once; free again when dropped.
#[derive(Debug)]
pub struct QueueSlot(LiveCard);

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let shared = &self.0.0;
        *shared.in_flight.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        shared.place_free.notify_one();
    }
}

/// Why a request fails that was under way when the power was cut.
pub fn lost_power() -> BlockDevError {
    BlockDevError::Disconnected("the simulated card lost its power".to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::test_model::{SMALL, parse, small_with};

    /// The small card, serving.
    pub(crate) fn serving(changes: &[(&str, &str)]) -> LiveCard {
        let live = LiveCard::new(Card::new(&small_with(changes).unwrap()));
        live.begin(Duration::ZERO);
        live
    }

    #[test]
    fn a_new_card_learns_nothing_of_being_attached() {
        let live = LiveCard::new(Card::new(&parse(SMALL).unwrap()));
        let mut buffer = [1; 512];
        let read = CardRequest::Read { offset: 0, buffer: &mut buffer };
        live.submit(Instant::now(), read).unwrap();
        assert_eq!(buffer, [0; 512]);
        assert_eq!(live.lock().card.done_ns(), 0);
    }

    #[test]
    fn requests_are_due_after_the_cards_time_less_that_of_the_way() {
        let live = serving(&[("program_ns = 700", "program_ns = 5000000")]);
        let arrival = Instant::now();
        let write = || CardRequest::Write { offset: 0, data: &[1; 4096] };
        let first = live.submit(arrival, write()).unwrap();
        assert_eq!(first.moment, arrival + Duration::from_nanos(10 + 4096 + 5_000_000));
        live.0.way_ns.store(1000, Ordering::Relaxed);
        let second = live.submit(arrival, write()).unwrap();
        let service = second.moment - first.moment;
        assert_eq!(service, Duration::from_nanos(10 + 4096 + 5_000_000 - 1000));
    }

    #[test]
    fn a_cut_fails_what_is_under_way_and_what_comes() {
        let live = serving(&[]);
        let due = live.submit(Instant::now(), CardRequest::Flush).unwrap();
        assert!(!live.is_cut(due));
        live.cut(0, Vec::new());
        assert!(live.is_cut(due));
        assert!(live.submit(Instant::now(), CardRequest::Flush).is_err());
        live.lock().card.power_on().unwrap();
        let due = live.submit(Instant::now(), CardRequest::Flush).unwrap();
        assert!(!live.is_cut(due));
    }

    #[test]
    fn a_card_serves_on_after_all_the_time_there_is() {
        let background = ("[discard]", "[background]\nafter_ns = 1000\n[discard]");
        let live = serving(&[background]);
        live.lock().pass_time(u64::MAX);
        live.lock().pass_time(u64::MAX);
        let arrival = Instant::now();
        let write = CardRequest::Write { offset: 0, data: &[1; 4096] };
        let due = live.submit(arrival, write).unwrap();
        assert_eq!(due.moment, arrival + Duration::from_nanos(10 + 4096 + 700));
    }

    #[test]
    fn no_more_requests_are_taken_than_the_card_works_on() {
        let live = serving(&[]);
        let place = live.place();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(live.place()));
            assert!(!second.is_finished());
            drop(place);
        });
        assert_eq!(*live.0.in_flight.lock().unwrap(), 0);
    }
}
