//! What `flashfit crash cuts` shows while it runs.

use std::cell::Cell;
use std::time::{Duration, Instant};

use flashfit_crash::campaign::StateBatch;
use flashfit_crash::setup::CrashSetup;
use flashfit_device::MeasuredDevice;

use crate::output::note;
use crate::rendering::crash_states;

const INTERVAL: Duration = Duration::from_secs(30);

/// Where the power was cut.
#[derive(Debug)]
pub struct CutMachine {
    pub device: Option<MeasuredDevice>,
    pub kernel: Option<String>,
}

/// Counts power cuts.
pub struct CutProgress<'a> {
    setups: &'a [CrashSetup],
    count: Cell<u64>,
    noted: Cell<Instant>,
}

impl<'a> CutProgress<'a> {
    pub fn new(setups: &'a [CrashSetup]) -> Self {
        Self { setups, count: Cell::new(0), noted: Cell::new(Instant::now()) }
    }

    pub fn show(&self, batch: &StateBatch) {
        self.count.set(self.count.get() + 1);
        crash_states::broken(batch, self.setups).for_each(|line| note(&line));
        if self.noted.get().elapsed() >= INTERVAL {
            self.noted.set(Instant::now());
            note(&format!("{} power cuts", self.count.get()));
        }
    }
}
