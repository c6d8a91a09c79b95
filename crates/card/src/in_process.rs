//! A card within the process: each request advances a clock by its service time.
//!
//! With a virtual clock, a probe that takes minutes on a real card takes milliseconds. Time that
//! passes between requests is idle time of the card.

use flashfit_device::{BlockDev, BlockDevError, BlockDevInfo, Clock};

use crate::card::{Card, CardRequest};

/// A [`BlockDev`] that runs a card against a clock.
#[derive(Debug)]
pub struct InProcessCard<C> {
    card: Card,
    clock: C,
    /// The card's time minus the clock's at creation, if positive.
    card_ahead_ns: u64,
    clock_ahead_ns: u64,
}

impl<C: Clock> InProcessCard<C> {
    pub fn new(card: Card, clock: C) -> Self {
        let (card_ns, clock_ns) = (card.done_ns(), clock.now_ns());
        let card_ahead_ns = card_ns.saturating_sub(clock_ns);
        let clock_ahead_ns = clock_ns.saturating_sub(card_ns);
        Self { card, clock, card_ahead_ns, clock_ahead_ns }
    }

    pub fn card(&self) -> &Card {
        &self.card
    }

    pub fn card_mut(&mut self) -> &mut Card {
        &mut self.card
    }

    pub fn clock(&self) -> &C {
        &self.clock
    }

    fn serve(&mut self, request: CardRequest<'_>) -> Result<(), BlockDevError> {
        let arrival_ns = self.clock.now_ns() + self.card_ahead_ns - self.clock_ahead_ns;
        let done_ns = self.card.submit(arrival_ns, request)?;
        self.clock.sleep_ns(done_ns - arrival_ns);
        Ok(())
    }
}

impl<C: Clock> BlockDev for InProcessCard<C> {
    fn describe(&self) -> BlockDevInfo {
        self.card.description()
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        self.serve(CardRequest::Read { offset, buffer })
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        self.serve(CardRequest::Write { offset, data })
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        self.serve(CardRequest::Flush)
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        self.serve(CardRequest::Discard { offset, length })
    }
}

#[cfg(test)]
mod tests {
    use flashfit_device::VirtualClock;

    use super::*;
    use crate::model::tests::{SMALL, parse, small_with};

    #[test]
    fn the_clock_advances_by_the_busy_time_of_the_card() {
        let card = Card::new(&parse(SMALL).unwrap());
        let mut device = InProcessCard::new(card, VirtualClock::default());
        device.write(0, &[1; 4096]).unwrap();
        device.read(0, &mut [0; 512]).unwrap();
        device.flush().unwrap();
        device.discard(0, 4096).unwrap();
        assert!(device.read(1, &mut [0; 512]).is_err());
        assert_eq!(device.clock().now_ns(), device.card().counters().busy_ns);
        assert!(device.clock().now_ns() > 0);
    }

    #[test]
    fn time_between_requests_is_idle_time() {
        let sections = "[cache]\nbytes = \"8KiB\"\n[background]\nafter_ns = 1000\n[discard]";
        let mut card = Card::new(&small_with(&[("[discard]", sections)]).unwrap());
        card.serve(CardRequest::Flush).unwrap();
        let clock = VirtualClock::default();
        clock.sleep_ns(5);
        let mut device = InProcessCard::new(card, clock.clone());
        device.write(0, &[1; 4096]).unwrap();
        clock.sleep_ns(5000);
        device.flush().unwrap();
        let counters = device.card().counters();
        assert_eq!((counters.background_ns, counters.nand_programmed_bytes), (700, 4096));
        assert_eq!(device.clock().now_ns(), 5 + 10 + 4096 + 5000 + 10);
    }
}
