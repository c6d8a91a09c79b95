//! Loss of power: what it leaves of a card.
//!
//! A cut happens at some moment of the card's time. What no flush confirmed may be lost as the
//! cache's order allows, and a request under way is there in part; that is what an honest device
//! does (`honest`). The faults of `device` come on top when they are switched on. Every class
//! draws its chances from a stream of its own, so that switching one on changes no other.
//!
//! What a cut undoes it undoes in the bytes of the page where the logical page lies: the mapping
//! itself stays as it is, and so do wear and counters. Limits: no second cut while the card starts
//! again; discards under way are done.

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

/// When the power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CutMoment {
    /// When everything asked so far is done.
    #[default]
    Now,
    /// At this time of the card, in nanoseconds; requests that are done later are under way.
    At(u64),
    /// At some time within the last request, by the seed.
    DuringLast,
}

/// How a cut is to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CutOptions {
    /// Where all its chances come from.
    pub seed: u64,
    /// When.
    pub moment: CutMoment,
    /// What happens beyond what an honest device does; and the values of that, where the usual
    /// ones are not meant.
    pub faults: Vec<EnabledFault>,
}

impl CutOptions {
    /// An honest cut when everything asked so far is done.
    pub fn honest(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// The same, at another moment.
    #[must_use]
    pub fn at(self, moment: CutMoment) -> Self {
        Self { moment, ..self }
    }

    /// The same, with a fault more.
    #[must_use]
    pub fn with(mut self, fault: EnabledFault) -> Self {
        self.faults.push(fault);
        self
    }

    fn fault(&self, class: FaultClass) -> Option<EnabledFault> {
        self.faults.iter().rev().find(|fault| fault.class == class).copied()
    }
}

/// A cut that is being done.
struct Cut<'a> {
    card: &'a mut Card,
    options: &'a CutOptions,
    report: CutReport,
    /// The pages of the NAND that were being programmed.
    interrupted: Vec<u32>,
}

impl Cut<'_> {
    fn at_ns(&self) -> u64 {
        self.report.at_ns
    }

    /// The logical page that a page of the NAND holds; `None` for erased ones and the layer's own.
    fn logical_page(&self, page: u32) -> Option<u32> {
        let logical_pages = self.card.model.capacity.0 / self.card.nand.page_bytes();
        let held = self.card.nand.logical_page(page);
        held.filter(|&logical_page| u64::from(logical_page) < logical_pages)
    }

    /// The chances of a class.
    fn random(&self, class: FaultClass) -> Random {
        stream(self.options.seed, class as u64 + 1)
    }
}

/// The random numbers of one purpose of a cut.
fn stream(seed: u64, purpose: u64) -> Random {
    Random::new(Random::new(seed).next_u64() ^ Random::new(purpose).next_u64())
}

impl Card {
    /// Takes the power away. The card answers nothing until [`Card::power_on`]; what it holds then
    /// can be looked at before ([`Card::peek`], [`Card::write_image`]). Does nothing to a card that
    /// has no power.
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
            // Which pages are there changes nothing that such a card can tell.
            cache.lose(&mut stream(options.seed, 0), Some(0));
        }
        // What a cut lets the dies finish is done when the power comes back.
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

    /// Gives the power back.
    ///
    /// # Errors
    /// [`BlockDevError::Disconnected`] from a card that a cut has broken.
    pub fn power_on(&mut self) -> Result<(), BlockDevError> {
        if self.power == Power::Broken {
            return Err(broken());
        }
        self.power = Power::On;
        Ok(())
    }

    /// Keeps what is written over for so long, in milliseconds of the card's time, so that a cut
    /// can bring it back ([`FaultClass::Rollback`]). Costs memory, never time.
    pub fn record_history(&mut self, window_ms: u64) {
        self.journal.keep_for(window_ms.saturating_mul(1_000_000));
    }
}
