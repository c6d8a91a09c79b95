//! A card inside the process: each request lets its service time pass on a clock.
//!
//! With a virtual clock, a probe that takes minutes on a real card takes milliseconds.

use flashfit_medium::{BlockDev, BlockDevError, Clock, Description};

use crate::card::{Card, Request};

/// A card under a clock.
#[derive(Debug)]
pub struct InProcessCard<C> {
    card: Card,
    clock: C,
}

impl<C: Clock> InProcessCard<C> {
    /// Puts a card under a clock.
    pub fn new(card: Card, clock: C) -> Self {
        Self { card, clock }
    }

    /// The card, to read its counters.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// The card, to cut its power or reset its counters.
    pub fn card_mut(&mut self) -> &mut Card {
        &mut self.card
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    fn serve(&mut self, request: Request<'_>) -> Result<(), BlockDevError> {
        let service_ns = self.card.serve(request)?;
        self.clock.pass_ns(service_ns);
        Ok(())
    }
}

impl<C: Clock> BlockDev for InProcessCard<C> {
    fn describe(&self) -> Description {
        self.card.description()
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        self.serve(Request::Read { offset, buffer })
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        self.serve(Request::Write { offset, data })
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        self.serve(Request::Flush)
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        self.serve(Request::Discard { offset, length })
    }
}

#[cfg(test)]
mod tests {
    use flashfit_medium::VirtualClock;

    use super::*;
    use crate::model::tests::{SMALL, parse};

    #[test]
    fn the_clock_shows_what_the_card_was_busy() {
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
}
