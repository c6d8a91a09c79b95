//! Power cuts: what they leave of a card.
//!
//! A power cut happens at some moment of the card's time. Unflushed data may be lost as far as the
//! cache order allows, and requests in progress may be torn; that is what correct devices do
//! (`honest`). Faults of `device` are added if they are enabled. Every class draws from its own
//! random stream, so enabling one does not change the others.
//!
//! Undoing a write changes the bytes of the physical page; the mapping, wear and counters stay.
//! Limits: no second power cut during startup; discards in progress are complete.

mod class;
mod device;
mod honest;
pub(crate) mod journal;
mod report;
#[cfg(test)]
mod tests;

use flashfit_device::BlockDevError;
use flashfit_device::random::Random;

pub use class::{EnabledFault, FaultClass, FaultError};
pub use report::{AbsentFault, CutReport, Damage, DamageUnit};

use crate::card::{Card, Power, broken};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CutMoment {
    /// After the completion of all requests so far.
    #[default]
    Now,
    /// At this time of the card, in nanoseconds; requests that complete later are in progress.
    At(u64),
    /// At a random time within the last request.
    DuringLast,
}

/// Parameters of a power cut.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CutOptions {
    /// Seed of all random choices.
    pub seed: u64,
    pub moment: CutMoment,
    /// Faults beyond the behavior of a correct device, and non-default values of honest classes.
    pub faults: Vec<EnabledFault>,
}

impl CutOptions {
    /// A power cut of a correct device after the completion of all requests so far.
    pub fn honest(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    #[must_use]
    pub fn at(self, moment: CutMoment) -> Self {
        Self { moment, ..self }
    }

    #[must_use]
    pub fn with(mut self, fault: EnabledFault) -> Self {
        self.faults.push(fault);
        self
    }

    fn fault(&self, class: FaultClass) -> Option<EnabledFault> {
        self.faults.iter().rev().find(|fault| fault.class == class).copied()
    }
}

/// A power cut in progress.
struct Cut<'a> {
    card: &'a mut Card,
    options: &'a CutOptions,
    report: CutReport,
    /// The physical pages that were being programmed.
    interrupted: Vec<u32>,
}

impl Cut<'_> {
    fn at_ns(&self) -> u64 {
        self.report.at_ns
    }

    /// The logical page in a physical page; `None` for erased pages and the layer's own.
    fn logical_page(&self, page: u32) -> Option<u32> {
        let logical_pages = self.card.model.capacity.0 / self.card.nand.page_bytes();
        let held = self.card.nand.logical_page(page);
        held.filter(|&logical_page| u64::from(logical_page) < logical_pages)
    }

    /// The random numbers of a class.
    fn random(&self, class: FaultClass) -> Random {
        stream(self.options.seed, class as u64 + 1)
    }
}

/// An independent random stream for one purpose.
fn stream(seed: u64, purpose: u64) -> Random {
    Random::new(Random::new(seed).next_u64() ^ Random::new(purpose).next_u64())
}

impl Card {
    /// Cuts the power. The card does not respond until [`Card::power_on`]; its contents can be read
    /// before with [`Card::peek`] and [`Card::write_image`]. Does nothing without power.
    pub fn power_cut(&mut self, options: &CutOptions) -> CutReport {
        let at_ns = self.moment(options);
        let mut report = CutReport::new(at_ns, options.seed);
        if self.power != Power::On {
            return report;
        }
        self.host.power_cuts += 1;
        self.nand.begin(self.done_ns);
        if self.nand.keeps_contents() {
            let mut cut = Cut { card: self, options, report, interrupted: Vec::new() };
            cut.honest();
            cut.device_faults();
            report = cut.report;
        } else if let Some(cache) = &mut self.cache {
            // A broken card cannot show which pages persist.
            cache.lose(&mut stream(options.seed, 0), Some(0));
        }
        // Program operations that survive the power cut are complete when power returns.
        self.done_ns = self.done_ns.max(self.nand.finished_ns());
        self.journal.clear();
        self.power = Power::Off;
        if options.fault(FaultClass::Brick).is_some() || report.count(FaultClass::Brick) > 0 {
            self.power = Power::Broken;
        }
        report
    }

    fn moment(&self, options: &CutOptions) -> u64 {
        match options.moment {
            CutMoment::Now => self.done_ns,
            CutMoment::At(at_ns) => at_ns,
            CutMoment::DuringLast => {
                let time_ns = self.last_end_ns.saturating_sub(self.last_begin_ns).max(1);
                self.last_begin_ns + stream(options.seed, 0).below(time_ns)
            }
        }
    }

    /// Restores the power.
    ///
    /// # Errors
    /// [`BlockDevError::Disconnected`] if a power cut has broken the card.
    pub fn power_on(&mut self) -> Result<(), BlockDevError> {
        if self.power == Power::Broken {
            return Err(broken());
        }
        self.power = Power::On;
        Ok(())
    }

    /// Keeps overwritten data for this long, in milliseconds of the card's time, so that a power
    /// cut can restore it ([`FaultClass::Rollback`]). Costs memory, not simulated time.
    pub fn record_history(&mut self, window_ms: u64) {
        self.journal.keep_for(window_ms.saturating_mul(1_000_000));
    }
}
